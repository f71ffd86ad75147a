"""Runs and verdicts out, to files that other programs read.

A file appears whole or not at all: it is written beside its place and then put there. Nothing is
overwritten unasked. File names are made of ids, never of what a trace says.
"""

from __future__ import annotations

import codecs
import csv
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal, TypeVar

import msgspec

from stepscope.errors import UsageError
from stepscope.model import Record, Trajectory
from stepscope.model.records import JUDGE_PREFIX
from stepscope.safety.limits import open_output
from stepscope.safety.text import escape_formula
from stepscope.score.importing import Progress
from stepscope.store import Store
from stepscope.store.where import Where

Target = Literal["ours", "atif", "parquet", "otlp"]
# Whether verdicts are written: not at all, alone, those of people alone as labels, or on the spans
# that they are about.
VerdictsAs = Literal["none", "only", "labels", "gen_ai", "openinference"]
T = TypeVar("T")
# Of a label: what every tool has, how it was asked, how it was given.
_COMMON = ("id", "name", "step", "axis", "label", "value", "annotator", "reason", "confidence")
_ASKED = ("queue", "probability", "round", "policy", "blind", "position")
_GIVEN = ("seconds", "expanded", "given_at", "repeat")
LABEL_COLUMNS = (*_COMMON, "cites", "decided", *_ASKED, *_GIVEN)


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What was written, and where; spans only where runs were written as spans."""

    path: str
    format: Target
    runs: int = 0
    verdicts: int = 0
    spans: int = 0

    def __str__(self) -> str:
        what = f"{self.runs:,} runs" if self.runs else f"{self.verdicts:,} verdicts"
        if self.spans:
            what += f" as {self.spans:,} spans with {self.verdicts:,} verdicts"
        return f"wrote {what} to {self.path} ({self.format})"


def export_runs(
    store: Store,
    out: str,
    *,
    format: Target,
    verdicts: VerdictsAs | None,
    force: bool,
    where: Where | None,
    progress: Progress,
) -> Exported:
    """Write the chosen runs, or their verdicts, to `out`; `-` is standard output."""
    total = len(store.keys(where))
    if total == 0:
        raise UsageError(f"nothing to write: {store.explain_no_match(where)}")
    place = Path(out)
    empty = not place.exists() or (place.is_dir() and not any(place.iterdir()))
    if out != "-" and not force and not empty:
        raise UsageError(f"{out} already exists; --force overwrites it")
    if verdicts == "only":
        return Exported(path=out, format=format, verdicts=_verdicts(store, out, format, where))
    if verdicts == "labels":
        if format != "ours":
            raise UsageError("labels are written as .csv or .jsonl; leave --format out")
        return Exported(path=out, format=format, verdicts=_labels(store, out, where))
    if format == "otlp":
        return _otlp(store, out, verdicts or "gen_ai", where, total, progress)
    if verdicts in {"gen_ai", "openinference"}:
        raise UsageError(f"--verdicts {verdicts} puts verdicts on spans; choose --format otlp")
    runs = _counted(map(store.with_media, store.trajectories(where)), total, progress)
    if format == "atif":
        _atif(runs, out, total)
    else:
        from stepscope.formats import ours

        with _open_out(out) as file:
            (ours.write if format == "ours" else ours.write_runs_parquet)(runs, file)
    return Exported(path=out, format=format, runs=total)


def read_scored_runs(
    store: Store, where: Where | None
) -> Iterator[tuple[Trajectory, list[Record]]]:
    """Yield the chosen runs with their media, each with its last record of every question."""
    for run in store.trajectories(where):
        last = {
            (told.answer.measure, told.answer.step, told.judge, told.repeat): told
            for told in store.records(trajectory=run.id)
        }
        yield store.with_media(run), list(last.values())


def _otlp(
    store: Store,
    out: str,
    verdicts: Literal["none", "gen_ai", "openinference"],
    where: Where | None,
    total: int,
    progress: Progress,
) -> Exported:
    from stepscope.formats.otlp import write

    chosen = read_scored_runs(store, where)
    if verdicts == "none":
        chosen = ((store.with_media(run), []) for run in store.trajectories(where))
    with _open_out(out) as file:
        written = write.write(_counted(chosen, total, progress), file, verdicts=verdicts)
    return Exported(path=out, format="otlp", **written._asdict())


def _atif(runs: Iterable[Trajectory], out: str, total: int) -> None:
    from stepscope.formats import atif

    if out == "-" or Path(out).suffix in {".json", ".jsonl"}:
        if total > 1 and out.endswith(".json"):
            raise UsageError(
                f"an ATIF file holds one run and {total:,} are chosen: name a folder for one file "
                "each, a .jsonl file for one line each, or choose one with --where"
            )
        with _open_out(out) as file:
            atif.write(runs, file)
        return
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    for run in runs:
        with _open_out(str(folder / f"{run.id}.json")) as file:
            atif.write([run], file)


def _verdicts(store: Store, out: str, format: Target, where: Where | None) -> int:
    if format == "atif":
        raise UsageError("ATIF holds runs, not verdicts; choose --format ours or --format parquet")
    if format == "otlp":
        raise UsageError("OTLP holds verdicts on spans; choose --verdicts gen_ai or openinference")
    if format == "parquet":
        folder = Path(out)
        if out == "-" or folder.is_file():
            raise UsageError(f"{out}: verdicts as Parquet are a folder of two files; name a folder")
        store.to_parquet(folder, where)
        import pyarrow.parquet as pq

        return pq.read_metadata(folder / "records.parquet").num_rows
    with _open_out(out) as file:
        lines = (msgspec.json.encode(record) + b"\n" for record in store.records(where))
        return sum(file.write(line) > 0 for line in lines)


def _labels(store: Store, out: str, where: Where | None) -> int:
    """Write labels as CSV, or as JSON lines into .jsonl; `import --verdicts --human` reads both."""
    runs = store.runs(where)
    names = dict(zip(runs.id.tolist(), runs.name.tolist(), strict=True))
    count = 0
    with _open_out(out) as file:
        text = codecs.getwriter("utf-8")(file)
        table = None if out.endswith((".jsonl", ".json")) else csv.writer(text, lineterminator="\n")
        if table is not None:
            table.writerow(LABEL_COLUMNS)
        for label in store.labels(where):
            told = msgspec.to_builtins(label)
            told["id"], told["name"] = label.trajectory, names[label.trajectory]
            told["axis"] = label.measure.removeprefix(JUDGE_PREFIX)
            told["cites"], told["expanded"] = list(label.cites), " ".join(label.expanded)
            told["decided"] = label.decided
            row = {name: told.get(name) for name in LABEL_COLUMNS}
            if table is None:
                text.write(msgspec.json.encode(row).decode() + "\n")
            else:
                table.writerow(
                    str(cell).lower() if isinstance(cell, bool) else escape_formula(cell)
                    for cell in row.values()
                )
            count += 1
    return count


@contextmanager
def _open_out(out: str) -> Iterator[BinaryIO]:
    """Open what is written to; `-` is standard output."""
    if out == "-":
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    # What is written quotes traces: it is nobody else's, whole or in parts.
    with open_output(out, private=True) as file:
        yield file


def _counted(runs: Iterable[T], total: int, progress: Progress) -> Iterator[T]:
    for done, run in enumerate(runs, 1):
        yield run
        progress(done, total)
