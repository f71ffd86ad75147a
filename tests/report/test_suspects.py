from __future__ import annotations

from math import log

import msgspec
import pytest

from stepscope import registry
from stepscope.measures.localise import LOCALISE
from stepscope.model import (
    Case,
    Outcome,
    PolicyRule,
    Record,
    ReferenceCall,
    Step,
    SubGoal,
    Trajectory,
    Verdict,
)
from stepscope.report.rows import sort_findings
from stepscope.report.suspects import list_suspects
from stepscope.report.words import describe_call, name_steps
from tests.report.literal import HOSTILE, call, case, render_run, result, said, trajectory

WRITES = SubGoal("book", "book", {"to": "SEA", "seats": 2})


def records(run: Trajectory, against: Case | None = None) -> list[Record]:
    """Score a run with all rules but `localise`: what was found, in reading order."""
    return [r for r in scored(run, against) if not r.answer.measure.startswith("localise")]


def scored(run: Trajectory, against: Case | None = None) -> list[Record]:
    return [
        Record(trajectory=run.id, answer=answer, version=measure.version)
        for measure in registry.installed_measures()
        for answer in measure(run, against, None)
    ]


def found(run: Trajectory, against: Case | None = None) -> list[tuple[str, str, str]]:
    """What is found without the axes: their faults lead every list."""
    held = [r for r in records(run, against) if not r.answer.measure.startswith("axes.")]
    marked = list_suspects(run, against, held).suspects
    return [(name_steps(s), s.kind, s.evidence) for s in marked]


def because(run: Trajectory, against: Case | None = None) -> str:
    return list_suspects(run, against, scored(run, against)).because


def ask() -> Step:
    return said(0, "user", "two seats to SEA")


def done(index: int) -> Step:
    return said(index, "agent", "Your seats are booked.")


def test_a_passing_run_with_nothing_found_is_clean() -> None:
    run = trajectory(
        ask(), call(1, "book", to="SEA", seats=2), result(2, "ok"), done(3), passed=True
    )
    assert found(run, case(WRITES)) == []


def test_the_same_error_to_the_end_is_one_suspect_over_the_range() -> None:
    steps = [ask()]
    for at in (1, 3, 5):
        steps += [call(at, "book", to="SEA", seats=2), result(at + 1, "Error: full", error=True)]
    assert found(trajectory(*steps))[0] == (
        "1-5",
        "error",
        "book fails 3 times with the same error, and the run ends on it: full",
    )


def test_an_error_that_is_accepted_later_ends_its_range_at_the_success() -> None:
    run = trajectory(
        ask(),
        call(1, "book", to="SEA", seats=2),
        result(2, "Error: pay 375", error=True),
        call(3, "book", to="SEA", seats=3),
        result(4, "Error: pay 376", error=True),
        call(5, "book", to="SEA", seats=4),
        result(6, "ok"),
        done(7),
    )
    assert found(run)[0] == (
        "1-5",
        "error",
        "book fails 2 times, then step 5 succeeds; last error: pay 376",
    )


def test_two_errors_with_one_exit_code_are_not_the_same_nor_mended_by_another_program() -> None:
    def observed(message: str) -> str:
        return f"<returncode>1</returncode>\n<output>\n{message}\n</output>"

    run = trajectory(
        ask(),
        call(1, "bash", command="cat lib.py"),
        result(2, observed("cat: lib.py: No such file"), error=True),
        call(3, "bash", command="cat app.py"),
        result(4, observed("cat: app.py: Permission denied"), error=True),
        call(5, "bash", command="ls"),
        result(6, "app.py"),
        done(7),
    )
    assert found(run)[0] == (
        "1-3",
        "error",
        "bash fails 2 times and never succeeds; last error: cat: app.py: Permission denied",
    )


def test_a_missed_sub_goal_points_at_the_nearest_attempt_and_says_what_differs() -> None:
    run = trajectory(ask(), call(1, "book", to="SEA", seats=3), result(2, "ok"), done(3))
    assert found(run, case(WRITES)) == [
        ("1", "missed", "book is not as expected: seats is 3, not 2"),
    ]


