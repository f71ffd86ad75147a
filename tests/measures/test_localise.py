"""A failed run gets every step of the agent with a share and evidence; other runs get none."""

from __future__ import annotations

import sys
from math import exp, isfinite

import pytest

from stepscope.measures.localise import (
    FACTORS,
    LOCALISE,
    NOTHING_FOUND,
    find_evidence,
    log_factors,
    read_table,
)
from stepscope.measures.step_features import (
    FAMILIES,
    NAMES,
    PLACE_NAMES,
    Family,
    family_of,
    place_features,
    step_features,
)
from stepscope.model import (
    Case,
    Facts,
    Outcome,
    Part,
    Step,
    StepKind,
    ToolCall,
    Trajectory,
    Verdict,
)
from tests.factories import (
    FAILED,
    PASSED,
    agent,
    calls,
    did,
    failed,
    goal,
    result,
    run,
    system,
    user,
)
from tests.measures.answers import label, labels, value, whole


def said(text: str, *, by: str = "Worker", kind: StepKind = "message") -> Step:
    return Step(index=0, actor="agent", kind=kind, agent=by, parts=(Part("text", text),))


def printed(text: str, error: str | None = None) -> Step:
    return Step(index=0, actor="environment", parts=(Part("text", text),), error=error)


def kinds(made: Trajectory, case: Case | None = None, facts: Facts | None = None) -> set[str]:
    """Return `kind@step` of every step where something was found."""
    named = labels(LOCALISE, made, case, facts).items()
    return {f"{kind}@{step}" for step, kind in named if kind != "place"}


def ranked(made: Trajectory, case: Case | None = None) -> list[Verdict]:
    answers = [a for a in LOCALISE(made, case, None) if isinstance(a, Verdict)]
    return [a for a in answers if a.step is not None]


def factors(made: Trajectory) -> list[float]:
    return [exp(log) for log in log_factors(made, find_evidence(made))]


CODE = said("```python\nlook()\n```")
WRONG = printed("exitcode: 1\nTraceback\nValueError: no such page", "exitcode: 1")


@pytest.mark.parametrize(
    ("outcome", "kind"), [(PASSED, "not_applicable"), (Outcome(), "missing_input")]
)
def test_only_failed_runs_have_suspects(outcome: Outcome, kind: str) -> None:
    made = run(user("hi"), *failed("get"), outcome=outcome)
    assert value(whole(LOCALISE, made)["localise"]) == kind
    assert labels(LOCALISE, made) == {}


def test_a_failed_run_without_a_step_of_the_agent_is_unmeasured() -> None:
    found = whole(LOCALISE, run(user("hi"), outcome=FAILED))["localise"]
    assert label(found) == "not_applicable"


def test_the_last_step_is_suspicious_where_nothing_else_is() -> None:
    made = run(user("hi"), agent("hello"), user("bye"), agent("bye"), outcome=FAILED)
    assert kinds(made) == {"end@3"}


def test_every_step_of_the_agent_is_ranked_has_a_reason_and_cites_itself() -> None:
    made = run(user("x"), *failed("get", id=1), *did("pay", usd=3), agent("done"), outcome=FAILED)
    each = ranked(made)
    assert {a.step for a in each} == {1, 3, 5}
    assert all(a.reason and a.step in a.cites for a in each)
    assert sum(exp(a.value) for a in each if a.value is not None) == pytest.approx(1)
    assert [a.value for a in each] == sorted((a.value for a in each if a.value), reverse=True)
    answer = whole(LOCALISE, made)["localise"]
    assert isinstance(answer, Verdict)
    assert answer.value == 3


def test_nothing_is_cut_from_a_long_list() -> None:
    made = run(*[step for n in range(30) for step in failed("get", id=n)], outcome=FAILED)
    assert len(ranked(made)) == 30


def test_a_run_of_one_step_has_all_the_suspicion_there() -> None:
    (only,) = ranked(run(agent("done"), outcome=FAILED))
    assert (only.step, only.value) == (0, 0.0)


def test_a_step_without_text_is_ranked_too() -> None:
    made = run(Step(index=0, actor="agent"), Step(index=1, actor="agent"), outcome=FAILED)
    assert {a.step for a in ranked(made)} == {0, 1}


