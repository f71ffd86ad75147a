"""Was what the tools returned read rightly, as far as the user was told of it?

Incorrect: an amount or an identifier told to the user that no result, user or policy said and that
follows by no simple arithmetic; a quantity told under the name of a result's field with another
value (`labelled`); a status that is not the thing's latest (`statuses`); a tool error followed by a
message that claims success. What the agent says to nobody, or to other agents, is not judged; nor
is what it does with a result (argument_validity).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations

from stepscope.measures.axes.amounts import number_forms
from stepscope.measures.axes.axis import (
    CORRECT,
    SCALE,
    UNCERTAIN,
    Fault,
    condemned,
    judged,
)
from stepscope.measures.axes.evidence import Evidence, evidence_of
from stepscope.measures.axes.labelled import Results, misnamed, misplaced
from stepscope.measures.axes.statuses import misstated
from stepscope.measures.axes.told import Amount, Message, amounts, identifiers, messages
from stepscope.measures.calls import agent_calls, effect_of
from stepscope.measures.errors import error_step, gist
from stepscope.measures.recovery import admits, reactions_of
from stepscope.measures.rule import Rule
from stepscope.model import Answer, Case, Facts, Trajectory
from stepscope.values import Unmeasured

NAME = "axes.result_interpretation"
# How an English message says that something was done.
CLAIMS = re.compile(
    r"\bsuccess(?:ful(?:ly)?)?\b|\b(?:has|have) (?:now )?been\b|\b(?:is|are) now\b|\ball set\b|"
    r"\b(?:i(?:'|\u2019)ve|i have) (?:now |just )?\w+ed\b|\b(?:was|were) (?:\w+ly )?\w+ed\b",
    re.IGNORECASE,
)
# Every claim holds one of these: plain search finds several times faster that none is there.
_CLAIMS = ("success", " been", " now", "all set", "i've", "i\u2019ve", "i have", "was ", "were ")
# An offer behind every message, and no admission.
_COURTESY = re.compile(
    r"\b(?:hesitate|any (?:other|further|more)? ?(?:questions?|issues?|concerns?)|anything else)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[^.!?\n]+")
# Most terms within one message that an amount may be the sum of.
MOST_TERMS = 5
# Amounts of a message, its last, that such a sum may draw on: 8 make some 200 sums.
LAST_TERMS = 8

_NO_RESULTS = (Unmeasured("not_applicable", "no tool returned anything", NAME),)


def _run(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    made = agent_calls(trajectory)
    if not any(exchange.result is not None for exchange in made):
        return _NO_RESULTS
    told = list(messages(trajectory))
    faults = list(_claims(trajectory, told, facts))
    results = Results(
        [
            (x.result_step, x.result)
            for x in trajectory.exchanges
            if x.result is not None and x.result_step is not None
        ]
    )
    checked = 0
    sound: set[float] = set()
    for message in told:
        found = amounts(message.text)
        things = identifiers(message.text)
        stated = misstated(message, results)
        faults += stated.faults
        checked += len(found) + len(things) + stated.checked
        if not found and not things:
            continue
        evidence = evidence_of(trajectory)
        faults += _unsaid(evidence, message, found=found, things=things, sound=sound)
        if found:
            faults += misnamed(message, found, results, _theirs(trajectory, evidence, message))
            if things:
                faults += misplaced(message, found, results)
    if faults:
        return condemned(NAME, faults)
    if not told:
        return judged(NAME, UNCERTAIN, "the user was told nothing of the results")
    if not checked:
        return judged(NAME, UNCERTAIN, "nothing told to the user can be checked against a result")
    why = (
        f"{checked} amounts, identifiers and statuses told in {len(told)} messages follow from "
        "what was said"
    )
    return judged(NAME, CORRECT, why)


def _theirs(
    trajectory: Trajectory, evidence: Evidence, message: Message
) -> Callable[[float], bool]:
    """Return a test of whether the first to say an amount was a person or the policy."""

    def said(value: float) -> bool:
        for form in number_forms(value):
            step = evidence.first(form)
            if step is not None and step < message.step.index:
                return trajectory.steps[step].actor in ("user", "system")
        return False

    return said


def _unsaid(
    evidence: Evidence,
    message: Message,
    *,
    found: Sequence[Amount],
    things: Sequence[str],
    sound: set[float],
) -> Iterator[Fault]:
    """Yield what is told and was said nowhere; `sound` collects the amounts that follow.

    An amount that followed once may be told again.
    """
    step = message.step.index
    cites = tuple({at for at, _ in message.news[-1:]})
    for thing in dict.fromkeys(things):
        if evidence.trace(thing, step) is not None or evidence.exhausted:
            continue
        # One digit over and over is an example of the form, not the name of a thing: #W0000000.
        if len(set(filter(str.isdigit, thing))) > 1:
            yield Fault(step, f"tells {thing}, which nothing before says", cites)
    values = dict.fromkeys(amount.value for amount in found)
    for value in values:
        if value in sound:
            continue
        if (
            evidence.number(value, step) is not None
            or _follows(value, [other for other in values if other != value])
            or _derived(evidence, value, message)
        ):
            sound.add(value)
        elif not evidence.exhausted:
            yield Fault(step, f"tells {value:,.2f}, which follows from nothing before", cites)


def _derived(evidence: Evidence, value: float, message: Message) -> bool:
    """Tell whether an amount follows by arithmetic, the latest results first: mostly it does."""
    step = message.step.index
    recent = message.news[0][0] - 1 if message.news else step
    return (
        evidence.derive(value, step, recent) is not None or evidence.derive(value, step) is not None
    )


def _follows(value: float, others: Sequence[float]) -> bool:
    """Tell whether an amount is a sum or difference of amounts in the same message."""
    # In cents: no amount told has parts of one.
    target = round(100 * value)
    cents = [round(100 * other) for other in others[-LAST_TERMS:]]
    for n in range(2, min(len(others), MOST_TERMS) + 1):
        for some in combinations(cents, n):
            total = sum(some)
            if target in (total, abs(2 * some[0] - total), abs(total - 2 * some[-1])):
                return True
    return False


def _claims(
    trajectory: Trajectory, told: Sequence[Message], facts: Facts | None
) -> Iterator[Fault]:
    """Yield messages that claim success right after an error that nothing made good."""
    for reaction in reactions_of(trajectory, facts).values():
        exchange = reaction.error
        if effect_of(exchange.call.name, facts) == "read":
            continue
        where = error_step(exchange)
        message = next((m for m in told if m.step.index > where), None)
        if message is None:
            continue
        # Leaving sentences out makes no claim: most messages are done here.
        if not _claims_success(message.text):
            continue
        text = _SENTENCE.sub(_unless_courtesy, message.text)
        if admits(text) or not _claims_success(text):
            continue
        if reaction.label in ("recovered", "replanned"):
            continue
        reason = f"claims success after {exchange.call.name} failed: {gist(exchange.result)}"
        yield Fault(message.step.index, reason, (where,))


def _claims_success(text: str) -> bool:
    lower = text.lower()
    return any(word in lower for word in _CLAIMS) and CLAIMS.search(text) is not None


def _unless_courtesy(sentence: re.Match[str]) -> str:
    return " " if _COURTESY.search(sentence[0]) else sentence[0]


MEASURE = Rule(NAME, "2", SCALE, ("alternatives", "effects"), _run)
