"""OpenAI chat messages as steps, and what chat formats share: exchanges, envelopes, dialects.

One message is one step, its index the message's position. An assistant's message with tool calls is
a `call`, a tool's message a `result` of the environment. What a message says beyond the API's own
keys stays in `extra`; null is absence. Which API a list of messages is of is decided by what only
one of them says. Recorded traffic is unwrapped: `{"request": ..., "response": ...}`, and an HTTP
exchange `{"status": ..., "headers": ..., "body": "<text>"}`. Message lists have no standard
wrapping; the keys that users write around them (id, task, trial, agent, reward, tools, tags) are
read where they are there, and everything else is kept.
Format: OpenAI Python SDK 3.54.0, `types/chat/chat_completion_message_param.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.fields import (
    ToolStatus,
    data_part,
    parse_call,
    rest,
    text_at,
    tool_defs,
    total_usage,
    url_part,
)
from stepscope.formats.finish import Opinion, read_outcome, reward_outcome
from stepscope.formats.format import DecodedRecord
from stepscope.formats.opening import Opening
from stepscope.model import (
    Actor,
    Json,
    Outcome,
    Part,
    ReferenceCall,
    Step,
    StepKind,
    ToolCall,
    ToolResult,
    Trajectory,
)
from stepscope.safety.json import decode
from stepscope.safety.limits import DEFAULT_LIMITS, Limits

_PAIR_KEYS = frozenset({"request", "response"})
_HTTP_KEYS = frozenset({"body"})
# What stands beside a body in a recorded exchange, and in a line of a batch's output.
_AROUND_BODY_KEYS = frozenset({"status", "status_code", "headers", "url"})


def unwrap_exchange(
    record: dict[str, Json], limits: Limits
) -> tuple[dict[str, Json], dict[str, Json] | None, dict[str, Json]]:
    """Return what was asked (the record if nothing wraps it), what was answered, and the rest."""
    if "response" in record and "messages" not in record and "role" not in record:
        asked, answered = record.get("request"), record["response"]
        return (
            {} if asked is None else decode_body(asked, "request", limits),
            None if answered is None else decode_body(answered, "response", limits),
            rest(record, _PAIR_KEYS) or {},
        )
    if "body" in record and ("status" in record or "headers" in record):
        return {}, decode_body(record["body"], "body", limits), rest(record, _HTTP_KEYS) or {}
    return record, None, {}


def decode_body(value: Json, name: str, limits: Limits) -> dict[str, Json]:
    """Return an API body as an object; text is decoded, and a streamed body told apart."""
    if isinstance(value, dict) and "body" in value and value.keys() & _AROUND_BODY_KEYS:
        value = value["body"]
    if isinstance(value, str):
        if value.startswith(("event:", "data:")):
            raise TraceError(f"`{name}` is a streamed body (server-sent events); record it whole")
        value = decode(value.encode(), limits=limits).value
    if isinstance(value, dict):
        return value
    raise TraceError(f"`{name}` is {str(value)[:60]!r}; expected a JSON object")


class CalledFunction(msgspec.Struct, gc=False):
    """Which tool, and its arguments: JSON text as the API has it, or an object."""

    name: str
    arguments: str | dict[str, Json] | None = None


class MessageCall(msgspec.Struct, gc=False):
    """One entry of `tool_calls`."""

    function: CalledFunction
    id: str | None = None


class CallMessage(msgspec.Struct, gc=False):
    """A chat message as far as calls go; decoding into it skips everything else at C speed."""

    tool_calls: list[MessageCall] | None = None


def message_calls(
    # decoded `CallMessage`s, plain dictionaries, an object that holds them, or JSON
    messages: Sequence[CallMessage] | Sequence[Mapping[str, Json]] | Mapping[str, Any] | bytes,
) -> tuple[ToolCall, ...]:
    """Return every tool call of the messages in order; arguments that are no JSON are kept as text.

    Raises:
        TraceError: the messages have another shape; says where.
    """
    given = messages.get("messages") if isinstance(messages, Mapping) else messages
    try:
        if isinstance(given, bytes):
            typed = msgspec.json.decode(given, type=list[CallMessage])
        elif isinstance(given, Sequence) and given and isinstance(given[0], CallMessage):
            typed = given  # type: ignore[assignment]  # all entries are of one kind
        else:
            typed = msgspec.convert(given, list[CallMessage])
    except (msgspec.MsgspecError, UnicodeError) as e:
        raise TraceError(f"these are no chat messages with tool calls: {e}") from e
    return tuple(
        parse_call(call.function.name, call.function.arguments, call.id, limits=DEFAULT_LIMITS)
        for message in typed
        if message.tool_calls
        for call in message.tool_calls
    )


def reference_calls(calls: Sequence[ToolCall]) -> list[ReferenceCall]:
    """Return calls as reference calls; one whose arguments are no object asks for none."""
    return [
        ReferenceCall(call.name, call.arguments if isinstance(call.arguments, dict) else {})
        for call in calls
    ]


_ACTORS: dict[str, Actor] = {
    **dict.fromkeys(("system", "developer"), "system"),
    "user": "user",
    "assistant": "agent",
    **dict.fromkeys(("tool", "function"), "environment"),
}
ROLES = frozenset(_ACTORS)
_SPEAKERS = frozenset({"system", "user", "assistant"})
_PLAIN_KEYS = frozenset({"role", "content"})
_ASSISTANT_KEYS = frozenset({"role", "content", "tool_calls", "function_call"})
# What an assistant may say in a field of its own, in the order of its parts.
_THOUGHT_KEYS = ("reasoning", "reasoning_content")
_SPOKEN_KEYS = frozenset({*_THOUGHT_KEYS, "refusal", "name"})
_RESULT_KEYS = frozenset({"role", "content", "name", "tool_call_id"})
_CALL_KEYS = frozenset({"id", "type", "function", "custom"})
_FUNCTION_KEYS = frozenset({"name", "arguments", "input"})


class MessageOptions(NamedTuple):
    """How messages are read: who judges a result's text, and the limits."""

    judge: Callable[[str], ToolStatus]
    limits: Limits


