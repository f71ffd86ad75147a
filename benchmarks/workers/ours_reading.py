"""Times stepscope reading whole runs of every file that J1 has, each run let go at once.

`rows ...` reads with all cores, as `import` does: other processes build the runs and encode them
for the store, this one takes the rows. Every round says the highest memory of this process so far.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.workers.serve import Round, serve
from stepscope.formats.reading import read_files
from stepscope.model import Trajectory
from stepscope.runtime.processes import cores
from stepscope.safety.limits import Limits
from stepscope.score.importing import ImportPlan, RunDefaults
from stepscope.score.importing import read_rows as importing_read_rows
from stepscope.store.runs import PreparedRun


def shapes(paths: list[Path]) -> dict[str, list[str]]:
    """Return the files of each shape: the parts of the array, and the others by their names."""
    named = {path.stem.split("-")[0]: [str(path)] for path in paths if path.suffix == ".jsonl"}
    array = [str(path) for path in paths if path.suffix == ".json"]
    return {
        "array": array,
        "lines": named["tau"],
        "messages": named["messages"],
        "otlp": named["otlp"],
        "mlflow": named["mlflow"],
        "phoenix": named["phoenix"],
    }


def read(paths: list[str]) -> dict[str, int]:
    """Read every run of the files."""
    runs = steps = 0
    for reading in read_files(paths):
        for found in reading:
            if isinstance(found, Trajectory):
                runs += 1
                steps += len(found.steps)
    return {"runs": runs, "steps": steps, "peak_kib": _peak()}


def read_rows(paths: list[str]) -> dict[str, int]:
    """Read every run of the files with all cores."""
    plan = ImportPlan(Limits(), RunDefaults(), move_media=False)
    found = importing_read_rows(paths, plan, format_name=None, workers=cores())
    return {"runs": sum(isinstance(item, PreparedRun) for item in found)}


def _peak() -> int:
    """Return KiB of this process's highest resident memory; 0 where the system does not say."""
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="ascii").splitlines() if status.exists() else []
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


if __name__ == "__main__":
    rounds: dict[str, Round] = {}
    for name, paths in shapes([Path(name) for name in sys.argv[1:]]).items():
        rounds[name] = lambda paths=paths: read(paths)  # type: ignore[misc]  # bound now
        rounds[f"rows {name}"] = lambda paths=paths: read_rows(paths)  # type: ignore[misc]
    serve(rounds)
