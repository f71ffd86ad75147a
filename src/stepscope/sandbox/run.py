"""Run an untrusted command on a copy of a folder, in a sandbox that can only read it.

Bubblewrap gives it namespaces of its own; a filter of system calls forbids the rest. Refuses to run
where the sandbox does not hold (see `sandbox.check`). Source: bubblewrap(1), seccomp(2).
"""

from __future__ import annotations

import os
import platform
import selectors
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from errno import ENOSYS, EPERM
from pathlib import Path
from typing import NamedTuple

from stepscope.errors import EnvironmentFault
from stepscope.sandbox.workspace import NOBODY


class SyscallTable(NamedTuple):
    """One architecture: how its kernel names it, and the numbers of its system calls."""

    audit: int
    refused: tuple[int, ...]
    clone: int
    clone3: int
    ioctl: int


# New numbers are the same everywhere: io_uring (425 to 427), the mount interface (428 to 433, 442),
# pidfd_getfd (438).
_EVERYWHERE = (425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 442)
# In the order of the numbers: socket; ptrace; syslog; personality; pivot_root, adjtimex, chroot,
# acct, settimeofday, mount, umount2, swapon, swapoff, reboot, sethostname, setdomainname, iopl,
# ioperm, the modules, quotactl; clock_settime, kexec_load, add_key, request_key, keyctl,
# migrate_pages, unshare, move_pages, perf_event_open, name_to_handle_at, open_by_handle_at,
# clock_adjtime, setns, process_vm_*, kcmp, finit_module, kexec_file_load, bpf, userfaultfd.
_X86_64 = (
    *(41, 101, 103, 135, 155, 159, 161, 163, 164, 165, 166, 167, 168, 169, 170, 171, 172, 173),
    *(174, 175, 176, 177, 178, 179, 227, 246, 248, 249, 250, 256, 272, 279, 298, 303, 304, 305),
    *(308, 310, 311, 312, 313, 320, 321, 323),
)
_AARCH64 = (
    *(198, 117, 116, 92, 41, 171, 51, 89, 170, 40, 39, 224, 225, 142, 161, 162, 105, 106, 60),
    *(112, 104, 217, 218, 219, 238, 97, 239, 241, 264, 265, 266, 268, 270, 271, 272, 273, 294),
    *(280, 282),
)
SYSCALLS = {
    "x86_64": SyscallTable(0xC000003E, _X86_64 + _EVERYWHERE, clone=56, clone3=435, ioctl=16),
    "aarch64": SyscallTable(0xC00000B7, _AARCH64 + _EVERYWHERE, clone=220, clone3=435, ioctl=29),
}
# Numbers from here on are a second interface of x86_64, which the table does not know.
_X32 = 0x40000000
# Flags of clone that make a namespace.
_NAMESPACES = 0x7E020000
# Requests of ioctl that put characters into a terminal's input: TIOCSTI, TIOCLINUX.
_TYPING = (0x5412, 0x541C)
# Places in what a filter sees: the number, the architecture, the low halves of two arguments.
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000


def syscall_filter(machine: str = "") -> bytes:
    """Return the kernel's filter for a machine, or this one; EnvironmentFault where unknown."""
    machine = machine or platform.machine()
    if machine not in SYSCALLS:
        raise EnvironmentFault(
            f"no list of system calls for {machine!r}; the sandbox runs on {' and '.join(SYSCALLS)}"
        )
    table = SYSCALLS[machine]
    refuse, absent = _ERROR | EPERM, _ERROR | ENOSYS
    lines = [_instruction(_LOAD, _ARCHITECTURE), _instruction(_EQUAL, table.audit, 1, 0)]
    lines += [_instruction(_RETURN, _KILL), _instruction(_LOAD, _NUMBER)]
    lines += _jump_if(_AT_LEAST, _X32, refuse)
    for number in table.refused:
        lines += _jump_if(_EQUAL, number, refuse)
    # Its arguments lie in memory, where a filter cannot look: libraries then use clone.
    lines += _jump_if(_EQUAL, table.clone3, absent)
    lines += [_instruction(_EQUAL, table.clone, 0, 4), _instruction(_LOAD, _FIRST)]
    lines += [*_jump_if(_ANY_BIT, _NAMESPACES, refuse), _instruction(_RETURN, _ALLOW)]
    lines += [_instruction(_EQUAL, table.ioctl, 0, 5), _instruction(_LOAD, _SECOND)]
    for request in _TYPING:
        lines += _jump_if(_EQUAL, request, refuse)
    lines.append(_instruction(_RETURN, _ALLOW))
    return b"".join(lines)


