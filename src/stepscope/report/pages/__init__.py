"""Pages as pure values: a report, a run, a comparison in; what a template lays out comes out.

`stepscope.report.html` puts all pages into one file; the local server renders one at a time.
"""

from stepscope.report.pages.compare import compare_choice, compare_groups, compare_runs
from stepscope.report.pages.gates import gates
from stepscope.report.pages.links import FileLinks, Links, ServerLinks
from stepscope.report.pages.overview import overview
from stepscope.report.pages.page import Page
from stepscope.report.pages.profile import profile
from stepscope.report.pages.rendering import Shell, body, document, environment
from stepscope.report.pages.run import no_run, run, window_around
from stepscope.report.pages.run_data import RunData, read_run
from stepscope.report.pages.runs import RunQuery, RunRow, read_runs

__all__ = [
    "FileLinks",
    "Links",
    "Page",
    "RunData",
    "RunQuery",
    "RunRow",
    "ServerLinks",
    "Shell",
    "body",
    "compare_choice",
    "compare_groups",
    "compare_runs",
    "document",
    "environment",
    "gates",
    "no_run",
    "overview",
    "profile",
    "read_run",
    "read_runs",
    "run",
    "window_around",
]
