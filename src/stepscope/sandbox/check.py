"""Whether the sandbox of this machine holds: everything that a hostile command would try, tried.

A profile that holds on one kernel leaks on another, and a leak shows no error. So each process
tries the list of `sandbox.probe`, and four ways to use up the machine, once, before it first runs
a command; one probe that works means that no command is run. It takes about half a second.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

from stepscope.errors import EnvironmentFault
from stepscope.sandbox import probe
from stepscope.sandbox.run import (
    DEFAULT_LIMITS,
    INSTALL,
    MIB,
    FinishedCommand,
    SandboxLimits,
    run_command,
)
from stepscope.sandbox.workspace import copy_workspace

# The probes that bring a machine down where nothing holds them are tried with less.
SMALL_LIMITS: SandboxLimits = replace(DEFAULT_LIMITS, memory_bytes=256 * MIB, processes=16)
# bubblewrap outside of the sandbox has one more, which is not seen: its first, the limits, Python.
_PROCESSES = 3
# What forbids user namespaces, by the file that says so and what it then holds.
_FORBIDDING = {
    "/proc/sys/kernel/unprivileged_userns_clone": "0",
    "/proc/sys/user/max_user_namespaces": "0",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1",
}


def check_sandbox() -> None:
    """Raise EnvironmentFault unless the sandbox holds on this machine; tried once a process."""
    if reason := _check_once():
        raise EnvironmentFault(reason)


@cache
def _check_once() -> str:
    try:
        results = probe_sandbox()
    except EnvironmentFault as e:
        return str(e)
    leaks = [f"{name} ({said})" for name, said in results.items() if said]
    said = f"the sandbox does not hold on this machine: {', '.join(leaks)}"
    return f"{said}; tools that run are off; please report it" if leaks else ""


def probe_sandbox() -> dict[str, str]:
    """Return for each probe "" where the sandbox held, else what came of it."""
    with ExitStack() as held:
        place = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="stepscope-probe-")))
        place.chmod(0o755)
        (place / "ws").mkdir()
        outside = held.enter_context(_outside(place))
        (place / "ws" / "here").write_text("here", "utf-8")
        (place / "ws" / "out").symlink_to(str(outside["secret_file"]))
        workspace = held.enter_context(copy_workspace(place / "ws")).path
        python, beside = find_interpreter()
        script = Path(probe.__file__).read_text("utf-8")
        command = [python, "-I", "-S", "-c", script, json.dumps(outside)]
        done = run_command(
            command, workspace=workspace, bounds=SMALL_LIMITS, beside=beside, tested=False
        )
        if done.code:
            raise EnvironmentFault(f"bubblewrap does not start here: {_why(done)}")
        results = dict(json.loads(done.out))

        def tried(command: list[str], bounds: SandboxLimits) -> FinishedCommand:
            return run_command(command, workspace=workspace, bounds=bounds, tested=False)

        flood = tried(["yes"], replace(SMALL_LIMITS, output_bytes=MIB))
        sleep = tried(["sleep", "30"], replace(SMALL_LIMITS, seconds=0.1))
        large = tried(
            ["sh", "-c", "head -c 9000000 /dev/zero >/tmp/x"], replace(SMALL_LIMITS, file_bytes=MIB)
        )
        wrote = len(flood.out) + len(flood.err)
        results |= {
            "flood": "" if flood.cut and wrote == MIB else f"wrote {wrote} bytes, cut: {flood.cut}",
            "endless": "" if sleep.late and sleep.seconds < 5 else f"took {sleep.seconds:.1f} s",
            "large_file": "" if large.code else "wrote 9 MB into one file",
        }
        results["outlive"] = _left(str(outside["sleeper"]))
        if Path(str(outside["secret_file"])).read_text("utf-8") != outside["secret"]:
            results["write_host"] = "the file outside was changed"
    return results


@contextmanager
def _outside(place: Path) -> Iterator[dict[str, str | int]]:
    """Put up what a leak would reach: a file, an environment, sockets, an open file, a process."""
    secret, name = secrets.token_hex(16), f"stepscope-{secrets.token_hex(8)}"
    file = place / "secret"
    file.write_text(secret, "utf-8")
    file.chmod(0o666)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as named,
        file.open("rb") as held,
    ):
        abstract.bind("\0" + name)
        named.bind(str(place / "socket"))
        (place / "socket").chmod(0o777)
        for one in (abstract, named):
            one.listen()
        os.set_inheritable(held.fileno(), True)
        yield {
            "secret": secret,
            "secret_file": str(file),
            "home": str(Path.home()),
            "port": server.getsockname()[1],
            "abstract": name,
            "socket_file": str(place / "socket"),
            "process": os.getpid(),
            "processes": _PROCESSES,
            "sleeper": f"9{secrets.randbelow(10**9)}",
            "most": SMALL_LIMITS.processes,
            "memory": SMALL_LIMITS.memory_bytes,
        }


def find_interpreter() -> tuple[str, list[Path]]:
    """Return a Python seen inside, and its folder beside /usr, if any; else EnvironmentFault."""
    own = Path(sys.executable).resolve()
    folder = Path(sys.base_prefix).resolve()
    if own.is_relative_to("/usr"):
        return str(own), []
    if own.is_relative_to(folder) and (
        os.geteuid() != 0 or all(one.stat().st_mode & 0o005 == 0o005 for one in (own, *own.parents))
    ):
        return str(own), [folder]
    if found := shutil.which("python3", path="/usr/bin"):
        return found, []
    raise EnvironmentFault(
        f"the sandbox cannot be tested: {own} is closed to other users; install /usr/bin/python3"
    )


def _left(word: str) -> str:
    """Say that a process with this word in its command line is still there."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                line = (folder / "cmdline").read_bytes()
            except OSError:
                continue  # it has ended
            if word.encode() in line.split(b"\0"):
                return f"process {folder.name} goes on"
    return ""


def _why(done: FinishedCommand) -> str:
    text = done.err.decode("utf-8", "replace").strip()
    if "Unknown option" in text:
        return f"it is too old; {INSTALL}"
    for name, forbidding in _FORBIDDING.items():
        try:
            said = Path(name).read_text("ascii").strip()
        except OSError:
            continue  # this kernel does not have it
        if said == forbidding:
            return f"user namespaces are switched off ({name} is {said})"
    last = text.splitlines()[-1] if text else f"code {done.code}"
    return f"{last}; user namespaces may be forbidden here, as in many containers"
