"""A comparison of two groups or two runs, as text and as a page.

The calls of two runs are matched in order by name and arguments; between two matches, calls of one
tool stand opposite each other with the arguments that differ.
Source: the matching of `difflib` (Ratcliff and Obershelp), over calls instead of lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from stepscope.model import Exchange, Trajectory
from stepscope.model.records import Figure
from stepscope.report import words
from stepscope.report.document import (
    Chart,
    EmptyNotice,
    Links,
    Page,
    Table,
    TableCell,
    TableColumn,
    TableRow,
    Tone,
    pair_anchor,
)
from stepscope.report.types import ComparisonReport, Difference, ShapesDifference
from stepscope.report.views.profile import tabulate_shape_differences
from stepscope.report.views.runs import TONES
from stepscope.report.views.vector import make_figure_cell, name_profile
from stepscope.report.views.verdicts import RunData
from stepscope.report.words import (
    brief_value,
    clip,
    cut_words,
    describe_call,
    find_differences,
    fold,
    quote_result,
)
from stepscope.safety.text import visible_line
from stepscope.values import Estimate, Unmeasured

HEAD = ("", "first", "second", "difference", "95 % interval", "cases", "p", "Holm")


def render_comparison(report: ComparisonReport, width: int = 100) -> str:
    """Return the comparison as text, no line longer than `width`; ends in a line break."""
    out = [*fold(describe_comparison(report), width, 2), ""]
    rows = [HEAD, *(_cells(key, d) for key, d in report.differences.items())]
    # A row that stops early says why in its last cell, which belongs to no column.
    full = [row for row in rows if len(row) == len(HEAD)]
    wide = [max(len(row[at]) for row in full) for at in range(len(HEAD))]
    wide[0] = max(len(row[0]) for row in rows)
    for row in rows:
        kept = [f"{cell:>{w}}" for cell, w in zip(row[1:4], wide[1:4], strict=False)]
        head = "  ".join([f"{row[0]:<{wide[0]}}", *kept])
        if len(row) == len(HEAD):
            numbers = "  ".join(f"{c:>{w}}" for c, w in zip(row[5:], wide[5:], strict=True))
            out.append(clip(f"{head}  {row[4]:<{wide[4]}}  {numbers}".rstrip(), width))
        else:
            out += fold(f"{head}  {row[-1]}", width, wide[0] + 2)
    out += [clip(row, width) for row in _shapes(report)]
    out.append("")
    for sentence in conclude_comparison(report):
        out += fold(visible_line(sentence), width, 2)
    return "\n".join(out) + "\n"


def _shapes(report: ComparisonReport) -> Iterator[str]:
    """Yield the shapes of both groups as rows; none where they cannot be compared."""
    cells = tabulate_shape_rows(report)
    if cells:
        yield ""
        wide = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
        for row in cells:
            numbers = "  ".join(f"{c:>{w}}" for c, w in zip(row[1:], wide[1:], strict=True))
            yield f"{row[0]:<{wide[0]}}  {numbers}"


def tabulate_shape_rows(report: ComparisonReport) -> list[tuple[str, ...]]:
    """Return the shapes of both groups as cells, the head first; [] where none are compared."""
    first, second, found = report.first.shapes, report.second.shapes, report.shapes
    if isinstance(first, Unmeasured) or isinstance(second, Unmeasured):
        return []
    return [] if isinstance(found, Unmeasured) else tabulate_shape_differences(found, first, second)


def describe_comparison(report: ComparisonReport) -> str:
    """Return what is compared: the groups, their runs, the cases they share."""
    first, second = report.first, report.second
    return visible_line(
        f"{first.title} (first) against {second.title} (second)   {first.n_runs:,} and "
        f"{second.n_runs:,} runs, {report.n_shared:,} shared cases   "
        f"seed {report.provenance.seed}"
    )


def conclude_comparison(report: ComparisonReport) -> Iterator[str]:
    """Yield what survives, what could have been seen, and what stayed outside the pairs."""
    found = [key for key, d in report.differences.items() if d.survives]
    named = ", ".join(words.name_figure(key).strip() for key in found)
    yield f"Survives Holm at .05 over {_tested(report)} figures: {named or 'none'}."
    for key, d in report.differences.items():
        if d.cases_needed is not None and key == "outcome.pass":
            points = f"{report.worth_seeing * 100:g} points"
            seen = (
                "" if d.detectable is None else f"; these find {words.format_share(d.detectable)}"
            )
            yield (
                f"To see {points} in {words.name_figure(key).strip()!r} you need about "
                f"{d.cases_needed:,} cases{seen}."
            )
    outside = report.n_only_first + report.n_only_second
    if report.n_shared and outside:
        yield (
            f"Outside every pair: {report.n_only_first:,} cases of the first group only, "
            f"{report.n_only_second:,} of the second."
        )
    shapes = report.shapes
    if isinstance(shapes, ShapesDifference):
        yield f"Shapes rest on {shapes.source}; noise: {shapes.sigma}."
    if not report.n_shared:
        yield "No case is shared: nothing is paired, and cases differ as well as groups."


def format_figure(key: str, figure: Figure) -> str:
    """Return a figure's value, or "-"."""
    return "-" if isinstance(figure, Unmeasured) else words.format_number(key, figure.value)


