"""What both kinds of batches share on the wire: small replies decoded, large ones read by lines.

Results are as large as their batch, so that they are read as a stream, one line at a time, each up
to the cap of a reply. Only line feeds end lines: a model may write any other separator.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

import httpx2
import msgspec

from stepscope.errors import ModelError
from stepscope.judges.models import faults
from stepscope.judges.models.batches import Item
from stepscope.judges.models.http import REPLY_BYTES
from stepscope.judges.models.sdk import SdkModel
from stepscope.model import Reply, Structure
from stepscope.safety.offline import is_loopback

T = TypeVar("T")
# Results are read for as long as they come; a pause this long ends it.
_TIMES = httpx2.Timeout(60.0, pool=None)


class Streamed(Protocol):
    """What is used of an SDK's reply that is read as a stream."""

    def iter_bytes(self) -> AsyncIterator[bytes]:
        """Yield the body."""


def streaming(model: SdkModel) -> httpx2.AsyncClient:
    """Return a client for results: like that of single replies, but without their cap."""
    loopback = is_loopback(urlsplit(model.endpoint.base_url).hostname)
    return httpx2.AsyncClient(timeout=_TIMES, follow_redirects=False, trust_env=not loopback)


async def told(model: SdkModel, call: Awaitable[httpx2.Response], form: type[T]) -> T:
    """Return what a provider says of batches.

    Raises:
        ModelError: nothing usable came.
    """
    reply = await asked(model, call)
    try:
        return msgspec.json.decode(reply.content, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise faults.unusable(model.endpoint, f"no word of batches ({e})", again=True) from e


async def asked(model: SdkModel, call: Awaitable[T]) -> T:
    """Return what an SDK's call returns, its errors as ours.

    Raises:
        ModelError: the provider refused, or cannot be reached.
    """
    try:
        return await call
    except model.words.status as e:
        reply: Any = getattr(e, "response", None)  # every SDK's error of a status has one
        raise faults.refused(
            model.endpoint, reply.status_code, reply.headers, await _body(reply)
        ) from e
    except (model.words.connection, httpx2.HTTPError) as e:
        raise faults.broken(model.endpoint, e, reached=True) from e


async def _body(reply: httpx2.Response) -> bytes:
    return reply.content if reply.is_closed else await reply.aread()


async def lines(
    model: SdkModel, streamed: AbstractAsyncContextManager[Streamed]
) -> AsyncIterator[bytes]:
    """Yield the lines of a stream, without those that are longer than a reply may be.

    Raises:
        ModelError: the stream broke; what was yielded stands.
    """
    reply = await asked(model, streamed.__aenter__())
    try:
        held = bytearray()
        skipping = False
        chunks = aiter(reply.iter_bytes())
        while (chunk := await asked(model, anext(chunks, None))) is not None:
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


def item(
    model: SdkModel, key: str, body: bytes, *, structure: Structure, request_id: str = ""
) -> Item:
    """Return what came of an ask that was answered."""
    try:
        read = model.dialect.read(model.endpoint, body, structure)
    except ModelError as e:
        return Item(key, None, str(e), e.again)
    reply = Reply(
        text=read.text,
        stop=read.stop,
        structure=structure,
        usage=read.usage,
        model=read.model,
        request_id=request_id,
        raw=body,
    )
    return Item(key, reply)


def refusal(model: SdkModel, key: str, body: bytes, *, status: int, structure: Structure) -> Item:
    """Return what came of an ask that the provider refused."""
    error = model.refused(status, {}, body, structure)
    return Item(key, None, str(error), error.again)
