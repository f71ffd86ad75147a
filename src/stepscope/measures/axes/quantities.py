"""Numbers, dates and identifiers: how they are written, told to users, and named in results.

Arithmetic is simple: a sum or difference of two, a small multiple of one, a sum of neighbours in
one list. With hundreds of prices in view every amount is the sum of some three, and a rule that
accepts everything finds nothing. A result's quantity is named by the last word of its key that says
something (`exchange_price_difference`: difference), else by the type of its record. A message to
the user counts when the agent calls nothing in it and the user speaks next, or nobody does.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, combinations
from math import isfinite, log
from typing import NamedTuple

import msgspec

from stepscope.measures.rule import cached_by_text, cached_on_run
from stepscope.model import Json, Step, ToolResult, Trajectory
from stepscope.model.effects import words_of

# A number as people and programs write it: 1,619.34 or 1619.34; not the digits of W2378156, of
# 2024-05-15, of 07:30 or of 4.2.1.
# The first digit stands before the looks behind it: so the engine skips to digits at C speed.
_NUMBER = (
    r"\d(?<![\w#]\d)(?<!\w[-./:]\d)"
    r"(?:\d{0,2}(?:,\d{3}){1,5}|\d{0,20})(?:\.\d+)?(?![\w%]|[-/:.,]\d|[-/]\w)"
)
# On a text that is all ASCII both find the same, the second in half the time.
NUMBER = re.compile(_NUMBER)
_ASCII_NUMBER = re.compile(_NUMBER.replace(r"\d", "[0-9]", 1), re.ASCII)
# Longer whole numbers are names of things (item 1151293680), and no quantity to calculate with.
QUANTITY_DIGITS = 7
# How many numbers, the latest first, arithmetic may draw on: 60 make 3,600 pairs, a chance hit in
# about one of thirty amounts with cents below 1,000.
TERMS = 60
# Counts, ranks and list numbers are no terms of a sum: with them every amount is a sum.
SMALLEST_TERM = 10
# Longest list whose sum counts as derived, and the counts of equal things.
LONGEST_SUM = 8
MULTIPLES = range(2, 10)
# Half a cent: amounts are printed with two decimals.
TOLERANCE = 0.005

MONTHS = (
    "january february march april may june july august september october november december".split()
)
_ISO_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")


class Derivation(NamedTuple):
    """How a number follows from numbers said: the formula, and the steps that hold its terms."""

    formula: str
    steps: tuple[int, ...]


@lru_cache(maxsize=4096)
def number_of(text: str) -> float | None:
    """Return the quantity that a text of digits says; None for a name made of digits."""
    plain = text.replace(",", "").lstrip("$")
    whole = plain.partition(".")[0]
    if len(whole) > QUANTITY_DIGITS or (len(whole) > 1 and whole.startswith("0")):
        return None
    try:
        value = float(plain)
    except ValueError:
        return None
    return value if isfinite(value) else None


@cached_by_text
def quantities(text: str) -> tuple[float, ...]:
    """Return the quantities that a text says, in order."""
    pattern = _ASCII_NUMBER if text.isascii() else NUMBER
    return tuple([value for value in map(number_of, pattern.findall(text)) if value is not None])


class StatedNumbers:
    """Numbers said, ready for arithmetic: sets of cents tell fast what follows from none of them.

    `count` is how many numbers were said.

    >>> said = StatedNumbers([(1, [25, 269.16]), (2, [285.79])])
    >>> said.derive(-16.63)
    Derivation(formula='269.16 - 285.79', steps=(1, 2))
    >>> StatedNumbers([(4, [30.0])]).derive(90.0).formula
    '3 x 30'
    """

    def __init__(self, said: Sequence[tuple[int, Sequence[float]]]) -> None:
        self._said = said
        self.count = sum([len(values) for _, values in said])
        self._latest: dict[float, int] = {}
        for step, values in reversed(said):
            for value in reversed(values):
                if len(self._latest) >= TERMS:
                    break
                self._latest.setdefault(value, step)
        self._cents = [round(100 * term) for term in self._latest]
        self._near = {near for cent in self._cents for near in (cent - 1, cent, cent + 1)}

    def derive(self, value: float) -> Derivation | None:
        """Return how `value` follows from the numbers said, the latest of them first."""
        target = abs(value)
        cents, near = round(100 * target), self._near
        found = None
        if not near.isdisjoint([cents - term for term in self._cents]) or not near.isdisjoint(
            [term - cents for term in self._cents]
        ):
            found = _pair(target, self._latest, value)
        if found is None and not near.isdisjoint([round(cents / n) for n in MULTIPLES]):
            found = _multiple(target, self._latest)
        # A sum of neighbours is the difference of two totals.
        sums = (cents - 1, cents, cents + 1) if found is None else ()
        if any(not self._totals.isdisjoint([t + one for t in self._totals]) for one in sums):
            return _list_sum(target, self._said)
        return found

    @cached_property
    def _totals(self) -> frozenset[int]:
        terms = [x for _, values in self._said for x in values if x >= SMALLEST_TERM]
        return frozenset([round(100 * total) for total in accumulate(terms, initial=0.0)])


def _pair(target: float, terms: dict[float, int], value: float) -> Derivation | None:
    ordered = sorted(term for term in terms if term >= SMALLEST_TERM)
    for first in ordered:
        for wanted, sign in ((target - first, "+"), (first - target, "-")):
            second = _near(ordered, wanted)
            if second is None:
                continue
            # a - b and b - a are the same claim: which sign was meant stands in its words.
            left, right = (second, first) if sign == "-" and value < 0 else (first, second)
            steps = tuple(sorted({terms[first], terms[second]}))
            return Derivation(f"{left:g} {sign} {right:g}", steps)
    return None


def _multiple(target: float, terms: dict[float, int]) -> Derivation | None:
    for count in MULTIPLES:
        for term, step in terms.items():
            if term and abs(count * term - target) < TOLERANCE:
                return Derivation(f"{count} x {term:g}", (step,))
    return None


def _list_sum(target: float, said: Sequence[tuple[int, Sequence[float]]]) -> Derivation | None:
    for step, values in said:
        terms = [value for value in values if value >= SMALLEST_TERM]
        for at, total in enumerate(terms):
            for term in terms[at + 1 : at + LONGEST_SUM]:
                total += term
                # No term is negative: the sum only grows.
                if total - target >= TOLERANCE:
                    break
                if abs(total - target) < TOLERANCE:
                    return Derivation(f"sum of a list, {total:g}", (step,))
    return None


def _near(ordered: Sequence[float], wanted: float) -> float | None:
    at = bisect_left(ordered, wanted - TOLERANCE)
    if at < len(ordered) and abs(ordered[at] - wanted) < TOLERANCE:
        return ordered[at]
    return None


def date_forms(iso: str) -> list[str]:
    """Return the ways to write a date, most exact first; the text itself where it is no date.

    >>> date_forms("2024-05-07")[:4]
    ['2024-05-07', 'may 7', '7 may', 'may 7th']
    """
    match = _ISO_DATE.match(iso)
    if match is None or not 1 <= int(match[2]) <= 12:
        return [iso]
    year, month, day = match[1], int(match[2]), int(match[3])
    forms = [match.group()]
    for name in (MONTHS[month - 1], MONTHS[month - 1][:3]):
        for spoken in (f"{day}", f"{day}{ordinal(day)}"):
            forms += [f"{name} {spoken}", f"{spoken} {name}"]
        # "Mar  9", as logs write it: days in a column.
        forms += [f"{day}{ordinal(day)} of {name}", f"{name} {day:02d}", f"{day:02d} {name}"]
        forms.append(f"{name} {day:2d}")
    for first, second in ((month, day), (day, month)):
        for a, b in ((f"{first}", f"{second}"), (f"{first:02d}", f"{second:02d}")):
            forms += [f"{a}{c}{b}{c}{y}" for c in "/-." for y in (year, year[2:])]
    forms += [f"{month}/{day}", f"{month:02d}/{day:02d}"]
    forms += [f"{year}{c}{month:02d}{c}{day:02d}" for c in "/:."]
    return list(dict.fromkeys(forms))


@lru_cache(maxsize=1024)
def date_cores(iso: str) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Return the ways to write a date by two texts that they contain; without either there is none.

    The first is the month, where it is written as a word.
    """
    forms = date_forms(iso)
    if len(forms) == 1:
        return ((iso, iso, (iso,)),)
    _, month, day = (int(part) for part in forms[0].split("-"))
    cores = [
        f"{first}{sign}{second}"
        for sign in "/-."
        for a, b in ((month, day), (day, month))
        for first, second in ((a, f"{b}"), (a, f"{b:02d}"))
    ]
    found: dict[str, list[str]] = {}
    for form in forms:
        found.setdefault(next((c for c in cores if c in form), form), []).append(form)
    name = MONTHS[month - 1][:3]
    return tuple((name if name in core else core, core, tuple(x)) for core, x in found.items())


