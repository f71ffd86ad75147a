"""How often does the effect of a score on what users do hold the planted one, and find none?

`python -m bars.calibrate.grounding [REPLICATIONS]`, 4,000 unless given, seed 0. Estimand: by how
much the chance of a signal changes with the quality of a run. Generator: 1,000 runs of 200 or of 50
users; a hard task lowers the quality and the chance, on a line or on a curve; users differ in both;
signals are 0 or 1. The judge's scores have a reliability of .8, and every third run is scored three
times; or the quality is known as good or bad. Planted: .7, or none. Bars: limits hold the planted
effect in at least .93, and find an effect in at most .07 where there is none; .7 is found in at
least .8. Beside them the naive estimate, and what ignoring the judge's errors does. Code 0: all
hold; 3: one is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import sqrt

import numpy as np

from stepscope import stats
from stepscope.stats.sample import Floats
from stepscope.values import Estimate

REPLICATIONS, RUNS = 4_000, 1_000
EFFECT, RELIABILITY, SCORINGS = 0.7, 0.8, 3
# Name, users, curved, good or bad, corrected for errors of the judge.
LINES = (
    ("line, 200 users", 200, False, False, True),
    ("curve, 200 users", 200, True, False, True),
    ("curve, 50 users", 50, True, False, True),
    ("good or bad, 200 users", 200, True, True, True),
    ("errors ignored", 200, True, False, False),
)


def draw_runs(
    rng: np.random.Generator, users: int, effect: float, *, curved: bool, binary: bool
) -> tuple[Floats, Floats, Floats, Floats, tuple[Floats, Floats]]:
    """Return signals, scores, confounders, users, and the repeats of the scores."""
    user = np.arange(RUNS) % users
    hard, skill = rng.uniform(-1, 1, RUNS), rng.uniform(-1, 1, users)[user]
    pull = np.sin(2.5 * hard) if curved else hard
    quality = 0.15 * -pull + 0.06 * skill + rng.uniform(-0.17, 0.17, RUNS)
    scores = quality + np.std(quality) * sqrt(1 / RELIABILITY - 1) * rng.normal(
        size=(SCORINGS, RUNS)
    )
    count = np.where(np.arange(RUNS) % 3 == 0, SCORINGS, 1)
    score = np.where(count > 1, scores.mean(0), scores[0])
    spread = np.where(count > 1, scores.var(0, ddof=1), np.nan)
    if binary:
        # A step of .25 in place of the slope keeps chances inside 0 to 1.
        score = (quality > 0).astype(float)
        quality = 0.25 * score
    mood = 0.06 * rng.uniform(-1, 1, users)[user]
    chance = 0.45 + effect * quality - 0.1 * pull + 0.04 * skill + mood
    signal = (rng.random(RUNS) < chance).astype(float)
    return signal, score, np.column_stack([hard, skill]), user.astype(float), (spread, count)


def main() -> int:
    """Run the bar; print its table."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else REPLICATIONS
    missed = sum(not holds for holds in rows(n))
    print("holds" if not missed else f"{missed} lines missed")
    return 3 if missed else 0


def rows(n: int) -> Iterator[bool]:
    """Print each line of the table; yield whether its bar holds."""
    print(f"{n:,} replications of each line, {RUNS:,} runs, seed 0")
    print(f"{'generator':<23} planted  covers   found    bias   naive bias   width")
    for name, users, curved, binary, corrected in LINES:
        for planted in (EFFECT, 0.0):
            rng, truth = np.random.default_rng(0), planted * (0.25 if binary else 1)
            held, found, values, naive, widths = 0, 0, [], [], []
            for _ in range(n):
                y, d, x, user, repeats = draw_runs(
                    rng, users, planted, curved=curved, binary=binary
                )
                one = stats.effect(
                    y, d, x, rng=rng, clusters=user, repeats=repeats if corrected else None
                )
                if not isinstance(one.estimate, Estimate):
                    continue  # a refusal is a miss
                low, high = one.estimate.low or 0.0, one.estimate.high or 0.0
                held, found = held + (low <= truth <= high), found + ((one.p or 0) <= 0.05)
                values.append(one.estimate.value)
                naive.append(float(np.polyfit(d, y, 1)[0]))
                widths.append(high - low)
            covers, told = held / n, found / n
            holds = covers >= 0.93 - 2.33 * sqrt(0.93 * 0.07 / n)
            if planted:
                holds &= told >= 0.8
            else:
                holds &= told <= 0.07 + 2.33 * sqrt(0.07 * 0.93 / n)
            holds |= not corrected
            print(
                f"{name:<23} {truth:>7.3f} {covers:>7.3f} {told:>7.3f} "
                f"{np.mean(values) - truth:>+7.3f} {np.mean(naive) - truth:>+12.3f} "
                f"{np.mean(widths):>7.3f}{'' if holds else '  MISSED'}"
            )
            yield holds


if __name__ == "__main__":
    sys.exit(main())
