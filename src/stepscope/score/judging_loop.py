"""The loop of judges' calls, in a thread of its own, and the caller's thread that serves it.

What concerns the store is done in the caller's thread, so that a store of any kind can be written
to; the loop of a notebook that runs already is no obstacle.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from stepscope.judges.batching import run_batched
from stepscope.judges.budget import Budget
from stepscope.judges.canaries import Watched, missed, quarantined
from stepscope.judges.judgement import Judgement
from stepscope.judges.ledger import Ledger
from stepscope.judges.models.batches import Batch
from stepscope.judges.models.opening import closing
from stepscope.judges.running import CONCURRENCY, GRACE_SECONDS, Progress, run
from stepscope.judges.running_buying import Patient, Pricing
from stepscope.judges.running_tally import Ran
from stepscope.model import Model, Record

T = TypeVar("T")
Keep = Callable[[Sequence[Record]], None]


class Access(NamedTuple):
    """What calls go through.

    Attributes:
        models: by the judge's name.
        patience: the retry loop.
        prices: what calls cost.
        ledger: where replies are kept.
        budget: what may be spent.
        concurrency: the most calls in flight.
        grace_seconds: how long Ctrl-C waits for calls in flight.
        batches: by the judge's name, where batches are used in place of single calls.
    """

    models: Mapping[str, Model]
    patience: Patient
    prices: Pricing
    ledger: Ledger
    budget: Budget
    concurrency: int = CONCURRENCY
    grace_seconds: float = GRACE_SECONDS
    batches: Mapping[str, Batch] | None = None


class Went(NamedTuple):
    """How it went: what was done, canaries that were missed, and what asking them cost in USD."""

    ran: Ran
    misses: tuple[Watched, ...]
    canaries_usd: float


class Asked(NamedTuple):
    """What is asked in one go.

    Attributes:
        plan: gives the judgements, the same ones every time that it is called.
        canaries: judgements with known answers, asked before; none where nobody is watched.
        keep: called with the records of real runs.
    """

    plan: Callable[[], Iterable[Judgement]]
    canaries: Sequence[Judgement]
    keep: Keep


class _Ended(Exception):
    """The caller's thread does nothing more: something failed in it."""


class Caller:
    """The caller's thread, which does what the loop's thread asks of it: the store is its own."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._ended = False

    def do(self, work: Callable[[], T]) -> T:
        """Have something done in the caller's thread; called in the loop's."""
        future: Future[T] = Future()
        with self._lock:
            if self._ended:
                raise _Ended
            self._asked.put((work, future))
        return future.result()

    def serve(self) -> None:
        """Do what is asked until the end; what fails here ends the loop, too."""
        with ExitStack() as at_the_end:
            at_the_end.callback(self._refuse)
            while (asked := self._asked.get()) is not None:
                work, future = asked
                with ExitStack() as unless_done:
                    unless_done.callback(future.set_exception, _Ended())
                    done = work()
                    unless_done.pop_all()
                future.set_result(done)

    def _refuse(self) -> None:
        """Leave nobody waiting for what will not be done."""
        with self._lock:
            self._ended = True
            while not self._asked.empty():
                asked = self._asked.get()
                if asked is not None:
                    asked[1].set_exception(_Ended())

    def end(self) -> None:
        """Let `serve` return."""
        self._asked.put(None)


class LoopThread:
    """The loop of calls, in a thread of its own; told from outside to stop, then to abort."""

    def __init__(self, caller: Caller, access: Access, progress: Progress | None) -> None:
        self.aborted = False
        self._caller = caller
        self._access = access
        self._progress = progress
        self._stop = asyncio.Event()
        self._told = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None

    async def run(self, asked: Asked) -> Went:
        """Judge; return what was done, and which canaries were answered wrongly."""
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._heed()
        async with closing(self._access.models.values()):
            misses, paid = await self._watch(asked.canaries)
            keep = partial(self._keep, asked.keep, misses)
            if self._access.batches is None:
                return Went(await self._run(asked.plan(), keep), misses, paid)
            ran = await run_batched(
                asked.plan,
                batches=self._access.batches,
                ledger=self._access.ledger,
                prices=self._access.prices,
                budget=self._access.budget,
                keep=keep,
                progress=self._progress,
                stop=self._stop,
            )
            return Went(ran, misses, paid)

    async def _watch(self, canaries: Sequence[Judgement]) -> tuple[tuple[Watched, ...], float]:
        """Ask about canaries, never in a batch: the others wait for what they say."""
        if not canaries:
            return (), 0.0
        said: list[Record] = []
        ran = await self._run(canaries, said.extend)
        return missed(said), ran.usd

    async def _run(self, judgements: Iterable[Judgement], keep: Keep) -> Ran:
        access = self._access
        return await run(
            judgements,
            models=access.models,
            patience=access.patience,
            ledger=access.ledger,
            prices=access.prices,
            budget=access.budget,
            keep=keep,
            concurrency=access.concurrency,
            grace_seconds=access.grace_seconds,
            progress=self._progress,
            stop=self._stop,
        )

    def _keep(self, keep: Keep, misses: Sequence[Watched], records: Sequence[Record]) -> None:
        kept = list(quarantined(records, misses)) if misses else records
        self._caller.do(lambda: keep(kept))

    def tell(self) -> bool:
        """Stop, when told first; abort, when told again. Return whether it was the first time."""
        self._told += 1
        self.aborted = self._told > 1
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._heed)
        return self._told == 1

    def _heed(self) -> None:
        if self._told:
            self._stop.set()
        if self._told > 1 and self._task is not None:
            self._task.cancel()