def ordinal(day: int) -> str:
    """Return the ending of a day's number: 22nd."""
    return "th" if day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


def plain_number(value: float) -> str:
    """Return how programs write a number, without sign."""
    size = abs(value)
    return f"{size:.0f}" if size % 1 == 0 else repr(size)


@lru_cache(maxsize=4096)
def number_forms(value: float) -> list[str]:
    """Return the ways to write a number, without sign and currency."""
    size = abs(value)
    forms = [plain_number(value), f"{size:.2f}", f"{size:,.2f}"]
    if size >= 1 and size % 1 == 0:
        forms += [f"{size:,.0f}", f"{size:.1f}"]
    return list(dict.fromkeys(forms))


# Words in keys that name no quantity by themselves.
GENERIC = frozenset("amount amt currency eur gbp in number of quantity sum usd val value".split())
# Words that name a quantity of money: the nearest one before an amount is its name, and "price
# difference" is no price.
QUANTITIES = frozenset(
    "balance charge cost credit deposit difference discount fare fee payment penalty price rebate "
    "refund saving subtotal surcharge tax tip total".split()
)
# What people call a quantity that they give no better name.
AMOUNT_NAME = "amount"
# Keys whose text says what a record is.
TYPES = frozenset("category kind label type".split())
# Longer texts are no names of a type.
TYPE_CHARACTERS = 24
# Larger results are data to work on; naming their quantities would take longer than all else.
LARGEST_RESULT = 65_536  # characters

