"""What judges answered, as the columns of gates, and how often a judge calls good runs bad.

A column is of one judge: where several answered a rubric, the gate must name one. Labels of steps
are counted over the agent's steps, each of which must have one; a count that is incomplete is a
lower bound. False alarms are counted over runs that are known to be good: those in which people,
asked the same, found nothing; else the passing runs of the baseline, which were declared
beforehand. Passing runs of the store are not taken: they may be those under test.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Sequence
from itertools import accumulate
from math import exp, lgamma
from typing import NamedTuple

import msgspec

from stepscope.calibrate.ratings import load_agent_steps
from stepscope.errors import ConfigError
from stepscope.gates.sample import (
    NOT_SCORED,
    Absent,
    Cell,
    MeasureQuestion,
    Sample,
    build_arm,
    read_samples,
    run_badness,
)
from stepscope.gates.settings import GatePolicy, split_judged
from stepscope.model import Verdict, records
from stepscope.model.records import HUMAN, JUDGE_PREFIX, NOT_APPLICABLE, STEP_LABELS_NAME
from stepscope.store.columns import LabelledRows, Rows, Runs
from stepscope.store.judged import (
    JudgeAnswers,
    RatedRows,
    RunAnswers,
    current_records,
    name_and_snapshot,
    read_judge_answers,
)
from stepscope.store.where import Where
from stepscope.values import Unmeasured

_BEHAVIOUR, _PRESENT = "behaviour.", "present"


def read_gate_samples(
    rows: Rows,  # a store, or anything else with its columns
    workflows: Sequence[str],  # their names
    columns: Iterable[str],  # as gates read them
    where: Where | None,  # which runs
    *,
    # the measures whose label counts where an answer has a number as well
    labelled: Container[str] = (),
) -> dict[str, Sample]:
    """Read the runs of each workflow with what rules and judges answered; see `read_samples`.

    `ConfigError` where several judges answered, and a gate names none of them; `StoreError` where
    the records of a measure are of two versions.
    """
    names = sorted(columns)
    judged = [name for name in names if name.startswith(JUDGE_PREFIX)]
    own = [name for name in names if name not in judged]
    found = read_samples(rows, workflows, own, where, labelled=labelled)
    if not judged:
        return found
    runs = rows.runs(where)
    answers = read_judge_answers(rows, runs, where)
    acted = _agent_steps(rows, runs, answers)
    place = {id_: at for at, id_ in enumerate(runs.id.tolist())}
    for name in judged:
        measure, judge = split_judged(name)
        one = _choose_judge(answers, measure, judge)
        cells = _judged_cells(one, measure, acted)
        for workflow, sample in found.items():
            told = tuple(cells.get(place[run.id], Absent(NOT_SCORED)) for run in sample.runs)
            asked = sample.asked if one is None else {**sample.asked, name: _question(one)}
            found[workflow] = msgspec.structs.replace(
                sample, cells={**sample.cells, name: told}, asked=asked
            )
    return found


def _rubric_of(measure: str) -> str:
    """Return the rubric that answers a column: counts of labelled steps are of one."""
    return STEP_LABELS_NAME if measure.startswith(f"{STEP_LABELS_NAME}.") else measure


def _counted_label(measure: str) -> str | None:
    """Return the label whose steps a column counts; None where it holds labels of whole runs."""
    if measure.startswith(_BEHAVIOUR):
        return _PRESENT
    return records.STEP_COUNTS.get(measure.removeprefix(f"{STEP_LABELS_NAME}."))


def _choose_judge(answers: Iterable[JudgeAnswers], measure: str, judge: str) -> JudgeAnswers | None:
    """Return the answers of the judge that is named, or of the only one; None where none is."""
    rubric = _rubric_of(measure)
    of_rubric = [
        one
        for one in answers
        if one.main and one.asked.measure == rubric and one.asked.family not in records.NOT_MODELS
    ]
    held = [one for one in of_rubric if judge in ("", one.asked.judge)]
    if len(held) > 1:
        names = ", ".join(one.asked.judge for one in held)
        raise ConfigError(
            f"{len(held)} judges answered {rubric} ({names}); a gate reads only one: "
            f'source = "{held[0].asked.judge}"'
        )
    return held[0] if held else None


def _question(one: JudgeAnswers) -> MeasureQuestion:
    """Return what was asked of whom; with tools a prompt a run says nothing of the question."""
    snapshots = "+".join(name for name in one.snapshots if name)
    return MeasureQuestion(
        version=f"{one.version}+{one.asked.mode}" if one.asked.mode else one.version,
        judge=f"{one.asked.judge}@{snapshots}" if snapshots else one.asked.judge,
        prompt=next(iter(one.prompts)) if len(one.prompts) == 1 else "",
        rubric=one.rubric,
    )


# The agent's steps of runs, by place; None where nothing tells them.
_Acted = dict[int, frozenset[int] | None]


def _agent_steps(rows: Rows, runs: Runs, answers: Iterable[JudgeAnswers]) -> _Acted:
    ids = {at: runs.id[at] for one in answers for at, of_run in one.runs.items() if of_run.steps}
    known = load_agent_steps(rows, runs, set(ids.values()))
    return {at: known[id_] for at, id_ in ids.items()}


def _judged_cells(one: JudgeAnswers | None, measure: str, acted: _Acted) -> dict[int, Cell]:
    """Return what a judge says of each run that it answered, by place."""
    label = _counted_label(measure)
    answered = {} if one is None else one.runs
    return {
        at: _label_cell(of_run) if label is None else _count_cell(of_run, label, acted.get(at))
        for at, of_run in answered.items()
    }


def _label_cell(of_run: RunAnswers) -> Cell:
    if of_run.verdict is None:
        return Absent(NOT_SCORED)
    answer = of_run.verdict.answer
    if isinstance(answer, Unmeasured):
        return Absent(answer.kind)
    return Absent(NOT_APPLICABLE) if answer.label in (None, NOT_APPLICABLE) else answer.label


def _count_cell(of_run: RunAnswers, label: str, acted: Collection[int] | None) -> Cell:
    """Return how many of the agent's steps have a label; at least so many where one has none."""
    told = of_run.steps.get(0, {})
    if not told and of_run.verdict is not None and isinstance(of_run.verdict.answer, Unmeasured):
        return Absent(of_run.verdict.answer.kind)
    answers = [told[at].answer if at in told else None for at in (acted or told)]
    count = sum(isinstance(one, Verdict) and one.label == label for one in answers)
    lost = [one for one in answers if not isinstance(one, Verdict)]
    if lost or not answers:
        return Absent("missing_input" if not lost or lost[0] is None else lost[0].kind, count)
    return float(count)


