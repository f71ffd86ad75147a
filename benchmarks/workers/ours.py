"""Times stepscope: read into complete trajectories, match, and every measure.

`match` is what the peers do (parse, build, one match in any order with exact arguments); `read` is
the reading alone; `score` is reading and every installed measure, each run let go afterwards.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.workers.serve import serve
from stepscope import registry
from stepscope.formats.importing import readings
from stepscope.measures.match import compare
from stepscope.model import Facts, Trajectory


def trajectories(paths: list[Path]) -> Iterator[Trajectory]:
    """Yield every run of the files, as `stepscope import` reads them."""
    for reading in readings([str(path) for path in paths]):
        for entry in reading:
            if isinstance(entry, Trajectory):
                yield entry


def read_all(paths: list[Path]) -> dict[str, int]:
    """Read every run and let it go."""
    return {"runs": sum(1 for _ in trajectories(paths))}


def match_all(paths: list[Path]) -> dict[str, int]:
    """Read every run and match it against its reference calls."""
    runs = matched = 0
    for trajectory in trajectories(paths):
        runs += 1
        case = trajectory.case
        if case is not None and case.reference is not None:
            calls = [exchange.call for exchange in trajectory.exchanges]
            found = compare(calls, case.reference, mode="unordered", arguments="exact")
            matched += found.matched
    return {"runs": runs, "matched": matched}


def score_all(paths: list[Path]) -> dict[str, int]:
    """Read every run and ask every installed measure about it."""
    measures = registry.measures()
    facts = Facts()
    runs = answers = 0
    for trajectory in trajectories(paths):
        runs += 1
        for measure in measures:
            answers += sum(1 for _ in measure(trajectory, trajectory.case, facts))
    return {"runs": runs, "answers": answers}


if __name__ == "__main__":
    files = [Path(name) for name in sys.argv[1:]]
    serve(
        {
            "read": lambda: read_all(files),
            "match": lambda: match_all(files),
            "score": lambda: score_all(files),
        }
    )
