"""Lay out reports, comparisons and gates as Markdown, for comments on a pull request.

Text from a trace is untrusted: each active character becomes a numeric entity, and the text stands
in `<code>`, where forges look for no `@name` and no `#1` (a backslash would not do: they read the
rendered text). Our own labels and numbers stand as they are. A gate comment begins with a marker
that names its workflow, so that a poster can update it in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from urllib.parse import quote

from stepscope.gates.types import GateDecision, GateReport, WorkflowDecision
from stepscope.report import words
from stepscope.report.document import WordTable
from stepscope.report.panel_types import Panels
from stepscope.report.types import ComparisonReport, OutcomeTable, Profile, Report
from stepscope.report.views import gates, profile
from stepscope.report.views.compare import (
    HEAD,
    _cells,
    conclude_comparison,
    describe_comparison,
    tabulate_shape_rows,
)
from stepscope.report.views.panels import tabulate_panels
from stepscope.report.words import (
    clip,
    cut_words,
    describe_flip,
    describe_profile,
    describe_suspect,
)
from stepscope.safety.text import visible_line
from stepscope.values import Unmeasured

# What figures are written with; a cell of nothing else can neither end a cell nor name anybody.
_FIGURES = frozenset("0123456789.,[]() -+$%of")


def render_panels_markdown(found: Panels, plain: Callable[[str], str]) -> Iterator[list[str]]:
    """Yield the lines of every table, a block each; `plain` takes the meaning out of a text."""
    for sheet in tabulate_panels(found):
        yield list(_block(sheet, plain))


def _block(sheet: WordTable, plain: Callable[[str], str]) -> Iterator[str]:
    yield f"**{plain(sheet.title)}**"
    yield ""
    if sheet.rows:
        yield "| " + " | ".join(map(plain, sheet.head)) + " |"
        yield "|---" * len(sheet.head) + "|"
        for row in sheet.rows:
            yield "| " + " | ".join(_cell(cell, plain) for cell in row) + " |"
    if sheet.notes:
        yield ""
        yield "<br>".join(map(plain, sheet.notes))


def _cell(cell: str, plain: Callable[[str], str]) -> str:
    return cell if _FIGURES.issuperset(cell) and "](" not in cell else plain(cell)


# What Markdown, HTML, bare links (`www.`, `a:`) or a forge give a meaning to inside a line.
ACTIVE = frozenset("\\`*_[]<>#.|@~$&:")
_ENTITIES = {ord(c): f"&#{ord(c)};" for c in ACTIVE}
# A comment is read, not scrolled: evidence longer than this is cut, its end marked.
EVIDENCE_WIDTH = 160


def render_report_markdown(report: Report) -> str:
    """Return the report as GitHub-flavoured Markdown; ends in a line break."""
    blocks = [list(_profile(profile, report)) for profile in report.profiles]
    flips = list(_flips(report))
    if flips:
        blocks.append(flips)
    shapes = list(_shapes(report))
    if shapes:
        blocks.append(shapes)
    if report.panels:
        blocks += render_panels_markdown(report.panels, escape_markdown)
    if report.look_first:
        blocks.append(list(_look_first(report)))
    if report.not_claimed:
        blocks.append([f"Not claimed: {', '.join(report.not_claimed)}."])
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def escape_code(text: str) -> str:
    """Return untrusted text as code that says what it says and does nothing.

    >>> escape_code("@me Fixes #1")
    '<code>&#64;me Fixes &#35;1</code>'
    """
    return f"<code>{escape_markdown(text)}</code>"


def escape_markdown(text: str) -> str:
    """Return text, on one line, with no character left that Markdown or HTML would act on.

    >>> escape_markdown("a|b")
    'a&#124;b'
    """
    return visible_line(text).translate(_ENTITIES)


def _profile(profile: Profile, report: Report) -> Iterator[str]:
    title, rest = describe_profile(profile, report)
    yield f"**{escape_code(title)}** {rest}"
    yield ""
    yield "| | value | 95 % interval | n | unmeasured |"
    yield "|---|---:|---|---:|---|"
    for item in words.list_figures(profile):
        label = ("&nbsp;&nbsp;" if item.label.startswith("  ") else "") + item.label.strip()
        cells = (label, item.value, item.interval, item.n, item.unmeasured)
        yield "| " + " | ".join(cells) + " |"
    axes = words.list_axes(profile)
    if axes:
        yield ""
        yield "| Failure profile | incorrect | 95 % interval | n | unmeasured |"
        yield "|---|---:|---|---:|---|"
        yield from ("| " + " | ".join(item) + " |" for item in axes)
    for table in profile.earned:
        yield ""
        yield from _joint(table, profile)
    for said, runs in (
        ("Right for the wrong reason?", profile.lucky),
        ("Wrong for a right reason?", profile.unlucky),
    ):
        if runs:
            more = f" and {len(runs) - 10} more" if len(runs) > 10 else ""
            yield ""
            yield f"{said} " + ", ".join(escape_code(run.name) for run in runs[:10]) + more
    if profile.too_loose.outcome == "fail":
        yield ""
        yield f"**Warning:** {profile.too_loose.reason}"


def _joint(table: OutcomeTable, profile: Profile) -> Iterator[str]:
    title = "Was it earned?" if table is profile.earned[0] else ""
    yield f"| {title} | " + " | ".join(table.columns) + " | |"
    yield "|---|" + "---:|" * len(table.columns) + "---|"
    for name, counts in (("pass", table.passed), ("fail", table.failed)):
        cells = " | ".join(f"{count:,}" for count in counts)
        yield f"| {name} | {cells} | {table.notes.get(name, '')} |"


def _flips(report: Report) -> Iterator[str]:
    if isinstance(report.rank_flips, Unmeasured):
        return
    for flip in report.rank_flips:
        yield f"Rank flip: {escape_code(describe_flip(flip))}"


def _shapes(report: Report) -> Iterator[str]:
    held = profile.select_shapes(report.profiles)
    if not held:
        return
    titles = [escape_code(profile.title) for profile, _ in held] if len(held) > 1 else ["share"]
    yield f"| {profile.SHAPES_TITLE} | " + " | ".join(titles) + " |"
    yield "|---|" + "---|" * len(held)
    for label, cells in profile.tabulate_shapes([shapes for _, shapes in held]):
        yield f"| {label} | " + " | ".join(cells) + " |"
    yield ""
    yield "<br>".join(
        escape_markdown(said) for said in profile.describe_basis([s for _, s in held])
    )


def _look_first(report: Report) -> Iterator[str]:
    yield "| Look first | steps | suspect | evidence |"
    yield "|---|---:|---|---|"
    for run in report.look_first:
        where, said = describe_suspect(run)
        said = cut_words(visible_line(said), EVIDENCE_WIDTH)
        yield f"| {escape_code(run.name)} | {run.steps:,} | {where} | {escape_code(said)} |"


def render_comparison_markdown(report: ComparisonReport) -> str:
    """Return the comparison as GitHub-flavoured Markdown; ends in a line break."""
    out = [escape_code(describe_comparison(report)), ""]
    out += ["| " + " | ".join(HEAD) + " |"]
    out += ["|---|---:|---:|---:|---|---:|---:|---:|"]
    for key, difference in report.differences.items():
        cells = list(_cells(key, difference))
        if len(cells) < len(HEAD):
            cells[4:] = ["", "", "", cells[4]]
        out.append("| " + " | ".join(cell.strip() for cell in cells) + " |")
    shapes = tabulate_shape_rows(report)
    if shapes:
        out += ["", "| " + " | ".join(shapes[0]) + " |", "|---|---:|---:|---:|---|---:|"]
        out += ["| " + " | ".join(row) + " |" for row in shapes[1:]]
    out += ["", *conclude_comparison(report)]
    return "\n".join(out) + "\n"


# Characters of one comment: GitHub takes 65,536, GitLab more.
COMMENT = 60_000
# Characters of a name or reason: a hostile one may be a book.
NAME_WIDTH, REASON_WIDTH = 80, 400
_SIGNS = {"fail": "❌", "pass": "✅", "undecided": "❔", "not_run": "⬜"}


def render_gate_markdown(report: GateReport, *, code: int, remarks: Sequence[str] = ()) -> str:
    """Return every workflow's comment and a last line that sums up; ends in a line break."""
    return "\n".join([*render_comments(report, remarks=remarks).values(), _last(report, code)])


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


