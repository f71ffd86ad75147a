"""Events of OpenHands as steps, those up to 0.x, with their metrics, and those of the agent SDK.

Up to 0.x an event is an action or the observation that names it as its cause. An action of the
agent is a call, with the arguments that the model wrote where its response is recorded; what others
ran is not the agent's call. Exit codes, `success` and error events are explicit. The response stays
with its first event; of the metrics, which every event repeats as they grow, what is new. `message`
renders what an event says otherwise, and is not kept. Prompt tokens include the cache.
Format: All-Hands-AI/OpenHands 0.59, `openhands/events/serialization`, `openhands/llm/metrics.py`;
openhands-sdk 1.58.0, `openhands/sdk/event`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stepscope.errors import TraceError
from stepscope.formats import fields
from stepscope.formats.chat.response_items import join_turn
from stepscope.formats.fields import ToolStatus
from stepscope.formats.spans.attributes import find_count, find_number, normalise_usage
from stepscope.model import Actor, Json, Part, Step, StepKind, ToolCall, ToolDef, ToolResult, Usage
from stepscope.safety.limits import Limits


class RunMetrics:
    """Keeps the metrics of a run: `last` is the latest, None before any; known totals hold."""

    def __init__(self, metrics: Json = None) -> None:
        self.last: dict[str, Json] | None = None
        self._by_response: dict[str, Usage] = {}
        self._read = 0
        self._final = False
        self._seen: dict[str, Json] = {}
        if isinstance(metrics, dict):
            self.snapshot(metrics)
            self._final = True

    def snapshot(self, metrics: dict[str, Json]) -> dict[str, Json]:
        """Take the metrics as far as they have come, and return what is new in them."""
        before, self._seen = self._seen, metrics
        self.last = self.last if self._final else metrics
        told = fields.entries_at(metrics, "token_usages")
        for entry in told[min(self._read, len(told)) :]:
            own = fields.text_at(entry, "response_id") if isinstance(entry, dict) else None
            tokens = _tokens(entry)
            if own is not None and tokens is not None:
                self._by_response[own] = tokens
        self._read = max(self._read, len(told))
        new = {key: value for key, value in metrics.items() if value is not None}
        for key, value in new.items():
            old = before.get(key)
            if isinstance(old, list) and isinstance(value, list) and value[: len(old)] == old:
                new[key] = value[len(old) :]
        return new

    def once(self, response_id: str) -> Usage | None:
        """Return the tokens of one response to who asks first for them."""
        return self._by_response.pop(response_id, None)

    @property
    def total(self) -> Usage | None:
        """The tokens of the whole run."""
        return None if self.last is None else _tokens(self.last.get("accumulated_token_usage"))

    @property
    def cost_usd(self) -> float | None:
        """What the run cost, as reported; nothing at all is how an unknown price is written."""
        return None if self.last is None else find_number(self.last, "accumulated_cost") or None


def _tokens(told: Json) -> Usage | None:
    entry = told if isinstance(told, dict) else {}
    return normalise_usage(
        find_count(entry, "prompt_tokens"),
        find_count(entry, "completion_tokens"),
        read=find_count(entry, "cache_read_tokens"),
        written=find_count(entry, "cache_write_tokens"),
        reasoning=find_count(entry, "reasoning_tokens"),
    )


_ACTORS: dict[str, Actor] = {"agent": "agent", "user": "user", "environment": "environment"}
# Actions that ask no tool for anything, and what kind of step they are.
_KINDS: dict[str, StepKind] = {
    **dict.fromkeys(("system", "message", "finish", "reject"), "message"),
    "recall": "retrieval",
    **dict.fromkeys(("condensation", "condensation_request"), "compaction"),
    **dict.fromkeys(("change_agent_state", "null", "start", "pause", "resume", "stop"), "other"),
}
# What an action's arguments say that its step has a field for.
_TEXTS = ("content", "final_thought", "summary", "query")
_META = frozenset({"function_name", "tool_call_id", "model_response", "total_calls_in_response"})
_EVENT = frozenset(
    "timestamp source message cause action observation args extras content success "
    "tool_call_metadata llm_metrics".split()
)
# An exit code that says only that the command has not ended.
_RUNNING = -1


def is_openhands_event(record: Json) -> bool:
    """Say whether a record is one such event."""
    if not isinstance(record, dict) or fields.text_at(record, "source") not in _ACTORS:
        return False
    if isinstance(record.get("action"), str):
        return isinstance(record.get("args"), dict)
    return isinstance(record.get("observation"), str) and "content" in record


class EventLog:
    """Reads the events of one run in order: an observation is told by the action before it."""

    def __init__(self, limits: Limits, spent: RunMetrics) -> None:
        self.spent = spent
        self._limits = limits
        self._calls: dict[int, ToolCall] = {}
        self._told: dict[str, Json] = {}
        # Who acts: an agent that a task was delegated to, until it gives its answer.
        self._agents: list[str | None] = [None]
        # What the metrics of the event at hand say that earlier ones did not.
        self._spent_now: Json = None

    def step(self, event: dict[str, Json], index: int) -> Step:
        """Return one event as the step at `index`."""
        source = fields.text_at(event, "source")
        actor = _ACTORS.get(source or "")
        if actor is None:
            raise TraceError(f"event {index} needs a `source`; found {str(source)[:60]!r}")
        metrics = event.get("llm_metrics")
        self._spent_now = self.spent.snapshot(metrics) if isinstance(metrics, dict) else metrics
        if isinstance(event.get("action"), str):
            return self._action(event, index, actor)
        name, content = event.get("observation"), event.get("content")
        if not isinstance(name, str) or not isinstance(content, str | None):
            raise TraceError(f"event {index} is neither an action nor an observation with text")
        about = fields.object_at(event, "extras")
        parts = (Part("text", content),) if content else ()
        cause = event.get("cause")
        call = self._calls.get(cause) if isinstance(cause, int) else None
        if name == "delegate" and len(self._agents) > 1:
            self._agents.pop()
        own = fields.text_at(fields.object_at(event, "tool_call_metadata"), "tool_call_id")
        start, more = fields.parse_time(event.get("timestamp")), self._beside(event)
        if call is None and own is None:
            failed = content or None if name == "error" else None
            kind: StepKind = "message" if failed else "retrieval" if name == "recall" else "other"
            extra = {**more, "observation": name, **({"extras": about} if about else {})}
            if cause is not None:
                extra["cause"] = cause
            step = Step(index=index, actor="environment", kind=kind, parts=parts, extra=extra)
            return msgspec.structs.replace(step, start=start, error=failed)
        call_id, called = (own, None) if call is None else (call.id, call.name)
        judged = _judged(name, content or "", event, about)
        extra = {**more, "observation": name, **about}
        result = ToolResult(call_id, called, parts, None, *judged, extra=extra)
        return Step(index=index, actor="environment", kind="result", results=(result,), start=start)

    def _action(self, event: dict[str, Json], index: int, actor: Actor) -> Step:
        name, args = event["action"], event.get("args")
        if not isinstance(args, dict):
            raise TraceError(f"event {index} needs an object under `args`")
        response = self._response(event)
        kind = _KINDS.get(name)
        calls: tuple[ToolCall, ...] = ()
        parts = _said(args, event, calls=kind is None)
        extra = {**self._beside(event), "action": name}
        if more := {key: value for key, value in args.items() if _tells(key, value, name)}:
            extra["args"] = more
        if kind is None:
            call = self._call(event, args, actor)
            kind, calls = "handoff" if name == "delegate" else "call", (call,)
            extra.pop("args", None)
            if name == "delegate" and fields.text_at(args, "agent") is not None:
                extra["to"] = args["agent"]
        if name == "system":
            actor = "system"
            self._agents[-1] = fields.text_at(args, "agent_class")
        elif name == "recall":
            actor = "environment"
        agent = self._agents[-1] if actor == "agent" else None
        if name == "delegate":
            self._agents.append(fields.text_at(args, "agent"))
        return Step(
            index=index,
            actor=actor,
            agent=agent,
            kind=kind,
            parts=parts,
            calls=calls,
            start=fields.parse_time(event.get("timestamp")),
            model=fields.text_at(response, "model"),
            usage=self._usage(response),
            id=fields.text_at(response, "id"),
            extra=extra or None,
        )

    def _response(self, event: dict[str, Json]) -> dict[str, Json]:
        return fields.object_at(fields.object_at(event, "tool_call_metadata"), "model_response")

    def _usage(self, response: dict[str, Json]) -> Usage | None:
        """Return a response's tokens, with its first event alone; the metrics know of its cache."""
        own = fields.text_at(response, "id")
        if own is None or own in self._told:
            return None
        self._told[own] = response
        return self.spent.once(own) or fields.openai_usage(response.get("usage"))

    def _beside(self, event: dict[str, Json]) -> dict[str, Json]:
        """Return what is said of an event; its response, where none before said the same."""
        found = fields.rest(event, _EVENT) or {}
        response = self._response(event)
        if more := fields.rest(fields.object_at(event, "tool_call_metadata"), _META):
            found["tool_call_metadata"] = more
        if response and self._told.get(fields.text_at(response, "id") or "") != response:
            found["model_response"] = response
        if self._spent_now is not None:
            found["llm_metrics"] = self._spent_now
        return found

    def _call(self, event: dict[str, Json], args: dict[str, Json], actor: Actor) -> ToolCall:
        """Return an action as the call that it is, as the model wrote it where that is recorded."""
        about = fields.object_at(event, "tool_call_metadata")
        own, name = fields.text_at(about, "tool_call_id"), fields.text_at(about, "function_name")
        asked = fields.rest(args, frozenset({"thought"})) or {}
        written = _written(self._response(event), own)
        made = asked if written is None else written
        at = event.get("id")
        call_id = f"event-{at}" if own is None and isinstance(at, int) else own
        extra = {} if written is None else {"args": asked}
        together = about.get("total_calls_in_response")
        if together not in (None, 1):
            extra["total_calls_in_response"] = together
        call = fields.parse_call(
            name or event["action"], made, call_id, limits=self._limits, extra=extra or None
        )
        if actor != "agent":
            call = msgspec.structs.replace(call, requestor="user")
        if isinstance(at, int):
            self._calls[at] = call
        return call


