"""A real trace of every format, cut at every byte: runs, a counted quarantine, or one line.

`python -m bars.formats.truncation [FOLDER]`; FOLDER defaults to the data kept beside the
repository. Files up to 64 kB are cut everywhere, larger ones at 1,500 places spread evenly and at
the last 500. Each cut is read twice: with its format found by content, and with its format forced.
A cut that falls within a record must leave a quarantined record or an error, and the runs that
stand before it must come out as they do from the whole file. Code 0: all hold; 3: one is missed; 4:
the real runs are absent (the formats whose examples are in the repository are checked all the
same).
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from stepscope import registry
from stepscope.errors import StepscopeError
from stepscope.formats import ours
from stepscope.formats.opening import HEAD_BYTES, detect
from stepscope.model import Format, Quarantined, Stream, Trajectory

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"
# Small files recorded for the tests.
RECORDED = ROOT / "tests" / "formats" / "data"

SMALL_BYTES = 64 * 1024
_PLACES, _LAST = 1_500, 500


class Sample(NamedTuple):
    """A trace to cut: its format, its bytes, and whether its runs come out one after the other."""

    format: str
    content: bytes
    in_order: bool


def samples(data: Path) -> Iterator[Sample]:
    """Yield one real trace of every format, or of those whose files are there."""
    airline = (ROOT / "examples" / "airline" / "runs.json").read_bytes()
    yield Sample("tau_bench", airline, in_order=True)
    messages = json.loads(airline)[0]["traj"]
    yield Sample("openai_messages", json.dumps(messages).encode(), in_order=False)
    runs = [run for run in _read("tau_bench", airline) if isinstance(run, Trajectory)]
    for name, write in (("ours", ours.write), ("ours_parquet", ours.write_runs_parquet)):
        file = io.BytesIO()
        write(runs[:3], file)
        yield Sample(name, file.getvalue(), in_order=True)
    for name, folder, pattern, in_order in (
        ("atif", ROOT / "examples" / "atif", "*.json", True),
        ("claude_code", ROOT / "examples" / "claude_code", "*.jsonl", False),
        ("whowhen", data / "whowhen" / "algorithm-generated", "10.json", True),
        ("anthropic_messages", data / "formats" / "anthropic", "*.json", True),
        ("agentrx_labels", data / "agentrx-retail", "failure_labels.json", True),
        ("google_adk", RECORDED, "google_adk_session.json", False),
        ("openai_agents", RECORDED, "openai_agents_chat.jsonl", False),
        ("openai_responses", RECORDED, "openai_responses.jsonl", False),
        ("openhands", RECORDED, "openhands_trajectory.json", False),
    ):
        for path in sorted(folder.glob(pattern))[:1]:
            yield Sample(name, path.read_bytes(), in_order)


def places(size: int) -> Iterable[int]:
    """Return where to cut a file of `size` bytes."""
    if size <= SMALL_BYTES:
        return range(1, size)
    spread = range(1, size, max(1, size // _PLACES))
    return sorted({*spread, *range(size - _LAST, size)})


def faults(sample: Sample, cuts: Iterable[int]) -> list[str]:
    """Return one line for every cut that loses something in silence or raises what it should not.

    Raises nothing: an exception of another type than ours is a fault like the others.
    """
    whole = [run.id for run in _read(sample.format, sample.content) if isinstance(run, Trajectory)]
    found = []
    for cut in cuts:
        head = sample.content[:cut]
        for forced in (False, True):
            fault = _fault(sample, head, whole, forced=forced)
            if fault is not None:
                found.append(f"{sample.format} cut at {cut}: {fault}")
    return found


def _fault(sample: Sample, head: bytes, whole: list[str], *, forced: bool) -> str | None:
    try:
        name = sample.format if forced else detect(head[:HEAD_BYTES], "cut").name
        items = _read(name, head)
    except StepscopeError as e:
        return None if "\n" not in str(e) else f"an error of several lines: {e}"
    except (ArithmeticError, LookupError, ValueError, TypeError, AttributeError, OSError) as e:
        return f"{type(e).__name__}: {e}"
    quarantined = sum(isinstance(item, Quarantined) for item in items)
    if not quarantined and not _is_complete(sample.content, len(head)):
        return "nothing is quarantined"
    ids = [item.id for item in items if isinstance(item, Trajectory)]
    if sample.in_order and name == sample.format and ids != whole[: len(ids)]:
        return "the runs before the cut have changed"
    return None


def _is_complete(content: bytes, cut: int) -> bool:
    """Whether a cut falls behind the last record, or between two lines of JSON lines."""
    if not content[cut:].strip():
        return True
    is_lines = content.lstrip()[:1] == b"{" and b"}\n{" in content
    return is_lines and (content[cut - 1] == 0x0A or content[cut] == 0x0A)


def _read(name: str, content: bytes) -> list[Trajectory | Quarantined]:
    form: Format = registry.format(name)
    return list(form.read(Stream(io.BytesIO(content), "cut")))


def main(folder: str | None = None) -> int:
    """Cut every sample and print the table."""
    data = Path(folder) if folder else DATA
    print(f"{'format':<20}{'bytes':>9}{'cuts':>8}{'faults':>8}")
    bad, seen = [], set()
    for sample in samples(data):
        cuts = places(len(sample.content))
        found = faults(sample, cuts)
        print(
            f"{sample.format:<20}{len(sample.content):>9}{len(list(cuts)):>8}{len(found):>8}",
            flush=True,
        )
        bad += found
        seen.add(sample.format)
    for fault in bad[:20]:
        print(fault)
    absent = sorted(set(registry.names("formats")) - seen)
    if absent:
        print(f"not measured: {', '.join(absent)}; give the folder of the real runs")
    return 3 if bad else 4 if absent else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
