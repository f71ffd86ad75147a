"""The 318 JSON parser cases: judged as their suite says, and never lost on their way in.

`python -m bars.formats.json_cases [FOLDER]`; FOLDER defaults to the data kept beside the
repository. Each case goes through the strict door, the forgiving door, the import as a file of its
own (its format found, and every format forced on it), as a line between two good runs of ours, and
as an element between two good tau-bench runs. Code 0: all as they must be; 3: one is not; 4: cases
are absent. Source: Seriot, Parsing JSON is a Minefield; y_ must be accepted, n_ refused, i_ either.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from stepscope import registry
from stepscope.errors import StepscopeError, TraceError
from stepscope.formats.reading import read_files
from stepscope.model import Quarantined, Stream, Trajectory
from stepscope.safety.json import decode, decode_strict
from stepscope.safety.limits import Limits

CASES = Path(__file__).resolve().parents[3] / "shared" / "data" / "hostile" / "test_parsing"
LIMITS = Limits()

HEADER = b'{"stepscope":"trajectories","schema":1}\n'
LINE = b'{"id":"a","name":"n","steps":[],"source":{"format":"test"}}'
RUN = b'{"task_id": 1, "reward": 0.0, "traj": [], "trial": 0, "info": null}'

# Row of the table -> how many cases must come out that way.
EXPECTED = {
    "y_ accepted by the strict door": 95,
    "n_ refused by the strict door": 188,
    "i_ judged by the strict door": 35,
    "y_ accepted by the forgiving door": 95,
    "n_ refused by the forgiving door": 185,  # all but NaN, Infinity and -Infinity, kept as text
    "imported or refused in one line, by name": 318,
    "imported or refused in one line, each format forced": 318,
    "as a line: two runs and one quarantined": 311,  # 7 hold a line feed within, or nothing at all
    "as an element: no byte lost": 318,
}


def tally(folder: Path) -> Counter[str]:
    """Count every case under each row that it keeps."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        for case in sorted(folder.iterdir()):
            raw, kind = case.read_bytes(), case.name[:2]
            for door, name in ((decode_strict, "strict"), (decode, "forgiving")):
                verdict = "accepted" if _accepts(door, raw) else "refused"
                if kind == "i_":
                    verdict = "judged"
                counts[f"{kind} {verdict} by the {name} door"] += 1
            path = Path(scratch) / "case.json"
            path.write_bytes(raw)
            counts["imported or refused in one line, by name"] += _is_told(path, None)
            counts["imported or refused in one line, each format forced"] += all(
                _is_told(path, name) for name in registry.names("formats")
            )
            counts["as a line: two runs and one quarantined"] += _is_a_line(raw)
            counts["as an element: no byte lost"] += _is_kept(raw)
    return counts


def _accepts(door: Callable[..., object], raw: bytes) -> bool:
    try:
        door(raw, limits=LIMITS)
    except TraceError:
        return False
    return True


def _is_told(path: Path, format_name: str | None) -> bool:
    try:
        for reading in read_files([str(path)], format_name=format_name):
            found = list(reading)
            account = reading.account
            quarantined = sum(isinstance(item, Quarantined) for item in found)
            if (account.runs, account.quarantined) != (len(found) - quarantined, quarantined):
                return False
            if not found and account.problem is None and not _is_empty(path):
                return False
    except StepscopeError as e:
        return "\n" not in str(e)
    return True


def _is_empty(path: Path) -> bool:
    """Whether a file offers no record: nothing, or an array of nothing."""
    return not path.read_bytes().strip(b" \t\r\n\xef\xbb\xbf[]")


def _is_a_line(raw: bytes) -> bool:
    file = io.BytesIO(HEADER + LINE + b"\n" + raw + b"\n" + LINE + b"\n")
    found = list(registry.format("ours").read(Stream(file, "case")))
    return [type(item) for item in found] == [Trajectory, Quarantined, Trajectory]


def _is_kept(raw: bytes) -> bool:
    data = b"[" + RUN + b", " + raw + b", " + RUN + b"]"
    found = list(registry.format("tau_bench").read(Stream(io.BytesIO(data), "case")))
    covered = bytearray(data)
    for item in found:
        if isinstance(item, Quarantined):
            covered[item.offset : item.offset + len(item.raw)] = b" " * len(item.raw)
        elif item.source.offset is not None:
            start = item.source.offset
            covered[start : start + len(RUN)] = b" " * len(RUN)
    return isinstance(found[0], Trajectory) and not covered.strip(b" \t\r\n,[]")


def main(folder: str | None = None) -> int:
    """Judge every case and print the table."""
    cases = Path(folder) if folder else CASES
    if not cases.is_dir():
        print(f"not measured: no {cases}; give the folder of the parser cases")
        return 4
    counts = tally(cases)
    print(f"{'':<56}{'found':>6}{'must be':>9}")
    for row, wanted in EXPECTED.items():
        found = counts[row]
        print(f"{row:<56}{found:>6}{wanted:>9}{'' if found == wanted else '   DIFFERS'}")
    return 0 if all(counts[row] == wanted for row, wanted in EXPECTED.items()) else 3


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
