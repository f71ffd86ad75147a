"""Ask judges about the runs of a store: plan, estimate, pay for what is not paid, keep the records.

The plan goes run by run, judge by judge, rubric by rubric, always in the same order; what cannot be
asked is counted. The loop of calls has a thread of its own, so that a notebook's running loop is no
obstacle; what concerns the store is done in the caller's thread. A stop sends nothing more and
waits for what was sent; a second one leaves at once. What was received is kept in any case.

An estimate is made from the same plan, and sends nothing. Its worst is what a budget reserves:
every byte a token, every image as dear as any, every answer as long as it may be. The likely is a
guess from usual texts and answers, and says so. Repairs of unreadable answers and further lookups
of a judge with tools are in neither.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from itertools import islice, product
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, TypeVar

import msgspec

from stepscope.judges import run as asking
from stepscope.judges import tools
from stepscope.judges.canaries import (
    CanaryResult,
    missed_canaries,
    quarantine_missed,
    rubric_canaries,
)
from stepscope.judges.goals import Goals
from stepscope.judges.judgement import (
    DEFAULT_OPTIONS,
    Judge,
    Judgement,
    JudgingOptions,
    record_measure,
    record_prompt,
    record_version,
)
from stepscope.judges.plan import plan_judgements
from stepscope.judges.rubrics import Rubric, RubricKind
from stepscope.judges.tools import Toolbox, add_file_tools
from stepscope.ledger.calls import CallClients, Pricing
from stepscope.ledger.ledger import Ledger, UnknownCall
from stepscope.measures.facts import supply_context
from stepscope.model import Record, Trajectory, Usage
from stepscope.model.records import BIAS_REPEAT, CHANGES, DRIFT_REPEAT
from stepscope.models.dialect import Ask
from stepscope.models.opening import close_models
from stepscope.runtime.signals import handle_stops
from stepscope.store import Store
from stepscope.store.where import Where
from stepscope.values import Unmeasured

T = TypeVar("T")

# Why a question is not asked that was paid for under another version of its rubric.
OLDER = "answered_under_another_version"
# How late a stop may be heard.
LOOK_UP_SECONDS = 0.25


class _CallerEnded(Exception):
    """The caller's thread does nothing more: something failed in it."""


class CallerThread:
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
                raise _CallerEnded
            self._asked.put((work, future))
        return future.result()

    def serve(self) -> None:
        """Do what is asked until the end; what fails here ends the loop, too."""
        with ExitStack() as at_the_end:
            at_the_end.callback(self._refuse)
            while (asked := self._wait()) is not None:
                work, future = asked
                with ExitStack() as unless_done:
                    unless_done.callback(future.set_exception, _CallerEnded())
                    done = work()
                    unless_done.pop_all()
                future.set_result(done)

    def _wait(self) -> tuple[Callable[[], Any], Future[Any]] | None:
        """Return what is asked next.

        A signal that comes just before a lock is waited for, or in another thread, interrupts
        nothing: its handler is only called when this thread looks up.
        """
        while True:
            with suppress(Empty):
                return self._asked.get(timeout=LOOK_UP_SECONDS)

    def _refuse(self) -> None:
        """Leave nobody waiting for what will not be done."""
        with self._lock:
            self._ended = True
            while not self._asked.empty():
                asked = self._asked.get()
                if asked is not None:
                    asked[1].set_exception(_CallerEnded())

    def end(self) -> None:
        """Let `serve` return."""
        self._asked.put(None)


