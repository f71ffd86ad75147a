"""What runs of LangSmith say: agents, tools' answers, tokens, costs, feedback; nothing lost."""

from __future__ import annotations

import pytest

from stepscope.formats.langsmith_files import FORMAT
from stepscope.formats.spans.lists import FORMAT as SPANS
from stepscope.model import Json, TraceLabel, figures
from tests.formats.langsmith_runs import ROUNDS, Record, a_run, recorded, results, runs_of
from tests.formats.reading import run_of


def test_the_newer_api_says_the_same_in_capitals_and_with_ancestors() -> None:
    newer: list[Record] = []
    for entry in ROUNDS:
        made = {**entry, "run_type": entry["run_type"].upper(), "status": "SUCCESS"}
        parent = made.pop("parent_run_id", None)
        newer.append({**made, "parent_run_ids": [parent] if parent else [], "project_id": "p"})
    newer[0] |= {"thread_id": "th", "metadata": {"who": "me"}}
    newer[1] |= {
        "prompt_tokens": 40,
        "completion_tokens": 6,
        "prompt_token_details": {"raw": {"cache_read": 30, "cache_write": 4}},
        "completion_token_details": {"raw": {"reasoning": 2}},
        "total_cost": 0.25,
        "first_token_time": "2026-11-22T04:00:01.250000Z",
    }
    run = run_of(FORMAT, {"items": newer})
    assert [(step.actor, step.kind) for step in run.steps] == [
        (step.actor, step.kind) for step in run_of(FORMAT, ROUNDS).steps
    ]
    step = run.steps[1]
    assert step.usage is not None
    assert (step.usage.input_total, step.usage.cache_read, step.usage.cache_write) == (40, 30, 4)
    assert (step.usage.output_total, step.usage.reasoning) == (6, 2)
    assert (step.cost_usd, step.first_token_seconds) == (0.25, 0.25)
    assert run.tags == {"session": "th"}
    assert run.spans[0].attributes["langsmith.metadata.who"] == "me"


def test_sums_that_langsmith_adds_up_for_chains_are_not_counted_again() -> None:
    counted = [{**entry, "prompt_tokens": 10, "completion_tokens": 2} for entry in ROUNDS]
    counted[0] |= {"prompt_tokens": 20, "completion_tokens": 4, "total_cost": "0.0300"}
    counted[1]["total_cost"], counted[3]["total_cost"] = "0.01", "0.02"
    found = figures(run_of(FORMAT, counted))
    assert found.tokens == 24
    assert found.cost_usd == pytest.approx(0.03)
    del counted[1]["total_cost"], counted[3]["total_cost"]
    assert figures(run_of(FORMAT, counted)).cost_usd == pytest.approx(0.03)


def test_a_cost_that_the_client_told_with_its_tokens_is_reported() -> None:
    told = {"input_tokens": 3, "output_tokens": 1, "total_cost": 0.5}
    model = {**ROUNDS[1], "outputs": {**ROUNDS[1]["outputs"], "usage_metadata": told}}
    assert figures(run_of(FORMAT, [ROUNDS[0], model])).cost_usd == pytest.approx(0.5)
    model["total_cost"] = 0.25
    assert figures(run_of(FORMAT, [ROUNDS[0], model])).cost_usd == pytest.approx(0.25)


@pytest.mark.parametrize("told", ["n/a", "NaN", "-1", "Infinity", True, [1], None])
def test_a_cost_that_is_no_amount_is_no_cost(told: Json) -> None:
    model = {**ROUNDS[1], "total_cost": told}
    assert figures(run_of(FORMAT, [ROUNDS[0], model])).cost_usd is None


