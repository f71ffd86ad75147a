"""Gates on a judge's rate that decide by what people's labels make of it.

From the labels of a headline on (`stats.explain_weakness`) the corrected rate, and its limits, take
the place of the judge's own; a drop compares corrected with corrected. Below that the gate decides
as without labels, and says that the rate is uncorrected. Both rates are always given. A comparison
that fails by the judge's own rates passes only where the corrected limits show it. Runs that the
judge did not answer count at their worst, as elsewhere. Labels of no random draw are refused.

More labels are another look: look j spends alpha/(j(j+1)), on either side of the threshold. Where
nobody counts the looks, one is counted for every ten labels. The labels still needed are a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from statistics import NormalDist

import msgspec
import numpy as np

from stepscope import stats
from stepscope.calibrate.judges import LabelledRuns, RateLabels, choose_labels
from stepscope.calibrate.ratings import Item
from stepscope.gates import rates
from stepscope.gates.against_baseline import say_effect
from stepscope.gates.baseline import ID_DIGITS
from stepscope.gates.sample import Arm, Sample, build_arm, run_badness
from stepscope.gates.settings import GatePolicy
from stepscope.gates.types import GateAnswer
from stepscope.model import Label
from stepscope.model.records import Figure
from stepscope.stats.comparison import POWER
from stepscope.stats.sample import codes
from stepscope.values import Estimate, format_count, format_difference

# Labels from one look to the next where nobody counts the looks.
LABELS_A_LOOK = 10
_VERBS = {"pass": "pass", "fail": "fail", "undecided": "be undecided"}


@dataclass(frozen=True, slots=True)
class CorrectedArm:
    """The runs of an arm that a judge answered, with people's labels of some of them."""

    judged: Arm
    labels: RateLabels
    lost: int  # runs without an answer
    absent: int  # runs of which nothing is known: bad everywhere
    seed: int

    def rate(self, level: float, *, bad: bool) -> Figure:
        """Return the share of bad runs as people would say, lost ones all bad, or all good."""
        found = stats.corrected_rate(
            self.judged.top > 0,
            self.labels.places,
            self.labels.values,
            shares=self.labels.shares,
            clusters=codes(self.judged.cases.tolist()),
            level=level,
            rng=np.random.default_rng(self.seed),
        )
        n, more = len(self.judged.at), self.absent + self.lost * bad
        if not isinstance(found, Estimate) or not more + self.lost:
            return found
        value, low, high = (
            None if x is None else (n * x + more) / (n + self.lost + self.absent)
            for x in (found.value, found.low, found.high)
        )
        return msgspec.structs.replace(found, value=value, low=low, high=high)


def correct_arms(
    gate: GatePolicy,
    samples: Sequence[tuple[int, Sample]],  # runs, and absent ones behind them; then a baseline's
    labels: LabelledRuns,  # what people said of whole runs, ids cut to `ID_DIGITS`
    seed: int,
) -> tuple[list[CorrectedArm], list[str], list[str]]:
    """Return the arms that have labels, why they do not decide, and which labels are left out."""
    shared = set.intersection(*({run.case for run in sample.runs} for _, sample in samples))
    arms, why, notes = list[CorrectedArm](), list[str](), list[str]()
    for name, (n, sample) in zip(("", "baseline: "), samples, strict=False):
        arm = build_arm(gate, sample)
        arm = arm.take(np.array([case in shared for case in arm.cases.tolist()], np.bool_))
        absent = arm.at >= n
        judged = arm.take(~arm.lost & ~absent)
        ids = [sample.runs[at].id[:ID_DIGITS] for at in judged.at.tolist()]
        place: dict[Item, int] = {(run, None): row for row, run in enumerate(ids)}
        found = choose_labels(labels, place, partial(_badness, gate))
        if found is None:
            why.append(f"{name}no labels of whole runs")
            continue
        arms.append(CorrectedArm(judged, found, arm.n_lost, int(absent.sum()), seed))
        weak = stats.explain_weakness(judged.top > 0, found.places, ("good", "bad"))
        why += [name + weak] if weak else []
        notes += [
            f"{name}{format_count(n, 'label')} left out, {of}" for of, n in found.refused.items()
        ]
    return arms, why, notes


def _badness(gate: GatePolicy, label: Label) -> float | None:
    """Return 1 for a label that the gate counts against the agent, else 0; None without one."""
    return None if label.label is None else float(run_badness(gate, (label.label,)) == (1.0, 1.0))


