"""What must not leave: keys with characters without ink, exports, targets of links, formulas."""

from __future__ import annotations

import ast
import csv
import io
import os
import re
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import stepscope
from stepscope import api
from stepscope.cli.main import main
from stepscope.errors import UsageError
from stepscope.formats import ours
from stepscope.safety.limits import open_output
from stepscope.safety.redact import Redactor
from stepscope.store import Store
from stepscope.web import serve
from stepscope.web.app import csv_response
from tests.factories import run, user

KEY = "sk-ant-api03-" + "abcdEFGH1234" * 4


@pytest.mark.parametrize(
    "inkless", ["\u200b", "\u2060", "\u00ad", "\ufe0f", "\U000e0041", "\ufeff"]
)
@pytest.mark.parametrize("at", [1, 4, 9, 30])
def test_a_key_that_holds_a_character_without_ink_is_a_key(inkless: str, at: int) -> None:
    redactor = Redactor(b"k" * 32)
    for text in (KEY[:at] + inkless + KEY[at:], inkless.join(KEY)):
        shown = redactor.redact(f"before {text} behind")
        assert shown.startswith("before [secret:anthropic:")
        assert shown.endswith(" behind")
    spelt = "\\u200b".join((KEY[:at], KEY[at:]))
    assert "EFGH1234" not in redactor.redact(spelt)


def test_a_text_without_a_key_keeps_its_characters_without_ink() -> None:
    text = "family \U0001f468\u200d\U0001f469 and na\u00adive"
    assert Redactor(b"k" * 32).redact(text) == text


def made_store(tmp_path: Path) -> str:
    path = tmp_path / "s.db"
    with Store.open(path) as store:
        store.put([run(user("hello"), id="r1", name="n1")])
    return str(path)


def test_an_export_is_nobody_elses_and_sweeps_what_a_killed_one_left(tmp_path: Path) -> None:
    store = made_store(tmp_path)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = tmp_path / f".out.jsonl.{gone.pid}.part"
    lives = tmp_path / f".out.jsonl.{os.getpid()}1234567890123.part"
    other = tmp_path / f".other.jsonl.{gone.pid}.part"
    for part in (left, lives, other):
        part.write_text("trace text")
    before = os.umask(0)
    try:
        assert main(["export", str(tmp_path / "out.jsonl"), "--store", store]) == 0
    finally:
        os.umask(before)
    assert (tmp_path / "out.jsonl").stat().st_mode & 0o777 == 0o600
    assert (left.exists(), lives.exists(), other.exists()) == (False, True, True)


