"""What a round trip through another format changes of a run, field by field, and what a page says.

`fullest` is a run with something in every field: whatever a format cannot say, it shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from stepscope.formats.finish import Ordinals, finish_run
from stepscope.formats.reading import read_files
from stepscope.model import (
    Case,
    Instant,
    Outcome,
    Part,
    Source,
    Step,
    StepScore,
    SubGoal,
    ToolCall,
    ToolDef,
    ToolResult,
    TraceLabel,
    Trajectory,
    Usage,
    Warn,
)

DOCS = Path(__file__).parents[2] / "docs" / "formats"

_CODE = re.compile(r"`([^`]+)`")


def lost(run: Trajectory, back: Trajectory) -> set[str]:
    """The fields that came back otherwise, with a dot for a field of a field."""
    return set(_lost(run, back, ""))


def _lost(mine: Any, theirs: Any, path: str) -> Iterator[str]:
    if mine == theirs:
        return
    if isinstance(mine, msgspec.Struct) and type(mine) is type(theirs):
        for name in mine.__struct_fields__:
            yield from _lost(getattr(mine, name), getattr(theirs, name), f"{path}.{name}")
    elif isinstance(mine, tuple) and isinstance(theirs, tuple) and len(mine) == len(theirs):
        for one, other in zip(mine, theirs, strict=True):
            yield from _lost(one, other, path)
    else:
        yield path.removeprefix(".")


def rows(page: str, heading: str) -> list[tuple[str, ...]]:
    """The rows of the table under a heading of a page of docs/formats, without their marks."""
    text = (DOCS / page).read_text(encoding="utf-8")
    part = text.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in part.splitlines() if line.startswith("|")][2:]
    return [tuple([cell.strip() for cell in line.strip("|").split("|")]) for line in lines]


def names(cell: str) -> set[str]:
    """The names in code marks of a cell."""
    return set(_CODE.findall(cell))


def all_runs(folders: Iterable[Path]) -> list[Trajectory]:
    """Every run under folders; what is no trace is another test's business."""
    return [run for runs in by_file(folders) for run in runs]


def by_file(folders: Iterable[Path]) -> Iterator[list[Trajectory]]:
    """The runs of each file under folders: within one, no two share an id."""
    for reading in read_files([str(folder) for folder in folders]):
        yield [run for run in reading if isinstance(run, Trajectory)]


def fullest() -> Trajectory:
    """Return a run in which every field of every noun says something."""
    early, late = Instant(5, "five"), Instant(9, "nine")
    parts = (
        Part("text", "t", extra={"x": 1}),
        Part("image", media_type="image/png", size=2, sha256="h", data="aGk="),
        Part("file", uri="file:a"),
    )
    calls = (
        ToolCall("f", {"a": 1}, "c1", '{"a": 1}', extra={"x": 1}),
        ToolCall("g", None, "c2", "{no", "no JSON", "user", "mcp"),
    )
    results = (ToolResult("c1", "f", parts, {"b": 1}, "error", "explicit", "bad", True, {"x": 1}),)
    usage = Usage(
        input_total=9,
        cache_read=1,
        cache_write=1,
        output_total=1,
        reasoning=1,
        source="estimated",
    )
    step = Step(
        index=1,
        actor="agent",
        kind="plan",
        parts=parts,
        calls=calls,
        agent="a",
        model="m",
        usage=usage,
        cost_usd=0.5,
        start=early,
        end=late,
        first_token_seconds=0.5,
        finish_reason="stop",
        error="broke",
        span="s",
        id="i",
        replayed=False,
        sidechain=True,
        extra={"x": 1},
    )
    again = msgspec.structs.replace(step, index=3, replayed=True, calls=())
    heard = Step(index=2, actor="environment", kind="result", results=results, agent="tool")
    draft = Trajectory(
        id="",
        name="n",
        steps=(Step(index=0, actor="user", parts=parts), step, heard, again),
        source=Source(
            format="f", format_version="1", uri="file:///x", offset=7, run_id="r", ordinal=2
        ),
        workflow="w",
        task="1",
        trial="2",
        agent="a",
        agent_version="v",
        tags={"session": "s", "k": "v"},
        instructions="ask first",
        tools=(ToolDef("f", "d", {"type": "object"}, "a", {"x": 1}),),
        outcome=Outcome("fail", "label", 0.5, "r"),
        termination="t",
        labels=(TraceLabel(kind="note", step=1, reason="r"),),
        scores=(StepScore(step=1, value=0.5),),
        case=Case(workflow="w", task="1", subgoals=(SubGoal("g", "f"),)),
        usage=usage,
        cost_usd=0.5,
        cost_computed_usd=0.6,
        start=early,
        end=late,
        parent="p",
        children=("c",),
        warnings=(Warn("odd", "kept", 0),),
        extra={"x": 1},
    )
    return finish_run(draft, Ordinals())
