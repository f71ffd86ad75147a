"""SIGKILL at random moments with 32 calls in flight: nothing received is lost, nothing paid unseen.

`python -m bars.judges.judge_kills [KILLS]`, 500 unless given. A process judges runs at a scripted
provider and is killed at a random moment of the time that the whole work takes; the next one goes
on, until one comes to its end; then the next store begins. The oracle is the provider's append-only
file.

Code 0: no verdict twice or missing, no committed reply asked again, every further payment listed
beforehand as of unknown outcome, at most 32 of them a kill; 3: one of these is missed.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import stepscope.models.http  # noqa: F401 (loaded once, before processes are made)
from bars.judges import _judging as judging
from stepscope.ledger.ledger import ledger_path
from tests.faults.providers import Provider, started
from tests.faults.script import Fault, Script

KILLS = 500
RUNS = 30
# A call takes so long: with 32 in flight the provider always holds some.
DELAY_SECONDS = 0.05


class Counts:
    """What the kills did, and every promise that one of them broke."""

    def __init__(self) -> None:
        self.kills = 0
        self.stores = 0
        self.in_flight: Counter[int] = Counter()
        self.paid_again = 0
        self.listed = 0
        self.committed = 0
        self.broken: list[str] = []


def campaign(
    folder: Path,
    provider: Provider,
    reference: judging.Reference,
    rng: random.Random,
    *,
    counts: Counts,
    most: int,
    seconds: float,
) -> None:
    """Judge one store, killing it at most so often; compare what is left with the reference."""
    path = folder / "work.db"
    shutil.copy(reference.store, path)
    began = len(provider.entries())
    kept: frozenset[str] = frozenset()
    while True:
        child = judging.forked(lambda: _work(path, provider.openai))
        moment = rng.random() * seconds if counts.kills < most else 600.0
        code = judging.ended(child, within=moment)
        if code is not None:
            if code:
                counts.broken.append(f"store {counts.stores}: a process ended with code {code}")
            break
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        counts.kills += 1
        now = judging.held(path)
        counts.in_flight[now.sent] += 1
        if now.sent > judging.IN_FLIGHT:
            counts.broken.append(f"kill {counts.kills}: {now.sent} calls in flight")
        if not kept <= now.replies:
            counts.broken.append(f"kill {counts.kills}: {len(kept - now.replies)} replies lost")
        kept = now.replies
    counts.stores += 1
    _compare(path, provider, reference, counts, began)
    for file in folder.glob("work.db*"):
        file.unlink()


def _work(path: Path, base: str) -> int:
    found = judging.work(path, base)
    return 0 if not found.ran.failed else 3


def _compare(
    path: Path, provider: Provider, reference: judging.Reference, counts: Counts, began: int
) -> None:
    """Hold what is left against what was really asked."""
    asked = judging.received(provider, reference.keys, after=began)
    now = judging.held(path)
    name = f"store {counts.stores}"
    if judging.said(path) != reference.records:
        counts.broken.append(f"{name}: verdicts are missing, twice or others")
    if len(now.replies) != len(reference.keys):
        counts.broken.append(f"{name}: {len(now.replies)} replies of {len(reference.keys)}")
    for key, times in asked.items():
        if times > 1 + now.unknown[key]:
            counts.broken.append(f"{name}: {key[:8]} asked {times} times, {now.unknown[key]} told")
    if now.reserved:
        counts.broken.append(f"{name}: {now.reserved} reserved for nothing")
    counts.paid_again += asked.total() - len(asked)
    counts.listed += now.unknown.total()
    counts.committed += len(now.replies)


def measured(kills: int, *, runs: int = RUNS, seed: int = 0) -> Counts:
    """Kill so often, over as many stores as that takes."""
    rng, counts = random.Random(seed), Counts()
    script = Script(always=Fault(delay=DELAY_SECONDS))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reference = judging.reference(folder, runs)
        with started(folder, script, sync=False) as provider:
            seconds = _whole(folder, provider, reference)
            while counts.kills < kills:
                campaign(
                    folder,
                    provider,
                    reference,
                    rng,
                    counts=counts,
                    most=kills,
                    seconds=seconds,
                )
                judging.progress(f"{counts.kills} of {kills} kills")
    return counts


def _whole(folder: Path, provider: Provider, reference: judging.Reference) -> float:
    """Return how long the whole work takes."""
    path = folder / "whole.db"
    shutil.copy(reference.store, path)
    start = time.monotonic()
    code = judging.ended(judging.forked(lambda: _work(path, provider.openai)), within=600.0)
    if code != 0:
        raise RuntimeError(f"the work without a kill ended with code {code}")
    assert Path(ledger_path(str(path))).is_file()
    return time.monotonic() - start


def main(given: list[str]) -> int:
    """Print what the kills did; return 3 when a promise was broken."""
    counts = measured(int(given[0]) if given else KILLS)
    flying = sorted(counts.in_flight.elements())
    print(
        f"{counts.kills} kills over {counts.stores} stores of {RUNS * judging.AXES} judgements, "
        f"seed 0; every store was judged to its end"
    )
    print(
        f"  calls in flight at a kill: median {flying[len(flying) // 2]}, most {flying[-1]} "
        f"(limit {judging.IN_FLIGHT}); kills with some: {sum(n > 0 for n in flying)}"
    )
    print(f"  replies committed: {counts.committed:,}, a key each")
    print(f"  paid again: {counts.paid_again:,}; listed as of unknown outcome: {counts.listed:,}")
    print(f"promises broken: {len(counts.broken)}")
    for line in counts.broken[:20]:
        print(f"  {line}")
    return 3 if counts.broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
