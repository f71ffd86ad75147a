"""The measures of a run, asked of each of its agents alone."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stepscope.formats.reading import read_files
from stepscope.measures.agents import AgentAnswers, agents_of, measure_agents
from stepscope.model import (
    Case,
    Facts,
    Instant,
    PolicyRule,
    Step,
    ToolCall,
    ToolDef,
    Trajectory,
    Usage,
    Verdict,
)
from stepscope.values import Unmeasured
from tests.factories import agent, calls, did, failed, run, user

Turn = tuple[Step, ...]


def by(name: str, *steps: Step, **fields: object) -> Turn:
    """Return the steps as that agent's; what the environment answers is nobody's."""
    return tuple(
        msgspec.structs.replace(step, agent=name, **fields) if step.actor == "agent" else step
        for step in steps
    )


def answers(
    made: Trajectory, facts: Facts | None = None, case: Case | None = None
) -> dict[str, dict[str, float | str]]:
    """Return, by agent and measure, the value, or why there is none."""
    found = measure_agents(made, case, facts)
    assert not isinstance(found, Unmeasured)
    return {
        one.agent: {
            a.measure: a.kind if isinstance(a, Unmeasured) else a.value or 0.0 for a in one.answers
        }
        for one in found
    }


def test_steps_calls_and_errors_belong_to_the_agent_that_made_the_call() -> None:
    made = run(
        user("hi"),
        *by("plan", agent("go")),
        *by("web", *failed("get_page", id=1), *did("get_page", id=1)),
        *by("plan", agent("well")),
        *by("desk", *failed("get_seat", id=9), agent("it did not work")),
    )
    found = answers(made)
    assert list(found) == ["plan", "web", "desk"]
    for measure, expected in {
        "efficiency.steps": [2.0, 2.0, 2.0],
        "efficiency.calls": [0.0, 2.0, 1.0],
        "errors": [0.0, 1.0, 1.0],
        "recovery.recovered": ["not_applicable", 1.0, 0.0],
        "redundant_calls": ["not_applicable", 0.0, 0.0],
        "policy": ["missing_input"] * 3,
        "tool_schema": ["not_applicable", "missing_input", "missing_input"],
        "handoffs": ["missing_input"] * 3,
    }.items():
        assert [found[name][measure] for name in found] == expected, measure


def test_an_agent_repeats_itself_not_what_another_asked() -> None:
    made = run(
        *by("a", *did("get_page", "text", id=1)),
        *by("b", *did("get_page", "text", id=1)),
        *by("a", *did("get_page", "text", id=1)),
    )
    found = measure_agents(made, None, None)
    assert not isinstance(found, Unmeasured)
    assert answers(made)["b"]["redundant_calls"] == 0.0
    again = found[0].answer("redundant_calls")
    assert again == msgspec.structs.replace(
        again, measure="redundant_calls", value=0.5, cites=(4,), reason="4 repeats 0"
    )


@pytest.mark.parametrize(("tool", "share"), [("get_seat", 0.5), ("book_seat", 0.0)])
def test_what_another_agent_changed_is_asked_again_for_a_reason(tool: str, share: float) -> None:
    made = run(
        *by("a", *did("get_page", id=1)),
        *by("b", *did(tool, n=2)),
        *by("a", *did("get_page", id=1)),
    )
    assert answers(made)["a"]["redundant_calls"] == share
    declared = Facts(effects={tool: "read"})
    assert answers(made, declared)["a"]["redundant_calls"] == 0.5


def test_doing_what_another_agent_did_is_no_repeat_and_doing_it_twice_is() -> None:
    seat = did("check_seat", n=2)
    made = run(*by("a", *seat), *by("b", *seat), *by("b", *seat))
    assert [one["redundant_calls.count"] for one in answers(made).values()] == [0.0, 1.0]


def test_calls_are_held_against_the_tools_of_their_agent() -> None:
    number, text = ({"properties": {"id": {"type": kind}}} for kind in ("integer", "string"))
    tools = (ToolDef("look", schema=number, agent="a"), ToolDef("look", schema=text, agent="b"))
    made = run(
        *by("a", *did("look", id=1)),
        *by("b", *did("look", id=1)),
        *by("c", *did("look", id=1)),
        tools=tools,
    )
    found = answers(made)
    assert [found[name]["tool_schema"] for name in "abc"] == [0.0, 1.0, "missing_input"]


def test_a_breach_belongs_to_the_agent_of_its_call() -> None:
    facts = Facts(policy=(PolicyRule(name="no refund", forbid="refund"),))
    made = run(*by("a", *did("refund", id=1)), *by("b", *did("look", id=1)))
    found = answers(made, facts)
    assert (found["a"]["policy"], found["b"]["policy"]) == (1.0, 0.0)
    case = Case(workflow="shop", task="1", policy=(PolicyRule(name="no look", forbid="look"),))
    assert answers(made, None, case)["b"]["policy"] == 1.0


def test_what_one_agent_may_have_broken_leaves_the_others_measured() -> None:
    rule = PolicyRule(name="cash", forbid="refund", where={"method": "cash"})
    hidden = calls(ToolCall("refund", raw="{", parse_error="not JSON"))
    cash = did("refund", method="cash")
    made = run(
        user("hi"),
        *by("a", hidden),
        *by("b", *cash),
        *by("c", *did("refund", method="card")),
        *by("d", hidden, *cash),
    )
    found = answers(made, Facts(policy=(rule,)))
    assert {name: one["policy"] for name, one in found.items()} == {
        "a": "missing_input",
        "b": 1.0,
        "c": 0.0,
        "d": 1.0,
    }


def test_what_a_step_costs_is_its_agents_and_what_is_not_told_is_not_nothing() -> None:
    used = Usage(input_total=10, output_total=5)
    start, end = Instant(1_000_000_000, "a"), Instant(3_500_000_000, "b")
    made = run(
        *by("a", agent("x"), usage=used, cost_usd=0.25, start=start, end=end),
        *by("a", agent("y"), usage=used),
        *by("b", agent("z"), start=end, end=start),
    )
    found = answers(made)
    costs = [found["a"][f"efficiency.{name}"] for name in ("tokens", "cost_usd", "seconds")]
    assert costs == [30.0, 0.25, 2.5]
    assert {found["b"][f"efficiency.{name}"] for name in ("tokens", "cost_usd", "seconds")} == {
        "missing_input"
    }


def test_a_handoff_is_a_step_of_the_agent_that_hands_over() -> None:
    handoff = Step(index=0, actor="agent", kind="handoff", agent="boss")
    found = answers(run(handoff, *by("web", agent("done")), handoff))
    assert (found["boss"]["efficiency.steps"], found["boss"]["handoffs"]) == (2.0, 2.0)
    assert found["web"]["handoffs"] == 0.0


def test_a_trace_that_names_no_agents_is_unmeasured() -> None:
    made = run(user("hi"), agent("ho"), *did("look", id=1))
    assert measure_agents(made, None, None) == Unmeasured(
        "missing_input", "agent: no step of the trace names its agent", "per_agent"
    )
    # What a tool or a user says under a name is nobody's act, nor is a copy of an earlier step.
    named = msgspec.structs.replace(user("hi"), agent="u")
    replayed = msgspec.structs.replace(agent("old"), agent="a", replayed=True)
    assert agents_of(run(named, replayed, agent("ho"))) == ()


@pytest.mark.shared_data
def test_who_and_when_runs_have_the_agents_that_spoke(shared: Path) -> None:
    paths = [str(shared / "whowhen" / "hand-crafted")]
    runs = [item for r in read_files(paths) for item in r if isinstance(item, Trajectory)]
    assert len(runs) == 31
    handoffs = 0
    for made in runs:
        found = measure_agents(made, None, None)
        assert not isinstance(found, Unmeasured)
        steps = [step for one in found for step in _cites(one, "efficiency.steps")]
        assert sorted(steps) == [step.index for step in made.steps if step.actor == "agent"]
        assert "Orchestrator" in [one.agent for one in found]
        handoffs += sum(len(_cites(one, "handoffs")) for one in found)
    assert handoffs == sum(step.kind == "handoff" for made in runs for step in made.steps) > 0


def _cites(one: AgentAnswers, measure: str) -> tuple[int, ...]:
    answer = one.answer(measure)
    return answer.cites if isinstance(answer, Verdict) else ()
