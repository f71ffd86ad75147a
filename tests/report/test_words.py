"""How figures, runs, calls and steps are written, in few words."""

from __future__ import annotations

import pytest

from stepscope.report.render.html import make_content_policy
from stepscope.report.render.run_page import choose_window
from stepscope.report.rows import _without_beginning
from stepscope.report.views.gates import list_steps
from stepscope.report.views.judges import format_counts
from stepscope.report.views.overview import name_on_page
from stepscope.report.views.profile import draw_begins
from stepscope.report.views.run import add_evidence, count_steps_per_column, name_curve_chart
from stepscope.report.views.runs import _split_numbers, format_moment, size_cells
from stepscope.report.views.show import draw_sparkline
from stepscope.report.views.steps import _AMOUNTS, join_steps
from stepscope.report.votes import classify_absence
from stepscope.report.words import (
    clip,
    cut_words,
    describe_value,
    explain_absence,
    find_differences,
    fold,
    format_chance,
    keep_first_lines,
    list_some,
    name_figure,
    name_rubric,
    name_shape,
    shorten_names,
)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (clip("abcdef", 4), "abc…"),
        (clip("abcd", 4), "abcd"),
        (cut_words("two words here", 11), "two words…"),
        (cut_words("two words", 9), "two words"),
        (fold("one two three", 9, 2), ["one two", "  three"]),
        (keep_first_lines(["one two", "  three", "  four"], 2, 8), ["one two", "  three…"]),
        (list_some([1, 2, 3], 2), "1 2 ..."),
        (list_some(["a"], 2, ", "), "a"),
        (list_steps((3,)), "step 3"),
        (list_steps((1, 2, 3, 4, 5, 6)), "steps 1 2 3 4 5 ..."),
        (_without_beginning("no key abcdef", {"abcdefgh": "[hidden]"}), "no key [hidden]"),
    ],
)
def test_what_is_too_long_is_cut_and_its_end_marked(shown: object, expected: object) -> None:
    assert shown == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (name_figure("outcome.pass^4"), "  pass^4"),
        (name_on_page("outcome.pass^4"), "Tasks that pass 4 trials in a row"),
        (name_on_page("steps.median"), "Steps, median"),
        (name_shape("early_collapse"), "early collapse"),
        (name_rubric("axes.tool_selection"), "tool selection"),
        (name_rubric("quality.tool_selection"), "quality: tool selection"),
        (format_chance(0.384), "38 %"),
        (format_chance(0.001), "<1 %"),
        (format_chance(1.0), ">99 %"),
        (name_curve_chart("break", "latency"), "curve_latency_break"),
        (explain_absence("tokens.median", "missing_input"), "not in the trace"),
        (join_steps([44]), "44"),
        (join_steps([44, 48]), "44 and 48"),
        (join_steps([44, 48, 52]), "44, 48 and 52"),
        (format_counts({"refused": 1, "uncertain": 3}), "3 uncertain, 1 refused"),
        (format_moment(86_400_000_000_000), "1970-01-02 00:00:00"),
    ],
)
def test_a_key_or_a_count_is_written_as_people_read_it(name: str, expected: str) -> None:
    assert name == expected


def test_judges_are_called_by_their_model_where_that_tells_them() -> None:
    names = ["openai/gpt-5", "a/qwen3", "b/qwen3", "rules"]
    assert list(shorten_names(names).values()) == ["gpt-5", "a/qwen3", "b/qwen3", "rules"]


def test_an_absent_score_is_a_dot_and_the_least_one_a_bar() -> None:
    assert draw_sparkline([0.9, None, 0.45, 0.0]) == "█·▄▁"
    assert draw_begins((0, 2, 4, 8, 0)) == "·▂▄█·"


def test_a_map_and_a_strip_have_no_more_columns_than_fit() -> None:
    assert [count_steps_per_column(n) for n in (150, 151, 100_000)] == [1, 2, 667]
    assert size_cells([]) == 34


def test_the_window_of_a_long_run_holds_the_step_that_was_asked_for() -> None:
    windows = [choose_window(150, 90), choose_window(1000, 500), choose_window(1000, 990)]
    assert windows == [range(150), range(480, 680), range(800, 1000)]


def test_evidence_does_not_repeat_the_sentence_above_it() -> None:
    assert add_evidence("Adds 1 + 2", "adds 1 + 2; refused at 45") == "refused at 45"


def test_an_absence_is_counted_by_a_known_word_of_its_reason_or_its_kind() -> None:
    assert classify_absence("truncated: at 99 tokens", "error") == "truncated"
    assert classify_absence("why", "error") == "error"


def test_2_comes_before_11_in_a_name() -> None:
    assert sorted(["a/11", "a/2", "a"], key=_split_numbers) == ["a", "a/2", "a/11"]


def test_a_refusal_names_what_was_due_and_what_was_given() -> None:
    found = _AMOUNTS.search("payment does not add up, total price is 1203, but paid 833")
    assert found is not None
    assert found.groups() == ("1203", "833")


def test_a_page_may_run_only_scripts_whose_hash_its_policy_has() -> None:
    policy = make_content_policy(["a"], [])
    begins = "default-src 'none'; script-src 'none'; style-src 'sha256-ypeBEsobvcr6wjGzm"
    assert policy.startswith(begins)


def test_arguments_are_described_and_compared_by_their_members() -> None:
    flights = [{"number": "HAT097", "day": 1}, {"number": "HAT251", "day": 2}]
    assert describe_value(flights) == "HAT097 1 + HAT251 2"
    assert list(find_differences({"a": 1, "b": [{"c": 2}]}, {"a": 1, "b": [{"c": 3}]})) == [
        ("b.c", 2, 3)
    ]
