"""The records that results hold: one thing each, with its fields, its name and what it is part of.

A record is an object of a decoded result; objects of single values inside it (`options`, `prices`)
are fields of its own, lists and maps of objects are records that it owns. A text means a record
where it holds the record's identifier, every one of its options, or a name that no other record
has; what fits several records means none.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, islice, zip_longest
from typing import NamedTuple, TypeAlias

from stepscope.measures.axes.evidence import HIT_CHARACTERS, SEARCHED
from stepscope.measures.axes.quantities import (
    MULTIPLES,
    NAME_CHARACTERS,
    QUANTITIES,
    TOLERANCE,
    AgentMessage,
    ToldAmount,
    decode_result,
    follows_in_message,
    named_quantities,
    names_in,
    plain_number,
    word_stem,
)
from stepscope.measures.calls import agent_calls, effect_of, has_succeeded
from stepscope.measures.conduct import find_decision
from stepscope.measures.outcome import subgoal_calls
from stepscope.measures.rule import Fault, cached_by_text, cached_on_run
from stepscope.measures.same_calls import equal_json
from stepscope.model import Case, Exchange, Json, ToolResult, Trajectory
from stepscope.model.effects import words_of

# A record's own text before an amount: from the amount before it, at most so many characters.
DESCRIBED_CHARACTERS = 320
# A kind that things are of, as programs write it: "pending", "basic_economy".
_KIND = re.compile(r"[a-z]{4,}(?:[ _][a-z]+){0,2}")
# So many words before an amount name nothing: "It is $5".
ANSWER_WORDS = 4
# Of larger results no records are made: with thousands of things, words fit one by chance.
MOST_RECORDS = 400
# What an amount is called that is the price of one thing.
PRICES = frozenset({"", "price", "cost", "fare"})
# What it is called that was paid for it, or paid back.
PAYMENTS = frozenset({"paid", "pay", "payment", "charge", "total", "refund"})

# A thing is looked for in this many results before a step: cost stays linear.
LATEST_RESULTS = 40
# In longer results only the latest of those that name a thing are looked for.
SEARCHED_AT_ONCE = 1_000_000

_FLAT = frozenset({str, int, float, bool})
_SCALARS = _FLAT | {type(None)}
_NESTED = frozenset((dict, list))
# A numbered entry of a list, at the edge of the text.
_ENTRY = re.compile(r"\d+[.)] ")
_TOKEN = re.compile(r"[a-z]+|\d+(?:\.\d+)?")


class ThingRecord(NamedTuple):
    """One record: step of the result, its single values, its name, and the record it is part of."""

    step: int
    fields: dict[str, Json]  # nested objects of single values by "outer.inner"
    name: str  # its own, or that of the record it is part of
    group: int  # the same for the members of one list or map
    identifiers: tuple[str, ...]  # of its own fields: #W2378156, 1151293680
    owners: tuple[str, ...]  # identifiers of the record that it is part of
    amounts: tuple[float, ...]  # its quantities of money; counts and truth values are none
    options: tuple[str, ...]  # words that a text must have of what is priced; none of one option


# Names of things: W2378156, 4OG6T3, gift_card_6941833; no dates.
_THING_NAME = re.compile(r"(?<![\w-])(?!\d{4}-\d\d-)(?=\w*\d)\w[\w-]{4,30}\b|\b[A-Z]{5,8}\b")
# A name lies within one word: words are found some times faster, and names of a word kept.
_THING_WORD, _ASCII_THING_WORD = re.compile(r"[\w-]{5,}"), re.compile(r"[\w-]{5,}", re.ASCII)


@cached_by_text
def things_in(text: str) -> tuple[str, ...]:
    """Return what may be names of things in a text, in order."""
    words = (_ASCII_THING_WORD if text.isascii() else _THING_WORD).findall(text)
    found = [name for word in words if len(word) < NAME_CHARACTERS for name in _things_of(word)]
    return tuple(found)


@lru_cache(maxsize=16_384)
def _things_of(word: str) -> tuple[str, ...]:
    return tuple(_THING_NAME.findall(word))


Results: TypeAlias = Sequence[tuple[int, ToolResult]]


class ResultReader:
    """Every result of a run, by step; each is decoded once, when it is first asked."""

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        answered = [x for x in exchanges if x.result is not None and x.result_step is not None]
        self.all = [(x.answer_step, x.result) for x in answered if x.result is not None]
        self._steps = [step for step, _ in self.all]
        self._given = {id(x.result): x.call.arguments for x in answered}
        self._answered = answered
        self._changes: dict[str, list[int]] | None = None  # thing, "" for all, -> steps of changes
        self._decoded: dict[int, Json] = {}
        self._records: dict[int, list[ThingRecord]] = {}
        self._parts: dict[int, dict[str, list[ThingRecord]]] = {}
        self._latest: dict[str, list[ThingRecord]] = {}  # before the result of this index:
        self._latest_end = 0
        self._names: dict[int, tuple[set[str], set[str], bool]] = {}
        self._found: dict[str, list[int]] = {}
        self._kinds: dict[str, set[str]] = {}
        self._beside: dict[str, set[str]] | None = None
        self._text = ""
        self._named: dict[int, tuple[set[str], set[str], bool]] = {}
        self._left = SEARCHED
        self._joined: tuple[str, list[int]] | None = None

    def value(self, result: ToolResult) -> Json:
        """Return what a result of this run says, None where it is no JSON."""
        key = id(result)
        if key not in self._decoded:
            self._decoded[key] = decode_result(result)
        return self._decoded[key]

    def arguments(self, result: ToolResult) -> Json:
        """Return what the call was given that a result answers."""
        return self._given.get(id(result))

    def may_have_changed(self, thing: str, after: int, before: int) -> bool:
        """True if a call between two steps may have changed a thing; of "", any."""
        if self._changes is None:
            self._changes = {"": []}
            for x in self._answered:
                if has_succeeded(x) and effect_of(x.call.name, None) != "read":
                    for one in {"", *things_in(str(x.call.arguments))}:
                        self._changes.setdefault(one, []).append(x.answer_step)
        steps = self._changes.get(thing, [])
        return bisect_right(steps, after) < bisect_left(steps, before)

    def values(self, name: str, result: ToolResult, most: int) -> list[float]:
        """Return the different values of a name in a result, no more than one above `most`."""
        if result.status == "error" or name not in result.text:
            return []
        found: set[float] = set()
        for names, number in named_quantities(self.value(result)):
            if name in names:
                found.add(number)
                if len(found) > most:
                    break
        return sorted(found)

    def records(self, step: int, result: ToolResult) -> list[ThingRecord]:
        """Return the records of a result; none of one with very many."""
        key = id(result)
        if key not in self._records:
            found = list(islice(_records_in(self.value(result), step), MOST_RECORDS + 1))
            self._records[key] = found if len(found) <= MOST_RECORDS else []
        return self._records[key]

    def parts(self, thing: str, step: int, result: ToolResult) -> list[ThingRecord]:
        """Return the records of a result that are a thing, or part of it."""
        of = self._parts.get(id(result))
        if of is None:
            of = self._parts[id(result)] = {}
            for record in self.records(step, result):
                for name in record.identifiers + record.owners:
                    same = of.setdefault(name.lstrip("#"), [])
                    if not same or same[-1] is not record:
                        same.append(record)
        return of.get(thing, [])

    def parts_before(self, thing: str, before: int) -> list[ThingRecord]:
        """Return what the latest results before a step have of a thing, the latest first."""
        if (last := self.before(before)) != self._latest_end:
            self._latest_end, self._latest = last, {}
        found = self._latest.get(thing)
        if found is None:
            found = self._latest[thing] = [
                record
                for step, result in islice(self.about(thing, before), LATEST_RESULTS)
                if result.status != "error"
                for record in self.parts(thing, step, result)
            ]
        return found

    def holding(self, text: str, before: int) -> list[ThingRecord]:
        """Return the records of the results before a step that hold a text.

        None of a run that is too long to search for every value.
        """
        return [record for one in self.search(text, before) for record in self.records(*one)]

    def naming(self, found: Results, text: str) -> tuple[set[str], set[str], bool]:
        """Return what names of records a text has, and if any has options; kept for the next."""
        if text != self._text:
            self._text, self._named = text, {}
        ids, names, options = set[str](), set[str](), False
        for step, result in found:
            said = self._named.get(id(result))
            if said is None:
                if id(result) not in self._names:
                    records = self.records(step, result)
                    self._names[id(result)] = (
                        {one for r in records for one in (*r.identifiers, *r.owners)},
                        {name.casefold() for name in {r.name for r in records} if len(name) > 3},
                        any([r.options for r in records]),
                    )
                (mine, called, optional), lower = self._names[id(result)], text.casefold()
                said = self._named[id(result)] = (
                    {one for one in mine if one in text},
                    {one for one in called if one in lower},
                    optional,
                )
            ids |= said[0]
            names |= said[1]
            options |= said[2]
        return ids, names, options

    def others_than(self, key: str, value: str) -> set[str]:
        """Return what a field may say instead of a value, as far as the results show.

        What it says in other records, and the other keys of maps that have the value as a key.
        """
        if key not in self._kinds:
            records = [r for one in self.all[:MOST_RECORDS] for r in self.records(*one)]
            if self._beside is None:
                self._beside = {}
                for inners in {x for r in records for x in _keys_of(tuple(r.fields)).inner}:
                    for inner in inners:
                        self._beside.setdefault(inner, set()).update(inners)
            texts = {r.fields.get(key) for r in records}
            known = {x for x in texts if type(x) is str and x.islower() and _KIND.fullmatch(x)}
            self._kinds[key] = known.union(*[self._beside.get(said, ()) for said in known])
        return self._kinds[key] - {value}

    def before(self, step: int) -> int:
        """Return how many results there are before a step."""
        return bisect_left(self._steps, step)

    def know(self, thing: str, before: int) -> bool:
        """True if a result before a step names a thing."""
        if len(self._texts()[0]) > SEARCHED_AT_ONCE:
            return next(self.about(thing, before), None) is not None
        return next(iter(self._holders(thing)), len(self.all)) < self.before(before)

    def about(self, thing: str, before: int) -> Iterator[tuple[int, ToolResult]]:
        """Yield the results before a step that name a thing, the latest first."""
        text, starts = self._texts()
        last = self.before(before)
        if len(text) <= SEARCHED_AT_ONCE:
            for found in reversed(self._holders(thing)):
                if found < last:
                    yield self.all[found]
            return
        end = starts[last]
        while self._left > 0 and (at := text.rfind(thing, 0, end)) >= 0:
            self._left -= HIT_CHARACTERS + end - at
            found = bisect_right(starts, at) - 1
            yield self.all[found]
            end = starts[found]
        self._left -= HIT_CHARACTERS + end

    def search(self, text: str, before: int) -> Results:
        """Return the results before a step that hold a text and are no errors."""
        last = self.before(before)
        found = [self.all[at] for at in self._holders(text) if at < last]
        return [one for one in found if one[1].status != "error"]

    def _holders(self, text: str) -> list[int]:
        """Return which results hold a text, in order; looked for once."""
        found = self._found.get(text)
        if found is None:
            found, at = self._found.setdefault(text, []), 0
            said, starts = self._texts()
            self._left -= HIT_CHARACTERS + len(said)
            while self._left > 0 and (at := said.find(text, at)) >= 0 and at < starts[-1]:
                found.append(bisect_right(starts, at) - 1)
                at = starts[found[-1] + 1]
        return found

    def _texts(self) -> tuple[str, list[int]]:
        """Return all results as one text, and where each begins."""
        if self._joined is None:
            texts = [result.text for _, result in self.all]
            ends = accumulate([len(text) + 1 for text in texts], initial=0)
            self._joined = "\0".join([*texts, ""]), list(ends)
        return self._joined


@cached_on_run
def results_of(trajectory: Trajectory) -> ResultReader:
    """Return the reader of a run's results, one for all measures that ask."""
    return ResultReader(trajectory.exchanges)