_NESTED = frozenset((dict, list))
_decode = msgspec.json.Decoder().decode


def decode_result(result: ToolResult) -> Json:
    """Return a result's value where it is a JSON object or array, else None."""
    if result.structured is not None:
        return result.structured
    text = result.text
    if text[:1] not in ("{", "[") or len(text) > LARGEST_RESULT:
        return None
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return None


def named_quantities(value: Json) -> Iterator[tuple[frozenset[str], float]]:
    """Yield every quantity of a decoded result: its names (stems), and its value without sign.

    >>> found = named_quantities({"history": [{"transaction_type": "refund", "amount": -5}]})
    >>> [(sorted(names), value) for names, value in found]
    [(['amount', 'refund'], 5.0)]
    """
    waiting: list[tuple[Json, str]] = [(value, "")]
    # By type, not isinstance: what was decoded from JSON has no subclasses.
    while waiting:
        here, parent = waiting.pop()
        if type(here) is list:
            waiting += [(member, parent) for member in here if type(member) in _NESTED]
        elif type(here) is dict:
            for key, member in here.items():
                kind = type(member)
                if kind is int or kind is float:
                    names = _names_by_keys(key, parent) or _names_by_record(key, here, parent)
                    yield names, abs(float(member))
                elif kind in _NESTED:
                    waiting.append((member, key))


