"""What a run cost: steps, calls, tokens, USD, seconds.

Calls are the agent's, each once: a step that repeats an earlier context makes none. Tokens are
input including cache plus output. What the trace says of the whole run wins over the sum of its
steps; a reported cost wins over a computed one.
"""

from __future__ import annotations

from typing import NamedTuple

from stepscope.model.step import Usage
from stepscope.model.trajectory import Trajectory


class Figures(NamedTuple):
    """Steps, calls, tokens, USD and seconds of a run; None for what its trace lacks."""

    steps: int
    calls: int
    tokens: int | None
    cost_usd: float | None
    seconds: float | None


def figures(trajectory: Trajectory) -> Figures:
    """Return the figures of a run."""
    steps = trajectory.steps
    calls = sum(
        [call.requestor == "agent" for s in steps if s.calls and not s.replayed for call in s.calls]
    )
    return Figures(
        len(steps), calls, _tokens(trajectory), _cost_usd(trajectory), _seconds(trajectory)
    )


def _tokens(t: Trajectory) -> int | None:
    if t.usage is not None:
        return _total(t.usage)
    used = [_total(step.usage) for step in t.steps if step.usage is not None]
    totals = [total for total in used if total is not None]
    return sum(totals) if totals else None


def _total(usage: Usage) -> int | None:
    if usage.input_total is None or usage.output_total is None:
        return None
    return usage.input_total + usage.output_total


def _cost_usd(t: Trajectory) -> float | None:
    if t.cost_usd is not None:
        return t.cost_usd
    costs = [step.cost_usd for step in t.steps if step.cost_usd is not None]
    return sum(costs) if costs else t.cost_computed_usd


def _seconds(t: Trajectory) -> float | None:
    if t.start is not None and t.end is not None:
        first, last = t.start.ns, t.end.ns
    else:
        starts = [step.start.ns for step in t.steps if step.start is not None]
        ends = [step.end.ns for step in t.steps if step.end is not None]
        if not starts or len(starts) + len(ends) < 2:
            return None
        first, last = min(starts), max(starts + ends)
    return (last - first) / 1e9 if last >= first else None
