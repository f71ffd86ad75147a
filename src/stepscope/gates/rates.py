"""Gates on a rate of bad runs: none may be seen (`count`), or it must be shown small (`proof`).

A proof passes when its one-sided upper limit lies below the threshold with every lost run bad, and
fails when its lower limit lies above with every lost run good, p adjusted over all gates; between
the two it is undecided, and says how many runs would decide. Trials of one case are a cluster.
Holm's adjustment needs the p of every gate of an invocation, so a gate is first a `GateTest` with
its p, and becomes a `GateAnswer` when all p are known; what needs no p is a `GateAnswer` at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import NamedTuple

import msgspec
import numpy as np

from stepscope import stats
from stepscope.gates.judged import FalseAlarms
from stepscope.gates.sample import Arm
from stepscope.gates.settings import GatePolicy, rescore_command
from stepscope.gates.types import GateAnswer, answer_undecided
from stepscope.model.records import RULES, Figure
from stepscope.stats.intervals import effective_size
from stepscope.stats.sample import sum_by_cluster
from stepscope.values import Estimate, Unmeasured, format_count, format_interval, format_percent

# Estimates are shown with this level: each limit is one-sided 95 %.
INTERVAL_LEVEL = 0.90
# Halvings until a p value is known to a millionth of itself or better.
HALVINGS = 40
# Passing a proof that should not pass is one-sided, of one gate: it may cost this many times what
# the look may spend.
PROOF = 2
# A count of what a judge calls bad fails above the .95 quantile of its false alarms where it is the
# only gate of a first look: that is this many times what the look may spend.
ALARMS = 2
# What a gate of rules on an axis counts, as its reason says it.
PROVED = "at fault (proved, a lower bound)"
# Rounding in a difference of two shares is no difference.
TOLERANCE = 1e-9


class Spending(NamedTuple):
    """What a gate is decided with, once all are asked."""

    p: float  # the gate's, adjusted over all gates of the look
    alpha: float  # what the look may spend: chance of a false alarm over all its gates
    alone: float  # what this gate may where every other one holds (Holm's first step)


@dataclass(frozen=True, slots=True)
class GateTest:
    """A gate that was asked, and waits for the p of all others."""

    p: float  # chance of runs so bad if nothing is wrong, lost runs at their best
    answer: Callable[[Spending], GateAnswer]
    # how many times the others' part of alpha it may spend (Holm over p / weight)
    weight: float = 1.0
    # what a pass could have seen, in words and as a number, from what this gate may spend
    power: Callable[[float], tuple[str, float | None]] | None = None


# An estimate at a level of coverage, as its limits are needed at several.
LimitsAt = Callable[[float], Estimate | Unmeasured]


def p_above(limits: LimitsAt, bound: float) -> float:
    """Return the smallest one-sided alpha whose lower limit lies above `bound`; 1 if none does.

    A value within the bound says 1: nothing speaks against it.
    """
    found = limits(INTERVAL_LEVEL)
    if isinstance(found, Unmeasured) or found.no_interval or found.value <= bound:
        return 1.0
    low, high = 0.0, 0.5
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        at = limits(1 - 2 * middle)
        above = isinstance(at, Estimate) and at.low is not None and at.low > bound
        low, high = (low, middle) if above else (middle, high)
        if high - low < 1e-6 * high:
            break
    return high


def is_below(limits: LimitsAt, bound: float, alpha: float) -> bool:
    """Tell whether the one-sided upper limit at `alpha` lies below `bound`."""
    found = limits(1 - PROOF * alpha)
    return isinstance(found, Estimate) and found.high is not None and found.high < bound


def say_losses(unmeasured: dict[str, int]) -> str:
    """Return the losses by kind, those to which the question does not apply left out."""
    return ", ".join(f"{n:,} {kind}" for kind, n in unmeasured.items() if kind != "not_applicable")


def evaluate_rate(
    gate: GatePolicy, side: Arm, alarms: FalseAlarms | None = None
) -> GateTest | GateAnswer:
    """Return the answer of a count gate on rules, or the question that waits for the others' p.

    `alarms` are those of the judge that a count gate reads.
    """
    if not side.n_measured:
        return answer_without_verdicts(gate, side)
    if gate.rule == "proof":
        found = estimate_bad_rate(side.measured(), INTERVAL_LEVEL)
        absent = found.reason if isinstance(found, Unmeasured) else found.no_interval
        if absent:
            return answer_undecided("too_few_cases", absent, found)
        p = p_above(partial(estimate_bad_rate, side.filled(bad=False)), gate.bound)
        return GateTest(p, partial(_answer_proof, gate, side))
    seen = int((side.measured().top > 0).sum())
    if alarms is None:
        return _answer_count(gate, side, seen, None, Spending(1.0, 1.0, 1.0))
    answer = partial(_answer_count, gate, side, seen, alarms)
    return GateTest(alarms.tail(seen, side.n_measured), answer, ALARMS)


def answer_without_verdicts(gate: GatePolicy, side: Arm) -> GateAnswer:
    """Return the answer where no run has one."""
    said = ", ".join(f"{n:,} {kind}" for kind, n in side.unmeasured.items())
    score = "stepscope score" if gate.source == RULES else rescore_command(gate.reads[0])
    score = f"; run {score}" if "not_scored" in side.unmeasured else ""
    reason = f"no run has an answer of {gate.quantity.measure}: {said}{score}"
    absent = Unmeasured("insufficient_data", f"no runs measured: {said}")
    return answer_undecided("no_verdicts", reason, absent)


def _answer_proof(gate: GatePolicy, side: Arm, at: Spending) -> GateAnswer:
    """Pass or fail where a limit lies clear of the threshold; else say what is missing."""
    shown = _rate_estimate(gate, side)
    said = say_rate(gate, shown)
    if at.p <= at.alpha:
        return GateAnswer("fail", said, estimate=shown)
    alpha = PROOF * at.alpha
    if is_below(partial(estimate_bad_rate, side.filled(bad=True)), gate.bound, alpha):
        return GateAnswer("pass", said, estimate=shown)
    if side.n_lost and is_below(partial(estimate_bad_rate, side.measured()), gate.bound, alpha):
        said += f"; were {say_losses(dict(side.unmeasured))} bad, it would not pass"
        return answer_undecided("not_measured", said, shown)
    needed = _runs_needed(gate, side, at)
    more = "the rate is the threshold: no number of runs decides"
    if needed is not None:
        more = f"a decision would need about {format_count(needed, 'run')} in all"
    return answer_undecided("interval", f"{said}; {more}", shown, runs_needed=needed)


def estimate_bad_rate(side: Arm, level: float) -> Estimate | Unmeasured:
    """Return the share of bad units of runs, trials of a case as a cluster."""
    lost = dict(side.unmeasured)
    if (side.size != 1).any():
        return stats.ratio(side.top, side.size, side.cases, level=level, unmeasured=lost)
    method = stats.proportion if np.isin(side.top, (0.0, 1.0)).all() else stats.mean_share
    return method(side.top, side.cases, level=level, unmeasured=lost)


def _answer_count(
    gate: GatePolicy, side: Arm, seen: int, alarms: FalseAlarms | None, at: Spending
) -> GateAnswer:
    """Pass when no bad run was seen, or no more than a judge's false alarms explain."""
    shown = _rate_estimate(gate, side, breaches=True)
    noun = "error" if gate.quantity.kind == "recovered" else "run"
    units = int(side.measured().size.sum())
    upper = ""
    limit = (shown.low if gate.wants_good else shown.high) if isinstance(shown, Estimate) else None
    if limit is not None and seen == 0:
        limit = 1 - limit if gate.wants_good else limit
        upper = f"; at most {format_percent(limit)} of tasks like these, 95 % sure"
    what = PROVED if gate.proves else "not recovered" if noun == "error" else "in breach"
    bad = int(side.measured().top.sum()) if noun == "error" else seen
    said = f"{bad} of {format_count(units, noun)} {what}"
    if not units:
        said = f"nothing to recover from in {format_count(side.n_measured, 'run')}"
    if alarms is not None:
        most = alarms.most(side.n_measured, ALARMS * at.alone)
        said += f", {most} may be false alarms ({alarms.flagged} of {alarms.good} runs known to "
        said += f"be good are called bad: {alarms.known_by})"
    if seen and (alarms is None or at.p <= at.alpha):
        return GateAnswer("fail", said, estimate=shown)
    if side.n_lost:
        lost = say_losses(dict(side.unmeasured))
        return answer_undecided("not_measured", f"{said}, but {lost} could be", shown)
    return GateAnswer("pass", said + upper, estimate=shown)