def chat_steps(messages: list[Json], reading: MessageOptions) -> tuple[Step, ...]:
    """Return one step a message."""
    steps: list[Step] = []
    for index, message in enumerate(messages):  # no comprehension: it would deepen the stack
        steps.append(chat_step(message, index, reading))
    return tuple(steps)


def chat_step(message: Json, index: int, reading: MessageOptions) -> Step:
    """Return one message as the step at `index`."""
    if type(message) is not dict:
        raise shape_error(index, "an object", message)
    role = message.get("role")
    actor = _ACTORS.get(role) if type(role) is str else None
    if actor is None:
        raise shape_error(index, f"a `role` among {', '.join(_ACTORS)}", role)
    if actor == "environment":
        content = message.get("content")
        parts = content_parts(content, index)
        text = content if type(content) is str else "\n".join([p.text for p in parts if p.text])
        name, told = message.get("name"), message.get("tool_call_id")
        call_id, extra = _id_text(told), rest(message, _RESULT_KEYS)
        if call_id is None and told is not None:
            extra = {"tool_call_id": told, **(extra or {})}
        if name is not None and type(name) is not str:
            extra, name = {"name": name, **(extra or {})}, None
        result = ToolResult(call_id, name, parts, None, *reading.judge(text))
        return Step(index=index, actor="environment", kind="result", results=(result,), extra=extra)
    content = message.get("content")
    if type(content) is not str:
        parts = content_parts(content, index)
    elif not content:
        parts = ()
    else:
        parts = (Part("text", content),)
        if len(message) == 2 and role in _SPEAKERS:
            # Most messages of most runs: a role and its text.
            return Step(index=index, actor=actor, parts=parts)
    if actor == "agent":
        return _assistant_step(message, index, parts, reading)
    extra = rest(message, _PLAIN_KEYS)
    if role == "developer":
        extra = {"role": role, **(extra or {})}
    return Step(index=index, actor=actor, parts=parts, extra=extra)


def _assistant_step(
    message: dict[str, Json], index: int, parts: tuple[Part, ...], reading: MessageOptions
) -> Step:
    listed, legacy = message.get("tool_calls"), message.get("function_call")
    if listed and type(listed) is not list:
        raise shape_error(index, "a list under `tool_calls`", listed)
    asked = listed or [] if legacy is None else [*(listed or []), {"function": legacy}]
    made: list[ToolCall] = []
    for call in asked:
        made.append(_message_call(call, index, reading))
    calls = tuple(made)
    kind: StepKind = "call" if calls else "message"
    extra = rest(message, _ASSISTANT_KEYS)
    if extra is None or _SPOKEN_KEYS.isdisjoint(extra):
        return Step(index=index, actor="agent", kind=kind, parts=parts, calls=calls, extra=extra)
    spoken = [key for key in _SPOKEN_KEYS & extra.keys() if type(extra[key]) is str]
    said: dict[str, str] = {key: extra.pop(key) for key in spoken}
    thoughts = [Part("reasoning", said[key]) for key in _THOUGHT_KEYS if key in said]
    refusals = [Part("refusal", said["refusal"])] if "refusal" in said else []
    parts, agent, extra = (*thoughts, *parts, *refusals), said.get("name"), extra or None
    return Step(
        index=index, actor="agent", kind=kind, parts=parts, calls=calls, agent=agent, extra=extra
    )


