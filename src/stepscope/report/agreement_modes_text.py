"""Isolated against contextual judging as text: how much they differ, and on which steps.

Nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepscope.calibrate.agreement_modes import Gap, Modes, Place
from stepscope.report import lines
from stepscope.report.text import clip, fold
from stepscope.safety.text import visible_line
from stepscope.values import Unmeasured

NOTHING = (
    "Nothing to compare: no judge has judged the same steps alone and in their run. stepscope "
    "judge --rubric no_look and --rubric step_labels do, with one judge."
)
NAMES = {
    "raw": "same label", "kappa": "kappa", "gwet": "AC1", "difference": "isolated - contextual",
    "distance": "size of the difference", "rank": "rank correlation",
}  # fmt: skip


def render(found: Sequence[Modes], width: int = 100) -> str:
    """Return what the modes of every judge differ in; ends in a line break."""
    blocks = [list(_block(modes, width)) for modes in found]
    return "\n\n".join("\n".join(block) for block in blocks or [fold(NOTHING, width, 0)]) + "\n"


def _block(modes: Modes, width: int) -> Iterator[str]:
    head = (
        f"{modes.judge}: {modes.isolated} against {modes.contextual}   {modes.n:,} steps of "
        f"{modes.runs:,} runs"
    )
    yield clip(visible_line(head), width)
    rows = [
        (NAMES[name], figure, str(modes.n) if isinstance(figure, Unmeasured) else f"{figure.n:,}")
        for name, figure in modes.figures.items()
    ]
    what = "mean difference" if modes.of == "scores" else "labels that differ"
    wide = max(map(len, [*(name for name, *_ in rows), *(place.part for place in modes.where)]))
    for name, figure, n in rows:
        if isinstance(figure, Unmeasured):
            said = f"  {name:<{wide}}      -  {figure.kind}: {figure.reason}"
            yield clip(visible_line(said), width)
        else:
            interval = lines.interval("agreement", figure)
            yield f"  {name:<{wide}}  {lines.share(figure.value):>6}  {interval:<15} n {n}"
    yield f"  {what}, by part of the run and by label in context:"
    for place in modes.where:
        yield clip(visible_line(_place(place, wide)), width)
    for label, row in modes.table.items():
        told = ", ".join(f"{isolated} {n:,}" for isolated, n in row.items())
        yield from (f"  {line}" for line in fold(f"{label} in context, alone: {told}", width, 4))
    if modes.most:
        yield "  Steps that differ most:"
        for gap in modes.most:
            yield clip("    " + visible_line(_gap(gap)), width)


def _place(place: Place, wide: int) -> str:
    found = place.difference
    if isinstance(found, Unmeasured):
        return f"  {place.part:<{wide}}       -  {found.kind}: {found.reason}"
    interval = lines.interval("agreement", found)
    return f"  {place.part:<{wide}}  {lines.share(found.value):>6}  {interval:<15} n {place.n:,}"


def _gap(gap: Gap) -> str:
    alone, within = gap.isolated, gap.contextual
    score = ["" if one.value is None else f" {lines.score(one.value)}" for one in (alone, within)]
    why = f": {within.reason}" if within.reason else ""
    head = f"{gap.name} step {gap.step}"
    return f"{head}  alone {alone.label}{score[0]}, in context {within.label}{score[1]}{why}"
