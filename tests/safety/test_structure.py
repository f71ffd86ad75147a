"""The bracket index agrees with a parser that goes byte by byte, however the text is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.safety.json import BracketScanner, deepest_nesting

pieces = st.lists(st.text('{}[]"\\a', max_size=12).map(str.encode), max_size=6)


def by_hand(text: bytes) -> list[tuple[int, int]]:
    """Position and depth of every bracket outside strings; a backslash disarms a quote only."""
    found, depth, in_string, escaped = [], 0, False, False
    for at, char in enumerate(text.decode()):
        if char == '"' and not escaped:
            in_string = not in_string
        elif not in_string and char in "{}[]":
            depth += 1 if char in "{[" else -1
            found.append((at, depth))
        escaped = char == "\\" and not escaped
    return found


@given(pieces)
def test_brackets_are_found_the_same_in_one_chunk_or_in_many(chunks: list[bytes]) -> None:
    structure, offset = BracketScanner(), 0
    found: list[tuple[int, int]] = []
    for chunk in chunks:
        brackets = structure.scan(chunk)
        found += zip((brackets.at + offset).tolist(), brackets.depth.tolist(), strict=True)
        offset += len(chunk)
    assert found == by_hand(b"".join(chunks))


@pytest.mark.parametrize(
    ("chunks", "depths"),
    [
        ([b'["\\', b'"]'], [1]),
        ([b'["\\', b'\\"]'], [1, 0]),
        ([b'["\\\\', b'"]'], [1, 0]),
        ([b'["\\\\\\', b"", b'\\"', b"]"], [1, 0]),
        ([b'["\\', b'\\\\"', b"]"], [1]),
    ],
)
def test_a_run_of_backslashes_goes_on_in_the_next_chunk(
    chunks: list[bytes], depths: list[int]
) -> None:
    structure = BracketScanner()
    assert [depth for chunk in chunks for depth in structure.scan(chunk).depth.tolist()] == depths


def test_a_long_run_of_backslashes_is_counted_not_walked() -> None:
    assert deepest_nesting(b'["' + b"\\" * 2_000_000 + b'", [[["]') == 4
    assert deepest_nesting(b'["' + b"\\" * 2_000_001 + b'", [[["]') == 1
