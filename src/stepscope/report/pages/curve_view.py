"""The score curve of one run: its chart, and in words what shape it has and where it broke."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stepscope.report import lines
from stepscope.report.charts import curve_name
from stepscope.report.curve_text import BY_LABELS, NOISE, SOURCES
from stepscope.report.curve_types import Curve
from stepscope.report.pages.page import Cell, Chart, Column, Row, Table
from stepscope.report.pages.shapes import name
from stepscope.report.pages.verdicts import To
from stepscope.values import Unmeasured

# Points that a chart can show apart; of a longer run the lowest score of each stretch is drawn.
MOST = 600
# What is drawn, by where it comes from: nobody scored the steps that rules labelled.
TITLES = {
    "imported": "Score curve",
    "judge": "Score curve",
    "step_labels": "Labels of the rules, taken as scores",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveView:
    """The chart, and sentences about it: what was concluded, then what it rests on."""

    chart: Chart
    said: tuple[str, ...]
    rests_on: str


def view(curve: Curve, count: int, anchor: str, to: To) -> CurveView:
    """Return the curve of a run of `count` steps."""
    rows = chart_rows(curve, count, to)
    panels = [
        panel
        for panel, values in (
            ("latency", curve.latency_s),
            ("cost", curve.cost_usd),
            ("break", curve.break_probability),
        )
        if values is not None and any(values)
    ]
    return CurveView(
        chart=Chart(
            id=f"{anchor}-curve",
            spec=curve_name(*panels, labels=curve.source == "step_labels"),
            title=TITLES[curve.source],
            alt=" ".join(_said(curve)) or f"{TITLES[curve.source]}, by step.",
            rows=rows,
            table=_table(curve, anchor, to),
        ),
        said=tuple(_said(curve)),
        rests_on=_rests_on(curve),
    )


def chart_rows(curve: Curve, count: int, to: To | None = None) -> tuple[dict[str, object], ...]:
    """Return a row a step for the chart; of a run too long for it, a row a stretch of steps.

    Steps that nobody scored are in it without a score: the axis has them, the line leaps over them.
    """
    at = {step: entry for entry, step in enumerate(curve.steps)}
    last = max(count, curve.steps[-1] + 1 if curve.steps else 0)
    each = max(-(-last // MOST), 1)
    watch = set(curve.watch)
    gate = {failed.step for failed in curve.gate_failed}
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
            "in_break": _broke(curve, inside),
            "href": (to(step) if to is not None else None) or "",
            **_values(curve, entry, held),
        }
        # What is absent or false need not be said: a page of many runs has many rows.
        rows.append({key: value for key, value in row.items() if _said_of(value)})
    return tuple(rows)


def _said_of(value: object) -> bool:
    return value is not None and value is not False and value != ""


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


def _broke(curve: Curve, steps: range) -> bool:
    if curve.break_first is None or curve.break_last is None:
        return False
    return curve.break_first < steps.stop and curve.break_last >= steps.start


def _run(curve: Curve) -> str:
    if curve.break_first is None or curve.break_last is None:
        return ""
    first, last = curve.break_first, curve.break_last
    return f"step {first}" if first == last else f"steps {first}-{last}"


def _said(curve: Curve) -> Iterator[str]:
    shape = curve.shape
    if isinstance(shape, Unmeasured):
        yield f"No shape: {shape.reason}."
    elif curve.unmodelled:
        yield "No shape fits these scores."
    elif shape == "unresolved":
        yield f"Shape unresolved: {_odds(curve)}."
    else:
        yield f"Shape: {name(shape)} ({_odds(curve)})."
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
        yield f"Below the gate at {_steps(tuple(f.step for f in curve.gate_failed))}."
    if curve.low_level:
        yield "Low throughout, whatever the shape."


def _odds(curve: Curve) -> str:
    named = sorted(curve.posterior.items(), key=lambda item: -item[1])[:2]
    return ", ".join(f"{name(shape)} {lines.share(share)}" for shape, share in named)


def _steps(steps: tuple[int, ...]) -> str:
    shown = " ".join(map(str, steps[:8]))
    return f"step{'s' * (len(steps) > 1)} {shown}{' ...' * (len(steps) > 8)}"


def _rests_on(curve: Curve) -> str:
    noise = "" if curve.sigma is None else f" {lines.share(curve.sigma)}"
    judge = f" ({curve.judge})" if curve.judge else ""
    mean = ""
    if curve.mean is not None:
        low, high = lines.share(curve.mean.low), lines.share(curve.mean.high)
        mean = f"; mean {lines.share(curve.mean.value)} [{low}, {high}]"
    return f"From {SOURCES[curve.source]}{judge}; noise{noise}: {NOISE[curve.sigma_source]}{mean}."


def _table(curve: Curve, anchor: str, to: To) -> Table:
    labelled = curve.source == "step_labels"
    columns: list[tuple[str, str, tuple[float | None, ...] | None]] = [
        ("score", "label as score" if labelled else "score", curve.scores),
        ("break", "probability of the break", curve.break_probability or None),
        ("seconds", "seconds", curve.latency_s),
        ("cost_usd", "usd", curve.cost_usd),
    ]
    kept = [(key, label, values) for key, label, values in columns if values is not None]
    rows = tuple(
        Row(
            cells=(
                Cell(text=str(step), sort=step, href=to(step)),
                *(_cell(key, values[entry]) for key, _, values in kept),
            )
        )
        for entry, step in enumerate(curve.steps[:MOST])
    )
    return Table(
        id=f"{anchor}-scores",
        caption=("Labels by step, taken as scores" if labelled else "Scores by step")
        + (f", the first {MOST}" if len(curve.steps) > MOST else ""),
        columns=(
            Column(key="step", label="step", number=True),
            *(Column(key=key, label=label, number=True) for key, label, _ in kept),
        ),
        rows=rows,
    )


def _cell(key: str, value: float | None) -> Cell:
    if value is None:
        return Cell(text="-", tone="quiet")
    return Cell(text=lines.number(key, value), sort=value)
