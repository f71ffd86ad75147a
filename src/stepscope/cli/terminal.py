"""Printing: results to standard output, progress to standard error, summaries to CI systems.

What may quote a trace is printed in GitHub Actions between `::stop-commands::TOKEN` and
`::TOKEN::` with a random token, and is calmed besides (`safety.text`): two streams make one log,
in any order.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope import safety
from stepscope.errors import EnvironmentFault
from stepscope.safety.text import inert, render_json

if TYPE_CHECKING:
    from stepscope.api.views import DocumentView

# GitHub refuses a step's summary above 1 MiB, and then shows nothing.
SUMMARY_BYTES = 1_000_000


def write_job_summary(markdown: str) -> None:
    """Add Markdown to the job summary, where the CI system has one; a pipe is not waited for."""
    if not (place := os.environ.get("GITHUB_STEP_SUMMARY")):
        return
    from stepscope.safety.limits import refuse_to_write

    raw = markdown.encode()
    if len(raw) > SUMMARY_BYTES:
        raw = raw[: raw.rfind(b"\n", 0, SUMMARY_BYTES)] + b"\n\nCut here: see the job's own log.\n"
    refuse_to_write(Path(place).resolve())
    try:
        with open(place, "ab", opener=lambda name, how: os.open(name, how | os.O_NONBLOCK)) as file:
            file.write(raw + b"\n")
    except OSError as e:
        raise EnvironmentFault(f"{place}: the job summary cannot be written ({e.strerror})") from e


Progress = Callable[[int, int], None]

# Seconds between two lines of progress where nobody watches: a log of an hour stays readable.
LINE_EVERY = 60.0


def print_text(text: str) -> None:
    """Print text to standard output, ending in one line break; nothing in it hides or commands."""
    shown = inert(text).removesuffix("\n") + "\n"
    # Source: no-color.org: `NO_COLOR` present and not empty.
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if sys.stdout.isatty() and not plain:
        shown = _PAINTED.sub(lambda m: f"\x1b[{_CODES[str(m.lastgroup)]}m{m[0]}\x1b[0m", shown)
    sys.stdout.write(shown)


# A line with columns that begins a block; a cell that is one of the words; a mark before a step.
_PAINTED = re.compile(
    r"(?P<bold>(?:\A|(?<=\n\n))[^\n{\[]*\S {2}[^\n]*)"
    r"|(?<= {2})(?P<red>fail|FAIL)(?= {2}|$)|(?<= {2})(?P<green>pass|PASS)(?= {2}|$)"
    r"|^(?P<yellow> ?[!?] )",
    re.MULTILINE,
)
_CODES = {"bold": "1", "red": "31", "green": "32", "yellow": "33"}


def print_guarded(text: str) -> None:
    """Print text without secrets; in GitHub Actions between lines that turn commands off."""
    text = safety.scrub_message(text)
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return print_text(text)
    import secrets

    token = secrets.token_hex(16)
    sys.stdout.write(f"::stop-commands::{token}\n")
    print_text(text.rstrip("\n"))
    sys.stdout.write(f"::{token}::\n")


def print_json(value: object) -> None:
    """Print any model value as indented JSON; the same value gives the same bytes."""
    sys.stdout.write(render_json(safety.scrub_value(value)))


def print_result(item: object, *, as_json: bool, hint: str = "", store: Path | None = None) -> None:
    """Print what a command did: as JSON, or as text with the next command."""
    if as_json:
        print_json(item)
    else:
        print_text(safety.scrub_message(str(item)))
        if hint:
            print_hint(hint, store)


def print_view(view: DocumentView[Any], *, as_json: bool) -> None:
    """Print what a command shows."""
    print_text(view.json() if as_json else view.text(terminal_width()))


def deliver(text: str, path: Path | None) -> None:
    """Print text, or write it to the file that was asked for; `-` is standard output."""
    if path is None or str(path) == "-":
        print_text(text)
    else:
        from stepscope.safety.limits import open_output  # msgspec, which --help does without

        with open_output(path) as file:
            file.write(text.encode("utf-8", "backslashreplace"))
        print_note(f"wrote {path}")


def print_note(text: str) -> None:
    """Print a remark to standard error, so that it never mixes with what was asked for."""
    sys.stderr.write(safety.scrub_message(text) + "\n")


def print_hint(command: str, store: Path | None) -> None:
    """Name the next command, for a person only: a script did not ask for it."""
    if sys.stdout.isatty():
        option = "" if store is None else f" --store {shlex.quote(str(store))}"
        print_text(f"Next: {command}{option}")


def terminal_width() -> int:
    """Columns to print on: the terminal's, between 60 and 120; 100 where there is none."""
    if not sys.stdout.isatty():
        return 100
    return min(max(shutil.get_terminal_size((100, 24)).columns, 60), 120)


@contextmanager
def show_progress(what: str) -> Iterator[Progress]:
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
            print_note(f"{what}: {done:,} of {total:,}" if total else f"{what}: {done:,}")

    return step