def test_a_sub_goal_tried_as_asked_but_refused_says_so() -> None:
    refused = [call(1, "book", to="SEA", seats=2), result(2, "Error: full", error=True)]
    kinds = found(trajectory(ask(), *refused, done(3)), case(WRITES))
    assert ("1", "missed", "book is as expected, but: refused: full") in kinds


def test_a_missed_sub_goal_without_an_attempt_is_why_the_run_failed_and_no_suspect() -> None:
    run = trajectory(ask(), call(1, "get_user", id="u-1"), result(2, "ok"), done(3))
    why = "the agent stopped after get_user at step 1 and never called book(SEA, ...)"
    assert because(run, case(WRITES)) == why
    assert [kind for _, kind, _ in found(run, case(WRITES)) if kind == "missed"] == []
    silent = trajectory(ask(), done(1))
    why = "the agent made no call at all: it never called book(SEA, ...)"
    assert because(silent, case(WRITES)) == why


def test_a_write_that_nothing_asks_for_is_a_suspect_even_in_a_passing_run() -> None:
    run = trajectory(
        ask(),
        call(1, "book", to="SEA", seats=2),
        result(2, "ok"),
        call(3, "cancel_order", id="R-17"),
        result(4, "ok"),
        done(5),
        passed=True,
    )
    shown = ("3", "other_write", "unexpected write: cancel_order(R-17)")
    assert found(run, case(WRITES)) == [shown]


@pytest.mark.parametrize(
    ("heard", "asked"),
    [
        ("Please cancel order R-17.", True),
        ("Yes, please.", False),  # who says yes has not asked for it
        ("Please cancel it.", False),  # which one is the agent's choice
        ("Please cancel order R-17? Actually, never mind.", False),
    ],
)
def test_a_write_that_the_user_asked_for_is_a_difference_from_the_reference(
    heard: str, *, asked: bool
) -> None:
    run = trajectory(
        said(0, "user", heard),
        call(1, "cancel_order", id="R-17"),
        result(2, "ok"),
        call(3, "cancel_order", id="R-99"),
        result(4, "ok"),
    )
    one = "the user requested this at step 0, but it is not in the reference: cancel_order(R-17)"
    one += "; not judged: whether the policy allows it"
    both = "unexpected write: cancel_order(R-17), cancel_order(R-99)"
    other = ("3", "other_write", "unexpected write: cancel_order(R-99)")
    wanted = [("1", "other_write", one), other] if asked else [("1-3", "other_write", both)]
    shown = found(run, case(WRITES))
    assert [line for line in shown if line[1] == "other_write"] == wanted
    # Where something is proved against it, the wish is no excuse.
    fault = Verdict("axes.sequencing", label="incorrect", step=1, reason="too early")
    held = [*records(run, case(WRITES)), Record(trajectory=run.id, answer=fault, version="1")]
    assert not [
        s for s in list_suspects(run, case(WRITES), held).suspects if "requested" in s.evidence
    ]


def test_an_output_never_told_is_why_the_run_failed_and_no_suspect() -> None:
    run = trajectory(ask(), call(1, "book", to="SEA", seats=2), result(2, "ok"), done(3))
    told = case(WRITES, outputs=("1,628",))
    assert because(run, told) == "the agent never told the user these values: 1,628"
    assert not [text for _, _, text in found(run, told) if "never told" in text]
    shown = render_run(run, told, scored(run, told))
    lines = shown.splitlines()
    (at,) = [
        n for n, line in enumerate(lines) if line.startswith("Failed because  the agent never told")
    ]
    assert lines[at + 1].startswith("Suspects")


def test_a_passing_run_failed_for_no_reason() -> None:
    run = trajectory(ask(), done(1), passed=True)
    assert because(run, case(WRITES, outputs=("1,628",))) == ""


def test_a_passing_outcome_excuses_an_error_that_was_got_over() -> None:
    run = trajectory(
        ask(),
        call(1, "book", to="SEA", seats=2),
        result(2, "Error: busy", error=True),
        call(3, "book", to="SEA", seats=2),
        result(4, "ok"),
        done(5),
        passed=True,
    )
    assert found(run, case(WRITES)) == []


