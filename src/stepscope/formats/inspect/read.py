"""Read Inspect logs, `.eval` and `.json`: one run for each sample and epoch.

Steps come from the events of a sample, what models were told from its messages, each once; texts
that the log keeps apart are put back in their places. Grader models are not the agent's. A log that
is still being written, or was cancelled, is read as far as it stands. Members packed by zstd, as
Inspect packs them by default, need the extra `zstd`.

A sample is decoded fast where it holds nothing but the keys that Inspect is known to write, each no
deeper than it may be; anything else is decoded by `safety.json`.
Format: UKGovernmentBEIS/inspect_ai 0.3.285, log versions 1 to 3; `log/_log.py`, `event/`, `model/`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from types import GenericAlias
from typing import Annotated, Any, TypedDict

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.files import ZIP_MAGIC, rewind
from stepscope.formats.finish import Ordinals
from stepscope.formats.format import DecodedRecord, RecordFormat, attempt
from stepscope.formats.inspect import log
from stepscope.formats.inspect.log import unframe_sample
from stepscope.formats.inspect.sample import NAME, read_sample
from stepscope.formats.opening import Opening
from stepscope.formats.records import RawRecord
from stepscope.model import Json, Quarantined, Stream, Trajectory
from stepscope.safety.json import Decoded, decode, drops_keys
from stepscope.safety.limits import Limits

_INT_HIGH = 2**63 - 1
# Bytes of a character, at most.
_CHARACTER = 4
# No value of the types below nests deeper.
_DEEPEST = 20

# Keys by the kind of their record: those that hold a plain value, and those that hold values within
# each other: two, four, six or eight deep. Deeper ones are read all the same, only slower.
_PLAIN = {
    "message": "id role source function model",
    "call": "id function parse_error type",
    "choice": "stop_reason",
    "tool": "name description",
    "output": "model completion time error response_id input_context_tokens",
    "event": "uuid span_id timestamp working_start pending event id parent_id type name action "
    "model role requested_model retries cache completed working_time function agent agent_span_id "
    "failed message_id decision approver reviewer explanation intermediate scorer source "
    "tokens_before tokens_after limit cmd file input_ansi interrupted interrupted_tool_call_id "
    "interrupted_model_event_id score_name outcome from_anchor anchor_id traceback traceback_ansi",
    "sample": "id epoch description setup total_time working_time uuid started_at completed_at "
    "turn_count token_limit token_limit_type token_limit_usage message_limit time_limit "
    "completed message_count",
}
_FEW = {
    "message": "error tool_call_id",
    "call": "view",
    "output": "usage fallback",
    "event": "input_refs tool_choice error truncated view target model_usage role_usage message",
    "sample": "target choices files model_usage role_usage error limit message_refs attachments",
}
_SOME = {
    "message": "content metadata",
    "choice": "stop_details logprobs",
    "tool": "options",
    "output": "metadata",
    "event": "config request_ids metadata score scorer_args options edit fields content",
    "sample": "sandbox model_fallbacks invalidation score",
}
_MANY = {
    "call": "arguments",
    "tool": "parameters",
    "event": "arguments result events sample state data modified",
    "sample": "scores metadata store timelines error_retries call_pool",
}
_MOST = {"event": "call changes"}


def decode_sample(raw: bytes, *, limits: Limits) -> Decoded:
    """Return the value of a sample, as `safety.door.decode` does."""
    if limits.depth >= _DEEPEST and b"\\u0000" not in raw:
        # A character is four bytes at most; no text is longer than the whole.
        longest = None if len(raw) <= limits.text_bytes else limits.text_bytes // _CHARACTER
        try:
            value = _decoder(longest)(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return decode(raw, limits=limits)
        if not drops_keys(raw, value):
            return Decoded(value)
    return decode(raw, limits=limits)


@cache
def _decoder(longest: int | None) -> Callable[[bytes], Json]:
    """Return what decodes a sample; no text of it has more characters than `longest`."""
    whole = Annotated[int, msgspec.Meta(ge=-_INT_HIGH - 1, le=_INT_HIGH)]
    text: Any = str if longest is None else Annotated[str, msgspec.Meta(max_length=longest)]
    plain: Any = text | whole | float | bool | None

    def nested(levels: int) -> Any:
        value = plain
        for _ in range(levels):
            value = plain | GenericAlias(list, (value,)) | GenericAlias(dict, (text, value))
        return value

    few, some, many, most = nested(2), nested(4), nested(6), nested(8)

    def record(kind: str, **deeper: Any) -> Any:
        fields: dict[str, Any] = {}
        for keys, held in (
            (_PLAIN, plain), (_FEW, few), (_SOME, some), (_MANY, many), (_MOST, most)
        ):  # fmt: skip
            fields |= dict.fromkeys(keys.get(kind, "").split(), held)
        made: Any = TypedDict
        return made(kind, fields | deeper, total=False)

    def each(kind: Any) -> Any:
        return GenericAlias(list, (kind,)) | None

    message = record("message", tool_calls=each(record("call")))
    output = record("output", choices=each(record("choice", message=message)))
    event = record(
        "event",
        input=plain | GenericAlias(list, (message,)) | GenericAlias(dict, (text, some)),
        tools=each(record("tool")),
        output=plain | output,
    )
    sample = record(
        "sample",
        input=plain | GenericAlias(list, (message,)),
        messages=each(message),
        message_pool=each(message),
        events=each(event),
        events_data=record("pools", messages=each(message), calls=many) | None,
        transcript=record("transcript", events=each(event), content=few) | None,
        output=output | None,
    )
    return msgspec.json.Decoder(sample).decode


_SURE = 0.95
# The first member of a log: that it was begun; or, where it was rewritten, any other.
_MEMBER = re.compile(rb"_journal/|samples/.*\.json\Z|header\.json\Z", re.DOTALL)
_NAME_AT, _LENGTH_AT = 30, 26
_MAGIC_BYTES = 4


def _zip_likeness(head: bytes) -> float:
    if not head.startswith(ZIP_MAGIC) or len(head) < _NAME_AT:
        return 0.0
    (size,) = struct.unpack_from("<H", head, _LENGTH_AT)
    return _SURE if _MEMBER.match(head[_NAME_AT : _NAME_AT + size]) else 0.0


def _likeness(opening: Opening) -> float:
    if opening.shape not in {"object", "lines"}:
        return 0.0
    match opening.first("eval"):
        case {"eval": {"task": _, "model": _}}:
            return _SURE
        case {"eval": {"task": _}, "plan": _} | {"eval": {"task": _}, "status": _}:
            return _SURE
    return 0.0


def _split(stream: Stream) -> Iterator[RawRecord | Quarantined]:
    head = stream.file.read(_MAGIC_BYTES)
    whole = Stream(rewind(stream.file, head), stream.uri, stream.limits)
    if head.startswith(ZIP_MAGIC):
        return log.split_eval(whole)
    return log.split_json(whole)


def _one(
    record: RawRecord, uri: str, limits: Limits, ordinals: Ordinals
) -> Iterable[Trajectory | Quarantined]:
    log, sample = unframe_sample(record.raw)
    try:
        value, repairs = decode_sample(sample, limits=limits)
    except TraceError as e:
        return (Quarantined(reason=str(e), offset=record.offset, raw=sample, uri=uri),)
    found = DecodedRecord(value, record.offset, uri, repairs, limits, sample)
    return attempt(found, lambda found: (read_sample(found, log, ordinals),))


FORMAT = RecordFormat(NAME, _likeness, _one, _split, _zip_likeness)
