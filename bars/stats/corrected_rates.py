"""Do corrected rates hold the truth, and how wide are they beside the published contest?

`python -m bars.stats.corrected_rates [REPLICATIONS] [--peer PYTHON] [--only PART]`, 4,000 unless
given, seed 0. Estimand: the rate of failures of the process that all judged runs come from;
nominal 95 %. A rate that is refused is a miss; here none is.

- `lines`: 2,000 judged runs, six combinations of labels, rate and judge; PPI++ and Rogan-Gladen as
  truescore 0.7.4 has them beside ours (itself on 1,000 of the same samples with --peer, a Python
  that has truescore). Held in >= .93, mean width <= 1.06 times that of PPI++, <= 1.0 where the rate
  is .05 or .95 (its limits as it prints them; clipped to [0, 1] the last column).
- `few`: 1,000 judged, 50 labels, judge .85/.85, rates .1 .2 .3 .5: >= .93, median width <= .9 of
  Wilson's on the labels.
- `clusters`: 40, 20 and 10 runs of 5 labelled steps, of 400 x 5; run rates Beta, icc .4; errors of
  the judge independent or with icc .3. Held in >= .93, mean width <= 1.05 times that of a PPI++
  that is told the clusters (which holds the truth in fewer where runs are few).
- `uneven`: tasks of 6 to 1,000 runs, all judged, 100 labels anywhere in them, run rates Beta, icc
  .4, rate .3, judge .9/.9: >= .92.
- `grid`: 5 judges x 30, 50, 100, 300 labels x 9 rates: >= .925 everywhere, >= .94 in the mean.
- `drawn`: labels drawn with shares of an active queue; `scores`: corrected means, of runs and of
  steps in runs: >= .93 in the mean, >= .90 everywhere.
- `headline`: of those rates that are headlines at .05 and 50 or 100 labels: >= .93.
- `looks`: 31 looks, every 10 labels from 30 to 330, the truth at the threshold, the limits of look
  j at the level 1 - .05/(j(j+1)): a wrong decision in <= 5 %; at a rate 10 points off a decision in
  most. Fixed limits beside it.

Code 0: all hold; 3: one is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from bars.stats._coverage import chances
from bars.stats._peers import ask_truescore, ppi, rogan_gladen
from stepscope import stats
from stepscope.stats.intervals import wilson
from stepscope.stats.sample import Floats, Ints
from stepscope.values import Estimate, Unmeasured

REPLICATIONS, RUNS, ASKED = 4_000, 2_000, 1_000
# Standard errors of the simulation that are given away.
SLACK = 2.33
# Draws of one interval: a quarter of the product's, for there are a million of them.
DRAWS = 2_000


class Line(NamedTuple):
    """Labels, rate, and the judge's sensitivity and specificity."""

    labels: int
    rate: float
    sensitive: float
    specific: float

    def __str__(self) -> str:
        """Return it as the contest's table has it."""
        return f"{self.labels} labels, p {self.rate:g}, {self.sensitive:g}/{self.specific:g}"


LINES = (
    Line(30, 0.30, 0.9, 0.9),
    Line(30, 0.05, 0.9, 0.9),
    Line(50, 0.05, 0.8, 0.95),
    Line(50, 0.95, 0.97, 0.5),
    Line(100, 0.10, 0.85, 0.85),
    Line(200, 0.50, 0.9, 0.9),
)
JUDGES = ((0.9, 0.9), (0.8, 0.95), (0.97, 0.5), (0.85, 0.85), (0.6, 0.9))
RATES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)


def draw_runs(rng: np.random.Generator, line: Line, runs: int) -> tuple[Ints, Floats]:
    """Return verdicts of all runs and labels of the first of them."""
    fails = rng.random(runs) < line.rate
    flagged = rng.random(runs) < np.where(fails, line.sensitive, 1 - line.specific)
    return flagged.astype(np.int64), fails[: line.labels].astype(np.float64)


def draw_clusters(
    rng: np.random.Generator, line: Line, steps: int, runs: int, icc: float
) -> tuple[Ints, Floats]:
    """Return verdicts and labels as `draw_runs`, in runs of so many steps; `icc` of errors."""
    own = chances(rng, line.rate, 0.4, (runs, 1))
    fails = rng.random((runs, steps)) < own
    caught = chances(rng, line.sensitive, icc, (runs, 1))
    alarm = chances(rng, 1 - line.specific, icc, (runs, 1))
    flagged = rng.random((runs, steps)) < np.where(fails, caught, alarm)
    return flagged.ravel().astype(np.int64), fails.ravel()[: line.labels].astype(np.float64)


