"""A run ends when the user closes it; not past that, nor on an error, a limit or a promise."""

from __future__ import annotations

import pytest

from stepscope.measures.axes.ending import TERMINATION, TERMINATION_NAME
from stepscope.model import Step, Verdict
from tests.factories import agent, did, failed, run, user
from tests.measures.answers import labels, whole

DONE = (user("cancel it"), *did("cancel_order"), agent("Cancelled. Anything else?"))


def answer(*steps: Step, termination: str | None = None) -> Verdict:
    found = whole(TERMINATION, run(*steps, termination=termination))[TERMINATION_NAME]
    assert isinstance(found, Verdict)
    return found


@pytest.mark.parametrize(
    "bye",
    [
        "###STOP###",
        "Yes, please. ###STOP###",
        "Thank you, that is all I needed. Goodbye!",
        "No, that's everything. Thanks!",
        "Great. Have a nice day!",
    ],
)
def test_after_the_users_goodbye_nothing_more_is_called(bye: str) -> None:
    assert answer(*DONE, user(bye)).label == "uncertain"
    late = answer(*DONE, user(bye), *did("get_order"))
    assert (late.label, late.cites) == ("incorrect", (4, 5))
    assert answer(*DONE, user(bye), agent("Goodbye!"), *did("get_order")).cites == (4, 6)


@pytest.mark.parametrize(
    "on",
    [
        "That's all I have, please cancel it",
        "Thanks! Can you also look up W2?",
        "Yes, that's everything, go ahead",
        "thank you",
    ],
)
def test_thanks_with_a_wish_close_nothing(on: str) -> None:
    assert answer(*DONE, user(on), *did("get_order"), agent("Here.")).label == "uncertain"


def test_a_user_who_goes_on_has_not_closed() -> None:
    steps = (*DONE, user("Goodbye!"), agent("Bye"), user("wait, one more"), *did("get_order"))
    assert answer(*steps, agent("Here.")).label == "uncertain"


def test_handing_over_after_the_goodbye_is_no_call_too_many() -> None:
    assert answer(*DONE, user("###STOP###"), *did("finish")).label == "uncertain"


def test_ended_on_an_error() -> None:
    found = answer(user("go"), *failed("pay", "Error: declined"))
    assert (found.label, found.cites) == ("incorrect", (2,))
    assert found.reason == "ends on the error of pay: Error: declined"
    assert answer(user("go"), *failed("pay"), agent("It failed.")).label == "uncertain"
    assert answer(user("go"), *did("pay")).label == "uncertain"


@pytest.mark.parametrize(
    ("said", "expected"),
    [("max_steps", "incorrect"), ("timeout", "incorrect"), ("user_stop", "uncertain")],
)
def test_ended_on_a_limit(said: str, expected: str) -> None:
    assert answer(*DONE, termination=said).label == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I will now cancel the order. Please hold on.", "incorrect"),
        ("Thanks for confirming. I'll update it now.", "incorrect"),
        ("Let me look that up.", "incorrect"),
        ("Once you confirm, I will cancel the order.", "uncertain"),
        ("Shall I cancel it? I will refund it if you agree.", "uncertain"),
        ("You will get an e-mail. Let me know what else you need.", "uncertain"),
        ("I will be here.", "uncertain"),
        ("I'm going to update it for the depot.", "incorrect"),
        ("Should they object, I'll update it.", "uncertain"),
    ],
)
def test_an_act_announced_and_never_made(text: str, expected: str) -> None:
    assert answer(user("cancel it"), agent(text)).label == expected


def test_an_announced_act_that_came_is_kept() -> None:
    made = (user("go"), agent("I will cancel it."), *did("cancel_order"), agent("Done."))
    assert answer(*made).label == "uncertain"


def test_a_tool_made_for_it_ends_the_run_well() -> None:
    found = answer(user("go"), *did("transfer_to_human_agents"))
    assert (found.label, found.cites) == ("uncertain", (1,))
    assert answer(user("go"), *failed("submit_answer"), agent("x")).label == "uncertain"


DOWN = failed("get_order", "Error: service unavailable (503), retry in a few seconds", id=1)
SORRY = agent("Unfortunately our system returned an error and I cannot continue.")


@pytest.mark.parametrize(
    ("steps", "fault"),
    [
        ((*DOWN, SORRY, user("Oh. Bye.")), 3),
        ((*DOWN, *DOWN, SORRY), None),
        ((*DOWN, *did("get_order", id=1), SORRY), None),
        ((*failed("get_order", "Error: no such order"), SORRY), None),
        ((*DOWN, agent("An error came back. Shall I try again?"), user("yes")), None),
        ((*failed("bash", "Exit code 127\nnot found", command="python x.py"), SORRY), 3),
        ((*DOWN, *did("transfer_to_human_agents", summary="get_order did not answer")), 3),
        ((*failed("get_order", "Error: the record is locked, retry"), SORRY), 3),
        ((*failed("get_order", "Error: locked, for human agents only"), SORRY), None),
        ((*did("bash"), *failed("bash", "Exit code 1\n1 failed"), agent("One test fails.")), None),
    ],
)
def test_giving_up_after_one_error_that_may_pass(
    steps: tuple[Step, ...], fault: int | None
) -> None:
    found = labels(TERMINATION, run(user("my order?"), *steps))
    assert found == ({fault: "incorrect"} if fault is not None else {})


