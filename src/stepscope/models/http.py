"""One HTTP exchange with a provider, alone or through an official SDK.

Bounded in size and time, redirects not followed, raw bytes kept. Refuses to send a key to another
host than its provider's, and any host but this machine where `--offline` holds.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import sys
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx2
import msgspec

from stepscope.errors import ConfigError, EnvironmentFault, ModelError
from stepscope.model import Endpoint, Reply, Request, Structure
from stepscope.models import retry
from stepscope.models.dialect import Dialect
from stepscope.safety.limits import MIB
from stepscope.safety.offline import is_loopback
from stepscope.safety.text import visible_line

# One reply after unpacking; a verdict with its rationale is some kilobytes.
REPLY_BYTES = 4 * MIB
# Sent at once to one provider, and kept open for the next.
CONNECTIONS = 256
_KEEP_SECONDS = 30.0
# The call as a whole is bounded by who makes it; these end what nobody bounds.
_TIMES = httpx2.Timeout(connect=10.0, read=600.0, write=60.0, pool=None)
_GZIP = {"gzip", "x-gzip", "deflate"}
_EITHER = zlib.MAX_WBITS | 32  # gzip or zlib, told from its first bytes


class CappedClient(httpx2.AsyncClient):
    """A client that reads every reply itself, up to `REPLY_BYTES`."""

    async def send(self, request: httpx2.Request, **_given: Any) -> httpx2.Response:
        """Return the whole reply, unpacked, not redirected; `ModelError` for one over the cap."""
        try:
            return await self._send(request)
        except _aiohttp_faults() as e:
            # Its bridge hands some of what is no HTTP through as aiohttp's own errors.
            raise httpx2.RemoteProtocolError(visible_line(str(e)), request=request) from e

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        reply = await super().send(request, stream=True, auth=None, follow_redirects=False)
        try:
            packing = reply.headers.pop("content-encoding", "identity").strip().lower()
            body = bytearray()
            async for chunk in reply.aiter_raw():
                body += chunk
                if len(body) > REPLY_BYTES:
                    raise _too_large(reply.status_code)
        finally:
            await reply.aclose()
        content = bytes(body)
        if packing != "identity":
            content = decompress_body(content, packing, reply.status_code)
        status, headers = reply.status_code, reply.headers
        return httpx2.Response(status, headers=headers, content=content, request=request)


def _aiohttp_faults() -> tuple[type[Exception], ...]:
    """Return what aiohttp raises of a connection or a reply; nothing where it is not loaded."""
    loaded = sys.modules.get("aiohttp")
    if loaded is None:
        return ()
    return loaded.ClientError, loaded.http_exceptions.HttpProcessingError


def capped_client(base: type[httpx2.AsyncClient] | None, *, loopback: bool) -> httpx2.AsyncClient:
    """Return a capped client over `base`, the SDK's over aiohttp, at half the time of a call.

    One for `loopback` asks this machine itself, never a proxy.
    """
    over = (CappedClient,) if base is None else (CappedClient, base)
    made: type[httpx2.AsyncClient] = type("CappedClient", over, {})
    return made(
        verify=_certificates(),
        timeout=_TIMES,
        limits=httpx2.Limits(
            max_connections=CONNECTIONS,
            max_keepalive_connections=CONNECTIONS,
            keepalive_expiry=_KEEP_SECONDS,
        ),
        headers={"accept-encoding": "gzip"},
        follow_redirects=False,
        trust_env=not loopback,
    )


@cache
def _certificates() -> ssl.SSLContext:
    """Return what servers are checked against; reading it takes as long as ten calls."""
    return httpx2.create_ssl_context()


def decompress_body(body: bytes, packing: str, status: int) -> bytes:
    """Return what a packed body holds, never unpacking more than the cap of it.

    `ModelError` where it is over the cap, ends too early, or is packed as nobody asked for.
    """
    if packing not in _GZIP:
        said = f"the reply is packed as {packing[:20]!r}, which was not asked for"
        raise ModelError(said, again=False)
    unpacking = zlib.decompressobj(_EITHER)
    try:
        found = unpacking.decompress(body, REPLY_BYTES + 1)
    except zlib.error as e:
        raise ModelError("the reply does not unpack", again=True, status=status) from e
    if len(found) > REPLY_BYTES:
        raise _too_large(status)
    if not unpacking.eof:
        raise ModelError("the reply ends too early", again=True, status=status)
    return found


def _too_large(status: int) -> ModelError:
    said = f"the reply is over {REPLY_BYTES // MIB} MiB; no judge says so much"
    return ModelError(said, again=False, status=status)


# Headers that are kept: limits, ids, times. Everything else may hold a cookie or a key.
_KEPT = re.compile(
    r"(?:x-|anthropic-)?ratelimit-.+|x-ratelimit.*|retry-after(?:-ms)?|x-should-retry|date|server"
    r"|(?:x-)?request-id|openai-processing-ms|openai-version|content-type|cf-ray"
)


class SdkClient(Protocol):
    """What is used of an SDK's client."""

    async def post(
        self, path: str, *, cast_to: type[httpx2.Response], content: bytes
    ) -> httpx2.Response:
        """Send bytes with the credentials of the client."""

    async def close(self) -> None:
        """Close its connections."""


