"""Terms of the agent's sums have an origin, and a sum that leaves one out is followed back."""

from __future__ import annotations

import pytest

from stepscope.measures.axes.arguments import ARGUMENT_VALIDITY, ARGUMENT_VALIDITY_NAME
from stepscope.measures.axes.results import RESULT_INTERPRETATION, RESULT_INTERPRETATION_NAME
from stepscope.measures.axes.sums import find_missing_terms, find_short_totals, sums_of
from stepscope.measures.localise import LOCALISE
from stepscope.model import Step, Verdict
from tests.factories import FAILED, agent, calls, did, failed, result, run, user
from tests.measures.answers import label, labels, whole

FLIGHTS = (
    '[{"flight_number": "HAT023", "prices": {"economy": 162, "business": 364}}, '
    '{"flight_number": "HAT134", "prices": {"economy": 70, "business": 210}}, '
    '{"flight_number": "HAT045", "prices": {"economy": 106, "business": 370}}, '
    '{"flight_number": "HAT100", "prices": {"economy": 99, "business": 259}}]'
)
LOOK = (user("the cheapest business trip"), *did("search", FLIGHTS))
REFUSED = "Error: payment amount does not add up, total price is 1203, but paid 833"


def calculate(expression: str, value: str) -> tuple[Step, Step]:
    return did("calculate", value, expression=expression)


def test_a_sum_without_one_fare_is_shown_with_its_terms_and_the_missing_one() -> None:
    booked = failed("book", REFUSED, flights=["HAT023", "HAT134", "HAT045", "HAT100"])
    made = run(*LOOK, *calculate("364 + 210 + 259", "833.0"), agent("$833."), user("ok"), *booked)
    (fault,) = find_missing_terms(made)
    assert (fault.step, fault.cites) == (3, (2, 8))
    assert fault.reason == (
        "adds 364 + 210 + 259 = 833 and leaves out 370 (HAT045, the result at 2); refused at 8, "
        "where the total is 1203"
    )
    assert labels(ARGUMENT_VALIDITY, made)[3] == "incorrect"


def test_a_difference_that_only_happens_to_be_a_fare_is_no_missing_term() -> None:
    booked = failed("book", REFUSED, flights=["HAT023", "HAT134", "HAT100"])
    listed = FLIGHTS.replace('{"flight_number": "HAT045"', '[{"flight_number": "HAT045"', 1)
    listed = listed.replace('"business": 370}}', '"business": 370}}]', 1)
    made = run(
        user("book"), *did("search", listed), *calculate("364 + 210 + 259", "833.0"), *booked
    )
    assert find_missing_terms(made) == []


def test_the_first_suspect_is_where_the_refused_number_arose() -> None:
    booked = failed("book", REFUSED, flights=["HAT023", "HAT134", "HAT045", "HAT100"])
    made = run(*LOOK, *calculate("364 + 210 + 259", "833.0"), *booked, *booked, outcome=FAILED)
    ranked = [
        a for a in LOCALISE(made, None, None) if isinstance(a, Verdict) and a.step is not None
    ]
    assert (ranked[0].step, ranked[0].label) == (3, "origin")
    assert {2, 3, 6} <= set(ranked[0].cites)


def test_a_refused_sum_that_nothing_explains_is_a_suspicion_and_no_fault() -> None:
    made = run(
        *LOOK, *calculate("364 + 210", "574.0"), *failed("book", "total is 599, paid 574"),
        outcome=FAILED,
    )  # fmt: skip
    assert labels(ARGUMENT_VALIDITY, made) == {}
    ranked = [
        a for a in LOCALISE(made, None, None) if isinstance(a, Verdict) and a.step is not None
    ]
    assert (ranked[0].step, ranked[0].label) == (3, "origin")
    assert (
        "364 + 210 = 574 first appears here; book is refused because of it at step 6"
        in ranked[0].reason
    )


ITEMS = (
    '{"order_id": "#W5061109", "items": [{"name": "Kit", "price": 248.85}, '
    '{"name": "Earbuds", "price": 256.67}, {"name": "Chair", "price": 511.24}]}'
)