def _records_in(value: Json, step: int) -> Iterator[ThingRecord]:
    nobody: tuple[str, ...] = ()
    waiting = [(value, "", nobody, 0)]
    while waiting:
        here, name, owners, group = waiting.pop()
        if type(here) is list:
            waiting += [(m, name, owners, id(here)) for m in here if type(m) in _NESTED]
        if type(here) is not dict:
            continue
        fields, parts = here, []
        if not _FLAT.issuperset(map(type, here.values())):
            parts = [pair for pair in here.items() if type(pair[1]) in _NESTED]
            fields = {k: v for k, v in here.items() if v is not None and type(v) not in _NESTED}
            if not fields and all([type(one) is dict for one in here.values()]):
                waiting += [(member, name, owners, id(here)) for member in here.values()]
                continue
        own = str(fields.get("name") or fields.get("title") or name)
        kinds = _keys_of(tuple(fields))
        texts = [x for key in kinds.naming if type(x := fields[key]) is str and len(x) > 4]
        identifiers = tuple([x for x in texts if x.isupper() or _HAS_DIGIT(x)])
        for key, part in parts:
            if type(part) is dict and part and _SCALARS.issuperset(map(type, part.values())):
                fields |= {f"{key}.{inner}": x for inner, x in part.items()}
            else:
                waiting.append((part, own, identifiers, id(part)))
        if fields:
            kinds = _keys_of(tuple(fields)) if parts else kinds
            some = [x for key in kinds.money if type(x := fields[key]) in (int, float)]
            amounts, options = tuple([abs(float(x)) for x in some]), nobody
            if amounts and len(kinds.options) > 1:
                said = tuple([str(fields[key]).casefold() for key in kinds.options])
                options = _option_words(kinds.options, said)
            yield ThingRecord(step, fields, own, group, identifiers, owners, amounts, options)


