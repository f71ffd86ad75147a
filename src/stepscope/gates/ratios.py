"""Gates on how many times the baseline's median the median has become: steps, tokens, seconds.

The test permutes labels within cases as for drops, on the ranks of all values: one run of 900 steps
is one long run, not forty. Lost runs are the longest where a gate would pass, the shortest where it
would fail; absent runs are the longest always; medians bear all. The interval resamples cases
(`stepscope.stats.medians`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import exp, inf, log
from statistics import NormalDist

import numpy as np

from stepscope import stats
from stepscope.gates.answers import (
    HAIR,
    SHOWN,
    Answer,
    Question,
    Spend,
    below,
    counted,
    interval,
    lost_said,
    p_above,
)
from stepscope.gates.chances import floor, staged
from stepscope.gates.policy import GatePolicy
from stepscope.gates.rates import no_verdicts
from stepscope.gates.sides import Flags, Floats, Side
from stepscope.gates.types import Cause
from stepscope.stats.comparison import Comparison
from stepscope.stats.power import POWER
from stepscope.values import Estimate, Unmeasured

# Stands for the length of an absent run where a length must be finite: more than steps, tokens,
# dollars or seconds ever come to.
LONGEST = 1e18


def ask(gate: GatePolicy, current: Side, baseline: Side, *, seed: int) -> Question | Answer:
    """Return the question of a gate on the ratio of two medians.

    Args:
        gate: about a ratio.
        current: the runs under test.
        baseline: the runs declared beforehand.
        seed: where permutations and resamples that are drawn start.
    """
    if not current.n_measured:
        return no_verdicts(gate, current)
    now, before = current.measured(), baseline.measured()
    absent = _incomparable(gate, now, before)
    if absent is not None:
        return absent
    best = filled(current, 0.0), filled(baseline, inf)
    ratio = Ratio(
        gate=gate,
        now=current,
        before=baseline,
        p=rank_p(*best, seed=seed),
        beyond=plain(*best) > gate.bound + HAIR,
        seed=seed,
    )
    if gate.rule == "proof":
        return Shown(ratio, p_above(partial(estimate, now, before, seed), gate.bound))
    return ratio


def _incomparable(gate: GatePolicy, now: Side, before: Side) -> Answer | None:
    """Return why two groups have no ratio of medians; None where they have one."""
    shared = set(now.cases.tolist()) & set(before.cases.tolist())
    if not shared:
        reason = "no case of the baseline was measured in these runs"
        return Answer(outcome="undecided", cause="no_shared_cases", reason=reason)
    if float(np.median(before.top[_within(before, shared)])) == 0:
        reason = f"the baseline's median of {gate.quantity.measure} is 0: there is no ratio to it"
        return Answer(outcome="undecided", cause="not_measured", reason=reason)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A lengthening that must not be seen; fields as those of `drops.Drop`."""

    gate: GatePolicy
    now: Side
    before: Side
    p: float
    beyond: bool
    seed: int

    def measured(self) -> Estimate | Unmeasured:
        """Return the ratio over the runs that have lengths."""
        now = self.now.take(np.isfinite(self.now.top))
        return estimate(now, self.before.measured(), self.seed, SHOWN)

    def answer(self, p_adjusted: float, spend: Spend) -> Answer:
        """Fail where the lengthening is no chance and above the margin."""
        shown = self.measured()
        said = said_ratio(self.gate, shown)
        if p_adjusted <= spend.alpha and self.beyond:
            return Answer(outcome="fail", reason=f"{said}, p {p_adjusted:.2g}", estimate=shown)
        if floor(self.now.measured(), self.before.measured(), inf) > spend.alone:
            return Answer(
                outcome="undecided",
                cause="too_few_cases",
                reason=f"{said}; however long the runs, these cases could not show it",
                estimate=shown,
            )
        doubt = self._doubt(spend)
        if doubt is not None:
            cause, reason = doubt
            return Answer(
                outcome="undecided", cause=cause, reason=f"{said}; {reason}", estimate=shown
            )
        seen = _detectable(shown, self.gate.bound, spend)
        could = f"; {seen:.2f} times would be seen in 80 % of repetitions" if seen else ""
        return Answer(outcome="pass", reason=said + could, estimate=shown, detectable=seen)

    def _doubt(self, spend: Spend) -> tuple[Cause, str] | None:
        """Return why lost runs, the longest of all, would make it fail."""
        if not (self.now.n_lost or self.before.n_lost):
            return None
        worst = filled(self.now, inf), filled(self.before, 0.0)
        if plain(*worst) <= self.gate.bound + HAIR or rank_p(*worst, seed=self.seed) > spend.alpha:
            return None
        lost = lost_said({**self.now.unmeasured}) or "unmeasured runs of the baseline"
        return "not_measured", f"were {lost} long, it would fail"


