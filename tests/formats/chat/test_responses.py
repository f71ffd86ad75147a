from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepscope.formats.chat import openai
from stepscope.formats.chat.responses import FORMAT
from stepscope.model import Json, Quarantined, Trajectory
from stepscope.testing import check_format
from tests.formats.reading import codes, lines, read, refused, run_of, written

ASK = {"role": "user", "content": "Weather?"}
THINKS = {
    "type": "reasoning",
    "id": "rs",
    "summary": [{"type": "summary_text", "text": "think"}],
    "encrypted_content": "gAAA",
}
SAYS = {
    "type": "message",
    "id": "m",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Rainy.", "annotations": []}],
}


def asks(call_id: str, city: str) -> dict[str, Any]:
    made = f'{{"city": "{city}"}}'
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": "w",
        "arguments": made,
    }


def answers(call_id: str, output: Json) -> dict[str, Any]:
    return {"type": "function_call_output", "id": "o", "call_id": call_id, "output": output}


CALLS = [asks("c1", "Paris"), asks("c2", "Rome")]
ITEMS = [
    ASK,
    THINKS,
    *CALLS,
    answers("c2", '{"error": "none"}'),
    answers("c1", "rainy"),
    SAYS,
]
# The same run as chat messages.
CHAT = [
    ASK,
    {
        "role": "assistant",
        "tool_calls": [
            {"id": call["call_id"], "function": {"name": "w", "arguments": call["arguments"]}}
            for call in CALLS
        ],
    },
    {"role": "tool", "tool_call_id": "c2", "content": '{"error": "none"}'},
    {"role": "tool", "tool_call_id": "c1", "content": "rainy"},
    {"role": "assistant", "content": "Rainy."},
]
USAGE = {
    "input_tokens": 9,
    "output_tokens": 4,
    "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1},
    "output_tokens_details": {"reasoning_tokens": 3},
}
FIRST: dict[str, Any] = {
    "object": "response",
    "id": "r1",
    "created_at": 1_700_000_000,
    "completed_at": 1_700_000_002.5,
    "model": "m",
    "status": "completed",
    "instructions": "Be kind.",
    "output": [THINKS, CALLS[0]],
    "usage": USAGE,
    "tools": [{"type": "function", "name": "w", "parameters": {"type": "object"}}],
    "temperature": 0.5,
    "error": None,
}
SECOND: dict[str, Any] = {
    "request": {"input": [answers("c1", "rainy")], "instructions": "Be kind."},
    "response": {**FIRST, "id": "r2", "previous_response_id": "r1", "output": [SAYS]},
}
PROVIDED: list[dict[str, Any]] = [
    {"type": "web_search_call", "id": "w", "status": "completed", "action": {"query": "x"}},
    {
        "type": "mcp_call",
        "id": "m",
        "name": "f",
        "arguments": "{}",
        "error": {"type": "http_error", "code": 1},
    },
    {
        "type": "shell_call",
        "call_id": "s",
        "action": {"commands": ["ls"]},
        "status": "completed",
    },
    {
        "type": "shell_call_output",
        "call_id": "s",
        "output": [
            {"stdout": "a", "stderr": "b", "outcome": {"type": "exit", "exit_code": 0}},
            {"stdout": "", "stderr": "no", "outcome": {"type": "exit", "exit_code": 2}},
        ],
    },
    {"type": "code_interpreter_call", "id": "ci", "status": "failed", "code": "1/0", "outputs": []},
    {"type": "compaction", "id": "cm", "encrypted_content": "x"},
]


def told(run: Trajectory) -> list[tuple[str, str, int]]:
    return [(step.actor, step.kind, len(step.calls)) for step in run.steps]


TURNS = [
    ("user", "message", 0),
    ("agent", "call", 2),
    ("environment", "result", 0),
    ("environment", "result", 0),
    ("agent", "message", 0),
]


