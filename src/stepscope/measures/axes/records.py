"""The records that results hold: one thing each, with its fields, its name and what it is part of.

A record is an object of a decoded result; objects of single values inside it (`options`, `prices`)
are fields of its own, lists and maps of objects are records that it owns. A text means a record
where it holds the record's identifier, every one of its options, or a name that no other record
has; what fits several records means none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice, zip_longest
from typing import NamedTuple

from stepscope.measures.axes.evidence import HIT_CHARACTERS, SEARCHED
from stepscope.measures.axes.quantities import (
    QUANTITIES,
    TOLERANCE,
    AgentMessage,
    ToldAmount,
    decode_result,
    plain_number,
    told_identifiers,
    values_named,
    word_stem,
    words_around,
)
from stepscope.measures.calls import agent_calls, has_succeeded
from stepscope.measures.outcome import subgoal_calls
from stepscope.measures.rule import Fault, cached_on_run
from stepscope.measures.same_calls import equal_json
from stepscope.model import Case, Exchange, Json, ToolResult, Trajectory
from stepscope.model.effects import words_of

# A record's own text before an amount: from the amount before it, at most so many characters.
DESCRIBED_CHARACTERS = 320
# An object in JSON is rarely longer: around an identifier, its own quantities stand within this.
RECORD_CHARACTERS = 400
# Of larger results no records are made: with thousands of things, words fit one by chance.
MOST_RECORDS = 400
# What an amount is called that is the price of one thing.
PRICES = frozenset({"", "price", "cost", "fare"})

_SCALARS = frozenset({str, int, float, bool, type(None)})
# A numbered entry of a list, at the edge of the text.
_ENTRY = re.compile(r"\d+[.)] ")
_TOKEN = re.compile(r"[a-z]+|\d+(?:\.\d+)?")


class ThingRecord(NamedTuple):
    """One record: step of the result, its single values, its name, and the record it is part of."""

    step: int
    fields: dict[str, Json]  # nested objects of single values by "outer.inner"
    name: str  # its own, or that of the record it is part of
    owner: dict[str, Json]  # fields of the record that it is part of
    group: int  # the same for the members of one list or map
    identifiers: tuple[str, ...]  # of its own fields: #W2378156, 1151293680


class ResultReader:
    """Every result of a run, by step; each is decoded once, when it is first asked."""

    def __init__(self, answered: Sequence[tuple[int, ToolResult]]) -> None:
        """Keep the results; nothing is decoded yet."""
        self.all = answered
        self._decoded: dict[int, Json] = {}
        self._records: dict[int, list[ThingRecord]] = {}
        self._options: dict[int, tuple[str, ...]] = {}
        self._left = SEARCHED

    def value(self, result: ToolResult) -> Json:
        """Return what a result of this run says, None where it is no JSON."""
        key = id(result)
        if key not in self._decoded:
            self._decoded[key] = decode_result(result)
        return self._decoded[key]

    def values(self, name: str, result: ToolResult, most: int) -> list[float]:
        """Return the values of a name in a result, no more than one above `most`."""
        if result.status == "error" or name not in result.text:
            return []
        return values_named(name, self.value(result), most)

    def records(self, step: int, result: ToolResult) -> list[ThingRecord]:
        """Return the records of a result; none of one with very many."""
        key = id(result)
        if key not in self._records:
            found = list(islice(_records_in(self.value(result), step), MOST_RECORDS + 1))
            self._records[key] = found if len(found) <= MOST_RECORDS else []
        return self._records[key]

    def options(self, record: ThingRecord) -> tuple[str, ...]:
        """Return the words of a record's options that a text must have, found once."""
        key = id(record.fields)
        if key not in self._options:
            self._options[key] = _options_of(record)
        return self._options[key]

    def holding(self, text: str, before: int) -> list[ThingRecord]:
        """Return the records of the results before a step that hold a text.

        None of a run that is too long to search for every value.
        """
        return [
            record
            for step, result in self.search(text, before)
            if result.status != "error"
            for record in self.records(step, result)
        ]

    def search(self, text: str, before: int) -> list[tuple[int, ToolResult]]:
        """Return the results before a step that hold a text."""
        found = []
        for step, result in self.all:
            if step >= before or self._left <= 0:
                break
            said = result.text
            self._left -= HIT_CHARACTERS + len(said)
            if text in said:
                found.append((step, result))
        return found


