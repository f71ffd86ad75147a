"""From a body to the disk: spans are read in one thread, and put into the journal in another.

One request is read at a time, so that memory holds one. What waits meanwhile goes into the journal
in one transaction: a flush is shared by many senders, and each of them is answered after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import NamedTuple, Self

from stepscope.errors import EnvironmentFault, LimitError, TraceError
from stepscope.formats.otlp_request import Refused, read
from stepscope.receive.journal import Bounds, Entry, Journal, Taken, entry
from stepscope.receive.policy import Refusal
from stepscope.safety.limits import Limits

# Batches in one transaction: what comes in while one flush lasts is far less.
_MOST = 256
# Characters of a trace id that is kept; the protocol's has 32.
_MAX_TRACE = 64


class Read(NamedTuple):
    """The spans of a request as the journal keeps them, and how many were none."""

    entries: list[Entry]
    refused: int
    reason: str


class _Waiting(NamedTuple):
    entries: list[Entry]
    taken: asyncio.Future[Taken]


class Intake:
    """Reads bodies and keeps their spans; use `running` around it."""

    def __init__(self, path: str, limits: Limits, bounds: Bounds) -> None:
        """Keep spans in the journal at `path`."""
        self._path = path
        self._limits = limits
        self._bounds = bounds
        self._task: asyncio.Task[None] | None = None
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue()
        # A connection belongs to the thread that opened it, so each of these has one thread.
        self._reading = ThreadPoolExecutor(1, "reading")
        self._writing = ThreadPoolExecutor(1, "writing")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Keep what comes in; at the end what was promised is on disk.

        Raises:
            StoreError: the file is no journal.
            EnvironmentFault: it cannot be written.
        """
        loop = asyncio.get_running_loop()
        journal = await loop.run_in_executor(self._writing, Journal, self._path)
        self._task = asyncio.create_task(self._work(journal))
        try:
            yield self
            await self._queue.join()
        finally:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            await loop.run_in_executor(self._writing, journal.close)
            self._reading.shutdown()
            self._writing.shutdown()

    @property
    def work(self) -> asyncio.Task[None]:
        """What puts spans on disk: if it ends by itself, it is by an error."""
        assert self._task is not None
        return self._task

    async def read(self, body: bytes, kind: str) -> Read | Refusal:
        """Return the spans of a request; what is no request at all is refused."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._reading, _read, body, kind, self._limits)

    async def keep(self, entries: list[Entry]) -> Taken:
        """Return when the spans are on disk.

        Raises:
            EnvironmentFault: the disk is full; nothing of them is kept.
        """
        taken: asyncio.Future[Taken] = asyncio.get_running_loop().create_future()
        await self._queue.put(_Waiting(entries, taken))
        return await taken

    async def _work(self, journal: Journal) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self._queue.get()]
            while len(batch) < _MOST and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            asked = [waiting.entries for waiting in batch]
            try:
                taken = await loop.run_in_executor(self._writing, journal.keep, asked, self._bounds)
            except EnvironmentFault as e:
                for waiting in batch:
                    if not waiting.taken.done():
                        waiting.taken.set_exception(e)
            else:
                for waiting, answer in zip(batch, taken, strict=True):
                    # A sender that has gone away waits no more; its spans are kept all the same.
                    if not waiting.taken.done():
                        waiting.taken.set_result(answer)
            finally:
                for _ in batch:
                    self._queue.task_done()


def _read(body: bytes, kind: str, limits: Limits) -> Read | Refusal:
    entries: list[Entry] = []
    refused, reason = 0, ""
    try:
        for item in read(body, kind, limits):
            fault = item.reason if isinstance(item, Refused) else _fault(item.span.trace_id)
            if isinstance(item, Refused) or fault:
                refused, reason = refused + 1, fault
            else:
                entries.append(entry(item.span, item.repairs))
    except LimitError as e:
        return Refusal(413, str(e))
    except TraceError as e:
        return Refusal(400, str(e))
    return Read(entries, refused, reason)


def _fault(trace: str) -> str:
    if not trace.strip("0"):
        return "a span needs a `traceId`"
    return "" if len(trace) <= _MAX_TRACE else f"a `traceId` of {len(trace)} characters"
