"""Histories of several agents, whatever their speakers are called."""

from __future__ import annotations

import pytest

from stepscope.formats.chat import openai
from stepscope.formats.chat.histories import FORMAT
from stepscope.formats.opening import detect
from stepscope.model import Json
from tests.formats.reading import lines, read, refused, run_of, written

MAGENTIC = [
    {"role": "human", "content": "How many?"},
    {"role": "Orchestrator (thought)", "content": "I need a list."},
    {"role": "Orchestrator (-> WebSurfer)", "content": "Find the list."},
    {"role": "WebSurfer", "content": "Seven."},
]
GROUP = [
    {"role": "user", "name": "user_proxy", "content": "How many?"},
    {"role": "user", "name": "Coder", "content": "```python\nprint(x)\n```"},
    {"role": "user", "name": "Computer_terminal", "content": "exitcode: 1 (execution failed)"},
    {"role": "assistant", "name": "Critic", "content": "TERMINATE"},
]


@pytest.mark.parametrize("messages", [MAGENTIC, GROUP])
@pytest.mark.parametrize("wrap", ["array", "lines", "messages", "history", "chat_history"])
def test_however_a_history_is_wrapped_it_is_one_run(messages: Json, wrap: str) -> None:
    file = {"array": messages, "lines": lines(*messages)}.get(wrap, {wrap: messages})
    assert detect(written(file), "f") is not openai.FORMAT
    assert detect(written(file), "f").name == "chat_history"
    assert len(run_of(FORMAT, file).steps) == len(messages)


def test_a_role_names_the_agent_and_what_it_does() -> None:
    run = run_of(FORMAT, MAGENTIC)
    assert [(s.actor, s.agent, s.kind) for s in run.steps] == [
        ("user", None, "message"),
        ("agent", "Orchestrator", "plan"),
        ("agent", "Orchestrator", "handoff"),
        ("agent", "WebSurfer", "message"),
    ]
    assert run.steps[1].extra == {"role": "Orchestrator (thought)"}


def test_in_a_group_chat_the_name_speaks_and_the_role_stays_in_extra() -> None:
    run = run_of(FORMAT, GROUP)
    assert [(s.actor, s.agent) for s in run.steps] == [
        ("user", None), ("agent", "Coder"), ("environment", "Computer_terminal"),
        ("agent", "Critic"),
    ]  # fmt: skip
    assert run.steps[2].error == "exitcode: 1 (execution failed)"
    assert run.steps[1].extra == {"role": "user"}


@pytest.mark.parametrize(
    "file",
    [
        [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}],
        [{"role": "user", "name": "Ann", "content": "hi"}, {"role": "assistant", "content": "hm"}],
        [
            {"role": "user", "name": "Ann", "content": "hi"},
            {"role": "assistant", "name": "Bot", "content": "hm"},
        ],
        [{"role": "Planner", "text": "hi"}],
        {"history": MAGENTIC, "mistake_step": "1"},
        {"history": MAGENTIC, "trajectory": []},
        [{"source": "agent", "action": "run", "content": "x"}],
        [{"role": "Planner", "content": "hi"}, {"spam": 1}, {"eggs": 1}],
    ],
)
def test_other_lists_are_no_such_history(file: Json) -> None:
    assert FORMAT.sniff(written(file)) == 0


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ({"history": [3]}, "message 0 needs an object with a `role`; found '3'"),
        ({"history": [{"content": "x"}]}, "message 0 needs an object with a `role`"),
        ({"history": [{"role": "A", "content": 3}]}, "message 0 needs text, a list or null"),
        ({"history": []}, "without a single message"),
    ],
)
def test_what_is_no_message_is_set_aside_with_one_line(file: Json, reason: str) -> None:
    assert reason in refused(FORMAT, file).reason


def test_a_message_that_is_none_costs_the_others_nothing() -> None:
    bad, run = read(FORMAT, [*MAGENTIC[:2], {"role": 3, "content": "x"}, *MAGENTIC[2:]])
    assert "`role`" in getattr(bad, "reason", "")
    assert [warning.code for warning in getattr(run, "warnings", ())] == ["record_quarantined"]


def test_ornaments_of_messages_and_around_them_stay_in_extra() -> None:
    run = run_of(FORMAT, {"history": [{"role": "A", "content": "x", "name": [1]}], "tags": [1]})
    assert run.steps[0].extra == {"name": [1]}
    assert run.extra == {"tags": [1]}
    assert [warning.code for warning in run.warnings] == ["unexpected_shape"]
