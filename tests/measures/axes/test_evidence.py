"""A value is said in the formats agreed on, by others than the agent, and before the step."""

from __future__ import annotations

import msgspec
import pytest

from stepscope.measures.axes.evidence import Evidence, evidence_of
from stepscope.measures.axes.quantities import (
    StatedNumbers,
    date_cores,
    date_forms,
    number_of,
)
from stepscope.model import Part, Step, ToolResult
from tests.factories import agent, did, run, system, user

LATER = 99


@pytest.mark.parametrize(
    ("value", "words", "step"),
    [
        ("#W123", "about #w123 please", 0),
        ("#W123", "about W123.", 0),
        ("W123", "about #W123!", 0),
        ("#W123", "about #W1234", None),
        ("#W123", "about #AW123", None),
        ("#W9502127", "it is 9502127", 0),
        ("#W9502127", "it is 19502127", None),
        ("#W12", "it is 12", None),
        ("gift_card_5634230", "credit_card_5634230", None),
        ("4111222233334444", "4111-2222 3333 4444", 0),
        ("mia_li_3668", "I am Mia Li, number 3668", 0),
        ("mia_li_3668", "I am Mia Li, number 3669", None),
        ("mia@x.org", "write to MIA@X.org.", 0),
        ("34", "it cost 1619.34", None),
        ("1619", "it cost 1619.34", None),
        ("1619", "it cost 1619.", 0),
        ("zürich1", "in Z\\u00fcrich1", 0),
    ],
)
def test_a_value_is_traced_whole_in_every_agreed_format(
    value: str, words: str, step: int | None
) -> None:
    assert Evidence(run(user(words))).trace(value, LATER) == step


def test_only_what_was_said_before_the_step_counts() -> None:
    evidence = Evidence(run(user("hello"), agent("which?"), user("A17B"), user("A17B")))
    assert evidence.said("a17b", 2) is None
    assert evidence.said("a17b", 3) == 2


def test_policy_users_and_results_are_sources_and_the_agent_is_not() -> None:
    made = run(system("A1B1"), user("A2B2"), agent("A3B3"), *did("get", "A4B4", id="A5B5"))
    evidence = Evidence(made)
    found = [evidence.trace(value, LATER) for value in ("A1B1", "A2B2", "A3B3", "A4B4", "A5B5")]
    assert found == [0, 1, None, 4, None]


def test_what_another_agent_said_is_a_source() -> None:
    first, second = agent("order A17B"), agent("on it")
    made = run(
        msgspec.structs.replace(first, agent="planner"),
        msgspec.structs.replace(second, agent="worker"),
    )
    assert Evidence(made).said("a17b", LATER) == 0


def test_words_do_not_join_over_two_steps() -> None:
    assert Evidence(run(user("A1"), user("B2"))).said("a1\0b2", LATER) == 0
    assert Evidence(run(user("A1"), user("B2"))).first("a1b2") is None


@pytest.mark.parametrize(
    ("value", "words", "step"),
    [
        (1619.34, "a refund of $1,619.34.", 0),
        (1619.34, "a refund of 1619.34", 0),
        (232.7, "it costs 232.70", 0),
        (-16.63, "minus 16.63", 0),
        (250.0, "250", 0),
        (250.0, "250.00", 0),
        (1250.0, "1,250", 0),
        (250.0, "250.50", None),
        (250.0, "1250", None),
        (1234.0, "9,1,234", None),
    ],
)
def test_a_number_is_said_in_every_usual_format(value: float, words: str, step: int | None) -> None:
    assert Evidence(run(user(words))).number(value, LATER) == step


@pytest.mark.parametrize(
    ("words", "step"),
    [
        ("2024-05-07", 0),
        ("on May 7", 0),
        ("on the 7th of May", 0),
        ("7 May 2024", 0),
        ("05/07/2024", 0),
        ("7.5.24", 0),
        ("2024/05/07", 0),
        ("May 17", None),
        ("May 77", None),
        ("2024-05-08", None),
    ],
)
def test_a_date_is_said_in_every_usual_format(words: str, step: int | None) -> None:
    assert Evidence(run(user(words))).date("2024-05-07", LATER) == step


def test_a_text_that_is_no_date_has_itself_as_its_only_form() -> None:
    assert date_forms("2024-13-07") == ["2024-13-07"]
    assert date_forms("soon") == ["soon"]


