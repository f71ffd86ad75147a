"""What judges said of the chosen runs, a judge and a measure at a time, aligned with the runs.

Of one judge's answers to one measure those are current that were made with its latest version and
prompt, never by time; among these each run has the answer of the latest snapshot. What was made
with another version or prompt is set aside and counted. A judge that was asked in another mode
(`+narration-off` behind the version) is kept apart: that is another question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from stepscope.model import Record
from stepscope.store.columns import Rows, Runs
from stepscope.store.scores import MEASURE as SCORES
from stepscope.store.where import Where

# Before the name of a measure that a judge answered; the rules call theirs by the name alone.
PREFIX = "judge."
# Between the name of a judge and the snapshot that answered in its place.
SNAPSHOT = "@"
# Between the version of a rubric and the mode in which it was asked.
MODE = "+"
# Families whose names are nobody's snapshot (an address keeps its sign); no judge of these scores.
_NAMED = ("rules", "human", "imported")
_DIGITS = re.compile(r"(\d+)")


class Asked(NamedTuple):
    """One judge, one measure, one mode: whose answers may stand in one column.

    `measure` is without the prefix of judges, as the rules call theirs.
    """

    measure: str
    judge: str
    family: str
    mode: str = ""


@dataclass(slots=True)
class OfRun:
    """The current answers of one judge about one run, all its repeats; the first is repeat 0."""

    whole: dict[int, Record] = field(default_factory=dict)
    steps: dict[int, dict[int, Record]] = field(default_factory=dict)

    def put(self, record: Record) -> None:
        """Take a record in."""
        step = record.answer.step
        if step is None:
            self.whole[record.repeat] = record
        else:
            self.steps.setdefault(record.repeat, {})[step] = record

    @property
    def verdict(self) -> Record | None:
        """The answer about the whole run; that of the first repeat."""
        return self.whole.get(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The current answers of one judge to one measure.

    Attributes:
        asked: who was asked what.
        rubric: the rubric's name.
        version: of the rubric, without its mode.
        prompt: hash of the prompt.
        runs: answers by place of the run.
        snapshots: runs by the snapshot that answered; "" where it is the model that was asked for.
        older: runs that have an answer of another version or prompt, by "version prompt".
        all: every record, current or not, that the judge made for this measure: what was paid for.
    """

    asked: Asked
    rubric: str
    version: str
    prompt: str
    runs: Mapping[int, OfRun]
    snapshots: Mapping[str, int]
    older: Mapping[str, int]
    all: tuple[tuple[int, Record], ...]


@runtime_checkable
class Sampled(Protocol):
    """Rows that know which runs were drawn for a rubric."""

    def drawn(self, rubric: str) -> Mapping[str, float]:
        """Return the inclusion probability of each run that was drawn, by id; none without draw."""


@runtime_checkable
class Known(Protocol):
    """Rows that know who answered a measure without reading the answers."""

    def families(self, measure: str) -> tuple[str, ...]:
        """Return the families of everyone who answered a measure."""


def name_and_snapshot(record: Record) -> tuple[str, str]:
    """Return a judge's name as it was asked for, and the snapshot that answered, "" for the same.

    >>> from stepscope.model import Verdict
    >>> answer = Verdict("judge.axes.termination", label="correct")
    >>> one = Record(trajectory="r", answer=answer, version="1", family="openai", judge="a/b@c")
    >>> name_and_snapshot(one)
    ('a/b', 'c')
    """
    if record.family in _NAMED:
        return record.judge, ""
    name, _, snapshot = record.judge.partition(SNAPSHOT)
    return name, snapshot


def asked(record: Record) -> Asked | None:
    """Return who was asked what; None for a record that no judge made."""
    measure = record.answer.measure
    if measure.startswith(PREFIX):
        measure = measure.removeprefix(PREFIX)
    elif measure != SCORES or record.family in _NAMED:
        return None
    mode = record.version.partition(MODE)[2]
    name = name_and_snapshot(record)[0] or record.family
    return Asked(measure, name, record.family, mode)


def judged(rows: Rows, runs: Runs, where: Where | None = None) -> tuple[Judged, ...]:
    """Return what judges said of `runs`, by measure and judge; `where` chose these runs."""
    place = {id_: at for at, id_ in enumerate(runs.id.tolist())}
    held: dict[Asked, list[tuple[int, Record]]] = {}
    for measure in rows.measures():
        if not _by_judges(rows, measure):
            continue
        for record in rows.records(where, measure=measure):
            at, key = place.get(record.trajectory), asked(record)
            if at is not None and key is not None:
                held.setdefault(key, []).append((at, record))
    return tuple(_current(key, held[key]) for key in sorted(held))


def _by_judges(rows: Rows, measure: str) -> bool:
    """Tell whether judges may have answered a measure; the many scores of files are no judge's."""
    if measure == SCORES:
        return not isinstance(rows, Known) or not set(rows.families(measure)) <= set(_NAMED)
    return measure.startswith(PREFIX)


def current(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records of one run, those of judges only where they are current."""
    held: dict[Asked, list[tuple[int, Record]]] = {}
    for record in records:
        key = asked(record)
        if key is None:
            yield record
        else:
            held.setdefault(key, []).append((0, record))
    for key in sorted(held):
        for of_run in _current(key, held[key]).runs.values():
            yield from (of_run.whole[repeat] for repeat in sorted(of_run.whole))
            for repeat in sorted(of_run.steps):
                yield from (record for _, record in sorted(of_run.steps[repeat].items()))


def _current(key: Asked, all_: list[tuple[int, Record]]) -> Judged:
    latest = max(_question(record) for _, record in all_)
    kept = [(at, record) for at, record in all_ if _question(record) == latest]
    last: dict[int, str] = {}
    for at, record in kept:
        last[at] = max(last.get(at, ""), name_and_snapshot(record)[1])
    runs: dict[int, OfRun] = {}
    # In the order of cases: an answer against a case takes the place of one against none.
    for at, record in sorted(kept, key=lambda one: (one[0], one[1].case)):
        if name_and_snapshot(record)[1] == last[at]:
            runs.setdefault(at, OfRun()).put(record)
    snapshots: dict[str, int] = {}
    for snapshot in last.values():
        snapshots[snapshot] = snapshots.get(snapshot, 0) + 1
    aside: dict[str, set[int]] = {}
    for at, record in all_:
        if _question(record) != latest:
            version = record.version.partition(MODE)[0]
            aside.setdefault(f"{version} {record.prompt}".strip(), set()).add(at)
    one = kept[0][1]
    return Judged(
        asked=key,
        rubric=one.rubric or key.measure,
        version=one.version.partition(MODE)[0],
        prompt=one.prompt,
        runs=runs,
        snapshots=dict(sorted(snapshots.items())),
        older={name: len(places) for name, places in sorted(aside.items())},
        all=tuple(all_),
    )


def _question(record: Record) -> tuple[list[tuple[int, str]], str]:
    """Return what orders versions and prompts: numbers in a version count as numbers."""
    parts = _DIGITS.split(record.version.partition(MODE)[0])
    return [(int(p) if p.isdigit() else -1, p) for p in parts], record.prompt
