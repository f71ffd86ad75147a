"""Rank flips: are they chance, and are those that are there found?

`python -m bars.stats.rank_flips [REPLICATIONS]`, 4,000 a point unless given. Fleets of 50 tasks
with 4 trials and 12 figures of the path, two of them counts and the rest shares. Alike in
everything, at most 5 % may have a flip; so with outcomes .15 and .30 apart and equal paths, with
paths apart and equal outcomes, and with four fleets. Of one figure that is .43 standard deviations
worse where the outcome is 20 points better, at least .75 must be found. Code 0: all hold; 3: one is
missed.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bars.stats._coverage import Cell, Floats, chances
from stepscope.stats import FigureRuns, rank_flips
from stepscope.values import RankFlips

REPLICATIONS = 4_000
TASKS, TRIALS = 50, 4
MOST_FLIPS, LEAST_FOUND = 0.05, 0.75
COUNTS = tuple(f"count {at}" for at in range(2))
SHARES = tuple(f"share {at}" for at in range(10))
DRAWS = 999  # Holm over 12 figures asks for a p of .0021 or less
CASES = np.repeat(np.arange(TASKS), TRIALS)

# What is worse in a fleet, by how many standard deviations of a run.
Worse = Mapping[str, float]


def draw_shares(rng: np.random.Generator, p: float, added: float, own: Floats) -> Floats:
    """Return passes or faults of a fleet; `own` places each task within its distribution."""
    high = np.clip(own + (p + added - own.mean()), 0, 1)
    return np.asarray(rng.random((TASKS, TRIALS)) < high[:, None], np.float64).ravel()


def draw_fleets(
    rng: np.random.Generator, passing: Sequence[float], worse: Sequence[Worse], rho: float
) -> dict[str, list[FigureRuns]]:
    """Return the outcome and the figures of fleets that ran the same tasks."""
    found: dict[str, list[FigureRuns]] = {}
    for key in ("outcome", *COUNTS, *SHARES):
        own = chances(rng, 0.3, rho, (1, TASKS))[0]
        values: list[Floats] = []
        for rate, lag in zip(passing, worse, strict=True):
            if key == "outcome":
                values.append(draw_shares(rng, rate, 0.0, own))
            elif key in COUNTS:
                # Poisson with mean and variance 1 a run, tasks apart as their shares are.
                mean = np.maximum(1 + own - own.mean() + lag.get(key, 0.0), 0)
                values.append(rng.poisson(mean[:, None], (TASKS, TRIALS)).ravel().astype(float))
            else:
                values.append(draw_shares(rng, 0.3, lag.get(key, 0.0) * (0.3 * 0.7) ** 0.5, own))
        found[key] = [FigureRuns(values=v, cases=CASES, unmeasured={}) for v in values]
    return found


def find_flips(rng: np.random.Generator, fleets: dict[str, list[FigureRuns]]) -> set[str]:
    """Return the figures that flip."""
    outcome, *_ = fleets.values()
    names = [f"fleet {at}" for at in range(len(outcome))]
    figures = {key: runs for key, runs in fleets.items() if key != "outcome"}
    found = rank_flips(
        names, outcome, figures,
        fewer_is_better=figures, units=dict.fromkeys(COUNTS, "errors"), rng=rng, draws=DRAWS,
    )  # fmt: skip
    assert isinstance(found, RankFlips)
    return {flip.figure for flip in found.flips}


def measure_share(
    rng: np.random.Generator,
    n: int,
    passing: Sequence[float],
    worse: Sequence[Worse],
    rho: float,
    figure: str = "",
) -> float:
    """Return the share of replications with a flip, or with one of `figure`."""
    found = (find_flips(rng, draw_fleets(rng, passing, worse, rho)) for _ in range(n))
    return sum((figure in one) if figure else bool(one) for one in found) / n


def nulls(rng: np.random.Generator, n: int) -> Iterator[Cell]:
    """Yield how often fleets flip that do not."""
    for rho in (0.0, 0.3):
        tasks = f"correlation {rho:g}"
        share = measure_share(rng, n, (0.5, 0.5), ({}, {}), rho)
        yield Cell("identical fleets", tasks, share)
        for apart in (0.15, 0.30):
            share = measure_share(rng, n, (0.35 + apart, 0.35), ({}, {}), rho)
            yield Cell("outcomes apart, paths equal", f"{apart:.2f} apart, {tasks}", share)
        lag = dict.fromkeys((*COUNTS, *SHARES), 0.43)
        share = measure_share(rng, n, (0.5, 0.5), (lag, {}), rho)
        yield Cell("paths apart, outcomes equal", tasks, share)
    share = measure_share(rng, n, (0.2, 0.4, 0.6, 0.8), ({},) * 4, 0.0)
    yield Cell("four fleets, paths equal", "outcomes .20 apart", share)


def powers(rng: np.random.Generator, n: int) -> Iterator[Cell]:
    """Yield how often the one flip that is there is found."""
    for rho, figure in itertools.product((0.0, 0.3), (COUNTS[0], SHARES[0])):
        share = measure_share(rng, n, (0.6, 0.4), ({figure: 0.43}, {}), rho, figure)
        yield Cell("one figure .43 SD worse", f"{figure[:5]}, correlation {rho:g}", share)


def main(replications: int = REPLICATIONS) -> int:
    """Run the bar; print its table."""
    print(f"rank flips, {replications:,} replications a point, seed 0\n")
    rng = np.random.default_rng(0)
    all_hold = True
    for grid, limit in ((nulls, MOST_FLIPS), (powers, LEAST_FOUND)):
        for cell in grid(rng, replications):
            holds = cell.share <= limit if grid is nulls else cell.share >= limit
            all_hold &= holds
            said = (
                f"{'<=' if grid is nulls else '>='} {limit:.2f}  {'holds' if holds else 'MISSED'}"
            )
            print(f"{cell.method:<30}{cell.point:<28}{cell.share:>8.4f}  {said}", flush=True)
    return 0 if all_hold else 3


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else REPLICATIONS))
