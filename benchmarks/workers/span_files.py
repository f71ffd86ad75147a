"""Files of spans for the readers of MLflow and Phoenix: their lines, and OTLP as protobuf messages.

Neither tool has a reader of its own for a file of OTLP in JSON. What MLflow's server does with a
request in JSON is done here: ids from hex to base64, then protobuf's `json_format`; from the
decoded objects, without MLflow's detour over text.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_IDS = ("traceId", "spanId", "parentSpanId")


class SentSpan(NamedTuple):
    """A span, and the resource that it came with."""

    span: Any
    resource: Any


def read_export(line: bytes) -> Iterator[SentSpan]:
    """Yield the spans of an export."""
    decoded = json.loads(line)
    for resource in decoded["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for key in _IDS:
                    if key in span:
                        span[key] = base64.b64encode(bytes.fromhex(span[key])).decode("ascii")
    request = ParseDict(decoded, ExportTraceServiceRequest(), ignore_unknown_fields=True)
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield SentSpan(span, resource.resource)


def read_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file."""
    with path.open("rb") as file:
        yield from file


def named_files(names: list[str]) -> dict[str, Path]:
    """Return the files of JSON lines by the first word of their names."""
    paths = [Path(name) for name in names if name.endswith(".jsonl")]
    return {path.stem.split("-")[0]: path for path in paths}
