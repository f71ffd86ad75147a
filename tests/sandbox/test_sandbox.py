"""The sandbox: what it holds, what its probes see where it does not, and what it copies."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.errors import EnvironmentFault, UsageError
from stepscope.sandbox import probe
from stepscope.sandbox.check import check_sandbox, probe_sandbox
from stepscope.sandbox.run import DEFAULT_LIMITS, MIB, run_command, syscall_filter
from stepscope.sandbox.workspace import copy_workspace
from tests.sandbox.bubblewrap import NEEDED

pytestmark = NEEDED


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "here").write_text("one\ntwo\n", "utf-8")
    with copy_workspace(tmp_path / "ws") as copy:
        yield copy.path


@pytest.fixture
def shown() -> Iterator[Path]:
    """A folder that everybody may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_no_probe_gets_out() -> None:
    found = probe_sandbox()
    assert len(found) >= 40
    assert {name: said for name, said in found.items() if said} == {}


def test_the_probes_see_a_machine_without_a_sandbox(shown: Path) -> None:
    secret = shown / "secret"
    secret.write_text("s3cr3t", "utf-8")
    secret.chmod(0o666)
    name = f"stepscope-test-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        abstract.bind("\0" + name)
        abstract.listen()
        outside = {
            "secret": "s3cr3t",
            "secret_file": str(secret),
            "home": "/usr",
            "port": server.getsockname()[1],
            "abstract": name,
            "socket_file": "/nowhere",
            "process": os.getpid(),
            "processes": 3,
            "memory": MIB,
        }
        code = (
            "import json, sys; names = {'__name__': 'probe'}; exec(sys.argv[1], names);"
            "probes, told = names['PROBES'], json.loads(sys.argv[2]);"
            "print(json.dumps({n: probes[n](told) for n in sys.argv[3:]}))"
        )
        seen = (
            *("write_host", "read_etc", "read_home", "read_host", "loopback", "abstract_socket"),
            *("environment", "other_processes", "memory", "raise_limits"),
        )
        script = Path(probe.__file__).read_text("utf-8")
        command = ["/usr/bin/python3", "-I", "-S", "-c", code, script, json.dumps(outside), *seen]
        root = os.geteuid() == 0
        done = subprocess.run(
            command,
            cwd="/",
            env={"PATH": "/usr/bin", "KEY": "s3cr3t"},
            user=65534 if root else None,
            capture_output=True,
            check=True,
        )
    assert [name for name, said in json.loads(done.stdout).items() if not said] == []


def test_programs_are_seen_and_other_files_are_not(workspace: Path) -> None:
    shown = run_command(["head", "-c", "4", "/usr/bin/env"], workspace=workspace, tested=False)
    assert (shown.code, shown.out) == (0, b"\x7fELF")
    hidden = run_command(["cat", __file__], workspace=workspace, tested=False)
    assert (hidden.code, hidden.out) == (1, b"")
    assert b"No such file" in hidden.err


def test_a_command_reads_its_copy_and_says_how_it_ended(workspace: Path) -> None:
    done = run_command(["grep", "-n", "two", "here"], workspace=workspace)
    assert (done.code, done.out, done.err, done.cut, done.late) == (
        0,
        b"2:two\n",
        b"",
        False,
        False,
    )
    assert run_command(["grep", "three", "here"], workspace=workspace).code == 1
    absent = run_command(["no-such-program"], workspace=workspace)
    assert absent.code != 0
    assert b"no-such-program" in absent.err


def test_no_shell_reads_the_arguments(workspace: Path) -> None:
    done = run_command(["printf", "%s", "$(cat here); `id` | x > y"], workspace=workspace)
    assert done.out == b"$(cat here); `id` | x > y"


def test_nothing_that_a_command_writes_reaches_the_copy(workspace: Path) -> None:
    done = run_command(
        ["sh", "-c", "echo more >> here; rm here; echo x > new"], workspace=workspace
    )
    assert done.code != 0
    assert sorted(path.name for path in workspace.iterdir()) == ["here"]
    assert (workspace / "here").read_text("utf-8") == "one\ntwo\n"


def test_a_flood_is_cut_at_its_bound_and_fast(workspace: Path) -> None:
    for stream in ("", " >&2"):
        done = run_command(["sh", "-c", f"yes{stream}"], workspace=workspace)
        assert done.cut
        assert len(done.out) + len(done.err) == 10 * MIB
        assert not done.late