@pytest.mark.parametrize(
    ("steps", "fault"),
    [
        ((user("Could you cancel the other one, please?"), agent("Glad I could help. Bye!")), 3),
        ((user("Thanks, bye!"), agent("Glad I could help. Bye!")), None),
        ((user("Could you cancel it?"), agent("Unfortunately that's not possible. Bye!")), None),
        ((user("Could you cancel it?"), *did("cancel"), agent("All done. Have a nice day!")), None),
        ((user("Great, thank you so much."), agent("Have a nice day!")), None),
        ((user("Let's proceed with option 1."), agent("Everything is settled. Bye!")), 3),
        ((user("It is 12345."), agent("Which one is it?")), None),
    ],
)
def test_a_farewell_in_answer_to_a_request(steps: tuple[Step, ...], fault: int | None) -> None:
    begun = (user("Hello"), agent("How can I help?"))
    found = labels(TERMINATION, run(*begun, *steps))
    assert found == ({fault: "incorrect"} if fault is not None else {})


def test_a_farewell_instead_of_what_the_details_were_asked_for() -> None:
    asked = (user("I need a refund"), agent("Could you please provide your zip code?"))
    bye = agent("Thank you for contacting us. Have a nice day!")
    assert labels(TERMINATION, run(*asked, user("It is 77004."), bye)) == {3: "incorrect"}
    assert labels(TERMINATION, run(*asked, user("No, forget it."), bye)) == {}


def test_a_promise_between_messages_is_open_until_a_call_comes() -> None:
    wrote = did("write_file", path="hello.py")
    promise = agent("Let me also add the missing docstring.")
    done = agent("All done!")
    assert labels(TERMINATION, run(user("hello"), *wrote, promise, done)) == {3: "incorrect"}
    assert labels(TERMINATION, run(user("hello"), *wrote, promise, *wrote, done)) == {}
    refused = (promise, user("No, leave it."), done)
    assert labels(TERMINATION, run(user("hello"), *wrote, *refused)) == {}


LATER = (user("Any news?"), agent("Not yet."), user("Okay, bye"))
PACKAGING = agent("Noted. Meanwhile I'll query the depot about its crates.")
ORDER = did("get_order", "a red kettle in a crate", id=1)


@pytest.mark.parametrize(
    ("steps", "fault"),
    [
        ((PACKAGING, user("Fine"), *did("cancel_order"), *LATER), 3),
        ((PACKAGING, user("Fine"), *did("ask_depot", about="crates"), *LATER), None),
        ((PACKAGING, user("Fine"), *did("cancel_order"), agent("The depot has crates.")), None),
        ((PACKAGING, user("No, don't do that"), *did("cancel_order"), *LATER), None),
        ((agent("I'll query the depot. Shall I?"), user("Why?"), *did("cancel_order")), None),
        ((agent("I'll query the depot."), *did("cancel_order"), *LATER), None),
        ((agent("I'll query the depot upon your word."), user("Fine"), *LATER), None),
    ],
)
def test_a_promise_of_which_nothing_is_heard_again(
    steps: tuple[Step, ...], fault: int | None
) -> None:
    found = labels(TERMINATION, run(user("my kettle?"), *ORDER, *steps))
    assert found == ({fault: "incorrect"} if fault is not None else {})


ASKS = user("Cancel my kettle. Also, could you please name the warranty period of the lamp?")
CANCELLED = (*did("cancel_order"), agent("The kettle is cancelled."))


@pytest.mark.parametrize(
    ("steps", "fault"),
    [
        ((ASKS, *CANCELLED), 3),
        ((ASKS, *CANCELLED, agent("The warranty is two years.")), None),
        ((ASKS, *did("get_warranty"), *CANCELLED), None),
        ((ASKS, user("Skip my other question, please."), *CANCELLED), None),
        ((ASKS, agent("I cannot answer your other question."), *CANCELLED), None),
        ((ASKS, *CANCELLED, *did("transfer_to_human_agents")), None),
        ((user("Write notes to NOTES.md, please."), *did("write", path="a.py"), agent("Done")), 3),
        ((user("Write notes to NOTES.md."), *did("write", path="NOTES.md"), agent("Done")), None),
        ((*CANCELLED, user("Also, please name the warranty period of the lamp.")), None),
    ],
)
def test_one_thing_more_that_nobody_came_back_to(
    steps: tuple[Step, ...], fault: int | None
) -> None:
    found = labels(TERMINATION, run(*steps))
    assert found == ({fault: "incorrect"} if fault is not None else {})