@lru_cache(maxsize=8192)
def _names_by_keys(key: str, parent: str) -> frozenset[str]:
    """Return the names that a key gives by itself, none where it says nothing of its own."""
    own, above = quantity_name(key), quantity_name(parent)
    if not own:
        return frozenset()
    return frozenset((own, above)) if above in QUANTITIES else frozenset((own,))


def _names_by_record(key: str, record: dict[str, Json], parent: str) -> frozenset[str]:
    kinds = [
        quantity_name(text)
        for other, text in record.items()
        if isinstance(text, str) and len(text) <= TYPE_CHARACTERS
        if not TYPES.isdisjoint(words_of(other)[-1:])
    ]
    above = "" if kinds else quantity_name(parent)
    generic = AMOUNT_NAME if AMOUNT_NAME in words_of(key) else ""
    return frozenset(kind for kind in (*kinds, above, generic) if kind)


@lru_cache(maxsize=8192)
def quantity_name(key: str) -> str:
    """Return the stem that names a key's quantity: refund of `refund_amount`, "" of `amount`."""
    words = [word for word in words_of(key) if word not in GENERIC]
    return word_stem(words[-1]) if words else ""


@lru_cache(maxsize=8192)
def word_stem(word: str) -> str:
    """Return a word without its usual endings."""
    if word.endswith("ed") and len(word) > 5:
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word


# An amount of money: behind a currency's sign, or with exactly two decimals ($1,619.34; 95.08).
# Both patterns begin with a set of characters: so the engine skips to them at C speed.
AMOUNT = re.compile(
    r"[$€£\d](?:(?<=[$€£])\s?(?:\d{1,3}(?:,\d{3}){1,5}|\d{1,9})(?:\.\d{1,2})?|"
    r"(?<=\d)(?<![\w.,#$€£/:-]\d)(?:\d{0,2}(?:,\d{3}){1,5}|\d{0,8})\.\d\d)(?![\w%]|[.,/:-]\d)"
)
# On a text that is all ASCII the same, found in less time.
_ASCII_AMOUNT = re.compile(AMOUNT.pattern.replace(r"[$€£\d]", "[$0-9]", 1), re.ASCII)
# What a text looks like with every digit a 0: without cents no amount, by far the cheaper to look
# for.
_SHAPE = bytes.maketrans(b"123456789", b"000000000")
_CENTS = b".00"
# W2378156, HAT284, M05KNL, RF-482913, 88213-4, gift_card_6941833.
_NAME = re.compile(
    r"(?<![\w.,$€£/:@-])(?:#?(?=[A-Z-]*\d)(?=[\d-]*[A-Z]|\d{5})[A-Z\d]+(?:-[A-Z\d]+)*|"
    r"[a-z]+(?:_[a-z]+)*_\d{4,})(?![\w@%]|[.,:/]\d|-\w)"
)
# A name by its form alone: letters, or a sign, before five digits; eight digits; 65550-6.
_OWN_FORM = re.compile(r"#?[A-Z]{1,5}-?\d{5,20}|#\d{4,20}|\d{8,20}|\d{5,20}-\d{1,4}(?:-\d+)*")
# Every name holds a digit, and one of these.
_FROM_DIGIT, _IN_NAME = re.compile(r"\d\S*"), re.compile(r"[A-Z_]|\d{5}")
# Longer words hold data.
NAME_CHARACTERS = 60
# What may stand between a quantity and its name on one line.
LABEL_CHARACTERS = 64
# Most terms within one message that an amount may be the sum of.
LONGEST_MESSAGE_SUM = 5
# Amounts of a message, its last, that such a sum may draw on: 8 make some 200 sums.
LAST_TERMS = 8
# Longer questions ask several things.
ASKED_CHARACTERS = 160
# A name behind its quantity: "a $95.08 refund".
BEHIND_CHARACTERS = 20

_WORD = re.compile(r"[a-z]{3,}")
_CLAUSE = re.compile(r"[.;,(\n$€£]")


