"""The fast way into an Inspect sample gives what the door gives, whatever stands in the sample."""

from __future__ import annotations

import json

import pytest

from stepscope.formats.inspect.read import decode_sample
from stepscope.safety.json import decode
from stepscope.safety.limits import Limits
from tests.formats.inspect import made, test_files
from tests.formats.reading import written

SAMPLE = written(made.LOG["samples"][0])


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize(
    ("raw", "repairs"),
    [
        (SAMPLE, []),
        (written(made.AGENTS["samples"][0]), []),
        (written(test_files.FIRST), []),
        (b'{"id": 1, "of tomorrow": {"a": [1]}}', []),
        (b'{"id": 1, "events": [{"event": "model", "of tomorrow": 1}]}', []),
        (b'{"id": 1, "id": 2}', ["duplicate_key"]),
        (b'{"events": [{"arguments": {"a": 1, "a": 2}}]}', ["duplicate_key"]),
        (b'{"scores": {"m": {"value": NaN}}}', ["non_finite"]),
        (b'{"total_time": 1e999}', ["huge_number"]),
        (b'{"id": 123456789012345678901234567890}', ["huge_number"]),
        (b'{"id": "\\u0000"}', ["nul"]),
        (b'{"id": "\\ud800"}', ["lone_surrogate"]),
        (b'{"id": "a\\u003ab"}', []),
        (f'{{"metadata": {nested(40)}}}'.encode(), []),
        (json.dumps({"messages": [{"role": "user", "content": "x" * 2000}]}).encode(),
         ["truncated"]),
        (json.dumps({"metadata": {"k" * 2000: 1}}).encode(), ["truncated"]),
        (b'{"events": {"a": 1}, "messages": "none", "input": 3}', []),
        (b"[1]", []),
    ],
)  # fmt: skip
def test_the_fast_way_gives_the_same_as_the_door(raw: bytes, repairs: list[str]) -> None:
    limits = Limits(text_bytes=1000) if len(raw) < 5000 else Limits()
    found = decode_sample(raw, limits=limits)
    assert found == decode(raw, limits=limits)
    assert [repair.code for repair in found.repairs] == repairs


def test_a_shallow_limit_is_kept() -> None:
    with pytest.raises(Exception, match=r"limits\.depth is 3"):
        decode_sample(SAMPLE, limits=Limits(depth=3))