def _cells(key: str, difference: Difference) -> tuple[str, ...]:
    """Return a row: eight cells, or five where there is no effect and the last says why."""
    first, second = format_figure(key, difference.first), format_figure(key, difference.second)
    effect = difference.effect
    if isinstance(effect, Unmeasured):
        return (
            words.name_figure(key),
            first,
            second,
            "-",
            visible_line(words.describe_absence(effect, 0)),
        )
    holm = format_p(difference.p_adjusted) + (" *" if difference.survives else "")
    shown = format_signed(key, effect.value), words.format_interval(key, effect)
    cases = f"{difference.n_cases:,}" if difference.paired else "-"
    return words.name_figure(key), first, second, *shown, cases, format_p(difference.p), holm


def _tested(report: ComparisonReport) -> int:
    return sum(d.p is not None for d in report.differences.values())


def format_signed(key: str, value: float) -> str:
    """Return a difference with its sign, also of a positive one."""
    text = words.format_number(key, value)
    return text if text.startswith("-") else f"+{text}"


def format_p(p: float | None) -> str:
    """Return p in few characters; "-" where nothing was tested."""
    if p is None:
        return "-"
    return "<.001" if p < 0.001 else words.format_share(p)


# Calls of one run that are matched; matching costs the product of both lengths.
MOST_CALLS = 400
# Characters of a call and of what it gave.
CALL_WIDTH = 120
# Differences named of one pair of calls.
NAMED_DIFFERENCES = 5