class LoopThread:
    """The loop of calls, in a thread of its own; told from outside to stop, then to abort."""

    def __init__(
        self, caller: CallerThread, clients: CallClients, progress: asking.Progress | None
    ) -> None:
        self.aborted = False
        self.misses: tuple[CanaryResult, ...] = ()
        self.canaries_usd = 0.0
        self.unknown: tuple[UnknownCall, ...] = ()  # that asking about canaries found
        self._caller = caller
        self._clients = clients
        self._progress = progress
        self._stop = asyncio.Event()
        self._stops = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None

    async def run(
        self,
        plan: asking.PlanSource,  # gives the judgements, the same ones every time that it is called
        canaries: Sequence[Judgement],  # asked before; none where nobody is watched
        keep: asking.Keep,  # called in the caller's thread, with the records of real runs
    ) -> asking.JudgingStatistics:
        """Judge; return what was done. `misses` are the canaries that were answered wrongly."""
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._apply_stop()
        async with close_models(self._clients.models.values()):
            if canaries:
                # Never in a batch: the others wait for what they say.
                watched: list[Record] = []
                before = await self._run(canaries, watched.extend)
                self.canaries_usd, self.unknown = before.usd, before.unknown
                self.misses = missed_canaries(watched)

            def keep_sound(records: Sequence[Record]) -> None:
                sound = list(quarantine_missed(records, self.misses)) if self.misses else records
                self._caller.do(lambda: keep(sound))

            if self._clients.batches is None:
                return await self._run(plan(), keep_sound)
            return await asking.run_batched_judgements(
                plan, self._clients, keep=keep_sound, progress=self._progress, stop=self._stop
            )

    async def _run(self, asks: Iterable[Judgement], keep: asking.Keep) -> asking.JudgingStatistics:
        return await asking.run_judgements(
            asks, self._clients, keep=keep, progress=self._progress, stop=self._stop
        )

    def stop(self) -> bool:
        """Stop at the first call; abort at the second. Return whether it was the first."""
        self._stops += 1
        self.aborted = self._stops > 1
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._apply_stop)
        return self._stops == 1

    def _apply_stop(self) -> None:
        if self._stops:
            self._stop.set()
        if self._stops > 1 and self._task is not None:
            self._task.cancel()


