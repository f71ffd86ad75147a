"""Who said what about which run or step: the raters of a rubric, read from rows.

A judge is one rater whatever snapshot of its model answered; of several versions of a rubric the
latest counts, and what is left out is counted: repeats (they are a judge's own noise), older
versions, variants (asked in another mode). The rules are a rater where they know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from stepscope.calibrate.agreement_types import Unit
from stepscope.judges.judgement import ISOLATED, PREFIX, SCORES
from stepscope.measures.axes.axis import UNCERTAIN
from stepscope.model import Answer, Record, Verdict
from stepscope.store import Store
from stepscope.store.columns import Column, Rows, Runs
from stepscope.store.where import Where

RULES = "rules"
HUMAN = "human"
IMPORTED = "imported"
# Which answers are ratings, as reports say it.
WHAT_ENTERS = (
    "uncertain and not_applicable of judges and people are labels; where the rules are uncertain "
    "they have not rated; unmeasured verdicts are counted and are no labels"
)
# Behind measures that rate nothing: how windows fit together, and what a judge looked up.
SEAMS, LOOKS = ".seams", ".looks"
# Between the version of a rubric and the mode that it was asked in, where that is another one.
MODE = "+"
# Families whose names are nobody's snapshot: an e-mail address keeps its sign.
_NAMED = frozenset({RULES, HUMAN, IMPORTED})
_PARTS = re.compile(r"\d+|\D+")

# A run's id, and the step, None for the whole run.
Item = tuple[str, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """What one rater said.

    Attributes:
        name: the rater.
        family: its family.
        said: its answers under the latest version of the rubric.
        version: that version.
        before: its answers under the version before, and that version; empty without one.
        snapshots: of the model, as told by the records in `said`.
        prompts: under which these were given.
        silent: answers of the rules that they cannot know.
        left_out: records that are not in `said`, by why.
    """

    name: str
    family: str
    said: dict[Item, Answer]
    version: str
    before: tuple[str, dict[Item, Answer]]
    snapshots: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    silent: int = 0
    left_out: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """One rubric at one granularity: its raters, by family and name, and what runs are called."""

    aspect: str
    unit: Unit
    voices: tuple[Voice, ...]
    names: Mapping[str, str]


def read(rows: Rows, *, where: Where | None = None, rubric: str | None = None) -> list[Rated]:
    """Return every rubric that somebody but the rules rated, by name, whole runs before steps.

    Args:
        rows: a store, or an exported folder.
        where: which runs.
        rubric: a rubric, or a set of them; None for all.
    """
    runs = rows.runs(where)
    names = dict(zip(runs.id.tolist(), runs.name.tolist(), strict=True))
    found = []
    for aspect in aspects(rows.measures(), rubric):
        if aspect == SCORES and rubric is None and _of_one(rows):
            continue
        given = [r for r in rows.records(where, measure=measure_of(aspect)) if r.family != RULES]
        rules = _rules(rows, runs, where, aspect)
        for unit in ("runs", "steps"):
            voices = voices_of([*given, *rules], unit)
            if any(voice.family != RULES and _labelled(voice) for voice in voices):
                found.append(Rated(aspect=aspect, unit=unit, voices=voices, names=names))
    return found


def aspects(measures: Iterable[str], rubric: str | None) -> list[str]:
    """Return the rubrics among the names of measures, the one asked for or those of its set.

    >>> aspects(["judge.axes.termination", "judge.axes.termination.looks", "judge.x.seams"], "axes")
    ['axes.termination']
    """
    kept = [name for name in measures if not name.endswith((ISOLATED, SEAMS, LOOKS))]
    named = [name.removeprefix(PREFIX) for name in kept if name.startswith(PREFIX)]
    named += [SCORES] if SCORES in kept else []
    if rubric is None:
        return sorted(named)
    return sorted(name for name in named if name == rubric or name.startswith(f"{rubric}."))


def _of_one(rows: Rows) -> bool:
    """Tell whether the scores are of one rater: there may be millions, and nothing to compare."""
    return isinstance(rows, Store) and rows.raters(SCORES) < 2


def measure_of(aspect: str) -> str:
    """Return the measure that judges' records of a rubric carry."""
    return aspect if aspect == SCORES else PREFIX + aspect


def voices_of(records: Iterable[Record], unit: Unit) -> tuple[Voice, ...]:
    """Return what each rater said of runs, or of steps: by family and name, the rules last."""
    found = tuple(_voices(record for record in records if _is_rating(record, unit)))
    names = [voice.name for voice in found]
    # A judge that judged here and whose verdicts came from elsewhere too is two raters.
    return tuple(
        replace(voice, name=f"{voice.name} ({voice.family})") if names.count(voice.name) > 1
        else voice
        for voice in found
    )  # fmt: skip


