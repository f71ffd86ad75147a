"""The measures of a run asked of each of its agents alone, where its steps name their agents.

A call belongs to the agent of its step, and so do the call's error, its recovery and its breaches.
An agent repeats itself when it asks what its *own* earlier call answered, and nobody has changed
the world since; what another agent asked, it may not know. Its calls are held against the tools
that were offered to it. A handoff is a step like any other, counted beside. What a step costs is
its agent's. Where no step names an agent there is nothing to tell apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import fsum

import msgspec

from stepscope.measures.axes.arguments import WITHOUT_SCHEMA, declared_tools, schema_violations
from stepscope.measures.calls import agent_calls, effect_of, failed_calls, no_calls
from stepscope.measures.conduct import declared_rules, find_breaches, find_doubts
from stepscope.measures.errors import NO_ERRORS, NO_STATUS, has_known_status, reactions_of
from stepscope.measures.facts import MISSING, supply_context
from stepscope.measures.rule import absences
from stepscope.measures.same_calls import redundant_calls
from stepscope.model import Answer, Case, Exchange, Facts, Step, Trajectory, Verdict
from stepscope.model.records import AT_LEAST
from stepscope.values import Unmeasured

PER_AGENT_NAME = "per_agent"


class AgentAnswers(msgspec.Struct, frozen=True):
    """What the measures say of one agent of a run: whole-run answers, one each, about it alone."""

    agent: str
    answers: tuple[Answer, ...]

    def answer(self, measure: str) -> Answer:
        """Return the answer of one measure, by its full name."""
        return next(answer for answer in self.answers if answer.measure == measure)


def agents_of(trajectory: Trajectory) -> tuple[str, ...]:
    """Return the agents that steps of the run name, in the order of their first step."""
    named = [step.agent for step in trajectory.steps if _acts(step)]
    return tuple(dict.fromkeys(name for name in named if name is not None))


def measure_agents(
    trajectory: Trajectory, case: Case | None, facts: Facts | None
) -> tuple[AgentAnswers, ...] | Unmeasured:
    """Return the answers about every agent of a run, in the order of their first steps."""
    trajectory, names = supply_context(trajectory, facts), agents_of(trajectory)
    if not names:
        reason = "agent: no step of the trace names its agent"
        return Unmeasured("missing_input", reason, PER_AGENT_NAME)
    return tuple(AgentAnswers(who, tuple(_answers(trajectory, case, facts, who))) for who in names)


def _acts(step: Step) -> bool:
    return step.actor == "agent" and not step.replayed


def _answers(run: Trajectory, case: Case | None, facts: Facts | None, who: str) -> Iterator[Answer]:
    own = [step for step in run.steps if _acts(step) and step.agent == who]
    made = [x for x in agent_calls(run) if _caller(run, x) == who]
    yield _count("efficiency.steps", [step.index for step in own])
    yield _handoffs(run, own)
    yield _count("efficiency.calls", [exchange.step for exchange in made])
    yield _sum("tokens", [step.usage.total for step in own if step.usage is not None])
    yield _sum("cost_usd", [step.cost_usd for step in own])
    yield _sum("seconds", [_seconds(step) for step in own])
    yield from _repeats(run, facts, who, len(made))
    yield from _errors(run, facts, made)
    yield _policy(run, case, facts, {exchange.step for exchange in made})
    yield _schema(run, made)


def _caller(trajectory: Trajectory, exchange: Exchange) -> str | None:
    return trajectory.steps[exchange.step].agent


def _count(measure: str, steps: Iterable[int]) -> Verdict:
    """Return how many there are; what happened twice at one step is cited once."""
    found = sorted(steps)
    return Verdict(measure, float(len(found)), cites=tuple(dict.fromkeys(found)))


def _handoffs(trajectory: Trajectory, own: Sequence[Step]) -> Answer:
    if not any(step.kind == "handoff" for step in trajectory.steps):
        reason = "kind: no step of the trace is marked as a handoff"
        return Unmeasured("missing_input", reason, "handoffs")
    return _count("handoffs", [step.index for step in own if step.kind == "handoff"])


def _sum(figure: str, values: Iterable[float | None]) -> Answer:
    """Return a sum over steps; a step that lacks the figure is not counted as nothing."""
    name = f"efficiency.{figure}"
    known = [value for value in values if value is not None]
    if not known:
        return Unmeasured("missing_input", MISSING[figure], name)
    return Verdict(name, fsum(known))


def _seconds(step: Step) -> float | None:
    if step.start is None or step.end is None or step.end.ns < step.start.ns:
        return None
    return (step.end.ns - step.start.ns) / 1e9


def _repeats(trajectory: Trajectory, facts: Facts | None, name: str, made: int) -> Iterator[Answer]:
    # Of the others' calls, those that may have changed the world end what was valid.
    seen = [
        exchange
        for exchange in trajectory.exchanges
        if _caller(trajectory, exchange) == name or effect_of(exchange.call.name, facts) != "read"
    ]
    again = [
        (repeat.step, before.step)
        for repeat, before in redundant_calls(seen, facts)
        if _caller(trajectory, repeat) == name == _caller(trajectory, before)
    ]
    if made:
        reason = ", ".join(f"{repeat} repeats {before}" for repeat, before in again)
        cites = tuple(repeat for repeat, _ in again)
        yield Verdict("redundant_calls", len(again) / made, cites=cites, reason=reason)
    else:
        yield no_calls("redundant_calls")
    yield _count("redundant_calls.count", [repeat for repeat, _ in again])


def _errors(run: Trajectory, facts: Facts | None, made: Sequence[Exchange]) -> Iterator[Answer]:
    places = {exchange.position for exchange in made}
    failed = [exchange for exchange in failed_calls(run) if exchange.position in places]
    if not failed and not has_known_status(made):
        yield from absences("missing_input", NO_STATUS, "errors", "recovery", "recovery.recovered")
        return
    yield _count("errors", [exchange.answer_step for exchange in failed])
    if not failed:
        yield from NO_ERRORS
        return
    reactions = reactions_of(run, facts)
    good = [x for x in failed if reactions[x.position].label == "recovered"]
    yield Verdict("recovery", len(good) / len(failed))
    yield _count("recovery.recovered", [exchange.answer_step for exchange in good])


def _policy(run: Trajectory, case: Case | None, facts: Facts | None, steps: set[int]) -> Answer:
    rules = declared_rules(case, facts)
    if not rules:
        return Unmeasured("missing_input", "no policy is declared for this workflow", "policy")
    found = [x.step for x in find_breaches(run, rules, facts) if x.step in steps]
    doubts = [x for x in find_doubts(run, rules, facts) if x.step in steps]
    if doubts and not found:
        return Unmeasured("missing_input", doubts[0].reason, "policy")
    return msgspec.structs.replace(_count("policy", found), label=AT_LEAST if doubts else None)


def _schema(trajectory: Trajectory, made: Sequence[Exchange]) -> Answer:
    if not made:
        return no_calls("tool_schema")
    offered = [tool for x in made for tool in declared_tools(trajectory, x)]
    if all(tool.schema is None for tool in offered):
        return Unmeasured("missing_input", WITHOUT_SCHEMA, "tool_schema")
    steps = {exchange.step for exchange in made}
    found, _ = schema_violations(trajectory)
    return _count("tool_schema", [fault.step for fault in found if fault.step in steps])