@dataclass(eq=False, repr=False)
class JudgePlan:
    """Judgements of the runs of a store, made a few at a time; nothing else is held."""

    store: Store
    _: KW_ONLY
    rubrics: tuple[Rubric, ...]  # each is asked of every run
    judges: tuple[Judge, ...]  # each is asked by every rubric, whatever the others said
    where: Where | None = None  # which runs; None for all
    options: JudgingOptions = DEFAULT_OPTIONS  # how, and how often
    key: bytes = b""  # for the fences; the store's where it is empty
    # rubric -> ids of the runs that it is asked of; a rubric without an entry, of all
    drawn: Mapping[str, Container[str]] = field(default_factory=dict)
    files: Toolbox | None = None  # the tools over a workspace, while there are any

    def __post_init__(self) -> None:
        self.key = self.key or self.store.secret("fence")
        self.restart()

    def restart(self) -> JudgePlan:
        """Go back to the beginning; return the plan."""
        self.runs = 0
        # What could not be asked, by the first word of why.
        self.unasked: Counter[str] = Counter()
        self._keys = self.store.keys(self.where)
        self._answered: dict[str, set[tuple[str, str, int]]] = {}
        self._absent: list[Record] = []
        # The judgements, each with the number of the agent's steps in its run.
        self.planned = self._plan_all()
        return self

    @property
    def purged(self) -> int:
        """Runs that are chosen and whose texts are erased."""
        if not self.store.purged():
            return 0
        return len(self.store.runs(self.where)) - len(self._keys)

    @property
    def absent(self) -> int:
        """How many records `take` has to give."""
        return len(self._absent)

    def take(self) -> list[Record]:
        """Return the records of what could not be asked since the last call."""
        taken, self._absent = self._absent, []
        return taken

    @contextmanager
    def open_files(self) -> Iterator[None]:
        """Let judges look at a copy of the workspace, if any; `UsageError` for no folder."""
        if self.options.workspace is None:
            yield
            return
        nothing = Toolbox(tools={}, redactor=self.store.redactor)
        with add_file_tools(nothing, Path(self.options.workspace)) as self.files:
            yield

    def canaries(self) -> list[Judgement]:
        """Return the judgements of runs with known answers; they never enter the store."""
        if not self.options.canaries:
            return []
        return [
            item
            for judge in self.judges
            for rubric in self.rubrics
            for one in rubric_canaries(rubric)
            for item in self._plan(one.trajectory, judge, rubric, goals=one.goals)
            if isinstance(item, Judgement)
        ]

    def _plan_all(self) -> Iterator[tuple[Judgement, int]]:
        for key in self._keys:
            # One run at a time, and its rows read to the end: the store is written to meanwhile.
            for stored in list(self.store.stored([key])):
                self.runs += 1
                trajectory = stored.trajectory
                trajectory = supply_context(trajectory, self.store.facts(trajectory.workflow))
                if self.options.send_media:
                    trajectory = self.store.with_media(trajectory)
                acted = sum(step.actor == "agent" for step in trajectory.steps)
                repeats: Sequence[int] = range(self.options.repeats)
                if occasion := self.options.occasion:
                    repeats = [DRIFT_REPEAT + occasion - 1]
                if change := self.options.change:
                    repeats = [BIAS_REPEAT + CHANGES.index(change)]
                for judge, rubric, repeat in product(self.judges, self.rubrics, repeats):
                    drawn = self.drawn.get(rubric.name)
                    if drawn is not None and trajectory.id not in drawn:
                        continue
                    if (trajectory.id, judge.name, repeat) in self._paid(rubric):
                        self.unasked[OLDER] += 1
                        continue
                    for item in self._plan(trajectory, judge, rubric, repeat):
                        if isinstance(item, Judgement):
                            yield item, acted
                        else:
                            self._note(item, trajectory, judge, rubric, repeat)

    def _paid(self, rubric: Rubric) -> set[tuple[str, str, int]]:
        """Return run, judge and repeat of what was answered under other versions of a rubric."""
        found = self._answered.get(rubric.name)
        if found is None:
            measure = record_measure(rubric, self.options.mode)
            version = record_version(rubric, self.options)
            found = self._answered[rubric.name] = set()
            if not self.options.again:
                found |= self.store.judged_under_others(measure, version)
        return found

    def _plan(
        self,
        trajectory: Trajectory,
        judge: Judge,
        rubric: Rubric,
        repeat: int = 0,
        goals: Goals | None = None,
    ) -> Iterator[Judgement | Unmeasured]:
        options = self.options
        if goals is not None:
            options = msgspec.structs.replace(options, goals=goals)
        looks_up = options.tools and tools.allows_tools(rubric, options)
        planned = plan_judgements(
            trajectory,
            rubric=rubric,
            judge=tools.reserve_context(judge) if looks_up else judge,
            options=options,
            key=self.key,
            redactor=self.store.redactor,
            repeat=repeat,
        )
        if not looks_up:
            return planned
        toolbox = tools.trajectory_tools(
            trajectory, trajectory.case, redactor=self.store.redactor, narration=options.narration
        )
        if (files := self.files) is not None:
            toolbox = toolbox.with_more(files.tools.values(), off=files.off, state=files.state)
        return (
            tools.add_tools(item, toolbox, judge=judge, key=self.key)
            if isinstance(item, Judgement)
            else item
            for item in planned
        )

    def _note(
        self, absent: Unmeasured, trajectory: Trajectory, judge: Judge, rubric: Rubric, repeat: int
    ) -> None:
        self.unasked[asking.reason_word(absent)] += 1
        # A run without sub-goals has no scores, and a curve of none; it is no scored run.
        if rubric.kind == "score" and absent.step is None:
            return
        measure = record_measure(rubric, self.options.mode)
        self._absent.append(
            Record(
                trajectory=trajectory.id,
                answer=Unmeasured(absent.kind, absent.reason, measure, absent.step),
                version=record_version(rubric, self.options),
                family=judge.family,
                judge=judge.name,
                rubric=rubric.name,
                prompt=record_prompt(rubric, self.options),
                repeat=repeat,
            )
        )


# Judgements fetched at a time from the caller's thread: each may hold a whole run as text.
_AT_ONCE = 8
# Of what could not be asked: one commit of the store.
_ABSENT_AT_ONCE = 500


class JudgingResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one call of `judge_runs` did."""

    runs: int  # runs that judges were asked about
    purged: int  # runs that were chosen and whose texts are erased
    unasked: dict[str, int]  # questions that no judge was asked, by the first word of why
    ran: asking.JudgingStatistics  # what was bought, kept, lost and paid
    # canaries that a judge answered wrongly; its answers to that rubric are set aside
    misses: tuple[CanaryResult, ...] = ()
    canaries_usd: float = 0.0  # what was paid for asking about canaries, besides
    # why tools that judges could have had were off, by name
    tools_off: dict[str, str] = msgspec.field(default_factory=dict)
    notes: tuple[str, ...] = ()  # on test sets that were seen before

    def __str__(self) -> str:
        return "\n".join(_result_lines(self))


def _result_lines(judged: JudgingResult) -> Iterator[str]:
    ran = judged.ran
    yield (
        f"{judged.runs:,} runs, {ran.judgements:,} judgements, {ran.records:,} answers stored; "
        f"replies: {ran.bought:,} new from judges, {ran.from_ledger:,} from the ledger"
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
    # Once of each judge and rubric, with one reason.
    for judge, rubric in dict.fromkeys((one.judge, one.rubric) for one in judged.misses):
        missed = [one for one in judged.misses if (one.judge, one.rubric) == (judge, rubric)]
        yield (
            f"{judge} missed {len(missed)} canaries of {rubric}: its answers are set aside; "
            f"{missed[0].canary}: {missed[0].what}"
        )
    for why in sorted(set(judged.tools_off.values())):
        names = ", ".join(name for name, said in judged.tools_off.items() if said == why)
        yield f"tools off: {names}: {why}"
    if ran.unknown:
        yield (
            f"{len(ran.unknown):,} calls of unknown outcome, perhaps paid twice, counted as "
            f"${ran.unknown_usd:.4f}"
        )
    for call in ran.unknown:
        said = f"{call.subject[:12]} {call.purpose}, sending {call.attempt}, ${call.usd:.4f}"
        yield f"  {said}: {call.why}"
    if judged.purged:
        yield f"{judged.purged:,} runs left out: their texts are erased"
    yield from judged.notes
    if ran.stopped:
        yield "stopped; received replies are kept: run the same command again to resume"


def judge_runs(
    plan: JudgePlan,  # its store is read from and written to, in durable batches
    clients: CallClients,  # what calls go through
    *,
    # called after every judgement with how many are done, and USD paid
    progress: asking.Progress | None = None,
    # called when Ctrl-C was heard and calls in flight are waited for
    stopping: Callable[[], None] | None = None,
) -> JudgingResult:
    """Ask judges about runs; what they said before is not asked again.

    `ConfigError` where a budget holds and the price of a judge is not known, `KeyboardInterrupt`
    where Ctrl-C was heard twice; `EnvironmentFault` where the disk is full: calling again goes on.
    """
    caller = CallerThread()
    loop = LoopThread(caller, clients, progress)
    with plan.open_files():
        canaries = plan.canaries()
        # Ctrl-C is heard before the loop begins and until its thread is gone: in between, an
        # exception here would leave that thread waiting for this one for ever.
        with (
            _hear_interrupts(loop, stopping),
            ThreadPoolExecutor(1, thread_name_prefix="judges") as thread,
        ):
            work = loop.run(lambda: _fetch_judgements(caller, plan), canaries, plan.store.append)
            going = thread.submit(asyncio.run, work)
            going.add_done_callback(lambda _: caller.end())
            caller.serve()
        if loop.aborted:
            raise KeyboardInterrupt
        ran = going.result()
    return JudgingResult(
        runs=plan.runs,
        purged=plan.purged,
        unasked=dict(sorted(plan.unasked.items())),
        ran=msgspec.structs.replace(ran, unknown=loop.unknown + ran.unknown),
        misses=loop.misses,
        canaries_usd=loop.canaries_usd,
        tools_off={} if plan.files is None else dict(plan.files.off),
    )


def _fetch_judgements(caller: CallerThread, plan: JudgePlan) -> Iterator[Judgement]:
    """Yield the judgements of a plan from its beginning, made in the caller's thread."""
    caller.do(plan.restart)

    def fetch() -> list[tuple[Judgement, int]]:
        found = list(islice(plan.planned, _AT_ONCE))
        if plan.absent >= _ABSENT_AT_ONCE or not found:
            plan.store.append(plan.take())
        return found

    while batch := caller.do(fetch):
        for judgement, _ in batch:
            yield judgement


