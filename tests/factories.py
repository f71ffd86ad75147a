"""Runs as literals: what a test says happened, in the order it happened.

>>> run(user("cancel it"), *did("cancel", "done", id="A")).steps[1].calls[0].name
'cancel'
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from stepscope import registry
from stepscope.model import (
    Belief,
    Case,
    Json,
    Outcome,
    Part,
    ResultStatus,
    Source,
    Step,
    SubGoal,
    ToolCall,
    ToolResult,
    Trajectory,
)
from stepscope.store.columns import ANSWERED, Signs

Turn = tuple[Step, Step]


def current_version(measure: str) -> str:
    """Return the version of an axis as it is now, "1" of any other measure."""
    return registry.measure(measure).version if measure.startswith("axes.") else "1"


def system(text: str) -> Step:
    return Step(index=0, actor="system", parts=(Part("text", text),))


def user(text: str) -> Step:
    return Step(index=0, actor="user", parts=(Part("text", text),))


def agent(text: str) -> Step:
    return Step(index=0, actor="agent", parts=(Part("text", text),))


def calls(*made: ToolCall, text: str = "") -> Step:
    parts = (Part("text", text),) if text else ()
    return Step(index=0, actor="agent", kind="call", parts=parts, calls=made)


def result(
    text: str,
    status: ResultStatus = "ok",
    *,
    source: Belief = "explicit",
    call_id: str | None = None,
) -> Step:
    answer = ToolResult(
        call_id=call_id,
        parts=(Part("text", text),),
        status=status,
        source=source,
        error=text if status == "error" else None,
    )
    return Step(index=0, actor="environment", kind="result", results=(answer,))


def did(tool: str, text: str = "ok", /, **arguments: Json) -> Turn:
    """Return two steps: a call of `tool` and its answer."""
    return calls(ToolCall(tool, arguments)), result(text)


def failed(tool: str, text: str = "Error: no", /, **arguments: Json) -> Turn:
    """Return two steps: a call of `tool` and the error that came back."""
    return calls(ToolCall(tool, arguments)), result(text, "error")


def goal(tool: str, *, name: str = "", after: tuple[str, ...] = (), **arguments: Json) -> SubGoal:
    return SubGoal(name or tool, tool, arguments, after)


def run(
    *steps: Step,
    id: str = "r1",
    name: str = "shop/1/0",
    task: str | None = "1",
    trial: str | None = "0",
    outcome: Outcome = Outcome(),  # noqa: B008 (frozen)
    case: Case | None = None,
    **fields: Json,
) -> Trajectory:
    """Return a run of these steps, numbered from 0."""
    numbered = tuple(msgspec.structs.replace(step, index=at) for at, step in enumerate(steps))
    return Trajectory(
        id=id,
        name=name,
        steps=numbered,
        source=Source(format="test"),
        workflow="shop",
        task=task,
        trial=trial,
        outcome=outcome,
        case=case,
        **fields,
    )


PASSED = Outcome(status="pass", source="reward", reward=1.0)
FAILED = Outcome(status="fail", source="reward", reward=0.0)


def signs(of_runs: Sequence[Sequence[str]], step: int = 3, *, states: Sequence[int] = ()) -> Signs:
    """Return the signatures of runs, given for each, all at one step; seen unless states say."""
    texts = tuple(dict.fromkeys(text for of in of_runs for text in of))
    pairs = [(texts.index(text), at) for at, of in enumerate(of_runs) for text in of]
    number, at = np.array(pairs, np.int64).reshape(-1, 2).T
    state = np.array(states or [ANSWERED] * len(of_runs), np.int8)
    return Signs(texts=texts, number=number, at=at, step=np.full(len(pairs), step), state=state)


def count_calls(work: Callable[[], object]) -> int:
    """Return how many functions, of ours and of the interpreter, were called."""
    n = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal n
        n += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return n
