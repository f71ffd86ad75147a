"""Where the values in a call's arguments come from: said earlier, derived, or found nowhere.

Judged: identifiers, e-mail addresses, dates, numbers. Not judged: words (names, cities, options),
truth values, small whole numbers (counts, settings), and free text (`reason`, `query`, `command`,
paths, whatever holds spaces). A value found nowhere is `invented` only where no honest source is
left; where the agent may well choose the value itself (a page size, the name of what it creates, a
date counted from "tomorrow") it is `unknown`, which condemns nobody.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple

from stepscope.effects import words_of
from stepscope.measures.axes.amounts import number_of
from stepscope.measures.axes.evidence import Evidence, evidence_of
from stepscope.measures.calls import agent_calls
from stepscope.measures.once import once
from stepscope.model import Json, Trajectory

Kind = Literal["identifier", "email", "date", "number"]
State = Literal["said", "derived", "unknown", "invented"]

# Words in an argument's name that say: the agent words it itself.
FREE_TEXT = frozenset(
    "answer body caption cmd code command comment content contents description details directory "
    "explanation expression file filename folder goal input instruction instructions keyword "
    "keywords label message messages note notes path pattern plan prompt query question reason "
    "regex replacement script search sql string subject summary task text thought title topic url "
    "uri value".split()
)
# Words that say: this names one thing that exists, and only somebody who knows it can tell.
NAMES_A_THING = frozenset(
    "account accounts booking card email id ids identifier invoice isbn number numbers order "
    "passport payment phone pnr reference reservation serial sku ssn ticket tracking user username "
    "uuid zip zipcode postcode".split()
)
AMOUNTS = frozenset(
    "amount balance charge cost discount fee paid payment price refund sum total usd".split()
)
# First words of tools that bring something new into being: its name is the agent's to choose.
MAKES = frozenset("add build create generate insert make new open register start write".split())
# Below it a whole number is a count or a setting (3 bags, page 2, 10 rows), not a fact.
SMALLEST_FACT = 100
# Shorter texts are options and abbreviations (A4, 5G, USB3) rather than names of one thing.
IDENTIFIER_CHARACTERS = range(4, 65)
# Longer texts are no e-mail address either (RFC 5321) and no date.
EMAIL_CHARACTERS = 320
# Deeper or longer arguments are data, not choices; values beyond are not judged.
MOST_VALUES = 200

_NOT_JUDGED = (None, "")
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_DATE = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[T ][\d:.]+(?:Z|[+-]\d{2}:?\d{2})?)?")
_DIGIT = re.compile(r"\d")
_TOKEN = re.compile(r"[#@]?\w+(?:[-.:]\w+)*")
_RELATIVE = re.compile(
    r"\b(?:today|tonight|tomorrow|yesterday|day after|days?|weeks?|weekend|months?|years?|next|"
    r"last|this|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|same date)\b"
)


class Role(NamedTuple):
    """What an argument's name says: worded freely, an amount, one existing thing."""

    free: bool
    amount: bool
    thing: bool


class Traced(NamedTuple):
    """One judged value: the call's step, tool and argument, what it is and where it comes from."""

    step: int
    tool: str
    argument: str
    text: str
    kind: Kind
    state: State
    source: int | None
    reason: str


def traced(trajectory: Trajectory) -> list[Traced]:
    """Return every judged value of the agent's calls, in order; found once a run."""
    return once(trajectory, "_traced", _traced)


def _traced(trajectory: Trajectory) -> list[Traced]:
    if not trajectory.exchanges:
        return []
    evidence = evidence_of(trajectory)
    found: list[Traced] = []
    # Of texts only: as keys 1, 1.0 and True would be one. What was said once stays said.
    classed: dict[tuple[str, Json], tuple[Kind | None, str]] = {}
    said: dict[tuple[Kind, str], int] = {}
    for exchange in agent_calls(trajectory):
        tool, step = exchange.call.name, exchange.step
        seen: set[tuple[str, str]] = set()
        for leaf in leaves(exchange.call.arguments):
            argument, given = leaf
            textual = type(given) is str
            judged = classed.get(leaf) if textual else None
            if judged is None:
                judged = classify(argument, given)
                if textual:
                    classed[leaf] = judged
            kind, text = judged
            if kind is None or (argument, text) in seen:
                continue
            seen.add((argument, text))
            known = said.get((kind, text))
            if known is not None:
                found.append(Traced(step, tool, argument, text, kind, "said", known, ""))
                continue
            state, source, reason = _trace(evidence, kind, text, step)
            if source is not None and state == "said":
                said[kind, text] = source
            value = Traced(step, tool, argument, text, kind, state, source, reason)
            doubt = _doubt(evidence, value) if state == "invented" else ""
            found.append(value._replace(state="unknown", reason=doubt) if doubt else value)
    return found