@contextmanager
def _hear_interrupts(loop: LoopThread, stopping: Callable[[], None] | None) -> Iterator[None]:
    """Tell the loop of a stop, where this is the thread that hears of it."""

    def hear(number: int, frame: FrameType | None) -> None:
        if loop.stop() and stopping is not None:
            with suppress(OSError):  # a terminal that hung up shows nothing
                stopping()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with handle_stops(hear):
        yield


# A picture of a screen, at the large providers: 700 to 2,500.
_TOKENS_PER_IMAGE = 1_500
# English text and JSON in the tokenisers of the large providers: 3.5 to 4.5.
_BYTES_PER_TOKEN = 4
# Answers of the length that the rubrics ask for: tokens of one, and of each step's part in it.
_WHOLE_TOKENS: dict[RubricKind, int] = {
    "axis": 350,
    "attribution": 350,
    "score": 100,
    "labels": 40,
    "presence": 60,
}
_STEP_TOKENS: dict[RubricKind, int] = {"labels": 50, "presence": 25}
# Judgements that are held at a time; fewer where each may hold images.
_LOOKED_UP = 200
_LOOKED_UP_WITH_MEDIA = 10


class CostEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """What one judge would be asked by one rubric."""

    judge: str  # who
    rubric: str  # by what
    judgements: int = 0  # questions about runs, steps and sub-goals
    calls: int = 0  # requests that they need, repairs not counted
    bought: int = 0  # of these, with a reply in the ledger
    input_tokens: int = 0  # what the others would read, likely
    output_tokens: int = 0  # what they would write, likely
    images: int = 0  # what they would be sent of them, each as often as it is sent
    images_left_out: int = 0  # images of their steps that would not be sent, though images are
    worst_usd: float | None = 0.0  # what they can cost; None where the price is not known
    likely_usd: float | None = 0.0  # what they probably cost


class DryRun(msgspec.Struct, frozen=True, kw_only=True):
    """What judging would ask and cost; nothing was sent."""

    rows: tuple[CostEstimate, ...]  # one a judge and rubric, in the order they are asked
    runs: int  # runs that would be asked about
    purged: int  # runs that were chosen and whose texts are erased
    unasked: dict[str, int]  # questions that no judge would be asked, by the first word of why
    budget_usd: float | None  # the most that may be spent; None without a limit
    missing: tuple[str, ...] = ()  # what judging lacks: keys, extras, settings
    # what answering anew would probably cost that was answered under another version
    again_usd: float | None = None

    @property
    def calls(self) -> int:
        """Requests that would be sent."""
        return sum(row.calls - row.bought for row in self.rows)

    @property
    def worst_usd(self) -> float | None:
        """What all of it can cost; None where a price is not known."""
        return asking.sum_all(row.worst_usd for row in self.rows)

    @property
    def likely_usd(self) -> float | None:
        """What all of it probably costs; None where a price is not known."""
        return asking.sum_all(row.likely_usd for row in self.rows)

    def line(self) -> str:
        """Say it in a line."""
        likely, worst = _money(self.likely_usd), _money(self.worst_usd)
        budget = "none" if self.budget_usd is None else f"${self.budget_usd:.2f}"
        sent = sum(row.images for row in self.rows)
        left_out = sum(row.images_left_out for row in self.rows)
        images = f" with {sent:,} images, {left_out:,} left out" if sent or left_out else ""
        older = self.unasked.get(OLDER, 0)
        again = (
            f"; {older:,} questions answered under another version of their rubric are not asked "
            f"again (--again asks them, likely {_money(self.again_usd)})"
        )
        return (
            f"{self.runs:,} runs, {self.calls:,} calls to buy{images}; likely {likely}, "
            f"at worst {worst}; budget {budget}{again if older else ''}"
        )

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def dry_run(
    plan: JudgePlan,  # as for `judge_runs`
    *,
    prices: Pricing,  # what calls cost
    ledger: Ledger | None,  # of what is bought already; None where there is none yet
    budget_usd: float | None,  # told beside what it would cost
) -> DryRun:
    """Return what judging would ask and cost; sends nothing, keeps nothing."""
    with plan.open_files():
        rows = _estimates(plan, prices, ledger)
    runs, purged, unasked = plan.runs, plan.purged, dict(sorted(plan.unasked.items()))
    return DryRun(rows=rows, runs=runs, purged=purged, unasked=unasked, budget_usd=budget_usd)


