"""A disk that is full at any moment: told by its own exit code, nothing damaged, work goes on.

`python -m bars.judges.judge_full_disk`. A process judges runs with files that may not grow over a
size, over a sweep of sizes; then on small file systems in memory, where they may be mounted.
Afterwards there is room, and the work is done to its end. The oracle is the provider's append-only
file.

Code 0: every process ends with 5 or was done, with one line that says so, no file is damaged, the
records are those of an uninterrupted run, nothing is asked twice but what is listed; 3: not so.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bars.judges import _judging as judging
from stepscope.errors import EnvironmentFault
from tests.faults.providers import Provider, started
from tests.faults.script import Fault, Script

RUNS = 16
SCRIPT = Script(always=Fault(delay=0.02))
# From less than a ledger's first page to more than all that is written.
LIMITS_KB = (1, 4, 16, 40, 64, 96, 128, 160, 200, 240, 280, 320, 400, 500, 640, 800, 1_000, 2_000)
# What is left on a small file system when the store lies there.
ROOM_KB = (8, 32, 64, 128, 256, 512, 1_024, 2_048, 3_500)
ENOUGH = "size=64m"


class Counts:
    """What the limits did, and every promise that one of them broke."""

    def __init__(self) -> None:
        self.codes: Counter[int | None] = Counter()
        self.paid_again = 0
        self.unknown = 0
        self.broken: list[str] = []


def limited(path: Path, base: str, size: int) -> int:
    """Judge in this process, whose files may not grow over `size` bytes."""
    if size:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        found = judging.work(path, base).ran
    except EnvironmentFault as e:
        return e.exit_code if "\n" not in str(e) else judging.FAILED
    return 0 if not found.failed else 3


def full(path: Path, provider: Provider, counts: Counts, *, size: int, name: str) -> int:
    """Judge where there is no room, and return where the provider's file was before."""
    began = len(provider.entries())
    code = judging.ended(judging.forked(lambda: limited(path, provider.openai, size)), within=120.0)
    counts.codes[code] += 1
    if code not in {0, EnvironmentFault.exit_code}:
        counts.broken.append(f"{name}: ended with {code}")
    return began


def resumed(
    path: Path,
    provider: Provider,
    counts: Counts,
    reference: judging.Reference,
    *,
    began: int,
    name: str,
) -> None:
    """Judge to the end where there is room, and compare."""
    code = judging.ended(judging.forked(lambda: limited(path, provider.openai, 0)), within=120.0)
    if code != 0:
        counts.broken.append(f"{name}: with room again it ended with {code}")
        return
    if judging.said(path) != reference.records:
        counts.broken.append(f"{name}: verdicts are missing, twice or others")
    asked, now = judging.received(provider, reference.keys, after=began), judging.held(path)
    for key, times in asked.items():
        if times > 1 + now.unknown[key]:
            counts.broken.append(f"{name}: {key[:8]} asked {times} times, {now.unknown[key]} told")
    counts.paid_again += asked.total() - len(asked)
    counts.unknown += now.unknown.total()
    if now.unknown.total() > judging.IN_FLIGHT:
        counts.broken.append(f"{name}: {now.unknown.total()} calls of unknown outcome")


def swept(
    folder: Path, provider: Provider, reference: judging.Reference, limits: tuple[int, ...]
) -> Counts:
    """Judge with files that may not grow, for each limit in KB."""
    counts = Counts()
    for limit in limits:
        path, name = folder / "work.db", f"files of {limit} kB"
        shutil.copy(reference.store, path)
        began = full(path, provider, counts, size=limit * 1_000, name=name)
        resumed(path, provider, counts, reference, began=began, name=name)
        for file in folder.glob("work.db*"):
            file.unlink()
        judging.progress(name)
    return counts


@contextmanager
def mounted(place: Path, size: int) -> Iterator[bool]:
    """Mount a file system of so many bytes; yield whether that is allowed here."""
    place.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    if shutil.which("mount") is None:
        yield False
        return
    done = subprocess.run(command, check=False, capture_output=True)
    yield done.returncode == 0
    if done.returncode == 0:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def on_small_disks(
    folder: Path, provider: Provider, reference: judging.Reference, rooms: tuple[int, ...]
) -> Counts | None:
    """Judge on file systems with so many KB left; None where none may be mounted."""
    counts, place = Counts(), folder / "small"
    taken = reference.store.stat().st_size
    for room in rooms:
        path, name = place / "work.db", f"a disk with {room} kB left"
        with mounted(place, taken + room * 1_024) as allowed:
            if not allowed:
                return None
            shutil.copy(reference.store, path)
            began = full(path, provider, counts, size=0, name=name)
            subprocess.run(["mount", "-o", f"remount,{ENOUGH}", str(place)], check=True)
            resumed(path, provider, counts, reference, began=began, name=name)
        judging.progress(name)
    return counts


def measured(
    *, runs: int = RUNS, limits: tuple[int, ...] = LIMITS_KB, rooms: tuple[int, ...] = ROOM_KB
) -> tuple[Counts, Counts | None]:
    """Return what the limits and the small disks did."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reference = judging.reference(folder, runs)
        with started(folder, SCRIPT, sync=False) as provider:
            return (
                swept(folder, provider, reference, limits),
                on_small_disks(folder, provider, reference, rooms),
            )


def main() -> int:
    """Print what came of the limits; return 3 when a promise was broken."""
    broken = 0
    for name, counts in zip(("files that may not grow", "small disks"), measured(), strict=True):
        if counts is None:
            print(f"{name}: not measured, no file system may be mounted here")
            continue
        codes = ", ".join(f"{n} with {code}" for code, n in counts.codes.most_common())
        print(f"{name}: {counts.codes.total()}; ended: {codes}")
        print(f"  paid again {counts.paid_again}, listed as of unknown outcome {counts.unknown}")
        for line in counts.broken:
            print(f"  {line}")
        broken += len(counts.broken)
    print(f"promises broken: {broken}")
    return 3 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
