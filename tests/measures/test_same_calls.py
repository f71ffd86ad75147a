"""Calls against a reference: modes, arguments, partial credit, and their near misses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.errors import UsageError
from stepscope.measures.same_calls import MATCH, SENSES, ArgumentMode, compare_calls
from stepscope.model import Case, Json, ReferenceCall, ToolCall
from tests.factories import calls, did, run
from tests.measures.answers import label, value, whole


def made(names: str) -> list[ToolCall]:
    return [ToolCall(name, {}) for name in names]


def wanted(names: str) -> list[ReferenceCall]:
    return [ReferenceCall(name, {}) for name in names]


@pytest.mark.parametrize(
    ("done", "reference", "holding"),
    [
        ("ab", "ab", {"strict", "unordered", "in_order", "superset", "subset"}),
        ("ba", "ab", {"unordered", "superset", "subset"}),
        ("axb", "ab", {"in_order", "superset"}),
        ("bxa", "ab", {"superset"}),
        ("a", "ab", {"subset"}),
        ("aa", "ab", set()),
        ("aab", "ab", {"in_order", "superset"}),
        ("ab", "aab", {"subset"}),
        ("", "ab", {"subset"}),
        ("a", "", {"in_order", "superset"}),
        ("", "", {"strict", "unordered", "in_order", "superset", "subset"}),
        ("xy", "ab", set()),
    ],
)
def test_each_mode_holds_exactly_where_it_should(
    done: str, reference: str, holding: set[str]
) -> None:
    found = compare_calls(made(done), wanted(reference))
    assert {mode for mode in SENSES if found.holds(mode)} == holding
    assert compare_calls(made(done), wanted(reference), mode="exact").matched is (
        "strict" in holding
    )
    any_order = compare_calls(made(done), wanted(reference), mode="any_order")
    assert any_order.matched is ("superset" in holding)


@pytest.mark.parametrize(
    ("arguments", "mode", "fits"),
    [
        ({"a": 1, "b": 2}, "exact", True),
        ({"b": 2.0, "a": 1}, "exact", True),
        ({"a": 1}, "exact", False),
        ({"a": 1, "b": 2, "c": 3}, "exact", False),
        ({"a": 1}, "subset", True),
        ({"a": 2}, "subset", False),
        ({"a": 1, "c": 3}, "subset", False),
        ({"a": 1, "b": 2, "c": 3}, "superset", True),
        ({"a": 1, "c": 3}, "superset", False),
        ({"z": 9}, "ignore", True),
        ("not an object", "ignore", True),
        ("not an object", "subset", False),
        (None, "subset", True),
        (None, "exact", False),
    ],
)
def test_arguments_fit_as_the_mode_says(arguments: Json, mode: ArgumentMode, fits: bool) -> None:
    found = compare_calls(
        [ToolCall("t", arguments)], [ReferenceCall("t", {"a": 1, "b": 2})], arguments=mode
    )
    assert found.n_paired == int(fits)


@pytest.mark.parametrize(
    ("overrides", "fits"),
    [
        ({}, False),
        ({"t": "ignore"}, True),
        ({"u": "ignore"}, False),
        ({"t": ["id"]}, True),
        ({"t": ["id", "note"]}, False),
        ({"t": ["id", "absent"]}, True),
        ({"t": []}, True),
    ],
)
def test_a_tool_may_have_its_own_rule(
    overrides: Mapping[str, ArgumentMode | Sequence[str]], fits: bool
) -> None:
    done = [ToolCall("t", {"id": 1, "note": "x"})]
    found = compare_calls(done, [ReferenceCall("t", {"id": 1, "note": "y"})], overrides=overrides)
    assert found.n_paired == int(fits)


def test_malformed_arguments_match_nothing_but_ignore() -> None:
    broken = [ToolCall("t", None, raw="{", parse_error="cut")]
    assert compare_calls(broken, [ReferenceCall("t", {})]).n_paired == 0
    assert compare_calls(broken, [ReferenceCall("t", {})], arguments="ignore").n_paired == 1
    assert compare_calls([ToolCall("t")], [ReferenceCall("t", {})]).n_paired == 1


def test_numbers_may_differ_by_the_tolerance() -> None:
    done, reference = [ToolCall("pay", {"usd": 100.5})], [ReferenceCall("pay", {"usd": 100})]
    assert compare_calls(done, reference, tolerance=0.01).n_paired == 1
    assert compare_calls(done, reference, tolerance=0.001).n_paired == 0


def test_a_pairing_is_not_greedy() -> None:
    done = [ToolCall("t", {"a": 1}), ToolCall("t", {"a": 1, "b": 2})]
    reference = [ReferenceCall("t", {"a": 1, "b": 2}), ReferenceCall("t", {"a": 1})]
    found = compare_calls(done, reference, arguments="subset", mode="unordered")
    assert (found.pairs, found.missed, found.matched) == ((1, 0), (), True)


ARGUMENTS = st.dictionaries(st.sampled_from("ab"), st.integers(0, 1), max_size=2)
CALLS = st.lists(st.tuples(st.sampled_from("xy"), ARGUMENTS), max_size=6)


@given(CALLS, CALLS, st.sampled_from(["exact", "ignore", "subset", "superset"]), st.randoms())
def test_permuting_either_side_changes_no_count(
    done: list[tuple[str, dict[str, int]]],
    reference: list[tuple[str, dict[str, int]]],
    mode: ArgumentMode,
    random: Random,
) -> None:
    def paired() -> tuple[int, list[bool]]:
        found = compare_calls(
            [ToolCall(*each) for each in done],
            [ReferenceCall(*each) for each in reference],
            arguments=mode,
        )
        return found.n_paired, [found.holds(m) for m in ("unordered", "superset", "subset")]

    before = paired()
    random.shuffle(done)
    random.shuffle(reference)
    assert paired() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"mode": "loose"}, "match mode 'loose'"),
        ({"arguments": "some"}, "argument mode 'some'"),
        ({"overrides": {"t": "some"}}, "argument mode 'some'"),
        ({"tolerance": -1}, "tolerance is -1"),
        ({"tolerance": float("nan")}, "tolerance is nan"),
    ],
)
def test_a_word_that_no_mode_has_is_refused(words: dict[str, Json], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        compare_calls([], [], **words)


def case(names: str | None) -> Case:
    reference = None if names is None else tuple(wanted(names))
    return Case(workflow="shop", task="1", reference=reference)


def figures(done: str, reference: str | None) -> dict[str, float | str | None]:
    steps = [step for name in done for step in did(name)]
    found = whole(MATCH, run(*steps), case(reference))
    return {name.removeprefix("match."): value(answer) for name, answer in found.items()}


def test_partial_credit_is_precision_recall_f1_and_common_order() -> None:
    found = figures("cab", "abcd")
    assert found["precision"] == 1.0
    assert found["recall"] == 0.75
    assert found["f1"] == pytest.approx(6 / 7)
    assert found["lcs"] == 0.5
    assert (found["subset"], found["superset"]) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("done", "reference", "precision", "recall", "f1"),
    [
        ("", "a", "undefined", 0.0, 0.0),
        ("a", "", 0.0, "undefined", 0.0),
        ("", "", "undefined", "undefined", "undefined"),
        ("a", None, "not_applicable", "not_applicable", "not_applicable"),
    ],
)
def test_zero_over_zero_is_undefined_not_zero(
    done: str, reference: str | None, precision: object, recall: object, f1: object
) -> None:
    found = figures(done, reference)
    assert (found["precision"], found["recall"], found["f1"]) == (precision, recall, f1)


def test_a_users_own_calls_are_not_the_agents() -> None:
    mixed = run(calls(ToolCall("a", {}), ToolCall("b", {}, requestor="user")))
    assert label(whole(MATCH, mixed, case("a"))["match.strict"]) == "match"