def _jump_if(test: int, value: int, then: int) -> tuple[bytes, bytes]:
    return _instruction(test, value, 0, 1), _instruction(_RETURN, then)


def _instruction(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


MIB = 1024 * 1024
INSTALL = "install bubblewrap 0.8 or newer (Debian: apt-get install bubblewrap)"
_PATH = "/usr/bin:/bin"
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """What a command may use."""

    seconds: float = 10.0  # of wall time, then it is ended with all its children
    cpu_seconds: int = 10  # of computing, each process
    memory_bytes: int = 512 * MIB  # of address space, each process
    processes: int = 32  # at once
    file_bytes: int = 16 * MIB  # of one file; scratch holds 16 MiB in all
    output_bytes: int = 10 * MIB  # of both streams together; what comes after ends the command


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedCommand:
    """A command that has ended."""

    code: int  # what it exited with; negative: minus the signal that ended it
    out: bytes  # what it wrote, as bytes: it may hold anything
    err: bytes  # the same of its errors
    cut: bool  # it wrote more than it may and was ended
    late: bool  # it took longer than it may and was ended
    seconds: float  # from start to end, on the monotonic clock


DEFAULT_LIMITS = SandboxLimits()


def run_command(
    command: Sequence[str],  # the program and its arguments; no shell reads them
    *,
    workspace: Path,  # what it sees as /ws: the path of a copy made by `copy_workspace`
    bounds: SandboxLimits = DEFAULT_LIMITS,  # what it may use
    beside: Sequence[Path] = (),  # further folders that it can read, where they are
    tested: bool = True,  # whether the sandbox is tested first
) -> FinishedCommand:
    """Run a command in the sandbox, in a folder that was copied for it, and return how it ended.

    `EnvironmentFault` where there is no bubblewrap, or it does not hold what it promises.
    """
    if tested:
        from stepscope.sandbox.check import check_sandbox

        check_sandbox()
    tool = find_bubblewrap()
    # A file and not a pipe: nobody has to write while the command starts.
    with tempfile.TemporaryFile() as calls:
        calls.write(syscall_filter())
        calls.seek(0)
        line = [tool, *_command_line(command, workspace, bounds, calls.fileno(), beside)]
        start = time.monotonic()
        root = os.geteuid() == 0
        child = subprocess.Popen(
            line,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            close_fds=True,
            pass_fds=(calls.fileno(),),
            env={"PATH": _PATH},
            cwd="/",
            process_group=0,
            user=NOBODY if root else None,
            group=NOBODY if root else None,
            extra_groups=[] if root else None,
        )
        try:
            return _read(child, bounds, start)
        finally:
            _end_command(child)


def find_bubblewrap() -> str:
    """Return the path of bubblewrap; EnvironmentFault where it is not installed."""
    path = shutil.which("bwrap")
    if path is None:
        raise EnvironmentFault(f"no bubblewrap on this machine: tools that run are off; {INSTALL}")
    return path


def _command_line(
    command: Sequence[str],
    workspace: Path,
    bounds: SandboxLimits,
    calls: int,
    beside: Sequence[Path],
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


def _read(child: subprocess.Popen[bytes], bounds: SandboxLimits, start: float) -> FinishedCommand:
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
        try:
            child.wait(max(start + bounds.seconds - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            late = True  # it closed its streams and went on
    _end_command(child)
    out, err = (b"".join(parts) for parts in pieces.values())
    seconds, code = time.monotonic() - start, child.returncode
    return FinishedCommand(code=code, out=out, err=err, cut=cut, late=late, seconds=seconds)


def _end_command(child: subprocess.Popen[bytes]) -> None:
    if child.returncode is None:
        with suppress(ProcessLookupError):  # it ended by itself meanwhile
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    for stream in (child.stdout, child.stderr):
        if stream is not None:
            stream.close()