def test_numbers_leave_out_names_made_of_digits() -> None:
    words = "paid $1,619.34 for 2 of item 1151293680 (#W2378156) on 2024-05-15 at 07:30, zip 01912"
    found = Evidence(run(user("x"), user(words))).numbers(LATER)
    assert found == [(0, ()), (1, (1619.34, 2.0))]


def test_numbers_were_said_before_the_step_asked_for() -> None:
    evidence = Evidence(run(user("11"), user("22"), user("33")))
    assert evidence.numbers(2) == [(0, (11.0,)), (1, (22.0,))]


PRICES = [(1, [269.16, 272.33, 100.25]), (4, [30.0, 3.0])]


@pytest.mark.parametrize(
    ("value", "formula", "steps"),
    [
        (3.17, "272.33 - 269.16", (1,)),
        (-3.17, "269.16 - 272.33", (1,)),
        (541.49, "269.16 + 272.33", (1,)),
        (299.16, "30 + 269.16", (1, 4)),
        (90.0, "3 x 30", (4,)),
        (641.74, "sum of a list, 641.74", (1,)),
        (541.50, None, ()),
        (33.0, None, ()),
        (300.0, None, ()),
    ],
)
def test_simple_arithmetic_derives_and_nothing_deeper(
    value: float, formula: str | None, steps: tuple[int, ...]
) -> None:
    found = StatedNumbers(PRICES).derive(value)
    assert (found.formula, found.steps) == (formula, steps) if found else formula is None


def test_arithmetic_draws_on_the_latest_numbers_only() -> None:
    others = (2, [10_000.0 * n for n in range(1, 61)])
    assert StatedNumbers(PRICES).derive(369.41) is not None
    assert StatedNumbers([*PRICES, others]).derive(369.41) is None
    assert StatedNumbers([*PRICES, others]).derive(30_000.0) is not None


def test_a_list_ends_with_its_step() -> None:
    assert StatedNumbers([(1, [269.16, 272.33]), (2, [100.25])]).derive(641.74) is None


def test_a_number_too_long_to_be_a_quantity_is_none() -> None:
    assert number_of("12345678") is None
    assert number_of("1234567") == 1234567.0
    assert number_of("0.5") == 0.5


def test_the_evidence_of_a_run_is_gathered_once() -> None:
    made = run(user("A17B"))
    assert evidence_of(made) is evidence_of(made)


def test_a_result_and_its_error_are_both_said() -> None:
    answer = ToolResult(parts=(Part("text", "no"),), status="error", error="A17B is gone")
    step = Step(index=0, actor="environment", kind="result", results=(answer,))
    assert Evidence(run(step)).said("a17b", LATER) == 0
    assert Evidence(run(step)).said("no", LATER) == 0


def test_numbers_written_to_take_for_ever_do_not() -> None:
    hostile = "1,111" * 200_000 + "x " + "1" * 200_000 + "x " + "1.1" * 200_000 + " 250"
    (said,) = Evidence(run(user(hostile))).numbers(LATER)
    assert said[1][-1] == 250.0


@pytest.mark.parametrize("iso", ["2024-05-07", "2024-05-24", "2024-11-12", "2024-13-07", "soon"])
def test_a_date_is_looked_for_in_every_form_by_a_text_that_the_form_contains(iso: str) -> None:
    found = date_cores(iso)
    assert sorted(form for *_, forms in found for form in forms) == sorted(date_forms(iso))
    assert [form for _, core, forms in found for form in forms if core not in form] == []
    assert [core for month, core, _ in found if month not in core] == []


@pytest.mark.parametrize(
    ("value", "step"),
    [
        ("ab12", 0),  # a word of the policy
        ("cd34", 1),  # part of a word of the policy is not said there
        ("#ef56", 0),
        ("may 7", 1),
        ("_gh78", 0),  # "_" is no bound of a word
    ],
)
def test_what_the_policy_lacks_is_found_behind_it(value: str, step: int) -> None:
    said = run(system("AB12 xcd34 #EF56 may x_gh78"), user("ab12 cd34 ef56, May 7, _gh78"))
    assert evidence_of(said).first(value) == step


def test_a_number_that_is_looked_for_again_ends_the_search_of_a_long_run_as_the_first_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stepscope.measures.axes.evidence.SEARCHED", 2_000)
    evidence = Evidence(run(user("it cost 12.50"), agent("So it did.")))
    found = [(evidence.number(7.25, LATER), evidence.exhausted) for _ in range(10)]
    assert found[0] == (None, False)
    assert found[-1] == (None, True)
    assert evidence.number(12.5, LATER) is None, "said, but the run is too long to search"
