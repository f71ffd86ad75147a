"""What the user is told must come from what the tools returned, under the right name."""

from __future__ import annotations

import pytest

from stepscope.measures.axes.results import RESULT_INTERPRETATION, RESULT_INTERPRETATION_NAME
from stepscope.model import Step, Verdict
from tests.factories import agent, calls, did, failed, result, run, user
from tests.measures.answers import label, whole

LOOKED = (user("what of my order?"), *did("get_order", '{"price": 20.5, "id": "W1234567"}'))
TWO_REFUNDS = '[{"refund": 3}, {"refund": 4}, {"item": 51}]'
REFUND = '{"items": [{"price": 95.08}], "history": [{"type": "refund", "amount": 1619.34}]}'


def answer(*steps: Step) -> Verdict:
    found = whole(RESULT_INTERPRETATION, run(*steps))[RESULT_INTERPRETATION_NAME]
    assert isinstance(found, Verdict)
    return found


def told(text: str, said: str) -> Verdict:
    return answer(user("cancel it"), *did("cancel_order", said), agent(text), user("thanks"))


@pytest.mark.parametrize(
    ("text", "said", "expected"),
    [
        ("Your refund is $95.08.", REFUND, "incorrect"),
        ("You get a $95.08 refund.", REFUND, "incorrect"),
        ("Your refund is $1,619.34.", REFUND, "uncertain"),
        ("Your refund is $1,619.34, of it $95.08 for the hose.", REFUND, "uncertain"),
        ("The hose costs $95.08.", REFUND, "uncertain"),
        ("The balance is $7.", '{"account_balance": 90, "limit": 7}', "incorrect"),
        ("The balance is $90.", '{"account_balance": 90, "limit": 7}', "uncertain"),
        ("The total is $12.00.", '{"total_usd": 30, "items": [{"price": 12}]}', "incorrect"),
        ("The total is $42.00.", '[{"total_usd": 30}, {"total_usd": 12}]', "uncertain"),
        ("The fee is $5.", '{"fees": {"late": 3}, "deposit": 5}', "incorrect"),
        ("The amount is $95.08.", REFUND, "incorrect"),
        ("The amount is $1,619.34.", REFUND, "uncertain"),
        ("A refund of $3, a refund of $51.", TWO_REFUNDS, "incorrect"),
        ("A refund of $3, a refund of $4.", TWO_REFUNDS, "uncertain"),
        ("The price difference is $4.", '{"price": 9, "difference": 4}', "uncertain"),
    ],
)
def test_a_quantity_named_like_a_field_has_its_value(text: str, said: str, expected: str) -> None:
    found = told(text, said)
    assert found.label == expected, found.reason
    if expected == "incorrect":
        assert found.cites[-1] == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It costs $20.50 (W1234567).", "uncertain"),
        ("It costs $21.50.", "incorrect"),
        ("Two of them cost $41.00.", "uncertain"),
        ("Your order is W1234568.", "incorrect"),
        ("Your order is #W1234567.", "uncertain"),
        ("A number looks like #W0000000.", "uncertain"),
        ("All is well.", "uncertain"),
        ("It comes in 3 days, 50% off, at 10:30.", "uncertain"),
    ],
)
def test_amounts_and_identifiers_come_from_what_was_said(text: str, expected: str) -> None:
    assert answer(*LOOKED, agent(text)).label == expected


def test_an_amount_beside_an_identifier_stands_in_its_record() -> None:
    listed = '[{"item_id": "1151293680", "price": 20.5}, {"item_id": "4983901480", "price": 30.5}]'
    look = (user("what is there?"), *did("list_items", listed))
    assert answer(*look, agent("- Keyboard: $20.50 (Item ID: 1151293680)")).label == "uncertain"
    assert answer(*look, agent("- Keyboard: $30.50 (Item ID: 1151293680)")).label == "incorrect"


def test_the_sum_of_amounts_in_one_message_is_derived() -> None:
    listed = '{"prices": [11.1, 22.2, 33.3, 44.4]}'
    text = "A $11.10, B $33.30 and C $44.40: $88.80 together; without A $77.70"
    assert answer(user("sum?"), *did("get", listed), agent(text)).label == "uncertain"


CLAIM = agent("Your order has been cancelled successfully.")


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((*failed("cancel_order"), CLAIM), "incorrect"),
        ((*failed("cancel_order"), agent("I could not cancel it.")), "uncertain"),
        ((*failed("cancel_order"), agent("It has been tried, but it failed.")), "uncertain"),
        ((*failed("cancel_order"), *did("cancel_order"), CLAIM), "uncertain"),
        ((*failed("get_order"), CLAIM), "incorrect"),
        ((*did("cancel_order"), CLAIM), "uncertain"),
    ],
)
def test_success_claimed_after_an_error_is_incorrect(
    steps: tuple[Step, ...], expected: str
) -> None:
    found = answer(user("cancel it"), *steps, user("thanks"))
    assert found.label == expected
    if expected == "incorrect":
        assert found.cites[-1] == 3


def test_what_is_said_between_calls_is_thinking_aloud() -> None:
    made = (*LOOKED, agent("It costs $99.99."), *did("get_order", "20.5"), agent("Done."))
    assert answer(*made).label == "uncertain"


def test_without_results_it_is_not_applicable() -> None:
    assert (
        label(
            whole(RESULT_INTERPRETATION, run(user("hi"), agent("$5.00")))[
                RESULT_INTERPRETATION_NAME
            ]
        )
        == "not_applicable"
    )
    lone = run(user("hi"), calls(), result("x"))
    assert label(whole(RESULT_INTERPRETATION, lone)[RESULT_INTERPRETATION_NAME]) == "not_applicable"
