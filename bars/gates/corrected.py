"""How often does a gate on a corrected rate decide wrongly, and how often does it decide at all?

`python -m bars.gates.corrected [REPLICATIONS [PART...]]`, 4,000 unless given, seed 0; a quarter of
them for power, looks and drops. Estimand: the share of runs that people call bad. Generator:
500 judged runs, one a case, bad with a chance `true`; a judge of sensitivity/specificity; people
label the first of them, and are right. One gate alone, decided by `gates.corrected`.

- `rate`: `max_rate = .20`, at the threshold: failing is wrong, and so is passing; each in <= alpha
  + .01. At .05 and .40: the right decision in >= .8 at 100 labels.
- `looks`: the same gate after every 10 labels from 50 to 300, looks counted, or one counted for
  every ten labels: each wrong decision, at any look, in <= alpha + .01. All as the first beside it.
- `drop`: `max_drop = .10`, 100 labels a side of 400 runs: with no drop it fails in <= alpha + .01,
  also where the judge has grown stricter (specificity .90 before, .75 now), a drop by its own
  rates; at a true drop of .35 it fails in >= .8, also where the judge now catches only .4.

Code 0: all hold; 3: one is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from statistics import NormalDist

import numpy as np

from stepscope.calibrate.judges import LabelledRuns
from stepscope.gates.against_baseline import build_drop_test
from stepscope.gates.corrected import (
    CorrectedArm,
    answer_corrected,
    correct_arms,
    corrected_effect,
    count_looks,
)  # fmt: skip
from stepscope.gates.decide import ALPHA
from stepscope.gates.rates import GateTest, Spending
from stepscope.gates.sample import Sample, SampleRun, build_arm
from stepscope.gates.settings import GatePolicy
from stepscope.gates.types import GateAnswer, GateOutcome
from stepscope.model import Label
from stepscope.stats.comparison import look_alpha
from stepscope.stats.corrected import HEADLINE_LABELS_A_VERDICT
from stepscope.values import Estimate
from tests.gates.rows import gates

REPLICATIONS, RUNS = 4_000, 500
WORDS = np.array(["correct", "incorrect"], dtype=object)
NAME = "judge.axes.sequencing"
SIZES = range(50, 301, 10)


def draw_sample(
    rng: np.random.Generator, runs: int, true: float, judge: tuple[float, float], n: int, tag: str
) -> tuple[Sample, list[Label]]:
    """Return judged runs, and labels of the first n."""
    bad = rng.random(runs) < true
    flagged = rng.random(runs) < np.where(bad, judge[0], 1 - judge[1])
    told = tuple(SampleRun(f"{tag}{at:015}", "", f"c{at}") for at in range(runs))
    labels = [
        Label(trajectory=run.id, measure=NAME, annotator="a", label=word, queue="uniform",
              probability=0.1)
        for run, word in zip(told[:n], WORDS[bad[:n].astype(int)].tolist(), strict=True)
    ]  # fmt: skip
    cells = {GATE.reads[0]: tuple(WORDS[flagged.astype(int)].tolist())}
    return Sample(asked={}, runs=told, cells=cells), labels


(GATE,) = gates(axes__sequencing={"max_rate": 0.2, "source": "axes"}).gates
# What the judge's own rate says does not decide a proof.
UNASKED = GateTest(1.0, lambda *_: GateAnswer("undecided", ""))
(DROP,) = gates(axes__sequencing={"max_drop": 0.1, "source": "axes"}).gates


def decide(
    gate: GatePolicy, raw: GateTest, samples: Sequence[Sample], labels: Sequence[Label],
    looked: int | None,
) -> GateOutcome:  # fmt: skip
    """Return the outcome of a gate that stands alone, at its first look at the runs."""
    given = LabelledRuns({one.trajectory: [one] for one in labels})
    arms, why, _ = correct_arms(gate, [(len(one.runs), one) for one in samples], given, 0)
    spent = look_alpha(1, ALPHA)
    if why:
        return raw.answer(Spending(raw.p, spent, spent)).outcome
    return decide_arms(gate, raw, arms, looked)


def is_far_from_decided(arm: CorrectedArm, bound: float, alpha: float) -> bool:
    """Tell by a normal error that no limit comes near: saves nine of ten intervals."""
    flagged = arm.judged.top > 0
    said, value, variance = flagged[arm.labels.places], 0.0, 0.0
    for side in (True, False):
        of, share = arm.labels.values[said == side], float((flagged == side).mean())
        rate = (of.sum() + 0.5) / (len(of) + 1)
        value, variance = value + share * rate, variance + share**2 * rate * (1 - rate) / len(of)
    return bool(abs(value - bound) < 0.6 * NormalDist().inv_cdf(1 - alpha) * sqrt(variance))


def decide_arms(
    gate: GatePolicy, raw: GateTest, arms: Sequence[CorrectedArm], looked: int | None
) -> GateOutcome:
    """Return the outcome of a gate whose labels suffice."""
    spent = look_alpha(1, ALPHA)
    at = count_looks(arms) if looked is None else looked
    weight = 2 / (at * (at + 1))
    if gate.rule == "proof" and is_far_from_decided(arms[0], gate.bound, spent * weight):
        return "undecided"
    # p is at most alpha where the limit at alpha lies above: no need to look for p itself.
    found = corrected_effect(arms, 1 - 2 * spent * weight, bad=False)
    assert isinstance(found, Estimate)
    assert found.low is not None
    above = found.low > (gate.bound if gate.rule == "proof" else 0.0)
    p = 0.0 if above else 1.0
    return answer_corrected(gate, raw, arms, weight, [], Spending(p, spent, spent)).outcome


def decide_rate(sample: Sample, labels: Sequence[Label], looked: int | None) -> GateOutcome:
    """Return the outcome of the gate on a rate."""
    return decide(GATE, UNASKED, [sample], labels, looked)


def decide_drop(now: Sample, before: Sample, labels: Sequence[Label]) -> tuple[str, str]:
    """Return the outcomes of the gate on a drop: corrected, and by the judge's own rates."""
    raw = build_drop_test(DROP, build_arm(DROP, now), build_arm(DROP, before), seed=0, most=999)
    assert isinstance(raw, GateTest)
    spent = look_alpha(1, ALPHA)
    return decide(DROP, raw, [now, before], labels, 1), raw.answer(
        Spending(raw.p, spent, spent)
    ).outcome