@pytest.mark.parametrize(
    "words",
    [
        ["report", "-o", "s.db"],
        ["report", "--html", "s.db"],
        ["export", "s.db", "--force"],
        ["report", "-o", "stepscope.toml"],
        ["export", "link", "--force"],
        ["report", "-o", "s.db-wal"],
        ["export", "p", "--verdicts", "only", "--format", "parquet", "--force"],
        [
            "lab",
            "envelope",
            "--n",
            "5",
            "--sigma",
            "0.1",
            "--trials",
            "100",
            "--classifier",
            "v1",
            "--generator",
            "walk",
            "--plot",
            "e.svg",
        ],
        ["init", "--force"],
        ["judge", "--judge", "a/b", "--propose-goals", "goals.toml"],
    ],
)
def test_no_output_goes_over_a_store_or_settings(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made_store(tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("stepscope.toml").write_text("seed = 7\n", encoding="utf-8")
    Path("link").symlink_to("s.db")
    Path("p").mkdir()
    Path("p/records.parquet").hardlink_to("s.db")
    Path("e.svg").symlink_to("stepscope.toml")
    Path("goals.toml").symlink_to(".env")
    if words[0] == "init":
        Path("stepscope.toml").unlink()
        Path("pyproject.toml").touch()
        Path("stepscope.toml").symlink_to("pyproject.toml")
    before = {path: path.read_bytes() for path in (Path("s.db"), Path("stepscope.toml"))}
    more = [] if words[0] == "lab" else ["--store", "s.db"]
    assert main([*words, *more]) == 2
    assert "a database or settings; name another file" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in before} == before
    assert not list(tmp_path.rglob("*.part")) + list(tmp_path.glob(".env"))


def test_what_is_no_file_is_looked_at_before_it_is_opened_for_writing(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with socket.socket(socket.AF_UNIX) as ours:
        ours.bind(str(tmp_path / "socket"))
    for place, follow, why in (
        (pipe, True, "nobody reads this pipe"),
        (pipe, False, "no file; name another"),
        (tmp_path / "socket", True, "no file; name another"),
        (tmp_path, True, "a folder; name a file in it"),
    ):
        with pytest.raises(UsageError, match=why), open_output(place, follow=follow):
            pass
    unnamed = os.pipe()
    readers = {
        str(pipe): os.open(pipe, os.O_RDONLY | os.O_NONBLOCK),
        f"/dev/fd/{unnamed[1]}": unnamed[0],
    }
    for name, reader in readers.items():
        with open_output(name) as file:
            assert os.get_blocking(file.fileno())
            file.write(b"whole")
        assert os.read(reader, 99) == b"whole"
    for opened in (*readers.values(), unnamed[1]):
        os.close(opened)


# Where files are opened for writing besides `safety.limits.open_output`, and what they are.
WRITERS = {
    "cli/main.py": "null devices for streams that are closed, and a report of a bug in a new file",
    "cli/setup.py": "a new file that says whether a folder can be written",
    "cli/terminal.py": "the job summary, which is appended to after `refuse_to_write`",
    "runtime/database.py": "the file of a store, made where nothing is, and its copy beside it",
    "runtime/processes.py": "a pipe",
    "safety/sealed.py": "a lock without content beside a file that two commands may change",
    "sandbox/check.py": "files of a folder that it made",
    "sandbox/probe.py": "what a command in the sandbox must not open",
    "sandbox/run.py": "a new file without a name",
    "sandbox/workspace.py": "copies in a folder that it made",
    "store/damage.py": "blobs beside a store that was made now",
    "store/runs.py": "blobs of a store, by their hash",
}
# Where files are read that no user names, or names and it was asked before whether they are files.
READERS = {"api/score_files.py", "formats/files.py", "judges/canaries.py", "judges/rubrics.py",
           "judges/tools.py", "lab/redteam.py",
           "ledger/states.py", "measures/localise.py", "report/build.py", "report/render/html.py",
           "sandbox/check.py", "sandbox/probe.py", "settings.py", "store/store.py",
           "ledger/ledger.py", "testing/format_check.py", "web/app.py", "cli/report.py",
           "cli/setup.py"}  # fmt: skip


def openings(call: ast.Call) -> str:
    """Whether a call opens a file by its name: "w", "r", or "" where it does not."""
    name = ast.unparse(call.func)
    last = name.rpartition(".")[2]
    said = ast.unparse(call)
    if last in {"write_text", "write_bytes", "touch", "save", "copytree", "copyfile", "copy2",
                "mkstemp", "NamedTemporaryFile", "TemporaryFile", "savefig"}:  # fmt: skip
        return "" if name == "seen.save" else "w"
    if name == "os.open":
        return "w" if re.search("O_(WRONLY|RDWR|CREAT|APPEND)|how|flags", said) else "r"
    if last in {"open", "fdopen"}:
        modes = [a.value for a in (*call.args, *(k.value for k in call.keywords))
                 if isinstance(a, ast.Constant) and isinstance(a.value, str)]  # fmt: skip
        modes = [mode for mode in modes if re.fullmatch("[rwxabt+]{1,3}", mode)]
        return "w" if re.search("[wxa+]", "".join(modes)) else "r" if modes else ""
    return "r" if last in {"read_text", "read_bytes"} else ""


def test_files_are_written_by_the_one_writer_and_read_by_the_one_reader() -> None:
    source = Path(stepscope.__file__).parent
    found: dict[str, set[str]] = {"w": set(), "r": set(), "": set()}
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                found[openings(node)].add(str(path.relative_to(source)))
    assert found["w"] == {*WRITERS, "safety/limits.py"}
    assert found["r"] - found["w"] == READERS - found["w"]


def test_a_bug_in_what_is_written_stays_a_bug_and_leaves_what_was_there(tmp_path: Path) -> None:
    place = tmp_path / "out"
    place.write_text("kept", encoding="utf-8")
    with pytest.raises(ValueError, match="ours"), open_output(place):
        raise ValueError("ours")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert place.read_text(encoding="utf-8") == "kept"
    place.unlink()
    place.symlink_to("out")
    with pytest.raises(UsageError, match="cannot be written"), open_output(place):
        pass


def test_a_link_out_of_a_folder_is_not_followed_and_nothing_of_it_is_quoted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("root:x:0:0 the content")
    folder = tmp_path / "runs"
    (folder / "deep").mkdir(parents=True)
    with (folder / "a.jsonl").open("wb") as file:
        ours.write([run(user("hello"), id="r1", name="n1")], file)
    (folder / "link.txt").symlink_to(secret)
    (folder / "deep" / "inside.jsonl").symlink_to(folder / "a.jsonl")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "b.txt").write_text("the content")
    (folder / "out").symlink_to(tmp_path / "elsewhere")
    (folder / "circle").symlink_to(folder / "circle")
    for at, given in enumerate((str(folder), str(folder / "**"), str(folder / "*"))):
        assert main(["import", given, "--store", str(tmp_path / f"{at}.db")]) == 0
        said = capsys.readouterr().out
        assert "the content" not in said
        assert "link.txt" in said
        assert "a link out of its folder; name what it leads to" in said
        assert ("2 runs: 1 new, 1 known" in said) or ("1 run: 1 new" in said and at == 2)
    (tmp_path / "named").symlink_to(folder / "a.jsonl")
    assert main(["import", str(tmp_path / "named"), "--store", str(tmp_path / "n.db")]) == 0


@pytest.mark.parametrize("sign", list("=+-@|%\uff1d\uff0b\uff0d\uff20"))
def test_no_cell_of_a_csv_file_begins_as_a_formula_does(sign: str) -> None:
    body = csv_response([{"name": f"{sign}cmd|' /C calc'!A0"}], "runs").body
    rows = list(csv.reader(io.StringIO(bytes(body).decode())))
    assert rows[1][0].startswith(f"'{sign}")


def test_a_request_that_never_ends_is_not_kept(tmp_path: Path) -> None:
    code = (
        "import sys; from stepscope.web import serve; serve.HEAD_SECONDS = 0.3;"
        "from stepscope.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    viewing = [sys.executable, "-c", code, "view", "--no-open", "--json"]
    viewing += ["--store", made_store(tmp_path)]
    with subprocess.Popen(viewing, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = next(line for line in process.stdout if '"url"' in line)
            port = int(url.split(":")[3].split("/")[0])
            open_ones = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in "abc"]
            open_ones[1].sendall(b"GET / HT")
            whole = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
            open_ones[2].sendall(whole + b"GET / HT")
            for one in open_ones:
                while one.recv(65536):
                    pass
                one.close()
        finally:
            process.terminate()
    assert serve.HEAD_SECONDS == 10.0


def test_files_and_members_share_durable_transactions(tmp_path: Path) -> None:
    archive = tmp_path / "many.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for at in range(1_000):
            packed.writestr(f"{at}.txt", "x")
    with api.open(tmp_path / "s.db") as notebook:
        written: list[str] = []
        notebook.store._db.set_trace_callback(written.append)
        added = notebook.add(archive)
        notebook.store._db.set_trace_callback(None)
        assert len(list(notebook.store.accounts())) == len(added.files) == 1_000
    assert sum(one.startswith("COMMIT") for one in written) < 10
