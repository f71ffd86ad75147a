"""Events of a Google ADK session as steps: one event is one step.

A transfer to another agent is a handoff. An event that a later one repeats whole (`partial`) is
marked as replayed. What an event says beyond a step's fields stays in `extra`, empty defaults left
out.
Format: google-adk 2.13.0, `events/event.py`, `sessions/session.py`; sessions of versions before 1.0
keep what the model was asked and answered in `event_logs`.
"""

from __future__ import annotations

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.adk_content import Content, content_of, snaked, tokens, uncounted
from stepscope.formats.building import rest, text_at
from stepscope.formats.envelope import tool_defs
from stepscope.formats.times import instant
from stepscope.model import Actor, Json, Part, Step, StepKind, ToolDef, ToolResult

_KNOWN = frozenset(
    "id author content timestamp usage_metadata model_version finish_reason error_code "
    "error_message".split()
)
_TRANSCRIPTS = ("input_transcription", "output_transcription")


def is_event(record: Json) -> bool:
    """Say whether a record is one event of a session."""
    if not isinstance(record, dict) or not isinstance(record.get("author"), str):
        return False
    invoked = "invocation_id" in record or "invocationId" in record
    return invoked and bool(record.keys() & {"content", "actions", "options", "timestamp"})


def event_step(event: Json, index: int) -> Step:
    """Return one event as the step at `index`.

    Raises:
        TraceError: no object, or a content that is none.
    """
    if not isinstance(event, dict):
        raise TraceError(f"event {index} is {str(event)[:60]!r}; expected an object")
    about = snaked(event)
    held = _content(about, index)
    actions = about.get("actions")
    done = snaked(actions) if isinstance(actions, dict) else {}
    target = text_at(done, "transfer_to_agent")
    author = text_at(about, "author") or ""
    actor = _actor(author, held) if target is None else "agent"
    results = held.results if target is None else tuple(map(_handed, held.results))
    return Step(
        index=index,
        actor=actor,
        kind=_kind(held, done, target),
        parts=held.parts,
        calls=held.calls,
        results=results,
        agent=author or None if actor == "agent" else None,
        model=text_at(about, "model_version"),
        usage=tokens(about.get("usage_metadata")),
        start=instant(about.get("timestamp")),
        finish_reason=text_at(about, "finish_reason"),
        error=_failure(about),
        id=text_at(about, "id") or None,
        replayed=about.get("partial") is True,
        extra=_extra(about, done, target, held.extra),
    )


def _content(about: dict[str, Json], index: int) -> Content:
    held = content_of(about.get("content"), f"event {index}")
    if held.parts or held.calls or held.results:
        return held
    for key in _TRANSCRIPTS:
        spoken = about.get(key)
        if isinstance(spoken, dict) and isinstance(spoken.get("text"), str):
            return held._replace(parts=(Part("text", spoken["text"]),))
    return held


def _handed(result: ToolResult) -> ToolResult:
    """Return the answer to a transfer's call, which came about."""
    if result.status != "unknown":
        return result
    return msgspec.structs.replace(result, status="ok", source="protocol")


def _actor(author: str, held: Content) -> Actor:
    if held.results and not held.calls and not held.parts:
        return "environment"
    return "user" if author == "user" else "agent"


def _kind(held: Content, done: dict[str, Json], target: str | None) -> StepKind:
    if target is not None:
        return "handoff"
    if "compaction" in done:
        return "compaction"
    return "call" if held.calls else "result" if held.results else "message"


def _failure(about: dict[str, Json]) -> str | None:
    code, message = about.get("error_code"), text_at(about, "error_message")
    if code is None and message is None:
        return None
    return ": ".join([str(said) for said in (code, message) if said is not None])


def _extra(
    about: dict[str, Json],
    done: dict[str, Json],
    target: str | None,
    beside: dict[str, Json] | None,
) -> dict[str, Json] | None:
    found = _said(rest(about, _KNOWN) or {})
    used = uncounted(about.get("usage_metadata"))
    found |= {k: v for k, v in (("content", beside), ("usage_metadata", used)) if v is not None}
    acted = _said(done)
    acted.pop("transfer_to_agent", None)
    if isinstance(about.get("actions"), dict):
        found.pop("actions", None)
    if acted:
        found["actions"] = acted
    node = found.get("node_info")
    if isinstance(node, dict) and not any(node.values()):
        del found["node_info"]
    return ({"to": target} if target is not None else {}) | found or None


def _said(about: dict[str, Json]) -> dict[str, Json]:
    """Return what is no default: the SDK writes empty objects and lists where there is nothing."""
    return {key: value for key, value in about.items() if value not in ({}, [], "")}


def logged(steps: list[Step], logs: Json) -> list[Step]:
    """Return steps with the tokens and models that a session's log of model calls has of them."""
    answers: dict[str, dict[str, Json]] = {}
    for log in logs if isinstance(logs, list) else ():
        answer = log.get("model_response") if isinstance(log, dict) else None
        if isinstance(answer, dict) and isinstance(log.get("event_id"), str):
            answers[log["event_id"]] = answer
    return [
        step if step.id is None or step.id not in answers else _with_log(step, answers[step.id])
        for step in steps
    ]


def _with_log(step: Step, answer: dict[str, Json]) -> Step:
    candidates = answer.get("candidates")
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    reason = text_at(first, "finish_reason") if isinstance(first, dict) else None
    return msgspec.structs.replace(
        step,
        usage=step.usage or tokens(answer.get("usage_metadata")),
        model=step.model or text_at(answer, "model_version"),
        finish_reason=step.finish_reason or reason,
    )


def declared(listed: Json, agent: str | None = None) -> tuple[ToolDef, ...]:
    """Return the functions that a model was offered, in lists of declarations."""
    found: dict[str, ToolDef] = {}
    for tool in listed if isinstance(listed, list) else ():
        about = snaked(tool) if isinstance(tool, dict) else {}
        functions = about.get("function_declarations")
        for function in functions if isinstance(functions, list) else ():
            if not isinstance(function, dict):
                continue
            plain = snaked(function)
            if "parameters_json_schema" in plain:
                plain["parameters"] = plain.pop("parameters_json_schema")
            (one,) = tool_defs([plain]) or ()
            found.setdefault(one.name, msgspec.structs.replace(one, agent=agent))
    return tuple(found.values())


def offered(logs: Json) -> tuple[ToolDef, ...]:
    """Return the functions that the model calls of a log offered, each once."""
    found: dict[str, ToolDef] = {}
    for log in logs if isinstance(logs, list) else ():
        match log:
            case {"model_request": {"config": {"tools": list(listed)}}}:
                for tool in declared(listed):
                    found.setdefault(tool.name, tool)
    return tuple(found.values())
