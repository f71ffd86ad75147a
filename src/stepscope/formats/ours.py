"""Our own JSON lines: a header, then one run a line, lossless.

Reading back what was written gives equal runs, ids included. `write` proves it for every run before
it is written, and refuses a run that holds what JSON cannot carry (NaN, numbers beyond 64 bits,
keys that are no text). Reading is strict: a line that is not JSON by the letter, of a wrong type,
or with a field that this version does not know is quarantined. Files may be concatenated.
Format: the schema of `stepscope.model.Trajectory`, version 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import msgspec

from stepscope import model
from stepscope.errors import LimitError, TraceError
from stepscope.formats.building import Ordinals
from stepscope.formats.opening import Opening
from stepscope.formats.pieces import RawRecord
from stepscope.formats.plain import Place, RecordFormat
from stepscope.formats.records import records
from stepscope.model import Json, Quarantined, Stream, Trajectory, Warn
from stepscope.safety.door import decode_strict, drops_keys
from stepscope.safety.limits import Limits
from stepscope.safety.text import visible_line

NAME = "ours"
SCHEMA = 1

_HEADER_KEY = "stepscope"
_HEADER = {_HEADER_KEY: "trajectories", "schema": SCHEMA}
_HEADER_START = b'{"stepscope":'
_encode = msgspec.json.Encoder().encode
_UNLIMITED = Limits(depth=10_000, line_bytes=2**62, steps=2**62)

# Every field of every noun within a run: a key of this name that is not written back was a default.
_FIELDS = frozenset(
    field
    for noun in vars(model).values()
    if isinstance(noun, type) and issubclass(noun, msgspec.Struct)
    for field in noun.__struct_fields__
)


def write(trajectories: Iterable[Trajectory], file: BinaryIO) -> int:
    """Write runs as JSON lines; return how many.

    Raises:
        TraceError: a run would not come back equal; nothing of it is written.
    """
    file.write(_encode(_HEADER) + b"\n")
    count = 0
    for trajectory in trajectories:
        file.write(line_of(trajectory) + b"\n")
        count += 1
    return count


def line_of(trajectory: Trajectory) -> bytes:
    """Return a run as one line of JSON.

    Raises:
        TraceError: it would not come back equal.
    """
    try:
        line = _encode(trajectory)
        same = run_of(line, _UNLIMITED) == trajectory
    except (TraceError, TypeError, ValueError, OverflowError, RecursionError) as e:
        raise TraceError(f"run {trajectory.id!r} cannot be written as JSON: {e}") from e
    if not same:
        raise TraceError(
            f"run {trajectory.id!r} holds values that JSON cannot carry (NaN, keys that are no "
            "text, tuples where JSON has lists); turn them into text first"
        )
    return line


def run_of(raw: bytes, limits: Limits) -> Trajectory:
    """Return the run that a line holds.

    Raises:
        TraceError: not JSON, of a wrong type, or with fields that this version does not know.
        LimitError: nested too deep, or too many steps.
    """
    value, repairs = decode_strict(raw, limits=limits)
    try:
        trajectory = msgspec.convert(value, Trajectory)
    except (msgspec.ValidationError, RecursionError) as e:
        raise TraceError(f"no run of ours: {e}") from e
    if len(trajectory.steps) > limits.steps:
        raise LimitError(f"a run of {len(trajectory.steps)} steps; limits.steps is {limits.steps}")
    if drops_keys(raw, trajectory):
        unknown = list(_unknown(value, msgspec.to_builtins(trajectory), ""))
        if unknown:
            raise TraceError(
                f"field {visible_line(unknown[0])!r} is unknown to this version, "
                f"{len(unknown)} in all; update stepscope"
            )
    if repairs:
        warnings = (*trajectory.warnings, *(Warn(*repair) for repair in repairs))
        trajectory = msgspec.structs.replace(trajectory, warnings=warnings)
    return trajectory


def _unknown(read: Json, kept: Json, path: str) -> Iterator[str]:
    """Yield the paths of keys that were read and are not kept, other than defaults spelt out."""
    if isinstance(read, dict) and isinstance(kept, dict):
        for key, value in read.items():
            if key in kept:
                yield from _unknown(value, kept[key], f"{path}.{key}")
            elif key not in _FIELDS:
                yield f"{path}.{key}".removeprefix(".")
    elif isinstance(read, list) and isinstance(kept, (list, tuple)):
        for index, (value, twin) in enumerate(zip(read, kept, strict=True)):
            yield from _unknown(value, twin, f"{path}.{index}")


def check_schema(found: Any) -> None:
    """Refuse a schema that this version cannot read.

    Raises:
        TraceError: it is newer, or no number.
    """
    if found != SCHEMA:
        raise TraceError(f"our format of schema {found!r}; this version reads {SCHEMA}")


def _likeness(opening: Opening) -> float:
    return 1.0 if opening.first(_HEADER_KEY, "schema") is not None else 0.0


def _split(stream: Stream) -> Iterator[RawRecord | Quarantined]:
    """Yield the lines that hold runs; what stands under a header of another schema is set aside."""
    schema: Any = SCHEMA
    for record in records(stream):
        if isinstance(record, Quarantined):
            yield record
            continue
        try:
            if record.raw.startswith(_HEADER_START):
                header = decode_strict(record.raw, limits=stream.limits).value
                schema = header.get("schema")
                if beside := sorted(header.keys() - _HEADER.keys()):
                    raise TraceError(f"a header with {visible_line(beside[0])!r}; update stepscope")
            check_schema(schema)
            if not record.raw.startswith(_HEADER_START):
                yield record
        except TraceError as e:
            yield Quarantined(reason=str(e), offset=record.offset, raw=record.raw, uri=stream.uri)


def _one(record: RawRecord, place: Place, _: Ordinals) -> Iterable[Trajectory | Quarantined]:
    try:
        return (run_of(record.raw, place.limits),)
    except TraceError as e:
        offset, uri = record.offset, place.uri
        return (Quarantined(reason=str(e), offset=offset, raw=record.raw, uri=uri),)


FORMAT = RecordFormat(NAME, _likeness, _one, _split)