@pytest.mark.parametrize(
    ("heard", "text", "left_out"),
    [
        ("what is it in all?", "All of order #W5061109 makes $760.09.", True),
        ("what is it in all?", "Without the Earbuds, order #W5061109 makes $760.09.", False),
        ("leave out the earbuds", "All of order #W5061109 makes $760.09.", False),
        ("what is it in all?", "That makes $760.09.", False),
        ("what is it in all?", "You will get $760.09 for #W5061109.", False),
    ],
)
def test_a_part_told_as_the_whole_leaves_a_term_out(heard: str, text: str, left_out: bool) -> None:
    sums = calculate("248.85 + 511.24", "760.09")
    made = run(user(heard), *did("get", ITEMS), *sums, agent(text))
    assert [fault.step for fault in find_missing_terms(made)] == [3] * left_out


def test_a_sum_in_the_words_of_a_call_is_one() -> None:
    thought = did("think", "", thought="All three: 248.85 + 511.24 = 760.09.")
    told = agent("All of order #W5061109 makes $760.09.")
    made = run(user("what is it in all?"), *did("get", ITEMS), *thought, told)
    assert [fault.step for fault in find_missing_terms(made)] == [3]


def test_a_sum_of_what_the_user_has_named_has_an_origin() -> None:
    four = ITEMS.replace("]}", ', {"name": "Lamp", "price": 17.31}, {"name": "Rug", "price": 9}]}')
    named = user("add up just Kit, Earbuds and Lamp")
    for told, known in (("$522.83", True), ("$1,033.10", False)):
        made = run(user("hi"), *did("get", four), agent("?"), named, agent(f"Just these: {told}."))
        assert labels(RESULT_INTERPRETATION, made) == ({} if known else {5: "incorrect"})


@pytest.mark.parametrize(
    ("expression", "known"),
    [
        ("364 + 210", True),
        ("2 * 364", True),
        ("728 - 120", True),  # two of them, and what the user pays
        ("574 * 3", True),  # told before
        ("391 + 210", False),
        ("391", False),
        ("1 + 2", True),
        ("364 - 100", False),
        ("364 * 8.25 / 100", True),  # 100 is a unit
        ("364 * (100 - 8.25) / 100", True),
        ("364 + 100.5", False),
        ("364 * 1.0825", True),  # the user's 8.25 %
        ("364 * (1 - 0.0825)", True),
        ("364 * 1.175", False),
    ],
)
def test_every_term_of_a_calculation_has_an_origin(expression: str, known: bool) -> None:
    spoken = (agent("$574 for both."), user("I pay at most $120, tax is 8.25%"))
    made = run(*LOOK, *spoken, *calculate(expression, "7.0"))
    found = whole(ARGUMENT_VALIDITY, made)[ARGUMENT_VALIDITY_NAME]
    assert (label(found) == "incorrect") is not known, found.reason


def test_only_arithmetic_that_a_number_answers_is_a_calculation() -> None:
    made = run(*LOOK, *did("find", "none", query="391-210"), *did("find", "7", text="x 391"))
    assert labels(ARGUMENT_VALIDITY, made) == {}


def test_sums_are_read_in_messages_and_counted_where_they_are_first_made() -> None:
    made = run(user("?"), agent("$105 + $190 = $295"), agent("105 + 190"), agent("2 * 50 + 30"))
    assert [(one.step, one.total) for one in sums_of(made)] == [(1, 295.0)]


CANCELLED = '{"payment_history": [{"payment_id": "g1", "amount": 567}, {"amount": -567}]}'


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (
            (*calculate("833 * 3", "2499.0"), *calculate("2499 - 1327", "1172.0")),
            "The remaining amount to be charged to your card will be $1,172.",
        ),
        ((), "In all $2,499, less $1,327: the remaining amount on your card will be $1,172."),
    ],
)
def test_the_charge_of_a_booking_is_no_misread_refund_of_another(
    steps: tuple[Step, ...], text: str
) -> None:
    spoken = user("cancel it; the trip is $833 for each of 3, I have $1,327 in certificates")
    made = run(spoken, *did("cancel", CANCELLED), *steps, agent(text), user("ok"))
    assert "as amount" not in str(list(RESULT_INTERPRETATION(made, None, None)))


