"""A gate report as Markdown: one comment a workflow, found again and updated in place.

The first line of a comment is a marker that names the workflow; a poster looks for a comment that
begins with it. Text from a trace is escaped as in `report.markdown`: it stands in `<code>` with
every active character as a numeric entity, so that it mentions nobody, closes no issue, opens no
fence and is no HTML.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import quote

from stepscope.gates.types import GateDecision, GateReport, WorkflowDecision
from stepscope.report import gate_lines
from stepscope.report.markdown import EVIDENCE_WIDTH, plain
from stepscope.report.markdown import code as quoted
from stepscope.report.text import clip
from stepscope.safety.text import visible_line

# Characters of one comment: GitHub takes 65,536, GitLab more.
COMMENT = 60_000
# Characters of a name or reason: a hostile one may be a book.
NAME_WIDTH, REASON_WIDTH = 80, 400
_SIGNS = {"fail": "❌", "pass": "✅", "undecided": "❔", "not_run": "⬜"}


def render(report: GateReport, *, code: int, remarks: Sequence[str] = ()) -> str:
    """Return every workflow's comment and a last line that sums up; ends in a line break."""
    return "\n".join([*comments(report, remarks=remarks).values(), _last(report, code)])


def comments(report: GateReport, *, remarks: Sequence[str] = ()) -> dict[str, str]:
    """Return one comment a workflow; each begins with its marker and ends in a line break."""
    return {
        workflow.workflow: _cut("\n".join(_comment(workflow, report, remarks)) + "\n")
        for workflow in report.workflows
    }


def marker(workflow: str) -> str:
    """Return the line that a workflow's comment begins with; invisible where it is rendered.

    >>> marker("my--flow -->")
    '<!-- stepscope:gate:my%2D%2Dflow%20%2D%2D%3E -->'
    """
    # Two hyphens end an HTML comment.
    return f"<!-- stepscope:gate:{quote(workflow, safe='').replace('-', '%2D')} -->"


def _comment(
    workflow: WorkflowDecision, report: GateReport, remarks: Sequence[str]
) -> Iterator[str]:
    yield marker(workflow.workflow)
    outcome = gate_lines.outcome(workflow)
    sign, word = _SIGNS[outcome], gate_lines.WORDS[outcome]
    yield f"### {sign} Gates of {_name(workflow.workflow)}: {word}"
    yield ""
    about = [gate_lines.size(workflow)]
    if report.commit is not None:
        about.append(f"commit {_name(report.commit)}")
    if report.look > 1:
        about.append(f"look {report.look}")
    yield ", ".join(about) + "."
    yield ""
    yield "| | gate | severity | value | 90 % interval | adjusted p | threshold |"
    yield "|---|---|---|---:|---|---:|---|"
    for gate in workflow.gates:
        yield _row(gate)
    for gate in workflow.gates:
        if gate.outcome != "pass":
            yield ""
            yield from _why(gate)
    said = [*gate_lines.changes(workflow), *remarks]
    if said:
        yield ""
        yield from (f"- {plain(clip(visible_line(line), REASON_WIDTH))}" for line in said)


def _row(gate: GateDecision) -> str:
    cells = (
        f"{_SIGNS[gate.outcome]} {gate_lines.WORDS[gate.outcome]}",
        _name(gate.name),
        gate.severity,
        gate_lines.value(gate),
        gate_lines.interval(gate),
        gate_lines.p_value(gate).replace("<", "&lt;"),
        plain(clip(visible_line(gate.threshold), NAME_WIDTH)),
    )
    return f"| {' | '.join(cells)} |"


def _why(gate: GateDecision) -> Iterator[str]:
    first, *rest = gate_lines.more(gate)
    said = "; ".join([first, *rest])
    word = gate_lines.WORDS[gate.outcome]
    yield f"**{_name(gate.name)}** {word}: {plain(clip(visible_line(said), REASON_WIDTH))}"
    if not gate.failing:
        return
    yield ""
    yield "| case | runs | steps | evidence |"
    yield "|---|---|---|---|"
    for case in gate.failing:
        evidence = clip(visible_line(case.evidence), EVIDENCE_WIDTH)
        cells = (
            _name(case.case),
            _name(gate_lines.runs(case.runs)),
            gate_lines.steps(case.steps).partition(" ")[2],
            quoted(evidence) if evidence else "",
        )
        yield f"| {' | '.join(cells)} |"
    rest_n = gate.n_failing - len(gate.failing)
    if rest_n > 0:
        yield ""
        yield f"{rest_n:,} more in breach."


def _last(report: GateReport, code: int) -> str:
    return f"{plain(gate_lines.summary(report, code))}\n"


def _name(text: str) -> str:
    return quoted(clip(visible_line(text), NAME_WIDTH))


def _cut(text: str) -> str:
    if len(text) <= COMMENT:
        return text
    # Cut between lines: half an entity or half a table row would show.
    return text[: text.rfind("\n", 0, COMMENT)] + "\n\nCut here: see the job's own log.\n"
