"""The library as a notebook sees it; the command line calls the same functions.

    store = stepscope.open("runs.db")
    store.add("examples/airline", agent="gpt-4o")
    store.score()
    store.report()["outcome.pass"]

Nothing is computed here: traces are read by `formats`, verdicts made by `score`, figures by
`report`. What a person reads comes back as an object that prints itself, in Jupyter as a table.
"""

from __future__ import annotations

from stepscope.api.exporting import Exported
from stepscope.api.notebook import Notebook, Records, match, open
from stepscope.api.score_files import shapes
from stepscope.api.views import ComparisonView, ReportView, RunView, Text, report_folder
from stepscope.score.importing import Added

__all__ = [
    "Added",
    "ComparisonView",
    "Exported",
    "Notebook",
    "Records",
    "ReportView",
    "RunView",
    "Text",
    "match",
    "open",
    "report_folder",
    "shapes",
]
