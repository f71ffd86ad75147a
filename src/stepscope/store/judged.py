"""What judges said of the chosen runs, a judge and a measure at a time, aligned with the runs.

Of one judge's answers to one measure those are current that were made with the version by which
most runs have a verdict (of two the later, never by time), or with one that was asked for. Of these
each run has the answer of its last prompt and snapshot (a judge with tools has a prompt for each
state of what it may look at). What was made with another version is set aside and counted. A judge
that was asked in another mode (`+narration-off` behind the version) is kept apart: that is another
question.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from stepscope.errors import UsageError
from stepscope.model import Record, Verdict
from stepscope.model.records import DRIFT_REPEAT, IMPORTED, JUDGE_PREFIX, NOT_MODELS
from stepscope.model.records import STEP_SCORES as SCORES
from stepscope.store.columns import Rows, Runs
from stepscope.store.where import Where

# Between the name of a judge and the snapshot that answered in its place.
SNAPSHOT = "@"
# Between the version of a rubric and the mode in which it was asked.
MODE = "+"
# Families whose names are nobody's snapshot (an address keeps its sign); no judge of these scores.
_DIGITS = re.compile(r"(\d+)")


class JudgedQuestion(NamedTuple):
    """One judge, one measure, one mode: whose answers may stand in one column.

    `measure` is without the prefix of judges, as the rules call theirs.
    """

    measure: str
    judge: str
    family: str
    mode: str = ""


@dataclass(slots=True)
class RunAnswers:
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
class JudgeAnswers:
    """The current answers of one judge to one measure."""

    asked: JudgedQuestion  # who was asked what
    rubric: str  # the rubric's name
    # whether this is what the judge says: asked as usual, or never asked but in this mode
    main: bool
    version: str  # of the rubric, without its mode
    runs: Mapping[int, RunAnswers]  # answers by place of the run
    prompts: Mapping[str, int]  # runs by hash of the prompt
    # runs by the snapshot that answered; "" where it is the model that was asked for
    snapshots: Mapping[str, int]
    older: Mapping[str, int]  # runs that have an answer of another version, by version
    # every record, current or not, that the judge made for this measure: what was paid for
    all: tuple[tuple[int, Record], ...]


@runtime_checkable
class SampledRows(Protocol):
    """Rows that know which runs were drawn for a rubric."""

    def drawn(self, rubric: str) -> Mapping[str, float]:
        """Return the inclusion probability of each run that was drawn, by id; none without draw."""


@runtime_checkable
class RatedRows(Protocol):
    """Rows that know who answered a measure without reading the answers."""

    def families(self, measure: str) -> tuple[str, ...]:
        """Return the families of everyone who answered a measure."""


def name_and_snapshot(record: Record) -> tuple[str, str]:
    """Return a judge's name as it was asked for, and the snapshot that answered, else ""."""
    if record.family in NOT_MODELS:
        return record.judge, ""
    name, _, snapshot = record.judge.partition(SNAPSHOT)
    return name, snapshot


def question_of_record(record: Record) -> JudgedQuestion | None:
    """Return who was asked what; None for a record that no judge made."""
    measure = record.answer.measure
    if measure.startswith(JUDGE_PREFIX):
        measure = measure.removeprefix(JUDGE_PREFIX)
    elif measure != SCORES or record.family in NOT_MODELS:
        return None
    mode = record.version.partition(MODE)[2]
    name = name_and_snapshot(record)[0] or record.family
    return JudgedQuestion(measure, name, record.family, mode)


def read_judge_answers(
    rows: Rows, runs: Runs, where: Where | None = None, *, version: str | None = None
) -> tuple[JudgeAnswers, ...]:
    """Return what judges said of `runs`, by measure and judge; `where` chose these runs.

    With a version of rubrics only what was answered under it, a `UsageError` where nothing was.
    """
    place = {id_: at for at, id_ in enumerate(runs.id.tolist())}
    held: dict[JudgedQuestion, list[tuple[int, Record]]] = {}
    for measure in rows.measures():
        if not _by_judges(rows, measure):
            continue
        for record in rows.records(where, measure=measure):
            at, key = place.get(record.trajectory), question_of_record(record)
            if at is not None and key is not None:
                held.setdefault(key, []).append((at, record))
    if version is not None:
        known = {_version(record) for of_key in held.values() for _, record in of_key}
        if version not in known:
            had = ", ".join(sorted(known, key=judge_version_order)) or "no answers of judges"
            raise UsageError(f"no judge answered under rubric version {version!r}; there are {had}")
        held = {k: v for k, v in held.items() if any(_version(one) == version for _, one in v)}
    first = choose_modes(held)
    return tuple(_current(key, held[key], key in first, version) for key in sorted(held))


