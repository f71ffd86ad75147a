"""Read LangSmith's runs: lists and lines, nested runs, pages of its API, batches of its SDK.

Runs of one trace are one trajectory, wherever they stand in the file. A run that is told of several
times (posted, then patched; listed twice) is one: what is said later counts, null says nothing. A
parent, a trace or a beginning that a run does not name is taken from its `dotted_order`.
Format: langsmith 0.15.0, `schemas.py` (`Run`) and `types/run.py`; POST /runs/batch.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.building import Ordinals, rest
from stepscope.formats.langsmith_children import families
from stepscope.formats.langsmith_run import Runs, is_run
from stepscope.formats.opening import Opening
from stepscope.formats.plain import Found, PlainFormat, found, quarantine
from stepscope.model import Json, Quarantined, Source, Stream, Trajectory
from stepscope.safety.door import Repair
from stepscope.safety.limits import Limits

NAME = "langsmith"
# Keys under which the API and the client's pages hold their runs.
_PAGES = ("runs", "items")
_BATCH = frozenset({"post", "patch"})


def _likeness(seen: Opening) -> float:
    return 0.95 if any(_is_like(record) for record in seen.records) else 0.0


def _is_like(record: Json) -> bool:
    if not isinstance(record, dict):
        return False
    if is_run(record):
        return True
    listed = [record.get(key) for key in (*_PAGES, *_BATCH)]
    return any(isinstance(held, list) and bool(held) and _is_told(held[0]) for held in listed)


def _is_told(entry: Json) -> bool:
    """Say whether an entry is a run, or what a patch says of one."""
    return is_run(entry) or (
        isinstance(entry, dict) and "dotted_order" in entry and "trace_id" in entry
    )


def _read(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    runs = Runs()
    beside: dict[str, Json] = {}
    repairs: list[Repair] = []
    first: int | None = None
    for record in found(stream):
        if isinstance(record, Quarantined):
            yield record
            continue
        entries, more = _entries(record.value)
        beside.update(more or {})
        repairs.extend(record.repairs)
        for entry, patch in entries:
            try:
                runs.add(entry, patch=patch)
            except (TraceError, msgspec.ValidationError) as e:
                yield _quarantined(record, entry, e, whole=len(entries) == 1)
            else:
                first = record.offset if first is None else first
    source = Source(format=NAME, uri=stream.uri, offset=first)
    yield from out(
        runs, source=source, limits=stream.limits, extra=beside or None, repairs=tuple(repairs)
    )


def out(
    runs: Runs,
    *,
    source: Source,
    limits: Limits,
    extra: dict[str, Json] | None = None,
    repairs: tuple[Repair, ...] = (),
) -> Iterator[Trajectory | Quarantined]:
    """Yield what was gathered, trace by trace; one that makes no run is quarantined whole.

    Args:
        runs: what a file, or several answers of the API, told.
        source: where that was read.
        limits: of what is decoded within runs.
        extra: what is told beside the runs.
        repairs: what the door repaired while decoding.
    """
    ordinals = Ordinals()
    for trace in runs.traces():
        try:
            yield from families(
                trace,
                source=source,
                ordinals=ordinals,
                limits=limits,
                extra=extra,
                repairs=repairs,
            )
        except TraceError as e:
            raw = msgspec.json.encode(trace.spans)
            yield Quarantined(reason=str(e), offset=source.offset or 0, raw=raw, uri=source.uri)


def _entries(value: Json) -> tuple[list[tuple[Json, bool]], dict[str, Json] | None]:
    """Return what a record tells of runs, each with whether it adds to one, and what is beside."""
    if isinstance(value, dict) and not is_run(value):
        for key in _PAGES:
            if isinstance(value.get(key), list):
                return [(entry, False) for entry in value[key]], rest(value, frozenset({key}))
        if value and value.keys() <= _BATCH and all(isinstance(v, list) for v in value.values()):
            posted = [(entry, False) for entry in value.get("post", [])]
            return [*posted, *[(entry, True) for entry in value.get("patch", [])]], None
    if isinstance(value, list):
        return [(entry, False) for entry in value], None
    return [(value, False)], None


def _quarantined(record: Found, entry: Json, reason: Exception, *, whole: bool) -> Quarantined:
    if not whole:
        record = record._replace(raw=msgspec.json.encode(entry))
    return quarantine(record, reason)


FORMAT = PlainFormat(NAME, _likeness, _read)
