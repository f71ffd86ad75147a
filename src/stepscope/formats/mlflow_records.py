"""What one decoded value of MLflow holds: traces, each with what is known of it and its spans.

A trace is written as `info` beside `data.spans` (`Trace.to_json`), as `trace_info` beside `spans`
(the server's answers), or as a row of the table that `mlflow.search_traces` gives: the whole trace
as JSON in the column `trace`, or its parts in columns. Tables written by columns are turned.
Source: mlflow-skinny 3.17.2, `entities/trace.py`, `tracing/utils/search.py`; 2.22 for what was
before version 3 of the schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stepscope.errors import TraceError
from stepscope.formats.building import rest
from stepscope.formats.spans.attributes import decoded
from stepscope.model import Json
from stepscope.safety.limits import Limits

Record = dict[str, Json]

_IDS = ("trace_id", "request_id", "client_request_id")
# Columns of a row that its spans' or the whole trace's own column says, or that are its facts.
_COLUMNS = frozenset(
    "trace_id request_id client_request_id state status request_time timestamp_ms "
    "execution_duration execution_time_ms trace_metadata request_metadata tags assessments "
    "request response".split()
)
# The traces of a page, and where the next one begins.
_PAGE = frozenset({"traces", "next_page_token"})


class Trace(NamedTuple):
    """What is known of one trace, its spans, and what else stood beside them."""

    info: Record
    spans: list[Json]
    beside: Record | None


def is_trace(value: Json) -> bool:
    """Say whether a value looks like anything of MLflow, by its keys."""
    if not isinstance(value, dict):
        return False
    listed = value.get("traces")
    if isinstance(listed, list) and listed:
        return is_trace(listed[0])
    info, held = value.get("info"), value.get("data")
    if isinstance(info, dict) and isinstance(held, dict):
        return "spans" in held and _named(info)
    if isinstance(value.get("trace_info"), dict):
        return "spans" in value and _named(value["trace_info"])
    if isinstance(value.get("trace"), dict) and is_trace(value["trace"]):
        return True
    if not _named(value) or not value.keys() & {"trace_metadata", "request_metadata"}:
        return False
    return bool(value.keys() & {"spans", "state", "status", "request_time", "timestamp_ms"})


def _named(info: Record) -> bool:
    return any(key in info for key in _IDS)


def traces(value: Json, limits: Limits) -> Iterator[Trace]:
    """Yield the traces of one value.

    Raises:
        TraceError: the value is none; what stood before in it has been yielded.
    """
    if not isinstance(value, dict):
        raise TraceError(f"a trace needs an object; found {str(value)[:60]!r}")
    listed = value.get("traces")
    if isinstance(listed, list):
        for entry in listed:
            yield from _besides(traces(entry, limits), rest(value, _PAGE))
        return
    rows = _turned(value)
    if rows is not None:
        for row in rows:
            yield from traces(row, limits)
        return
    held = value.get("trace")
    # Version 2's table has in `trace` an object that only Python could use; its columns say all.
    whole = held if "spans" not in value else None
    whole = decoded(held, limits) if isinstance(held, str) else whole
    if isinstance(whole, dict):
        yield from _besides(traces(whole, limits), rest(value, _COLUMNS | {"trace", "spans"}))
        return
    yield _trace(value, limits)


def _besides(found: Iterator[Trace], more: Record | None) -> Iterator[Trace]:
    """Yield traces with what else stood around them."""
    for trace in found:
        yield trace._replace(beside={**(more or {}), **(trace.beside or {})} or None)


def _trace(value: Record, limits: Limits) -> Trace:
    info = value.get("info", value.get("trace_info"))
    if isinstance(info, dict):
        held = value.get("data", value)
        spans = held.get("spans") if isinstance(held, dict) else None
        known = frozenset({"info", "trace_info", "data", "spans"})
        beside = rest(value, known) or {}
        if isinstance(value.get("data"), dict):
            beside.update(rest(value["data"], frozenset({"spans"})) or {})
        return Trace(info, _listed(spans), beside or None)
    if _named(value):
        told = {key: decoded(value[key], limits) for key in _COLUMNS & value.keys()}
        spans = decoded(value.get("spans"), limits)
        about = {key: held for key, held in told.items() if held is not None}
        beside = rest(value, _COLUMNS | {"spans"}) or {}
        if "trace" in beside:
            beside["column"] = beside.pop("trace")
        return Trace(about, _listed(spans), beside or None)
    raise TraceError(
        "a trace needs `info` and `data.spans`, or a row's `trace_id` and `spans`; "
        f"found the keys {sorted(value)[:6]}"
    )


def _listed(spans: Json) -> list[Json]:
    if spans is None:
        return []
    if isinstance(spans, list):
        return spans
    raise TraceError(f"a trace needs a list under `spans`; found {str(spans)[:60]!r}")


def _turned(value: Record) -> list[Record] | None:
    """Return a table that was written by columns as its rows, None where it is none."""
    ids = value.get("trace_id", value.get("request_id"))
    if not isinstance(ids, dict) or not all(isinstance(held, dict) for held in value.values()):
        return None
    return [{key: held.get(row) for key, held in value.items()} for row in ids]
