"""Nothing in a trace can move the cursor, reverse a line or hide within printed text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.safety.text import escaped_json, visible, visible_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, é, 你好, 👩‍👩‍👧", "plain text, é, 你好, 👩‍👩‍👧"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x9b2J", "\\x9b2J"),
        ("a\rb\x08\x7f\x00", "a\\x0db\\x08\\x7f\\x00"),
        ("user\u202enimda\u2066", "user\\u202enimda\\u2066"),
        ("a\u200bb\ufeff\u2028", "a\\u200bb\\ufeff\\u2028"),
        ("\U000e0041\U000e007f", "\\U000e0041\\U000e007f"),
        ("\ud800", "\\ud800"),
        ("one\n\ttwo", "one\n\ttwo"),
    ],
)
def test_hidden_and_moving_characters_are_spelt_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_line_is_one_line() -> None:
    assert visible_line("one\n\ttwo\r\u2028") == "one\\n\\ttwo\\x0d\\u2028"


@given(st.text(st.characters()))
def test_what_is_visible_can_be_encoded_and_stays_as_it_is(text: str) -> None:
    shown = visible(text)
    shown.encode()
    assert visible(shown) == shown
    assert visible_line(text).isprintable() or len(visible_line(text).splitlines()) <= 1


@given(st.text(st.characters()))
def test_json_without_hidden_characters_means_the_same(text: str) -> None:
    plain = json.dumps({text: [text]}, ensure_ascii=False)
    shown = escaped_json(plain)
    assert json.loads(shown) == {text: [text]}
    assert visible(shown) == shown