def test_one_error_that_was_handled_weighs_less_than_a_missed_sub_goal() -> None:
    handled = [call(1, "look_up", id="u-1"), result(2, "Error: no", error=True)]
    handled += [call(3, "look_up", id="u-2"), result(4, "ok"), call(5, "book", to="SEA", seats=1)]
    run = trajectory(ask(), *handled, result(6, "ok"), done(7))
    assert [kind for _, kind, _ in found(run, case(WRITES))] == ["missed", "error"]
    left = [call(1, "look_up", id="u-1"), result(2, "Error: no", error=True)]
    left += [call(3, "book", to="SEA", seats=1), result(4, "ok"), done(5)]
    assert [kind for _, kind, _ in found(trajectory(ask(), *left), case(WRITES))] == [
        "error",
        "missed",
    ]


def test_an_error_that_the_user_was_told_of_weighs_less_than_a_missed_sub_goal() -> None:
    told = [call(1, "look_up", id="u-1"), result(2, "Error: no such user", error=True)]
    told += [said(3, "agent", "I am sorry, I get an error: there is no such user.")]
    told += [call(4, "book", to="SEA", seats=1), result(5, "ok"), done(6)]
    run = trajectory(ask(), *told)
    assert [kind for _, kind, _ in found(run, case(WRITES))] == ["missed", "error"]


def test_a_repeat_is_a_suspect_only_where_the_measure_said_so() -> None:
    asked = [call(1, "get_user", id="u-1"), result(2, "a")]
    run = trajectory(ask(), *asked, call(3, "get_user", id="u-1"), result(4, "a"), done(5))
    without = [r for r in records(run) if not r.answer.measure.startswith("redundant_calls")]
    assert [s.kind for s in list_suspects(run, None, records(run)).suspects] == ["repeat"]
    assert list_suspects(run, None, without).suspects == ()


def test_the_tool_that_failed_more_often_is_named_first() -> None:
    steps = [ask(), call(1, "a", x="one"), result(2, "Error: no", error=True)]
    steps += [call(3, "a", x="two"), result(4, "Error: no", error=True)]
    for at in (5, 7, 9):
        steps += [call(at, "b", x=f"try {at}"), result(at + 1, "Error: no", error=True)]
    named = [text.partition(" with")[0] for _, _, text in found(trajectory(*steps))[:2]]
    assert named == ["b fails 3 times", "a fails 2 times"]


def test_a_question_whose_answer_may_have_changed_is_no_repeat() -> None:
    run = trajectory(
        ask(),
        call(1, "get_user", id="u-1"),
        result(2, "a"),
        call(3, "update_user", id="u-1"),
        result(4, "b"),
        call(5, "get_user", id="u-1"),
        result(6, "c"),
        done(7),
    )
    assert [kind for _, kind, _ in found(run) if kind == "repeat"] == []


def test_what_judges_and_people_say_is_no_finding_of_the_rules() -> None:
    verdict = Verdict("errors", 1.0, cites=(1,))
    run = trajectory(ask(), done(1))
    for family, seen in (("human", {}), ("rules", {"errors": verdict})):
        record = Record(trajectory=run.id, answer=verdict, version="1", family=family)
        assert sort_findings([record]).whole == seen


def test_what_does_not_arise_is_not_listed_as_unmeasured() -> None:
    run = trajectory(ask(), done(1))
    shown = render_run(run, None, records(run))
    assert "policy" in shown.split("Unmeasured")[1]
    assert "recovery" not in shown


def test_a_run_marked_from_its_start_is_folded_nowhere() -> None:
    run = trajectory(ask(), call(1, "book", to="SEA"), result(2, "Error: full", error=True))
    assert "folded" not in render_run(run, None, records(run))
    later = trajectory(ask(), done(1), done(2), call(3, "book"), result(4, "Error: x", error=True))
    assert "folded" not in render_run(later, None, records(later))


def test_a_repeated_question_says_what_it_repeats() -> None:
    run = trajectory(
        ask(),
        call(1, "get_user", id="u-1"),
        result(2, "a"),
        call(3, "get_user", id="u-1"),
        result(4, "a"),
        done(5),
        passed=True,
    )
    against = Case(workflow="w", task="1", reference=(ReferenceCall("get_user", {"id": "u-1"}),))
    assert found(run, against) == [
        ("3", "repeat", "asks again what step 1 answered: get_user(u-1)")
    ]


