"""A failed run gets a ranked list of steps, each with evidence; other runs get none."""

from __future__ import annotations

import pytest

from stepscope.measures.localise import FACTORS, LOCALISE, LONGEST_LIST, find_suspects
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
    """Return `kind@step` of every named step."""
    return {f"{kind}@{step}" for step, kind in labels(LOCALISE, made, case, facts).items()}


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


def test_the_last_step_is_named_where_nothing_else_is() -> None:
    made = run(user("hi"), agent("hello"), user("bye"), agent("bye"), outcome=FAILED)
    assert kinds(made) == {"end@3"}


def test_every_named_step_has_a_reason_and_cites_itself() -> None:
    made = run(user("x"), *failed("get", id=1), *did("pay", usd=3), agent("done"), outcome=FAILED)
    answers = [a for a in LOCALISE(made, None, None) if isinstance(a, Verdict)]
    each = [a for a in answers if a.step is not None]
    assert len(each) == answers[0].value == 3
    assert all(a.reason and a.step in a.cites for a in each)
    assert all(a.value is not None and 0 < a.value < 1 for a in each)
    assert [a.value for a in each] == sorted((a.value for a in each if a.value), reverse=True)


def test_the_list_is_no_longer_than_a_person_reads() -> None:
    made = run(*[step for n in range(30) for step in failed("get", id=n)], outcome=FAILED)
    assert len(labels(LOCALISE, made)) == LONGEST_LIST
    assert len(find_suspects(made)) == 30


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
    (stuck,) = [s for s in find_suspects(made) if s.label == "stuck"]
    assert stuck.cites == (1, 2)


def test_runs_with_calls_are_not_judged_by_their_words() -> None:
    made = run(user("x"), agent("I cannot assume so."), *did("get"), agent("ok"), outcome=FAILED)
    assert kinds(made) == {"end@4"}


def test_a_kind_counts_most_where_it_comes_first() -> None:
    made = run(said("Task."), said("I cannot."), said("I cannot!"), said("Fine."), outcome=FAILED)
    first, second = find_suspects(made)[:2]
    assert (first.step, second.step) == (1, 2)
    assert first.value == pytest.approx(1.5 / (1.0 + 1.5 + 1.25 + 1.2))


def test_without_labels_the_prior_is_flat_but_for_entries_that_organise() -> None:
    made = run(said("I cannot.", kind="message"), said("I cannot.", kind="message"), outcome=FAILED)
    by_step = {s.step: s.value for s in find_suspects(made)}
    assert by_step == {1: pytest.approx(1.8 / 2.8)}
    planned = run(user("x"), said("hm"), said("so", kind="plan"), outcome=FAILED)
    assert find_suspects(planned)[0].value == pytest.approx(0.24 / 1.24)


LEARNED = Facts(positions={"labels": 20, "at.2": 15, "steps./message": 80, "who./message": 20})


def test_an_index_that_labels_name_is_evidence_and_says_how_many() -> None:
    steps = (user("a"), agent("b"), agent("c"), agent("d"))
    ranked = find_suspects(run(*steps, outcome=FAILED), facts=LEARNED)
    assert (ranked[0].step, ranked[0].label) == (2, "position")
    assert ranked[0].reason == "15 of 20 labels of this workflow name step 2"


@pytest.mark.parametrize(("n", "named"), [(7, {3}), (8, {2, 3})])
def test_fewer_than_eight_labels_say_nothing(n: int, named: set[int]) -> None:
    table = {"labels": n, "at.2": n, "steps./message": n, "who./message": n}
    steps = (user("a"), agent("b"), agent("c"), agent("d"))
    ranked = find_suspects(run(*steps, outcome=FAILED), facts=Facts(positions=table))
    assert {suspect.step for suspect in ranked} == named
    assert (ranked[0].value == pytest.approx(1.2 / 3.2)) is (n == 7)


def test_parallel_calls_that_fail_alike_count_once_a_step() -> None:
    two = calls(ToolCall("get", {"id": 1}, "a"), ToolCall("get", {"id": 2}, "b"))
    answers = [result("Error: no", "error", call_id=id_) for id_ in "ab"]
    (only,) = find_suspects(run(two, *answers, outcome=FAILED))
    assert only.reason.count("fails") == 1
    once = find_suspects(run(two, *answers, agent("sorry"), outcome=FAILED))
    assert once[0].value == pytest.approx(2.0 / 3.2)


def test_answers_depend_on_the_table_of_positions() -> None:
    assert "positions" in LOCALISE.learns
    assert Facts().hash_of(("positions",)) != LEARNED.hash_of(("positions",))


def test_steps_that_are_not_the_agents_are_never_named() -> None:
    made = run(system("s"), user("cannot"), *failed("get"), result("late", "error"), outcome=FAILED)
    assert {s.step for s in find_suspects(made)} == {2}


def test_factors_never_speak_for_a_step() -> None:
    assert all(factor >= 1.0 for factor in FACTORS.values())
