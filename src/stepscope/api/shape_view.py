"""What `stepscope shape` prints: a line a curve, and the shares of the fleet below."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from stepscope.api.run_shapes import RunShape
from stepscope.report import lines, shapes_text
from stepscope.report.curve_text import sparkline
from stepscope.report.curve_types import Shapes
from stepscope.report.text import clip
from stepscope.safety.text import visible_line
from stepscope.values import Unmeasured

# Columns of the table; the curve takes what is left.
NAME, SHAPE, SURE, MEAN, BREAK = 20, 18, 5, 5, 12
HEAD = (
    f"{'run':<{NAME}}  {'shape':<{SHAPE}}  {'P':>{SURE}}  {'mean':>{MEAN}}  "
    f"{'break (90 %)':<{BREAK}}  scores"
)


OPEN = "? no shape has a probability of .80: unresolved"


def line(run: RunShape, width: int) -> str:
    """Return one curve as a line of at most `width` columns."""
    name = f"{run.run} ({run.judge})" if run.judge else run.run
    shape, sure = _shape(run)
    mean = "-" if run.mean is None else lines.score(run.mean)
    head = (
        f"{clip(visible_line(name), NAME):<{NAME}}  {shape:<{SHAPE}}  {sure:>{SURE}}  "
        f"{mean:>{MEAN}}  {_break(run):<{BREAK}}  "
    )
    flags = " ".join(_flags(run))
    room = max(width - len(head) - (len(flags) + 2 if flags else 0), 4)
    drawn = clip(sparkline(run.scores), room)
    return (f"{head}{drawn}  {flags}" if flags else f"{head}{drawn}").rstrip()


def _shape(run: RunShape) -> tuple[str, str]:
    if isinstance(run.shape, Unmeasured):
        return f"- {run.shape.kind}"[:SHAPE], "-"
    if run.unmodelled:
        return "no shape fits", "-"
    best = max(run.posterior, key=lambda name: run.posterior[name])
    said = shapes_text.shape_name(run.shape if run.shape != "unresolved" else f"{best}?")
    return said, lines.share(run.posterior[best])


def _break(run: RunShape) -> str:
    if run.break_step is None:
        return "-"
    if run.break_first == run.break_last:
        return f"{run.break_step}"
    return f"{run.break_step} ({run.break_first}-{run.break_last})"


def _flags(run: RunShape) -> Iterator[str]:
    if run.low_level:
        yield "low"
    if run.gate_failed:
        yield f"gate-failed:{','.join(map(str, run.gate_failed[:3]))}"
    if run.watch:
        yield f"watch:{','.join(map(str, run.watch[:3]))}"


def fleet(shapes: Shapes, width: int) -> list[str]:
    """Return the shares of the fleet as lines."""
    rows = shapes_text.rows([shapes])
    wide = max(len(label) for label, _ in rows)
    n = f"{shapes.n_runs:,} curve{'' if shapes.n_runs == 1 else 's'}"
    what = "share, 95 % interval" if shapes.shares else "curves by their own label"
    out = [f"Shapes of {n}: {what}"]
    out += [f"  {label:<{wide}}  {cells[0]}" for label, cells in rows]
    for sentence in shapes_text.rests_on([shapes]):
        out += textwrap.wrap(
            visible_line(sentence), width, initial_indent="  ", subsequent_indent="    "
        )
    return out
