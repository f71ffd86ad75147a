"""Any bytes in: a result or a typed error, never a crash, a hang or a silent drop.

`python -m bars.formats.fuzz [INPUTS [FIRST]]`, a million unless given, from the first number on;
all cores. Each input is a trace of some format, spoilt: the real ones where they are beside the
repository, the tests' and examples' own, the JSON parser cases. A third is read by a format chosen
at random, the rest by what its content tells. What came out must add up: runs and quarantined
records are what the account says, a file of records gives at least one of them for each record, and
a file that is not empty gives something or says why not. Code 0: no fault; 3: one is; what to
repeat is its number. 4: the real runs are absent.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import multiprocessing
import os
import random
import re
import struct
import sys
import tempfile
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from bars.formats._mutations import mutant
from bars.formats._traces import Trace, traces
from stepscope import registry
from stepscope.errors import StepscopeError
from stepscope.formats.files import ZIP_MAGIC
from stepscope.formats.format import RecordFormat
from stepscope.formats.reading import FileReading, read_files
from stepscope.model import Quarantined, Stream, Trajectory

INPUTS = 1_000_000
# Inputs that show a fault, by number.
KEPT = Path(tempfile.gettempdir()) / "stepscope-fuzz"
SEED = 20261122
# CPU seconds: an input is some kilobytes, and takes milliseconds.
SECONDS = 5.0
# A thousand inputs take some seconds; a process that hangs is ended, and says where it was.
HANG_SECONDS = 300
_CHUNK = 1_000
# Labels are found from the runs that they lie beside; alone they are read and give no run.
_RUNLESS = {"agentrx_labels"}
# Files that offer nothing at all, besides exports whose every list is empty; tables of one line
# have no row, and Claude Code writes files that hold notes beside a session alone.
_EMPTY = re.compile(
    rb'(\xef\xbb\xbf)?[\s\[]*(\{\s*"resource_?[sS]pans"\s*:\s*\[\s*\]\s*\}[\s,]*)*[\s\]]*'
)
_UNTYPED = (
    ArithmeticError, AssertionError, AttributeError, BufferError, EOFError, ImportError,
    LookupError, MemoryError, NameError, OSError, RuntimeError, StopIteration, TypeError,
    ValueError, struct.error, zlib.error, zipfile.BadZipFile, zipfile.LargeZipFile,
    msgspec.MsgspecError,
)  # fmt: skip


class Fault(NamedTuple):
    """What is wrong with an input, by its number."""

    number: int
    format: str
    way: str
    what: str


def made(number: int) -> tuple[Trace, str, str | None]:
    """Return the input of a number, the way in which it was spoilt, and the format forced on it."""
    rng = random.Random(f"{SEED}:{number}")
    known = traces()
    whole = [trace for trace in known if trace.format]
    # Every format as often as every other, however many traces of it there are.
    name = rng.choice(sorted({trace.format for trace in whole}))
    origin = rng.choice([trace for trace in whole if trace.format == name])
    way, content = mutant(origin.content, [trace.content for trace in known], rng)
    forced = rng.choice((None, None, name, name, name, rng.choice(registry.names("formats"))))
    return Trace(name, content), way, forced


def fault(content: bytes, forced: str | None, path: Path) -> tuple[str | None, str]:
    """Read bytes as a file; return what is wrong with that, None for nothing, and a verdict."""
    path.write_bytes(content)
    begin = time.process_time()
    verdict = "empty"
    try:
        for reading in read_files([str(path)], format_name=forced):
            items = list(reading)
            wrong = _wrong(reading, items, content)
            if wrong is not None:
                return wrong, "fault"
            verdict = _verdict(items) or verdict
    except StepscopeError as e:
        if "\n" in str(e):
            return f"an error of several lines: {str(e)[:200]!r}", "fault"
        verdict = "refused"
    except _UNTYPED as e:
        return f"{type(e).__name__}: {str(e)[:200]}", "fault"
    seconds = time.process_time() - begin
    return (f"{seconds:.1f} s of CPU", "fault") if seconds > SECONDS else (None, verdict)


def _verdict(items: Sequence[object]) -> str:
    runs = any(isinstance(item, Trajectory) for item in items)
    broken = any(isinstance(item, Quarantined) for item in items)
    return "both" if runs and broken else "runs" if runs else "quarantined" if broken else ""


def _is_empty(content: bytes) -> bool:
    """Whether a file is an export without anything, or notes beside a session."""
    if _EMPTY.fullmatch(content):
        return True
    values = _values(content)
    if values and all(isinstance(v, dict) and v.get("type") == "summary" for v in values):
        return True
    if len(values) != 1 or not isinstance(values[0], dict):
        return False
    lists = [held for held in values[0].values() if isinstance(held, list)]
    return bool(lists) and not any(lists)


def _values(content: bytes) -> list[object]:
    """Return a file as JSON, whole or by lines; empty where it is neither."""
    for parts in ([content], content.splitlines()):
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return [msgspec.json.decode(part) for part in parts if part.strip()]
    return []


def _wrong(
    reading: FileReading, items: Sequence[Trajectory | Quarantined], content: bytes
) -> str | None:
    account = reading.account
    quarantined = sum(isinstance(item, Quarantined) for item in items)
    if (account.runs, account.quarantined) != (len(items) - quarantined, quarantined):
        return f"the account says {account.runs} and {account.quarantined} of {len(items)}"
    if account.problem is not None or content.startswith(ZIP_MAGIC) or reading.format is None:
        return None
    if isinstance(reading.format, RecordFormat):
        return _missing(reading.format, items, content)
    offers = reading.format.name not in _RUNLESS and not _is_empty(content)
    if reading.format.name == "step_scores":
        offers = offers and b"\n" in content.strip()
    if not items and offers:
        return "nothing came out, and nothing is said"
    return None


def _missing(
    format: RecordFormat, items: Sequence[Trajectory | Quarantined], content: bytes
) -> str | None:
    """Say that a file of records gave less than it has records."""
    offered = sum(1 for _ in format.split(Stream(io.BytesIO(content), "again")))
    return f"{offered} records gave {len(items)} items" if offered > len(items) else None


def chunk(numbers: range) -> tuple[Counter[tuple[str, str]], list[Fault]]:
    """Read the inputs of some numbers; return verdicts by format, and faults."""
    counts: Counter[tuple[str, str]] = Counter()
    faults: list[Fault] = []
    # A million files are written: in memory where the system has such a place.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        path = Path(folder) / "input"
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        for number in numbers:
            trace, way, forced = made(number)
            what, verdict = fault(trace.content, forced, path)
            counts[trace.format, verdict] += 1
            if what is not None:
                # The same number gives another input when there are other traces.
                KEPT.mkdir(parents=True, exist_ok=True)
                (KEPT / str(number)).write_bytes(trace.content)
                faults.append(Fault(number, forced or f"({trace.format})", way, what))
        faulthandler.cancel_dump_traceback_later()
    return counts, faults


def main(inputs: str = str(INPUTS), first: str = "0") -> int:
    """Read all inputs and print the table."""
    begin = time.monotonic()
    last = int(first) + int(inputs)
    parts = [range(at, min(at + _CHUNK, last)) for at in range(int(first), last, _CHUNK)]
    counts: Counter[tuple[str, str]] = Counter()
    faults: list[Fault] = []
    with multiprocessing.get_context("spawn").Pool(len(os.sched_getaffinity(0))) as pool:
        for done, wrong in pool.imap_unordered(chunk, parts):
            counts += done
            faults += wrong
    verdicts = ("runs", "both", "quarantined", "refused", "empty", "fault")
    print(f"{'format':<20}" + "".join(f"{verdict:>12}" for verdict in verdicts))
    for name in sorted({name for name, _ in counts}):
        print(f"{name:<20}" + "".join(f"{counts[name, verdict]:>12,}" for verdict in verdicts))
    print(f"{sum(counts.values()):,} inputs, {time.monotonic() - begin:.0f} s")
    if faults:
        print(f"inputs with a fault are in {KEPT}")
    for found in sorted(faults)[:40]:
        print(f"{found.number}: {found.format}, {found.way}: {found.what}")
    absent = sorted(set(registry.names("formats")) - {trace.format for trace in traces()})
    if absent:
        print(f"not measured: {', '.join(absent)}; no trace of it here")
    return 3 if faults else 4 if absent else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
