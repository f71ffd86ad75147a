from __future__ import annotations

import pytest

from stepscope.report.words import cut_words, shorten

ADDS_UP = "payment amount does not add up, total price is 1203, but paid 833"


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("one two three", 13, "one two three"),
        ("one two three", 12, "one two…"),
        ("one two three", 8, "one two…"),
        ("one two three", 7, "one…"),
        ("item_ids 1 + 2 + 3, expected", 14, "item_ids 1…"),
        ("call(a, b)", 9, "call(a…"),
        ("x" * 60, 30, "x" * 29 + "…"),
        ("so " + "x" * 60, 40, "so " + "x" * 36 + "…"),
        ("already cut…", 8, "already…"),
    ],
)
def test_a_cut_falls_between_words_unless_a_word_is_too_long(
    text: str, width: int, shown: str
) -> None:
    assert cut_words(text, width) == shown
    assert len(shown) <= width


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        (
            f"book_ride fails 5 times with the same error, and the run ends on it: {ADDS_UP}",
            80,
            "fails 5 times with the same error, and the run ends on it: …1203, but paid 833",
        ),
        (
            "book_ride fails 4 times, then step 42 succeeds; last error: certificate_7 not found",
            66,
            "fails 4 times, then step 42 succeeds: certificate_7 not found",
        ),
        (
            "cancel_order is not as expected: reason is a, not b",
            40,
            "not as expected: reason is a, not b",
        ),
        (
            "the agent stopped after transfer_to_human at step 8 and never called book(1, ...)",
            40,
            "never called book(1, ...)",
        ),
        ("x fails: one", 12, "x fails: one"),
    ],
)
def test_the_tools_name_goes_before_the_words_that_tell_most(
    text: str, width: int, shown: str
) -> None:
    assert shorten(text, width, ends=True) == shown


def test_a_tool_that_is_the_evidence_keeps_its_name() -> None:
    said = "unexpected write: book_reservation(A, B, C)"
    assert shorten(said, 41, ends=False) == "unexpected write: book_reservation(A, B…"


@pytest.mark.parametrize("width", range(30, 100))
def test_no_word_is_cut_in_the_middle_at_any_width(width: int) -> None:
    text = f"book_reservation fails 5 times, and the run ends on it: {ADDS_UP}"
    words = set(text.split())
    for ends in (True, False):
        shown = shorten(text, width, ends=ends)
        assert len(shown) <= width
        assert shown.count("…") <= 1
        assert {w.rstrip(",:") for w in shown.replace("…", " ").split()} <= {
            w.rstrip(",:") for w in words
        }
