"""Runs of which some look around in vain, and the settings of a judge that sees it."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tests.faults.quoting import PLANTED

JUDGE = "local/gpt-b"
SETTINGS = """
[workflow.tau_bench]
baseline = "base.json"
trials = 1
[workflow.tau_bench.gates]
no_detours = {{ max_per_run = 0, severity = "hard", source = "step_labels" }}
loops = {{ max_per_run = 9 }}

[judges.model."local/gpt-b"]
base_url = "{base}/v1"
family = "openai"
price = {{ input = 1.25, output = 10, batch = 0.5 }}
"""


def calling(tool: str, number: int) -> list[dict[str, Any]]:
    made = {"name": tool, "arguments": json.dumps({"order": str(number)})}
    call = {"id": f"c{tool}{number}", "type": "function", "function": made}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "name": tool, "content": '{"state": "ok"}'},
    ]


def recorded(name: str, *, detours: Collection[int] = (), cases: int = 50, trials: int = 1) -> str:
    """Write passing runs, some of which look around in vain; return the file's name."""
    runs = [
        {
            "task_id": case,
            "trial": trial,
            "reward": 1.0,
            "traj": [
                {"role": "user", "content": f"How is my order {case}? ({name})"},
                *calling("get_order", case),
                *(calling(PLANTED, case) if case in detours else ()),
                {"role": "assistant", "content": f"Order {case} is all right, I have looked."},
            ],
        }
        for case in range(cases)
        for trial in range(trials)
    ]
    Path(f"{name}.json").write_text(json.dumps(runs), encoding="utf-8")
    return f"{name}.json"
