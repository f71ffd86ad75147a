"""Whether the identifiers, e-mails, dates and numbers in arguments come from somewhere.

Value: the share of judged values that were said earlier or are derived from what was, among those
of which the rules can tell; those that may be the agent's own choice are left out and counted in
the reason. Aspect `grounding.invented` counts the values found nowhere. What is judged and what a
source is: `stepscope.measures.axes.grounding`.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from stepscope.measures.axes.grounding import traced
from stepscope.measures.calls import agent_calls
from stepscope.measures.rule import Rule, one_a_step
from stepscope.model import Answer, Case, Facts, Scale, Trajectory, Verdict
from stepscope.values import Unmeasured

LABELS = ("invented", "unknown")
_NAMES = ("grounding", "grounding.invented")
_NO_CALLS = tuple(
    Unmeasured("not_applicable", "the agent made no tool calls", name) for name in _NAMES
)
_NOTHING = tuple(
    Unmeasured("not_applicable", "no argument holds an identifier, e-mail, date or number", name)
    for name in _NAMES
)


def _run(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    values = traced(trajectory)
    if not values:
        return _NOTHING if agent_calls(trajectory) else _NO_CALLS
    invented = [value for value in values if value.state == "invented"]
    unknown = [value for value in values if value.state == "unknown"]
    known = len(values) - len(unknown)
    cites = tuple(sorted({value.step for value in invented}))
    reason = f"{known - len(invented)} of {known} values come from what was said"
    if unknown:
        reason += f"; of {len(unknown)} more nobody can tell"
    share: Answer = Unmeasured("undefined", f"of {len(unknown)} values nobody can tell", _NAMES[0])
    if known:
        share = Verdict(_NAMES[0], (known - len(invented)) / known, cites=cites, reason=reason)
    each = [
        Verdict(
            _NAMES[0],
            label=value.state,
            step=value.step,
            cites=(value.step,),
            reason=f"{value.tool}.{value.argument} {value.text}: {value.reason}",
        )
        for value in values
        if value.state in LABELS
    ]
    return (
        share,
        Verdict(_NAMES[1], float(len(invented)), cites=cites),
        *one_a_step(each, lambda labels: min(labels, key=LABELS.index)),
    )


MEASURE = Rule("grounding", "1", Scale(0.0, inf, LABELS), (), _run)