@dataclass(slots=True, eq=False)
class ToldAmount:
    """An amount in a message: its value, the text, where it stands, and where the one before ends.

    `open` is where the amount before it ends: no word before that names this one.
    """

    value: float
    text: str
    open: int
    start: int
    end: int
    sentence_start: int  # where its sentence begins, or its line
    words: tuple[str, ...] = ()  # that may name it, the likeliest first

    @property
    def clause(self) -> str:
        """The text before it in its sentence, on its line, behind the amount before."""
        return self.text[max(self.sentence_start, self.open) : self.start]

    @property
    def sentence(self) -> str:
        """The sentence around it, on its line."""
        return self.text[self.sentence_start : self.end] + self.behind.partition(". ")[0]

    @property
    def behind(self) -> str:
        """The text just behind it, on its line."""
        return self.text[self.end : self.end + BEHIND_CHARACTERS].partition("\n")[0]

    @property
    def line(self) -> str:
        """The line around it."""
        begin = self.text.rfind("\n", 0, self.start) + 1
        close = self.text.find("\n", self.end)
        return self.text[begin : close if close >= 0 else None]


class AgentMessage(NamedTuple):
    """A message to the user, the results since the message before it, and what it answers."""

    step: Step
    text: str
    news: tuple[tuple[int, ToolResult], ...]
    asked: str = ""  # the user's words before it, where they are few


def agent_messages(trajectory: Trajectory) -> Iterator[AgentMessage]:
    """Yield the agent's messages to the user, in order; words beside a call are one too."""
    steps = trajectory.steps
    news: list[tuple[int, ToolResult]] = []
    asked = ""
    for step, text in zip(steps, trajectory.texts, strict=True):
        if step.actor == "user":
            asked = text if len(text) <= ASKED_CHARACTERS else ""
        if text and step.actor == "agent" and _is_to_user(steps, step):
            yield AgentMessage(step, text, tuple(news), asked)
            news, asked = [], ""
        if step.results:
            news += [(step.index, result) for result in step.results]


def _is_to_user(steps: Sequence[Step], step: Step) -> bool:
    return bool(step.calls) or step is steps[-1] or steps[step.index + 1].actor == "user"


@cached_on_run
def amounts_told(trajectory: Trajectory) -> list[tuple[Step, list[ToldAmount]]]:
    """Return the steps at which the agent tells amounts, in order, with these."""
    said = zip(trajectory.steps, trajectory.texts, strict=True)
    own = [(step, told_amounts(text)) for step, text in said if text and step.actor == "agent"]
    return [pair for pair in own if pair[1]]


@cached_on_run
def first_told(trajectory: Trajectory) -> dict[float, int]:
    """Return the amounts that the agent told, each with the first step that tells it."""
    found: dict[float, int] = {}
    for step, told in amounts_told(trajectory):
        for amount in told if _is_to_user(trajectory.steps, step) else ():
            found.setdefault(amount.value, step.index)
    return found


@cached_by_text
def told_amounts(text: str) -> list[ToldAmount]:
    """Return the amounts in a text.

    >>> [(a.value, a.clause, a.behind) for a in told_amounts("Your refund: $95.08 in all")]
    [(95.08, 'Your refund: ', ' in all')]
    >>> told_amounts("you get a $95.08 refund")[0].words
    ('refund', 'get', 'you')
    """
    pattern = AMOUNT
    if text.isascii():
        if "$" not in text and ("." not in text or _CENTS not in text.encode().translate(_SHAPE)):
            return []
        pattern = _ASCII_AMOUNT
    found: list[ToldAmount] = []
    last = 0
    for match in pattern.finditer(text):
        value = number_of(match.group().lstrip("$€£ "))
        start, end = match.span()
        if value is not None:
            line = text.rfind("\n", 0, start)
            begin = max([line, *[text.rfind(x, line + 1, start) for x in (". ", "! ", "? ")]]) + 1
            amount = ToldAmount(value, text, last, start, end, begin)
            before = amount.clause[-LABEL_CHARACTERS:].casefold()
            behind = _CLAUSE.split(amount.behind, maxsplit=1)[0].casefold()
            amount.words = (*_WORD.findall(behind)[:1], *_WORD.findall(before)[::-1])
            found.append(amount)
        last = end
    return found


