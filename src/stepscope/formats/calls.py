"""Only the tool calls of OpenAI-style chat messages: for a match without a whole Trajectory.

A team that has message lists in memory and a reference wants one answer a run, fast; contents,
results, ids and warnings are not looked at here, so nothing of this enters the store.
Format: OpenAI chat completions, `tool_calls` of assistant messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.building import call_of
from stepscope.model import Json, ReferenceCall, ToolCall
from stepscope.safety.limits import Limits

_LIMITS = Limits()


class Function(msgspec.Struct, gc=False):
    """Which tool, and its arguments: JSON text as the API has it, or an object."""

    name: str
    arguments: str | dict[str, Json] | None = None


class Call(msgspec.Struct, gc=False):
    """One entry of `tool_calls`."""

    function: Function
    id: str | None = None


class Message(msgspec.Struct, gc=False):
    """A chat message as far as calls go; decoding into it skips everything else at C speed."""

    tool_calls: list[Call] | None = None


def calls_of(
    messages: Sequence[Message] | Sequence[Mapping[str, Json]] | bytes, *, limits: Limits = _LIMITS
) -> tuple[ToolCall, ...]:
    """Return every tool call of the messages in order; arguments that are no JSON are kept as text.

    Args:
        messages: decoded `Message`s, plain dictionaries, or the JSON array itself.
        limits: nesting and size of the arguments.

    Raises:
        TraceError: the messages have another shape; says where.

    >>> calls_of([{"tool_calls": [{"function": {"name": "f"}}]}, {"role": "user"}])[0].name
    'f'
    """
    try:
        if isinstance(messages, bytes):
            typed = msgspec.json.decode(messages, type=list[Message])
        elif messages and isinstance(messages[0], Message):
            typed = messages  # type: ignore[assignment]  # all entries are of one kind
        else:
            typed = msgspec.convert(messages, list[Message])
    except msgspec.MsgspecError as e:
        raise TraceError(f"these are no chat messages with tool calls: {e}") from e
    return tuple(
        call_of(call.function.name, call.function.arguments, call.id, limits=limits)
        for message in typed
        if message.tool_calls
        for call in message.tool_calls
    )


def reference_of(calls: Sequence[ToolCall]) -> list[ReferenceCall]:
    """Return calls as reference calls; one whose arguments are no object asks for none."""
    return [
        ReferenceCall(call.name, call.arguments if isinstance(call.arguments, dict) else {})
        for call in calls
    ]
