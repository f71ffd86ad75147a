"""The exit code of a gate report: 0 pass, 3 a gate failed, 4 undecided or unmeasured.

"The agent is bad" and "the instrument is broken" never share a code, and the second is never 0.
"""

from __future__ import annotations

from typing import Literal

from stepscope.gates.types import GateReport, Severity

PASSED, FAILED, UNDECIDED = 0, 3, 4


def exit_code(
    report: GateReport,
    *,
    undecided: Literal["pass", "fail"] | None = None,
    fail_on: Severity = "hard",
) -> int:
    """Return 3 when a gate that counts failed, else 4 when one could not be decided, else 0.

    Args:
        report: what was decided.
        undecided: counts gates that more runs would decide as passed or failed; left out, they are
            code 4. It never speaks of a gate that could not be measured: that is code 4, soft or
            hard, as is a report in which no gate was run.
        fail_on: the least severity that counts.
    """
    run = [gate for gate in report.gates if gate.outcome != "not_run"]
    counted = [gate for gate in run if gate.severity == "hard" or fail_on == "soft"]
    open_ = any(gate.outcome == "undecided" and gate.measured for gate in counted)
    if any(gate.outcome == "fail" for gate in counted) or (open_ and undecided == "fail"):
        return FAILED
    if not run or not all(gate.measured for gate in run):
        return UNDECIDED
    return UNDECIDED if open_ and undecided is None else PASSED
