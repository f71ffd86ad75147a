"""Whatever path the user names: runs, a counted quarantine, or one line; nothing else."""

from __future__ import annotations

import io
import json
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from stepscope import registry
from stepscope.errors import ConfigError, TraceError, UsageError
from stepscope.formats.finish import Ordinals
from stepscope.formats.reading import (
    Account,
    Counts,
    FileChunk,
    FileReading,
    read_chunk,
    read_files,
    split_file,
)
from stepscope.model import Quarantined, Trajectory
from stepscope.safety.limits import Limits
from tests.conftest import without_privilege

RUN = {
    "task_id": 3,
    "reward": 1.0,
    "info": {"task": {"user_id": "u", "instruction": "i", "actions": [], "outputs": []}},
    "traj": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}],
    "trial": 0,
}
OURS = (
    b'{"stepscope":"trajectories","schema":1}\n'
    b'{"id":"a","name":"n","steps":[],"source":{"format":"test"}}\n'
)


def tau(*runs: object) -> str:
    return json.dumps(runs or [RUN])


def accounts(paths: Sequence[str | Path], format_name: str | None = None) -> list[Account]:
    """Read everything; what came out is what the accounts say."""
    found = []
    for reading in read_files([str(path) for path in paths], format_name=format_name):
        items = list(reading)
        account = reading.account
        assert account.runs == sum(isinstance(item, Trajectory) for item in items)
        assert account.quarantined == sum(isinstance(item, Quarantined) for item in items)
        assert "\n" not in account.line()
        found.append(account)
    return found


def refusal(*paths: str | Path, format_name: str | None = None) -> str:
    with pytest.raises((TraceError, UsageError)) as refused:
        accounts(paths, format_name)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_file_is_read_by_its_content_not_its_name(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(tau(), encoding="utf-8")
    (account,) = accounts([path])
    assert account == Account(uri=str(path), format="tau_bench", runs=1, steps=2)
    assert account.line() == f"{path}: tau_bench, 1 run, 2 steps, 0 calls"


def test_a_folder_is_read_sorted_with_two_formats_and_what_is_no_trace(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "runs.json").write_text(tau(), encoding="utf-8")
    (tmp_path / "c.jsonl").write_bytes(OURS)
    (tmp_path / "a.md").write_text("# Read me\nplease", encoding="utf-8")
    (tmp_path / "empty").touch()
    (tmp_path / "noise.bin").write_bytes(bytes(range(256)))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "b")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    found = {Path(account.uri).name: account for account in accounts([tmp_path])}
    assert list(found) == [
        "a.md", "c.jsonl", "dangling", "empty", "link", "noise.bin", "pipe", "runs.json",
    ]  # fmt: skip
    assert {name: account.format for name, account in found.items() if account.format} == {
        "c.jsonl": "ours",
        "runs.json": "tau_bench",
    }
    problems = {name: account.problem for name, account in found.items() if account.problem}
    assert problems == {
        "a.md": "no known trace; it looks like text beginning '# Read me please'",
        "dangling": "a link that leads nowhere: No such file or directory",
        "empty": "no known trace; it looks like an empty file",
        "link": "not a file but a link to a folder, or a folder that cannot be entered",
        "noise.bin": "no known trace; it looks like binary data",
        "pipe": "not a file but a pipe; pass its content on standard input: "
        "`... | stepscope import -`",
    }


@pytest.mark.parametrize(
    ("content", "looks"),
    [
        (b"", "an empty file"),
        (b" \n\t", "an empty file"),
        (b"\x00\x01", "binary data"),
        (
            b'[{"role": "assistant", "tool_calls": []}, {"role": "tool", "content": "3"}]',
            "example calls: tool calls without messages",
        ),
        (b"{}", "JSON beginning '{}'"),
        (b'{"spam": 1}', "a JSON object with keys spam"),
        (b'{"sp\\u001bam": 1}', "a JSON object with keys sp\\x1bam"),
        (b"[]", "an empty JSON array"),
        (b'[{"spam": 1}]', "a JSON array of objects with keys spam"),
        (b'{"spam": 1}\n{"eggs": 1}\n', "JSON lines of objects with keys spam"),
        (b"[1, 2]", "a JSON array of int"),
        (b'{"spam" 1', "JSON beginning '{\"spam\" 1'"),
        ("héllo\nworld".encode(), "text beginning 'héllo world'"),
    ],
)
def test_a_file_given_by_name_that_is_no_trace_says_what_it_looks_like(
    tmp_path: Path, content: bytes, looks: str
) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    assert refusal(path) == f"{path}: no known trace; it looks like {looks}"


