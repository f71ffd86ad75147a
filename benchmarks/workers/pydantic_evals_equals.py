"""Times pydantic-evals: tau-bench JSON parsed, a Dataset of Cases built, EqualsExpected on calls.

Its trajectory evaluators read only spans of a live run, so its own equality stands in: a strict
comparison of names and arguments, which is less work than a match in any order.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic_evals import Case, Dataset  # type: ignore[import-not-found]
from pydantic_evals.evaluators import EqualsExpected  # type: ignore[import-not-found]

from benchmarks.workers.serve import serve

Calls = list[tuple[str, Any]]


def match_all(paths: list[Path]) -> dict[str, int]:
    """Parse the files and compare every run with its reference calls."""
    runs = matched = 0
    for path in paths:
        cases = [
            Case(
                inputs=run["traj"],
                expected_output=[(a["name"], a["kwargs"]) for a in run["info"]["task"]["actions"]],
            )
            for run in json.loads(path.read_bytes())
        ]
        dataset = Dataset(name="runs", cases=cases, evaluators=[EqualsExpected()])
        report = dataset.evaluate_sync(_calls, progress=False)
        runs += len(report.cases)
        matched += sum(case.assertions["EqualsExpected"].value for case in report.cases)
    return {"runs": runs, "matched": matched}


def _calls(messages: list[dict[str, Any]]) -> Calls:
    return [
        (call["function"]["name"], json.loads(call["function"]["arguments"]))
        for message in messages
        for call in message.get("tool_calls") or ()
    ]


if __name__ == "__main__":
    files = [Path(name) for name in sys.argv[1:]]
    serve({"match": lambda: match_all(files)})
