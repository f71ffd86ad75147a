"""Inspect samples read, and told in short lines."""

from __future__ import annotations

from typing import Any

from stepscope.formats.inspect.read import FORMAT
from stepscope.model import Step, Trajectory
from tests.formats.inspect.made import Record, assistant, call, log, sample, user
from tests.formats.reading import run_of


def run(*events: Record, **more: Any) -> Trajectory:
    return run_of(FORMAT, log(sample(*events, **more)))


def told(step: Step) -> str:
    """A step in one short line: who, what kind, and what."""
    calls = [f"{made.name}({made.id})" for made in step.calls]
    results = [f"{r.call_id}:{r.status}:{r.text}" for r in step.results]
    marks = ["replayed"] * step.replayed + ["side"] * step.sidechain
    said = [step.agent or step.actor, step.kind, step.text, *calls, *results, *marks]
    return " ".join(part for part in said if part)


def script(found: Trajectory) -> list[str]:
    return [told(step) for step in found.steps]


GO = user("go", "u")
ASK = assistant("look", "a", call("c1", dir="/"))
DONE = assistant("done", "b")
