"""Batches of OpenAI: a file of requests, a batch of that file, a file of results and one of errors.

A batch carries our token as metadata, so that one whose making was cut off is found again.
Source: openai 3.54, types/batch.py; at most 50,000 requests and 200 MB a file.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import httpx2
import msgspec
import openai

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

_PATH = "/batches"
_PAGE = "100"
_METADATA = "stepscope"
# States in which nothing more will come.
_ENDED = frozenset({"completed", "expired", "cancelled", "failed"})


class _Error(msgspec.Struct, frozen=True):
    message: str | None = None
    code: str | None = None


class _Errors(msgspec.Struct, frozen=True):
    data: list[_Error] | None = None


class _Batch(msgspec.Struct, frozen=True):
    id: str
    status: str
    created_at: float = 0.0
    metadata: dict[str, str] | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: _Errors | None = None


class _Page(msgspec.Struct, frozen=True):
    data: list[_Batch]
    has_more: bool = False


class _Response(msgspec.Struct, frozen=True):
    status_code: int
    body: msgspec.Raw
    request_id: str | None = None


class _Line(msgspec.Struct, frozen=True):
    custom_id: str
    response: _Response | None = None
    error: _Error | None = None


_line = msgspec.json.Decoder(_Line)


class OpenAIBatches:
    """The batches of one judge at OpenAI."""

    most = 50_000

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
        """Return the line of an ask in the file of requests."""
        model = self._model
        return msgspec.json.encode(
            {
                "custom_id": ask.key,
                "method": "POST",
                "url": self._endpoint,
                "body": model.dialect.parameters(model.endpoint, make_chat(ask.request), structure),
            }
        )

    async def submit(self, intended: IntendedBatch, lines: Sequence[bytes]) -> str:
        """Send the file, then make the batch; return its name.

        Raises:
            ModelError: it was not made, or nobody knows.
        """
        client = self._client()
        content = ("requests.jsonl", b"\n".join(lines) + b"\n", "application/jsonl")
        file = await wire.call_sdk(self._model, client.files.create(file=content, purpose="batch"))
        asked = {
            "input_file_id": file.id,
            "endpoint": self._endpoint,
            "completion_window": "24h",
            "metadata": {_METADATA: intended.token},
        }
        call = client.post(_PATH, cast_to=httpx2.Response, content=msgspec.json.encode(asked))
        return (await wire.decode_batch_reply(self._model, call, _Batch)).id

    async def find(self, intended: IntendedBatch, known: frozenset[str]) -> BatchLookup:
        """Look for the batch that carries the token.

        Raises:
            ModelError: nobody knows.
        """
        after: dict[str, Any] = {}
        while True:
            query = {"limit": _PAGE, **after}
            call = self._client().get(_PATH, cast_to=httpx2.Response, options={"params": query})
            page = await wire.decode_batch_reply(self._model, call, _Page)
            for batch in page.data:
                if (batch.metadata or {}).get(_METADATA) == intended.token:
                    return BatchLookup(batch.id)
            if not page.has_more or page.data[-1].created_at < intended.since - CLOCKS_SECONDS:
                return BatchLookup("")
            after = {"after": page.data[-1].id}

    async def state(self, remote: str) -> BatchState:
        """Say how far a batch is.

        Raises:
            ModelError: nobody knows.
        """
        batch = await self._batch(remote)
        why = ""
        if batch.status == "failed":
            errors = (batch.errors or _Errors()).data or [_Error()]
            said = errors[0].message or errors[0].code or "no reason given"
            why = retry.error_line(self._model.endpoint, said)
        return BatchState(batch.status in _ENDED, why)

    async def results(self, remote: str, structure: Structure) -> AsyncGenerator[BatchItem]:
        """Yield what came of its asks, in any order.

        Raises:
            ModelError: the files cannot be read to their end.
        """
        batch = await self._batch(remote)
        async with wire.streaming_client(self._model) as http:
            files = self._client().with_options(http_client=http).files
            for name in filter(None, (batch.output_file_id, batch.error_file_id)):
                streamed = files.with_streaming_response.content(name)
                async for line in wire.stream_lines(self._model, streamed):
                    found = self._item(line, structure)
                    if found is not None:
                        yield found

    async def close(self) -> None:
        """Close the connections."""
        await self._model.close()

    def _item(self, line: bytes, structure: Structure) -> BatchItem | None:
        """Return what a line says; None where it is none of a result."""
        try:
            found = _line.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        reply = found.response
        if reply is None:
            said = found.error or _Error()
            why = retry.error_line(self._model.endpoint, said.message or said.code or "")
            return BatchItem(found.custom_id, None, f"{self.name}: {why}")
        body = bytes(reply.body)
        if reply.status_code >= 300:
            return wire.refused_item(
                self._model, found.custom_id, body, status=reply.status_code, structure=structure
            )
        return wire.answered_item(
            self._model,
            found.custom_id,
            body,
            structure=structure,
            request_id=reply.request_id or "",
        )

    async def _batch(self, remote: str) -> _Batch:
        call = self._client().get(f"{_PATH}/{remote}", cast_to=httpx2.Response)
        return await wire.decode_batch_reply(self._model, call, _Batch)

    @property
    def _endpoint(self) -> str:
        return f"/v1{self._model.dialect.path}"

    def _client(self) -> openai.AsyncOpenAI:
        client = self._model.opened()
        assert isinstance(client, openai.AsyncOpenAI)
        return client
