"""Ask judges about the runs of a store: plan, buy what is not bought, keep what it says.

The loop of calls has a thread of its own, so that a notebook's running loop is no obstacle; what
concerns the store is done in the caller's thread. Ctrl-C sends nothing more and waits for what was
sent; a second one leaves at once. What was received is kept in any case.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from types import FrameType

import msgspec

from stepscope.judges.canaries import Watched
from stepscope.judges.judgement import Judgement
from stepscope.judges.running import Progress
from stepscope.judges.running_tally import Ran
from stepscope.model import Record
from stepscope.score.judging_loop import Access, Asked, Caller, LoopThread, Went
from stepscope.score.looking import Tools, looking
from stepscope.score.planned import Asking, Plan
from stepscope.store import Store

# Judgements fetched at a time from the caller's thread: each may hold a whole run as text.
_AT_ONCE = 8
# Of what could not be asked: one commit of the store.
_ABSENT_AT_ONCE = 500
# As many as are in flight at once by default: a crash leaves no more.
_LISTED = 32


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What one call of `judge` did.

    Attributes:
        runs: runs that judges were asked about.
        purged: runs that were chosen and whose texts are erased.
        unasked: questions that no judge was asked, by the first word of why.
        ran: what was bought, kept, lost and paid.
        misses: canaries that a judge answered wrongly; its answers to that rubric are set aside.
        canaries_usd: what was paid for asking about canaries, besides.
        tools_off: why tools that judges could have had were off, by name.
    """

    runs: int
    purged: int
    unasked: dict[str, int]
    ran: Ran
    misses: tuple[Watched, ...] = ()
    canaries_usd: float = 0.0
    tools_off: dict[str, str] = msgspec.field(default_factory=dict)

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
    if judged.canaries_usd:
        yield f"paid for canaries besides: ${judged.canaries_usd:.4f}"
    yield from _missed(judged.misses)
    for why in sorted(set(judged.tools_off.values())):
        names = ", ".join(name for name, said in judged.tools_off.items() if said == why)
        yield f"tools off: {names}: {why}"
    yield from _unknown(ran)
    if judged.purged:
        yield f"{judged.purged:,} runs left out: their texts are erased"
    if ran.stopped:
        yield "stopped; run the same command again to go on: what was received is kept"


def _unknown(ran: Ran) -> Iterator[str]:
    """Say which calls may have been paid twice, with the most that they cost."""
    if not ran.unknown:
        return
    yield (
        f"{len(ran.unknown):,} calls of unknown outcome, perhaps paid twice, counted as "
        f"${ran.unknown_usd:.4f}"
    )
    for one in ran.unknown[:_LISTED]:
        yield (
            f"  {one.trajectory[:12]} {one.judge}, sending {one.attempt}, ${one.usd:.4f}: {one.why}"
        )
    if len(ran.unknown) > _LISTED:
        yield f"  and {len(ran.unknown) - _LISTED:,} more: --json lists them all"


def _missed(misses: Sequence[Watched]) -> Iterator[str]:
    """Say once of each judge and rubric that its answers are set aside, with one reason."""
    for judge, rubric in dict.fromkeys((one.judge, one.rubric) for one in misses):
        of_both = [one for one in misses if (one.judge, one.rubric) == (judge, rubric)]
        yield (
            f"{judge} missed {len(of_both)} canaries of {rubric}: its answers are set aside; "
            f"{of_both[0].canary}: {of_both[0].what}"
        )


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
    with looking(asking.workspace, store.redactor) as tools:
        plans = _Plans(store, asking, tools if asking.tools else None)
        went = _went(store, plans, access, progress, stopping)
    return Judged(
        runs=plans.last.seen.runs,
        purged=plans.last.purged,
        unasked=dict(sorted(plans.last.seen.unasked.items())),
        ran=went.ran,
        misses=went.misses,
        canaries_usd=went.canaries_usd,
        tools_off=dict(tools.off),
    )


class _Plans:
    """The plan of one call of `judge`, made again for every round of batches."""

    def __init__(self, store: Store, asking: Asking, tools: Tools | None) -> None:
        self._new = partial(Plan, store, asking, tools)
        self.last = self._new()

    def again(self) -> Plan:
        """Return the plan from its beginning."""
        self.last = self._new()
        return self.last


def _went(
    store: Store,
    plans: _Plans,
    access: Access,
    progress: Progress | None,
    stopping: Callable[[], None] | None,
) -> Went:
    caller = Caller()
    loop = LoopThread(caller, access, progress)

    def keep(records: Sequence[Record]) -> None:
        store.append(records)

    asked = Asked(
        plan=lambda: _fetched(caller, plans, store),
        canaries=plans.last.canaries(),
        keep=keep,
    )
    # Ctrl-C is heard before the loop begins and until its thread is gone: in between, an exception
    # here would leave that thread waiting for this one for ever.
    with _heard(loop, stopping), ThreadPoolExecutor(1, thread_name_prefix="judges") as thread:
        going = thread.submit(asyncio.run, loop.run(asked))
        going.add_done_callback(lambda _: caller.end())
        caller.serve()
    if loop.aborted:
        raise KeyboardInterrupt
    return going.result()


def _fetched(caller: Caller, plans: _Plans, store: Store) -> Iterator[Judgement]:
    """Yield the judgements of a plan, made in the caller's thread."""
    plan = caller.do(plans.again)

    def fetch() -> list[Judgement]:
        found = plan.next(_AT_ONCE)
        if plan.absent >= _ABSENT_AT_ONCE or not found:
            store.append(plan.take())
        return found

    while batch := caller.do(fetch):
        yield from batch


@contextmanager
def _heard(loop: LoopThread, stopping: Callable[[], None] | None) -> Iterator[None]:
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
