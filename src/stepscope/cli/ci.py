"""What a CI system wants of a command: its job summary, and logs that no trace can command.

What may quote a trace is printed in GitHub Actions between `::stop-commands::TOKEN` and `::TOKEN::`
with a random token, and is calmed besides (`safety.logs`): two streams make one log, in any order.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from stepscope.errors import EnvironmentFault
from stepscope.safety.logs import calm

# GitHub refuses a step's summary above 1 MiB, and then shows nothing.
SUMMARY_BYTES = 1_000_000


def in_actions() -> bool:
    """Tell whether GitHub Actions reads what is printed."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


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
