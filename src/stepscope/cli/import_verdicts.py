"""`stepscope import --verdicts`: what other people or judges said of runs of the store."""

from __future__ import annotations

from pathlib import Path

from stepscope.api.verdict_cells import parsed
from stepscope.cli import terminal
from stepscope.cli.import_options import OfVerdicts
from stepscope.cli.stores import existing


def import_verdicts(file: str, asked: OfVerdicts, *, store: Path | None, as_json: bool) -> int:
    """Read a file of verdicts into the store, and say what was found."""
    columns, labels = parsed(asked.map or [], "--map"), parsed(asked.labels or [], "--labels")
    with existing(store) as notebook:
        found = notebook.add_verdicts(
            file,
            columns=columns,
            labels=labels,
            rubric=asked.rubric,
            rater=asked.rater,
            human=asked.human,
        )
    if as_json:
        terminal.out_json(found)
    else:
        terminal.out(str(found))
        terminal.hint("stepscope agree", store)
    return 0
