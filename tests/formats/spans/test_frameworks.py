"""What frameworks write in ways of their own: calls as text, instructions on an agent, events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepscope.formats.spans.attributes import make_tool_call
from stepscope.formats.spans.span import RawSpan
from stepscope.model import Json
from stepscope.safety.limits import Limits
from tests.formats.spans.making import asks, chat, run_of, said, span, told, tool

WRITTEN = json.dumps(
    [{"function": {"name": "sky", "arguments": '{"of": "Oslo"}'}, "id": "c1", "type": "function"}]
)
OTHERS = json.dumps([{"function": {"name": "sky"}, "id": "c1"}])


@pytest.mark.parametrize(
    ("text", "calls"), [(WRITTEN, [("sky", {"of": "Oslo"}, "c1")]), (OTHERS, []), ("[{", [])]
)
def test_a_text_that_is_a_list_of_calls_is_those_calls(
    text: str, calls: list[tuple[str, Any, str]]
) -> None:
    given = [said("user", text="Oslo?")]
    run = run_of(span("m", chat(given, [{"role": "assistant", "content": text}])))
    made = run.steps[1].calls
    assert [(call.name, call.arguments, call.id) for call in made] == calls
    assert run.steps[1].text == ("" if calls else text)


def test_calls_filed_under_the_tool_are_the_agents_and_not_said_again() -> None:
    history = [
        said("user", text="Oslo?"),
        {"role": "tool", "content": WRITTEN},
        {"role": "tool", "content": "rain"},
    ]
    run = run_of(
        span("m1", chat(history[:1], [{"role": "assistant", "content": WRITTEN}])),
        span("t", tool("sky", {"of": "Oslo"}, "rain", **{"gen_ai.tool.call.id": "c1"}), at=(1, 2)),
        span("m2", chat(history, [said("assistant", text="Rain.")]), at=(2, 3)),
    )
    assert told(run) == [
        ("user", "message", "Oslo?"),
        ("agent", "call", "sky"),
        ("environment", "result", "unknown: rain"),
        ("agent", "message", "Rain."),
    ]


AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}
SYSTEM = {"gen_ai.input.messages": json.dumps([said("system", text="Be brief.")])}


def test_instructions_that_only_the_agent_tells_go_to_its_first_model() -> None:
    models = [
        span(f"m{at}", chat([said("user", text="Hi")], [said("assistant", text=f"{at}")]),
             parent="a", at=(at, at + 1))
        for at in (1, 2)
    ]  # fmt: skip
    run = run_of(span("a", {**AGENT, **SYSTEM}, at=(0, 4)), *models)
    assert told(run) == [
        ("system", "message", "Be brief."),
        ("user", "message", "Hi"),
        ("agent", "message", "1"),
        ("agent", "message", "2"),
    ]


def test_instructions_that_a_model_tells_itself_are_not_told_by_its_agent_too() -> None:
    own = chat(
        [said("system", text="Own."), said("user", text="Hi")], [said("assistant", text="1")]
    )
    run = run_of(span("a", {**AGENT, **SYSTEM}, at=(0, 4)), span("m", own, parent="a", at=(1, 2)))
    assert [step.text for step in run.steps] == ["Own.", "Hi", "1"]


def test_calls_that_only_the_frame_tells_replace_the_text_of_the_client_inside() -> None:
    frame = chat([said("user", text="Hi")], [said("assistant", asks("sky", "c1"))])
    inner = chat([said("user", text="Hi")], [said("assistant", text="None")])
    run = run_of(span("f", frame, at=(0, 3)), span("c", inner, parent="f", at=(1, 2)))
    assert told(run) == [("user", "message", "Hi"), ("agent", "call", "sky")]
    other = run_of(span("f", inner, at=(0, 3)), span("c", frame, parent="f", at=(1, 2)))
    assert told(other) == told(run)


EVENTS = [
    {"content": "Be brief.", "role": "system", "event.name": "gen_ai.system.message"},
    {"content": "Oslo?", "role": "user", "event.name": "gen_ai.user.message"},
    {
        "index": 0,
        "message": {"role": "assistant", "content": "Rain."},
        "event.name": "gen_ai.choice",
    },
]
PARAMETERS = {
    "function_tools": [{"name": "sky", "parameters_json_schema": {"type": "object"}}],
    "output_tools": [],
}


def test_pydantic_ai_tells_messages_as_events_and_tools_as_parameters() -> None:
    attributes: dict[str, Json] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "events": json.dumps(EVENTS),
        "model_request_parameters": json.dumps(PARAMETERS),
    }
    agent = {"agent_name": "qa", "all_messages_events": json.dumps(EVENTS[:2]), "final_result": "R"}
    run = run_of(span("a", agent, at=(0, 3)), span("m", attributes, parent="a", at=(1, 2)))
    assert [(step.actor, step.text, step.agent) for step in run.steps] == [
        ("system", "Be brief.", None),
        ("user", "Oslo?", None),
        ("agent", "Rain.", "qa"),
    ]
    (offered,) = run.tools or ()
    assert (offered.name, offered.schema) == ("sky", {"type": "object"})


@pytest.mark.parametrize(
    ("made", "arguments"),
    [
        ({"args": [], "kwargs": {"of": "Oslo"}}, {"of": "Oslo"}),
        ('{"args": [], "kwargs": {"of": "Oslo"}}', {"of": "Oslo"}),
        ({"args": ["Oslo"], "kwargs": {}}, {"args": ["Oslo"], "kwargs": {}}),
        ({"input_str": "{'of': 'Oslo'}", "inputs": {"of": "Oslo"}}, {"of": "Oslo"}),
        ("{'of': 'Oslo'}", {"of": "Oslo"}),
        (None, {}),
        ("", {}),
    ],
)
def test_arguments_come_out_of_what_wraps_them(made: Json, arguments: Json) -> None:
    assert make_tool_call("sky", made, None, Limits()).arguments == arguments


def bee(name: str, kind: str, at: int, **attributes: Json) -> RawSpan:
    about = {"openinference.span.kind": kind, **attributes}
    made = span(name, about, at=(at, 99), parent=None if name == "root" else "root")
    return RawSpan(
        **{
            **{field: getattr(made, field) for field in made.__struct_fields__},
            "scope": "openinference.instrumentation.beeai@0.1.33",
        }
    )


def test_an_event_of_beeai_is_not_a_step_of_its_own() -> None:
    asked = {"llm.input_messages.0.message.role": "user",
             "llm.input_messages.0.message.content": "Oslo?"}  # fmt: skip
    tool_ = {"tool.name": "Sky", "tool.parameters": '{"of": "Oslo"}'}
    run = run_of(
        bee("root", "AGENT", 0, source="ReActAgent"),
        bee("backend.openai.chat.start-1", "LLM", 1, **asked),
        bee("backend.openai.chat.finish-1", "LLM", 2),
        bee("agent.react.update-2", "AGENT", 3, **tool_),
        bee("tool.sky.start-1", "TOOL", 4, **{"tool.parameters": '{"of": "Oslo"}'}),
        bee("tool.sky.success-1", "TOOL", 5, **{"output.value": "rain"}),
        bee("agent.react.update-3", "AGENT", 6, **tool_, **{"output.value": "rain"}),
        bee("agent.react.success-1", "AGENT", 7, **{"output.value": '{"role": "assistant", '
            '"content": "Rain."}', "input.value": "Oslo?"}),
    )  # fmt: skip
    assert told(run) == [
        ("user", "message", "Oslo?"),
        ("agent", "message", ""),
        ("agent", "call", "Sky"),
        ("environment", "result", "unknown: rain"),
        ("agent", "message", "Rain."),
    ]
    assert (run.agent, len(run.spans)) == ("ReActAgent", 8)


def test_an_answer_told_again_with_other_blanks_is_the_same_answer() -> None:
    history = [
        said("user", text="Oslo?"),
        said("assistant", asks("sky", None)),
        {"role": "tool", "content": '{"sky":"rain","of":"Oslo"}'},
    ]
    run = run_of(
        span("m1", chat(history[:1], history[1:2])),
        span("t", tool("sky", {}, '{"of": "Oslo", "sky": "rain"}'), at=(1, 2)),
        span("m2", chat(history, [said("assistant", text="Rain.")]), at=(2, 3)),
    )
    assert [step.kind for step in run.steps] == ["message", "call", "result", "message"]