def judged_evidence(gate: GatePolicy, run: str, rows: Rows) -> tuple[tuple[int, ...], str]:
    """Return the steps for which a judge faults a run, and what it says of the first."""
    measure, judge = split_judged(gate.reads[0])
    rubric, label = _rubric_of(measure), _counted_label(measure)
    steps: list[int] = []
    reason = ""
    for record in current_records(rows.records(trajectory=run, measure=JUDGE_PREFIX + rubric)):
        answer = record.answer
        if record.repeat or not isinstance(answer, Verdict) or record.family in records.NOT_MODELS:
            continue
        if judge not in ("", name_and_snapshot(record)[0]):
            continue
        if answer.label == label if answer.step is not None else label is None:
            steps += answer.cites if answer.step is None else [answer.step]
            reason = reason or answer.reason
    return tuple(steps), reason


class FalseAlarms(NamedTuple):
    """How many of the runs that are known to be good a judge calls bad."""

    flagged: int
    good: int
    known_by: str  # who says that they are good

    def chance(self, k: int, n: int) -> float:
        """Return the chance of k false alarms in n good runs.

        Source: The beta-binomial predictive of a rate with Jeffreys' prior, Beta(1/2, 1/2); e.g.
        Gelman et al. (2013), Bayesian Data Analysis, section 2.4.
        """
        a, b = self.flagged + 0.5, self.good - self.flagged + 0.5
        ways = lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
        both = lgamma(k + a) + lgamma(n - k + b) - lgamma(n + a + b)
        return exp(ways + both + lgamma(a + b) - lgamma(a) - lgamma(b))

    def tail(self, seen: int, n: int) -> float:
        """Return the chance of `seen` or more false alarms in n good runs."""
        return min(1.0, sum(self.chance(k, n) for k in range(seen, n + 1)))

    def most(self, n: int, alpha: float) -> int:
        """Return the most false alarms in n good runs that are no rarer than `alpha`."""
        tails = accumulate(self.chance(k, n) for k in range(n, -1, -1))
        return next((n - at for at, tail in enumerate(tails) if tail > alpha), 0)


