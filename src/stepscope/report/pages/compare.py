"""Two runs side by side, aligned by their calls; or two groups, figure by figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stepscope.report import compare_text, lines
from stepscope.report.pages.aligned import MOST, Pair, aligned
from stepscope.report.pages.figures import cell, title
from stepscope.report.pages.links import Links, pair_anchor
from stepscope.report.pages.page import Cell, Chart, Column, Empty, Page, Row, Table, Tone
from stepscope.report.pages.run_data import RunData
from stepscope.report.pages.run_table import TONES
from stepscope.report.types import ComparisonReport, Difference
from stepscope.values import Estimate, Unmeasured


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
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
class Aligned:
    """A pair of calls with the addresses of their steps."""

    pair: Pair
    left_href: str | None
    right_href: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsContent:
    """What the template of two runs reads."""

    first: Compared
    second: Compared
    pairs: tuple[Aligned, ...]
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
class Choice:
    """What can be compared: pairs of runs and groups by name and address; a form on a server."""

    pairs: tuple[tuple[str, str], ...]
    groups: tuple[tuple[str, str], ...]
    form: bool
    empty: Empty


def compare_runs(first: RunData, second: RunData, *, links: Links) -> Page:
    """Return two runs side by side."""
    anchor = pair_anchor(first.trajectory.id, second.trajectory.id)
    pairs = tuple(aligned(first.trajectory, second.trajectory))
    counts = {how: sum(pair.how == how for pair in pairs) for how in WORDS}
    said = [f"{n:,} {WORDS[how]}" for how, n in counts.items() if n]
    differing = next((pair for pair in pairs if pair.how != "same"), None)
    longest = max(len(first.trajectory.exchanges), len(second.trajectory.exchanges))
    content = RunsContent(
        first=_compared(first, links),
        second=_compared(second, links),
        pairs=tuple(_with_links(pair, first, second, links) for pair in pairs),
        summary=", ".join(said) or "neither run made a call",
        first_difference=_first(differing),
        left=max(longest - MOST, 0),
        words=WORDS,
    )
    return Page(
        name="compare",
        title=f"{first.trajectory.name} and {second.trajectory.name}",
        template="compare_runs.html",
        anchor=anchor,
        content=content,
    )


WORDS = {
    "same": "the same",
    "result": "with another result",
    "arguments": "with other arguments",
    "left": "only in the first",
    "right": "only in the second",
}


def compare_groups(report: ComparisonReport, *, links: Links) -> Page:
    """Return two groups, figure by figure."""
    names = title(report.first), title(report.second)
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
        about=compare_text.headline(report).partition("   ")[2].replace("   ", " · "),
        said=tuple(compare_text.sentences(report)),
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


def compare_choice(
    *,
    links: Links,
    pairs: Sequence[tuple[str, str]] = (),
    groups: Sequence[tuple[str, str]] = (),
) -> Page:
    """Return what there is to compare; `pairs` and `groups` are names and addresses."""
    empty = Empty(
        said="Two runs of one task, or two agents, are laid side by side here.",
        commands=("stepscope compare AGENT OTHER", "stepscope view"),
    )
    return Page(
        name="compare",
        title="Compare",
        template="compare.html",
        anchor="compare",
        content=Choice(
            pairs=tuple(pairs), groups=tuple(groups), form=links.runs() is not None, empty=empty
        ),
    )


def _compared(data: RunData, links: Links) -> Compared:
    run = data.trajectory
    suspect = data.suspects[0] if data.suspects else None
    last = next((s.text for s in reversed(run.steps) if s.actor == "agent" and s.text), "")
    return Compared(
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


def _with_links(pair: Pair, first: RunData, second: RunData, links: Links) -> Aligned:
    left, right = pair.left, pair.right
    return Aligned(
        pair=pair,
        left_href=None if left is None else links.run(first.trajectory.id, left.step),
        right_href=None if right is None else links.run(second.trajectory.id, right.step),
    )


def _first(pair: Pair | None) -> str:
    if pair is None:
        return "No call differs."
    side = pair.left or pair.right
    step = "" if side is None else f" at step {side.step}"
    return f"First difference{step}: {WORDS[pair.how]}."


def _rows(report: ComparisonReport) -> tuple[dict[str, object], ...]:
    rows: list[dict[str, object]] = []
    for order, (key, difference) in enumerate(report.differences.items()):
        effect = difference.effect
        if not isinstance(effect, Estimate) or effect.unit != "share":
            continue
        if effect.low is not None and effect.high is not None:
            rows.append({
                "label": lines.label(key).strip(),
                "group": "survives correction" if difference.survives else "does not",
                "value": effect.value,
                "low": effect.low,
                "high": effect.high,
                "text": f"{lines.number(key, effect.value)} {lines.interval(key, effect)}",
                "order": order,
            })  # fmt: skip
    return tuple(rows)


def _table(report: ComparisonReport) -> Table:
    columns = (
        Column(key="figure", label="figure"),
        Column(key="first", label=title(report.first), number=True),
        Column(key="second", label=title(report.second), number=True),
        Column(key="effect", label="difference", number=True),
        Column(key="cases", label="cases", number=True),
        Column(key="p", label="p", number=True),
        Column(key="holm", label="p, Holm", number=True),
        Column(key="detectable", label="smallest seen", number=True),
    )
    rows = tuple(_row(key, d) for key, d in report.differences.items())
    return Table(
        id="differences", caption="Every figure, paired by case", columns=columns, rows=rows
    )


def _row(key: str, difference: Difference) -> Row:
    effect = difference.effect
    shown = cell(key, effect)
    if isinstance(effect, Estimate):
        shown = Cell(
            text=compare_text.signed(key, effect.value),
            sort=effect.value,
            note=lines.interval(key, effect),
            tone="warn" if difference.survives else "",
        )
    holm = compare_text.p_value(difference.p_adjusted)
    return Row(
        cells=(
            Cell(text=lines.label(key).strip()),
            cell(key, difference.first),
            cell(key, difference.second),
            shown,
            Cell(text=f"{difference.n_cases:,}" if difference.paired else "-"),
            Cell(text=compare_text.p_value(difference.p), sort=difference.p),
            Cell(
                text=holm + (" survives" if difference.survives else ""),
                sort=difference.p_adjusted,
            ),
            Cell(text=_detectable(key, difference), sort=difference.detectable, tone="quiet"),
        )
    )


def _detectable(key: str, difference: Difference) -> str:
    if isinstance(difference.effect, Unmeasured) or difference.detectable is None:
        return "-"
    return lines.number(key, difference.detectable)
