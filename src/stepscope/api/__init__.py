"""The library as a notebook sees it; the command line calls the same functions.

    store = stepscope.open("runs.db")
    store.add("examples/airline", agent="gpt-4o")
    store.score()
    store.report()["outcome.pass"]

Nothing is computed here: traces are read by `formats`, verdicts made by `score`, figures by
`report`. What a person reads comes back as an object that prints itself, in Jupyter as a table.
Each name loads its module when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.api.agreement import AgreementView as AgreementView
    from stepscope.api.agreement import ModesView as ModesView
    from stepscope.api.agreement import QueueView as QueueView
    from stepscope.api.exporting import Exported as Exported
    from stepscope.api.judging import RejudgeResult as RejudgeResult
    from stepscope.api.notebook import Notebook as Notebook
    from stepscope.api.notebook import Records as Records
    from stepscope.api.notebook import match as match
    from stepscope.api.notebook import open as open
    from stepscope.api.score_files import FileShapes as FileShapes
    from stepscope.api.score_files import RunShape as RunShape
    from stepscope.api.score_files import shapes as shapes
    from stepscope.api.verdict_import import AddedVerdicts as AddedVerdicts
    from stepscope.api.views import ComparisonView as ComparisonView
    from stepscope.api.views import ReportView as ReportView
    from stepscope.api.views import RunView as RunView
    from stepscope.api.views import Text as Text
    from stepscope.api.views import report_folder as report_folder
    from stepscope.judges.judgement import JudgingOptions as JudgingOptions
    from stepscope.score.importing import Added as Added

_HOMES = {
    "Added": "stepscope.score.importing",
    "AddedVerdicts": "stepscope.api.verdict_import",
    "AgreementView": "stepscope.api.agreement",
    "ComparisonView": "stepscope.api.views",
    "Exported": "stepscope.api.exporting",
    "FileShapes": "stepscope.api.score_files",
    "JudgingOptions": "stepscope.judges.judgement",
    "ModesView": "stepscope.api.agreement",
    "Notebook": "stepscope.api.notebook",
    "QueueView": "stepscope.api.agreement",
    "Records": "stepscope.api.notebook",
    "RejudgeResult": "stepscope.api.judging",
    "ReportView": "stepscope.api.views",
    "RunShape": "stepscope.api.score_files",
    "RunView": "stepscope.api.views",
    "Text": "stepscope.api.views",
    "match": "stepscope.api.notebook",
    "open": "stepscope.api.notebook",
    "report_folder": "stepscope.api.views",
    "shapes": "stepscope.api.score_files",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