@cached_by_text
def names_in(text: str) -> tuple[str, ...]:
    """Return what has the form of an identifier in a text, each once."""
    found: list[str] = []
    for match in _FROM_DIGIT.finditer(text):
        begin = max(match.start() - NAME_CHARACTERS, 0)
        found += _names_of(text[begin : match.end()].rsplit(None, 1)[-1])
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=16_384)
def _names_of(word: str) -> tuple[str, ...]:
    named = len(word) < NAME_CHARACTERS and _IN_NAME.search(word) is not None
    return tuple(_NAME.findall(word)) if named else ()


@lru_cache(maxsize=16_384)
def is_identifier(name: str) -> bool:
    """True if a name of `names_in` is that of one thing by its form alone, whoever uses it."""
    return _OWN_FORM.fullmatch(name) is not None


def follows_in_message(value: float, others: Sequence[float]) -> bool:
    """True if an amount is a sum or difference of amounts in the same message."""
    # In cents: no amount told has parts of one.
    target = round(100 * value)
    cents = [round(100 * other) for other in others[-LAST_TERMS:]]
    for n in range(2, min(len(others), LONGEST_MESSAGE_SUM) + 1):
        for some in combinations(cents, n):
            total = sum(some)
            if target in (total, abs(2 * some[0] - total), abs(total - 2 * some[-1])):
                return True
    return False


# What a number with a unit measures: percent, seconds, bytes.
_UNITS = {"%": ("%", 1.0), "percent": ("%", 1.0), "ms": ("s", 1e-3), "bytes": ("B", 1.0)}
_UNITS |= {x + y: ("B", 1e3**n) for n, x in enumerate("BKMGT") for y in ("", "B", "i", "iB")}
_UNITS |= dict.fromkeys("s sec second seconds".split(), ("s", 1.0)) | {"kB": ("B", 1e3)}
_UNITS |= dict.fromkeys("m min minute minutes".split(), ("s", 60.0))
_UNITS |= dict.fromkeys("h hour hours".split(), ("s", 3600.0)) | {"days": ("s", 86400.0)}
_UNITS |= {"d": ("s", 86400.0), "day": ("s", 86400.0), "k": ("", 1e3), "thousand": ("", 1e3)}
_UNITS |= {"million": ("", 1e6), "billion": ("", 1e9)}
_SCALES = {"s": (1.0, 1e-3, 60.0, 3600.0), "B": (1.0, 1e3, 1e6, 1024.0, 1024.0**2), "%": (1, 100)}
# Numbers and versions, and words that say how a thing stands; not times of a day.
_VALUE = re.compile(
    r"(?<![\w.])(?:\d{1,2}:\d\d(?::\d\d)?(?: ?[AaPp]\.?[Mm]\b)?(?![\w:])|"
    r"(?P<m>\d{1,6}) ?m(?:in(?:ute)?s?)?,? ?(?P<s>\d{1,6}(?:\.\d+)?) ?s(?:ec(?:ond)?s?)?\b|"
    r"v?(?P<version>\d+(?:\.\d+){2,})(?:-?[a-z]+\d+)?(?!\w)|"
    r"(?:(?<![A-Za-z][-/+])|(?<!HTTP/)(?=\d+\.\d))[-+]?[$\u20ac\u00a3]?"
    r"(?P<number>(?:[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d{0,17}|0(?!\d))(?:\.\d+)?)(?:(?P<close>[KMGT])"
    rf"\b| ?(?P<unit>{'|'.join(sorted({*_UNITS} - {*'KMGT'}, reverse=True))})(?!\w))?(?!\w|\.\w)|"
    r"(?i:(?<!\d )(?P<not>not )?(?:(?P<good>pass(?:e[sd])?|succeeded|healthy|active|running|true|"
    r"enabled|valid|(?:up|on|yes|success(?:ful)?)(?=\W*$|[.,;)]))|(?P<bad>fail(?:s|ed)?|unhealthy|"
    r"inactive|dead|exited|stopped|disabled|false|invalid|(?:off|no|failure|unsuccessful)"
    r"(?=\W*$|[.,;)])))\b(?! ?[:=]| \d)))"
)
# Without any of these a text has no value; what is the most has none either.
_MAY_HAVE = re.compile(
    r"\d|pass|succe|health|acti|runn|true|abled|valid|\bup\b|\bon\b|yes|fail|dead|exit|stop|false|"
    r"off|\bno|all\b|every|without|zero|est\b|most|least"
)
# No value is as large.
MOST_SIZE = 1e30
# Before a state: its contrary is said.
_DENIED = re.compile(r"(?:n['\u2019]t|\b(?:not|never|no longer)) (?:\w+ )?\Z")


