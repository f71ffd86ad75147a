"""What single words, keys and names are taken for."""

from __future__ import annotations

import pytest

from stepscope.measures.axes.quantities import (
    date_cores,
    date_forms,
    number_forms,
    number_of,
    quantities,
    quantity_name,
    word_stem,
)
from stepscope.measures.axes.records import things_in
from stepscope.measures.calls import effect_of, ends_run, escalates_to_person
from stepscope.measures.completeness import Gap
from stepscope.measures.same_calls import is_same_purpose
from stepscope.model import Facts, ToolCall


@pytest.mark.parametrize(
    ("tool", "facts", "effect"),
    [
        ("book_flight", None, "write"),
        ("poke", Facts(effects={"poke": "write"}), "write"),
        ("book_flight", Facts(effects={"book_flight": "read"}), "read"),
    ],
)
def test_a_tool_does_what_is_declared_else_what_its_name_suggests(
    tool: str, facts: Facts | None, effect: str
) -> None:
    assert effect_of(tool, facts) == effect


def test_the_name_of_a_tool_tells_a_person_and_an_end() -> None:
    assert escalates_to_person("transfer_to_human_agents")
    assert not escalates_to_person("transfer_funds")
    assert ends_run("submit_answer")
    assert not ends_run("send_certificate")
    assert not ends_run("search_onestop_flight")


@pytest.mark.parametrize(
    ("command", "other", "same"),
    [("cd src && make test", "make", True), ("ls", "make", False)],
)
def test_in_a_shell_a_call_is_about_its_program(command: str, other: str, same: bool) -> None:
    ran, asked = (ToolCall("bash", {"command": text}) for text in (command, other))
    assert is_same_purpose(ran, asked) is same


@pytest.mark.parametrize(
    ("gap", "text"),
    [
        (Gap("results", "cut", 2, 12, 7), "results cut in 2 of 12"),
        (Gap("tools", "not_recorded", 1, 1, 0), "tool list not recorded"),
    ],
)
def test_a_gap_is_told_with_its_share_unless_it_is_all(gap: Gap, text: str) -> None:
    assert str(gap) == text


def test_a_name_made_of_digits_is_no_quantity() -> None:
    assert [number_of(text) for text in ("1,619.34", "1151293680", "019122")] == [
        1619.34,
        None,
        None,
    ]
    said = "2 bags at $1,050.50 on 2024-05-15, reservation W2378156"
    assert quantities(said) == (2.0, 1050.5)


def test_a_number_is_written_without_sign_and_currency() -> None:
    assert number_forms(-1232.7) == ["1232.7", "1232.70", "1,232.70"]


def test_a_key_names_its_quantity_by_its_last_telling_word() -> None:
    keys = ("refund_amount", "totalUsd", "amount")
    assert [quantity_name(key) for key in keys] == ["refund", "total", ""]


def test_words_of_one_stem_differ_in_their_endings() -> None:
    words = ("refunded", "refunds", "prices")
    assert [word_stem(word) for word in words] == ["refund", "refund", "price"]


def test_names_of_things_are_no_dates() -> None:
    assert things_in("W2378156 of 2024-05-15 is on gift_card_6941833, says JFKLAX") == (
        "W2378156",
        "gift_card_6941833",
        "JFKLAX",
    )


def test_the_forms_of_a_date_are_found_by_fewer_texts_in_them() -> None:
    cores = date_cores("2024-05-24")
    assert (len(date_forms("2024-05-24")), len(cores)) == (35, 15)
    assert cores[1] == ("may", "may 24", ("may 24",))