@pytest.mark.parametrize(
    ("steps", "family"),
    [
        ((user("hi"), *did("get")), "calls"),
        ((user("hi"), said("first this", kind="plan"), said("ok")), "search"),
        ((user("hi"), agent("ok")), "dialogue"),
        ((user("plan this"), agent("planned")), "dialogue"),
    ],
)
def test_no_step_of_the_agent_has_the_share_of_the_family_of_runs(
    steps: tuple[Step, ...], family: Family
) -> None:
    made = run(*steps, outcome=FAILED)
    answer = whole(LOCALISE, made)["localise.nobody"]
    assert isinstance(answer, Verdict)
    assert (family_of(made), answer.label) == (family, family)
    assert answer.value == {"calls": 0.36667, "search": 0.01562, "dialogue": 0.025}[family]


def test_the_table_has_a_weight_for_every_feature_and_the_factors() -> None:
    table = read_table()
    assert {len(table.weights[family]) for family in FAMILIES} == {len(NAMES) + 1}
    assert all(table.weights[family][-1] > 0.5 for family in FAMILIES)


def test_features_are_finite_and_name_nobody() -> None:
    made = run(user("x"), said("I cannot.", by="Bob"), printed("no"), said("So.", by="Eve"))
    renamed = run(user("x"), said("I cannot.", by="A"), printed("no"), said("So.", by="B"))
    assert step_features(made) == step_features(renamed)
    assert all(isfinite(value) for row in step_features(made) for value in row)
    assert [len(row) for row in step_features(made)] == [len(NAMES)] * 2


def test_places_are_the_first_columns_of_all_features() -> None:
    made = run(user("x"), *did("get"), said("I cannot."), said("go", kind="plan"))
    assert place_features(made) == [row[: len(PLACE_NAMES)] for row in step_features(made)]
    assert place_features(run(user("x"))) == step_features(run(user("x"))) == []


def test_a_step_with_nothing_found_says_so_or_what_stands_around_it() -> None:
    made = run(user("name the river of Paris"), agent("well"), agent("ok"), outcome=FAILED)
    reasons = {a.step: a.reason for a in ranked(made) if a.label == "place"}
    assert reasons == {1: "its first message leaves out part of what was asked for"}
    asked = run(user("hi"), agent("so it is"), agent("well well"), outcome=FAILED)
    assert {a.reason for a in ranked(asked) if a.label == "place"} == {NOTHING_FOUND}


WRITES = Case(workflow="shop", task="1", subgoals=(goal("cancel", id="A"), goal("refund", usd=5)))


@pytest.mark.parametrize(
    ("steps", "case", "expected"),
    [
        ((*failed("get"), agent("no")), None, {"failed@0", "end@2"}),
        ((*failed("get"), *did("find"), agent("ok")), None, {"failed@0", "ignored@2", "end@4"}),
        ((*failed("get"), *failed("get")), None, {"failed@0", "failed@2"}),
        ((*did("get"), *did("get"), agent("ok")), None, {"repeat@2", "end@4"}),
        ((*did("get", id=7), *did("get", id=8), agent("ok")), None, {"end@4"}),
        (did("cancel", id="B"), WRITES, {"wrong_write@0"}),
        (did("delete", id="A"), WRITES, {"other_write@0"}),
        (did("cancel", id="A"), WRITES, {"unconfirmed@0"}),
        (did("transfer_to_human_agents"), WRITES, {"gave_up@0"}),
        (did("transfer_to_human_agents"), None, {"end@0"}),
        (did("cancel", id="B"), None, {"unconfirmed@0"}),
    ],
)
def test_calls_are_suspicious_for_what_came_of_them_and_what_was_asked(
    steps: tuple[Step, ...], case: Case | None, expected: set[str]
) -> None:
    assert kinds(run(*steps, outcome=FAILED), case) == expected


