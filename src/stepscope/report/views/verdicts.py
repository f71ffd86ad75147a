"""The verdicts about one run, by rules, judges and people: a table, remarks by step, and text.

Verdicts are not merged. Of a judge only current answers are listed; repeats and other modes appear
only where they change the answer. A step has the colour of the gravest verdict about it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stepscope.judges.patterns import PATTERN_ADVICE
from stepscope.model import Case, Record, Trajectory, Verdict
from stepscope.model.records import HUMAN
from stepscope.model.records import STEP_SCORES as SCORES
from stepscope.report import votes
from stepscope.report.curves import make_curve
from stepscope.report.document import Tone, verdict_anchor
from stepscope.report.evidence import add_curve_suspects, list_suspects, read_shown_run
from stepscope.report.formatting import (
    AXES,
    INCORRECT,
    cut_words,
    fold,
    format_score,
    keep_first_lines,
    name_rubric,
    shorten_names,
)
from stepscope.report.rows import RuleFindings, sort_findings
from stepscope.report.types import Curve, SuspectKind, SuspectSteps
from stepscope.report.votes import (
    PRESENT,
    CurrentAnswer,
    classify_absence,
    describe_pattern,
    find_patterns,
    select_current,
)
from stepscope.safety.text import visible_line
from stepscope.store import Store
from stepscope.store.judged import current_records, question_of_record
from stepscope.values import Unmeasured

# Lines that the evidence of one verdict may take, and steps named of it.
VERDICT_LINES, VERDICT_CITES = 2, 8


# Step labels that speak against the agent, the gravest first.
ABSENT = "absent"
AGAINST = ("ERROR", "REDUNDANT", "DETOUR")


def describe_judges(trajectory: Trajectory, records: Sequence[Record], width: int) -> list[str]:
    """Return what judges say of a run as lines; none where no judge was asked."""
    by_judge: dict[str, list[CurrentAnswer]] = {}
    for one in select_current(records):
        by_judge.setdefault(one.asked.judge, []).append(one)
    marked = find_patterns(trajectory, records) if by_judge else {}
    out: list[str] = []
    for judge, all_ in by_judge.items():
        out += fold(f"Verdicts ({visible_line(judge)})", width, 2)
        for said in _said(all_):
            out += keep_first_lines(fold("  " + visible_line(said), width, 6), VERDICT_LINES, width)
        for name, found in marked.get(judge, {}).items():
            where = _bracket_steps([pattern.step for pattern in found])
            said = (
                f"  {name.replace('_', ' ')}{where}: {describe_pattern(found)}. "
                f"{PATTERN_ADVICE[name]}"
            )
            out += fold(said, width, 6)
    return out


def _said(all_: Sequence[CurrentAnswer]) -> Iterator[str]:
    """Yield what one judge says, a line a fault; answers without one share lines."""
    rest: dict[str, list[str]] = {}
    steps: dict[str, dict[str, list[CurrentAnswer]]] = {}
    for one in all_:
        answer, name = one.record.answer, name_rubric(one.asked.measure)
        if not isinstance(answer, Verdict):
            if answer.step is None:
                rest.setdefault(classify_absence(answer.reason, answer.kind), []).append(name)
        elif answer.step is not None:
            label = answer.label or ""
            steps.setdefault(one.asked.measure, {}).setdefault(label, []).append(one)
        elif answer.label is not None and (
            (answer.label not in ("correct", "uncertain", "not_applicable")) or one.turns
        ):
            yield f"{name} {_verdict(answer)}{_marks(one.turns)}{_why(answer)}"
        elif answer.label is not None:
            rest.setdefault(answer.label, []).append(name)
    for measure, labels in steps.items():
        yield f"{name_rubric(measure)}: {_labelled(measure, labels)}"
    if rest:
        yield " · ".join(f"{label}: {', '.join(names)}" for label, names in sorted(rest.items()))


def _verdict(answer: Verdict) -> str:
    sure = "" if answer.confidence is None else f" {format_score(answer.confidence)}"
    return f"{answer.label}{sure}{_bracket_steps(answer.cites)}"


def _why(answer: Verdict) -> str:
    return f": {answer.reason}" if answer.reason else ""


def _bracket_steps(cites: Collection[int]) -> str:
    if not cites:
        return ""
    shown = " ".join(map(str, list(cites)[:VERDICT_CITES]))
    return f" [{shown}{' ...' if len(cites) > VERDICT_CITES else ''}]"


def _marks(turns: Sequence[str]) -> str:
    return f" ({', '.join(turns)})" if turns else ""


def _labelled(measure: str, labels: dict[str, list[CurrentAnswer]]) -> str:
    if measure == SCORES:
        values = [v for all_ in labels.values() for one in all_ if (v := _value(one)) is not None]
        low, high = min(values, default=0.0), max(values, default=0.0)
        return f"{len(values)} steps scored, {format_score(low)} to {format_score(high)}"
    told_of = [*AGAINST, PRESENT]
    said = [
        f"{label}{_bracket_steps(_steps(labels[label]))}" for label in told_of if label in labels
    ]
    said += [f"{len(all_)} {label}" for label, all_ in labels.items() if label not in told_of]
    turned = [one for all_ in labels.values() for one in all_ if one.turns]
    if turned:
        said.append(f"turning{_bracket_steps(_steps(turned))}")
    return " · ".join(said)


def _steps(all_: Sequence[CurrentAnswer]) -> list[int]:
    return [one.record.answer.step for one in all_ if one.record.answer.step is not None]


def _value(one: CurrentAnswer) -> float | None:
    answer = one.record.answer
    return answer.value if isinstance(answer, Verdict) else None


def describe_judges_at(records: Sequence[Record], step: int, width: int) -> list[str]:
    """Return what judges say of one step, whole, and which of their verdicts rest on it."""
    out: list[str] = []
    for one in select_current(records):
        answer = one.record.answer
        if not isinstance(answer, Verdict):
            continue
        name = f"{one.asked.judge}: {name_rubric(one.asked.measure)}"
        if answer.step == step and answer.label != ABSENT:
            value = "" if answer.value is None else f" {format_score(answer.value)}"
            said = f"{name} {answer.label or 'score'}{value}{_marks(one.turns)}{_why(answer)}"
        elif answer.step is None and answer.label == INCORRECT and step in answer.cites:
            said = f"{name} {_verdict(answer)}{_marks(one.turns)}{_why(answer)}"
        else:
            continue
        out += fold(visible_line(said), width, 10)
    return out


# Lines of evidence an axis may take.
AXIS_LINES = 2
# Steps named of one axis; its records hold all.
AXIS_CITES = 8


def note_axis_faults(found: RuleFindings) -> dict[int, str]:
    """Return, by step, the axes that are at fault there; those it cites where it names no step."""
    out: dict[int, list[str]] = {}
    for key, name in AXES.items():
        faults = [v for v in found.by_step.get(key, ()) if v.label == INCORRECT]
        steps = [v.step for v in faults if v.step is not None] or _fault_cites(found.whole.get(key))
        for step in dict.fromkeys(steps):
            out.setdefault(step, []).append(name)
    return {step: ", ".join(names) for step, names in out.items()}


def _fault_cites(verdict: Verdict | None) -> list[int]:
    return list(verdict.cites) if verdict is not None and verdict.label == INCORRECT else []


def describe_axes(found: RuleFindings, width: int) -> list[str]:
    """Return the verdicts of the axes as lines; none where no axis has a record."""
    out: list[str] = []
    others: dict[str, list[str]] = {}
    for key, name in AXES.items():
        verdict, absent = found.whole.get(key), found.absent.get(key)
        if verdict is not None and verdict.label == INCORRECT:
            cites = " ".join(map(str, verdict.cites[:AXIS_CITES]))
            more = " ..." if len(verdict.cites) > AXIS_CITES else ""
            said = f"{_head(out)}{name} incorrect [{cites}{more}]: {verdict.reason}"
            out += keep_first_lines(fold(visible_line(said), width, 10), AXIS_LINES, width)
        elif verdict is not None:
            others.setdefault(str(verdict.label), []).append(name)
        elif absent is not None:
            others.setdefault(absent.kind.replace("_", " "), []).append(name)
        else:
            others.setdefault("not scored", []).append(name)
    if not out and set(others) == {"not scored"}:
        return []
    order = sorted(others, key=lambda label: (label != "uncertain", label == "not scored", label))
    rest = " · ".join(f"{label}: {', '.join(others[label])}" for label in order)
    return out + (fold(_head(out) + visible_line(rest), width, 10) if rest else [])


def describe_axes_at(found: RuleFindings, step: int, width: int) -> list[str]:
    """Return what the axes say against one step, whole."""
    out: list[str] = []
    for key, name in AXES.items():
        for verdict in found.by_step.get(key, ()):
            if verdict.label == INCORRECT and step in (verdict.step, *verdict.cites):
                said = f"{_head(out)}{name} incorrect at {verdict.step}: {verdict.reason}"
                out += fold(visible_line(said), width, 10)
    return out


def _head(before: list[str]) -> str:
    return f"{'' if before else 'Axes':<10}"


# How a step is marked when a suspect of this kind begins there; the evidence stands below the run.
MARKS: dict[SuspectKind, tuple[str, str]] = {
    "break": ("!", "scores fall"),
    "gate": ("!", "below the gate"),
    "violation": ("!", "breaks a rule"),
    "error": ("!", ""),
    "loop": ("!", ""),
    "other_write": ("!", "no sub-goal asks for it"),
    "missed": ("?", "not what a sub-goal asks"),
    "repeat": ("?", "answered before"),
    "untold": ("?", "an output is never told"),
    "end": ("?", "ends here"),
    "localised": ("?", ""),
}


class StepMark(NamedTuple):
    """What the rules say about a step: the sign before it and the remark behind it."""

    sign: str
    remark: str


UNMARKED = StepMark("", "")


def mark_steps(
    trajectory: Trajectory, found: RuleFindings, marked: Sequence[SuspectSteps]
) -> dict[int, StepMark]:
    """Return, by step, what the rules say of it: the sign before it and the remark behind it."""
    marks: dict[int, StepMark] = {}
    for suspect in reversed(marked):
        sign, remark = MARKS[suspect.kind]
        marks[suspect.first] = StepMark(sign, remark)
    at_fault = note_axis_faults(found)
    for step, axes in at_fault.items():
        if not (step in marks and marks[step].sign == "!" and marks[step].remark):
            marks[step] = StepMark("!", axes)
    failed: dict[str, int] = {}
    for exchange in trajectory.exchanges:
        if exchange.failed:
            before = failed.get(exchange.key)
            axes = marks[exchange.step].remark if exchange.step in at_fault else ""
            marks[exchange.step] = StepMark(
                "!", axes if before is None else f"repeats failed {before}"
            )
            failed.setdefault(exchange.key, exchange.step)
    for step, rule in found.labels("policy").items():
        marks[step] = StepMark("!", f"breaks the rule {rule!r}")
    return marks


@dataclass(frozen=True, slots=True, kw_only=True)
class RunData:
    """A run, what it is measured against, what was said of it, and where to look."""

    trajectory: Trajectory
    case: Case | None
    records: tuple[Record, ...]
    curve: Curve | Unmeasured
    found: RuleFindings  # the rules' records, sorted
    suspects: tuple[SuspectSteps, ...]  # where it may have broken, most telling first
    marks: dict[int, StepMark]  # by step, the sign and the remark of the rules


def read_run(store: Store, run: str) -> RunData:
    """Return a run of the store by id, unique start of an id, or name.

    Raises:
        StoreError: its texts were purged.
        UsageError: no such run, or several.
    """
    trajectory, case, records = read_shown_run(store, run)
    found = sort_findings(records)
    drawn = make_curve(trajectory, records, noise=store.noise(), weights=store.weights())
    marked = add_curve_suspects(drawn, list_suspects(trajectory, case, records))
    return RunData(
        trajectory=trajectory,
        case=case,
        records=tuple(records),
        curve=drawn,
        found=found,
        suspects=marked,
        marks=mark_steps(trajectory, found, marked),
    )


# Verdicts of one run that a page lists; the rest are counted, and `show --json` has all.
MOST_VERDICTS = 400
# Steps that one verdict's row names.
NAMED_STEPS = 12
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
ABSENT_LABEL = "absent"


class ShownVerdict(NamedTuple):
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
class RunVerdictRow:
    """One verdict: who says what of which steps, and why."""

    anchor: str
    judge: str
    measure: str
    at: int | None
    label: str
    value: str
    cites: tuple[int, ...]
    more: int
    reason: str
    category: str
    tone: Tone


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternView:
    """A pattern of step labels: by whose, where, why, and what to do about it."""

    name: str
    judge: str
    cites: tuple[int, ...]
    reason: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdicts:
    """Everything said of a run, by row and by step."""

    rows: tuple[RunVerdictRow, ...]  # verdicts, those that speak of steps or faults first
    left: int  # how many were not listed
    # measures without an answer, by who, kind and reason
    unmeasured: tuple[tuple[str, str, str], ...]
    chips: dict[int, tuple[Chip, ...]]  # remarks by step
    categories: dict[int, str]  # the gravest category by step
    # category by step for each judge, in the order of the strip
    by_judge: dict[str, dict[int, str]]
    labels: dict[int, tuple[str, ...]]  # what people said, by step
    patterns: tuple[PatternView, ...] = ()  # what the labels of steps look like together

    def at(self, step: int) -> tuple[Chip, ...]:
        """Return the remarks on one step."""
        return self.chips.get(step, ())


def collect_verdicts(data: RunData) -> RunVerdicts:
    """Sort what was said of a run."""
    answered = list(_answered(data.records))
    answered.sort(key=_order)
    shown = answered[:MOST_VERDICTS]
    rows = tuple(_row(data.trajectory.id, at, one) for at, one in enumerate(shown))
    by_judge: dict[str, dict[int, str]] = {}
    for one in answered:
        for step in _speaks_of(one.verdict):
            category = _category(one.verdict)
            if category:
                steps = by_judge.setdefault(one.lane, {})
                steps[step] = _gravest(steps.get(step, ""), category)
    categories: dict[int, str] = {}
    for suspect in data.suspects:
        for step in range(suspect.first, min(suspect.last, suspect.first + MOST_VERDICTS) + 1):
            categories.setdefault(step, "suspect")
    for steps in by_judge.values():
        for step, category in steps.items():
            categories[step] = _gravest(categories.get(step, ""), category)
    return RunVerdicts(
        rows=rows,
        left=len(answered) - len(shown),
        unmeasured=tuple(_absent(list(current_records(data.records)))),
        chips=_chips(shown, rows),
        categories=categories,
        by_judge=by_judge,
        labels=_people(data),
        patterns=tuple(_patterns(data)),
    )


def _answered(records: Sequence[Record]) -> Iterator[ShownVerdict]:
    """Yield the verdicts that a page tells, those of judges only where they are current."""
    judges = select_current(records)
    names = {one.asked.judge: one.asked.family for one in judges}
    short = shorten_names(names)
    turns = {id(one.record): one.turns for one in judges}
    for record in records:
        answer, key = record.answer, question_of_record(record)
        # A number about a step is a point of a curve, not a remark.
        if not isinstance(answer, Verdict) or (record.family == HUMAN and key is None):
            continue
        if answer.step is not None and answer.label is None:
            continue
        if key is None:
            called = AXES.get(answer.measure, answer.measure)
            yield ShownVerdict(record, answer, record.family, called)
        elif id(record) in turns:
            called = name_rubric(key.measure)
            alone = list(names.values()).count(key.family) == 1
            lane = key.family if alone else short[key.judge]
            yield ShownVerdict(record, answer, lane, called, turns[id(record)])


def _patterns(data: RunData) -> Iterator[PatternView]:
    for judge, by_name in votes.find_patterns(data.trajectory, data.records).items():
        for name, found in by_name.items():
            cites = dict.fromkeys(step for pattern in found for step in pattern.cites)
            yield PatternView(
                name=name.replace("_", " "),
                judge=judge,
                cites=tuple(cites)[:NAMED_STEPS],
                reason=votes.describe_pattern(found),
                advice=PATTERN_ADVICE[name],
            )


def _order(answered: ShownVerdict) -> tuple[bool, bool, int, str, str]:
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


def _row(run: str, at: int, answered: ShownVerdict) -> RunVerdictRow:
    record, answer = answered.record, answered.verdict
    category = _category(answer)
    return RunVerdictRow(
        anchor=verdict_anchor(run, at),
        judge=name_judge(record),
        measure=answered.called,
        at=answer.step,
        label=", ".join([answer.label or "", *answered.turns]),
        value="" if answer.value is None else f"{answer.value:.3g}",
        cites=answer.cites[:NAMED_STEPS],
        more=max(len(answer.cites) - NAMED_STEPS, 0),
        reason=answer.reason,
        category=category,
        tone="bad" if category in ("error", "fault") else "",
    )


def name_judge(record: Record) -> str:
    """Return who says so: the family, and the model where one is named.

    A model of a provider of its family's name says both by itself.
    """
    if record.judge.startswith(f"{record.family}/"):
        return record.judge
    return f"{record.family}: {record.judge}" if record.judge else record.family


def _chips(
    answered: Sequence[ShownVerdict], rows: Sequence[RunVerdictRow]
) -> dict[int, tuple[Chip, ...]]:
    """Return what is said of each step, then what cites it.

    A verdict that cites most of a run points at nothing, a bare number says nothing, and what sums
    up verdicts about steps adds nothing to them: none is a remark on a step.
    """
    found: dict[int, dict[str, Chip]] = {}
    answers = [one.verdict for one in answered]
    of_step = {(answer.measure, answer.step) for answer in answers if answer.step is not None}
    for answer, row in zip(answers, rows, strict=True):
        about = _speaks_of(answer)
        telling = bool(answer.reason or answer.label) and len(answer.cites) <= NAMED_STEPS
        cited = answer.cites if telling else ()
        # That a behaviour does not show at a step is no remark on it.
        for step in dict.fromkeys((*about, *cited)) if answer.label != ABSENT_LABEL else ():
            summed = any(answer.measure.startswith(name) for name, at in of_step if at == step)
            if step in about or not summed:
                chip = _chip(row, step in about)
                found.setdefault(step, {}).setdefault(chip.text, chip)
    return {step: tuple(chips.values())[:MOST_CHIPS] for step, chips in found.items()}


def _chip(row: RunVerdictRow, about: bool) -> Chip:
    said = f"{row.measure}: {row.label or row.value}" if about else f"cited by {row.measure}"
    return Chip(
        text=said if row.judge == "rules" else f"{said} ({row.judge})",
        title=cut_words(row.reason, REASON),
        category=row.category if about else "",
        href=f"#{row.anchor}",
    )


def _absent(records: Sequence[Record]) -> Iterator[tuple[str, str, str]]:
    seen: dict[tuple[str, str], list[str]] = {}
    for record in records:
        answer = record.answer
        if isinstance(answer, Unmeasured) and answer.step is None:
            key = (name_judge(record), f"{answer.kind}: {answer.reason}")
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
