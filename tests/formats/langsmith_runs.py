"""Runs of LangSmith: recorded from langsmith 0.15.0 under LangChain 1.4, and made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stepscope.formats.langsmith_files import FORMAT
from stepscope.model import Json, Quarantined, Trajectory
from tests.formats.reading import read

DATA = Path(__file__).parent / "data"
Record = dict[str, Any]


def recorded(name: str) -> bytes:
    return (DATA / f"langsmith_{name}").read_bytes()


def entries(name: str) -> list[Record]:
    return [json.loads(line) for line in recorded(name).splitlines()]


def a_run(own: str, parent: str | None = None, second: int = 0, /, **about: Json) -> Record:
    """A run that lasts a second and a half, of the trace `t` unless told otherwise."""
    made: Record = {
        "id": own,
        "name": own,
        "run_type": "chain",
        "trace_id": "t",
        "start_time": f"2026-11-22T04:{second // 60:02}:{second % 60:02}",
        "end_time": f"2026-11-22T04:{second // 60:02}:{second % 60:02}.500000",
        "inputs": {},
        **about,
    }
    return made if parent is None else {**made, "parent_run_id": parent}


def a_model(own: str, parent: str | None, second: int, /, messages: Json, said: Json) -> Record:
    """A round with OpenAI's client."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **said}}
    return a_run(
        own,
        parent,
        second,
        run_type="llm",
        inputs={"model": "m", "messages": messages},
        outputs={"id": own, "model": "m-1", "choices": [choice]},
    )


def user(text: str) -> Record:
    return {"role": "user", "content": text}


def called(name: str, own: str, arguments: str = "{}") -> Record:
    function = {"name": name, "arguments": arguments}
    return {"content": None, "tool_calls": [{"id": own, "type": "function", "function": function}]}


ASKED = called("look", "c1", '{"at": 1}')
ROUNDS = [
    a_run("t", end_time="2026-11-22T04:00:30", inputs={"question": "go"}, outputs={"output": "ok"}),
    a_model("m1", "t", 1, [user("go")], ASKED),
    a_run("look", "t", 3, run_type="tool", inputs={"at": 1}, outputs={"output": "a door"}),
    a_model(
        "m2",
        "t",
        5,
        [
            user("go"),
            {"role": "assistant", **ASKED},
            {"role": "tool", "tool_call_id": "c1", "content": "a door"},
        ],
        {"content": "A door."},
    ),
]


def told(run: Trajectory) -> list[tuple[str, str, str | None]]:
    return [(step.actor, step.kind, step.agent) for step in run.steps]


def results(run: Trajectory) -> list[tuple[str | None, str, str, str]]:
    found = [result for step in run.steps for result in step.results]
    return [(r.call_id, r.text, r.status, r.source) for r in found]


def runs_of(value: Json) -> list[Trajectory]:
    found = read(FORMAT, value)
    assert not [each for each in found if isinstance(each, Quarantined)]
    return [each for each in found if isinstance(each, Trajectory)]
