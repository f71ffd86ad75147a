"""What one decoded value of a Langfuse export holds: traces, observations, scores, one by one.

An export is a trace with its observations and scores inside or beside it, a page of the API
(`data`, `meta`), or single records. Keys are read in the API's spelling and in that of tables and
of the Python SDK (`trace_id`). Lists inside a trace repeat observations with less in them: of two
forms of one record, what either of them says is kept, and the later one holds where they differ.
Source: langfuse 5.0.4, `api/resources` and the export of a trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from stepscope.errors import TraceError
from stepscope.formats.building import text_at
from stepscope.model import Json

Kind = Literal["trace", "observation", "score"]
Record = dict[str, Json]

TYPES = frozenset(
    "GENERATION SPAN EVENT AGENT TOOL CHAIN RETRIEVER EVALUATOR EMBEDDING GUARDRAIL".split()
)
# Spellings with an underscore of the keys that are read; the others stay as they are.
_SPELLINGS = {
    "".join(["_" + sign.lower() if sign.isupper() else sign for sign in name]): name
    for name in (
        "traceId parentObservationId observationId startTime endTime completionStartTime projectId "
        "statusMessage modelParameters providedModelName usageDetails costDetails totalCost "
        "calculatedTotalCost sessionId userId traceName promptName promptVersion dataType "
        "stringValue longStringValue authorUserId toolDefinitions promptTokens completionTokens "
        "totalTokens createdAt updatedAt isRootObservation"
    ).split()
}
_EMPTY: tuple[Json, ...] = (None, "", "{}", "[]", {}, [])


class Entry(NamedTuple):
    """One record and what it is; its keys are in the API's spelling."""

    kind: Kind
    record: Record


def is_export(value: Json) -> bool:
    """Say whether a value looks like anything of Langfuse, by its keys."""
    if not isinstance(value, dict):
        return False
    listed = value.get("data")
    if isinstance(listed, list) and listed and "meta" in value:
        return is_export(listed[0])
    inner = value.get("trace")
    if isinstance(inner, dict) and isinstance(value.get("observations"), list):
        return "id" in inner
    kind = _kind(spelled(value))
    return kind in {"observation", "score"} or (kind == "trace" and _is_trace(value))


def _is_trace(value: Record) -> bool:
    listed = value.get("observations")
    if isinstance(listed, list) and listed:
        return isinstance(listed[0], str) or _kind(spelled(listed[0])) == "observation"
    return {"timestamp", "tags"} <= value.keys() and bool(
        value.keys() & {"sessionId", "session_id", "htmlPath", "projectId", "project_id"}
    )


def entries(value: Json) -> Iterator[Entry]:
    """Yield the records of one value: of a trace, first itself, then what it holds.

    Raises:
        TraceError: the value, or one in it, is no record of Langfuse. What stood before it has
            been yielded.
    """
    if not isinstance(value, dict):
        raise TraceError(
            f"an export needs traces, observations or scores as objects; found {str(value)[:60]!r}"
        )
    page = value.get("data")
    if isinstance(page, list) and "id" not in value:
        for entry in page:
            yield from entries(entry)
        return
    inner = value.get("trace")
    if isinstance(inner, dict) and not isinstance(value.get("traceId"), str):
        beside = {key: held for key, held in value.items() if key != "trace"}
        yield from _trace(spelled({**inner, **_more(inner, beside)}))
        return
    record = spelled(value)
    kind = _kind(record)
    if kind is None:
        raise TraceError(
            "a record needs what makes it a trace (`id` and `observations` or `timestamp`), an "
            "observation (`id`, `traceId`, `type`) or a score (`name`, `value`); "
            f"found the keys {sorted(record)[:6]}"
        )
    if kind == "trace":
        yield from _trace(record)
    else:
        yield Entry(kind, record)


def _more(inner: Record, beside: Record) -> Record:
    """Return what stands beside a trace, lists of both places joined, its own lists first."""
    found = dict(beside)
    for key in ("observations", "scores"):
        held, more = inner.get(key), beside.get(key)
        if isinstance(held, list) and isinstance(more, list):
            found[key] = [*held, *more]
    return found


def _trace(record: Record) -> Iterator[Entry]:
    listed = {key: record.get(key) for key in ("observations", "scores")}
    about = {key: held for key, held in record.items() if key not in listed}
    for key, held in listed.items():
        ids = isinstance(held, list)
        named = [entry for entry in held or () if isinstance(entry, str)] if ids else held
        if named:
            about[key] = named  # ids, as a list of traces gives them, or no list at all
    if text_at(about, "id") is None:
        raise TraceError(f"a trace needs an id; found the keys {sorted(record)[:6]}")
    yield Entry("trace", about)
    kinds: dict[str, Kind] = {"observations": "observation", "scores": "score"}
    for key, kind in kinds.items():
        held = listed[key]
        for entry in held if isinstance(held, list) else ():
            if isinstance(entry, dict):
                yield Entry(kind, {"traceId": about["id"], **spelled(entry)})
            elif not isinstance(entry, str):
                raise TraceError(f"a trace's `{key}` needs objects; found {str(entry)[:60]!r}")


def _kind(record: Record) -> Kind | None:
    if "traceId" in record or "observationId" in record or "sessionId" in record:
        kind = record.get("type")
        if isinstance(kind, str) and kind.upper() in TYPES and "id" in record:
            return "observation"
        if "value" in record and "name" in record and "observations" not in record:
            return "score"
    if "id" in record and "traceId" not in record:
        if isinstance(record.get("observations"), list) or "timestamp" in record:
            return "trace"
    return None


def spelled(record: Json) -> Record:
    """Return a record with the keys that are read in the API's spelling."""
    if not isinstance(record, dict):
        return {}
    if not record.keys() & _SPELLINGS.keys():
        return record
    return {_SPELLINGS.get(key) or key: held for key, held in record.items()}


def joined(older: Record, newer: Record) -> tuple[Record, bool]:
    """Return what two forms of one record say, and whether they contradict each other.

    What the older one said otherwise stays under `earlier`.
    """
    told = {key: held for key, held in newer.items() if held not in _EMPTY}
    against = {
        key: held for key, held in older.items() if key in told and held not in (*_EMPTY, told[key])
    }
    kept = {key: held for key, held in older.items() if held not in _EMPTY or key not in newer}
    found = {**newer, **kept, **told}
    if against:
        before = older.get("earlier")
        found["earlier"] = {**(before if isinstance(before, dict) else {}), **against}
    return found, bool(against)
