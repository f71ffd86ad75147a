"""What can be taken away: tables as CSV and JSON, runs as JSON, media as they are.

Everything leaves as an attachment under a name of ours, so that no browser shows it as a page.
A text that a spreadsheet would take for a formula gets an apostrophe before it (OWASP, CSV
Injection); what hides in a text is spelt out, in JSON as an escape that means the same.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from starlette.responses import Response

from stepscope.report.pages.runs import RunRow
from stepscope.report.types import Figure, Report
from stepscope.safety.text import escaped_json, visible
from stepscope.values import Unmeasured

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_ESTIMATE = (
    "value", "low", "high", "level", "unit", "n", "unit_of_n", "n_tasks", "n_unmeasured",
)  # fmt: skip


def as_csv(rows: Sequence[Mapping[str, object]], name: str) -> Response:
    """Return rows as a CSV file; the keys of the first are its header."""
    out = io.StringIO()
    writer = csv.writer(out)
    if rows:
        writer.writerow(rows[0].keys())
    writer.writerows([_cell(value) for value in row.values()] for row in rows)
    return _file(out.getvalue().encode(), f"{name}.csv", "text/csv; charset=utf-8")


def as_json(value: object, name: str) -> Response:
    """Return any model value as a JSON file."""
    text = msgspec.json.format(msgspec.json.encode(value)).decode()
    return _file(escaped_json(text).encode(), f"{name}.json", "application/json")


def as_blob(content: bytes, name: str) -> Response:
    """Return bytes of a trace as a file that nothing opens by itself."""
    return _file(content, f"{name}.bin", "application/octet-stream")


def run_rows(runs: Iterable[RunRow]) -> list[dict[str, object]]:
    """Return the runs of a report, a row each; axes at fault as one text."""
    return [
        {
            **msgspec.structs.asdict(run),
            "faults": None if run.faults is None else " ".join(run.faults),
        }
        for run in runs
    ]


def figure_rows(report: Report) -> list[dict[str, object]]:
    """Return every figure of every group, a row each; an unmeasured one has kind and reason."""
    groups = [("all", report.whole), *((p.title, p) for p in report.profiles)]
    return [
        {"group": title, "figure": key, **_figure(figure)}
        for title, profile in groups
        for key, figure in profile.figures.items()
    ]


def _figure(figure: Figure) -> dict[str, object]:
    if isinstance(figure, Unmeasured):
        return dict.fromkeys(_ESTIMATE) | {"kind": figure.kind, "reason": figure.reason}
    known = {name: getattr(figure, name) for name in _ESTIMATE}
    return known | {"kind": "", "reason": ""}


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = visible(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _file(content: bytes, name: str, media_type: str) -> Response:
    disposition = f'attachment; filename="{name}"'
    return Response(content, media_type=media_type, headers={"Content-Disposition": disposition})
