"""Do our V1, V2 and V3 give what the articles print? Their tables again, beside ours.

`python -m bars.shape.shape_references [TRIALS]`, 200,000 a cell unless given. Three tables: the
labels of the four examples; V3's accuracy over five noises, with scores clipped to 0..1 and not;
twelve scores of 1,500 trajectories, on a generator reconstructed to give them. A cell of the second
table was published (or first computed) from 5,000 trials: it may differ by 3.5 standard errors of
the two simulations together and half of the last digit printed. The third is one draw of the
articles, and ours vary from seed to seed: 3.5 standard deviations between seeds and half a digit.
Code 0: all agree; 3: one does not.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np

from stepscope.lab.curves import EXAMPLES, add_noise, draw_curves
from stepscope.shape import articles
from stepscope.shape.articles import Codes, v1_many, v3_many
from stepscope.shape.types import SHAPES, ShapeName
from stepscope.stats.sample import Floats

TRIALS = 200_000
SEEDS = 200
SIGMAS = (0.02, 0.05, 0.08, 0.11, 0.15)
PUBLISHED_TRIALS = 5_000
ERRORS = 3.5

# What V1, V2 and V3 answer on the examples; V1 and V3 as printed.
LABELS: dict[ShapeName, tuple[ShapeName, ShapeName, ShapeName]] = {
    "early_collapse": ("steady_degradation", "early_collapse", "early_collapse"),
    "late_drift": ("healthy", "healthy", "late_drift"),
    "steady_degradation": ("steady_degradation",) * 3,
    "recovery": ("recovery", "early_collapse", "recovery"),
}
# V3's accuracy at SIGMAS, by clipping and base. The healthy base is ours.
SWEEP: dict[tuple[bool, ShapeName], tuple[float, ...]] = {
    (True, "early_collapse"): (1.000, 0.946, 0.765, 0.599, 0.463),
    (True, "late_drift"): (0.995, 0.833, 0.711, 0.646, 0.567),
    (True, "steady_degradation"): (1.000, 0.949, 0.762, 0.595, 0.445),
    (True, "recovery"): (1.000, 0.996, 0.972, 0.938, 0.895),
    (True, "healthy"): (1.000, 0.991, 0.841, 0.587, 0.349),
    (False, "early_collapse"): (1.000, 0.943, 0.764, 0.647, 0.549),
    (False, "late_drift"): (0.991, 0.841, 0.722, 0.648, 0.560),
    (False, "steady_degradation"): (1.000, 0.949, 0.751, 0.573, 0.420),
    (False, "recovery"): (1.000, 0.994, 0.950, 0.902, 0.835),
    (False, "healthy"): (1.000, 0.991, 0.817, 0.546, 0.317),
}
# The articles' scores of 1,500 trajectories: accuracy, macro F1, F1 by shape.
PRINTED: dict[str, dict[str, float]] = {
    "V1": {
        "accuracy": 0.76,
        "macro F1": 0.69,
        "early_collapse": 0.00,
        "late_drift": 0.89,
        "steady_degradation": 0.66,
        "recovery": 1.00,
        "healthy": 0.93,
    },
    "V3": {
        "accuracy": 0.94,
        "macro F1": 0.94,
        "early_collapse": 0.98,
        "late_drift": 0.85,
        "steady_degradation": 0.97,
        "recovery": 0.99,
        "healthy": 0.90,
    },
}


class Cell(NamedTuple):
    """One number of a table: what was published, what we find, and how far apart they may be."""

    name: str
    published: float
    ours: float
    allowed: float

    @property
    def agrees(self) -> bool:
        """Whether the two differ by no more than simulation error."""
        return abs(self.ours - self.published) <= self.allowed


def labels() -> dict[ShapeName, tuple[object, ...]]:
    """Return what V1, V2 and V3 answer on the four examples."""
    ask = (articles.v1, articles.v2, articles.v3)
    return {shape: tuple(f(EXAMPLES[shape]) for f in ask) for shape in LABELS}


def sweep(trials: int, rng: np.random.Generator) -> list[Cell]:
    """Return V3's accuracy for each base, noise and clipping."""
    cells = []
    for (clip, shape), published in SWEEP.items():
        clean = draw_curves("article", shape, 10, trials, rng).curves
        for sigma, known in zip(SIGMAS, published, strict=True):
            found = v3_many(add_noise(clean, sigma, rng, clip=clip))
            ours = float((found == SHAPES.index(shape)).mean())
            variance = ours * (1 - ours) * (1 / trials + 1 / PUBLISHED_TRIALS)
            name = f"{shape}, sigma {sigma:g}, {'clipped' if clip else 'not clipped'}"
            cells.append(Cell(name, known, ours, ERRORS * variance**0.5 + 0.0005))
    return cells


def scores(found: Codes, truth: Codes) -> dict[str, float]:
    """Return accuracy, macro F1 and F1 by shape."""
    by_shape: dict[str, float] = {}
    for code, shape in enumerate(SHAPES):
        hits = ((found == code) & (truth == code)).sum()
        by_shape[shape] = float(2 * hits / ((found == code).sum() + (truth == code).sum()))
    macro = float(np.mean(list(by_shape.values())))
    return {"accuracy": float((found == truth).mean()), "macro F1": macro, **by_shape}


def trajectories(rng: np.random.Generator) -> tuple[Floats, Codes]:
    """Draw 1,500 trajectories as the articles did: 300 of each shape, ten steps, sigma .035."""
    made = [draw_curves("reconstruction", shape, 10, 300, rng).curves for shape in SHAPES]
    return add_noise(np.vstack(made), 0.035, rng), np.repeat(np.arange(5, dtype=np.int8), 300)


def twelve(seeds: int) -> list[Cell]:
    """Return the printed scores of V1 and V3 beside the mean of ours over seeds."""
    found: dict[tuple[str, str], list[float]] = {}
    for seed in range(seeds):
        drawn, truth = trajectories(np.random.default_rng(seed))
        for name, classify in (("V1", v1_many), ("V3", v3_many)):
            for what, score in scores(classify(drawn), truth).items():
                found.setdefault((name, what), []).append(score)
    return [
        Cell(
            f"{name} {what}",
            PRINTED[name][what],
            float(np.mean(values)),
            ERRORS * float(np.std(values)) + 0.005,
        )
        for (name, what), values in found.items()
    ]


def main(trials: int) -> int:
    wrong = 0
    for shape, answers in labels().items():
        wrong += answers != LABELS[shape]
        print(
            f"{shape:<20} {'as published' if answers == LABELS[shape] else 'DIFFERS':<14} {answers}"
        )
    print(f"\n{'':<46} published    ours  allowed")
    for cell in (*sweep(trials, np.random.default_rng(0)), *twelve(SEEDS)):
        wrong += not cell.agrees
        print(
            f"{cell.name:<46} {cell.published:>9.3f} {cell.ours:>7.4f} {cell.allowed:>8.4f}"
            f"{'' if cell.agrees else '  DIFFERS'}"
        )
    print(f"\n{wrong} differ")
    return 3 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else TRIALS))
