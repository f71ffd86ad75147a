"""Our own files give back exactly the runs that were written, and refuse what they cannot carry."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.errors import ConfigError, LimitError, TraceError
from stepscope.formats import ours
from stepscope.formats.reading import read_files
from stepscope.model import (
    Format,
    Instant,
    Json,
    Outcome,
    Quarantined,
    Source,
    Step,
    Stream,
    ToolCall,
    Trajectory,
)
from stepscope.safety.limits import Limits
from tests.formats.any_runs import trajectories

BOTH = [ours, ours]


def a_run(arguments: Json = None, *, id: str = "a") -> Trajectory:
    step = Step(index=0, actor="agent", calls=(ToolCall("cat", arguments),))
    return Trajectory(id=id, name="n", steps=(step,), source=Source(format="test"))


def read(form: Format, data: bytes, limits: Limits | None = None) -> list[Trajectory | Quarantined]:
    return list(form.read(Stream(io.BytesIO(data), "f", limits or Limits())))


def there_and_back(module: object, runs: list[Trajectory]) -> list[Trajectory | Quarantined]:
    file = io.BytesIO()
    write: Callable[[list[Trajectory], io.BytesIO], int] = module.write  # type: ignore[attr-defined]
    form: Format = module.FORMAT  # type: ignore[attr-defined]
    assert write(runs, file) == len(runs)
    assert form.sniff(file.getvalue()[:1000]) == 1.0
    return read(form, file.getvalue())


@pytest.mark.parametrize("module", BOTH)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(runs=st.lists(trajectories, max_size=2))
def test_any_run_comes_back_equal(module: object, runs: list[Trajectory]) -> None:
    assert there_and_back(module, runs) == runs


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.shared_data
def test_real_runs_come_back_equal(module: object, shared: Path) -> None:
    paths = [shared / "agentrx-retail" / "runs.json", shared / "whowhen"]
    runs = [r for reading in read_files([str(p) for p in paths]) for r in reading]
    real = [run for run in runs if isinstance(run, Trajectory)]
    assert len(real) == 190
    assert there_and_back(module, real) == real


@pytest.mark.parametrize(
    "arguments",
    [
        {"x": float("nan")},
        {"x": float("inf")},
        {"x": 2**64},
        {"x": (1, 2)},
        {1: 2},
        {"x": "\ud800"},
        {"x": {1, 2}},
        {"x": object()},
    ],
    ids=["nan", "inf", "65 bits", "tuple", "int key", "surrogate", "set", "object"],
)
def test_a_run_that_json_cannot_carry_is_refused_before_it_is_written(arguments: Json) -> None:
    file = io.BytesIO()
    with pytest.raises(TraceError, match="run 'bad'"):
        ours.write([a_run({"x": 1}), a_run(arguments, id="bad")], file)
    assert read(ours.FORMAT, file.getvalue()) == [a_run({"x": 1})]


def test_a_text_longer_than_the_limit_for_others_is_not_cut_in_ours() -> None:
    run = a_run({"text": "x" * 5000})
    file = io.BytesIO()
    ours.write([run], file)
    assert read(ours.FORMAT, file.getvalue(), Limits(text_bytes=100)) == [run]


HEADER = b'{"stepscope":"trajectories","schema":1}\n'
LINE = b'{"id":"a","name":"n","steps":[],"source":{"format":"test"}}'


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (LINE[:-1], "not JSON"),
        (LINE.replace(b'"n"', b"1"), "Expected `str`, got `int` - at `$.name`"),
        (
            LINE.replace(b'"n"', b'"n","mood":1'),
            "field 'mood' is unknown to this version, 1 in all",
        ),
        (
            LINE.replace(b'"test"', b'"test","\x1b":1'.replace(b"\x1b", b"\\u001b")),
            "field 'source.\\\\x1b' is unknown",
        ),
        (LINE.replace(b'"n"', b"NaN"), "not JSON"),
        (LINE.replace(b"[]", b"[" * 200 + b"]" * 200), "limits.depth is 128"),
        (b"[]", "Expected `object`, got `array`"),
        (b"\xff\xfe", "not JSON"),
    ],
)
def test_a_line_that_is_not_ours_is_quarantined_alone(line: bytes, reason: str) -> None:
    first, bad, last = read(ours.FORMAT, HEADER + LINE + b"\n" + line + b"\n" + LINE + b"\n")
    assert isinstance(bad, Quarantined)
    assert reason in bad.reason
    assert (bad.offset, bad.raw) == (len(HEADER) + len(LINE) + 1, line)
    assert first == last
    assert isinstance(first, Trajectory)


@pytest.mark.parametrize("schema", ["2", "null", '"1"'])
def test_what_stands_under_a_header_of_another_schema_is_quarantined(schema: str) -> None:
    other = HEADER.replace(b":1}", f":{schema}}}".encode())
    file = HEADER + LINE + b"\n" + other + LINE + b"\n" + HEADER + LINE + b"\n"
    found = read(ours.FORMAT, file)
    assert [type(item) for item in found] == [Trajectory, Quarantined, Quarantined, Trajectory]
    assert isinstance(found[2], Quarantined)
    assert found[2].raw == LINE
    assert "this version reads 1" in found[2].reason


def test_defaults_spelt_out_and_files_put_together_are_read() -> None:
    spelt = LINE.replace(b'"n"', b'"n","workflow":"","task":null,"labels":[]')
    file = HEADER + spelt + b"\n" + HEADER + LINE + b"\n"
    assert read(ours.FORMAT, file) == read(ours.FORMAT, HEADER + LINE + b"\n" + LINE)


def test_a_key_that_came_twice_in_ours_is_set_aside() -> None:
    (found,) = read(ours.FORMAT, HEADER + LINE.replace(b'"n"', b'"m","name":"n"'))
    assert isinstance(found, Quarantined)
    assert found.reason == "a duplicate key in one object, which stepscope never writes"


def test_a_run_over_the_limit_of_steps_is_quarantined() -> None:
    steps = tuple(Step(index=i, actor="agent") for i in range(11))
    file = io.BytesIO()
    ours.write([msgspec.structs.replace(a_run(), steps=steps)], file)
    assert isinstance(read(ours.FORMAT, file.getvalue(), Limits(steps=11))[0], Trajectory)
    assert isinstance(read(ours.FORMAT, file.getvalue(), Limits(steps=10))[0], Quarantined)


def test_parquet_columns_say_what_the_run_says() -> None:
    import pyarrow.parquet as pq

    file = io.BytesIO()
    run = msgspec.structs.replace(a_run(), outcome=Outcome("pass", "reward", 1.0), task="7")
    ours.write_runs_parquet([run, a_run()], file)
    rows = pq.read_table(file).drop_columns(["run"]).to_pylist()
    assert rows[0] == {
        "id": "a", "name": "n", "workflow": "", "task": "7", "trial": None, "agent": None,
        "agent_version": None, "outcome": "pass", "reward": 1.0, "steps": 1, "calls": 1,
        "format": "test",
    }  # fmt: skip
    assert (rows[1]["outcome"], rows[1]["reward"]) == ("unknown", None)


def parquet_of(*runs: Trajectory) -> bytes:
    file = io.BytesIO()
    ours.write_runs_parquet(runs, file)
    return file.getvalue()


def test_parquet_cut_anywhere_or_foreign_is_one_line_and_never_rows_in_silence() -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = parquet_of(a_run(), a_run(id="b"))
    foreign = io.BytesIO()
    pq.write_table(pa.table({"x": [1]}), foreign)
    for broken in [data[:end] for end in range(4, len(data), 7)] + [foreign.getvalue()]:
        with pytest.raises(TraceError) as refused:
            read(ours.PARQUET_FORMAT, broken)
        assert "\n" not in str(refused.value)


def test_a_parquet_row_without_a_run_is_quarantined_with_its_number() -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(parquet_of(a_run(), a_run(), a_run())))
    rows = pa.array([LINE, b"{", None], pa.large_binary())
    file = io.BytesIO()
    at = table.schema.get_field_index("run")
    pq.write_table(table.set_column(at, "run", rows).cast(table.schema), file)
    first, second, third = read(ours.PARQUET_FORMAT, file.getvalue())
    assert isinstance(first, Trajectory)
    assert isinstance(second, Quarantined)
    assert isinstance(third, Quarantined)
    assert (second.offset, second.raw) == (1, b"{")
    assert (third.offset, third.reason) == (2, "a row without a run")


def test_a_parquet_row_group_over_the_limit_is_refused_before_it_is_unpacked() -> None:
    with pytest.raises(LimitError, match=r"limits\.zip_total_bytes is 100"):
        read(ours.PARQUET_FORMAT, parquet_of(a_run()), Limits(zip_total_bytes=100))


def test_a_parquet_run_over_the_limit_of_a_record_is_quarantined() -> None:
    (found,) = read(ours.PARQUET_FORMAT, parquet_of(a_run()), Limits(line_bytes=10))
    assert isinstance(found, Quarantined)
    assert "limits.line_bytes" in found.reason


def test_without_pyarrow_the_command_that_installs_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = parquet_of(a_run())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"pip install 'stepscope\[parquet\]'"):
        ours.write_runs_parquet([a_run()], io.BytesIO())
    with pytest.raises(ConfigError, match=r"pip install 'stepscope\[parquet\]'"):
        read(ours.PARQUET_FORMAT, data)


def test_times_survive_to_the_nanosecond() -> None:
    start = Instant(1_725_000_000_123_456_789, "2024-08-30T06:40:00.123456789Z")
    run = msgspec.structs.replace(a_run(), start=start)
    assert there_and_back(ours, [run]) == [run]
