"""The failure profile by axis, and the shapes of score curves, by group.

Beside each share stands what the rules left open, and what the share would be if all of it were
correct or all at fault. A group without shares of shapes counts the labels of its runs instead.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stepscope.model.records import UNCERTAIN, Figure
from stepscope.report import words
from stepscope.report.document import (
    Chart,
    DrawnInterval,
    EmptyNotice,
    Links,
    Page,
    Table,
    TableCell,
    TableColumn,
    TableRow,
)
from stepscope.report.types import Profile, Report, Shapes, ShapesDifference
from stepscope.report.views import panels
from stepscope.report.views.panels import PanelsView
from stepscope.report.views.vector import choose_largest, name_profile
from stepscope.report.words import AXES, SCORE_FIRST, describe_shape, name_shape
from stepscope.safety.text import visible_line
from stepscope.shape.types import SHAPES
from stepscope.values import Estimate, Unmeasured

AXES_TITLE = "Failure profile"
GAP = 2
# Columns as in the vector above; an axis' name may take some of its value's.
NAME_AND_VALUE, INTERVAL, WORST, COUNT = 31, 14, 11, 7
# A group's name longer than this says no more in a heading.
LONGEST_NAME = 36


def lay_out_axes(profiles: Sequence[Profile], width: int) -> list[str]:
    """Return the lines of the failure profile of all groups; none where no axis is part of them."""
    asked = [key for key in AXES if any(key in p.figures for p in profiles)]
    scored = [k for k in asked if not all(words.is_unscored(p.figures[k]) for p in profiles)]
    if not asked:
        return []
    if not scored:
        return [f"{AXES_TITLE}: not scored; {SCORE_FIRST}"]
    out = list(
        _lay_out_one_group(profiles[0], scored, width)
        if len(profiles) == 1
        else _lay_out_groups(profiles, scored, width)
    )
    left = [AXES[key] for key in asked if key not in scored]
    return out + ([f"  not scored: {', '.join(left)}"] if left else [])


def _lay_out_one_group(profile: Profile, keys: Sequence[str], width: int) -> Iterator[str]:
    rows = [(AXES[key], *_cells(key, profile.figures[key])) for key in keys]
    head = (AXES_TITLE, "incorrect", "95 % interval", "worst case", "judged", "not judged")
    wide = [max(len(row[at]) for row in [head, *rows]) for at in (2, 3, 4)]
    for label, value, interval, worst, n, rest in [head, *rows]:
        name = label if label is AXES_TITLE else f"  {label}"
        left = f"{name}{value:>{NAME_AND_VALUE - len(name)}}  "
        left += f"{interval:<{max(wide[0], INTERVAL)}}{worst:>{max(wide[1], WORST)}}"
        left += f"{n:>{max(wide[2], COUNT)}}  "
        said = textwrap.wrap(visible_line(rest), max(width - len(left), 16))
        yield (left + said[0]).rstrip()
        yield from (" " * len(left) + more for more in said[1:])


def _cells(key: str, figure: Figure) -> tuple[str, str, str, str, str]:
    if isinstance(figure, Unmeasured):
        return "-", "-", "-", "0", f"{figure.kind}: {figure.reason}"
    lost = [f"{n:,} {kind}" for kind, n in sorted(figure.unmeasured.items()) if n]
    value, interval = words.format_number(key, figure.value), words.format_interval(key, figure)
    worst = words.format_bounds(key, figure).removeprefix("worst case ").replace(" to ", "-")
    return value, interval, worst, f"{figure.n:,}", ", ".join(reversed(lost)) or "0"


def _lay_out_groups(profiles: Sequence[Profile], keys: Sequence[str], width: int) -> Iterator[str]:
    """Yield tables of as many groups as stand side by side, a column each."""
    names = [AXES_TITLE, *(f"  {AXES[key]}" for key in keys)]
    columns = [
        [clip_title(profile), *(_cell(key, profile.figures[key]) for key in keys)]
        for profile in profiles
    ]
    return lay_side_by_side(names, columns, width)


def lay_side_by_side(
    names: Sequence[str], columns: Sequence[Sequence[str]], width: int
) -> Iterator[str]:
    """Yield rows of names and columns; columns that do not fit stand below, names repeated."""
    first = max(map(len, names))
    widths = [max(map(len, column)) for column in columns]
    start = 0
    while start < len(columns):
        stop, room = start + 1, width - first - GAP - widths[start]
        while stop < len(columns) and room >= widths[stop] + GAP:
            room -= widths[stop] + GAP
            stop += 1
        for at, name in enumerate(names):
            cells = (f"{columns[c][at]:<{widths[c]}}" for c in range(start, stop))
            told = "" if at == 0 and start else name
            yield (" " * GAP).join([f"{told:<{first}}", *cells]).rstrip()
        start = stop


def clip_title(profile: Profile) -> str:
    """Return a group's title, cut to what a heading can hold."""
    name = visible_line(profile.title)
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _cell(key: str, figure: Figure) -> str:
    if isinstance(figure, Unmeasured):
        return "- not scored" if words.is_unscored(figure) else f"- {figure.kind}"
    left = figure.unmeasured.get(UNCERTAIN, 0)
    said = (
        f"{words.format_number(key, figure.value)} {words.format_interval(key, figure)} of "
        f"{figure.n:,}"
    )
    return f"{said}, {UNCERTAIN} {left:,}" if left else said


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileContent:
    """What the template of the profile reads."""

    chart: Chart | None
    table: Table
    empty: EmptyNotice | None
    about: str
    judges: PanelsView | None = None


