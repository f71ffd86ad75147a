"""Write reports and gate reports as JSON and as JUnit XML; read gate reports back.

In JUnit an absent outcome or figure is skipped, and a figure never fails: that is the business of a
gate. Failures and errors stand exactly where the exit code says.
Format: the JUnit schema that Jenkins, GitHub and GitLab read (testsuites, testsuite, testcase).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

import msgspec

from stepscope.errors import UsageError
from stepscope.gates.types import GateDecision, GateOutcome, GateReport, Severity, WorkflowDecision
from stepscope.report.types import GateDocument, LookFirst, Profile, Report
from stepscope.report.views import gates
from stepscope.report.words import describe_figure, format_chance, name_group, name_steps
from stepscope.safety.limits import read_file
from stepscope.safety.text import disarm_commands, inert, render_json, visible_line
from stepscope.values import Unmeasured

OUTCOMES: dict[int, GateOutcome] = {0: "pass", 3: "fail", 4: "undecided"}


def render_gate_json(report: GateReport, *, code: int, remarks: Sequence[str] = ()) -> str:
    """Return the report as JSON, keys sorted, two spaces a level; ends in a line break."""
    outcome, said = OUTCOMES[code], tuple(remarks)
    return render_json(GateDocument(exit_code=code, outcome=outcome, remarks=said, report=report))


def read_gate_reports(files: Sequence[Path]) -> tuple[GateDocument, ...]:
    """Return what `stepscope gate --json` wrote, in the order of the files; else UsageError."""
    documents = []
    for file in files:
        try:
            documents.append(msgspec.json.decode(read_file(file), type=GateDocument))
        except OSError as e:
            raise UsageError(f"{file}: {e.strerror}; expected a file of stepscope gate") from e
        except msgspec.DecodeError as e:
            said = f"not what stepscope gate --json writes ({e}); write it again"
            raise UsageError(f"{file}: {said}") from e
    return tuple(documents)


_DOCUMENT = '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n{}\n</testsuites>\n'
# What XML 1.0 cannot hold even as a character reference (section 2.2).
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_report_junit(report: Report) -> str:
    """Return the report as JUnit XML; build it with `look_first=None` to have every run in it."""
    suites = [format_suite("runs", [_run(run) for run in report.look_first])]
    for one in report.profiles:
        suites.append(format_suite(f"figures {name_group(one)}".strip(), list(_figures(one))))
    return _DOCUMENT.format("\n".join(suites))


def format_suite(name: str, cases: Sequence[str]) -> str:
    """Return a test suite of these cases, each written out; failures and the like are counted."""
    kinds = ("failure", "error", "skipped")
    failures, errors, skipped = (sum(f"<{x} message=" in case for case in cases) for x in kinds)
    head = f'<testsuite name={quote_attribute(name)} tests="{len(cases)}" failures="{failures}"'
    return "\n".join([f'{head} errors="{errors}" skipped="{skipped}">', *cases, "</testsuite>"])


def _run(run: LookFirst) -> str:
    head = f'<testcase classname="runs" name={quote_attribute(run.name)}>'
    said = "\n".join(
        f"step {name_steps(s)}{'' if s.share is None else f' ({format_chance(s.share)})'}: "
        f"{visible_line(s.evidence)}"
        for s in run.suspects
    )
    because = f"failed because {visible_line(run.because)}\n" if run.because else ""
    said = f"{because}{said or run.verdict}\n{visible_line(run.command)}"
    if run.outcome == "fail":
        first = run.suspects[0].evidence if run.suspects else run.verdict
        body = f"<failure message={quote_attribute(first)}>{escape_text(said)}</failure>"
    elif run.outcome == "unknown":
        body = '<skipped message="no outcome was recorded for this run"/>'
    else:
        body = f"<system-out>{escape_text(said)}</system-out>" if run.suspects else ""
    return f"{head}{body}</testcase>"


def _figures(profile: Profile) -> Iterator[str]:
    for key, figure in profile.figures.items():
        group = quote_attribute(name_group(profile) or "all")
        head = f"<testcase classname={group} name={quote_attribute(key)}>"
        if isinstance(figure, Unmeasured):
            body = f"<skipped message={quote_attribute(f'{figure.kind}: {figure.reason}')}/>"
        else:
            line = describe_figure(key, figure, note=profile.notes.get(key, ""))
            _, value, interval, n, lost = (cell.text for cell in line.cells)
            said = f"{value}, {interval}, n={n}, unmeasured {lost}"
            body = f"<system-out>{escape_text(said)}</system-out>"
        yield f"{head}{body}</testcase>"


def escape_text(said: str) -> str:
    """Return what XML can hold of a text, line by line visible."""
    return escape(_ILLEGAL.sub("\ufffd", inert(said)))


def quote_attribute(said: str) -> str:
    """Return a text on one line as a quoted attribute."""
    return quoteattr(_ILLEGAL.sub("\ufffd", disarm_commands(visible_line(said))))


def render_gate_junit(
    report: GateReport,
    *,
    remarks: Sequence[str] = (),
    fail_on: Severity = "hard",
    undecided: Literal["pass", "fail"] | None = None,
) -> str:
    """Return the report as JUnit XML, counting as the exit code does (`gates.exit`)."""
    suites = []
    for one in report.workflows:
        cases = [_case(one, gate, _counts(gate, fail_on, undecided)) for gate in one.gates]
        suites.append(format_suite(f"gates {one.workflow}", cases))
    if all(gate.outcome == "not_run" for gate in report.gates):
        error = '<error message="no gate was run, so nothing was measured"/>'
        case = f'<testcase classname="gates" name="any">{error}</testcase>'
        suites.append(format_suite("gates", [case]))
    if remarks:
        head = '<testcase classname="reading" name="remark">'
        skipped = (f"<skipped message={quote_attribute(remark)}/>" for remark in remarks)
        suites.append(format_suite("reading", [f"{head}{one}</testcase>" for one in skipped]))
    # Printed in a log, `##[` would begin a command of GitHub Actions.
    return _DOCUMENT.format("\n".join(suites).replace("##[", "#&#35;["))


def _counts(
    gate: GateDecision, fail_on: Severity, undecided: Literal["pass", "fail"] | None
) -> gates.Counting:
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


def _case(workflow: WorkflowDecision, gate: GateDecision, counts: gates.Counting) -> str:
    name = quote_attribute(f"gates.{workflow.workflow}")
    head = f"<testcase classname={name} name={quote_attribute(gate.name)}>"
    message = quote_attribute(f"{gates.WORDS[gate.outcome]}, {gate.severity}: {gate.reason}")
    lines = [f"{gate.threshold}: {' '.join(gates.format_gate(gate))}"]
    lines += gates.explain_gate(gate)
    for case in gate.failing:
        where = f"{gates.list_failing_runs(case.runs)} {gates.list_steps(case.steps)}"
        lines.append(f"case {case.case}: {where} {case.evidence}")
    said = escape_text("\n".join(map(visible_line, lines)))
    body = {
        "fail": f"<failure message={message}>{said}</failure>",
        "error": f"<error message={message}>{said}</error>",
        "skip": f"<skipped message={message}/><system-out>{said}</system-out>",
        "pass": f"<system-out>{said}</system-out>",
    }[counts]
    return f"{head}{body}</testcase>"
