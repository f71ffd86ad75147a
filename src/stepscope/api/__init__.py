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

from typing import TYPE_CHECKING

from stepscope.lazy import lazy_names

if TYPE_CHECKING:
    from stepscope.api.agreement import AgreementView as AgreementView
    from stepscope.api.agreement import CalibrationView as CalibrationView
    from stepscope.api.agreement import ModesView as ModesView
    from stepscope.api.agreement import QueueView as QueueView
    from stepscope.api.exporting import Exported as Exported
    from stepscope.api.judging import RejudgeResult as RejudgeResult
    from stepscope.api.memory import match as match
    from stepscope.api.notebook import Notebook as Notebook
    from stepscope.api.notebook import open as open
    from stepscope.api.score_files import FileShapes as FileShapes
    from stepscope.api.score_files import RunShape as RunShape
    from stepscope.api.score_files import shapes as shapes
    from stepscope.api.verdict_import import AddedVerdicts as AddedVerdicts
    from stepscope.api.views import ComparisonView as ComparisonView
    from stepscope.api.views import Records as Records
    from stepscope.api.views import ReportView as ReportView
    from stepscope.api.views import RunDiffView as RunDiffView
    from stepscope.api.views import RunListView as RunListView
    from stepscope.api.views import RunView as RunView
    from stepscope.api.views import Text as Text
    from stepscope.api.views import report_folder as report_folder
    from stepscope.judges.judgement import JudgingOptions as JudgingOptions
    from stepscope.score.importing import Added as Added

_VIEWS = ("ComparisonView", "Records", "ReportView", "RunDiffView", "RunListView", "RunView")
__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".agreement": ("AgreementView", "CalibrationView", "ModesView", "QueueView"),
        ".exporting": ("Exported",),
        ".judging": ("RejudgeResult",),
        ".memory": ("match",),
        ".notebook": ("Notebook", "open"),
        ".score_files": ("FileShapes", "RunShape", "shapes"),
        ".verdict_import": ("AddedVerdicts",),
        ".views": (*_VIEWS, "Text", "report_folder"),
        "stepscope.judges.judgement": ("JudgingOptions",),
        "stepscope.score.importing": ("Added",),
    },
)
