"""Ask judges about the runs of a store: plan, buy what is not bought, keep what it says.

The loop of calls has a thread of its own, so that a notebook's running loop is no obstacle; what
concerns the store is done in the caller's thread. Ctrl-C sends nothing more and waits for what was
sent; a second one leaves at once. What was received is kept in any case.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from queue import SimpleQueue
from types import FrameType
from typing import Any, NamedTuple, TypeVar

import msgspec

from stepscope.judges.budget import Budget
from stepscope.judges.judgement import Judgement
from stepscope.judges.ledger import Ledger
from stepscope.judges.models.opening import closing
from stepscope.judges.running import CONCURRENCY, GRACE_SECONDS, Progress, run
from stepscope.judges.running_buying import Patient, Pricing
from stepscope.judges.running_tally import Ran
from stepscope.model import Model, Record
from stepscope.score.planned import Asking, Plan, Seen
from stepscope.store import Store

T = TypeVar("T")

# Judgements fetched at a time from the caller's thread: each may hold a whole run as text.
_AT_ONCE = 8
# Of what could not be asked: one commit of the store.
_ABSENT_AT_ONCE = 500


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
    """

    models: Mapping[str, Model]
    patience: Patient
    prices: Pricing
    ledger: Ledger
    budget: Budget
    concurrency: int = CONCURRENCY
    grace_seconds: float = GRACE_SECONDS


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What one call of `judge` did.

    Attributes:
        runs: runs that judges were asked about.
        purged: runs that were chosen and whose texts are erased.
        unasked: questions that no judge was asked, by the first word of why.
        ran: what was bought, kept, lost and paid.
    """

    runs: int
    purged: int
    unasked: dict[str, int]
    ran: Ran

    def __str__(self) -> str:
        """Say it in a few lines."""
        return "\n".join(_lines(self))


def _lines(judged: Judged) -> Iterator[str]:
    ran = judged.ran
    yield (
        f"{judged.runs:,} runs, {ran.judgements:,} judgements, {ran.records:,} records; replies: "
        f"{ran.bought:,} bought, {ran.from_ledger:,} from the ledger"
    )
    unpriced = f", {ran.unpriced:,} replies without a known price" if ran.unpriced else ""
    yield (
        f"paid ${ran.usd:.4f}{unpriced}; {ran.input_tokens:,} tokens read ({ran.cached_tokens:,} "
        f"cached, which saved ${ran.saved_usd:.4f}), {ran.output_tokens:,} written"
    )
    for what, counts in (
        ("unmeasured", ran.unmeasured),
        ("not asked", judged.unasked),
        ("without an answer, asked again by the next run", ran.failed),
    ):
        if counts:
            yield f"{what}: " + ", ".join(f"{n:,} {word}" for word, n in counts.items())
    for reason in ran.reasons:
        yield f"  {reason}"
    for judge, n in ran.ignored_schema.items():
        yield f"{judge}: {n:,} replies ignored the schema; name another structure in the settings"
    if ran.unknown:
        yield (
            f"{len(ran.unknown):,} calls of unknown outcome, perhaps paid twice, counted as "
            f"${ran.unknown_usd:.4f}"
        )
    if judged.purged:
        yield f"{judged.purged:,} runs left out: their texts are erased"
    if ran.stopped:
        yield "stopped; run the same command again to go on: what was received is kept"


def judge(
    store: Store,
    asking: Asking,
    access: Access,
    *,
    progress: Progress | None = None,
    stopping: Callable[[], None] | None = None,
) -> Judged:
    """Ask judges about runs; what they said before is not asked again.

    Args:
        store: read from and written to, in durable batches.
        asking: which runs, by which rubrics, by whom, how often.
        access: what calls go through.
        progress: called after every judgement with how many are done, and USD paid.
        stopping: called when Ctrl-C was heard and calls in flight are waited for.

    Raises:
        ConfigError: a budget holds and the price of a judge is not known.
        EnvironmentFault: the disk is full; calling again goes on.
        KeyboardInterrupt: Ctrl-C was heard twice.
    """
    plan = Plan(store, asking)
    caller = _Caller()
    loop = _LoopThread(caller, access, progress)
    with ThreadPoolExecutor(1, thread_name_prefix="judges") as thread:
        going = thread.submit(asyncio.run, loop.run(_fetched(caller, plan, store), store))
        going.add_done_callback(lambda _: caller.end())
        with _heard(loop, stopping):
            caller.serve()
        if loop.aborted:
            raise KeyboardInterrupt
        ran = going.result()
    return Judged(runs=plan.seen.runs, purged=plan.purged, unasked=_sorted(plan.seen), ran=ran)


def _sorted(seen: Seen) -> dict[str, int]:
    return dict(sorted(seen.unasked.items()))


class _Ended(Exception):
    """The caller's thread does nothing more: something failed in it."""


class _Caller:
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


class _LoopThread:
    """The loop of calls, in a thread of its own; told from outside to stop, then to abort."""

    def __init__(self, caller: _Caller, access: Access, progress: Progress | None) -> None:
        self.aborted = False
        self._caller = caller
        self._access = access
        self._progress = progress
        self._stop = asyncio.Event()
        self._told = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None

    async def run(self, judgements: Iterable[Judgement], store: Store) -> Ran:
        """Judge; records go to the store in the caller's thread."""
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._heed()
        access = self._access
        async with closing(access.models.values()):
            return await run(
                judgements,
                models=access.models,
                patience=access.patience,
                ledger=access.ledger,
                prices=access.prices,
                budget=access.budget,
                keep=partial(self._keep, store),
                concurrency=access.concurrency,
                grace_seconds=access.grace_seconds,
                progress=self._progress,
                stop=self._stop,
            )

    def _keep(self, store: Store, records: Sequence[Record]) -> None:
        self._caller.do(lambda: store.append(records))

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


def _fetched(caller: _Caller, plan: Plan, store: Store) -> Iterator[Judgement]:
    """Yield the judgements of a plan, made in the caller's thread."""

    def fetch() -> list[Judgement]:
        found = plan.next(_AT_ONCE)
        if plan.absent >= _ABSENT_AT_ONCE or not found:
            store.append(plan.take())
        return found

    while batch := caller.do(fetch):
        yield from batch


@contextmanager
def _heard(loop: _LoopThread, stopping: Callable[[], None] | None) -> Iterator[None]:
    """Tell the loop of Ctrl-C, where this is the thread that hears of it."""

    def hear(number: int, frame: FrameType | None) -> None:
        if loop.tell() and stopping is not None:
            stopping()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, hear)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
