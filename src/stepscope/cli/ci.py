"""What a CI system wants of a command: its job summary, and logs that no trace can command.

GitHub reads workflow commands from the log: a line that begins with `::`, or `##[` anywhere in it.
What may quote a trace is printed between `::stop-commands::TOKEN` and `::TOKEN::` with a random
token, and `##[` is broken apart besides, because a log is no one stream.
Source: docs.github.com, "Workflow commands for GitHub Actions"; actions/runner, ActionCommand.cs.
"""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

from stepscope.errors import EnvironmentFault

# GitHub refuses a step's summary above 1 MiB, and then shows nothing.
SUMMARY_BYTES = 1_000_000
_COMMAND = re.compile(r"##(?=\w*\[)|^(\s*):(?=:)", re.MULTILINE)


def in_actions() -> bool:
    """Tell whether GitHub Actions reads what is printed."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def calm(text: str) -> str:
    """Return text in which no line is a command to a CI system.

    >>> calm("::error::x"), calm("a ##[add-mask]b"), calm("a::b")
    (': :error::x', 'a # #[add-mask]b', 'a::b')
    """
    return _COMMAND.sub(lambda hit: f"{hit[1]}: " if hit[1] is not None else "# #", text)


def guarded(text: str) -> str:
    """Return text as it is to be printed: in GitHub Actions it commands nothing."""
    if not in_actions():
        return text
    token = secrets.token_hex(16)
    body = calm(text).rstrip("\n")
    return f"::stop-commands::{token}\n{body}\n::{token}::\n"


def summarise(markdown: str) -> None:
    """Add Markdown to the job summary, where the CI system has one.

    Raises:
        EnvironmentFault: the file that it names cannot be written.
    """
    place = os.environ.get("GITHUB_STEP_SUMMARY")
    if not place:
        return
    raw = markdown.encode()
    if len(raw) > SUMMARY_BYTES:
        cut = raw.rfind(b"\n", 0, SUMMARY_BYTES)
        raw = raw[:cut] + b"\n\nCut here: see the job's own log.\n"
    try:
        with Path(place).open("ab") as file:
            file.write(raw + b"\n")
    except OSError as e:
        raise EnvironmentFault(f"{place}: the job summary cannot be written ({e.strerror})") from e
