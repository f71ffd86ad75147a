"""What would record a missing input, in the words of each format; nothing made up for others."""

from __future__ import annotations

import msgspec
import pytest

from stepscope import registry
from stepscope.cli.checks import _DIALECTS, _FORMATS, how_to_record
from stepscope.model import Source, Span, Trajectory
from stepscope.model.records import INPUTS, Input
from tests.factories import agent, run


def made(format: str, *attributes: str) -> Trajectory:
    spans = tuple(Span(id=str(n), attributes={key: 1}) for n, key in enumerate(attributes))
    return msgspec.structs.replace(run(agent("Hello")), source=Source(format=format), spans=spans)


@pytest.mark.parametrize(
    ("format", "attribute", "name", "said"),
    [
        ("otlp", "gen_ai.operation.name", "arguments", "gen_ai.tool.call.arguments of execute_to"),
        ("otlp", "gen_ai.operation.name", "tools", "gen_ai.tool.definitions"),
        ("otlp", "gen_ai.operation.name", "task", "GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY"),
        ("spans", "openinference.span.kind", "results", "OPENINFERENCE_HIDE_OUTPUTS unset"),
        ("spans", "openinference.span.kind", "tools", "OPENINFERENCE_HIDE_LLM_TOOLS"),
        ("langfuse", "langfuse.observation.type", "results", "the client's mask function"),
        ("langsmith", "langsmith.span.kind", "arguments", "LANGSMITH_HIDE_INPUTS unset"),
        ("mlflow", "mlflow.spanType", "tools", "mlflow.chat.tools"),
        ("otlp", "ai.operationId", "results", "recordOutputs not false"),
        ("openai_agents", "openai_agents.type", "results", "trace_include_sensitive_data=True"),
        ("atif", "", "tools", "recorded by agent.tool_definitions"),
        ("inspect_ai", "", "tools", "`tools` of model events"),
    ],
)
def test_the_attribute_or_setting_is_named_in_the_words_of_the_format(
    format: str, attribute: str, name: Input, said: str
) -> None:
    assert said in how_to_record(made(format, *filter(None, [attribute])), name)


def test_a_format_without_a_place_says_so_and_names_the_settings() -> None:
    assert how_to_record(made("claude_code"), "tools") == (
        'no place for it is known in claude_code; supply it: [workflow.NAME] tools = "FILE"'
    )
    assert how_to_record(made("claude_code"), "results") == (
        "claude_code has a place for it, which the recorder left empty or hid"
    )


def test_one_line_an_input_and_formats_that_exist() -> None:
    assert {len(told) for told in (*_DIALECTS.values(), *_FORMATS.values())} == {len(INPUTS)}
    assert set(_FORMATS) <= set(registry.names("formats"))
