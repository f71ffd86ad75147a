"""Times agentevals: tau-bench JSON parsed, then its match, unordered, arguments exact."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from agentevals.trajectory.match import (  # type: ignore[import-not-found]
    create_trajectory_match_evaluator,
)

from benchmarks.workers.serve import serve


def match_all(paths: list[Path]) -> dict[str, int]:
    """Parse the files and match every run against its reference calls."""
    evaluate = create_trajectory_match_evaluator(trajectory_match_mode="unordered")
    runs = matched = 0
    for path in paths:
        for run in json.loads(path.read_bytes()):
            outcome = evaluate(outputs=run["traj"], reference_outputs=_reference(run))
            runs += 1
            matched += bool(outcome["score"])
    return {"runs": runs, "matched": matched}


def _reference(run: dict[str, Any]) -> list[dict[str, Any]]:
    calls = [
        {
            "id": str(at),
            "type": "function",
            "function": {"name": action["name"], "arguments": json.dumps(action["kwargs"])},
        }
        for at, action in enumerate(run["info"]["task"]["actions"])
    ]
    return [{"role": "assistant", "content": "", "tool_calls": calls}]


if __name__ == "__main__":
    files = [Path(name) for name in sys.argv[1:]]
    serve({"match": lambda: match_all(files)})
