"""Were the calls made in a workable order: what is needed first, first, and consent before writes?

Incorrect: a tool called before another that it needs (declared, or kept by practically all passing
runs of the workflow: `preconditions.binding`); a write without consent where the instructions ask
for consent, and the user neither agreed nor asked for it nor was asked anything. A mined habit that
is not binding, and a write that the user asked for but did not confirm, make it uncertain.

Correct means: every precondition known for the tools called was kept, and every write confirmed.
Whether the tool was the right one is tool_selection's, rules of the policy are `policy`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from stepscope.measures.axes.axis import (
    CORRECT,
    SCALE,
    UNCERTAIN,
    Fault,
    condemned,
    judged,
)
from stepscope.measures.axes.tool_selection import ways_to_ask
from stepscope.measures.calls import agent_calls, writes_of
from stepscope.measures.consent import REFUSES, asks, unconfirmed
from stepscope.measures.once import once
from stepscope.measures.preconditions import binding, said_by, too_early
from stepscope.measures.rule import Rule
from stepscope.model import (
    Answer,
    Case,
    Exchange,
    Facts,
    PolicyRule,
    Precondition,
    Step,
    Trajectory,
)
from stepscope.values import Unmeasured

NAME = "axes.sequencing"
# How instructions ask for consent: "obtain explicit user confirmation (yes) to proceed".
ASKS_FOR_CONSENT = re.compile(
    r"(?:obtain|get|ask|require|receive|seek|wait)\w*\b[^.\n]{0,60}\b(?:confirm\w*|consent|approv\w*)",
    re.IGNORECASE,
)
# The runs of a workflow have the same instructions, which are long: so many are kept read.
INSTRUCTIONS = 16

_NO_CALLS = (Unmeasured("not_applicable", "the agent made no tool calls", NAME),)


def _run(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    made = agent_calls(trajectory)
    if not made:
        return _NO_CALLS
    tools = {exchange.call.name for exchange in made}
    rules = [rule for rule in facts.preconditions if rule.tool in tools] if facts else []
    broken = [(rule, x.step) for rule in rules for x in too_early(made, rule)]
    faults = [Fault(step, _why(rule)) for rule, step in broken if binding(rule)]
    writes = writes_of(trajectory, facts)
    doubts = [(step, _why(rule)) for rule, step in broken if not binding(rule)]
    confirmed = 0
    for at in writes:
        why = unconfirmed(trajectory, at)
        if why is None:
            confirmed += 1
        elif _unwanted(trajectory.steps, made[at]) and _consent_is_asked_for(
            trajectory, case, facts
        ):
            faults.append(Fault(made[at].step, f"{made[at].call.name} without consent: {why}"))
        else:
            doubts.append((made[at].step, f"{made[at].call.name} may lack consent: {why}"))
    if faults:
        return condemned(NAME, faults)
    if doubts:
        cites = tuple(sorted({step for step, _ in doubts}))
        return judged(NAME, UNCERTAIN, min(doubts)[1], cites)
    kept = len([rule for rule in rules if binding(rule)])
    if not kept and not writes:
        return judged(NAME, UNCERTAIN, "no precondition is known for the tools called")
    cites = tuple(sorted({made[at].step for at in writes}))
    why = f"{kept} preconditions kept, {confirmed} of {len(writes)} writes confirmed"
    return judged(NAME, CORRECT, why, cites)


def _why(rule: Precondition) -> str:
    same = f" for the same {rule.by}" if rule.by is not None else ""
    return f"{rule.tool} before {rule.after} had succeeded{same} ({said_by(rule)} it comes after)"


def _consent_is_asked_for(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> bool:
    declared: tuple[PolicyRule, ...] = facts.policy if facts is not None else ()
    if case is not None:
        declared += case.policy
    if any(rule.require == "confirm" for rule in declared):
        return True
    return once(trajectory, "_asks_for_consent", _instructed)


def _instructed(trajectory: Trajectory) -> bool:
    return any(_asks_for_consent(s.text) for s in trajectory.steps if s.actor == "system")


@lru_cache(maxsize=INSTRUCTIONS)
def _asks_for_consent(instructions: str) -> bool:
    return ASKS_FOR_CONSENT.search(instructions) is not None


def _unwanted(steps: Sequence[Step], write: Exchange) -> bool:
    """Tell whether the user's latest message before a write neither asks for it nor answers."""
    said = asked = None
    for at in range(write.step - 1, -1, -1):
        step = steps[at]
        if said is None:
            said = step if step.actor == "user" and step.text else None
        elif step.actor == "agent" and step.text:
            asked = step
            break
    if said is None:
        return False
    if REFUSES.match(said.text):
        return True
    heard = said.text.casefold()
    if any(words and words.search(heard) for words in ways_to_ask(write.call.name)):
        return False
    return asked is None or not ("?" in asked.text or asks(asked.text))


MEASURE = Rule(NAME, "1", SCALE, ("effects", "policy", "preconditions"), _run)
