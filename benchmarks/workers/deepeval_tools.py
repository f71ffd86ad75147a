"""Times DeepEval: tau-bench JSON parsed, its objects built, then ToolCorrectnessMetric.

With arguments compared, without its progress indicator, and synchronous, which is its faster way.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from deepeval.metrics import ToolCorrectnessMetric  # type: ignore[import-not-found]
from deepeval.test_case import (  # type: ignore[import-not-found]
    LLMTestCase,
    ToolCall,
    ToolCallParams,
)

from benchmarks.workers.serve import serve


def match_all(paths: list[Path]) -> dict[str, int]:
    """Parse the files and match every run against its reference calls."""
    metric = ToolCorrectnessMetric(
        evaluation_params=[ToolCallParams.INPUT_PARAMETERS], async_mode=False
    )
    runs = matched = 0
    for path in paths:
        for run in json.loads(path.read_bytes()):
            score = metric.measure(_test_case(run), _show_indicator=False)
            runs += 1
            matched += score >= 1
    return {"runs": runs, "matched": matched}


def _test_case(run: dict[str, Any]) -> Any:
    called = [
        ToolCall(
            name=call["function"]["name"],
            input_parameters=json.loads(call["function"]["arguments"]),
        )
        for message in run["traj"]
        for call in message.get("tool_calls") or ()
    ]
    expected = [
        ToolCall(name=action["name"], input_parameters=action["kwargs"])
        for action in run["info"]["task"]["actions"]
    ]
    request = run["info"]["task"]["instruction"]
    return LLMTestCase(input=request, tools_called=called, expected_tools=expected)


if __name__ == "__main__":
    files = [Path(name) for name in sys.argv[1:]]
    serve({"match": lambda: match_all(files)})
