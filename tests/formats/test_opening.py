"""What the first bytes of a file are taken for."""

from __future__ import annotations

import pytest

from stepscope.formats.opening import read_opening


@pytest.mark.parametrize(
    ("head", "shape", "records"),
    [
        (b'[{"a": 1}, {"b": 2,}, {"c": 3}]', "array", ({"a": 1}, {"c": 3})),
        (b'[{"a": 1,,}, {"b": 2}, {"c": "cut he', "array", ({"b": 2},)),
        (b'[{"a": 1}, {"b": 2}, {"c": 3}]', "array", ({"a": 1}, {"b": 2}, {"c": 3})),
        (b"[{,}]", "none", ()),
    ],
)
def test_one_broken_record_does_not_hide_the_others(
    head: bytes, shape: str, records: tuple[object, ...]
) -> None:
    found = read_opening(head)
    assert (found.shape, found.records) == (shape, records)
