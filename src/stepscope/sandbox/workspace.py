"""A private copy of a folder that an agent worked in, for a sandboxed command to read.

The folder is hostile: links that lead out of it, names that are also names elsewhere, pipes,
sockets, more bytes than a disk. Files and folders are copied, links as links where they stay
inside; what is not copied is counted by reason. Nothing outside of the folder is ever opened.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from stepscope.errors import UsageError
from stepscope.safety.limits import is_in_use

# What a run leaves behind is source code and small tables; a checkout of a large project fits.
MOST_BYTES = 256 * 1024 * 1024
MOST_FILES = 20_000
# Folders inside each other; libraries of libraries have twenty.
MOST_DEPTH = 64
_PIECE = 1 << 20
# Whom root copies for: commands never run with root's rights.
NOBODY = 65534

_Read = Callable[[int], bytes]


@contextmanager
def copy_workspace(
    folder: Path, *, most_bytes: int = MOST_BYTES, most_files: int = MOST_FILES
) -> Iterator[Workspace]:
    """Copy a folder into a private one, which is removed at the end.

    Files beyond `most_bytes` are left out and counted as "too_large", entries beyond `most_files`
    as "too_many". `UsageError` where there is no such folder.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder; --workspace names what the agent worked in")
    with tempfile.TemporaryDirectory(prefix="stepscope-workspace-") as made:
        copy = Workspace(folder.resolve(), Path(made), most_bytes, most_files)
        copy.walk()
        if os.geteuid() == 0:
            for path, _, files in os.walk(copy.path):
                os.chown(path, NOBODY, NOBODY)
                for name in files:
                    os.chown(f"{path}/{name}", NOBODY, NOBODY, follow_symlinks=False)
        try:
            yield copy
        finally:
            if os.geteuid() == 0:
                os.chown(copy.path, 0, 0)


class Workspace:
    """A copy: where it is, what it holds so far, and what was left out, by reason."""

    def __init__(self, source: Path, path: Path, most_bytes: int, most_files: int) -> None:
        """Copy nothing yet; look for files of `source` that have several names in it."""
        self.source, self.path = source, path
        self.most_bytes, self.most_files = most_bytes, most_files
        self.files = self.size = self.entries = 0
        self.dropped: Counter[str] = Counter()
        self.names: Counter[tuple[int, int]] = Counter()
        for folder, _, files in os.walk(source):
            for name in files:
                try:
                    said = os.lstat(f"{folder}/{name}")
                except OSError:
                    continue  # it has gone
                self.names[said.st_dev, said.st_ino] += stat.S_ISREG(said.st_mode)

    def walk(self) -> None:
        """Copy everything, folder by folder."""
        left = [""]
        while left:
            inside = left.pop()
            try:
                found = sorted(os.scandir(self.source / inside), key=lambda entry: entry.name)
            except OSError:
                self.dropped["unreadable"] += 1
                continue
            for entry in found:
                self.entries += 1
                name = f"{inside}/{entry.name}" if inside else entry.name
                if self.entries > self.most_files:
                    self.dropped["too_many"] += 1
                elif entry.is_symlink():
                    self.link(name, Path(entry.path))
                elif entry.is_dir(follow_symlinks=False):
                    left += self.folder(name)
                elif entry.is_file(follow_symlinks=False):
                    self.file(name, Path(entry.path))
                else:
                    self.dropped["special"] += 1

    def folder(self, name: str) -> list[str]:
        """Make a folder, and return it where it is to be copied."""
        if name.count("/") >= MOST_DEPTH:
            self.dropped["too_deep"] += 1
            return []
        (self.path / name).mkdir(mode=0o700)
        return [name]

    def link(self, name: str, link: Path) -> None:
        """Copy a link, where it leads to a place inside."""
        target = link.readlink()
        if target.is_absolute() or not _resolved(link).is_relative_to(self.source):
            self.dropped["link_out"] += 1
        else:
            (self.path / name).symlink_to(target)

    def file(self, name: str, path: Path) -> None:
        """Copy a file, where it is one and fits."""
        if is_in_use(path):
            self.dropped["special"] += 1
            return
        try:
            # A file that became a link or a pipe since it was listed is not followed or waited for.
            opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            self.dropped["unreadable"] += 1
            return
        with os.fdopen(opened, "rb") as source:
            said = os.fstat(opened)
            if not stat.S_ISREG(said.st_mode):
                self.dropped["special"] += 1
            elif said.st_nlink > self.names[said.st_dev, said.st_ino]:
                # It has a name outside, too: the agent may have linked what is not its own.
                self.dropped["link_out"] += 1
            elif self.size + said.st_size > self.most_bytes:
                self.dropped["too_large"] += 1
            else:
                self.write(self.path / name, source.read, runs=bool(said.st_mode & stat.S_IXUSR))

    def write(self, to: Path, read: _Read, *, runs: bool) -> None:
        """Write what is read, up to the limit."""
        with to.open("xb") as file:
            # A file may grow while it is read: the limit holds for what was read.
            while piece := read(min(_PIECE, self.most_bytes - self.size)):
                file.write(piece)
                self.size += len(piece)
        to.chmod(0o700 if runs else 0o600)
        self.files += 1


def _resolved(link: Path) -> Path:
    try:
        return link.resolve()
    except (OSError, RuntimeError):
        return Path("/")  # a circle of links leads nowhere inside