def limits(found: Estimate | Unmeasured) -> tuple[float, float]:
    """Return the limits of an estimate; NaN of one that is refused, which is a miss."""
    if isinstance(found, Unmeasured) or found.low is None or found.high is None:
        return np.nan, np.nan
    return found.low, found.high


def correct(
    judged: Ints, said: Floats, seed: int, *,
    clusters: Ints | None = None, level: float = 0.95, draws: int = DRAWS,
) -> tuple[float, float]:  # fmt: skip
    """Return our limits for labels of the first runs."""
    found = stats.corrected_rate(
        judged, np.arange(len(said)), said, clusters=clusters, level=level, draws=draws,
        rng=np.random.default_rng(seed),
    )  # fmt: skip
    return limits(found)


def held(found: Floats, truth: float) -> float:
    """Return the share of limits, shape (samples, 2), that hold the truth."""
    return float(((found[:, 0] <= truth) & (truth <= found[:, 1])).mean())


def width(found: Floats) -> float:
    """Return the mean width of limits."""
    return float((found[:, 1] - found[:, 0]).mean())


class Bar:
    """Checks as they are made, and how much the simulation's own error gives away."""

    def __init__(self, replications: int, peer: str | None) -> None:
        """Hold the size of the simulation and the Python that has truescore."""
        self.replications, self.peer = replications, peer
        self.checks: list[tuple[str, bool]] = []

    def covers(self, point: str, found: float, least: float) -> None:
        """Check a coverage."""
        give = SLACK * float(np.sqrt(least * (1 - least) / self.replications))
        self.checks.append((f"{point}: held {found:.3f}, >= {least}", found >= least - give))

    def narrow(self, point: str, found: float, most: float) -> None:
        """Check a ratio of widths."""
        self.checks.append((f"{point}: width {found:.3f}, <= {most}", found <= most))


def run_lines(bar: Bar) -> None:
    """Print and check the contest's six lines."""
    print(f"\n{'line':<32}{'ours':>6}{'width':>7}{'PPI++':>7}{'width':>7}{'RG':>6}{'refused':>8}"
          f"{'ratio':>7}{'clipped':>8}")  # fmt: skip
    for at, line in enumerate(LINES):
        rng = np.random.default_rng([0, at])
        ours, theirs, rg, asked = [], [], [], []
        labelled = np.arange(RUNS) < line.labels
        for one in range(bar.replications):
            judged, said = draw_runs(rng, line, RUNS)
            ours.append(correct(judged, said, one))
            theirs.append(ppi(judged.astype(np.float64), labelled, said))
            rg.append(rogan_gladen(judged.astype(np.float64), labelled, said) or (np.nan, np.nan))
            if one < ASKED:
                asked.append((judged, said))
        mine, other, glad = np.array(ours), np.array(theirs), np.array(rg)
        ratio = width(mine) / width(other)
        print(f"{line!s:<32}{held(mine, line.rate):>6.3f}{width(mine):>7.3f}"
              f"{held(other, line.rate):>7.3f}{width(other):>7.3f}{held(glad, line.rate):>6.3f}"
              f"{np.isnan(glad[:, 0]).mean():>8.0%}{ratio:>7.3f}"
              f"{width(mine) / width(np.clip(other, 0, 1)):>8.3f}")  # fmt: skip
        bar.covers(str(line), held(mine, line.rate), 0.93)
        bar.narrow(str(line), ratio, 1.0 if line.rate in (0.05, 0.95) else 1.06)
        if bar.peer is not None:
            judged, said = (np.array(side) for side in zip(*asked, strict=True))
            ask(bar, str(line), judged, said, None, mine, line.rate, other)


def ask(
    bar: Bar, point: str, judged: Ints, said: Floats, clusters: Ints | None, ours: Floats,
    rate: float, written: Floats,
) -> None:  # fmt: skip
    """Print what truescore itself gives on the first samples."""
    assert bar.peer is not None
    found = ask_truescore(bar.peer, judged.astype(np.float64), said, clusters)
    n = len(found)
    apart = float(np.abs(found - written[:n]).max())
    print(f"  truescore itself, {n:,} samples: held {held(found, rate):.3f}, width "
          f"{width(found):.3f}, ours {width(ours[:n]) / width(found):.3f} times; from ours as "
          f"written here {apart:.1e}")  # fmt: skip
    bar.checks.append((f"{point}: PPI++ is truescore's", apart < 1e-9))


