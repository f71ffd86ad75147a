"""What a hostile command would try first: run inside of the sandbox, by an interpreter alone.

Its one argument is JSON that says what outside could be reached: see `Outside` of `sandbox.check`.
It prints a JSON object: the name of each probe, and "" where the sandbox held, else what came of
it. Nothing is imported but the standard library, and nothing is changed that matters if it works.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

# Numbers of system calls that have no function in the library: x86_64, aarch64.
NUMBERS = {
    "add_key": (248, 217),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
}
# Opens a file to write, made where there is none.
MAKING = os.O_CREAT | os.O_WRONLY
ABSENT = (22, 38)  # EINVAL and ENOSYS: not refused, but this kernel has none
SPECIAL_SESSION = -3
TIOCSTI = 0x5412
# What was told of the outside; the probe's own data, whatever JSON says. See `sandbox.check`.
Outside = dict[str, Any]
library = ctypes.CDLL(None, use_errno=True)


def try_open(path: str, flags: int) -> str:
    """Say that a path could be opened, "" where it could not."""
    try:
        os.close(os.open(path, flags))
    except OSError:
        return ""
    return f"opened {path}"


def open_all(*paths: str) -> str:
    """Say which of these can be read."""
    return "".join(try_open(path, os.O_RDONLY) for path in paths)


def try_action(what: str, action: Callable[[], object]) -> str:
    """Say that an action worked, "" where it was refused."""
    try:
        action()
    except OSError:
        return ""
    return what


def try_syscall(name: str, *arguments: object) -> str:
    """Say that a system call was not refused."""
    if library.syscall(NUMBERS[name][os.uname().machine == "aarch64"], *arguments) >= 0:
        return f"{name} worked"
    return "" if ctypes.get_errno() in (1, 13, *ABSENT) else f"{name} was let through"


def _names(folder: str) -> list[str]:
    return [path.name for path in Path(folder).iterdir()]


def try_connect(family: int, kind: int, address: object) -> str:
    """Say that something was sent to an address."""
    try:
        with socket.socket(family, kind) as made:
            made.settimeout(0.2)
            made.connect(address)  # type: ignore[arg-type]
            made.send(b"probe")
    except OSError:
        return ""
    return f"sent to {address}"


def try_unix(*paths: str) -> str:
    """Say to which of these sockets of this machine something was sent."""
    return "".join(try_connect(socket.AF_UNIX, socket.SOCK_STREAM, path) for path in paths)


def _interfaces(outside: Outside) -> str:
    text = Path("/proc/net/dev").read_text("ascii")
    names = [line.split(":")[0].strip() for line in text.splitlines() if ":" in line]
    return "" if names in ([], ["lo"]) else f"sees {names}"


def _host_of_machine(outside: Outside) -> str:
    if not hasattr(socket, "AF_VSOCK"):
        return ""
    return try_action("made a socket to the host", lambda: socket.socket(socket.AF_VSOCK).close())


def _environment_of_others(outside: Outside) -> str:
    for process in filter(str.isdigit, _names("/proc")):
        if int(process) == os.getpid():
            continue  # what was told to the probe is in its own command line
        try:
            text = Path(f"/proc/{process}/environ").read_bytes()
        except OSError:
            continue
        if outside["secret"].encode() in text:
            return f"process {process} shows the secret in its environ"
    return ""


def _other_processes(outside: Outside) -> str:
    seen = sorted(int(name) for name in _names("/proc") if name.isdigit())
    return "" if len(seen) <= outside["processes"] else f"sees processes {seen}"


def _kill(outside: Outside) -> str:
    # Small numbers are processes of the sandbox itself.
    if outside["process"] < 100:
        return ""
    return try_action("signalled the caller", lambda: os.kill(outside["process"], 0))


def _trace(outside: Outside) -> str:
    attach, detach = 16, 17
    for process in (1, outside["process"]):
        if library.ptrace(attach, process, 0, 0) == 0:
            # It waits for its tracer, and so would everything else.
            os.waitpid(process, 0)
            library.ptrace(detach, process, 0, 0)
            return f"traced process {process}"
    return try_open("/proc/1/mem", os.O_RDWR)


def _remount(outside: Outside) -> str:
    bind_and_remount = 0x1000 | 0x20
    for path in (b"/usr", b"/ws", b"/", b"/proc"):
        if library.mount(b"none", path, None, bind_and_remount, None) == 0:
            return f"made {path.decode()} writable"
    return ""


def _namespaces(outside: Outside) -> str:
    for name, flag in (("user", 0x10000000), ("mount", 0x20000), ("network", 0x40000000)):
        if library.unshare(flag) == 0:
            return f"made a {name} namespace"
    return ""


def _become_root(outside: Outside) -> str:
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    said = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    if said["NoNewPrivs"].strip() != "1":
        return "programs may gain rights"
    return try_action("became root", lambda: os.setuid(0))


def _rights(outside: Outside) -> str:
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    held = [line.split() for line in lines if line.startswith("Cap")]
    return "".join(f"{name} {bits} " for name, bits in held if int(bits, 16))


def _devices(outside: Outside) -> str:
    for kind, number in ((stat.S_IFBLK, os.makedev(8, 0)), (stat.S_IFCHR, os.makedev(1, 1))):
        made = try_action("made a device", partial(os.mknod, "/tmp/device", kind | 0o600, number))
        if made:
            return made
    names = ("mem", "kmsg", "sda", "vda", "kvm", "fuse")
    return open_all(*(f"/dev/{name}" for name in names))


def _kernel_settings(outside: Outside) -> str:
    for folder, _, names in os.walk("/proc/sys"):
        for name in names:
            found = try_open(f"{folder}/{name}", os.O_WRONLY)
            if found:
                return found
    return try_open("/proc/sysrq-trigger", os.O_WRONLY)


def _symbolic_link(outside: Outside) -> str:
    Path("/tmp/link").symlink_to(outside["secret_file"])
    return try_open("/tmp/link", os.O_RDONLY) or try_open("/ws/out", os.O_RDONLY)


def _type_into_terminal(outside: Outside) -> str:
    for path in ("/dev/tty", "/proc/self/fd/0", "/proc/self/fd/1", "/proc/self/fd/2"):
        try:
            with Path(path).open("r+b", buffering=0) as terminal:
                fcntl.ioctl(terminal, TIOCSTI, b"x")
        except OSError:
            continue
        return f"typed into {path}"
    return ""


def _inherited(outside: Outside) -> str:
    held = {}
    for name in _names("/proc/self/fd"):
        try:
            held[int(name)] = str(Path(f"/proc/self/fd/{name}").readlink())
        except OSError:
            continue  # the one that listed the folder
    return "".join(f"{n} is {path} " for n, path in held.items() if n > 2)


def _fill_disk(outside: Outside) -> str:
    piece = bytes(1 << 20)
    written = 0
    try:
        for number in range(4):
            with Path(f"/tmp/fill{number}").open("wb", buffering=0) as file:
                for _ in range(12):
                    written += file.write(piece)
    except OSError:
        pass
    for number in range(4):
        try_action("", Path(f"/tmp/fill{number}").unlink)
    return "" if written <= 16 << 20 else f"wrote {written >> 20} MiB"


def _raise_limits(outside: Outside) -> str:
    for name in (resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_CPU):
        hard = resource.getrlimit(name)[1]
        if hard == resource.RLIM_INFINITY:
            return f"limit {name} is not set"
        try:
            resource.setrlimit(name, (hard + 1, hard + 1))
        except (ValueError, OSError):
            continue
        return f"raised limit {name}"
    return ""


def _outlive(outside: Outside) -> str:
    # Whether it is still there when the caller looks is the caller's to say.
    subprocess.Popen(
        ["/usr/bin/sleep", outside["sleeper"]],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return ""


def _fork_bomb(outside: Outside) -> str:
    children = []
    try:
        for _ in range(outside["most"] + 8):
            child = os.fork()
            if child == 0:
                signal.pause()
            children.append(child)
    except OSError:
        pass
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return "" if len(children) < outside["most"] else f"made {len(children)} processes"


def _memory(outside: Outside) -> str:
    try:
        return f"holds {len(bytearray(outside['memory'])) >> 20} MiB"
    except MemoryError:
        return ""


PROBES: dict[str, Callable[[Outside], str]] = {
    "write_root": lambda _: try_open("/probe", MAKING),
    "write_usr": lambda _: (
        try_open("/usr/probe", MAKING)
        or try_action("made /usr/lib/probe", Path("/usr/lib/probe").mkdir)
    ),
    "write_etc": lambda _: (
        try_action("made /etc", Path("/etc").mkdir) or try_open("/etc/passwd", os.O_WRONLY)
    ),
    "write_workspace": lambda _: (
        try_open("/ws/probe", MAKING)
        or try_open("/ws/here", os.O_WRONLY)
        or try_action("removed a file", Path("/ws/here").unlink)
    ),
    "write_host": lambda outside: try_open(outside["secret_file"], os.O_WRONLY),
    "read_etc": lambda _: open_all("/etc/passwd", "/etc/shadow", "/etc/hosts"),
    "read_home": lambda outside: open_all("/root", "/home", outside["home"]),
    "read_host": lambda outside: open_all(outside["secret_file"]),
    "read_through_proc": lambda outside: open_all(
        f"/proc/1/root{outside['secret_file']}", f"/proc/1/cwd/..{outside['secret_file']}"
    ),
    "network": lambda _: try_connect(socket.AF_INET, socket.SOCK_STREAM, ("192.0.2.1", 80)),
    "dns": lambda _: try_connect(socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.53", 53)),
    "loopback": lambda outside: try_connect(
        socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", outside["port"])
    ),
    "interfaces": _interfaces,
    "host_of_machine": _host_of_machine,
    "abstract_socket": lambda outside: try_unix("\0" + outside["abstract"]),
    "socket_files": lambda outside: try_unix(
        outside["socket_file"], "/run/docker.sock", "/var/run/docker.sock"
    ),
    "environment": lambda outside: (
        "its environment has the secret" if outside["secret"] in str(os.environ) else ""
    ),
    "environment_of_others": _environment_of_others,
    "other_processes": _other_processes,
    "kill": _kill,
    "trace": _trace,
    "mount": lambda _: (
        "" if library.mount(b"none", b"/tmp", b"tmpfs", 0, None) else "mounted a file system"
    ),
    "remount": _remount,
    "namespaces": _namespaces,
    "administrate": lambda _: (
        try_action("changed the root", lambda: os.chroot("/tmp"))
        or try_action("named the machine", lambda: socket.sethostname("probe"))
    ),
    "become_root": _become_root,
    "rights": _rights,
    "devices": _devices,
    "kernel_settings": _kernel_settings,
    "keys": lambda _: (
        try_syscall("add_key", b"user", b"probe", b"x", 1, SPECIAL_SESSION)
        or try_syscall("keyctl", 0, SPECIAL_SESSION, 0)
    ),
    "kernel_interfaces": lambda _: (
        try_syscall("bpf", 0, 0, 0)
        or try_syscall("perf_event_open", 0, 0, -1, -1, 0)
        or try_syscall("userfaultfd", 0)
        or try_syscall("io_uring_setup", 1, 0)
    ),
    "symbolic_link": _symbolic_link,
    "hard_link": lambda _: (
        try_action("linked a program", lambda: os.link("/usr/bin/env", "/tmp/env"))
        or try_action("linked in the workspace", lambda: os.link("/ws/here", "/ws/there"))
    ),
    "type_into_terminal": _type_into_terminal,
    "inherited": _inherited,
    "fill_memory_files": lambda _: (
        try_open("/dev/probe", MAKING) + try_open("/dev/shm/probe", MAKING)
    ),
    "fill_disk": _fill_disk,
    "write_kernel_groups": lambda _: (
        try_open("/sys", os.O_RDONLY) or try_open("/proc/1/cgroup", os.O_WRONLY)
    ),
    "raise_limits": _raise_limits,
    "fork_bomb": _fork_bomb,
    "memory": _memory,
    "outlive": _outlive,
}


def main() -> None:
    """Try everything and print what came of it."""
    outside = json.loads(sys.argv[1])
    os.chdir(tempfile.gettempdir())
    sys.stdout.write(json.dumps({name: probe(outside) for name, probe in PROBES.items()}))


if __name__ == "__main__":
    main()
