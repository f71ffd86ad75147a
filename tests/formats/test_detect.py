"""The surest format is taken; two that are as sure as each other are both named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from stepscope import registry
from stepscope.errors import TraceError
from stepscope.formats.opening import choose_format
from stepscope.model import Quarantined, Stream, Trajectory


@dataclass(frozen=True)
class Sure:
    name: str
    confidence: float

    def sniff(self, head: bytes) -> float:
        return self.confidence

    def read(self, stream: Stream) -> Iterator[Trajectory | Quarantined]:
        yield from ()


@pytest.mark.parametrize(
    ("sure", "expected"),
    [
        ([("a", 0.5)], "a"),
        ([("a", 0.49)], "f: no known trace; it looks like an empty file"),
        ([], "f: no known trace; it looks like an empty file"),
        ([("a", 0.7), ("b", 0.9)], "b"),
        ([("a", 0.85), ("b", 0.9)], "f: may be b or a; say which with --format"),
        ([("b", 0.9), ("a", 0.9)], "f: may be a or b; say which with --format"),
        ([("a", 0.79), ("b", 0.9)], "b"),
        ([("a", 0.45), ("b", 0.5)], "f: may be b or a; say which with --format"),
    ],
)
def test_the_surest_format_is_taken_and_near_ties_name_both(
    sure: list[tuple[str, float]], expected: str
) -> None:
    formats = [Sure(name, confidence) for name, confidence in sure]
    if len(expected) == 1:
        assert choose_format(b"", "f", formats).name == expected
    else:
        with pytest.raises(TraceError) as refused:
            choose_format(b"", "f", formats)
        assert str(refused.value) == expected


def test_every_installed_format_is_asked() -> None:
    assert {"ours", "ours_parquet", "tau_bench"} <= {
        each.name for each in registry.installed_formats()
    }