def run_few(bar: Bar) -> None:
    """Print and check 50 labels with 1,000 verdicts."""
    print(f"\n{'50 labels, 1,000 verdicts':<32}{'ours':>6}{'width':>7}{'Wilson':>8}{'ratio':>7}")
    for at, rate in enumerate((0.1, 0.2, 0.3, 0.5)):
        line, rng = Line(50, rate, 0.85, 0.85), np.random.default_rng([1, at])
        ours, plain = [], []
        for one in range(bar.replications):
            judged, said = draw_runs(rng, line, 1_000)
            ours.append(correct(judged, said, one))
            plain.append([float(x) for x in wilson(said.mean(), len(said), 0.95)])
        mine, labels = np.array(ours), np.array(plain)
        middle = [float(np.median(np.diff(side))) for side in (mine, labels)]
        print(f"{line!s:<32}{held(mine, rate):>6.3f}{middle[0]:>7.3f}{middle[1]:>8.3f}"
              f"{middle[0] / middle[1]:>7.3f}")  # fmt: skip
        bar.covers(str(line), held(mine, rate), 0.93)
        bar.narrow(str(line), middle[0] / middle[1], 0.9)


def run_clusters(bar: Bar) -> None:
    """Print and check steps in runs."""
    print(f"\n{'clusters':<40}{'ours':>6}{'width':>7}{'PPI++':>7}{'width':>7}{'untold':>8}"
          f"{'ratio':>7}")  # fmt: skip
    clusters = np.repeat(np.arange(400), 5)
    designs = product((40, 20, 10), ((0.9, 0.9), (0.85, 0.9)), (0.3, 0.1), (0.0, 0.3))
    for at, (runs, judge, rate, icc) in enumerate(designs):
        line, rng = Line(runs * 5, rate, *judge), np.random.default_rng([2, at])
        labelled = np.arange(2_000) < line.labels
        ours, told, untold, asked = [], [], [], []
        for one in range(bar.replications):
            judged, said = draw_clusters(rng, line, 5, 400, icc)
            scored = judged.astype(np.float64)
            ours.append(correct(judged, said, one, clusters=clusters))
            told.append(ppi(scored, labelled, said, clusters))
            untold.append(ppi(scored, labelled, said))
            if one < ASKED and at < 8:
                asked.append((judged, said))
        mine, other = np.array(ours), np.array(told)
        point = f"{runs} runs x 5, p {rate:g}, {judge[0]}/{judge[1]}, icc {icc:g}"
        ratio, peer = width(mine) / width(other), held(other, rate)
        print(f"{point:<40}{held(mine, rate):>6.3f}{width(mine):>7.3f}{peer:>7.3f}"
              f"{width(other):>7.3f}{held(np.array(untold), rate):>8.3f}{ratio:>7.3f}")  # fmt: skip
        bar.covers(point, held(mine, rate), 0.93)
        bar.narrow(point, ratio, 1.05)
        if bar.peer is not None and asked:
            judged, said = (np.array(side) for side in zip(*asked, strict=True))
            ask(bar, point, judged, said, clusters, mine, rate, other)


def run_uneven(bar: Bar) -> None:
    """Print and check tasks of very different sizes, all of whose runs are judged."""
    print(f"\n{'tasks of uneven size':<40}{'ours':>6}{'width':>7}")
    designs = {
        "100 tasks x 20": np.full(100, 20),
        "100 tasks, 6 to 600 runs": 600 // np.arange(1, 101),
        "30 tasks, 13 to 400 runs": 400 // np.arange(1, 31),
        "one task of 1,000, 50 of 20": np.array([1_000, *[20] * 50]),
        "6 tasks x 200": np.full(6, 200),
    }
    for at, (name, sizes) in enumerate(designs.items()):
        tasks, rng = np.repeat(np.arange(len(sizes)), sizes), np.random.default_rng([8, at])
        ours = []
        for one in range(bar.replications):
            failed = rng.random(len(tasks)) < rng.beta(0.45, 1.05, len(sizes))[tasks]
            judged = (failed ^ (rng.random(len(tasks)) < 0.1)).astype(np.int64)
            places = rng.choice(len(tasks), 100, replace=False)
            found = stats.corrected_rate(
                judged, places, failed[places].astype(np.float64), clusters=tasks,
                rng=np.random.default_rng(one), draws=DRAWS,
            )  # fmt: skip
            assert isinstance(found, Estimate)
            ours.append((found.low, found.high))
        mine = np.array(ours)
        print(f"{name:<40}{held(mine, 0.3):>6.3f}{width(mine):>7.3f}")
        bar.covers(f"uneven: {name}", held(mine, 0.3), 0.92)


