"""Judges that answer in five points, rows left out, means of scorings, unknown noise: wrong labels.

`python -m bars.shape.coarse [RUNS]`, 2,000 runs of each shape in a cell unless given, seed 0.
Generators: all of the lab and `_stories`. Of labels with a probability above .9: the share that is
wrong. *Five points*: scores rounded to quarters, or to fifths from .2, sigma told, 5 to 20 steps,
noise .05 and .08; it must be at most .05 in every cell; of four points it is printed, without a
bar. *Rows left out*: three of ten steps; the answer must be that of
blank cells, bit for bit. *Means*: of four scorings with a noise of .11 each, ten steps: at most .05
may be wrong, and more must be sure than before. *Unknown*: 5 and 7 steps at a noise of .15, where
no label may be given. Beside each what was answered before: without the rounding, closed up, with
the noise of one scoring, and with the best shape as label. Code 0: all hold; 3: one is missed.
"""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace

import numpy as np

from bars.shape._fleets import Floats, Ints
from bars.shape._stories import draw_stories
from stepscope.lab.curves import GENERATORS, add_noise, draw_curves
from stepscope.shape.classifier import RESOLVED, classify_many, classify_ragged
from stepscope.shape.fleet import weigh_fleet
from stepscope.shape.inputs import lay_out
from stepscope.shape.types import SHAPES, UNRESOLVED, ShapeBatch

RUNS = 2_000
SURE, MOST_WRONG = 0.9, 0.05
POINTS = 4
# As good as no rounding.
FINE = 1e-6
SLACK = 2.33
SCORINGS, NOISE = 4, 0.11
NAMES = ("stories", *GENERATORS)


def draw(name: str, n: int, sigma: float, runs: int, rng: np.random.Generator) -> Floats:
    """Return scores of runs of every shape, shape (5 * runs, n), the shapes one after the other."""
    parts = [
        draw_stories(shape, n, runs, rng)
        if name == "stories"
        else draw_curves(name, shape, n, runs, rng).curves
        for shape in SHAPES
    ]
    return add_noise(np.vstack(parts), sigma, rng)


def wrong(found: ShapeBatch, truth: Ints) -> tuple[float, float]:
    """Return the share of sure labels that are wrong, and how many are sure."""
    sure = (found.posterior.max(1) > SURE) & (found.label != UNRESOLVED)
    missed = found.label[sure] != truth[found.rows][sure]
    return float(missed.mean()) if len(missed) else 0.0, float(sure.mean())


def few_wrong(found: tuple[float, float], runs: int) -> bool:
    """Tell whether few enough sure labels are wrong, but for the error of the simulation."""
    slack = SLACK * (MOST_WRONG * (1 - MOST_WRONG) / (found[1] * runs or 1)) ** 0.5
    return bool(found[0] <= MOST_WRONG + slack)


def points_hold(grid: str, parts: int, runs: int, rng: np.random.Generator) -> bool:
    """Print what scores on a grid are worth; return whether all hold."""
    truth, hold = np.repeat(np.arange(len(SHAPES)), runs), True
    least = 1 if parts > POINTS else 0  # the lowest of five points is .2
    print(f"\n{f'in {grid}':<42}{'before':>14}{'now':>14}")
    for name, n, sigma in itertools.product(NAMES, (5, 10, 20), (0.05, 0.08)):
        scores = np.maximum(np.round(draw(name, n, sigma, runs, rng) * parts), least) / parts
        before = wrong(classify_many(scores, sigma=sigma, quantum=FINE), truth)
        now = wrong(classify_many(scores, sigma=sigma), truth)
        hold &= few_wrong(now, len(truth))
        cells = "".join(f"{share:>7.3f} ({sure:.2f})" for share, sure in (before, now))
        print(f"{f'{name}, n {n}, sigma {sigma:g}':<42}{cells}")
    return hold


def means_hold(runs: int, rng: np.random.Generator) -> bool:
    """Print what means of scorings are worth; return whether all hold."""
    truth, hold = np.repeat(np.arange(len(SHAPES)), runs), True
    print(f"\nmeans of {SCORINGS} scorings{'':<23}{'before':>14}{'now':>14}")
    for name in NAMES:
        scores = draw(name, 10, NOISE / SCORINGS**0.5, runs, rng)
        steps = np.full(len(scores), 10)
        before, now = (
            wrong(weigh_fleet(scores.ravel(), steps, sigma=NOISE, repeats=of).batch, truth)
            for of in (1, SCORINGS)
        )
        hold &= few_wrong(now, len(truth)) and now[1] > before[1]
        cells = "".join(f"{share:>7.3f} ({sure:.2f})" for share, sure in (before, now))
        print(f"{f'{name}, n 10, sigma {NOISE:g}':<42}{cells}")
    return hold


def main(runs: int = RUNS) -> int:
    """Run the bar; print its tables."""
    rng, truth = np.random.default_rng(0), np.repeat(np.arange(len(SHAPES)), runs)
    print(f"labels above .9 that are wrong (share that is so sure), {runs:,} runs a shape, seed 0")
    all_hold = points_hold("quarters", 4, runs, rng) and points_hold("fifths", 5, runs, rng)
    points_hold("thirds, no bar", 3, runs, rng)
    print("\nthree of ten rows left out, sigma .05")
    for name in NAMES:
        scores = draw(name, 10, 0.05, runs, rng)
        out = np.argsort(rng.random(scores.shape), axis=1) < 3
        blank = classify_many(np.where(out, np.nan, scores), sigma=0.05)
        counts, size = np.full(len(scores), 7), np.full(len(scores), 10)
        laid = lay_out(scores[~out], counts, np.nonzero(~out)[1], size)
        left = classify_ragged(laid, size, sigma=0.05)
        same = left.posterior.tobytes() == blank.posterior.tobytes()
        same &= left.break_step.tobytes() == blank.break_step.tobytes()
        all_hold &= same
        closed = wrong(classify_ragged(scores[~out], counts, sigma=0.05), truth)[0]
        said = "as blank" if same else "MISSED"
        print(f"{name:<42}before {closed:.3f}, now {wrong(left, truth)[0]:.3f}: {said}")
    all_hold &= means_hold(runs, rng)
    print("\nnoise unknown, .15")
    for name, n in itertools.product(NAMES, (5, 7)):
        found = classify_many(draw(name, n, 0.15, runs, rng))
        given = int((found.label != UNRESOLVED).sum())
        all_hold &= given == 0
        would = np.where(found.posterior.max(1) >= RESOLVED, found.best, UNRESOLVED)
        named = wrong(replace(found, label=would.astype(np.int8)), truth)[0]
        print(f"{f'{name}, n {n}':<42}before {named:.3f}, now {given} labels")
    print("\nholds" if all_hold else "\nMISSED")
    return 0 if all_hold else 3


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS))
