"""Traces into the store, with the account of every file: what was read, mended, set aside."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial

import msgspec

from stepscope.api.reading import Filling, Item, Plan, rows
from stepscope.errors import StepscopeError, TraceError, UsageError
from stepscope.formats.account import Account
from stepscope.model import Quarantined
from stepscope.safety.limits import Limits
from stepscope.store import Store
from stepscope.store.prepared import Prepared

Progress = Callable[[int, int], None]

# Broken records held before they are stored: each keeps its bytes, up to the limit of a record.
HELD = 16


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """What an import found, and what of it the store did not know yet.

    Attributes:
        runs: runs that were read.
        new: of these, not in the store before.
        known: in the store before; a late outcome, label or tag was taken over.
        superseded: longer versions of a session that the store had.
        repaired: records that were read after a repair, by code.
        quarantined: records that could not be read, and step scores that contradict what the store
            knows of their run; all are kept aside.
        skipped: files in a folder that hold no runs.
        files: the account of each file.
    """

    runs: int
    new: int
    known: int
    superseded: int
    repaired: dict[str, int]
    quarantined: int
    skipped: int
    files: tuple[Account, ...]

    def __str__(self) -> str:
        """One line a file, then the sum."""
        noun = "run" if self.runs == 1 else "runs"
        parts = [f"{self.runs:,} {noun}: {self.new:,} new, {self.known:,} known"]
        if self.superseded:
            parts.append(f"{self.superseded:,} grown")
        if self.repaired:
            found = ", ".join(f"{n:,} {code}" for code, n in sorted(self.repaired.items()))
            parts.append(f"repaired: {found}")
        parts.append(f"{self.quarantined:,} quarantined")
        if self.skipped:
            parts.append(f"{self.skipped:,} files without runs")
        total = "; ".join(parts)
        lines = [account.line() for account in self.files]
        return "\n".join([*lines, total])


def add(
    store: Store,
    paths: Sequence[str],
    *,
    format_name: str | None,
    limits: Limits,
    strict: bool,
    filling: Filling,
    workers: int | None,
    progress: Progress,
) -> Added:
    """Read every path into the store; each run passes through `filling` on its way.

    Raises:
        TraceError: a path named is no trace; what came before it is kept. Or, when `strict`,
            anything was repaired, set aside or skipped: then nothing at all is kept.
        EnvironmentFault: the disk is full, or a process died; calling again goes on.
    """
    read = partial(
        rows,
        paths,
        Plan(limits, filling, move_media=store.blobs is not None),
        format_name=format_name,
        workers=workers,
    )
    if strict:
        if "-" in paths:
            raise UsageError("strict reads everything twice, and standard input comes only once")
        _insist(read())
    return keep(store, read(), progress)


def keep(store: Store, items: Iterator[Item], progress: Progress) -> Added:
    """Keep what arrives, each file's account behind what came of it; return what there was.

    Raises:
        StepscopeError: what the items raised; what came before it is kept.
    """
    accounts: list[Account] = []
    stopped: list[StepscopeError] = []
    arriving = _arriving(store, _until(items, stopped), accounts, time.time_ns())
    with closing(_counted(arriving, progress)) as runs:  # no process outlives an interruption
        counts = store.put_prepared(runs)
    if stopped:
        raise stopped[0]
    repaired: dict[str, int] = {}
    for account in accounts:
        for code, n in account.repaired.items():
            repaired[code] = repaired.get(code, 0) + n
    return Added(
        runs=sum(account.runs for account in accounts),
        new=counts.new,
        known=counts.known,
        superseded=counts.superseded,
        repaired=repaired,
        quarantined=sum(account.quarantined for account in accounts) + counts.refused,
        skipped=sum(account.problem is not None for account in accounts),
        files=tuple(accounts),
    )


def _until(items: Iterator[Item], stopped: list[StepscopeError]) -> Iterator[Item]:
    """Yield until an error of ours, which is raised when what came before it is kept."""
    try:
        yield from items
    except StepscopeError as e:
        stopped.append(e)


def _arriving(
    store: Store, items: Iterator[Item], accounts: list[Account], start_ns: int
) -> Iterator[Prepared]:
    """Yield the runs; keep what else arrives on the spot."""
    broken: list[Quarantined] = []
    for item in items:
        if isinstance(item, Prepared):
            yield item
        elif isinstance(item, Quarantined):
            broken.append(item)
            if len(broken) >= HELD:
                store.quarantine(broken)
                broken.clear()
        else:
            store.quarantine(broken)
            broken.clear()
            store.keep_account(item.uri, msgspec.to_builtins(item), start_ns)
            accounts.append(item)
    store.quarantine(broken)


def _counted(runs: Iterator[Prepared], progress: Progress) -> Generator[Prepared]:
    for done, run in enumerate(runs, 1):
        yield run
        progress(done, 0)


def _insist(read: Iterator[Item]) -> None:
    for item in read:
        if isinstance(item, Quarantined):
            raise TraceError(
                f"{item.uri}, byte {item.offset}: {item.reason}; strict keeps nothing",
                offset=item.offset,
            )
        if isinstance(item, Account) and (item.problem is not None or item.repaired):
            raise TraceError(f"{item.line()}; strict keeps nothing")