def test_what_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text(tau(), encoding="utf-8")
    (tmp_path / "void").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        assert refusal(tmp_path / "socket").endswith("socket: not a file but a socket")
    assert "pipe: not a file but a pipe; " in refusal(tmp_path / "pipe")
    assert refusal("/dev/zero") == "/dev/zero: not a file but a device"
    assert refusal(tmp_path / "gone").endswith("gone: cannot be read: No such file or directory")
    assert refusal(f"{tmp_path}/file/").endswith("cannot be read: Not a directory")
    assert refusal(tmp_path / "void").endswith("void: a folder without files")
    assert refusal(tmp_path / "*.json").endswith("*.json: matches no file")
    assert refusal("a\0b") == "a\\x00b: a path cannot hold a NUL character"
    assert "File name too long" in refusal("x" * 5000)


def test_a_file_without_permission_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(tau(), encoding="utf-8")
    path.chmod(0)
    with without_privilege():
        assert refusal(path).endswith("cannot be read: Permission denied")


def test_globs_match_files_once_and_in_order(tmp_path: Path) -> None:
    for name in ("2.json", "1.json", "sub/3.json", "sub/4.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(tau(), encoding="utf-8")

    def names(pattern: str) -> list[str]:
        return [Path(account.uri).name for account in accounts([tmp_path / pattern])]

    assert names("*.json") == ["1.json", "2.json"]
    assert names("**/*.json") == ["1.json", "2.json", "3.json"]
    assert names("**") == ["1.json", "2.json", "3.json", "4.txt"]
    assert names("s*") == ["3.json", "4.txt"]


def test_folders_are_walked_in_sorted_order(tmp_path: Path) -> None:
    names = [f"{i * 7 % 20:02}" for i in range(20)]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(tau(), encoding="utf-8")
    found = [Path(account.uri).parent.name for account in accounts([tmp_path])]
    assert found == sorted(names)


def test_a_folder_that_cannot_be_entered_is_told() -> None:
    with TemporaryDirectory() as open_to_all:  # pytest's own folder is closed to others
        Path(open_to_all).chmod(0o755)
        (Path(open_to_all) / "closed").mkdir(mode=0)
        with without_privilege():
            (account,) = accounts([Path(open_to_all)])
    assert (
        account.problem == "not a file but a link to a folder, or a folder that cannot be entered"
    )


def test_a_file_is_read_in_a_folder_that_may_be_entered_and_not_listed() -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "runs.json"
        path.write_text(tau(), encoding="utf-8")
        Path(folder).chmod(0o711)
        with without_privilege():
            (account,) = accounts([path])
    assert (account.problem, account.runs) == (None, 1)


def test_a_file_whose_name_looks_like_a_glob_is_that_file(tmp_path: Path) -> None:
    path = tmp_path / "run[1].json"
    path.write_text(tau(), encoding="utf-8")
    assert [account.runs for account in accounts([path])] == [1]


class Unseekable(io.BytesIO):
    """Standard input as a pipe gives it: a few bytes at a time, never back."""

    def seekable(self) -> bool:
        return False

    def seek(self, offset: int, whence: int = 0) -> int:
        raise io.UnsupportedOperation


def test_standard_input_is_read_like_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [{**RUN, "trial": trial, "pad": "x" * 1000} for trial in range(1000)]
    for kind in (io.BytesIO, Unseekable):
        stdin = io.TextIOWrapper(kind(json.dumps(runs).encode()), encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", stdin)
        (account,) = accounts(["-"])
        assert (account.uri, account.format, account.runs) == ("-", "tau_bench", 1000)


PLUGIN = """
from stepscope.model import Quarantined

class LineByLine:
    name = "line_by_line"
    def sniff(self, head):
        return 0.0
    def read(self, stream):
        for line in iter(stream.file.readline, b""):
            yield Quarantined(reason="a line", offset=0, raw=line)

FORMAT = LineByLine()
"""


def test_a_plugin_may_read_standard_input_in_pieces_of_any_size(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "plugin.py").write_text(PLUGIN, encoding="utf-8")
    piped = io.TextIOWrapper(Unseekable(b"a line\n" * 100_000), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", piped)
    (account,) = accounts(["-"], f"{tmp_path}/plugin.py:FORMAT")
    assert (account.format, account.quarantined) == ("line_by_line", 100_000)


OF_RECORDS = """
from stepscope.formats import RecordFormat, read_each

def runs_of(found, ordinals):
    %s

FORMAT = RecordFormat("own", lambda opening: 0.0, read_each(runs_of))
"""


@pytest.mark.parametrize(
    ("plugin", "says"),
    [
        (OF_RECORDS % "raise RuntimeError('no\\nway')", "fails on it: RuntimeError: no way"),
        (OF_RECORDS % "return runs_of(found, ordinals)", "fails on it: RecursionError"),
        (OF_RECORDS % "return [{}]", "fails on it: TypeError: a dict is no Trajectory"),
        (OF_RECORDS % "raise SystemExit(0)", "fails on it: SystemExit: 0"),
    ],
)
def test_a_record_on_which_a_format_of_others_fails_is_set_aside(
    plugin: str, says: str, tmp_path: Path
) -> None:
    (tmp_path / "plugin.py").write_text(plugin, encoding="utf-8")
    path = tmp_path / "a.jsonl"
    path.write_text("{}\n{}\n", encoding="utf-8")
    name = f"{tmp_path}/plugin.py:FORMAT"
    pieces = [
        p for found in read_files([str(path)], format_name=name) for p in split_file(found) or ()
    ]
    whole = [item for found in read_files([str(path)], format_name=name) for item in found]
    apart = [
        item
        for piece in pieces
        if isinstance(piece, FileChunk)
        for item in read_chunk(piece, Limits(), Ordinals(), Counts())
    ]
    for items in (apart, whole):
        assert len(items) == 2
        assert all(isinstance(item, Quarantined) and says in item.reason for item in items)


def test_a_file_on_which_a_format_of_others_fails_is_refused_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x\n", encoding="utf-8")
    for number, body in enumerate(("raise KeyError", "yield None")):
        (tmp_path / f"plugin{number}.py").write_text(
            PLUGIN.replace("yield Quarantined", f"{body}; yield Quarantined"), encoding="utf-8"
        )
        said = refusal(path, format_name=f"{tmp_path}/plugin{number}.py:FORMAT")
        assert "format 'line_by_line' fails on it: " in said


def test_what_is_no_format_is_a_settings_error(tmp_path: Path) -> None:
    (tmp_path / "plugin.py").write_text("FORMAT = 7", encoding="utf-8")
    with pytest.raises(ConfigError, match="expected something with `name`, `sniff` and `read`"):
        registry.format(f"{tmp_path}/plugin.py:FORMAT")
    with pytest.raises(ConfigError, match="expected a function with name, version"):
        registry.measure(f"{tmp_path}/plugin.py:FORMAT")


def test_a_zip_on_a_pipe_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    piped = io.TextIOWrapper(Unseekable(b"PK\x03\x04rest"), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", piped)
    assert refusal("-") == "-: a zip within another file; unpack it first"


def test_a_bad_record_is_quarantined_alone_with_its_bytes_and_offset(tmp_path: Path) -> None:
    good = json.dumps(RUN)
    text = f'[{good}, {{"task_id": tru}}, {good}, {{"task_id": 9'
    path = tmp_path / "runs.json"
    path.write_text(text, encoding="utf-8")
    found = read_files([str(path)])
    reading = next(found)
    items = list(reading)
    bad = [item for item in items if isinstance(item, Quarantined)]
    assert [type(item).__name__ for item in items] == [
        "Trajectory", "Quarantined", "Trajectory", "Quarantined",
    ]  # fmt: skip
    assert [(q.offset, q.raw.decode()) for q in bad] == [
        (text.index('{"task_id": tru'), '{"task_id": tru}'),
        (text.index('{"task_id": 9'), '{"task_id": 9'),
    ]
    assert {q.uri for q in bad} == {str(path)}
    assert reading.account.line().endswith(
        "2 runs, 4 steps, 0 calls; set aside 2: not JSON: Expecting value (byte 12) (1); "
        "the file ends inside this record (1)"
    )


def test_repairs_are_counted_in_the_account(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    path.write_bytes(b"\xef\xbb\xbf" + tau({**RUN, "score": float("nan")}).encode())
    (account,) = accounts([path])
    assert account.repaired == {"bom": 1, "non_finite": 1}
    assert account.kept_in_extra == {"score": 1}
    assert account.line() == (
        f"{path}: tau_bench, 1 run, 2 steps, 0 calls; repaired: bom 1, non_finite 1; "
        "kept but not interpreted: score 1"
    )


def test_a_reading_gives_its_runs_once(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    path.write_text(tau(), encoding="utf-8")
    found = read_files([str(path)])
    reading = next(found)
    assert [len(list(reading)), len(list(reading)), reading.account.runs] == [1, 0, 1]
    assert isinstance(reading, FileReading)


def test_a_chosen_format_is_taken_at_the_users_word(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b'{"spam": 1}')
    (account,) = accounts([path], "tau_bench")
    assert (account.format, account.runs, account.quarantined) == ("tau_bench", 0, 1)
    with pytest.raises(ConfigError, match="no format called 'nonsense'; installed: "):
        accounts([path], "nonsense")


def test_a_reading_whose_file_was_closed_says_so(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    path.write_text(tau(), encoding="utf-8")
    (reading,) = list(read_files([str(path)]))
    with pytest.raises(UsageError, match="read each file before asking for the next"):
        list(reading)
