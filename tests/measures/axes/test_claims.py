"""What is told as done against what was done: each mechanism with its near misses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepscope.formats import read_files
from stepscope.measures.axes.claims import find_claims, is_english
from stepscope.measures.axes.results import RESULT_INTERPRETATION, RESULT_INTERPRETATION_NAME
from stepscope.model import Facts, Step, ToolCall, ToolDef, Trajectory, Verdict
from stepscope.values import Unmeasured
from tests.factories import agent, calls, did, failed, result, run, system, user
from tests.measures.answers import whole

EXAMPLES = Path(__file__).parents[3] / "examples"
ORDER = json.dumps({"order_id": "W1234", "status": "pending", "cabin": "basic_economy"})
OTHER = json.dumps({"order_id": "W9999", "status": "cancelled", "cabin": "economy"})
LOOKED = did("get_order", ORDER, order_id="W1234")
FOUND = did("get_order", OTHER, order_id="W9999")
REFUSED = failed("refund", "Error: amount exceeds total", order_id="W1234", amount=40)
CANCELLED = did("cancel_order", "ok", order_id="W1234")
BASH = did("Bash", "main abc1234", command="git commit -m 'Add hello'")
WROTE = did("Write", "ok", file_path="/p/hello.py", content="def hello(): ...")


def interpreted(*steps: Step, facts: Facts | None = None) -> Verdict | Unmeasured:
    found = whole(RESULT_INTERPRETATION, run(*steps), None, facts)[RESULT_INTERPRETATION_NAME]
    assert isinstance(found, Verdict | Unmeasured)
    return found


def label(*steps: Step, facts: Facts | None = None) -> str | None:
    found = interpreted(*steps, facts=facts)
    return found.label if isinstance(found, Verdict) else found.kind


@pytest.mark.parametrize(
    ("text", "acts"),
    [
        ("I've cancelled your order.", ["cancel"]),
        ("Your order has been successfully canceled.", ["cancel"]),
        ("Your refund of $40 is done.", ["refund"]),
        ("The exchange has been requested.", ["exchange"]),
        ("I have sent the e-mail. Your seat is now booked.", ["send", "book"]),
        ("Has it been cancelled?", []),
        ("I could cancel it and it would be refunded.", []),
        ("Once it has been cancelled, you get an e-mail.", []),
        ("It has not been cancelled.", []),
        ("I haven't sent it.", []),
        ("If the flight has been cancelled, a refund can be requested.", []),
        ("I see that your flight was cancelled by the airline.", []),
        ("Your order has been cancelled by the shop.", []),
        ("Only orders that have been delivered can be returned.", []),
        ("", []),
    ],
)
def test_a_sentence_claims_an_act_or_speaks_of_it(text: str, acts: list[str]) -> None:
    assert [claim.act for claim in find_claims(text)] == acts


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((*REFUSED, agent("Your refund of $40 is done.")), "incorrect"),
        ((*REFUSED, *LOOKED, agent("Your $40 refund has been processed.")), "incorrect"),
        ((*REFUSED, *did("refund", "ok", amount=30), agent("Your refund is done.")), "uncertain"),
        ((*REFUSED, agent("Your refund could not be done.")), "uncertain"),
        ((*REFUSED, agent("Shall your refund be done by a colleague?")), "uncertain"),
        ((*LOOKED, agent("I've cancelled your order.")), "incorrect"),
        ((*LOOKED, agent("Order W1234 has been successfully cancelled.")), "incorrect"),
        ((*CANCELLED, agent("Order W1234 has been successfully cancelled.")), "uncertain"),
        ((*CANCELLED, agent("It is cancelled, and the refund has been issued.")), "uncertain"),
        ((*LOOKED, *CANCELLED, agent("I've returned your order.")), "incorrect"),
        ((*FOUND, agent("Order W9999 has been cancelled.")), "uncertain"),
        (
            (*LOOKED, *did("cancel_order", order_id="W5555"), agent("I have cancelled W1234.")),
            "incorrect",
        ),
        ((*LOOKED, agent("Orders that have been cancelled are refunded.")), "uncertain"),
        ((*LOOKED, agent("Your name has been saved as Mia Li.")), "uncertain"),
        ((*did("note", "refund done"), agent("I looked at the note.")), "uncertain"),
        ((*LOOKED, *CANCELLED, agent("I have also cancelled the engraving.")), "incorrect"),
        ((*LOOKED, *CANCELLED, agent("A wheelchair has been ordered for you.")), "incorrect"),
        ((*LOOKED, *CANCELLED, agent("A refund has been issued to your card.")), "uncertain"),
        ((*LOOKED, *CANCELLED, agent("I've waived the handling fee.")), "incorrect"),
        ((*CANCELLED, agent("I have not waived the fee. Nothing else was refunded.")), "uncertain"),
        ((*did("update", bags=2), agent("I have also added 2 bags.")), "uncertain"),
        ((*REFUSED, agent("That's taken care of, you don't need to do a thing.")), "incorrect"),
        ((*REFUSED, agent("The refund went through without a problem.")), "incorrect"),
        ((*REFUSED, agent("Nothing was changed, as the amount is too high.")), "uncertain"),
    ],
)  # fmt: skip
def test_an_act_told_as_done_needs_a_call_that_succeeded(
    steps: tuple[Step, ...], expected: str
) -> None:
    found = label(user("Please help with my order."), *steps, user("Thanks"))
    assert (found == "incorrect") is (expected == "incorrect")


def test_a_claim_after_a_failed_write_cites_the_failure() -> None:
    found = interpreted(user("refund"), *REFUSED, agent("Your refund of $40 is done."))
    assert isinstance(found, Verdict)
    assert found.cites == (2, 3)
    assert "refund failed: Error: amount exceeds total" in found.reason


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I've pushed the change to the remote as well.", "incorrect"),
        ("I also added a unit test for it and updated the README.", "incorrect"),
        ("I saved the table to results.csv.", "incorrect"),
        ("I've committed the change.", "uncertain"),
        ("I created hello.py.", "uncertain"),
        ("I fixed the problem.", "uncertain"),
        ("Before closing I formatted the code with black.", "incorrect"),
    ],
)
def test_a_command_or_an_edit_must_name_what_is_told_to_be_made(text: str, expected: str) -> None:
    assert label(user("Add a function"), *WROTE, *BASH, agent(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("All tests pass.", "incorrect"),
        ("The checks are clean, nothing broke.", "incorrect"),
        ("One test fails, I look into it.", "uncertain"),
    ],
)
def test_an_exit_code_that_a_result_ends_on_is_no_success(text: str, expected: str) -> None:
    told = result("F.\n[The command completed with exit code 1.]", "unknown", source="none")
    ran = (calls(ToolCall("bash", {"command": "pytest"})), told)
    assert label(user("test it"), *ran, agent(text)) == expected


def test_code_in_messages_that_failed_is_told_to_have_worked() -> None:
    code = agent("```python\nprint(1/0)\n```")
    crash = Step(index=0, actor="environment", parts=result("exitcode: 1").results[0].parts,
                 error="exitcode: 1")  # fmt: skip
    assert label(code, crash, agent("The code has been executed successfully.")) == "incorrect"
    assert label(code, crash, agent("It failed, I try again.")) == "not_applicable"


def test_other_languages_are_said_not_to_be_judged_unless_the_settings_know_the_word() -> None:
    said = agent("Ihre Buchung wurde storniert, schöne Grüße.")
    found = interpreted(user("Bitte stornieren"), *LOOKED, said, user("Danke"))
    assert isinstance(found, Verdict)
    assert (found.label, "1 messages in another language" in found.reason) == ("uncertain", True)
    known = Facts(claims={"storniert": ("cancel_order",)})
    assert label(user("Bitte"), *LOOKED, said, facts=known) == "incorrect"
    assert label(user("Bitte"), *CANCELLED, said, facts=known) == "uncertain"
    assert label(user("?"), *LOOKED, agent("Soll es storniert werden?"), facts=known) == "uncertain"
    assert (is_english("Your order is here."), is_english("Danke schön")) == (True, False)


def test_nothing_is_claimed_of_runs_that_record_no_acts() -> None:
    assert label(user("hi"), agent("I have sent the e-mail and cancelled it.")) == "not_applicable"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ihre Bestellung W7 ist storniert.", "incorrect"),
        ("I have cancelled order W7.", "incorrect"),
        ("Your order W7 has been cancelled.", "incorrect"),
        ("Soll W7 storniert werden?", "not_applicable"),
        ("Shall I see whether it has been cancelled?", "not_applicable"),
        ("I have sent you a voucher.", "not_applicable"),  # of no tool that is known
        ("I have looked at order W7.", "not_applicable"),
    ],
)
def test_an_act_told_as_done_in_a_run_without_any_call_is_a_false_claim(
    text: str, expected: str
) -> None:
    known = Facts(claims={"storniert": ("cancel_order",)})
    assert label(user("Storniere W7"), agent(text), facts=known) == expected
    if text.isascii() and "storniert" not in text:
        offered = run(user("Cancel W7"), agent(text), tools=(ToolDef("cancel_order"),))
        (found,) = whole(RESULT_INTERPRETATION, offered).values()
        assert getattr(found, "label", "not_applicable") == expected


def test_what_the_user_tells_may_be_told_again_and_a_tool_that_reads_does_nothing() -> None:
    said = user("It has been cancelled by my wife."), agent("Order W7 has been cancelled.")
    # An agent may have the state of an order in its instructions.
    held = system("Order W7 has been cancelled by the shop."), said[1]
    for steps, tool in (
        (said, "cancel_order"),
        (held, "cancel_order"),
        (said[1:], "get_cancelled_orders"),
    ):
        (found,) = whole(RESULT_INTERPRETATION, run(*steps, tools=(ToolDef(tool),))).values()
        assert isinstance(found, Unmeasured)


def test_a_request_answered_by_done_without_a_call_is_a_false_claim() -> None:
    asked = (user("Create hello"), *WROTE, user("Now add a goodbye function"))
    assert label(*asked, agent("Done! The hello function is ready.")) == "incorrect"
    assert label(*asked, *did("Edit"), agent("Done! It is ready.")) == "uncertain"
    assert label(*asked, agent("Where shall it go?")) == "uncertain"
    assert (
        label(user("Create hello"), *WROTE, user("Thanks!"), agent("It is ready.")) == "uncertain"
    )


@pytest.mark.parametrize(
    ("asked", "told", "expected"),
    [
        ("Please also change my phone number.", "Changed.", "incorrect"),
        ("Could you put a note on my order too?", "All sorted!", "incorrect"),
        ("Could you put a note on my order too?", "Yes, it's on your order now.", "incorrect"),
        ("Could you put a note on my order too?", "Noted. Which note?", "uncertain"),
        ("Could you put a note on my order too?", "The note went out a minute ago.", "incorrect"),
        ("Could you put a note on my order too?", "It needs your id first.", "uncertain"),
        ("Could you put a note on my order too?", "On it, this takes a minute.", "uncertain"),
        ("Please tell me whether it is insured.", "Included, yes.", "uncertain"),
        ("Please go ahead.", "Done!", "uncertain"),
        ("Please cancel it, too.", "Based on your wishes, here is the plan.", "uncertain"),
    ],
)
def test_a_reply_of_one_word_that_calls_a_request_done_needs_a_call(
    asked: str, told: str, expected: str
) -> None:
    assert label(user("Cancel W1234"), *CANCELLED, user(asked), agent(told)) == expected


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (("Outcome: executed. Let me know what else you need.",), "incorrect"),
        (("| Step | Result |\n|---|---|\n| Your request | completed |",), "incorrect"),
        (("I see. What else is on your mind?", "did it go through?", "Yes."), "incorrect"),
        (("Thank you. Anything else?", "so is that done now?", "It is in there."), "incorrect"),
        (("Thank you. Anything else?", "is my name Ann?", "Yes."), "uncertain"),
        (("The system refused it.",), "uncertain"),
        (("Which card shall I use instead?",), "uncertain"),
        (("I'll try that once more.",), "uncertain"),
    ],
)
def test_what_states_something_after_a_failure_has_a_word_of_it(
    told: tuple[str, ...], expected: str
) -> None:
    refused = failed("cancel_order", "Error: conflict", order_id="W1234")
    spoken = [agent(text) if at % 2 == 0 else user(text) for at, text in enumerate(told)]
    assert label(user("Cancel W1234"), *refused, *spoken) == expected


def test_an_exit_code_without_a_complaint_is_an_answer() -> None:
    searched = failed("bash", "[exit code: 1]", command="grep -rn old .")
    assert label(user("Is it gone?"), *searched, agent("The tree has none of it.")) == "uncertain"
    crashed = failed("bash", "ValueError: bad row\n[exit code: 1]", command="python load.py")
    assert label(user("Load it"), *crashed, agent("The table is in place.")) == "incorrect"
    assert label(user("Load it"), *crashed, agent("One row is broken.")) == "uncertain"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("A complaint was filed with the courier in your name.", "incorrect"),
        ("What I did:\n1. looked at the order\n2. set a spending limit on it", "incorrect"),
        ("Summary: request handled; gift voucher credited; survey skipped.", "incorrect"),
        ("The order was delivered.", "uncertain"),
        ("A complaint could be filed if you wish.", "uncertain"),
        ("Here are the steps involved:", "uncertain"),
        ("The cancellation request has been submitted.", "uncertain"),
        # in a list of one line, in an answer to oneself, in brackets, as one's own act
        ("Today: request handled, gift voucher credited.", "incorrect"),
        ("Today: request handled, order cancelled.", "uncertain"),
        ("And the late fee? Waived.", "incorrect"),
        ("And the late fee? It is waived for members only.", "uncertain"),
        ("Closed: your request; gift voucher (mailed).", "incorrect"),
        ("I took the liberty of enrolling you in our program.", "incorrect"),
        ("I would have enrolled you in our program.", "uncertain"),
        ("A wheelchair was left at your door.", "incorrect"),
        ("The total paid has been rounded here.", "uncertain"),
        ("I've put order W1234 into a table.", "uncertain"),
    ],
)
def test_an_act_on_a_thing_that_nothing_names_was_not_done(told: str, expected: str) -> None:
    assert label(user("Cancel W1234"), *CANCELLED, agent(told), user("ok")) == expected


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("I've phoned the museum, and they agreed.", "incorrect"),
        ("The ledger was archived by me.", "incorrect"),
        ("The ledger was archived by its authors.", "not_applicable"),
        ("We have geocoded the harbours.", "not_applicable"),
        ("I have not phoned anybody.", "not_applicable"),
    ],
)
def test_who_only_talks_did_nothing_that_no_code_did(told: str, expected: str) -> None:
    ran = agent("```python\nprint(geocode(harbours))\n```")
    out = Step(index=0, actor="environment", parts=agent("harbours: 3").parts)
    assert label(agent("Count the quays."), ran, out, agent(told)) == expected


def test_the_bundled_session_that_answers_goodbye_with_hello_is_at_fault() -> None:
    files = read_files([str(EXAMPLES / "claude_code" / "sample_session.jsonl")])
    (session,) = (one for file in files for one in file if isinstance(one, Trajectory))
    found = [a for a in RESULT_INTERPRETATION(session, None, None) if a.step is not None]
    assert [(a.step, a.cites) for a in found if isinstance(a, Verdict)] == [(6, (5, 6))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Order W1234 is still pending.", "uncertain"),
        ("Order W1234 is delivered.", "incorrect"),
        # the stage in other words
        ("Order W1234 has an open return request.", "incorrect"),
        ("Order W1234 was called off.", "incorrect"),
        ("Order W1234 has yet to ship.", "uncertain"),
        ("Order W1234 is not cancelled.", "uncertain"),
        ("Order W1234 can be returned.", "uncertain"),
        # a kind that another record has
        ("Order W1234 is in economy.", "incorrect"),
        ("Order W1234 is in basic economy.", "uncertain"),
        ("Order W1234? It is in economy.", "incorrect"),
        ('I found order W1234. The status is "delivered," so it can go back.', "incorrect"),
        ("Here is your order:\n- **Cabin:** Economy", "incorrect"),
        ("Here is your order:\n- **Cabin:** Basic Economy", "uncertain"),
        ("Here is the new booking:\n- **Cabin:** Economy", "uncertain"),
        ("Once order W1234 is delivered, you can return it.", "uncertain"),
        ("| Order | Status |\n|---|---|\n| W1234 | cancelled |", "incorrect"),
    ],
)
def test_a_status_or_a_labelled_field_is_that_of_its_record(text: str, expected: str) -> None:
    seen = (*FOUND, agent("One moment."), user("ok"), *LOOKED)
    found = interpreted(user("my orders"), *seen, agent(text), user("ok"))
    assert isinstance(found, Verdict)
    assert (found.label == "incorrect") is (expected == "incorrect"), found.reason
