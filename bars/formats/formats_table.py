"""Every file of the real data against the committed table of what importing it must give.

`python -m bars.formats.formats_table [FOLDER]`; FOLDER defaults to the data kept beside the
repository. The table is `tests/formats.toml`; a file that it does not list is a miss too, as is a
quarantined record. Code 0: all hold; 3: one is missed; 4: the real runs are absent.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from stepscope.errors import TraceError
from stepscope.formats.opening import HEAD_BYTES, detect
from stepscope.formats.reading import read_files
from stepscope.model import Quarantined, Trajectory

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"
TABLE = ROOT / "tests" / "formats.toml"

# Texts about the data, not of it.
_BESIDE = frozenset({"LICENSE", "NOTICE", "SOURCE.txt"})
_COUNTS = ("runs", "steps", "calls", "errors")
_TOKENS = ("input_tokens", "output_tokens")
_OUTCOMES = ("passed", "failed")

Expected = dict[str, Any]


class Row(NamedTuple):
    """One file: what was found, and what of it is not as the table says ("" when all is)."""

    path: str
    found: str
    miss: str


def expectations() -> dict[str, Expected]:
    """Return the table, by path below the data folder."""
    table = tomllib.loads(TABLE.read_text("utf-8"))
    files: dict[str, Expected] = {entry["path"]: entry for entry in table["file"]}
    fixed = {"format": "whowhen", "runs": 1, "calls": 0, "errors": 0, "passed": 0, "failed": 1}
    for path, steps in table["whowhen"].items():
        files[path] = {"path": path, "steps": steps, **fixed}
    return files


def rows(data: Path) -> Iterator[Row]:
    """Yield a row for every file of the table, then one for every file that it forgot."""
    expected = expectations()
    for entry in expected.values():
        yield _refusal(data, entry) if _is_refused(entry) else _counts(data, entry)
    for folder in ("formats", "whowhen"):
        for file in sorted((data / folder).rglob("*")):
            path = file.relative_to(data).as_posix()
            if file.is_file() and file.name not in _BESIDE and path not in expected:
                yield Row(path, "", "not in the table")


def _is_refused(entry: Expected) -> bool:
    return bool(entry.get("later")) or "format" not in entry


def _refusal(data: Path, entry: Expected) -> Row:
    """Check that no format of today takes the file for its own."""
    told = entry.get("why") or f"{entry['format']}, later"
    with (data / entry["path"]).open("rb") as file:
        try:
            taken = detect(file.read(HEAD_BYTES), entry["path"])
        except TraceError:
            return Row(entry["path"], f"refused ({told})", "")
    return Row(entry["path"], taken.name, f"expected to be refused: {told}")


def _counts(data: Path, entry: Expected) -> Row:
    items: list[Trajectory | Quarantined] = []
    name: str | None = None
    try:
        for reading in read_files([str(data / entry["path"])]):
            items += reading
            name = reading.account.format
    except TraceError as e:
        return Row(entry["path"], "", str(e))
    runs = [item for item in items if isinstance(item, Trajectory)]
    found = _figures(runs) | {"format": name}
    quarantined = sum(isinstance(item, Quarantined) for item in items)
    wrong = [
        f"{key} {found.get(key)}, expected {entry.get(key)}"
        for key in ("format", *_COUNTS, *_TOKENS, *_OUTCOMES)
        if found.get(key) != entry.get(key)
    ]
    if quarantined:
        wrong.append(f"{quarantined} quarantined")
    if len({run.id for run in runs}) != len(runs):
        wrong.append("two runs with one id")
    told = ", ".join(f"{key} {found[key]}" for key in _COUNTS)
    return Row(entry["path"], f"{found['format']}: {told}", "; ".join(wrong))


def _figures(runs: list[Trajectory]) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "runs": len(runs),
        "steps": sum(len(run.steps) for run in runs),
        "calls": sum(len(step.calls) for run in runs for step in run.steps),
        "errors": sum(r.status == "error" for run in runs for s in run.steps for r in s.results),
    }
    usages = [run.usage for run in runs if run.usage is not None]
    if usages:
        figures["input_tokens"] = sum(usage.input_total or 0 for usage in usages)
        figures["output_tokens"] = sum(usage.output_total or 0 for usage in usages)
    outcomes = [run.outcome.status for run in runs]
    if set(outcomes) - {"unknown"}:
        figures["passed"] = outcomes.count("pass")
        figures["failed"] = outcomes.count("fail")
    return figures


def main() -> int:
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    if not (data / "formats").is_dir():
        print(f"no real runs at {data}: the table cannot be checked here")
        return 4
    misses = 0
    for row in rows(data):
        misses += bool(row.miss)
        print(f"{row.path:<72} {row.found}{'  MISSED: ' + row.miss if row.miss else ''}")
    print(f"{misses} misses")
    return 3 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