def http_client(endpoint: Endpoint, base: type[httpx2.AsyncClient]) -> httpx2.AsyncClient:
    """Return what an SDK sends with: `base`, its client over aiohttp, where that is installed."""
    over = None if find_spec("aiohttp") is None else base
    return capped_client(over, loopback=is_loopback(urlsplit(endpoint.base_url).hostname))


def check_environment_headers(endpoint: Endpoint, variable: str) -> None:
    """Raise `ConfigError` where an SDK would send headers of the environment to another host."""
    if os.environ.get(variable) and not endpoint.own:
        where = f"judge {endpoint.name!r} is at {endpoint.base_url}"
        raise ConfigError(f"{where}, where the headers in {variable} do not belong; unset it")


@dataclass(eq=False)
class SdkModel:
    """One model; its connections belong to the event loop that asks, and are closed by `close`."""

    endpoint: Endpoint
    dialect: Dialect
    opens: Callable[[], SdkClient]
    # What the SDK raises: of a reply with a status that is none of success, of no reply.
    status_error: type[Exception]
    connection_error: type[Exception]
    _at: int = 0
    _client: SdkClient | None = None
    _loop: asyncio.AbstractEventLoop | None = None

    @property
    def name(self) -> str:
        """Provider, slash, model."""
        return self.endpoint.name

    @property
    def structure(self) -> Structure:
        """How structured output is asked for, as far as is known."""
        return self.endpoint.structure or self.dialect.structures[self._at]

    async def complete(self, request: Request) -> Reply:
        """Ask once; the `ModelError` where no answer came says whether asking again may help."""
        structure = self.structure
        asked = self.dialect.parameters(self.endpoint, request, structure)
        began = time.monotonic()
        came = await self._post(msgspec.json.encode(asked))
        seconds = time.monotonic() - began
        # Some servers repeat the key.
        body, key = came.content, self.endpoint.key.encode()
        body = body.replace(key, b"***") if key else body
        if came.status_code < 300:
            read = self.dialect.read(self.endpoint, body, structure)
        elif retry.read_error_body(body)[1] in retry.FILTERED:
            read = Reply(text="", stop="filter", structure=structure)
        else:
            raise self.refused(came.status_code, came.headers, body, structure)
        return msgspec.structs.replace(
            read,
            request_id=came.headers.get(self.dialect.request_id, ""),
            seconds=seconds,
            raw=body,
            headers={name: value for name, value in came.headers.items() if _KEPT.fullmatch(name)},
        )

    async def close(self) -> None:
        """Close the connections; the next question opens others."""
        if self._client is not None:
            await self._client.close()
        self._client = self._loop = None

    async def _post(self, body: bytes) -> httpx2.Response:
        path = self.dialect.path
        try:
            return await self.opened().post(path, cast_to=httpx2.Response, content=body)
        except self.status_error as e:
            found = getattr(e, "response", None)
            assert isinstance(found, httpx2.Response)
            return found
        except (self.connection_error, httpx2.HTTPError) as e:
            if isinstance(e.__cause__, ModelError):  # one SDK wraps what its client raises
                raise self._named(e.__cause__) from e
            if isinstance(e.__cause__, EnvironmentFault):  # offline: nothing mends that
                raise e.__cause__ from e
            raise retry.connection_error(self.endpoint, e, reached=_reached(e)) from e
        except ModelError as e:
            raise self._named(e) from e

    def opened(self) -> SdkClient:
        """Return the client of the SDK for this event loop."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._client, self._loop = self.opens(), loop
        return self._client

    def refused(
        self, status: int, headers: Mapping[str, str], body: bytes, used: Structure
    ) -> ModelError:
        """Return the error of a refusal; the next question goes another way where that may help."""
        ways = self.dialect.structures
        asks_otherwise = not self.endpoint.structure and used != ways[-1]
        message, _ = retry.read_error_body(body)
        if asks_otherwise and retry.rejects_structure(used, status, message):
            # Others in flight may have found out already.
            self._at = max(self._at, ways.index(used) + 1)
            return retry.next_structure_error(self.endpoint, status, used, self.structure)
        return retry.status_error(self.endpoint, status, headers, body)

    def _named(self, error: ModelError) -> ModelError:
        return ModelError(
            f"{self.name}: {error}", again=error.again, after=error.after, status=error.status
        )


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
        unmade_names = ("ClientConnector", "ConnectionTimeout")
        return not any(name.startswith(unmade_names) for name in of_aiohttp)
    unmade = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
    return not any(isinstance(one, unmade) for one in chain)
