"""The system calls that a sandboxed command may not make, as a filter that bubblewrap loads.

Namespaces leave the whole kernel within reach: keys of the caller's session, sockets to the host
of a virtual machine, and interfaces whose faults have led out of namespaces before. What reading
files does not need is refused with "operation not permitted", so that programs can go on.
Source: the filter form of Linux, Documentation/userspace-api/seccomp_filter.rst, and the tables of
system calls of its two architectures (arch/x86/entry/syscalls, include/uapi/asm-generic/unistd.h).
"""

from __future__ import annotations

import platform
import struct
from errno import ENOSYS, EPERM
from typing import NamedTuple

from stepscope.errors import EnvironmentFault


class Table(NamedTuple):
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
TABLES = {
    "x86_64": Table(0xC000003E, _X86_64 + _EVERYWHERE, clone=56, clone3=435, ioctl=16),
    "aarch64": Table(0xC00000B7, _AARCH64 + _EVERYWHERE, clone=220, clone3=435, ioctl=29),
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


def program(machine: str = "") -> bytes:
    """Return the filter for a machine, this one unless it is named, as the kernel reads it.

    Raises:
        EnvironmentFault: the system calls of this machine are not known here.
    """
    machine = machine or platform.machine()
    if machine not in TABLES:
        raise EnvironmentFault(
            f"no list of system calls for {machine!r}; the sandbox runs on {' and '.join(TABLES)}"
        )
    table = TABLES[machine]
    refuse, absent = _ERROR | EPERM, _ERROR | ENOSYS
    lines = [
        _line(_LOAD, _ARCHITECTURE),
        _line(_EQUAL, table.audit, 1, 0),
        _line(_RETURN, _KILL),
        _line(_LOAD, _NUMBER),
        *_when(_AT_LEAST, _X32, refuse),
    ]
    for number in table.refused:
        lines += _when(_EQUAL, number, refuse)
    # Its arguments lie in memory, where a filter cannot look: libraries then use clone.
    lines += _when(_EQUAL, table.clone3, absent)
    lines += [_line(_EQUAL, table.clone, 0, 4), _line(_LOAD, _FIRST)]
    lines += [*_when(_ANY_BIT, _NAMESPACES, refuse), _line(_RETURN, _ALLOW)]
    lines += [_line(_EQUAL, table.ioctl, 0, 5), _line(_LOAD, _SECOND)]
    for request in _TYPING:
        lines += _when(_EQUAL, request, refuse)
    lines.append(_line(_RETURN, _ALLOW))
    return b"".join(lines)


def _when(test: int, value: int, then: int) -> tuple[bytes, bytes]:
    return _line(test, value, 0, 1), _line(_RETURN, then)


def _line(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)
