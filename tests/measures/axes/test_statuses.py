"""A status told to the user is the thing's latest, or the rule says which result it contradicts."""

from __future__ import annotations

import pytest

from stepscope.measures.axes.results import RESULT_INTERPRETATION, RESULT_INTERPRETATION_NAME
from stepscope.model import Verdict
from tests.factories import agent, did, run, user
from tests.measures.answers import whole

INSURED = '{"booking_id": "4OG6T3", "insurance": "yes", "cabin": "economy"}'
PENDING = '{"order_id": "#W1234567", "status": "pending (item modified)", "items": [{"price": 3}]}'
DELIVERED = '{"order_id": "#W7654321", "status": "delivered"}'
NESTED = '{"orders": {"#W1234567": {"order_status": "return requested"}}}'


def told(text: str, *results: str) -> Verdict:
    looked = [step for said in results for step in did("get_order", said)]
    made = run(user("what of #W1234567 and #W7654321?"), *looked, agent(text), user("thanks"))
    found = whole(RESULT_INTERPRETATION, made)[RESULT_INTERPRETATION_NAME]
    assert isinstance(found, Verdict)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # by name
        ("Order #W1234567 is in a pending status.", "uncertain"),
        ('Order #W1234567 is in "delivered" status, so it cannot be changed.', "incorrect"),
        ("- #W7654321 (Status: **Delivered**)", "uncertain"),
        ("- #W7654321 (Status: **Cancelled**)", "incorrect"),
        ("The status of order #W7654321 is now: lost", "incorrect"),
        ("#W7654321: the status has been changed to return requested", "incorrect"),
        # without a name only what no result ever said is misread
        ("The order's status is delivered.", "uncertain"),
        ("The order's status is pending.", "uncertain"),
        ("The order's status is cancelled.", "incorrect"),
        # nor where two are named
        ("#W1234567 and #W7654321 are in cancelled status.", "uncertain"),
        # no statement of how it stands
        ("If #W1234567 is in delivered status, you can return it.", "uncertain"),
        ("#W1234567 is not in delivered status.", "uncertain"),
        ("Only orders in cancelled status can go.", "uncertain"),
        ("Is your order's status cancelled?", "uncertain"),
        ("Once the status is cancelled, I can help.", "uncertain"),
        ("The status of your order matters.", "uncertain"),
        ("In a word: the status quo.", "uncertain"),
    ],
)
def test_a_status_is_held_against_the_latest_result(text: str, expected: str) -> None:
    found = told(text, PENDING, DELIVERED)
    assert found.label == expected, found.reason


@pytest.mark.parametrize(
    ("asked", "form"),
    [
        ("what of {}?", "It's still {}."),
        ("what of {}?", "{}."),
        ("what of {}?", "I looked it up. That order is {}."),
        ("what of {}?", "The {} order is {}."),
        ("what of {}?", "Your {} order, {}, has one item."),
        ("what of {}?", "You have one {} order ({})."),
        ("is {} {}?", "Yes, it is."),
        ("has {} been {}?", "Yes."),
    ],
)
@pytest.mark.parametrize("state", ["pending", "delivered", "cancelled"])
def test_a_stage_is_told_in_an_answer_of_what_was_named_and_before_a_name(
    asked: str, form: str, state: str
) -> None:
    name = "#W7654321"
    text = form.format(*((state, name) if form.count("{}") == 2 else (state,)))
    question = asked.format(*((name, state) if asked.count("{}") == 2 else (name,)))
    made = run(user(question), *did("get_order", DELIVERED), agent(text), user("thanks"))
    found = whole(RESULT_INTERPRETATION, made)[RESULT_INTERPRETATION_NAME]
    assert isinstance(found, Verdict)
    assert found.label == ("uncertain" if state == "delivered" else "incorrect"), found.reason


@pytest.mark.parametrize(
    ("tool", "label"), [("cancel_order", "uncertain"), ("get_order", "incorrect")]
)
def test_what_was_changed_since_it_was_read_stands_as_nobody_knows(tool: str, label: str) -> None:
    changed = did(tool, "ok", order_id="#W7654321")
    read = did("get_order", DELIVERED, order_id="#W7654321")
    made = run(user("cancel #W7654321"), *read, *changed, agent("#W7654321 is cancelled."))
    found = whole(RESULT_INTERPRETATION, made)[RESULT_INTERPRETATION_NAME]
    assert isinstance(found, Verdict)
    assert found.label == label, found.reason


@pytest.mark.parametrize(
    "text",
    [
        "To cancel #W7654321, I need the reason for cancellation.",
        "The item to be returned is the kettle.",
        "You want to return #W7654321, and it can be exchanged, too.",
    ],
)
def test_what_is_to_be_done_is_no_stage(text: str) -> None:
    assert told(text, DELIVERED).label == "uncertain"


def test_a_misread_status_cites_the_result_and_the_message() -> None:
    found = told("Order #W1234567 is in cancelled status.", PENDING, DELIVERED)
    assert found.cites == (2, 5)
    assert found.reason == (
        "says status 'cancelled', the result at 2 says 'pending (item modified)'"
    )


def test_the_latest_status_of_a_thing_counts_and_not_an_earlier_one() -> None:
    later = PENDING.replace("pending (item modified)", "cancelled")
    assert told("#W1234567 has the status pending.", PENDING, later).label == "incorrect"
    assert told("#W1234567 has the status cancelled.", PENDING, later).label == "uncertain"


def test_a_status_below_the_things_own_key_is_its_own() -> None:
    assert told("#W1234567 has status return requested.", NESTED).label == "uncertain"
    assert told("#W1234567 has status exchange requested.", NESTED).label == "incorrect"


