"""Spans in the words of MLflow: `mlflow.spanType`, `mlflow.spanInputs`, every value JSON in text.

Source: mlflow-skinny 3.17.2, `tracing/constant.py`, `entities/span.py`.
"""

from __future__ import annotations

from stepscope.formats.envelope import tool_defs
from stepscope.formats.spans.attributes import number, parsed, text
from stepscope.formats.spans.langfuse import details
from stepscope.formats.spans.said import Said
from stepscope.formats.spans.span import Span
from stepscope.formats.spans.tool_calls import tool_call
from stepscope.formats.spans.valued import SORTS, valued
from stepscope.safety.limits import Limits


def said(span: Span, limits: Limits) -> Said | None:
    """Return what a span says in MLflow's words, None where it uses none of them.

    Every value is JSON in text, texts too.
    """
    if not any(key.startswith("mlflow.") for key in span.attributes):
        return None
    about = {
        key: parsed(found, limits)
        for key, found in span.attributes.items()
        if key.startswith("mlflow.")
    }
    sort = SORTS.get((text(about, "mlflow.spanType") or "").lower())
    found = valued(about, "mlflow.spanInputs", "mlflow.spanOutputs", sort, limits)
    cost, tools = about.get("mlflow.llm.cost"), about.get("mlflow.chat.tools")
    return Said(
        sort=sort,
        given=found.given,
        made=found.made,
        agent=span.name if sort == "agent" else None,
        model=text(about, "mlflow.llm.model"),
        usage=details(about.get("mlflow.chat.tokenUsage"), limits),
        cost_usd=number(cost, "total_cost", "total") if isinstance(cost, dict) else None,
        # MLflow 2 numbers spans of one name, so the function's is the tool's.
        call=tool_call(
            text(about, "mlflow.spanFunctionName") or span.name,
            about.get("mlflow.spanInputs"),
            found.response_id,
            limits,
        )
        if sort == "tool"
        else None,
        parts=found.parts,
        belief=found.belief,
        tools=tool_defs(tools) or () if isinstance(tools, list) else (),
        session=text(about, "mlflow.trace.session"),
    )
