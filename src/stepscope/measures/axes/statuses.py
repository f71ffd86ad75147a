"""Statuses told to the user: what is said to be the status of a thing must be its latest.

Two forms are read: "the status is now: cancelled" and 'in "delivered" status'. Where the sentence
names one thing by its identifier, its own latest record counts; without a name only a status that
no result ever had is misread, because which thing was meant cannot be known. Conditions, negations
and what was or will be are not statements of a status.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from stepscope.effects import words_of
from stepscope.measures.axes.axis import Fault
from stepscope.measures.axes.labelled import Results
from stepscope.measures.axes.told import Message, identifiers
from stepscope.model import Json

KEY = "status"
# "status: delivered", "the status of the order is now **pending**", "status has changed to lost".
_BEHIND = re.compile(
    r"\bstatus\b(?: (?:of|for) [^.\n:]{1,40}?(?= (?:is|are|has|now)\b|:))?[\s:*_)]*"
    r"(?:(?:is|are|now|currently|still|has|have|been|changed|updated|set|marked|listed|shown|as|to)"
    r"[\s:*_]+)*[\"'\u201c\u2018(]*([a-z]+(?: [a-z]+){0,2})",
    re.IGNORECASE,
)
# "in a "delivered" status", "in **pending** status".
_BEFORE = re.compile(
    r"\bin (?:an? |the )?[\"'\u201c\u2018*_]*([a-z]+(?: [a-z]+)?)[\"'\u201d\u2019*_]* status\b",
    re.IGNORECASE,
)
# Words that turn what follows into something else than a statement of how it stands.
_OPEN = re.compile(
    r"\b(?:if|once|when|until|unless|whether|only|must|should|would|will|may|might|can|could|not|"
    r"no|never|was|were|had|before|previously|check|look|any|orders|depends|which|means)\b|"
    r"n['\u2019]t\b|\?",
    re.IGNORECASE,
)
# What statuses are called besides participles ("delivered", "return requested").
_STATES = frozenset(
    "active available closed complete inactive lost open overdue paid pending processing sent "
    "unavailable unpaid".split()
)
_WORD = re.compile(r"[a-z]+")
_SENTENCE = re.compile(r"[^.?!\n]+[?]?")


class Held(NamedTuple):
    """How many statuses of a message could be held against a result, and those misread."""

    checked: int
    faults: tuple[Fault, ...]


def misstated(message: Message, results: Results) -> Held:
    """Hold the statuses that a message tells against what the results say."""
    if KEY not in message.text.lower():
        return Held(0, ())
    checked = 0
    faults: list[Fault] = []
    for sentence in _SENTENCE.findall(message.text):
        for state in _states(sentence):
            things = set(identifiers(sentence))
            if len(things) > 1:
                continue
            known = _known(things.pop() if things else None, message.step.index, results)
            if not known:
                continue
            checked += 1
            if not any(_alike(state, value) for _, value in known):
                step, value = known[-1]
                why = f"tells status {state!r}, the result at {step} says {value!r}"
                faults.append(Fault(message.step.index, why, (step,)))
    return Held(checked, tuple(faults))


def _states(sentence: str) -> Iterator[str]:
    for pattern in (_BEHIND, _BEFORE):
        for match in pattern.finditer(sentence):
            words = match[1].lower().split()
            if _OPEN.search(sentence[: match.start(1)]) or sentence.endswith("?"):
                continue
            # "delivered so it" is "delivered": the words that go on are none of the status.
            if words[0] in _STATES or words[0].endswith("ed"):
                yield words[0]
            elif len(words) > 1 and words[1].endswith("ed"):
                yield f"{words[0]} {words[1]}"


def _known(thing: str | None, before: int, results: Results) -> list[tuple[int, str]]:
    """Return the latest status of a thing; of nothing in particular, every status so far."""
    found: list[tuple[int, str]] = []
    for step, result in results.all:
        text = result.text
        if step >= before or KEY not in text or (thing is not None and thing not in text):
            continue
        found += [(step, value) for value in _values(thing, results.value(result))]
    if thing is None:
        return found
    return [one for one in found if one[0] == found[-1][0]]


def _values(thing: str | None, value: Json) -> Iterator[str]:
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, list):
            waiting += here
        elif isinstance(here, dict):
            waiting += here.values()
            if thing is not None and thing not in here.values():
                inner = here.get(thing)
                here = inner if isinstance(inner, dict) else {}
            yield from (
                one.lower()
                for key, one in here.items()
                if isinstance(one, str) and words_of(key)[-1:] == [KEY]
            )


def _alike(state: str, value: str) -> bool:
    """Tell whether a told status says what a result's does: "pending" for "pending (modified)"."""
    said, true = set(state.split()), set(_WORD.findall(value))
    return said <= true or true <= said
