"""How many files of ours one piece of work passes through, and how deep its stack becomes.

A file counts when a function of it is called, under `sys.setprofile`, in this process with one
worker; what an import runs does not count. The limits are those of the architecture: an import with
the format named, one whose format is found by content, one run judged under one rubric, and a
report with judges as text and as HTML. Later issues may add two files each: a judged run passes the
facts, which hold tools and policy of the settings; a report the ranking of steps and the answers of
judges about runs that failed since (truth), the limits of what is written and the hiding of keys in
names (faults); an import what tells paths from runs in memory, and the opening of files that may
hold labels (first hour); a report the failure modes and how they are laid out (first hour); a
judged run the columns that say whether it is of an evaluation set, and the lock that this asks for,
and a report the labels that correct a judge (labels).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable
from inspect import CO_OPTIMIZED
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import stepscope
from stepscope.api import Notebook
from stepscope.model import Reply, Request, Usage

SOURCE = str(Path(stepscope.__file__).parent)
RUNS = Path(__file__).resolve().parents[1] / "examples/airline/runs.json"
SETTINGS = """
[judges.model."mine/quick"]
family = "mine"
price = { input = 0, output = 0 }
"""


class QuickJudge:
    """Answers every question alike, citing nothing."""

    name = "mine/quick"

    async def complete(self, request: Request) -> Reply:
        """Return the same answer to every request."""
        answer = {
            "evidence": [],
            "cited_step_indices": [],
            "rationale": "",
            "label": "correct",
            "confidence": 0.9,
        }
        usage = Usage(input_total=0, output_total=0)
        return Reply(text=json.dumps(answer), stop="end", structure="json_schema", usage=usage)


JUDGE = QuickJudge()


def walk(work: Callable[[], object]) -> tuple[set[str], int]:
    """Return the files of ours whose functions `work` called, and its deepest stack of ours."""
    files: set[str] = set()
    deepest = 0

    def depth(frame: FrameType | None) -> int:
        found = 0
        while frame is not None:
            if frame.f_code.co_filename.startswith("<frozen importlib"):
                return 0
            found += frame.f_code.co_filename.startswith(SOURCE)
            frame = frame.f_back
        return found

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal deepest
        name = frame.f_code.co_filename
        # Bodies of modules and classes are run by imports, and are no optimised code; what they
        # call, an import runs as well, and it has no depth.
        called = event == "call" and frame.f_code.co_flags & CO_OPTIMIZED
        if called and name.startswith(SOURCE) and (found := depth(frame)):
            files.add(name.removeprefix(SOURCE))
            deepest = max(deepest, found)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return files, deepest


def walks(folder: Path) -> dict[str, tuple[int, Callable[[], object]]]:
    """Return the limit of each walk and its work, in the order in which they must be done."""
    sniffed: Notebook = stepscope.open(str(folder / "sniffed.db"))
    store: Notebook = stepscope.open(str(folder / "runs.db"))
    (folder / "judge.py").write_text("from bars.walks import JUDGE\n", encoding="utf-8")

    def judge() -> None:
        asyncio.run(asyncio.sleep(0))  # the loop's own start is nobody's walk
        store.judge("axes.termination", judges=f"{folder}/judge.py:JUDGE")

    return {
        "import, format named": (22, lambda: store.add(RUNS, format_name="tau_bench", workers=1)),
        "import, format found": (25, lambda: sniffed.add(RUNS, workers=1)),
        "judge one rubric": (32, judge),
        "report as text": (37, lambda: store.report().text()),
        "report as HTML": (46, lambda: store.report().html(folder / "report.html")),
    }


def main() -> int:
    """Print every walk beside its limit; return 0 only when all hold, and the stack its own."""
    held = True
    here = Path.cwd()
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "stepscope.toml").write_text(SETTINGS, encoding="utf-8")
        sys.path.insert(0, str(here))
        os.chdir(folder)
        try:
            for what, (limit, work) in walks(folder).items():
                files, deepest = walk(work)
                held &= len(files) <= limit and deepest <= STACK
                print(f"{what:<22} {len(files):>3} files (at most {limit}), stack {deepest}")
                if "-v" in sys.argv:
                    print("   ", *sorted(files))
        finally:
            os.chdir(here)
    return 0 if held else 1


STACK = 20

if __name__ == "__main__":
    sys.exit(main())
