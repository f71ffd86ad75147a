"""Batches at OpenAI and Anthropic: how each is sent, found again, polled and read.

OpenAI takes a file of requests, makes a batch of that file, and gives a file of results and one of
errors; a batch carries our token as metadata, so that one whose making was cut off is found again.
Anthropic takes one request with all questions and gives one stream of results; a batch carries
nothing of ours but the custom ids of its requests, which are told only once it has ended: one whose
making was cut off is found by its size, its time, and its first result.
Source: openai 3.54, types/batch.py, at most 50,000 requests and 200 MB a file; anthropic 2.12,
types/messages/message_batch.py, at most 100,000 requests and 256 MB.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from datetime import datetime
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

import httpx2
import msgspec

from stepscope.errors import ModelError
from stepscope.model import Json, Structure
from stepscope.models import retry
from stepscope.models.batches import CLOCKS_SECONDS, Batch, BatchItem, BatchRefusedError
from stepscope.models.dialect import Ask
from stepscope.models.http import REPLY_BYTES, SdkModel
from stepscope.safety.offline import is_loopback

T = TypeVar("T")
# Results are read for as long as they come; a pause this long ends it.
_TIMES = httpx2.Timeout(60.0, pool=None)
_PAGE = "100"
_METADATA = "stepscope"
# States of OpenAI in which nothing more will come.
_ENDED = frozenset({"completed", "expired", "cancelled", "failed"})
# Results of Anthropic without an answer.
_WITHOUT = {
    "expired": "the batch ran out of time before it was asked",
    "canceled": "the batch was cancelled before it was asked",
}
# An error that stands in a result of Anthropic; any other is its own fault, and may pass.
_STATUSES = {"invalid_request_error": 400, "not_found_error": 404, "request_too_large": 413}


class _Batch(msgspec.Struct, frozen=True):
    id: str
    created_at: datetime | float = 0.0
    # Anthropic.
    processing_status: str = ""
    request_counts: dict[str, int] | None = None
    # OpenAI.
    status: str = ""
    metadata: dict[str, str] | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: dict[str, Json] | None = None


class _Page(msgspec.Struct, frozen=True):
    data: list[_Batch]
    has_more: bool = False


class _Outcome(msgspec.Struct, frozen=True):
    # Anthropic's result.
    type: str = ""
    message: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()
    # OpenAI's response.
    status_code: int = 0
    body: msgspec.Raw = msgspec.Raw()
    request_id: str | None = None


class _Line(msgspec.Struct, frozen=True):
    custom_id: str
    result: _Outcome | None = None
    response: _Outcome | None = None
    error: Json = None


_line = msgspec.json.Decoder(_Line)


class StreamedReply(Protocol):
    """What is used of an SDK's reply that is read as a stream."""

    def iter_bytes(self) -> AsyncIterator[bytes]:
        """Yield the body."""