def _is_rating(record: Record, unit: Unit) -> bool:
    answer = record.answer
    if (answer.step is None) != (unit == "runs"):
        return False
    return not isinstance(answer, Verdict) or answer.label is not None or _is_score(answer)


def _is_score(answer: Verdict) -> bool:
    return answer.measure == SCORES and answer.value is not None


def _labelled(voice: Voice) -> bool:
    return any(isinstance(answer, Verdict) for answer in voice.said.values())


def _rules(rows: Rows, runs: Runs, where: Where | None, aspect: str) -> Iterator[Record]:
    """Yield the current records of the rules: of each run those that its column was read from."""
    if aspect == SCORES:
        return
    column: Column | None = None
    at: dict[str, int] = {}
    sets: dict[str, dict[tuple[str, str, str], list[Record]]] = {}
    for record in rows.records(where, measure=aspect):
        if record.family == RULES:
            key = (record.version, record.facts, record.case)
            sets.setdefault(record.trajectory, {}).setdefault(key, []).append(record)
    for run, by_key in sets.items():
        if column is None:
            column = rows.column(aspect, runs)
            at = {id_: place for place, id_ in enumerate(runs.id.tolist())}
        current = [found for found in by_key.values() if _is_current(found, column, at[run])]
        yield from current[-1] if current else ()


def _is_current(records: Iterable[Record], column: Column, at: int) -> bool:
    whole = next((r.answer for r in records if r.answer.step is None), None)
    if not isinstance(whole, Verdict):
        return whole is not None and bool(column.state[at] < 0)
    # A value that is absent is NaN in its column, and equals nothing there.
    same = whole.value is None or whole.value == column.value[at]
    return bool(column.answered[at]) and whole.label == column.label[at] and same


def _voices(records: Iterable[Record]) -> Iterator[Voice]:
    by_rater: dict[tuple[bool, str, str], list[Record]] = {}
    for record in records:
        judge = record.judge
        name = judge if record.family in _NAMED else judge.partition("@")[0]
        key = (record.family == RULES, record.family, name or record.family)
        by_rater.setdefault(key, []).append(record)
    for (_, family, name), given in sorted(by_rater.items()):
        yield _voice(family, name, given)


def _voice(family: str, name: str, given: Iterable[Record]) -> Voice:
    left = {"repeats": 0, "older versions": 0, "variants": 0}
    versions: dict[tuple[str, str], list[Record]] = {}
    silent = 0
    for record in given:
        answer = record.answer
        version, _, mode = record.version.partition(MODE)
        if record.repeat:
            left["repeats"] += 1
        elif family == RULES and isinstance(answer, Verdict) and answer.label == UNCERTAIN:
            silent += 1
        else:
            versions.setdefault((mode, version), []).append(record)
    # Asked as usual; or, never asked so, in the mode that there is.
    usual = min((mode for mode, _ in versions), default="")
    ordered = sorted((v for mode, v in versions if mode == usual), key=natural)
    latest, before = ["", "", *ordered][-1], ["", "", *ordered][-2]
    left["variants"] = sum(len(told) for (mode, _), told in versions.items() if mode != usual)
    left["older versions"] = sum(len(versions[usual, version]) for version in ordered[:-1])
    kept = _latest(versions.get((usual, latest), []))
    marks = {r.judge.partition("@")[2] for r in kept.values()} if family not in _NAMED else set()
    old = _latest(versions.get((usual, before), []))
    return Voice(
        name=name,
        family=family,
        said={item: record.answer for item, record in kept.items()},
        version=latest + (MODE + usual if usual else ""),
        before=(before, {item: record.answer for item, record in old.items()}),
        snapshots=tuple(sorted(marks - {""})),
        prompts=tuple(sorted({record.prompt for record in kept.values()})),
        silent=silent,
        left_out={why: n for why, n in left.items() if n},
    )


def _latest(records: Iterable[Record]) -> dict[Item, Record]:
    """Return what was said of each run under the last prompt and by the last snapshot there."""
    made: dict[str, dict[tuple[str, str], dict[Item, Record]]] = {}
    for record in records:
        told = made.setdefault(record.trajectory, {}).setdefault((record.prompt, record.judge), {})
        item = (record.trajectory, record.answer.step)
        # An answer against a case takes the place of one against none.
        if item not in told or record.case >= told[item].case:
            told[item] = record
    return {item: record for of in made.values() for item, record in of[max(of)].items()}


def natural(version: str) -> list[tuple[int, int, str]]:
    """Return what versions are ordered by: numbers in them count as numbers.

    >>> sorted(["10", "9", "1.2"], key=natural)
    ['1.2', '9', '10']
    """
    return [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in _PARTS.findall(version)]