CallRelation = Literal["same", "result", "arguments", "left", "right"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSummary:
    """One call: its step, in few words, what came back, whether it failed."""

    step: int
    words: str
    status: str
    result: str


class ArgumentDifference(NamedTuple):
    """One place where the arguments of two calls differ."""

    path: str
    was: str
    now: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignedPair:
    """Two calls side by side, or one alone; `differs` names what is not the same."""

    how: CallRelation
    left: CallSummary | None
    right: CallSummary | None
    differs: tuple[ArgumentDifference, ...] = ()


class ExchangePair(NamedTuple):
    """A pair of calls, one of them absent where only one run made it."""

    left: Exchange | None
    right: Exchange | None


def align_calls(first: Trajectory, second: Trajectory) -> Iterator[AlignedPair]:
    """Yield the calls of two runs side by side, in order."""
    for left, right in _places(first.exchanges[:MOST_CALLS], second.exchanges[:MOST_CALLS]):
        how, differs = _compare_calls(left, right)
        yield AlignedPair(how=how, left=_side(left), right=_side(right), differs=tuple(differs))


def _places(left: Sequence[Exchange], right: Sequence[Exchange]) -> Iterator[ExchangePair]:
    matcher = SequenceMatcher(
        None, [call.key for call in left], [call.key for call in right], autojunk=False
    )
    for _, a, b, c, d in matcher.get_opcodes():
        yield from _between(left[a:b], right[c:d])


def _between(left: Sequence[Exchange], right: Sequence[Exchange]) -> Iterator[ExchangePair]:
    """Pair calls of the same tool in order; what has no counterpart stands alone."""
    matcher = SequenceMatcher(
        None, [call.call.name for call in left], [call.call.name for call in right], autojunk=False
    )
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            yield from (ExchangePair(x, y) for x, y in zip(left[a:b], right[c:d], strict=True))
        else:
            yield from (ExchangePair(x, None) for x in left[a:b])
            yield from (ExchangePair(None, y) for y in right[c:d])


def _compare_calls(
    left: Exchange | None, right: Exchange | None
) -> tuple[CallRelation, list[ArgumentDifference]]:
    if left is None or right is None:
        return ("right" if left is None else "left"), []
    if left.key != right.key:
        found = list(find_differences(left.call.arguments, right.call.arguments))
        said = [
            ArgumentDifference(
                visible_line(path or "arguments"), brief_value(was), brief_value(now)
            )
            for path, was, now in found[:NAMED_DIFFERENCES]
        ]
        rest = len(found) - NAMED_DIFFERENCES
        return "arguments", said + (
            [ArgumentDifference(f"and {rest} more", "", "")] if rest > 0 else []
        )
    return ("same" if _given(left) == _given(right) else "result"), []


def _given(exchange: Exchange) -> str:
    return "" if exchange.result is None else quote_result(exchange.result)


def _side(exchange: Exchange | None) -> CallSummary | None:
    if exchange is None:
        return None
    status = "no answer" if exchange.result is None else exchange.result.status
    return CallSummary(
        step=exchange.step,
        words=cut_words(visible_line(describe_call(exchange.call)), CALL_WIDTH),
        status=status,
        result=cut_words(visible_line(_given(exchange)), CALL_WIDTH),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """One of two runs: its name, outcome, and where to look in it."""

    name: str
    outcome: str
    tone: Tone
    size: str
    href: str | None
    suspect: str
    evidence: str
    final: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedPair:
    """A pair of calls with the addresses of their steps."""

    pair: AlignedPair
    left_href: str | None
    right_href: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsContent:
    """What the template of two runs reads."""

    first: ComparedRun
    second: ComparedRun
    pairs: tuple[LinkedPair, ...]
    summary: str
    first_difference: str
    left: int
    words: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsContent:
    """What the template of two groups reads."""

    first: str
    second: str
    about: str
    said: tuple[str, ...]
    chart: Chart | None
    table: Table


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonChoice:
    """What can be compared: pairs of runs and groups by name and address; a form on a server."""

    pairs: tuple[tuple[str, str], ...]
    groups: tuple[tuple[str, str], ...]
    form: bool
    empty: EmptyNotice


def make_runs_page(first: RunData, second: RunData, *, links: Links) -> Page:
    """Return two runs side by side."""
    anchor = pair_anchor(first.trajectory.id, second.trajectory.id)
    pairs = tuple(align_calls(first.trajectory, second.trajectory))
    counts = {how: sum(pair.how == how for pair in pairs) for how in RELATION_WORDS}
    said = [f"{n:,} {RELATION_WORDS[how]}" for how, n in counts.items() if n]
    differing = next((pair for pair in pairs if pair.how != "same"), None)
    longest = max(len(first.trajectory.exchanges), len(second.trajectory.exchanges))
    content = RunsContent(
        first=_view_run(first, links),
        second=_view_run(second, links),
        pairs=tuple(_with_links(pair, first, second, links) for pair in pairs),
        summary=", ".join(said) or "neither run made a call",
        first_difference=_first(differing),
        left=max(longest - MOST_CALLS, 0),
        words=RELATION_WORDS,
    )
    return Page(
        name="compare",
        title=f"{first.trajectory.name} and {second.trajectory.name}",
        template="compare_runs.html",
        anchor=anchor,
        content=content,
    )


RELATION_WORDS = {
    "same": "the same",
    "result": "with another result",
    "arguments": "with other arguments",
    "left": "only in the first",
    "right": "only in the second",
}


def make_groups_page(report: ComparisonReport, *, links: Links) -> Page:
    """Return two groups, figure by figure."""
    names = name_profile(report.first), name_profile(report.second)
    table = _table(report)
    rows = _rows(report)
    chart = None
    if rows:
        chart = Chart(
            id="effects-chart",
            spec="effects",
            title=f"{names[1]} minus {names[0]}",
            alt="Differences of shares with 95 % intervals; 0 is no difference.",
            rows=rows,
            table=table,
        )
    content = GroupsContent(
        first=names[0],
        second=names[1],
        about=describe_comparison(report).partition("   ")[2].replace("   ", " · "),
        said=tuple(conclude_comparison(report)),
        chart=chart,
        table=table,
    )
    return Page(
        name="compare",
        title=f"{names[0]} and {names[1]}",
        template="compare_groups.html",
        anchor="groups-compared",
        content=content,
        charts=() if chart is None else (chart,),
    )


def make_choice_page(
    *,
    links: Links,
    pairs: Sequence[tuple[str, str]] = (),
    groups: Sequence[tuple[str, str]] = (),
) -> Page:
    """Return what there is to compare; `pairs` and `groups` are names and addresses."""
    empty = EmptyNotice(
        said="Two runs of one task, or two agents, are laid side by side here.",
        commands=("stepscope compare AGENT OTHER", "stepscope view"),
    )
    return Page(
        name="compare",
        title="Compare",
        template="compare.html",
        anchor="compare",
        content=ComparisonChoice(
            pairs=tuple(pairs), groups=tuple(groups), form=links.runs() is not None, empty=empty
        ),
    )


def _view_run(data: RunData, links: Links) -> ComparedRun:
    run = data.trajectory
    suspect = data.suspects[0] if data.suspects else None
    last = next((s.text for s in reversed(run.steps) if s.actor == "agent" and s.text), "")
    return ComparedRun(
        name=run.name,
        outcome=run.outcome.status,
        tone=TONES.get(run.outcome.status, "quiet"),
        size=f"{len(run.steps):,} steps, {len(run.exchanges):,} calls",
        href=links.run(run.id),
        suspect="" if suspect is None else suspect.where,
        evidence="" if suspect is None else suspect.evidence,
        final=last[:LAST_WORDS] + ("…" if len(last) > LAST_WORDS else ""),
    )


# Characters of the agent's last words.
LAST_WORDS = 500


def _with_links(pair: AlignedPair, first: RunData, second: RunData, links: Links) -> LinkedPair:
    left, right = pair.left, pair.right
    return LinkedPair(
        pair=pair,
        left_href=None if left is None else links.run(first.trajectory.id, left.step),
        right_href=None if right is None else links.run(second.trajectory.id, right.step),
    )


def _first(pair: AlignedPair | None) -> str:
    if pair is None:
        return "No call differs."
    side = pair.left or pair.right
    step = "" if side is None else f" at step {side.step}"
    return f"First difference{step}: {RELATION_WORDS[pair.how]}."


def _rows(report: ComparisonReport) -> tuple[dict[str, object], ...]:
    rows: list[dict[str, object]] = []
    for order, (key, difference) in enumerate(report.differences.items()):
        effect = difference.effect
        if not isinstance(effect, Estimate) or effect.unit != "share":
            continue
        if effect.low is not None and effect.high is not None:
            rows.append({
                "label": words.name_figure(key).strip(),
                "group": "survives correction" if difference.survives else "does not",
                "value": effect.value,
                "low": effect.low,
                "high": effect.high,
                "text": (
                    f"{words.format_number(key, effect.value)} "
                    f"{words.format_interval(key, effect)}"
                ),
                "order": order,
            })  # fmt: skip
    return tuple(rows)


def _table(report: ComparisonReport) -> Table:
    columns = (
        TableColumn(key="figure", label="figure"),
        TableColumn(key="first", label=name_profile(report.first), number=True),
        TableColumn(key="second", label=name_profile(report.second), number=True),
        TableColumn(key="effect", label="difference", number=True),
        TableColumn(key="cases", label="cases", number=True),
        TableColumn(key="p", label="p", number=True),
        TableColumn(key="holm", label="p, Holm", number=True),
        TableColumn(key="detectable", label="smallest seen", number=True),
    )
    rows = tuple(_row(key, d) for key, d in report.differences.items())
    return Table(
        id="differences", caption="Every figure, paired by case", columns=columns, rows=rows
    )


def _row(key: str, difference: Difference) -> TableRow:
    effect = difference.effect
    shown = make_figure_cell(key, effect)
    if isinstance(effect, Estimate):
        shown = TableCell(
            text=format_signed(key, effect.value),
            sort=effect.value,
            note=words.format_interval(key, effect),
            tone="warn" if difference.survives else "",
        )
    holm = format_p(difference.p_adjusted)
    return TableRow(
        cells=(
            TableCell(text=words.name_figure(key).strip()),
            make_figure_cell(key, difference.first),
            make_figure_cell(key, difference.second),
            shown,
            TableCell(text=f"{difference.n_cases:,}" if difference.paired else "-"),
            TableCell(text=format_p(difference.p), sort=difference.p),
            TableCell(
                text=holm + (" survives" if difference.survives else ""),
                sort=difference.p_adjusted,
            ),
            TableCell(text=_detectable(key, difference), sort=difference.detectable, tone="quiet"),
        )
    )


def _detectable(key: str, difference: Difference) -> str:
    if isinstance(difference.effect, Unmeasured) or difference.detectable is None:
        return "-"
    return words.format_number(key, difference.detectable)
