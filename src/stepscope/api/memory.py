"""Runs that are in memory: read as from a file, or compared with a reference without a store."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stepscope.errors import UsageError
from stepscope.formats.chat.messages import CallMessage, message_calls, reference_calls
from stepscope.measures.same_calls import ArgumentMode, CallComparison, MatchMode, compare_calls
from stepscope.model import Json, ReferenceCall, Trajectory

Messages = Sequence[CallMessage] | Sequence[Mapping[str, Json]] | Mapping[str, Any] | bytes
Wanted = ReferenceCall | str | tuple[str, dict[str, Json]] | CallMessage | Mapping[str, Json]
Reference = Sequence[Wanted] | Mapping[str, Any] | bytes


def match(
    messages: Messages,
    reference: Reference,
    *,
    mode: MatchMode = "in_order",
    arguments: ArgumentMode = "exact",
    overrides: Mapping[str, ArgumentMode | Sequence[str]] | None = None,
    tolerance: float = 0.0,
) -> CallComparison:
    """Return how the tool calls of OpenAI-style messages compare with a reference.

    Args:
        messages: a run: decoded messages, an object with `messages`, or their JSON array as bytes.
        reference: what it should have called: names of tools (then arguments do not count), pairs
            of name and arguments, `ReferenceCall`s, or messages that make the calls.
        mode: the sense of `matched`; see `stepscope.measures.same_calls`.
        arguments: how arguments must agree.
        overrides: tool -> another argument mode, or the names of the arguments that count.
        tolerance: how far numbers may differ.

    Raises:
        TraceError: the messages have another shape.
        UsageError: a mode that does not exist, or a negative tolerance.

    >>> run = [{"tool_calls": [{"function": {"name": "find", "arguments": '{"id": 7}'}}]}]
    >>> match(run, ["find"]).matched, match(run, [("find", {"id": 8})]).matched
    (True, False)
    """
    made, wanted = message_calls(messages), read_reference(reference)
    return compare_calls(
        made, wanted, mode=mode, arguments=arguments, overrides=overrides, tolerance=tolerance
    )


def read_reference(reference: Reference) -> list[ReferenceCall]:
    """Return reference calls; those that are names alone allow any arguments."""
    if isinstance(reference, str) or not isinstance(reference, Sequence | Mapping):
        raise UsageError(f"a reference is {str(reference)[:60]!r}; expected a list of calls")
    given: list[Any] = [] if isinstance(reference, bytes | Mapping) else [*reference]
    if (
        not isinstance(reference, Sequence)
        or isinstance(reference, bytes)
        or any(isinstance(x, Mapping | CallMessage) for x in given)
    ):
        return reference_calls(message_calls(reference))  # type: ignore[arg-type]
    wanted: list[ReferenceCall] = []
    for at, one in enumerate(given):
        match one:
            case ReferenceCall():
                wanted.append(one)
            case str():
                wanted.append(ReferenceCall(one, any_arguments=True))
            case (str(name), dict(arguments)):
                wanted.append(ReferenceCall(name, arguments))
            case _:
                expected = "expected the name of a tool, or a pair of name and arguments"
                raise UsageError(f"call {at} of the reference is {str(one)[:60]!r}; {expected}")
    return wanted


# A path, or a run in memory: the bytes of a file, an object of JSON, or one that becomes one by
# `model_dump`, as the messages of an SDK do.
Source = str | Path | bytes | Mapping[str, Any] | Trajectory | Sequence[Any]


def read_sources(given: Source | Iterable[Source]) -> list[str | bytes]:
    """Return paths and bytes as they are, and anything else as the bytes of one file."""
    if isinstance(given, str | Path | bytes | Mapping | Trajectory):
        given = [given]
    listed = list(given)
    if all(isinstance(one, str | Path | bytes) for one in listed):
        return [one if isinstance(one, bytes) else str(one) for one in listed]
    if all(isinstance(one, Trajectory) for one in listed):
        from stepscope.formats.ours import write

        file = io.BytesIO()
        write([one for one in listed if isinstance(one, Trajectory)], file)
        return [file.getvalue()]
    try:
        return [json.dumps(listed, default=lambda one: one.model_dump()).encode()]
    except (AttributeError, TypeError, ValueError, RecursionError) as e:
        said = "give messages, or paths and bytes alone"
        raise UsageError(f"neither paths nor runs: {e}; {said}") from e
