"""Times pydantic decoding the same files into models of its own: nothing but that.

`array` decodes each file whole, as its parser can only; `array without collector` does so with the
cyclic garbage collector switched off. JSON lines are decoded one by one and let go. `otlp` decodes
the messages within attributes too, `otlp spans` leaves them as text.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter

from benchmarks.workers.serve import serve


class Function(BaseModel):
    """The tool of a call."""

    name: str
    arguments: str


class Call(BaseModel):
    """A tool call."""

    id: str
    type: str
    function: Function


class Message(BaseModel):
    """A chat message."""

    role: str
    content: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None
    name: str | None = None


class Run(BaseModel):
    """A tau-bench run."""

    task_id: int
    reward: float
    trial: int
    info: dict[str, Any]
    traj: list[Message]


class Conversation(BaseModel):
    """Messages and what is written around them."""

    id: str
    task: str
    trial: str
    reward: float
    messages: list[Message]


class Value(BaseModel):
    """An attribute's value."""

    stringValue: str | None = None
    intValue: str | None = None


class Attribute(BaseModel):
    """A key and its value."""

    key: str
    value: Value


class Span(BaseModel):
    """A span of OTLP."""

    traceId: str
    spanId: str
    parentSpanId: str | None = None
    name: str
    kind: int
    startTimeUnixNano: str
    endTimeUnixNano: str
    attributes: list[Attribute]
    status: dict[str, Any]


class Scope(BaseModel):
    """Spans of one instrumentation."""

    scope: dict[str, Any]
    spans: list[Span]


class Resource(BaseModel):
    """Spans of one sender."""

    resource: dict[str, Any]
    scopeSpans: list[Scope]


class Export(BaseModel):
    """One line of an OTLP file."""

    resourceSpans: list[Resource]


class Part(BaseModel):
    """A part of a message within an attribute."""

    type: str
    content: str | None = None
    id: str | None = None
    name: str | None = None
    arguments: Any = None
    result: Any = None


class Told(BaseModel):
    """A message within an attribute."""

    role: str
    parts: list[Part]


_RUNS = TypeAdapter(list[Run]).validate_json
_TOLD = TypeAdapter(list[Told]).validate_json


def array(paths: list[str]) -> dict[str, int]:
    """Decode each file whole."""
    return {"runs": sum(len(_RUNS(Path(path).read_bytes())) for path in paths)}


def array_without_collector(paths: list[str]) -> dict[str, int]:
    """Decode each file whole, the collector off meanwhile."""
    gc.disable()
    try:
        return array(paths)
    finally:
        gc.enable()


def lines(paths: list[str], decode: Callable[[bytes], object]) -> dict[str, int]:
    """Decode each line and let it go."""
    runs = 0
    for path in paths:
        with Path(path).open("rb") as file:
            for line in file:
                decode(line)
                runs += 1
    return {"runs": runs}


def export(line: bytes) -> None:
    """Decode an export and the messages in it."""
    for resource in Export.model_validate_json(line).resourceSpans:
        for scope in resource.scopeSpans:
            for span in scope.spans:
                for attribute in span.attributes:
                    if attribute.key.endswith(".messages"):
                        _TOLD(attribute.value.stringValue or "")


if __name__ == "__main__":
    files = sys.argv[1:]
    parts = [name for name in files if name.endswith(".json")]
    named = {Path(n).stem.split("-")[0]: [n] for n in files if n.endswith(".jsonl")}
    serve(
        {
            "array": lambda: array(parts),
            "array without collector": lambda: array_without_collector(parts),
            "lines": lambda: lines(named["tau"], Run.model_validate_json),
            "messages": lambda: lines(named["messages"], Conversation.model_validate_json),
            "otlp": lambda: lines(named["otlp"], export),
            "otlp spans": lambda: lines(named["otlp"], Export.model_validate_json),
        }
    )
