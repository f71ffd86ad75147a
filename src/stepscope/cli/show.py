"""`stepscope show`: one run, readable."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from stepscope.cli.options import Json, Offline, StorePath
from stepscope.errors import UsageError


def show(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A name, or a unique prefix of an id.")],
    *,
    step: Annotated[
        int | None, typer.Option("--step", min=0, help="The steps around this one, in full.")
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option("--steps", metavar="A:B", help="Steps A to B (B excluded), unfolded."),
    ] = None,
    store: StorePath = None,
    offline: Offline = False,
    as_json: Json = False,
) -> None:
    """Print one run, its verdicts beside its steps.

    What is uneventful is folded.

    Example: stepscope show airline/11/2 --step 14
    """
    from stepscope.cli import terminal
    from stepscope.cli.stores import existing

    chosen = _span(steps)
    if step is not None and chosen is not None:
        raise UsageError("--step and --steps say different things; leave one out")
    with existing(store) as notebook:
        if as_json:
            terminal.out(notebook.show_json(run))
        else:
            terminal.out(notebook.show(run, around=step, steps=chosen, width=terminal.width()))


def _span(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d*):(\d*)", text)
    if match is None:
        raise UsageError(f"--steps {text!r}: expected A:B, as --steps 0:12")
    first, last = match.groups()
    return int(first or 0), int(last) if last else 1 << 62
