"""Batches of Anthropic's messages: one request with all questions, one stream of results.

A batch carries nothing of ours but the custom ids of its requests, and those are told only once it
has ended: one whose making was cut off is found by its size, its time, and its first result.
Source: anthropic 2.12, types/messages/message_batch.py; at most 100,000 requests and 256 MB.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any

import anthropic
import httpx2
import msgspec

from stepscope.model import Structure
from stepscope.models import http as wire
from stepscope.models import retry
from stepscope.models.batches import (
    CLOCKS_SECONDS,
    BatchItem,
    BatchLookup,
    BatchState,
    IntendedBatch,
)
from stepscope.models.dialect import Ask, make_chat
from stepscope.models.http import SdkModel

_PATH = "/v1/messages/batches"
_PAGE = "100"
_WITHOUT = {
    "expired": "the batch ran out of time before it was asked",
    "canceled": "the batch was cancelled before it was asked",
}
# A provider's error that stands in a result; any other is its own fault, and may pass.
_STATUSES = {"invalid_request_error": 400, "not_found_error": 404, "request_too_large": 413}


class _Counts(msgspec.Struct, frozen=True):
    processing: int = 0
    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0

    @property
    def ended(self) -> int:
        return self.succeeded + self.errored + self.canceled + self.expired


class _Batch(msgspec.Struct, frozen=True):
    id: str
    processing_status: str
    created_at: datetime
    request_counts: _Counts = _Counts()


class _Page(msgspec.Struct, frozen=True):
    data: list[_Batch]
    has_more: bool = False


class _Result(msgspec.Struct, frozen=True):
    type: str
    message: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


class _Line(msgspec.Struct, frozen=True):
    custom_id: str
    result: _Result


_line = msgspec.json.Decoder(_Line)


class AnthropicBatches:
    """The batches of one judge at Anthropic."""

    most = 100_000

    def __init__(self, model: SdkModel) -> None:
        """Make batches of questions to this model."""
        self._model = model

    @property
    def name(self) -> str:
        """The judge's name."""
        return self._model.name

    @property
    def structure(self) -> Structure:
        """How structured output is asked for in the next batch."""
        return self._model.structure

    def line(self, ask: Ask, structure: Structure) -> bytes:
        """Return what one ask adds to the request."""
        model = self._model
        asked = model.dialect.parameters(model.endpoint, make_chat(ask.request), structure)
        return msgspec.json.encode({"custom_id": ask.key, "params": asked})

    async def submit(self, intended: IntendedBatch, lines: Sequence[bytes]) -> str:
        """Make the batch; return its name.

        Raises:
            ModelError: it was not made, or nobody knows.
        """
        content = b'{"requests":[' + b",".join(lines) + b"]}"
        call = self._client().post(_PATH, cast_to=httpx2.Response, content=content)
        return (await wire.decode_batch_reply(self._model, call, _Batch)).id

    async def find(self, intended: IntendedBatch, known: frozenset[str]) -> BatchLookup:
        """Look for a batch as large and as old, whose results are those of the keys.

        Raises:
            ModelError: nobody knows.
        """
        wait = False
        async for batch in self._since(intended.since - CLOCKS_SECONDS):
            counts = batch.request_counts
            if batch.id in known or counts.processing + counts.ended != len(intended.keys):
                continue
            if batch.processing_status != "ended":
                wait = True
            elif await self._is_of(batch.id, intended):
                return BatchLookup(batch.id)
        return BatchLookup("", wait)

    async def state(self, remote: str) -> BatchState:
        """Say how far a batch is.

        Raises:
            ModelError: nobody knows.
        """
        call = self._client().get(f"{_PATH}/{remote}", cast_to=httpx2.Response)
        batch = await wire.decode_batch_reply(self._model, call, _Batch)
        return BatchState(batch.processing_status == "ended")

    async def results(self, remote: str, structure: Structure) -> AsyncGenerator[BatchItem]:
        """Yield what came of its asks, in any order.

        Raises:
            ModelError: the results cannot be read to their end.
        """
        async with wire.streaming_client(self._model) as http:
            batches = self._client().with_options(http_client=http).messages.batches
            streamed = batches.with_streaming_response.results(remote)
            async for line in wire.stream_lines(self._model, streamed):
                try:
                    found = _line.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    continue
                yield self._item(found, structure)

    async def close(self) -> None:
        """Close the connections."""
        await self._model.close()

    def _item(self, found: _Line, structure: Structure) -> BatchItem:
        key, result = found.custom_id, found.result
        if result.type == "succeeded":
            return wire.answered_item(self._model, key, bytes(result.message), structure=structure)
        if result.type == "errored":
            body = bytes(result.error)
            # The status that the error would have had alone.
            status = _STATUSES.get(retry.read_error_body(body).code, 500)
            return wire.refused_item(self._model, key, body, status=status, structure=structure)
        why = _WITHOUT.get(result.type, "the batch says nothing of it")
        return BatchItem(key, None, f"{self.name}: {why}")

    async def _since(self, seconds: float) -> AsyncIterator[_Batch]:
        """Yield the batches made since then, newest first."""
        after: dict[str, Any] = {}
        while True:
            query = {"limit": _PAGE, **after}
            call = self._client().get(_PATH, cast_to=httpx2.Response, options={"params": query})
            page = await wire.decode_batch_reply(self._model, call, _Page)
            for batch in page.data:
                if batch.created_at.timestamp() < seconds:
                    return
                yield batch
            if not page.has_more or not page.data:
                return
            after = {"after_id": page.data[-1].id}

    async def _is_of(self, remote: str, intended: IntendedBatch) -> bool:
        """Whether the first result of a batch is that of one of the keys."""
        async with aclosing(self.results(remote, intended.structure)) as results:
            async for found in results:
                return found.key in intended.keys
        return False

    def _client(self) -> anthropic.AsyncAnthropic:
        client = self._model.opened()
        assert isinstance(client, anthropic.AsyncAnthropic)
        return client