def test_a_broken_rule_comes_first() -> None:
    run = trajectory(ask(), call(1, "book", to="SEA", seats=3), result(2, "ok"), done(3))
    ruled = Case(
        workflow="w",
        task="1",
        subgoals=(WRITES,),
        policy=(PolicyRule(name="no booking", forbid="book"),),
    )
    assert found(run, ruled)[0] == (
        "1",
        "violation",
        "breaks the rule 'no booking': book is forbidden; "
        "book is not as expected: seats is 3, not 2",
    )


@pytest.mark.parametrize("outcome", [Outcome(), Outcome("pass", "reward", 1.0)])
def test_what_is_proved_leads_the_list_of_a_run_that_did_not_fail(outcome: Outcome) -> None:
    steps = [ask()]
    for at in (1, 3):
        steps += [call(at, "book", to="SEA", seats=2), result(at + 1, "Error: full", error=True)]
    run = msgspec.structs.replace(trajectory(*steps, done(5)), outcome=outcome)
    proofs = [
        Record(
            trajectory=run.id,
            answer=Verdict(
                "axes.sequencing", label="incorrect", step=step, cites=(0, step), reason=why
            ),
            version="1",
        )
        for step, why in ((5, "ends before it is done"), (1, "books unasked"))
    ]
    rest = [r for r in records(run) if not r.answer.measure.startswith("axes.")]
    shown = list_suspects(run, None, [*rest, *proofs]).suspects
    assert [(name_steps(s), s.kind, s.evidence, s.cites) for s in shown[:2]] == [
        ("1", "fault", "books unasked", (0, 1)),
        ("5", "fault", "ends before it is done", (0, 5)),
    ]
    assert [(name_steps(s), s.kind) for s in shown[2:]] == [("1-3", "error")]
    assert all(s.share is None for s in shown)


def test_what_changed_nothing_stands_behind_what_was_told() -> None:
    run = trajectory(ask(), call(1, "find", user="x"), result(2, "ok"), done(3))
    proofs = [
        Record(trajectory="r1", answer=Verdict(axis, label="incorrect", step=step, cites=(step,),
               reason="wrong"), version="1")
        for axis, step in (("axes.argument_validity", 1), ("axes.result_interpretation", 3))
    ]  # fmt: skip
    assert [one.first for one in list_suspects(run, None, proofs).suspects] == [3, 1]


@pytest.mark.parametrize("width", [80, 100])
def test_show_fits_its_width_and_lets_no_hostile_text_act(width: int) -> None:
    run = trajectory(
        said(0, "user", HOSTILE * 20),
        call(1, "book", to=HOSTILE * 20, seats=2),
        result(2, f"Error: {HOSTILE}", error=True),
        call(3, "book", to="SEA", seats=3),
        result(4, HOSTILE * 9),
        said(5, "agent", HOSTILE),
    )
    shown = render_run(run, case(WRITES), records(run, case(WRITES)), width=width)
    assert max(map(len, shown.splitlines())) <= width
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_show_reads_like_the_products_example() -> None:
    steps = [said(0, "system", "# Policy"), said(1, "user", "hello"), done(2), ask()]
    run = trajectory(
        *(s if s.index == at else said(at, s.actor, s.text) for at, s in enumerate(steps)),
        said(4, "agent", "Please confirm"),
        said(5, "user", "Please proceed."),
        call(6, "book", to="SEA", seats=3, pay=299, by="card"),
        result(7, "Error: total price is 375, but paid 299", error=True),
        call(8, "book", to="SEA", seats=3, pay=299, by="card"),
        result(9, "Error: total price is 375, but paid 299", error=True),
        call(10, "book", to="SEA", seats=3, pay=375, by="card"),
        result(11, "reservation HATHAT"),
        done(12),
    )
    shown = render_run(run, case(WRITES), records(run, case(WRITES)))
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert lines[:10] == [
        "airline/11/2 FAIL (recorded reward 0) 13 steps, 3 calls, 2 errors task 11, trial 2",
        "0-3 folded: the system prompt, 2 user messages --steps 0:4 shows them",
        "4 agent Please confirm",
        "5 user Please proceed.",
        "! 6 call book(SEA, seats=3, pay=299, card)",
        "7 err total price is 375, but paid 299",
        "! 8 call book(... the same) repeats failed step 6",
        "9 err total price is 375, but paid 299",
        "! 10 call book(... pay=375) argument validity",
        "11 ok reservation HATHAT",
    ]
    assert (
        "   6-10  book fails 2 times with the same error, then step 10 succeeds: total price"
        in shown
    )
    assert (
        "Verdicts (rules) sub-goals reached: none · errors at steps 7, 9 · writes not in the "
        "reference solution at step 10"
    ) in " ".join(shown.split())


