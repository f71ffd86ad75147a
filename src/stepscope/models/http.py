"""One HTTP exchange with a provider, alone or through an official SDK or its batches.

Bounded in size and time, redirects not followed, raw bytes kept. Refuses to send a key to another
host than its provider's, and any host but this machine where `--offline` holds.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

import httpx2
import msgspec

from stepscope.errors import ConfigError, EnvironmentFault, ModelError
from stepscope.model import Endpoint, Reply, Request, Structure
from stepscope.models import retry
from stepscope.models.batches import BatchItem
from stepscope.models.dialect import Chat, Dialect, ParsedReply, make_chat
from stepscope.safety.limits import MIB
from stepscope.safety.offline import is_loopback

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
        """Return the whole reply, unpacked; what the SDK asks about redirects is not heeded.

        Raises:
            ModelError: the reply is over the cap, or packed as nobody asked for.
            httpx2.TransportError: the connection broke.
        """
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
        return httpx2.Response(
            reply.status_code, headers=reply.headers, content=content, request=request
        )


def capped_client(base: type[httpx2.AsyncClient] | None, *, loopback: bool) -> httpx2.AsyncClient:
    """Return a capped client.

    Args:
        base: the SDK's client over aiohttp, which costs half the time of a call; None without it.
        loopback: asks this machine itself, never a proxy.
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

    Raises:
        ModelError: it is over the cap, ends too early, or is packed as nobody asked for.
    """
    if packing not in _GZIP:
        raise ModelError(
            f"the reply is packed as {packing[:20]!r}, which was not asked for", again=False
        )
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
    return ModelError(
        f"the reply is over {REPLY_BYTES // MIB} MiB; no judge says so much",
        again=False,
        status=status,
    )


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


class SdkErrors(NamedTuple):
    """The errors of an SDK: of a reply with a status that is none of success, of no reply."""

    status: type[Exception]
    connection: type[Exception]


class _HttpReply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float


def http_client(endpoint: Endpoint, base: type[httpx2.AsyncClient]) -> httpx2.AsyncClient:
    """Return what an SDK sends with: `base`, its client over aiohttp, where that is installed."""
    over = None if find_spec("aiohttp") is None else base
    return capped_client(over, loopback=is_loopback(urlsplit(endpoint.base_url).hostname))


def check_environment_headers(endpoint: Endpoint, variable: str) -> None:
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
        self, endpoint: Endpoint, dialect: Dialect, opens: Callable[[], SdkClient], words: SdkErrors
    ) -> None:
        self.endpoint = endpoint
        self.dialect = dialect
        self._opens = opens
        self.words = words
        self._structures = (endpoint.structure,) if endpoint.structure else dialect.structures
        self._at = 0
        self._client: SdkClient | None = None
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
        """Ask a judge's request once; see `reply`. Raises ModelError."""
        return await self.reply(make_chat(request))

    async def reply(self, chat: Chat) -> Reply:
        """Ask once; what is raised says whether asking again may help.

        Raises:
            ModelError: no answer came.
        """
        structure = self.structure
        asked = self.dialect.parameters(self.endpoint, chat, structure)
        came = await self._post(msgspec.json.encode(asked))
        if came.status >= 300:
            if retry.read_error_body(came.body).code in retry.FILTERED:
                return self._reply(ParsedReply("", "filter", None, ""), came, structure)
            raise self.refused(came.status, came.headers, came.body, structure)
        read = self.dialect.read(self.endpoint, came.body, structure)
        return self._reply(read, came, structure)

    async def close(self) -> None:
        """Close the connections; the next question opens others."""
        if self._client is not None:
            await self._client.close()
        self._client = self._loop = None

    async def _post(self, body: bytes) -> _HttpReply:
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
            raise retry.connection_error(self.endpoint, e, reached=_reached(e)) from e
        except httpx2.HTTPError as e:
            raise retry.connection_error(self.endpoint, e, reached=_reached(e)) from e
        except ModelError as e:
            raise self._named(e) from e
        seconds = time.monotonic() - began
        return _HttpReply(
            reply.status_code, reply.headers, self._without_key(reply.content), seconds
        )

    def opened(self) -> SdkClient:
        """Return the client of the SDK for this event loop."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._client, self._loop = self._opens(), loop
        return self._client

    def refused(
        self, status: int, headers: Mapping[str, str], body: bytes, used: Structure
    ) -> ModelError:
        """Return the error of a refusal; the next question goes another way where that may help."""
        if retry.rejects_structure(used, status, retry.read_error_body(body).message):
            place = self._structures.index(used)
            if place + 1 < len(self._structures):
                # Others in flight may have found out already.
                self._at = max(self._at, place + 1)
                return retry.next_structure_error(self.endpoint, status, used, self.structure)
        return retry.status_error(self.endpoint, status, headers, body)

    def _reply(self, read: ParsedReply, came: _HttpReply, structure: Structure) -> Reply:
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


T = TypeVar("T")
# Results are read for as long as they come; a pause this long ends it.
_BATCH_TIMES = httpx2.Timeout(60.0, pool=None)


class StreamedReply(Protocol):
    """What is used of an SDK's reply that is read as a stream."""

    def iter_bytes(self) -> AsyncIterator[bytes]:
        """Yield the body."""


