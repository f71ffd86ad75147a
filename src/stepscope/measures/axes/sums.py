"""Calculations of the agent: where their terms come from, and which term a sum leaves out.

A term has an origin where somebody said it, where the agent told it before (each statement is
judged where it is made), or where it follows from numbers that the agent has worked with. A sum
leaves a term out where its terms are one field of the members of one list, and a later refusal
names the difference, or the agent tells the sum as that of the whole list.

A refusal that names two numbers ("paid 833, expected 1203") is followed back to the step where the
agent's number first arose.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from stepscope.measures.axes.evidence import Evidence
from stepscope.measures.axes.quantities import (
    MULTIPLES,
    SMALLEST_TERM,
    TOLERANCE,
    StatedNumbers,
    plain_number,
    quantities,
)
from stepscope.measures.axes.records import ThingRecord, amounts_of, results_of
from stepscope.measures.calls import agent_calls, failed_calls
from stepscope.measures.rule import Fault, cached_on_run
from stepscope.model import Exchange, Trajectory

_ARITHMETIC = re.compile(r"[\d\s.,+*/()$%-]*\d[\d\s.,+*/()$%-]*")
_RESULT = re.compile(r"-?\d+(?:\.\d+)?")
_TERM = re.compile(r"(?<![\d.])\d[\d,]*(?:\.\d+)?")
# A sum of two or more terms that nothing multiplies: 364 + 210 + 259.
_SUM = re.compile(
    r"(?<![\d.*/-])(?<![*/-] )\$?\d[\d,]*(?:\.\d+)?"
    r"(?:\s*\+\s*\$?\d[\d,]*(?:\.\d+)?)+(?![\d.]|\s*[*/])"
)
_WHOLE = re.compile(
    r"\b(?:all|altogether|totals?|total(?:ing|ling)|add(?:s|ed)? up|together|sum|whole|entire|"
    r"overall|comes? to|makes?|amounts? to)\b",
    re.IGNORECASE,
)
_PART = re.compile(
    r"\b(?:without|except|exclud\w+|leav\w+ (?:\w+ ){0,4}out|other than|apart from|besides|"
    r"not including|remaining|minus|skip\w*)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.]\d+[^.!?\n]*)*")
# Members of longer lists are no terms of one sum.
LONGEST_LIST = 20
# Longer ones are no expression.
EXPRESSION_CHARACTERS = 1000
# Terms that the whole run is searched for.
MOST_TERMS = 50
# Longer answers are no refusal.
REFUSAL_CHARACTERS = 500
# Each is looked for in every refusal and message.
MOST_SUMS = 200


class AgentSum(NamedTuple):
    """A sum that the agent made: the step, and its terms."""

    step: int
    terms: tuple[float, ...]

    @property
    def total(self) -> float:
        """What the terms add up to."""
        return sum(self.terms)

    def __str__(self) -> str:
        """The sum as it is written: 364 + 210 + 259."""
        return " + ".join(map(plain_number, self.terms))


@cached_on_run
def calculations_of(trajectory: Trajectory) -> tuple[tuple[Exchange, str], ...]:
    """Return the calls of an arithmetic expression that a number answered, with what they ask."""
    found: list[tuple[Exchange, str]] = []
    for exchange in agent_calls(trajectory):
        given, result = exchange.call.arguments, exchange.result
        if isinstance(given, dict) and len(given) == 1 and result is not None:
            text = next(iter(given.values()))
            if isinstance(text, str) and len(text) <= EXPRESSION_CHARACTERS:
                if _ARITHMETIC.fullmatch(text) and _RESULT.fullmatch(result.text.strip()):
                    found.append((exchange, text))
    return tuple(found)


@lru_cache(maxsize=4096)
def _terms(text: str) -> tuple[float, ...]:
    return tuple([float(term.replace(",", "").strip(".") or 0) for term in _TERM.findall(text)])


def find_untraced_terms(trajectory: Trajectory, evidence: Evidence) -> tuple[int, list[Fault]]:
    """Return how many terms the agent calculated with, and those without an origin."""
    faults: list[Fault] = []
    checked = sought = 0
    for exchange, text in calculations_of(trajectory) if evidence.requested else ():
        for term in dict.fromkeys(_terms(text)):
            checked += term >= SMALLEST_TERM
            if term < SMALLEST_TERM or evidence.number(term, exchange.step) is not None:
                continue
            sought += 1
            if evidence.exhausted or sought > MOST_TERMS:
                return checked, faults
            if not _is_worked_out(trajectory, evidence, term, exchange.step):
                why = f"{exchange.call.name}: {plain_number(term)} in {text!r} comes from nowhere"
                faults.append(Fault(exchange.step, why))
    return checked, faults


def _is_worked_out(trajectory: Trajectory, evidence: Evidence, term: float, before: int) -> bool:
    """True if a number follows from what the agent told, passed or calculated, or a user said."""
    worked = []
    for step in trajectory.steps[:before]:
        said = quantities(step.text) if step.actor in ("agent", "user") else ()
        for call in step.calls:
            said += quantities(str(call.arguments))
        for result in step.results:
            if result.status == "error" or _RESULT.fullmatch(result.text.strip()):
                said += quantities(result.text)
        worked.append((step.index, said))
    if StatedNumbers(worked).derive(term) or any(term in said for _, said in worked):
        return True
    for count in MULTIPLES:
        if round(term / count, 2) * count == term and evidence.number(term / count, before):
            return True
    lists: dict[int, list[float]] = {}
    results = results_of(trajectory)
    for at, result in results.search("{", before):
        for record in results.records(at, result):
            for value in amounts_of(record):
                lists.setdefault(record.group, []).append(value)
    return any(abs(sum(values) - term) < TOLERANCE for values in lists.values())


@cached_on_run
def sums_of(trajectory: Trajectory) -> tuple[AgentSum, ...]:
    """Return the sums that the agent made in calls and messages, each where it was first made."""
    found = [
        AgentSum(exchange.step, _terms(some))
        for exchange, text in calculations_of(trajectory)
        for some in _SUM.findall(text)
    ]
    for step in trajectory.steps:
        if step.actor == "agent" and "+" in step.text:
            found += [AgentSum(step.index, _terms(some)) for some in _SUM.findall(step.text)]
    first: dict[tuple[float, ...], AgentSum] = {}
    for one in sorted(found):
        if len(one.terms) > 1 and min(one.terms) >= SMALLEST_TERM:
            first.setdefault(one.terms, one)
    return tuple(first.values())[:MOST_SUMS]


@cached_on_run
def _refusals(trajectory: Trajectory) -> tuple[tuple[Exchange, tuple[float, ...]], ...]:
    """Return the failed calls whose answers name several numbers, of equal answers the first."""
    first: dict[str, tuple[Exchange, tuple[float, ...]]] = {}
    for exchange in failed_calls(trajectory):
        text = (exchange.result.error or exchange.result.text) if exchange.result else ""
        if text not in first and len(text) <= REFUSAL_CHARACTERS:
            first[text] = exchange, tuple(dict.fromkeys(quantities(text)))
    return tuple([(exchange, named) for exchange, named in first.values() if len(named) > 1])


def trace_refusals(trajectory: Trajectory) -> Iterator[tuple[Exchange, AgentSum, float]]:
    """Yield the first refusal of each sum of the agent, with the other number that it names."""
    for one in sums_of(trajectory) if _refusals(trajectory) else ():
        for exchange, named in _refusals(trajectory):
            others = [value for value in named if abs(value - one.total) >= TOLERANCE]
            if one.step < exchange.answer_step and len(others) < len(named):
                yield exchange, one, others[0]
                break


@cached_on_run
def find_missing_terms(trajectory: Trajectory) -> list[Fault]:
    """Return the sums that leave out a term of their kind, with the step that shows it."""
    found: list[Fault] = []
    for exchange, one, expected in trace_refusals(trajectory):
        left = round(expected - one.total, 2)
        missing = _missing_record(trajectory, one, left, exchange) if left > 0 else None
        if missing is not None:
            what = next(iter(missing.identifiers), missing.name)
            why = (
                f"adds {one} = {plain_number(round(one.total, 2))} and leaves out "
                f"{plain_number(left)} ({what}, the result at {missing.step}); refused at "
                f"{exchange.answer_step}, where the total is {plain_number(expected)}"
            )
            found.append(Fault(one.step, why, (missing.step, exchange.answer_step)))
    shown = {fault.step for fault in found}
    for one in sums_of(trajectory):
        if one.step not in shown:
            found += _told_as_whole(trajectory, one)
    return found


def _missing_record(
    trajectory: Trajectory, made: AgentSum, value: float, refused: Exchange
) -> ThingRecord | None:
    """Return the latest record that has a value under the field that the terms of a sum have.

    It must stand in one list with a term, or be named in the call that was refused: among many
    records some value fits by chance.
    """
    results = results_of(trajectory)
    fields: list[set[str]] = []
    groups: set[int] = set()
    for term in made.terms:
        fields.append(set())
        for record in results.holding(plain_number(term), made.step):
            if with_term := _fields_with(record, term):
                fields[-1] |= with_term
                groups.add(record.group)
    shared = set.intersection(*fields)
    given = str(refused.call.arguments)
    for record in reversed(results.holding(plain_number(value), made.step)):
        if shared & _fields_with(record, value) and (
            record.group in groups or any(name in given for name in record.identifiers)
        ):
            return record
    return None


def _fields_with(record: ThingRecord, value: float) -> set[str]:
    return {
        key
        for key, one in record.fields.items()
        if isinstance(one, int | float)
        and not isinstance(one, bool)
        and abs(one - value) < TOLERANCE
    }


def _told_as_whole(trajectory: Trajectory, made: AgentSum) -> Iterator[Fault]:
    """Yield a sum over part of a list that the agent tells as that of the list."""
    steps, total = trajectory.steps, plain_number(round(made.total, 2))
    later = [s for s in steps[made.step :] if s.actor == "agent" and total in _plain(s.text)]
    told = [
        (step.index, sentence)
        for step in later
        for sentence in _SENTENCE.findall(step.text)
        if total in _plain(sentence) and _WHOLE.search(sentence) and not _PART.search(sentence)
    ]
    if not told or any(s.actor == "user" and _PART.search(s.text) for s in steps[: told[-1][0]]):
        return
    groups: dict[int, list[ThingRecord]] = {}
    for record in results_of(trajectory).holding(plain_number(made.terms[0]), made.step):
        groups.setdefault(record.group, []).append(record)
    terms = Counter(round(term, 2) for term in made.terms)
    for members in groups.values():
        names = [v for v in members[0].owner.values() if isinstance(v, str) and len(v) > 4]
        where = [at for at, sentence in told if any(name in sentence for name in names)]
        held = Counter(round(value, 2) for record in members for value in amounts_of(record)[:1])
        if where and terms < held and len(members) <= LONGEST_LIST:
            left = " + ".join(map(plain_number, sorted((held - terms).elements())))
            at = members[0].step
            why = f"tells {made} as the whole, and leaves out {left} (the result at {at})"
            yield Fault(made.step, why, (at, where[0]))
            return


def _plain(text: str) -> str:
    return text.replace(",", "")
