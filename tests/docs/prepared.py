"""What most pages begin with, to import and to score the bundled runs, is run once for all."""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.docs.blocks import shell

# Commands that depend on themselves and on the files of their folder alone.
_SHARED = re.compile(
    r"(stepscope (?:import examples/airline\S*(?: --agent gpt-4o)?|score)(?: > log\.txt)?)"
    r"(?: *#.*)?"
)


def shared(line: str) -> str | None:
    """Return the command of a line if pages share it, without its comment."""
    found = _SHARED.fullmatch(line)
    return found[1] if found else None


class Prepared:
    """Folders as commands left them, by the command and the files that it found there.

    The workers of pytest-xdist share them. `examples` is the same everywhere and left out.
    """

    def __init__(self, folder: Path) -> None:
        """Keep them below `folder`."""
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def shell(self, text: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Do as `shell`; a command that succeeded in such a folder is not run again."""
        held = self._folder / _key(text, folder)
        with _locked(held.with_suffix(".lock")):
            if not held.exists():
                ran = shell(text, folder)
                if ran.returncode == 0:
                    _copy(folder, held)
                    held.with_suffix(".printed").write_text(ran.stdout, encoding="utf-8")
                return ran
        _copy(held, folder)
        printed = held.with_suffix(".printed").read_text(encoding="utf-8")
        return subprocess.CompletedProcess(text, 0, stdout=printed)


def _key(text: str, folder: Path) -> str:
    key = hashlib.sha256(text.encode())
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if name.parts[0] != "examples" and path.is_file():
            key.update(f"\n{name} {hashlib.sha256(path.read_bytes()).hexdigest()}".encode())
    return key.hexdigest()


def _copy(source: Path, target: Path) -> None:
    ignored = shutil.ignore_patterns("examples")
    shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
