"""Run every benchmark, or the one named, and write the results to `docs/benchmarks.md`.

A job is a module `j<number>_<name>.py` that prints its table and gives exit code 0 when its limits
are kept. Results of a job that did not run this time stay in the page as they were.
"""

from __future__ import annotations

import datetime
import os
import re
import subprocess
import sys
from pathlib import Path

from benchmarks.peers import clean_environment
from benchmarks.rounds import ROOT, machine

PAGE = ROOT / "docs" / "benchmarks.md"
TITLES = {
    "J1": "reading",
    "J2": "deterministic scoring",
    "J3": "shapes",
    "J4": "judging",
    "J5": "statistics",
    "J6": "store",
    "J7": "start",
}
INTRO = """# Benchmarks

What stepscope costs, beside named peers: `make bench` runs every job, `make bench JOB=J2` one.
Competitors run in turn on the same input, each in an environment of its own; a figure is the median
of the rounds. The input is made from real runs by perturbation (`benchmarks/generate.py`).
`share` is the part of a limit that is used up: over 1, it is missed; a row whose limit is `none` is
there to compare. Where the load before a job was not near 0, others used the machine meanwhile, and
only ratios and CPU times mean much.
"""


def jobs() -> dict[str, str]:
    """Return the module of each job, by its name (`J2`), sorted."""
    found = sorted(Path(__file__).parent.glob("j[0-9]*_*.py"))
    return {path.stem.split("_")[0].upper(): f"benchmarks.{path.stem}" for path in found}


def run(module: str) -> tuple[int, str]:
    """Run one job in a fresh process; return its exit code and what it printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        cwd=ROOT,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    printed = []
    for line in process.stdout:
        sys.stdout.write(line)
        sys.stdout.flush()
        printed.append(line.rstrip())
    return process.wait(), "\n".join(printed)


def section(job: str, code: int, printed: str, load: float) -> str:
    """Return a job's part of the page; `load` is the machine's load average before the job."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    verdict = "all limits kept" if code == 0 else "a limit was missed"
    title = f"## {job}: {TITLES.get(job, 'more')}"
    where = f"{today}, {machine()}, load {load:.1f} before"
    return f"{title}\n\n{where}: {verdict}.\n\n```text\n{printed.strip()}\n```\n"


def sections(page: str) -> dict[str, str]:
    """Take a page apart into the sections of its jobs, by name."""
    parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)[1:]
    return {part.removeprefix("## ").split(":")[0]: part.strip() + "\n" for part in parts}


def main() -> int:
    """Run the jobs named on the command line, or all; write the page."""
    known = jobs()
    chosen = [name.upper() for name in sys.argv[1:]] or list(known)
    unknown = [name for name in chosen if name not in known]
    if unknown:
        sys.stderr.write(f"error: no job {', '.join(unknown)}; there are: {', '.join(known)}\n")
        return 2
    kept = sections(PAGE.read_text(encoding="utf-8")) if PAGE.is_file() else {}
    worst = 0
    for name in chosen:
        print(f"{name} ({known[name]})", flush=True)
        load = os.getloadavg()[0]
        code, printed = run(known[name])
        kept[name] = section(name, code, printed, load)
        worst = max(worst, code)
        print()
    body = "\n".join(kept[name] for name in sorted(kept))
    PAGE.write_text(f"{INTRO}\n{body}", encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")
    return worst


if __name__ == "__main__":
    sys.exit(main())