def _message_call(call: Json, index: int, reading: MessageOptions) -> ToolCall:
    if type(call) is not dict:
        raise shape_error(index, "objects under `tool_calls`", call)
    function = call.get("function")
    if function is None:
        function = call.get("custom")
    if type(function) is not dict or type(function.get("name")) is not str:
        raise shape_error(index, "a `function` with a `name` in every tool call", function)
    told = call.get("id")
    call_id, extra = _id_text(told), None
    if not (call.keys() <= _CALL_KEYS and function.keys() <= _FUNCTION_KEYS):
        extra = {**(rest(call, _CALL_KEYS) or {}), **(rest(function, _FUNCTION_KEYS) or {})} or None
    if call_id is None and told is not None:
        extra = {"id": told, **(extra or {})}
    if "custom" in call:
        # A custom tool takes free text, which is no broken JSON.
        return ToolCall(function["name"], function.get("input"), call_id, extra=extra)
    arguments = function.get("arguments")
    return parse_call(function["name"], arguments, call_id, limits=reading.limits, extra=extra)


def content_parts(content: Json, index: int) -> tuple[Part, ...]:
    """Return a message's content as parts: text, a list of content parts, or nothing."""
    if type(content) is str:
        return (Part("text", content),) if content else ()
    if content is None:
        return ()
    if type(content) is not list:
        raise shape_error(index, "text, a list or null under `content`", content)
    return tuple([_content_part(part, index) for part in content])


def _content_part(part: Json, index: int) -> Part:
    match part:
        case str():
            return Part("text", part)
        case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            return Part("text", text, extra=rest(part, frozenset({"type", "text"})))
        case {"type": "refusal", "refusal": str(text)}:
            return Part("refusal", text, extra=rest(part, frozenset({"type", "refusal"})))
        case {"type": "image_url", "image_url": {"url": str(url)} as image}:
            return url_part("image", url, extra=rest(image, frozenset({"url"})))
        case {"type": "input_image", "image_url": str(url)}:
            return url_part("image", url, extra=rest(part, frozenset({"type", "image_url"})))
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(form)}}:
            return data_part("audio", f"audio/{form}", data)
        case {"type": "file", "file": {"file_data": str(data)} as file}:
            return url_part("file", data, extra=rest(file, frozenset({"file_data"})))
        case dict():
            return Part("data", extra=part)
    raise shape_error(index, "objects in a `content` list", part)


def _id_text(value: Json) -> str | None:
    """Return a call's id as text, as some recorders write a number; None where it is neither."""
    return value if type(value) is str else str(value) if type(value) is int else None


def shape_error(index: int, expected: str, found: Json) -> TraceError:
    """Return what to raise for a message of another shape than the API's."""
    return TraceError(f"message {index} needs {expected}; found {str(found)[:60]!r}")


# A shell command as mini-swe-agent's models write one, and how an observation of its begins.
FENCE = re.compile(r"```(?:mswea_bash_command|bash)[^\S\n]*\n(.*?)\n```", re.DOTALL)
RETURNED = re.compile(r"\s*<returncode>\s*(-?\d{1,10})\s*</returncode>")
# Its own fence, which nobody else writes.
_OWN_FENCE = "```mswea_bash_command"

Dialect = Literal["openai", "anthropic", "anthropic-like", "either", "none"]

# Block types that only Anthropic's content lists hold.
_BLOCKS = frozenset(
    "tool_use tool_result thinking redacted_thinking server_tool_use document mcp_tool_use".split()
)
_OPENAI_ROLES = ROLES - {"user", "assistant"}
_OPENAI_KEYS = ("tool_calls", "function_call", "refusal", "tool_call_id")
_OPENAI_BLOCKS = frozenset({"image_url", "input_audio", "file", "input_text", "output_text"})


def is_chat_message(record: Json) -> bool:
    """Say whether a record looks like one chat message of either API."""
    if not isinstance(record, dict) or text_at(record, "role") not in ROLES:
        return False
    speaks = "content" in record or "tool_calls" in record or "function_call" in record
    return speaks and isinstance(record.get("content"), str | list | None)


def opening_messages(opening: Opening, is_own: Callable[[Json], bool]) -> Sequence[Json] | None:
    """Return the messages that a file begins with: its records, or its first record's elements."""
    first = opening.first_record
    if opening.shape in {"array", "lines"} and is_own(first):
        return opening.records
    return first if isinstance(first, list) else None


def parts_without(whole: frozenset[str], is_own: Callable[[Json], bool]) -> Callable[[Json], bool]:
    """Return what says whether a record is a part of the file's run: its own, or not `whole`."""

    def is_part(record: Json) -> bool:
        if isinstance(record, dict):
            return is_own(record) or not record.keys() & whole
        return not isinstance(record, list)

    return is_part


