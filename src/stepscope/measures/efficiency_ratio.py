"""What a run cost against the median of its workflow's passing runs: 1 is the usual price."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from stepscope.measures.efficiency import MISSING
from stepscope.measures.facts import FIGURES
from stepscope.measures.once import once
from stepscope.measures.rule import Rule
from stepscope.model import Answer, Case, Facts, Scale, Trajectory, Verdict, figures
from stepscope.values import Unmeasured

_NAMES = tuple(f"efficiency_ratio.{figure}" for figure in FIGURES)
_NO_VALUE = tuple(
    Unmeasured("missing_input", MISSING[figure], name)
    for figure, name in zip(FIGURES, _NAMES, strict=True)
)
_NO_MEDIAN = tuple(
    Unmeasured("insufficient_data", "no passing run of this workflow has the figure", name)
    for name in _NAMES
)
_ZERO = tuple(
    Unmeasured("undefined", "the median of the passing runs is 0", name) for name in _NAMES
)


def _run(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    medians = facts.medians if facts is not None else {}
    answers: list[Answer] = []
    for at, value in enumerate(once(trajectory, "_figures", figures)):
        if value is None:
            answers.append(_NO_VALUE[at])
            continue
        median = medians.get(FIGURES[at])
        if median is None:
            answers.append(_NO_MEDIAN[at])
        elif median == 0:
            answers.append(_ZERO[at])
        else:
            answers.append(Verdict(_NAMES[at], value / median))
    return answers


MEASURE = Rule("efficiency_ratio", "1", Scale(0.0, inf), ("medians",), _run)
