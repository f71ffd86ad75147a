"""Small traces of every format, to be spoilt: real ones, the tests' own, parser cases.

Whatever file of these folders is found to be of a format stands for it, the smallest first, so a
new format is there as soon as its tests have a file. Long lists and texts are cut short, so that
the places in a trace are all reached.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from bars.formats.truncation import DATA, ROOT, samples
from stepscope.errors import StepscopeError
from stepscope.formats.reading import read_files

_SAMPLE_BYTES = 24 * 1024
_FILE_BYTES = 4_000_000
_A_FORMAT = 4
_PIECES = 6
_TEXT = 160
_SUFFIXES = frozenset(".json .jsonl .csv .traj .eval .gz .parquet .zip".split())
_RESPONSES = (
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
    {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "think"}]},
    {
        "type": "function_call",
        "id": "f",
        "call_id": "c",
        "name": "w",
        "arguments": '{"at": "Rome"}',
    },
    {"type": "function_call_output", "call_id": "c", "output": '{"error": null}'},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Rain."}]},
)
_GRAPH = {
    "inputs": [{"__start__": {"messages": [{"role": "user", "content": "Weather?"}]}}],
    "outputs": {
        "inputs": [],
        "results": [{"messages": [{"role": "assistant", "content": "Rain."}]}],
        "steps": [["__start__", "model", "tools", "model"]],
    },
}
_EXPORTED = {
    "id": "a", "trace_id": "a", "parent_run_id": None, "dotted_order": "20260101T000000000000Za",
    "name": "agent", "run_type": "chain", "status": "success", "error": None, "is_root": True,
    "session_id": "s", "inputs": '{"messages": [{"role": "user", "content": "go"}]}',
    "outputs": '{"messages": [{"role": "assistant", "content": "gone"}]}', "extra": "{}",
    "start_time": "2026-01-01T00:00:00", "end_time": "2026-01-01T00:00:01", "tags": "[]",
}  # fmt: skip


class Trace(NamedTuple):
    """A trace to be spoilt, and the format that reads it; "" for none."""

    format: str
    content: bytes


@cache
def traces() -> tuple[Trace, ...]:
    """Return what there is to be spoilt: some of every format, then the JSON parser cases."""
    found: dict[str, list[bytes]] = {}
    for name, content in _own():
        found.setdefault(name, []).append(content)
    for sample in samples(DATA):
        found.setdefault(sample.format, []).append(_small(sample.content))
    for path in sorted(_candidates(), key=lambda path: (path.stat().st_size, path.name)):
        try:
            names = {r.format.name for r in read_files([str(path)]) if r.format is not None}
        except StepscopeError:
            continue
        for name in sorted(names):
            content = _small(path.read_bytes())
            if len(content) <= 4 * _SAMPLE_BYTES and len(found.setdefault(name, [])) < _A_FORMAT:
                found[name].append(content)
    cases = DATA / "hostile" / "test_parsing"
    hostile = [path.read_bytes() for path in sorted(cases.glob("*.json"))] or [b"[", b"{}", b"\xff"]
    return (
        *(Trace(name, content) for name in sorted(found) for content in found[name]),
        *(Trace("", content) for content in hostile if len(content) < _SAMPLE_BYTES),
    )


def _own() -> Iterator[Trace]:
    """Yield traces of the formats that no file here is of."""
    yield Trace("openai_responses", json.dumps(_RESPONSES).encode())
    body = {
        "object": "response",
        "id": "r1",
        "output": _RESPONSES[1:],
        "usage": {"input_tokens": 3},
    }
    yield Trace("openai_responses", json.dumps(body).encode())
    yield Trace("graph_trajectory", json.dumps(_GRAPH).encode())
    forms = json.loads((ROOT / "tests/formats/data/langchain_forms.json").read_bytes())
    for form in forms.values():
        yield Trace("langchain_messages", json.dumps(form).encode())
    pa, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    file = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist([_EXPORTED]), file)
    yield Trace("langsmith_parquet", file.getvalue())


def _candidates() -> Iterator[Path]:
    for folder in (ROOT / "examples", ROOT / "tests", DATA / "formats", DATA / "whowhen"):
        for path in folder.rglob("*"):
            known = path.suffix in _SUFFIXES and "node_modules" not in path.parts
            if known and path.is_file() and path.stat().st_size < _FILE_BYTES:
                yield path


def _small(content: bytes) -> bytes:
    """Return JSON with its lists and texts cut short, so that the places in it are all reached."""
    if len(content) <= _SAMPLE_BYTES:
        return content
    try:
        return json.dumps(_shortened(json.loads(content))).encode()
    except ValueError:
        lines = content.split(b"\n")[: 3 * _PIECES]
    try:
        return b"\n".join(json.dumps(_shortened(json.loads(x))).encode() for x in lines if x)
    except ValueError:
        return content


def _shortened(value: object) -> object:
    if isinstance(value, str):
        return value[:_TEXT]
    if isinstance(value, list):
        return [_shortened(entry) for entry in value[:_PIECES]]
    return {k: _shortened(v) for k, v in value.items()} if isinstance(value, dict) else value
