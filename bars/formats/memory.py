"""Memory stays bounded whatever the file: one line of a gigabyte, 20 GB of lines, bombs.

`python -m bars.formats.memory [GIGABYTES]`, 20 unless given. Each job runs in a process of its own,
whose highest resident memory is what the table shows. Files are sparse or made while they are read.
Code 0: every peak is at most 512 MiB and bombs are refused within a second; 3: one is not.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import resource
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from stepscope import api, registry
from stepscope.errors import LimitError
from stepscope.formats.reading import read_files
from stepscope.model import Stream
from stepscope.safety.limits import MIB, Limits
from stepscope.settings import Settings

GIB = 1024 * MIB
LIMIT_BYTES = 512 * MIB
BOMB_SECONDS = 1.0


class Peak(NamedTuple):
    """What a job said came out, how long it took, and the memory of its process at the highest."""

    said: str
    seconds: float
    bytes: int


class Lines(io.RawIOBase):
    """A file of `count` equal lines, made as it is read."""

    def __init__(self, line: bytes, count: int) -> None:
        super().__init__()
        self._line = line
        self._left = count
        self._rest = b""

    def readable(self) -> bool:
        """Say yes."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes."""
        if not self._rest and self._left:
            self._left -= 1
            self._rest = self._line
        part, self._rest = self._rest[:size], self._rest[size:]
        return part


def sparse(head: bytes, size: int, tail: bytes) -> Path:
    """Return a new file that begins and ends as given and holds zeros between."""
    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(head)
        file.seek(size - len(tail))
        file.write(tail)
    return Path(file.name)


def long_line(size: int) -> str:
    """Read JSON lines, the second of which is `size` bytes long."""
    return _imported(sparse(b'{"task_id": 1, "traj": []}\n', size, b"\n{}\n"))


def long_element(size: int) -> str:
    """Read an array, the first element of which is `size` bytes long."""
    return _imported(sparse(b'[{"task_id": "', size, b'"}, {"task_id": 2, "traj": []}]'))


def long_object(size: int) -> str:
    """Read one object, spread over lines, of `size` bytes."""
    return _imported(sparse(b'{\n"task_id": "', size, b'"\n}\n'))


def many_lines(size: int) -> str:
    """Read `size` bytes in lines of a megabyte, each a run."""
    turn = {"role": "user", "content": "x" * 1000}
    run = {"task_id": 1, "reward": 0.0, "trial": 0, "info": None, "traj": [turn] * 970}
    line = json.dumps(run).encode() + b"\n"
    file = cast(BinaryIO, Lines(line, size // len(line)))
    kinds: Counter[str] = Counter()
    for found in registry.format("tau_bench").read(Stream(file, "lines", Limits())):
        kinds[type(found).__name__] += 1
    return str(dict(kinds))


def long_runs(size: int) -> str:
    """Import runs of 13 MB each, half of `size` in all, read in two processes."""
    turn = {"role": "user", "content": "x" * 1_000_000}
    run = {"reward": 0.0, "trial": 0, "info": None, "traj": [turn] * 13}
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "runs.jsonl"
        with path.open("w", encoding="utf-8") as file:
            while file.tell() < size // 2:
                file.write(json.dumps({"task_id": file.tell(), **run}) + "\n")
        with api.open(Path(name) / "runs.db", settings=Settings()) as notebook:
            return f"{notebook.add(path, workers=2).runs} runs"


def zip_bomb(size: int) -> str:
    """Read a zip that unpacks to `size` bytes, about a thousand times its own."""
    path = _packed({"bomb": size})
    return _refusal(path)


def eval_bomb(size: int) -> str:
    """Read a log of Inspect, one sample of which unpacks to `size` bytes."""
    return _refusal(_packed({"header.json": 0, "samples/1_epoch_1.json": size}))


def eval_sample(size: int) -> str:
    """Read the same where the user allowed any ratio: the sample is more than a record may be."""
    path = _packed({"header.json": 0, "samples/1_epoch_1.json": size})
    try:
        return _counted(path, "inspect_ai", Limits(zip_ratio=1e9))
    finally:
        path.unlink()


def _packed(members: dict[str, int]) -> Path:
    """Return a zip of members that hold `{}`, or so many zeros."""
    path = Path(tempfile.mkstemp(suffix=".zip")[1])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, size in members.items():
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(b"" if size else b'{"eval": {}}')
                for _ in range(size // MIB):
                    member.write(bytes(MIB))
    return path


def _refusal(path: Path) -> str:
    """Return how a bomb was refused, and delete it."""
    start = time.monotonic()
    try:
        for reading in read_files([str(path)]):
            list(reading)
    except LimitError:
        took = time.monotonic() - start
        return "refused" if took <= BOMB_SECONDS else f"refused after {took:.1f} s"
    finally:
        path.unlink()
    return "not refused"


def _imported(path: Path) -> str:
    try:
        return _counted(path, "tau_bench", Limits())
    finally:
        path.unlink()


def _counted(path: Path, format_name: str, limits: Limits) -> str:
    for reading in read_files([str(path)], format_name=format_name, limits=limits):
        for _ in reading:
            pass
        account = reading.account
    return f"{account.runs} runs, {account.quarantined} quarantined"


JOBS: tuple[tuple[Callable[[int], str], str], ...] = (
    (long_line, "1 runs, 2 quarantined"),
    (long_element, "1 runs, 1 quarantined"),
    (long_object, "0 runs, 1 quarantined"),
    (long_runs, "42 runs"),
    (zip_bomb, "refused"),
    (eval_bomb, "refused"),
    (eval_sample, "0 runs, 1 quarantined"),
)


def peak(job: Callable[[int], str], size: int) -> Peak:
    """Run a job in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measured, (job, size))


def _measured(job: Callable[[int], str], size: int) -> Peak:
    start = time.monotonic()
    said = job(size)
    return Peak(said, time.monotonic() - start, _kilobytes() * 1024)


def _kilobytes() -> int:
    """Return this process's highest resident memory.

    Not ru_maxrss where there is better: a process inherits that from the one that started it.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def rows(gigabytes: int) -> Iterator[tuple[str, int, str, Peak]]:
    """Yield the name, the size, what must come out and what did, of every job."""
    for job, wanted in JOBS:
        yield job.__name__, GIB, wanted, peak(job, GIB)
    yield many_lines.__name__, gigabytes * GIB, "", peak(many_lines, gigabytes * GIB)


def main(gigabytes: str = "20") -> int:
    """Run every job and print the table."""
    held = True
    print(f"{'job':<16}{'size, GiB':>10}{'peak, MiB':>11}{'limit':>7}{'seconds':>9}  came out")
    for name, size, wanted, found in rows(int(gigabytes)):
        fine = found.bytes <= LIMIT_BYTES and (not wanted or found.said == wanted)
        held &= fine
        print(
            f"{name:<16}{size / GIB:>10.0f}{found.bytes / MIB:>11.0f}{LIMIT_BYTES // MIB:>7}"
            f"{found.seconds:>9.1f}  {found.said}{'' if fine else '   MISSED'}",
            flush=True,
        )
    return 0 if held else 3


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