def _said(args: dict[str, Json], event: dict[str, Json], *, calls: bool) -> tuple[Part, ...]:
    """Return what an action says aloud: a call its thought, anything else its text."""
    thought = fields.text_at(args, "thought")
    texts = [thought] if thought and event["action"] != "think" else []
    if not calls:
        texts += [said for key in _TEXTS if (said := fields.text_at(args, key))]
    parts = [Part("text", said) for said in dict.fromkeys(texts)]
    urls = [] if calls else fields.entries_at(args, "image_urls")
    return (*parts, *[fields.url_part("image", str(url)) for url in urls])


def _tells(key: str, value: Json, action: Json) -> bool:
    """Say whether an argument is told nowhere else, and is no default."""
    if key in {*_TEXTS, "thought"}:
        return not isinstance(value, str | None)
    if key == "image_urls" or (key == "tools" and action == "system"):
        return not isinstance(value, list | None)
    return value not in (None, "", {}, [])


def _written(response: dict[str, Json], own: str | None) -> str | None:
    """Return the arguments of a call as the model wrote them, None where that is not recorded."""
    for choice in fields.entries_at(response, "choices"):
        match choice:
            case {"message": {"tool_calls": list(calls)}}:
                for call in calls:
                    match call:
                        case {"id": str(named), "function": {"arguments": str(text)}}:
                            if named == own:
                                return text
    return None


