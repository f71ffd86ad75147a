"""Where a fault can be planted in a recorded run, and the edits that plant it.

`Site` is one attempt: a run, a kind, a template and the chance that decides between places and
phrasings. `Draft` takes edits by recorded index, in any order, and gives the steps of the changed
run. Three manners of runs are known, by what their recorders write: *service* (tools that answer
with records, a user who agrees), *coding* (a shell and files as tools), *dialogue* (code in
messages, a terminal that answers with an exit code).
"""

from __future__ import annotations

import ast
import operator
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar
from zlib import crc32

import msgspec
import numpy as np

from bars.planted.faults import Axis, all_text
from stepscope.model import (
    Exchange,
    Json,
    Step,
    Trajectory,
)
from stepscope.model.effects import infer_effect

T = TypeVar("T")


Manner = Literal["service", "coding", "dialogue"]


RecordKind = Literal["order", "reservation", "user", "product"]


# The template that no check was written with.
HELD_OUT = 4


# The files that templates take their phrasings from; 0 and 1 share one.
_FILES = {2: "held_out_texts.toml", 3: "sealed_texts.toml", HELD_OUT: "last_texts.toml"}


_MANNERS: dict[str, Manner] = {
    "atif": "coding",
    "claude_code": "coding",
    "whowhen": "dialogue",
}


# What each kind of record calls itself, and the tool that looks it up.
_LOOKUPS: dict[str, RecordKind] = {
    "get_order_details": "order",
    "get_reservation_details": "reservation",
    "get_user_details": "user",
    "get_product_details": "product",
}


DOLLARS = re.compile(r"(?<=\$)\d[\d,]*(?:\.\d{1,2})?(?![\d,.]*\d)")


_ANY_NUMBER = re.compile(r"(?<![\w#.])\d[\d,]*(?:\.\d+)?(?!\w)")


ISO_DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")


# An id that a message names: an order, a card, a reservation, a tracking or item number.
IDENTIFIER = re.compile(
    r"#W\d{7}\b|\b[a-z]+(?:_[a-z]+)*_\d{4,}\b|\bHAT\d{3}\b|(?<![\w.$#])\d{10,12}\b"
)


CONSENT = re.compile(
    r"\b(yes|yeah|yep|sure|proceed|go ahead|confirm|agree|please do|sounds (?:good|great|perfect)"
    r"|that works|that's (?:fine|correct|right|perfect)|do it)\b",
    re.IGNORECASE,
)


PROPOSAL = re.compile(
    r"\b(?:proceed|confirm|shall I|should I|go ahead|would you like (?:me )?to"
    r"|do you want me to)\b",
    re.IGNORECASE,
)


# The agent says that something was done.
CLAIM = re.compile(
    r"success|\b(?:has|have) been (?!verified|located|found)|\b(?:is|are) now \w+ed\b"
    r"|\bI(?:'ve| have) (?:now )?(?!retrieved|found|looked|located|checked|review)\w+ed\b",
    re.IGNORECASE,
)


STOP = "###STOP###"


def manner_of(run: Trajectory) -> Manner:
    """Return how a run's agent acts on the world."""
    return _MANNERS.get(run.source.format, "service")


def good_part(run: Trajectory) -> Trajectory:
    """Return what may be taken as free of faults: the run, or its head where people named a step.

    A run with a labelled decisive step is cut before it; a last request of the user that no call
    follows is taken off with its answer. The head of a failed run has no proper end.
    """
    end = len(run.steps)
    named = [label.step for label in run.labels if label.step is not None]
    if run.outcome.status != "pass" and named:
        end = min(named)
    elif manner_of(run) == "coding":
        asked = [step.index for step in run.steps if step.actor == "user"][1:]
        acted = max((x.step for x in run.exchanges), default=0)
        end = next((at for at in asked if at > acted), end)
    return msgspec.structs.replace(run, steps=run.steps[:end], labels=())


