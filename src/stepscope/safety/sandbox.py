"""Run a command that nobody vouches for on a copy of a folder, and only so that it can read.

The command sees `/usr`, the folder at `/ws`, 16 MiB of scratch at `/tmp`, and nothing else: no
network, no other process, no environment, no key of the session; it can write nothing that
outlives it. There is no way to run without: where bubblewrap is absent, too old or does not hold
on this machine, `run` raises and says what to do.

Beyond namespaces: root's commands run as nobody (within a user namespace, root outside may still
write kernel settings), /proc and /dev are mounted read-only, and calls that reading does not need
are refused (see `sandbox_calls`).
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from stepscope.errors import EnvironmentFault
from stepscope.safety.sandbox_calls import program
from stepscope.safety.sandbox_workspace import NOBODY

MIB = 1024 * 1024
INSTALL = "install bubblewrap 0.8 or newer (Debian: apt-get install bubblewrap)"
_PATH = "/usr/bin:/bin"
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a command may use.

    Attributes:
        seconds: of wall time, then it is ended with all its children.
        cpu_seconds: of computing, each process.
        memory_bytes: of address space, each process.
        processes: at once.
        file_bytes: of one file; scratch holds 16 MiB in all.
        output_bytes: of both streams together; what comes after ends the command.
    """

    seconds: float = 10.0
    cpu_seconds: int = 10
    memory_bytes: int = 512 * MIB
    processes: int = 32
    file_bytes: int = 16 * MIB
    output_bytes: int = 10 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A command that has ended.

    Attributes:
        code: what it exited with; negative: minus the signal that ended it.
        out: what it wrote, as bytes: it may hold anything.
        err: the same of its errors.
        cut: it wrote more than it may and was ended.
        late: it took longer than it may and was ended.
        seconds: from start to end, on the monotonic clock.
    """

    code: int
    out: bytes
    err: bytes
    cut: bool
    late: bool
    seconds: float


DEFAULT = Bounds()


def run(
    command: Sequence[str],
    *,
    workspace: Path,
    bounds: Bounds = DEFAULT,
    beside: Sequence[Path] = (),
) -> Finished:
    """Run a command in the sandbox, in a folder that was copied for it, and return how it ended.

    Args:
        command: the program and its arguments; no shell reads them.
        workspace: what it sees as /ws: the path of a copy made by `sandbox_workspace.copied`.
        bounds: what it may use.
        beside: further folders that it can read, where they are.

    Raises:
        EnvironmentFault: there is no bubblewrap here, or it does not hold what it promises.
    """
    from stepscope.safety.sandbox_check import check

    check()
    return confined(command, workspace=workspace, bounds=bounds, beside=beside)


def confined(
    command: Sequence[str],
    *,
    workspace: Path,
    bounds: Bounds = DEFAULT,
    beside: Sequence[Path] = (),
) -> Finished:
    """Do what `run` does without testing the sandbox first.

    Raises:
        EnvironmentFault: there is no bubblewrap here.
    """
    tool = bubblewrap()
    # A file and not a pipe: nobody has to write while the command starts.
    with tempfile.TemporaryFile() as calls:
        calls.write(program())
        calls.seek(0)
        line = [tool, *_line(command, workspace, bounds, calls.fileno(), beside)]
        start = time.monotonic()
        child = _started(line, calls.fileno())
        try:
            return _read(child, bounds, start)
        finally:
            _end(child)


def bubblewrap() -> str:
    """Return the path of bubblewrap.

    Raises:
        EnvironmentFault: it is not installed.
    """
    path = shutil.which("bwrap")
    if path is None:
        raise EnvironmentFault(f"no bubblewrap on this machine: tools that run are off; {INSTALL}")
    return path


def _line(
    command: Sequence[str], workspace: Path, bounds: Bounds, calls: int, beside: Sequence[Path]
) -> list[str]:
    seen = [word for path in beside for word in ("--ro-bind", str(path), str(path))]
    limits = {
        "--as": bounds.memory_bytes,
        "--cpu": bounds.cpu_seconds,
        # Counted within the sandbox: the user's other processes are not its business.
        "--nproc": bounds.processes,
        "--fsize": bounds.file_bytes,
        "--core": 0,
    }
    return [
        *("--unshare-all", "--unshare-user", "--disable-userns"),
        *("--uid", str(NOBODY), "--gid", str(NOBODY), "--cap-drop", "ALL"),
        *("--die-with-parent", "--new-session", "--clearenv"),
        *("--setenv", "PATH", _PATH, "--setenv", "LANG", "C.UTF-8"),
        *("--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin"),
        *("--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"),
        *seen,
        *("--size", str(16 * MIB), "--tmpfs", "/tmp", "--proc", "/proc", "--remount-ro", "/proc"),
        # Else /dev/shm is half of the machine's memory to write to.
        *("--dev", "/dev", "--remount-ro", "/dev", "--ro-bind", str(workspace), "/ws"),
        *("--remount-ro", "/", "--chdir", "/ws", "--seccomp", str(calls)),
        *("--", "/usr/bin/prlimit", *(f"{name}={value}" for name, value in limits.items()), "--"),
        *command,
    ]


def _started(line: Sequence[str], calls: int) -> subprocess.Popen[bytes]:
    root = os.geteuid() == 0
    return subprocess.Popen(
        line,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        close_fds=True,
        pass_fds=(calls,),
        env={"PATH": _PATH},
        cwd="/",
        process_group=0,
        user=NOBODY if root else None,
        group=NOBODY if root else None,
        extra_groups=[] if root else None,
    )


def _read(child: subprocess.Popen[bytes], bounds: Bounds, start: float) -> Finished:
    """Read both streams to their ends, or to the first bound."""
    assert child.stdout is not None
    assert child.stderr is not None
    pieces: dict[int, list[bytes]] = {child.stdout.fileno(): [], child.stderr.fileno(): []}
    left, cut, late = bounds.output_bytes, False, False
    with selectors.DefaultSelector() as ready:
        for stream in (child.stdout, child.stderr):
            ready.register(stream, selectors.EVENT_READ)
        while ready.get_map():
            seconds = start + bounds.seconds - time.monotonic()
            if (late := seconds <= 0) or (cut := left < 0):
                break
            for key, _ in ready.select(seconds):
                piece = os.read(key.fd, _PIECE)
                left -= len(piece)
                # Of the piece that goes too far, what the bound allows.
                pieces[key.fd].append(piece[: max(len(piece) + left, 0)] if left < 0 else piece)
                if not piece:
                    ready.unregister(key.fileobj)
    if not (cut or late):
        late = _is_late(child, start + bounds.seconds - time.monotonic())
    _end(child)
    out, err = (b"".join(parts) for parts in pieces.values())
    seconds = time.monotonic() - start
    return Finished(code=child.returncode, out=out, err=err, cut=cut, late=late, seconds=seconds)


def _is_late(child: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        child.wait(max(seconds, 0.0))
    except subprocess.TimeoutExpired:
        return True  # it closed its streams and went on
    return False


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a command; its children are of its namespace and die with it."""
    if child.returncode is None:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it ended by itself meanwhile
        child.wait()
    for stream in (child.stdout, child.stderr):
        _close(stream)


def _close(stream: IO[bytes] | None) -> None:
    if stream is not None:
        stream.close()
