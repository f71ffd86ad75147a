"""A model behind an official SDK: one question, one HTTP exchange, everything kept that came.

The SDK brings the address, the credentials and the connections; its own retries are off, since
one loop decides about them for all (`patience`). An endpoint that does not take the way in which
structured output was asked for is asked in the next one from then on: the error that says so is
worth asking again at once.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

import httpx2
import msgspec

from stepscope.errors import ConfigError, EnvironmentFault, ModelError
from stepscope.judges.models import faults
from stepscope.judges.models.dialect import Dialect, Read
from stepscope.judges.models.http import client
from stepscope.model import Endpoint, Reply, Request, Structure
from stepscope.safety.offline import is_loopback

# Headers that are kept: limits, ids, times. Everything else may hold a cookie or a key.
_KEPT = re.compile(
    r"(?:x-|anthropic-)?ratelimit-.+|x-ratelimit.*|retry-after(?:-ms)?|x-should-retry|date|server"
    r"|(?:x-)?request-id|openai-processing-ms|openai-version|content-type|cf-ray"
)


class Sdk(Protocol):
    """What is used of an SDK's client."""

    async def post(
        self, path: str, *, cast_to: type[httpx2.Response], content: bytes
    ) -> httpx2.Response:
        """Send bytes with the credentials of the client."""

    async def close(self) -> None:
        """Close its connections."""


class Words(NamedTuple):
    """The errors of an SDK: of a reply with a status that is none of success, of no reply."""

    status: type[Exception]
    connection: type[Exception]


class _Came(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float


def http_client(endpoint: Endpoint, base: type[httpx2.AsyncClient]) -> httpx2.AsyncClient:
    """Return what an SDK sends with: `base`, its client over aiohttp, where that is installed."""
    over = None if find_spec("aiohttp") is None else base
    return client(over, loopback=is_loopback(urlsplit(endpoint.base_url).hostname))


def refuse_headers(endpoint: Endpoint, variable: str) -> None:
    """Check that headers of the environment, which an SDK sends everywhere, go to its provider.

    Raises:
        ConfigError: they would go to another host.
    """
    if os.environ.get(variable) and not endpoint.own:
        raise ConfigError(
            f"judge {endpoint.name!r} is at {endpoint.base_url}, where the headers in {variable} "
            "do not belong; unset it"
        )


class SdkModel:
    """One model; its connections belong to the event loop that asks, and are closed by `close`."""

    def __init__(
        self, endpoint: Endpoint, dialect: Dialect, opens: Callable[[], Sdk], words: Words
    ) -> None:
        self.endpoint = endpoint
        self.dialect = dialect
        self._opens = opens
        self.words = words
        self._structures = (endpoint.structure,) if endpoint.structure else dialect.structures
        self._at = 0
        self._client: Sdk | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def name(self) -> str:
        """Provider, slash, model."""
        return self.endpoint.name

    @property
    def structure(self) -> Structure:
        """How structured output is asked for, as far as is known."""
        return self._structures[self._at]

    async def complete(self, request: Request) -> Reply:
        """Ask once; what is raised says whether asking again may help.

        Raises:
            ModelError: no answer came.
        """
        structure = self.structure
        asked = self.dialect.parameters(self.endpoint, request, structure)
        came = await self._post(msgspec.json.encode(asked))
        if came.status >= 300:
            if faults.said(came.body).code in faults.FILTERED:
                return self._reply(Read("", "filter", None, ""), came, structure)
            raise self.refused(came.status, came.headers, came.body, structure)
        read = self.dialect.read(self.endpoint, came.body, structure)
        return self._reply(read, came, structure)

    async def close(self) -> None:
        """Close the connections; the next question opens others."""
        if self._client is not None:
            await self._client.close()
        self._client = self._loop = None

    async def _post(self, body: bytes) -> _Came:
        began = time.monotonic()
        try:
            reply = await self.opened().post(
                self.dialect.path, cast_to=httpx2.Response, content=body
            )
        except self.words.status as e:
            reply = _response(e)
        except self.words.connection as e:
            if isinstance(e.__cause__, ModelError):  # one SDK wraps what its client raises
                raise self._named(e.__cause__) from e
            if isinstance(e.__cause__, EnvironmentFault):  # offline: nothing mends that
                raise e.__cause__ from e
            raise faults.broken(self.endpoint, e, reached=_reached(e)) from e
        except httpx2.HTTPError as e:
            raise faults.broken(self.endpoint, e, reached=_reached(e)) from e
        except ModelError as e:
            raise self._named(e) from e
        seconds = time.monotonic() - began
        return _Came(reply.status_code, reply.headers, self._without_key(reply.content), seconds)

    def opened(self) -> Sdk:
        """Return the client of the SDK for this event loop."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._client, self._loop = self._opens(), loop
        return self._client

    def refused(
        self, status: int, headers: Mapping[str, str], body: bytes, used: Structure
    ) -> ModelError:
        """Return the error of a refusal; the next question goes another way where that may help."""
        if faults.rejects(used, status, faults.said(body).message):
            place = self._structures.index(used)
            if place + 1 < len(self._structures):
                # Others in flight may have found out already.
                self._at = max(self._at, place + 1)
                return faults.falls(self.endpoint, status, used, self.structure)
        return faults.refused(self.endpoint, status, headers, body)

    def _reply(self, read: Read, came: _Came, structure: Structure) -> Reply:
        return Reply(
            text=read.text,
            stop=read.stop,
            structure=structure,
            usage=read.usage,
            model=read.model,
            request_id=came.headers.get(self.dialect.request_id, ""),
            seconds=came.seconds,
            raw=came.body,
            headers={name: value for name, value in came.headers.items() if _KEPT.fullmatch(name)},
        )

    def _without_key(self, body: bytes) -> bytes:
        """Return a body that does not repeat the key, as some servers do."""
        key = self.endpoint.key.encode()
        return body.replace(key, b"***") if key and key in body else body

    def _named(self, error: ModelError) -> ModelError:
        return ModelError(
            f"{self.name}: {error}", again=error.again, after=error.after, status=error.status
        )


def _response(error: Exception) -> httpx2.Response:
    found = getattr(error, "response", None)
    assert isinstance(found, httpx2.Response)
    return found


def _reached(error: Exception) -> bool:
    """Whether a request can have been sent before its connection failed.

    The bridge from aiohttp to httpx2 calls every broken connection one that timed out while it was
    made, so that what aiohttp itself said decides.
    """
    chain: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in chain:
        chain.append(at)
        at = at.__cause__
    of_aiohttp = [type(one).__name__ for one in chain if type(one).__module__.startswith("aiohttp")]
    if of_aiohttp:
        return not any(
            name.startswith(("ClientConnector", "ConnectionTimeout")) for name in of_aiohttp
        )
    unmade = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
    return not any(isinstance(one, unmade) for one in chain)
