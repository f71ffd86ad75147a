from __future__ import annotations

import json
from typing import Any

import pytest

from stepscope.formats.spans.lists import FORMAT
from stepscope.model import Trajectory
from tests.formats.reading import lines, read, run_of, written

PYTHON: dict[str, Any] = {
    "trace_id": "t",
    "span_id": "s",
    "parent_span_id": None,
    "name": "chat",
    "start_time": 1_700_000_000_000_000_000,
    "end_time": 1_700_000_001_000_000_000,
    "attributes": {"gen_ai.operation.name": "chat"},
    "status": {"code": "OK"},
    "span_events": [{"event_name": "e", "timestamp": 1_700_000_000_500_000_000}],
}
PRINTED: dict[str, Any] = {
    "name": "chat",
    "context": {"trace_id": "0xt", "span_id": "0xs", "trace_state": "[]"},
    "kind": "SpanKind.INTERNAL",
    "parent_id": None,
    "start_time": "2023-11-14T22:13:20.000000Z",
    "end_time": "2023-11-14T22:13:21.000000Z",
    "status": {"status_code": "OK"},
    "attributes": {"gen_ai.operation.name": "chat"},
    "events": [{"name": "e", "timestamp": "2023-11-14T22:13:20.500000Z"}],
    "resource": {"attributes": {"service.name": "shop"}, "schema_url": ""},
}
SCRIPT: dict[str, Any] = {
    "name": "chat",
    "spanContext": {"traceId": "t", "spanId": "s"},
    "startTime": [1_700_000_000, 0],
    "endTime": [1_700_000_001, 0],
    "status": {"code": 1},
    "attributes": {"gen_ai.operation.name": "chat"},
    "events": [{"name": "e", "time": [1_700_000_000, 500_000_000]}],
}


@pytest.mark.parametrize("record", [PYTHON, PRINTED, SCRIPT])
def test_the_three_spellings_of_a_span_say_the_same(record: dict[str, Any]) -> None:
    assert FORMAT.sniff(written([record])) > 0.9
    (node,) = run_of(FORMAT, [record]).spans
    assert (node.id, node.name, node.status) == ("s", "chat", "ok")
    assert (node.start_ns, node.end_ns) == (1_700_000_000_000_000_000, 1_700_000_001_000_000_000)
    assert node.events[0]["time_ns"] == 1_700_000_000_500_000_000


# What Phoenix's `span_to_json` writes: attributes cut at their dots.
NESTED: dict[str, Any] = {
    "name": "chat",
    "context": {"trace_id": "t", "span_id": "s"},
    "span_kind": "LLM",
    "start_time": "2023-11-14T22:13:20+00:00",
    "end_time": "2023-11-14T22:13:21+00:00",
    "status_code": "ERROR",
    "status_message": "no stock",
    "attributes": {
        "openinference": {"span": {"kind": "LLM"}},
        "metadata": {"shop": {"id": 7}},
        "tag": {"tags": ["a"]},
        "llm": {
            "token_count": {"prompt": 5, "completion": 3},
            "input_messages": [{"message": {"role": "user", "content": "Add 2 and 2."}}],
            "output_messages": [{"message": {"role": "assistant", "content": "4"}}],
        },
    },
}


def test_attributes_within_objects_are_those_of_whole_keys() -> None:
    run = run_of(FORMAT, [NESTED])
    assert [(step.actor, step.text) for step in run.steps] == [
        ("user", "Add 2 and 2."),
        ("agent", "4"),
    ]
    assert (usage := run.steps[1].usage) is not None
    assert (usage.input_total, usage.output_total) == (5, 3)
    (node,) = run.spans
    assert node.status == "error"
    assert node.status == "error"
    kept = node.attributes
    assert (kept["metadata"], kept["tag.tags"]) == ({"shop": {"id": 7}}, ["a"])


def test_a_list_may_stand_under_spans_and_what_is_beside_it_stays() -> None:
    file = {"session_id": "x", "span_count": 1, "spans": [PYTHON]}
    assert FORMAT.sniff(written(file)) > 0.9
    run = run_of(FORMAT, file)
    assert run.extra == {"session_id": "x", "span_count": 1}


def test_spans_one_a_line_of_two_traces_are_two_runs() -> None:
    file = lines(PYTHON, {**PYTHON, "trace_id": "u"}, {**PYTHON, "span_id": "z"})
    runs = [run for run in read(FORMAT, file) if isinstance(run, Trajectory)]
    assert [(run.name, len(run.spans)) for run in runs] == [("t", 2), ("u", 1)]


@pytest.mark.parametrize(
    "record",
    [
        {"object": "trace.span", "id": "span_1", "trace_id": "t", "name": "x"},
        {"id": "o", "traceId": "t", "name": "x", "startTime": "2023-11-14T22:13:20Z"},
        {"id": "r", "trace_id": "t", "name": "x", "run_type": "llm", "dotted_order": "1"},
        {"trace_id": "t", "span_id": "s"},
        {"role": "user", "content": "trace_id span_id name"},
    ],
)
def test_what_only_resembles_a_span_is_not_taken_for_one(record: dict[str, Any]) -> None:
    assert FORMAT.sniff(written([record])) == 0


def test_a_span_without_ids_is_set_aside_and_the_others_are_read() -> None:
    bad = {**PYTHON, "span_id": 7}
    aside, run = read(FORMAT, {"spans": [PYTHON, bad]})
    assert not isinstance(aside, Trajectory)
    assert json.loads(aside.raw) == bad
    assert isinstance(run, Trajectory)


def test_what_has_no_field_is_kept_and_what_is_no_event_is_one_of_its_own() -> None:
    odd = {**SCRIPT, "events": 7, "scope": {"name": "lib", "attributes": {"a": 1}}, "status": 3}
    odd["spanContext"] = {"traceId": "t", "spanId": "s", "traceFlags": 1}
    run = run_of(FORMAT, [odd])
    assert run.spans[0].events == ({"extra": {"value": 7}},)
    assert run.extra == {
        "span_facts": [
            {
                "status": 3,
                "spanContext_more": {"traceFlags": 1},
                "scope_more": {"attributes": {"a": 1}},
                "scope": "lib",
            }
        ]
    }
