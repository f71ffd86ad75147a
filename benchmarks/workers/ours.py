"""Times stepscope: match message lists, read into complete trajectories, and every measure.

`match` is what the peers do (parse the messages, build the calls, one match in any order with exact
arguments); `whole` is that match over complete trajectories (content id, warnings, all that is
read); `read` is the reading alone; `score` is reading and every installed measure, `vector` those
of the report vector; each run is let go afterwards. These three run under the collector's settings
of the processes in which `stepscope import` and `stepscope score` do the same; `match` and `whole`,
as the peers, under those that Python begins with.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.workers.serve import serve
from stepscope import match, registry
from stepscope.formats.chat.messages import CallMessage
from stepscope.formats.reading import read_files
from stepscope.measures.same_calls import compare_calls
from stepscope.model import Facts, ReferenceCall, Trajectory
from stepscope.runtime.processes import rare_collections


def trajectories(paths: list[Path]) -> Iterator[Trajectory]:
    """Yield every run of the files, as `stepscope import` reads them."""
    for reading in read_files([str(path) for path in paths]):
        for entry in reading:
            if isinstance(entry, Trajectory):
                yield entry


def read_all(paths: list[Path]) -> dict[str, int]:
    """Read every run and let it go."""
    with rare_collections():
        return {"runs": sum(1 for _ in trajectories(paths))}


class ReferenceAction(msgspec.Struct, gc=False):
    """A reference call as tau-bench writes it."""

    name: str
    kwargs: dict[str, Any]


class _Task(msgspec.Struct, gc=False):
    actions: list[ReferenceAction]


class _Info(msgspec.Struct, gc=False):
    task: _Task


class _Run(msgspec.Struct, gc=False):
    traj: list[CallMessage]
    info: _Info


_RUNS = msgspec.json.Decoder(list[_Run])


def match_all(paths: list[Path]) -> dict[str, int]:
    """Parse the files and match every run's messages against its reference calls."""
    runs = matched = 0
    for path in paths:
        for run in _RUNS.decode(path.read_bytes()):
            wanted = [ReferenceCall(action.name, action.kwargs) for action in run.info.task.actions]
            runs += 1
            matched += match(run.traj, wanted, mode="unordered", arguments="exact").matched
    return {"runs": runs, "matched": matched}


def match_whole(paths: list[Path]) -> dict[str, int]:
    """Read every run whole and match it against its reference calls."""
    runs = matched = 0
    for trajectory in trajectories(paths):
        runs += 1
        case = trajectory.case
        if case is not None and case.reference is not None:
            calls = [exchange.call for exchange in trajectory.exchanges]
            found = compare_calls(calls, case.reference, mode="unordered", arguments="exact")
            matched += found.matched
    return {"runs": runs, "matched": matched}


# The evidence judge and what shares its logic: it reads every word, the others mostly calls.
JUDGE = ("axes.", "grounding", "localise", "step_labels", "tool_schema")


def score_all(paths: list[Path], without: tuple[str, ...] = ()) -> dict[str, int]:
    """Read every run and ask every installed measure about it but those named."""
    measures = [m for m in registry.installed_measures() if not m.name.startswith(without)]
    facts = Facts()
    runs = answers = 0
    with rare_collections():
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
            "whole": lambda: match_whole(files),
            "score": lambda: score_all(files),
            "vector": lambda: score_all(files, JUDGE),
        }
    )
