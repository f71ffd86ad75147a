"""Generators of step scores with planted truth, and the noise of a judge put on them.

Planted are the shape and the break step, the first at which half of the drop, or more, has
happened; steady degradation and healthy runs have none (-1). A classifier tested on data shaped
like itself is not tested. `article` and `reconstruction` are the articles' (their four examples and
twelve printed numbers; the healthy base is ours). `smooth` (logistic and exponential transitions),
`walk` (a smoothed random walk), `agent` (errors that accumulate) and `holdout` (a queue with a
backlog) differ in form from every template of the classifier, and from each other. Nothing is tuned
on `holdout`. Every kind of noise has standard deviation sigma at each step before clipping to 0..1
and rounding.

Source: the four examples and the table of F1 of the two ARC articles (Tribbia).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from stepscope.errors import UsageError
from stepscope.shape.types import SHAPES, ShapeName
from stepscope.stats.sample import Floats, Ints

NO_BREAK = -1
FEWEST_STEPS = 4
# Two drops that differ by rounding alone are the same drop.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class PlantedCurves:
    """Curves without noise and the truth about them."""

    curves: Floats  # shape (m, n), the scores a judge without error would give
    break_step: Ints  # shape (m,), index of the first step with half of the drop; -1 where none


def as_rows(values: npt.ArrayLike) -> Floats:
    """Return (m,) values as (m, 1), to be laid over steps."""
    return np.asarray(values, np.float64)[:, None]


def draw_uniform(
    rng: np.random.Generator, low: Floats | float, high: Floats | float, m: int
) -> Floats:
    """Draw (m, 1) uniform values; the limits are numbers or (m, 1)."""
    return np.asarray(rng.uniform(low, high, (m, 1)), np.float64)


def half_drop_steps(drop: Floats) -> Ints:
    """Return for each curve the first step with half of its greatest drop; drop >= 0, (m, n)."""
    steps: Ints = np.argmax(drop >= drop.max(1, keepdims=True) / 2 - ROUNDING, axis=1)
    return steps


def draw_early_steps(rng: np.random.Generator, n: int, m: int) -> Ints:
    """Draw steps at which a run collapses early: after a fifth of it, before its middle."""
    first, last = max(1, n // 5), (n + 1) // 2 - 1
    return rng.integers(first, last + 1, m)


Noise = Literal["gaussian", "ar1", "quantised", "heavy"]
NOISES: tuple[Noise, ...] = get_args(Noise)

# Correlation of one step's error with the next's: a judge that stays impressed for two steps.
AR1 = 0.5
# A judge that answers in tenths.
QUANTUM = 0.1
# Student's t with four degrees of freedom has variance 2: one error in 60 is beyond 3 sigma.
FREEDOM = 4
HEAVY_SPREAD = (FREEDOM / (FREEDOM - 2)) ** 0.5


def add_noise(
    clean: Floats,  # shape (m, n), scores without noise
    sigma: float,  # standard deviation of the error of one score, 0 or more
    rng: np.random.Generator,  # the source of the errors
    *,
    # gaussian; ar1 (neighbouring errors correlate by .5); quantised (Gaussian, then rounded to
    # tenths); heavy (Student's t with 4 degrees of freedom, scaled)
    kind: Noise = "gaussian",
    clip: bool = True,  # keep scores within 0..1
) -> Floats:
    """Return curves as a judge with such noise would score them; `UsageError` for unknown noise."""
    if not (np.isfinite(sigma) and sigma >= 0):
        raise UsageError(f"sigma is {sigma!r}; expected 0 or more")
    scores = clean + sigma * _noise_errors(clean.shape, rng, kind)
    if clip:
        scores = np.clip(scores, 0.0, 1.0)
    return np.round(scores / QUANTUM) * QUANTUM if kind == "quantised" else scores


def _noise_errors(shape: tuple[int, ...], rng: np.random.Generator, kind: Noise) -> Floats:
    match kind:
        case "gaussian" | "quantised":
            return rng.standard_normal(shape)
        case "heavy":
            return np.asarray(rng.standard_t(FREEDOM, shape) / HEAVY_SPREAD, np.float64)
        case "ar1":
            errors = rng.standard_normal(shape)
            for step in range(1, shape[1]):
                errors[:, step] *= (1 - AR1**2) ** 0.5
                errors[:, step] += AR1 * errors[:, step - 1]
            return errors
    raise UsageError(f"no noise {kind!r}; one of {', '.join(NOISES)}")


Planter = TypeVar("Planter")


def _by_shape(*planters: Planter) -> dict[ShapeName, Planter]:
    """Return what plants each of the five shapes, which come in the order of `SHAPES`."""
    return dict(zip(SHAPES, planters, strict=True))


BREAKS: tuple[ShapeName, ...] = ("early_collapse", "late_drift", "recovery")


def _with_breaks(shape: ShapeName, curves: Floats, lost: Floats) -> PlantedCurves:
    """Return curves with their break steps, from what was lost at each step, (m, n)."""
    none = np.full(len(curves), NO_BREAK, np.int64)
    return PlantedCurves(curves, half_drop_steps(lost) if shape in BREAKS else none)


# A slip: how often one happens at a step, and the burden it is until the next.
SLIP_RATE = 0.15
SLIP = (0.01, 0.06)


def _burden(depth: Floats, skill: Floats) -> Floats:
    """Return the burden that lowers a score of `skill` by `depth`."""
    return -np.log1p(-depth / skill)


def _agent_collapse(n: int, skill: Floats, rng: np.random.Generator) -> Floats:
    m = len(skill)
    start = as_rows(draw_early_steps(rng, n, m))
    burden = _burden(draw_uniform(rng, 0.28, 0.50, m), skill) * (np.arange(n) >= start)
    # Each step built on the wrong assumption may add a little to it.
    added = (np.arange(n) > start) * (rng.random((m, n)) < 0.3) * rng.exponential(0.2 / n, (m, n))
    return np.asarray(burden + np.cumsum(added, axis=1), np.float64)


def _agent_drift(n: int, skill: Floats, rng: np.random.Generator) -> Floats:
    """The context fills with random amounts; what no longer fits is lost a little more each step.

    The window is as large as what has come in before the planted step.
    """
    m = len(skill)
    start = rng.integers(max((n + 1) // 2, round(0.6 * n)), n - 1, m)
    came = np.cumsum(rng.lognormal(0.0, 0.4, (m, n)), axis=1)
    over = np.maximum(came - came[np.arange(m), start - 1][:, None], 0.0)
    return np.asarray(
        _burden(draw_uniform(rng, 0.30, 0.55, m), skill) * over / over[:, -1:], np.float64
    )


def _agent_steady(n: int, skill: Floats, rng: np.random.Generator) -> Floats:
    """An error a step, none repaired; each makes the next a little worse."""
    m = len(skill)
    worse = 1 + draw_uniform(rng, 0.0, 1.0, m) * np.arange(n) / n
    added = rng.gamma(5.0, 0.2, (m, n)) * worse
    added[:, 0] = 0.0
    carried = np.cumsum(added, axis=1)
    depth = draw_uniform(rng, 0.28, 0.50, m)
    return np.asarray(_burden(depth, skill) * carried / carried[:, -1:], np.float64)


def _agent_recovery(n: int, skill: Floats, rng: np.random.Generator) -> Floats:
    """A slip, unnoticed for a geometric number of steps, then repaired by a share a step."""
    m = len(skill)
    start = np.minimum(rng.integers(max(1, n // 5), n // 2 + 1, m), n - 3)
    unnoticed = np.minimum(rng.geometric(0.5, m), max(1, n // 3))
    repair = np.minimum(start + unnoticed, n - 2)
    left = np.power(1 - draw_uniform(rng, 0.60, 0.95, m), np.arange(n) - as_rows(repair) + 1)
    steps = np.arange(n)
    carried = np.where(steps < as_rows(repair), 1.0, left) * (steps >= as_rows(start))
    return np.asarray(_burden(draw_uniform(rng, 0.30, 0.55, m), skill) * carried, np.float64)


def _agent_healthy(n: int, skill: Floats, rng: np.random.Generator) -> Floats:
    return np.zeros((len(skill), n))


AGENT_SHAPES = _by_shape(
    _agent_healthy, _agent_collapse, _agent_drift, _agent_steady, _agent_recovery
)


def _plant_agent(shape: ShapeName, n: int, m: int, rng: np.random.Generator) -> PlantedCurves:
    skill = draw_uniform(rng, 0.75, 0.95, m)
    burden = AGENT_SHAPES[shape](n, skill, rng)
    curves = skill * np.exp(-burden - (rng.random((m, n)) < SLIP_RATE) * rng.uniform(*SLIP, (m, n)))
    return _with_breaks(shape, curves, 1 - np.exp(-burden))


EXAMPLES: dict[ShapeName, tuple[float, ...]] = {
    "early_collapse": (0.90, 0.91, 0.88, 0.60, 0.55, 0.58, 0.61, 0.62, 0.60, 0.58),
    "late_drift": (0.60, 0.58, 0.62, 0.78, 0.82, 0.85, 0.88, 0.87, 0.55, 0.45),
    "steady_degradation": (0.85, 0.82, 0.78, 0.74, 0.71, 0.68, 0.65, 0.62, 0.58, 0.57),
    "recovery": (0.88, 0.90, 0.85, 0.40, 0.38, 0.72, 0.85, 0.87, 0.86, 0.89),
    "healthy": (0.80, 0.82, 0.84, 0.85, 0.86, 0.87, 0.88, 0.88, 0.89, 0.90),
}


def article_curve(shape: ShapeName, n: int) -> Floats:
    """Return one example laid over n steps by linear interpolation."""
    scores = EXAMPLES[shape]
    return np.interp(np.linspace(0, 1, n), np.linspace(0, 1, len(scores)), scores)


def _bases(shape: ShapeName, n: int, m: int, rng: np.random.Generator) -> PlantedCurves:
    curves = np.tile(article_curve(shape, n), (m, 1))
    # What was lost since the best step so far; a return is not a drop.
    return _with_breaks(shape, curves, np.maximum.accumulate(curves, axis=1) - curves)


def _article_collapse(n: int, m: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    moved = np.where(rng.random(m) < 0.05, rng.choice((-1, 1), m), 0)
    start = np.clip(n // 3 + moved, 1, (n + 1) // 2 - 1)
    lost = draw_uniform(rng, 0.28, 0.46, m) * (np.arange(n) >= as_rows(start))
    return draw_uniform(rng, 0.80, 0.93, m) - lost, lost


def _last_third(n: int) -> Floats:
    """Return how much of a fall over the last third has happened at each step, 0 to 1."""
    peak = 2 * (n // 3)
    return np.clip((np.arange(n) - peak) / (n - 1 - peak), 0.0, 1.0)


def _to_peak(n: int) -> Floats:
    return np.clip(np.arange(n) / (2 * (n // 3)), 0.0, 1.0)


def _article_drift(n: int, m: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    mild = rng.random((m, 1)) < 0.17
    depth = np.where(mild, draw_uniform(rng, 0.24, 0.37, m), draw_uniform(rng, 0.64, 0.82, m))
    rise = np.where(mild, draw_uniform(rng, 0.12, 0.30, m), draw_uniform(rng, 0.0, 0.25, m))
    lost = depth * _last_third(n)
    return draw_uniform(rng, 0.84, 0.95, m) - rise * (1 - _to_peak(n)) - lost, lost


def _article_steady(n: int, m: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    lost = draw_uniform(rng, 0.25, 0.40, m) * np.linspace(0, 1, n)
    return draw_uniform(rng, 0.80, 0.93, m) - lost, lost


def _article_recovery(n: int, m: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    start = as_rows(rng.integers(round(0.3 * n), round(0.5 * n) + 1, m))
    start = np.minimum(start, n - 3)
    trough = np.minimum(as_rows(rng.integers(1, n // 4 + 1, m)), n - 2 - start)
    steps, depth = np.arange(n), draw_uniform(rng, 0.35, 0.55, m)
    part = draw_uniform(rng, 0.2, 0.5, m)
    lost = depth * ((steps >= start) & (steps < start + trough))
    lost = lost + depth * part * (steps == start + trough)
    return draw_uniform(rng, 0.80, 0.93, m) - lost, lost


def _article_healthy(n: int, m: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    soft = rng.random((m, 1)) < 0.10
    # A soft finish comes after a climb; without it V1 would call most of them declines.
    rise = np.where(soft, draw_uniform(rng, 0.20, 0.30, m), draw_uniform(rng, 0.02, 0.20, m))
    lost = soft * draw_uniform(rng, 0.35, 0.46, m) * _last_third(n)
    return draw_uniform(rng, 0.80, 0.93, m) - rise * (1 - _to_peak(n)) - lost, lost


ARTICLE_SHAPES = _by_shape(
    _article_healthy, _article_collapse, _article_drift, _article_steady, _article_recovery
)


def _reconstruction(shape: ShapeName, n: int, m: int, rng: np.random.Generator) -> PlantedCurves:
    return _with_breaks(shape, *ARTICLE_SHAPES[shape](n, m, rng))


# Spread of what arrives at a step, as a share of its mean.
UNEVEN = 0.15


def _backlog(arrivals: Floats, served: Floats, rng: np.random.Generator) -> Floats:
    """Return what waits after each step, scaled to a maximum of 1; `served` is (m, 1) or (m, n)."""
    come = arrivals * rng.gamma(1 / UNEVEN**2, UNEVEN**2, arrivals.shape)
    waits, rate = np.zeros_like(arrivals), np.broadcast_to(served, arrivals.shape)
    before = np.zeros(len(arrivals))
    for step in range(arrivals.shape[1]):
        before = (before + come[:, step]) * (1 - rate[:, step])
        waits[:, step] = before
    return np.asarray(waits / waits.max(1, keepdims=True), np.float64)


def _holdout_collapse(n: int, m: int, rng: np.random.Generator) -> Floats:
    """The load doubles for good, early: the backlog settles at a higher level."""
    load = (np.arange(n) >= as_rows(draw_early_steps(rng, n, m))).astype(np.float64)
    return _backlog(load, draw_uniform(rng, 0.70, 0.95, m), rng)


def _holdout_drift(n: int, m: int, rng: np.random.Generator) -> Floats:
    """Service slows down late: work piles up to the end."""
    start = rng.integers(max((n + 1) // 2, round(0.6 * n)), n - 1, m)
    load = (np.arange(n) >= as_rows(start)).astype(np.float64)
    return _backlog(load, draw_uniform(rng, 0.05, 0.60, m), rng)


def _holdout_steady(n: int, m: int, rng: np.random.Generator) -> Floats:
    """A little more arrives than can be served, from the first step on."""
    load = np.ones((m, n))
    load[:, 0] = 0.0
    return _backlog(load, draw_uniform(rng, 0.1, 0.5, m) / n, rng)


def _holdout_recovery(n: int, m: int, rng: np.random.Generator) -> Floats:
    """An outage, after which the backlog is worked off."""
    start = np.minimum(rng.integers(max(1, n // 5), n // 2 + 1, m), n - 3)
    length = np.minimum(rng.integers(1, max(1, n // 4) + 1, m), n - 2 - start)
    steps = np.arange(n)
    out = (steps >= as_rows(start)) & (steps < as_rows(start + length))
    served = np.where(out, 0.1, draw_uniform(rng, 0.60, 0.90, m))
    return _backlog(out.astype(np.float64), served, rng)


HOLDOUT_SHAPES = {
    "early_collapse": _holdout_collapse,
    "late_drift": _holdout_drift,
    "steady_degradation": _holdout_steady,
    "recovery": _holdout_recovery,
}


def _plant_holdout(shape: ShapeName, n: int, m: int, rng: np.random.Generator) -> PlantedCurves:
    speed = draw_uniform(rng, 0.75, 0.95, m)
    jitter = 1 - rng.gamma(1.0, 0.012, (m, n))
    if shape == "healthy":
        return _with_breaks(shape, speed * jitter, jitter)
    waits = HOLDOUT_SHAPES[shape](n, m, rng)
    deepest = draw_uniform(rng, 0.30, 0.55, m)
    curves = speed / (1 + waits * deepest / (speed - deepest))
    return _with_breaks(shape, curves * jitter, speed - curves)


def _transition(at: Floats, n: int, rng: np.random.Generator) -> Floats:
    """Return profiles 0 to 1, half done at `at` (m, 1) steps; a coin picks the form of each."""
    m = len(at)
    pace = np.maximum(0.15, draw_uniform(rng, 0.02, 0.06, m) * n)
    away = np.arange(n) - at
    logistic = 1 / (1 + np.exp(-np.clip(away / pace, -60, 60)))
    settling = 1 - np.exp(-np.maximum(away + pace * np.log(2), 0.0) / pace)
    return np.asarray(np.where(rng.random((m, 1)) < 0.5, logistic, settling), np.float64)


def _to_one(profile: Floats) -> Floats:
    """Scale profiles so that the planted depth is reached within the run."""
    return np.asarray(profile / profile.max(1, keepdims=True), np.float64)


def _smooth_collapse(n: int, m: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    at = draw_uniform(rng, max(0.5, 0.12 * (n - 1)), min(0.4 * (n - 1), (n + 1) // 2 - 1.05), m)
    lost = draw_uniform(rng, 0.28, 0.55, m) * _to_one(_transition(at, n, rng))
    return draw_uniform(rng, 0.72, 0.95, m) - lost, lost


def _smooth_drift(n: int, m: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    at = draw_uniform(rng, 0.63 * (n - 1), n - 1.4, m)
    lost = draw_uniform(rng, 0.28, 0.55, m) * _to_one(_transition(at, n, rng))
    warming = draw_uniform(rng, 0.0, 0.12, m) * np.exp(-np.arange(n) / (0.2 * n))
    return draw_uniform(rng, 0.72, 0.95, m) - warming - lost, lost


def _smooth_steady(n: int, m: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    bend = draw_uniform(rng, 0.1, 1.2, m) * rng.choice((-1.0, 1.0), (m, 1))
    lost = (1 - np.exp(-bend * np.linspace(0, 1, n))) / (1 - np.exp(-bend))
    lost = draw_uniform(rng, 0.28, 0.50, m) * lost
    return draw_uniform(rng, 0.72, 0.95, m) - lost, lost


def _smooth_recovery(n: int, m: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    down = draw_uniform(rng, max(0.6, 0.15 * (n - 1)), 0.45 * (n - 1), m)
    up = down + draw_uniform(rng, max(1.2, 0.12 * n), max(1.5, 0.33 * n), m)
    up = np.minimum(up, n - 1.6)
    dip = _transition(down, n, rng) - draw_uniform(rng, 0.85, 1.0, m) * _transition(up, n, rng)
    lost = draw_uniform(rng, 0.30, 0.55, m) * _to_one(np.maximum(dip, 0.0))
    return draw_uniform(rng, 0.72, 0.95, m) - lost, lost


def _smooth_healthy(n: int, m: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    warming = draw_uniform(rng, 0.0, 0.18, m) * np.exp(-np.arange(n) / (0.3 * n))
    return draw_uniform(rng, 0.72, 0.95, m) - warming, np.zeros((m, n))


SMOOTH_SHAPES = _by_shape(
    _smooth_healthy, _smooth_collapse, _smooth_drift, _smooth_steady, _smooth_recovery
)


def _plant_smooth(shape: ShapeName, n: int, m: int, rng: np.random.Generator) -> PlantedCurves:
    return _with_breaks(shape, *SMOOTH_SHAPES[shape](n, m, rng))


# How far the level of a run wanders around its own line, as a standard deviation.
WANDER = 0.02
# Parts of a steady decline: the larger, the more equal.
EVENNESS = 6.0


def _wander(n: int, m: int, rng: np.random.Generator) -> Floats:
    """Return smoothed walks (m, n) of mean 0 and standard deviation `WANDER` over each run."""
    steps = rng.standard_normal((m, n + 2))
    walk = np.cumsum((steps[:, :-2] + steps[:, 1:-1] + steps[:, 2:]) / 3, axis=1)
    line = np.linspace(-1, 1, n)
    walk = walk - walk.mean(1, keepdims=True)
    walk = walk - line * (walk @ line / (line @ line))[:, None]
    return np.asarray(WANDER * walk / np.maximum(walk.std(1, keepdims=True), 1e-12), np.float64)


def _change(start: Floats, width: Floats, n: int, rng: np.random.Generator) -> Floats:
    """Return profiles 0 to 1 that rise in `width` random parts from step `start` (both (m, 1))."""
    steps = np.arange(n)
    parts = rng.gamma(2.0, 1.0, (len(start), n)) * ((steps >= start) & (steps < start + width))
    done = np.cumsum(parts, axis=1)
    return done / np.maximum(done[:, -1:], 1e-12)


def _width(rng: np.random.Generator, n: int, m: int) -> Floats:
    return as_rows(rng.integers(1, max(1, n // 6) + 1, m))


def _walk_collapse(n: int, m: int, rng: np.random.Generator) -> Floats:
    start = as_rows(draw_early_steps(rng, n, m))
    width = np.minimum(_width(rng, n, m), (n + 1) // 2 - start)
    return draw_uniform(rng, 0.28, 0.50, m) * _change(start, width, n, rng)


def _walk_drift(n: int, m: int, rng: np.random.Generator) -> Floats:
    start = as_rows(rng.integers(max((n + 1) // 2, round(0.6 * n)), n, m))
    width = np.minimum(as_rows(rng.integers(1, max(1, n // 3) + 1, m)), n - start)
    return draw_uniform(rng, 0.28, 0.50, m) * _change(start, width, n, rng)


def _walk_steady(n: int, m: int, rng: np.random.Generator) -> Floats:
    parts = rng.gamma(EVENNESS, 1.0, (m, n))
    parts[:, 0] = 0.0
    done = np.cumsum(parts, axis=1)
    return draw_uniform(rng, 0.28, 0.50, m) * done / done[:, -1:]


def _walk_recovery(n: int, m: int, rng: np.random.Generator) -> Floats:
    start = np.minimum(as_rows(rng.integers(max(1, n // 5), n // 2 + 1, m)), n - 3)
    down = np.minimum(_width(rng, n, m), n - 2 - start)
    last_low = start + down + as_rows(rng.integers(0, max(1, n // 4), m))
    turn = np.minimum(last_low, n - 2)
    back = np.minimum(_width(rng, n, m), n - turn)
    returned = draw_uniform(rng, 0.80, 1.0, m) * _change(turn, back, n, rng)
    return draw_uniform(rng, 0.30, 0.55, m) * (_change(start, down, n, rng) - returned)


def _walk_healthy(n: int, m: int, rng: np.random.Generator) -> Floats:
    up = draw_uniform(rng, 0.0, 0.12, m) * _change(np.ones((m, 1)), np.full((m, 1), n - 1), n, rng)
    return np.asarray(up[:, -1:] - up, np.float64)


WALK_SHAPES = _by_shape(_walk_healthy, _walk_collapse, _walk_drift, _walk_steady, _walk_recovery)


def _plant_walk(shape: ShapeName, n: int, m: int, rng: np.random.Generator) -> PlantedCurves:
    lost = WALK_SHAPES[shape](n, m, rng)
    return _with_breaks(shape, draw_uniform(rng, 0.75, 0.95, m) - lost + _wander(n, m, rng), lost)


# Families of curves with one form, each able to draw each of the five shapes.
GENERATORS: dict[str, Callable[[ShapeName, int, int, np.random.Generator], PlantedCurves]] = {
    "article": _bases,  # the articles' four examples and our healthy base, laid over n steps
    "reconstruction": _reconstruction,  # give V1 and V3 the twelve scores the articles print
    "smooth": _plant_smooth,  # logistic and exponential transitions in continuous time
    "walk": _plant_walk,  # a smoothed random walk with a change of level in random parts
    "agent": _plant_agent,  # an agent that carries its unresolved errors from step to step
    "holdout": _plant_holdout,  # a queue whose backlog lowers the score; nothing was tuned on it
}


def draw_curves(
    generator: str, shape: ShapeName, n: int, m: int, rng: np.random.Generator
) -> PlantedCurves:
    """Draw m curves of n steps, four or more, of a shape; `UsageError` for what none can draw."""
    if shape not in SHAPES:
        raise UsageError(f"generator {generator}: no shape {shape!r}; one of {', '.join(SHAPES)}")
    if n < FEWEST_STEPS or m < 0:
        raise UsageError(
            f"generator {generator}: {m} curves of {n} steps asked; "
            f"give 0 curves or more, of {FEWEST_STEPS} steps or more"
        )
    return GENERATORS[generator](shape, n, m, rng)
