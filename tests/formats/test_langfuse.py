"""Langfuse's exports: every shape they come in, tokens, costs, errors, scores, what is withheld."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepscope.formats.langfuse_files import FORMAT, read_langfuse_runs
from stepscope.formats.opening import detect
from stepscope.formats.otlp import request
from stepscope.model import Json, Outcome, Quarantined, Source, Trajectory
from tests.formats.reading import codes, lines, read, refused, run_of, written

SENT = (Path(__file__).parent / "data" / "langfuse_sdk.otlp.json").read_bytes()


def observation(own: str, kind: str, second: int, **more: Any) -> dict[str, Any]:
    return {
        "id": own,
        "traceId": "t1",
        "parentObservationId": None if own == "root" else "root",
        "type": kind,
        "name": own,
        "startTime": f"2026-01-01T00:00:{second:02}.000Z",
        "endTime": f"2026-01-01T00:00:{second + 1:02}.000Z",
        "level": "DEFAULT",
        **more,
    }


ASKED = [{"role": "user", "content": "Oslo?"}]
CALLS = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "sky", "arguments": '{"of": "Oslo"}'}}
    ],
}
OBSERVATIONS: list[Json] = [
    observation("root", "AGENT", 0, endTime="2026-01-01T00:00:09.000Z"),
    observation(
        "chat",
        "GENERATION",
        1,
        input=ASKED,
        output=CALLS,
        model="small-1",
        completionStartTime="2026-01-01T00:00:01.500Z",
        usageDetails={"input": 20, "input_cached_tokens": 100, "output": 30, "total": 150},
        costDetails={"input": 0.001, "output": 0.002, "total": 0.003},
    ),
    observation(
        "sky",
        "TOOL",
        3,
        input={"of": "Oslo"},
        level="ERROR",
        statusMessage="no such city",
    ),
    observation("end", "GENERATION", 5, input=ASKED, output="It failed.", totalCost=0),
    observation("shown", "EVENT", 7, input={"screen": 1}),
]
TRACE = {
    "id": "t1",
    "name": "trips",
    "timestamp": "2026-01-01T00:00:00.000Z",
    "sessionId": "s1",
    "userId": "ana",
    "tags": ["a", "b"],
    "projectId": "p",
    "input": "Oslo?",
}


def score(name: str, value: Any, source: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "traceId": "t1", "name": name, "value": value, "source": source, **more}


SCORES: list[Json] = [
    score("success", 0, "ANNOTATION", dataType="BOOLEAN", comment="no answer"),
    score("useful", 0.25, "API", observationId="sky"),
    score("tone", 1, "EVAL", stringValue="kind", dataType="CATEGORICAL"),
]
WHOLE: Json = {**TRACE, "observations": OBSERVATIONS, "scores": SCORES}
STEPS = [
    ("user", "message", "Oslo?"),
    ("agent", "call", ""),
    ("environment", "result", ""),
    ("agent", "message", "It failed."),
]


def snake(record: Json) -> Json:
    names = {
        "traceId": "trace_id",
        "parentObservationId": "parent_observation_id",
        "startTime": "start_time",
        "endTime": "end_time",
        "usageDetails": "usage_details",
        "costDetails": "cost_details",
        "statusMessage": "status_message",
        "completionStartTime": "completion_start_time",
    }
    return {names.get(key, key): held for key, held in record.items()}


@pytest.mark.parametrize(
    "file",
    [
        WHOLE,
        {"trace": TRACE, "observations": OBSERVATIONS},
        {"trace": {**TRACE, "observations": [{**OBSERVATIONS[1], "input": None}]},
         "observations": OBSERVATIONS},
        {"data": OBSERVATIONS, "meta": {"page": 1}},
        {"data": [WHOLE], "meta": {"page": 1}},
        OBSERVATIONS,
        OBSERVATIONS[::-1],
        lines(*OBSERVATIONS),
        lines(*map(snake, OBSERVATIONS)),
    ],
)  # fmt: skip
def test_every_shape_of_an_export_is_the_same_run(file: Json) -> None:
    assert detect(written(file), "f").name == "langfuse"
    run = run_of(FORMAT, file)
    assert [(step.actor, step.kind, step.text) for step in run.steps] == STEPS
    assert run.id == run_of(FORMAT, WHOLE).id
    assert (len(run.spans), run.source.run_id) == (5, "t1")


def test_tokens_include_the_cache_and_costs_stay_reported() -> None:
    step = run_of(FORMAT, WHOLE).steps[1]
    assert step.usage is not None
    assert (step.usage.input_total, step.usage.cache_read, step.usage.output_total) == (
        120,
        100,
        30,
    )
    assert (step.cost_usd, step.first_token_seconds, step.model) == (0.003, 0.5, "small-1")
    last = run_of(FORMAT, WHOLE).steps[3]
    assert (last.usage, last.cost_usd) == (None, None)


@pytest.mark.parametrize(
    ("told", "counts"),
    [
        ({"input": 120, "input_cached_tokens": 100, "output": 30, "total": 150}, (120, 30)),
        ({"input": 20, "input_cached_tokens": 100, "output": 30, "total": 150}, (120, 30)),
        ({"input": 20, "cache_read_input_tokens": 100, "output": 30}, (120, 30)),
        ({"input": 9, "output": 1, "output_reasoning_tokens": 4, "total": 14}, (9, 5)),
        ({"input": 9, "output": 5, "output_reasoning_tokens": 4, "total": 14}, (9, 5)),
        ({"input": 9}, (9, None)),
    ],
)
def test_the_total_tells_whether_input_has_its_cache(
    told: dict[str, int], counts: tuple[int, int | None]
) -> None:
    run = run_of(FORMAT, [observation("g", "GENERATION", 0, output="x", usageDetails=told)])
    assert run.usage is not None
    assert (run.usage.input_total, run.usage.output_total) == counts


def test_counts_of_older_exports_are_read_and_zeros_for_nothing_are_none() -> None:
    old = {"usage": {"input": 7, "output": 2, "total": 9, "unit": "TOKENS"}, "usageDetails": {}}
    none = {"promptTokens": 0, "completionTokens": 0, "totalTokens": 0, "totalCost": 0}
    first = run_of(FORMAT, [observation("g", "GENERATION", 0, output="x", **old)])
    assert first.usage is not None
    assert (first.usage.input_total, first.usage.output_total) == (7, 2)
    second = run_of(FORMAT, [observation("g", "GENERATION", 0, output="x", **none)])
    assert (second.usage, second.steps[0].cost_usd) == (None, None)


def test_level_error_is_an_explicit_error_with_its_message() -> None:
    (result,) = run_of(FORMAT, WHOLE).steps[2].results
    assert (result.call_id, result.status, result.source, result.error) == (
        "c1", "error", "explicit", "no such city",
    )  # fmt: skip


def test_scores_are_labels_and_a_persons_word_is_the_outcome() -> None:
    run = run_of(FORMAT, WHOLE)
    assert [(label.category, label.step, label.annotator) for label in run.labels] == [
        ("success", None, "HUMAN"),
        ("useful", 2, "API"),
        ("tone", None, "LLM"),
    ]
    extras = [label.extra or {} for label in run.labels]
    assert [extra.get("score", extra.get("label")) for extra in extras] == [False, 0.25, "kind"]
    assert run.outcome == Outcome("fail", "label", None, "no answer")


@pytest.mark.parametrize(
    ("scores", "outcome"),
    [
        ([score("success", 1, "EVAL", dataType="BOOLEAN")], ("unknown", "none", None)),
        ([score("reward", 1, "API")], ("pass", "reward", 1.0)),
        ([score("reward", 0.5, "API")], ("fail", "reward", 0.5)),
        ([score("passed", 1, "API", dataType="BOOLEAN")], ("pass", "check", None)),
        ([score("helpful", 1, "ANNOTATION", dataType="BOOLEAN")], ("unknown", "none", None)),
        ([score("success", 1, "API", observationId="sky")], ("unknown", "none", None)),
        ([score("success", 1, "API"), score("passed", 0, "API")], ("unknown", "none", None)),
        ([score("success", 1, "API"), score("correct", 0, "ANNOTATION")], ("fail", "label", None)),
    ],
)
def test_only_what_a_person_or_code_says_of_the_whole_run_is_an_outcome(
    scores: list[Json], outcome: tuple[str, str, float | None]
) -> None:
    found = run_of(FORMAT, {**TRACE, "observations": OBSERVATIONS, "scores": scores}).outcome
    assert (found.status, found.source, found.reward) == outcome


def test_session_user_tags_and_name_of_the_trace_are_the_runs() -> None:
    run = run_of(FORMAT, WHOLE)
    assert (run.workflow, run.agent) == ("trips", "root")
    assert run.tags == {"session": "s1", "user": "ana", "tags": "a,b"}
    assert run.extra is not None
    assert run.extra["trace"]["projectId"] == "p"


def test_a_score_whose_trace_is_not_there_is_set_aside_and_one_of_a_session_is_not() -> None:
    of_session = {"id": "z", "sessionId": "s1", "name": "mood", "value": 1, "source": "API"}
    found = read(FORMAT, [WHOLE, score("late", 1, "API") | {"traceId": "t9"}, of_session])
    run, aside = found
    assert isinstance(run, Trajectory)
    assert [label.category for label in run.labels][-1] == "mood"
    assert isinstance(aside, Quarantined)
    assert aside.reason == "score 'late' is of a trace that is not in the file"


def test_a_trace_without_its_observations_is_read_by_itself_and_says_so() -> None:
    run = run_of(FORMAT, {**TRACE, "output": "Rain.", "observations": ["o1", "o2"]})
    assert [(step.actor, step.text) for step in run.steps] == [
        ("user", "Oslo?"),
        ("agent", "Rain."),
    ]
    assert ("observations_absent", None) in codes(run)
    assert "(2 are named)" in run.warnings[-1].reason


def test_an_observation_that_contradicts_itself_is_told_and_the_later_form_holds() -> None:
    twice = [*OBSERVATIONS, {**OBSERVATIONS[3], "output": "It rains."}]
    run = run_of(FORMAT, twice)
    assert run.steps[3].text == "It rains."
    assert codes(run) == [("duplicate_span_id", None)]
    told = (run.extra or {})["span_facts"][3]
    assert told["earlier"] == {"output": "It failed."}


def test_what_is_none_of_them_is_set_aside_alone() -> None:
    found = read(FORMAT, lines(*OBSERVATIONS, {"hello": 1}))
    assert [type(each) for each in found] == [Quarantined, Trajectory]
    assert "a record needs what makes it a trace" in refused(FORMAT, {"hello": 1}).reason


def test_decoded_pages_of_the_api_are_runs_too() -> None:
    pages = [{"data": [TRACE], "meta": {}}, {"data": OBSERVATIONS, "meta": {}}, {"data": SCORES}]
    (run,) = read_langfuse_runs(pages, source=Source(format="langfuse", uri="langfuse:p"))
    assert isinstance(run, Trajectory)
    assert (len(run.steps), len(run.labels), run.source.uri) == (4, 3, "langfuse:p")


def test_what_the_sdk_sends_over_opentelemetry_is_the_same_run() -> None:
    run = run_of(request.FORMAT, SENT)
    assert [(step.actor, step.kind) for step in run.steps] == [
        ("system", "message"),
        ("user", "message"),
        ("agent", "call"),
        ("environment", "result"),
        ("environment", "result"),
        ("environment", "retrieval"),
        ("agent", "message"),
    ]
    assert [call.arguments for call in run.steps[2].calls] == [
        {"city": "Oslo", "days": 2},
        {"city": "Atlantis"},
    ]
    assert [step.results[0].status for step in run.steps[3:5]] == ["unknown", "error"]
    assert run.usage is not None
    assert (run.usage.input_total, run.usage.cache_read) == (320, 100)
    assert (run.workflow, run.tags["session"], run.agent) == ("trip planning", "s-1", "planner")


def test_a_plain_text_given_as_json_and_arguments_printed_by_python_are_read() -> None:
    spans = [
        observation("f", "TOOL", 0, input="{'q': 'x'}", output=json.dumps("warm")),
        observation("g", "TOOL", 2, input=json.dumps({"args": [], "kwargs": {"q": 1}}), output="y"),
    ]
    run = run_of(FORMAT, spans)
    calls = [call for step in run.steps for call in step.calls]
    assert [call.arguments for call in calls] == [{"q": "x"}, {"q": 1}]
    assert [r.text for step in run.steps for r in step.results] == ["warm", "y"]


def test_an_empty_object_that_one_form_says_is_not_lost_to_the_nothing_of_another() -> None:
    full = {**OBSERVATIONS[2], "input": "{}", "parentObservationId": None}
    inside = {**TRACE, "observations": [{**full, "input": None}]}
    run = run_of(FORMAT, {"trace": inside, "observations": [full]})
    assert (run.spans[0].attributes or {})["langfuse.observation.input"] == "{}"
    assert codes(run) == []