def test_a_record_in_a_list_is_the_things_own() -> None:
    listed = f"[{PENDING}, {DELIVERED}]"
    assert told("#W7654321 is in delivered status.", listed).label == "uncertain"
    assert told("#W7654321 is in pending status.", listed).label == "incorrect"


def test_what_a_result_says_later_was_not_known() -> None:
    later = PENDING.replace("pending (item modified)", "cancelled")
    steps = (user("#W1234567?"), *did("get_order", PENDING), agent("Its status is cancelled."))
    made = run(*steps, user("ok"), *did("get_order", later), agent("Yes."), user("bye"))
    found = whole(RESULT_INTERPRETATION, made)[RESULT_INTERPRETATION_NAME]
    assert isinstance(found, Verdict)
    assert found.cites == (2, 3)


def test_nothing_is_said_where_no_result_has_a_status() -> None:
    found = told("The status is delivered.", '{"state": "delivered"}')
    assert found.label == "uncertain"


BOOKED = (
    '{"booking_id": "4OG6T3", "flights": [{"number": "HAT112", "date": "2024-05-27"}, '
    '{"number": "HAT135", "date": "2024-05-19"}]}'
)
BED = (
    '{"order_id": "#W1234567", "items": [{"name": "Cot Bed", "options": {"material": "foam"}}, '
    '{"name": "Bottle", "options": {"material": "steel"}}]}'
)


@pytest.mark.parametrize(
    ("asked", "text", "expected"),
    [
        ("", "I have 2024-05-19 here for the date of HAT112 in booking 4OG6T3.", "incorrect"),
        ("", "I have May 27 here for the date of HAT112 in booking 4OG6T3.", "uncertain"),
        ("", "The new date of HAT112 in booking 4OG6T3 is 2024-05-19.", "uncertain"),
        ("the date of HAT112 in 4OG6T3?", "That's 2024-05-19.", "incorrect"),
        ("the date of HAT112 in 4OG6T3?", "That's 2024-05-27.", "uncertain"),
        ("the date of HAT135 in 4OG6T3?", "That's 2024-05-19.", "uncertain"),
        ("", "The material of the Cot Bed in order #W1234567 is steel.", "incorrect"),
        ("", "The material of the Cot Bed in order #W1234567 is foam.", "uncertain"),
        ("", "The material of the Cot Bed in order #W1234567 is soft.", "uncertain"),
        ("", "The material of the Cot Bed in order #W1234567 is not steel.", "uncertain"),
    ],
)
def test_a_field_told_of_a_thing_is_its_own(asked: str, text: str, expected: str) -> None:
    looked = [step for said in (BOOKED, BED) for step in did("get", said)]
    made = run(user("hello"), *looked, agent("Yes?"), user(asked), agent(text), user("thanks"))
    found = whole(RESULT_INTERPRETATION, made)[RESULT_INTERPRETATION_NAME]
    assert isinstance(found, Verdict)
    assert found.label == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("As far as I can see, booking 4OG6T3 is not insured.", "incorrect"),
        ("Booking 4OG6T3 comes without insurance.", "incorrect"),
        ("Booking 4OG6T3 is insured.", "uncertain"),
        ("Insurance cannot be added to 4OG6T3.", "uncertain"),
        ("Is 4OG6T3 not insured?", "uncertain"),
        ("As far as I can see, #W7654321 shows the status cancelled.", "incorrect"),
    ],
)
def test_what_a_thing_has_or_has_not_is_as_its_record_says(text: str, expected: str) -> None:
    assert told(text, INSURED, DELIVERED).label == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # What opens a sentence, or asks for assent behind it, makes no condition of it.
        ("I should mention that #W7654321 shows the status cancelled.", "incorrect"),
        ("No news there, #W7654321 is cancelled.", "incorrect"),
        ("I had a look and booking 4OG6T3 is not insured.", "incorrect"),
        ("Right now #W7654321 shows the status cancelled, okay?", "incorrect"),
        ("Booking 4OG6T3 is not insured, isn't it?", "incorrect"),
        ("I should mention that #W7654321 shows the status delivered, okay?", "uncertain"),
        ("If you agree, #W7654321 is cancelled.", "uncertain"),
        ("I cannot confirm that #W7654321 is cancelled.", "uncertain"),
        ("Once it is back and checked, #W7654321 is cancelled.", "uncertain"),
        ("Is it so, and is #W7654321 cancelled?", "uncertain"),
        # A row without a head, or without a verb.
        ("| #W7654321 | cancelled |", "incorrect"),
        ("| #W7654321 | delivered |", "uncertain"),
        ("#W7654321 - cancelled", "incorrect"),
        ("#W7654321 - delivered", "uncertain"),
    ],
)
def test_what_stands_around_a_statement_does_not_hide_it(text: str, expected: str) -> None:
    found = told(text, INSURED, DELIVERED)
    assert found.label == expected, found.reason


def test_a_field_is_told_as_it_was_read_last_also_where_it_was_told_before() -> None:
    made = run(
        user("What of booking 4OG6T3?"),
        *did("get_booking", INSURED, id="4OG6T3"),
        agent("Booking 4OG6T3 has insurance."),
        user("And now?"),
        *did("get_booking", INSURED.replace("yes", "no"), id="4OG6T3"),
        agent("Booking 4OG6T3 has no insurance."),
        user("thanks"),
    )
    found = whole(RESULT_INTERPRETATION, made)[RESULT_INTERPRETATION_NAME]
    assert isinstance(found, Verdict)
    assert found.label == "uncertain", found.reason
