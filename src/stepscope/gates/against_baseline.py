"""Gates against a baseline: drops of the share of good runs, ratios of medians, and their p values.

`regression` fails when labels permuted within cases give such a worsening too rarely (one-sided, p
adjusted over all gates) *and* it exceeds the margin; otherwise it passes and says what it could
have seen. `proof` must show that the worsening is below the margin. Lost runs, and cases of the
baseline that were not run, count at their worst where a gate would pass, at their best where it
would fail.

A ratio (steps, tokens, seconds) is tested on the ranks of all values: one run of 900 steps is one
long run, not forty. Its interval resamples cases (`stepscope.stats.comparison`). A null that cannot
be listed is drawn in stages: few permutations where p is large, many where it is small. A p at or
below a stage's mark is drawn anew, so that P(p <= a) <= a for each a up to the first mark, far
above any alpha here. Source of the test: `stepscope.stats.permutation`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from math import comb, inf, sqrt
from statistics import NormalDist

import numpy as np

from stepscope import stats
from stepscope.gates import rates
from stepscope.gates.rates import GateTest, Spending
from stepscope.gates.sample import Arm
from stepscope.gates.settings import GatePolicy
from stepscope.gates.types import GateAnswer, answer_undecided
from stepscope.stats.comparison import POWER, Comparison
from stepscope.stats.permutation import detectable_ratio, detectable_rise, pair_trials
from stepscope.stats.sample import Bools, codes
from stepscope.values import (
    Estimate,
    Unmeasured,
    format_count,
    format_difference,
    format_interval,
    format_percent,
)

# Permutations drawn, and the p at or below which more are drawn.
STAGES = ((999, 0.05), (9_999, 0.002), (99_999, 0.0))
FEW, MANY = STAGES[0][0], STAGES[-1][0]
# The runs under test, and those of the baseline.
Sides = tuple[Arm, Arm]


def permute_in_stages(
    compare: Callable[[int], Comparison | Unmeasured], most: int = MANY
) -> Comparison | Unmeasured:
    """Return a comparison with as many permutations as its p needs, and at most so many.

    `compare` makes it with a number of permutations; the same number gives the same p.
    """
    found = compare(FEW)
    for (_, mark), (draws, _) in pairwise(STAGES):
        if isinstance(found, Unmeasured) or found.method != "permutation drawn" or found.p > mark:
            break
        if draws > most:
            break
        found = compare(draws)
    return found


def smallest_possible_p(now: Arm, before: Arm, worst: float) -> float:
    """Return the smallest p that any current runs could give against this baseline.

    It is the chance that permuted labels hand every run at its worst to the current side, where all
    current runs are at their worst. A gate whose floor lies above alpha can never fail. Of the
    current runs only how many a case has matters.
    """
    runs, old = Counter(now.cases.tolist()), Counter(before.cases.tolist())
    at_worst = Counter(
        case
        for case, top in zip(before.cases.tolist(), before.bad.tolist(), strict=True)
        if top >= worst
    )
    p = 1.0
    for case in runs.keys() & old.keys():
        ways = comb(at_worst[case] + runs[case], runs[case])
        p *= ways / comb(old[case] + runs[case], runs[case])
    return p if np.isin(before.bad, (0.0, 1.0)).all() else max(p, 1 / (1 + MANY))


def build_drop_test(
    gate: GatePolicy, current: Arm, baseline: Arm, *, seed: int, most: int = MANY
) -> GateTest | GateAnswer:
    """Return the question of a gate on a drop in the share of good runs."""
    # Runs of no units are left out: no errors, nothing to recover from.
    now, before = (side.take(side.size > 0) for side in (current, baseline))
    if not now.n_measured:
        return rates.answer_without_verdicts(gate, current)
    measured = compare_bad_runs(now.measured(), before.measured(), seed=seed, most=most)
    effect = measured if isinstance(measured, Unmeasured) else measured.effect
    if isinstance(measured, Unmeasured) or isinstance(effect, Unmeasured) or effect.no_interval:
        shared = set(now.cases.tolist()) & set(before.cases.tolist())
        said = f"{format_count(len(shared), 'case')} of the baseline measured in these runs: "
        said += "two or more are needed"
        return answer_undecided("too_few_cases" if shared else "no_shared_cases", said)
    best_runs = now.filled(bad=False), before.filled(bad=True)
    if gate.rule == "proof":
        p = rates.p_above(lambda at: _effect(*best_runs, at, seed), gate.bound)
        return GateTest(p, partial(_answer_drop_proof, gate, now, before, measured, seed))
    best = measured
    if now.n_lost or before.n_lost:
        found = compare_bad_runs(*best_runs, seed=seed, most=most)
        best = found if isinstance(found, Comparison) else measured
    beyond = _effect_value(best) > gate.bound + rates.TOLERANCE
    answer = partial(_answer_drop, gate, (now, before), measured, seed, beyond)
    power = partial(_say_power, gate, now.measured(), before.measured(), measured, seed)
    return GateTest(best.p, answer, power=power)


def _answer_drop(
    gate: GatePolicy, sides: Sides, measured: Comparison, seed: int, beyond: bool, at: Spending
) -> GateAnswer:
    """Fail where the drop is no chance and above the margin; pass where it could be seen.

    `measured` is over the runs that have answers; `beyond` says whether the drop exceeds the margin
    with lost runs at their best.
    """
    now, before = sides
    effect, said = measured.effect, say_drop(gate, measured)
    if at.p <= at.alpha and beyond:
        return GateAnswer("fail", f"{said}, p {at.p:.2g}", estimate=effect)
    plain = now.measured(), before.measured()
    # The drop against this baseline if every current run were bad.
    shared = np.isin(plain[1].cases, plain[0].cases)
    _, case = np.unique(plain[1].cases[shared], return_inverse=True)
    of_case = np.bincount(case, plain[1].bad[shared]) / np.bincount(case)
    largest = 1 - float(np.mean(of_case))
    if smallest_possible_p(*plain, 1.0) > at.alone or largest <= gate.bound + rates.TOLERANCE:
        said += "; even if every run were bad, these cases could not show it"
        return answer_undecided("too_few_cases", said, effect)
    if now.n_lost or before.n_lost:
        worst = compare_bad_runs(now.filled(bad=True), before.filled(bad=False), seed=seed)
        rare = isinstance(worst, Comparison) and worst.p <= at.alpha
        if rare and _effect_value(worst) > gate.bound + rates.TOLERANCE:
            said += f"; were {_say_lost(now)} bad, it would fail"
            return answer_undecided("not_measured", said, effect)
    return GateAnswer("pass", said, estimate=effect)


def _say_lost(now: Arm) -> str:
    return rates.say_losses({**now.unmeasured}) or "unmeasured runs of the baseline"


def _say_power(
    gate: GatePolicy, now: Arm, before: Arm, measured: Comparison, seed: int, alone: float
) -> tuple[str, float | None]:
    """Return the true drop that is found in 80 % of repetitions: exact for runs that pass or fail.

    Of other shares it is that of a normal difference with the spread of these runs.
    """
    again = set(now.cases.tolist())
    # In the order of the baseline: what is drawn must not hang on the order of a set.
    counts = {case: [0, 0, 0, 0] for case in before.cases.tolist() if case in again}
    for side, at in ((before, 0), (now, 2)):
        for case, bad in zip(side.cases.tolist(), side.bad.tolist(), strict=True):
            if case in counts:
                counts[case][at] += bad
                counts[case][at + 1] += 1
    seen = None
    if np.isin(now.bad, (0.0, 1.0)).all() and np.isin(before.bad, (0.0, 1.0)).all():
        seen = detectable_rise(
            [(int(a), b, int(c), d) for a, b, c, d in counts.values()],
            alpha=alone,
            margin=gate.bound,
            power=POWER,
            alike=measured.p > alone,
            rng=np.random.default_rng(seed),
        )
    if seen is None:
        error = (measured.sd or 0.0) / sqrt(measured.n)
        z, power = NormalDist().inv_cdf(1 - alone), NormalDist().inv_cdf(POWER)
        seen = max((z + power) * error, gate.bound + power * error)
    most = 1 - float(before.bad.mean())
    if seen > most:
        could, seen = f"not even a drop from {format_percent(most)} to 0 %", None
    else:
        could = f"a drop of {format_difference(seen, 'share').removeprefix('+')}"
    return f"{could} would be detected 80 % of the time", seen


def _answer_drop_proof(
    gate: GatePolicy, now: Arm, before: Arm, measured: Comparison, seed: int, at: Spending
) -> GateAnswer:
    """Pass or fail where a limit lies clear of the margin."""
    effect, said = measured.effect, say_drop(gate, measured)
    if at.p <= at.alpha:
        return GateAnswer("fail", said, estimate=effect)
    alpha, worst = rates.PROOF * at.alpha, (now.filled(bad=True), before.filled(bad=False))
    if rates.is_below(lambda level: _effect(*worst, level, seed), gate.bound, alpha):
        return GateAnswer("pass", said, estimate=effect)
    plain = now.measured(), before.measured()
    if rates.is_below(lambda level: _effect(*plain, level, seed), gate.bound, alpha):
        said += "; were all that is missing bad, it would not pass"
        return answer_undecided("not_measured", said, effect)
    needed, away = None, abs(_effect_value(measured) - gate.bound)
    if away > rates.TOLERANCE and measured.sd:
        share = alpha if _effect_value(measured) < gate.bound else at.alone
        needed = max(stats.runs_needed(away, measured.sd, level=1 - 2 * share), measured.n + 1)
    more = f"about {format_count(needed, 'case')} would decide" if needed else "it is the margin"
    runs = needed and needed * max(1, round(len(now.at) / measured.n))
    return answer_undecided("interval", f"{said}; {more}", effect, runs_needed=runs)


def compare_bad_runs(
    now: Arm, before: Arm, *, seed: int, most: int = MANY
) -> Comparison | Unmeasured:
    """Compare bad runs now with those of the baseline; the effect is how much more there are."""
    return permute_in_stages(
        partial(_compare_with_draws, now, before, rates.INTERVAL_LEVEL, seed), most
    )


def _compare_with_draws(
    now: Arm, before: Arm, level: float, seed: int, draws: int
) -> Comparison | Unmeasured:
    kinds = {**now.unmeasured, **before.unmeasured}
    lost = {k: now.unmeasured.get(k, 0) + before.unmeasured.get(k, 0) for k in kinds}
    compare = partial(stats.compare_paired, before.bad, before.cases, now.bad, now.cases)
    rng = np.random.default_rng([seed, draws])
    return compare(rng=rng, level=level, unmeasured=lost, draws=draws, tail="upper")


def say_drop(gate: GatePolicy, found: Comparison) -> str:
    """Return the drop with its interval, cases and margin in words."""
    return say_effect(gate, found.effect, format_count(found.n, "case"))


def say_effect(gate: GatePolicy, effect: Estimate | Unmeasured, on: str) -> str:
    """Return a drop on these cases or runs."""
    if isinstance(effect, Unmeasured):
        return effect.reason
    word = "drop" if effect.value >= 0 else "rise"
    return (
        f"{word} of {format_difference(abs(effect.value), 'share').removeprefix('+')} on "
        f"{on}, {100 * effect.level:g} % interval "
        f"{format_interval(effect)}, margin {100 * gate.bound:.3g} points"
    )


def _effect_value(found: Comparison | Unmeasured) -> float:
    effect = found if isinstance(found, Unmeasured) else found.effect
    return effect.value if isinstance(effect, Estimate) else 0.0


def _effect(now: Arm, before: Arm, level: float, seed: int) -> Estimate | Unmeasured:
    found = _compare_with_draws(now, before, level, seed, 1)
    return found if isinstance(found, Unmeasured) else found.effect


# Stands for the length of an absent run where a length must be finite: more than steps, tokens,
# dollars or seconds ever come to.
LONGEST = 1e18


def build_ratio_test(
    gate: GatePolicy, current: Arm, baseline: Arm, *, seed: int, most: int = MANY
) -> GateTest | GateAnswer:
    """Return the question of a gate on the ratio of two medians."""
    if not current.n_measured:
        return rates.answer_without_verdicts(gate, current)
    now, before = current.measured(), baseline.measured()
    shared = set(now.cases.tolist()) & set(before.cases.tolist())
    if not shared:
        reason = "no case of the baseline was measured in these runs"
        return answer_undecided("no_shared_cases", reason)
    if float(np.median(before.top[_is_in_cases(before, shared)])) == 0:
        reason = f"the baseline's median of {gate.quantity.measure} is 0: there is no ratio to it"
        return answer_undecided("not_measured", reason)
    if gate.rule == "proof":
        p = rates.p_above(partial(estimate_ratio, now, before, seed), gate.bound)
        return GateTest(p, partial(_answer_ratio_proof, gate, current, baseline, seed))
    best = current.filled_with(0.0), baseline.filled_with(inf)
    beyond = ratio_of_medians(*best) > gate.bound + rates.TOLERANCE
    answer = partial(_answer_ratio, gate, current, baseline, seed, beyond)
    power = partial(_say_ratio_power, gate, current, baseline, seed)
    return GateTest(rank_p(*best, seed=seed, most=most), answer, power=power)


def _answer_ratio(
    gate: GatePolicy, now: Arm, before: Arm, seed: int, beyond: bool, at: Spending
) -> GateAnswer:
    """Fail where the lengthening is no chance and above the margin; see `_answer_drop`."""
    shown = _measured_ratio(now, before, seed)
    said = say_ratio(gate, shown)
    if at.p <= at.alpha and beyond:
        return GateAnswer("fail", f"{said}, p {at.p:.2g}", estimate=shown)
    if smallest_possible_p(now.measured(), before.measured(), inf) > at.alone:
        said += "; however long the runs, these cases could not show it"
        return answer_undecided("too_few_cases", said, shown)
    worst = now.filled_with(inf), before.filled_with(0.0)
    if (
        (now.n_lost or before.n_lost)
        and ratio_of_medians(*worst) > gate.bound + rates.TOLERANCE
        and rank_p(*worst, seed=seed) <= at.alpha
    ):
        said += f"; were {_say_lost(now)} long, it would fail"
        return answer_undecided("not_measured", said, shown)
    return GateAnswer("pass", said, estimate=shown)


def _answer_ratio_proof(
    gate: GatePolicy, now: Arm, before: Arm, seed: int, at: Spending
) -> GateAnswer:
    """Pass or fail where a limit lies clear of the margin."""
    shown = _measured_ratio(now, before, seed)
    said = say_ratio(gate, shown)
    if at.p <= at.alpha:
        return GateAnswer("fail", said, estimate=shown)
    limits = partial(estimate_ratio, now.measured(), before.measured(), seed)
    clear = rates.is_below(limits, gate.bound, rates.PROOF * at.alpha)
    if clear and not (now.n_lost or before.n_lost):
        return GateAnswer("pass", said, estimate=shown)
    if isinstance(shown, Unmeasured) or shown.high is None:
        said += "; a limit needs 20 cases that both have"
        return answer_undecided("too_few_cases", said, shown)
    if clear:
        return answer_undecided(
            "not_measured", f"{said}; but {_say_lost(now)} could be long", shown
        )
    return answer_undecided("interval", f"{said}; the limits hold the margin", shown)


def _measured_ratio(now: Arm, before: Arm, seed: int) -> Estimate | Unmeasured:
    """Return the ratio over the runs that have lengths."""
    finite = now.take(np.isfinite(now.top))
    return estimate_ratio(finite, before.measured(), seed, rates.INTERVAL_LEVEL)


def estimate_ratio(now: Arm, before: Arm, seed: int, level: float) -> Estimate | Unmeasured:
    """Return the median now over the median of the baseline, on the cases that both have."""
    lost = {k: now.unmeasured.get(k, 0) + before.unmeasured.get(k, 0) for k in now.unmeasured}
    lengths, rng = np.where(np.isinf(now.top), LONGEST, now.top), np.random.default_rng(seed)
    ratio = partial(stats.median_ratio, before.top, before.cases, lengths, now.cases)
    return ratio(rng=rng, level=level, unmeasured=lost)


def rank_p(now: Arm, before: Arm, *, seed: int, most: int = MANY) -> float:
    """Return the one-sided p of longer runs now, labels permuted within cases, on ranks."""
    # Mid-ranks, 0 for the smallest: equal values share theirs.
    values = np.concatenate([before.top, now.top])
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = np.asarray((np.cumsum(counts) - (counts + 1) / 2)[inverse], dtype=np.float64)
    first, second = np.split(ranks, [len(before.at)])
    compare = partial(stats.compare_paired, first, before.cases, second, now.cases)

    def draw(draws: int) -> Comparison | Unmeasured:
        rng = np.random.default_rng([seed, draws])
        return compare(rng=rng, unit="ranks", draws=draws, tail="upper")

    found = permute_in_stages(draw, most)
    return found.p if isinstance(found, Comparison) else 1.0


def ratio_of_medians(now: Arm, before: Arm) -> float:
    """Return the ratio of medians on shared cases; infinities stand for lost runs."""
    shared = set(now.cases.tolist()) & set(before.cases.tolist())
    sides = [side.top[_is_in_cases(side, shared)] for side in (now, before)]
    if not (len(sides[0]) and len(sides[1])):
        return 1.0
    # Two middle values of which one is infinite have an infinite mean.
    after, first = (float(np.median(side)) for side in sides)
    if first == inf:
        return 0.0
    return after / first if first > 0 else (inf if after > 0 else 1.0)


def say_ratio(gate: GatePolicy, found: Estimate | Unmeasured) -> str:
    """Return the ratio with its interval, cases and margin in words."""
    if isinstance(found, Unmeasured):
        return found.reason
    limits = "too few cases for an interval" if found.no_interval else format_interval(found)
    return (
        f"median {gate.quantity.unit or gate.quantity.measure} {found.value:.2f} times the "
        f"baseline's ({limits}) on {format_count(found.n, 'case')}, margin {gate.bound:g}"
    )


def _is_in_cases(side: Arm, cases: set[object]) -> Bools:
    return np.array([case in cases for case in side.cases.tolist()], dtype=np.bool_)


def _say_ratio_power(
    gate: GatePolicy, now: Arm, before: Arm, seed: int, alone: float
) -> tuple[str, float | None]:
    """Return the true ratio that is found in 80 % of repetitions; nothing of lengths of 0."""
    arms = before.measured(), now.take(np.isfinite(now.top))
    cases = codes([*arms[0].cases.tolist(), *arms[1].cases.tolist()])
    n = len(arms[0].at)
    if min(arm.top.min(initial=1.0) for arm in arms) <= 0:
        return "", None
    logs = np.log(arms[0].top), np.log(arms[1].top)
    trials, _ = pair_trials(logs, (cases[:n], cases[n:]))
    seen = detectable_ratio(
        trials, alpha=alone, margin=gate.bound, power=POWER, rng=np.random.default_rng(seed)
    )
    if seen is None or seen == inf:
        return "", None
    return f"a rise to {seen:.2f} times the baseline would be detected 80 % of the time", seen