def test_an_argument_from_nowhere_is_suspicious_and_one_that_was_said_is_not() -> None:
    made = run(user("order #W12345"), *did("get", order_id="#W99999"), outcome=FAILED)
    assert kinds(made) == {"invented@1"}
    assert kinds(run(user("order #W99999"), *did("get", order_id="#W99999"), outcome=FAILED)) == {
        "end@1"
    }


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((CODE, WRONG, said("So it is Paris.")), {"failed@1", "ignored@3"}),
        ((CODE, WRONG, CODE), {"failed@1", "repeat@3"}),
        ((CODE, printed("exitcode: 0\nCode output: \n"), said("Fine.")), {"empty@1", "end@3"}),
        ((CODE, printed("exitcode: 0\nCode output: 7\n"), said("Fine.")), {"code@1", "end@3"}),
        ((said("Let us assume so."), said("Fine.")), {"assumed@1", "end@2"}),
        ((said("I cannot open it."), said("Fine.")), {"cannot@1", "end@2"}),
        ((said("Prices: $120, $340."), said("Fine.")), {"unsourced@1", "end@2"}),
        ((said("Prices: $120, $340, see https://a.b"), said("Fine.")), {"end@2"}),
        ((said("One price: $120."), said("Fine.")), {"end@2"}),
        ((printed("$120 and $340"), said("Prices: $120, $340."), said("Fine.")), {"end@3"}),
        ((said("Let me look at it."), said("Let me  look at it.")), {"repeat@2"}),
        ((said("Go on."), said("Go on.")), {"end@2"}),
    ],
)
def test_words_are_suspicious_for_what_came_of_them_and_what_backs_them(
    steps: tuple[Step, ...], expected: set[str]
) -> None:
    assert kinds(run(said("Task."), *steps, outcome=FAILED)) == expected


def test_a_planner_that_sees_no_progress_accuses_the_worker_before_it() -> None:
    ledger = '{"is_progress_being_made": {"reason": "none", "answer": %s}}'
    made = run(
        user("find it"),
        said("I typed it in."),
        said(ledger % "false", by="Planner", kind="plan"),
        said("Stalled.... Replanning...", by="Planner", kind="plan"),
        said("I clicked."),
        said(ledger % "true", by="Planner", kind="plan"),
        outcome=FAILED,
    )
    assert kinds(made) == {"stuck@1", "replan@3", "end@5"}
    (stuck,) = [s for s in ranked(made) if s.label == "stuck"]
    assert stuck.cites == (1, 2)


def test_runs_with_calls_are_not_judged_by_their_words() -> None:
    made = run(user("x"), agent("I cannot assume so."), *did("get"), agent("ok"), outcome=FAILED)
    assert kinds(made) == {"end@4"}


def test_an_agent_that_serves_a_user_is_not_judged_by_its_words_though_it_calls_nothing() -> None:
    asked = "If you are unable to find the id, I cannot change it."
    talk = user("change it"), agent(asked), user("I am not able to."), agent("Bye.")
    made = run(*talk, outcome=FAILED)
    assert kinds(made) == {"end@3"}
    assert family_of(made) == "calls"


def test_a_kind_counts_most_where_it_comes_first() -> None:
    made = run(said("Task."), said("I cannot."), said("I cannot!"), said("Fine."), outcome=FAILED)
    assert factors(made) == pytest.approx([1.0, 1.5, 1.25, 1.2])


def test_entries_that_organise_are_suspected_less() -> None:
    made = run(said("hm"), said("so", kind="plan"), said("go", kind="handoff"), outcome=FAILED)
    assert factors(made) == pytest.approx([1.0, 0.2, 0.12])


def test_parallel_calls_that_fail_alike_count_once_a_step() -> None:
    two = calls(ToolCall("get", {"id": 1}, "a"), ToolCall("get", {"id": 2}, "b"))
    answers = [result("Error: no", "error", call_id=id_) for id_ in "ab"]
    made = run(two, *answers, agent("sorry"), outcome=FAILED)
    assert ranked(made)[0].reason.count("fails") == 1
    assert factors(made) == pytest.approx([2.0, 1.2])


def test_steps_that_are_not_the_agents_are_never_ranked() -> None:
    made = run(system("s"), user("cannot"), *failed("get"), result("late", "error"), outcome=FAILED)
    assert {s.step for s in ranked(made)} == {2}


def test_factors_never_speak_for_a_step() -> None:
    assert all(factor >= 1.0 for factor in FACTORS.values())


@pytest.mark.parametrize(
    "turn",
    [
        did("get", id=1),
        failed("get", id=1),
        (said("I cannot get 1,200 and 3,400."), printed("no")),
        (said("```\nlook()\n```"), printed("Code output: None")),
    ],
)
def test_ten_times_the_steps_take_ten_times_the_calls(
    turn: tuple[Step, ...],
) -> None:
    def looked_at(turns: int) -> int:
        count = 0

        def tick(*_: object) -> None:
            nonlocal count
            count += 1

        made = run(user("x"), *(turn * turns), outcome=FAILED)
        sys.setprofile(tick)
        try:
            list(LOCALISE(made, None, None))
        finally:
            sys.setprofile(None)
        return count

    assert looked_at(800) < 11 * looked_at(80)