def _rate_estimate(gate: GatePolicy, side: Arm, *, breaches: bool = False) -> Estimate | Unmeasured:
    """Return the rate as the policy speaks of it: of good runs for `min_rate`, else of bad ones."""
    measured = side.measured()
    if breaches and gate.quantity.kind != "recovered":
        measured = replace(measured, top=(measured.top > 0).astype(np.float64))
    return orient(gate, estimate_bad_rate(measured, INTERVAL_LEVEL))


def orient(gate: GatePolicy, found: Figure) -> Figure:
    """Return a rate of bad runs as the policy speaks of it."""
    if isinstance(found, Unmeasured) or not gate.wants_good:
        return found
    value, low, high, worst_low, worst_high = (
        None if x is None else 1 - x
        for x in (found.value, found.high, found.low, found.worst_high, found.worst_low)
    )
    return msgspec.structs.replace(
        found, value=value, low=low, high=high, worst_low=worst_low, worst_high=worst_high
    )


def say_rate(gate: GatePolicy, shown: Figure, runs: str = "") -> str:
    """Return a rate with its interval and what is allowed; `runs` are not those of the estimate."""
    if isinstance(shown, Unmeasured):
        return shown.reason
    bound = 1 - gate.bound if gate.wants_good else gate.bound
    what = "good" if gate.wants_good else "bad"
    if gate.proves:
        what = "have nothing proved against them" if gate.wants_good else PROVED
    if gate.limit is not None:
        unit = "" if gate.quantity.unit in ("share", "") else f" {gate.quantity.unit}"
        above = f"have a value above {gate.limit:g}{unit}"
        what = f"have a value within {gate.limit:g}" if gate.wants_good else above
    side = "at least" if gate.wants_good else "at most"
    return (
        f"{format_percent(shown.value)} of "
        f"{runs or format_count(shown.n, shown.unit_of_n.removesuffix('s'))} {what}, "
        f"{100 * shown.level:g} % interval {format_interval(shown)}; "
        f"{side} {100 * bound:.3g} % {'is needed' if gate.wants_good else 'is allowed'}"
    )


def _runs_needed(gate: GatePolicy, side: Arm, at: Spending) -> int | None:
    """Return the runs that would decide at the rate seen, trials of a case repeating each other."""
    measured = side.measured()
    found = estimate_bad_rate(measured, INTERVAL_LEVEL)
    if isinstance(found, Unmeasured):
        return None
    needed = PROOF * at.alpha if found.value < gate.bound else at.alone
    runs = stats.runs_to_tell(min(found.value, 1.0), gate.bound, alpha=needed)
    if runs is None:
        return None
    sums, sizes = (sum_by_cluster(x, measured.cases) for x in (measured.top, measured.size))
    kept = sizes.sums > 0
    _, effective = effective_size(sums.sums[kept], sizes.sums[kept], most=sizes.sums.sum())
    return max(ceil(runs * len(measured.at) / float(effective)), len(measured.at) + 1)
