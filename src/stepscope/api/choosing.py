"""Which runs of a store: filters as people write them, and the verdicts of those chosen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stepscope.model import Record
from stepscope.store import Store
from stepscope.store.where import Where, before, parse, since

if TYPE_CHECKING:
    import pyarrow as pa


class Records:
    """The verdicts of the chosen runs: iterate, or take them as an Arrow table."""

    def __init__(self, store: Store, where: Where | None) -> None:
        self._store = store
        self._where = where

    def __iter__(self) -> Iterator[Record]:
        return self._store.records(self._where)

    def to_arrow(self) -> pa.Table:
        """Return the records as a table that polars, pandas and DuckDB read.

        Raises:
            ConfigError: pyarrow is not installed.
        """
        return self._store.to_arrow(self._where)


def filter_of(
    text: str | None, after: str | None = None, *, older_than: str | None = None
) -> Where | None:
    """Return the filter of a text, a date or age after which, and one before which runs came in.

    Raises:
        UsageError: a filter, date or age makes no sense.
    """
    conditions = [
        *([parse(text)] if text is not None else []),
        *([since(after)] if after is not None else []),
        *([before(older_than)] if older_than is not None else []),
    ]
    if not conditions:
        return None
    whole, *others = conditions
    for other in others:
        whole &= other
    return whole