class _Keys(NamedTuple):
    """Which keys of a record say what; records of one kind share them."""

    naming: list[str]  # those of identifiers
    money: list[str]  # of quantities of money
    options: tuple[str, ...]
    inner: list[tuple[str, ...]]  # of each object inside the record: economy, business of `prices`


@lru_cache(maxsize=4096)
def _keys_of(keys: tuple[str, ...]) -> _Keys:
    inner: dict[str, list[str]] = {}
    for key in keys:
        outer, dot, name = key.rpartition(".")
        if dot:
            inner.setdefault(outer, []).append(name)
    return _Keys(
        [key for key in keys if words_of(key)[-1:] in (("id",), ("number",), ("code",))],
        [key for key in keys if _is_money(key)],
        tuple([key for key in keys if key.startswith("options.")]),
        [tuple(names) for names in inner.values()],
    )


def _is_money(key: str) -> bool:
    named = {word_stem(word) for part in key.split(".") for word in words_of(part)[-1:]}
    return "amount" in named or not QUANTITIES.isdisjoint(named)


# "$5 for the lamp": what stands behind an amount names it.
_LINKS = re.compile(r"\W*(?:\w+ )?(?:for|is|was|as|of|that's)\b")
_DAY = re.compile(r"\d{4}-\d\d-\d\d").match
_HAS_DIGIT = re.compile(r"\d").search


