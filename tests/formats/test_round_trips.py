"""Runs out to another format and back: nothing changes but what the pages of docs/formats say."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from stepscope import model
from stepscope.formats.atif import write as write_atif
from stepscope.formats.finish import Ordinals, finish
from stepscope.formats.otlp import request, write
from stepscope.formats.otlp.messages import RUN_KEY, STEPS_KEY
from stepscope.formats.otlp.values import decode_span, iter_request_spans
from stepscope.model import Format, Json, Stream, Trajectory
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


ROUND_TRIPS = pytest.mark.parametrize(
    ("write", "form", "page"),
    [(write_atif.write, write_atif.FORMAT, "atif.md"), (as_otlp, request.FORMAT, "otlp.md")],
    ids=["atif", "otlp"],
)


def changed(runs: list[Trajectory], write: Write, form: Format) -> set[str]:
    again = back(runs, write, form)
    assert sorted(again) == sorted({run.id for run in runs})
    return {field for run in runs for field in lost(run, again[run.id])}


@ROUND_TRIPS
def test_what_is_lost_is_what_the_page_says(write: Write, form: Format, page: str) -> None:
    runs = [fullest(), *all_runs([EXAMPLES])]
    told = {name for row in rows(page, "What is lost") for name in names(row[0])}
    assert changed(runs, write, form) == told


@pytest.mark.shared_data
@ROUND_TRIPS
def test_of_every_run_in_the_real_data_no_more_is_lost(
    shared: Path, write: Write, form: Format, page: str
) -> None:
    folders = [path for path in sorted((shared / "formats").iterdir()) if path.is_dir()]
    told = {name for row in rows(page, "What is lost") for name in names(row[0])}
    counted = 0
    for runs in by_file(folders):
        if runs:
            assert changed(runs, write, form) <= told, runs[0].source.uri
        counted += len(runs)
    assert counted >= 40


@settings(max_examples=60)
@given(trajectories)
def test_whatever_a_run_holds_it_comes_back_from_otlp(run: Trajectory) -> None:
    if b"\\u0000" in msgspec.json.encode(run):
        return  # the door escapes NUL: no run that was read holds one
    whole = finish(run, Ordinals())
    (again,) = back([whole], as_otlp, request.FORMAT).values()
    assert lost(whole, again) <= {"source.uri", "source.offset", "warnings", "warnings.step"}
    assert again.id == whole.id


NOUNS = {
    "run": model.Trajectory,
    "step": model.Step,
    "call": model.ToolCall,
    "result": model.ToolResult,
    "part": model.Part,
    "tool": model.ToolDef,
}
INSIDE = {"steps": "step", "calls": "call", "results": "result", "parts": "part", "tools": "tool"}


def kept(noun: str, residue: dict[str, Json]) -> Iterator[str]:
    """The fields that a residue keeps, under the names of the page."""
    for field, held in residue.items():
        if field in INSIDE and "inside" in held:
            for each in held["inside"].values():
                yield from kept(INSIDE[field], each)
        else:
            yield f"{noun}.{field}"


def kept_of(run: Trajectory) -> set[str]:
    found: set[str] = set()
    for made in write.iter_requests([(run, [])]):
        for span in map(decode_span, iter_request_spans(json.loads(made.body))):
            about: dict[str, Any] = span.attributes
            found |= set(kept("run", json.loads(about.get(RUN_KEY, "{}"))))
            for residue in json.loads(about.get(STEPS_KEY, "[]")):
                found |= set(kept("step", residue))
    return found


def test_the_page_says_of_every_field_whether_it_is_kept_beside() -> None:
    told = {
        name: row[2] for row in rows("otlp.md", "Where each field stands") for name in names(row[0])
    }
    fields = {f"{noun}.{f}" for noun, kind in NOUNS.items() for f in kind.__struct_fields__}
    assert told.keys() == fields
    found = kept_of(fullest())
    assert {name for name, how in told.items() if how.startswith("yes")} - found == set()
    assert found - {name for name, how in told.items() if how != "no"} == set()


@pytest.mark.shared_data
def test_of_the_real_runs_nothing_else_is_kept_beside(shared: Path) -> None:
    told = {
        name: row[2] for row in rows("otlp.md", "Where each field stands") for name in names(row[0])
    }
    allowed = {name for name, how in told.items() if how != "no"}
    for folder in sorted((shared / "formats").iterdir()):
        for run in all_runs([folder]) if folder.is_dir() else []:
            if not run.spans:
                assert kept_of(run) <= allowed, run.name


def test_a_field_that_a_writer_forgets_is_missed() -> None:
    def forgetful(runs: list[Trajectory], file: io.BytesIO) -> None:
        as_otlp([msgspec.structs.replace(run, task=None, case=None) for run in runs], file)

    run = fullest()
    (again,) = back([run], forgetful, request.FORMAT).values()
    assert lost(run, again) >= {"task", "case"}