def streaming_client(model: SdkModel) -> httpx2.AsyncClient:
    """Return a client for results: like that of single replies, but without their cap."""
    loopback = is_loopback(urlsplit(model.endpoint.base_url).hostname)
    return httpx2.AsyncClient(timeout=_BATCH_TIMES, follow_redirects=False, trust_env=not loopback)


async def decode_batch_reply(model: SdkModel, call: Awaitable[httpx2.Response], form: type[T]) -> T:
    """Return what a provider says of batches.

    Raises:
        ModelError: nothing usable came.
    """
    reply = await call_sdk(model, call)
    try:
        return msgspec.json.decode(reply.content, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise retry.invalid_reply_error(
            model.endpoint, f"no word of batches ({e})", again=True
        ) from e


async def call_sdk(model: SdkModel, call: Awaitable[T]) -> T:
    """Return what an SDK's call returns, its errors as ours.

    Raises:
        ModelError: the provider refused, or cannot be reached.
    """
    try:
        return await call
    except model.words.status as e:
        reply: Any = getattr(e, "response", None)  # every SDK's error of a status has one
        raise retry.status_error(
            model.endpoint, reply.status_code, reply.headers, await _body(reply)
        ) from e
    except (model.words.connection, httpx2.HTTPError) as e:
        raise retry.connection_error(model.endpoint, e, reached=True) from e


async def _body(reply: httpx2.Response) -> bytes:
    return reply.content if reply.is_closed else await reply.aread()


async def stream_lines(
    model: SdkModel, streamed: AbstractAsyncContextManager[StreamedReply]
) -> AsyncIterator[bytes]:
    """Yield the lines of a stream, without those that are longer than a reply may be.

    Raises:
        ModelError: the stream broke; what was yielded stands.
    """
    reply = await call_sdk(model, streamed.__aenter__())
    try:
        held = bytearray()
        skipping = False
        chunks = aiter(reply.iter_bytes())
        while (chunk := await call_sdk(model, anext(chunks, None))) is not None:
            *ended, rest = chunk.split(b"\n")
            for part in ended:
                held += part
                if held and not skipping and len(held) <= REPLY_BYTES:
                    yield bytes(held)
                held.clear()
                skipping = False
            held += rest
            if len(held) > REPLY_BYTES:
                held.clear()
                skipping = True
        if held and not skipping:
            yield bytes(held)
    finally:
        await streamed.__aexit__(None, None, None)


def answered_item(
    model: SdkModel, key: str, body: bytes, *, structure: Structure, request_id: str = ""
) -> BatchItem:
    """Return what came of an ask that was answered."""
    try:
        read = model.dialect.read(model.endpoint, body, structure)
    except ModelError as e:
        return BatchItem(key, None, str(e), e.again)
    reply = Reply(
        text=read.text,
        stop=read.stop,
        structure=structure,
        usage=read.usage,
        model=read.model,
        request_id=request_id,
        raw=body,
    )
    return BatchItem(key, reply)


def refused_item(
    model: SdkModel, key: str, body: bytes, *, status: int, structure: Structure
) -> BatchItem:
    """Return what came of an ask that the provider refused."""
    error = model.refused(status, {}, body, structure)
    return BatchItem(key, None, str(error), error.again)
