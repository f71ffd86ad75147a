from __future__ import annotations

import json

import pytest

from stepscope.errors import LimitError
from stepscope.formats.spans.assemble import assemble
from stepscope.formats.spans.span import RawSpan, SpanEvent
from stepscope.model import Source, TraceLabel, Usage
from stepscope.safety.limits import Limits
from tests.formats.reading import codes
from tests.formats.spans.making import BEGIN, SECOND, asks, chat, run_of, said, span, told, tool

ASK = said("user", text="Weather in Paris and Rome?")
CALLS = said("assistant", asks("look", "c1", city="Paris"), asks("look", "c2", city="Rome"))
ANSWERS = [
    said("tool", {"type": "tool_call_response", "id": "c1", "response": "rain"}),
    said("tool", {"type": "tool_call_response", "id": "c2", "result": "sun"}),
]
END = said("assistant", text="Rain and sun.")

ROOT = span(
    "root", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"}, at=(0, 9)
)
FIRST = span("m1", chat([ASK], [CALLS]), parent="root", at=(1, 2))
PARIS = span("t1", tool("look", {"city": "Paris"}, "rain"), parent="root", at=(2, 3))
ROME = span("t2", tool("look", {"city": "Rome"}, "sun"), parent="root", at=(2.1, 2.5))
LAST = span("m2", chat([ASK, CALLS, *ANSWERS], [END]), parent="root", at=(4, 5))

STORY = [
    ("user", "message", "Weather in Paris and Rome?"),
    ("agent", "call", "look, look"),
    ("environment", "result", "unknown: rain"),
    ("environment", "result", "unknown: sun"),
    ("agent", "message", "Rain and sun."),
]


def test_each_message_call_and_answer_is_told_once_whatever_order_spans_come_in() -> None:
    run = run_of(ROOT, FIRST, PARIS, ROME, LAST)
    assert told(run) == STORY
    assert told(run_of(LAST, ROME, PARIS, FIRST, ROOT)) == STORY
    assert codes(run) == []
    assert [e.result and e.result.text for e in run.exchanges] == ["rain", "sun"]
    assert {step.agent for step in run.steps if step.actor == "agent"} == {"helper"}
    assert [step.span for step in run.steps] == ["m1", "m1", "t1", "t2", "m2"]
    assert run.steps[3].start is not None
    assert run.steps[3].start.ns == BEGIN + 2_100_000_000
    assert (run.start, run.end) != (None, None)


def test_answers_that_only_a_later_message_tells_of_are_steps_too() -> None:
    assert told(run_of(ROOT, FIRST, LAST)) == STORY


def test_an_agents_message_that_no_span_recorded_is_a_replay() -> None:
    run = run_of(LAST)
    assert [step.replayed for step in run.steps] == [False, True, True, True, False]
    assert codes(run) == [("orphan_span", 0)]


def test_the_same_question_asked_twice_is_two_steps() -> None:
    again = [ASK, END, ASK]
    run = run_of(span("a", chat([ASK], [END])), span("b", chat(again, [END]), at=(1, 2)))
    assert [step.actor for step in run.steps] == ["user", "agent", "user", "agent"]


def test_a_tool_that_no_message_called_makes_its_call_under_the_spans_id() -> None:
    run = run_of(PARIS)
    assert told(run) == [("agent", "call", "look"), STORY[2]]
    assert run.steps[0].calls[0].id == run.steps[1].results[0].call_id == "t1"


def test_an_answer_stands_behind_what_was_done_for_it() -> None:
    outer = span("out", tool("delegate", {}, "done"), at=(0, 9))
    run = run_of(outer, span("in", chat([], [END]), parent="out", at=(1, 2)))
    assert told(run) == [
        ("agent", "call", "delegate"),
        ("agent", "message", "Rain and sun."),
        ("environment", "result", "unknown: done"),
    ]
    assert codes(run) == []


