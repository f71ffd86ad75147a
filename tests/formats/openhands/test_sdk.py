"""Events of the OpenHands agent SDK: turns, explicit results, metrics by response."""

from __future__ import annotations

import pytest

from stepscope.formats.openhands.read import FORMAT
from tests.formats.openhands.test_openhands import EVENTS, METRICS
from tests.formats.reading import run_of


def test_events_of_the_sdk_are_turns_with_explicit_results() -> None:
    run = run_of(FORMAT, EVENTS)
    assert [(step.actor, step.kind, len(step.calls)) for step in run.steps] == [
        ("system", "message", 0),
        ("user", "message", 0),
        ("agent", "call", 2),
        ("environment", "result", 0),
        ("environment", "result", 0),
        ("agent", "call", 1),
        ("environment", "result", 0),
        ("agent", "call", 1),
        ("environment", "result", 0),
        ("agent", "call", 1),
        ("environment", "result", 0),
    ]
    assert [part.kind for part in run.steps[2].parts] == ["reasoning", "text"]
    assert [(e.call.name, e.result.status, e.result.source) for e in run.exchanges if e.result] == [
        ("terminal", "error", "explicit"),
        ("file_editor", "error", "explicit"),
        ("nosuchtool", "error", "explicit"),
        ("terminal", "ok", "explicit"),
        ("finish", "ok", "explicit"),
    ]
    assert [tool.name for tool in run.tools or ()] == ["terminal", "file_editor", "finish", "think"]
    assert run.steps[2].calls[0].extra is not None
    assert run.steps[2].calls[0].extra["action"]["kind"] == "TerminalAction"
    assert (run.usage, run.cost_usd, run.warnings) == (None, None, ())


def test_metrics_of_an_output_or_of_a_states_update_give_each_response_its_tokens() -> None:
    update = {
        "id": "u",
        "timestamp": "2026-11-22T04:44:19",
        "source": "environment",
        "key": "stats",
        "value": {"usage_to_metrics": {"agent": METRICS}},
        "kind": "ConversationStateUpdateEvent",
    }
    output = {"instance_id": "a__b-1", "test_result": {}, "history": EVENTS, "metrics": METRICS}
    for file in ([*EVENTS, update], output):
        run = run_of(FORMAT, file)
        told_tokens = [s.usage.input_total for s in run.steps if s.usage is not None]
        assert told_tokens == [100, 100, 100, 100]
        assert run.usage is not None
        assert (run.usage.input_total, run.usage.cache_read) == (400, 160)
        assert run.cost_usd == pytest.approx(0.000472)


def test_a_rejected_call_a_condensation_and_a_failure_are_told() -> None:
    time = {"timestamp": "2026-11-22T04:44:19", "source": "environment"}
    rejected = {
        **time,
        "kind": "UserRejectObservation",
        "tool_name": "terminal",
        "tool_call_id": "t1",
        "rejection_reason": "not now",
    }
    condensed = {**time, "kind": "Condensation", "summary": "so far", "forgotten_event_ids": ["a"]}
    failed = {**time, "kind": "ConversationErrorEvent", "code": "LLM", "detail": "no answer"}
    run = run_of(FORMAT, [EVENTS[2], rejected, condensed, failed])
    assert [step.kind for step in run.steps] == ["call", "result", "compaction", "other"]
    assert run.steps[1].results[0].error == "not now"
    assert (run.steps[2].text, run.steps[3].error) == ("so far", "no answer")


def test_a_message_of_the_sdk_has_its_sender_its_response_and_its_pictures() -> None:
    said = {
        "id": "m",
        "timestamp": "2026-11-22T04:44:19",
        "source": "agent",
        "kind": "MessageEvent",
        "sender": "helper",
        "llm_response_id": "r1",
        "llm_message": {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "see"},
                {"type": "image", "image_urls": ["https://example.org/a.png"]},
            ],
            "thinking_blocks": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "x"},
            ],
        },
        "activated_skills": ["git"],
    }
    (step,) = run_of(FORMAT, [said]).steps
    assert [part.kind for part in step.parts] == ["reasoning", "reasoning", "text", "image"]
    assert (step.agent, step.id, step.extra) == (
        "helper",
        "r1",
        {"id": "m", "activated_skills": ["git"]},
    )
    assert step.start is not None
    assert step.parts[1].extra == {"type": "redacted_thinking", "data": "x"}
