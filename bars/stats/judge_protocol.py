"""Does the default protocol let good judges pass and weak ones not, and what are five labels worth?

`python -m bars.stats.judge_protocol [REPLICATIONS]`, 4,000 unless given, seed 0. 100 labels of
independent runs; people's scores are uniform or U-shaped (Beta(.5, .5)), the judge's have the
stated correlation with them and the same mean and spread (rounded to twentieths); verdicts are of a
judge that is right in a stated share of runs, a third of which fail. Bars: r = .9 passes in >= 80
%, r = .5 in <= 5 %; a judge of r = .9 that is .1 too kind passes in <= 5 %; five labels with r = .8
print -.28 to .99. Beside it: how often "r >= .80 on five examples" passes a judge of r = .5 and
fails one of .9. Code 0: all hold; 3: one is missed.
"""

from __future__ import annotations

import sys

import numpy as np

from stepscope import stats
from stepscope.calibrate.judges import decide_protocol
from stepscope.stats.sample import Floats
from stepscope.values import Estimate

REPLICATIONS, LABELS, SLACK = 4_000, 100, 2.33


def scores(rng: np.random.Generator, shape: float, r: float, n: int) -> tuple[Floats, Floats]:
    """Return scores of a judge and of people, Beta(shape, shape), correlated by about r."""
    people = rng.beta(shape, shape, n)
    # What is not people's is somebody else's of the same kind: mean and spread stay.
    own = np.where(rng.random(n) < r, people, rng.beta(shape, shape, n))
    return np.rint(20 * own) / 20, np.rint(20 * people) / 20


def blurred(rng: np.random.Generator, r: float, n: int) -> tuple[Floats, Floats]:
    """Return scores that differ a little everywhere: normal about .5, sd .2, clipped."""
    people = rng.normal(0, 1, n)
    judge = r * people + np.sqrt(1 - r * r) * rng.normal(0, 1, n)
    return np.clip(0.5 + 0.2 * judge, 0, 1), np.clip(0.5 + 0.2 * people, 0, 1)


def verdicts(rng: np.random.Generator, right: float, n: int) -> tuple[Floats, Floats]:
    """Return verdicts, 1 against the agent, of a judge right in such a share; a third fail."""
    people = rng.random(n) < 1 / 3
    judge = np.where(rng.random(n) < right, people, ~people)
    return judge.astype(np.float64), people.astype(np.float64)


def passes(judge: Floats, people: Floats, *, scored: bool = True) -> str:
    """Return what the protocol decides."""
    return decide_protocol(judge, people, np.arange(len(judge)), "runs", scored=scored)[0].outcome


def main(replications: int = REPLICATIONS) -> int:
    """Run the bar; print its table."""
    rng, checks = np.random.default_rng(0), []
    print(f"{LABELS} labels, {replications:,} judges a line, seed 0\n")
    print(f"{'judge':<44}{'pass':>7}{'fail':>7}{'undecided':>11}")
    lines = [
        (f"{name}, r {r:g}{' and .1 too kind' if kind else ''}", make, r, kind)
        for name, make in (
            ("normal", blurred),
            ("uniform, some wild", lambda g, r, n: scores(g, 1.0, r, n)),
            ("U-shaped, some wild", lambda g, r, n: scores(g, 0.5, r, n)),
        )
        for r, kind in ((0.9, False), (0.5, False), (0.9, True))
    ]
    for name, make, r, kind in lines:
        found = []
        for _ in range(replications):
            judge, people = make(rng, r, LABELS)
            found.append(passes(np.clip(judge + 0.1, 0, 1) if kind else judge, people))
        shares = [found.count(one) / replications for one in ("pass", "fail", "undecided")]
        print(f"{name:<44}{shares[0]:>7.3f}{shares[1]:>7.3f}{shares[2]:>11.3f}")
        limit = 0.8 if r == 0.9 and not kind else 0.05
        give = SLACK * float(np.sqrt(limit * (1 - limit) / replications))
        good = shares[0] >= limit - give if limit == 0.8 else shares[0] <= limit + give
        checks.append(
            (f"{name}: passes in {shares[0]:.3f}, {'>=' if limit > 0.5 else '<='} {limit}", good)
        )
    for right in (0.99, 0.95, 0.85, 0.75):
        found = [passes(*verdicts(rng, right, LABELS), scored=False) for _ in range(replications)]
        shares = [found.count(one) / replications for one in ("pass", "fail", "undecided")]
        name = f"verdicts, {right:.0%} right"
        print(f"{name:<44}{shares[0]:>7.3f}{shares[1]:>7.3f}{shares[2]:>11.3f}")
        if right == 0.75:  # a kappa of .45
            checks.append((f"{name}: passes in {shares[0]:.3f}, <= 0.05", shares[0] <= 0.05))
    for r in (0.5, 0.9):
        five = [np.corrcoef(*blurred(rng, r, 5))[0, 1] >= 0.8 for _ in range(replications)]
        print(f"r >= .80 on five examples passes a judge of r {r:g} in {np.mean(five):.3f}")
    found_ = stats.pearson([1, 2, 3, 4, 5], [2, 1, 4, 3, 5])
    assert isinstance(found_, Estimate)
    assert found_.low is not None
    assert found_.high is not None
    said = f"five labels with r = {found_.value:.1f}: {found_.low:.2f} to {found_.high:.2f}"
    checks.append((said, said.endswith("0.8: -0.28 to 0.99")))
    print()
    for text, holds in checks:
        print(f"{text}: {'holds' if holds else 'MISSED'}")
    return 0 if all(holds for _, holds in checks) else 3


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else REPLICATIONS))
