"""Whole invocations: every way in which a gate could not be measured, looks, exit codes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stepscope.errors import StoreError, UsageError
from stepscope.gates.baseline import (
    load_baseline,
    make_baseline,
    write_baseline,
)
from stepscope.gates.decide import decide_gates
from stepscope.gates.looks import Looks
from stepscope.gates.sample import MeasureQuestion, Sample
from stepscope.gates.types import (
    Cause,
    GateAnswer,
    GateDecision,
    GateOutcome,
    GateReport,
    WorkflowDecision,
    exit_code,
    gravest_outcome,
)
from stepscope.store.columns import Rows
from stepscope.store.where import parse_where
from tests.gates.rows import Literal, One, decision, gates, report, rows, run, trials

DROP = gates(outcome={"max_drop": 0.05})
GOOD = rows(*trials("n", [4] * 20))
BEFORE = rows(*trials("b", [4] * 20))


def only(found: GateReport) -> GateDecision:
    (gate,) = found.gates
    return gate


def held(before: Rows = BEFORE) -> Sample:
    return make_baseline(before, DROP)


def other_version() -> Sample:
    return msgspec.structs.replace(held(), asked={"outcome": MeasureQuestion(version="0")})


@pytest.mark.parametrize(
    ("now", "before", "cause", "says"),
    [
        (rows(), held(), "no_runs", "nothing was read; read traces with stepscope import"),
        (rows(run("a", workflow="ww")), held(), "no_runs", "did you mean 'ww'?"),
        (rows(run("c0")), held(), "no_verdicts", "no run has a record of outcome: stepscope score"),
        (rows(run("c0", outcome="?refused")), held(), "no_verdicts", "of outcome: 1 refused"),
        (GOOD, None, "baseline_missing", "no baseline is named"),
        (GOOD, other_version(), "baseline_other_version", "(version 0) than here (version 1): sco"),
        (
            GOOD,
            msgspec.structs.replace(held(), asked={}),
            "baseline_lacks_measure",
            "keeps no outcome: score its runs again",
        ),
        (
            rows(run("c0", outcome=1)),
            held(rows(run("c0", outcome=1, tag="b"))),
            "too_few_cases",
            "1 case of the baseline",
        ),
        (
            rows(*(One("other", one.said, tag=one.tag) for one in trials("n", [4] * 5))),
            held(),
            "no_shared_cases",
            "0 cases of the baseline",
        ),
        (
            rows(
                *trials("n", [4] * 12),
                *(run(f"c{k}", outcome="?error") for k in range(12, 20) for _ in range(4)),
            ),
            held(),
            "not_measured",
            "were 32 error bad, it would fail",
        ),
    ],
)
def test_what_could_not_be_measured_says_which_way_and_never_passes(
    now: Rows, before: Sample | None, cause: Cause, says: str
) -> None:
    found = report(now, DROP, before)
    gate = only(found)
    assert (gate.outcome, gate.cause, gate.measured) == ("undecided", cause, False)
    assert says in gate.reason
    assert "\n" not in gate.reason
    for undecided in (None, "pass"):
        assert exit_code(found, undecided=undecided) == 4


@pytest.mark.parametrize(
    ("raw", "cause"),
    [
        (None, "baseline_missing"),
        (b"", "baseline_corrupt"),
        (b"{}", "baseline_corrupt"),
        (b'{"schema": 1, "cases"', "baseline_corrupt"),
        (b"[" * 100_000, "baseline_corrupt"),
        (b'{"schema": 1, "x": ' + b"[" * 100_000, "baseline_corrupt"),
        (b'{"schema": 2, "anything": 1}', "baseline_other_version"),
    ],
)
def test_a_file_that_is_no_baseline_is_an_answer_of_its_own(
    raw: bytes | None, cause: Cause, tmp_path: Path
) -> None:
    path = tmp_path / "b.json"
    if raw is not None:
        path.write_bytes(raw)
    found = load_baseline(path, "w")
    assert isinstance(found, GateAnswer)
    assert found.cause == cause
    assert only(report(GOOD, DROP, found)).cause == cause


def test_the_baseline_of_another_workflow_is_refused(tmp_path: Path) -> None:
    write_baseline(held(), tmp_path / "b.json")
    found = load_baseline(tmp_path / "b.json", "v")
    assert isinstance(found, GateAnswer)
    assert found.cause == "baseline_other_workflow"


def test_a_corrupt_baseline_leaves_the_other_gates_their_answer() -> None:
    asked = gates(outcome={"max_drop": 0.05}, policy={"max_per_run": 0})
    now = rows(run("a", outcome=1, policy=0), run("b", outcome=1, policy=0))
    broken = GateAnswer(outcome="undecided", cause="baseline_corrupt", reason="torn")
    both = report(now, asked, broken).gates
    assert [g.outcome for g in both] == ["undecided", "pass"]


def test_versions_of_a_measure_are_never_mixed() -> None:
    mixed = Literal(trials("n", [4] * 3), {"outcome": ("1", "2")})
    with pytest.raises(StoreError, match=r"versions 1, 2, .*stepscope score --measure outcome"):
        report(mixed, DROP, held())
    with pytest.raises(StoreError, match="may not be mixed"):
        make_baseline(mixed, DROP)


def test_a_few_cases_that_vanished_are_listed_and_new_ones_too() -> None:
    now = [*trials("n", [4] * 19), run("new", outcome=0.0)]
    workflow = report(rows(*now), DROP, held()).workflows[0]
    assert (workflow.vanished, workflow.new, workflow.n_shared) == (("c19",), ("new",), 19)
    assert (workflow.n_runs, workflow.n_cases, workflow.n_baseline_runs) == (77, 20, 80)
    assert workflow.outcome == "pass"


def test_a_regression_that_lost_runs_cannot_hide_is_a_failure() -> None:
    now = [*trials("n", [0] * 15), *(run(f"c{k}", outcome="?error") for k in range(15, 20))]
    assert only(report(rows(*now), DROP, held())).outcome == "fail"


def test_runs_of_the_baseline_in_the_same_store_are_not_under_test() -> None:
    both = rows(*trials("b", [4] * 20), *trials("n", [0] * 20))
    found = report(both, DROP, held())
    assert (only(found).outcome, found.workflows[0].n_runs) == ("fail", 80)
    itself = only(report(BEFORE, DROP, held()))
    assert itself.outcome == "pass"
    assert itself.notes == ("these are the runs of the baseline itself: nothing new was measured",)


def test_what_is_out_of_time_is_undecided_and_what_came_before_stands() -> None:
    asked = gates(errors={"max_per_run": 0}, policy={"max_per_run": 0})
    now = rows(run("a", errors=0, policy=0, recovery__recovered="?not_applicable"))
    times = iter([False, True])
    found = decide_gates(now, [asked], baselines={}, enough=lambda: next(times))
    assert [(g.outcome, g.cause) for g in found.gates] == [
        ("pass", None),
        ("undecided", "out_of_time"),
    ]
    assert exit_code(found, undecided="pass") == 4


def test_no_gate_at_all_is_a_mistake_of_the_user() -> None:
    with pytest.raises(UsageError, match=r"no gate is declared; add \[workflow.NAME.gates\]"):
        decide_gates(GOOD, [gates()], baselines={})
    with pytest.raises(UsageError, match="a workflow is gated twice"):
        decide_gates(GOOD, [DROP, DROP], baselines={})


def test_a_filter_that_chooses_nothing_is_named() -> None:
    found = decide_gates(rows(), [DROP], baselines={}, where=parse_where("agent = 'x'"))
    assert "no run of 'w' is chosen by \"agent = 'x'\"" in only(found).reason


def test_the_same_rows_give_the_same_bytes() -> None:
    asked = gates(
        subgoals={"max_drop": 0.05}, step_efficiency={"max_ratio_to_baseline_median": 1.1}
    )
    before = [run(f"c{k}", subgoals=k % 3 / 2, efficiency__steps=9 + k) for k in range(25)]
    now = [
        run(f"c{k}", tag="n", subgoals=k % 4 / 3, efficiency__steps=9 + 2 * k) for k in range(25)
    ]
    first, again = (report(rows(*now), asked, rows(*before)) for _ in range(2))
    assert msgspec.json.encode(first) == msgspec.json.encode(again)


def look(tag: str, log: Looks, passes: int = 20, **more: object) -> GateReport:
    now = rows(*trials(tag, [1] * passes + [0] * (20 - passes), of=1))
    return report(now, DROP, rows(*trials("b", [1] * 20, of=1)), commit="abc", looks=log)


def test_a_rerun_is_pooled_counted_and_has_less_to_spend() -> None:
    log = Looks()
    first, second, third = look("1", log), look("2", log), look("3", log)
    assert [(r.look, r.workflows[0].n_runs) for r in (first, second, third)] == [
        (1, 20),
        (2, 40),
        (3, 60),
    ]
    assert [round(r.alpha_look, 6) for r in (first, second, third)] == [0.025, 0.008333, 0.004167]
    assert "20 runs of earlier looks at this commit are pooled" in only(second).notes


def test_the_same_runs_again_are_the_same_look() -> None:
    log = Looks()
    assert [look("1", log).look for _ in range(3)] == [1, 1, 1]
    assert [look("2", log).look, look("1", log).look] == [2, 2]
    assert look("2", log).workflows[0].n_runs == 40


def test_rerunning_until_it_is_green_is_seen() -> None:
    log = Looks()
    assert only(look("bad", log, passes=8)).outcome == "fail"
    # The lucky rerun alone would pass; with the runs it was to replace it does not.
    lucky = look("lucky", log, passes=18)
    assert (lucky.look, only(lucky).outcome) == (2, "fail")
    assert only(look("lucky", Looks(), passes=18)).outcome == "pass"


def test_an_attempt_that_ci_counts_is_believed_where_the_log_is_gone() -> None:
    assert report(GOOD, DROP, held(), commit="abc", attempt=3).look == 3


def test_another_commit_or_policy_is_another_look() -> None:
    log = Looks()
    look("1", log)
    assert report(GOOD, DROP, held(), commit="def", looks=log).look == 1
    assert report(GOOD, gates(outcome={"max_drop": 0.1}), held(), commit="abc", looks=log).look == 1


def test_a_proof_that_is_repeated_has_a_narrower_door_to_pass() -> None:
    asked = gates(policy={"max_rate": 0.1})
    now = rows(*(run(f"c{k}", policy=float(k < 1)) for k in range(50)))
    outcomes = [report(now, asked, attempt=j).gates[0].outcome for j in (1, 2)]
    assert outcomes == ["pass", "undecided"]


def gate(outcome: GateOutcome, severity: str = "hard", cause: Cause | None = None) -> GateDecision:
    return GateDecision(
        name="g",
        measure="m",
        rule="count",
        threshold="",
        severity="hard" if severity == "hard" else "soft",
        outcome=outcome,
        cause=cause,
        reason="",
    )


OPEN = gate("undecided", cause="interval")
SOFT_OPEN = gate("undecided", "soft", "interval")
UNMEASURED = gate("undecided", "soft", "no_verdicts")
NOT_RUN = gate("not_run", cause="source_not_in_tier")
PASS, FAIL, SOFT_FAIL = gate("pass"), gate("fail"), gate("fail", "soft")


@pytest.mark.parametrize(
    ("found", "codes"),
    [
        # as they are; --undecided pass; --undecided fail; --fail-on soft
        ([PASS], (0, 0, 0, 0)),
        ([PASS, NOT_RUN], (0, 0, 0, 0)),
        ([NOT_RUN], (4, 4, 4, 4)),
        ([], (4, 4, 4, 4)),
        ([PASS, FAIL, OPEN, UNMEASURED], (3, 3, 3, 3)),
        ([PASS, SOFT_FAIL], (0, 0, 0, 3)),
        ([PASS, OPEN], (4, 0, 3, 4)),
        ([PASS, SOFT_OPEN], (0, 0, 0, 4)),
        ([PASS, UNMEASURED], (4, 4, 4, 4)),
    ],
)
def test_the_agent_and_the_instrument_never_share_an_exit_code(
    found: list[GateDecision], codes: tuple[int, int, int, int]
) -> None:
    whole = GateReport(
        workflows=(WorkflowDecision(workflow="w", n_runs=1, n_cases=1, gates=tuple(found)),),
        commit=None,
        policy_hash="",
        look=1,
        alpha=0.05,
        alpha_look=0.025,
        tier=("rules",),
        seed=0,
    )
    assert (
        exit_code(whole),
        exit_code(whole, undecided="pass"),
        exit_code(whole, undecided="fail"),
        exit_code(whole, fail_on="soft"),
    ) == codes


def test_a_soft_failure_does_not_speak_for_its_workflow() -> None:
    now = rows(run("a", errors=0, policy=1, recovery__recovered="?not_applicable"))
    asked = gates(errors={"max_per_run": 0}, policy={"max_per_run": 0, "severity": "soft"})
    workflow = report(now, asked).workflows[0]
    assert ([g.outcome for g in workflow.gates], workflow.outcome) == (["pass", "fail"], "pass")


def test_failing_runs_bring_the_steps_that_their_measure_cites() -> None:
    now = Literal([run("a", policy=2.0), run("b", policy=0.0)], cites=(4, 9))
    found = decision(now, policy={"max_per_run": 0})
    (case,) = found.failing
    assert (case.case, case.steps, case.evidence) == ("a", (4, 9), "policy of a")
    assert case.ids == (now.id(0),)


def test_the_gravest_outcome_speaks_for_all() -> None:
    assert gravest_outcome(("pass", "undecided", "not_run")) == "undecided"
    assert gravest_outcome(()) == "not_run"