@cached_on_run
def results_of(trajectory: Trajectory) -> ResultReader:
    """Return the reader of a run's results, one for all measures that ask."""
    return ResultReader(
        [
            (x.result_step, x.result)
            for x in trajectory.exchanges
            if x.result is not None and x.result_step is not None
        ]
    )


def _records_in(value: Json, step: int) -> Iterator[ThingRecord]:
    waiting: list[tuple[Json, str, dict[str, Json], int]] = [(value, "", {}, 0)]
    while waiting:
        here, name, owner, group = waiting.pop()
        if isinstance(here, list):
            waiting += [(m, name, owner, id(here)) for m in here if type(m) in (dict, list)]
            continue
        if not isinstance(here, dict):
            continue
        fields: dict[str, Json] = {}
        parts: list[Json] = []
        for key, one in here.items():
            kind = type(one)
            if kind is dict and one and all(type(x) in _SCALARS for x in one.values()):
                parts.append((key, one))
            elif kind is dict or kind is list:
                parts.append(one)
            elif one is not None:
                fields[key] = one
        if not fields and all(type(one) is dict for one in here.values()):
            waiting += [(member, name, owner, id(here)) for member in here.values()]
            continue
        own = str(fields.get("name") or fields.get("title") or name)
        for part in parts:
            if type(part) is tuple:
                fields |= {f"{part[0]}.{inner}": x for inner, x in part[1].items()}
            else:
                waiting.append((part, own, fields, id(part)))
        if fields:
            yield ThingRecord(step, fields, own, owner, group, _identifiers(fields))


def amounts_of(record: ThingRecord) -> list[float]:
    """Return the quantities of money of a record; counts and truth values are none."""
    return [
        abs(float(value))
        for key, value in record.fields.items()
        if type(value) in (int, float) and _is_money(key)
    ]


@lru_cache(maxsize=4096)
def _is_money(key: str) -> bool:
    named = {word_stem(word) for part in key.split(".") for word in words_of(part)[-1:]}
    return "amount" in named or not QUANTITIES.isdisjoint(named)


def _identifiers(fields: dict[str, Json]) -> tuple[str, ...]:
    return tuple(
        [
            value
            for key, value in fields.items()
            if type(value) is str and len(value) > 4 and _names_a_thing(key) and _HAS_DIGIT(value)
        ]
    )


_HAS_DIGIT = re.compile(r"\d").search


@lru_cache(maxsize=4096)
def _names_a_thing(key: str) -> bool:
    return words_of(key)[-1:] in (["id"], ["number"], ["code"])


def _options_of(record: ThingRecord) -> tuple[str, ...]:
    """Return the words of a record's options that a text must have; none of fewer than two."""
    needed: list[str] = []
    options = [(k, str(v).casefold()) for k, v in record.fields.items() if k.startswith("options.")]
    for key, said in options if len(options) > 1 else ():
        words = _TOKEN.findall(said) if said != "none" else []
        if said in ("yes", "no"):
            words = [("+" if said == "yes" else "-") + words_of(key.partition(".")[2])[-1]]
        # A unit is written in many ways: "4 ft", "4-foot".
        needed += words[:1] if words and words[0][0].isdigit() else words
    return tuple(needed)


def _has_option(word: str, words: set[str], entry: str) -> bool:
    """True if an entry has a word of an option; "+" before it: says yes to it, "-": does not."""
    if word[0] in "+-":
        name = word[1:]
        no = re.search(rf"\b(?:non?|not|without)[- ]{name}|\b{name}\W+(?:no|false)\b", entry)
        if no is not None and entry.count(name) > 1:
            return False
        return (name in words and no is None) == (word[0] == "+")
    return word in words or (len(word) > 4 and word in entry)


