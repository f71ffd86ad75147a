"""Where runs and records are kept: SQLite by default, Parquet out and in."""

from stepscope.store.columns import AnswerColumn, Rows, Runs
from stepscope.store.parquet import ParquetRows
from stepscope.store.purge import PurgeResult
from stepscope.store.runs import PutCounts
from stepscope.store.store import Store

__all__ = ["AnswerColumn", "ParquetRows", "PurgeResult", "PutCounts", "Rows", "Runs", "Store"]
