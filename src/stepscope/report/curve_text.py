"""A score curve for a terminal: bars from 0 to 1, the break probability under them, then words.

A column is a scored step, or the lowest of several neighbours where there are more steps than
columns. A step without a score is a dot. Nothing is computed but what fits on the screen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from stepscope.report.curve_types import Curve, Span
from stepscope.report.lines import score, share
from stepscope.report.text import fold
from stepscope.safety.text import visible_line
from stepscope.values import Unmeasured

BLOCKS = " ▁▂▃▄▅▆▇█"
# Rows of bars, eight levels each.
HEIGHT = 4
MARGIN = 16
# A probability below this is no bar.
LEAST = 0.01
# Steps named in a line.
MOST_STEPS = 8
TITLES = {"imported": "Curve", "judge": "Curve", "step_labels": "Labels"}
SOURCES = {
    "imported": "imported step scores",
    "judge": "step scores of a judge",
    "step_labels": "labels that rules gave to steps, taken as scores",
}
NOISE = {
    "given": "given",
    "repeats": "upper limit over repeated scorings",
    "assumed": "assumed, not measured",
    "marginalised": "unknown, averaged over a range",
}
# Nobody scored these steps: what is concluded from labels says so where it is said.
BY_LABELS = "by the labels of rules, taken as scores"


def sparkline(scores: Sequence[float | None]) -> str:
    """Return scores from 0 to 1 as one row of bars, a dot where there is none.

    >>> sparkline([0.9, None, 0.45, 0.0])
    '█·▄▁'
    """
    return "".join([
        "·" if value is None else BLOCKS[1 + min(int(min(max(value, 0.0), 1.0) * 8), 7)]
        for value in scores
    ])  # fmt: skip


def curve_lines(curve: Curve, width: int) -> list[str]:
    """Return a curve as lines of text, none longer than `width`."""
    return [*_drawn(curve, width), *_said(curve, width)]


def _drawn(curve: Curve, width: int) -> Iterator[str]:
    room = max(width - MARGIN, 10)
    bins = _bins(len(curve.steps), room)
    lows = [_lowest([curve.scores[i] for i in each]) for each in bins]
    wide = max(1, min(3, room // max(len(bins), 1)))
    names = {0: "1.0", HEIGHT // 2: ".5"}
    for row in range(HEIGHT):
        bars = "".join([_bar(low, HEIGHT - 1 - row) * wide for low in lows])
        title = TITLES[curve.source] if row == 0 else ""
        yield f"{title:<10}{names.get(row, ''):>4}  {bars}".rstrip()
    if max(curve.break_probability, default=0.0) >= LEAST:
        sums = [sum(curve.break_probability[i] for i in each) for each in bins]
        bars = "".join([(sparkline([p]) if p >= LEAST else " ") * wide for p in sums])
        yield f"{'':<8}{'break':>6}  {bars}".rstrip()
    yield f"{'':<8}{'steps':>6}  {_axis(curve, bins, wide)}".rstrip()


def _bins(count: int, room: int) -> list[range]:
    """Return the entries that share a column."""
    columns = min(count, room)
    ends = [count * column // columns for column in range(columns + 1)] if columns else []
    return [range(a, b) for a, b in pairwise(ends)]


def _lowest(scores: Sequence[float | None]) -> float | None:
    known = [score for score in scores if score is not None]
    return min(known) if known else None


def _bar(value: float | None, row: int) -> str:
    """Return what row `row` from below shows of a bar."""
    if value is None:
        return "·" if row == 0 else " "
    level = round(value * HEIGHT * 8) - 8 * row
    if row == 0:
        level = max(level, 1)
    return BLOCKS[min(max(level, 0), 8)]


def _axis(curve: Curve, bins: Sequence[range], wide: int) -> str:
    """Return the first step, the break and the last step under their columns, where they fit."""
    line = str(curve.steps[0]) if curve.steps else ""
    if curve.break_step is not None:
        entry = curve.steps.index(curve.break_step)
        at = wide * next(column for column, each in enumerate(bins) if entry in each)
        if at > len(line):
            line = line.ljust(at) + str(curve.break_step)
    last = str(curve.steps[-1]) if curve.steps else ""
    at = wide * len(bins) - len(last)
    return line.ljust(at) + last if at > len(line) else line


def _said(curve: Curve, width: int) -> Iterator[str]:
    yield from fold(f"{'Shape':<10}{_shape(curve)}", width, 10)
    noise = "" if curve.sigma is None else f"{share(curve.sigma)}, "
    of = f" of {visible_line(curve.judge)}" if curve.judge else ""
    times = f", means of {curve.repeats} scorings" if curve.repeats > 1 else ""
    rests = f"{SOURCES[curve.source]}{of}{times}; noise {noise}{NOISE[curve.sigma_source]}"
    for text in (_broke(curve), _gate(curve), _watch(curve), *curve.notes, rests):
        if text:
            yield from fold(f"{'':<10}{text}", width, 10)


def _shape(curve: Curve) -> str:
    if isinstance(curve.shape, Unmeasured):
        return f"none: {visible_line(curve.shape.reason)}"
    best, second = curve.best, curve.runner_up
    parts = [curve.shape.replace("_", " ")]
    if curve.unmodelled:
        parts = ["unmodelled: no shape fits these scores"]
    elif best is not None and second is not None:
        odds = f"{_named(curve, best)}, {_named(curve, second)}"
        sure = share(curve.posterior[best])
        parts = [
            f"{parts[0]}: {odds}"
            if curve.shape == "unresolved"
            else f"{parts[0]} {sure}, then {_named(curve, second)}"
        ]
    if curve.mean is not None:
        parts.append(f"mean {_interval(curve.mean)}{', low' if curve.low_level else ''}")
    if curve.depth is not None and not curve.unmodelled and curve.shape != "unresolved":
        parts.append(f"depth {_interval(curve.depth)}")
    return " · ".join(parts)


def _named(curve: Curve, name: str) -> str:
    return f"{name.replace('_', ' ')} {share(curve.posterior[name])}"


def _interval(found: Span) -> str:
    return f"{score(found.value)} [{score(found.low)}, {score(found.high)}]"


def _broke(curve: Curve) -> str:
    if curve.break_step is None or curve.break_first is None or curve.break_last is None:
        return ""
    first, last = curve.break_first, curve.break_last
    where = f"{first}" if first == last else f"{first}-{last}"
    sure = sum(curve.break_probability)
    said = f"breaks at {curve.break_step} (90 % within {where}); any break at all {share(sure)}"
    return f"{BY_LABELS}: {said}" if curve.source == "step_labels" else said


def _gate(curve: Curve) -> str:
    if curve.weights is None:
        return ""
    mean = "" if curve.weighted is None else f"weighted mean {score(curve.weighted)}"
    if not curve.gate_failed:
        return f"{mean}; no gate failed" if mean else ""
    failed = ", ".join(
        f"{at.step} ({score(at.score)}, below {score(at.limit)})" for at in curve.gate_failed
    )
    return f"gate failed at {failed}" + (f", whatever the {mean} says" if mean else "")


def _watch(curve: Curve) -> str:
    if not curve.watch:
        return ""
    shown = " ".join(map(str, curve.watch[:MOST_STEPS]))
    more = " ..." if len(curve.watch) > MOST_STEPS else ""
    return f"watch {shown}{more}: latency or cost spikes and the score holds"