def make_profile_page(report: Report, *, links: Links) -> Page:
    """Return the failure profile of every group."""
    keys = _scored(report.profiles)
    table = _table(report.profiles, keys)
    chart = chart_axes(report.profiles)
    empty = None
    if not keys:
        empty = EmptyNotice(
            said=f"No axis is scored: {SCORE_FIRST}.", commands=("stepscope score",)
        )
    judges = panels.view_panels(report.panels, links) if report.panels else None
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


def chart_axes(profiles: Sequence[Profile]) -> Chart | None:
    """Return the failure profile as a chart; None where no axis was scored."""
    keys = _scored(profiles)
    rows = _rows(choose_largest(profiles), keys)
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
        if any(key in p.figures and not words.is_unscored(p.figures[key]) for p in profiles)
    ]


def _rows(profiles: list[Profile], keys: list[str]) -> tuple[dict[str, object], ...]:
    rows: list[dict[str, object]] = []
    for order, key in enumerate(keys):
        for profile in profiles:
            figure = profile.figures.get(key)
            measured = isinstance(figure, Estimate)
            rows.append({
                "label": AXES[key],
                "group": name_profile(profile),
                "value": figure.value if isinstance(figure, Estimate) else None,
                "text": _words(key, figure) if measured and figure is not None else "not judged",
                "judged": figure.n if isinstance(figure, Estimate) else 0,
                "order": order,
            })  # fmt: skip
    return tuple(rows)


def _words(key: str, figure: Figure) -> str:
    if isinstance(figure, Unmeasured):
        return "-"
    return f"{words.format_number(key, figure.value)}\n{words.format_interval(key, figure)}"


def _table(profiles: Sequence[Profile], keys: list[str]) -> Table:
    columns = (
        TableColumn(key="group", label="group"),
        TableColumn(key="axis", label="axis"),
        TableColumn(key="incorrect", label="incorrect", number=True),
        TableColumn(key="interval", label="95 % interval"),
        TableColumn(key="worst", label="worst case"),
        TableColumn(key="judged", label="judged", number=True),
        TableColumn(key="open", label="left open", number=True),
        TableColumn(key="unmeasured", label="unmeasured"),
    )
    rows = tuple(
        _row(profile, key, profile.figures[key])
        for profile in profiles
        for key in keys
        if key in profile.figures
    )
    caption = "Failure profile: runs that an axis found at fault among those it could judge"
    return Table(id="profile-table", caption=caption, columns=columns, rows=rows)