def _comment(
    workflow: WorkflowDecision, report: GateReport, remarks: Sequence[str]
) -> Iterator[str]:
    yield make_marker(workflow.workflow)
    outcome = gates.resolve_outcome(workflow)
    sign, word = _SIGNS[outcome], gates.WORDS[outcome]
    yield f"### {sign} Gates of {_name(workflow.workflow)}: {word}"
    yield ""
    about = [gates.describe_size(workflow)]
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
    said = [*gates.describe_changes(workflow), *remarks]
    if said:
        yield ""
        yield from (f"- {escape_markdown(clip(visible_line(line), REASON_WIDTH))}" for line in said)


def _row(gate: GateDecision) -> str:
    cells = (
        f"{_SIGNS[gate.outcome]} {gates.WORDS[gate.outcome]}",
        _name(gate.name),
        gate.severity,
        gates.format_estimate(gate),
        gates.format_limits(gate),
        gates.format_adjusted_p(gate).replace("<", "&lt;"),
        escape_markdown(clip(visible_line(gate.threshold), NAME_WIDTH)),
    )
    return f"| {' | '.join(cells)} |"


def _why(gate: GateDecision) -> Iterator[str]:
    first, *rest = gates.explain_gate(gate)
    said = "; ".join([first, *rest])
    word = gates.WORDS[gate.outcome]
    yield (
        f"**{_name(gate.name)}** {word}: {escape_markdown(clip(visible_line(said), REASON_WIDTH))}"
    )
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
        yield f"| {' | '.join(cells)} |"
    rest_n = gate.n_failing - len(gate.failing)
    if rest_n > 0:
        yield ""
        yield f"{rest_n:,} more in breach."


def _last(report: GateReport, code: int) -> str:
    return f"{escape_markdown(gates.summarise_gates(report, code))}\n"


def _name(text: str) -> str:
    return escape_code(clip(visible_line(text), NAME_WIDTH))


def _cut(text: str) -> str:
    if len(text) <= COMMENT:
        return text
    # Cut between lines: half an entity or half a table row would show.
    return text[: text.rfind("\n", 0, COMMENT)] + "\n\nCut here: see the job's own log.\n"
