"""The published schemas of reports and gate reports, as the values of today make them."""

from __future__ import annotations

import msgspec

from stepscope.report.types import ComparisonReport, GateDocument, Report
from stepscope.safety.text import render_json


def make_gate_schema() -> bytes:
    """Return the JSON schema (2020-12)."""
    found = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return render_json(found | msgspec.json.schema(GateDocument)).encode()


def make_report_schema() -> bytes:
    """Return the JSON schema of both kinds of report (JSON Schema 2020-12)."""
    defs = msgspec.json.schema_components([Report, ComparisonReport], ref_template="#/$defs/{name}")
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "stepscope report",
        "anyOf": list(defs[0]),
        "$defs": defs[1],
    }
    return render_json(document).encode()