class _SdkBatches:
    """The batches of one judge, through the SDK of its provider."""

    path: str

    def __init__(self, model: SdkModel) -> None:
        self._model = model
        self.name = model.name

    @property
    def structure(self) -> Structure:
        return self._model.structure

    async def close(self) -> None:
        await self._model.close()

    def _sdk(self) -> Any:
        return self._model.opened()

    def _parameters(self, ask: Ask, structure: Structure) -> dict[str, Json]:
        return self._model.dialect.parameters(self._model.endpoint, ask.request, structure)

    async def _batch(self, remote: str) -> _Batch:
        call = self._sdk().get(f"{self.path}/{remote}", cast_to=httpx2.Response)
        return await self._decode_batch(call)

    async def _make(self, content: bytes) -> str:
        call = self._sdk().post(self.path, cast_to=httpx2.Response, content=content)
        return (await self._decode_batch(call)).id

    async def _decode_batch(self, call: Awaitable[httpx2.Response]) -> _Batch:
        """Return a batch; what has no status is none, and would be waited for without end."""
        batch = await self._decode(call, _Batch)
        if not (batch.status or batch.processing_status):
            raise retry.invalid_reply_error(self._model.endpoint, "no batch: it has no status")
        return batch

    async def _pages(self, after: str) -> AsyncIterator[list[_Batch]]:
        """Yield the batches that there are, newest first; `after` names the word for the next."""
        query = {"limit": _PAGE}
        while True:
            call = self._sdk().get(self.path, cast_to=httpx2.Response, options={"params": query})
            page = await self._decode(call, _Page)
            yield page.data
            if not page.has_more or not page.data:
                return
            query = {"limit": _PAGE, after: page.data[-1].id}

    async def _decode(self, call: Awaitable[httpx2.Response], form: type[T]) -> T:
        reply = await self._call(call)
        try:
            return msgspec.json.decode(reply.content, type=form)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
            what = f"no word of batches ({e})"
            raise retry.invalid_reply_error(self._model.endpoint, what) from e

    async def _call(self, call: Awaitable[T]) -> T:
        """Return what an SDK's call returns, its errors as ours."""
        model = self._model
        try:
            return await call
        except model.status_error as e:
            reply: Any = getattr(e, "response", None)  # every SDK's error of a status has one
            body = reply.content if reply.is_closed else await reply.aread()
            raise retry.status_error(model.endpoint, reply.status_code, reply.headers, body) from e
        except (model.connection_error, httpx2.HTTPError) as e:
            raise retry.connection_error(model.endpoint, e, reached=True) from e

    def _streaming_client(self) -> httpx2.AsyncClient:
        """Return a client for results: like that of single replies, but without their cap."""
        loopback = is_loopback(urlsplit(self._model.endpoint.base_url).hostname)
        return httpx2.AsyncClient(timeout=_TIMES, follow_redirects=False, trust_env=not loopback)

    async def _lines(
        self, streamed: AbstractAsyncContextManager[StreamedReply]
    ) -> AsyncIterator[_Line]:
        """Yield the lines of a stream that are results, none longer than a reply may be."""
        reply = await self._call(streamed.__aenter__())
        try:
            held = bytearray()
            skipping = False
            chunks = aiter(reply.iter_bytes())
            while (chunk := await self._call(anext(chunks, None))) is not None:
                *ended, rest = chunk.split(b"\n")
                for part in ended:
                    held += part
                    if not skipping and (line := _read_line(held)) is not None:
                        yield line
                    held.clear()
                    skipping = False
                held += rest
                if len(held) > REPLY_BYTES:
                    held.clear()
                    skipping = True
            if not skipping and (line := _read_line(held)) is not None:
                yield line
        finally:
            await streamed.__aexit__(None, None, None)

    def _answered(
        self, key: str, body: bytes, structure: Structure, request_id: str = ""
    ) -> BatchItem:
        try:
            read = self._model.dialect.read(self._model.endpoint, body, structure)
        except ModelError as e:
            return BatchItem(key, None, str(e), e.again)
        return BatchItem(key, msgspec.structs.replace(read, request_id=request_id, raw=body))

    def _refused(self, key: str, body: bytes, status: int, structure: Structure) -> BatchItem:
        error = self._model.refused(status, {}, body, structure)
        return BatchItem(key, None, str(error), error.again)


class OpenAIBatches(_SdkBatches):
    """The batches of one judge at OpenAI."""

    most = 50_000
    path = "/batches"

    def line(self, ask: Ask, structure: Structure) -> bytes:
        """Return the line of an ask in the file of requests."""
        asked = {"custom_id": ask.key, "method": "POST", "url": f"/v1{self._model.dialect.path}"}
        return msgspec.json.encode({**asked, "body": self._parameters(ask, structure)})

    async def submit(self, batch: Batch, lines: Sequence[bytes]) -> str:
        """Send the file, then make the batch; return its name."""
        content = ("requests.jsonl", b"\n".join(lines) + b"\n", "application/jsonl")
        file = await self._call(self._sdk().files.create(file=content, purpose="batch"))
        asked = {
            "input_file_id": file.id,
            "endpoint": f"/v1{self._model.dialect.path}",
            "completion_window": "24h",
            "metadata": {_METADATA: batch.token},
        }
        return await self._make(msgspec.json.encode(asked))

    async def find(self, batch: Batch, known: frozenset[str]) -> str | None:
        """Return the name of the batch that carries the token, "" where there is none."""
        async for page in self._pages("after"):
            for one in page:
                if (one.metadata or {}).get(_METADATA) == batch.token:
                    return one.id
            if page and _seconds(page[-1]) < batch.since - CLOCKS_SECONDS:
                break
        return ""

    async def is_over(self, remote: str) -> bool:
        """Return whether a batch is over; `BatchRefusedError` where all of it is refused."""
        batch = await self._batch(remote)
        if batch.status == "failed":
            errors = (batch.errors or {}).get("data") or [None]
            why = retry.error_line(self._model.endpoint, _error_words(errors[0]))
            raise BatchRefusedError(why, again=True)
        return batch.status in _ENDED

    async def results(self, remote: str, structure: Structure) -> AsyncGenerator[BatchItem]:
        """Yield what came of its asks, in any order."""
        batch = await self._batch(remote)
        async with self._streaming_client() as http:
            files = self._sdk().with_options(http_client=http).files
            for name in filter(None, (batch.output_file_id, batch.error_file_id)):
                streamed = files.with_streaming_response.content(name)
                async for line in self._lines(streamed):
                    reply, key = line.response, line.custom_id
                    if reply is None:
                        why = retry.error_line(self._model.endpoint, _error_words(line.error))
                        yield BatchItem(key, None, f"{self.name}: {why}")
                    elif reply.status_code >= 300:
                        yield self._refused(key, bytes(reply.body), reply.status_code, structure)
                    elif reply.status_code:
                        told = reply.request_id or ""
                        yield self._answered(key, bytes(reply.body), structure, told)


