"""Every step of a run in one plain sentence, made by rules from what was recorded."""

from __future__ import annotations

import pytest

from stepscope.model import Instant, Step, SubGoal, ToolCall, Trajectory
from stepscope.report.types import SuspectSteps
from stepscope.report.views.steps import (
    StepLine,
    choose_events,
    lay_out_time,
    list_step_lines,
    read_history,
    summarise_value,
)
from tests.factories import agent, calls, did, failed, run, system, user

REFUSAL = "Error: payment does not add up, total price is 1203, but paid 833"


def lines(
    *steps: object, suspects: tuple[SuspectSteps, ...] = (), goals: tuple[SubGoal, ...] = ()
) -> list[StepLine]:
    made = run(*steps)  # type: ignore[arg-type]
    shown = range(len(made.steps))
    return list(
        list_step_lines(made, shown, history=read_history(made), suspects=suspects, goals=goals)
    )


def said(*steps: object, **more: tuple[object, ...]) -> list[str]:
    return [line.sentence for line in lines(*steps, **more)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (did("get_user_details", user_id="mia_1"), "Gets user details: mia_1"),
        (did("searchFlights", origin="JFK", bags=2), "Searches flights: JFK, bags 2"),
        (did("mcp__shop__cancel_order", order="#W12"), "Cancels order: #W12"),
        (did("transfer_to_human_agents"), "Transfers to human agents"),
        (did("frobnicate", x="abc"), "Calls frobnicate: abc"),
        (did("calculate", "833.0", expression="364 + 469"), "Calculates 364 + 469 = 833"),
        (did("calculate", "a long answer, longer than a line has room", expression="1 + 1"),
         "Calculates 1 + 1"),
    ],
)  # fmt: skip
def test_a_call_is_told_by_the_verb_of_its_tool_and_its_values(
    step: tuple[Step, Step], sentence: str
) -> None:
    assert said(*step)[0] == sentence


def test_a_refusal_names_what_was_due_and_each_repetition_the_steps_before() -> None:
    again = [step for bags in (6, 2, 2) for step in failed("book", REFUSAL, bags=bags)]
    assert said(*again) == [
        "Pays 833 of 1,203; refused",
        "Refused: payment does not add up, total price is 1203, but paid 833",
        "Pays 833 of 1,203; same mistake as at 0",
        "The same error again",
        "Pays 833 of 1,203; same mistake as at 0 and 2",
        "The same error again",
    ]


def test_another_error_of_the_same_tool_is_no_repetition() -> None:
    steps = [*failed("book", REFUSAL), *failed("book", "Error: no seats")]
    assert said(*steps)[2] == "Books; refused: no seats"


def test_a_call_made_again_says_which_and_a_changed_one_what_changed() -> None:
    first = did("book", a="one", b="two", c="three")
    assert said(*first, *first)[2] == "Makes the call of 0 again, unchanged"
    changed = did("book", a="one", b="two", c="four")
    assert said(*first, *changed)[2] == "Books again, with other c (three to four)"
    # With few arguments the whole call is clearer than its difference.
    assert said(*did("book", c="three"), *did("book", c="four"))[2] == "Books: four"


def test_a_call_beside_an_expected_one_names_what_was_expected() -> None:
    goal = SubGoal(name="g", tool="book", arguments={"bags": 0, "seat": "1A"})
    assert said(*did("book", bags=2, seat="1A"), goals=(goal,))[0] == "Books: bags 2, expected 0"
    other = SubGoal(name="g", tool="cancel", arguments={"bags": 0})
    assert said(*did("book", bags=2, seat="1A"), goals=(other,))[0] == "Books: bags 2, seat 1A"


def test_a_message_is_quoted_from_where_it_says_something() -> None:
    assert said(user("Hi! I want my money back."))[0] == "I want my money back."
    assert said(user("Yes."))[0] == "Yes."
    assert said(agent("Thank you."))[0] == "Thank you."
    assert said(agent("**Done**: `user_id` is mia_1"))[0] == "Done: user_id is mia_1"
    assert said(system("word " * 40))[0] == "The instructions: 40 words"
    assert said(agent(""))[0] == "No text (text)"


def test_evidence_that_tells_what_a_step_does_stands_for_its_sentence() -> None:
    adds = SuspectSteps(
        first=0, last=0, kind="fault", evidence="adds 1 + 2; refused at 9", share=0.4
    )
    (line, _) = lines(*did("calculate", "3", expression="1 + 2"), suspects=(adds,))
    assert line == StepLine(0, "calls", "Adds 1 + 2", 0.4, "adds 1 + 2; refused at 9")
    names = SuspectSteps(first=0, last=0, kind="fault", evidence="book fails: no", share=0.4)
    assert said(*did("book"), suspects=(names,))[0] == "Books"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"id": "W1", "total": 12.5, "items": [1]}', "W1, total 12.5"),
        ('{"id": "W1", "items": [1, 2], "paid": true}', "W1, paid"),
        ('[{"flight": "HAT1"}, {"flight": "HAT2"}]', "2 entries: HAT1"),
        ("[]", "Nothing found"),
        ("", "Returns nothing"),
        ("{not json", "{not json"),
        ("[" * 5000, "[" * 119 + "…"),
        ("two\nlines", "two lines"),
    ],
)
def test_a_result_is_told_in_few_words(text: str, sentence: str) -> None:
    assert summarise_value(text) == sentence


def test_an_event_is_the_gravest_thing_of_a_step_and_of_a_column() -> None:
    steps = [user("a"), *did("get_x"), *did("book"), *failed("book"), agent("b")]
    events = [line.event for line in lines(*steps)]
    assert events == ["user", "calls", "returns", "writes", "returns", "writes", "refused", "says"]
    assert choose_events(events, 3) == ["calls", "writes", "refused"]
    assert choose_events(events, 1) == events


def timed(*spans: tuple[str, int, int | None]) -> Trajectory:
    def at(seconds: int | None) -> Instant | None:
        return None if seconds is None else Instant(seconds * 10**9, "")

    steps = [
        Step(
            index=index,
            actor=actor,  # type: ignore[arg-type]
            start=at(begin),
            end=at(end),
            cost_usd=0.5 if index == 1 else None,
        )
        for index, (actor, begin, end) in enumerate(spans)
    ]
    return run(*steps)


def test_time_is_told_by_who_took_it_and_drawn_a_lane_each() -> None:
    found = lay_out_time(timed(("user", 0, None), ("agent", 10, 30), ("environment", 30, 40)))
    assert found is not None
    said, lanes, bars = found
    assert said == (
        "Time: 40.0 s, of these agent 20.0 s, user 10.0 s, tools 10.0 s. "
        "Cost: $0.5000, most at 1 ($0.5000)."
    )
    assert lanes == ["agent", "user", "tools"]
    assert sorted((bar.step, bar.lane, bar.left, bar.width) for bar in bars) == [
        (0, 1, 0.0, 25.0), (1, 0, 25.0, 50.0), (2, 2, 75.0, 25.0),
    ]  # fmt: skip


def test_a_trace_without_times_has_no_strip_of_time() -> None:
    assert lay_out_time(run(user("a"), agent("b"))) is None
    assert lay_out_time(timed(("user", 5, 5), ("agent", 5, 5))) is None


def test_a_call_that_cannot_be_read_is_told_as_it_was_written() -> None:
    broken = calls(ToolCall("book", None, raw="{bags", parse_error="no"))
    assert said(broken)[0] == "Books: {bags"
