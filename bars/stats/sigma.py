"""Does the interval of a judge's sigma hold the truth? `stats.sigma` on duplicate scorings.

`python -m bars.stats.sigma [REPLICATIONS]`, 4,000 unless given. Every design of normal noise must
be held at least 93 % of the time (nominal 95 %), and the upper limit, which decides, must be passed
at most 5 % of the time. Judges whose noise differs from step to step, or has heavy tails, bind
nothing and stand beside the plain chi-square interval that was refused for them; scores in steps of
q are held against sqrt(sigma^2 + q^2/12). Code 0: all hold; 3: one is missed.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np
from scipy.stats import chi2

from bars.stats._coverage import Floats
from stepscope.stats.repeatability import sigma
from stepscope.values import Estimate

REPLICATIONS = 4_000
LEAST, MOST_ABOVE = 0.93, 0.05
DESIGNS = ((1, 10), (1, 15), (5, 2), (8, 3), (15, 3), (40, 2))
SIGMAS = (0.02, 0.05, 0.11)
NOISE = 0.05
QUANTA = (0.05, 0.1, 0.2)
Kind = Literal["normal", "beyond: unlike steps", "beyond: heavy tails"]
KINDS: tuple[Kind, ...] = ("normal", "beyond: unlike steps", "beyond: heavy tails")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One design: shares of intervals that hold the truth, and that lie wholly below it."""

    noise: str
    design: str
    held: float
    below: float
    plain: float
    width: float

    @property
    def binds(self) -> bool:
        """Whether the bar is about this row."""
        return not self.noise.startswith("beyond")


def errors(rng: np.random.Generator, kind: Kind, truth: float, shape: tuple[int, int]) -> Floats:
    """Errors of root mean square `truth` for steps x repeats.

    Unlike steps: three in ten have five times the noise of the others.
    """
    if kind == "beyond: heavy tails":
        return rng.standard_t(4, shape) / sqrt(2) * truth
    spread = np.ones((shape[0], 1))
    if kind == "beyond: unlike steps":
        spread = np.where(rng.random((shape[0], 1)) < 0.3, 5.0, 1.0) / sqrt(0.7 + 0.3 * 25)
    return rng.normal(0, 1, shape) * spread * truth


def cell(
    rng: np.random.Generator,
    n: int,
    *,
    kind: Kind,
    design: tuple[int, int],
    truth: float,
    quantum: float | None = None,
) -> Row:
    """Simulate one design; steps lie anywhere on the scale."""
    steps, repeats = design
    index = np.repeat(np.arange(steps), repeats)
    target = sqrt(truth**2 + (quantum or 0.0) ** 2 / 12)
    held, below, plain, widths = 0, 0, 0, []
    freedom = steps * (repeats - 1)
    factors = np.sqrt(freedom / chi2.ppf([0.975, 0.025], freedom))
    for _ in range(n):
        scores = rng.uniform(0.1, 0.95, (steps, 1)) + errors(rng, kind, truth, design)
        if quantum:
            scores = np.round(scores / quantum) * quantum
        found = sigma(scores.ravel(), index, quantum=quantum)
        assert isinstance(found, Estimate)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= target <= found.high
        below += found.high < target
        low, high = found.value * factors
        plain += bool(low <= target <= high)
        widths.append(found.high / found.low)
    return Row(
        noise=kind if quantum is None else f"in steps of {quantum:g}",
        design=f"{steps} x {repeats}, sigma {truth:g}",
        held=held / n,
        below=below / n,
        plain=plain / n,
        width=float(np.median(widths)),
    )


def rows(n: int, seed: int = 0) -> Iterator[Row]:
    """Simulate every design."""
    rng = np.random.default_rng(seed)
    for design, truth in itertools.product(DESIGNS, SIGMAS):
        yield cell(rng, n, kind="normal", design=design, truth=truth)
    for kind, design in itertools.product(KINDS[1:], DESIGNS[2:]):
        yield cell(rng, n, kind=kind, design=design, truth=NOISE)
    for quantum, truth in itertools.product(QUANTA, SIGMAS):
        yield cell(rng, n, kind="normal", design=(15, 3), truth=truth, quantum=quantum)


def main(replications: int = REPLICATIONS) -> int:
    """Run the bar; print its table."""
    print(f"sigma of a judge, {replications:,} replications a row, seed 0\n")
    head = f"{'noise':<24}{'steps x repeats':<24}{'held':>7}{'truth above':>13}"
    print(f"{head}{'plain chi2':>12}{'high/low':>10}")
    all_hold = True
    for row in rows(replications):
        holds = row.held >= LEAST and row.below <= MOST_ABOVE
        all_hold &= holds or not row.binds
        print(
            f"{row.noise:<24}{row.design:<24}{row.held:>7.3f}{row.below:>13.3f}{row.plain:>12.3f}"
            f"{row.width:>10.2f}  {('holds' if holds else 'MISSED') if row.binds else ''}"
        )
    print(f"\nmust be: held >= {LEAST}, truth above <= {MOST_ABOVE}")
    return 0 if all_hold else 3


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else REPLICATIONS))
