"""Evaluation runs against production runs, or production before and after: the shapes of effort.

Both sides are scored by one judge under one version, since another judge's shapes are no measure of
a difference: a side that has none of these scores is refused. Shares are those under which all
curves together are most likely, never counts of labels; p hands whole users out anew, and is of the
largest change of all shapes, so that looking at five of them raises no alarm. A shape that
production has more of is to be added to the evaluation suite.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal
from zlib import crc32

import msgspec
import numpy as np

from stepscope import values
from stepscope.calibrate.grounding import number_users
from stepscope.errors import UsageError
from stepscope.report.rows import FleetShapes, classify_fleet
from stepscope.safety.text import visible_line
from stepscope.shape import compare_fleets
from stepscope.shape.fleet import FleetComparison
from stepscope.shape.types import SHAPES
from stepscope.store.columns import Rows
from stepscope.store.where import Where
from stepscope.values import Estimate, Unmeasured

ALPHA = 0.05


class ShapeDivergence(msgspec.Struct, frozen=True, kw_only=True):
    """One shape on both sides."""

    shape: str
    first: Estimate  # its share on the first side
    second: Estimate
    difference: Estimate  # second less first
    p: float  # of the largest difference of all shapes
    change: Literal["more", "less", ""]  # what is shown; "" where nothing is

    @property
    def could_be_undone(self) -> bool:
        """Whether runs without a shape, all at their worst, leave no such change."""
        more = self.change == "more"
        high, low = (self.second, self.first) if more else (self.first, self.second)
        return (high.worst_low or 0.0) <= (1.0 if low.worst_high is None else low.worst_high)


class ProductionComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The shapes of two sides of runs."""

    sides: tuple[str, str]  # what they are called
    runs: tuple[int, int]  # with a curve that a shape fits
    clusters: tuple[int, int]  # users, or tasks
    unmeasured: tuple[dict[str, int], dict[str, int]]
    source: str  # whose scores
    shapes: tuple[ShapeDivergence, ...] | Unmeasured

    @property
    def diverged(self) -> tuple[ShapeDivergence, ...]:
        """The shapes of which a change is shown."""
        known = () if isinstance(self.shapes, Unmeasured) else self.shapes
        return tuple(one for one in known if one.change)

    def __str__(self) -> str:
        """Say it as a table."""
        return "\n".join(_lines(self))


def compare_production(
    rows: Rows,
    sides: tuple[Where, Where],
    *,
    names: tuple[str, str] = ("evaluation", "production"),
    user: str = "user",  # the tag that names who the run is of
    seed: int = 0,
) -> ProductionComparison:
    """Return how the shapes of two sides differ; `UsageError` where they cannot be compared."""
    either = "(" + sides[0].sql + ") OR (" + sides[1].sql + ")"
    runs = rows.runs(Where(either, sides[0].parameters + sides[1].parameters))
    chosen = [np.flatnonzero(np.isin(runs.key, rows.runs(where).key)) for where in sides]
    for name, at in zip(names, chosen, strict=True):
        if not len(at):
            raise UsageError(f"no run is of {name}")
    if len(both := np.intersect1d(chosen[0], chosen[1])):
        n = values.format_count(len(both), "run")
        raise UsageError(f"{n} on both sides, as {runs.name[both[0]]!r}; choose sides apart")
    shapes = classify_fleet(rows, runs)
    parts = [None if shapes is None else shapes.take(at) for at in chosen]
    for name, part in zip(names, parts, strict=True):
        if part is None or not part.fitted.any():
            whose = "" if shapes is None else f" by the {shapes.source}"
            raise UsageError(
                f"no run of {name} has a curve{whose}: score both sides by one judge and version"
            )
    a, b = [part for part in parts if isinstance(part, FleetShapes)]
    who = number_users(rows, runs, user)
    users = [who[at][part.fitted] for at, part in zip(chosen, (a, b), strict=True)]
    lost = _count_lost(a), _count_lost(b)
    first, second = (side.log_likelihood[side.fitted] for side in (a, b))
    rng, clusters = np.random.default_rng([seed, crc32(b"production")]), (users[0], users[1])
    found = compare_fleets(first, second, rng=rng, clusters=clusters, unmeasured=lost)
    shown = found if isinstance(found, Unmeasured) else tuple(_list_divergences(found))
    return ProductionComparison(
        sides=names,
        runs=(int(a.fitted.sum()), int(b.fitted.sum())),
        clusters=(len(set(users[0].tolist())), len(set(users[1].tolist()))),
        unmeasured=lost,
        source=a.source,
        shapes=shown,
    )


def _list_divergences(found: FleetComparison) -> Iterator[ShapeDivergence]:
    risen, fallen = found.risen(ALPHA), found.fallen(ALPHA)
    for shape in SHAPES:
        yield ShapeDivergence(
            shape=shape,
            first=found.first[shape],
            second=found.second[shape],
            difference=found.difference[shape],
            p=found.p[shape],
            change="more" if shape in risen else "less" if shape in fallen else "",
        )


def _count_lost(side: FleetShapes) -> dict[str, int]:
    unmodelled = int(side.unmodelled.sum())
    return side.lost() | ({"unmodelled": unmodelled} if unmodelled else {})


def _lines(found: ProductionComparison) -> Iterator[str]:
    first, second = found.sides
    sides = zip(found.sides, found.runs, found.clusters, found.unmeasured, strict=True)
    for name, n, of, lost in sides:
        gone = ", ".join(f"{count:,} {kind}" for kind, count in lost.items())
        said = f"{name}: {values.format_count(n, 'run')} of {of:,} users or tasks"
        yield said + (f"; without a shape: {gone}" if gone else "")
    yield f"scores: {visible_line(found.source)}"
    if isinstance(found.shapes, Unmeasured):
        yield f"{found.shapes.kind}: {found.shapes.reason}"
        return
    yield f"{'shape':<19} {first:<15} {second:<15} {'difference':<25} p"
    for one in found.shapes:
        moved = one.difference
        shares = [values.format_estimate(of) for of in (one.first, one.second)]
        told = values.format_difference(moved.value, moved.unit)
        told = f"{told}, {values.format_limits(moved.low, moved.high, moved.unit)}"
        row = f"{one.shape:<19} {shares[0]:<15} {shares[1]:<15} {told:<25} {values.format_p(one.p)}"
        yield f"{row}  {one.change}" if one.change else row
    both = [side for one in found.shapes for side in (one.first, one.second)]
    yield from sorted({told for side in both for told in side.diagnostics})
    doubt = [one.shape for one in found.diverged if one.could_be_undone]
    if doubt:
        yield f"runs without a shape could undo the change of {', '.join(doubt)}"
    more = [one.shape for one in found.diverged if one.change == "more"]
    if not found.diverged:
        yield "no difference is shown; the intervals say how large one may be"
    elif found.sides[0] == "evaluation" and more:
        yield f"add cases that bring {', '.join(more)} to the evaluation suite"