class Value(NamedTuple):
    """A number in percent, seconds, bytes or none, a version, or a state: 1 well, -1 badly."""

    kind: str
    size: float
    unit: float
    said: str
    start: int
    end: int


def may_have_values(low: str) -> bool:
    """True if a text in lower case may tell values or compare them."""
    return _MAY_HAVE.search(low) is not None


def values_in(text: str) -> Iterator[Value]:
    """Yield the numbers of a text with their units, the versions, and the words for states."""
    for one in _VALUE.finditer(text):
        kind, unit = _UNITS.get(one["close"] or one["unit"] or "", ("", 1.0))
        kind = "s" if one["m"] else "version" if one["version"] else kind
        size = float((one["number"] or one["s"] or "1").replace(",", "")) * unit
        if one["good"] or one["bad"]:
            denied = one["not"] or _DENIED.search(text, max(0, one.start() - 24), one.start())
            kind, size = "state", 1.0 if bool(one["good"]) is (not denied) else -1.0
        said = one["number"] or one["version"] or one[0]
        size += 60 * int(one["m"] or 0)
        if ":" not in said and size < MOST_SIZE:
            yield Value(kind, size, unit, said, *one.span())


def is_same(told: Value, true: Value) -> bool:
    """True if a value is the other: rounded, cut off, in another unit, or told less exactly."""
    if told.kind == "state":
        return told.size == true.size
    if "day" in (told.kind, true.kind):
        # A year alone, or a day without its year.
        day = true.size // 10_000 * 10_000 if told.unit > 1 else true.size
        apart = (told.size - day) % (10_000 if min(told.size, true.size) < 10_000 else 1e9)
        return told.kind == true.kind and apart == 0
    if "version" in (told.kind, true.kind) or (
        told.said == true.said and (told.unit == true.unit or told.kind != true.kind)
    ):
        parts = zip(told.said.split("."), true.said.split("."), strict=False)
        return all(one == other for one, other in parts)
    # 1,500 may be rounded to hundreds; a megabyte may be 1024 * 1024 bytes.
    whole, _, part = told.said.replace(",", "").partition(".")
    zeros = min(len(whole) - len(whole.rstrip("0")), len(whole) - 2) * whole.isdigit()
    step = told.unit * 10.0 ** (-len(part) or max(zeros, 0))
    scales = _SCALES.get(told.kind, (1,)) if true.kind == "" else (1,)
    if told.kind == "B":
        here, there = (1.024 ** round(log(x.unit, 1000)) for x in (told, true))
        scales = tuple(x * y for x in scales for y in (1, 1 / here, there, there / here))
    near = [-step / 2 <= told.size - true.size * x <= step / 2 for x in scales]
    near += [-step < told.size - true.size <= 0]
    return any(near) and (told.size == 0) == (true.size == 0)


def is_similar(told: str, true: str) -> bool:
    """True if a number is another one with one digit changed, or with its digits reordered."""
    one, other = (re.sub(r"\.0+\Z|\D", "", x) for x in (told, true))
    changed = sum(a != b for a, b in zip(one, other, strict=False))
    same = len(one) == len(other) > 1 and changed > 0
    return same and (sorted(one) == sorted(other) or (changed == 1 and len(one) > 2))
