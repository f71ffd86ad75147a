"""Plant a regression in recorded tau-bench runs: an agent that asks everything twice, then fails.

Every tool call and its result are said a second time, the agent's words change a little, and the
task is not done: reward 0. For the tutorial; your own agent needs no help.

    python regress.py runs.json > worse.json
"""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any


def repeated(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages with every call, and its results, said twice."""
    said: list[dict[str, Any]] = []
    exchange: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] != "tool":
            said += copy.deepcopy(exchange)
            exchange = []
        if message.get("tool_calls") or message["role"] == "tool":
            exchange.append(message)
        said.append(message | changed(message))
    return said + copy.deepcopy(exchange)


def changed(message: dict[str, Any]) -> dict[str, str]:
    """Return what the agent says differently: these are new runs, not the recorded ones."""
    if message["role"] != "assistant" or not message.get("content"):
        return {}
    return {"content": f"Let me check that again. {message['content']}"}


def worse(run: dict[str, Any]) -> dict[str, Any]:
    """Return a run of an agent that repeats itself and fails."""
    return run | {"traj": repeated(run["traj"]), "reward": 0.0}


if __name__ == "__main__":
    runs = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    json.dump([worse(run) for run in runs], sys.stdout)
