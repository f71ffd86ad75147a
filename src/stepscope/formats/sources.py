"""From what the user names to open files: files, folders, globs, `-` for standard input.

Only regular files are opened, never a pipe, socket or device, and without waiting for a writer.
Folders are walked in sorted order and links to folders are not followed. What cannot be opened is
a `Refused` with its reason, so that the import can say so.
"""

from __future__ import annotations

import glob
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from stepscope.errors import UsageError
from stepscope.safety.text import visible_line

# Present on POSIX only; elsewhere there are no FIFOs to wait for.
_OPEN_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_KINDS = (
    (stat.S_ISDIR, "a link to a folder, or a folder that cannot be entered"),
    (stat.S_ISFIFO, "a pipe; pass its content on standard input: `... | stepscope import -`"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class Opened(NamedTuple):
    """A file that is open for reading; `named` when the user gave this very path."""

    uri: str
    file: BinaryIO
    named: bool


class Refused(NamedTuple):
    """A path that is not read, and why."""

    uri: str
    problem: str
    named: bool


def sources(paths: Sequence[str]) -> Iterator[Opened | Refused]:
    """Yield every file that the paths stand for, in order; each is open until the next is asked.

    Raises:
        UsageError: a glob that matches nothing, a folder without files, a path with a NUL.
    """
    for path in paths:
        if path == "-":
            yield Opened("-", sys.stdin.buffer, named=True)
            continue
        if "\0" in path:
            raise UsageError(f"{visible_line(path)}: a path cannot hold a NUL character")
        if glob.has_magic(path) and not os.path.lexists(path):
            yield from _each(_matches(path), named=False)
        elif os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises on a name that is too long
            yield from _folder(path)
        else:
            yield from _each([path], named=True)


def _matches(pattern: str) -> list[str]:
    # Path.glob refuses absolute patterns and reads `**` differently from one Python to the next.
    found = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207
    if not found:
        raise UsageError(f"{visible_line(pattern)}: matches no file")
    files: list[str] = []
    for path in found:
        # `**` gives folders and what is in them; only a plain match stands for its content.
        if not Path(path).is_dir():
            files.append(path)
        elif "**" not in pattern:
            files += _walk(path)
    return list(dict.fromkeys(files))


def _folder(path: str) -> Iterator[Opened | Refused]:
    files = _walk(path)
    if not files:
        raise UsageError(f"{visible_line(path)}: a folder without files")
    yield from _each(files, named=False)


def _walk(top: str) -> list[str]:
    """Return every entry below a folder that is no folder itself, or cannot be entered."""
    entries: list[str] = []
    closed: list[str] = []
    for folder, folders, files in os.walk(top, onerror=lambda e: closed.append(str(e.filename))):
        folders.sort()
        here = Path(folder)
        links = [name for name in folders if (here / name).is_symlink()]
        entries += [str(here / name) for name in sorted(files + links)]
    return entries + closed


def _each(paths: list[str], *, named: bool) -> Iterator[Opened | Refused]:
    for path in paths:
        uri = visible_line(path)
        try:
            mode = Path(path).stat().st_mode
            if not stat.S_ISREG(mode):
                yield Refused(uri, f"not a file but {_kind(mode)}", named)
                continue
            handle = os.open(path, _OPEN_FLAGS)
        except OSError as e:
            yield Refused(uri, f"cannot be read: {e.strerror or e}", named)
            continue
        with os.fdopen(handle, "rb", buffering=0) as file:
            # Between the look and the opening the path may have become something else.
            if stat.S_ISREG(os.fstat(handle).st_mode):
                yield Opened(uri, file, named)
            else:
                yield Refused(uri, "changed while it was opened", named)


def _kind(mode: int) -> str:
    for test, kind in _KINDS:
        if test(mode):
            return kind
    return "something else"
