"""Times MLflow reading traces into its entities, every attribute and event decoded.

`traces` is `Trace.from_json` on each line of MLflow's own traces. `otlp` makes each span of an
export with `Span.from_otel_proto`, as MLflow's server does, and decodes the messages, which MLflow
leaves as JSON in text; it builds no `TraceInfo`, which the server makes when it stores them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from mlflow.entities import Span, Trace  # type: ignore[import-not-found]

from benchmarks.workers.serve import Round, serve
from benchmarks.workers.span_files import named_files, read_export, read_lines


def traces(path: Path) -> dict[str, int]:
    """Read each trace and let it go."""
    runs = spans = 0
    for line in read_lines(path):
        trace = Trace.from_json(line)
        for span in trace.data.spans:
            decode(span)
            spans += 1
        runs += 1
    return {"runs": runs, "spans": spans}


def otlp(path: Path) -> dict[str, int]:
    """Read each export, one trace a line, and let it go."""
    runs: set[str] = set()
    spans = 0
    for line in read_lines(path):
        for sent in read_export(line):
            span = Span.from_otel_proto(sent.span, resource=sent.resource)
            for key, value in decode(span).items():
                if key.endswith(".messages"):
                    json.loads(value)
            runs.add(span.trace_id)
            spans += 1
    return {"runs": len(runs), "spans": spans}


def decode(span: Span) -> dict[str, Any]:
    """Return the attributes of a span, decoded; its events are made on the way."""
    _ = span.events
    found: dict[str, Any] = span.attributes
    return found


if __name__ == "__main__":
    files = named_files(sys.argv[1:])
    rounds: dict[str, Round] = {
        "otlp": lambda: otlp(files["otlp"]),
        "traces": lambda: traces(files["mlflow"]),
    }
    serve(rounds)