@pytest.mark.parametrize(
    "file",
    [ITEMS, lines(*ITEMS), lines(ITEMS), [ITEMS], {"input": ITEMS}, {"messages": ITEMS}],
    ids=["array", "lines", "line of a list", "list of lists", "request", "under messages"],
)
def test_however_items_are_wrapped_they_are_one_run_of_turns(file: Json) -> None:
    run = run_of(FORMAT, file)
    assert told(run) == TURNS
    assert [(e.call.id, e.result_step, e.failed) for e in run.exchanges] == [
        ("c1", 3, False),
        ("c2", 2, True),
    ]
    assert [part.kind for part in run.steps[1].parts] == ["reasoning"]
    assert (run.warnings, run.usage) == ((), None)


def test_a_run_has_the_steps_that_it_has_as_chat_messages() -> None:
    chat = run_of(openai.FORMAT, CHAT)
    run = run_of(FORMAT, [item for item in ITEMS if item is not THINKS])
    assert [(s.actor, s.kind, s.text) for s in run.steps] == [
        (s.actor, s.kind, s.text) for s in chat.steps
    ]
    assert [(e.key, e.result_step) for e in run.exchanges] == [
        (e.key, e.result_step) for e in chat.exchanges
    ]


def test_what_an_item_says_beside_stays_with_what_it_became() -> None:
    run = run_of(FORMAT, ITEMS)
    turn, last = run.steps[1], run.steps[4]
    assert turn.parts[0].extra == {"type": "summary_text", "id": "rs", "encrypted_content": "gAAA"}
    assert [call.extra for call in turn.calls] == [{"id": "fc_c1"}, {"id": "fc_c2"}]
    assert (last.id, last.extra) == ("m", {"status": "completed"})
    assert last.parts[0].extra == {"annotations": []}


@pytest.mark.parametrize(
    ("items", "kinds"),
    [
        ([THINKS, CALLS[0], THINKS, CALLS[1]], ["call", "call"]),
        ([THINKS, SAYS, CALLS[0]], ["call"]),
        ([CALLS[0], SAYS], ["call", "message"]),
        ([SAYS, {**SAYS, "id": "n"}], ["message", "message"]),
        ([THINKS, PROVIDED[0], CALLS[0]], ["call", "call"]),
        ([THINKS, {"type": "compaction", "encrypted_content": "x"}], ["message", "compaction"]),
        ([{"type": "reasoning", "summary": []}, CALLS[0]], ["call"]),
    ],
)
def test_a_turn_ends_where_the_model_thinks_speaks_or_has_a_result_behind_a_call(
    items: list[Json], kinds: list[str]
) -> None:
    assert [step.kind for step in run_of(FORMAT, [ASK, *items]).steps[1:]] == kinds


def test_usage_model_times_and_status_of_an_answer_stand_at_its_turns() -> None:
    run = run_of(FORMAT, {"request": {"input": "Weather?"}, "response": FIRST})
    assert told(run) == [("system", "message", 0), ("user", "message", 0), ("agent", "call", 1)]
    step = run.steps[2]
    assert (step.model, step.finish_reason, step.usage) == ("m", "completed", run.usage)
    assert run.usage is not None
    assert (run.usage.input_total, run.usage.cache_read, run.usage.cache_write) == (9, 2, 1)
    assert (run.usage.output_total, run.usage.reasoning) == (4, 3)
    assert step.start is not None
    assert step.end is not None
    assert step.end.ns - step.start.ns == 2_500_000_000
    assert run.source.run_id == "r1"
    assert [tool.name for tool in run.tools or ()] == ["w"]
    assert run.extra == {"temperature": 0.5, "status": "completed"}


