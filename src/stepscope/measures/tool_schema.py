"""Tool calls whose arguments break the JSON schema that the tool declares, each cited.

Without any declared schema the answer is unmeasured, never "no violation"; calls of tools without
one are not counted, and the reason says how many were.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from stepscope.measures.axes.schema import violations
from stepscope.measures.calls import agent_calls
from stepscope.measures.rule import Rule, one_a_step
from stepscope.model import Answer, Case, Facts, Scale, Trajectory, Verdict
from stepscope.values import Unmeasured

LABEL = "violation"

_NO_CALLS = (Unmeasured("not_applicable", "the agent made no tool calls", "tool_schema"),)
_NO_SCHEMA = (
    Unmeasured("missing_input", "no called tool has a declared JSON schema", "tool_schema"),
)


def _run(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    made = agent_calls(trajectory)
    if not made:
        return _NO_CALLS
    found, checked = violations(trajectory)
    if not checked:
        return _NO_SCHEMA
    checks = f"{checked} of {len(made)} calls have a declared schema"
    if not found:
        return (Verdict("tool_schema", 0.0, reason=checks),)
    whole = Verdict(
        "tool_schema",
        float(len(found)),
        cites=tuple(sorted({fault.step for fault in found})),
        reason=f"{found[0].tool}: {found[0].reason}; {checks}",
    )
    each = [
        Verdict(
            "tool_schema",
            label=LABEL,
            step=fault.step,
            cites=(fault.step,),
            reason=f"{fault.tool}: {fault.reason}",
        )
        for fault in found
    ]
    return (whole, *one_a_step(each, lambda labels: labels[0]))


MEASURE = Rule("tool_schema", "1", Scale(0.0, inf, (LABEL,)), (), _run)
