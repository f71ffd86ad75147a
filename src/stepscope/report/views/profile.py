"""The failure profile by axis, and the shapes of score curves, by group.

Beside each share stands what the rules left open, and what the share would be if all of it were
correct or all at fault. A group without shares of shapes counts the labels of its runs instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stepscope.model.records import UNCERTAIN, Figure
from stepscope.report.document import (
    Chart,
    EmptyNotice,
    Links,
    Page,
    Table,
    TableCell,
    TableColumn,
    make_columns,
    make_row,
)
from stepscope.report.formatting import (
    AXES,
    SCORE_FIRST,
    format_count,
    format_interval,
    format_n,
    format_number,
    format_p,
    format_share,
    format_signed,
    format_with_interval,
    format_worst_case,
    is_unscored,
    name_shape,
)
from stepscope.report.types import Profile, Report, Shapes, ShapesDifference
from stepscope.report.views.panels import chart_panels, tabulate_all_shares, tabulate_panels
from stepscope.report.views.vector import choose_largest, draw_interval, name_profile
from stepscope.shape.types import SHAPES
from stepscope.values import Estimate, Unmeasured

AXES_TITLE = "Failure profile"
# Columns of one group in text as in its vector; an axis' name may take some of its value's.
AXIS_COLUMNS = (
    TableColumn("axis", least=22),
    TableColumn("incorrect", number=True, least=9, gap=0),
    TableColumn("95 % interval", least=14),
    TableColumn("worst case", number=True, least=11, gap=0),
    TableColumn("judged", number=True, least=7, gap=0),
    TableColumn("not judged", overflow="wrap"),
)


def tabulate_axes(profiles: Sequence[Profile]) -> Table | None:
    """Return the axes of all groups, one group in full, several beside each other.

    None where no axis is part of them.
    """
    asked = [key for key in AXES if any(key in p.figures for p in profiles)]
    scored = _scored(profiles)
    left = ", ".join(AXES[key] for key in asked if key not in scored)
    if not scored:
        heading = f"{AXES_TITLE}: not scored; {SCORE_FIRST}"
        return Table(id="axes", columns=(), rows=(), heading=heading) if asked else None
    rows = []
    for key in scored:
        figures = [profile.figures[key] for profile in profiles]
        cells = _axis_cells(key, figures[0]) if len(profiles) == 1 else [
            _axis_cell(key, figure) for figure in figures
        ]  # fmt: skip
        rows.append(make_row(TableCell(AXES[key], level=1), *cells))
    titles = [TableColumn(profile.title, code=True) for profile in profiles]
    return Table(
        id="axes",
        corner=AXES_TITLE,
        columns=AXIS_COLUMNS if len(profiles) == 1 else (TableColumn("axis"), *titles),
        rows=tuple(rows),
        notes=(f"not scored: {left}",) if left else (),
        layout="lines" if len(profiles) == 1 else "beside",
        own=True,
    )


def _axis_cells(key: str, figure: Figure) -> Sequence[str]:
    if isinstance(figure, Unmeasured):
        return "-", "-", "-", "0", f"{figure.kind}: {figure.reason}"
    lost = [f"{n:,} {kind}" for kind, n in sorted(figure.unmeasured.items()) if n]
    worst = format_worst_case(key, figure).replace(" to ", "-")
    shown = format_number(key, figure.value), format_interval(key, figure)
    return *shown, worst, f"{figure.n:,}", ", ".join(reversed(lost)) or "0"


def _axis_cell(key: str, figure: Figure) -> str:
    if isinstance(figure, Unmeasured):
        return "- not scored" if is_unscored(figure) else f"- {figure.kind}"
    left = figure.unmeasured.get(UNCERTAIN, 0)
    said = f"{format_with_interval(key, figure)} of {figure.n:,}"
    return f"{said}, {UNCERTAIN} {left:,}" if left else said


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileContent:
    """What the template of the profile reads."""

    chart: Chart | None
    table: Table
    empty: EmptyNotice | None
    about: str
    judged: bool
    charts: tuple[Chart, ...]  # what judges say: a picture for each group
    shares: Table | None
    sheets: tuple[Table, ...]


def make_profile_page(report: Report, *, links: Links) -> Page:
    """Return the failure profile of every group."""
    chart = chart_axes(report.profiles)
    empty = EmptyNotice(said=f"No axis is scored: {SCORE_FIRST}.", commands=("stepscope score",))
    shares = tabulate_all_shares(report.panels) if report.panels else None
    sheets = tabulate_panels(report.panels, links) if report.panels else []
    drawn = chart_panels(report.panels) if report.panels else ()
    return Page(
        name="profile",
        title="Profile",
        template="profile.html",
        anchor="profile",
        content=ProfileContent(
            chart=chart,
            table=_table(report.profiles),
            empty=None if _scored(report.profiles) else empty,
            about="judges: " + (", ".join(report.provenance.judges) or "none"),
            judged=bool(report.panels),
            charts=drawn,
            shares=shares,
            # The table of shares stands in full, not side by side as in a terminal.
            sheets=tuple(sheet for sheet in sheets if sheet.layout != "beside"),
        ),
        charts=drawn if chart is None else (chart, *drawn),
    )


def chart_axes(profiles: Sequence[Profile]) -> Chart | None:
    """Return the failure profile as a chart; None where no axis was scored."""
    rows: list[dict[str, object]] = []
    for order, key in enumerate(_scored(profiles)):
        for profile in choose_largest(profiles):
            figure = profile.figures.get(key)
            measured = figure if isinstance(figure, Estimate) else None
            said = format_with_interval(key, measured).replace(" ", "\n", 1) if measured else ""
            rows.append({
                "label": AXES[key],
                "group": name_profile(profile),
                "value": measured.value if measured else None,
                "text": said or "not judged",
                "judged": measured.n if measured else 0,
                "order": order,
            })  # fmt: skip
    if not rows:
        return None
    return Chart(
        id="axes-chart",
        spec="axes",
        title="Share of judged runs at fault, by axis",
        alt="Axes by groups; each cell has the share and its 95 % interval in words.",
        rows=rows,
        table=_table(profiles),
    )


def _scored(profiles: Sequence[Profile]) -> list[str]:
    """Return the axes that any of the groups was scored on."""
    return [
        key
        for key in AXES
        if any(key in p.figures and not is_unscored(p.figures[key]) for p in profiles)
    ]


def _table(profiles: Sequence[Profile]) -> Table:
    numbers = ("incorrect", "judged", "left open")
    return Table(
        id="profile-table",
        caption="Failure profile: runs that an axis found at fault among those it could judge",
        columns=make_columns(
            "group", "axis", "incorrect", "95 % interval", "worst case", "judged", "left open",
            "unmeasured", numbers=numbers,
        ),
        rows=tuple(
            make_row(name_profile(profile), AXES[key], *_page_cells(key, profile.figures[key]))
            for profile in profiles
            for key in _scored(profiles)
            if key in profile.figures
        ),
    )  # fmt: skip


def _page_cells(key: str, figure: Figure) -> tuple[TableCell, ...]:
    if isinstance(figure, Unmeasured):
        why = TableCell(f"{figure.kind}: {figure.reason}", tone="quiet")
        blank = TableCell("-", tone="quiet")
        return blank, blank, blank, TableCell("0", sort=0), blank, why
    left = figure.unmeasured.get(UNCERTAIN, 0)
    lost = [f"{n:,} {k}" for k, n in sorted(figure.unmeasured.items()) if n and k != UNCERTAIN]
    return (
        TableCell(format_number(key, figure.value), sort=figure.value),
        TableCell(format_interval(key, figure), interval=draw_interval(figure)),
        TableCell(format_worst_case(key, figure) or "-", tone="quiet"),
        TableCell(f"{figure.n:,}", sort=figure.n),
        TableCell(f"{left:,}", sort=left),
        TableCell(", ".join(lost) or "0", tone="quiet"),
    )


def _with_curves(profiles: Sequence[Profile]) -> list[tuple[Profile, Shapes]]:
    return [(p, p.shapes) for p in profiles if isinstance(p.shapes, Shapes)]


def chart_shapes(profiles: Sequence[Profile]) -> Chart | None:
    """Return the shares of shapes of all groups; None where none has any."""
    held = _with_curves(profiles)
    shown = {id(profile) for profile in choose_largest([profile for profile, _ in held])}
    rows: list[dict[str, object]] = []
    shares = []
    for profile, shapes in held:
        for order, (shape, share) in enumerate(shapes.shares.items()):
            shares.append(
                make_row(
                    name_profile(profile),
                    name_shape(shape),
                    TableCell(format_share(share.value), sort=share.value),
                    format_interval("shape", share),
                    TableCell(format_n(share), sort=share.n),
                )
            )
            if id(profile) in shown and share.low is not None and share.high is not None:
                rows.append({
                    "label": name_shape(shape),
                    "group": name_profile(profile),
                    "value": share.value,
                    "low": share.low,
                    "high": share.high,
                    "text": format_with_interval("shape", share),
                    "order": order,
                })  # fmt: skip
    if not rows:
        return None
    return Chart(
        id="shapes-chart",
        spec="shapes",
        title="Shapes of the effort",
        alt="Share of the runs by the shape of their score curve, with 95 % intervals.",
        rows=rows,
        table=Table(
            id="shapes-table",
            caption="Share of runs by shape",
            columns=make_columns(
                "group", "shape", "share", "95 % interval", "n", numbers=("share", "n")
            ),
            rows=tuple(shares),
        ),
    )


def tabulate_shape_counts(profiles: Sequence[Profile]) -> Table | None:
    """Return how many runs of each group have which kind of curve; None where no run has one."""
    held = _with_curves(profiles)
    if not held:
        return None
    notes = dict.fromkeys(f"Scores: {shapes.source}; noise: {shapes.sigma}." for _, shapes in held)
    counted = {
        "runs with a curve": "n_runs",
        "unresolved": "unresolved",
        "no shape fits": "unmodelled",
        "low throughout": "low_level",
        "a weighty step below the gate": "gate_failed",
    }
    rows = []
    for profile, shapes in held:
        why = shapes.no_shares
        said = "estimated" if why is None else f"{why.kind}: {why.reason}"
        counts = [int(getattr(shapes, field)) for field in counted.values()]
        cells = (TableCell(f"{count:,}", sort=count) for count in counts)
        rows.append(make_row(name_profile(profile), *cells, TableCell(said, tone="quiet")))
    columns = make_columns("group", *counted, "shares", numbers=counted)
    return Table(
        id="shape-counts",
        caption="Runs with a curve",
        columns=columns,
        rows=tuple(rows),
        notes=tuple(notes),
    )


SHAPES_TITLE = "Shapes"
# What is counted beside the five shares, and how it is called.
BESIDE = {
    "unresolved": "unresolved",
    "unmodelled": "no shape fits",
    "low_level": "low mean score",
    "gate_failed": "gate failed",
}


def tabulate_shapes(profiles: Sequence[Profile]) -> Table | None:
    """Return the shapes of all groups beside each other; None where there is nothing to say."""
    held = [
        (profile, shapes)
        for profile, shapes in _with_curves(profiles)
        if shapes.shares or shapes.labels or not shapes.source.startswith("labels")
    ]
    if not held:
        return None
    titles = [TableColumn(profile.title, code=True) for profile, _ in held]
    return tabulate_shapes_of(
        [shapes for _, shapes in held],
        titles if len(held) > 1 else [TableColumn("share, 95 % interval")],
    )


def tabulate_shapes_of(held: Sequence[Shapes], titles: Sequence[TableColumn]) -> Table:
    """Return shapes beside each other, a column each, with what their figures rest on."""
    rows = [(name_shape(shape), [_share(shapes, shape) for shapes in held]) for shape in SHAPES]
    for field, called in BESIDE.items():
        counts = [int(getattr(shapes, field)) for shapes in held]
        if any(counts):
            of = [f"{n:,} of {s.n_runs:,} runs" for n, s in zip(counts, held, strict=True)]
            rows.append((called, of))
    if any(shapes.unmeasured for shapes in held):
        lost = [", ".join(f"{n:,} {kind}" for kind, n in s.unmeasured.items()) for s in held]
        rows.append(("without a shape", [said or "0" for said in lost]))
    return Table(
        id="shapes",
        corner=SHAPES_TITLE,
        columns=(TableColumn("shape"), *titles),
        rows=tuple(make_row(TableCell(label, level=1), *cells) for label, cells in rows),
        notes=tuple(describe_basis(held)),
        layout="beside",
        own=True,
    )


def _share(shapes: Shapes, shape: str) -> str:
    found = {str(name): estimate for name, estimate in shapes.shares.items()}.get(shape)
    if found is not None:
        return format_with_interval("shape", found)
    return format_count(shapes.labels.get(shape, 0), "run")


def describe_basis(held: Sequence[Shapes]) -> Iterator[str]:
    """Yield where the scores come from, their noise, and why there are no shares."""
    yield from dict.fromkeys(f"scores: {s.source}; noise: {s.sigma}" for s in held)
    absent = [s.no_shares for s in held if s.no_shares is not None]
    yield from dict.fromkeys(f"no shares: {a.reason}; runs by their own label" for a in absent)


def tabulate_shape_differences(found: ShapesDifference, first: Shapes, second: Shapes) -> Table:
    """Return the comparison of two groups by shape."""
    rows = []
    for shape, difference in found.difference.items():
        sides = (shapes.shares.get(shape) for shapes in (first, second))
        values = ["-" if side is None else format_share(side.value) for side in sides]
        values += [format_signed("shape", difference.value)]
        interval = format_interval("shape", difference)
        rows.append(make_row(name_shape(shape), *values, interval, format_p(found.p[shape])))
    columns = make_columns(
        "share of runs", "first", "second", "difference", "95 % interval", "p, max of 5",
        numbers=("first", "second", "difference", "95 % interval", "p, max of 5"),
    )  # fmt: skip
    return Table(
        id="shape-differences", corner="share of runs", columns=columns, rows=tuple(rows), own=True
    )