def test_an_answer_that_names_an_earlier_one_continues_its_run() -> None:
    other = {**FIRST, "id": "r9"}
    first, second = read(FORMAT, lines(FIRST, other, SECOND))
    assert isinstance(first, Trajectory)
    assert isinstance(second, Trajectory)
    assert told(first) == [
        ("system", "message", 0),
        ("agent", "call", 1),
        ("environment", "result", 0),
        ("agent", "message", 0),
    ]
    assert [step.index for step in first.steps] == [0, 1, 2, 3]
    assert first.usage is not None
    assert (first.usage.input_total, first.source.run_id, first.warnings) == (18, "r1", ())
    assert len(second.steps) == 2
    assert second.source.run_id == "r9"


def test_an_answer_whose_earlier_one_is_elsewhere_says_so_and_a_branch_too() -> None:
    alone = run_of(FORMAT, [SECOND])
    assert codes(alone)[0] == ("earlier_response_missing", 0)
    branch = {**SECOND, "response": {**SECOND["response"], "id": "r3"}}
    first, second = read(FORMAT, lines(FIRST, SECOND, branch))
    assert isinstance(first, Trajectory)
    assert isinstance(second, Trajectory)
    assert (len(first.steps), len(second.steps)) == (4, 3)
    assert codes(second)[0] == ("earlier_response_missing", 0)


def test_a_longer_chain_says_its_instructions_once_and_others_when_they_change() -> None:
    third = {**FIRST, "id": "r3", "previous_response_id": "r2", "instructions": "Be brief."}
    run = run_of(FORMAT, lines(FIRST, SECOND, {**third, "output": [SAYS], "temperature": 1}))
    assert [step.text for step in run.steps if step.actor == "system"] == ["Be kind.", "Be brief."]
    assert run.extra is not None
    assert run.extra["continued"] == [{"id": "r2"}, {"id": "r3", "temperature": 1}]


def test_a_chain_ends_and_is_judged_as_its_last_answer_says() -> None:
    ended = {**SECOND["response"], "status": "incomplete", "completed_at": 1_700_000_009}
    tool = {"type": "function", "name": "x"}
    last = {
        "request": {"tools": [*FIRST["tools"], tool]},
        "response": ended,
        "task": "t",
        "trial": 2,
        "reward": 1,
    }
    (run,) = read(FORMAT, [{"response": FIRST, "reward": 0, "tags": {"a": "b"}}, last])
    assert isinstance(run, Trajectory)
    assert (run.termination, run.outcome.status, run.task, run.trial) == (
        "incomplete",
        "pass",
        "t",
        "2",
    )
    assert run.tags == {"a": "b"}
    assert [found.name for found in run.tools or ()] == ["w", "x"]
    assert run.start is not None
    assert run.end is not None
    assert (run.end.ns - run.start.ns) // 1_000_000_000 == 9


def test_only_so_many_answers_are_held_for_others_to_continue() -> None:
    answers_of_others = [{**FIRST, "id": f"o{n}"} for n in range(1000)]
    found = read(FORMAT, lines(FIRST, *answers_of_others, SECOND))
    assert len(found) == 1002
    last = found[-1]
    assert isinstance(last, Trajectory)
    assert codes(last)[0] == ("earlier_response_missing", 0)
    found = read(FORMAT, lines(FIRST, *answers_of_others[:999], SECOND))
    assert len(found) == 1000


def test_what_a_record_says_of_its_run_is_the_runs() -> None:
    record = {
        "id": 7,
        "task_id": 3,
        "trial": 1,
        "workflow": "shop",
        "agent": "a",
        "agent_version": "2",
        "model": "m",
        "functions": [{"name": "f"}],
        "input": "hi",
        "output": [SAYS],
        "seed": 5,
    }
    run = run_of(FORMAT, record)
    assert (run.name, run.workflow, run.task, run.trial) == ("shop/3/1", "shop", "3", "1")
    assert (run.agent, run.agent_version, run.source.run_id) == ("a", "2", "7")
    assert (run.steps[1].model, run.extra) == ("m", {"seed": 5})
    assert [tool.name for tool in run.tools or ()] == ["f"]
    assert run_of(FORMAT, FIRST).name == "r1"


