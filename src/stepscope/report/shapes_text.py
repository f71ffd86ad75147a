"""The shapes of a fleet in words: shares with intervals, what was counted beside them, the noise.

Groups stand side by side. A group without shares shows how many runs have each shape as their own
label, and says why that is all. Text, Markdown and the command `shape` use the same cells.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from stepscope.report import lines
from stepscope.report.axes_text import side_by_side, title
from stepscope.report.curve_types import Shapes, ShapesDifference
from stepscope.report.types import Profile
from stepscope.safety.text import visible_line
from stepscope.shape.names import SHAPES

TITLE = "Shapes"
# What is counted beside the five shares, and how it is called.
BESIDE = {
    "unresolved": "unresolved",
    "unmodelled": "no shape fits",
    "low_level": "low mean score",
    "gate_failed": "gate failed",
}


def block(profiles: Sequence[Profile], width: int) -> list[str]:
    """Return the lines on the shapes of all groups; none where nothing can be said of them."""
    held = told(profiles)
    if not held:
        return []
    every = rows([shapes for _, shapes in held])
    names = [TITLE, *(f"  {label}" for label, _ in every)]
    head = [title(profile) if len(held) > 1 else "share, 95 % interval" for profile, _ in held]
    columns = [[head[at], *(cells[at] for _, cells in every)] for at in range(len(held))]
    out = list(side_by_side(names, columns, width))
    for sentence in rests_on([shapes for _, shapes in held]):
        out += textwrap.wrap(visible_line(sentence), width, initial_indent="  ",
                             subsequent_indent="    ")  # fmt: skip
    return out


def told(profiles: Sequence[Profile]) -> list[tuple[Profile, Shapes]]:
    """Return the groups of whose shapes there is something to say."""
    held = [(p, p.shapes) for p in profiles if isinstance(p.shapes, Shapes)]
    return [(p, shapes) for p, shapes in held if shapes.shares or shapes.labels or not _labels(p)]


def _labels(profile: Profile) -> bool:
    shapes = profile.shapes
    return isinstance(shapes, Shapes) and shapes.source.startswith("labels")


def rows(held: Sequence[Shapes]) -> list[tuple[str, list[str]]]:
    """Return what is said line by line: its name, and a cell for each group."""
    out = [(shape_name(shape), [_share(shapes, shape) for shapes in held]) for shape in SHAPES]
    for field, called in BESIDE.items():
        counts = [int(getattr(shapes, field)) for shapes in held]
        if any(counts):
            of = [f"{n:,} of {s.n_runs:,} runs" for n, s in zip(counts, held, strict=True)]
            out.append((called, of))
    if any(shapes.unmeasured for shapes in held):
        out.append(("without a shape", [_lost(shapes) for shapes in held]))
    return out


def shape_name(shape: str) -> str:
    """Return a shape as people read it.

    >>> shape_name("late_drift")
    'late drift'
    """
    return shape.replace("_", " ")


def _share(shapes: Shapes, shape: str) -> str:
    found = {str(name): estimate for name, estimate in shapes.shares.items()}.get(shape)
    if found is not None:
        return f"{lines.share(found.value)} {lines.interval('shape', found)}"
    n = shapes.labels.get(shape, 0)
    return f"{n:,} run{'' if n == 1 else 's'}"


def _lost(shapes: Shapes) -> str:
    return ", ".join(f"{n:,} {kind}" for kind, n in shapes.unmeasured.items()) or "0"


def rests_on(held: Sequence[Shapes]) -> Iterator[str]:
    """Yield where the scores come from, their noise, and why there are no shares."""
    yield from dict.fromkeys(f"scores: {s.source}; noise: {s.sigma}" for s in held)
    absent = [s.no_shares for s in held if s.no_shares is not None]
    yield from dict.fromkeys(f"no shares: {a.reason}; runs by their own label" for a in absent)


def compared(found: ShapesDifference, first: Shapes, second: Shapes) -> list[tuple[str, ...]]:
    """Return the comparison of two groups as rows of cells, the head first."""
    head = ("share of runs", "first", "second", "difference", "95 % interval", "p, max of 5")
    out: list[tuple[str, ...]] = [head]
    for shape, difference in found.difference.items():
        sides = (shares.shares.get(shape) for shares in (first, second))
        values = ("-" if side is None else lines.share(side.value) for side in sides)
        text = lines.share(difference.value)
        signed = text if text.startswith("-") else f"+{text}"
        p = found.p[shape]
        said = "<.001" if p < 0.001 else lines.share(p)
        interval = lines.interval("shape", difference)
        out.append((shape_name(shape), *values, signed, interval, said))
    return out
