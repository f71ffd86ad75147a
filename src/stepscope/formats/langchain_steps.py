"""One message of LangChain as one step, in whichever of its forms it is written.

A message may say `role` instead of `type`, as graphs take them. What stands in fields of a step is
not repeated in `extra`; whatever else a message says is.
Format: langchain-core 1.7.2, `messages`; `messages_to_dict`, `dumpd`.
"""

from __future__ import annotations

from stepscope.errors import TraceError
from stepscope.formats.building import rest, text_at
from stepscope.formats.spans import langchain
from stepscope.formats.spans.messages import read
from stepscope.formats.spans.said import Message
from stepscope.formats.tokens import anthropic_usage, openai_usage, uncounted
from stepscope.model import Json, Step, StepKind, Usage
from stepscope.safety.limits import Limits

_TYPES = frozenset(
    "human ai system tool function chat AIMessageChunk HumanMessageChunk SystemMessageChunk "
    "ToolMessageChunk FunctionMessageChunk ChatMessageChunk".split()
)
# Types that no other format of messages has.
_OWN_TYPES = _TYPES - {"system", "tool", "function", "chat"}
_OWN_KEYS = frozenset({"additional_kwargs", "response_metadata", "invalid_tool_calls"})
_ROLES = frozenset("system developer user assistant tool function human ai".split())
# Keys of lines that other recorders write under the same types.
_FOREIGN = frozenset({"sessionId", "uuid", "parentUuid", "message"})
_WRAPPING = frozenset("lc type id kwargs data".split())
_MODEL = ("model_name", "model", "model_id")
_REASON = ("finish_reason", "stop_reason", "done_reason", "stopReason")


def is_message(record: Json) -> bool:
    """Say whether a record is a message in one of LangChain's forms, or one that says its role."""
    if not isinstance(record, dict) or record.keys() & _FOREIGN:
        return False
    inner = langchain.unwrapped(record)
    if inner is not None and "content" in inner:
        return text_at(inner, "type") in _TYPES
    if not isinstance(record.get("content"), str | list | None):
        return False
    if "role" in record:
        known = text_at(record, "role") in _ROLES or text_at(record, "type") == "chat"
        return known and ("content" in record or "tool_calls" in record)
    return "content" in record and text_at(record, "type") in _TYPES


def certain(record: Json) -> bool:
    """Say whether a message can be nobody else's: by its form, its type, or its keys."""
    if not is_message(record):
        return False
    if langchain.unwrapped(record) is not None:
        return True
    if "role" in record and record.get("type") != "chat":
        return False
    return record.get("type") in _OWN_TYPES or bool(record.keys() & _OWN_KEYS)


def langchain_step(value: Json, index: int, limits: Limits) -> Step:
    """Return one message as the step at `index`.

    Raises:
        TraceError: it is no message.
    """
    if not is_message(value):
        raise TraceError(
            f"message {index} needs `content` and a `type` among human, ai, system and tool; found "
            f"{str(value)[:60]!r}"
        )
    inner = langchain.unwrapped(value) or value
    (said,) = read(_spoken(inner), "user", limits)
    ours = said.actor == "agent"
    return Step(
        index=index,
        actor=said.actor,
        kind=_kind(said),
        parts=said.parts,
        calls=said.calls,
        results=said.results,
        agent=_agent(inner) if ours else None,
        model=langchain.model_of(inner) if ours else None,
        usage=_usage(inner),
        finish_reason=langchain.reason_of(inner) if ours else None,
        id=text_at(inner, "id"),
        extra=_extra(value, inner, said),
    )


def _spoken(inner: dict[str, Json]) -> dict[str, Json]:
    """Return a message with the role that its type or its own words give it.

    A chat message may have any role; one that nobody else has is an agent's name.
    """
    role = text_at(inner, "role") or text_at(inner, "type") or ""
    role = role.removesuffix("MessageChunk").lower()
    return {**inner, "role": role if role in _ROLES or role == "function" else "ai"}


def _agent(inner: dict[str, Json]) -> str | None:
    role = text_at(inner, "role")
    return text_at(inner, "name") or (role if role not in _ROLES else None)


def _kind(said: Message) -> StepKind:
    return "call" if said.calls else "result" if said.results else "message"


def _usage(inner: dict[str, Json]) -> Usage | None:
    """Return the tokens of a message: as LangChain counts them, else as the provider did."""
    counted = langchain.usage_of(inner.get("usage_metadata"))
    about = inner.get("response_metadata")
    if counted is not None or not isinstance(about, dict):
        return counted
    return openai_usage(about.get("token_usage")) or anthropic_usage(about.get("usage"))


def _extra(value: dict[str, Json], inner: dict[str, Json], said: Message) -> dict[str, Json] | None:
    """Return what a message says that its step has no field for, and what its wrapping says."""
    about, ours = inner.get("response_metadata"), said.actor == "agent"
    around = {} if inner is value else rest(value, _WRAPPING) or {}
    found = {**around, **(rest(inner, _told(inner, said)) or {})}
    if "usage_metadata" not in found:
        found["usage_metadata"] = uncounted(inner.get("usage_metadata"))
    if ours and isinstance(about, dict):
        told = [next((k for k in keys if text_at(about, k)), "") for keys in (_MODEL, _REASON)]
        found["response_metadata"] = rest(about, frozenset(told))
    return {k: v for k, v in found.items() if v not in (None, {})} or None


def _told(inner: dict[str, Json], said: Message) -> frozenset[str]:
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
    if langchain.usage_of(inner.get("usage_metadata")) is not None:
        known.add("usage_metadata")
    return frozenset(known)
