"""A test has the same id in every process: pytest-xdist compares the lists of its workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Reads of the clock that Python code can replace; `datetime` is told apart by the time zones.
CODE = """
import sys, time
seconds = int(sys.argv[1])
def shift(name, by):
    read = getattr(time, name)
    setattr(time, name, lambda: read() + by)
for name in ("time", "monotonic", "perf_counter"):
    shift(name, seconds)
    shift(f"{name}_ns", seconds * 10**9)
import pytest
sys.exit(pytest.main(sys.argv[2:]))
"""
# Shift of the clock in seconds, seed of hashes, time zone: the zones are never on one date.
PROCESSES = (("0", "1", "Pacific/Kiritimati"), ("40000000", "2", "Pacific/Pago_Pago"))


def ids(root: Path, settings: Path, folder: Path) -> list[list[str]]:
    """The ids of the tests below `root`, from two processes at once that share little."""
    running = []
    for shift, seed, zone in PROCESSES:
        own = folder / f"process{seed}"
        own.mkdir()
        command = [sys.executable, "-c", CODE, shift, "--collect-only", "-q", "-p", "no:xdist"]
        command += ["--color=no", f"--rootdir={root}", "-c", str(settings)]
        place = {"TZ": zone, "HOME": str(own), "TMPDIR": str(own), "PYTHONHASHSEED": seed}
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
        running.append(
            subprocess.Popen(
                [
                    *command,
                    *(str(path) for path in (root / "tests", root / "src") if path.is_dir()),
                ],
                cwd=own,
                env=kept | place,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
            )
        )
    found = []
    for process in running:
        printed, _ = process.communicate()
        assert process.returncode == 0, printed[-2000:]
        found.append([line for line in printed.splitlines() if "::" in line])
    return found


@pytest.mark.slow
def test_two_processes_at_different_times_collect_the_same_tests(tmp_path: Path) -> None:
    first, second = ids(ROOT, ROOT / "pyproject.toml", tmp_path)
    assert len(first) > 7_000
    assert [pair for pair in zip(first, second, strict=True) if len(set(pair)) > 1] == []
    assert [name for name in first if str(ROOT) in name] == [], "another clone has other ids"


@pytest.mark.parametrize(
    ("values", "same"),
    [
        ("gzip.compress(b'a')", False),
        ("str(time.time_ns())", False),
        ("str(datetime.date.today())", False),
        ("str(os.getpid())", False),
        ("*{'a', 'b', 'c', 'd', 'e', 'f', 'g'}", False),
        ("os.getcwd()", False),
        ("tempfile.gettempdir()", False),
        ("'a', object(), gzip.compress(b'a', mtime=0)", True),
    ],
)
def test_an_id_that_depends_on_its_process_is_seen(values: str, same: bool, tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_values.py").write_text(
        "import datetime, gzip, os, tempfile, time\nimport pytest\n\n"
        f"@pytest.mark.parametrize('value', [{values}])\ndef test_value(value): pass\n",
        encoding="utf-8",
    )
    settings = tmp_path / "pytest.ini"
    settings.write_text("[pytest]\n", encoding="utf-8")
    first, second = ids(tmp_path, settings, tmp_path)
    assert len(first) == len(second) > 0
    assert (first == second) is same