def correct_gate(
    gate: GatePolicy,
    raw: rates.GateTest,  # as it is asked without labels
    samples: Sequence[tuple[int, Sample]],  # as `correct_arms` takes them
    labels: LabelledRuns,
    *,
    look: int,  # at these runs
    looked: int | None,  # looks at runs and labels; None where nobody counts them
    seed: int,
) -> rates.GateTest:
    """Return the question put to the corrected rate, or what was asked, saying that it is not."""
    arms, why, notes = correct_arms(gate, samples, labels, seed)
    if why:
        told = "; ".join(["", "the judge's own rate, uncorrected", *why, *notes])
        return replace(raw, answer=lambda at: _add(raw.answer(at), told))
    at = max(look, count_looks(arms) if looked is None else looked)
    if at > look:
        counted = f", one for {LABELS_A_LOOK} labels; --commit counts them"
        notes.append(f"look {at} at runs and labels{counted if looked is None else ''}")
    weight = look * (look + 1) / (at * (at + 1))
    bound = gate.bound if gate.rule == "proof" else 0.0
    p = rates.p_above(lambda level: corrected_effect(arms, level, bad=False), bound)
    return rates.GateTest(p, partial(answer_corrected, gate, raw, arms, weight, notes), weight)


def count_looks(arms: Sequence[CorrectedArm]) -> int:
    """Return the looks at labels where nobody counted them."""
    extra = sum(len(arm.labels.places) - stats.HEADLINE_LABELS for arm in arms)
    return 1 + ceil(extra / LABELS_A_LOOK)


def _add(answer: GateAnswer, told: str) -> GateAnswer:
    return replace(answer, reason=answer.reason + told)


def corrected_effect(arms: Sequence[CorrectedArm], level: float, *, bad: bool) -> Figure:
    """Return the rate, or how much it rose since the baseline, lost runs at their worst or best."""
    now = arms[0].rate(level, bad=bad)
    if len(arms) == 1:
        return now
    return stats.corrected_difference(arms[1].rate(level, bad=not bad), now)


def answer_corrected(
    gate: GatePolicy,
    raw_test: rates.GateTest,
    arms: Sequence[CorrectedArm],
    weight: float,
    notes: Sequence[str],
    at: rates.Spending,
) -> GateAnswer:
    """Pass or fail where the corrected limits lie clear; else say what is missing."""
    raw = raw_test.answer(at._replace(p=raw_test.p))
    shown = corrected_effect(arms, rates.INTERVAL_LEVEL, bad=False)
    if not isinstance(shown, Estimate) or shown.low is None or shown.high is None:
        return raw
    judged, have = (
        " and ".join(f"{n:,}" for n in of)
        for of in ([len(x.judged.at) for x in arms], [len(x.labels.places) for x in arms])
    )
    estimate = shown if gate.compares else rates.orient(gate, shown)
    said = (say_effect if gate.compares else rates.say_rate)(gate, estimate, f"{judged} runs")
    said = f"corrected by people's labels of {have} runs: {said}; uncorrected it would "
    said = "; ".join([f"{said}{_VERBS[raw.outcome]}: {raw.reason}", *notes])
    answer = GateAnswer("pass", said, estimate=estimate, uncorrected=raw.estimate)
    if at.p <= at.alpha and shown.value > gate.bound + rates.TOLERANCE:
        return replace(answer, outcome="fail")
    z, limit, power = map(NormalDist().inv_cdf, (1 - at.alone * weight, 0.95, POWER))
    seen = (z + power) * (shown.high - shown.low) / (2 * limit)
    if gate.rule == "regression" and raw.outcome != "fail":
        could = format_difference(max(seen, gate.bound), "share").removeprefix("+")
        found = replace(answer, outcome=raw.outcome, cause=raw.cause, detectable=seen)
        return _add(found, f"; a drop of {could} would be detected 80 % of the time")
    worst, best = (partial(corrected_effect, arms, bad=bad) for bad in (True, False))
    if rates.is_below(worst, gate.bound, at.alpha * weight):
        return answer
    answer = replace(answer, outcome="undecided", cause="interval")
    if rates.is_below(best, gate.bound, at.alpha * weight):
        return _add(replace(answer, cause="not_measured"), "; were unmeasured runs bad, no pass")
    away = max(abs(shown.value - gate.bound), rates.TOLERANCE)
    labels = len(arms[0].labels.places)
    needed = max(ceil(labels * (seen / away) ** 2), labels + 1)
    if needed > len(arms[0].judged.at):
        return _add(answer, "; labels of all these runs may not decide")
    return _add(answer, f"; labels of about {needed:,} runs would decide")
