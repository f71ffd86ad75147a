"""Gates on rates: count gates and proofs."""

from __future__ import annotations

from math import comb

import pytest

from stepscope.errors import ConfigError
from stepscope.gates.types import GateDecision
from stepscope.values import Estimate
from tests.gates.rows import One, decision, gates, report, rows, run


def breaches(k: int, **gate: float) -> GateDecision:
    runs = [run(f"c{at}", policy=float(at < k)) for at in range(50)]
    return decision(rows(*runs), policy=gate or {"max_rate": 0.1})


@pytest.mark.parametrize(
    ("k", "outcome"),
    # Wilson, one-sided: 1 of 50 is below .085, 2 of 50 below .114; 10 of 50 is above .108
    [(0, "pass"), (1, "pass"), (2, "undecided"), (9, "undecided"), (10, "fail"), (50, "fail")],
)
def test_a_proof_decides_where_a_limit_is_clear_of_the_threshold(k: int, outcome: str) -> None:
    assert breaches(k).outcome == outcome


def test_fifty_cases_at_a_true_05_against_10_stay_undecided_in_72_percent() -> None:
    passing = [k for k in range(12) if breaches(k).outcome == "pass"]
    share = sum(comb(50, k) * 0.05**k * 0.95 ** (50 - k) for k in passing)
    assert passing == [0, 1]
    assert round(1 - share, 2) == 0.72


def test_an_undecided_proof_says_how_many_runs_would_decide() -> None:
    found = breaches(2)
    assert (found.cause, found.runs_needed, found.p) == ("interval", 124, 1.0)
    assert [case.case for case in found.failing] == ["c0", "c1"]
    assert found.reason == (
        "4.0 % of 50 runs have a value above 0, 90 % interval 1.3–11; at most 10 % is allowed; "
        "a decision would need about 124 runs in all"
    )
    even = breaches(5)
    assert even.runs_needed is None
    assert "the rate is the threshold: no number of runs decides" in even.reason


def test_trials_of_one_case_are_no_independent_runs() -> None:
    alike = [run(f"c{at // 10}", tag=str(at), policy=float(at < 6)) for at in range(200)]
    apart = [run(f"c{at % 20}", tag=str(at), policy=float(at < 6)) for at in range(200)]
    gate = {"max_rate": 0.12}
    assert decision(rows(*alike), policy=gate).outcome == "undecided"
    assert decision(rows(*apart), policy=gate).outcome == "pass"


def test_one_case_gives_no_limit() -> None:
    found = decision(
        rows(*(run("c", tag=str(k), policy=0) for k in range(9))), policy={"max_rate": 0.1}
    )
    assert (found.outcome, found.cause) == ("undecided", "too_few_cases")


@pytest.mark.parametrize(
    ("most", "outcome", "reason"),
    [
        (1, "pass", "0 of 4 runs in breach; at most 40 % of tasks like these, 95 % sure"),
        (0, "fail", "1 of 4 runs in breach"),
    ],
)
def test_a_count_gate_passes_when_no_run_is_above_its_limit(
    most: int, outcome: str, reason: str
) -> None:
    runs = [run(f"c{at}", redundant_calls__count=float(at == 0)) for at in range(4)]
    found = decision(rows(*runs), no_redundant_calls={"max_per_run": most})
    assert (found.outcome, found.reason) == (outcome, reason)
    assert found.n_failing == (outcome == "fail")


@pytest.mark.parametrize("gate", [{"max_rate": 0.0}, {"max_per_run": 0}])
def test_thresholds_of_nothing_are_count_gates(gate: dict[str, float]) -> None:
    assert breaches(0, **gate).rule == "count"
    assert [breaches(k, **gate).outcome for k in (0, 1)] == ["pass", "fail"]


def test_a_share_of_one_is_a_count_gate_over_partly_reached_goals() -> None:
    runs = [run(f"c{at}", subgoals=1.0 if at else 0.5) for at in range(9)]
    found = decision(rows(*runs), subgoals={"min_rate": 1.0})
    assert (found.rule, found.outcome, found.n_failing) == ("count", "fail", 1)
    assert isinstance(found.estimate, Estimate)
    assert round(found.estimate.value, 3) == 0.889


def errors(errors: float, recovered: float | str) -> list[One]:
    return [run(f"c{k}", errors=0, recovery__recovered="?not_applicable") for k in range(5)] + [
        run("bad", errors=errors, recovery__recovered=recovered)
    ]


@pytest.mark.parametrize(
    ("found", "gate", "outcome"),
    [
        (errors(2, 2), {"max_per_run": 0}, "pass"),
        (errors(2, 1), {"max_per_run": 0}, "fail"),
        (errors(2, 2), {"max_per_run": 0, "recovered": "forbidden"}, "fail"),
        (errors(0, "?not_applicable"), {"max_per_run": 0, "recovered": "forbidden"}, "pass"),
        (errors(2, "?error"), {"max_per_run": 0}, "undecided"),
        (errors(2, "?not_applicable"), {"max_per_run": 0}, "undecided"),
    ],
)
def test_an_error_that_was_recovered_is_the_recovery_gates_business(
    found: list[One], gate: dict[str, object], outcome: str
) -> None:
    assert decision(rows(*found), no_errors=gate).outcome == outcome