def test_feedback_is_labels_with_their_source_on_the_step_or_on_the_run() -> None:
    stats = {
        "n": 2,
        "avg": 0.5,
        "comments": ["wrong", "right"],
        "sources": [{"type": "api"}, "app"],
    }
    plain = {"n": 1, "avg": 1.0, "sources": []}
    listed = [{**ROUNDS[0], "feedback_stats": {"helpful": plain}}, *ROUNDS[1:3]]
    listed.append({**ROUNDS[3], "feedback_stats": {"correct": stats, "odd": 3}})
    assert run_of(FORMAT, listed).labels == (
        TraceLabel(kind="note", category="helpful", extra={**plain, "of": "trace"}),
        TraceLabel(
            kind="note",
            step=3,
            category="correct",
            reason="wrong; right",
            annotator="api, app",
            extra=stats,
        ),
        TraceLabel(kind="note", step=3, category="odd", extra={"value": 3}),
    )


def test_a_run_of_an_experiment_has_its_example_for_its_task() -> None:
    listed = [{**ROUNDS[0], "reference_example_id": "ex-7"}, *ROUNDS[1:]]
    assert run_of(FORMAT, listed).task == "ex-7"


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ({"at": 1}, {"at": 1}),
        ({"input": '{"at": 1}'}, {"at": 1}),
        ({"input": "{'at': 1, 'b': None, 'c': True}"}, {"at": 1, "b": None, "c": True}),
        ({"input": "__import__('os').getcwd()"}, {"input": "__import__('os').getcwd()"}),
        ({"input": "{'at': {1, 2}}"}, {"at": [1, 2]}),
        ({"input": "{1 + 1: 2"}, {"input": "{1 + 1: 2"}),
        ({"input": "{" * 5000}, {"input": "{" * 5000}),
        ({"input": "Paris"}, {"input": "Paris"}),
        ({"input": {"at": 1}, "more": 2}, {"input": {"at": 1}, "more": 2}),
    ],
)
def test_arguments_printed_by_older_tracers_are_read_and_other_text_is_left(
    given: Record, arguments: Record
) -> None:
    tool = a_run("look", "t", 3, run_type="tool", inputs=given, outputs={"output": "x"})
    run = run_of(FORMAT, [ROUNDS[0], tool])
    assert [call.arguments for step in run.steps for call in step.calls] == [arguments]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ("ValueError('x')", "error"),
        ("GraphInterrupt((Interrupt(value='sure?'),))", "unknown"),
        ("ParentCommand(Command(goto='hotel'))", "unknown"),
        ("not a GraphInterrupt()", "error"),
    ],
)
def test_a_pause_for_a_person_and_a_handoff_are_no_errors(error: str, status: str) -> None:
    tool = {**ROUNDS[2], "outputs": None, "error": error}
    run = run_of(FORMAT, [*ROUNDS[:2], tool])
    assert [found for _, _, found, _ in results(run)] == [status]
    assert run.extra is not None
    assert run.extra["span_facts"][2]["status_message"] == error


ANSWER = {"type": "tool", "content": "x", "tool_call_id": "c1"}
BUILT = {
    "lc": 1,
    "type": "constructor",
    "id": ["langchain", "schema", "messages", "ToolMessage"],
    "kwargs": {"content": "x", "tool_call_id": "c1"},
}


@pytest.mark.parametrize(
    ("output", "said", "status", "source"),
    [
        ({**ANSWER, "status": "error"}, "x", "error", "explicit"),
        ({**ANSWER, "status": "success", "content": "Error: x"}, "Error: x", "ok", "explicit"),
        (BUILT, "x", "ok", "protocol"),
        ([{**ANSWER, "content": "other", "tool_call_id": "c2"}, ANSWER], "x", "ok", "protocol"),
        ({"update": {"messages": [ANSWER]}, "goto": []}, "x", "ok", "protocol"),
        ("Error: x", "Error: x", "error", "heuristic"),
        ("", "a door", "ok", "protocol"),
        ({"rows": 3}, '{"rows":3}', "ok", "protocol"),
    ],
)
def test_what_a_tool_gave_back_is_found_in_messages_and_commands(
    output: Json, said: str, status: str, source: str
) -> None:
    tool = {**ROUNDS[2], "outputs": {"output": output}, "extra": {"tool_call_id": "c1"}}
    run = run_of(FORMAT, [*ROUNDS[:2], tool, ROUNDS[3]])
    assert results(run) == [("c1", said, status, source)]