@lru_cache(maxsize=4096)
def _option_words(keys: tuple[str, ...], values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a record's options that a text must have."""
    needed: list[str] = []
    for key, said in zip(keys, values, strict=True):
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


def _meant(told: ToldAmount, near: Results, results: ResultReader, asked: str) -> list[ThingRecord]:
    """Return the records of the one thing that an amount is told of; none where it is open which.

    Looked for in its sentence, on its line (behind the amount before, then behind this one), in
    its entry of a list, in what announces that, and in what a few words answer.
    """
    text, begin = told.text, told.text.rfind("\n", 0, told.start) + 1
    ids, names, optional = results.naming(near, f"{text}\0{asked}")
    if not (ids or names or optional):
        return []
    before = text[max(begin, told.open) : told.start]
    clause = told.clause
    behind = text[told.end :].partition("\n")[0].partition("$")[0].partition(". ")[0]
    start = max(_entry_start(text, begin), told.open)
    entry = text[start : told.start]
    head = text[: start - 1].rstrip()
    places = [(clause, True), (before, True), (behind, False)]
    if _LINKS.match(behind) or not any(map(str.isalpha, clause)):
        places[1:] = [(behind, True), (before, True)]
    named = _quantity_among(told.words) != ""
    places.append((entry, named))
    if named and head.endswith(":"):
        places.append((head[head.rfind("\n") + 1 :], True))
    if asked and told.text[: told.start].count(" ") < ANSWER_WORDS:
        places.append((asked, True))
    records = [one for pair in near for one in results.records(*pair) if one.amounts]
    if "$" in text[(sentence := told.sentence_start) : told.open]:
        opening = text[sentence : told.start].partition("$")[0]
        if not (names_in(opening) or any(name in opening.casefold() for name in names)):
            return []  # "$5 for this and $6 for that": what stands between may be of either
    for here, by_name in dict.fromkeys(places):
        lower = here.casefold()
        mentioned = {one for one in ids if one in here}
        if _HAS_DIGIT(here):
            mentioned.update([name for name in names_in(here) if len(name) > 4])
        called = {name for name in names if name in lower}
        if not (mentioned or (called and by_name) or optional):
            continue
        found = _named_in(here, records, named=mentioned, called=called, by_name=by_name)
        if len({record.amounts for record in found or ()}) > 1:
            # Of two of one name the one is meant that is part of what was named last above.
            above = text[: told.start]
            last = max((above.rfind(one), one) for r in found or () for one in ("", *r.owners))[1]
            found = [record for record in found or () if last in record.owners]
        if found is not None:
            return found if len({record.amounts for record in found}) == 1 else []
    return []


def _named_in(
    here: str,
    records: Sequence[ThingRecord],
    *,
    named: set[str],  # identifiers in the words
    called: set[str],  # names of records in them, in lower case
    by_name: bool,  # whether a name is enough
) -> list[ThingRecord] | None:
    """Return the records that words name best; none where they name several, None where nothing.

    A record is named by an identifier, all its options, or its name. Every identifier in the words
    must be the record's own or that of what it is part of.
    """
    lower = here.casefold()
    words: set[str] | None = None
    best = (False, False, False, False, 0)
    found: list[ThingRecord] = []
    for record in records:
        if named and not named.issubset(record.identifiers + record.owners):
            continue
        own = not named.isdisjoint(record.identifiers) and "\n" not in here
        fits = False
        if options := record.options:
            words = set(_TOKEN.findall(lower)) if words is None else words
            fits = all(_has_option(word, words, lower) for word in options)
        by_call = record.name.casefold() in called
        if not (own or fits or (by_call and by_name)):
            continue
        texts = [v for v in record.fields.values() if type(v) is str and v[4:5] == "-"]
        dates = [v for v in texts if _DAY(v) and v in here]
        part = not named.isdisjoint(record.owners)
        rank = (own or (by_call and part), part, fits, by_call, len(dates))
        if rank > best:
            best, found = rank, []
        if rank == best:
            found.append(record)
    if not found:
        return [] if named else None
    own, _, fits, by_call, _ = best
    longest = max(called, key=len, default="")
    if by_call and not own and any(name not in longest for name in called):
        return []
    # Two things of one name stand here: which options are whose is open.
    if fits and by_call and lower.count(found[0].name.casefold()) > 1:
        return []
    return [r for r in found if own or not by_call or r.name.casefold() == longest]


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
    """Yield the prices and payments told of one thing that are another one's, or another field."""
    step = message.step.index
    for amount in told:
        name = _quantity_among(amount.words)
        if name not in PRICES and name not in PAYMENTS:
            continue
        near = results.search(plain_number(amount.value), step)
        things = _meant_by(amount, name, near, message, results) if near else []
        if near and not things:
            others = [one for thing in names_in(amount.line) for one in results.search(thing, step)]
            things = _meant_by(amount, name, others, message, results) if others else []
        if not things:
            continue
        true = sorted({value for thing in things for value in thing.amounts})
        counted = [count * value for value in (*true, sum(true)) for count in (1, *MULTIPLES)]
        if not true or any(abs(value - amount.value) < TOLERANCE for value in counted):
            continue
        every = (record for one in near for record in results.records(*one))
        of_value = (r for r in every if any([abs(x - amount.value) < TOLERANCE for x in r.amounts]))
        holder = next(of_value, None)
        beside = [x.value for x in told if x.value != amount.value and x.line == amount.line]
        if holder is None or follows_in_message(amount.value, beside):
            continue
        said = " or ".join(f"{value:,.2f}" for value in true[:3])
        thing = things[-1]
        what = next(iter(thing.identifiers), thing.name)
        why = (
            f"says {amount.value:,.2f} for {what}, the result at {thing.step} says {said}; "
            f"{amount.value:,.2f} is of {next(iter(holder.identifiers), 'another record')}"
        )
        yield Fault(step, why, tuple(sorted({thing.step, holder.step})))


def _meant_by(
    amount: ToldAmount, name: str, near: Results, message: AgentMessage, results: ResultReader
) -> list[ThingRecord]:
    """Return the records that an amount, by what it is called, is told of."""
    if name == "refund":
        done = [result for _, result in message.news if result.status != "error"]
        given = str(results.arguments(done[-1])) if done else ""
        records = [record for one in near for record in results.records(*one)] if given else []
        return [r for r in records if r.identifiers and f"'{r.identifiers[-1]}'" in given]
    found = _meant(amount, near, results, message.asked) if name in PRICES else []
    if found or name in ("", "price", "fare"):
        return found
    clause, records = amount.clause, [one for pair in near for one in results.records(*pair)]
    named = {one for r in records for one in r.owners if one in clause}
    if not named or any(r.name and r.name.casefold() in clause.casefold() for r in records):
        return []
    return [r for r in records if named <= {*r.owners} and _is_payment(r)]


def _is_payment(record: ThingRecord) -> bool:
    """True if a record says what was paid: an amount, beside a key or a text that says so."""
    said = {word for key in record.fields for word in words_of(key)}
    texts = {v for v in record.fields.values() if type(v) is str}
    return "amount" in said and "payment" in said | texts and "refund" not in texts


@lru_cache(maxsize=4096)
def _quantity_among(words: tuple[str, ...]) -> str:
    """Return the first quantity that words which may name an amount call it, "" without one."""
    return next((name for word in words if (name := _quantity_called(word))), "")


@lru_cache(maxsize=4096)
def _quantity_called(word: str) -> str:
    stem = word_stem(word)
    for name in (word, stem, f"{stem}e"):
        if name in QUANTITIES or name in PAYMENTS:
            return name
    compares = ("sav", "save", "cheap", "cheaper", "more", "les", "less", "lower", "higher")
    return "difference" if stem in compares else ""


def find_reference_differences(trajectory: Trajectory, case: Case | None) -> Iterator[Fault]:
    """Yield the writes that differ from the one that the case expects, each at its call.

    Not where the outcome's check passed, and not where the user's words name the value given: whom
    the agent obeys is then the user's matter.
    """
    if case is None or not case.called or trajectory.outcome.status == "pass":
        return
    pairs = subgoal_calls(case, trajectory)
    made = agent_calls(trajectory)
    tools = {goal.tool for goal, at in zip(case.called, pairs, strict=True) if at is None}
    if not tools:
        return
    free = {
        x.key: x
        for at, x in enumerate(made)
        if x.call.name in tools
        and at not in pairs
        and has_succeeded(x)
        and isinstance(x.call.arguments, dict)
    }
    for goal, at in zip(case.called, pairs, strict=True):
        tries = [x for x in free.values() if x.call.name == goal.tool] if at is None else []
        if not tries:
            continue
        nearest = min(tries, key=lambda x: len(_lacks(x.call.arguments, goal.arguments)))
        lacks = _lacks(nearest.call.arguments, goal.arguments)
        # With nothing in common it is another write, not this one done wrongly.
        shared = [key for key in goal.arguments if key not in {key for key, _, _ in lacks}]
        if not lacks or (len(goal.arguments) > 1 and not shared):
            continue
        if any(_is_users(trajectory, nearest, *lack) for lack in lacks):
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


def _is_users(trajectory: Trajectory, made: Exchange, key: str, given: Json, wanted: Json) -> bool:
    """True if the user's latest words, or a line they say yes to, name one of two values: this."""
    label, agreed = "".join(words_of(key)[-1:]), False
    names = [_names_of(value, trajectory, made.step) for value in (given, wanted)]
    # "My card" names neither of two cards.
    names = [some - other for some, other in (names, names[::-1])]
    before = zip(trajectory.steps[: made.step], trajectory.texts, strict=False)
    for step, text in reversed([*before]):
        users = step.actor == "user"
        if not (users or agreed):
            continue
        lines = text.casefold().splitlines()
        words = f" {' '.join(_PLAIN.findall(' '.join([x for x in lines if users or label in x])))} "
        agreed = find_decision(text) == "agrees" if users else not text
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
                found |= {str(x) for k, x in record.fields.items() if words_of(k)[:1] == ("last",)}
    return found
