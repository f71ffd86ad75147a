"""SIGINT at random moments: what was sent is waited for, nothing is paid twice, work goes on.

`python -m bars.judges.judge_stops [STOPS]`, 100 unless given. A process judges runs at a scripted
provider and is interrupted at a random moment of the time that the whole work takes. In every other
round the provider answers some calls never: then the grace ends the waiting. Every store is judged
to its end afterwards.

Code 0: every process ends with 130 within its grace and two seconds (or was done before), nothing
is asked twice but what is listed, the records are those of an uninterrupted run; 3: not so.
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
from tests.faults.providers import Provider, started
from tests.faults.script import Fault, Script

STOPS = 100
RUNS = 12
DELAY_SECONDS = 0.05
GRACE_SECONDS = 1.0
# What a stop may take beyond its grace.
SPARE_SECONDS = 2.0
RIGHT = Script(always=Fault(delay=DELAY_SECONDS))
# Every ninth call is never answered.
HANGING = Script(always=Fault(delay=DELAY_SECONDS), every={9: Fault(hang=True)})


class Counts:
    """What the stops did, and every promise that one of them broke."""

    def __init__(self) -> None:
        self.stops = 0
        self.codes: Counter[int] = Counter()
        self.slowest_seconds = 0.0
        self.unknown = 0
        self.paid_again = 0
        self.broken: list[str] = []


def stop(
    folder: Path,
    provider: Provider,
    reference: judging.Reference,
    counts: Counts,
    *,
    moment: float,
    hanging: bool,
    grace_seconds: float,
    spare_seconds: float,
) -> None:
    """Interrupt one process, and judge its store to the end."""
    grace = GRACE_SECONDS if hanging else grace_seconds
    path = folder / "work.db"
    shutil.copy(reference.store, path)
    provider.put(HANGING if hanging else RIGHT)
    began = len(provider.entries())
    child = judging.forked(lambda: _work(path, provider.openai, grace))
    code = judging.ended(child, within=moment)
    if code is None:
        os.kill(child, signal.SIGINT)
        start = time.monotonic()
        code = judging.ended(child, within=60.0 + grace + spare_seconds)
        took = time.monotonic() - start
        counts.stops += 1
        counts.slowest_seconds = max(counts.slowest_seconds, took)
        if code is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        done = code == 0 and judging.said(path) == reference.records
        if not (done or code == judging.STOPPED) or took > grace + spare_seconds:
            counts.broken.append(f"stop {counts.stops}: code {code} after {took:.1f} s")
    counts.codes[-1 if code is None else code] += 1
    provider.put(RIGHT)
    told = judging.held(path).unknown
    if told and not hanging:
        counts.broken.append(f"stop {counts.stops}: {told.total()} unknown, though all answered")
    if judging.ended(judging.forked(lambda: _work(path, provider.openai)), within=120.0) != 0:
        counts.broken.append(f"stop {counts.stops}: the next run did not come to its end")
    _compare(path, provider, reference, counts, began)
    for file in folder.glob("work.db*"):
        file.unlink()


def _work(path: Path, base: str, grace_seconds: float = GRACE_SECONDS) -> int:
    found = judging.work(path, base, grace_seconds=grace_seconds)
    return judging.STOPPED if found.ran.stopped else 3 if found.ran.failed else 0


def _compare(
    path: Path, provider: Provider, reference: judging.Reference, counts: Counts, began: int
) -> None:
    asked = judging.received(provider, reference.keys, after=began)
    now = judging.held(path)
    if judging.said(path) != reference.records:
        counts.broken.append(f"stop {counts.stops}: verdicts are missing, twice or others")
    for key, times in asked.items():
        if times > 1 + now.unknown[key]:
            counts.broken.append(f"stop {counts.stops}: {key[:8]} asked {times} times unseen")
    counts.unknown += now.unknown.total()
    counts.paid_again += asked.total() - len(asked)


def measured(
    stops: int,
    *,
    runs: int = RUNS,
    seed: int = 0,
    grace_seconds: float = GRACE_SECONDS,
    spare_seconds: float = SPARE_SECONDS,
) -> Counts:
    """Interrupt so often, each time a process of its own.

    Where calls hang, the grace is always the usual one: it is waited out.
    """
    rng, counts = random.Random(seed), Counts()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reference = judging.reference(folder, runs)
        with started(folder, RIGHT, sync=False) as provider:
            seconds = _whole(folder, provider, reference)
            at = 0
            while counts.stops < stops:
                at += 1
                stop(
                    folder,
                    provider,
                    reference,
                    counts,
                    moment=rng.random() * seconds,
                    hanging=at % 2 == 0,
                    grace_seconds=grace_seconds,
                    spare_seconds=spare_seconds,
                )
                judging.progress(f"{counts.stops} of {stops} stops")
    return counts


def _whole(folder: Path, provider: Provider, reference: judging.Reference) -> float:
    """Return how long the whole work takes."""
    path = folder / "whole.db"
    shutil.copy(reference.store, path)
    start = time.monotonic()
    if judging.ended(judging.forked(lambda: _work(path, provider.openai)), within=600.0) != 0:
        raise RuntimeError("the work without a stop did not come to its end")
    return time.monotonic() - start


def main(given: list[str]) -> int:
    """Print what the stops did; return 3 when a promise was broken."""
    counts = measured(int(given[0]) if given else STOPS)
    codes = ", ".join(f"{n} with {code}" for code, n in sorted(counts.codes.items()))
    print(f"{counts.stops} interruptions, seed 0; processes ended: {codes}")
    print(
        f"  slowest end {counts.slowest_seconds:.2f} s after it (limit: grace {GRACE_SECONDS:g} s "
        f"and {SPARE_SECONDS:g} s)"
    )
    print(f"  paid again: {counts.paid_again}; listed as of unknown outcome: {counts.unknown}")
    print(f"promises broken: {len(counts.broken)}")
    for line in counts.broken[:20]:
        print(f"  {line}")
    return 3 if counts.broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
