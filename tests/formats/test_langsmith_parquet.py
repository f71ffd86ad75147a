"""LangSmith's bulk export: rows of Parquet, their objects as JSON text or as columns of structs."""

from __future__ import annotations

import io
import json
import random
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepscope.errors import LimitError, TraceError
from stepscope.formats import langsmith_files, ours
from stepscope.formats.langsmith_files import PARQUET_FORMAT
from stepscope.formats.reading import read_files
from stepscope.model import Quarantined, Trajectory
from stepscope.safety.limits import Limits
from tests.formats.langsmith_runs import ROUNDS, entries
from tests.formats.reading import read, run_of

TEXTS = ("inputs", "outputs", "extra", "events", "tags")


def exported(rows: list[dict[str, Any]], **types: Any) -> bytes:
    """Rows as the export writes them: UTC times to the microsecond, objects as text."""
    made = []
    for row in rows:
        texts = {key: json.dumps(row[key]) for key in TEXTS if row.get(key) is not None}
        times = {key: moment(row[key]) for key in ("start_time", "end_time")}
        made.append(
            {"trace_id": None, "dotted_order": None, "outputs": None, **row, **texts, **times}
        )
    table = pa.Table.from_pylist(made)
    for name, type in types.items():
        column = table.schema.get_field_index(name)
        table = table.set_column(column, name, table.column(name).cast(type))
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=3)
    return file.getvalue()


def moment(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def test_an_export_is_the_same_run_as_the_api_gives_whatever_times_are_stored_as() -> None:
    listed = entries("agent.jsonl")
    flat = [{k: v for k, v in entry.items() if k != "attachments"} for entry in listed]
    expected = run_of(langsmith_files.FORMAT, listed)
    for types in ({}, {"start_time": pa.timestamp("ns"), "end_time": pa.timestamp("ns", "UTC")}):
        run = run_of(PARQUET_FORMAT, exported(flat, **types))
        assert (run.id, run.steps, run.warnings) == (expected.id, expected.steps, ())
        assert run.source.format == "langsmith_parquet"


def test_objects_may_be_columns_of_their_own_and_odd_types_become_text() -> None:
    root = {**ROUNDS[0], "cost": Decimal("0.5"), "raw": b"\x01", "stats": {"a": 1}}
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([root]), file)
    run = run_of(PARQUET_FORMAT, file.getvalue())
    about = run.spans[0].attributes
    assert [step.text for step in run.steps] == ["go", "ok"]
    assert (about["langsmith.cost"], about["langsmith.stats"]) == ("0.5", {"a": 1})


def test_text_that_is_no_json_stays_and_a_row_without_id_is_set_aside() -> None:
    rows = [*ROUNDS, {**ROUNDS[2], "id": None, "trace_id": None}]
    data = exported(rows)
    table = pq.read_table(io.BytesIO(data))
    broken = table.set_column(
        table.schema.get_field_index("inputs"), "inputs", pa.array(['{"question": '] * 5)
    )
    file = io.BytesIO()
    pq.write_table(broken, file)
    for content in (data, file.getvalue()):
        bad, run = sorted(
            read(PARQUET_FORMAT, content), key=lambda each: isinstance(each, Trajectory)
        )
        assert isinstance(bad, Quarantined)
        assert (bad.offset, bad.reason[:33]) == (4, "a LangSmith run needs an `id`; fo")
        assert isinstance(run, Trajectory)
        last = run
    assert last.spans[0].attributes["langsmith.inputs"] == '{"question": '


def test_parquet_is_found_by_the_columns_in_its_footer(tmp_path: Path) -> None:
    names: dict[str, str | None] = {}
    mine = io.BytesIO()
    ours.write_runs_parquet([run_of(langsmith_files.FORMAT, ROUNDS)], mine)
    # The columns stand at the end, far behind what is looked at of other files.
    padding = {"pad": random.Random(3).randbytes(200_000).hex()}
    big = exported([{**row, **padding} for row in ROUNDS])
    assert len(big) > 300_000
    for name, content in (("mine", mine.getvalue()), ("small", exported(ROUNDS)), ("big", big)):
        path = tmp_path / name
        path.write_bytes(content)
        for reading in read_files([str(path)]):
            assert [len(run.steps) for run in reading if isinstance(run, Trajectory)] == [4]
            names[name] = reading.account.format
    assert names == {
        "mine": "ours_parquet", "small": "langsmith_parquet", "big": "langsmith_parquet",
    }  # fmt: skip


@pytest.mark.parametrize("cut", [4, 9, 200, 1000, -1, -4, -9])
def test_an_export_cut_short_is_refused_in_one_line(cut: int) -> None:
    with pytest.raises(TraceError, match=r"file\.json: Parquet that cannot be read: "):
        read(PARQUET_FORMAT, exported(ROUNDS)[:cut])


def test_foreign_columns_and_sizes_beyond_the_limits_are_refused() -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"id": ["a"]}), file)
    with pytest.raises(TraceError, match="without the columns `id` and `run_type`"):
        read(PARQUET_FORMAT, file.getvalue())
    with pytest.raises(LimitError, match="row group 0 unpacks to"):
        read(PARQUET_FORMAT, exported(ROUNDS), limits=Limits(zip_total_bytes=10))
    assert PARQUET_FORMAT.sniff(file.getvalue()) == 0.0


def test_a_footer_that_lies_about_its_length_is_no_footer() -> None:
    data = exported(ROUNDS)
    assert PARQUET_FORMAT.sniff(data) == 1.0
    for length in (0, len(data), 2**32 - 1):
        spoilt = data[:-8] + length.to_bytes(4, "little") + b"PAR1"
        assert PARQUET_FORMAT.sniff(spoilt) == 0.0
