"""Answers as OTLP has them: what was kept, what was refused, in the encoding that was asked in.

The messages are two fields each, so protobuf is written by hand.
Source: OTLP specification 1.9, "OTLP/HTTP Response"; `ExportTraceServiceResponse`;
`google.rpc.Status` (code 1, message 2).
"""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from stepscope.formats.otlp_request import JSON, PROTOBUF
from stepscope.receive.policy import Refusal
from stepscope.safety.redact import scrubbed

# google.rpc.Code: INVALID_ARGUMENT, DEADLINE_EXCEEDED, PERMISSION_DENIED, RESOURCE_EXHAUSTED,
# UNIMPLEMENTED, UNAVAILABLE, UNAUTHENTICATED.
_CODES = {400: 3, 401: 16, 403: 7, 404: 12, 405: 12, 408: 4, 413: 8, 415: 3, 431: 8, 503: 14}
_MAX_SAID = 500


def kept(kind: str, *, refused: int, reason: str) -> Response:
    """Return the answer to spans that were kept, but for `refused` of them."""
    reason = scrubbed(reason)
    if kind == JSON:
        said = {"partialSuccess": {"rejectedSpans": str(refused), "errorMessage": reason}}
        return Response(msgspec.json.encode(said if refused else {}), 200, media_type=JSON)
    if not refused:
        return Response(b"", 200, media_type=PROTOBUF)
    partial = b"\x08" + varint(refused) + _text(2, reason)
    return Response(b"\x0a" + varint(len(partial)) + partial, 200, media_type=PROTOBUF)


def refused(refusal: Refusal, kind: str) -> Response:
    """Return the answer to a request that was refused whole; the connection ends with it."""
    code = _CODES.get(refusal.status, 2)
    said = scrubbed(refusal.said)
    if kind == PROTOBUF:
        body = b"\x08" + varint(code) + _text(2, said)
    else:
        kind = JSON
        body = msgspec.json.encode({"code": code, "message": said})
    answer = Response(body, refusal.status, media_type=kind)
    answer.headers["Connection"] = "close"
    if refusal.retry_seconds is not None:
        answer.headers["Retry-After"] = str(refusal.retry_seconds)
    if refusal.status == 405:
        answer.headers["Allow"] = "POST"
    return answer


def _text(number: int, text: str) -> bytes:
    raw = text[:_MAX_SAID].encode("utf-8", "replace")
    return bytes([number << 3 | 2]) + varint(len(raw)) + raw


def varint(value: int) -> bytes:
    """Return a number as protobuf writes it.

    >>> varint(300).hex()
    'ac02'
    """
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
