"""Events of the OpenHands agent SDK (1.x) as steps: what is of one response of the model is one.

Calls and answers pair on the call's id; whether an answer is an error is explicit. Events that are
none of the conversation's (state updates, pauses) are steps of kind `other`, kept whole.
Format: openhands-sdk 1.58.0, `openhands/sdk/event`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stepscope.errors import TraceError
from stepscope.formats import fields
from stepscope.formats.chat.response_items import join_turn
from stepscope.formats.fields import ToolStatus
from stepscope.model import Actor, Json, Part, Step, ToolDef, ToolResult
from stepscope.safety.limits import Limits

_ACTORS: dict[str, Actor] = {
    "agent": "agent",
    "user": "user",
    "environment": "environment",
    "hook": "environment",
}
_KINDS = frozenset(
    "UserRejectObservation Condensation CondensationRequest CondensationSummaryEvent".split()
)
_EVENT = frozenset({"timestamp", "source", "kind"})
# Each action's own time stays with its call: those of one response are one step.
_ACTION = frozenset(
    "source kind thought reasoning_content thinking_blocks tool_name tool_call_id tool_call "
    "llm_response_id".split()
)
_ANSWER = _EVENT | frozenset({"tool_name", "tool_call_id", "observation", "error"})
_MESSAGE = _EVENT | frozenset({"llm_message", "llm_response_id", "sender"})
_SAID = frozenset({"role", "content", "reasoning_content", "thinking_blocks"})


def is_sdk_event(record: Json) -> bool:
    """Say whether a record is one such event."""
    if not isinstance(record, dict) or fields.text_at(record, "source") not in _ACTORS:
        return False
    kind = fields.text_at(record, "kind") or ""
    return (kind.endswith("Event") or kind in _KINDS) and "timestamp" in record


def read_sdk_step(event: dict[str, Json], index: int, limits: Limits) -> Step:
    """Return one event as the step at `index`."""
    actor = _ACTORS.get(fields.text_at(event, "source") or "")
    if actor is None:
        raise TraceError(f"event {index} needs a `source`; found {str(event.get('source'))[:60]!r}")
    kind = fields.text_at(event, "kind") or ""
    reading = _READING.get(kind)
    if reading is not None:
        step = reading(event, index, actor, limits)
    elif kind.startswith("Condensation"):
        summary = fields.text_at(event, "summary")
        parts = (Part("text", summary),) if summary else ()
        extra = fields.rest(event, _EVENT | {"summary"})
        step = Step(index=index, actor=actor, kind="compaction", parts=parts, extra=extra)
    else:
        failed = fields.text_at(event, "detail") or fields.text_at(event, "code")
        error = failed if kind == "ConversationErrorEvent" else None
        step = Step(index=index, actor=actor, kind="other", error=error, extra=event)
    return msgspec.structs.replace(step, start=fields.parse_time(event.get("timestamp")))


def _action(event: dict[str, Json], index: int, actor: Actor, limits: Limits) -> Step:
    held = fields.object_at(event, "tool_call")
    name = fields.text_at(event, "tool_name") or fields.text_at(held, "name")
    if name is None:
        raise TraceError(f"event {index} needs text under `tool_name`")
    call_id = fields.text_at(event, "tool_call_id") or fields.text_at(held, "id")
    made = held.get("arguments")
    call = fields.parse_call(name, {} if made is None else made, call_id, limits=limits)
    extra = fields.rest(event, _ACTION) or {}
    if more := fields.rest(held, frozenset({"id", "name", "arguments"})):
        extra["tool_call"] = more
    call = msgspec.structs.replace(call, extra=extra or None)
    return Step(
        index=index,
        actor="agent",
        kind="call",
        parts=(*_thoughts(event), *_content(event.get("thought"), index)),
        calls=(call,),
        id=fields.text_at(event, "llm_response_id"),
    )


def _thoughts(about: dict[str, Json]) -> tuple[Part, ...]:
    """Return what was thought before something was said."""
    parts: list[Part] = []
    reasoning = fields.text_at(about, "reasoning_content")
    if reasoning:
        parts.append(Part("reasoning", reasoning))
    for block in fields.entries_at(about, "thinking_blocks"):
        match block:
            case {"thinking": str(text)} if text == reasoning:
                pass
            case {"thinking": str(text)}:
                parts.append(
                    Part("reasoning", text, extra=fields.rest(block, frozenset({"thinking"})))
                )
            case _:
                held = block if isinstance(block, dict) else {"value": block}
                parts.append(Part("reasoning", extra=held))
    return tuple(parts)


def _content(listed: Json, index: int) -> tuple[Part, ...]:
    if listed is None:
        return ()
    if isinstance(listed, str):
        return (Part("text", listed),) if listed else ()
    if not isinstance(listed, list):
        raise TraceError(f"event {index} needs a list of contents; found {str(listed)[:60]!r}")
    parts: list[Part] = []
    for entry in listed:
        match entry:
            case {"text": str(text)}:
                known = frozenset({"type", "text"} if entry.get("cache_prompt") else _PLAIN)
                parts.append(Part("text", text, extra=fields.rest(entry, known)))
            case {"image_urls": list(urls)}:
                parts += [fields.url_part("image", str(url)) for url in urls]
            case _:
                held = entry if isinstance(entry, dict) else {"value": entry}
                parts.append(Part("data", extra=held))
    return tuple(parts)


_PLAIN = frozenset({"type", "text", "cache_prompt"})


def _message(event: dict[str, Json], index: int, actor: Actor, limits: Limits) -> Step:
    message = event.get("llm_message")
    if not isinstance(message, dict):
        raise TraceError(f"event {index} needs an object under `llm_message`")
    extra = {**(fields.rest(event, _MESSAGE) or {}), **(fields.rest(message, _SAID) or {})}
    return Step(
        index=index,
        actor=actor,
        parts=(*_thoughts(message), *_content(message.get("content"), index)),
        agent=fields.text_at(event, "sender") if actor == "agent" else None,
        id=fields.text_at(event, "llm_response_id"),
        extra={key: value for key, value in extra.items() if value not in ([], {}, "")} or None,
    )


def _system(event: dict[str, Json], index: int, actor: Actor, limits: Limits) -> Step:
    held = [event.get(key) for key in ("system_prompt", "dynamic_context")]
    parts = _content([entry for entry in held if entry is not None], index)
    extra = fields.rest(event, _EVENT | {"system_prompt", "dynamic_context", "tools"})
    return Step(index=index, actor="system", parts=parts, extra=extra)


def _answer(event: dict[str, Json], index: int, actor: Actor, limits: Limits) -> Step:
    about = fields.object_at(event, "observation")
    failed = fields.text_at(event, "error") or fields.text_at(event, "rejection_reason")
    parts = (Part("text", failed),) if failed else _content(about.get("content"), index)
    result = ToolResult(
        fields.text_at(event, "tool_call_id"),
        fields.text_at(event, "tool_name"),
        parts,
        None,
        *_judged(failed, about, parts),
        extra={
            **(fields.rest(event, _ANSWER) or {}),
            **(fields.rest(about, frozenset({"content"})) or {}),
        },
    )
    return Step(index=index, actor="environment", kind="result", results=(result,))


def _judged(failed: str | None, about: dict[str, Json], parts: tuple[Part, ...]) -> ToolStatus:
    text = fields.parts_text(parts)
    if failed is not None:
        return ToolStatus("error", "explicit", failed[:200])
    flag, code = about.get("is_error"), about.get("exit_code")
    if flag is True:
        return ToolStatus("error", "explicit", text[:200] or None)
    # A command's own exit code says more than that it could be run; -1 is one that still runs.
    if isinstance(code, int) and not isinstance(code, bool) and code > 0:
        return ToolStatus("error", "explicit", f"exit code {code}")
    if flag is None or code == -1:
        return fields.infer_text_status(text)
    return ToolStatus("ok", "explicit", None)


_READING: dict[str, Callable[[dict[str, Json], int, Actor, Limits], Step]] = {
    "ActionEvent": _action,
    "MessageEvent": _message,
    "SystemPromptEvent": _system,
    "ObservationEvent": _answer,
    "AgentErrorEvent": _answer,
    "UserRejectObservation": _answer,
}


def join_sdk_turns(steps: list[Step]) -> list[Step]:
    """Return steps with the calls of one response joined: one turn of the agent."""
    made: list[Step] = []
    for step in steps:
        before = made[-1] if made else None
        if before is not None and before.calls and step.calls and step.id is not None:
            if before.id == step.id and not before.results:
                made[-1] = join_turn(before, step)
                continue
        made.append(step)
    return made


def read_sdk_tools(event: Json) -> tuple[ToolDef, ...]:
    """Return the tools that a system prompt's event offers, their titles as names."""
    found: list[ToolDef] = []
    for tool in fields.entries_at(event, "tools"):
        about = tool if isinstance(tool, dict) else {}
        name = (
            fields.text_at(about, "name")
            or fields.text_at(about, "title")
            or fields.text_at(about, "kind")
        )
        if name is not None:
            extra = fields.rest(about, frozenset({"name", "title", "description"}))
            found.append(ToolDef(name, fields.text_at(about, "description"), extra=extra))
    return tuple(found)


def find_sdk_metrics(event: Json) -> Json:
    """Return the metrics that a state's update holds, None where it holds none."""
    if not isinstance(event, dict) or event.get("kind") != "ConversationStateUpdateEvent":
        return None
    value = event.get("value")
    stats = value.get("stats") if isinstance(value, dict) and "stats" in value else value
    held = fields.object_at(stats, "usage_to_metrics")
    return held.get("agent") or next(iter(held.values()), None)
