"""Read LangChain messages: plain, under `data`, or serialised (`lc`), bare or in a graph's state.

One run is: a file that is a list of messages (or one message a line); a record that is such a list;
a record with `messages`, or with a state that has them under `values`. One message is one step; it
may say `role` instead of `type`, as graphs take them. A tool's message says itself whether the tool
failed. Calls that LangChain could not take apart are calls with a parse error. What stands in
fields of a step is not repeated in `extra`; whatever else a message says is.
Refuses lists of a thread's past states, each of which repeats the one before.
Format: langchain-core 1.7.2, `messages` and `load/dump.py`; langgraph 1.2.22, `StateSnapshot`.
"""

from __future__ import annotations

import msgspec

from stepscope.errors import TraceError
from stepscope.formats import fields
from stepscope.formats.chat.messages import ENVELOPE_KEYS, MessageEnvelope, parts_without
from stepscope.formats.finish import Ordinals
from stepscope.formats.format import DecodedRecord, convert_record, message_format
from stepscope.formats.opening import Opening
from stepscope.formats.spans import messages
from stepscope.formats.spans.messages import read_messages
from stepscope.formats.spans.span import SpanMessage
from stepscope.model import Json, Step, Trajectory
from stepscope.safety.limits import Limits

_MESSAGE_TYPES = frozenset(
    "human ai system tool function chat AIMessageChunk HumanMessageChunk SystemMessageChunk "
    "ToolMessageChunk FunctionMessageChunk ChatMessageChunk".split()
)
# Types that no other format of messages has.
_OWN_TYPES = _MESSAGE_TYPES - {"system", "tool", "function", "chat"}
_OWN_KEYS = frozenset({"additional_kwargs", "response_metadata", "invalid_tool_calls"})
_ROLES = frozenset("system developer user assistant tool function human ai".split())
# Keys of lines that other recorders write under the same types.
_FOREIGN_KEYS = frozenset({"sessionId", "uuid", "parentUuid", "message"})
_WRAPPING_KEYS = frozenset("lc type id kwargs data".split())


def is_langchain_message(record: Json) -> bool:
    """Say whether a record is a message in one of LangChain's forms, or one that says its role."""
    if not isinstance(record, dict) or record.keys() & _FOREIGN_KEYS:
        return False
    inner = messages.unwrap_message(record)
    if inner is not None and "content" in inner:
        return fields.text_at(inner, "type") in _MESSAGE_TYPES
    if not isinstance(record.get("content"), str | list | None):
        return False
    if "role" in record:
        known = fields.text_at(record, "role") in _ROLES or fields.text_at(record, "type") == "chat"
        return known and ("content" in record or "tool_calls" in record)
    return "content" in record and fields.text_at(record, "type") in _MESSAGE_TYPES


def langchain_step(value: Json, index: int, limits: Limits) -> Step:
    """Return one message as the step at `index`."""
    if not is_langchain_message(value):
        raise TraceError(
            f"message {index} needs `content` and a `type` among human, ai, system and tool; found "
            f"{str(value)[:60]!r}"
        )
    inner = messages.unwrap_message(value) or value
    # A chat message may have any role; one that nobody else has is an agent's name.
    kind = fields.text_at(inner, "role") or fields.text_at(inner, "type") or ""
    kind = kind.removesuffix("MessageChunk").lower()
    named = {**inner, "role": kind if kind in _ROLES or kind == "function" else "ai"}
    (said,) = read_messages(named, "user", limits)
    ours = said.actor == "agent"
    role = None if (role := fields.text_at(inner, "role")) in _ROLES else role
    about = inner.get("response_metadata")
    around = {} if inner is value else fields.rest(value, _WRAPPING_KEYS) or {}
    found = {**around, **(fields.rest(inner, _known_keys(inner, said)) or {})}
    if "usage_metadata" not in found:
        found["usage_metadata"] = fields.uncounted_usage(inner.get("usage_metadata"))
    if ours and isinstance(about, dict):
        keys = (messages.MODEL_KEYS, messages.REASON_KEYS)
        told = [next((k for k in one if fields.text_at(about, k)), "") for one in keys]
        found["response_metadata"] = fields.rest(about, frozenset(told))
    # The tokens as LangChain counts them, else as the provider did.
    usage = messages.read_langchain_usage(inner.get("usage_metadata"))
    if usage is None and isinstance(about, dict):
        usage = fields.openai_usage(about.get("token_usage"))
        usage = usage or fields.anthropic_usage(about.get("usage"))
    return Step(
        index=index,
        actor=said.actor,
        kind=fields.step_kind(said.calls, said.results),
        parts=said.parts,
        calls=said.calls,
        results=said.results,
        agent=(fields.text_at(inner, "name") or role) if ours else None,
        model=messages.find_langchain_model(inner) if ours else None,
        usage=usage,
        finish_reason=messages.find_stop_reason(inner) if ours else None,
        id=fields.text_at(inner, "id"),
        extra={k: v for k, v in found.items() if v not in (None, {})} or None,
    )