def read_file_scores(
    rows: Rows, runs: Runs, where: Where | None = None
) -> tuple[JudgeAnswers, ...]:
    """Return the step scores that files hold, by who gave them; `where` chose `runs`."""
    place = {id_: at for at, id_ in enumerate(runs.id.tolist())}
    held: dict[JudgedQuestion, list[tuple[int, Record]]] = {}
    for record in rows.records(where, measure=SCORES):
        if record.family == IMPORTED and (at := place.get(record.trajectory)) is not None:
            key = JudgedQuestion(SCORES, record.judge or IMPORTED, IMPORTED)
            held.setdefault(key, []).append((at, record))
    return tuple(_current(key, held[key], main=True) for key in sorted(held))


def choose_modes(modes: Iterable[JudgedQuestion]) -> set[JudgedQuestion]:
    """Return of each judge and measure the first mode it was asked in: the usual, if it was."""
    found: dict[tuple[str, str, str], JudgedQuestion] = {}
    for key in sorted(modes):
        found.setdefault(key[:3], key)
    return set(found.values())


def _by_judges(rows: Rows, measure: str) -> bool:
    """Tell whether judges may have answered a measure; the many scores of files are no judge's."""
    if measure == SCORES:
        return not isinstance(rows, RatedRows) or not set(rows.families(measure)) <= NOT_MODELS
    return measure.startswith(JUDGE_PREFIX)


def current_records(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records of one run, those of judges only where they are current."""
    held: dict[JudgedQuestion, list[tuple[int, Record]]] = {}
    for record in records:
        key = question_of_record(record)
        if key is None:
            yield record
        else:
            held.setdefault(key, []).append((0, record))
    for key in sorted(held):
        for of_run in _current(key, held[key], main=True).runs.values():
            yield from (of_run.whole[repeat] for repeat in sorted(of_run.whole))
            for repeat in sorted(of_run.steps):
                yield from (record for _, record in sorted(of_run.steps[repeat].items()))


def keep_chosen(records: Iterable[Record], judged: Iterable[JudgeAnswers] | None) -> list[Record]:
    """Return records without those that judges made under versions that `judged` sets aside."""
    if judged is None:
        return list(records)
    chosen = {one.asked: one.version for one in judged}
    asked = ((record, question_of_record(record)) for record in records)
    return [one for one, key in asked if key is None or chosen.get(key) == _version(one)]


def _current(
    key: JudgedQuestion, all_: list[tuple[int, Record]], main: bool, version: str | None = None
) -> JudgeAnswers:
    aside: dict[str, set[int]] = {}
    # Asking about fixed runs again must not replace what was said first.
    every, all_ = all_, [one for one in all_ if one[1].repeat < DRIFT_REPEAT] or all_
    for at, record in all_:
        aside.setdefault(_version(record), set()).add(at)
    judged = {(_version(record), at) for at, record in all_ if isinstance(record.answer, Verdict)}
    most = Counter(name for name, _ in judged)
    chosen = version or max(aside, key=lambda one: (most[one], judge_version_order(one)))
    del aside[chosen]
    last: dict[int, tuple[str, str]] = {}
    for at, record in all_:
        if _version(record) == chosen:
            last[at] = max(last.get(at, ("", "")), _made_by(record))
    runs: dict[int, RunAnswers] = {}
    # In the order of cases: an answer against a case takes the place of one against none.
    for at, record in sorted(all_, key=lambda one: (one[0], one[1].case)):
        if _version(record) == chosen and _made_by(record) == last[at]:
            runs.setdefault(at, RunAnswers()).put(record)
    return JudgeAnswers(
        asked=key,
        rubric=all_[0][1].rubric or key.measure,
        main=main,
        version=chosen,
        runs=runs,
        prompts=dict(sorted(Counter(prompt for prompt, _ in last.values()).items())),
        snapshots=dict(sorted(Counter(snapshot for _, snapshot in last.values()).items())),
        older={name: len(aside[name]) for name in sorted(aside, key=judge_version_order)},
        all=tuple(every),
    )


def _made_by(record: Record) -> tuple[str, str]:
    return record.prompt, name_and_snapshot(record)[1]


def _version(record: Record) -> str:
    return record.version.partition(MODE)[0]


def judge_version_order(version: str) -> list[tuple[int, str]]:
    """Return what orders versions: numbers in them count as numbers."""
    return [(int(p) if p.isdecimal() else -1, p) for p in _DIGITS.split(version)]