def run_grid(bar: Bar) -> None:
    """Print and check five judges, four sizes and nine rates."""
    found = []
    for at, (judge, n, rate) in enumerate(product(JUDGES, (30, 50, 100, 300), RATES)):
        line, rng = Line(n, rate, *judge), np.random.default_rng([3, at])
        rows = (correct(*draw_runs(rng, line, RUNS), one) for one in range(bar.replications))
        found.append((held(np.array(list(rows)), rate), line))
    print(f"\n{len(found)} points of judge x labels x rate; the lowest:")
    for share, line in sorted(found)[:5]:
        print(f"  {line!s:<32}{share:.4f}")
    mean = sum(share for share, _ in found) / len(found)
    bar.covers("grid, lowest", min(share for share, _ in found), 0.925)
    bar.checks.append((f"grid, mean {mean:.4f}, >= 0.94", mean >= 0.94))


def run_drawn(bar: Bar) -> None:
    """Print and check labels of an active queue under a corrected rate."""
    print("\nlabels drawn by doubt, 2,000 runs, 100 labels")
    rng = np.random.default_rng(4)
    for a, b in ((0.1, 0.9), (0.2, 0.47), (0.5, 0.5)):
        rows = []
        for one in range(bar.replications):
            m = rng.beta(a, b, RUNS)
            fails = (rng.random(RUNS) < m).astype(np.float64)
            shares = stats.draw_shares(m, 100, uniform=0.2)
            chosen = stats.draw(shares, 100, rng)
            ours = stats.corrected_rate(
                (m > 0.5).astype(np.int64), chosen, fails[chosen], shares=shares[chosen],
                rng=np.random.default_rng(one), draws=DRAWS,
            )  # fmt: skip
            rows.append(limits(ours))
        share = held(np.array(rows), a / (a + b))
        print(f"  Beta({a:g}, {b:g}): held {share:.3f}, width {width(np.array(rows)):.3f}")
        bar.covers(f"drawn by Beta({a:g}, {b:g})", share, 0.93)


def scores() -> Iterator[tuple[str, float, Callable[[np.random.Generator], tuple[Floats, Floats]]]]:
    """Yield judges of scores: a name, people's mean, and a draw of its scores and theirs."""

    def shifted(rng: np.random.Generator) -> tuple[Floats, Floats]:
        true = rng.beta(2, 2, RUNS)
        return np.clip(0.8 * true + 0.15 + rng.normal(0, 0.1, RUNS), 0, 1), true

    def rare(rng: np.random.Generator) -> tuple[Floats, Floats]:
        bad = rng.random(RUNS) < 0.1
        true = np.where(bad, rng.uniform(0, 0.5, RUNS), 1.0)
        flagged = np.where(rng.random(RUNS) < 0.85, bad, ~bad)
        return np.clip(np.where(flagged, 0.3, 0.95) + rng.normal(0, 0.02, RUNS), 0, 1), true

    def coarse(rng: np.random.Generator) -> tuple[Floats, Floats]:
        true = rng.integers(0, 5, RUNS) / 4
        read = 0.5 * true + 0.3 + rng.normal(0, 0.2, RUNS)
        return np.clip(np.rint(4 * read) / 4, 0, 1), true

    def blind(rng: np.random.Generator) -> tuple[Floats, Floats]:
        return rng.random(RUNS), rng.beta(0.5, 0.5, RUNS)

    yield "shifted and shrunk", 0.5, shifted
    yield "one in ten bad", 0.925, rare
    yield "five grades", 0.5, coarse
    yield "blind", 0.5, blind


