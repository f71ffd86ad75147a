"""Spoilt traces of every format, some of the million of `bars.formats.fuzz`, and what it found."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bars.formats import fuzz
from bars.formats._traces import traces
from stepscope import registry
from stepscope.errors import TraceError
from stepscope.formats import ours
from stepscope.formats.files import read_batches
from stepscope.model import Stream
from tests.formats.reading import read


@pytest.mark.parametrize("first", [0, 1_000])
def test_spoilt_traces_are_told_and_nothing_is_lost(first: int) -> None:
    counts, faults = fuzz.chunk(range(first, first + 1_000))
    assert faults == []
    assert sum(counts.values()) == 1_000
    verdicts = {verdict for _, verdict in counts}
    assert verdicts >= {"runs", "both", "quarantined", "refused"}


def test_a_fault_is_found_and_can_be_made_again() -> None:
    assert fuzz.made(7) == fuzz.made(7)
    assert len({fuzz.made(number)[0].content for number in range(50)}) > 40
    _, faults = fuzz.chunk(range(0))
    assert faults == []


def test_every_format_has_a_trace_to_be_spoilt_or_is_told_missing() -> None:
    known = {trace.format for trace in traces()}
    assert {"tau_bench", "ours", "ours_parquet", "openai_responses", "langsmith_parquet"} <= known
    assert known - {""} <= set(registry.names("formats"))


@pytest.mark.parametrize(
    ("name", "file", "reason"),
    [
        ("otlp", {"resourceSpans": [{"resource": {}}]}, "an OTLP export without a span in it"),
        ("otlp", {"resourceSpans": [], "more": {"a": 1}}, "an OTLP export without a span in it"),
        ("swe_agent", {"trajectory": [], "history": 5}, "`history` is '5'; expected a list"),
        ("mlflow", {"request_id": {}, "spans": {"0": []}, "status": {"0": "OK"}}, "without a row"),
        ("tau2", {"tasks": [], "simulations": "x"}, "`simulations` needs a list"),
        ("tau2", {"tasks": [], "info": {}}, "`simulations` needs a list"),
        ("google_adk", {"eval_set_id": "s", "eval_cases": []}, "nothing stands in `eval_cases`"),
        ("claude_code", {"type": "human", "content": "x"}, "no line of it is a message"),
    ],
)
def test_a_record_that_gives_no_run_says_why(name: str, file: object, reason: str) -> None:
    (only,) = read(registry.format(name), json.dumps(file).encode())
    assert reason in getattr(only, "reason", "")


def test_an_export_of_nothing_is_nothing() -> None:
    assert read(registry.format("otlp"), {"resourceSpans": []}) == []


def test_a_parquet_file_whose_column_has_no_readable_name_is_refused_in_one_line() -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"unreadable": [1]}), file)
    spoilt = file.getvalue().replace(b"unreadable", b"unread\xf8ble")
    with pytest.raises(TraceError, match="Parquet that cannot be read") as told:
        read(ours.PARQUET_FORMAT, spoilt)
    assert "\n" not in str(told.value)


def test_a_parquet_file_that_gives_other_rows_than_it_claims_is_told() -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"id": ["a"] * 3, "run_type": ["chain"] * 3}), file)
    held = pq.ParquetFile(file)
    stream = Stream(file, "f.parquet")
    assert [batch.num_rows for batch in read_batches(held, stream, 2)] == [2, 1]

    class Lying:
        metadata = pq.ParquetFile(file).metadata

        def iter_batches(self, rows: int, columns: object) -> Iterator[pa.RecordBatch]:
            yield from list(held.iter_batches(rows))[:1]

    with pytest.raises(TraceError, match=r"f\.parquet: damaged Parquet: 2 rows came of 3"):
        list(read_batches(Lying(), stream, 2))


@pytest.mark.parametrize("file", [{}, {"version": 2, "status": "error"}])
def test_an_object_that_is_no_log_is_no_log_of_inspect(file: object) -> None:
    with pytest.raises(TraceError, match="neither `eval` nor a sample"):
        read(registry.format("inspect_ai"), json.dumps(file).encode())


def test_a_session_of_nothing_but_summaries_is_nothing() -> None:
    assert read(registry.format("claude_code"), {"type": "summary", "summary": "x"}) == []


def test_a_hang_a_lie_and_a_loss_would_be_faults(tmp_path: Path) -> None:
    what, verdict = fuzz.fault(b'{"tasks": []', "tau2", tmp_path / "input")
    assert (what, verdict) == (None, "quarantined")
    what, verdict = fuzz.fault(b"nothing here", None, tmp_path / "input")
    assert (what, verdict) == (None, "refused")
