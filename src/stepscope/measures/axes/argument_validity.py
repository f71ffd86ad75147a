"""Were the arguments well-formed and grounded, whichever tool was chosen?

Incorrect: arguments that are not JSON, that break the tool's declared schema, or that name an
identifier, e-mail, date or amount found nowhere before. Whether the tool was the right one is the
axis tool_selection; whether a result was read rightly, result_interpretation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stepscope.measures.axes.axis import CORRECT, SCALE, UNCERTAIN, Fault, condemned, judged
from stepscope.measures.axes.grounding import traced
from stepscope.measures.axes.schema import violations
from stepscope.measures.calls import agent_calls
from stepscope.measures.rule import Rule
from stepscope.model import Answer, Case, Facts, Trajectory
from stepscope.values import Unmeasured

NAME = "axes.argument_validity"

_NO_CALLS = (Unmeasured("not_applicable", "the agent made no tool calls", NAME),)


def _run(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    made = agent_calls(trajectory)
    if not made:
        return _NO_CALLS
    broken, checked = violations(trajectory)
    faults = [Fault(fault.step, f"{fault.tool}: {fault.reason}") for fault in broken]
    known = {fault.step for fault in broken}
    faults += [fault for fault in _malformed(trajectory) if fault.step not in known]
    values = traced(trajectory)
    faults += [
        Fault(value.step, f"{value.tool}: {value.argument} {value.text!r} was said nowhere before")
        for value in values
        if value.state == "invented"
    ]
    if faults:
        return condemned(NAME, faults)
    schema = f"{checked} of {len(made)} calls keep to a declared schema"
    unknown = [value for value in values if value.state == "unknown"]
    if unknown:
        first = unknown[0]
        why = f"{first.tool}: {first.argument} {first.text!r} was said nowhere, {first.reason}"
        cites = tuple(sorted({value.step for value in unknown}))
        return judged(NAME, UNCERTAIN, why, cites)
    if not values and checked < len(made):
        return judged(NAME, UNCERTAIN, f"no argument to trace; {schema}")
    return judged(NAME, CORRECT, f"{len(values)} values traced to what was said; {schema}")


def _malformed(trajectory: Trajectory) -> Iterator[Fault]:
    for exchange in agent_calls(trajectory):
        if exchange.call.parse_error is not None:
            yield Fault(exchange.step, f"{exchange.call.name}: the arguments are not JSON")


MEASURE = Rule(NAME, "1", SCALE, (), _run)
