"""What a run cost: steps, calls, tokens, USD, seconds; a field that the trace lacks is named.

What counts as each figure is told in `stepscope.model.figures`.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from stepscope.measures.facts import FIGURES
from stepscope.measures.once import once
from stepscope.measures.rule import Rule
from stepscope.model import Answer, Case, Facts, Scale, Trajectory, Verdict, figures
from stepscope.values import Unmeasured

MISSING = {
    "steps": "",
    "calls": "",
    "tokens": "usage: the trace reports no tokens",
    "cost_usd": "cost_usd: the trace reports no cost, and none was computed",
    "seconds": "start and end: the trace has no times",
}


_ASPECTS = tuple(
    (f"efficiency.{figure}", Unmeasured("missing_input", MISSING[figure], f"efficiency.{figure}"))
    for figure in FIGURES
)


def _run(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    return [
        absent if value is None else Verdict(name, float(value))
        for (name, absent), value in zip(
            _ASPECTS, once(trajectory, "_figures", figures), strict=True
        )
    ]


MEASURE = Rule("efficiency", "1", Scale(0.0, inf), (), _run)