def run_scores(bar: Bar) -> None:
    """Print and check corrected means of scores."""
    print(f"\n{'scores':<24}{'labels':>7}{'held':>7}{'width':>7}{'labels alone':>14}")
    found = []
    for at, (name, truth, make) in enumerate(scores()):
        for n in (30, 50, 100):
            rng, ours, alone = np.random.default_rng([5, at, n]), [], []
            for _ in range(bar.replications):
                judged, true = make(rng)
                ours.append(limits(stats.corrected_mean(judged, np.arange(n), true[:n])))
                alone.append(limits(stats.mean_share(true[:n])))
            mine = np.array(ours)
            found.append(held(mine, truth))
            print(f"{name:<24}{n:>7}{found[-1]:>7.3f}{width(mine):>7.3f}"
                  f"{width(np.array(alone)):>14.3f}")  # fmt: skip
    # Steps in runs, as a judge scores them: a run's steps, and its errors there, are alike.
    clusters, places = np.repeat(np.arange(400), 5), {"together": np.arange(2_000)}
    for at, (runs, how) in enumerate(product((40, 20, 10), ("together", "anywhere"))):
        rng, ours = np.random.default_rng([6, at]), []
        for _ in range(bar.replications):
            true = 0.6 * rng.beta(2, 2, 400)[clusters] + 0.4 * rng.beta(2, 2, RUNS)
            shift = rng.normal(0, 0.08, 400)[clusters] + rng.normal(0, 0.1, RUNS)
            judged = np.clip(0.8 * true + 0.15 + shift, 0, 1)
            chosen = places.get(how, rng.permutation(RUNS))[: runs * 5]
            one = stats.corrected_mean(judged, chosen, true[chosen], clusters=clusters)
            ours.append(limits(one))
        name = f"steps, {runs} runs x 5" if how == "together" else f"steps, {runs * 5} anywhere"
        found.append(held(np.array(ours), 0.5))
        print(f"{name:<24}{runs * 5:>7}{found[-1]:>7.3f}{width(np.array(ours)):>7.3f}")
    bar.covers("scores, lowest", min(found), 0.90)
    bar.checks.append((f"scores, mean {np.mean(found):.4f}, >= 0.93", bool(np.mean(found) >= 0.93)))


def run_headline(bar: Bar) -> None:
    """Print and check rates that are shown as headlines, given that they are."""
    print()
    for at, n in enumerate((50, 100)):
        line, rng = Line(n, 0.05, 0.8, 0.9), np.random.default_rng([6, at])
        rows = []
        for one in range(bar.replications):
            judged, said = draw_runs(rng, line, RUNS)
            if not stats.explain_weakness(judged, np.arange(n), ["pass", "fail"]):
                rows.append(correct(judged, said, one))
        share = held(np.array(rows), line.rate)
        print(f"{line!s:<32}headline in {len(rows) / bar.replications:.0%}, held {share:.3f}")
        bar.covers(f"headline of {line}", share, 0.93)


def decide(judged: Ints, said: Floats, threshold: float, level: float) -> int:
    """Return -1 where the rate is below the threshold, 1 above, 0 undecided."""
    low, high = correct(judged, said, 0, level=level)
    return int(low > threshold) - int(high < threshold)


def run_looks(bar: Bar) -> None:
    """Print and check decisions at 31 looks."""
    sizes, n = range(30, 331, 10), max(bar.replications // 4, 1)
    rng = np.random.default_rng(7)
    print(f"\n{len(sizes)} looks, {n:,} samples")
    for rate, threshold in ((0.3, 0.3), (0.1, 0.1), (0.3, 0.2)):
        line, fixed, spent = Line(330, rate, 0.9, 0.9), 0, 0
        for _ in range(n):
            judged, said = draw_runs(rng, line, RUNS)
            tried = [said[:size] for size in sizes]
            fixed += any(decide(judged, one, threshold, 0.95) for one in tried)
            spent += any(
                decide(judged, one, threshold, 1 - stats.look_alpha(look))
                for look, one in enumerate(tried, 1)
            )
        print(f"  p {rate:g}, threshold {threshold:g}: decided by fixed limits {fixed / n:.3f}, by "
              f"spending {spent / n:.3f}")  # fmt: skip
        if rate == threshold:
            give = SLACK * float(np.sqrt(0.05 * 0.95 / n))
            said_ = f"looks at p {rate:g}: wrong in {spent / n:.3f}, <= 0.05"
            bar.checks.append((said_, spent / n <= 0.05 + give))
        else:
            bar.checks.append(
                (f"looks 10 points off: decided in {spent / n:.3f}, >= 0.8", spent / n >= 0.8)
            )


PARTS = {
    "lines": run_lines, "few": run_few, "clusters": run_clusters, "uneven": run_uneven,
    "drawn": run_drawn, "scores": run_scores, "headline": run_headline, "looks": run_looks,
    "grid": run_grid,
}  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run the bar; print its tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("replications", nargs="?", type=int, default=REPLICATIONS)
    parser.add_argument("--peer", metavar="PYTHON")
    parser.add_argument("--only", choices=PARTS)
    given = parser.parse_args(arguments)
    bar = Bar(given.replications, given.peer)
    print(f"corrected rates, {given.replications:,} replications a line, seed 0")
    for name, part in PARTS.items():
        if given.only in (None, name):
            part(bar)
            sys.stdout.flush()
    print()
    for text, holds in bar.checks:
        print(f"{text}: {'holds' if holds else 'MISSED'}")
    return 0 if all(holds for _, holds in bar.checks) else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