def _estimates(plan: JudgePlan, prices: Pricing, ledger: Ledger | None) -> tuple[CostEstimate, ...]:
    rows: dict[tuple[str, str], CostEstimate] = {
        (judge.name, rubric.name): CostEstimate(judge=judge.name, rubric=rubric.name)
        for judge in plan.judges
        for rubric in plan.rubrics
    }
    kinds = {rubric.name: rubric.kind for rubric in plan.rubrics}
    at_once = _LOOKED_UP_WITH_MEDIA if plan.options.send_media else _LOOKED_UP
    while some := list(islice(plan.planned, at_once)):
        keys = [ask.key for judgement, _ in some for ask in judgement.asks]
        held = set() if ledger is None else ledger.holds(keys)
        for judgement, steps in some:
            place = (judgement.judge.name, judgement.rubric)
            row = rows[place]
            row = msgspec.structs.replace(row, judgements=row.judgements + 1)
            for ask in judgement.asks:
                kind = kinds[judgement.rubric]
                asks = len(judgement.asks)
                tokens = _WHOLE_TOKENS[kind] + _STEP_TOKENS.get(kind, 0) * steps // asks
                written = min(tokens, ask.request.max_output_tokens)
                bought = ask.key in held
                row = _add_call(row, ask, written, prices, bought=bought, batch=plan.options.batch)
            rows[place] = row
        plan.take()
    return tuple(rows.values())


def _add_call(
    row: CostEstimate, ask: Ask, written: int, prices: Pricing, *, bought: bool, batch: bool
) -> CostEstimate:
    """Return a row with one more call."""
    if bought:
        return msgspec.structs.replace(row, calls=row.calls + 1, bought=row.bought + 1)
    request = ask.request
    texts = (request.system, request.context, request.question)
    read = sum(len(text.encode("utf-8", "replace")) for text in texts) // _BYTES_PER_TOKEN
    read += _TOKENS_PER_IMAGE * len(request.media)
    usage = Usage(input_total=read, output_total=written, source="estimated")
    return msgspec.structs.replace(
        row,
        calls=row.calls + 1,
        input_tokens=row.input_tokens + read,
        output_tokens=row.output_tokens + written,
        images=row.images + len(request.media),
        images_left_out=row.images_left_out + ask.images_left_out,
        worst_usd=asking.sum_all([row.worst_usd, prices.worst(ask.model, request, batch=batch)]),
        likely_usd=asking.sum_all([row.likely_usd, prices.cost(ask.model, usage, batch=batch)]),
    )


def _lines(dry: DryRun) -> Iterator[str]:
    yield (
        f"{'judge':<32} {'rubric':<28} {'calls':>7} {'bought':>7} {'tokens in':>11} "
        f"{'out':>9} {'likely':>10} {'worst':>10}"
    )
    for row in dry.rows:
        likely, worst = _money(row.likely_usd), _money(row.worst_usd)
        yield (
            f"{row.judge:<32} {row.rubric:<28} {row.calls:>7,} {row.bought:>7,} "
            f"{row.input_tokens:>11,} {row.output_tokens:>9,} {likely:>10} {worst:>10}"
        )
    yield f"{dry.line()}; nothing was sent"
    if dry.unasked:
        yield "not asked: " + ", ".join(f"{n:,} {word}" for word, n in dry.unasked.items())
    for lack in dry.missing:
        yield f"missing: {lack}"
    if dry.purged:
        yield f"{dry.purged:,} runs left out: their texts are erased"


def _money(usd: float | None) -> str:
    return "unknown" if usd is None else f"${usd:.4f}"