def _judged(name: str, content: str, event: dict[str, Json], extras: dict[str, Json]) -> ToolStatus:
    """Return whether an action worked, by what its observation says outright, else by its text."""
    if name in {"error", "user_rejected"}:
        return ToolStatus("error", "explicit", content[:200] or name)
    held = extras.get("metadata")
    code = held.get("exit_code") if isinstance(held, dict) else extras.get("exit_code")
    if isinstance(code, int) and not isinstance(code, bool):
        if code == _RUNNING:
            return fields.infer_text_status(content)
        error = f"exit code {code}" if code else None
        return ToolStatus("error" if code else "ok", "explicit", error)
    for flag, good in ((event.get("success"), True), (extras.get("error"), False)):
        if isinstance(flag, bool):
            if flag is good:
                return ToolStatus("ok", "explicit", None)
            return ToolStatus("error", "explicit", content[:200])
    return fields.infer_text_status(content)


# Events of the SDK (1.x): calls and answers pair on the call's id; what is of one response of the
# model is one step; whether an answer is an error is explicit. Events that are none of the
# conversation's (state updates, pauses) are steps of kind `other`, kept whole.
_SDK_ACTORS: dict[str, Actor] = {**_ACTORS, "hook": "environment"}
_SDK_KINDS = frozenset(
    "UserRejectObservation Condensation CondensationRequest CondensationSummaryEvent".split()
)
_SDK_EVENT = frozenset({"timestamp", "source", "kind"})
# Each action's own time stays with its call: those of one response are one step.
_SDK_ACTION = frozenset(
    "source kind thought reasoning_content thinking_blocks tool_name tool_call_id tool_call "
    "llm_response_id".split()
)
_ANSWER = _SDK_EVENT | frozenset({"tool_name", "tool_call_id", "observation", "error"})
_MESSAGE = _SDK_EVENT | frozenset({"llm_message", "llm_response_id", "sender"})
_SAID = frozenset({"role", "content", "reasoning_content", "thinking_blocks"})


def is_sdk_event(record: Json) -> bool:
    """Say whether a record is one such event."""
    if not isinstance(record, dict) or fields.text_at(record, "source") not in _SDK_ACTORS:
        return False
    kind = fields.text_at(record, "kind") or ""
    return (kind.endswith("Event") or kind in _SDK_KINDS) and "timestamp" in record


