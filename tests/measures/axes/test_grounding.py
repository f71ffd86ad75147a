"""Values found nowhere are invented only where no honest source is left; words are not judged."""

from __future__ import annotations

import pytest

from stepscope.measures.axes.arguments import (
    GROUNDING,
    MOST_VALUES,
    argument_leaves,
    classify_value,
    trace_values,
)
from stepscope.model import Json, Verdict
from tests.factories import did, run, user
from tests.measures.answers import cites, label, labels, value, whole


@pytest.mark.parametrize(
    ("argument", "given", "kind"),
    [
        ("order_id", "#W2378156", "identifier"),
        ("item_ids", "1151293680", "identifier"),
        ("orderId", "A17B", "identifier"),
        ("reservation_id", "GVLNZK", "identifier"),
        ("city", "LONDON", None),
        ("user_id", "mia", None),
        ("zip", "19122", "identifier"),
        ("email", "mia@x.org", "email"),
        ("to", "mia@x.org", "email"),
        ("when", "2024-05-07", "date"),
        ("when", "2024-05-07T10:30:00Z", "date"),
        ("amount", 250, "number"),
        ("amount", "250.00", "number"),
        ("amount", 99, None),
        ("share", 0.35, "number"),
        ("bags", 3, None),
        ("ok", True, None),
        ("none", None, None),
        ("name", "Mia Li", None),
        ("size", "A4", None),
        ("reason", "W2378156", None),
        ("file_path", "/tmp/a1b2.txt", None),
        ("expression", "(269.16 - 272.33)", None),
        ("cabin", "economy", None),
    ],
)
def test_what_is_judged_and_what_is_not(argument: str, given: Json, kind: str | None) -> None:
    assert classify_value(argument, given)[0] == kind


def states(words: str, tool: str, **arguments: Json) -> list[str]:
    return [found.state for found in trace_values(run(user(words), *did(tool, **arguments)))]


@pytest.mark.parametrize(
    ("words", "tool", "arguments", "state"),
    [
        ("cancel W2378156", "cancel", {"order_id": "#W2378156"}, "said"),
        ("cancel it", "cancel", {"order_id": "#W2378156"}, "invented"),
        ("cancel it", "cancel", {"mode": "fast2000"}, "unknown"),
        ("a new account", "create_user", {"user_id": "mia_3668"}, "unknown"),
        ("it is 155 plus 30", "pay", {"amount": 185}, "derived"),
        ("it is 155 plus 30", "pay", {"amount": 186}, "invented"),
        ("it is 155 plus 30", "list", {"limit": 500}, "unknown"),
        ("on the 7th of May", "search", {"date": "2024-05-07"}, "said"),
        ("on the 8th of May", "search", {"date": "2024-05-07"}, "invented"),
        ("tomorrow", "search", {"date": "2024-05-07"}, "unknown"),
        ("I am mia", "find", {"email": "mia@x.org"}, "unknown"),
        ("I am she", "find", {"email": "mia@x.org"}, "invented"),
    ],
)
def test_where_a_value_comes_from(
    words: str, tool: str, arguments: dict[str, Json], state: str
) -> None:
    assert states(words, tool, **arguments) == [state]


def test_values_are_found_at_any_depth_under_the_nearest_name() -> None:
    given = {"flights": [{"id": "A17B"}, {"id": "C18D"}], "tags": ["E19F"], "n": None}
    assert list(argument_leaves(given)) == [
        ("id", "A17B"),
        ("id", "C18D"),
        ("tags", "E19F"),
        ("n", None),
    ]


def test_endless_arguments_are_judged_up_to_a_bound() -> None:
    assert len(list(argument_leaves({"ids": list(range(10_000))}))) == MOST_VALUES


def test_the_share_leaves_out_what_nobody_can_tell() -> None:
    made = run(user("A17B"), *did("get", id="A17B"), *did("get", id="C18D"), *did("get", page=5000))
    answers = whole(GROUNDING, made)
    share = answers["grounding"]
    assert isinstance(share, Verdict)
    assert (share.value, cites(share)) == (0.5, (3,))
    assert share.reason.endswith("1 of 2 values come from what was said; of 1 more nobody can tell")
    assert value(answers["grounding.invented"]) == 1.0
    assert labels(GROUNDING, made) == {3: "invented", 5: "unknown"}


def test_nothing_to_judge_is_unmeasured_not_all_grounded() -> None:
    assert label(whole(GROUNDING, run())["grounding"]) == "not_applicable"
    assert label(whole(GROUNDING, run(*did("get", name="Mia")))["grounding"]) == "not_applicable"
    assert label(whole(GROUNDING, run(*did("get", page=5000)))["grounding"]) == "undefined"


def test_a_value_echoed_by_the_error_it_caused_was_invented_once() -> None:
    made = run(
        user("my order"),
        *did("get", "Error: no order A17B", id="A17B"),
        *did("get", "ok", id="A17B"),
    )
    assert [found.state for found in trace_values(made)] == ["invented", "said"]


def test_a_run_too_long_to_search_leaves_values_open_and_comes_to_an_end() -> None:
    long = user("1,111" * 400_000 + " tomorrow")
    many = [step for n in range(100) for step in did("get", order_id=f"A{n:05d}", amount=n + 1000)]
    found = trace_values(run(long, *many))
    assert len(found) == 200
    assert found[0].state == "invented"
    assert found[-1].reason == "the run is too long to search"


@pytest.mark.parametrize("text", ["a_" * 31 + "!", "a-" * 31 + "!", "a@" + "b." * 150, "1" * 300])
def test_no_argument_takes_for_ever_to_classify(text: str) -> None:
    assert classify_value("order_id", text)[0] is None


def test_where_the_trace_lacks_what_was_asked_nobody_can_tell() -> None:
    (value,) = trace_values(run(*did("get", order_id="#W1234567")))
    assert (value.state, value.reason) == ("unknown", "the trace lacks what was asked")


def test_a_day_named_after_the_call_is_no_source_of_its_date() -> None:
    made = run(user("a flight"), *did("search", date="2024-05-07"), user("I meant tomorrow"))
    assert [found.state for found in trace_values(made)] == ["invented"]


def test_a_value_given_twice_in_one_call_is_judged_once() -> None:
    made = run(user("A17B"), *did("get", ids=["A17B", "A17B"]))
    assert len(trace_values(made)) == 1
