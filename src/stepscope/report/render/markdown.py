"""Lay out a document as Markdown, for comments on a pull request; and a gate report, which is one.

Text from a trace is untrusted: each active character becomes a numeric entity, and the text stands
in `<code>`, where forges look for no `@name` and no `#1` (a backslash would not do: they read the
rendered text). Our own labels and numbers stand as they are. A gate comment begins with a marker
that names its workflow, so that a poster can update it in place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import quote

from stepscope.gates.types import GateDecision, GateReport, WorkflowDecision
from stepscope.report.document import Document, Paragraph, Table, TableCell
from stepscope.report.views import gates
from stepscope.report.words import clip, cut_words
from stepscope.safety.text import visible_line
from stepscope.values import format_p

# What Markdown, HTML, bare links (`www.`, `a:`) or a forge give a meaning to inside a line.
ACTIVE = frozenset("\\`*_[]<>#.|@~$&:")
_ENTITIES = {ord(c): f"&#{ord(c)};" for c in ACTIVE}
# What a forge finds in a rendered text and makes a mention, a reference or a link of.
_REFERS = re.compile(r"[@#!]\w|://|\bwww\.|\bgh-\d|\b[0-9a-f]{7,40}\b", re.IGNORECASE)
_ACTS = re.compile(r"\]\(|<[a-z/!]", re.IGNORECASE)
# What figures are written with; a cell of nothing else can neither end a cell nor name anybody.
_FIGURES = frozenset("0123456789.,[]() -+$%of")
# A comment is read, not scrolled: evidence longer than this is cut, its end marked.
EVIDENCE_WIDTH = 160
# Groups or judges that stand beside each other in one table; of more there are several tables.
MOST_BESIDE = 6


def render(document: Document) -> str:
    """Return a document as GitHub-flavoured Markdown; ends in a line break."""
    blocks = []
    for section in document:
        for block in section:
            match block:
                case Paragraph() if not block.terminal:
                    code = block.code or _REFERS.search(block.text) or _ACTS.search(block.text)
                    said = escape_code(block.text) if code else block.text
                    head = f"**{escape_code(block.heading)}** " if block.heading else ""
                    blocks.append(head + block.lead + said)
                case Table():
                    blocks.append("\n".join(_table(block)))
    return "\n\n".join(blocks) + "\n"


def escape_code(text: str) -> str:
    """Return untrusted text as code that says what it says and does nothing.

    >>> escape_code("@me Fixes #1")
    '<code>&#64;me Fixes &#35;1</code>'
    """
    return f"<code>{visible_line(text).translate(_ENTITIES)}</code>"


def escape_markdown(text: str) -> str:
    """Return text, on one line, on which no renderer and no forge acts.

    >>> escape_markdown("a|b"), escape_markdown("Fixes GH-1")
    ('a&#124;b', '<code>Fixes GH-1</code>')
    """
    line = visible_line(text)
    return escape_code(line) if _REFERS.search(line) else line.translate(_ENTITIES)


def _table(table: Table) -> Iterator[str]:
    """Yield a table; one of many groups as several, each of no more than a comment can show."""
    if table.heading:
        yield from (f"**{escape_markdown(table.heading)}**", "")
    most = MOST_BESIDE if table.layout == "beside" else len(table.columns)
    for start in range(1, len(table.columns), most) if table.rows else ():
        if start > 1:
            yield ""
        columns = table.columns[start : start + most]
        first = escape_markdown(table.columns[0].label) if table.heading else table.corner
        labels = (escape_code(c.label) if c.code else escape_markdown(c.label) for c in columns)
        yield _row([first, *labels])
        yield "|---|" + "".join("---:|" if column.number else "---|" for column in columns)
        for row in table.rows:
            first, *cells = (_cell(cell, table) for cell in row.cells)
            shown = cells[start - 1 : start - 1 + most]
            yield _row([first, *shown[:-1], *[""] * (len(columns) - len(shown)), *shown[-1:]])
            for said in row.below:
                line = cut_words(visible_line(said.text), EVIDENCE_WIDTH)
                line = escape_code(line) if said.code else escape_markdown(line)
                yield _row([*[""] * len(columns), said.lead + line])
    if table.notes:
        yield from ("", "<br>".join(map(escape_markdown, table.notes)))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: TableCell, table: Table) -> str:
    if cell.code:
        return escape_code(cut_words(visible_line(cell.text), EVIDENCE_WIDTH))
    figures = _FIGURES.issuperset(cell.text) and "](" not in cell.text
    indent = "&nbsp;&nbsp;" if cell.level and table.id.startswith("vector") else ""
    return indent + (cell.text if table.own or figures else escape_markdown(cell.text))


# Characters of one comment: GitHub takes 65,536, GitLab more.
COMMENT = 60_000
# Characters of a name or reason: a hostile one may be a book.
NAME_WIDTH, REASON_WIDTH = 80, 400
_SIGNS = {"fail": "❌", "pass": "✅", "undecided": "❔", "not_run": "⬜"}


def render_gate_markdown(report: GateReport, *, code: int, remarks: Sequence[str] = ()) -> str:
    """Return every workflow's comment and a last line that sums up; ends in a line break."""
    comments = render_comments(report, remarks=remarks).values()
    return "\n".join([*comments, f"{escape_markdown(gates.summarise_gates(report, code))}\n"])


