"""A run as lines: one a step, marks where the rules found something, the verdicts below.

Every text of the trace is made visible (no escape sequence acts) and cut to the width. Marks: `!`
fails, breaks a rule, or writes what nothing asked for; `?` asks again what was answered, or is
another suspect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from stepscope.model import SCORES, Case, Exchange, Record, Step, ToolResult, Trajectory
from stepscope.report.calls import words
from stepscope.report.curve_suspects import with_curve
from stepscope.report.curve_text import curve_lines
from stepscope.report.curve_types import Curve
from stepscope.report.cutting import first_lines
from stepscope.report.findings import Findings, findings
from stepscope.report.panels_run import judge_lines
from stepscope.report.run_axes import axis_lines, remarks
from stepscope.report.suspects import suspects
from stepscope.report.text import clip, fold
from stepscope.report.types import Suspect, SuspectKind
from stepscope.safety.text import visible_line
from stepscope.values import Unmeasured

# Steps shown before the first mark, so that what led to it can be read.
LEAD_IN = 2
# A remark on the right keeps at least this much of the line for the call itself.
REMARK_WIDTH = 46
STATUS = {"ok": "  ok", "error": " err", "unknown": "   ?"}
# Lines of evidence a suspect may take; the step itself says the rest.
EVIDENCE_LINES = 3
# Suspects named below a run.
MOST_SUSPECTS = 8
VERDICTS = {
    "policy": "violations",
    "errors": "errors",
    "redundant_calls": "repeats",
    "subgoals.other_writes": "unasked writes",
    "loops": "loops",
    "termination": "ends badly",
}


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


class Mark(NamedTuple):
    """What the rules say about a step: the sign before it and the remark behind it."""

    sign: str
    remark: str


UNMARKED = Mark("", "")


class Line(NamedTuple):
    """One line of a run: the step, the actor or kind, the text."""

    step: int
    actor: str
    text: str


def render(
    trajectory: Trajectory,
    case: Case | None,
    records: Sequence[Record],
    *,
    curve: Curve | Unmeasured | None = None,
    chosen: range | None = None,
    width: int = 100,
) -> str:
    """Return a run as text; without `chosen`, what precedes the first mark is folded.

    The curve is drawn where no steps are chosen. Of a run of which only scores are known there is
    nothing but the curve.
    """
    found = findings(records)
    marked = with_curve(curve, suspects(trajectory, case, records))
    marks = step_marks(trajectory, found, marked)
    shown = _unfolded(trajectory, marks) if chosen is None else chosen
    if trajectory.source.format == SCORES and chosen is None:
        shown = range(len(trajectory.steps), len(trajectory.steps))
    out = [*_head(trajectory, width)]
    folded = [range(0, shown.start), range(shown.stop, len(trajectory.steps))]
    if trajectory.source.format == SCORES:
        folded = [range(0), range(0)]
    out += _fold_line(trajectory, folded[0], width)
    previous: dict[str, Exchange] = {}
    for exchange in trajectory.exchanges:
        if exchange.step < shown.start:
            previous[exchange.call.name] = exchange
    for index in shown:
        mark = marks.get(index, UNMARKED)
        step = trajectory.steps[index]
        marked_actor = "call" if step.calls else None
        for line in _lines(trajectory, step, previous):
            here = line.actor == marked_actor or marked_actor is None
            out.append(_laid_out(line, mark if here else UNMARKED, width))
            mark = UNMARKED if here else mark
    out += _fold_line(trajectory, folded[1], width)
    if isinstance(curve, Curve) and chosen is None:
        out += curve_lines(curve, width)
    out += suspect_lines(marked, width)
    out += axis_lines(found, width)
    out += _verdicts(trajectory, found, records, width)
    out += judge_lines(trajectory, records, width)
    return "\n".join(out) + "\n"


def _head(trajectory: Trajectory, width: int) -> list[str]:
    outcome = trajectory.outcome
    said = {"pass": "PASS", "fail": "FAIL", "unknown": "no outcome recorded"}[outcome.status]
    if outcome.source == "reward" and outcome.reward is not None:
        said += f" (recorded reward {outcome.reward:g})"
    elif outcome.source != "none":
        said += f" ({outcome.source})"
    calls = trajectory.exchanges
    errors = sum(e.failed for e in calls)
    known = [
        f"{name} {visible_line(value)}"
        for name, value in (
            ("task", trajectory.task),
            ("trial", trajectory.trial),
            ("agent", trajectory.agent),
        )
        if value is not None
    ]
    head = f"{visible_line(trajectory.name)}   {said}   {len(trajectory.steps)} steps, "
    return fold(f"{head}{len(calls)} calls, {errors} errors   {', '.join(known)}", width, 2)


def _unfolded(trajectory: Trajectory, marks: dict[int, Mark]) -> range:
    """Fold what precedes the first mark; a run without marks is shown whole."""
    start = max(min(marks, default=0) - LEAD_IN, 0)
    return range(start if start > 1 else 0, len(trajectory.steps))


def _fold_line(trajectory: Trajectory, steps: range, width: int) -> list[str]:
    if not steps:
        return []
    inside = [e for e in trajectory.exchanges if e.step in steps]
    failed = sum(e.failed for e in inside)
    actors = Counter(trajectory.steps[index].actor for index in steps)
    parts = ["system prompt"] if actors["system"] else []
    parts += [f"{actors['user']} of the user"] if actors["user"] else []
    if inside:
        parts.append(f"{_calls(len(inside))} {f'({failed} failed)' if failed else 'ok'}")
    left = f"{f'{steps[0]}-{steps[-1]}':>11}  folded: {', '.join(parts) or 'words only'}"
    hint = f"--steps {steps[0]}:{steps[-1] + 1} to unfold"
    return [left + hint.rjust(width - len(left)) if len(left) + len(hint) < width else left]


def _calls(count: int) -> str:
    return f"{count} call{'' if count == 1 else 's'}"


def _lines(trajectory: Trajectory, step: Step, previous: dict[str, Exchange]) -> Iterator[Line]:
    media = [f"[{part.kind} {part.media_type or ''}]" for part in step.parts if part.text is None]
    text = " ".join([step.text, *media]).strip()
    if not step.results and (text or not step.calls):
        actor = "env" if step.actor == "environment" else step.actor
        yield Line(step.index, actor, text or f"({step.kind}, no text)")
    for exchange in trajectory.exchanges:
        if exchange.step == step.index:
            before = previous.get(exchange.call.name)
            yield Line(step.index, "call", words(exchange.call, before.call if before else None))
            previous[exchange.call.name] = exchange
    for result in step.results:
        yield Line(step.index, STATUS[result.status], result_text(result))


def result_text(result: ToolResult) -> str:
    """Return what a tool said, as text; an error without the word that only says it is one."""
    if result.status == "error":
        text = result.error or result.text
        return text.strip().removeprefix("Error:").strip()
    return result.text or ("" if result.structured is None else pretty(result.structured))


def _laid_out(line: Line, mark: Mark, width: int) -> str:
    head = f" {mark.sign:<1}{line.step:>4} {line.actor:<6} "
    remark = clip(visible_line(mark.remark), REMARK_WIDTH)
    room = width - len(head) - (len(remark) + 2 if remark else 0)
    body = clip(visible_line(line.text), room)
    return (head + body + (remark.rjust(width - len(head) - len(body)) if remark else "")).rstrip()


def step_marks(
    trajectory: Trajectory, found: Findings, marked: Sequence[Suspect]
) -> dict[int, Mark]:
    """Return, by step, what the rules say of it: the sign before it and the remark behind it."""
    marks: dict[int, Mark] = {}
    for suspect in reversed(marked):
        sign, remark = MARKS[suspect.kind]
        marks[suspect.first] = Mark(sign, remark)
    at_fault = remarks(found)
    for step, axes in at_fault.items():
        if not (step in marks and marks[step].sign == "!" and marks[step].remark):
            marks[step] = Mark("!", axes)
    failed: dict[str, int] = {}
    for exchange in trajectory.exchanges:
        if exchange.failed:
            before = failed.get(exchange.key)
            axes = marks[exchange.step].remark if exchange.step in at_fault else ""
            marks[exchange.step] = Mark("!", axes if before is None else f"repeats failed {before}")
            failed.setdefault(exchange.key, exchange.step)
    for step, rule in found.labels("policy").items():
        marks[step] = Mark("!", f"breaks the rule {rule!r}")
    return marks


def suspect_lines(marked: Sequence[Suspect], width: int) -> list[str]:
    """Return the suspects, one a line, most telling first."""
    out = []
    for at, suspect in enumerate(marked[:MOST_SUSPECTS]):
        head = f"{'Suspects' if at == 0 else '':<10}{suspect.where:>7}  "
        said = fold(head + visible_line(suspect.evidence), width, len(head))
        out += first_lines(said, EVIDENCE_LINES, width)
    left = len(marked) - MOST_SUSPECTS
    return out + ([f"{'':<10}and {left} more (--json has all)"] if left > 0 else [])


def _verdicts(
    trajectory: Trajectory, found: Findings, records: Sequence[Record], width: int
) -> list[str]:
    if not found.whole and not found.absent:
        return ["Verdicts  none yet: run `stepscope score`"]
    said = []
    for measure, name in VERDICTS.items():
        verdict = found.whole.get(measure)
        cites = () if verdict is None or verdict.label == "stopped_well" else verdict.cites
        if cites:
            said.append(f"{name} {' '.join(map(str, cites))}")
    goals = found.whole.get("subgoals")
    if goals is not None:
        said.insert(0, f"sub-goals {goals.label or goals.value}")
    out = fold("Verdicts (rules)  " + visible_line(" · ".join(said) or "nothing found"), width, 10)
    lost = _lost(found)
    if lost:
        out += fold("Unmeasured  " + visible_line(lost), width, 10)
    for label in trajectory.labels:
        where = "" if label.step is None else f" at {label.step}"
        text = f"Label ({label.annotator})  {label.kind}{where} {label.category or ''}"
        out.append(clip(visible_line(f"{text} {label.reason}"), width))
    return out


def _lost(found: Findings) -> str:
    """Say what could not be measured, by kind; where the question does not arise, nothing.

    A ratio to the baseline is left out: what it lacks is said by its numerator.
    """
    by_kind: dict[str, dict[str, list[str]]] = {}
    for name, answer in sorted(found.absent.items()):
        if answer.kind != "not_applicable" and not name.startswith("efficiency_ratio"):
            measure, _, aspect = name.partition(".")
            by_kind.setdefault(answer.kind, {}).setdefault(measure, []).append(aspect)
    return " · ".join(
        f"{kind}: "
        + ", ".join(f"{m} {' '.join(aspects)}".strip() for m, aspects in measures.items())
        for kind, measures in by_kind.items()
    )


def pretty(value: object) -> str:
    """Return any value of the trace as compact JSON."""
    return msgspec.json.encode(value, order="deterministic").decode()