def stands_behind_identifier(
    thing: str, value: float, before: int, results: Sequence[tuple[int, ToolResult]]
) -> bool:
    """True if an amount stands behind an identifier: then nothing need be decoded."""
    digits = f" {value:.2f}".rstrip("0").rstrip(".")
    for step, result in results:
        text = result.text if step < before else ""
        at = text.find(thing)
        while at >= 0:
            # Where the next record begins, as far as its first key tells.
            following = text.find("_id", at)
            end = len(text) if following < 0 else following
            if 0 <= text.find(digits, at, at + RECORD_CHARACTERS) < end:
                return True
            at = text.find(thing, at + 1)
    return False


def _meant(
    amount: ToldAmount, records: Sequence[ThingRecord], results: ResultReader
) -> list[ThingRecord]:
    """Return the records of the one thing that an amount is told of; none where it is open which.

    An identifier on its line says it (behind the amount before, else just behind this one); else
    all options of one thing in its entry of a list; else a name close before it.
    """
    text, begin = amount.text, amount.text.rfind("\n", 0, amount.start) + 1
    before = text[max(begin, amount.open) : amount.start]
    behind = text[amount.end :].partition("\n")[0].partition("$")[0]
    for here in (before, behind):
        by_id = [r for r in records if r.identifiers and r.identifiers[0] in here]
        if by_id:
            return by_id if len({r.identifiers[0] for r in by_id}) == 1 else []
    if told_identifiers(amount.line):
        return []
    entry = text[max(_entry_start(text, begin), amount.open) : amount.start].casefold()
    words = set(_TOKEN.findall(entry))
    found = [
        record
        for record in records
        if (options := results.options(record))
        and all(_has_option(word, words, entry) for word in options)
    ]
    if found:
        # Two things of one name stand here: which options are whose is open.
        if found[0].name and entry.count(found[0].name.casefold()) > 1:
            return []
        return found if len({record.identifiers for record in found}) == 1 else []
    names = {r.name for r in records if len(r.name) > 3 and r.name.casefold() in entry}
    named = [r for r in records if r.name in names and amounts_of(r)]
    # Of several things of one name it is open which.
    return named if len({tuple(amounts_of(record)) for record in named}) == 1 else []


def _entry_start(text: str, begin: int) -> int:
    """Return where the entry of a list begins that a line, which begins at `begin`, belongs to."""
    start = begin
    while start > 0 and begin - start < DESCRIBED_CHARACTERS and not _ENTRY.match(text, start):
        above = text.rfind("\n", 0, start - 1) + 1
        if "$" in text[above : start - 1] or not text[above : start - 1].strip():
            break
        start = above
    return start


def find_misread_things(
    message: AgentMessage, told: Sequence[ToldAmount], results: ResultReader
) -> Iterator[Fault]:
    """Yield the prices told of one thing that are another one's."""
    step = message.step.index
    for amount in told:
        if _name_before(amount) not in PRICES or any(
            stands_behind_identifier(thing, amount.value, step, results.all)
            for thing in told_identifiers(amount.line)
        ):
            continue
        near = results.holding(plain_number(amount.value), step)
        things = _meant(amount, near, results)
        true = sorted({value for thing in things for value in amounts_of(thing)})
        if not true or any(abs(value - amount.value) < TOLERANCE for value in true):
            continue
        holder = next(
            (r for r in near if any(abs(v - amount.value) < TOLERANCE for v in amounts_of(r))), None
        )
        if holder is None:
            continue
        said = " or ".join(f"{value:,.2f}" for value in true[:3])
        thing = things[-1]
        what = next(iter(thing.identifiers), thing.name)
        why = (
            f"tells {amount.value:,.2f} for {what}, the result at {thing.step} says {said}; "
            f"{amount.value:,.2f} is of {next(iter(holder.identifiers), 'another record')}"
        )
        yield Fault(step, why, tuple(sorted({thing.step, holder.step})))


def _name_before(amount: ToldAmount) -> str:
    """Return the nearest quantity that an amount is called, "" without one."""
    for word in words_around(amount):
        stem = word_stem(word)
        for name in (word, stem, f"{stem}e"):
            if name in QUANTITIES:
                return name
        if stem in ("sav", "save", "cheap", "cheaper", "more", "les", "less", "lower", "higher"):
            return "difference"
    return ""