# Good runs from which the false alarms of a judge are known.
FEWEST_GOOD = 100


def count_false_alarms(
    gate: GatePolicy,
    workflow: str,
    now: Sample,  # the runs under test: whose answers to which question are gated
    baseline: Sample | None,
    rows: Rows | None,  # where people's labels are
) -> FalseAlarms:
    """Return the false alarms of a gate's judge, of however many runs are known to be good."""
    by_people, column = _count_by_people(gate, workflow, now, rows), gate.reads[0]
    if baseline is None or baseline.asked.get(column) != now.asked.get(column):
        return by_people
    if by_people.good >= FEWEST_GOOD:
        return by_people
    passed = [
        at for at, cell in enumerate(baseline.cells.get(records.OUTCOME_NAME, ())) if cell == 1.0
    ]
    good = build_arm(gate, baseline.take(passed)).measured()
    by_check = FalseAlarms(int((good.top > 0).sum()), len(good.at), "the baseline's passing runs")
    return max(by_people, by_check, key=lambda one: one.good)


def _count_by_people(
    gate: GatePolicy, workflow: str, now: Sample, rows: Rows | None
) -> FalseAlarms:
    """Return the false alarms in all runs of a workflow in which people found nothing."""
    measure, judge = split_judged(gate.reads[0])
    rubric = _rubric_of(measure)
    flagged = good = 0
    rated = rows if rows is not None and isinstance(rows, RatedRows) else None
    if rated is not None and rows is not None and HUMAN in rated.families(JUDGE_PREFIX + rubric):
        runs = rows.runs()
        answers = read_judge_answers(rows, runs)
        acted = _agent_steps(rows, runs, answers)
        one = _choose_judge(answers, measure, judge)
        judged = _judged_cells(one, measure, acted)
        if one is None or _question(one) != now.asked.get(gate.reads[0]):
            judged = {}
        said: dict[int, list[Cell]] = {at: [] for at in judged if runs.workflow[at] == workflow}
        for person in answers:
            if person.asked.measure == rubric and person.asked.family == HUMAN:
                for at, cell in _judged_cells(person, measure, acted).items():
                    said.get(at, []).append(cell)
        # Only an even draw is a sample of good runs: labels of flagged ones would excuse any judge.
        drawn = set(runs.id.tolist())
        if isinstance(rows, LabelledRows):
            labels = rows.labels(measure=JUDGE_PREFIX + rubric)
            drawn = {one.trajectory for one in labels if one.is_random and one.queue != "active"}
        for at, cells in said.items():
            if runs.id[at] not in drawn:
                continue
            found = [run_badness(gate, (cell,)) for cell in (judged[at], *cells)]
            if cells and not isinstance(found[0], str) and set(found[1:]) == {(0.0, 1.0)}:
                good, flagged = good + 1, flagged + (found[0][0] > 0)
    return FalseAlarms(flagged, good, "people's labels")
