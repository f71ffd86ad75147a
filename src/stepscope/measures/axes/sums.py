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
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from stepscope.measures.axes.evidence import Evidence, evidence_of, shares_in
from stepscope.measures.axes.quantities import (
    AMOUNT_NAME,
    MULTIPLES,
    SMALLEST_TERM,
    TOLERANCE,
    AgentMessage,
    StatedNumbers,
    ToldAmount,
    amounts_told,
    follows_in_message,
    names_in,
    plain_number,
    quantities,
)
from stepscope.measures.axes.records import ThingRecord, results_of
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
    r"(?i)\b(?:all|altogether|totals?|total(?:ing|ling)|add(?:s|ed)? up|together|sum|whole|entire|"
    r"overall|every(?:thing)?|comes? to|makes?|amounts? to|combined|complete|"
    r"(?:the|these) \d\d? [a-z]+)\b"
)
_PART = re.compile(
    r"(?i)\b(?:without|except|exclud\w+|leav\w+ (?:\w+ ){0,4}out|other than|apart from|besides|"
    r"not including|remaining|minus|skip\w*)\b"
)
_COUNT = re.compile(r"\b(\d\d?) (?:\w+ )?[a-z]+s\b")
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
# Of so many equal parts one may be told: "$12.50 each", "$49 per night".
EQUAL_PARTS = tuple(1 / n for n in range(2, 13))
_EACH = re.compile(r"\b(?:each|apiece|average|equal\w*|per|instal\w+|monthly|every)\b", re.I)
# "10% off", "half of it"; in a calculation 100 is then a unit.
_PERCENT = re.compile(r"/ ?100(?![\d.])")


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
            short = isinstance(text, str) and len(text) <= EXPRESSION_CHARACTERS
            if short and _ARITHMETIC.fullmatch(text) and _RESULT.fullmatch(result.text.strip()):
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
            rate = term < SMALLEST_TERM and term != int(term)
            checked += term >= SMALLEST_TERM or rate
            if not rate and (term < SMALLEST_TERM or (term == 100 and _PERCENT.search(text))):
                continue
            before = exchange.step
            if evidence.number(term, before) is not None or (
                rate and (evidence.holds("percent", before) or evidence.says_share(term, before))
            ):
                continue
            sought += 1
            if evidence.why_unknown(exchange.step) or sought > MOST_TERMS:
                return checked, faults
            if not _is_worked_out(trajectory, evidence, term, exchange.step, exact=rate):
                why = f"{exchange.call.name}: {plain_number(term)} in {text!r} comes from nowhere"
                faults.append(Fault(exchange.step, why))
    return checked, faults


def _is_worked_out(
    trajectory: Trajectory, evidence: Evidence, term: float, before: int, *, exact: bool
) -> bool:
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
    same = any(term in said for _, said in worked)
    if same or exact or StatedNumbers(worked).derive(term):
        return same or not exact
    for count in MULTIPLES:
        if round(term / count, 2) * count == term and evidence.number(term / count, before):
            return True
    lists: dict[int, list[float]] = {}
    results = results_of(trajectory)
    for at, result in results.search("{", before):
        for record in results.records(at, result):
            lists.setdefault(record.group, []).extend(record.amounts)
    return any(abs(sum(values) - term) < TOLERANCE for values in lists.values())


@cached_on_run
def sums_of(trajectory: Trajectory) -> tuple[AgentSum, ...]:
    """Return the sums that the agent made in calls and messages, each where it was first made."""
    found: list[AgentSum] = []
    adding = {x.step for x in trajectory.exchanges if "+" in x.key}
    for step in trajectory.steps:
        if step.actor == "agent":
            said = trajectory.texts[step.index]
            if step.replayed or step.index in adding:
                said = "\n".join([said, *(str(call.arguments) for call in step.calls)])
            if "+" in said:
                found += [AgentSum(step.index, _terms(some)) for some in _SUM.findall(said)]
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
    short = [x for x in find_short_totals(trajectory) if trajectory.steps[x.step].calls]
    return found + [fault for fault in short if fault.step not in shown]


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
        if type(one) in (int, float) and abs(one - value) < TOLERANCE
    }