class Bar:
    """What was missed, and how much the simulation's own error gives away."""

    def __init__(self, replications: int) -> None:
        """Hold the size of the simulation."""
        self.replications, self.few, self.missed = replications, max(replications // 4, 1), 0

    def say(self, line: str, n: int, *checks: tuple[float, str, float]) -> None:
        """Print a line of n samples; a check is the share found, most or least, and the bar."""
        holds = True
        for found, how, bar in checks:
            give = 2.33 * sqrt(bar * (1 - bar) / n)
            holds &= found <= bar + give if how == "<=" else found >= bar - give
        self.missed += not holds
        print(line + ("" if holds else "  MISSED"), flush=True)


def shares(found: Sequence[str]) -> tuple[float, float]:
    """Return how often a gate failed, and how often it passed."""
    return float(np.mean([x == "fail" for x in found])), float(
        np.mean([x == "pass" for x in found])
    )


def run_rates(bar: Bar) -> None:
    """Print and check one look."""
    print("max_rate .20   judge     labels   true    fail    pass")
    wrong = ALPHA + 0.01
    for judge in ((0.9, 0.9), (0.97, 0.6)):
        for n in (60, 100, 300):
            for true in (0.2, 0.05, 0.4) if n == 100 else (0.2,):
                rng, found = np.random.default_rng(0), []
                for _ in range(bar.replications if true == 0.2 else bar.few):
                    sample, labels = draw_sample(rng, RUNS, true, judge, n, "n")
                    found.append(decide_rate(sample, labels, 1))
                fail, good = shares(found)
                checks = [(fail, "<=", wrong), (good, "<=", wrong)]
                if true != 0.2:
                    right = (good, fail)[int(true > 0.2)]
                    checks = [(right, ">=", 0.8)]
                line = f"               {judge[0]:g}/{judge[1]:g}{n:>11}{true:>7.2f}"
                bar.say(f"{line}{fail:>8.3f}{good:>8.3f}", len(found), *checks)


def run_looks(bar: Bar) -> None:
    """Print and check 26 looks at a growing set of labels."""
    print("26 looks, 50 to 300 labels     true    fail    pass, at any look")
    for how, true in (("counted", 0.2), ("counted", 0.35), ("as the first", 0.2),
                      ("uncounted", 0.2), ("uncounted", 0.35)):  # fmt: skip
        rng, found = np.random.default_rng(1), []
        for _ in range(bar.few):
            sample, labels = draw_sample(rng, RUNS, true, (0.9, 0.9), max(SIZES), "n")
            given = LabelledRuns({one.trajectory: [one] for one in labels})
            (whole,), why, _ = correct_arms(GATE, [(RUNS, sample)], given, 0)
            assert not why
            told: list[str] = []
            for at, size in enumerate(SIZES, 1):
                looked = {"counted": at, "as the first": 1}.get(how)
                of = whole.labels
                first = of._replace(
                    places=of.places[:size], values=of.values[:size], shares=of.shares[:size]
                )
                arm = replace(whole, labels=first)
                flagged = int(arm.judged.top[first.places].sum())
                enough = min(flagged, size - flagged) >= HEADLINE_LABELS_A_VERDICT
                told.append(decide_arms(GATE, UNASKED, [arm], looked) if enough else "undecided")
                if told[-1] in ("pass", "fail"):
                    break
            found.append(told[-1])
        fail, good = shares(found)
        checks = [(fail, "<=", ALPHA + 0.01), (good, "<=", ALPHA + 0.01)]
        if how == "as the first":
            checks = []
        elif true != 0.2:
            checks = [((good, fail)[int(true > 0.2)], ">=", 0.8)]
        bar.say(f"{how:<28}{true:>7.2f}{fail:>8.3f}{good:>8.3f}", bar.few, *checks)


def run_drops(bar: Bar) -> None:
    """Print and check the comparison with a baseline."""
    print("max_drop .10, 100 labels a side    drop    fail    pass   judge alone fails")
    for name, drop, now in (("same judge", 0.0, 0.9), ("stricter now", 0.0, 0.75),
                            ("same judge", 0.35, 0.9), ("laxer now", 0.35, 0.9)):  # fmt: skip
        rng, found = np.random.default_rng(2), []
        for _ in range(bar.few):
            old, of_old = draw_sample(rng, 400, 0.2, (0.9, 0.9), 100, "b")
            catch = 0.4 if name == "laxer now" else 0.9
            new, of_new = draw_sample(rng, 400, 0.2 + drop, (catch, now), 100, "n")
            found.append(decide_drop(new, old, [*of_old, *of_new]))
        fail, good = shares([one for one, _ in found])
        alone, _ = shares([one for _, one in found])
        checks = [(fail, ">=", 0.8)] if drop else [(fail, "<=", ALPHA + 0.01)]
        bar.say(f"{name:<32}{drop:>7.2f}{fail:>8.3f}{good:>8.3f}{alone:>8.3f}", bar.few, *checks)


def main() -> int:
    """Run the bar; print its tables."""
    bar = Bar(int(sys.argv[1]) if len(sys.argv) > 1 else REPLICATIONS)
    parts = {"rate": run_rates, "looks": run_looks, "drop": run_drops}
    chosen = sys.argv[2:] or list(parts)
    print(f"gates on corrected rates, {bar.replications:,} replications a line, seed 0")
    for name in chosen:
        parts[name](bar)
    print("holds" if not bar.missed else f"{bar.missed} lines missed")
    return 3 if bar.missed else 0


if __name__ == "__main__":
    sys.exit(main())
