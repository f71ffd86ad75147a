"""Match message lists in memory against a reference, without a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stepscope.formats.calls import Message, calls_of, reference_of
from stepscope.measures.match import ArgumentMode, Comparison, Mode, compare
from stepscope.model import Json, ReferenceCall

Messages = Sequence[Message] | Sequence[Mapping[str, Json]] | bytes


def match(
    messages: Messages,
    reference: Sequence[ReferenceCall] | Messages,
    *,
    mode: Mode = "in_order",
    arguments: ArgumentMode = "exact",
    overrides: Mapping[str, ArgumentMode | Sequence[str]] | None = None,
    tolerance: float = 0.0,
) -> Comparison:
    """Return how the tool calls of OpenAI-style messages compare with a reference.

    Args:
        messages: a run: decoded messages, or their JSON array as bytes.
        reference: what it should have called: `ReferenceCall`s, or messages that make the calls.
        mode: the sense of `matched`; see `stepscope.measures.match`.
        arguments: how arguments must agree.
        overrides: tool -> another argument mode, or the names of the arguments that count.
        tolerance: how far numbers may differ.

    Raises:
        TraceError: the messages have another shape.
        UsageError: a mode that does not exist, or a negative tolerance.

    >>> run = [{"tool_calls": [{"function": {"name": "find", "arguments": '{"id": 7}'}}]}]
    >>> match(run, [ReferenceCall("find", {"id": 7})], mode="strict").matched
    True
    """
    given = [] if isinstance(reference, bytes) else [*reference]
    wanted = [call for call in given if isinstance(call, ReferenceCall)]
    if isinstance(reference, bytes) or len(wanted) < len(given):
        wanted = reference_of(calls_of(reference))  # type: ignore[arg-type]  # then it is messages
    return compare(
        calls_of(messages),
        wanted,
        mode=mode,
        arguments=arguments,
        overrides=overrides,
        tolerance=tolerance,
    )