@pytest.mark.parametrize(
    ("found", "outcome", "reason"),
    [
        (errors(2, 2), "pass", "0 of 2 errors not recovered"),
        (errors(3, 1), "fail", "2 of 3 errors not recovered"),
        (errors(0, "?not_applicable"), "pass", "nothing to recover from in 6 runs"),
        (
            errors(2, "?error"),
            "undecided",
            "nothing to recover from in 5 runs, but 1 error could be",
        ),
    ],
)
def test_recovery_counts_errors_not_runs(found: list[One], outcome: str, reason: str) -> None:
    answer = decision(rows(*found), recovery={"min_rate": 1.0})
    assert answer.outcome == outcome
    assert answer.reason.startswith(reason)


def lost(bad: int, good: int, kind: str, n: int, **gate: object) -> GateDecision:
    said = ["incorrect"] * bad + ["uncertain"] * good + [kind] * n
    runs = [run(f"c{at}", axes__sequencing=word) for at, word in enumerate(said)]
    return decision(rows(*runs), axes__sequencing=gate or {"max_rate": 0.1})


def test_lost_runs_count_as_bad_where_a_gate_would_pass() -> None:
    assert lost(0, 100, "?not_applicable", 20).outcome == "pass"
    found = lost(0, 100, "?refused", 20)
    assert (found.outcome, found.cause, found.measured) == ("undecided", "not_measured", False)
    assert "were 20 refused bad, it would not pass" in found.reason


def test_lost_runs_count_as_good_where_a_gate_would_fail() -> None:
    assert lost(15, 35, "?refused", 10).outcome == "fail"
    assert lost(15, 35, "?refused", 60).outcome == "undecided"


def test_a_count_gate_with_a_lost_run_never_passes() -> None:
    assert lost(0, 9, "?error", 1, max_rate=0.0).cause == "not_measured"
    assert lost(0, 9, "?not_applicable", 1, max_rate=0.0).outcome == "pass"
    assert lost(1, 9, "?error", 1, max_rate=0.0).outcome == "fail"


def test_a_gate_of_rules_counts_proved_faults_and_says_that_this_is_a_lower_bound() -> None:
    found = lost(2, 98, "?not_applicable", 5)
    assert (found.outcome, found.threshold) == ("pass", "max_rate = 0.1")
    assert found.reason.startswith(
        "2.0 % of 100 runs at fault (proved, a lower bound), 90 % interval "
    )
    assert isinstance(found.estimate, Estimate)
    assert (found.estimate.value, found.estimate.n) == (0.02, 100)
    none = lost(1, 9, "?not_applicable", 1, max_rate=0.0)
    assert none.reason == "1 of 10 runs at fault (proved, a lower bound)"


def test_a_share_of_good_runs_is_told_as_runs_with_nothing_proved() -> None:
    found = lost(2, 98, "?not_applicable", 5, min_rate=0.5)
    assert found.outcome == "pass"
    assert found.reason.startswith(
        "98 % of 100 runs have nothing proved against them, 90 % interval "
    )


@pytest.mark.parametrize("uncertain", ["worst", "ignored"])
def test_what_to_do_with_uncertain_is_asked_of_judges_only(uncertain: str) -> None:
    with pytest.raises(ConfigError, match=r"is for judges; rules prove faults.*leave uncertain"):
        gates(axes__sequencing={"max_rate": 0.1, "uncertain": uncertain})
    judge = {"max_rate": 0.1, "uncertain": uncertain, "source": "axes"}
    (policy,) = gates(axes__sequencing=judge).gates
    assert policy.uncertain == uncertain


def test_an_uncertain_judge_gives_no_answer_unless_the_policy_leaves_it_out() -> None:
    runs = [
        run(f"c{k}", judge__axes__sequencing="correct" if k < 100 else "uncertain")
        for k in range(120)
    ]
    for uncertain, outcome in (("worst", "undecided"), ("ignored", "pass")):
        gate = {"max_rate": 0.1, "source": "axes", "uncertain": uncertain}
        found = report(rows(*runs), gates(axes__sequencing=gate), tier=("axes",)).gates[0]
        assert found.outcome == outcome


def test_answers_of_an_older_version_are_not_read_and_the_command_is_named() -> None:
    runs = [run(f"c{k}", axes__sequencing="correct") for k in range(50)]
    old = rows(*runs, **{"axes.sequencing": ("1",)})
    found = decision(old, axes__sequencing={"max_rate": 0.1})
    assert (found.outcome, found.cause) == ("undecided", "no_verdicts")
    assert found.reason.startswith("axes.sequencing was scored by version 1, this is version ")
    assert found.reason.endswith("stepscope score --measure axes.sequencing")


def test_a_named_label_is_what_the_rate_is_about() -> None:
    runs = [run(f"c{k}", termination="limit" if k < 20 else "too_early") for k in range(40)]
    for label, outcome in (("limit", "fail"), ("too_late", "pass")):
        gate = {"max_rate": 0.2, "label": label}
        assert decision(rows(*runs), termination=gate).outcome == outcome


def test_a_quantile_gate_says_how_many_runs_are_beyond_it() -> None:
    runs = [run(f"c{k}", efficiency__steps=30.0 if k % 3 else 50.0) for k in range(60)]
    low = decision(rows(*runs), steps={"median": {"max_per_run": 40}})
    high = decision(rows(*runs), steps={"p95": {"max_per_run": 40}})
    assert (low.outcome, high.outcome) == ("pass", "fail")
    assert (
        low.reason == "33 % of 60 runs have a value above 40 steps, 90 % interval 24–44; "
        "at most 50 % is allowed"
    )
