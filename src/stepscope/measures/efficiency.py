"""What a run cost: steps, calls, tokens, USD, seconds; a field that the trace lacks is named.

Tokens are input including cache plus output. What the trace says of the whole run wins over the sum
of its steps; a reported cost wins over a computed one.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from stepscope.measures.calls import agent_calls
from stepscope.measures.facts import FIGURES
from stepscope.measures.rule import Rule
from stepscope.model import Answer, Case, Facts, Scale, Trajectory, Usage, Verdict
from stepscope.values import Unmeasured

MISSING = {
    "steps": "",
    "calls": "",
    "tokens": "usage: the trace reports no tokens",
    "cost_usd": "cost_usd: the trace reports no cost, and none was computed",
    "seconds": "start and end: the trace has no times",
}


def figures(trajectory: Trajectory) -> tuple[float | None, ...]:
    """Return the run's figures in the order of `FIGURES`; None where the trace has no field."""
    return (
        float(len(trajectory.steps)),
        float(len(agent_calls(trajectory))),
        _tokens(trajectory),
        _cost_usd(trajectory),
        _seconds(trajectory),
    )


def _tokens(trajectory: Trajectory) -> float | None:
    usage = trajectory.usage
    if usage is not None:
        return _total(usage)
    totals = [
        total
        for step in trajectory.steps
        if step.usage is not None and (total := _total(step.usage)) is not None
    ]
    return sum(totals) if totals else None


def _total(usage: Usage) -> float | None:
    if usage.input_total is None or usage.output_total is None:
        return None
    return float(usage.input_total + usage.output_total)


def _cost_usd(trajectory: Trajectory) -> float | None:
    if trajectory.cost_usd is not None:
        return trajectory.cost_usd
    costs = [step.cost_usd for step in trajectory.steps if step.cost_usd is not None]
    return sum(costs) if costs else trajectory.cost_computed_usd


def _seconds(trajectory: Trajectory) -> float | None:
    start, end = trajectory.start, trajectory.end
    if start is None or end is None:
        steps = trajectory.steps
        starts = [step.start.ns for step in steps if step.start is not None]
        ends = [step.end.ns for step in steps if step.end is not None]
        if not starts or len(starts) + len(ends) < 2:
            return None
        first, last = min(starts), max(starts + ends)
    else:
        first, last = start.ns, end.ns
    return (last - first) / 1e9 if last >= first else None


_ASPECTS = tuple(
    (f"efficiency.{figure}", Unmeasured("missing_input", MISSING[figure], f"efficiency.{figure}"))
    for figure in FIGURES
)


def _run(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    return [
        absent if value is None else Verdict(name, value)
        for (name, absent), value in zip(_ASPECTS, figures(trajectory), strict=True)
    ]


MEASURE = Rule("efficiency", "1", Scale(0.0, inf), (), _run)
