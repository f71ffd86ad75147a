"""The last touch on every run that is read: its id, and warnings about what is odd in it.

The id is content: sha256 over the canonical JSON of the steps, then the source's own run id, else
task and trial, else how many records of equal content came before in the file. File name, key
order, outcome, labels, tags and agent never enter it (spec: identity). Nothing odd is corrected.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Annotated

import msgspec

from stepscope.errors import LimitError, TraceError
from stepscope.model import Json, Step, ToolCall, Trajectory, Warn
from stepscope.safety.door import Repair, decode
from stepscope.safety.limits import Limits

_canonical = msgspec.json.Encoder(order="deterministic").encode
# Arguments that hold no objects and no number beyond 64 bits; others are the door's business.
_Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_flat = msgspec.json.Decoder(dict[str, str | _Whole | float | bool | list[str] | None]).decode
# Hex digits of the id that are kept: 128 bits, enough that two runs never meet.
_ID_DIGITS = 32
_LIMITS = Limits()


class Ordinals:
    """Counts records of equal content within one file: `seen` says how many of each there were."""

    def __init__(self) -> None:
        self.seen: dict[bytes, int] = {}

    def next(self, content: bytes) -> int:
        """Return how many records of this content came before, and count one more."""
        count = self.seen.get(content, 0)
        self.seen[content] = count + 1
        return count


def finish(
    draft: Trajectory,
    ordinals: Ordinals,
    *,
    limits: Limits = _LIMITS,
    repairs: Iterable[Repair] = (),
) -> Trajectory:
    """Return the draft with its id, its ordinal and its warnings.

    Raises:
        LimitError: the run has more steps than `limits` allows.
        TraceError: the steps cannot be written as JSON.
    """
    steps = draft.steps
    if len(steps) > limits.steps:
        raise LimitError(
            f"{draft.source.uri}: a run of {len(steps)} steps; the limit is {limits.steps} "
            "(`limits.steps` in stepscope.toml)"
        )
    content = sha256(_encoded(draft))
    source = draft.source
    if source.run_id is not None:
        content.update(_canonical(("run", source.run_id)))
    elif draft.trial is not None:
        content.update(_canonical(("trial", draft.task, draft.trial)))
    else:
        # A run that we wrote knows its ordinal from the file it was first read from.
        ordinal = source.ordinal or ordinals.next(content.digest())
        content.update(_canonical(("ordinal", ordinal)))
        if ordinal:
            source = msgspec.structs.replace(source, ordinal=ordinal)
    warnings = (*draft.warnings, *(Warn(*repair) for repair in repairs), *oddities(steps))
    name = draft.name
    identity = content.hexdigest()[:_ID_DIGITS]
    return msgspec.structs.replace(
        draft, id=identity, name=name or identity[:12], source=source, warnings=warnings
    )


def _encoded(draft: Trajectory) -> bytes:
    try:
        return _canonical(draft.steps)
    except (UnicodeEncodeError, RecursionError, OverflowError) as e:
        raise TraceError(f"{draft.source.uri}: the steps cannot be written as JSON ({e})") from e


def oddities(steps: tuple[Step, ...]) -> list[Warn]:
    """Return a warning for every unpaired call or result, doubled call id and broken time."""
    warnings: list[Warn] = []
    # Steps of the calls that nothing has answered yet, by call id.
    waiting: dict[str | None, list[int]] = {}
    clock: int | None = None
    for step in steps:
        if not step.replayed:
            if step.calls or step.results:
                _pair(step, waiting, warnings)
            if step.start is not None:
                clock = _check_clock(step, step.start.ns, clock, warnings)
    for call_id, asked in waiting.items():
        for at in asked:
            warnings.append(Warn("call_without_result", f"call {call_id!r} has no result", at))
    return warnings


def _pair(step: Step, waiting: dict[str | None, list[int]], warnings: list[Warn]) -> None:
    for call in step.calls:
        asked = waiting.get(call.id)
        if asked is None:
            waiting[call.id] = [step.index]
            continue
        asked.append(step.index)
        if call.id is not None:
            reason = f"call id {call.id!r} is used twice"
            warnings.append(Warn("duplicate_call_id", reason, step.index))
    for result in step.results:
        asked = waiting.get(result.call_id)
        if asked:
            # Without ids, results come in the order of their calls.
            asked.pop(0 if result.call_id is None else -1)
        else:
            reason = f"a result for call id {result.call_id!r} answers no call"
            warnings.append(Warn("result_without_call", reason, step.index))


def _check_clock(step: Step, start: int, clock: int | None, warnings: list[Warn]) -> int:
    """Return the latest start so far, having warned of a step that disagrees with it."""
    if step.end is not None and step.end.ns < start:
        warnings.append(Warn("negative_duration", "the step ends before it starts", step.index))
    if clock is not None and start < clock:
        reason = "the step starts before an earlier one"
        warnings.append(Warn("clock_backwards", reason, step.index))
    return start if clock is None else max(start, clock)


def call_of(
    name: str,
    arguments: Json,
    call_id: str | None,
    *,
    limits: Limits,
    extra: dict[str, Json] | None = None,
) -> ToolCall:
    """Return a tool call; arguments given as text are decoded, and kept as text beside.

    Text that is no JSON is data: the call then has `parse_error` and no arguments. Empty text is
    how some recorders write a call without arguments. What the door repaired is named in `extra`.
    """
    if type(arguments) is not str:
        return ToolCall(name, arguments, call_id, extra=extra)
    try:
        flat = _flat(arguments)
    except (msgspec.MsgspecError, UnicodeError):
        flat = None
    # Nearly every call is plain and short: as many colons as keys, so that none came twice.
    if (
        flat is not None
        and len(flat) == arguments.count(":")
        and len(arguments) <= limits.text_bytes
        and "\\u0000" not in arguments
    ):
        return ToolCall(name, flat, call_id, arguments, extra=extra)
    if not arguments.strip():
        return ToolCall(name, {}, call_id, arguments, extra=extra)
    try:
        value, repairs = decode(arguments.encode(), limits=limits)
    except TraceError as e:
        return ToolCall(name, None, call_id, arguments, str(e), extra=extra)
    if repairs:
        extra = {**(extra or {}), "repaired": [repair.code for repair in repairs]}
    return ToolCall(name, value, call_id, arguments, extra=extra)


def text_at(record: dict[str, Json], key: str) -> str | None:
    """Return the text under a key, None where there is none, or something else than text."""
    value = record.get(key)
    return value if isinstance(value, str) else None


def rest(record: dict[str, Json], known: frozenset[str]) -> dict[str, Json] | None:
    """Return what a record says beyond the known keys, None where it says nothing more.

    A key that holds null says nothing.
    """
    if record.keys() <= known:
        return None
    return {k: v for k, v in record.items() if k not in known and v is not None} or None