def test_the_format_keeps_what_formats_promise() -> None:
    file = Path(__file__).parents[1] / "data" / "openai_responses.jsonl"
    assert check_format(FORMAT, file).runs == 1


@pytest.mark.parametrize(
    ("response", "termination", "error"),
    [
        ({"status": "completed", "output": [SAYS]}, None, None),
        (
            {
                "status": "incomplete",
                "incomplete_details": {"reason": "content_filter"},
                "output": [SAYS],
            },
            "incomplete: content_filter",
            None,
        ),
        (
            {"status": "failed", "error": {"code": "server_error", "message": "boom"}},
            "failed: boom",
            "boom",
        ),
        ({"status": "cancelled", "output": []}, "cancelled", None),
    ],
)
def test_how_an_answer_ended_is_told(
    response: dict[str, Json], termination: str | None, error: str | None
) -> None:
    run = run_of(FORMAT, {"request": {"input": "hi"}, "response": response})
    assert (len(run.steps), run.termination, run.steps[-1].error) == (2, termination, error)


def test_a_line_of_a_batch_is_its_answer_for_its_task() -> None:
    line = {
        "id": "batch_1",
        "custom_id": "t7",
        "response": {"status_code": 200, "request_id": "q", "body": FIRST},
        "error": None,
    }
    run = run_of(FORMAT, lines(line))
    assert (run.task, run.source.run_id, run.steps[-1].model) == ("t7", "batch_1", "m")


def test_an_item_that_cannot_be_read_is_quarantined_and_the_run_says_where() -> None:
    bad = {"type": "function_call", "call_id": 3, "name": "f"}
    kept = read(FORMAT, lines(ASK, THINKS, bad, CALLS[0]))
    assert [type(r) for r in kept] == [Quarantined, Trajectory]
    run = kept[-1]
    assert isinstance(run, Trajectory)
    assert [step.kind for step in run.steps] == ["message", "message", "call"]
    assert codes(run)[0] == ("record_quarantined", 2)


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ({"input": [{"type": "function_call", "call_id": 3, "name": "f"}]}, "text under `call_id`"),
        ({"input": [{"type": "function_call", "call_id": "c"}]}, "text under `name`"),
        ({"input": 3, "output": []}, "`input` is '3'"),
        ({"input": "x", "output": "y"}, "`output` is 'y'"),
        ({"input": []}, "without an item"),
        ({"input": [3]}, "item 0 is '3'"),
        ({"input": [{"type": 3}]}, "text under `type`"),
        ({"status": 200, "body": "event: x\n\n"}, "streamed body"),
    ],
)
def test_a_record_of_wrong_types_is_quarantined_with_one_line(file: Json, reason: str) -> None:
    bad = refused(FORMAT, file)
    assert reason in bad.reason
    assert "\n" not in bad.reason


@pytest.mark.parametrize(
    ("file", "confident"),
    [
        (ITEMS, True),
        (lines(*ITEMS), True),
        (FIRST, True),
        (lines(FIRST, FIRST), True),
        (SECOND, True),
        ({"request": {"input": "x"}, "response": written(FIRST).decode()}, True),
        ({"status": 200, "headers": {}, "body": written(FIRST).decode()}, True),
        ({"input": "hi", "output": [SAYS]}, True),
        ({"input": [ASK], "model": "m"}, True),
        ([{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}], True),
        (written(ITEMS)[:200], True),
        (CHAT, False),
        ({"messages": CHAT}, False),
        ({"input": [ASK], "output": {"role": "assistant"}}, False),
        ({"input": [ASK], "output": [SAYS], "run_type": "llm"}, False),
        ({"input": "hi", "output": "there"}, False),
        ([{"type": ["message"], "role": "user"}], False),
        ([], False),
    ],
)
def test_sniff_knows_responses_from_others(file: Json, confident: bool) -> None:
    assert (FORMAT.sniff(written(file)) >= 0.5) is confident
    if confident:
        assert openai.FORMAT.sniff(written(file)) < 0.5
