"""What judges say of one run: a block of lines for each judge, its faults first, then the rest.

Only what is current is told: the latest version and prompt, the first repeat, the agent's words
left in. A verdict that turns when it is asked again, or without those words, says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from stepscope.judges.patterns import ADVICE, NAMES, Pattern, PatternName, patterns
from stepscope.measures.step_labels import NAME as STEP_LABELS
from stepscope.model import Record, Trajectory, Verdict
from stepscope.report import lines
from stepscope.report.axes import INCORRECT
from stepscope.report.cutting import first_lines
from stepscope.report.keys import AXES
from stepscope.report.panels_patterns import of_agent
from stepscope.report.panels_types import words
from stepscope.report.panels_votes import PRESENT, word
from stepscope.report.text import fold
from stepscope.safety.text import visible_line
from stepscope.store.judged import Asked, asked, current, mains
from stepscope.store.scores import MEASURE as SCORES

# Lines that the evidence of one verdict may take, and steps named of it.
EVIDENCE_LINES, MOST_CITES = 2, 8
AGAIN, SILENT = "turns when asked again", "turns without the agent's words"
# Step labels that speak against the agent, the gravest first.
ABSENT = "absent"
AGAINST = ("ERROR", "REDUNDANT", "DETOUR")


class Told(NamedTuple):
    """A current record of a judge: who was asked what, and what turns the answer, if anything."""

    asked: Asked
    record: Record
    turns: tuple[str, ...] = ()


def told(records: Iterable[Record]) -> list[Told]:
    """Return what judges say of one run, by judge, measure and step; what rules say is left out."""
    held: list[tuple[Asked, Record]] = []
    labels: dict[tuple[str, str, int | None], dict[tuple[str, int], str]] = {}
    for record in current(records):
        key = asked(record)
        if key is None:
            continue
        held.append((key, record))
        answer = record.answer
        if isinstance(answer, Verdict) and answer.label is not None:
            place = (key.judge, key.measure, answer.step)
            labels.setdefault(place, {})[key.mode, record.repeat] = answer.label
    first = mains(key for key, _ in held)
    found = []
    for key, record in held:
        if key in first and not record.repeat:
            given = labels.get((key.judge, key.measure, record.answer.step), {})
            found.append(Told(key, record, tuple(_turns(given, key.mode))))
    return sorted(found, key=_order)


def _order(one: Told) -> tuple[str, int, str, int]:
    axes = list(AXES)
    measure, step = one.asked.measure, one.record.answer.step
    place = axes.index(measure) if measure in AXES else len(axes)
    return one.asked.judge, place, measure, -1 if step is None else step


def _turns(labels: dict[tuple[str, int], str], own: str) -> Iterator[str]:
    if len({label for (mode, _), label in labels.items() if mode == own}) > 1:
        yield AGAIN
    if len({label for (_, repeat), label in labels.items() if not repeat}) > 1:
        yield SILENT


def seen(
    trajectory: Trajectory, records: Sequence[Record]
) -> dict[str, dict[PatternName, tuple[Pattern, ...]]]:
    """Return the patterns of a run that are there, by the judge whose labels make them."""
    by_judge: dict[str, list[Record]] = {}
    for one in told(records):
        if one.asked.measure == STEP_LABELS:
            by_judge.setdefault(one.asked.judge, []).append(one.record)
    passed = {"pass": True, "fail": False}.get(trajectory.outcome.status)
    found = {}
    for judge, labelled in by_judge.items():
        answers = [record.answer for record in labelled if record.answer.step is not None]
        all_ = patterns(answers, of_agent(trajectory), passed=passed)
        found[judge] = {n: of for n in NAMES if isinstance(of := all_[n], tuple) and of}
    return found


def told_once(found: Sequence[Pattern]) -> str:
    """Return why a pattern is seen: of its first place, and how many there are."""
    more = "" if len(found) == 1 else f" (the first of {len(found)})"
    return f"{found[0].reason}{more}"


def judge_lines(trajectory: Trajectory, records: Sequence[Record], width: int) -> list[str]:
    """Return what judges say of a run as lines; none where no judge was asked."""
    by_judge: dict[str, list[Told]] = {}
    for one in told(records):
        by_judge.setdefault(one.asked.judge, []).append(one)
    marked = seen(trajectory, records) if by_judge else {}
    out: list[str] = []
    for judge, all_ in by_judge.items():
        out += fold(f"Verdicts ({visible_line(judge)})", width, 2)
        for said in _said(all_):
            out += first_lines(fold("  " + visible_line(said), width, 6), EVIDENCE_LINES, width)
        for name, found in marked.get(judge, {}).items():
            where = _cited([pattern.step for pattern in found])
            said = f"  {name.replace('_', ' ')}{where}: {told_once(found)}. {ADVICE[name]}"
            out += fold(said, width, 6)
    return out


def _said(all_: Sequence[Told]) -> Iterator[str]:
    """Yield what one judge says, a line a fault; answers without one share lines."""
    rest: dict[str, list[str]] = {}
    steps: dict[str, dict[str, list[Told]]] = {}
    for one in all_:
        answer, name = one.record.answer, words(one.asked.measure)
        if not isinstance(answer, Verdict):
            if answer.step is None:
                rest.setdefault(word(answer.reason, answer.kind), []).append(name)
        elif answer.step is not None:
            label = answer.label or ""
            steps.setdefault(one.asked.measure, {}).setdefault(label, []).append(one)
        elif answer.label is not None and (_grave(answer.label) or one.turns):
            yield f"{name} {_verdict(answer)}{_marks(one.turns)}{_why(answer)}"
        elif answer.label is not None:
            rest.setdefault(answer.label, []).append(name)
    for measure, labels in steps.items():
        yield f"{words(measure)}: {_labelled(measure, labels)}"
    if rest:
        yield " · ".join(f"{label}: {', '.join(names)}" for label, names in sorted(rest.items()))


def _grave(label: str) -> bool:
    """Whether a label has something to say: any but the answers that find nothing amiss."""
    return label not in ("correct", "uncertain", "not_applicable")


def _verdict(answer: Verdict) -> str:
    sure = "" if answer.confidence is None else f" {lines.score(answer.confidence)}"
    return f"{answer.label}{sure}{_cited(answer.cites)}"


def _why(answer: Verdict) -> str:
    return f": {answer.reason}" if answer.reason else ""


def _cited(cites: Collection[int]) -> str:
    if not cites:
        return ""
    shown = " ".join(map(str, list(cites)[:MOST_CITES]))
    return f" [{shown}{' ...' if len(cites) > MOST_CITES else ''}]"


def _marks(turns: Sequence[str]) -> str:
    return f" ({', '.join(turns)})" if turns else ""


def _labelled(measure: str, labels: dict[str, list[Told]]) -> str:
    if measure == SCORES:
        values = [v for all_ in labels.values() for one in all_ if (v := _value(one)) is not None]
        low, high = min(values, default=0.0), max(values, default=0.0)
        return f"{len(values)} steps scored, {lines.score(low)} to {lines.score(high)}"
    told_of = [*AGAINST, PRESENT]
    said = [f"{label}{_cited(_steps(labels[label]))}" for label in told_of if label in labels]
    said += [f"{len(all_)} {label}" for label, all_ in labels.items() if label not in told_of]
    turned = [one for all_ in labels.values() for one in all_ if one.turns]
    if turned:
        said.append(f"turning{_cited(_steps(turned))}")
    return " · ".join(said)


def _steps(all_: Sequence[Told]) -> list[int]:
    return [one.record.answer.step for one in all_ if one.record.answer.step is not None]


def _value(one: Told) -> float | None:
    answer = one.record.answer
    return answer.value if isinstance(answer, Verdict) else None


def at_step(records: Sequence[Record], step: int, width: int) -> list[str]:
    """Return what judges say of one step, whole, and which of their verdicts rest on it."""
    out: list[str] = []
    for one in told(records):
        answer = one.record.answer
        if not isinstance(answer, Verdict):
            continue
        name = f"{one.asked.judge}: {words(one.asked.measure)}"
        if answer.step == step and answer.label != ABSENT:
            value = "" if answer.value is None else f" {lines.score(answer.value)}"
            said = f"{name} {answer.label or 'score'}{value}{_marks(one.turns)}{_why(answer)}"
        elif answer.step is None and answer.label == INCORRECT and step in answer.cites:
            said = f"{name} {_verdict(answer)}{_marks(one.turns)}{_why(answer)}"
        else:
            continue
        out += fold(visible_line(said), width, 10)
    return out
