"""A shortcut before a pattern or a sum leaves nothing out that the long way finds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.measures.axes.claims import claims_success
from stepscope.measures.axes.quantities import (
    StatedNumbers,
    names_in,
    told_amounts,
)
from stepscope.measures.conduct import asks_consent, find_decision
from stepscope.measures.language import admits_failure

CENTS = st.integers(1_000, 500_000).map(lambda cents: cents / 100)


@given(CENTS, CENTS, st.lists(CENTS, max_size=20))
def test_a_sum_and_a_difference_of_two_are_always_found(
    a: float, b: float, others: list[float]
) -> None:
    said = StatedNumbers([(1, [a, *others, b])])
    assert said.derive(round(a + b, 2)) is not None
    assert said.derive(round(a - b, 2)) is not None


@given(CENTS, st.integers(2, 9))
def test_a_small_multiple_is_always_found(term: float, count: int) -> None:
    assert StatedNumbers([(1, [term])]).derive(round(count * term, 2)) is not None


@given(st.lists(CENTS, min_size=2, max_size=8), st.lists(CENTS, max_size=8))
def test_a_sum_of_neighbours_is_always_found(terms: list[float], others: list[float]) -> None:
    said = StatedNumbers([(1, others), (2, terms)])
    assert said.derive(round(sum(terms), 2)) is not None


@pytest.mark.parametrize(
    "word",
    "not cannot unable error issue problem trouble mistake failed sorry apologise unfortunately "
    "however instead insufficient invalid unavailable discrepancy mismatch exceeds incorrect "
    "unsuccessful can't can\u2019t".split(),
)
def test_every_admission_is_heard_in_any_case(word: str) -> None:
    assert admits_failure(f"I {word} this.")
    assert admits_failure(f"I {word.upper()} this.")


def test_a_message_that_admits_nothing_is_none() -> None:
    assert not admits_failure("All went well, and nothing noteworthy came up.")


@pytest.mark.parametrize(
    "text",
    [
        "Success!",
        "It has been booked",
        "Both are NOW open",
        "You're all set",
        "I've booked it",
        "I\u2019ve booked it",
        "I have just cancelled it",
        "It was fully refunded",
        "They were refunded",
    ],
)
def test_every_claim_of_success_is_heard(text: str) -> None:
    assert claims_success(text)


@pytest.mark.parametrize(
    ("text", "yes"),
    [
        ("Yes, please", True),
        ("I do not want to proceed", False),
        ("It isn\u2019t ok to proceed", False),
        ("NEVER proceed", False),
        ("no, sure", False),
    ],
)
def test_a_denial_in_any_spelling_is_no_yes(text: str, yes: bool) -> None:
    assert (find_decision(text) == "agrees") is yes


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Do you confirm?", True),
        ("Book it (yes/no)", True),
        ("May I?", True),
        ("unconfirmed", False),
        ("Booked.", False),
    ],
)
def test_a_question_for_a_yes_is_heard(text: str, asked: bool) -> None:
    assert asks_consent(text) is asked


def test_amounts_and_identifiers_are_found_without_a_currency_and_at_the_very_start() -> None:
    assert [amount.value for amount in told_amounts("95.08 and 1,619.34")] == [95.08, 1619.34]
    assert names_in("W2378156 ships") == ("W2378156",)
    assert told_amounts("version 4.2") == []
    assert names_in("room 1234") == ()


def test_an_amount_is_named_by_its_own_line_only() -> None:
    amount = told_amounts("Refund:\n $95.08 now\nFee: none")[0]
    assert (amount.clause, amount.behind, amount.line) == (" ", " now", " $95.08 now")
