"""Import traces into the store, in parallel, with an account of what became of every file.

The parent process splits files and writes; the others read and encode. What comes out, and in what
order, does not depend on how many processes there are: the same bytes of the same chunk give the
same rows. A small import stays in one process. Memory is bounded whatever the files.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain

import msgspec

from stepscope.errors import StepscopeError, TraceError, UsageError
from stepscope.formats import reading as trace_files
from stepscope.formats.finish import Ordinals
from stepscope.model import SCORES, Quarantined, Trajectory
from stepscope.runtime.processes import Executor, Job, cores
from stepscope.safety.limits import MIB, Limits
from stepscope.store import Store
from stepscope.store.runs import PreparedRun, prepare_run
from stepscope.values import format_count

# Of its id, what is the name of a run that has none.
_NAME_DIGITS = 12
# Starting processes costs about half a second: what reading this much costs in one process.
POOL_FROM_BYTES = 24 * MIB
# One frame: some ten milliseconds of work.
_BATCH_BYTES = MIB
_BATCH_EVENTS = 256
# Frames a process that are asked before their turn: it works on while a transaction is flushed.
_AHEAD = 8
_DIED = (
    "a reading process ended (exit code {code}); records read so far are kept: run it again to "
    "resume, with --workers 1 if memory is short"
)
_encode = msgspec.msgpack.encode


class RunDefaults(msgspec.Struct, frozen=True):
    """What a run is given where its trace lacks it."""

    agent: str | None = None
    agent_version: str | None = None
    tags: dict[str, str] = {}
    workflow: str | None = None
    task: str | None = None
    trial: str | None = None

    def of(self, run: Trajectory) -> Trajectory:
        """Return the run with what it lacked; a workflow that is the format's name is none."""
        if self == RunDefaults():
            return run
        named = run.workflow not in ("", run.source.format)
        workflow = run.workflow if named else self.workflow or run.workflow
        task = self.task if run.task is None else run.task
        trial = self.trial if run.trial is None else run.trial
        name, before = run.name, filter(None, (run.workflow, run.task, run.trial))
        if task is not None and name in (run.id[:_NAME_DIGITS], "/".join(before)):
            name = "/".join(filter(None, (workflow, task, trial)))
        case = run.case
        if case is not None:
            case = msgspec.structs.replace(case, workflow=workflow, task=case.task or task or "")
        return msgspec.structs.replace(
            run,
            name=name,
            workflow=workflow,
            task=task,
            trial=trial,
            agent=run.agent or self.agent,
            agent_version=run.agent_version or self.agent_version,
            tags={**self.tags, **run.tags},
            case=case,
        )


class ImportPlan(msgspec.Struct, frozen=True):
    """What every process needs to know."""

    limits: Limits
    filling: RunDefaults
    move_media: bool


