"""Figures of a report as cells, rows and charts; the words are those of every other renderer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stepscope.report import lines
from stepscope.report.keys import AXES, LABELS
from stepscope.report.pages.page import Cell, Chart, Column, Interval, Row, Table
from stepscope.report.types import Figure, Profile
from stepscope.safety.text import visible_line
from stepscope.values import Estimate, Unmeasured

# Groups that a chart tells apart by colour and form.
MOST_GROUPS = 7
VECTOR = (
    Column(key="figure", label="figure"),
    Column(key="value", label="value", number=True),
    Column(key="interval", label="95 % interval"),
    Column(key="n", label="n", number=True),
    Column(key="unmeasured", label="unmeasured"),
)


def title(profile: Profile) -> str:
    """Return what a group is called."""
    return visible_line(profile.title) or "all runs"


def interval(figure: Figure) -> Interval | None:
    """Return a share's interval as it is drawn; None for other units and what has no limits."""
    if isinstance(figure, Unmeasured) or figure.unit != "share":
        return None
    if figure.low is None or figure.high is None:
        return None
    return Interval(low=100 * figure.low, value=100 * figure.value, high=100 * figure.high)


def cell(key: str, figure: Figure) -> Cell:
    """Return one figure as a cell: value and interval; pointed at, its n, or why there is none."""
    if isinstance(figure, Unmeasured):
        return Cell(text="-", title=f"{figure.kind}: {figure.reason}", tone="quiet")
    return Cell(
        text=lines.number(key, figure.value),
        sort=figure.value,
        note=lines.interval(key, figure),
        title=f"n {lines.counted(figure)}; unmeasured {lines.losses(key, figure)}",
        interval=interval(figure),
    )


def vector_table(profile: Profile, anchor: str) -> Table:
    """Return the vector of one group, a row a figure."""
    return Table(
        id=anchor,
        caption=f"The vector of {title(profile)}",
        columns=VECTOR,
        rows=tuple(_vector_rows(profile)),
    )


def _vector_rows(profile: Profile) -> Iterable[Row]:
    by_label = {lines.label(key).strip(): figure for key, figure in profile.figures.items()}
    for line in lines.vector(profile):
        figure = by_label.get(line.label.strip())
        drawn = None if figure is None else interval(figure)
        value = figure.value if isinstance(figure, Estimate) else None
        yield Row(
            cells=(
                Cell(text=line.label.strip()),
                Cell(text=line.value, sort=value, tone="quiet" if line.value == "-" else ""),
                Cell(text=line.interval, interval=drawn, tone="quiet" if drawn is None else ""),
                Cell(text=line.n),
                Cell(text=line.unmeasured, tone="quiet"),
            )
        )


def matrix(profiles: Sequence[Profile], keys: Sequence[str], anchor: str, caption: str) -> Table:
    """Return groups down and figures across, each with its interval."""
    return Table(
        id=anchor,
        caption=caption,
        columns=(
            Column(key="group", label="group"),
            Column(key="runs", label="runs", number=True),
            *(Column(key=key, label=column_label(key), number=True) for key in keys),
        ),
        rows=tuple(
            Row(
                cells=(
                    Cell(text=title(profile)),
                    Cell(text=f"{profile.n_runs:,}", sort=profile.n_runs),
                    *(cell(key, profile.figures[key]) for key in keys),
                )
            )
            for profile in profiles
        ),
    )


def column_label(key: str) -> str:
    """Return the name of a figure that stands above a column of its own.

    >>> column_label("steps.p95"), column_label("outcome.pass")
    ('steps, p95', 'outcome: pass')
    """
    if key.endswith(".p95"):
        return LABELS[key.removesuffix(".p95") + ".median"].replace("median", "p95")
    return lines.label(key).strip()


def measured(profiles: Sequence[Profile], keys: Iterable[str]) -> list[str]:
    """Return the figures that any of the groups has, in the order given, without axes."""
    return [
        key
        for key in keys
        if key not in AXES
        and all(key in p.figures for p in profiles)
        and any(isinstance(p.figures[key], Estimate) for p in profiles)
    ]


def interval_rows(
    profiles: Sequence[Profile], keys: Sequence[str]
) -> tuple[dict[str, object], ...]:
    """Return the rows of a chart of intervals: shares that have limits, by figure and group."""
    rows: list[dict[str, object]] = []
    for order, key in enumerate(keys):
        for profile in largest(profiles):
            figure = profile.figures[key]
            if interval(figure) is not None and isinstance(figure, Estimate):
                rows.append({
                    "label": lines.label(key).strip(),
                    "group": title(profile),
                    "value": figure.value,
                    "low": figure.low,
                    "high": figure.high,
                    "text": f"{lines.number(key, figure.value)} {lines.interval(key, figure)}",
                    "order": order,
                })  # fmt: skip
    return tuple(rows)


def largest(profiles: Sequence[Profile]) -> list[Profile]:
    """Return the groups that a chart can tell apart: those with the most runs, in their order."""
    kept = sorted(range(len(profiles)), key=lambda at: -profiles[at].n_runs)[:MOST_GROUPS]
    return [profiles[at] for at in sorted(kept)]


def vector_chart(profiles: Sequence[Profile], table: Table) -> Chart | None:
    """Return the shares of the vector with their intervals; None where there is none."""
    keys = measured(profiles, profiles[0].figures)
    powers = [key for key in keys if "^" in key]
    keys = [key for key in keys if key not in powers[:-1]]
    rows = interval_rows(profiles, keys)
    if not rows:
        return None
    return Chart(
        id="vector-chart",
        spec="vector",
        title="Outcome and path",
        alt=f"Shares with 95 % intervals of {len(largest(profiles))} groups; table below.",
        rows=rows,
        table=table,
    )