def _row(profile: Profile, key: str, figure: Figure) -> TableRow:
    names = (TableCell(text=name_profile(profile)), TableCell(text=AXES[key]))
    if isinstance(figure, Unmeasured):
        why = TableCell(text=f"{figure.kind}: {figure.reason}", tone="quiet")
        blank = TableCell(text="-", tone="quiet")
        return TableRow(
            cells=(*names, blank, blank, blank, TableCell(text="0", sort=0), blank, why)
        )
    drawn = None
    if figure.low is not None and figure.high is not None:
        drawn = DrawnInterval(
            low=100 * figure.low, value=100 * figure.value, high=100 * figure.high
        )
    left = figure.unmeasured.get(UNCERTAIN, 0)
    lost = ", ".join(
        f"{n:,} {kind}" for kind, n in sorted(figure.unmeasured.items()) if n and kind != UNCERTAIN
    )
    worst = words.format_bounds(key, figure).removeprefix("worst case ")
    return TableRow(
        cells=(
            *names,
            TableCell(text=words.format_number(key, figure.value), sort=figure.value),
            TableCell(text=words.format_interval(key, figure), interval=drawn),
            TableCell(text=worst or "-", tone="quiet"),
            TableCell(text=f"{figure.n:,}", sort=figure.n),
            TableCell(text=f"{left:,}", sort=left),
            TableCell(text=lost or "0", tone="quiet"),
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapesView:
    """The chart of shares, where there are any, the counts, and where the scores come from."""

    chart: Chart | None
    counts: Table
    notes: tuple[str, ...]


def view_shapes(profiles: Sequence[Profile]) -> ShapesView | None:
    """Return the shapes of all groups; None where no run has a curve."""
    found = [(profile, profile.shapes) for profile in profiles]
    held = [(p, s) for p, s in found if isinstance(s, Shapes)]
    if not held:
        return None
    notes = dict.fromkeys(f"Scores: {shapes.source}; noise: {shapes.sigma}." for _, shapes in held)
    return ShapesView(chart=_chart(held), counts=_counts(held), notes=tuple(notes))


def _chart(held: Sequence[tuple[Profile, Shapes]]) -> Chart | None:
    shown = {id(profile) for profile in choose_largest([profile for profile, _ in held])}
    rows: list[dict[str, object]] = []
    for profile, shapes in held:
        for order, (shape, share) in enumerate(shapes.shares.items()):
            if id(profile) in shown and share.low is not None and share.high is not None:
                rows.append({
                    "label": name_shape(shape),
                    "group": name_profile(profile),
                    "value": share.value,
                    "low": share.low,
                    "high": share.high,
                    "text": (
                        f"{words.format_share(share.value)} "
                        f"{words.format_interval('shape', share)}"
                    ),
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
        table=_shares(held),
    )


def _shares(held: Sequence[tuple[Profile, Shapes]]) -> Table:
    rows = [
        TableRow(
            cells=(
                TableCell(text=name_profile(profile)),
                TableCell(text=name_shape(shape)),
                TableCell(text=words.format_share(share.value), sort=share.value),
                TableCell(text=words.format_interval("shape", share)),
                TableCell(text=words.format_n(share), sort=share.n),
            )
        )
        for profile, shapes in held
        for shape, share in shapes.shares.items()
    ]
    columns = (
        TableColumn(key="group", label="group"),
        TableColumn(key="shape", label="shape"),
        TableColumn(key="share", label="share", number=True),
        TableColumn(key="interval", label="95 % interval"),
        TableColumn(key="n", label="n", number=True),
    )
    return Table(
        id="shapes-table", caption="Share of runs by shape", columns=columns, rows=tuple(rows)
    )


def _counts(held: Sequence[tuple[Profile, Shapes]]) -> Table:
    columns = (
        TableColumn(key="group", label="group"),
        TableColumn(key="runs", label="runs with a curve", number=True),
        TableColumn(key="unresolved", label="unresolved", number=True),
        TableColumn(key="unmodelled", label="no shape fits", number=True),
        TableColumn(key="low", label="low throughout", number=True),
        TableColumn(key="gate", label="a weighty step below the gate", number=True),
        TableColumn(key="shares", label="shares"),
    )
    rows = tuple(
        TableRow(
            cells=(
                TableCell(text=name_profile(profile)),
                *(
                    TableCell(text=f"{count:,}", sort=count)
                    for count in (
                        shapes.n_runs,
                        shapes.unresolved,
                        shapes.unmodelled,
                        shapes.low_level,
                        shapes.gate_failed,
                    )
                ),
                TableCell(text=_why(shapes.no_shares), tone="quiet"),
            )
        )
        for profile, shapes in held
    )
    return Table(id="shape-counts", caption="Runs with a curve", columns=columns, rows=rows)


def _why(absent: Unmeasured | None) -> str:
    return "estimated" if absent is None else f"{absent.kind}: {absent.reason}"


SHAPES_TITLE = "Shapes"
# What is counted beside the five shares, and how it is called.
BESIDE = {
    "unresolved": "unresolved",
    "unmodelled": "no shape fits",
    "low_level": "low mean score",
    "gate_failed": "gate failed",
}


def lay_out_shapes(profiles: Sequence[Profile], width: int) -> list[str]:
    """Return the lines on the shapes of all groups; none where nothing can be said of them."""
    held = select_shapes(profiles)
    if not held:
        return []
    every = tabulate_shapes([shapes for _, shapes in held])
    names = [SHAPES_TITLE, *(f"  {label}" for label, _ in every)]
    head = [clip_title(profile) if len(held) > 1 else "share, 95 % interval" for profile, _ in held]
    columns = [[head[at], *(cells[at] for _, cells in every)] for at in range(len(held))]
    out = list(lay_side_by_side(names, columns, width))
    for sentence in describe_basis([shapes for _, shapes in held]):
        out += textwrap.wrap(visible_line(sentence), width, initial_indent="  ",
                             subsequent_indent="    ")  # fmt: skip
    return out


def select_shapes(profiles: Sequence[Profile]) -> list[tuple[Profile, Shapes]]:
    """Return the groups of whose shapes there is something to say."""
    held = [(p, p.shapes) for p in profiles if isinstance(p.shapes, Shapes)]
    return [(p, shapes) for p, shapes in held if shapes.shares or shapes.labels or not _labels(p)]


def _labels(profile: Profile) -> bool:
    shapes = profile.shapes
    return isinstance(shapes, Shapes) and shapes.source.startswith("labels")


def tabulate_shapes(held: Sequence[Shapes]) -> list[tuple[str, list[str]]]:
    """Return what is said line by line: its name, and a cell for each group."""
    out = [(describe_shape(shape), [_share(shapes, shape) for shapes in held]) for shape in SHAPES]
    for field, called in BESIDE.items():
        counts = [int(getattr(shapes, field)) for shapes in held]
        if any(counts):
            of = [f"{n:,} of {s.n_runs:,} runs" for n, s in zip(counts, held, strict=True)]
            out.append((called, of))
    if any(shapes.unmeasured for shapes in held):
        out.append(("without a shape", [_lost(shapes) for shapes in held]))
    return out


def _share(shapes: Shapes, shape: str) -> str:
    found = {str(name): estimate for name, estimate in shapes.shares.items()}.get(shape)
    if found is not None:
        return f"{words.format_share(found.value)} {words.format_interval('shape', found)}"
    n = shapes.labels.get(shape, 0)
    return f"{n:,} run{'' if n == 1 else 's'}"


def _lost(shapes: Shapes) -> str:
    return ", ".join(f"{n:,} {kind}" for kind, n in shapes.unmeasured.items()) or "0"


def describe_basis(held: Sequence[Shapes]) -> Iterator[str]:
    """Yield where the scores come from, their noise, and why there are no shares."""
    yield from dict.fromkeys(f"scores: {s.source}; noise: {s.sigma}" for s in held)
    absent = [s.no_shares for s in held if s.no_shares is not None]
    yield from dict.fromkeys(f"no shares: {a.reason}; runs by their own label" for a in absent)


def tabulate_shape_differences(
    found: ShapesDifference, first: Shapes, second: Shapes
) -> list[tuple[str, ...]]:
    """Return the comparison of two groups as rows of cells, the head first."""
    head = ("share of runs", "first", "second", "difference", "95 % interval", "p, max of 5")
    out: list[tuple[str, ...]] = [head]
    for shape, difference in found.difference.items():
        sides = (shares.shares.get(shape) for shares in (first, second))
        values = ("-" if side is None else words.format_share(side.value) for side in sides)
        text = words.format_share(difference.value)
        signed = text if text.startswith("-") else f"+{text}"
        p = found.p[shape]
        said = "<.001" if p < 0.001 else words.format_share(p)
        interval = words.format_interval("shape", difference)
        out.append((describe_shape(shape), *values, signed, interval, said))
    return out
