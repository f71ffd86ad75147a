"""Both batch APIs of a scripted provider: OpenAI's files and batches, Anthropic's message batches.

Items are answered when the batch is made, and shown when it has been looked at often enough. What
goes wrong with items and results is in `script.Batches`.
"""

from __future__ import annotations

import email.message
import email.parser
import email.policy
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tests.faults.chat import Refused
from tests.faults.script import Script
from tests.faults.wire import Asked

Body = dict[str, Any]
# A custom id that nobody has sent.
FOREIGN = "f" * 64
# One item: its custom id and what it asks; gives the provider's reply to it.
Answering = Callable[[str, Body], Body]
# Seconds until a batch runs out of time.
_DAY = 86_400


class Wrong(Exception):
    """A request that the provider refuses: a status and words."""

    def __init__(self, status: int, words: str) -> None:
        """Refuse with this status."""
        super().__init__(words)
        self.status = status


class Item(NamedTuple):
    """One request of a batch and what became of it: the reply, or how it ended without one."""

    custom: str
    ended: str
    reply: Body | None = None
    words: str = "scripted"


class Batch:
    """One batch, as made and as looked at."""

    def __init__(self, name: str, items: list[Item], polls: int, **more: Any) -> None:
        """Have these items, and an end after `polls` looks."""
        self.name = name
        self.items = items
        self.left = polls
        self.looks = 0
        self.at = time.time()
        self.cancelled = False
        self.more = more

    def look(self) -> bool:
        """Return whether it has ended; each look brings the end nearer."""
        self.left -= 1
        self.looks += 1
        return self.left < 0 or self.cancelled


class Batching:
    """What a provider keeps of batches and files."""

    def __init__(self) -> None:
        """Begin with none."""
        self.files: dict[str, bytes] = {}
        self.openai: dict[str, Batch] = {}
        self.anthropic: dict[str, Batch] = {}
        self.made = 0

    def all(self) -> list[Batch]:
        """Every batch that was made."""
        return [*self.openai.values(), *self.anthropic.values()]

    def finish(self) -> None:
        """End every batch now."""
        for batch in self.all():
            batch.left = -1

    def file(self, asked: Asked) -> Body:
        """Take an uploaded file; return the provider's word for it."""
        fields = _form(asked)
        if fields.get("purpose") != b"batch":
            raise Wrong(400, "purpose must be batch")
        name = f"file-{len(self.files):04}"
        self.files[name] = fields["file"]
        return self.file_told(name)

    def file_told(self, name: str) -> Body:
        """Return what OpenAI says of a file."""
        if name not in self.files:
            raise Wrong(404, f"No such File object: {name}")
        return {
            "id": name,
            "object": "file",
            "bytes": len(self.files[name]),
            "created_at": int(time.time()),
            "filename": "requests.jsonl",
            "purpose": "batch",
            "status": "processed",
        }

    def make_openai(self, body: Body, script: Script, answering: Answering) -> Body:
        """Make a batch of a file; return what OpenAI says of it."""
        source = self.files.get(body["input_file_id"])
        if source is None:
            raise Wrong(404, "No such File object")
        lines = [json.loads(line) for line in source.split(b"\n") if line.strip()]
        wrong = [line for line in lines if line.get("url") != body["endpoint"]]
        if wrong:
            raise Wrong(400, "the url of a line is not the endpoint of the batch")
        asks = [(line["custom_id"], line["body"]) for line in lines]
        items = [] if script.batches.refused else self._items(asks, script, answering)
        name = f"batch_{len(self.openai):04}"
        self.openai[name] = Batch(name, items, script.batches.polls, **body)
        return self.openai_told(name, script)

    def openai_told(self, name: str, script: Script, *, look: bool = False) -> Body:
        """Return what OpenAI says of a batch; `look` counts."""
        batch = self.openai.get(name)
        if batch is None:
            raise Wrong(404, f"No batch found with id {name!r}")
        ended = batch.look() if look else batch.left < 0
        told = {
            "id": name,
            "object": "batch",
            "endpoint": batch.more["endpoint"],
            "completion_window": batch.more["completion_window"],
            "input_file_id": batch.more["input_file_id"],
            "metadata": batch.more.get("metadata"),
            "created_at": int(batch.at),
            "request_counts": _counts(batch, ended),
            "errors": None,
            "output_file_id": None,
            "error_file_id": None,
        }
        if script.batches.refused:
            error = {"code": "invalid", "message": script.batches.refused, "line": None}
            return {**told, "status": "failed", "errors": {"object": "list", "data": [error]}}
        if not ended:
            return {**told, "status": "cancelling" if batch.cancelled else "in_progress"}
        return {**told, "status": _status(batch), **self._outputs(batch, script)}

    def _outputs(self, batch: Batch, script: Script) -> dict[str, str]:
        """Write the files of a batch that has ended; return their names."""
        good = [item for item in batch.items if item.reply is not None]
        bad = [item for item in batch.items if item.ended in {"errored", "expired", "canceled"}]
        found = {}
        for field, items in (("output_file_id", good), ("error_file_id", bad)):
            if items:
                name = f"file-{batch.name}-{field}"
                lines = [json.dumps(_openai_line(item)) for item in _ordered(items, script)]
                self.files[name] = ("\n".join(lines) + "\n").encode()
                found[field] = name
        return found

    def make_anthropic(self, body: Body, script: Script, answering: Answering) -> Body:
        """Make a batch; return what Anthropic says of it."""
        asks = [(line["custom_id"], line["params"]) for line in body["requests"]]
        names = [custom for custom, _ in asks]
        if script.batches.refused:
            raise Wrong(400, script.batches.refused)
        if len(set(names)) < len(names) or not all(0 < len(name) <= 64 for name in names):
            raise Wrong(400, "requests: custom_id must be unique and of 1 to 64 characters")
        name = f"msgbatch_{len(self.anthropic):04}"
        items = self._items(asks, script, answering)
        self.anthropic[name] = Batch(name, items, script.batches.polls)
        return self.anthropic_told(name)

    def anthropic_told(self, name: str, *, look: bool = False) -> Body:
        """Return what Anthropic says of a batch; `look` counts."""
        batch = self.anthropic.get(name)
        if batch is None:
            raise Wrong(404, f"Batch {name} not found")
        ended = batch.look() if look else batch.left < 0
        by_end = {"succeeded": 0, "errored": 0, "expired": 0, "canceled": 0}
        for item in batch.items:
            # A result that is missing was counted as made all the same.
            by_end[item.ended if item.ended in by_end else "succeeded"] += 1
        nothing = dict.fromkeys(by_end, 0)
        counts = (
            {**by_end, "processing": 0} if ended else nothing | {"processing": len(batch.items)}
        )
        working = "canceling" if batch.cancelled else "in_progress"
        return {
            "id": name,
            "type": "message_batch",
            "processing_status": "ended" if ended else working,
            "request_counts": counts,
            "created_at": _rfc3339(batch.at),
            "expires_at": _rfc3339(batch.at + _DAY),
            "ended_at": _rfc3339(time.time()) if ended else None,
            "cancel_initiated_at": _rfc3339(batch.at) if batch.cancelled else None,
            "archived_at": None,
            "results_url": f"/v1/messages/batches/{name}/results" if ended else None,
        }

    def anthropic_results(self, name: str, script: Script) -> bytes:
        """Return the results of a batch as JSON lines."""
        lines = []
        for item in _ordered(self.anthropic[name].items, script):
            if item.ended == "missing":
                continue
            result: Body = {"type": item.ended}
            if item.reply is not None:
                result = {"type": "succeeded", "message": item.reply}
            elif item.ended == "errored":
                error = {"type": "invalid_request_error", "message": item.words}
                held = {"type": "error", "error": error, "request_id": "req_scripted"}
                result = {"type": "errored", "error": held}
            lines.append(json.dumps({"custom_id": item.custom, "result": result}))
        return ("\n".join(lines) + "\n").encode()

    def _items(
        self, asks: list[tuple[str, Body]], script: Script, answering: Answering
    ) -> list[Item]:
        """Answer the asks of a batch, but for those with which something goes wrong."""
        how = script.batches
        self.made += 1
        ends: list[str] = []
        if not how.rounds or self.made <= how.rounds:
            ends += ["expired"] * how.expired + ["errored"] * how.errored
            ends += ["canceled"] * how.canceled + ["missing"] * how.missing
        items = [Item(custom, end) for (custom, _), end in zip(asks, ends, strict=False)]
        for custom, body in asks[len(items) :]:
            try:
                items.append(Item(custom, "succeeded", answering(custom, body)))
            except Refused as refused:
                items.append(Item(custom, "errored", words=str(refused)))
        return items


