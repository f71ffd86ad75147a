"""Times Phoenix reading spans into its schema, `phoenix.trace.schemas.Span`.

`otlp` makes each span of an export with `decode_otlp_span`, as Phoenix's server does; messages are
decoded on the way. `spans` is `json_string_to_span` on each line of Phoenix's own spans and then,
as its `TraceDataset` and its server do, indexed keys into lists of messages; `spans flat` leaves
the keys as they are. All are the fastest that it has: `TraceDataset(json_lines_to_df(lines))`,
which its documentation shows, takes many times as long.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from phoenix.trace.attributes import (  # type: ignore[import-not-found]
    load_json_strings,
    unflatten,
)
from phoenix.trace.otel import decode_otlp_span  # type: ignore[import-not-found]
from phoenix.trace.span_json_decoder import json_string_to_span  # type: ignore[import-not-found]

from benchmarks.workers.serve import Round, serve
from benchmarks.workers.span_files import named_files, read_export, read_lines


def otlp(path: Path) -> dict[str, int]:
    """Read each export and let it go."""
    runs: set[str] = set()
    spans = 0
    for line in read_lines(path):
        for sent in read_export(line):
            runs.add(decode_otlp_span(sent.span).context.trace_id)
            spans += 1
    return {"runs": len(runs), "spans": spans}


def listed(path: Path, *, nested: bool) -> dict[str, int]:
    """Read each span and let it go."""
    runs: set[str] = set()
    spans = 0
    for line in read_lines(path):
        span = json_string_to_span(line)
        if nested:
            span = replace(span, attributes=unflatten(load_json_strings(span.attributes.items())))
        runs.add(span.context.trace_id)
        spans += 1
    return {"runs": len(runs), "spans": spans}


if __name__ == "__main__":
    files = named_files(sys.argv[1:])
    rounds: dict[str, Round] = {
        "otlp": lambda: otlp(files["otlp"]),
        "spans": lambda: listed(files["phoenix"], nested=True),
        "spans flat": lambda: listed(files["phoenix"], nested=False),
    }
    serve(rounds)
