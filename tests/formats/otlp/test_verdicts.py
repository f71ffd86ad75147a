from __future__ import annotations

import json

import pytest

from stepscope.formats.finish import Ordinals, finish_run
from stepscope.formats.otlp import request as request_otlp
from stepscope.formats.otlp.write import Verdicts, iter_requests
from stepscope.model import Span as Node
from stepscope.model import Step, Verdict
from stepscope.values import Unmeasured
from tests.formats.otlp.making import (
    RECORDED,
    SHOP,
    exported,
    judged,
    record,
    recorded_run,
    there_and_back,
)
from tests.formats.reading import run_of


def test_a_verdict_is_an_event_of_the_span_of_its_step() -> None:
    verdict = Verdict("redundant_calls", 0.25, "some", 2, (1, 2), "twice", 0.5)
    whole = Verdict("outcome", label="pass")
    root, first, tool, last = judged(SHOP, record(verdict, judge="j"), record(whole))
    (event,) = first.events
    assert event.name == "gen_ai.evaluation.result"
    assert event.attributes == {
        "gen_ai.evaluation.name": "redundant_calls",
        "gen_ai.evaluation.score.value": 0.25,
        "gen_ai.evaluation.score.label": "some",
        "gen_ai.evaluation.explanation": "twice",
        "stepscope.version": "2",
        "stepscope.family": "rules",
        "stepscope.step": 2,
        "stepscope.judge": "j",
        "stepscope.cites": [1, 2],
        "stepscope.confidence": 0.5,
    }
    (event,) = root.events
    assert event.attributes["gen_ai.evaluation.score.label"] == "pass"
    assert "gen_ai.evaluation.score.value" not in event.attributes
    assert (tool.events, last.events) == ((), ())


@pytest.mark.parametrize(("step", "name"), [(3, "execute_tool find"), (4, "chat"), (99, "root")])
def test_a_verdict_about_a_result_stands_on_its_tool_and_one_about_nothing_on_the_root(
    step: int, name: str
) -> None:
    told = judged(SHOP, record(Verdict("m", 1.0, step=step)))
    (span,) = [span for span in told if span.events]
    assert span.name == ("invoke_agent" if name == "root" else name)


def test_what_was_not_measured_has_an_error_and_no_score() -> None:
    absent = Unmeasured("missing_input", "no times", "efficiency")
    root, *_ = judged(SHOP, record(absent))
    about = root.events[0].attributes
    assert about["error.type"] == "missing_input"
    assert about["gen_ai.evaluation.explanation"] == "no times"
    assert not {k for k in about if ".score." in k}


def test_openinference_gets_indexed_evaluations_behind_those_that_are_there() -> None:
    named = {**RECORDED, "attributes": [*RECORDED["attributes"]]}
    named["attributes"].append(
        {"key": "evaluations.0.evaluation.name", "value": {"stringValue": "theirs"}}
    )
    told = run_of(request_otlp.FORMAT, exported(named))
    records = [record(Verdict("m", 0.5, reason="so")), record(Unmeasured("budget", "spent", "n"))]
    (span,) = judged(told, *records, how="openinference")
    found = {k: v for k, v in span.attributes.items() if k.startswith("evaluations.")}
    assert json.loads(found.pop("evaluations.1.evaluation.metadata"))["stepscope.version"] == "2"
    second = json.loads(found.pop("evaluations.2.evaluation.metadata"))
    assert second["stepscope.unmeasured"] == "budget"
    assert found == {
        "evaluations.0.evaluation.name": "theirs",
        "evaluations.1.evaluation.name": "m",
        "evaluations.1.evaluation.score": 0.5,
        "evaluations.1.evaluation.explanation": "so",
        "evaluations.1.evaluation.annotator_kind": "CODE",
        "evaluations.1.evaluation.identifier": "stepscope m 2",
        "evaluations.2.evaluation.name": "n",
        "evaluations.2.evaluation.explanation": "spent",
        "evaluations.2.evaluation.annotator_kind": "CODE",
        "evaluations.2.evaluation.identifier": "stepscope n 2",
    }


@pytest.mark.parametrize("how", ["gen_ai", "openinference"])
@pytest.mark.parametrize("of", ["recorded", "made"])
def test_verdicts_are_not_taken_for_what_people_said_of_the_run(how: Verdicts, of: str) -> None:
    told = (
        finish_run(SHOP, Ordinals())
        if of == "made"
        else run_of(request_otlp.FORMAT, exported(RECORDED))
    )
    plain = there_and_back(told)
    (request,) = iter_requests(
        [(told, [record(Verdict("m", 0.5)), record(Verdict("n", 1.0))])],
        verdicts=how,
    )
    assert request.verdicts == 2
    back = run_of(request_otlp.FORMAT, request.body)
    (warning,) = [w for w in back.warnings if w.code == "verdicts_not_read"]
    assert warning.reason.startswith("2 verdicts")
    assert (back.id, back.labels, back.steps, back.spans) == (told.id, (), plain.steps, plain.spans)


def test_no_verdicts_means_none() -> None:
    (request,) = iter_requests([(SHOP, [record(Verdict("m", 0.5))])], verdicts="none")
    assert (request.verdicts, b"evaluation" in request.body) == (0, False)


def test_verdicts_stand_on_the_recorded_spans_of_their_steps_and_on_the_root() -> None:
    # The root's own parent is not in the trace.
    root = Node(id="a" * 16, parent="c" * 16, attributes={"gen_ai.response.id": "resp_1"})
    child = Node(id="b" * 16, parent="a" * 16, end_ns=7)
    step = Step(index=0, actor="agent", span="b" * 16)
    told = recorded_run(child, root, steps=(step,))
    of_step, whole = record(Verdict("m", 0.5, step=0)), record(Verdict("n", 1.0))
    first, second = judged(told, of_step, whole)
    (event,) = first.events
    assert (event.attributes["gen_ai.evaluation.name"], event.time_ns) == ("m", 7)
    assert "gen_ai.response.id" not in event.attributes
    (event,) = second.events
    assert event.attributes["gen_ai.evaluation.name"] == "n"
    assert event.attributes["gen_ai.response.id"] == "resp_1"
