"""A value told or passed belongs to one thing: another thing's value in its place is a fault."""

from __future__ import annotations

import pytest

from stepscope.measures.axes.arguments import ARGUMENT_VALIDITY, ARGUMENT_VALIDITY_NAME
from stepscope.measures.axes.records import results_of
from stepscope.measures.axes.results import RESULT_INTERPRETATION, RESULT_INTERPRETATION_NAME
from stepscope.model import Case, Json
from tests.factories import FAILED, PASSED, agent, did, goal, run, user
from tests.measures.answers import label, labels, whole

BOOTS = (
    '{"name": "Hiking Boots", "product_id": "7363354090", "variants": {'
    '"8118291112": {"item_id": "8118291112", "options": {"size": "12", "material": "leather", '
    '"waterproof": "no"}, "price": 260.56}, '
    '"8277474082": {"item_id": "8277474082", "options": {"size": "12", "material": "leather", '
    '"waterproof": "yes"}, "price": 236.57}, '
    '"3812493782": {"item_id": "3812493782", "options": {"size": "7 ft", "material": "rubber", '
    '"waterproof": "yes"}, "price": 244.34}}}'
)
ORDER = (
    '{"order_id": "#W4284542", "items": [{"name": "Headphones", "item_id": "9805150490", '
    '"price": 346.97}, {"name": "Keyboard", "item_id": "9690244451", "price": 235.13}], '
    '"payment_history": [{"transaction_type": "payment", "amount": 582.1}]}'
)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("- Leather, size 12, waterproof: $236.57", True),
        ("- Leather, size 12, waterproof: $260.56", False),
        ("- Leather, size 12, waterproof: no - $260.56", True),
        ("- Leather, size 12, waterproof: no - $236.57", False),
        ("1. **Boots**\n   - Size: 7-foot\n   - Rubber, waterproof\n   - Price: $236.57", False),
        ("1. **Boots**\n   - Size: 7-foot\n   - Rubber, waterproof\n   - Price: $244.34", True),
        ("- $236.57 (Item ID: 8118291112)", False),
        ("- $260.56 (Item ID: 8118291112)", True),
        ("Item 8118291112 is $260.56, item 8277474082 $236.57.", True),
        ("Item 8118291112 is $260.56, item 8277474082 $244.34.", False),
        # Which of two is meant is open, or nothing says so.
        ("You have the non-waterproof leather in 12; the waterproof costs $236.57.", True),
        ("The difference of leather, size 12, waterproof is $244.34.", True),
        ("The cheapest is $236.57.", True),
        ("Headphones: $346.97, Keyboard: $235.13", True),
        ("Headphones: $582.10, Keyboard: $235.13", False),
        ("Headphones and Keyboard: $582.10", True),
        ("Roughly, the price of the Headphones is $347.", True),
        ("The price of the Headphones is $347.", False),
        ("Paid on 3 May. I have $582.10 here for the price of the Headphones.", False),
        ("In all $582.10, for the Headphones ($346.97) and the Keyboard ($235.13).", True),
    ],
)
def test_a_price_told_of_a_thing_is_its_own(text: str, right: bool) -> None:
    look = (user("what is there?"), *did("get", BOOTS), *did("get_order", ORDER))
    found = whole(RESULT_INTERPRETATION, run(*look, agent(text), user("ok")))
    answer = found[RESULT_INTERPRETATION_NAME]
    assert (label(answer) == "incorrect") is not right, answer.reason


def test_a_record_has_its_fields_its_name_and_its_owner() -> None:
    made = run(user("?"), *did("get", ORDER), *did("get", '[{"a": null}, [1, {"b": {}}]]'))
    reader = results_of(made)
    ((at, result), (_, odd)) = reader.all
    first = next(r for r in reader.records(at, result) if r.name == "Headphones")
    assert first.fields == {"name": "Headphones", "item_id": "9805150490", "price": 346.97}
    assert (first.owners, first.identifiers) == (("#W4284542",), ("9805150490",))
    assert reader.records(at, odd) == []


USER = (
    '{"payment_methods": {"gift_card_1675628": {"id": "gift_card_1675628"}, '
    '"credit_card_8105988": {"id": "credit_card_8105988", "last_four": "8484"}, '
    '"credit_card_3951670": {"id": "credit_card_3951670", "last_four": "7334"}}}'
)
CASE = Case(
    workflow="shop",
    task="1",
    subgoals=(
        goal("return_items", order_id="#W1", item_ids=["i1", "i2"], pay="credit_card_8105988"),
    ),
)


def returned(words: str, **changed: Json) -> dict[int, str | None]:
    given: dict[str, Json] = {
        "order_id": "#W1",
        "item_ids": ["i2", "i1"],
        "pay": "credit_card_8105988",
    }
    look = did("get_user", '{"orders": ["#W1", "#W2"], "items": ["i1", "i2", "i3"]}')
    made = run(
        user(words), *look, *did("get_payments", USER), *did("return_items", **given | changed),
        outcome=FAILED,
    )  # fmt: skip
    return labels(ARGUMENT_VALIDITY, made, CASE)


@pytest.mark.parametrize(
    ("words", "changed", "differs"),
    [
        ("return them", {}, False),
        ("return them", {"pay": "credit_card_3951670"}, True),
        ("return them to my card", {"pay": "credit_card_3951670"}, True),
        ("return them to my card ending in 7334", {"pay": "credit_card_3951670"}, False),
        ("return them to my card ending in 8484", {"pay": "credit_card_3951670"}, True),
        ("return them to my gift card", {"pay": "gift_card_1675628"}, False),
        ("return them to my credit card", {"pay": "gift_card_1675628"}, True),
        ("return #W1", {"order_id": "#W2"}, True),
        ("return #W2, not #W1", {"order_id": "#W2"}, False),
        ("return both", {"item_ids": ["i1"]}, True),
        ("return both", {"item_ids": ["i1", "i2", "i3"]}, True),
    ],
)
def test_a_write_that_differs_from_the_expected_one_is_a_fault_unless_the_user_said_so(
    words: str, changed: dict[str, Json], differs: bool
) -> None:
    assert (returned(words, **changed) == {5: "incorrect"}) is differs


