"""The vector of each group as tables and charts: values, intervals, n, and what is unmeasured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stepscope.model.records import Figure
from stepscope.report.document import (
    Chart,
    DrawnInterval,
    Table,
    TableCell,
    TableColumn,
    make_columns,
    make_row,
)
from stepscope.report.formatting import (
    AXES,
    LABELS,
    format_interval,
    format_losses,
    format_n,
    format_number,
    format_with_interval,
    list_figures,
    name_figure,
)
from stepscope.report.types import Profile
from stepscope.safety.text import visible_line
from stepscope.values import Estimate, Unmeasured

# Groups that a chart tells apart by colour and form.
MOST_GROUPS = 7
VECTOR = (
    TableColumn("figure", least=22),
    TableColumn("value", number=True, least=9, gap=0),
    TableColumn("95 % interval", least=15),
    TableColumn("n", number=True, least=10, gap=0),
    TableColumn("unmeasured", overflow="wrap"),
)


def name_profile(profile: Profile) -> str:
    """Return what a group is called."""
    return visible_line(profile.title) or "all runs"


def draw_interval(figure: Figure) -> DrawnInterval | None:
    """Return a share's interval as it is drawn; None for other units and what has no limits."""
    if isinstance(figure, Unmeasured) or figure.unit != "share":
        return None
    if figure.low is None or figure.high is None:
        return None
    return DrawnInterval(low=100 * figure.low, value=100 * figure.value, high=100 * figure.high)


def make_figure_cell(key: str, figure: Figure) -> TableCell:
    """Return one figure as a cell: value and interval; pointed at, its n, or why there is none."""
    if isinstance(figure, Unmeasured):
        return TableCell("-", title=f"{figure.kind}: {figure.reason}", tone="quiet")
    return TableCell(
        text=format_number(key, figure.value),
        sort=figure.value,
        note=format_interval(key, figure),
        title=f"n {format_n(figure)}; unmeasured {format_losses(key, figure)}",
        interval=draw_interval(figure),
    )


def tabulate_vector(profile: Profile, anchor: str) -> Table:
    """Return the vector of one group, a row a figure."""
    by_label = {name_figure(key).strip(): figure for key, figure in profile.figures.items()}
    rows = []
    for line in list_figures(profile):
        label = line.label.strip()
        figure = by_label.get(label)
        drawn = None if figure is None else draw_interval(figure)
        value = figure.value if isinstance(figure, Estimate) else None
        rows.append(
            make_row(
                TableCell(label, level=int(line.label.startswith("  "))),
                TableCell(line.value, sort=value, tone="quiet" if line.value == "-" else ""),
                TableCell(line.interval, interval=drawn, tone="quiet" if drawn is None else ""),
                line.n,
                TableCell(line.unmeasured, tone="quiet"),
            )
        )
    caption = f"The vector of {name_profile(profile)}"
    return Table(id=anchor, caption=caption, columns=VECTOR, rows=tuple(rows), own=True)


def tabulate_groups(profiles: Sequence[Profile], keys: Sequence[str]) -> Table:
    """Return groups down and figures across, each with its interval."""
    labels = [name_column(key) for key in keys]
    return Table(
        id="groups",
        caption="Outcome and path, by group",
        columns=make_columns("group", "runs", *labels, numbers=("runs", *labels)),
        rows=tuple(
            make_row(
                name_profile(profile),
                TableCell(f"{profile.n_runs:,}", sort=profile.n_runs),
                *(make_figure_cell(key, profile.figures[key]) for key in keys),
            )
            for profile in profiles
        ),
    )


def name_column(key: str) -> str:
    """Return the name of a figure that stands above a column of its own.

    >>> name_column("steps.p95"), name_column("outcome.pass")
    ('steps, p95', 'outcome: pass')
    """
    if key.endswith(".p95"):
        return LABELS[key.removesuffix(".p95") + ".median"].replace("median", "p95")
    return name_figure(key).strip()


def choose_measured(profiles: Sequence[Profile], keys: Iterable[str]) -> list[str]:
    """Return the figures that any of the groups has, in the order given, without axes."""
    return [
        key
        for key in keys
        if key not in AXES
        and all(key in p.figures for p in profiles)
        and any(isinstance(p.figures[key], Estimate) for p in profiles)
    ]


def make_interval_rows(
    profiles: Sequence[Profile], keys: Sequence[str]
) -> tuple[dict[str, object], ...]:
    """Return the rows of a chart of intervals: shares that have limits, by figure and group."""
    rows: list[dict[str, object]] = []
    for order, key in enumerate(keys):
        for profile in choose_largest(profiles):
            figure = profile.figures[key]
            if draw_interval(figure) is not None and isinstance(figure, Estimate):
                rows.append({
                    "label": name_figure(key).strip(),
                    "group": name_profile(profile),
                    "value": figure.value,
                    "low": figure.low,
                    "high": figure.high,
                    "text": format_with_interval(key, figure),
                    "order": order,
                })  # fmt: skip
    return tuple(rows)


def choose_largest(profiles: Sequence[Profile]) -> list[Profile]:
    """Return the groups that a chart can tell apart: those with the most runs, in their order."""
    kept = sorted(range(len(profiles)), key=lambda at: -profiles[at].n_runs)[:MOST_GROUPS]
    return [profiles[at] for at in sorted(kept)]


def chart_vector(profiles: Sequence[Profile], table: Table) -> Chart | None:
    """Return the shares of the vector with their intervals; None where there is none."""
    keys = choose_measured(profiles, profiles[0].figures)
    powers = [key for key in keys if "^" in key]
    keys = [key for key in keys if key not in powers[:-1]]
    rows = make_interval_rows(profiles, keys)
    if not rows:
        return None
    return Chart(
        id="vector-chart",
        spec="vector",
        title="Outcome and path",
        alt=f"Shares with 95 % intervals of {len(choose_largest(profiles))} groups; table below.",
        rows=rows,
        table=table,
    )
