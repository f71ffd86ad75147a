"""Inspect logs as Python values: messages, events, samples, whole logs, the zip they come in."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from typing import Any

from stepscope.formats.files import ZSTD_METHOD, load_zstd

Record = dict[str, Any]

DAY = "2026-01-01T00:00:"


def at(second: float) -> str:
    return f"{DAY}{second:09.6f}+00:00"


def user(text: Any, own: str | None = None, **more: Any) -> Record:
    return {"role": "user", "content": text, **({"id": own} if own else {}), **more}


def assistant(text: Any, own: str | None = None, *calls: Record, **more: Any) -> Record:
    found = {"role": "assistant", "content": text, "source": "generate", **more}
    if own:
        found["id"] = own
    return found | ({"tool_calls": list(calls)} if calls else {})


def call(own: str, name: str = "ls", **arguments: Any) -> Record:
    return {"id": own, "function": name, "arguments": arguments, "type": "function"}


def tool(call_id: str, text: Any, own: str | None = None, **more: Any) -> Record:
    found = {"role": "tool", "content": text, "tool_call_id": call_id, "function": "ls", **more}
    return found | ({"id": own} if own else {})


def model(given: list[Record], answer: Record, **more: Any) -> Record:
    """A model's event; `usage`, `stop` and `refs` have places of their own."""
    output: Record = {
        "model": "m-1",
        "choices": [{"message": answer, "stop_reason": more.pop("stop", "stop")}],
    }
    if "usage" in more:
        output["usage"] = more.pop("usage")
    event = {"event": "model", "model": "maker/m", "input": given, "tools": [], "config": {}}
    if "refs" in more:
        event["input_refs"] = more.pop("refs")
    return {**event, "tool_choice": "auto", "output": output, **more}


def ran(call_id: str, result: Any = "", **more: Any) -> Record:
    event = {"event": "tool", "id": call_id, "function": "ls", "arguments": {}, "result": result}
    return {**event, "events": [], **more}


def begin(own: str, kind: str | None, name: str, parent: str | None = None) -> Record:
    event = {"event": "span_begin", "id": own, "name": name, "type": kind, "span_id": own}
    return {**event, "parent_id": parent}


def end(own: str) -> Record:
    return {"event": "span_end", "id": own, "span_id": own}


def sample(*events: Record, **more: Any) -> Record:
    """A sample whose events are a second apart, where they say no time of their own."""
    timed = [{"timestamp": at(second), **event} for second, event in enumerate(events)]
    found: Record = {"id": "s", "epoch": 1, "input": "go", "target": "done", "messages": []}
    return {**found, "events": timed, "uuid": "U", **more}


def log(*samples: Record, **more: Any) -> Record:
    about = {
        "eval_id": "E",
        "task": "pack/guess",
        "model": "maker/m",
        "dataset": {"name": "d", "sample_ids": ["s"]},
        "config": {},
        "revision": {"type": "git", "origin": "", "commit": "abc"},
    }
    return {"version": 2, "status": "success", "eval": about, **more, "samples": list(samples)}


def header(found: Record) -> Record:
    return {key: value for key, value in found.items() if key != "samples"}


def member(found: Record) -> str:
    return f"samples/{found['id']}_epoch_{found['epoch']}.json"


def packed(found: Record, *more: tuple[str, Any], start: bool = False, method: int = 8) -> bytes:
    """A log as `.eval`; `start` leaves the header away that is written at the end."""
    members = [("_journal/start.json", header(found))]
    members += [(member(one), one) for one in found["samples"]]
    members += [] if start else [("header.json", header(found))]
    return zipped([*members, *more], method=method)


def zipped(members: list[tuple[str, Any]], *, method: int = 8) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(
        file, "w", zipfile.ZIP_STORED if method == ZSTD_METHOD else method
    ) as archive:
        for name, value in members:
            raw = value if isinstance(value, bytes) else json.dumps(value).encode()
            archive.writestr(name, raw if method != ZSTD_METHOD else _compressed(raw))
    return file.getvalue() if method != ZSTD_METHOD else _as_zstd(file.getvalue(), members)


def _compressed(raw: bytes) -> bytes:
    library: Any = load_zstd()
    half = len(raw) // 2
    # Two frames behind each other, as long members are packed.
    return bytes(library.compress(raw[:half]) + library.compress(raw[half:]))


def _as_zstd(stored: bytes, members: list[tuple[str, Any]]) -> bytes:
    """Say of members that were stored packed that they are packed by zstd."""
    data = bytearray(stored)
    for name, value in members:
        raw = value if isinstance(value, bytes) else json.dumps(value).encode()
        for signature, method_at, name_at in ((b"PK\x03\x04", 8, 30), (b"PK\x01\x02", 10, 46)):
            place = data.index(signature)
            while data[place + name_at : place + name_at + len(name)] != name.encode():
                place = data.index(signature, place + 1)
            data[place + method_at : place + method_at + 2] = ZSTD_METHOD.to_bytes(2, "little")
            crc_at = place + method_at + 6
            data[crc_at : crc_at + 4] = zlib.crc32(raw).to_bytes(4, "little")
            data[crc_at + 8 : crc_at + 12] = len(raw).to_bytes(4, "little")
    return bytes(data)


# One log of a single agent, graded by a model, and one of an agent that calls another.
LOG = log(
    sample(
        model([user("go", "u")], assistant("look", "a", call("c1", dir="/")), refs=None),
        ran("c1", "etc", error={"type": "timeout", "message": "x"}),
        {"event": "approval", "decision": "approve", "approver": "human"},
        model([], assistant("done", "b"), refs=[[0, 2]], usage={"input_tokens": 3}),
        begin("q", "scorer", "m"),
        model([user("good?")], assistant("yes")) | {"span_id": "q"},
        end("q"),
        events_data={"messages": [user("go", "u"), tool("c1", "etc", "t")], "calls": []},
        scores={"m": {"value": "C", "explanation": "it fits"}},
        model_usage={"maker/m": {"input_tokens": 3, "output_tokens": 1, "total_cost": 0.5}},
        attachments={"a": "b"},
        messages=[user("go", "u"), assistant("by hand", "h")],
    )
)
AGENTS = log(
    sample(
        begin("m", "agent", "boss"),
        model([user("go")], assistant("", "a", call("c1", "helper")), span_id="m"),
        ran("c1", "found", span_id="m", agent_span_id="h"),
        begin("h", "agent", "helper", "m"),
        {"event": "step", "action": "begin", "name": "x", "type": "solver"},
        ran("c2", [{"type": "image", "image": "data:image/png;base64,aGk="}], span_id="h"),
        {"event": "step", "action": "end", "name": "x", "type": "solver"},
        {"event": "subtask", "name": "y", "input": {}, "events": [{"event": "info", "data": 1}]},
        end("h"),
    ),
    status="started",
)
