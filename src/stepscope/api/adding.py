"""Traces into the store, with the account of every file: what was read, mended, set aside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from stepscope.errors import TraceError, UsageError
from stepscope.formats.importing import Account, readings
from stepscope.model import Quarantined, Trajectory
from stepscope.safety.limits import Limits
from stepscope.store import Store

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
        quarantined: records that could not be read and are kept aside.
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
    filled: Callable[[Trajectory], Trajectory],
    progress: Progress,
) -> Added:
    """Read every path into the store; each run passes through `filled` on its way.

    Raises:
        TraceError: a path named is no trace; or, when `strict`, anything was repaired, set aside
            or skipped: then nothing at all is kept.
    """
    if strict:
        if "-" in paths:
            raise UsageError("strict reads everything twice, and standard input comes only once")
        _insist(paths, format_name, limits)
    accounts: list[Account] = []

    def runs() -> Iterator[Trajectory]:
        done = 0
        for reading in readings(paths, format_name=format_name, limits=limits):
            broken: list[Quarantined] = []
            for item in reading:
                if isinstance(item, Quarantined):
                    broken.append(item)
                    if len(broken) >= HELD:
                        store.quarantine(broken)
                        broken.clear()
                    continue
                yield filled(item)
                done += 1
                progress(done, 0)
            store.quarantine(broken)
            store.keep_account(reading.account.uri, msgspec.to_builtins(reading.account))
            accounts.append(reading.account)

    counts = store.put(runs())
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
        quarantined=sum(account.quarantined for account in accounts),
        skipped=sum(account.problem is not None for account in accounts),
        files=tuple(accounts),
    )


def fill(
    agent: str | None, agent_version: str | None, tags: Mapping[str, str]
) -> Callable[[Trajectory], Trajectory]:
    """Return what gives a run the agent, version and tags that its trace lacks."""

    def filled(run: Trajectory) -> Trajectory:
        return msgspec.structs.replace(
            run,
            agent=run.agent or agent,
            agent_version=run.agent_version or agent_version,
            tags={**tags, **run.tags},
        )

    return filled if agent or agent_version or tags else lambda run: run


def _insist(paths: Sequence[str], format_name: str | None, limits: Limits) -> None:
    for reading in readings(paths, format_name=format_name, limits=limits):
        for item in reading:
            if isinstance(item, Quarantined):
                raise TraceError(
                    f"{item.uri}, byte {item.offset}: {item.reason}; strict keeps nothing",
                    offset=item.offset,
                )
        account = reading.account
        if account.problem is not None or account.repaired:
            raise TraceError(f"{account.line()}; strict keeps nothing")