def read_sdk_step(event: dict[str, Json], index: int, limits: Limits) -> Step:
    """Return one event as the step at `index`."""
    actor = _SDK_ACTORS.get(fields.text_at(event, "source") or "")
    if actor is None:
        raise TraceError(f"event {index} needs a `source`; found {str(event.get('source'))[:60]!r}")
    kind = fields.text_at(event, "kind") or ""
    reading = _READING.get(kind)
    if reading is not None:
        step = reading(event, index, actor, limits)
    elif kind == "SystemPromptEvent":
        held = [event.get(key) for key in ("system_prompt", "dynamic_context")]
        parts = _content([entry for entry in held if entry is not None], index)
        extra = fields.rest(event, _SDK_EVENT | {"system_prompt", "dynamic_context", "tools"})
        step = Step(index=index, actor="system", parts=parts, extra=extra)
    elif kind.startswith("Condensation"):
        summary = fields.text_at(event, "summary")
        parts = (Part("text", summary),) if summary else ()
        extra = fields.rest(event, _SDK_EVENT | {"summary"})
        step = Step(index=index, actor=actor, kind="compaction", parts=parts, extra=extra)
    else:
        failed = fields.text_at(event, "detail") or fields.text_at(event, "code")
        error = failed if kind == "ConversationErrorEvent" else None
        step = Step(index=index, actor=actor, kind="other", error=error, extra=event)
    return msgspec.structs.replace(step, start=fields.parse_time(event.get("timestamp")))


def _sdk_action(event: dict[str, Json], index: int, actor: Actor, limits: Limits) -> Step:
    held = fields.object_at(event, "tool_call")
    name = fields.text_at(event, "tool_name") or fields.text_at(held, "name")
    if name is None:
        raise TraceError(f"event {index} needs text under `tool_name`")
    call_id = fields.text_at(event, "tool_call_id") or fields.text_at(held, "id")
    made = held.get("arguments")
    call = fields.parse_call(name, {} if made is None else made, call_id, limits=limits)
    extra = fields.rest(event, _SDK_ACTION) or {}
    if more := fields.rest(held, frozenset({"id", "name", "arguments"})):
        extra["tool_call"] = more
    call = msgspec.structs.replace(call, extra=extra or None)
    own = fields.text_at(event, "llm_response_id")
    parts = (*_thoughts(event), *_content(event.get("thought"), index))
    return Step(index=index, actor="agent", kind="call", parts=parts, calls=(call,), id=own)


def _thoughts(about: dict[str, Json]) -> tuple[Part, ...]:
    """Return what was thought before something was said."""
    parts: list[Part] = []
    reasoning = fields.text_at(about, "reasoning_content")
    if reasoning:
        parts.append(Part("reasoning", reasoning))
    for block in fields.entries_at(about, "thinking_blocks"):
        match block:
            case {"thinking": str(text)}:
                beside = fields.rest(block, frozenset({"thinking"}))
                if text != reasoning:
                    parts.append(Part("reasoning", text, extra=beside))
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
    told = {key: value for key, value in extra.items() if value not in ([], {}, "")} or None
    parts = (*_thoughts(message), *_content(message.get("content"), index))
    agent = fields.text_at(event, "sender") if actor == "agent" else None
    own = fields.text_at(event, "llm_response_id")
    return Step(index=index, actor=actor, parts=parts, agent=agent, id=own, extra=told)


def _answer(event: dict[str, Json], index: int, actor: Actor, limits: Limits) -> Step:
    about = fields.object_at(event, "observation")
    failed = fields.text_at(event, "error") or fields.text_at(event, "rejection_reason")
    parts = (Part("text", failed),) if failed else _content(about.get("content"), index)
    beside = fields.rest(about, frozenset({"content"}))
    call_id, name = fields.text_at(event, "tool_call_id"), fields.text_at(event, "tool_name")
    flag, code, text = about.get("is_error"), about.get("exit_code"), fields.parts_text(parts)
    if failed is not None or flag is True:
        quoted = failed[:200] if failed is not None else text[:200] or None
        judged = ToolStatus("error", "explicit", quoted)
    elif isinstance(code, int) and not isinstance(code, bool) and code > 0:
        # A command's own exit code says more than that it could be run.
        judged = ToolStatus("error", "explicit", f"exit code {code}")
    elif flag is None or code == -1:  # -1 is one that still runs
        judged = fields.infer_text_status(text)
    else:
        judged = ToolStatus("ok", "explicit", None)
    extra = {**(fields.rest(event, _ANSWER) or {}), **(beside or {})}
    result = ToolResult(call_id, name, parts, None, *judged, extra=extra)
    return Step(index=index, actor="environment", kind="result", results=(result,))


_READING: dict[str, Callable[[dict[str, Json], int, Actor, Limits], Step]] = {
    "ActionEvent": _sdk_action,
    "MessageEvent": _message,
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
        named = [fields.text_at(about, key) or "" for key in ("name", "title")]
        name = named[0] or named[1] or fields.text_at(about, "kind")
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
