"""Does the quality of steps predict what users do? The effect of a run's score on their signals.

Taken are `scores`, each given without what came after its step, and so without the user's reaction;
those from a file are believed to be. Each scorer (under the version and prompt of most runs) is a
dimension. A run's score is the mean over its steps; what whole scorings of one run differ by is the
judge's error (`stats.effects`). A run without a signal has none, which is no 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec
import numpy as np
from msgspec.structs import replace

from stepscope import stats, values
from stepscope.calibrate.gap import read_field
from stepscope.errors import UsageError
from stepscope.model import records
from stepscope.safety.text import visible_line
from stepscope.stats import Effect
from stepscope.stats.sample import Floats, Ints
from stepscope.store.columns import Rows, Runs, StepColumn
from stepscope.store.where import Where

ALPHA, MOST_CATEGORIES = 0.05, 20


class GroundedScore(msgspec.Struct, frozen=True, kw_only=True):
    """What a score that is higher by `step` does to a signal."""

    judge: str
    signal: str
    step: float  # .1; 1 where the score is 0 or 1 alone
    effect: Effect
    naive: Effect  # without confounders, and as if the judge made no errors
    placebo: Effect | None  # on a signal that quality cannot change; None: nobody named one
    p_adjusted: float | None = None  # Holm over judges and signals
    imported: bool = False  # scores from a file: what their judge saw is not known

    def __str__(self) -> str:
        judge = visible_line(self.judge)
        lines = [f"{self.signal} where the score by {judge} is {self.step:g} higher:"]
        for name in ("effect", "naive", "placebo"):
            one = getattr(getattr(self, name), "estimate", None)
            if isinstance(one, values.Unmeasured):
                lines.append(f"  {name:<8} {one.kind}: {one.reason}")
            elif one is not None:
                told = values.format_difference(one.value, one.unit), values.format_interval(one)
                size = f"{one.n:,} runs of {one.n_tasks:,} users or tasks", *one.diagnostics
                size += (f"{one.n_unmeasured:,} left out",) if one.n_unmeasured else ()
                lines.append(f"  {name:<8} {', '.join((*told, *size))}")
        if self.effect.overlap is not None:
            left, known = values.format_percent(self.effect.overlap), self.effect.reliability
            errors = "judge's errors not taken out (no run scored twice): they shrink the effect"
            errors = errors if known is None else f"corrected for a reliability of {known:.2f}"
            p = values.format_p(self.p_adjusted)
            lines.append(f"  p {p}, confounders leave {left} to compare; {errors}")
        if self.placebo is not None and self.placebo.p is not None and self.placebo.p <= ALPHA:
            lines.append("  the placebo moves too: a confounder is missing")
        return "\n".join(lines + ["  what the judge saw is not known"] * self.imported)


def number_users(rows: Rows, runs: Runs, tag: str) -> Ints:
    """Return the user of each run as a number: a tag's value, else the task, else the run."""
    named = rows.tag(tag, runs).tolist()
    if tag != "user" and not any(named):
        raise UsageError(f"--user {tag}: no run has the tag {tag!r}")
    rest = zip(named, runs.workflow.tolist(), runs.task.tolist(), runs.key.tolist(), strict=True)
    return stats.codes(
        one or (key if task is None else (workflow, task)) for one, workflow, task, key in rest
    )


def measure_grounding(
    rows: Rows,
    signals: Mapping[str, Mapping[str, float]],
    *,
    where: Where | None = None,
    confounders: Sequence[str] = (),
    placebo: str | None = None,
    user: str = "user",
    seed: int = 0,
) -> list[GroundedScore]:
    """Return the effect of each judge's scores on each signal (name -> run's id -> value)."""
    if placebo is not None and placebo not in signals:
        known = ", ".join(signals)
        raise UsageError(f"--placebo {placebo}: no row has this signal; there is {known}")
    runs = rows.runs(where)
    x, who = _lay_confounders(rows, runs, confounders), number_users(rows, runs, user)
    column, found = rows.step_values(records.STEP_SCORES, runs), list[GroundedScore]()
    for number, (family, judge) in enumerate(column.scorers):
        scores = _average_runs(column, number, len(runs))
        step = 1.0 if np.isin(scores[scores[:, 2] > 0, 0], (0, 1)).all() else 0.1
        scores /= (step, step**2, 1)
        outcomes = {
            name: np.array([of.get(run, np.nan) for run in runs.id]) for name, of in signals.items()
        }
        for name in sorted(signals.keys() - {placebo}):
            found.append(
                GroundedScore(
                    judge=judge or family,
                    signal=name,
                    step=step,
                    imported=family == records.IMPORTED,
                    effect=_estimate(outcomes[name], scores, x, who, seed),
                    naive=_estimate(outcomes[name], scores, x, who, seed, naive=True),
                    placebo=_estimate(outcomes[placebo], scores, x, who, seed) if placebo else None,
                )
            )
    tested = [one for one in found if one.effect.p is not None]
    adjusted = iter(stats.holm([one.effect.p or 0.0 for one in tested]).tolist())
    return [replace(one, p_adjusted=next(adjusted)) if one in tested else one for one in found]


def _estimate(
    y: Floats, scores: Floats, x: Floats, who: Ints, seed: int, *, naive: bool = False
) -> Effect:
    at = np.isfinite(y) & (scores[:, 2] > 0) & np.isfinite(x).all(axis=1)
    lost, rng = {"missing_input": int((~at).sum())}, np.random.default_rng(seed)
    effect = partial(stats.effect, y[at], scores[at, 0], rng=rng, clusters=who[at], unmeasured=lost)
    return effect(x[at, :0]) if naive else effect(x[at], repeats=(scores[at, 1], scores[at, 2]))


def _average_runs(column: StepColumn, scorer: int, n: int) -> Floats:
    """Return each run's mean score, the variance of its whole scorings, and how many: (n, 3)."""
    mine = (column.scorer == scorer) & np.isfinite(column.value)
    repeats, repeat = np.unique(column.repeat[mine], return_inverse=True)
    cell, size = column.at[mine] * len(repeats) + repeat, n * len(repeats)
    steps, sums = (np.bincount(cell, of, size).reshape(n, -1) for of in (None, column.value[mine]))
    if not mine.any():
        return np.zeros((n, 3))
    # Only what was scored again as a whole tells what the whole is worth.
    whole = (steps == steps.max(axis=1, keepdims=True)) & (steps > 0)
    count = whole.sum(axis=1)
    means = np.where(whole, sums / np.maximum(steps, 1), 0.0)
    mean = means.sum(axis=1) / np.maximum(count, 1)
    spread = np.where(whole, (means - mean[:, None]) ** 2, 0.0).sum(axis=1)
    return np.column_stack(
        [mean, np.where(count > 1, spread / np.maximum(count - 1, 1), np.nan), count]
    )


def _lay_confounders(rows: Rows, runs: Runs, names: Sequence[str]) -> Floats:
    """Return columns of numbers, NaN where absent, or of 1 for each frequent category."""
    columns = [np.empty((len(runs), 0))]
    for name in names:
        cells = read_field(rows, runs, name)
        if name == records.OUTCOME_NAME or not any(cells):
            why = "no run has it" if name != records.OUTCOME_NAME else "it follows from quality"
            raise UsageError(f"--confounders {name}: {why}; name what was known before the run")
        try:
            columns.append(np.array([[np.nan if x is None else float(x)] for x in cells]))
        except ValueError:
            often = [one for one, _ in Counter(cells).most_common(MOST_CATEGORIES)]
            columns.append(np.array([[float(x == one) for one in often] for x in cells]))
    return np.concatenate(columns, axis=1)