def leaves(arguments: Json) -> list[tuple[str, Json]]:
    """Return the name and value of every single value in a call's arguments, at any depth."""
    if type(arguments) is dict:
        for value in arguments.values():
            if type(value) is dict or type(value) is list:
                break
        else:
            return list(arguments.items())[:MOST_VALUES]
    found: list[tuple[str, Json]] = []
    waiting: list[tuple[str, Json]] = [("", arguments)]
    while waiting and len(found) < MOST_VALUES:
        named = waiting.pop()
        value = named[1]
        # By type, not isinstance: what was decoded from JSON has no subclasses.
        kind = type(value)
        if kind is dict:
            waiting += reversed(value.items())
        elif kind is list:
            waiting += [(named[0], member) for member in reversed(value)]
        else:
            found.append(named)
    return found


def classify(argument: str, value: Json) -> tuple[Kind | None, str]:
    """Return what kind of judged value stands in an argument, and its text; None: not judged.

    >>> classify("order_id", "#W2378156"), classify("reason", "#W2378156 is late")
    (('identifier', '#W2378156'), (None, ''))
    >>> classify("amount", 250), classify("bags", 2), classify("zip", "19122")
    (('number', '250'), (None, ''), ('identifier', '19122'))
    """
    free, amount, thing = _role(argument)
    if free:
        return _NOT_JUDGED
    if not isinstance(value, str):
        if value is None or isinstance(value, bool) or not isinstance(value, (int, float)):
            return _NOT_JUDGED
        fact = value != int(value) or abs(value) >= SMALLEST_FACT
        return ("number", f"{value:.12g}") if fact else _NOT_JUDGED
    text = value.strip()
    if len(text) > EMAIL_CHARACTERS:
        return _NOT_JUDGED
    if "@" in text and _EMAIL.fullmatch(text):
        return "email", text
    digit = not text.isalpha() and _DIGIT.search(text) is not None
    if digit and text[4:5] == "-" and (match := _DATE.fullmatch(text)):
        return "date", match[1]
    if not (digit or (thing and text.isupper())):
        return _NOT_JUDGED
    if len(text) not in IDENTIFIER_CHARACTERS or not (text.isalnum() or _TOKEN.fullmatch(text)):
        return _NOT_JUDGED
    if amount and number_of(text) is not None:
        return "number", text
    return "identifier", text


def _trace(evidence: Evidence, kind: Kind, text: str, step: int) -> tuple[State, int | None, str]:
    if kind == "number":
        value = float(text)
        source = evidence.number(value, step)
        if source is None and (derivation := evidence.derive(value, step)) is not None:
            return "derived", derivation.steps[-1], derivation.formula
    elif kind == "date":
        source = evidence.date(text, step)
    else:
        source = evidence.trace(text, step)
    if source is None:
        return "invented", None, "found nowhere before"
    return "said", source, ""


def _doubt(evidence: Evidence, value: Traced) -> str:
    """Return why a value found nowhere may still be honest, "" where nothing speaks for it."""
    role = _role(value.argument)
    if evidence.exhausted:
        return "the run is too long to search"
    if not evidence.requested:
        return "the trace lacks what was asked"
    if value.kind == "number":
        return "" if role.amount else "a number that may be a setting"
    if value.kind == "date":
        relative = evidence.matched(_RELATIVE)
        counted = relative is not None and relative < value.step
        return "may be counted from a day that was said" if counted else ""
    if value.kind == "email":
        local = value.text.partition("@")[0]
        return "only its name was said" if evidence.said(local, value.step) is not None else ""
    if not MAKES.isdisjoint(words_of(value.tool)[:1]):
        return f"{value.tool} may name something new"
    return "" if role.thing else "may be the agent's own choice"


@lru_cache(maxsize=4096)
def _role(argument: str) -> Role:
    words = frozenset(words_of(argument))
    return Role(
        free=not FREE_TEXT.isdisjoint(words),
        amount=not AMOUNTS.isdisjoint(words),
        thing=not NAMES_A_THING.isdisjoint(words),
    )