def test_an_answer_that_ends_as_the_next_round_begins_stands_before_it() -> None:
    outer = span("out", tool("delegate", {}, "done"), at=(0, 9))
    within = span("in", chat([], [END]), parent="out", at=(1, 2))
    after = span("next", chat([], [said("assistant", text="Thanks.")]), at=(9, 10))
    assert [step.span for step in run_of(outer, within, after).steps] == [
        "out",
        "in",
        "out",
        "next",
    ]


def test_a_tool_run_with_other_arguments_than_asked_still_answers_its_call() -> None:
    ran = span("t1", tool("look", {"city": "Paris", "unit": "C"}, "rain"), at=(2, 3))
    run = run_of(span("m1", chat([], [said("assistant", asks("look", "c1", city="Paris"))])), ran)
    assert told(run) == [("agent", "call", "look"), STORY[2]]
    assert run.steps[1].results[0].call_id == "c1"


def test_a_tools_span_without_a_result_takes_what_the_model_was_told() -> None:
    bare = span("t1", tool("look", {"city": "Paris"}), parent="root", at=(2, 3))
    assert told(run_of(ROOT, FIRST, bare, ROME, LAST)) == STORY


def test_a_history_that_gives_calls_other_ids_repeats_them_all_the_same() -> None:
    renamed = said("assistant", asks("look", "x1", city="Paris"), asks("look", "x2", city="Rome"))
    last = span("m2", chat([ASK, renamed], [END]), parent="root", at=(4, 5))
    assert told(run_of(ROOT, FIRST, PARIS, ROME, last)) == STORY


def test_a_failed_tool_is_an_explicit_error_and_a_good_status_a_protocols_word() -> None:
    bad = span("t1", tool("look", {}, **{"error.type": "Timeout"}), status="error")
    good = span("t2", tool("look", {}, "x"), status="ok", at=(2, 3))
    results = [result for step in run_of(bad, good).steps for result in step.results]
    assert [(r.status, r.source, r.error) for r in results] == [
        ("error", "explicit", "Timeout"),
        ("ok", "protocol", None),
    ]


def test_an_exception_is_the_error_of_the_step() -> None:
    raised = SpanEvent(name="exception", attributes={"exception.message": "no quota"})
    run = run_of(span("m", chat([ASK], []), status="error", events=(raised,)))
    assert run.steps[-1].error == run.termination == "no quota"


def test_a_frame_around_a_model_adds_no_step_and_no_tokens_but_what_only_it_says() -> None:
    counted = {"gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": 2}
    inner = {"gen_ai.operation.name": "generate_content", **counted}
    run = run_of(
        span("frame", chat([ASK], [END], **counted), at=(0, 3)),
        span("in", inner, parent="frame", at=(1, 2)),
    )
    assert told(run) == [STORY[0], STORY[4]]
    assert run.usage == Usage(input_total=7, output_total=2)


def test_the_tokens_of_a_frame_are_no_rounds_own() -> None:
    given = {"gen_ai.usage.input_tokens": 7}
    run = run_of(
        span("frame", chat([ASK], [END], **given), at=(0, 9)),
        span("one", chat([], [END], **{"gen_ai.usage.input_tokens": 4}), parent="frame"),
        span("two", chat([], [END]), parent="frame", at=(2, 3)),
    )
    assert run.usage == Usage(input_total=4)


