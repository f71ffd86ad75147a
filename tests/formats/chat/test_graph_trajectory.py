"""Trajectories as agentevals 0.0.9 extracted them from a thread, and near misses of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepscope import registry
from stepscope.formats.chat.graph_trajectory import FORMAT
from stepscope.model import Json, Trajectory
from stepscope.testing import check_format
from tests.formats.reading import lines, read, refused, run_of, written

# As recorded, from a thread of two turns with a ready-made agent.
THREAD: dict[str, Any] = {
    "inputs": [
        {"__start__": {"messages": [{"role": "user", "content": "Weather in Paris?"}]}},
        {"__start__": {"messages": [{"role": "user", "content": "Thanks"}]}},
    ],
    "outputs": {
        "inputs": [],
        "results": [
            {"messages": [{"role": "assistant", "content": "21 degrees."}]},
            {"messages": [{"role": "assistant", "content": "You are welcome."}]},
        ],
        "steps": [["__start__", "model", "tools", "model"], ["__start__", "model"]],
    },
}


def told(run: Trajectory) -> list[tuple[str, str, str | None, str]]:
    return [(step.actor, step.kind, step.agent, step.text) for step in run.steps]


def test_a_thread_is_one_run_with_a_step_for_each_visit_of_a_node() -> None:
    assert told(run_of(FORMAT, THREAD)) == [
        ("user", "message", None, "Weather in Paris?"),
        ("agent", "other", "model", ""),
        ("agent", "other", "tools", ""),
        ("agent", "other", "model", ""),
        ("agent", "message", None, "21 degrees."),
        ("user", "message", None, "Thanks"),
        ("agent", "other", "model", ""),
        ("agent", "message", None, "You are welcome."),
    ]


def test_bare_trajectories_pauses_subgraphs_and_other_results_are_read() -> None:
    bare = {
        "inputs": [{"question": "go"}, "__resuming__"],
        "results": [{}, {"answer": "done", "at": "noon", "by": "me", "score": 1}],
        "steps": [["hotel:model", "__interrupt__"], ["hotel:tools", "__end__"]],
        "thread": "t",
    }
    run = run_of(FORMAT, bare)
    assert told(run) == [
        ("user", "message", None, '{"question":"go"}'),
        ("agent", "other", "hotel", ""),
        ("environment", "other", None, ""),
        ("user", "message", None, "__resuming__"),
        ("agent", "other", "hotel", ""),
        ("agent", "message", None, '{"answer":"done","at":"noon","by":"me","score":1}'),
    ]
    assert [step.extra for step in run.steps[1:3]] == [
        {"node": "hotel:model"},
        {"node": "__interrupt__"},
    ]
    assert run.extra == {"thread": "t"}


def test_turns_of_unequal_number_lose_nothing_and_records_are_runs_of_their_own() -> None:
    short = {"inputs": None, "results": [], "steps": [["a"], ["b"]]}
    long = {"inputs": ["x", "y", "z"], "results": [{}], "steps": []}
    first, second, third = read(FORMAT, lines(short, long, short))
    assert isinstance(first, Trajectory)
    assert isinstance(second, Trajectory)
    assert isinstance(third, Trajectory)
    assert ([len(run.steps) for run in (first, second, third)], first.id == third.id) == (
        [2, 3, 2],
        False,
    )


def test_what_stands_beside_messages_is_kept_and_every_rule_of_a_format_holds(
    tmp_path: Path,
) -> None:
    given = {"__start__": {"messages": [{"role": "user", "content": "go"}], "plan": 1}, "at": 2}
    steps = run_of(
        FORMAT, {"inputs": [given], "results": [{"messages": [], "n": 3}], "steps": [["a"]]}
    ).steps
    assert [step.extra for step in steps[::2]] == [{"at": 2, "plan": 1}, {"n": 3}]
    path = tmp_path / "thread.json"
    path.write_bytes(written(THREAD))
    assert check_format(FORMAT, path).runs == 1


def test_what_is_no_trajectory_of_a_graph_is_set_aside() -> None:
    assert "needs lists under `results` and `steps`" in refused(FORMAT, {"steps": []}).reason
    assert (
        "`$[0][0]` is a whole number, expected text"
        in refused(FORMAT, {"steps": [[1]], "results": []}).reason
    )
    kept = run_of(FORMAT, {**THREAD, "inputs": "none"})
    assert kept.extra == {"inputs": "none"}


@pytest.mark.parametrize(
    ("value", "sure"),
    [
        (THREAD, True),
        ([THREAD["outputs"]], True),
        ({"steps": [], "results": []}, False),
        ({"steps": [{"a": 1}], "results": []}, False),
        ({"steps": ["model"], "results": []}, False),
        ({"steps": [["model"]]}, False),
    ],
)
def test_only_lists_of_nodes_are_taken_for_a_graphs(value: Json, sure: bool) -> None:
    likely = {
        form.name for form in registry.installed_formats() if form.sniff(written(value)) >= 0.5
    }
    assert (FORMAT.name in likely) is sure
    if sure:
        assert likely == {FORMAT.name}
