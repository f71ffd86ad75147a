"""Which shapes the runs' score curves have: shares with intervals, and counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepscope.report import lines
from stepscope.report.curve_types import Shapes
from stepscope.report.pages.figures import largest, title
from stepscope.report.pages.page import Cell, Chart, Column, Row, Table
from stepscope.report.types import Profile
from stepscope.values import Unmeasured


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapesView:
    """The chart of shares, where there are any, the counts, and where the scores come from."""

    chart: Chart | None
    counts: Table
    notes: tuple[str, ...]


def view(profiles: Sequence[Profile]) -> ShapesView | None:
    """Return the shapes of all groups; None where no run has a curve."""
    found = [(profile, profile.shapes) for profile in profiles]
    held = [(p, s) for p, s in found if isinstance(s, Shapes)]
    if not held:
        return None
    notes = dict.fromkeys(f"Scores: {shapes.source}; noise: {shapes.sigma}." for _, shapes in held)
    return ShapesView(chart=_chart(held), counts=_counts(held), notes=tuple(notes))


def name(shape: str) -> str:
    """Return a shape as people read it.

    >>> name("early_collapse")
    'early collapse'
    """
    return shape.replace("_", " ")


def _chart(held: Sequence[tuple[Profile, Shapes]]) -> Chart | None:
    shown = {id(profile) for profile in largest([profile for profile, _ in held])}
    rows: list[dict[str, object]] = []
    for profile, shapes in held:
        for order, (shape, share) in enumerate(shapes.shares.items()):
            if id(profile) in shown and share.low is not None and share.high is not None:
                rows.append({
                    "label": name(shape),
                    "group": title(profile),
                    "value": share.value,
                    "low": share.low,
                    "high": share.high,
                    "text": f"{lines.share(share.value)} {lines.interval('shape', share)}",
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
        Row(
            cells=(
                Cell(text=title(profile)),
                Cell(text=name(shape)),
                Cell(text=lines.share(share.value), sort=share.value),
                Cell(text=lines.interval("shape", share)),
                Cell(text=lines.counted(share), sort=share.n),
            )
        )
        for profile, shapes in held
        for shape, share in shapes.shares.items()
    ]
    columns = (
        Column(key="group", label="group"),
        Column(key="shape", label="shape"),
        Column(key="share", label="share", number=True),
        Column(key="interval", label="95 % interval"),
        Column(key="n", label="n", number=True),
    )
    return Table(
        id="shapes-table", caption="Share of runs by shape", columns=columns, rows=tuple(rows)
    )


def _counts(held: Sequence[tuple[Profile, Shapes]]) -> Table:
    columns = (
        Column(key="group", label="group"),
        Column(key="runs", label="runs with a curve", number=True),
        Column(key="unresolved", label="unresolved", number=True),
        Column(key="unmodelled", label="no shape fits", number=True),
        Column(key="low", label="low throughout", number=True),
        Column(key="gate", label="a weighty step below the gate", number=True),
        Column(key="shares", label="shares"),
    )
    rows = tuple(
        Row(
            cells=(
                Cell(text=title(profile)),
                *(
                    Cell(text=f"{count:,}", sort=count)
                    for count in (
                        shapes.n_runs,
                        shapes.unresolved,
                        shapes.unmodelled,
                        shapes.low_level,
                        shapes.gate_failed,
                    )
                ),
                Cell(text=_why(shapes.no_shares), tone="quiet"),
            )
        )
        for profile, shapes in held
    )
    return Table(id="shape-counts", caption="Runs with a curve", columns=columns, rows=rows)


def _why(absent: Unmeasured | None) -> str:
    return "estimated" if absent is None else f"{absent.kind}: {absent.reason}"
