"""A report as JSON: the same rows give the same bytes; the schema is published beside the code.

`report.schema.json` is generated from the structs, never written by hand:
`python -c "from stepscope.report.json import schema; print(schema().decode(), end='')"`.
"""

from __future__ import annotations

import msgspec

from stepscope.report.types import ComparisonReport, Report


def render(report: Report | ComparisonReport) -> str:
    """Return the report as JSON, keys sorted, two spaces a level; ends in a line break."""
    return _pretty(report)


def schema() -> bytes:
    """Return the JSON schema of both kinds of report (JSON Schema 2020-12)."""
    defs = msgspec.json.schema_components([Report, ComparisonReport], ref_template="#/$defs/{name}")
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "stepscope report",
        "anyOf": list(defs[0]),
        "$defs": defs[1],
    }
    return _pretty(document).encode()


def _pretty(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value, order="deterministic")).decode() + "\n"
