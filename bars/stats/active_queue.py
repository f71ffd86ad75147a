"""Do labels drawn by a judge's doubt give a rate that holds the truth, and a narrower one?

`python -m bars.stats.active_queue [REPLICATIONS]`, 4,000 unless given, seed 0. Estimand: the rate
of failures of the process that 2,000 judged runs come from; 60 labels, draw 20 % uniform and 80 %
sqrt(m(1-m)). Generators of the judge's probability m: Beta(.1, .9); Beta(.2, .47); 80 % easy (.01
or .99, three in ten of these) and 20 % hard (uniform .3 to .7); a binary judge of sensitivity and
specificity .9 at a rate of .3; and the first two with log odds doubled, and with log odds 2 further
from 0, where half of the draw is uniform, or where p is recalibrated on 20 labels first. Beside it
PPI++ with tuned lambda (Angelopoulos, Duchi and Zrnic 2023) on 60 uniform labels, widened to Wilson
below 5 labels of a class. Bars: graded judges covered in .93 to .97 at a mean width of at most .84
of that of PPI++; the binary judge is told that it saves less than 10 %; over-confident judges
covered in .91 or more. Code 0: all hold; 3: one is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import numpy as np

from bars.stats._peers import ppi
from stepscope import stats
from stepscope.stats.sample import Bools, Floats
from stepscope.stats.sampling import UNIFORM, UNIFORM_UNCALIBRATED
from stepscope.values import Estimate

REPLICATIONS, RUNS, LABELS, PILOT = 4_000, 2_000, 60, 20
LEAST, MOST, LEAST_SURE, WIDEST, NOT_WORTH = 0.93, 0.97, 0.91, 0.84, 0.10
# Standard errors of the simulation that are given away.
SLACK = 2.33
Population = Callable[[np.random.Generator], tuple[Floats, Bools]]


def graded(rng: np.random.Generator, a: float, b: float) -> tuple[Floats, Bools]:
    """Return probabilities of a calibrated judge, Beta(a, b), and which runs fail."""
    m = rng.beta(a, b, RUNS)
    return m, rng.random(RUNS) < m


def easy_and_hard(rng: np.random.Generator) -> tuple[Floats, Bools]:
    """Return four easy runs for each hard one, and which fail."""
    easy = np.where(rng.random(RUNS) < 0.7, 0.01, 0.99)
    m = np.where(rng.random(RUNS) < 0.8, easy, rng.uniform(0.3, 0.7, RUNS))
    return m, rng.random(RUNS) < m


def binary(rng: np.random.Generator) -> tuple[Floats, Bools]:
    """Return the two probabilities of a binary judge, each right, and which runs fail."""
    fails = rng.random(RUNS) < 0.3
    flagged = np.where(rng.random(RUNS) < 0.9, fails, ~fails)
    return np.where(flagged, 0.27 / 0.34, 0.03 / 0.66), fails


def too_sure(rng: np.random.Generator, of: Population, *, shift: bool) -> tuple[Floats, Bools]:
    """Return the population with log odds doubled, or 2 further from 0."""
    m, fails = of(rng)
    with np.errstate(divide="ignore"):
        odds = np.clip(np.log(m) - np.log1p(-m), -30, 30)
    return 1 / (1 + np.exp(-(odds + 2 * np.sign(odds) if shift else 2 * odds))), fails


def from_queue(rng: np.random.Generator, m: Floats, fails: Bools, uniform: float) -> Estimate:
    """Return the rate from one queue."""
    shares = stats.draw_shares(m, LABELS, uniform=uniform)
    chosen = stats.draw(shares, LABELS, rng)
    found = stats.drawn_rate(m, chosen, fails[chosen], shares[chosen])
    assert isinstance(found, Estimate)
    return found


def from_pilot(rng: np.random.Generator, m: Floats, fails: Bools) -> Estimate:
    """Return the rate from a pilot that recalibrates the judge, and a queue behind it."""
    shares = stats.draw_shares(m, PILOT, uniform=UNIFORM_UNCALIBRATED)
    first = stats.draw(shares, PILOT, rng)
    better = stats.recalibrate(m, first, fails[first], shares[first])
    later = stats.draw_shares(better, LABELS - PILOT, uniform=UNIFORM)
    second = stats.draw(later, LABELS - PILOT, rng)
    chosen = np.concatenate([first, second])
    both = np.concatenate([shares[first], later[second]])
    found = stats.drawn_rate(better, chosen, fails[chosen], both)
    assert isinstance(found, Estimate)
    return found


CALIBRATED: tuple[tuple[str, float, Population], ...] = (
    ("Beta(.1, .9)", 0.1, partial(graded, a=0.1, b=0.9)),
    ("Beta(.2, .47)", 0.2 / 0.67, partial(graded, a=0.2, b=0.47)),
    ("80 % easy, 20 % hard", 0.8 * (0.7 * 0.01 + 0.3 * 0.99) + 0.2 * 0.5, easy_and_hard),
    ("binary .9/.9", 0.3, binary),
)


def main(replications: int = REPLICATIONS) -> int:
    """Run the bar; print its table."""
    rng = np.random.default_rng(0)
    print(f"{LABELS} labels of {RUNS:,} runs, {replications:,} replications a line, seed 0\n")
    print(f"{'judge':<46}{'held':>7}{'width':>8}{'PPI++':>8}{'width':>8}{'ratio':>7}{'saved':>8}")
    checks: list[tuple[str, bool]] = []
    lines: list[tuple[str, float, Population, str]] = [
        (name, truth, of, "draw") for name, truth, of in CALIBRATED
    ]
    for name, truth, of in CALIBRATED[:2]:
        for shift, said in ((False, "log odds doubled"), (True, "2 in log odds")):
            sure = partial(too_sure, of=of, shift=shift)
            lines += [(f"{name}, {said}", truth, sure, way) for way in ("half", "pilot")]
    for name, truth, of, way in lines:
        rows = []
        for _ in range(replications):
            m, fails = of(rng)
            saved = stats.saved_width(m, stats.draw_shares(m, LABELS, uniform=UNIFORM))
            if way == "pilot":
                ours = from_pilot(rng, m, fails)
            else:
                ours = from_queue(rng, m, fails, UNIFORM if way == "draw" else UNIFORM_UNCALIBRATED)
            labelled = np.zeros(RUNS, np.bool_)
            labelled[rng.choice(RUNS, LABELS, replace=False)] = True
            low, high = ppi(m, labelled, fails[labelled].astype(np.float64))
            a, b = ours.low or 0.0, 1.0 if ours.high is None else ours.high
            rows.append((a <= truth <= b, b - a, low <= truth <= high, high - low, saved))
        held, width, theirs, their_width, saved = np.mean(rows, axis=0)
        ratio, point = width / their_width, f"{name}, {way}"
        print(
            f"{point:<46}{held:>7.3f}{width:>8.4f}{theirs:>8.3f}{their_width:>8.4f}{ratio:>7.3f}"
            f"{saved:>8.0%}"
        )
        give = SLACK * float(np.sqrt(LEAST * (1 - LEAST) / replications))
        if way != "draw":
            checks.append((f"{point}: held {held:.3f}, >= {LEAST_SURE}", held >= LEAST_SURE - give))
        elif name.startswith("binary"):
            checks.append((f"{point}: saves {saved:.0%}, below {NOT_WORTH:.0%}", saved < NOT_WORTH))
        else:
            inside = LEAST - give <= held <= MOST + give
            checks.append((f"{point}: held {held:.3f}, {LEAST} to {MOST}", inside))
            checks.append((f"{point}: width {ratio:.3f}, <= {WIDEST}", ratio <= WIDEST))
    print()
    for text, holds in checks:
        print(f"{text}: {'holds' if holds else 'MISSED'}")
    return 0 if all(holds for _, holds in checks) else 3


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else REPLICATIONS))
