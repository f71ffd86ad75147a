"""Gates against a baseline: what got worse on the cases that both have.

`regression` fails when labels permuted within cases give such a worsening too rarely (one-sided, p
adjusted over all gates) *and* it exceeds the margin; otherwise it passes and says what it could
have seen. `proof` must show that the worsening is below the margin. Lost runs count at their worst
where a gate would pass, at their best where it would fail; absent ones are bad. Source of the test:
`stepscope.stats.permutation` and `shuffling`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
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
    percent,
)
from stepscope.gates.chances import floor, staged
from stepscope.gates.policy import GatePolicy
from stepscope.gates.rates import no_verdicts
from stepscope.gates.sides import Side
from stepscope.stats.comparison import Comparison
from stepscope.stats.power import POWER
from stepscope.values import Estimate, Unmeasured


def ask(gate: GatePolicy, current: Side, baseline: Side, *, seed: int) -> Question | Answer:
    """Return the question of a gate on a drop in the share of good runs.

    Args:
        gate: about a drop.
        current: the runs under test.
        baseline: the runs declared beforehand.
        seed: where permutations that are drawn start.
    """
    now, before = _counted(current), _counted(baseline)
    if not now.n_measured:
        return no_verdicts(gate, current)
    measured = compare(now.measured(), before.measured(), seed=seed)
    if isinstance(measured, Unmeasured) or isinstance(measured.effect, Unmeasured):
        shared = set(now.cases.tolist()) & set(before.cases.tolist())
        return Answer(
            outcome="undecided",
            cause="too_few_cases" if shared else "no_shared_cases",
            reason=f"{counted(len(shared), 'case')} of the baseline measured in these runs: "
            "two or more are needed",
        )
    best = measured
    if now.n_lost or before.n_lost:
        found = compare(now.filled(bad=False), before.filled(bad=True), seed=seed)
        best = found if isinstance(found, Comparison) else measured
    drop = Drop(gate, now, before, measured, best.p, _value(best) > gate.bound + HAIR, seed)
    if gate.rule == "proof":
        p = p_above(
            lambda at: _effect(now.filled(bad=False), before.filled(bad=True), at, seed), gate.bound
        )
        return Shown(drop, p)
    return drop


@dataclass(frozen=True, slots=True)
class Drop:
    """A drop that must not be seen.

    Attributes:
        p: with lost runs at their best.
        beyond: whether the drop exceeds the margin, lost runs at their best.
        measured: over the runs that have answers.
    """

    gate: GatePolicy
    now: Side
    before: Side
    measured: Comparison
    p: float
    beyond: bool
    seed: int

    def answer(self, p_adjusted: float, spend: Spend) -> Answer:
        """Fail where the drop is no chance and above the margin; pass where it could be seen."""
        effect, gate = self.measured.effect, self.gate
        said = said_drop(gate, self.measured)
        if p_adjusted <= spend.alpha and self.beyond:
            return Answer(outcome="fail", reason=f"{said}, p {p_adjusted:.2g}", estimate=effect)
        if floor(self.now.measured(), self.before.measured(), 1.0) > spend.alone:
            return Answer(
                outcome="undecided",
                cause="too_few_cases",
                reason=f"{said}; even if every run were bad, these cases could not show it",
                estimate=effect,
            )
        doubt = self._doubt(said, spend)
        if doubt is not None:
            return doubt
        seen = _detectable(self.measured, gate.bound, spend)
        most = 1 - float(self.before.measured().bad.mean())
        could = f"a drop of {percent(seen)}"
        if seen > most:
            could = f"not even a drop from {percent(most)} to 0 %"
        reason = f"{said}; {could} would be seen in 80 % of repetitions"
        return Answer(
            outcome="pass",
            reason=reason,
            estimate=effect,
            detectable=seen if seen <= most else None,
        )

    def _doubt(self, said: str, spend: Spend) -> Answer | None:
        """Return the answer where lost runs at their worst would fail."""
        if not (self.now.n_lost or self.before.n_lost):
            return None
        worst = compare(self.now.filled(bad=True), self.before.filled(bad=False), seed=self.seed)
        if not isinstance(worst, Comparison) or worst.p > spend.alpha:
            return None
        if _value(worst) <= self.gate.bound + HAIR:
            return None
        lost = lost_said({**self.now.unmeasured}) or "unmeasured runs of the baseline"
        return Answer(
            outcome="undecided",
            cause="not_measured",
            reason=f"{said}; were {lost} bad, it would fail",
            estimate=self.measured.effect,
        )


@dataclass(frozen=True, slots=True)
class Shown:
    """A drop that must be shown to be below the margin."""

    drop: Drop
    p: float

    def answer(self, p_adjusted: float, spend: Spend) -> Answer:
        """Pass or fail where a limit lies clear of the margin."""
        drop, bound = self.drop, self.drop.gate.bound
        said, effect = said_drop(drop.gate, drop.measured), drop.measured.effect
        if p_adjusted <= spend.alpha:
            return Answer(outcome="fail", reason=said, estimate=effect)
        worst, before = drop.now.filled(bad=True), drop.before.filled(bad=False)
        if below(lambda at: _effect(worst, before, at, drop.seed), bound, spend.alpha_pass):
            return Answer(outcome="pass", reason=said, estimate=effect)
        plain = drop.now.measured(), drop.before.measured()
        if below(lambda at: _effect(*plain, at, drop.seed), bound, spend.alpha_pass):
            return Answer(
                outcome="undecided",
                cause="not_measured",
                reason=f"{said}; were all that is missing bad, it would not pass",
                estimate=effect,
            )
        needed = _cases_needed(drop, spend)
        runs = needed and needed * max(1, round(len(drop.now.at) / drop.measured.n))
        more = f"about {counted(needed, 'case')} would decide" if needed else "it is the margin"
        return Answer(
            outcome="undecided",
            cause="interval",
            reason=f"{said}; {more}",
            estimate=effect,
            runs_needed=runs,
        )


def compare(now: Side, before: Side, *, seed: int) -> Comparison | Unmeasured:
    """Compare bad runs now with those of the baseline; the effect is how much more there are."""
    return staged(lambda draws: _compare(now, before, SHOWN, seed, draws))


def _compare(
    now: Side, before: Side, level: float, seed: int, draws: int
) -> Comparison | Unmeasured:
    return stats.compare_paired(
        before.bad,
        before.cases,
        now.bad,
        now.cases,
        rng=np.random.default_rng([seed, draws]),
        level=level,
        unmeasured=_losses(now, before),
        draws=draws,
        tail="upper",
    )


def said_drop(gate: GatePolicy, found: Comparison) -> str:
    """Return the drop with its interval, cases and margin in words."""
    effect = found.effect
    if isinstance(effect, Unmeasured):
        return effect.reason
    word = "drop" if effect.value >= 0 else "rise"
    return (
        f"{word} of {percent(abs(effect.value))} of runs on {counted(found.n, 'case')}, "
        f"{interval(effect, 100)}, margin {percent(gate.bound)}"
    )


def _counted(side: Side) -> Side:
    """Leave out runs of no units: no errors, nothing to recover from."""
    return side.take(side.size > 0)


def _losses(now: Side, before: Side) -> Mapping[str, int]:
    kinds = {**now.unmeasured, **before.unmeasured}
    return {k: now.unmeasured.get(k, 0) + before.unmeasured.get(k, 0) for k in kinds}


def _value(found: Comparison) -> float:
    return found.effect.value if isinstance(found.effect, Estimate) else 0.0


def _effect(now: Side, before: Side, level: float, seed: int) -> Estimate | Unmeasured:
    found = _compare(now, before, level, seed, 1)
    return found if isinstance(found, Unmeasured) else found.effect


def _detectable(found: Comparison, margin: float, spend: Spend) -> float:
    """Return the true drop that is no chance, and above the margin, in 80 % of repetitions."""
    error = (found.sd or 0.0) / sqrt(found.n)
    z, power = NormalDist().inv_cdf(1 - spend.alone), NormalDist().inv_cdf(POWER)
    return max((z + power) * error, margin + power * error)


def _cases_needed(drop: Drop, spend: Spend) -> int | None:
    away = abs(_value(drop.measured) - drop.gate.bound)
    alpha = spend.alpha_pass if _value(drop.measured) < drop.gate.bound else spend.alone
    if away <= HAIR or not drop.measured.sd:
        return None
    needed = stats.runs_needed(away, drop.measured.sd, level=1 - 2 * alpha)
    return max(needed, drop.measured.n + 1)
