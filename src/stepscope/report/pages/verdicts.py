"""What was said of a run, by whom: a table whose rows cite steps, and chips that lead back.

Verdicts of rules, of judges of any family and labels of people stand side by side; nothing is
merged. Of a judge its current answers are told, its repeats and other modes only where they turn
them. The colour of a step's edge is that of the gravest thing said of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stepscope.judges.patterns import ADVICE
from stepscope.model import Record, Verdict
from stepscope.report import panels_profile, panels_run
from stepscope.report.axes import INCORRECT
from stepscope.report.cutting import cut
from stepscope.report.keys import AXES
from stepscope.report.pages.links import verdict_anchor
from stepscope.report.pages.page import Tone
from stepscope.report.pages.run_data import RunData
from stepscope.report.panels_run import told
from stepscope.report.panels_types import words
from stepscope.report.panels_votes import PRESENT
from stepscope.store.judged import asked, current
from stepscope.values import Unmeasured

# Verdicts of one run that a page lists; the rest are counted, and `show --json` has all.
MOST = 400
# Steps that one verdict's row names.
NAMED = 12
# Chips under one step: what speaks of it first, then what cites it.
MOST_CHIPS = 8
# Characters of a reason that a chip tells; its row has all of it.
REASON = 90
# The gravest first: what a step's edge is coloured by.
CATEGORIES = ("error", "fault", "redundant", "detour", "suspect", "progress")
_LABELS = {
    "ERROR": "error",
    "REDUNDANT": "redundant",
    "DETOUR": "detour",
    "PROGRESS": "progress",
    INCORRECT: "fault",
    PRESENT: "fault",
}
PEOPLE = "human"
ABSENT = "absent"
# The address of a step; None where the page does not hold it.
To = Callable[[int], str | None]


class Answered(NamedTuple):
    """A record and its verdict, what it is called, and what turns it."""

    record: Record
    verdict: Verdict
    lane: str
    called: str
    turns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One remark on a step: who, what, and the row that says why."""

    text: str
    title: str
    category: str
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A step that a verdict points at."""

    step: int
    href: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRow:
    """One verdict: who says what of which steps, and why."""

    anchor: str
    judge: str
    measure: str
    at: Citation | None
    label: str
    value: str
    cites: tuple[Citation, ...]
    more: int
    reason: str
    category: str
    tone: Tone


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternView:
    """A pattern of step labels: by whose, where, why, and what to do about it."""

    name: str
    judge: str
    cites: tuple[Citation, ...]
    reason: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Everything said of a run, by row and by step.

    Attributes:
        rows: verdicts, those that speak of steps or faults first.
        left: how many were not listed.
        unmeasured: measures without an answer, by who, kind and reason.
        chips: remarks by step.
        categories: the gravest category by step.
        by_judge: category by step for each judge, in the order of the strip.
        labels: what people said, by step.
        patterns: what the labels of steps look like together.
    """

    rows: tuple[VerdictRow, ...]
    left: int
    unmeasured: tuple[tuple[str, str, str], ...]
    chips: dict[int, tuple[Chip, ...]]
    categories: dict[int, str]
    by_judge: dict[str, dict[int, str]]
    labels: dict[int, tuple[str, ...]]
    patterns: tuple[PatternView, ...] = ()

    def at(self, step: int) -> tuple[Chip, ...]:
        """Return the remarks on one step."""
        return self.chips.get(step, ())


def said(data: RunData, to: To) -> Said:
    """Sort what was said of a run; `to` gives the address of a step."""
    answered = list(_answered(data.records))
    answered.sort(key=_order)
    shown = answered[:MOST]
    rows = tuple(_row(data.trajectory.id, at, one, to) for at, one in enumerate(shown))
    by_judge: dict[str, dict[int, str]] = {}
    for one in answered:
        for step in _speaks_of(one.verdict):
            category = _category(one.verdict)
            if category:
                steps = by_judge.setdefault(one.lane, {})
                steps[step] = _gravest(steps.get(step, ""), category)
    categories: dict[int, str] = {}
    for suspect in data.suspects:
        for step in range(suspect.first, min(suspect.last, suspect.first + MOST) + 1):
            categories.setdefault(step, "suspect")
    for steps in by_judge.values():
        for step, category in steps.items():
            categories[step] = _gravest(categories.get(step, ""), category)
    return Said(
        rows=rows,
        left=len(answered) - len(shown),
        unmeasured=tuple(_absent(list(current(data.records)))),
        chips=_chips(shown, rows),
        categories=categories,
        by_judge=by_judge,
        labels=_people(data),
        patterns=tuple(_patterns(data, to)),
    )


def _answered(records: Sequence[Record]) -> Iterator[Answered]:
    """Yield the verdicts that a page tells, those of judges only where they are current."""
    judges = told(records)
    names = {one.asked.judge: one.asked.family for one in judges}
    short = panels_profile.called(names)
    turns = {id(one.record): one.turns for one in judges}
    for record in records:
        answer, key = record.answer, asked(record)
        # A number about a step is a point of a curve, not a remark.
        if not isinstance(answer, Verdict) or (record.family == PEOPLE and key is None):
            continue
        if answer.step is not None and answer.label is None:
            continue
        if key is None:
            called = AXES.get(answer.measure, answer.measure)
            yield Answered(record, answer, record.family, called)
        elif id(record) in turns:
            called = words(key.measure)
            alone = list(names.values()).count(key.family) == 1
            lane = key.family if alone else short[key.judge]
            yield Answered(record, answer, lane, called, turns[id(record)])


