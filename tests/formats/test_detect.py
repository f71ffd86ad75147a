"""The surest format is taken; two that are as sure as each other are both named."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import run

import pytest

from stepscope import registry
from stepscope.errors import TraceError
from stepscope.formats import opening
from stepscope.formats.opening import (
    HEAD_BYTES,
    MARGIN,
    SURE,
    choose_format,
    likely_formats,
    read_opening,
)
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


ROOT = Path(__file__).parents[2]
TRACES = sorted(
    path
    for folder in ("examples", "tests/data", "tests/formats/data")
    for path in (ROOT / folder).rglob("*")
    if path.is_file()
)


@pytest.mark.parametrize("path", TRACES, ids=[str(path.relative_to(ROOT)) for path in TRACES])
def test_the_table_of_signatures_hides_no_format_that_is_sure(path: Path) -> None:
    whole = path.read_bytes()[:HEAD_BYTES]
    for head in (whole, whole[:3000], whole[:700]):
        near = {f.name for f in registry.installed_formats() if f.sniff(head) >= SURE - MARGIN}
        assert near <= {each.name for each in likely_formats(read_opening(head))}


def test_a_format_without_a_signature_is_always_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(opening._SIGNATURES, "otlp")
    asked = {each.name for each in likely_formats(read_opening(b'{"spam": 1}'))}
    assert "otlp" in asked
    assert asked == set(registry.names("formats")) - opening._SIGNATURES.keys()


def test_only_the_readers_that_may_be_sure_are_loaded() -> None:
    head = '[{"task_id": 1, "reward": 1, "traj": []}]'
    script = (
        "import sys; from stepscope.formats.opening import likely_formats, read_opening; "
        f"print([each.name for each in likely_formats(read_opening({head!r}.encode()))], "
        "'stepscope.formats.chat.responses' in sys.modules)"
    )
    said = run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    unsigned = set(registry.names("formats")) - opening._SIGNATURES.keys()
    assert said == f"{sorted({'tau_bench', *unsigned})} False\n"