@cached_on_run
def find_short_totals(trajectory: Trajectory) -> list[Fault]:
    """Return totals told that lack one member of a list of results, each where it first arose.

    Shown by a refusal that names both totals, by the members told before it in the same message, or
    by a sentence that names what the list is part of and means all of it.
    """
    found: list[Fault] = []
    evidence, results, sums = evidence_of(trajectory), results_of(trajectory), sums_of(trajectory)
    for step, told in amounts_told(trajectory):
        for at, amount in enumerate(told):
            adds = [x for x in sums if abs(x.total - amount.value) < TOLERANCE]
            if not adds and evidence.number(amount.value, step.index) is not None:
                continue
            sentence = amount.sentence
            whole = _WHOLE.search(sentence) is not None
            if at < 2 and not whole:
                continue
            said = Counter(one.value for one in told[:at])
            sought = {plain_number(told[at - 1].value)} if at > 1 else set()
            sought.update(names_in(sentence) if whole else ())
            sought.update(plain_number(x.terms[0]) for x in adds)
            for _, some in _refusals(trajectory):
                if amount.value in some:
                    sought.update(plain_number(round(one - amount.value, 2)) for one in some)
            records = [one for text in sorted(sought) for one in results.holding(text, step.index)]
            for members in _lists(records):
                values = [record.amounts[0] for record in members]
                left = round(sum(values) - amount.value, 2)
                if left not in values:
                    continue
                both = {amount.value, round(sum(values), 2)}
                refused = [x.answer_step for x, named in _refusals(trajectory) if both <= {*named}]
                # Who names some of them does not mean all of them.
                parts = named_quantities_of(members, sentence)
                count = _COUNT.search(sentence)
                heard = (s.text for s in trajectory.steps[: step.index] if s.actor == "user")
                part = any(map(_PART.search, (sentence, *heard))) or 0 < len(parts) < len(members)
                part = part or (count is not None and int(count[1]) != len(members))
                named = whole and any(one in sentence for one in members[0].owners)
                if max(refused, default=0) > step.index or (
                    not part and (named or Counter(values) <= said)
                ):
                    one = members[values.index(left)]
                    why = (
                        f"says {amount.value:,.2f} as the whole, and leaves out "
                        f"{plain_number(left)} ({next(iter(one.identifiers), one.name)}, the "
                        f"result at {one.step})"
                    )
                    first = adds[0].step if adds else step.index
                    found.append(Fault(first, why, (one.step, step.index, *refused[:1])))
                    break
    return found


def named_quantities_of(members: Sequence[ThingRecord], text: str) -> list[float]:
    """Return the quantities of the members of a list that a text names."""
    named = [r for r in members if any(one and one in text for one in (r.name, *r.identifiers))]
    return [record.amounts[0] for record in named]


@cached_on_run
def lists_of(trajectory: Trajectory) -> list[list[ThingRecord]]:
    """Return the lists in results whose members, two at least, have one quantity of money each."""
    return _lists(results_of(trajectory).holding("", len(trajectory.steps)))


def _lists(records: Sequence[ThingRecord]) -> list[list[ThingRecord]]:
    groups: dict[int, dict[int, ThingRecord]] = {}
    for record in records:
        groups.setdefault(record.group, {})[id(record)] = record
    return [
        list(members.values())
        for members in groups.values()
        if 1 < len(members) <= LONGEST_LIST and all(len(r.amounts) == 1 for r in members.values())
    ]


def find_untraced_amounts(
    trajectory: Trajectory, message: AgentMessage, *, found: Sequence[ToldAmount], sound: set[float]
) -> Iterator[Fault]:
    """Yield amounts without a source; `sound` collects the amounts that follow.

    An amount that followed once may be told again.
    """
    step = message.step.index
    cites = tuple({at for at, _ in message.news[-1:]})
    evidence = evidence_of(trajectory)
    recent = message.news[0][0] - 1 if message.news else step
    values = dict.fromkeys(amount.value for amount in found)
    said = f"{message.asked} {message.text}"
    for value in [one for one in values if one not in sound]:
        if (
            evidence.number(value, step) is not None
            or follows_in_message(value, [other for other in values if other != value])
            # The latest results first: mostly it follows from them.
            or evidence.derive(value, step, recent) is not None
            or evidence.derive(value, step) is not None
            or _adds_up_charges(trajectory, value, step)
            or evidence.has_share(value, step, TOLERANCE + 1e-6, shares_in(message.text))
            or (
                _EACH.search(said)
                and evidence.has_share(value, step, TOLERANCE + 1e-6, EQUAL_PARTS)
            )
            or any(
                round(sum(named) - value, 2) in (0, *named)
                for members in lists_of(trajectory)
                if len(named := named_quantities_of(members, said)) > 2
            )
        ):
            sound.add(value)
        elif not evidence.why_unknown(step):
            yield Fault(step, f"says {value:,.2f}, which follows from nothing before", cites)


def _adds_up_charges(trajectory: Trajectory, value: float, before: int) -> bool:
    """True if a total adds up the amounts of several records."""
    results = results_of(trajectory)
    charges = [
        record.fields.get(AMOUNT_NAME, 0)
        for step, result in results.search(AMOUNT_NAME, before)
        for record in results.records(step, result)
    ]
    known = [float(one) for one in charges if type(one) in (int, float) and one > 0]
    return follows_in_message(value, list(dict.fromkeys(known)))
