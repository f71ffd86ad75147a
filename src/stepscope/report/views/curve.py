"""The score curve of one run, as text and as a chart, with its shape, break and noise in words.

A column of the text is a scored step, or the lowest of several neighbours; a step without a score
is a dot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from stepscope.report.document import Chart, StepAddress, Table, TableCell, TableColumn, make_row
from stepscope.report.formatting import fold, format_number, format_score, format_share, name_shape
from stepscope.report.types import Curve
from stepscope.safety.text import visible_line
from stepscope.shape.types import CredibleInterval
from stepscope.shape.weights import FLOOR
from stepscope.values import Unmeasured


def name_curve_chart(*panels: str, labels: bool = False) -> str:
    """Return the name of the curve's specification with these panels above the score.

    >>> name_curve_chart("latency", "break"), name_curve_chart("break", labels=True)
    ('curve_latency_break', 'labels_break')
    """
    kept = [name for name in ("latency", "cost", "break") if name in panels]
    return "_".join(["labels" if labels else "curve", *kept])


BLOCKS = " ▁▂▃▄▅▆▇█"
# Rows of bars, eight levels each.
HEIGHT = 4
MARGIN = 16
# A probability below this is no bar.
LEAST = 0.01
# Steps named in a line.
MOST_STEPS = 8
TEXT_TITLES = {"imported": "Curve", "judge": "Curve", "step_labels": "Labels"}
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


def draw_sparkline(scores: Sequence[float | None]) -> str:
    """Return scores from 0 to 1 as one row of bars, a dot where there is none.

    >>> draw_sparkline([0.9, None, 0.45, 0.0])
    '█·▄▁'
    """
    return "".join([
        "·" if value is None else BLOCKS[1 + min(int(min(max(value, 0.0), 1.0) * 8), 7)]
        for value in scores
    ])  # fmt: skip


def draw_curve(curve: Curve, width: int) -> list[str]:
    """Return a curve as lines of text, none longer than `width`."""
    return [*_drawn(curve, width), *_describe_lines(curve, width)]


def _drawn(curve: Curve, width: int) -> Iterator[str]:
    room = max(width - MARGIN, 10)
    count = len(curve.steps)
    columns = min(count, room)
    ends = [count * column // columns for column in range(columns + 1)] if columns else []
    bins = [range(a, b) for a, b in pairwise(ends)]
    lows = [_lowest([curve.scores[i] for i in each]) for each in bins]
    wide = max(1, min(3, room // max(len(bins), 1)))
    names = {0: "1.0", HEIGHT // 2: ".5"}
    for row in range(HEIGHT):
        bars = "".join([_bar(low, HEIGHT - 1 - row) * wide for low in lows])
        title = TEXT_TITLES[curve.source] if row == 0 else ""
        yield f"{title:<10}{names.get(row, ''):>4}  {bars}".rstrip()
    if max(curve.break_probability, default=0.0) >= LEAST:
        sums = [sum(curve.break_probability[i] for i in each) for each in bins]
        bars = "".join([(draw_sparkline([p]) if p >= LEAST else " ") * wide for p in sums])
        yield f"{'':<8}{'break':>6}  {bars}".rstrip()
    yield f"{'':<8}{'steps':>6}  {_axis(curve, bins, wide)}".rstrip()


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


def _describe_lines(curve: Curve, width: int) -> Iterator[str]:
    yield from fold(f"{'Shape':<10}{_shape(curve)}", width, 10)
    noise = "" if curve.sigma is None else f"{format_share(curve.sigma)}, "
    of = f" of {visible_line(curve.judge)}" if curve.judge else ""
    times = f", means of {curve.repeats} scorings" if curve.repeats > 1 else ""
    rests = f"{SOURCES[curve.source]}{of}{times}; noise {noise}{NOISE[curve.sigma_source]}"
    for text in (_describe_break(curve), _gate(curve), _watch(curve), *curve.notes, rests):
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
        sure = format_share(curve.posterior[best])
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
    return f"{name.replace('_', ' ')} {format_share(curve.posterior[name])}"


def _interval(found: CredibleInterval) -> str:
    return f"{format_score(found.value)} [{format_score(found.low)}, {format_score(found.high)}]"


def _describe_break(curve: Curve) -> str:
    if curve.break_step is None or curve.break_first is None or curve.break_last is None:
        return ""
    first, last = curve.break_first, curve.break_last
    where = f"{first}" if first == last else f"{first}-{last}"
    sure = sum(curve.break_probability)
    said = (
        f"breaks at {curve.break_step} (90 % within {where}); any break at all {format_share(sure)}"
    )
    return f"{BY_LABELS}: {said}" if curve.source == "step_labels" else said


def _gate(curve: Curve) -> str:
    if curve.weights is None:
        return ""
    mean = "" if curve.weighted is None else f"weighted mean {format_score(curve.weighted)}"
    if not curve.gate_failed:
        return f"{mean}; no gate failed" if mean else ""
    score, floor = dict(zip(curve.steps, curve.scores, strict=True)), format_score(FLOOR)
    failed = ", ".join(
        f"{step} ({format_score(score[step] or 0.0)}, below {floor})" for step in curve.gate_failed
    )
    return f"gate failed at {failed}" + (f", whatever the {mean} says" if mean else "")


def _watch(curve: Curve) -> str:
    if not curve.watch:
        return ""
    shown = " ".join(map(str, curve.watch[:MOST_STEPS]))
    more = " ..." if len(curve.watch) > MOST_STEPS else ""
    return f"watch {shown}{more}: latency or cost spikes and the score holds"


# Points that a chart can show apart; of a longer run the lowest score of each stretch is drawn.
MOST_POINTS = 600
# What is drawn, by where it comes from: nobody scored the steps that rules labelled.
CHART_TITLES = {
    "imported": "Score curve",
    "judge": "Score curve",
    "step_labels": "Labels of the rules, taken as scores",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePanel:
    """The chart, and sentences about it: what was concluded, then what it rests on."""

    chart: Chart
    said: tuple[str, ...]
    rests_on: str


def view_curve(curve: Curve, count: int, anchor: str, to: StepAddress) -> CurvePanel:
    """Return the curve of a run of `count` steps."""
    rows = make_curve_rows(curve, count, to)
    panels = [
        panel
        for panel, values in (
            ("latency", curve.latency_s),
            ("cost", curve.cost_usd),
            ("break", curve.break_probability),
        )
        if values is not None and any(values)
    ]
    return CurvePanel(
        chart=Chart(
            id=f"{anchor}-curve",
            spec=name_curve_chart(*panels, labels=curve.source == "step_labels"),
            title=CHART_TITLES[curve.source],
            alt=" ".join(_describe_sentences(curve)) or f"{CHART_TITLES[curve.source]}, by step.",
            rows=rows,
            table=_table(curve, anchor, to),
        ),
        said=tuple(_describe_sentences(curve)),
        rests_on=_rests_on(curve),
    )


def make_curve_rows(
    curve: Curve, count: int, to: StepAddress | None = None
) -> tuple[dict[str, object], ...]:
    """Return a row a step for the chart; of a run too long for it, a row a stretch of steps.

    Steps that nobody scored are in it without a score: the axis has them, the line leaps over them.
    """
    at = {step: entry for entry, step in enumerate(curve.steps)}
    last = max(count, curve.steps[-1] + 1 if curve.steps else 0)
    each = max(-(-last // MOST_POINTS), 1)
    watch = set(curve.watch)
    gate = set(curve.gate_failed)
    rows = []
    for first in range(0, last, each):
        held = [at[step] for step in range(first, min(first + each, last)) if step in at]
        entry = min(held, key=lambda e: _low(curve.scores[e])) if held else None
        step = first if entry is None else curve.steps[entry]
        inside = range(first, first + each)
        row = {
            "step": step,
            "from": first - 0.5,
            "to": min(first + each, last) - 0.5,
            "kind": _kind(curve, inside, watch, gate),
            "in_break": False
            if curve.break_first is None or curve.break_last is None
            else curve.break_first < inside.stop and curve.break_last >= inside.start,
            "href": (to(step) if to is not None else None) or "",
            **_values(curve, entry, held),
        }
        # What is absent or false need not be said: a page of many runs has many rows.
        rows.append(
            {
                key: value
                for key, value in row.items()
                if (value is not None and value is not False and value != "")
            }
        )
    return tuple(rows)


def _low(score: float | None) -> float:
    return 2.0 if score is None else score


def _values(curve: Curve, entry: int | None, held: list[int]) -> dict[str, object]:
    score = None if entry is None else curve.scores[entry]
    noise = curve.sigma or 0.0
    return {
        "score": score,
        "low": None if score is None else max(score - noise, 0.0),
        "high": None if score is None else min(score + noise, 1.0),
        "break_probability": _sum(curve.break_probability or None, held),
        "latency_s": _sum(curve.latency_s, held),
        "cost_usd": _sum(curve.cost_usd, held),
    }


def _sum(values: tuple[float | None, ...] | None, held: list[int]) -> float | None:
    found = [value for e in held if values is not None and (value := values[e]) is not None]
    return sum(found) if found else None


def _kind(curve: Curve, steps: range, watch: set[int], gate: set[int]) -> str:
    if curve.break_step is not None and curve.break_step in steps:
        return "break"
    if any(step in gate for step in steps):
        return "below the gate"
    if any(step in watch for step in steps):
        return "watch"
    return "label" if curve.source == "step_labels" else "score"


def _run(curve: Curve) -> str:
    if curve.break_first is None or curve.break_last is None:
        return ""
    first, last = curve.break_first, curve.break_last
    return f"step {first}" if first == last else f"steps {first}-{last}"


def _describe_sentences(curve: Curve) -> Iterator[str]:
    shape = curve.shape
    if isinstance(shape, Unmeasured):
        yield f"No shape: {shape.reason}."
    elif curve.unmodelled:
        yield "No shape fits these scores."
    elif shape == "unresolved":
        yield f"Shape unresolved: {_odds(curve)}."
    else:
        yield f"Shape: {name_shape(shape)} ({_odds(curve)})."
    if curve.break_step is not None:
        alone = curve.break_first == curve.break_last
        within = "" if alone else f", with 90 % at {_run(curve)}"
        broke = f"at step {curve.break_step}{within}."
        labels = curve.source == "step_labels"
        yield f"{BY_LABELS.capitalize()}, it broke {broke}" if labels else f"Broke {broke}"
    elif curve.break_probability:
        yield "No break is declared."
    if curve.watch:
        yield f"Watch {_steps(curve.watch)}: time or cost rise while the score holds."
    if curve.gate_failed:
        yield f"Below the gate at {_steps(curve.gate_failed)}."
    if curve.low_level:
        yield "Low throughout, whatever the shape."


def _odds(curve: Curve) -> str:
    named = sorted(curve.posterior.items(), key=lambda item: -item[1])[:2]
    return ", ".join(f"{name_shape(shape)} {format_share(share)}" for shape, share in named)


def _steps(steps: tuple[int, ...]) -> str:
    shown = " ".join(map(str, steps[:8]))
    return f"step{'s' * (len(steps) > 1)} {shown}{' ...' * (len(steps) > 8)}"


def _rests_on(curve: Curve) -> str:
    noise = "" if curve.sigma is None else f" {format_share(curve.sigma)}"
    judge = f" ({curve.judge})" if curve.judge else ""
    mean = ""
    if curve.mean is not None:
        low, high = format_share(curve.mean.low), format_share(curve.mean.high)
        mean = f"; mean {format_share(curve.mean.value)} [{low}, {high}]"
    return f"From {SOURCES[curve.source]}{judge}; noise{noise}: {NOISE[curve.sigma_source]}{mean}."


def _table(curve: Curve, anchor: str, to: StepAddress) -> Table:
    labelled = curve.source == "step_labels"
    columns: list[tuple[str, str, tuple[float | None, ...] | None]] = [
        ("score", "label as score" if labelled else "score", curve.scores),
        ("break", "probability of the break", curve.break_probability or None),
        ("seconds", "seconds", curve.latency_s),
        ("cost_usd", "usd", curve.cost_usd),
    ]
    kept = [(key, label, values) for key, label, values in columns if values is not None]
    rows = tuple(
        make_row(
            TableCell(str(step), sort=step, href=to(step)),
            *(_cell(key, values[entry]) for key, _, values in kept),
        )
        for entry, step in enumerate(curve.steps[:MOST_POINTS])
    )
    return Table(
        id=f"{anchor}-scores",
        caption=("Labels by step, taken as scores" if labelled else "Scores by step")
        + (f", the first {MOST_POINTS}" if len(curve.steps) > MOST_POINTS else ""),
        columns=tuple(
            TableColumn(label, number=True) for label in ("step", *(label for _, label, _ in kept))
        ),
        rows=rows,
    )


def _cell(key: str, value: float | None) -> TableCell:
    if value is None:
        return TableCell("-", tone="quiet")
    return TableCell(format_number(key, value), sort=value)
