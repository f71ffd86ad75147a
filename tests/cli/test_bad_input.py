"""Whatever a user gets wrong is one line on stderr and the documented exit code."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stepscope.cli.main import main
from tests.conftest import without_privilege

RUNS = Path(__file__).resolve().parents[2] / "examples" / "airline" / "runs.json"
STEPSCOPE = str(Path(sys.executable).with_name("stepscope"))


BAD: list[tuple[str, int, str]] = [
    ("import nowhere.json", 2, "nowhere.json"),
    ("judge --judge local/a --dry-run --repeat 1000000000", 2, "less than or equal to 1000"),
    ("import empty.jsonl", 2, "empty.jsonl"),
    ("import binary", 2, "binary"),
    ("import other.json", 2, "other.json"),
    ("import text.txt", 2, "text.txt"),
    ("import RUNS --format nothing", 2, "no format called 'nothing'"),
    ("import RUNS --format claude_code --strict", 2, "runs.json"),
    ("import RUNS --store folder", 2, "folder"),
    ("import RUNS --store text.db", 2, "text.db"),
    ("import RUNS --store other.db", 2, "other.db"),
    ("import RUNS --store newer.db", 2, "newer"),
    ("import RUNS --store folder/no/runs.db", 2, "folder/no"),
    ("score --store nowhere.db", 2, "no store at 'nowhere.db'"),
    ("score --store good.db --measure nothing", 2, "no measure called 'nothing'"),
    ("report", 2, "no store at 'stepscope.db'"),
    ("report --store text.db", 2, "text.db"),
    ("report --store none.db", 2, "no run"),
    ("report --store good.db --where agent", 2, "where"),
    ("report --store good.db --where agnt='x'", 2, "where, character 1: 'agnt'"),
    ("report --store good.db --where agent='nobody'", 2, "no run"),
    ("report --store good.db --since tomorrow", 2, "since: 'tomorrow' is not a time"),
    ("report --store good.db --by colour", 2, "colour"),
    ("report --store good.db --get outcome.pas", 2, "no figure 'outcome.pas'"),
    ("report --store good.db --get tokens.median", 4, ""),
    ("report --store good.db --out folder", 2, "folder"),
    ("report --store good.db --out nowhere/report.txt", 2, "nowhere/report.txt"),
    ("show airline/99/9 --store good.db", 2, "airline/99/9"),
    ("show airline --store good.db", 2, "airline"),
    ("show airline/11/2 --step 900 --store good.db", 2, "900"),
    ("compare gpt-4o nobody --store good.db", 2, "nobody"),
    ("agree --store nowhere.db", 2, "no store at 'nowhere.db'"),
    ("agree --store text.db", 2, "text.db"),
    ("agree --store none.db", 4, ""),
    ("agree --store good.db --where agnt='x'", 2, "where, character 1: 'agnt'"),
    ("import --verdicts nowhere.csv --store good.db", 2, "nowhere.csv: cannot be read"),
    ("import --verdicts binary --rater a --store good.db", 2, "binary"),
    ("import --verdicts folder --rater a --store good.db", 2, "folder"),
    ("import --verdicts empty.jsonl --rater a --store good.db", 2, "no rows"),
    ("import --verdicts text.txt --rater a --store nowhere.db", 2, "no store at 'nowhere.db'"),
    ("export out.jsonl --store none.db", 2, "no run"),
    ("export good.db --store good.db", 2, "good.db already exists; --force overwrites it"),
    ("export folder --store good.db --force", 2, "folder"),
    ("export out.json --format atif --store good.db", 2, "an ATIF file holds one run"),
    ("export out --verdicts gen_ai --store good.db", 2, "choose --format otlp"),
    ("export out --format atif --verdicts only --store good.db", 2, "ATIF holds runs, not"),
    ("purge --older-than soon --store good.db", 2, "'soon' is not a time"),
    ("purge --where steps=1 --where steps=2 --yes --store good.db", 2, "--where is given twice"),
    ("gate --tier rules --tier axes", 2, "--tier is given twice; it takes one value"),
    ("report -o a.md --out b.md --store good.db", 2, "--out is given twice"),
    ("import --cases none.toml --tag a=b --store good.db", 2, "--tag is for PATHS; --cases"),
    ("import --cases none.toml --strict --store good.db", 2, "--strict is for PATHS; --cases"),
    ("import --verdicts text.txt --set-aside --store good.db", 2, "--set-aside is for runs"),
]


def one_line(capsys: pytest.CaptureFixture[str], says: str) -> str:
    shown = capsys.readouterr().err
    errors = [line for line in shown.split("\n") if line.startswith("error: ")]
    assert says in shown
    assert "Traceback" not in shown
    assert len(errors) <= 1
    return shown


@pytest.mark.parametrize(("line", "code", "says"), BAD)
def test_a_mistake_is_one_line_and_the_documented_code(
    workspace: Path, capsys: pytest.CaptureFixture[str], line: str, code: int, says: str
) -> None:
    capsys.readouterr()
    assert main([str(RUNS) if word == "RUNS" else word for word in line.split(" ")]) == code
    shown = one_line(capsys, says)
    assert shown.count("\n") <= 1


def test_an_option_that_takes_several_is_given_several_times_and_a_flag_twice(
    workspace: Path,
) -> None:
    names = ["--measure", "outcome", "--measure", "efficiency"]
    assert main(["import", str(RUNS), "--tag", "a=1", "--tag", "b=2", "--store", "n.db"]) == 0
    assert main(["report", "--json", "--json", "--store", "good.db"]) == 0
    assert main(["score", *names, "--store", "n.db"]) == 0


def test_as_many_processes_as_one_likes_are_a_few_a_core(workspace: Path) -> None:
    assert main(["import", str(RUNS), "--workers", "1000000000000", "--store", "n.db"]) == 0
    assert main(["score", "--workers", "1000000000000", "--store", "n.db"]) == 0


def test_a_fifo_is_refused_without_waiting(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo("pipe")
    assert main(["import", "pipe"]) == 2
    one_line(capsys, "pipe")


def test_programs_of_the_working_folder_are_not_run(workspace: Path) -> None:
    Path("t").mkdir()
    for name in ("json", "sitecustomize", "msgspec", "stepscope"):
        Path(f"{name}.py").write_text("open('pwned', 'a').write(__name__)", encoding="utf-8")
    for number in range(4):
        held = RUNS.read_text(encoding="utf-8").replace('"task_id": ', f'"task_id": {number + 1}')
        Path(f"t/{number}.json").write_text(held, encoding="utf-8")
    assert run("import", "t", "--workers", "3", "--store", "w.db").returncode == 0
    assert not Path("pwned").exists()


def test_a_pipe_where_a_gate_writes_is_an_error_at_once(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("w").mkdir()
    os.mkfifo("w/gate.json")
    gate = "[workflow.airline.gates]\noutcome = { min_rate = 0.01 }\n"
    Path("stepscope.toml").write_text(gate, encoding="utf-8")
    capsys.readouterr()
    assert main(["gate", "--store", "good.db", "--write", "w"]) == 2
    one_line(capsys, "w/gate.json is no file; name another")


def test_an_unreadable_file_is_refused(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "other.json"]) == 2  # loads what nobody may not load
    capsys.readouterr()
    Path("other.json").chmod(0)
    with without_privilege():
        assert main(["import", "other.json"]) == 2
    one_line(capsys, "Permission denied")


def cut_in_half(store: Path) -> None:
    store.write_bytes(store.read_bytes()[: store.stat().st_size // 2])


def overwritten(store: Path) -> None:
    raw = bytearray(store.read_bytes())
    raw[200:9000] = b"\xff" * 8800
    store.write_bytes(raw)


@pytest.mark.parametrize("damage", [cut_in_half, overwritten])
def test_a_corrupt_store_is_one_line(
    workspace: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[Path], None]
) -> None:
    damage(Path("good.db"))
    assert main(["report", "--store", "good.db"]) in (2, 5)
    one_line(capsys, "good.db")


def test_one_number_is_refused_with_the_vector_and_the_reason(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--store", "good.db", "--get", "score"]) == 2
    shown = capsys.readouterr()
    assert "outcome: pass" in shown.out
    assert "there is no single number" in shown.err


def test_a_bug_is_one_line_and_a_file_not_a_traceback(tmp_path: Path) -> None:
    code = (
        "import sys; from stepscope.cli import main as m;"
        "m._run = lambda arguments: 1 // 0;"
        "sys.exit(m.main())"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    environment.pop("STEPSCOPE_DEBUG", None)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: a bug in stepscope (ZeroDivisionError)")
    assert done.stderr.count("\n") == 1
    (written,) = tmp_path.iterdir()
    assert str(written) in done.stderr
    assert "ZeroDivisionError" in written.read_text(encoding="utf-8")


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [STEPSCOPE, *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, check=False)


def test_a_mistake_is_the_same_in_a_process_of_its_own(workspace: Path) -> None:
    done = run("report", "--store", "nowhere.db")
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: no store at 'nowhere.db'")
    assert done.stdout == b""


def test_a_closed_pipe_is_quiet(workspace: Path) -> None:
    show = f"{STEPSCOPE} show airline/9/2 --steps 0: --store good.db"
    command = f"{show} | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.split("\n")[0].startswith("airline/9/2")
    assert done.stdout.split("\n")[1] == "0"


def test_a_full_disk_is_code_5(workspace: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [STEPSCOPE, "report", "--store", "good.db"],
            stdout=full, stderr=subprocess.PIPE, check=False, env=buffered,
        )  # fmt: skip
    assert done.returncode == 5
    assert done.stderr.startswith(b"error: No space left on device")


def test_runs_are_read_from_standard_input(workspace: Path) -> None:
    done = run("import", "-", "--store", "piped.db", "--json", stdin=RUNS.read_bytes())
    assert done.stderr == b""
    assert json.loads(done.stdout)["new"] == 20


def test_the_commands_a_report_names_work_as_they_stand(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--store", "good.db"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    commands = text.partition("Next: ")[2].split(" · ")
    assert commands
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0


@pytest.mark.parametrize("limit", ["-v 30720", "-v 81920", "-v 122880", "-v 204800", "-s 300"])
def test_too_little_memory_is_one_line_and_no_bug(tmp_path: Path, limit: str) -> None:
    command = f"ulimit {limit}; exec {STEPSCOPE} report --store none.db"
    ran = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 5
    assert ran.stderr.startswith("error: this process may have ")
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        ("MemoryError()", 5, "out of memory"),
        ("ImportError('failed to map segment', name='numpy')", 5, "numpy cannot be loaded (failed"),
        ("ImportError('no name x', name='stepscope.stats')", 1, "a bug in stepscope (ImportError)"),
    ],
)
def test_a_library_that_cannot_be_loaded_is_the_environments_fault(
    tmp_path: Path, raised: str, code: int, said: str
) -> None:
    (tmp_path / "numpy.py").write_text(f"raise {raised}")
    ran = subprocess.run(
        [STEPSCOPE, "report", "--store", str(RUNS)],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "TMPDIR": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == code
    assert ran.stderr.startswith(f"error: {said}")
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    ["shape odd", "calibrate sigma odd", "import --outcomes odd", "import --verdicts odd",
     "judge --judge a/b --rubric ./odd.md", "report --html r.html --gates odd", "report"],
)  # fmt: skip
def test_a_pipe_in_place_of_a_file_is_not_waited_for(workspace: Path, command: str) -> None:
    for name in ("odd", "odd.md", "good.db.localise.json"):
        os.mkfifo(name)
    assert main([*command.split(), "--store", "good.db"]) == 2