class Draft:
    """A run that is being changed; places are indexes of its recorded steps."""

    def __init__(self, run: Trajectory) -> None:
        self._run = run
        self._now: dict[int, Step] = {}
        self._before: dict[int, list[Step]] = {}
        self._gone: set[int] = set()
        self._end = len(run.steps)
        self.case = run.case  # what the changed run is measured against

    def now(self, at: int) -> Step:
        """Return the step at a place as it has become."""
        return self._now.get(at, self._run.steps[at])

    def put(self, at: int, step: Step) -> Step:
        """Put a step in place of a recorded one."""
        self._now[at] = step
        return step

    def insert(self, at: int, *steps: Step) -> None:
        """Insert steps before a recorded one, behind what was inserted there earlier."""
        self._before.setdefault(at, []).extend(steps)

    def drop(self, *places: int) -> None:
        """Take recorded steps away."""
        self._gone.update(places)

    def cut(self, at: int, *steps: Step) -> None:
        """End the run before a recorded step, with these steps as its last."""
        self._end = at
        self.insert(at, *steps)

    def inserted(self, at: int) -> tuple[Step, ...]:
        """Return what was inserted before a recorded step."""
        return tuple(self._before.get(at, ()))

    def take(self, at: int) -> None:
        """Take away what was inserted before a recorded step."""
        self._before.pop(at, None)

    def steps(self) -> list[Step]:
        """Return the steps of the changed run, with indexes as they were."""
        steps: list[Step] = []
        for at in range(self._end + 1):
            steps += self._before.get(at, ())
            if at < self._end and at not in self._gone:
                steps.append(self.now(at))
        return steps


class Record(NamedTuple):
    """What a lookup or a write answered about one order, reservation, user or product."""

    kind: RecordKind
    id: str
    value: dict[str, Json]
    exchange: Exchange

    @property
    def called(self) -> str:
        """How an agent names it to the user."""
        return f"{self.kind} {self.id}"


class Consented(NamedTuple):
    """A write that worked, with the question and the user's consent before it."""

    write: Exchange
    ask: int
    answer: int
    result_step: int


@lru_cache(maxsize=4)
def texts(file: str) -> dict[str, dict[str, list[str]]]:
    """Return the phrasings of a file: kind, then name."""
    return tomllib.loads(Path(__file__).with_name(file).read_text("utf-8"))


def count_cases(kind: str, template: int) -> int:
    """Return how many cases a template lists of a kind, to be planted in turn: mostly none."""
    return len(texts(_FILES.get(template, "planted_texts.toml")).get(kind, {}).get("cases", ()))