def test_a_refund_told_with_another_amount_of_nothing_stays_a_fault() -> None:
    made = run(user("cancel"), *did("cancel", CANCELLED), agent("The amount is $560."), user("ok"))
    assert labels(RESULT_INTERPRETATION, made) == {3: "incorrect"}


def test_thousands_of_sums_and_refusals_end() -> None:
    steps: list[Step] = [user("go")]
    for at in range(2000):
        steps += calculate(f"{at + 100} + {at + 200}", f"{2 * at + 300}")
        steps += [calls(*calls().calls), result(f"total is {at}, paid {2 * at + 300}", "error")]
    assert find_missing_terms(run(*steps)) == []


LISTED = "The items:\n- Kit: $248.85\n- Earbuds: $256.67\n- Chair: $511.24\n"


@pytest.mark.parametrize(
    ("text", "error", "short"),
    [
        (f"{LISTED}\nAll in all $760.09.", "", True),
        (f"{LISTED}\nAll in all $1,016.76.", "", False),
        (f"{LISTED}\nWithout one of them, $760.09.", "", False),
        (f"{LISTED}\nKit and Chair make $760.09 in all.", "", False),
        ("In total you pay $760.09.", "", False),
        ("In total you pay $760.09.", "Error: 1016.76 is due, 760.09 was offered", True),
        ("In total you pay $760.09.", "Error: 760.09 exceeds the limit of 500", False),
        ("The total of order #W5061109 is $760.09.", "", True),
        ("The combined price of the 3 items of order #W5061109 is $760.09.", "", True),
        ("The combined price of the 2 items of order #W5061109 is $760.09.", "", False),
        (
            "Order #W5061109: Kit $248.85, Earbuds $256.67, Chair $511.24, so $760.09 together.",
            "",
            True,
        ),
    ],
)
def test_a_total_told_is_that_of_every_member_of_the_list(
    text: str, error: str, short: bool
) -> None:
    refused = failed("pay", error) if error else ()
    made = run(user("what is it?"), *did("get", ITEMS), agent(text), user("ok"), *refused)
    assert [fault.step for fault in find_short_totals(made)] == [3] * short


@pytest.mark.parametrize(
    ("asked", "told", "known"),
    [
        ("half of one ticket?", "Half of $364 is $182.", True),
        ("half of one ticket?", "He pays $105.00 of the $210.", True),
        ("one ticket with 10% off?", "In that case $145.80.", True),
        ("one ticket?", "In that case $145.80.", False),
        ("one ticket with 20 percent off?", "In that case $145.80.", False),
        ("one ticket with a tenth off?", "In that case $327.60.", True),
        ("two thirds of a ticket?", "That is $242.67.", True),
        ("3/4 of it?", "That is $273.00.", True),
        ("can we split it between three?", "That is $121.33.", True),
        ("can we split it between four?", "That is $121.33.", False),
        ("with the discount?", "With your 15% off it is $309.40.", True),
        ("what is it a night?", "$52.00 per night.", True),
        ("what is it?", "$52.00.", False),
    ],
)
def test_a_share_that_was_spoken_of_is_an_origin(asked: str, told: str, known: bool) -> None:
    made = run(*LOOK, user(asked), agent(told), user("ok"))
    found = whole(RESULT_INTERPRETATION, made)[RESULT_INTERPRETATION_NAME]
    assert (label(found) == "incorrect") is not known, found.reason


@pytest.mark.parametrize(
    ("summary", "known"),
    [
        ("She wants $364 back", True),
        ("She wants $574 back for both", True),
        ("She was promised $1,234.50 back", False),
    ],
)
def test_an_amount_that_is_handed_on_has_an_origin(summary: str, known: bool) -> None:
    made = run(
        *LOOK,
        agent("$574 for both."),
        user("a human, please"),
        *did("transfer", "ok", summary=summary),
    )
    found = whole(ARGUMENT_VALIDITY, made)[ARGUMENT_VALIDITY_NAME]
    assert (label(found) == "incorrect") is not known, found.reason
