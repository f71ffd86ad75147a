"""Do intervals of agreement hold the truth at 20 runs? `stats.agreement` on raters of known skill.

`python -m bars.stats.agreement [REPLICATIONS]`, 4,000 unless given. Every coefficient must be held
at least 92 % of the time in every cell and 93 % in the mean (nominal 95 %). The truth of a cell is
the coefficient of 400,000 runs of the same raters: they see a hidden category and name it as often
as they are able, else answer by habit; items of one run share how hard they are. Samples without a
value (one answer throughout) are counted apart. Code 0: all hold; 3: one is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from stepscope.stats.interrater import CoefficientName, Metric, agreement
from stepscope.values import Estimate

REPLICATIONS = 4_000
RUNS, MANY = 20, 400_000
LEAST, LEAST_MEAN = 0.92, 0.93
# Coefficient, metric, raters.
Asked = tuple[CoefficientName, Metric, int]
NOMINAL: tuple[Asked, ...] = (
    ("raw", "nominal", 2), ("kappa", "nominal", 2), ("alpha", "nominal", 3),
    ("fleiss", "nominal", 3), ("gwet", "nominal", 2), ("pabak", "nominal", 2),
)  # fmt: skip
ORDERED: tuple[Asked, ...] = (
    ("kappa", "quadratic", 2), ("alpha", "ordinal", 3), ("gwet", "linear", 3),
)  # fmt: skip
# Shares of the categories; how often a rater names the hidden one; items a run.
SHARES = ((0.5, 0.5), (0.8, 0.2), (0.5, 0.3, 0.2))
SKILLS = (0.4, 0.65, 0.85)
ITEMS = (1, 3)
# How far the items of one run move their raters' skill together.
HARDNESS = 0.25

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """How often the interval of one coefficient held the truth, of samples that had a value."""

    coefficient: str
    point: str
    truth: float
    held: float
    without: float
    width: float


@dataclass(frozen=True, slots=True)
class Raters:
    """A way of rating: shares of the categories, skill, and items a run."""

    shares: tuple[float, ...]
    skill: float
    items: int

    def draw(self, runs: int, raters: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Return ratings, shape (runs * items, raters), and the run of each item."""
        run = np.repeat(np.arange(runs), self.items)
        moved = HARDNESS * rng.uniform(-1, 1, runs) if self.items > 1 else np.zeros(runs)
        skill = np.clip(self.skill + moved, 0.02, 0.98)[run]
        hidden = rng.choice(len(self.shares), p=self.shares, size=len(run))
        habit = rng.choice(len(self.shares), p=self.shares, size=(len(run), raters))
        right = rng.random((len(run), raters)) < skill[:, None]
        return np.where(right, hidden[:, None], habit).astype(np.int64), run


def cells(rng: np.random.Generator, replications: int) -> Iterator[Cell]:
    """Yield a cell for every coefficient and every way of rating."""
    for shares, skill, items in product(SHARES, SKILLS, ITEMS):
        for asked in (*NOMINAL, *(ORDERED if len(shares) > 2 else ())):
            yield cell(asked, Raters(shares, skill, items), rng, replications)


def cell(asked: Asked, way: Raters, rng: np.random.Generator, replications: int) -> Cell:
    """Return how often one coefficient's interval held the truth."""
    name, metric, raters = asked
    q = len(way.shares)

    def found(runs: int, draws: int) -> Estimate | None:
        ratings, run = way.draw(runs, raters, rng)
        got = agreement(
            ratings, name, rng=rng, metric=metric, categories=q, clusters=run, draws=draws
        )
        return got if isinstance(got, Estimate) else None

    whole = found(MANY, 100)
    assert whole is not None
    got = [one for _ in range(replications) if (one := found(RUNS, 1_000)) is not None]
    sides = [(one.low, one.high) for one in got]
    kept = [(low, high) for low, high in sides if low is not None and high is not None]
    held = [low <= whole.value <= high for low, high in kept]
    return Cell(
        coefficient=f"{name}, {metric}",
        point=f"{way.shares} skill {way.skill:g}, {way.items} a run",
        truth=whole.value,
        held=float(np.mean(held)),
        without=1 - len(kept) / replications,
        width=float(np.median([high - low for low, high in kept])),
    )


def main() -> int:
    """Print the table; return 0 when all holds."""
    replications = int(sys.argv[1]) if len(sys.argv) > 1 else REPLICATIONS
    found = list(cells(np.random.default_rng(0), replications))
    for one in found:
        said = f"{one.coefficient:18} {one.point:38} truth {one.truth:5.2f}  held {one.held:.3f}"
        print(f"{said}  without a value {one.without:.3f}  width {one.width:.2f}")
    mean, least = float(np.mean([c.held for c in found])), min(c.held for c in found)
    print(f"mean {mean:.3f} (bar {LEAST_MEAN}), lowest {least:.3f} (bar {LEAST})")
    return 0 if mean >= LEAST_MEAN and least >= LEAST else 3


if __name__ == "__main__":
    sys.exit(main())