def test_a_command_that_takes_too_long_ends_with_its_children(workspace: Path) -> None:
    word = f"8{os.getpid()}77"
    script = f"sleep {word} & sleep {word}"
    done = run_command(
        ["sh", "-c", script], workspace=workspace, bounds=replace(DEFAULT_LIMITS, seconds=0.3)
    )
    assert done.late
    _until(lambda: not _running(word))


def test_a_command_that_closes_its_streams_is_waited_for_no_longer(workspace: Path) -> None:
    word = f"7{os.getpid()}77"
    script = f"exec >&- 2>&-; sleep {word}"
    done = run_command(
        ["sh", "-c", script], workspace=workspace, bounds=replace(DEFAULT_LIMITS, seconds=0.3)
    )
    assert done.late
    _until(lambda: not _running(word))


def test_a_command_dies_with_the_process_that_started_it(workspace: Path) -> None:
    word = f"6{os.getpid()}77"
    code = (
        "import sys; from pathlib import Path; from stepscope.sandbox.run import run_command\n"
        "run_command(['sleep', sys.argv[2]], workspace=Path(sys.argv[1]), tested=False)"
    )
    caller = subprocess.Popen([sys.executable, "-c", code, str(workspace), word])
    _until(lambda: _running(word, "sleep"))
    caller.kill()
    caller.wait()
    _until(lambda: not _running(word, "sleep"))


def test_computing_has_a_limit_of_its_own(workspace: Path) -> None:
    bounds = replace(DEFAULT_LIMITS, cpu_seconds=1, seconds=300)
    done = run_command(["sh", "-c", "while :; do :; done"], workspace=workspace, bounds=bounds)
    assert done.code != 0
    assert not done.late


def test_without_bubblewrap_nothing_runs_and_the_package_is_named(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match=r"no bubblewrap .* apt-get install bubblewrap"):
        run_command(["true"], workspace=workspace, tested=False)


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo 'bwrap: Unknown option --disable-userns' >&2; exit 1", "it is too old; install"),
        ("echo 'bwrap: No permissions to create new namespace' >&2; exit 1", "in many containers"),
    ],
)
def test_a_bubblewrap_that_does_not_start_says_why(script: str, says: str, shown: Path) -> None:
    tool = shown / "bwrap"
    tool.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    tool.chmod(0o755)
    assert says in _checked(shown)


# A bubblewrap that is told less, or something else, than it was to be told.
_CARELESS = """#!/usr/bin/python3
import os, sys
old, new, words = {old!r}, {new!r}, sys.argv[1:]
at = next(i for i in range(len(words)) if words[i : i + len(old)] == old)
words[at : at + len(old)] = new
os.execv("/usr/bin/bwrap", ["bwrap", *words])
"""


@pytest.mark.parametrize(
    ("old", "new", "leak"),
    [
        (["--unshare-all"], ["--unshare-all", "--share-net"], "interfaces (sees ["),
        (["--proc", "/proc"], ["--ro-bind", "/etc", "/etc", "--proc", "/proc"], "read_etc ("),
        (["--remount-ro", "/dev"], [], "fill_memory_files (opened /dev/probe"),
        (["--remount-ro", "/proc"], [], "kernel_settings (opened /proc/sys/"),
        (["--nproc=16"], [], "fork_bomb (made 24 processes)"),
        # The near miss: told the same in other words.
        (["--clearenv"], ["--clearenv", "--clearenv"], ""),
    ],
)
def test_a_bubblewrap_that_lets_something_through_is_found_out(
    old: list[str], new: list[str], leak: str, shown: Path
) -> None:
    tool = shown / "bwrap"
    tool.write_text(_CARELESS.format(old=old, new=new), "utf-8")
    tool.chmod(0o755)
    said = _checked(shown)
    if not leak:
        assert said == "holds\n"
        return
    assert said.startswith("the sandbox does not hold on this machine: ")
    assert leak in said


def test_the_keys_of_the_session_are_out_of_reach(workspace: Path) -> None:
    script = "import ctypes; c = ctypes.CDLL(None); print(c.syscall({number}, 0, -3, 0))"
    number = {"x86_64": 250, "aarch64": 219}[os.uname().machine]
    command = ["/usr/bin/python3", "-c", script.format(number=number)]
    assert run_command(command, workspace=workspace).out == b"-1\n"