class AnthropicBatches(_SdkBatches):
    """The batches of one judge at Anthropic."""

    most = 100_000
    path = "/v1/messages/batches"

    def line(self, ask: Ask, structure: Structure) -> bytes:
        """Return what one ask adds to the request."""
        asked = {"custom_id": ask.key, "params": self._parameters(ask, structure)}
        return msgspec.json.encode(asked)

    async def submit(self, batch: Batch, lines: Sequence[bytes]) -> str:
        """Make the batch; return its name."""
        return await self._make(b'{"requests":[' + b",".join(lines) + b"]}")

    async def find(self, batch: Batch, known: frozenset[str]) -> str | None:
        """Return the name of a batch as large and as old, whose results are those of the keys.

        It is not among those `known` to be others; "" where there is none, None while one that may
        be it is under way.
        """
        found: str | None = ""
        async for page in self._pages("after_id"):
            for one in page:
                if _seconds(one) < batch.since - CLOCKS_SECONDS:
                    return found
                asks = sum((one.request_counts or {}).values())
                if one.id in known or asks != len(batch.keys):
                    continue
                if one.processing_status != "ended":
                    found = None
                elif await self._is_of(one.id, batch):
                    return one.id
        return found

    async def is_over(self, remote: str) -> bool:
        """Return whether nothing more will come of a batch."""
        return (await self._batch(remote)).processing_status == "ended"

    async def results(self, remote: str, structure: Structure) -> AsyncGenerator[BatchItem]:
        """Yield what came of its asks, in any order."""
        async with self._streaming_client() as http:
            batches = self._sdk().with_options(http_client=http).messages.batches
            streamed = batches.with_streaming_response.results(remote)
            async for line in self._lines(streamed):
                result, key = line.result, line.custom_id
                if result is None:
                    continue
                if result.type == "succeeded":
                    yield self._answered(key, bytes(result.message), structure)
                elif result.type == "errored":
                    body = bytes(result.error)
                    # The status that the error would have had alone.
                    status = _STATUSES.get(retry.read_error_body(body)[1], 500)
                    yield self._refused(key, body, status, structure)
                else:
                    why = _WITHOUT.get(result.type, "the batch says nothing of it")
                    yield BatchItem(key, None, f"{self.name}: {why}")

    async def _is_of(self, remote: str, batch: Batch) -> bool:
        """Whether the first result of a batch is that of one of the keys."""
        async with aclosing(self.results(remote, batch.structure)) as results:
            async for found in results:
                return found.key in batch.keys
        return False


def _read_line(raw: bytearray) -> _Line | None:
    """Return a line of results; None for what is none."""
    if not raw or len(raw) > REPLY_BYTES:
        return None
    try:
        return _line.decode(bytes(raw))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _seconds(batch: _Batch) -> float:
    made = batch.created_at
    return made.timestamp() if isinstance(made, datetime) else made


def _error_words(error: Json) -> str:
    """Return the message of an error, else its code; "" where it says neither."""
    found = error if isinstance(error, dict) else {}
    return str(found.get("message") or found.get("code") or "")
