"""Runs out to another format and back: nothing changes but what the pages of docs/formats say."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from stepscope import model
from stepscope.formats import atif
from stepscope.formats.finish import Ordinals, finish_run
from stepscope.formats.otlp import request, write
from stepscope.model import Format, Stream, Trajectory
from stepscope.safety.limits import Limits
from tests.formats.any_runs import trajectories
from tests.formats.losing import all_runs, by_file, fullest, lost, names, rows

EXAMPLES = Path(__file__).parents[2] / "examples"

Write = Callable[[list[Trajectory], io.BytesIO], object]

# A run of one line may be longer than any recorder's.
UNLIMITED = Limits(line_bytes=2**40, text_bytes=2**40)


def as_otlp(runs: list[Trajectory], file: io.BytesIO) -> None:
    write.write([(run, []) for run in runs], file)


def back(runs: list[Trajectory], write: Write, form: Format) -> dict[str, Trajectory]:
    file = io.BytesIO()
    write(runs, file)
    file.seek(0)
    read = list(form.read(Stream(file, "new.jsonl", UNLIMITED)))
    return {run.id: run for run in read if isinstance(run, Trajectory)}


def changed(runs: list[Trajectory], write: Write, form: Format) -> set[str]:
    again = back(runs, write, form)
    assert sorted(again) == sorted({run.id for run in runs})
    return {field for run in runs for field in lost(run, again[run.id])}


def told(page: str) -> set[str]:
    return {name for row in rows(page, "What is lost") for name in names(row[0])}


def test_what_is_lost_in_atif_is_what_the_page_says() -> None:
    runs = [fullest(), *all_runs([EXAMPLES])]
    assert changed(runs, atif.write, atif.FORMAT) == told("atif.md")


def test_every_run_that_was_exported_comes_back_from_otlp_under_its_id() -> None:
    runs = [fullest(), *all_runs([EXAMPLES])]
    assert sorted(back(runs, as_otlp, request.FORMAT)) == sorted({run.id for run in runs})


@pytest.mark.shared_data
def test_of_every_run_in_the_real_data_no_more_is_lost(shared: Path) -> None:
    folders = [path for path in sorted((shared / "formats").iterdir()) if path.is_dir()]
    counted = 0
    for runs in by_file(folders):
        if runs:
            lost_in_atif = changed(runs, atif.write, atif.FORMAT)
            assert lost_in_atif <= told("atif.md"), runs[0].source.uri
            assert sorted(back(runs, as_otlp, request.FORMAT)) == sorted({run.id for run in runs})
        counted += len(runs)
    assert counted >= 40


@settings(max_examples=60, deadline=None)
@given(trajectories)
def test_whatever_a_run_holds_it_comes_back_from_otlp_under_its_id(run: Trajectory) -> None:
    whole = finish_run(run, Ordinals())
    assert list(back([whole], as_otlp, request.FORMAT)) == [whole.id]


NOUNS = {
    "run": model.Trajectory,
    "step": model.Step,
    "call": model.ToolCall,
    "result": model.ToolResult,
    "part": model.Part,
    "tool": model.ToolDef,
}
INSIDE = {"steps": "step", "calls": "call", "results": "result", "parts": "part", "tools": "tool"}
OTHER: dict[str, Any] = {
    "id": "f" * 32,
    "name": "other",
    "index": 77,
    "actor": "system",
    "kind": "x",
    "steps": (),
}


def without(value: Any, noun: str, field: str, at: str = "run") -> Any:
    """A value whose nouns of one kind lack a field."""
    inside = {
        name: tuple([without(each, noun, field, INSIDE[name]) for each in getattr(value, name)])
        for name in value.__struct_fields__
        if name in INSIDE and getattr(value, name)
    }
    value = msgspec.structs.replace(value, **inside)
    if noun != at:
        return value
    fields = {each.name: each for each in msgspec.structs.fields(value)}
    bare = OTHER[field] if fields[field].required or field == "kind" else fields[field].default
    if bare is msgspec.NODEFAULT:
        bare = fields[field].default_factory()
    return msgspec.structs.replace(value, **{field: bare})


def test_the_page_says_of_every_field_whether_it_is_written() -> None:
    page = {
        name: row[1] for row in rows("otlp.md", "Where each field stands") for name in names(row[0])
    }
    assert page.keys() == {
        f"{noun}.{f}" for noun, kind in NOUNS.items() for f in kind.__struct_fields__
    }
    run = fullest()

    def written(of: Trajectory) -> list[bytes]:
        return [each.body for each in write.iter_requests([(of, [])])]

    # Said by others too: the times of the steps, the parts of a result.
    doubled = {"run.start", "run.end", "result.structured"}
    silent = set()
    for name in page.keys() - doubled - {"run.spans", "run.source", "step.index"}:
        bare = without(run, *name.split("."))
        assert bare != run, name
        if written(bare) == written(run):
            silent.add(name)
    assert silent == {name for name, where in page.items() if where == "not written"}


def test_a_field_that_a_writer_forgets_is_missed() -> None:
    def forgetful(runs: list[Trajectory], file: io.BytesIO) -> None:
        atif.write([msgspec.structs.replace(run, task=None, case=None) for run in runs], file)

    run = fullest()
    (again,) = back([run], forgetful, atif.FORMAT).values()
    assert lost(run, again) >= {"task", "case"}