def _patterns(data: RunData, to: To) -> Iterator[PatternView]:
    for judge, by_name in panels_run.seen(data.trajectory, data.records).items():
        for name, found in by_name.items():
            cites = dict.fromkeys(step for pattern in found for step in pattern.cites)
            yield PatternView(
                name=name.replace("_", " "),
                judge=judge,
                cites=tuple(Citation(step=s, href=to(s)) for s in list(cites)[:NAMED]),
                reason=panels_run.told_once(found),
                advice=ADVICE[name],
            )


def _order(answered: Answered) -> tuple[bool, bool, int, str, str]:
    record, answer = answered.record, answered.verdict
    step = -1 if answer.step is None else answer.step
    return (not _category(answer), not answer.cites, step, answer.measure, record.family)


def _speaks_of(answer: Verdict) -> tuple[int, ...]:
    """Return the step a verdict is about; of one about the run, the steps it faults."""
    if answer.step is not None:
        return (answer.step,)
    return answer.cites if answer.label == INCORRECT else ()


def _category(answer: Verdict) -> str:
    if answer.measure == "localise" and answer.step is not None:
        return "suspect"
    if answer.measure == "policy" and answer.step is not None:
        return "error"
    return _LABELS.get(answer.label or "", "")


def _gravest(one: str, other: str) -> str:
    return next((c for c in CATEGORIES if c in (one, other)), one or other)


def _row(run: str, at: int, answered: Answered, to: To) -> VerdictRow:
    record, answer = answered.record, answered.verdict
    category = _category(answer)
    return VerdictRow(
        anchor=verdict_anchor(run, at),
        judge=judge_of(record),
        measure=answered.called,
        at=None if answer.step is None else Citation(step=answer.step, href=to(answer.step)),
        label=", ".join([answer.label or "", *answered.turns]),
        value="" if answer.value is None else f"{answer.value:.3g}",
        cites=tuple(Citation(step=s, href=to(s)) for s in answer.cites[:NAMED]),
        more=max(len(answer.cites) - NAMED, 0),
        reason=answer.reason,
        category=category,
        tone="bad" if category in ("error", "fault") else "",
    )


def judge_of(record: Record) -> str:
    """Return who says so: the family, and the model where one is named.

    A model of a provider of its family's name says both by itself.
    """
    if record.judge.startswith(f"{record.family}/"):
        return record.judge
    return f"{record.family}: {record.judge}" if record.judge else record.family


def _chips(answered: Sequence[Answered], rows: Sequence[VerdictRow]) -> dict[int, tuple[Chip, ...]]:
    """Return what is said of each step, then what cites it.

    A verdict that cites most of a run points at nothing, a bare number says nothing, and what sums
    up verdicts about steps adds nothing to them: none is a remark on a step.
    """
    found: dict[int, dict[str, Chip]] = {}
    answers = [one.verdict for one in answered]
    of_step = {(answer.measure, answer.step) for answer in answers if answer.step is not None}
    for answer, row in zip(answers, rows, strict=True):
        about = _speaks_of(answer)
        telling = bool(answer.reason or answer.label) and len(answer.cites) <= NAMED
        cited = answer.cites if telling else ()
        # That a behaviour does not show at a step is no remark on it.
        for step in dict.fromkeys((*about, *cited)) if answer.label != ABSENT else ():
            summed = any(answer.measure.startswith(name) for name, at in of_step if at == step)
            if step in about or not summed:
                chip = _chip(row, step in about)
                found.setdefault(step, {}).setdefault(chip.text, chip)
    return {step: tuple(chips.values())[:MOST_CHIPS] for step, chips in found.items()}


def _chip(row: VerdictRow, about: bool) -> Chip:
    said = f"{row.measure}: {row.label or row.value}" if about else f"cited by {row.measure}"
    return Chip(
        text=said if row.judge == "rules" else f"{said} ({row.judge})",
        title=cut(row.reason, REASON),
        category=row.category if about else "",
        href=f"#{row.anchor}",
    )


def _absent(records: Sequence[Record]) -> Iterator[tuple[str, str, str]]:
    seen: dict[tuple[str, str], list[str]] = {}
    for record in records:
        answer = record.answer
        if isinstance(answer, Unmeasured) and answer.step is None:
            key = (judge_of(record), f"{answer.kind}: {answer.reason}")
            seen.setdefault(key, []).append(answer.measure)
    for (judge, why), names in seen.items():
        yield judge, why, ", ".join(sorted(names))


def _people(data: RunData) -> dict[int, tuple[str, ...]]:
    found: dict[int, list[str]] = {}
    for label in data.trajectory.labels:
        where = -1 if label.step is None else label.step
        parts = [label.annotator, label.kind.replace("_", " "), label.category or "", label.reason]
        found.setdefault(where, []).append(": ".join(part for part in parts if part))
    return {step: tuple(texts) for step, texts in found.items()}