NODE = "langgraph_node"
SPACE = "langgraph_checkpoint_ns"


@pytest.mark.parametrize(
    ("metadata", "agent"),
    [
        ({}, None),
        ({NODE: "writer"}, "writer"),
        ({NODE: "agent", SPACE: "agent:1"}, "agent"),
        ({NODE: "agent", SPACE: "hotel:1|agent:2"}, "hotel"),
        ({NODE: "writer", SPACE: "team:1|writer:2"}, "writer"),
        ({NODE: "model", SPACE: "hotel:1|tools:2|model:3"}, "hotel"),
        ({NODE: "tools", SPACE: "tools:1"}, None),
        ({NODE: "model", "lc_agent_name": "planner"}, "planner"),
    ],
)
def test_the_agent_is_who_is_at_work_not_what_is_done(metadata: Record, agent: str | None) -> None:
    run = run_of(FORMAT, [ROUNDS[0], {**ROUNDS[1], "extra": {"metadata": metadata}}])
    assert [step.agent for step in run.steps if step.actor == "agent"] == [agent]


def test_prompts_completions_and_bare_generations_are_a_question_and_an_answer() -> None:
    generation = {
        "text": "Fine.",
        "generation_info": {"finish_reason": "stop"},
        "type": "Generation",
    }
    model = a_run(
        "m",
        run_type="llm",
        inputs={"prompts": ["How are you?"]},
        outputs={
            "generations": [[generation]],
            "llm_output": {"token_usage": {"prompt_tokens": 4}},
        },
    )
    run = run_of(FORMAT, [model])
    assert [(step.actor, step.text) for step in run.steps] == [
        ("user", "How are you?"), ("agent", "Fine."),
    ]  # fmt: skip
    assert (run.steps[1].finish_reason, figures(run).tokens) == ("stop", None)
    assert run.usage is not None
    assert run.usage.input_total == 4


def test_a_trace_without_any_model_is_read_by_its_outermost_chain() -> None:
    chain = a_run("t", inputs={"question": "go"}, outputs={"output": "gone"})
    run = run_of(FORMAT, [chain, a_run("p", "t", 1, run_type="parser", outputs={"output": "x"})])
    assert [(step.actor, step.text) for step in run.steps] == [("user", "go"), ("agent", "gone")]


def test_nothing_that_a_run_says_is_lost() -> None:
    odd = {
        **ROUNDS[1],
        "events": [{"name": "new_token", "time": "soon", "kwargs": 3}, "x"],
        "tags": ["a"],
        "attachments": {"f": ["text/plain", "x"]},
        "extra": {"metadata": ["x"], "runtime": {"sdk": "py"}},
        "start_time": "soon",
        "child_runs": "none",
        "session_id": "project",
    }
    (run,) = runs_of([ROUNDS[0], odd])
    node = next(span for span in run.spans if span.id == "m1")
    for key in ("tags", "attachments", "session_id", "start_time", "inputs", "outputs"):
        assert node.attributes[f"langsmith.{key}"] == odd[key]
    assert node.attributes["langsmith.metadata"] == ["x"]
    assert node.attributes["langsmith.extra"] == {"runtime": {"sdk": "py"}}
    assert node.attributes["langsmith.child_runs"] == ["none"]
    assert [event["extra"] for event in node.events] == [
        {"time": "soon", "kwargs": 3}, {"value": "x"},
    ]  # fmt: skip
    assert run.tags == {}


def test_spans_that_langsmith_sends_as_opentelemetry_say_the_same() -> None:
    run = run_of(SPANS, recorded("otel.jsonl"))
    assert [(step.actor, step.kind, step.agent) for step in run.steps] == [
        ("system", "message", None),
        ("user", "message", None),
        ("agent", "call", "planner"),
        ("environment", "result", None),
        ("agent", "message", "planner"),
    ]
    assert results(run) == [("c1", "no rooms left", "error", "explicit")]
    assert (run.workflow, run.tags) == ("scripted", {"session": "t-1"})
    assert figures(run).tokens == 172
    assert [tool.name for tool in run.tools or ()] == ["book"]