def test_tokens_of_an_agent_within_an_agent_are_the_outer_ones_already() -> None:
    about = {"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 50}
    inner = span("in", {**about, "gen_ai.usage.input_tokens": 20}, parent="root")
    assert run_of(span("root", about, at=(0, 9)), inner).usage == Usage(input_total=50)


def test_tokens_of_an_agent_count_only_where_no_step_has_its_own() -> None:
    about = {"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 50}
    frame = span("root", about, at=(0, 9))
    assert run_of(frame).usage == Usage(input_total=50)
    model = span("m", chat([], [END], **{"gen_ai.usage.input_tokens": 8}), parent="root")
    assert run_of(frame, model).usage == Usage(input_total=8)


def test_evaluations_are_labels_at_the_step_of_their_span() -> None:
    about = {
        "gen_ai.evaluation.name": "relevance",
        "gen_ai.evaluation.score.value": 0.4,
        "gen_ai.evaluation.explanation": "off topic",
    }
    event = SpanEvent(name="gen_ai.evaluation.result", attributes=about)
    run = run_of(span("m", chat([ASK], [END]), events=(event,)))
    (label,) = run.labels
    # The question is the first step that this span made.
    assert label == TraceLabel(
        kind="note",
        step=0,
        category="relevance",
        reason="off topic",
        extra={"name": "relevance", "score.value": 0.4, "explanation": "off topic"},
    )


def test_every_span_stays_whole_and_what_has_no_field_stands_beside() -> None:
    given = span("a", {"x": 1})
    beside = given.__class__(
        trace_id="t", span_id="b", scope="lib@1", resource={"service.name": "s"}, extra={"odd": 1}
    )
    run = run_of(given, beside)
    assert [(node.id, node.attributes) for node in run.spans] == [("a", {"x": 1}), ("b", {})]
    assert run.extra == {
        "resources": [{"service.name": "s"}],
        "span_facts": [{}, {"odd": 1, "resource": 0, "scope": "lib@1"}],
    }
    assert ("no_agent_span", None) in codes(run)


def test_one_run_a_trace_named_by_it_with_one_id_wherever_it_is_read() -> None:
    other = json.loads(json.dumps({"a": 1}))
    spans = [PARIS, span("x", other), ROME.__class__(trace_id="u", span_id="q", start_ns=SECOND)]
    runs = list(assemble(spans, source=Source(format="spans", uri="f")))
    assert [(run.name, run.source.run_id, len(run.spans)) for run in runs] == [
        ("t", "t", 2),
        ("u", "u", 1),
    ]
    (again,) = assemble([spans[1], spans[0]], source=Source(format="otlp", uri="g"))
    assert again.id == runs[0].id


def test_calls_asked_at_once_meet_their_answers_in_any_order() -> None:
    made = said("assistant", *[asks("look", f"c{n}", n=n) for n in range(4_000)])
    ran = [span(f"t{n}", tool("look", {"n": n}, str(n)), at=(2 - n / 4e3, 3)) for n in range(4_000)]
    run = run_of(span("m", chat([], [made]), at=(-1, 0)), *ran)
    assert [e.result and e.result.text for e in run.exchanges] == [str(n) for n in range(4_000)]


def test_a_trace_of_more_spans_than_allowed_is_refused_and_one_of_as_many_is_read() -> None:
    spans = [RawSpan(trace_id="t", span_id=str(at)) for at in range(3)]
    source = Source(format="test")
    (run,) = assemble(spans, source=source, limits=Limits(spans=3))
    assert len(run.spans) == 3
    with pytest.raises(LimitError, match=r"3 spans; the limit is 2 \(`limits\.spans`"):
        list(assemble(spans, source=source, limits=Limits(spans=2)))


def test_attributes_beyond_the_limit_are_left_out_with_a_mark_and_told() -> None:
    many = RawSpan(trace_id="t", span_id="s", attributes={str(at): at for at in range(4)})
    (run,) = assemble([many], source=Source(format="test"), limits=Limits(attributes=3))
    assert list(run.spans[0].attributes) == ["0", "1", "2"]
    (facts,) = (run.extra or {})["span_facts"]
    assert facts["attributes_left_out"]["count"] == 1
    assert "attributes_cut" in {warning.code for warning in run.warnings}
    (near,) = assemble([many], source=Source(format="test"), limits=Limits(attributes=4))
    assert "attributes_cut" not in {warning.code for warning in near.warnings}
