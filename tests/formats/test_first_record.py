"""A bad first record costs itself: the format is known from the others."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from stepscope import api
from stepscope.cli.main import main
from stepscope.errors import TraceError
from stepscope.formats import ours
from stepscope.formats.opening import detect
from stepscope.formats.reading import Account, read_files
from tests.factories import run, user

DATA = Path(__file__).parent / "data"


def ours_lines() -> bytes:
    file = io.BytesIO()
    ours.write([run(user(f"run {at}"), id=f"r{at}", name=f"n{at}") for at in range(3)], file)
    return file.getvalue()


def chat_lines() -> bytes:
    line = (
        b'{"messages": [{"role": "user", "content": "hi %d"},'
        b' {"role": "assistant", "content": "hello"}]}'
    )
    return b"\n".join(line % at for at in range(3)) + b"\n"


FILES = {
    "ours": ours_lines,
    "openai_messages": chat_lines,
    "mlflow": (DATA / "mlflow_traces.jsonl").read_bytes,
    "langsmith": (DATA / "langsmith_agent.jsonl").read_bytes,
    "openai_agents": (DATA / "openai_agents_error.jsonl").read_bytes,
    "openai_responses": (DATA / "openai_responses.jsonl").read_bytes,
    "claude_code": Path("examples/claude_code/sample_session.jsonl").read_bytes,
}
DEEP = b'{"a":' * 300 + b"1" + b"}" * 300
FIRST = {
    "cut": b'{"messages": [{"role": "us',
    "text": b"2026-01-01 INFO started",
    "too deep": DEEP,
    "no UTF-8": b'{"a": "\xff\xfe"}',
    "one bracket more": b'{"a": 1}}',
    "single quotes": b"{'role': 'user'}",
    "a cut array": b"[1, 2",
    "NUL": b"\0" * 100,
    "larger than the head": b'{"a": "' + b"x" * 400_000,
    "larger than a record": b'{"a": "' + b"x" * (17 << 20) + b'"}',
    "a hundred": b"\n".join([b'{"cut": '] * 100),
    "null": b"null",
    "an empty object": b"{}",
    "of another program": b'{"level": "info", "message": "starting"}',
}


def account(path: Path) -> Account:
    for reading in read_files([str(path)]):
        for _ in reading:
            pass
    return reading.account


@pytest.mark.parametrize("first", FIRST.values(), ids=FIRST)
def test_a_bad_first_record_costs_itself(tmp_path: Path, first: bytes) -> None:
    path = tmp_path / "runs.jsonl"
    for name, make in FILES.items():
        path.write_bytes(make())
        whole = account(path)
        path.write_bytes(first + b"\n" + make())
        found = account(path)
        assert (whole.format, found.format, found.runs) == (name, name, whole.runs)
        assert found.problem is None


def test_a_folder_with_such_a_file_is_imported_and_says_what_it_set_aside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "a.jsonl").write_bytes(b'{"run": \n' + ours_lines())
    store = str(tmp_path / "s.db")
    assert main(["import", str(tmp_path / "runs"), "--store", store]) == 0
    assert "set aside 1" in capsys.readouterr().out
    with api.open(store) as notebook:
        assert len(notebook.store.runs()) == 3


@pytest.mark.parametrize(
    "head",
    [
        b"# Notes\n\nAn example:\n\n" + chat_lines() + b"\n".join([b"More words."] * 8),
        b"[\n" + b",\n".join([b'{"level": "info"}'] * 3) + b"\n]\n",
        b"started\n" + b'{"level": "info", "message": "x"}\n' * 9,
        b"{\n" + b'  "role": "user",\n' * 3,
    ],
)
def test_what_only_holds_some_records_is_still_no_trace(head: bytes) -> None:
    with pytest.raises(TraceError, match="no known trace"):
        detect(head, "notes.md")


def test_an_array_with_an_element_a_line_is_still_an_array(tmp_path: Path) -> None:
    lines = chat_lines().splitlines()
    path = tmp_path / "a.json"
    for kept in (1, 2, 3):
        path.write_bytes(b"[\n" + b",\n".join(lines[:kept]) + b"\n]\n")
        assert (account(path).runs, account(path).quarantined) == (kept, 0)