@dataclass(frozen=True, slots=True)
class Shown:
    """A lengthening that must be shown to be below the margin."""

    ratio: Ratio
    p: float

    def answer(self, p_adjusted: float, spend: Spend) -> Answer:
        """Pass or fail where a limit lies clear of the margin."""
        ratio, bound = self.ratio, self.ratio.gate.bound
        shown = ratio.measured()
        said = said_ratio(ratio.gate, shown)
        if p_adjusted <= spend.alpha:
            return Answer(outcome="fail", reason=said, estimate=shown)
        limits = partial(estimate, ratio.now.measured(), ratio.before.measured(), ratio.seed)
        clear = below(limits, bound, spend.alpha_pass)
        if clear and not (ratio.now.n_lost or ratio.before.n_lost):
            return Answer(outcome="pass", reason=said, estimate=shown)
        reason, cause = self._open(said, shown, clear)
        return Answer(outcome="undecided", cause=cause, reason=reason, estimate=shown)

    def _open(self, said: str, shown: Estimate | Unmeasured, clear: bool) -> tuple[str, Cause]:
        """Return why it is neither shown nor refuted."""
        if isinstance(shown, Unmeasured) or shown.high is None:
            return f"{said}; a limit needs 20 cases that both have", "too_few_cases"
        if clear:
            lost = lost_said({**self.ratio.now.unmeasured}) or "unmeasured runs of the baseline"
            return f"{said}; but {lost} could be long", "not_measured"
        return f"{said}; the limits hold the margin", "interval"


def estimate(now: Side, before: Side, seed: int, level: float) -> Estimate | Unmeasured:
    """Return the median now over the median of the baseline, on the cases that both have."""
    lost = {k: now.unmeasured.get(k, 0) + before.unmeasured.get(k, 0) for k in now.unmeasured}
    return stats.median_ratio(
        before.top,
        before.cases,
        np.where(np.isinf(now.top), LONGEST, now.top),
        now.cases,
        rng=np.random.default_rng(seed),
        level=level,
        unmeasured=lost,
    )


def rank_p(now: Side, before: Side, *, seed: int) -> float:
    """Return the one-sided p of longer runs now, labels permuted within cases, on ranks."""
    ranks = _ranks(np.concatenate([before.top, now.top]))
    found = staged(
        lambda draws: stats.compare_paired(
            ranks[: len(before.at)],
            before.cases,
            ranks[len(before.at) :],
            now.cases,
            rng=np.random.default_rng([seed, draws]),
            unit="ranks",
            draws=draws,
            tail="upper",
        )
    )
    return found.p if isinstance(found, Comparison) else 1.0


def plain(now: Side, before: Side) -> float:
    """Return the ratio of medians on shared cases; infinities stand for lost runs."""
    shared = set(now.cases.tolist()) & set(before.cases.tolist())
    sides = [side.top[_within(side, shared)] for side in (now, before)]
    if not len(sides[0]) or not len(sides[1]):
        return 1.0
    # Two middle values of which one is infinite have an infinite mean.
    after, first = (float(np.median(side)) for side in sides)
    if first == inf:
        return 0.0
    return after / first if first > 0 else (inf if after > 0 else 1.0)


def filled(side: Side, value: float) -> Side:
    """Return all runs, the lost ones as long as `value`."""
    return Side(
        at=side.at,
        cases=side.cases,
        top=np.where(side.lost, value, side.top),
        size=side.size,
        lost=np.zeros_like(side.lost),
        unmeasured=side.unmeasured,
    )


def said_ratio(gate: GatePolicy, found: Estimate | Unmeasured) -> str:
    """Return the ratio with its interval, cases and margin in words."""
    if isinstance(found, Unmeasured):
        return found.reason
    bounded = found.low is not None or found.high is not None
    limits = f" {interval(found)}" if bounded else " (too few cases for an interval)"
    return (
        f"median {gate.quantity.unit or gate.quantity.measure} {found.value:.2f} times the "
        f"baseline's{limits} on {counted(found.n, 'case')}, margin {gate.bound:g}"
    )


def _within(side: Side, cases: set[object]) -> Flags:
    return np.array([case in cases for case in side.cases.tolist()], dtype=np.bool_)


def _ranks(values: Floats) -> Floats:
    """Mid-ranks, 0 for the smallest: equal values share theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts + 1) / 2)[inverse], dtype=np.float64)


def _detectable(found: Estimate | Unmeasured, margin: float, spend: Spend) -> float | None:
    """Return the true ratio that is no chance, and above the margin, in 80 % of repetitions.

    On the log scale, with the error that the interval shows; None where there is none.
    """
    if isinstance(found, Unmeasured) or not found.low or not found.high or margin <= 0:
        return None
    if found.low == found.high:
        return None
    normal = NormalDist()
    error = log(found.high / found.low) / (2 * normal.inv_cdf((1 + found.level) / 2))
    z, power = normal.inv_cdf(1 - spend.alone), normal.inv_cdf(POWER)
    return exp(max((z + power) * error, log(margin) + power * error))
