"""Spans in the words of MLflow: `mlflow.spanType`, `mlflow.spanInputs`, every value JSON in text.

Source: mlflow-skinny 3.17.2, `tracing/constant.py`, `entities/span.py`.
"""

from __future__ import annotations

from stepscope.formats.fields import tool_defs
from stepscope.formats.spans import attributes
from stepscope.formats.spans.dialects.openinference import OPERATIONS, read_input_output
from stepscope.formats.spans.span import RawSpan, SpanContent
from stepscope.safety.limits import Limits


def read_mlflow(span: RawSpan, limits: Limits) -> SpanContent | None:
    """Return what a span says in MLflow's words, None where it uses none of them."""
    if not any(key.startswith("mlflow.") for key in span.attributes):
        return None
    about = {
        key: attributes.decode_value(found, limits)
        for key, found in span.attributes.items()
        if key.startswith("mlflow.")
    }
    sort = OPERATIONS.get((attributes.find_text(about, "mlflow.spanType") or "").lower())
    found = read_input_output(about, "mlflow.spanInputs", "mlflow.spanOutputs", sort, limits)
    cost, tools = about.get("mlflow.llm.cost"), about.get("mlflow.chat.tools")
    return SpanContent(
        operation=sort,
        input_value=found.input_value,
        output_value=found.output_value,
        agent=span.name if sort == "agent" else None,
        model=attributes.find_text(about, "mlflow.llm.model"),
        usage=attributes.read_usage_details(about.get("mlflow.chat.tokenUsage"), limits),
        cost_usd=attributes.find_number(cost, "total_cost", "total")
        if isinstance(cost, dict)
        else None,
        # MLflow 2 numbers spans of one name, so the function's is the tool's.
        call=attributes.make_tool_call(
            attributes.find_text(about, "mlflow.spanFunctionName") or span.name,
            about.get("mlflow.spanInputs"),
            found.response_id,
            limits,
        )
        if sort == "tool"
        else None,
        parts=found.parts,
        status=found.status,
        tools=tool_defs(tools) or () if isinstance(tools, list) else (),
        session=attributes.find_text(about, "mlflow.trace.session"),
    )
