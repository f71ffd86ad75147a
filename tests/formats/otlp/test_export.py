from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from stepscope.formats.finish import Ordinals, finish_run
from stepscope.formats.otlp import request as request_otlp
from stepscope.formats.otlp.values import any_value_json
from stepscope.formats.spans.lists import FORMAT as SPANS
from stepscope.model import Instant, Json, Part
from stepscope.model import Span as Node
from stepscope.store import Store
from tests.factories import agent, did, run
from tests.formats.otlp.making import (
    RECORDED,
    SHOP,
    exported,
    recorded_run,
    spans_of,
    there_and_back,
    written,
)
from tests.formats.reading import run_of


def test_a_run_that_was_spans_is_written_as_those_spans() -> None:
    told = run_of(request_otlp.FORMAT, exported(RECORDED))
    (request,) = written(told)
    (group,) = json.loads(request.body)["resourceSpans"]
    assert group["resource"] == exported()["resourceSpans"][0]["resource"]
    (inside,) = group["scopeSpans"]
    assert inside["scope"] == {"name": "maker", "version": "1.2"}
    (span,) = inside["spans"]
    ours = [a for a in span["attributes"] if a["key"].startswith("stepscope.")]
    assert ours == [{"key": "stepscope.run.id", "value": {"stringValue": told.id}}]
    span["attributes"] = [a for a in span["attributes"] if a not in ours]
    del span["events"][0]
    wanted = {**RECORDED, "events": []}
    assert span == wanted


def test_spans_under_ids_that_otlp_cannot_hold_get_others() -> None:
    listed = [
        {"traceId": "t", "spanId": "a", "name": "x", "attributes": {"gen_ai.system": "s"}},
        {"traceId": "t", "spanId": "b", "parentSpanId": "a", "name": "y"},
    ]
    told = run_of(SPANS, listed)
    (request,) = written(told)
    first, second = spans_of(request)
    assert [len(first.trace_id), len(first.span_id)] == [32, 16]
    assert second.parent_id == first.span_id != "a"
    back = there_and_back(told)
    assert [span.id for span in back.spans] == [first.span_id, second.span_id]
    assert back.id == told.id


def test_two_runs_of_one_trace_are_two_traces() -> None:
    told = run_of(request_otlp.FORMAT, exported(RECORDED))
    grown = msgspec.structs.replace(told, id="f" * 32)
    assert {s.trace_id for s in spans_of(*written(told, grown))} == {
        "4bf92f3577b34da6a3ce929d0e0e4736",
        "f" * 32,
    }


def test_a_long_run_is_several_requests_and_one_run() -> None:
    long = run(*[agent(str(at) + "x" * 900_000) for at in range(6)])
    made = written(long)
    assert [request.spans for request in made] == [5, 2]
    assert all(len(request.body) < 5_000_000 for request in made)
    lines = b"\n".join([request.body for request in made])
    back = run_of(request_otlp.FORMAT, lines)
    assert [step.text for step in back.steps] == [step.text for step in long.steps]


def test_a_text_too_long_for_an_attribute_is_written_as_a_structure() -> None:
    long = run(agent("a" * 700_000), agent("b" * 600_000), *did("t", "c" * 600_000))
    long = run(
        msgspec.structs.replace(
            long.steps[0], parts=(Part("text", "a" * 700_000), Part("text", "b" * 700_000))
        )
    )
    (request,) = written(long)
    *_, chat = spans_of(request)
    assert isinstance(chat.attributes["gen_ai.output.messages"], list)
    back = run_of(request_otlp.FORMAT, request.body)
    assert [step.parts for step in back.steps] == [step.parts for step in long.steps]


def test_a_run_that_was_exported_comes_back_under_its_id() -> None:
    told = finish_run(SHOP, Ordinals())
    back = there_and_back(told)
    assert back.id == told.id
    assert [(c.call.name, c.call.arguments) for c in back.exchanges] == [("find", {"order": 12})]
    (other,) = [run for run in (finish_run(run(agent("a")), Ordinals()),) if run.id != told.id]
    assert there_and_back(other).id == other.id


@pytest.mark.parametrize("named", ["r1", "A" * 32, "0" * 31, 7, ["0" * 32]])
def test_what_is_no_id_of_ours_names_no_run(named: Json) -> None:
    plain = run_of(request_otlp.FORMAT, exported(RECORDED))
    about = [*RECORDED["attributes"], {"key": "stepscope.run.id", "value": any_value_json(named)}]
    assert run_of(request_otlp.FORMAT, exported({**RECORDED, "attributes": about})).id == plain.id


def test_an_export_that_comes_back_to_its_store_is_not_counted_twice(tmp_path: Path) -> None:
    runs = [finish_run(SHOP, Ordinals()), run_of(request_otlp.FORMAT, exported(RECORDED))]
    back = [there_and_back(told) for told in runs]
    with Store(str(tmp_path / "runs.db")) as store:
        assert store.put(runs).new == 2
        assert (again := store.put(back)).known == 2
        assert again.new == 0
        assert [t.labels for t in store.trajectories()] == [(), ()]


def test_times_that_the_protocol_cannot_hold_are_not_written() -> None:
    told = recorded_run(Node(id="a" * 16, start_ns=-5, end_ns=2**63))
    (request,) = written(told)
    assert b"startTimeUnixNano" not in request.body
    assert b"endTimeUnixNano" not in request.body
    early = msgspec.structs.replace(agent("a"), start=Instant(-5, "-5"), end=Instant(0, "0"))
    assert {(s.start_ns, s.end_ns) for s in spans_of(*written(run(early)))} == {(None, None)}


def test_a_message_of_a_status_that_was_not_set_is_written() -> None:
    told = run_of(request_otlp.FORMAT, exported({**RECORDED, "status": {"message": "so so"}}))
    (span,) = spans_of(*written(told))
    assert (span.status, span.status_message) == ("unset", "so so")


def test_spans_that_share_an_id_keep_their_order() -> None:
    doubled = [Node(id="a" * 16, name=name) for name in ("first", "second")]
    (request,) = written(recorded_run(*doubled))
    assert [s.name for s in run_of(request_otlp.FORMAT, request.body).spans] == ["first", "second"]
