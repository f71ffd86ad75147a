"""Suspicions that tool calls give: errors, repeats, values from nowhere, writes against the case.

A step is named where the agent acted, not where the answer came. Facts and case are used where they
are there; without a case no write is called wrong, only `unconfirmed` or a write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepscope.measures.axes.grounding import traced
from stepscope.measures.calls import agent_calls, effect_of, ends, escalates, succeeded
from stepscope.measures.consent import unconfirmed
from stepscope.measures.errors import error_step, gist
from stepscope.measures.recovery import reactions_of
from stepscope.measures.redundant_calls import repeats
from stepscope.measures.subgoals import taken
from stepscope.measures.suspicion import Suspicion
from stepscope.model import Case, Exchange, Facts, Trajectory


def from_calls(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> list[Suspicion]:
    """Return what the run's tool calls make suspicious, by step."""
    made = agent_calls(trajectory)
    if not made:
        return []
    found = [
        *_errors(trajectory, facts),
        *_repeats(trajectory, facts),
        *_invented(trajectory),
        *_writes(trajectory, made, case, facts),
    ]
    return sorted(found, key=lambda suspicion: suspicion.step)


def _errors(trajectory: Trajectory, facts: Facts | None) -> Iterator[Suspicion]:
    for reaction in reactions_of(trajectory, facts).values():
        error = reaction.error
        if error.call.requestor != "agent":
            continue
        read = error_step(error)
        said = f"{error.call.name} fails: {gist(error.result)}"
        yield Suspicion(error.step, "failed", said, (read,))
        if reaction.label == "ignored" and reaction.step is not None:
            reason = f"goes on after the error at {read}"
            yield Suspicion(reaction.step, "ignored", reason, (read,))
        elif reaction.label == "repeated" and reaction.step is not None:
            reason = f"the call that failed at {read} again, unchanged"
            yield Suspicion(reaction.step, "repeated", reason, (read,))


def _repeats(trajectory: Trajectory, facts: Facts | None) -> Iterator[Suspicion]:
    for again, before in repeats(trajectory.exchanges, facts):
        reason = f"{again.call.name} asks again what {before.step} answered"
        yield Suspicion(again.step, "repeat", reason, (before.step,))


def _invented(trajectory: Trajectory) -> Iterator[Suspicion]:
    for value in traced(trajectory):
        if value.state == "invented":
            reason = f"{value.tool}: {value.argument} {value.text!r} was said nowhere before"
            yield Suspicion(value.step, "invented", reason)


def _writes(
    trajectory: Trajectory, made: Sequence[Exchange], case: Case | None, facts: Facts | None
) -> Iterator[Suspicion]:
    goals = case.subgoals if case is not None else ()
    pairs = taken(case, trajectory) if case is not None else []
    undone = {goal.tool: goal.name for goal, at in zip(goals, pairs, strict=True) if at is None}
    judges = case is not None and (bool(goals) or case.reference is not None)
    for at, exchange in enumerate(made):
        name = exchange.call.name
        if escalates(name) and undone:
            yield Suspicion(exchange.step, "gave_up", f"hands over before {_names(undone)}")
        if effect_of(name, facts) != "write" or ends(name):
            continue
        yield Suspicion(exchange.step, "write", f"{name} changes the world")
        reason = unconfirmed(trajectory, at)
        if reason is not None:
            yield Suspicion(exchange.step, "unconfirmed", f"{name} without consent: {reason}")
        if not judges or at in pairs or not succeeded(exchange):
            continue
        if name in undone:
            reason = f"{name} is asked for with other arguments"
            yield Suspicion(exchange.step, "wrong_write", reason)
        else:
            yield Suspicion(exchange.step, "other_write", f"{name}: nothing asks for this write")


def _names(undone: dict[str, str]) -> str:
    return ", ".join(dict.fromkeys(undone.values()))
