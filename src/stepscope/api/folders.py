"""A report over verdicts that were exported as Parquet: figures without the runs behind them.

No run can be opened, so none is named to look at first, and nothing can be scored.
"""

from __future__ import annotations

from pathlib import Path

from stepscope.api.views import ReportView, Source, Text
from stepscope.errors import UsageError
from stepscope.store import ParquetRows
from stepscope.store.where import parse


def report_folder(
    folder: str | Path,
    *,
    where: str | None = None,
    since: str | None = None,
    by: str | None = None,
    seed: int = 0,
) -> ReportView:
    """Return the report over a folder that `export --verdicts --to parquet` wrote.

    Args:
        folder: where runs.parquet and records.parquet are.
        where: a filter, as "agent = 'gpt-4o'".
        since: a date or an age, as "7d".
        by: one group for each value of this field.
        seed: where random draws start.

    Raises:
        ConfigError: pyarrow is not installed.
        StoreError: the folder holds no export.
        UsageError: no run is chosen, or the filter makes no sense.
    """
    from stepscope.report.build import build

    rows = ParquetRows(folder)
    chosen = None if where is None else parse(where)
    value = build(rows, where=chosen, since=since, by=by, seed=seed)

    def show(run: str, *, around: int | None = None, steps: tuple[int, int] | None = None) -> Text:
        raise UsageError(f"{folder} holds verdicts and no runs; open the store to read {run!r}")

    return ReportView(value, show, Source(rows, chosen, since))
