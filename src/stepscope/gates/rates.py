"""Gates on a rate of bad runs: none may be seen (`count`), or it must be shown small (`proof`).

A proof passes when its one-sided upper limit lies below the threshold with every lost run bad, and
fails when its lower limit lies above with every lost run good, p adjusted over all gates; between
the two it is undecided, and says how many runs would decide. Trials of one case are a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, comb

import msgspec
import numpy as np

from stepscope import stats
from stepscope.gates.answers import (
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
from stepscope.gates.policy import RULES, GatePolicy
from stepscope.gates.sides import Side
from stepscope.stats.clusters import by_cluster
from stepscope.stats.intervals import effective_size
from stepscope.values import Estimate, Unmeasured


def ask(gate: GatePolicy, side: Side, false_alarms: float | None) -> Question | Answer:
    """Return the answer of a count gate on rules, or the question that waits for the others' p.

    Args:
        gate: about a rate.
        side: the runs that it speaks of.
        false_alarms: how often its judge calls a good run bad, as measured; None for rules, and
            where nobody measured it.
    """
    if not side.n_measured:
        return no_verdicts(gate, side)
    if gate.rule == "proof":
        found = estimate(side.measured(), SHOWN)
        if isinstance(found, Unmeasured):
            reason = f"{found.reason}: no limit can be given"
            return Answer(outcome="undecided", cause="too_few_cases", reason=reason, estimate=found)
        return Proof(
            gate, side, p_above(lambda at: estimate(side.filled(bad=False), at), gate.bound)
        )
    seen = int((side.measured().top > 0).sum())
    if gate.source == RULES:
        return _count(gate, side, seen, Spend(alpha=1.0, alpha_pass=1.0, tests=1), 0.0)
    if false_alarms is None:
        return Answer(
            outcome="undecided",
            cause="judge_not_calibrated",
            reason=f"how often {gate.source} calls a good run bad was never measured: {seen} of "
            f"{counted(side.n_measured, 'run')} called bad mean nothing yet",
            estimate=_shown(gate, side, breaches=True),
        )
    return Judged(gate, side, seen, tail(seen, side.n_measured, false_alarms))


def no_verdicts(gate: GatePolicy, side: Side) -> Answer:
    """Return the answer where no run has one."""
    said = ", ".join(f"{n:,} {kind}" for kind, n in side.unmeasured.items())
    score = "; run stepscope score" if "not_scored" in side.unmeasured else ""
    return Answer(
        outcome="undecided",
        cause="no_verdicts",
        reason=f"no run has an answer of {gate.quantity.measure}: {said}{score}",
        estimate=Unmeasured("insufficient_data", f"no runs measured: {said}"),
    )


@dataclass(frozen=True, slots=True)
class Judged:
    """A count gate on a judge: more runs called bad than its false alarms explain."""

    gate: GatePolicy
    side: Side
    seen: int
    p: float

    def answer(self, p_adjusted: float, spend: Spend) -> Answer:
        """Fail where the count is above what false alarms give."""
        return _count(self.gate, self.side, self.seen, spend, p_adjusted)


@dataclass(frozen=True, slots=True)
class Proof:
    """A rate that must be shown to be small."""

    gate: GatePolicy
    side: Side
    p: float

    def answer(self, p_adjusted: float, spend: Spend) -> Answer:
        """Pass or fail where a limit lies clear of the threshold; else say what is missing."""
        gate, side = self.gate, self.side
        shown = _shown(gate, side)
        said = _said(gate, shown)
        if p_adjusted <= spend.alpha:
            return Answer(outcome="fail", reason=said, estimate=shown)
        if below(lambda at: estimate(side.filled(bad=True), at), gate.bound, spend.alpha_pass):
            return Answer(outcome="pass", reason=said, estimate=shown)
        if side.n_lost and below(
            lambda at: estimate(side.measured(), at), gate.bound, spend.alpha_pass
        ):
            return Answer(
                outcome="undecided",
                cause="not_measured",
                reason=f"{said}; were {lost_said(dict(side.unmeasured))} bad, it would not pass",
                estimate=shown,
            )
        needed = _needed(gate, side, spend)
        more = "the rate is the threshold: no number of runs decides"
        if needed is not None:
            more = f"about {counted(needed, 'run')} in all would decide"
        return Answer(
            outcome="undecided",
            cause="interval",
            reason=f"{said}; {more}",
            estimate=shown,
            runs_needed=needed,
        )


def estimate(side: Side, level: float) -> Estimate | Unmeasured:
    """Return the share of bad units of runs, trials of a case as a cluster."""
    lost = dict(side.unmeasured)
    if (side.size != 1).any():
        return stats.ratio(side.top, side.size, side.cases, level=level, unmeasured=lost)
    whole = np.isin(side.top, (0.0, 1.0)).all()
    method = stats.proportion if whole else stats.share
    return method(side.top, side.cases, level=level, unmeasured=lost)


def tail(seen: int, n: int, chance: float) -> float:
    """Return the chance of `seen` or more of `n` where each comes with `chance`.

    >>> tail(1, 10, 0.0), round(tail(3, 10, 0.1), 4)
    (0.0, 0.0702)
    """
    below_ = sum(comb(n, k) * chance**k * (1 - chance) ** (n - k) for k in range(seen))
    return min(1.0, max(0.0, 1.0 - below_))


def _count(gate: GatePolicy, side: Side, seen: int, spend: Spend, p: float) -> Answer:
    """Pass when no bad run was seen, or no more than false alarms explain (`p`)."""
    shown = _shown(gate, side, breaches=True)
    noun = "error" if gate.quantity.kind == "recovered" else "run"
    units = int(side.measured().size.sum())
    upper = ""
    if isinstance(shown, Estimate) and seen == 0:
        limit = (shown.low if gate.wants_good else shown.high) or 0.0
        limit = 1 - limit if gate.wants_good else limit
        upper = f"; at most {percent(limit)} of tasks like these, 95 % sure"
    what = "not recovered" if noun == "error" else "in breach"
    bad = int(side.measured().top.sum()) if noun == "error" else seen
    said = f"{bad} of {counted(units, noun)} {what}"
    if not units:
        said = f"nothing to recover from in {counted(side.n_measured, 'run')}"
    if seen and (gate.source == RULES or p <= spend.alpha):
        return Answer(outcome="fail", reason=said, estimate=shown)
    if side.n_lost:
        lost = lost_said(dict(side.unmeasured))
        return Answer(
            outcome="undecided",
            cause="not_measured",
            reason=f"{said}, but {lost} could be",
            estimate=shown,
        )
    explained = " (no more than the judge's false alarms)" if seen else ""
    return Answer(outcome="pass", reason=f"{said}{explained}{upper}", estimate=shown)


def _shown(gate: GatePolicy, side: Side, *, breaches: bool = False) -> Estimate | Unmeasured:
    """Return the rate as the policy speaks of it: of good runs for `min_rate`, else of bad ones."""
    measured = side.measured()
    if breaches and gate.quantity.kind != "recovered":
        measured = Side(
            at=measured.at,
            cases=measured.cases,
            top=(measured.top > 0).astype(np.float64),
            size=measured.size,
            lost=measured.lost,
            unmeasured=measured.unmeasured,
        )
    found = estimate(measured, SHOWN)
    if isinstance(found, Unmeasured) or not gate.wants_good:
        return found
    value, low, high, worst_low, worst_high = (
        None if x is None else 1 - x
        for x in (found.value, found.high, found.low, found.worst_high, found.worst_low)
    )
    return msgspec.structs.replace(
        found, value=value, low=low, high=high, worst_low=worst_low, worst_high=worst_high
    )


def _said(gate: GatePolicy, shown: Estimate | Unmeasured) -> str:
    if isinstance(shown, Unmeasured):
        return shown.reason
    bound = 1 - gate.bound if gate.wants_good else gate.bound
    what = "good" if gate.wants_good else "bad"
    if gate.limit is not None:
        unit = "" if gate.quantity.unit in ("share", "") else f" {gate.quantity.unit}"
        what = f"above {gate.limit:g}{unit}" if not gate.wants_good else f"within {gate.limit:g}"
    side = "at least" if gate.wants_good else "at most"
    return (
        f"{percent(shown.value)} of {counted(shown.n, shown.unit_of_n.removesuffix('s'))} {what} "
        f"{interval(shown, 100)}, {side} {percent(bound)} may be"
    )


def _needed(gate: GatePolicy, side: Side, spend: Spend) -> int | None:
    """Return the runs that would decide at the rate seen, trials of a case repeating each other."""
    measured = side.measured()
    found = estimate(measured, SHOWN)
    if isinstance(found, Unmeasured):
        return None
    alpha = spend.alpha_pass if found.value < gate.bound else spend.alone
    runs = stats.runs_to_tell(min(found.value, 1.0), gate.bound, alpha=alpha)
    if runs is None:
        return None
    sums, sizes = (
        by_cluster(measured.top, measured.cases),
        by_cluster(measured.size, measured.cases),
    )
    kept = sizes.sums > 0
    _, effective = effective_size(sums.sums[kept], sizes.sums[kept], most=sizes.sums.sum())
    return max(ceil(runs * len(measured.at) / float(effective)), len(measured.at) + 1)