def render_comments(report: GateReport, *, remarks: Sequence[str] = ()) -> dict[str, str]:
    """Return one comment a workflow; each begins with its marker and ends in a line break."""
    return {
        workflow.workflow: _cut("\n".join(_comment(workflow, report, remarks)) + "\n")
        for workflow in report.workflows
    }


def make_marker(workflow: str) -> str:
    """Return the line that a workflow's comment begins with; invisible where it is rendered.

    >>> make_marker("my--flow -->")
    '<!-- stepscope:gate:my%2D%2Dflow%20%2D%2D%3E -->'
    """
    # Two hyphens end an HTML comment.
    return f"<!-- stepscope:gate:{quote(workflow, safe='').replace('-', '%2D')} -->"


def _comment(workflow: WorkflowDecision, report: GateReport, notes: Sequence[str]) -> Iterator[str]:
    yield make_marker(workflow.workflow)
    outcome = gates.resolve_outcome(workflow)
    sign, word = _SIGNS[outcome], gates.WORDS[outcome]
    yield f"### {sign} Gates of {_name(workflow.workflow)}: {word}"
    yield ""
    about = gates.describe_size(workflow)
    about += "" if report.commit is None else f", commit {_name(report.commit)}"
    about += f", look {report.look}" if report.look > 1 else ""
    yield f"{about}."
    yield ""
    yield "| | gate | severity | value | 90 % interval | adjusted p | threshold |"
    yield "|---|---|---|---:|---|---:|---|"
    for gate in workflow.gates:
        cells = (
            f"{_SIGNS[gate.outcome]} {gates.WORDS[gate.outcome]}",
            _name(gate.name),
            gate.severity,
            *gates.format_gate(gate),
            format_p(gate.p_adjusted).replace("<", "&lt;"),
            escape_markdown(clip(visible_line(gate.threshold), NAME_WIDTH)),
        )
        yield _row(cells)
    for gate in workflow.gates:
        if gate.outcome != "pass":
            yield ""
            yield from _why(gate)
    said = [*gates.describe_changes(workflow), *notes]
    if said:
        yield ""
        yield from (f"- {escape_markdown(clip(visible_line(line), REASON_WIDTH))}" for line in said)


def _why(gate: GateDecision) -> Iterator[str]:
    why = escape_markdown(clip(visible_line("; ".join(gates.explain_gate(gate))), REASON_WIDTH))
    yield f"**{_name(gate.name)}** {gates.WORDS[gate.outcome]}: {why}"
    if not gate.failing:
        return
    yield ""
    yield "| case | runs | steps | evidence |"
    yield "|---|---|---|---|"
    for case in gate.failing:
        evidence = clip(visible_line(case.evidence), EVIDENCE_WIDTH)
        cells = (
            _name(case.case),
            _name(gates.list_failing_runs(case.runs)),
            gates.list_steps(case.steps).partition(" ")[2],
            escape_code(evidence) if evidence else "",
        )
        yield _row(cells)
    rest_n = gate.n_failing - len(gate.failing)
    if rest_n > 0:
        yield ""
        yield f"{rest_n:,} more in breach."


def _name(text: str) -> str:
    return escape_code(clip(visible_line(text), NAME_WIDTH))


def _cut(text: str) -> str:
    if len(text) <= COMMENT:
        return text
    # Cut between lines: half an entity or half a table row would show.
    return text[: text.rfind("\n", 0, COMMENT)] + "\n\nCut here: see the job's own log.\n"
