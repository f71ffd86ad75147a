"""Edits of a frozen run that planting needs: steps changed, inserted, removed, numbered anew."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

import msgspec

from stepscope.model import (
    Json,
    Label,
    Outcome,
    Part,
    Step,
    ToolCall,
    ToolResult,
    Trajectory,
    digest,
)

Steps = Sequence[Step]


def finished(original: Trajectory, kind: str, step: int, steps: Iterable[Step]) -> Trajectory:
    """Return the run with other steps: a name and id of its own, its fault as a label.

    The outcome becomes unknown: what was recorded belongs to the original.
    """
    numbered = tuple(msgspec.structs.replace(s, index=at) for at, s in enumerate(steps))
    return msgspec.structs.replace(
        original,
        id=digest([original.id, kind, numbered]),
        name=f"{original.name}+{kind}",
        steps=numbered,
        outcome=Outcome(),
        labels=(Label(kind="failure", step=step, category=kind, annotator="planted"),),
        warnings=(),
        termination=None,
    )


def with_call(step: Step, old: ToolCall, new: ToolCall) -> Step:
    """Return the step with one of its calls replaced."""
    calls = tuple(new if call is old else call for call in step.calls)
    return msgspec.structs.replace(step, calls=calls)


def with_arguments(call: ToolCall, arguments: Json) -> ToolCall:
    """Return the call with other arguments, their text included."""
    raw = None if call.raw is None else msgspec.json.encode(arguments).decode()
    return msgspec.structs.replace(call, arguments=arguments, raw=raw)


def with_text(step: Step, text: str) -> Step:
    """Return the step saying `text` in place of its text parts."""
    others = tuple(part for part in step.parts if part.kind != "text")
    return msgspec.structs.replace(step, parts=(Part("text", text), *others))


def with_error(step: Step, old: ToolResult, text: str) -> Step:
    """Return the step with one of its results replaced by an error."""
    new = msgspec.structs.replace(
        old, parts=(Part("text", text),), structured=None, status="error", source="heuristic"
    )
    results = tuple(new if result is old else result for result in step.results)
    return msgspec.structs.replace(step, results=results)


def said(text: str, actor: str = "agent") -> Step:
    """Return a message of the agent or the user."""
    return Step(index=0, actor="user" if actor == "user" else "agent", parts=(Part("text", text),))


def made(name: str, arguments: Json, text: str, *, failed: bool = False) -> tuple[Step, Step]:
    """Return two steps: a call, and what came back."""
    raw = msgspec.json.encode(arguments).decode()
    call = ToolCall(name, arguments, id=f"planted_{digest([name, arguments, text])}", raw=raw)
    result = ToolResult(
        call_id=call.id,
        name=name,
        parts=(Part("text", text),),
        status="error" if failed else "ok",
        source="heuristic",
    )
    return (
        Step(index=0, actor="agent", kind="call", calls=(call,)),
        Step(index=0, actor="environment", kind="result", results=(result,)),
    )


def changed(steps: Steps, at: int, step: Step) -> list[Step]:
    """Return the steps with the one at index `at` replaced."""
    return [*steps[:at], step, *steps[at + 1 :]]


def without(steps: Steps, gone: Container[int]) -> list[Step]:
    """Return the steps but those at the indexes `gone`."""
    return [step for step in steps if step.index not in gone]


def substituted(value: Json, old: str, new: str) -> Json:
    """Return JSON with every text that is exactly `old` replaced by `new`."""
    if isinstance(value, dict):
        return {name: substituted(member, old, new) for name, member in value.items()}
    if isinstance(value, list):
        return [substituted(member, old, new) for member in value]
    return new if value == old else value


def everything_said(trajectory: Trajectory) -> str:
    """Return all text of a run, arguments included: where a planted value must not occur."""
    texts = [step.text for step in trajectory.steps]
    texts += [result.text for step in trajectory.steps for result in step.results]
    texts += [str(call.arguments) for step in trajectory.steps for call in step.calls]
    return "\n".join(texts)
