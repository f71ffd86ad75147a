"""MLflow's traces, recorded with MLflow 3.17 and 2.22: one run in whatever form they come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepscope.formats.mlflow_files import FORMAT, read_mlflow_runs, to_otel_id
from stepscope.formats.opening import detect
from stepscope.model import Json, Outcome, Quarantined, Source, Trajectory
from tests.formats.reading import codes, lines, read, refused, run_of

DATA = Path(__file__).parent / "data"
TRACE: Json = json.loads((DATA / "mlflow_trace.json").read_bytes())
PAGE: Json = json.loads((DATA / "mlflow_batch.json").read_bytes())
OF = "f89b35e55e21ffe84584349d4e7738df"


def bytes_of(name: str) -> bytes:
    return (DATA / name).read_bytes()


def runs(file: Json) -> list[Trajectory]:
    found = read(FORMAT, file)
    assert not any(isinstance(each, Quarantined) for each in found), found
    return [each for each in found if isinstance(each, Trajectory)]


@pytest.mark.parametrize(
    "name", ["mlflow_trace.json", "mlflow_traces.jsonl", "mlflow_search.json", "mlflow_batch.json"]
)
def test_every_form_of_a_trace_is_the_same_run(name: str) -> None:
    assert detect(bytes_of(name), name).name == "mlflow"
    run = next(run for run in runs(bytes_of(name)) if run.source.run_id == OF)
    assert [(step.actor, step.kind, step.agent) for step in run.steps] == [
        ("system", "message", None),
        ("user", "message", None),
        ("agent", "call", "planner"),
        ("environment", "result", None),
        ("environment", "result", None),
        ("environment", "retrieval", None),
        ("agent", "message", "planner"),
    ]
    assert run.id == run_of(FORMAT, TRACE).id
    assert run.usage is not None
    assert (run.usage.input_total, run.usage.cache_read, run.usage.output_total) == (320, 100, 50)
    assert [step.cost_usd for step in run.steps if step.cost_usd is not None] == [0.003, 0.003]
    assert (run.workflow, run.tags) == (
        "planner",
        {"team": "trips", "session": "s-1", "user": "ana"},
    )


def test_ids_are_those_of_opentelemetry() -> None:
    run = run_of(FORMAT, TRACE)
    assert {span.parent for span in run.spans} == {None, "124233e9d5c49f69"}
    assert run.spans[0].id == "124233e9d5c49f69"


@pytest.mark.parametrize(
    ("written", "id_"),
    [
        ("EkIz6dXEn2k=", "124233e9d5c49f69"),
        ("0x124233e9d5c49f69", "124233e9d5c49f69"),
        ("124233e9d5c49f69", "124233e9d5c49f69"),
        (f"tr-{OF}", OF),
        (f"trace:/catalog.schema/tr-{OF}", OF),
        ("+Js15V4h/+hFhDSdTnc43w==", OF),
        ("span-7", "span-7"),
        ("", None),
        (7, None),
    ],
)
def test_an_id_is_read_in_every_form(written: Json, id_: str | None) -> None:
    assert to_otel_id(written) == id_


def test_a_tool_that_raised_is_an_explicit_error_and_what_the_model_was_told_its_text() -> None:
    good, bad = [run_of(FORMAT, TRACE).steps[at].results[0] for at in (3, 4)]
    assert (good.status, good.source) == ("ok", "protocol")
    assert (bad.call_id, bad.status, bad.source, bad.error) == (
        "c2", "error", "explicit", "ValueError: no such city",
    )  # fmt: skip
    assert bad.text == "Error: no such city"


def test_assessments_are_labels_with_their_source_and_a_persons_feedback_the_outcome() -> None:
    run = run_of(FORMAT, TRACE)
    assert [(label.category, label.step, label.annotator) for label in run.labels] == [
        ("success", None, "HUMAN"),
        ("relevance", None, "LLM"),
        ("expected_facts", None, "HUMAN"),
        ("useful", 4, "CODE"),
    ]
    extras = [label.extra or {} for label in run.labels]
    assert [extra["score"] for extra in (extras[0], extras[3])] == [False, 0.25]
    assert (extras[1]["label"], extras[2]["expectation"]) == ("yes", ["rain in Oslo"])
    assert run.outcome == Outcome("fail", "label", None, "Atlantis is a legend")


def feedback(**more: Any) -> Json:
    source = {"source_type": "CODE", "source_id": "c"}
    return {"assessment_name": "passed", "source": source, "feedback": {"value": True}, **more}


@pytest.mark.parametrize(
    ("assessment", "status"),
    [
        (feedback(), "pass"),
        (feedback(valid=False), "unknown"),
        (feedback(span_id="124233e9d5c49f69"), "unknown"),
        (feedback(source={"source_type": "LLM_JUDGE"}), "unknown"),
        (feedback(feedback=None, expectation={"value": True}), "unknown"),
        (feedback(feedback={"value": "no"}), "fail"),
    ],
)
def test_only_valid_feedback_of_the_whole_trace_decides(assessment: Json, status: str) -> None:
    file = {**TRACE, "info": {**TRACE["info"], "assessments": [assessment]}}
    run = run_of(FORMAT, file)
    assert (run.outcome.status, len(run.labels)) == (status, 1)


def test_a_trace_without_spans_is_read_by_itself_and_says_so() -> None:
    broken, run = runs(bytes_of("mlflow_found.json"))
    assert [(step.actor, step.text) for step in run.steps] == [
        ("user", '{"question":"How is the weather in Oslo and Atlantis?"}'),
        ("agent", "Oslo: rain, 11.5 degrees. Atlantis is unknown."),
    ]
    assert codes(run) == [("spans_absent", None)]
    assert (run.cost_usd, len(run.labels)) == (0.006, 4)
    assert broken.termination == "the state of the trace is ERROR"


@pytest.mark.parametrize("name", ["mlflow_2_trace.json", "mlflow_2_columns.json"])
def test_the_schema_before_version_3_and_a_table_by_columns_are_read(name: str) -> None:
    assert detect(bytes_of(name), name).name == "mlflow"
    run = run_of(FORMAT, bytes_of(name))
    assert [(step.actor, step.kind) for step in run.steps] == [
        ("user", "message"),
        ("agent", "call"),
        ("environment", "result"),
        ("agent", "message"),
    ]
    assert run.source.run_id == "9e0228b542d72dc4d2429cdb2b6f9926"
    assert run.extra is not None
    assert run.extra["trace"]["request_id"] == "0d89f236b6944564bdc9e72c1a818c30"
    assert [call.name for step in run.steps for call in step.calls] == ["get_weather"]


def test_a_span_that_is_none_is_set_aside_alone() -> None:
    file = {**TRACE, "data": {"spans": [*TRACE["data"]["spans"], {"name": "x"}]}}
    aside, run = read(FORMAT, file)
    assert isinstance(aside, Quarantined)
    assert aside.reason.startswith("a span needs text under `span_id`")
    assert isinstance(run, Trajectory)
    assert len(run.steps) == 7


def test_what_is_no_trace_is_set_aside_with_what_one_needs() -> None:
    assert refused(FORMAT, {"hello": 1}).reason.startswith("a trace needs `info` and `data.spans`")
    found = read(FORMAT, lines(TRACE, {"info": {"trace_id": "t"}, "data": {"spans": 7}}))
    assert [type(each) for each in found] == [Trajectory, Quarantined]


def test_decoded_answers_of_the_server_are_runs_too() -> None:
    found = list(
        read_mlflow_runs([PAGE, {"no": 1}], source=Source(format="mlflow", uri="mlflow:trips"))
    )
    assert [type(each) for each in found] == [Trajectory, Trajectory, Quarantined]
    assert isinstance(found[1], Trajectory)
    assert (found[1].id, found[1].source.uri) == (run_of(FORMAT, TRACE).id, "mlflow:trips")


def test_a_trace_still_being_recorded_says_so() -> None:
    file = {**TRACE, "info": {**TRACE["info"], "state": "IN_PROGRESS"}}
    assert codes(run_of(FORMAT, file)) == [("trace_in_progress", None)]


def test_what_stands_around_traces_and_values_is_kept() -> None:
    page = {"traces": [TRACE], "next_page_token": "n", "served_by": "a"}
    run = run_of(FORMAT, page)
    assert (run.extra or {})["served_by"] == "a"
    assert "next_page_token" not in (run.extra or {})
