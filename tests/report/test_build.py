from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

from stepscope.errors import StoreError, UsageError
from stepscope.formats.reading import read_files
from stepscope.model import Trajectory, Verdict
from stepscope.model.records import Figure
from stepscope.report.build import build_report
from stepscope.report.rows import read_table
from stepscope.report.words import find_profile, name_group
from stepscope.safety.text import render_json
from stepscope.score import score_runs
from stepscope.store import Store
from stepscope.store.where import parse_where
from stepscope.values import Estimate, Unmeasured
from tests.factories import PASSED
from tests.report import made_panels
from tests.report.made_pages import read_runs
from tests.report.rows import ABSENT, MISSING, LiteralRows, rows


def estimate(figure: Figure) -> Estimate:
    assert isinstance(figure, Estimate)
    return figure


def eight(**more: list[float | None]) -> LiteralRows:
    """Two trials of each of four tasks: one task always passes, one never, two sometimes."""
    tasks = [str(at // 2) for at in range(8)]
    outcome: list[float | None] = [1, 1, 1, 0, 0, 1, 0, 0]
    return LiteralRows(tasks, values={"outcome": outcome, **more})


def test_every_figure_has_its_key_whether_measured_or_not() -> None:
    assert list(build_report(rows(eight())).whole.figures) == [
        "outcome.pass",
        "outcome.pass^2",
        "subgoals.reached",
        "redundant_calls.per_run",
        "errors.recovered",
        "policy.violations",
        "steps.median",
        "steps.p95",
        "tokens.median",
        "cost_usd.median",
        "cost_usd.p95",
        "seconds.median",
        "seconds.p95",
        "axes.tool_selection",
        "axes.argument_validity",
        "axes.sequencing",
        "axes.result_interpretation",
        "axes.termination",
    ]


def test_trials_of_a_task_are_a_cluster() -> None:
    report = build_report(rows(eight()))
    assert estimate(report["outcome.pass"]).value == 0.5
    assert (estimate(report["outcome.pass"]).n, estimate(report["outcome.pass"]).n_tasks) == (8, 4)
    assert estimate(report["outcome.pass^2"]).value == 0.25
    trials = report.whole.trials
    assert trials is not None
    assert (trials.always, trials.mixed, trials.never) == (1, 2, 1)


def test_what_was_not_measured_is_counted_by_kind_and_bounded() -> None:
    values: list[float | None] = [1, 1, 1, 0, 0, 1, None, None]
    report = build_report(
        rows(LiteralRows(list("aabbccdd"), values={"outcome": values}, absent={"outcome": MISSING}))
    )
    passing = estimate(report["outcome.pass"])
    assert passing.unmeasured == {"missing_input": 2}
    assert (passing.value, passing.worst_low, passing.worst_high) == (4 / 6, 0.5, 0.75)


def test_a_run_without_a_record_is_not_scored_and_the_next_command_says_so() -> None:
    report = build_report(rows(LiteralRows(list("abc"), values={"outcome": [1, 0, None]})))
    assert estimate(report["outcome.pass"]).unmeasured == {"not_scored": 1}
    assert report.next[0] == "stepscope score"


def test_an_undeclared_policy_is_unmeasured_not_zero() -> None:
    literal = LiteralRows(list("abc"), values={"policy": [None] * 3}, absent={"policy": MISSING})
    figure = build_report(rows(literal))["policy.violations"]
    assert figure == Unmeasured("missing_input", "no rules in settings")


def test_inputs_that_were_not_recorded_are_counted_by_kind() -> None:
    labels: dict[str, Sequence[str | None]] = {
        "completeness.tools": ["recorded", "not_recorded", "cut", "recorded", "not_recorded", None],
        "completeness.task": ["recorded"] * 6,
    }
    found = build_report(rows(LiteralRows(list("abcdef"), labels=labels))).whole.inputs
    assert {one.input: (one.runs, list(one.lost.items())) for one in found} == {
        "task": (6, []),
        "tools": (5, [("cut", 1), ("not_recorded", 2)]),
    }


def test_recovery_is_per_error_not_per_run() -> None:
    errors: list[float | None] = [4, 0, 0, 0, 1, 0, 1, 0]
    recovered_of: list[float | None] = [1, None, None, None, 1, None, 1, None]
    literal = eight(errors=errors)
    literal.values["recovery.recovered"] = recovered_of
    report = build_report(rows(literal))
    recovered = estimate(report["errors.recovered"])
    assert (recovered.value, recovered.n, recovered.unit_of_n) == (0.5, 6, "errors")
    assert (
        report.whole.notes["errors.recovered"]
        == "3 runs had errors; no error was injected on purpose"
    )


def test_outcome_against_sub_goals_names_both_kinds_of_disagreement() -> None:
    report = build_report(rows(eight(subgoals=[1, 1, 0.5, 0, 0, 1, 1, None])))
    table = report.whole.earned[0]
    assert (table.passed, table.failed, table.unmeasured) == ((3, 1), (1, 2), 1)
    assert report.whole.lucky == ()  # a sub-goal missed in the letter proves nothing
    assert [(run.name, run.reason) for run in report.whole.unlucky] == [
        ("w/006", "every sub-goal reached")
    ]


def test_grades_that_never_disagree_are_too_loose_from_59_runs() -> None:
    def loose(n: int) -> str:
        passed: list[float | None] = [float(at % 2) for at in range(n)]
        literal = LiteralRows(
            [str(at) for at in range(n)], values={"outcome": passed, "subgoals": passed}
        )
        return build_report(rows(literal)).whole.too_loose.outcome

    assert (loose(59), loose(58)) == ("fail", "pass")


def test_the_too_loose_warning_names_the_path_figures_that_it_used() -> None:
    passed: list[float | None] = [float(at % 2) for at in range(90)]
    broken: list[float | None] = [float(at % 2 == 0) for at in range(90)]

    def said(**values: list[float | None]) -> str:
        literal = LiteralRows([str(at) for at in range(90)], values={"outcome": passed, **values})
        return build_report(rows(literal)).whole.too_loose.reason

    ends = "disagree in at most 3% of runs: this grade of the path is too loose to add anything"
    goals = "outcome and path, graded by 'sub-goals reached', "
    assert said(subgoals=passed, axes=passed) == goals + ends
    both = "outcome and path, graded by 'sub-goals reached' and 'runs that break the policy', "
    assert said(subgoals=passed, policy=broken) == both + ends


def test_trials_of_one_task_do_not_make_a_grade_too_loose() -> None:
    def loose(tasks: int) -> str:
        passed: list[float | None] = [float(at % 2) for at in range(4 * tasks)]
        literal = LiteralRows(
            [str(at // 4) for at in range(4 * tasks)],
            values={"outcome": passed, "subgoals": passed},
        )
        return build_report(rows(literal)).whole.too_loose.outcome

    assert (loose(59), loose(58)) == ("fail", "pass")  # 232 runs, of 58 tasks


def test_two_versions_of_a_measure_are_refused_with_the_command_that_helps() -> None:
    literal = LiteralRows(list("ab"), values={"outcome": [1, 0]}, versions={"outcome": ("1", "2")})
    with pytest.raises(StoreError, match=r"versions 1, 2, .*stepscope score --measure outcome"):
        build_report(rows(literal))


def test_each_agent_has_its_own_vector() -> None:
    literal = LiteralRows(
        list("abcd") * 2,
        agents=["x"] * 4 + ["y"] * 4,
        values={"outcome": [1, 1, 1, 0, 0, 0, 0, 1]},
    )
    report = build_report(rows(literal))
    assert estimate(find_profile(report, "x")["outcome.pass"]).value == 0.75
    assert estimate(find_profile(report, "y")["outcome.pass"]).value == 0.25
    assert estimate(report["outcome.pass"]).value == 0.5
    with pytest.raises(UsageError, match="0 groups match 'z'"):
        find_profile(report, "z")


def test_no_run_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(UsageError, match="the store has no runs; read some with"):
        build_report(rows(LiteralRows([])))


def test_by_takes_fields_only() -> None:
    with pytest.raises(UsageError, match="--by 'mood' is not a field"):
        build_report(rows(eight()), by="mood")


def test_a_tag_makes_groups_and_runs_without_it_are_one_of_their_own() -> None:
    literal = LiteralRows(
        [str(at) for at in range(6)],
        values={"outcome": [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]},
        tags={"set": ["dev", "dev", "test", "test", None, None]},
    )
    found = build_report(rows(literal), by="tag.set")
    assert [(name_group(p), p.n_runs) for p in found.profiles] == [
        ("dev", 2),
        ("test", 2),
        ("no tag.set", 2),
    ]
    figure = find_profile(found, "dev")["outcome.pass"]
    assert isinstance(figure, Estimate)
    assert figure.value == 1.0


def test_chosen_rows_keep_their_own_tags() -> None:
    literal = LiteralRows(["1", "2", "3"], tags={"set": ["a", "b", "c"]})
    table = read_table(rows(literal), None, ["tag.set"])
    assert table.take(np.array([2, 0])).values("tag.set").tolist() == ["c", "a"]


@pytest.mark.parametrize(
    ("by", "message"), [("tag.", "is not a field"), ("tag.sett", "no run has the tag 'sett'")]
)
def test_a_tag_that_no_run_has_makes_no_groups(by: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build_report(rows(LiteralRows(["1", "2"], tags={"set": ["a", "b"]})), by=by)


def test_one_run_is_a_value_whose_interval_is_absent_with_a_reason() -> None:
    figure = build_report(rows(LiteralRows(["a"], values={"outcome": [1]})))["outcome.pass"]
    assert isinstance(figure, Estimate)
    assert (figure.value, figure.n, figure.low) == (1.0, 1, None)
    assert figure.no_interval == "no interval: one task"
    nothing = build_report(rows(LiteralRows(["a"])))["outcome.pass"]
    assert isinstance(nothing, Unmeasured)


def test_a_run_without_a_task_is_its_own_cluster() -> None:
    literal = LiteralRows(
        [None, None, None], values={"outcome": [1, 0, 0], "subgoals": [None] * 3},
        absent={"subgoals": ABSENT},
    )  # fmt: skip
    assert estimate(build_report(rows(literal))["outcome.pass"]).n_tasks == 3


def test_tasks_of_two_workflows_are_different_tasks() -> None:
    literal = LiteralRows(
        ["1", "2", "1", "2"], values={"outcome": [1, 0, 0, 1]}, workflows=["a", "a", "b", "b"]
    )
    report = build_report(rows(literal))
    assert report.whole.n_tasks == 4
    assert [name_group(p) for p in report.profiles] == ["a", "b"]


def test_no_tool_error_is_not_applicable_and_needs_no_table() -> None:
    report = build_report(rows(eight(errors=[0] * 8)))
    assert report["errors.recovered"] == Unmeasured("not_applicable", "no tool error")
    assert report.whole.earned == ()


def test_one_group_carries_its_name_but_no_absent_agent() -> None:
    assert [name_group(p) for p in build_report(rows(eight())).profiles] == ["w"]


def test_errors_against_outcome_count_runs_without_any_as_their_own_column() -> None:
    errors: list[float | None] = [0, 1, 2, 0, 1, 1, None, 2]
    literal = eight(errors=errors, recovery=[None, 1, 0.5, None, 0, 1, None, 1])
    table = build_report(rows(literal)).whole.earned[0]
    assert table.grade == "errors"
    assert table.columns == ("no error", "all recovered", "some not")
    assert (table.passed, table.failed, table.unmeasured) == ((1, 2, 1), (1, 1, 1), 1)


def test_one_broken_rule_makes_a_run_in_breach_and_its_pass_unearned() -> None:
    report = build_report(rows(eight(policy=[1, 0, 0, 0, 2, 0, 0, 0])))
    assert estimate(report["policy.violations"]).value == 0.25
    assert [run.name for run in report.whole.lucky] == ["w/000"]
    assert report.whole.lucky[0].reason == "1 violations"


def test_runs_whose_errors_nobody_knows_are_counted_against_recovery() -> None:
    literal = eight(errors=[2, None, 1, 0, 0, 1, 0, 1])
    literal.values["recovery.recovered"] = [1, None, 1, None, None, 0, None, 1]
    literal.absent["errors"] = MISSING
    assert estimate(build_report(rows(literal))["errors.recovered"]).unmeasured == {
        "missing_input": 1
    }


def test_powers_of_more_trials_than_eight_are_left_out() -> None:
    outcome: list[float | None] = [1.0, 1.0, 0.0, 1.0, 1.0] * 4
    report = build_report(rows(LiteralRows(["a"] * 10 + ["b"] * 10, values={"outcome": outcome})))
    assert [k for k in report.whole.figures if "^8" in k or "^9" in k] == ["outcome.pass^8"]


def test_a_report_whose_runs_were_never_scored_says_so_everywhere() -> None:
    report = build_report(rows(LiteralRows(list("ab"), values={"outcome": [None, None]})))
    assert report["outcome.pass"] == Unmeasured("insufficient_data", "run `stepscope score`")
    assert "2 runs never scored" in report.not_claimed


@pytest.fixture(scope="module")
def airline(shared: Path) -> Store:
    store = Store.open(":memory:")
    for reading in read_files([str(shared / "taubench" / "airline" / "runs.json")]):
        store.put(run for run in reading if isinstance(run, Trajectory))
    score_runs(store)
    return store


@pytest.mark.shared_data
def test_the_airline_figures_are_those_of_the_recorded_runs(airline: Store) -> None:
    report = build_report(airline)
    powers = [estimate(report[f"outcome.pass{k}"]).value for k in ("", "^2", "^3", "^4")]
    assert [round(value, 4) for value in powers] == [0.42, 0.2733, 0.22, 0.2]
    recovered = estimate(report["errors.recovered"])
    assert (recovered.n, report.whole.notes["errors.recovered"]) == (
        73,
        "36 runs had errors; no error was injected on purpose",
    )
    trials = report.whole.trials
    assert trials is not None
    assert (trials.always, trials.mixed, trials.never) == (10, 26, 14)


@pytest.mark.shared_data
def test_every_airline_run_is_clean_or_has_a_suspect_with_evidence(airline: Store) -> None:
    runs = build_report(airline, look_first=None).look_first
    assert len(runs) == 200
    assert {run.verdict for run in runs} == {"clean", "suspects"}
    assert all(s.evidence and s.first <= s.last < r.steps for r in runs for s in r.suspects)


@pytest.mark.shared_data
def test_the_same_rows_give_the_same_bytes(airline: Store) -> None:
    where = parse_where("trial = '0'")
    assert render_json(build_report(airline, where=where)) == render_json(
        build_report(airline, where=where)
    )


def test_a_secret_in_the_name_of_a_run_is_on_no_line_and_in_no_row() -> None:
    held = [
        msgspec.structs.replace(one, name=f"{one.task} ghp_{'a1B2' * 9}")
        for one in made_panels.runs(2, outcome=PASSED)
    ]
    known = [made_panels.said("rules", one, Verdict("outcome", 1.0)) for one in held]
    faults = made_panels.axes("rules", held, "xx")
    with made_panels.store_of(held, known, faults) as store:
        store.redact()
        names = [line.name for line in build_report(store).whole.lucky]
        names += [row.name for row in read_runs(store)]
    assert [name.partition(":")[0] for name in names] == [
        "0 [secret", "1 [secret", "0 [secret", "1 [secret",
    ]  # fmt: skip