def find_reference_differences(trajectory: Trajectory, case: Case | None) -> Iterator[Fault]:
    """Yield the writes that differ from the one that the case expects, each at its call.

    Not where the outcome's check passed, and not where the user's words name the value given: whom
    the agent obeys is then the user's matter.
    """
    if case is None or not case.subgoals or trajectory.outcome.status == "pass":
        return
    pairs = subgoal_calls(case, trajectory)
    made = agent_calls(trajectory)
    tools = {goal.tool for goal, at in zip(case.subgoals, pairs, strict=True) if at is None}
    free = {
        x.key: x
        for at, x in enumerate(made)
        if x.call.name in tools
        and at not in pairs
        and has_succeeded(x)
        and isinstance(x.call.arguments, dict)
    }
    for goal, at in zip(case.subgoals, pairs, strict=True):
        tries = [x for x in free.values() if x.call.name == goal.tool] if at is None else []
        if not tries:
            continue
        nearest = min(tries, key=lambda x: len(_lacks(x.call.arguments, goal.arguments)))
        lacks = _lacks(nearest.call.arguments, goal.arguments)
        # With nothing in common it is another write, not this one done wrongly.
        shared = [key for key in goal.arguments if key not in {key for key, _, _ in lacks}]
        if not lacks or (len(goal.arguments) > 1 and not shared):
            continue
        if any(_is_users(trajectory, nearest, given, wanted) for _, given, wanted in lacks):
            continue
        del free[nearest.key]
        said = "; ".join(_describe(*lack) for lack in lacks[:2])
        more = f" and {len(lacks) - 2} more differ" if len(lacks) > 2 else ""
        yield Fault(nearest.step, f"{goal.tool}: {said}{more} (the case's expected call)")


def _describe(key: str, given: Json, wanted: Json) -> str:
    if given is None:
        return f"{key} lacks {wanted!r}"
    return f"{key} {given!r}, expected {'none' if wanted is None else repr(wanted)}"


def _lacks(given: Json, wanted: Json, key: str = "") -> list[tuple[str, Json, Json]]:
    """Return the single values in which arguments differ from expected ones: name, both values."""
    if isinstance(given, dict) and isinstance(wanted, dict):
        pairs = [(key or name, given.get(name), one) for name, one in wanted.items()]
    elif isinstance(given, list) and isinstance(wanted, list):
        extra = [one for one in given if not any(equal_json(one, x) for x in wanted)]
        missing = [one for one in wanted if not any(equal_json(one, x) for x in given)]
        pairs = [(key, one, other) for one, other in zip_longest(extra, missing)]
    else:
        return [] if equal_json(given, wanted) else [(key, given, wanted)]
    return [lack for name, one, other in pairs for lack in _lacks(one, other, name)]


_PLAIN = re.compile(r"[^\W_]+")


def _is_users(trajectory: Trajectory, exchange: Exchange, given: Json, wanted: Json) -> bool:
    """True if the user's latest words that name one of two values name the one given."""
    names = [_names_of(value, trajectory, exchange.step) for value in (given, wanted)]
    # "My card" names neither of two cards.
    names = [some - other for some, other in (names, names[::-1])]
    for step in reversed(trajectory.steps[: exchange.step]):
        words = (
            f" {' '.join(_PLAIN.findall(step.text.casefold()))} " if step.actor == "user" else ""
        )
        named = [any(f" {name} " in words for name in some) for some in names]
        if any(named):
            return named[0]
    return False


def _names_of(value: Json, trajectory: Trajectory, before: int) -> set[str]:
    """Return how people name a value: gift_card_6941833 by itself, "gift card", its last digits."""
    if value is None or isinstance(value, bool | dict | list):
        return set()
    text = plain_number(value) if isinstance(value, int | float) else str(value)
    words = _PLAIN.findall(text.casefold())
    found = {" ".join(words)} - {""}
    if "_" in text and words[-1].isdigit():
        found.add(" ".join(words[:-1]))
        for record in results_of(trajectory).holding(text, before):
            if text in record.fields.values():
                found |= {
                    str(one) for key, one in record.fields.items() if words_of(key)[:1] == ["last"]
                }
    return found
