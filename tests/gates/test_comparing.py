"""Gates against a baseline: drops and ratios of medians."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.gates.against_baseline import smallest_possible_p
from stepscope.gates.sample import build_arm, read_samples
from stepscope.gates.types import GateDecision
from stepscope.values import Estimate
from tests.gates.rows import One, decision, gates, report, rows, run, trials


def drop(before: list[int], now: list[int], of: int = 1, **gate: object) -> GateDecision:
    written = {"max_drop": 0.05, **gate}
    return decision(rows(*trials("n", now, of)), rows(*trials("b", before, of)), outcome=written)


@pytest.mark.parametrize(
    ("now", "outcome", "p"),
    [
        # each case that changed is one sign: p is (1/2)^n, alpha of a first look .025
        ([1] * 50, "pass", 1.0),
        ([1] * 45 + [0] * 5, "pass", 1 / 32),
        ([1] * 44 + [0] * 6, "fail", 1 / 64),
        ([1] * 40 + [0] * 10, "fail", 1 / 1024),
    ],
)
def test_a_drop_fails_when_its_permutation_p_is_within_alpha(
    now: list[int], outcome: str, p: float
) -> None:
    found = drop([1] * 50, now)
    assert (found.outcome, found.p) == (outcome, p)


def test_an_agent_that_got_better_never_fails() -> None:
    found = drop([1] * 25 + [0] * 25, [1] * 50)
    assert (found.outcome, found.p) == ("pass", 1.0)
    assert found.reason.startswith("rise of 50 points on 50 cases")


@pytest.mark.parametrize(("margin", "outcome"), [(0.04, "fail"), (0.05, "pass"), (0.06, "pass")])
def test_a_drop_that_is_no_chance_still_needs_to_exceed_the_margin(
    margin: float, outcome: str
) -> None:
    found = drop([4] * 50, [3] * 10 + [4] * 40, of=4, max_drop=margin)
    assert found.p == (1 / 2) ** 10
    assert found.outcome == outcome
    # A drop of the margin itself is below it in half of all repetitions.
    assert found.detectable is None or found.detectable > margin + 0.01


def test_a_pass_says_which_drop_it_would_have_seen() -> None:
    # Of 50 cases that always passed 6 must fail: P(6 or more of 50) is .75 at .147, .85 at .165.
    found = drop([1] * 50, [1] * 50, max_drop=0.0)
    assert found.outcome == "pass"
    assert found.detectable is not None
    assert 0.147 < found.detectable < 0.165
    assert "a drop of 15" in found.reason
    assert "points would be detected 80 % of the time" in found.reason


def test_a_pass_of_few_cases_says_that_it_saw_nothing() -> None:
    # Half of the sub-goals can be missed, which is hardly more than the margin allows.
    def half(tag: str) -> list[One]:
        return [run(f"c{k}", tag=tag, subgoals=(0.75, 0.25)[k % 2]) for k in range(16)]

    asked = gates(subgoals={"max_drop": 0.49})
    (found,) = report(rows(*half("n")), asked, rows(*half("b"))).gates
    assert (found.outcome, found.detectable) == ("pass", None)
    assert "not even a drop from 50 % to 0 % would be detected" in found.reason


@pytest.mark.parametrize(("cases", "cause"), [(5, "too_few_cases"), (6, None)])
def test_a_gate_that_no_run_could_make_fail_does_not_pass(cases: int, cause: str | None) -> None:
    # five cases of one trial: the smallest p is 1/32, above the .025 of a first look
    found = drop([1] * cases, [1] * cases)
    assert found.cause == cause
    assert found.outcome == ("pass" if cause is None else "undecided")
    assert found.measured is (cause is None)


def test_a_margin_that_no_run_could_exceed_is_no_pass() -> None:
    # Half of the cases can turn bad, which is no more than the margin allows.
    found = drop([1, 0] * 8, [0, 0] * 8, max_drop=0.5)
    assert (found.outcome, found.cause) == ("undecided", "too_few_cases")
    assert drop([1, 0] * 8, [0, 0] * 8, max_drop=0.49).outcome == "fail"


def test_one_shared_case_has_a_drop_without_limits_and_decides_nothing() -> None:
    found = drop([1], [1])
    assert (found.outcome, found.cause) == ("undecided", "too_few_cases")
    assert found.reason == "1 case of the baseline measured in these runs: two or more are needed"


def test_a_baseline_that_never_passed_cannot_get_worse_and_is_no_pass() -> None:
    assert drop([0] * 50, [0] * 50).cause == "too_few_cases"


def test_the_failing_cases_come_worst_first_with_runs_steps_and_words() -> None:
    found = drop([4] * 20, [4] * 13 + [3, 0, 2, 2, 0, 0, 0], of=4)
    assert (found.outcome, found.n_failing) == ("fail", 7)
    assert [c.case for c in found.failing] == ["c14", "c17", "c18", "c19", "c15", "c16", "c13"]
    worst, mild = found.failing[0], found.failing[-1]
    assert worst.evidence == ("4 of 4 runs are bad (in the baseline, 0 of 4 runs); outcome of c14")
    assert (len(worst.runs), len(mild.runs)) == (4, 1)


def test_two_gates_share_alpha_after_holm() -> None:
    before = [One(o.case, {**o.said, "subgoals": 1.0}, tag=o.tag) for o in trials("b", [1] * 9, 1)]
    now = [
        One(o.case, {**o.said, "subgoals": 1.0}, tag=o.tag)
        for o in trials("n", [1] * 3 + [0] * 6, 1)
    ]
    alone = drop([1] * 9, [1] * 3 + [0] * 6)
    assert (alone.outcome, alone.p_adjusted) == ("fail", 1 / 64)
    asked = gates(outcome={"max_drop": 0.05}, subgoals={"max_drop": 0.05})
    both = report(rows(*now), asked, rows(*before)).gates
    assert [(g.outcome, g.p, g.p_adjusted) for g in both] == [
        ("pass", 1 / 64, 1 / 32),
        ("pass", 1.0, 1.0),
    ]


def test_a_gate_among_others_needs_cases_enough_for_its_part_of_alpha() -> None:
    # six cases of one trial: p is 1/64 at least, within .025 alone and not within .0125 of two
    def ones(tag: str) -> list[One]:
        return [run(f"c{k}", tag=tag, outcome=1.0, subgoals=1.0) for k in range(6)]

    asked = gates(outcome={"max_drop": 0.05}, subgoals={"max_drop": 0.05})
    both = report(rows(*ones("n")), asked, rows(*ones("b"))).gates
    assert [g.cause for g in both] == ["too_few_cases", "too_few_cases"]


def test_a_floor_is_no_smaller_than_permutations_that_are_drawn_can_show() -> None:
    halves = gates(subgoals={"max_drop": 0.05}).gates[0]
    for values, smallest in (([1.0] * 20, 0.5**20), ([0.5] * 20, 1 / 100_000)):
        runs = rows(*(run(f"c{k}", subgoals=v) for k, v in enumerate(values)))
        seen = build_arm(halves, read_samples(runs, ["w"], ["subgoals"], None)["w"])
        assert smallest_possible_p(seen, seen, 1.0) == smallest


def proof(before: list[int], now: list[int]) -> GateDecision:
    return drop(before, now, max_drop=0.1, rule="proof")


def test_a_proof_of_no_drop_passes_fails_or_says_how_many_runs_it_needs() -> None:
    assert proof([1] * 200, [1] * 200).outcome == "pass"
    assert proof([1] * 200, [1] * 140 + [0] * 60).outcome == "fail"
    found = proof([1] * 30, [1] * 28 + [0] * 2)
    assert (found.outcome, found.cause) == ("undecided", "interval")
    assert found.runs_needed is not None
    assert found.runs_needed > 30


def steps(tag: str, lengths: list[float]) -> list[One]:
    return [run(f"c{k}", tag=tag, efficiency__steps=n) for k, n in enumerate(lengths)]


def ratio(before: list[float], now: list[float], **gate: object) -> GateDecision:
    written = {"max_ratio_to_baseline_median": 1.3, **gate}
    return decision(rows(*steps("n", now)), rows(*steps("b", before)), step_efficiency=written)


LONG = [float(n) for n in np.random.default_rng(2).lognormal(3, 0.4, 40).round(1)]


def test_runs_half_as_long_again_fail_and_runs_a_fifth_longer_pass() -> None:
    longer = ratio(LONG, [1.5 * n for n in LONG])
    assert (longer.outcome, longer.n_failing, len(longer.failing)) == ("fail", 40, 10)
    assert longer.reason.startswith("median steps 1.50 times the baseline's (")
    assert "40 cases, margin 1.3, p 1" in longer.reason
    assert ratio(LONG, [1.2 * n for n in LONG]).outcome == "pass"
    assert ratio(LONG, [0.5 * n for n in LONG]).outcome == "pass"


def test_a_ratio_without_an_interval_says_that_there_are_too_few_cases() -> None:
    few = ratio(LONG[:10], [1.0 * n for n in LONG[:10]])
    assert "1.00 times the baseline's (too few cases for an interval) on 10 cases" in few.reason


def test_one_run_that_never_ends_is_one_long_run() -> None:
    assert ratio(LONG, [*LONG[:-1], 9_000.0]).outcome == "pass"


def lengths(now: list[float | str], before: list[float | str] | None = None) -> GateDecision:
    def side(tag: str, said: list[float | str]) -> list[One]:
        return [run(f"c{k}", tag=tag, efficiency__steps=n) for k, n in enumerate(said)]

    asked = {"max_ratio_to_baseline_median": 1.1}
    old = side("b", before or [*LONG])
    return decision(rows(*side("n", now)), rows(*old), step_efficiency=asked)


def test_lost_lengths_are_the_longest_where_a_gate_would_pass() -> None:
    assert lengths([*LONG[:38], "?error", "?error"]).outcome == "pass"
    found = lengths([*LONG[:15], *(["?error"] * 25)])
    assert (found.outcome, found.cause) == ("undecided", "not_measured")
    assert "were 25 error long, it would fail" in found.reason


def test_lost_lengths_are_the_shortest_where_a_gate_would_fail() -> None:
    longer = [1.5 * n for n in LONG]
    assert lengths([*longer[:34], *(["?error"] * 6)]).outcome == "fail"
    assert lengths([*longer[:20], *(["?error"] * 20)]).outcome == "undecided"
    of_baseline = lengths([*longer], [*LONG[:15], *(["?error"] * 25)])
    assert (of_baseline.outcome, of_baseline.cause) == ("undecided", "not_measured")
    assert "were unmeasured runs of the baseline long" in of_baseline.reason


def test_missing_runs_are_longer_than_any() -> None:
    found = lengths([*LONG[:15]])
    assert (found.outcome, found.cause) == ("fail", None)
    assert "at their worst: 25 missing trials" in found.reason
    assert ratio(LONG, LONG[:15], rule="proof").outcome == "fail"
    assert lengths([*LONG[:38]]).outcome == "pass"


def test_a_ratio_to_nothing_is_not_measured() -> None:
    assert ratio([0.0] * 9, [1.0] * 9).cause == "not_measured"


def test_too_few_lengths_cannot_pass() -> None:
    assert ratio(LONG[:4], LONG[:4]).cause == "too_few_cases"


def test_a_proof_of_length_needs_an_interval_below_the_margin() -> None:
    assert ratio(LONG, LONG, rule="proof").outcome == "pass"
    assert ratio(LONG, [1.6 * n for n in LONG], rule="proof").outcome == "fail"
    assert ratio(LONG[:10], LONG[:10], rule="proof").cause == "too_few_cases"


def test_a_drop_of_a_label_counts_the_label_only() -> None:
    def said(tag: str, labels: list[str]) -> list[One]:
        return [run(f"c{k}", tag=tag, termination=label) for k, label in enumerate(labels)]

    before, now = ["stopped_well"] * 20, ["limit"] * 10 + ["stopped_well"] * 10
    found = decision(rows(*said("n", now)), rows(*said("b", before)), termination={"max_drop": 0.1})
    assert (found.outcome, found.p) == ("fail", 1 / 1024)
    assert isinstance(found.estimate, Estimate)
    assert found.estimate.value == 0.5


def test_runs_without_errors_say_nothing_of_a_drop_in_recovery() -> None:
    def side(tag: str, recovered: list[int]) -> list[One]:
        return [
            run(f"c{k}", tag=f"{tag}{error}", errors=error, recovery__recovered=saved * error)
            for k, saved in enumerate(recovered)
            for error in (0, 2)
        ]

    before, now = side("b", [1] * 12), side("n", [1] * 4 + [0] * 8)
    found = decision(rows(*now), rows(*before), recovery={"max_drop": 0.1})
    assert (found.outcome, found.p) == ("fail", 1 / 256)
    assert isinstance(found.estimate, Estimate)
    assert round(found.estimate.value, 3) == 0.667