class Site:
    """One attempt to plant a kind in a run with a template."""

    def __init__(self, run: Trajectory, kind: str, template: int, seed: int) -> None:
        self.run = run
        self.kind = kind
        self.template = template  # whose structure is planted
        self.wording = template  # whose phrasings are drawn
        self.seed = seed
        self.manner = manner_of(run)
        self.rng = np.random.default_rng([seed, template, crc32(f"{kind} {run.id}".encode())])
        self.draft = Draft(run)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The recorded steps."""
        return self.run.steps

    def draw(self, options: Sequence[T]) -> T | None:
        """Return one of the options, None where there is none."""
        return options[int(self.rng.integers(len(options)))] if options else None

    def say(self, name: str, /, **fields: object) -> str:
        """Return one phrasing of the kind and template, its fields filled in.

        Names of the templates for development end in their number.
        """
        named = name if self.wording in _FILES else f"{name}{self.template}"
        own = self.phrasings[self.kind]
        phrases = own.get(f"{named}_{self.airline_or_retail}") or own.get(named) or own[name]
        # `$` before a field is a dollar sign; code in a phrase has braces of its own.
        text = phrases[int(self.rng.integers(len(phrases)))]
        return re.sub(r"\{(\w+)\}", lambda m: str(fields.get(m[1], m[0])), text)

    @property
    def phrasings(self) -> dict[str, dict[str, list[str]]]:
        """The phrasings of the template: kind, then name."""
        return texts(_FILES.get(self.wording, "planted_texts.toml"))

    def choices(self, name: str, default: Sequence[str], kind: str = "") -> Sequence[str]:
        """Return what the template's file lists under a name, else the default."""
        own = self.phrasings.get(kind or self.kind, {})
        return own.get(f"{name}_{self.airline_or_retail}") or own.get(name) or default

    @cached_property
    def airline_or_retail(self) -> str:
        """Which world a service run is of, by the tools it calls."""
        tools = {x.call.name for x in self.run.exchanges}
        return "retail" if any("order" in t or "product" in t for t in tools) else "airline"

    @cached_property
    def is_chat(self) -> bool:
        """Whether it is a dialogue whose members speak freely: without plans and orders."""
        return self.manner == "dialogue" and all(
            s.kind == "message" for s in self.steps if s.actor == "agent"
        )

    @cached_property
    def has_shell(self) -> bool:
        """Whether a command can be run in it: a dialogue needs its terminal."""
        return self.manner == "coding" or any(
            s.actor == "environment" and "exitcode" in s.text for s in self.steps
        )

    @cached_property
    def known(self) -> str:
        """All text of the run: where an invented value must not occur."""
        return all_text(self.run)

    @cached_property
    def numbers(self) -> frozenset[float]:
        """Every number of the run."""
        return frozenset(map(number_of, _ANY_NUMBER.findall(self.known)))

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """The records that results hold, in order."""
        return tuple(_records_of(self.run.exchanges))

    @cached_property
    def messages(self) -> tuple[Step, ...]:
        """The agent's messages to the user or the group, once something was looked up."""
        looked = self.manner == "dialogue"
        found: list[Step] = []
        for step in self.steps:
            looked = looked or bool(step.results)
            if looked and step.actor == "agent" and step.text.strip() and not step.calls:
                found.append(step)
        return tuple(found[1:] if self.manner == "dialogue" else found)

    @cached_property
    def writes(self) -> tuple[Exchange, ...]:
        """The writes that worked."""
        return tuple(
            x
            for x in self.run.exchanges
            if infer_effect(x.call.name) == "write" and not x.failed and x.result_step is not None
        )

    @cached_property
    def consented(self) -> tuple[Consented, ...]:
        """The first write behind each consent, and that consent."""
        found: dict[int, Consented] = {}
        for write in self.writes:
            said = [s for s in self.steps[: write.step] if s.actor in ("user", "agent") and s.text]
            said = [s for s in said if not s.calls]
            if len(said) < 2 or said[-1].actor != "user" or said[-2].actor != "agent":
                continue
            ask, answer = said[-2], said[-1]
            if CONSENT.search(answer.text) and answer.index not in found and write.result_step:
                found[answer.index] = Consented(write, ask.index, answer.index, write.result_step)
        return tuple(found.values())

    @cached_property
    def claimed(self) -> tuple[tuple[Exchange, Step], ...]:
        """Writes that worked with the message right behind them that says so."""
        found = []
        for write in self.writes:
            at = write.answer_step + 1
            if at < len(self.steps):
                step = self.steps[at]
                if step.actor == "agent" and not step.calls and CLAIM.search(step.text):
                    found.append((write, step))
        return tuple(found)

    def user_behind(self, at: int) -> int | None:
        """Return the place of the first word of the user behind a place."""
        return next((s.index for s in self.steps[at + 1 :] if s.actor == "user" and s.text), None)

    def places(self) -> list[int]:
        """Return the places behind a result where the agent goes on."""
        return [
            x.answer_step + 1
            for x in self.run.exchanges
            if x.result_step is not None
            and x.answer_step + 1 < len(self.steps)
            and self.steps[x.answer_step + 1].actor == "agent"
        ]

    def fresh(self, like: str) -> str:
        """Return a text of the same form that occurs nowhere in the run."""
        new = _of_same_form(like, self.rng)
        while new in self.known:
            new = _of_same_form(like, self.rng)
        return new

    def fresh_amount(self, like: float, *, cents: bool) -> float:
        """Return an amount of about that size: no number of the run, no sum or difference of two.

        Two of what the messages tell, that is: in a run with a hundred prices any whole number is
        the sum of some two of them.
        """
        told = [number_of(a) for s in self.steps for a in DOLLARS.findall(s.text)]
        pairs = {round(a + sign * b, 2) for a in told for b in told for sign in (1, -1)}
        for _ in range(300):
            new = max(like, 12.0) * self.rng.uniform(0.6, 1.7)
            new = round(new, 2) if cents else float(round(new))
            if new not in self.numbers and new not in pairs:
                return new
        return round(like + 1013.37, 2) if cents else like + 1013

    def customer(self) -> tuple[str, str] | None:
        """Return first and last name of the user, from a record or the user's id."""
        for record in self.records:
            name = record.value.get("name")
            if record.kind == "user" and isinstance(name, dict):
                return str(name.get("first_name")), str(name.get("last_name"))
        found = re.search(r"\b([a-z]+)_([a-z]+)_\d{4}\b", self.known)
        return None if found is None else (found[1].title(), found[2].title())


