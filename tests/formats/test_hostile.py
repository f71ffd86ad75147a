"""Any bytes in: runs, a counted quarantine or one line; never a crash, never a silent loss."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bars.formats import json_cases, truncation
from bars.formats.memory import LIMIT_BYTES, long_line, peak
from stepscope import registry
from stepscope.errors import StepscopeError
from stepscope.formats.opening import detect
from stepscope.model import Quarantined, Trajectory
from stepscope.safety.limits import MIB
from tests.formats.reading import read

AIRLINE = (truncation.ROOT / "examples" / "airline" / "runs.json").read_bytes()
SESSION = next((truncation.ROOT / "examples" / "claude_code").glob("*.jsonl")).read_bytes()
ATIF = next((truncation.ROOT / "examples" / "atif").glob("*.json")).read_bytes()
REAL = {
    "tau_bench": b"[" + AIRLINE[AIRLINE.index(b"{") : 9000],
    "claude_code": SESSION,
    "atif": ATIF[:9000],
}
# Bytes that change what JSON says, put in the place of others.
SPOILERS = st.sampled_from(
    [b"", b'"', b"{", b"}", b"[", b"]", b",", b"\\", b"\n", b"\x00", b"\xff", b"NaN", b"null",
     b"-1", b"1e999", b'"\\ud800"', b"[" * 300, b'{"role": 7}', b'{"a":1,"a":2}'],
)  # fmt: skip


@pytest.mark.shared_data
def test_every_json_parser_case_is_told_apart_and_never_lost(shared: Path) -> None:
    counts = json_cases.tally(shared / "hostile" / "test_parsing")
    assert {row: counts[row] for row in json_cases.EXPECTED} == json_cases.EXPECTED


def test_a_real_trace_of_every_format_cut_anywhere_is_counted() -> None:
    for sample in truncation.samples(truncation.DATA):
        size = len(sample.content)
        assert truncation.faults(sample, [*range(1, size, size // 9), *range(size - 3, size)]) == []


@settings(max_examples=60)
@given(
    name=st.sampled_from(sorted(REAL)),
    spoils=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 9), SPOILERS), max_size=4),
)
def test_a_spoilt_trace_gives_runs_a_quarantine_or_one_line(
    name: str, spoils: list[tuple[float, int, bytes]]
) -> None:
    data = REAL[name]
    for share, width, spoiler in spoils:
        at = int(share * len(data))
        data = data[:at] + spoiler + data[at + width :]
    for chosen in (None, name):
        try:
            form = detect(data, "f") if chosen is None else registry.format(chosen)
            found = read(form, data)
        except StepscopeError as e:
            assert "\n" not in str(e)  # noqa: PT017 - a refusal is as right as a reading
        else:
            assert all(isinstance(item, (Trajectory, Quarantined)) for item in found)
            assert found or not data.strip(b" \t\r\n[],\xef\xbb\xbf")


@settings(max_examples=100)
@given(
    name=st.sampled_from(registry.names("formats")),
    data=st.binary(max_size=60) | st.text('[]{}:,"\\1 \nNa', max_size=40).map(str.encode),
)
def test_any_bytes_through_any_format_are_told(name: str, data: bytes) -> None:
    try:
        found = read(registry.format(name), data)
    except StepscopeError as e:
        assert "\n" not in str(e)  # noqa: PT017 - a refusal is as right as a reading
    else:
        assert found or not data.strip(b" \t\r\n[],\xef\xbb\xbf")


def test_a_file_of_one_long_line_needs_little_memory() -> None:
    found = peak(long_line, 64 * MIB)
    assert found.said == "1 runs, 2 quarantined"
    assert found.bytes < LIMIT_BYTES // 2