def _known_keys(inner: dict[str, Json], said: SpanMessage) -> frozenset[str]:
    """Return the keys of a message that its step has told in full."""
    known = {"type", "role", "content"}
    texts = {"id"} | ({"name"} if said.results or said.actor == "agent" else set())
    if said.results:
        texts.add("tool_call_id")
        known |= {"artifact"} | ({"status"} if said.results[0].source == "explicit" else set())
    known |= {key for key in texts if isinstance(inner.get(key), str)}
    listed = [inner.get(key) or [] for key in ("tool_calls", "invalid_tool_calls")]
    counts = [len(calls) if isinstance(calls, list) else len(said.calls) + 1 for calls in listed]
    if sum(counts) <= len(said.calls):
        known |= {"tool_calls", "invalid_tool_calls"}
    if messages.read_langchain_usage(inner.get("usage_metadata")) is not None:
        known.add("usage_metadata")
    return frozenset(known)


NAME = "langchain_messages"
_WHOLE_KEYS = frozenset({"messages", "values"})


def _likeness(opening: Opening) -> float:
    first = opening.first_record
    if opening.shape in {"array", "lines"} and is_langchain_message(first):
        first = list(opening.records)
    elif isinstance(first, dict):
        snapshots = "values" in first and opening.shape == "array"
        first = None if snapshots else _state_messages(first)
    # The last message of a cut head may lack anything; one of them must say that it is LangChain's.
    whole = isinstance(first, list) and all(map(is_langchain_message, first[:-1]))
    return 0.95 if whole and any(map(_is_surely_langchain, first)) else 0.0


def _is_surely_langchain(record: Json) -> bool:
    """Say whether a message can be nobody else's: by its form, its type, or its keys."""
    if not is_langchain_message(record):
        return False
    if messages.unwrap_message(record) is not None:
        return True
    if "role" in record and record.get("type") != "chat":
        return False
    return record.get("type") in _OWN_TYPES or bool(record.keys() & _OWN_KEYS)


def _state_messages(record: dict[str, Json]) -> Json:
    held = record.get("values")
    return held.get("messages") if isinstance(held, dict) else record.get("messages")


def _read_record(found: DecodedRecord, ordinals: Ordinals) -> tuple[Trajectory]:
    record = found.value
    around = record if isinstance(record, dict) else {}
    listed = _state_messages(record) if isinstance(record, dict) else record
    if not isinstance(listed, list) or not listed:
        raise TraceError(f"needs a list of messages; found {str(listed)[:60]!r}")
    steps = [langchain_step(each, index, found.limits) for index, each in enumerate(listed)]
    return (_finish_run(tuple(steps), found, ordinals, around),)


def _finish_run(
    steps: tuple[Step, ...],
    at: DecodedRecord,
    ordinals: Ordinals,
    state: dict[str, Json] | None = None,
) -> Trajectory:
    state = state or {}
    # A graph's state may use these names for anything.
    around = {key: state[key] for key in ENVELOPE_KEYS & state.keys()}
    envelope, unexpected = convert_record(around, MessageEnvelope)
    values = state.get("values")
    found = fields.rest(state, ENVELOPE_KEYS | _WHOLE_KEYS) or {}
    if isinstance(values, dict):
        if more := fields.rest(values, frozenset({"messages"})):
            found["values"] = more
        if state.get("messages") is not None:
            found["messages"] = state["messages"]
    elif values is not None:
        found["values"] = values
    draft = envelope.draft(NAME, steps, at, run_id=envelope.source_id, extra=found or None)
    # The thread that a state is of, as its snapshot says.
    config = fields.object_at(fields.object_at(state, "config"), "configurable")
    thread = fields.text_at(config, "thread_id") or fields.text_at(state, "thread_id") or None
    agent = envelope.agent or next((s.agent for s in steps if s.actor == "agent"), None)
    tags = draft.tags if thread is None else {**draft.tags, "session": thread}
    name = draft.name if envelope.task_name else ""
    draft = msgspec.structs.replace(draft, name=name, agent=agent, tags=tags)
    return at.finish(draft, ordinals, unexpected)


FORMAT = message_format(
    NAME,
    _likeness,
    is_part=parts_without(_WHOLE_KEYS, is_langchain_message),
    step=langchain_step,
    whole=_read_record,
    run=_finish_run,
)