def _checked(path: Path) -> str:
    """Return what a new process says of the sandbox that it finds on a path."""
    code = (
        "from stepscope.errors import EnvironmentFault\n"
        "from stepscope.sandbox.check import check_sandbox\n"
        "try: check_sandbox(); print('holds')\n"
        "except EnvironmentFault as e: print(e)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": f"{path}:/usr/bin:/bin", "HOME": "/nowhere"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return done.stdout


def test_the_filter_knows_two_machines_and_refuses_the_others() -> None:
    for machine in ("x86_64", "aarch64"):
        assert len(syscall_filter(machine)) % 8 == 0
    with pytest.raises(EnvironmentFault, match="no list of system calls for 'riscv64'"):
        syscall_filter("riscv64")


def test_what_leads_out_of_a_workspace_is_left_out_and_counted(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("secret", "utf-8")
    source = tmp_path / "ws"
    (source / "deep").mkdir(parents=True)
    (source / "a.txt").write_text("a", "utf-8")
    (source / "deep" / "run.sh").write_text("#!/bin/sh\n", "utf-8")
    (source / "deep" / "run.sh").chmod(0o4755)
    (source / "deep" / "inside").symlink_to("../a.txt")
    (source / "absolute").symlink_to(out)
    # It leads inside, by a path that the copy does not have.
    (source / "absolute-inside").symlink_to(source / "a.txt")
    (source / "relative").symlink_to("../out")
    (source / "deep" / "folder").symlink_to("../..")
    (source / "circle").symlink_to("circle")
    (source / "linked").hardlink_to(out)
    (source / "twin").hardlink_to(source / "a.txt")
    os.mkfifo(source / "pipe")
    with socket.socket(socket.AF_UNIX) as one, copy_workspace(source) as copy:
        one.bind(str(source / "late-socket"))
        names = {str(path.relative_to(copy.path)) for path in copy.path.rglob("*")}
        assert names == {"a.txt", "twin", "deep", "deep/run.sh", "deep/inside"}
        assert copy.dropped == {"link_out": 6, "special": 1}
        assert (copy.files, copy.size) == (3, 12)
        assert (copy.path / "deep" / "inside").read_text("utf-8") == "a"
        assert (copy.path / "deep" / "run.sh").stat().st_mode & 0o7777 == 0o700
        assert copy.path.stat().st_mode & 0o777 == 0o700
    assert not copy.path.exists()
    assert out.read_text("utf-8") == "secret"


def test_what_is_too_much_is_left_out_and_counted(tmp_path: Path) -> None:
    for name, size in (("a", 60), ("b", 60), ("c", 30)):
        (tmp_path / name).write_bytes(bytes(size))
    with copy_workspace(tmp_path, most_bytes=100) as copy:
        assert sorted(path.name for path in copy.path.iterdir()) == ["a", "c"]
        assert (copy.size, copy.dropped) == (90, {"too_large": 1})
    with copy_workspace(tmp_path, most_files=2) as copy:
        assert (copy.files, copy.dropped) == (2, {"too_many": 1})


def test_folders_deeper_than_any_program_makes_them_are_left_out_and_counted(
    tmp_path: Path,
) -> None:
    tmp_path.joinpath(*["d"] * 100).mkdir(parents=True)
    (tmp_path / "file").write_text("x", "utf-8")
    with copy_workspace(tmp_path) as copy:
        assert (copy.files, copy.dropped) == (1, {"too_deep": 1})
        assert len(list(copy.path.rglob("*"))) == 65


def test_a_workspace_that_is_not_there_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="absent: no such folder"),
        copy_workspace(tmp_path / "absent"),
    ):
        pass


def test_the_check_is_made_once_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_sandbox()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="no bubblewrap"):
        probe_sandbox()
    check_sandbox()


def _running(word: str, program: str = "") -> bool:
    """Say whether a process with this word in its command line is there, of a program."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            if word in words and words[0].endswith(program):
                return True
    return False


def _until(holds: Callable[[], bool]) -> None:
    """Wait until it holds; a minute is long on the busiest machine, and no hang."""
    for _ in range(6_000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it does not come to hold")
