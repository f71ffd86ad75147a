"""Fenced code blocks of a Markdown page, and what "runs" means for each language.

bash     every line must succeed.
console  lines after `$ ` are run; what they print must be the lines below, where a line `...`
         stands for any lines.
python   executed; the blocks of a page share their names, top to bottom.
json, toml  must parse.
text, xml   what people read: nothing is run.

A block with `title="NAME"` is a file: it is written to NAME and, if Python, only compiled.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LANGUAGES = ("bash", "console", "python", "json", "toml", "text")
# Seconds after which a command hangs; none on a page takes a tenth of it.
PATIENCE = 300
_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w-]*)(?P<rest>.*)$")
_TITLE = re.compile(r'title="([^"]+)"')


class Block(NamedTuple):
    """One block: the page and line it begins at, its language, its file name if any, its text."""

    page: str
    line: int
    language: str
    title: str | None
    text: str

    @property
    def where(self) -> str:
        """Page and line, for messages."""
        return f"{self.page}:{self.line}"


class Command(NamedTuple):
    """One command of a console block and the lines that it must print."""

    text: str
    printed: tuple[str, ...]


def blocks(page: Path, name: str) -> Iterator[Block]:
    """Yield the blocks of a page, in order.

    Raises:
        ValueError: a fence is never closed.
    """
    lines = page.read_text(encoding="utf-8").split("\n")
    at = 0
    while at < len(lines):
        opened = _FENCE.match(lines[at])
        at += 1
        if opened is None:
            continue
        start = at
        while at < len(lines) and lines[at].strip() != opened["ticks"]:
            at += 1
        if at == len(lines):
            raise ValueError(f"{name}:{start}: this block is never closed")
        title = _TITLE.search(opened["rest"])
        text = textwrap.dedent("\n".join(lines[start:at]) + "\n")
        yield Block(name, start, opened["language"], title[1] if title else None, text)
        at += 1


def commands(block: Block) -> list[Command]:
    """Take a console block apart.

    Raises:
        ValueError: its first line is not a command.
    """
    found: list[Command] = []
    for line in block.text.rstrip("\n").split("\n"):
        if line.startswith("$ "):
            found.append(Command(line[2:], ()))
        elif not found:
            raise ValueError(f"{block.where}: a console block begins with a line `$ COMMAND`")
        elif line.startswith("> ") and not found[-1].printed:
            found[-1] = found[-1]._replace(text=f"{found[-1].text}\n{line[2:]}")
        else:
            found[-1] = found[-1]._replace(printed=(*found[-1].printed, line.rstrip()))
    return found


def agrees(expected: tuple[str, ...], printed: str) -> bool:
    """Whether what was printed is what the page shows; `...` stands for any lines."""
    lines = [line.rstrip() for line in printed.rstrip("\n").split("\n")] if printed else []
    pattern = "".join(
        r"(?:[^\n]*\n)*" if line == "..." else re.escape(line) + r"\n" for line in expected
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in lines)) is not None


def shell(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `text` by bash in `folder`, as a reader of the page would; stderr is in its stdout."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "STEPSCOPE"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    return subprocess.run(
        ["bash", "-c", text],
        cwd=folder,
        env=kept | {"PATH": path, "HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )
