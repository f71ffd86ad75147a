"""Printing: text or JSON to standard output, progress to standard error."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Progress = Callable[[int, int], None]

# Seconds between two lines of progress where nobody watches: a log of an hour stays readable.
LINE_EVERY = 60.0


def out(text: str) -> None:
    """Print text to standard output, ending in one line break."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def flush() -> None:
    """Send what was printed on its way now: a long command says where it is, also into a pipe."""
    sys.stdout.flush()


def out_json(value: object) -> None:
    """Print any model value as indented JSON; the same value gives the same bytes."""
    import msgspec

    raw = msgspec.json.encode(value, order="deterministic")
    sys.stdout.write(msgspec.json.format(raw, indent=2).decode() + "\n")


def deliver(text: str, path: Path | None) -> None:
    """Print text, or write it to the file that was asked for; `-` is standard output."""
    if path is None or str(path) == "-":
        out(text)
    else:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
        note(f"wrote {path}")


def note(text: str) -> None:
    """Print a remark to standard error, so that it never mixes with what was asked for."""
    from stepscope.safety.redact import scrubbed

    sys.stderr.write(scrubbed(text) + "\n")


def hint(command: str, store: Path | None) -> None:
    """Name the next command, for a person only: a script did not ask for it."""
    if sys.stdout.isatty():
        option = "" if store is None else f" --store {shlex.quote(str(store))}"
        out(f"Next: {command}{option}")


def width() -> int:
    """Columns to print on: the terminal's, between 60 and 120; 100 where there is none."""
    if not sys.stdout.isatty():
        return 100
    return min(max(shutil.get_terminal_size((100, 24)).columns, 60), 120)


@contextmanager
def progress(what: str) -> Iterator[Progress]:
    """Give a function of (done, total) that shows how far the work is; total 0 is unknown."""
    if sys.stderr.isatty():
        with _bar(what) as step:
            yield step
    else:
        yield _lines(what)


@contextmanager
def _bar(what: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)


def _lines(what: str) -> Progress:
    said = time.monotonic()

    def step(done: int, total: int) -> None:
        nonlocal said
        if time.monotonic() - said >= LINE_EVERY:
            said = time.monotonic()
            note(f"{what}: {done:,} of {total:,}" if total else f"{what}: {done:,}")

    return step
