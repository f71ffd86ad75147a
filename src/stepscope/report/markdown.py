"""A report as Markdown for a comment on a pull request.

Text from a trace is untrusted: every active character of it becomes a numeric entity, so that it
opens no fence, ends no table cell and is no HTML; and it stands in `<code>`, where forges look for
no `@name` and no `#1` (a backslash would not do: they read the rendered text). Our own labels and
numbers stand as they are.
"""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.report import lines, panels_markdown, shapes_text
from stepscope.report.cutting import cut
from stepscope.report.text import evidence, flipped, headline
from stepscope.report.types import JointTable, Profile, Report
from stepscope.safety.text import visible_line
from stepscope.values import Unmeasured

# What Markdown, HTML, bare links (`www.`, `a:`) or a forge give a meaning to inside a line.
ACTIVE = frozenset("\\`*_[]<>#.|@~$&:")
_ENTITIES = {ord(c): f"&#{ord(c)};" for c in ACTIVE}
# A comment is read, not scrolled: evidence longer than this is cut, its end marked.
EVIDENCE_WIDTH = 160


def render(report: Report) -> str:
    """Return the report as GitHub-flavoured Markdown; ends in a line break."""
    blocks = [list(_profile(profile, report)) for profile in report.profiles]
    flips = list(_flips(report))
    if flips:
        blocks.append(flips)
    shapes = list(_shapes(report))
    if shapes:
        blocks.append(shapes)
    if report.panels:
        blocks += panels_markdown.blocks(report.panels, plain)
    if report.look_first:
        blocks.append(list(_look_first(report)))
    if report.not_claimed:
        blocks.append([f"Not claimed: {', '.join(report.not_claimed)}."])
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def code(text: str) -> str:
    """Return untrusted text as code that says what it says and does nothing.

    >>> code("@me Fixes #1")
    '<code>&#64;me Fixes &#35;1</code>'
    """
    return f"<code>{plain(text)}</code>"


def plain(text: str) -> str:
    """Return text, on one line, with no character left that Markdown or HTML would act on.

    >>> plain("a|b")
    'a&#124;b'
    """
    return visible_line(text).translate(_ENTITIES)


def _profile(profile: Profile, report: Report) -> Iterator[str]:
    title, rest = headline(profile, report)
    yield f"**{code(title)}** {rest}"
    yield ""
    yield "| | value | 95 % interval | n | unmeasured |"
    yield "|---|---:|---|---:|---|"
    for item in lines.vector(profile):
        label = ("&nbsp;&nbsp;" if item.label.startswith("  ") else "") + item.label.strip()
        cells = (label, item.value, item.interval, item.n, item.unmeasured)
        yield "| " + " | ".join(cells) + " |"
    axes = lines.axes(profile)
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
            yield f"{said} " + ", ".join(code(run.name) for run in runs[:10]) + more
    if profile.too_loose.outcome == "fail":
        yield ""
        yield f"**Warning:** {profile.too_loose.reason}"


def _joint(table: JointTable, profile: Profile) -> Iterator[str]:
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
        yield f"Rank flip: {code(flipped(flip))}"


def _shapes(report: Report) -> Iterator[str]:
    held = shapes_text.told(report.profiles)
    if not held:
        return
    titles = [code(profile.title) for profile, _ in held] if len(held) > 1 else ["share"]
    yield f"| {shapes_text.TITLE} | " + " | ".join(titles) + " |"
    yield "|---|" + "---|" * len(held)
    for label, cells in shapes_text.rows([shapes for _, shapes in held]):
        yield f"| {label} | " + " | ".join(cells) + " |"
    yield ""
    yield "<br>".join(plain(said) for said in shapes_text.rests_on([s for _, s in held]))


def _look_first(report: Report) -> Iterator[str]:
    yield "| Look first | steps | suspect | evidence |"
    yield "|---|---:|---|---|"
    for run in report.look_first:
        where, said = evidence(run)
        said = cut(visible_line(said), EVIDENCE_WIDTH)
        yield f"| {code(run.name)} | {run.steps:,} | {where} | {code(said)} |"
