"""Where runs and records are kept: SQLite by default, Parquet out and in."""

from stepscope.store.columns import Column, Rows, Runs
from stepscope.store.parquet_rows import ParquetRows
from stepscope.store.purge import Purged
from stepscope.store.store import Store
from stepscope.store.trajectories import PutCounts

__all__ = ["Column", "ParquetRows", "Purged", "PutCounts", "Rows", "Runs", "Store"]