def has_conversation(messages: Iterable[Json]) -> bool:
    """Say whether somebody speaks in messages; calls with their results are examples of a tool."""
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("tool", "function") and (role != "assistant" or message.get("content")):
            return True
    return False


def is_other_run(record: dict[str, Json]) -> bool:
    """Say whether a record is a run of a format that holds more than messages."""
    info = record.get("info")
    return (
        bool(record.keys() & {"traj", "history", "trajectory_format"})
        or (isinstance(info, dict) and "mini_version" in info)
        or ("termination_reason" in record and "task_id" in record)
    )


def detect_dialect(messages: Iterable[Json]) -> Dialect:
    """Return whose messages these are."""
    seen: Dialect = "none"
    for message in messages:
        if not is_chat_message(message):
            # The last message of a cut head may lack its content.
            if not (isinstance(message, dict) and text_at(message, "role") in ROLES):
                return "none"
            continue
        if message["role"] in _OPENAI_ROLES or any(key in message for key in _OPENAI_KEYS):
            return "openai"
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        types = {text_at(block, "type") for block in blocks if isinstance(block, dict)}
        if _BLOCKS.intersection(types):
            return "anthropic"
        if _OPENAI_BLOCKS.intersection(types):
            return "openai"
        if types and message["role"] == "assistant":
            seen = "anthropic-like"
        elif seen == "none":
            seen = "either"
    return seen


def has_run_fences(messages: Iterable[Json]) -> bool:
    """Say whether fenced commands were run and answered as mini-swe-agent does, not just shown."""
    commanded = False
    for message in messages:
        about = message if isinstance(message, dict) else {}
        role, text = about.get("role"), text_at(about, "content") or ""
        if commanded and role == "user" and RETURNED.match(text):
            return True
        commanded = role == "assistant" and FENCE.search(text) is not None
        if commanded and _OWN_FENCE in text:
            return True
    return False


class MessageEnvelope(msgspec.Struct, gc=False):
    """The keys around `messages`, typed; `convert_record` keeps one of another type in `extra`."""

    id: str | int | None = None
    run_id: str | int | None = None
    task: str | int | None = None
    task_id: str | int | None = None
    trial: str | int | None = None
    workflow: str | None = None
    agent: str | None = None
    agent_version: str | None = None
    model: str | None = None
    reward: float | bool | None = None
    success: bool | None = None
    outcome: str | bool | dict[str, Any] | None = None
    tags: dict[str, str | int | float | bool] = {}
    tools: list[Any] | None = None
    functions: list[Any] | None = None

    @property
    def source_id(self) -> str | None:
        """The recorder's own id of the run."""
        found = self.run_id if self.run_id is not None else self.id
        return None if found is None else str(found)

    @property
    def task_name(self) -> str | None:
        """The task's id, else its name."""
        found = self.task_id if self.task_id is not None else self.task
        return None if found is None else str(found)

    def draft(
        self,
        format_name: str,  # the format, which is the workflow too where none is named
        steps: tuple[Step, ...],  # the steps of the run
        at: DecodedRecord,  # the record that the run is from
        *,
        run_id: str | None = None,  # the recorder's own id of the run
        extra: dict[str, Json] | None = None,  # what else is said of the run
    ) -> Trajectory:
        """Return the run of some steps with what stands around them, not yet finished."""
        workflow = self.workflow or format_name
        trial = None if self.trial is None else str(self.trial)
        reward = None if self.reward is None else float(self.reward)
        outcome = reward_outcome(reward)
        told = self.outcome.get("status") if isinstance(self.outcome, dict) else self.outcome
        plain = told if isinstance(told, str | bool) else None
        found = read_outcome([Opinion("outcome", plain, "code")])
        if self.success is not None:
            status: Literal["pass", "fail"] = "pass" if self.success else "fail"
            outcome = Outcome(status, "check", reward, "success flag")
        elif found.status != "unknown":
            outcome = msgspec.structs.replace(found, reward=reward)
        elif self.outcome is not None:
            extra = {"outcome": self.outcome, **(extra or {})}
        named = [name for name in (workflow, self.task_name, trial) if name is not None]
        return Trajectory(
            id="",
            name="/".join(named) if self.task_name else run_id or "",
            steps=steps,
            source=at.source(format_name, run_id),
            workflow=workflow,
            task=self.task_name,
            trial=trial,
            agent=self.agent,
            agent_version=self.agent_version,
            tags={
                key: value if isinstance(value, str) else msgspec.json.encode(value).decode()
                for key, value in self.tags.items()
            },
            tools=tool_defs(self.tools if self.tools is not None else self.functions),
            outcome=outcome,
            usage=total_usage(steps),
            extra=extra or None,
        )


ENVELOPE_KEYS = frozenset(MessageEnvelope.__struct_fields__)