def _records_of(exchanges: Iterable[Exchange]) -> Iterator[Record]:
    for x in exchanges:
        if x.result is None or x.failed:
            continue
        value = decoded(x.result.text)
        if not isinstance(value, dict):
            continue
        for kind in ("order", "reservation"):
            if isinstance(value.get(f"{kind}_id"), str):
                yield Record(kind, value[f"{kind}_id"], value, x)
        lookup = _LOOKUPS.get(x.call.name)
        if lookup in ("user", "product") and isinstance(x.call.arguments, dict):
            yield Record(lookup, str(x.call.arguments.get(f"{lookup}_id", "")), value, x)


def decoded(text: str) -> Json:
    """Return the JSON value of a text, None where it is none."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def number_of(text: str) -> float:
    """Return the number that a text with thousands separators writes."""
    return float(text.replace(",", ""))


def money(amount: float, like: str = "0") -> str:
    """Return an amount as agents tell it: cents only where there are any, commas as in `like`.

    >>> money(1203.0), money(16.5), money(2914.16, like="2895.55")
    ('1,203', '16.50', '2914.16')
    """
    text = f"{amount:,.0f}" if amount == int(amount) else f"{amount:,.2f}"
    return text.replace(",", "") if "," not in like and number_of(like) >= 1000 else text


def _of_same_form(text: str, rng: np.random.Generator) -> str:
    digits = sum(map(str.isdigit, text))
    letters = "ABCDEFGHJKLMNPQRSTUVWXYZ0123456789"
    new = ""
    for at, c in enumerate(text):
        if c.isdigit():
            new += str(rng.integers(at == 0, 10))
        else:
            new += letters[rng.integers(len(letters))] if digits < 3 and c.isupper() else c
    return new


_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def value_of(expression: str) -> float:
    """Return the value of a calculation of numbers, to cents.

    >>> value_of("(404 + 202) * 3")
    1818.0
    """

    def value(node: ast.expr) -> float:
        if isinstance(node, ast.BinOp):
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.UnaryOp):
            return -value(node.operand)
        assert isinstance(node, ast.Constant)
        return float(str(node.value))

    return round(value(ast.parse(expression, mode="eval").body), 2)


def strings_of(value: Json) -> list[str]:
    """Return the texts of a JSON value, in order."""
    if isinstance(value, dict):
        return [text for member in value.values() for text in strings_of(member)]
    if isinstance(value, list):
        return [text for member in value for text in strings_of(member)]
    return [value] if isinstance(value, str) else []


def identifiers_of(arguments: Json) -> list[str]:
    """Return the ids among arguments: not names, dates, addresses, or free text."""
    return [
        text
        for text in strings_of(arguments)
        if IDENTIFIER.fullmatch(text) or re.fullmatch(r"[A-Z0-9]{6}", text)
    ]


class Planted(NamedTuple):
    """What a planter did: the step that is at fault (or looks so), whose axis, and in words."""

    step: Step
    axis: Axis
    about: str
    also: tuple[Axis, ...] = ()


Planter = Callable[[Site], Planted | None]
