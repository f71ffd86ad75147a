"""Read histories of several agents: lists of messages whose speakers have any names.

A message is `{role, content}` with whatever roles the program has, as Magentic-One logs them (what
an agent does stands in brackets behind its name), `{role, content, name}` of an AutoGen group chat
(the role only says who speaks to whom), or a message or event of AgentChat (`source`, `type`). One
run is a file that is a list of them, one message a line, or a record with the list under
`messages`, `history` or `chat_history`; the keys around it mean what they do around OpenAI's
messages. A few names stand for the user, the system or what runs code; all others are agents.
Whether what code gave back is an error is guessed from its text; AgentChat says it itself.
Format: AutoGen 0.2 `GroupChat.messages`, Magentic-One; autogen-agentchat 0.7, `messages.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from stepscope.errors import TraceError
from stepscope.formats import fields
from stepscope.formats.chat.messages import (
    ENVELOPE_KEYS,
    ROLES,
    MessageEnvelope,
    content_parts,
    opening_messages,
)
from stepscope.formats.finish import Ordinals, finish_run
from stepscope.formats.format import DecodedRecord, convert_record, message_format
from stepscope.formats.opening import Opening
from stepscope.model import (
    Actor,
    Json,
    Part,
    Step,
    StepKind,
    ToolCall,
    ToolResult,
    Trajectory,
)
from stepscope.safety.limits import Limits

NAME = "chat_history"
_LISTS = ("messages", "history", "chat_history")
# Keys of runs that hold a history and more than that.
_OTHERS = frozenset("trajectory traj info instance_id mistake_step mistake_agent".split())
_EVENT = re.compile(r"[A-Z]\w*(?:Message|Event)")
_SUFFIX = re.compile(r"(.*?)\s*\((.*)\)\Z", re.DOTALL)
_KNOWN_SPEAKERS: dict[str, Actor] = {
    **dict.fromkeys(("user", "human", "user_proxy", "userproxy", "admin", "customer"), "user"),
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(
        ("tool", "function", "environment", "computer_terminal", "code_executor", "executor"),
        "environment",
    ),
}
_USAGE = ("prompt_tokens", "completion_tokens")
_EVENT_KEYS = frozenset({"source", "type", "content", "models_usage", "created_at", "id", "target"})


def is_history_message(record: Json) -> bool:
    """Say whether a record is one message of such a history."""
    if not isinstance(record, dict) or "content" not in record:
        return False
    return isinstance(record.get("role"), str) or is_agent_event(record)


def is_agent_event(record: dict[str, Json]) -> bool:
    """Say whether a message is one of AgentChat."""
    sort = fields.text_at(record, "type")
    return isinstance(record.get("source"), str) and bool(sort and _EVENT.fullmatch(sort))


def _likeness(opening: Opening) -> float:
    messages: Sequence[Json] | None = opening_messages(opening, is_history_message)
    wrapped = opening.records[0] if opening.records else None
    if messages is None and isinstance(wrapped, dict) and not wrapped.keys() & _OTHERS:
        messages = next((x for key in _LISTS if isinstance(x := wrapped.get(key), list)), None)
    # The last message of a cut head may lack its content.
    whole = [one for one in messages or () if is_history_message(one)]
    if not whole or len(whole) < len(messages or ()) - 1:
        return 0.0
    if any(map(is_agent_event, whole)):
        return 0.95
    roles = {one["role"] for one in whole}
    if not roles <= ROLES | {"exit", "model"}:
        return 0.7
    names = {fields.text_at(one, "name") for one in whole if one["role"] == "user"}
    named = all(isinstance(one.get("name"), str) for one in whole)
    # A chat with the OpenAI API has one user at most whose every message bears a name.
    return 0.85 if named and len(names) > 1 and roles <= {"user", "assistant"} else 0.0


def history_step(value: Json, index: int) -> Step:
    """Return one message as the step at `index`.

    Raises:
        TraceError: no object, nobody who says it, or content that is none.
    """
    at = f"message {index}"
    if not isinstance(value, dict):
        raise TraceError(f"{at} is {str(value)[:60]!r}; expected an object")
    if is_agent_event(value):
        return _event_step(value, index)
    role, name = value.get("role"), fields.text_at(value, "name")
    if not isinstance(role, str):
        raise TraceError(f"{at} has no text under `role`; found {str(role)[:60]!r}")
    parts = content_parts(value.get("content"), index)
    extra = fields.rest(value, frozenset({"role", "content", "name"})) or {}
    if name is None and "name" in value and value["name"] is not None:
        extra = {"name": value["name"], **extra}
    match = _SUFFIX.match(role) if name is None else None
    agent, doing = (name or role, None) if match is None else (match[1], match[2])
    if name is not None or doing is not None:
        extra = {"role": role, **extra}
    actor = _KNOWN_SPEAKERS.get(agent.casefold(), "agent")
    ran = actor == "environment"
    return Step(
        index=index,
        actor=actor,
        kind=_step_kind(doing) if actor == "agent" else "message",
        parts=parts,
        agent=agent if actor == "agent" or (ran and name is not None) else None,
        error=fields.infer_text_status(fields.parts_text(parts)).error if ran else None,
        extra=extra or None,
    )


def _step_kind(doing: str | None) -> StepKind:
    if doing is not None and doing.startswith("->"):
        return "handoff"
    return "message" if doing is None else "plan" if doing == "thought" else "other"


def _event_step(value: dict[str, Json], index: int) -> Step:
    sort, source, content = value["type"], value["source"], value.get("content")
    listed = [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    calls = [
        _call(one) for one in listed if isinstance(one.get("name"), str) and "arguments" in one
    ]
    results = [_result(one) for one in listed if "call_id" in one]
    plain = [] if calls or results else content_parts(content, index)
    if sort == "ThoughtEvent":
        plain = [Part("reasoning", part.text) if part.text else part for part in plain]
    target = fields.text_at(value, "target")
    extra = fields.rest(value, _EVENT_KEYS) or {}
    extra |= {"type": sort} if sort not in ("TextMessage", "ToolCallRequestEvent") else {}
    actor = "environment" if results else _KNOWN_SPEAKERS.get(source.casefold(), "agent")
    return Step(
        index=index,
        actor=actor,
        kind="handoff" if target is not None else fields.step_kind(calls, results),
        parts=tuple(plain),
        calls=tuple(calls),
        results=tuple(results),
        agent=source if actor == "agent" else None,
        usage=fields.openai_usage(value.get("models_usage")),
        start=fields.parse_time(value.get("created_at")),
        id=fields.text_at(value, "id"),
        extra=(extra if target is None else {"to": target, **extra}) or None,
    )


_LIMITS = Limits()  # nesting and size of the arguments


def _call(value: dict[str, Json]) -> ToolCall:
    call_id = fields.text_at(value, "id")
    known = frozenset({"name", "arguments", *(("id",) if call_id is not None else ())})
    extra = fields.rest(value, known)
    return fields.parse_call(
        value["name"], value["arguments"], call_id or None, limits=_LIMITS, extra=extra
    )


def _result(value: dict[str, Json]) -> ToolResult:
    text = value.get("content")
    said = text if isinstance(text, str) else msgspec.json.encode(text).decode()
    flag = value.get("is_error")
    judged = fields.infer_text_status(said)
    if flag is True:
        judged = fields.ToolStatus("error", "explicit", said.strip()[:200])
    elif flag is False:
        judged = fields.ToolStatus("ok", "explicit", None)
    call_id, name = fields.text_at(value, "call_id"), fields.text_at(value, "name")
    known = {"content", *(key for key in ("call_id", "name") if isinstance(value.get(key), str))}
    extra = fields.rest(value, frozenset(known | {"is_error"} if isinstance(flag, bool) else known))
    call_id = call_id or None
    return ToolResult(call_id, name, (Part("text", said),), None, *judged, extra=extra)


def _is_part(record: Json) -> bool:
    return not isinstance(record, list) and not (
        isinstance(record, dict) and any(isinstance(record.get(key), list) for key in _LISTS)
    )


def _read_record(found: DecodedRecord, ordinals: Ordinals) -> tuple[Trajectory]:
    record = found.value
    around = record if isinstance(record, dict) else {}
    key = next((key for key in _LISTS if isinstance(around.get(key), list)), "")
    listed = around[key] if key else record
    if not listed:
        raise TraceError("a history without a single message")
    steps = tuple([history_step(message, index) for index, message in enumerate(listed)])
    return (_finish(steps, found, ordinals, around, key),)


def _finish(
    steps: tuple[Step, ...],
    found: DecodedRecord,
    ordinals: Ordinals,
    around: dict[str, Json] | None = None,
    key: str = "",
) -> Trajectory:
    around = around or {}
    envelope, unexpected = convert_record(around, MessageEnvelope)
    stop = fields.text_at(around, "stop_reason")
    extra = fields.rest(around, ENVELOPE_KEYS | {key, *(["stop_reason"] if stop else ())})
    draft = envelope.draft(NAME, steps, found, run_id=envelope.source_id, extra=extra)
    start, end = fields.time_bounds(steps)
    draft = msgspec.structs.replace(draft, termination=stop, start=start, end=end)
    return finish_run(
        unexpected.keep_in(draft), ordinals, limits=found.limits, repairs=found.repairs
    )


def _read_step(value: Json, index: int, limits: Limits) -> Step:
    return history_step(value, index)


FORMAT = message_format(
    NAME,
    _likeness,
    is_part=_is_part,
    step=_read_step,
    whole=_read_record,
    run=_finish,
)