@pytest.mark.parametrize(
    ("proposal", "answer", "agreed"),
    [
        ("Order #W1\n- **Pay:** credit_card_3951670", "Yes, please go ahead.", True),
        ("Order #W1\n- **Pay:** credit_card_3951670", "Which orders do I have?", False),
        ("Order #W1, not credit_card_3951670", "Yes, please go ahead.", False),
    ],
)
def test_what_the_user_said_yes_to_is_as_good_as_said(
    proposal: str, answer: str, agreed: bool
) -> None:
    given: dict[str, Json] = {"order_id": "#W1", "item_ids": ["i2", "i1"]}
    call = did("return_items", **given, pay="credit_card_3951670")
    look = did("get_user", '{"orders": ["#W1"], "items": ["i1", "i2"], "cards": [1]}')
    paid = did("get_payments", USER)
    said = (user("return them"), *look, *paid, agent(proposal), user(answer), *call)
    found = labels(ARGUMENT_VALIDITY, run(*said, outcome=FAILED), CASE)
    assert (found == {}) is agreed


def test_a_passed_check_outranks_the_letter_of_the_reference() -> None:
    made = run(user("return #W2"), *did("return_items", order_id="#W2"), outcome=PASSED)
    assert labels(ARGUMENT_VALIDITY, made, CASE) == {}


def test_the_difference_is_said_as_expected_not_as_asked() -> None:
    made = run(user("x #W1"), *did("return_items", order_id="#W1", pay="credit_card_3951670"))
    found = whole(ARGUMENT_VALIDITY, made, CASE)[ARGUMENT_VALIDITY_NAME]
    assert "expected 'credit_card_8105988'" in found.reason
    assert "asked" not in found.reason


def test_another_write_of_the_tool_is_not_this_one_done_wrongly() -> None:
    made = run(
        user("do #W9 with i9"), *did("return_items", order_id="#W9", item_ids=["i9"], pay="p9")
    )
    assert "expected call" not in str(list(ARGUMENT_VALIDITY(made, CASE, None)))


TRIP = (
    '{"reservation_id": "MDCLVA", "flights": [{"flight_number": "HAT043", "date": "2024-05-15", '
    '"price": 67}, {"flight_number": "HAT043", "date": "2024-05-18", "price": 84}], '
    '"payment_history": [{"payment_id": "credit_card_5832574", "amount": 286}]}'
)
OTHER_ORDER = '{"order_id": "#W9300146", "items": [{"name": "Keyboard", "price": 153.23}]}'


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("The total paid for reservation MDCLVA is $67.", False),
        ("The total paid for reservation MDCLVA is $286.", True),
        ("I am sorry about this. You were charged $84 for MDCLVA.", True),  # not named before it
        ("The fare of HAT043 on 2024-05-15 in reservation MDCLVA: $84.", False),
        ("The fare of HAT043 on 2024-05-18 in reservation MDCLVA: $84.", True),
        ("The fare of HAT043 is $84.", True),  # on which day is open
        ("The Keyboard in order #W9300146 was $235.13.", False),
        ("The Keyboard in order #W4284542 was $235.13.", True),
        ("The keyboard was $235.13.", True),  # which order is open
        ("Hello! $153.23 is the price of the Keyboard in order #W4284542.", False),
        ("The Keyboard in #W4284542 together with the Headphones: $346.97.", True),
        ("The total refund for #W4284542 is $346.97.", True),
    ],
)
def test_an_amount_is_of_the_most_exact_thing_that_its_sentence_names(
    text: str, right: bool
) -> None:
    look = (*did("get_trip", TRIP), *did("get_order", ORDER), *did("get_order", OTHER_ORDER))
    found = whole(RESULT_INTERPRETATION, run(user("tell me"), *look, agent(text), user("ok")))
    answer = found[RESULT_INTERPRETATION_NAME]
    assert (label(answer) == "incorrect") is not right, answer.reason


@pytest.mark.parametrize(("told", "right"), [("346.97", True), ("235.13", False), ("582.10", True)])
def test_a_refund_is_of_what_was_given_back(told: str, right: bool) -> None:
    items: list[Json] = ["9805150490"] if told != "582.10" else ["9805150490", "9690244451"]
    back = did("return_items", ORDER, item_ids=items)
    made = run(user("return them"), *back, agent(f"The refund of ${told} is on its way."))
    found = whole(RESULT_INTERPRETATION, made)[RESULT_INTERPRETATION_NAME]
    assert (label(found) == "incorrect") is not right, found.reason


@pytest.mark.parametrize(
    ("asked", "text", "right"),
    [
        ("The price of the Headphones?", "That's $582.10.", False),
        ("The price of the Headphones?", "That's $346.97.", True),
        ("The price of the Chair?", "That's $582.10.", True),
        ("The price of the Headphones?", "That is the sum of all, $582.10.", True),
    ],
)
def test_an_amount_told_in_few_words_is_of_what_was_asked(
    asked: str, text: str, right: bool
) -> None:
    made = run(user("hi"), *did("get_order", ORDER), agent("Yes?"), user(asked), agent(text))
    found = whole(RESULT_INTERPRETATION, made)[RESULT_INTERPRETATION_NAME]
    assert (label(found) == "incorrect") is not right
