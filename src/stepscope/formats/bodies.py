"""Recorded API traffic: the request and the response of one call, however they were wrapped.

Known wrappings: `{"request": ..., "response": ...}`, and an HTTP exchange
`{"status": ..., "headers": ..., "body": "<text>"}`. A body kept as text is decoded through the
door. What the wrapping says beside the bodies is kept.
"""

from __future__ import annotations

from typing import NamedTuple

from stepscope.errors import TraceError
from stepscope.formats.building import rest
from stepscope.model import Json
from stepscope.safety.door import decode
from stepscope.safety.limits import Limits

_PAIR = frozenset({"request", "response"})
_HTTP = frozenset({"body"})
# What stands beside a body in a recorded exchange, and in a line of a batch's output.
_EXCHANGE = frozenset({"status", "status_code", "headers", "url"})


class Bodies(NamedTuple):
    """The two bodies of an API call, either of which may be missing, and the wrapping's rest."""

    request: dict[str, Json] | None
    response: dict[str, Json] | None
    extra: dict[str, Json] | None


def unwrapped(record: dict[str, Json], limits: Limits) -> Bodies | None:
    """Return the bodies of recorded traffic, None where the record is no wrapping.

    Raises:
        TraceError: a body is no JSON object.
    """
    if "response" in record and "messages" not in record and "role" not in record:
        request, response = record.get("request"), record["response"]
        return Bodies(
            None if request is None else body(request, "request", limits),
            None if response is None else body(response, "response", limits),
            rest(record, _PAIR),
        )
    if "body" in record and ("status" in record or "headers" in record):
        return Bodies(None, body(record["body"], "body", limits), rest(record, _HTTP))
    return None


def body(value: Json, name: str, limits: Limits) -> dict[str, Json]:
    """Return an API body as an object; text is decoded.

    Raises:
        TraceError: it is none; a streamed body (server-sent events) is told apart.
    """
    if isinstance(value, dict) and "body" in value and value.keys() & _EXCHANGE:
        value = value["body"]
    if isinstance(value, str):
        if value.startswith(("event:", "data:")):
            raise TraceError(f"`{name}` is a streamed body (server-sent events); record it whole")
        value = decode(value.encode(), limits=limits).value
    if isinstance(value, dict):
        return value
    raise TraceError(f"`{name}` is {str(value)[:60]!r}; expected a JSON object")
