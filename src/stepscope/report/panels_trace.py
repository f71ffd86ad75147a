"""One run worked through: what each judge says of each aspect, and the steps they cite in common.

The run is chosen for showing most: faults that every judge finds, resting on the same steps. It is
an example, not a sample. Judges that cite one step for one fault converge on evidence, not on a
verdict by chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from stepscope.errors import StoreError
from stepscope.model import Record, Step, Trajectory, Verdict
from stepscope.report.axes import INCORRECT
from stepscope.report.calls import words
from stepscope.report.cutting import cut
from stepscope.report.findings import findings
from stepscope.report.panels_run import told
from stepscope.report.panels_types import TraceAnswer, TraceLine, TraceStep, WorkedTrace
from stepscope.report.panels_votes import RULES, Aspect
from stepscope.report.rows import Table
from stepscope.report.run_text import result_text
from stepscope.report.show import read
from stepscope.safety.text import visible_line
from stepscope.store import Store

# Characters of a step's line, and steps that are told.
TOLD, MOST_STEPS = 160, 8


def worked(store: Store, table: Table, aspects: Sequence[Aspect]) -> WorkedTrace | None:
    """Return the run that shows most; None where no run was answered by two judges."""
    axes = [aspect for aspect in aspects if aspect.failing == INCORRECT]
    for at in _order(table, axes):
        try:
            trajectory, _, records = read(store, str(table.runs.id[at]))
        except StoreError:
            continue  # its texts were purged; another run serves as well
        lines = tuple(_lines(records, [aspect.rubric for aspect in axes]))
        cited = sorted({step for line in lines for step in line.common})
        return WorkedTrace(
            id=trajectory.id,
            name=trajectory.name,
            outcome=trajectory.outcome.status,
            lines=lines,
            steps=tuple(_step(trajectory, step) for step in _within(trajectory, cited)),
        )
    return None


def _order(table: Table, axes: Sequence[Aspect]) -> Iterator[int]:
    """Yield places of runs that two judges answered, the most telling first."""
    n = len(table)
    found, shared = np.zeros(n), np.zeros(n)
    for aspect in axes:
        sitting = [vote for vote in aspect.votes if vote.answered.any()]
        if len(sitting) > 1:
            answers = np.sum([vote.answered for vote in sitting], axis=0)
            faults = np.sum([vote.failing & vote.answered for vote in sitting], axis=0)
            shared += answers > 1
            found += (answers > 1) & (faults == answers)
    order = np.lexsort((np.arange(n), -shared, -found))
    yield from (int(at) for at in order if shared[at])


def _lines(records: Sequence[Record], rubrics: Sequence[str]) -> Iterator[TraceLine]:
    answers: dict[str, list[TraceAnswer]] = {}
    for one in told(records):
        answer = one.record.answer
        if isinstance(answer, Verdict) and answer.step is None and answer.label is not None:
            said = TraceAnswer(
                judge=one.asked.judge,
                label=answer.label,
                confidence=answer.confidence,
                cites=answer.cites,
            )
            answers.setdefault(one.asked.measure, []).append(said)
    rules = findings(records).whole
    for rubric in rubrics:
        told_here = answers.get(rubric, [])
        verdict = rules.get(rubric)
        if verdict is not None and verdict.label is not None:
            told_here.append(TraceAnswer(judge=RULES, label=verdict.label, cites=verdict.cites))
        if told_here:
            yield TraceLine(rubric=rubric, answers=tuple(told_here), common=_common(told_here))


def _common(answers: Sequence[TraceAnswer]) -> tuple[int, ...]:
    """Return the steps that two judges or more cite for one and the same answer."""
    by_label: dict[str, Counter[int]] = {}
    for answer in answers:
        by_label.setdefault(answer.label, Counter()).update(set(answer.cites))
    return tuple(sorted({s for steps in by_label.values() for s, n in steps.items() if n > 1}))


def _within(trajectory: Trajectory, steps: Sequence[int]) -> list[int]:
    return [step for step in steps if 0 <= step < len(trajectory.steps)][:MOST_STEPS]


def _step(trajectory: Trajectory, index: int) -> TraceStep:
    step = trajectory.steps[index]
    return TraceStep(step=index, actor=step.actor, text=cut(visible_line(_said(step)), TOLD))


def _said(step: Step) -> str:
    """Return a step in one line: what it called, what came back, or what was said."""
    if step.calls:
        return ", ".join(words(call, None) for call in step.calls)
    if step.results:
        return ", ".join(result_text(result) for result in step.results)
    return step.text or f"({step.kind}, no text)"