def test_a_changed_call_shows_only_what_changed() -> None:
    before, after = call(1, "book", a="one", b="two", c=3), call(3, "book", a="one", b="two", c=4)
    assert describe_call(after.calls[0], before.calls[0]) == "book(... c=4)"
    other = call(3, "book", a="uno", b="due", c=4)
    assert describe_call(other.calls[0], before.calls[0]) == "book(uno, due, c=4)"


def localised(
    run: Trajectory, *ranked: tuple[int, float, str], version: str = LOCALISE.version
) -> list[Record]:
    """Records as `localise` writes them: shares of 1, and .2 for no step of the agent."""
    answers = [
        Verdict("localise", log(share), label, step=step, cites=(step,), reason=f"{label} here")
        for step, share, label in ranked
    ]
    answers.append(Verdict("localise.nobody", 0.2, "calls"))
    return [Record(trajectory=run.id, answer=a, version=version) for a in answers]


def twice_failing() -> Trajectory:
    steps = [ask()]
    for at, tool in ((1, "a"), (3, "a"), (5, "b"), (7, "b")):
        steps += [call(at, tool, x=f"try {at}"), result(at + 1, "Error: no", error=True)]
    return trajectory(*steps, said(9, "agent", "Let me see."), said(10, "agent", "No."))


def test_a_failed_run_has_the_order_of_the_ranking_and_no_other() -> None:
    run = twice_failing()
    order = [(7, 0.3, "failed"), (9, 0.25, "cannot"), (5, 0.2, "failed"), (10, 0.15, "end")]
    order += [(1, 0.06, "failed"), (3, 0.04, "failed")]
    rules = [r for r in records(run) if not r.answer.measure.startswith("axes.")]
    shown = list_suspects(run, None, [*rules, *localised(run, *order)])
    assert [name_steps(s) for s in shown.suspects] == ["7", "9", "5", "10", "1", "3"]
    assert [s.share for s in shown.suspects] == pytest.approx([0.24, 0.2, 0.16, 0.12, 0.048, 0.032])
    assert shown.nobody == pytest.approx(0.2)
    assert shown.reliability.startswith(
        "On 9 public runs with tool calls, the step that people blamed was listed first"
    )


def test_what_the_rules_say_better_stands_for_what_localise_says() -> None:
    run = twice_failing()
    order = [(1, 0.4, "failed"), (5, 0.3, "invented"), (9, 0.2, "place"), (10, 0.1, "end")]
    shown = list_suspects(run, None, [*records(run), *localised(run, *order)]).suspects
    said = {s.step: (s.kind, s.evidence) for s in shown}
    assert said[1] == ("error", "a fails 2 times with the same error and never succeeds: no")
    assert said[5] == (
        "error",
        "b fails 2 times with the same error, and the run ends on it: no; invented here",
    )
    assert said[9] == ("place", "place here")


def test_records_of_an_older_version_rank_nothing() -> None:
    run = twice_failing()
    old = localised(run, (7, 0.9, "failed"), (1, 0.1, "failed"), version="1")
    shown = list_suspects(run, None, [*records(run), *old])
    assert [s.share for s in shown.suspects] == [None] * len(shown.suspects)
    assert (name_steps(shown.suspects[0]), shown.nobody) == ("1-3", None)
    assert shown.reliability == (
        "Not ranked: no record of localise that is current; stepscope score makes it"
    )


def test_a_step_where_nothing_was_found_has_no_mark() -> None:
    run = trajectory(ask(), said(1, "agent", "Well."), said(2, "agent", "No."))
    shown = render_run(run, None, localised(run, (1, 0.6, "place"), (2, 0.4, "end")))
    assert [line for line in shown.splitlines() if line.startswith(("?", "!"))] == []
    assert "      1   48 %  place here" in shown
    assert (
        "      -   20 %  the cause is not a step of the agent, or the rules did not see it" in shown
    )