class ChunkRows(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What came of a portion, as rows; `seen` are the contents whose ordinal was asked for."""

    runs: list[PreparedRun]
    broken: list[Quarantined]
    counts: trace_files.Counts
    seen: dict[bytes, int]
    fault: tuple[str, str] | None


# What comes out: runs as rows, broken records, and after each file its account.
ImportItem = PreparedRun | Quarantined | trace_files.Account
# In the order of the files; a portion stands for what comes of it, None for the end of a file.
ReadEvent = trace_files.FileChunk | PreparedRun | Quarantined | None


class _Batch:
    """Events in order, how many bytes they hold, and what ended the reading behind them."""

    def __init__(self) -> None:
        self.events: list[tuple[trace_files.ChunkJoiner, ReadEvent]] = []
        self.bytes = 0
        self.failure: StepscopeError | None = None

    def add(self, joint: trace_files.ChunkJoiner, event: ReadEvent) -> None:
        self.events.append((joint, event))
        if isinstance(event, trace_files.FileChunk | Quarantined):
            self.bytes += len(event.raw)
        elif isinstance(event, PreparedRun):
            self.bytes += event.held_bytes

    @property
    def full(self) -> bool:
        return self.bytes >= _BATCH_BYTES or len(self.events) >= _BATCH_EVENTS

    @property
    def portions(self) -> list[trace_files.FileChunk]:
        return [event for _, event in self.events if isinstance(event, trace_files.FileChunk)]


_plans = msgspec.msgpack.Decoder(ImportPlan)
_frames = msgspec.msgpack.Decoder(list[trace_files.FileChunk])
_replies = msgspec.msgpack.Decoder(list[ChunkRows])


def read_rows(
    paths: Sequence[str | bytes], plan: ImportPlan, *, format_name: str | None, workers: int | None
) -> Iterator[ImportItem]:
    """Yield what the paths hold, in order; the arguments are those of `Notebook.add`.

    `TraceError` where a path named is no trace, after all before it; `UsageError` for a glob that
    matches nothing and a folder without files.
    """
    found = trace_files.read_files(paths, format_name=format_name, limits=plan.limits)
    for batch, replies in _answer_batches(_batches(found, plan), plan, workers):
        answers = iter(replies)
        for joint, event in batch.events:
            match event:
                case trace_files.FileChunk():
                    reply = next(answers)
                    if joint.knows(reply.seen):
                        reply = _encode_chunk(event, plan, joint.ordinals)
                    else:
                        joint.ordinals.seen.update(reply.seen)
                    yield from reply.runs
                    yield from reply.broken
                    joint.take(reply.counts, reply.fault)
                case None:
                    yield joint.reading.account
                case _:
                    yield event
        if batch.failure is not None:
            raise batch.failure


def _batches(found: Iterable[trace_files.FileReading], plan: ImportPlan) -> Iterator[_Batch]:
    batch = _Batch()
    try:
        for reading in found:
            joint = trace_files.ChunkJoiner(reading)
            for event in _events(reading, plan):
                batch.add(joint, event)
                if batch.full:
                    yield batch
                    batch = _Batch()
    except StepscopeError as e:
        batch.failure = e  # raised in its turn, behind what was read before it
    yield batch


def _events(reading: trace_files.FileReading, plan: ImportPlan) -> Iterator[ReadEvent]:
    split = trace_files.split_file(reading)
    if split is None:
        for item in reading:
            yield item if isinstance(item, Quarantined) else _prepare(item, plan)
    else:
        for part in split:
            if isinstance(part, Quarantined):
                reading.counts.add(part)
            yield part
    yield None


def _answer_batches(
    batches: Iterator[_Batch], plan: ImportPlan, workers: int | None
) -> Iterator[tuple[_Batch, list[ChunkRows]]]:
    if workers is None:
        ahead, size = [], 0
        for batch in batches:
            ahead.append(batch)
            size += batch.bytes
            if size >= POOL_FROM_BYTES:
                break
        workers = cores() if size >= POOL_FROM_BYTES else 1
        batches = chain(ahead, batches)
    if workers == 1:
        for batch in batches:
            yield batch, _answer_frame(batch.portions, plan)
        return
    executor = Executor(workers=workers, ahead=_AHEAD, died=_DIED)
    jobs = (Job(batch, _encode(batch.portions), batch.bytes) for batch in batches)
    for batch, reply in executor.map(begin_reading, _encode(plan), jobs):
        yield batch, _replies.decode(reply)


@contextmanager
def begin_reading(first: bytes) -> Iterator[Callable[[bytes], bytes]]:
    """Give what reads chunks of files in a child process, `first` being the plan."""
    plan = _plans.decode(first)
    yield lambda frame: _encode(_answer_frame(_frames.decode(frame), plan))


def _answer_frame(asked: Iterable[trace_files.FileChunk], plan: ImportPlan) -> list[ChunkRows]:
    return list(map(partial(_encode_chunk, plan=plan), asked))


def _encode_chunk(
    portion: trace_files.FileChunk, plan: ImportPlan, ordinals: Ordinals | None = None
) -> ChunkRows:
    ordinals = ordinals or Ordinals()
    runs, broken, counts, fault = [], [], trace_files.Counts(), None
    try:
        for item in trace_files.read_chunk(portion, plan.limits, ordinals, counts):
            if isinstance(item, Quarantined):
                broken.append(item)
            else:
                runs.append(_prepare(item, plan))
    except TraceError as e:
        fault = (type(e).__name__, str(e))
    return ChunkRows(runs, broken, counts, ordinals.seen, fault)


def _prepare(run: Trajectory, plan: ImportPlan) -> PreparedRun:
    return prepare_run(plan.filling.of(run), move_media=plan.move_media)


Progress = Callable[[int, int], None]

# Files that are named of those that are no traces, of each kind.
_NAMED_FILES = 5
# Files whose accounts are one durable transaction: with one each, the disk would be the limit.
_ACCOUNTS_AT_ONCE = 256
# Broken records held before they are stored: each keeps its bytes, up to the limit of a record.
MOST_HELD = 16


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """What an import found, and what of it the store did not know yet."""

    runs: int  # runs that were read
    new: int  # of these, not in the store before
    known: int  # in the store before; a late outcome, label or tag was taken over
    superseded: int  # longer versions of a session that the store had
    repaired: dict[str, int]  # records that were read after a repair, by code
    # records that could not be read, and step scores that contradict what the store knows of their
    # run; all are kept aside
    quarantined: int
    skipped: int  # files in a folder that hold no runs
    files: tuple[trace_files.Account, ...]  # the account of each file

    def __str__(self) -> str:
        """One line a file, then the sum."""
        return self.lines(self.files)

    def lines(self, files: Iterable[trace_files.Account]) -> str:
        """Return one line for each of these files, then the sum."""
        noun = "run" if self.runs == 1 else "runs"
        parts = [f"{self.runs:,} {noun}: {self.new:,} new, {self.known:,} known"]
        if self.superseded:
            parts.append(f"{self.superseded:,} grown")
        if self.repaired:
            found = ", ".join(f"{n:,} {code}" for code, n in sorted(self.repaired.items()))
            parts.append(f"repaired: {found}")
        parts.append(f"{self.quarantined:,} set aside")
        if self.skipped:
            parts.append(f"{format_count(self.skipped, 'file')} without runs")
        return "\n".join([*_account_lines(files), "; ".join(parts)])

    @property
    def failed(self) -> tuple[str, ...]:
        """Files of which nothing could be read; all, where no run came of any."""
        lost = tuple(one.uri for one in self.files if one.failed)
        read = any(one.runs or one.scores for one in self.files)
        return lost if read or lost else tuple(one.uri for one in self.files)


def _account_lines(files: Iterable[trace_files.Account]) -> Iterator[str]:
    """Yield a line for each file; files that are not traces share one for each kind."""
    alike: dict[str, list[trace_files.Account]] = {}
    for account in files:
        if (kind := account.skipped) is None:
            yield account.line()
        else:
            alike.setdefault(kind, []).append(account)
    for kind, accounts in alike.items():
        if len(accounts) == 1:
            yield accounts[0].line()
            continue
        named = [one.uri for one in accounts[:_NAMED_FILES]]
        more = len(accounts) - len(named)
        told = ", ".join(named) + (f" and {more:,} more" if more else "")
        yield f"{len(accounts):,} files that are not traces ({kind}): {told}"


class RunNames:
    """Which runs came by: their ids, and the names of runs that step scores were read for."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.names: list[str] = []

    def watch(self, items: Iterable[ImportItem]) -> Iterator[ImportItem]:
        """Yield the items, and note the runs among them."""
        for item in items:
            if isinstance(item, PreparedRun):
                self.names.append(item.name) if item.format == SCORES else self.ids.append(item.id)
            yield item


def import_traces(
    store: Store,
    paths: Sequence[str | bytes],
    *,
    format_name: str | None,
    limits: Limits,
    strict: bool,
    filling: RunDefaults,
    workers: int | None,
    progress: Progress,
    read: RunNames | None = None,
) -> Added:
    """Read every path into the store; each run passes through `filling` on its way.

    `TraceError` where a path named is no trace: what came before it is kept. When `strict`, also
    where anything was repaired, set aside or skipped: then nothing at all is kept.
    `EnvironmentFault` where the disk is full or a process died: calling again goes on.
    """
    plan = ImportPlan(limits, filling, move_media=store.blobs is not None)
    items = partial(read_rows, paths, plan, format_name=format_name, workers=workers)
    if strict:
        if "-" in paths:
            raise UsageError("strict reads everything twice, and standard input comes only once")
        _refuse_quarantined(items())
    return store_items(store, items() if read is None else read.watch(items()), progress)


def store_items(store: Store, items: Iterator[ImportItem], progress: Progress) -> Added:
    """Keep what arrives, each file's account behind what came of it; return what there was.

    What came before an error that the items raise is kept.
    """
    accounts: list[trace_files.Account] = []
    stopped: list[StepscopeError] = []
    arriving = _store_others(store, items, accounts, stopped, progress)
    with closing(arriving) as runs:  # no process outlives an interruption
        counts = store.put_prepared(runs)
    if stopped:
        raise stopped[0]
    repaired: Counter[str] = Counter()
    for account in accounts:
        repaired.update(account.repaired)
    return Added(
        runs=sum(account.runs for account in accounts),
        new=counts.new,
        known=counts.known,
        superseded=counts.superseded,
        repaired=dict(repaired),
        quarantined=sum(account.quarantined for account in accounts) + counts.refused,
        skipped=sum(account.problem is not None for account in accounts),
        files=tuple(accounts),
    )


def _store_others(
    store: Store,
    items: Iterator[ImportItem],
    accounts: list[trace_files.Account],
    stopped: list[StepscopeError],
    progress: Progress,
) -> Generator[PreparedRun]:
    """Yield the runs; keep what else arrives on the spot.

    An error of ours among the items is the end; it is raised when what came before it is kept.
    """
    start_ns, done = time.time_ns(), 0
    broken: list[Quarantined] = []
    late: list[trace_files.Account] = []

    def keep() -> None:
        if broken:
            store.quarantine(broken)
        if late:
            store.keep_accounts([(one.uri, msgspec.to_builtins(one)) for one in late], start_ns)
        broken.clear()
        late.clear()

    while True:
        try:
            item = next(items, None)
        except StepscopeError as e:
            stopped.append(e)
            break
        if item is None:
            break
        if isinstance(item, PreparedRun):
            yield item
            done += 1
            progress(done, 0)
        elif isinstance(item, Quarantined):
            broken.append(item)
            if len(broken) >= MOST_HELD:
                store.quarantine(broken)
                broken.clear()
        else:
            accounts.append(item)
            late.append(item)
            if len(late) >= _ACCOUNTS_AT_ONCE:
                keep()
    keep()


def _refuse_quarantined(read: Iterator[ImportItem]) -> None:
    for item in read:
        if isinstance(item, Quarantined):
            where = f"{item.uri}, byte {item.offset}: {item.reason}"
            raise TraceError(f"{where}; strict keeps nothing", offset=item.offset)
        if isinstance(item, trace_files.Account) and (item.problem is not None or item.repaired):
            raise TraceError(f"{item.line()}; strict keeps nothing")
