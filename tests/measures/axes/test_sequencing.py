"""Order and consent: condemned by what was declared or always kept, doubted where it was habit."""

from __future__ import annotations

import pytest

from stepscope.measures.axes.choice import SEQUENCING, SEQUENCING_NAME
from stepscope.model import Facts, PolicyRule, Precondition, Verdict
from tests.factories import agent, did, run, system, user
from tests.measures.answers import label, whole

TALK = (user("hello"), agent("How can I help?"))
ASKED = (*TALK, user("cancel W1"), agent("Shall I cancel W1?"), user("yes"))
POLICY = system("Before any change, obtain explicit user confirmation (yes) to proceed.")


def facts(support: int | None = None, kept: float | None = None) -> Facts:
    rule = Precondition(tool="cancel_order", after="get_order", support=support, kept=kept)
    return Facts(preconditions=(rule,))


def answer(*steps: object, facts: Facts | None = None) -> Verdict:
    found = whole(SEQUENCING, run(*steps), None, facts)[SEQUENCING_NAME]  # type: ignore[arg-type]
    assert isinstance(found, Verdict)
    return found


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (facts(), "incorrect"),
        (facts(20, 1.0), "incorrect"),
        (facts(19, 1.0), "uncertain"),
        (facts(50, 0.9), "uncertain"),
        (None, "uncertain"),
    ],
)
def test_a_skipped_precondition_condemns_only_where_it_binds(
    known: Facts | None, expected: str
) -> None:
    found = answer(*ASKED, *did("cancel_order", id="1"), facts=known)
    assert found.label == expected
    if expected != "uncertain":
        assert found.cites == (5,)
        assert found.reason.startswith("cancel_order before get_order had succeeded")


def test_a_kept_precondition_and_a_confirmed_write_are_told_and_not_called_correct() -> None:
    found = answer(*ASKED, *did("get_order"), *did("cancel_order"), facts=facts())
    assert (found.label, found.reason) == (
        "uncertain",
        "1 preconditions kept, 1 of 1 writes confirmed; not judged: whether another order was "
        "better",
    )


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((POLICY, *TALK, user("my id is 5"), agent("Noted."), user("it is blue")), "incorrect"),
        ((*TALK, user("my id is 5"), agent("Noted."), user("it is blue")), "uncertain"),
        ((POLICY, *TALK, user("x"), agent("Which colour?"), user("it is blue")), "uncertain"),
        ((POLICY, *TALK, user("x"), agent("Noted."), user("please cancel it")), "uncertain"),
        ((POLICY, *TALK, user("x"), agent("Shall I cancel?"), user("No, wait")), "incorrect"),
        ((POLICY, *TALK, user("x"), agent("Shall I cancel?"), user("Only if Jo can")), "incorrect"),
        ((POLICY, *TALK, user("x"), agent("Shall I cancel?"), user("Make it so.")), "uncertain"),
        ((POLICY, *ASKED), "uncertain"),
        ((POLICY,), "uncertain"),
    ],
)
def test_a_write_without_consent(steps: tuple[object, ...], expected: str) -> None:
    assert answer(*steps, *did("cancel_order")).label == expected


def test_a_declared_rule_of_consent_is_asking_for_it() -> None:
    declared = Facts(policy=(PolicyRule(name="ask", before="write", require="confirm"),))
    steps = (*TALK, user("my id is 5"), agent("Noted."), user("it is blue"))
    assert answer(*steps, *did("cancel_order"), facts=declared).label == "incorrect"


def test_reads_alone_and_no_calls_are_not_applicable() -> None:
    reads = whole(SEQUENCING, run(user("hi"), *did("get_order")))[SEQUENCING_NAME]
    assert label(reads) == "not_applicable"
    assert label(whole(SEQUENCING, run(user("hi")))[SEQUENCING_NAME]) == "not_applicable"


BOOKED = agent("To change to flight HAT266. Please confirm if you would like to proceed.")
CARD = agent("Which payment method would you like to use?")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ((user("Yes, please."), CARD, user("The card on file.")), "uncertain"),
        ((user("I'd rather ask my partner first."),), "incorrect"),
        ((user("Hmm, how long would that take in the end?"),), "incorrect"),
        ((user("Yes. No, wait, don't do it yet."),), "incorrect"),
        ((user("Go ahead, can you do it today?"),), "uncertain"),
        ((user("Yes."), agent("May I go on?"), user("No, I'd like to sleep on it.")), "incorrect"),
        ((user("Yes."), agent("Anything else?"), user("I take back what I said.")), "incorrect"),
        ((user("Yes. And forget what I said about the weather."),), "uncertain"),
        ((user("Yes. You don't have to call me, though."),), "uncertain"),
        ((user("Yes. PS: I've changed my mind about the newsletter, leave it."),), "uncertain"),
        ((user("Yes. Hm, I've changed my mind about the change."),), "incorrect"),
        (
            (user("Yes."), agent("Do you want it in English?"), user("English is fine.")),
            "uncertain",
        ),
        ((user("Yes."), agent("May I ask how you found us?"), user("By chance.")), "uncertain"),
        # a reply without a word of what was asked settles nothing, if it denies, asks or delays
        ((user("That's not quite what I had in mind."),), "incorrect"),
        ((user("Sorry, the doorbell rang. Where were we?"),), "incorrect"),
        ((user("hmm"),), "incorrect"),
        ((user("The one with the flight at noon, if there is a seat."),), "uncertain"),
        ((user("Fire away."),), "uncertain"),
        ((user("It's a yes from me, no changes."),), "uncertain"),
    ],
)
def test_an_answer_to_a_side_question_undoes_no_consent(
    said: tuple[object, ...], expected: str
) -> None:
    write = did("update_flights", flight="HAT266")
    assert answer(POLICY, user("Another flight"), BOOKED, *said, *write).label == expected


def test_who_spoke_once_has_asked_for_all_that_follows() -> None:
    assert answer(POLICY, user("Write hello.txt"), *did("replace_text")).label == "uncertain"


@pytest.mark.parametrize(
    ("wish", "before", "expected"),
    [
        ("It must go by Friday.", "By when?", "incorrect"),
        ("It must go by Friday.", "Shall I cancel it, or by when?", "uncertain"),
        ("It must go, like all of them.", "By when?", "uncertain"),
    ],
)
def test_a_write_of_what_was_looked_up_after_the_last_word_was_never_put(
    wish: str, before: str, expected: str
) -> None:
    said = (*TALK, user("I am Mia"), agent(before), user(wish))
    found = answer(POLICY, *said, *did("get_order", "W5"), *did("cancel_order", id="W5"))
    assert found.label == expected
    assert answer(POLICY, *said, *did("cancel_order", id="W5")).label == "uncertain"


def test_writes_for_want_of_one_yes_are_one_fault_at_the_first() -> None:
    said = (POLICY, *TALK, user("x"), agent("Shall I cancel?"), user("No, wait"))
    found = answer(*said, *did("cancel_order", id=1), *did("cancel_order", id=2))
    assert found.cites == (6,)
