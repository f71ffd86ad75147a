"""One store, read by a server: the pages' and the tools'.

Questions wait for each other in one thread with one connection, so memory is that of one of them
whatever is asked for. The file is looked at before every question: one that another process has
written, replaced or migrated is opened again, and the answers kept of it are forgotten. It is
opened to be read only.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

from stepscope.errors import UsageError
from stepscope.settings import Redaction
from stepscope.store import Store

T = TypeVar("T")

# Answers kept until the store changes: the pages that one goes back and forth between. A run of
# 100,000 steps is the largest of them, with some hundred megabytes.
ANSWERS_KEPT = 4


class StoreState(NamedTuple):
    """How far the store is: `version` is another number after every change of it."""

    version: int
    runs: int
    scored: int


class StoreReader:
    """One store, asked by the server; `close` it."""

    def __init__(self, path: str | Path, redaction: Redaction | None = None) -> None:
        """Read the store at `path`, which is opened when it is first asked."""
        self.path = Path(path)
        self._redaction = redaction or Redaction()
        self.version = 0
        self._thread = ThreadPoolExecutor(1, "stepscope-store")
        self._store: Store | None = None
        self._seen: tuple[int, int, int] | None = None
        self._kept: OrderedDict[Hashable, object] = OrderedDict()

    async def ask(self, question: Callable[[Store], T]) -> T:
        """Return what the question finds in the store as it is now; UsageError where it is gone."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: question(self._fresh()))

    async def ask_once(self, key: Hashable, question: Callable[[Store], T]) -> T:
        """Return the same, kept under `key` until the store changes."""

        def kept(store: Store) -> T:
            if key in self._kept:
                self._kept.move_to_end(key)
                return cast(T, self._kept[key])
            # Room is made first: two of the largest at once would be one too many.
            while len(self._kept) >= ANSWERS_KEPT:
                self._kept.popitem(last=False)
            found = self._kept[key] = question(store)
            return found

        return await self.ask(kept)

    async def state(self) -> StoreState:
        """Return how far the store is."""
        return await self.ask(lambda store: StoreState(self.version, *store.scored()))

    async def close(self) -> None:
        """Close the store; what is being read is read to its end."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._shut)
        self._thread.shutdown(wait=False)

    def _fresh(self) -> Store:
        try:
            file = self.path.stat()
        except OSError:
            self._shut()
            said = f"no store at {str(self.path)!r} any more; import runs again"
            raise UsageError(said) from None
        before, seen = self._store, (file.st_dev, file.st_ino)
        if before is not None:
            if self._seen == (*seen, before.changes()):
                return before
            self._shut()
        self._store = Store.open(self.path, read_only=True)
        self._store.redact(self._redaction.forms, shown=self._redaction.shown)
        if before is not None and self._seen is not None and self._seen[:2] == seen:
            self._store.trust(before)  # looked through once; a copy put in its place again
        self._seen = (*seen, self._store.changes())
        self.version += 1
        return self._store

    def _shut(self) -> None:
        self._kept.clear()
        if self._store is not None:
            self._store.close()
            self._store = None
