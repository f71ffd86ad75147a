"""The failure profile: axes down, groups across, how often rules found each at fault.

What the rules left open is beside each share, and what the share would be if all of it were correct
or all at fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepscope.report import lines
from stepscope.report.keys import AXES, SCORE_FIRST, UNCERTAIN
from stepscope.report.pages import panels
from stepscope.report.pages.figures import largest, title
from stepscope.report.pages.links import Links
from stepscope.report.pages.page import Cell, Chart, Column, Empty, Interval, Page, Row, Table
from stepscope.report.pages.panels import PanelsView
from stepscope.report.types import Figure, Profile, Report
from stepscope.values import Estimate, Unmeasured


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileContent:
    """What the template of the profile reads."""

    chart: Chart | None
    table: Table
    empty: Empty | None
    about: str
    judges: PanelsView | None = None


def profile(report: Report, *, links: Links) -> Page:
    """Return the failure profile of every group."""
    keys = _scored(report.profiles)
    table = _table(report.profiles, keys)
    chart = axes_chart(report.profiles)
    empty = None
    if not keys:
        empty = Empty(said=f"No axis is scored: {SCORE_FIRST}.", commands=("stepscope score",))
    judges = panels.view(report.panels, links) if report.panels else None
    drawn = [*([] if chart is None else [chart]), *(() if judges is None else judges.charts)]
    return Page(
        name="profile",
        title="Profile",
        template="profile.html",
        anchor="profile",
        content=ProfileContent(
            chart=chart,
            table=table,
            empty=empty,
            about="judges: " + (", ".join(report.provenance.judges) or "none"),
            judges=judges,
        ),
        charts=tuple(drawn),
    )


def axes_chart(profiles: Sequence[Profile]) -> Chart | None:
    """Return the failure profile as a chart; None where no axis was scored."""
    keys = _scored(profiles)
    rows = _rows(largest(profiles), keys)
    if not rows:
        return None
    return Chart(
        id="axes-chart",
        spec="axes",
        title="Share of judged runs at fault, by axis",
        alt="Axes by groups; each cell has the share and its 95 % interval in words.",
        rows=rows,
        table=_table(profiles, keys),
    )


def _scored(profiles: Sequence[Profile]) -> list[str]:
    """Return the axes that any of the groups was scored on."""
    return [
        key
        for key in AXES
        if any(key in p.figures and not lines.unscored(p.figures[key]) for p in profiles)
    ]


def _rows(profiles: list[Profile], keys: list[str]) -> tuple[dict[str, object], ...]:
    rows: list[dict[str, object]] = []
    for order, key in enumerate(keys):
        for profile in profiles:
            figure = profile.figures.get(key)
            measured = isinstance(figure, Estimate)
            rows.append({
                "label": AXES[key],
                "group": title(profile),
                "value": figure.value if isinstance(figure, Estimate) else None,
                "text": _words(key, figure) if measured and figure is not None else "not judged",
                "judged": figure.n if isinstance(figure, Estimate) else 0,
                "order": order,
            })  # fmt: skip
    return tuple(rows)


def _words(key: str, figure: Figure) -> str:
    if isinstance(figure, Unmeasured):
        return "-"
    return f"{lines.number(key, figure.value)}\n{lines.interval(key, figure)}"


def _table(profiles: Sequence[Profile], keys: list[str]) -> Table:
    columns = (
        Column(key="group", label="group"),
        Column(key="axis", label="axis"),
        Column(key="incorrect", label="incorrect", number=True),
        Column(key="interval", label="95 % interval"),
        Column(key="worst", label="worst case"),
        Column(key="judged", label="judged", number=True),
        Column(key="open", label="left open", number=True),
        Column(key="unmeasured", label="unmeasured"),
    )
    rows = tuple(
        _row(profile, key, profile.figures[key])
        for profile in profiles
        for key in keys
        if key in profile.figures
    )
    caption = "Failure profile: runs that an axis found at fault among those it could judge"
    return Table(id="profile-table", caption=caption, columns=columns, rows=rows)


def _row(profile: Profile, key: str, figure: Figure) -> Row:
    names = (Cell(text=title(profile)), Cell(text=AXES[key]))
    if isinstance(figure, Unmeasured):
        why = Cell(text=f"{figure.kind}: {figure.reason}", tone="quiet")
        blank = Cell(text="-", tone="quiet")
        return Row(cells=(*names, blank, blank, blank, Cell(text="0", sort=0), blank, why))
    drawn = None
    if figure.low is not None and figure.high is not None:
        drawn = Interval(low=100 * figure.low, value=100 * figure.value, high=100 * figure.high)
    left = figure.unmeasured.get(UNCERTAIN, 0)
    lost = ", ".join(
        f"{n:,} {kind}" for kind, n in sorted(figure.unmeasured.items()) if n and kind != UNCERTAIN
    )
    worst = lines.bounds(key, figure).removeprefix("worst case ")
    return Row(
        cells=(
            *names,
            Cell(text=lines.number(key, figure.value), sort=figure.value),
            Cell(text=lines.interval(key, figure), interval=drawn),
            Cell(text=worst or "-", tone="quiet"),
            Cell(text=f"{figure.n:,}", sort=figure.n),
            Cell(text=f"{left:,}", sort=left),
            Cell(text=lost or "0", tone="quiet"),
        )
    )
