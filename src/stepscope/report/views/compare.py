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
from stepscope.report.document import (
    Chart,
    Document,
    EmptyNotice,
    Heading,
    Links,
    Page,
    Paragraph,
    Table,
    TableCell,
    TableRow,
    Tone,
    make_columns,
    make_row,
    pair_anchor,
)
from stepscope.report.formatting import (
    brief_value,
    cut_words,
    describe_absence,
    describe_call,
    find_differences,
    format_interval,
    format_number,
    format_p,
    format_share,
    format_signed,
    format_with_interval,
    name_figure,
    quote_result,
)
from stepscope.report.types import ComparisonReport, Difference, ShapesDifference
from stepscope.report.views.profile import tabulate_shape_differences
from stepscope.report.views.runs import TONES
from stepscope.report.views.vector import make_figure_cell, name_profile
from stepscope.report.views.verdicts import RunData
from stepscope.safety.text import visible_line
from stepscope.values import Estimate, Unmeasured


def make_comparison_document(report: ComparisonReport) -> Document:
    """Return a comparison of groups as text and Markdown have it."""
    title, _, about = describe_comparison(report).partition("   ")
    shapes = _tabulate_shapes(report)
    return [
        [Heading(title=title, about=about)],
        [_tabulate_differences(report)],
        [] if shapes is None else [shapes],
        [Paragraph(text=sentence) for sentence in conclude_comparison(report)],
    ]


def _tabulate_differences(report: ComparisonReport) -> Table:
    """Return a row a figure; one without an effect ends early, and says why."""
    rows = []
    for key, difference in report.differences.items():
        label = name_figure(key)
        name = TableCell(label.strip(), level=int(label.startswith("  ")))
        first, second = (
            "-" if isinstance(figure, Unmeasured) else format_number(key, figure.value)
            for figure in (difference.first, difference.second)
        )
        effect = difference.effect
        if isinstance(effect, Unmeasured):
            rows.append(make_row(name, first, second, "-", describe_absence(effect, 0)))
            continue
        holm = format_p(difference.p_adjusted) + (" *" if difference.survives else "")
        shown = format_signed(key, effect.value), format_interval(key, effect)
        cases = f"{difference.n_cases:,}" if difference.paired else "-"
        rows.append(make_row(name, first, second, *shown, cases, format_p(difference.p), holm))
    return Table(
        id="differences",
        columns=make_columns(
            "", "first", "second", "difference", "95 % interval", "cases", "p", "Holm",
            numbers=("first", "second", "difference", "cases", "p", "Holm"),
        ),
        rows=tuple(rows),
        own=True,
    )  # fmt: skip


def _tabulate_shapes(report: ComparisonReport) -> Table | None:
    first, second, found = report.first.shapes, report.second.shapes, report.shapes
    if isinstance(first, Unmeasured) or isinstance(second, Unmeasured):
        return None
    if isinstance(found, Unmeasured):
        return None
    return tabulate_shape_differences(found, first, second)


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
    named = ", ".join(name_figure(key).strip() for key in found)
    tested = sum(d.p is not None for d in report.differences.values())
    yield f"Survives Holm at .05 over {tested} figures: {named or 'none'}."
    for key, d in report.differences.items():
        if d.cases_needed is not None and key == "outcome.pass":
            points = f"{report.worth_seeing * 100:g} points"
            seen = "" if d.detectable is None else f"; these find {format_share(d.detectable)}"
            yield (
                f"To see {points} in {name_figure(key).strip()!r} you need about "
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


# Calls of one run that are matched; matching costs the product of both lengths.
MOST_CALLS = 400
# Characters of a call and of what it gave.
CALL_WIDTH = 120
# Differences named of one pair of calls.
NAMED_DIFFERENCES = 5

CallRelation = Literal["same", "result", "arguments", "left", "right"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSummary:
    """One call: its step and its address, in few words, what came back, whether it failed."""

    step: int
    href: str | None
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


# Two calls, one of them absent where only one run made it.
ExchangePair = tuple[Exchange | None, Exchange | None]


def align_calls(first: Trajectory, second: Trajectory, links: Links) -> Iterator[AlignedPair]:
    """Yield the calls of two runs side by side, in order."""
    for left, right in _places(first.exchanges[:MOST_CALLS], second.exchanges[:MOST_CALLS]):
        how, differs = _compare_calls(left, right)
        yield AlignedPair(
            how=how,
            left=_summarise(left, first.id, links),
            right=_summarise(right, second.id, links),
            differs=tuple(differs),
        )


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
            yield from zip(left[a:b], right[c:d], strict=True)
        else:
            yield from ((x, None) for x in left[a:b])
            yield from ((None, y) for y in right[c:d])


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


def _summarise(exchange: Exchange | None, run: str, links: Links) -> CallSummary | None:
    if exchange is None:
        return None
    return CallSummary(
        step=exchange.step,
        href=links.run(run, exchange.step),
        words=cut_words(visible_line(describe_call(exchange.call)), CALL_WIDTH),
        status="no answer" if exchange.result is None else exchange.result.status,
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
class RunsContent:
    """What the template of two runs reads."""

    first: ComparedRun
    second: ComparedRun
    pairs: tuple[AlignedPair, ...]
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
    pairs = tuple(align_calls(first.trajectory, second.trajectory, links))
    counts = {how: sum(pair.how == how for pair in pairs) for how in RELATION_WORDS}
    said = [f"{n:,} {RELATION_WORDS[how]}" for how, n in counts.items() if n]
    differing = next((pair for pair in pairs if pair.how != "same"), None)
    longest = max(len(first.trajectory.exchanges), len(second.trajectory.exchanges))
    content = RunsContent(
        first=_view_run(first, links),
        second=_view_run(second, links),
        pairs=pairs,
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
    first, second = name_profile(report.first), name_profile(report.second)
    rest = ("difference", "cases", "p", "p, Holm", "smallest seen")
    table = Table(
        id="differences",
        caption="Every figure, paired by case",
        columns=make_columns("figure", first, second, *rest, numbers=(first, second, *rest)),
        rows=tuple(_row(key, d) for key, d in report.differences.items()),
    )
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
    *, links: Links, pairs: Sequence[tuple[str, str]] = (), groups: Sequence[tuple[str, str]] = ()
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
                "label": name_figure(key).strip(),
                "group": "survives correction" if difference.survives else "does not",
                "value": effect.value,
                "low": effect.low,
                "high": effect.high,
                "text": format_with_interval(key, effect),
                "order": order,
            })  # fmt: skip
    return tuple(rows)


def _row(key: str, difference: Difference) -> TableRow:
    effect = difference.effect
    shown, detectable = make_figure_cell(key, effect), "-"
    if isinstance(effect, Estimate):
        shown = TableCell(
            format_signed(key, effect.value),
            sort=effect.value,
            note=format_interval(key, effect),
            tone="warn" if difference.survives else "",
        )
        if difference.detectable is not None:
            detectable = format_number(key, difference.detectable)
    holm = format_p(difference.p_adjusted) + (" survives" if difference.survives else "")
    return make_row(
        name_figure(key).strip(),
        make_figure_cell(key, difference.first),
        make_figure_cell(key, difference.second),
        shown,
        f"{difference.n_cases:,}" if difference.paired else "-",
        TableCell(format_p(difference.p), sort=difference.p),
        TableCell(holm, sort=difference.p_adjusted),
        TableCell(detectable, sort=difference.detectable, tone="quiet"),
    )