def _rfc3339(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


def page(told: list[Body], query: Asked, after: str) -> Body:
    """Return a page of a list, newest first, as both providers cut it."""
    names = [held["id"] for held in told]
    start = names.index(query.query[after]) + 1 if after in query.query else 0
    limit = int(query.query.get("limit", "20"))
    held = told[start : start + limit]
    return {
        "object": "list",
        "data": held,
        "first_id": held[0]["id"] if held else None,
        "last_id": held[-1]["id"] if held else None,
        "has_more": start + limit < len(told),
    }


def _ordered(items: list[Item], script: Script) -> list[Item]:
    how = script.batches
    found = items[::-1] if how.order == "reversed" else list(items)
    if how.doubled:
        found += [item._replace(reply=_other(item.reply)) for item in found]
    if how.foreign:
        found += [item._replace(custom=FOREIGN) for item in found[:1]]
    return found


def _other(reply: Body | None) -> Body | None:
    """Return a reply that differs: told a second time, it must not count."""
    return None if reply is None else {**reply, "model": "another-model"}


def _openai_line(item: Item) -> Body:
    line: Body = {"id": f"batch_req_{item.custom[:8]}", "custom_id": item.custom, "error": None}
    if item.reply is not None:
        response = {"status_code": 200, "request_id": "req_scripted", "body": item.reply}
        return {**line, "response": response}
    if item.ended == "errored":
        error = {"error": {"message": item.words, "type": "invalid_request_error"}}
        return {**line, "response": {"status_code": 400, "request_id": "req", "body": error}}
    code = "batch_expired" if item.ended == "expired" else "batch_cancelled"
    return {**line, "response": None, "error": {"code": code, "message": "not executed"}}


def _counts(batch: Batch, ended: bool) -> Body:
    good = sum(item.reply is not None for item in batch.items)
    failed = len(batch.items) - good
    done = {"completed": good, "failed": failed} if ended else {"completed": 0, "failed": 0}
    return {"total": len(batch.items), **done}


def _status(batch: Batch) -> str:
    if batch.cancelled:
        return "cancelled"
    return "expired" if any(item.ended == "expired" for item in batch.items) else "completed"


def _form(asked: Asked) -> dict[str, bytes]:
    """Return the fields of a form with files."""
    head = f"Content-Type: {asked.headers['content-type']}\r\n\r\n".encode()
    parser = email.parser.BytesParser(policy=email.policy.HTTP)
    found = {}
    for part in parser.parsebytes(head + asked.body).iter_parts():
        assert isinstance(part, email.message.EmailMessage)
        payload = part.get_payload(decode=True)
        assert isinstance(payload, bytes)
        found[str(part.get_param("name", header="content-disposition"))] = payload
    return found
