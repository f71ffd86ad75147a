"""A gate report as JUnit XML: a suite a workflow, a test case a gate.

A file without failures and errors is exactly exit code 0; with a failure it is code 3; with errors
only, code 4. A gate that could not be measured is an error, never a pass; a soft failure is skipped
with its reason, as are gates that more runs would decide where `undecided` lets them pass.
Format: the JUnit schema that Jenkins, GitHub and GitLab read (testsuites, testsuite, testcase).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from stepscope.gates.types import GateDecision, GateReport, Severity, WorkflowDecision
from stepscope.report import gate_lines
from stepscope.report.junit import attribute, suite, text
from stepscope.safety.text import visible_line


def render(
    report: GateReport,
    *,
    remarks: Sequence[str] = (),
    fail_on: Severity = "hard",
    undecided: Literal["pass", "fail"] | None = None,
) -> str:
    """Return the report as JUnit XML, counting as the exit code does (`gates.exit`)."""
    suites = [
        suite(
            f"gates {workflow.workflow}",
            [_case(workflow, gate, _counts(gate, fail_on, undecided)) for gate in workflow.gates],
        )
        for workflow in report.workflows
    ]
    if all(gate.outcome == "not_run" for gate in report.gates):
        error = '<error message="no gate was run, so nothing was measured"/>'
        suites.append(
            suite("gates", [f'<testcase classname="gates" name="any">{error}</testcase>'])
        )
    if remarks:
        suites.append(suite("reading", [_remark(remark) for remark in remarks]))
    # Printed in a log, `##[` would begin a command of GitHub Actions.
    body = "\n".join(suites).replace("##[", "#&#35;[")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n{body}\n</testsuites>\n'


def _counts(
    gate: GateDecision, fail_on: Severity, undecided: Literal["pass", "fail"] | None
) -> gate_lines.Counting:
    """Return what a gate counts as in this invocation."""
    counted = gate.severity == "hard" or fail_on == "soft"
    if gate.outcome == "fail":
        return "fail" if counted else "skip"
    if gate.outcome == "undecided":
        if not gate.measured:
            return "error"
        if not counted or undecided == "pass":
            return "skip"
        return "fail" if undecided == "fail" else "error"
    return "skip" if gate.outcome == "not_run" else "pass"


def _case(workflow: WorkflowDecision, gate: GateDecision, counts: gate_lines.Counting) -> str:
    name = attribute(f"gates.{workflow.workflow}")
    head = f"<testcase classname={name} name={attribute(gate.name)}>"
    message = attribute(f"{gate_lines.WORDS[gate.outcome]}, {gate.severity}: {gate.reason}")
    said = text("\n".join(visible_line(line) for line in _said(gate)))
    match counts:
        case "fail":
            body = f"<failure message={message}>{said}</failure>"
        case "error":
            body = f"<error message={message}>{said}</error>"
        case "skip":
            body = f"<skipped message={message}/><system-out>{said}</system-out>"
        case "pass":
            body = f"<system-out>{said}</system-out>"
    return f"{head}{body}</testcase>"


def _remark(remark: str) -> str:
    skipped = f"<skipped message={attribute(remark)}/>"
    return f'<testcase classname="reading" name="remark">{skipped}</testcase>'


def _said(gate: GateDecision) -> Iterator[str]:
    yield f"{gate.threshold}: {gate_lines.value(gate)} {gate_lines.interval(gate)}"
    yield from gate_lines.more(gate)
    for case in gate.failing:
        where = gate_lines.steps(case.steps)
        yield f"case {case.case}: {gate_lines.runs(case.runs)} {where} {case.evidence}"
