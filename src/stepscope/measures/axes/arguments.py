"""Arguments of calls: against the tool's JSON schema, and where their values come from.

Schema keywords checked: type, enum, const, required, properties, additionalProperties, items,
prefixItems, minItems, maxItems, minimum, maximum, exclusiveMinimum, exclusiveMaximum, minLength,
maxLength, pattern, anyOf, oneOf, allOf and local $ref; any other is left unread and never condemns.
A schema in a trace is hostile text: patterns that could run for ever are not run, and work is
bounded (`BUDGET`, `DEPTH`).

Values traced: identifiers, e-mail addresses, dates, numbers. Not traced: words, truth values, small
whole numbers and free text. A value found nowhere is `invented` only where no honest source is
left; where the agent may choose the value itself it is `unknown`, which condemns nobody.

Source: JSON Schema 2020-12, core and validation vocabularies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from math import inf
from typing import Literal, NamedTuple, TypeGuard

import msgspec

from stepscope.errors import ConfigError
from stepscope.measures.axes.evidence import Evidence, evidence_of
from stepscope.measures.axes.quantities import (
    AgentMessage,
    agent_messages,
    number_of,
    told_amounts,
)
from stepscope.measures.axes.records import find_reference_differences
from stepscope.measures.axes.sums import (
    calculations_of,
    find_missing_terms,
    find_untraced_amounts,
    find_untraced_terms,
)
from stepscope.measures.axes.told import (
    COUNTED_DAYS,
    date_of,
    find_absent_names,
    find_untraced,
    is_date_near,
    is_day_said,
    says_dates,
)
from stepscope.measures.calls import agent_calls, no_calls
from stepscope.measures.completeness import needing
from stepscope.measures.rule import (
    AXIS_SCALE,
    Fault,
    RuleMeasure,
    cached_on_run,
    fault_answers,
    faultless_answer,
    not_applicable,
    one_a_step,
)
from stepscope.model import Answer, Case, Exchange, Facts, Json, Scale, ToolDef, Trajectory, Verdict
from stepscope.model.effects import words_of
from stepscope.safety.limits import TextPattern, compile_pattern
from stepscope.values import Unmeasured

ValueKind = Literal["identifier", "email", "date", "number"]
ValueSource = Literal["said", "derived", "unknown", "invented"]

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
# Words of letters that make a text one for people, and signs that such texts lack.
WORDS = 2
_CODE = frozenset("{}<>=;\\|`\n\t")
_RELATIVE = re.compile(
    r"\b(?:today|tonight|tomorrow|yesterday|day after|days?|weeks?|weekend|months?|years?|next|"
    r"last|this|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|same date)\b"
)

# So many days, at most, are meant by a word for a time, however many of them.
_SPANS = {"days": 12, "week": 31, "month": 92, "year": 366} | dict.fromkeys(
    ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"), 7
)


class TracedValue(NamedTuple):
    """One judged value: the call's step, tool and argument, what it is and where it comes from."""

    step: int
    tool: str
    argument: str
    text: str
    kind: ValueKind
    state: ValueSource
    source: int | None
    reason: str


@cached_on_run
def trace_values(trajectory: Trajectory) -> list[TracedValue]:
    """Return every judged value of the agent's calls, in order; found once a run."""
    if not trajectory.exchanges:
        return []
    evidence = evidence_of(trajectory)
    found: list[TracedValue] = []
    # Of texts only: as keys 1, 1.0 and True would be one. What was said once stays said.
    classed: dict[tuple[str, Json], tuple[ValueKind | None, str]] = {}
    said: dict[tuple[ValueKind, str], int] = {}
    for exchange in agent_calls(trajectory):
        tool, step = exchange.call.name, exchange.step
        seen: set[tuple[str, str]] = set()
        for leaf in argument_leaves(exchange.call.arguments):
            argument, given = leaf
            textual = type(given) is str
            judged = classed.get(leaf) if textual else None
            if judged is None:
                judged = classify_value(argument, given)
                if textual:
                    classed[leaf] = judged
            kind, text = judged
            if kind is None or (argument, text) in seen:
                continue
            seen.add((argument, text))
            known = said.get((kind, text))
            if known is not None:
                found.append(TracedValue(step, tool, argument, text, kind, "said", known, ""))
                continue
            state, source, reason = _trace(evidence, kind, text, step)
            if source is not None and state == "said":
                said[kind, text] = source
            value = TracedValue(step, tool, argument, text, kind, state, source, reason)
            doubt = _doubt(evidence, value) if state == "invented" else ""
            found.append(value._replace(state="unknown", reason=doubt) if doubt else value)
    return found


def argument_leaves(arguments: Json) -> list[tuple[str, Json]]:
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


def classify_value(argument: str, value: Json) -> tuple[ValueKind | None, str]:
    """Return what kind of judged value stands in an argument, and its text; None: not judged.

    >>> classify_value("order_id", "#W2378156"), classify_value("reason", "#W2378156 is late")
    (('identifier', '#W2378156'), (None, ''))
    >>> classify_value("amount", 250), classify_value("bags", 2), classify_value("zip", "19122")
    (('number', '250'), (None, ''), ('identifier', '19122'))
    """
    roles = _roles(argument)
    if "free" in roles:
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
    if not (digit or ("thing" in roles and text.isupper())):
        return _NOT_JUDGED
    if len(text) not in IDENTIFIER_CHARACTERS or not (text.isalnum() or _TOKEN.fullmatch(text)):
        return _NOT_JUDGED
    if "amount" in roles and number_of(text) is not None:
        return "number", text
    return "identifier", text


def _trace(
    evidence: Evidence, kind: ValueKind, text: str, step: int
) -> tuple[ValueSource, int | None, str]:
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


def _doubt(evidence: Evidence, value: TracedValue) -> str:
    """Return why a value found nowhere may still be honest, "" where nothing speaks for it."""
    roles = _roles(value.argument)
    if why := evidence.why_unknown(value.step):
        return why
    if not evidence.requested:
        return "the trace lacks what was asked"
    if value.kind == "number":
        return "" if "amount" in roles else "a number that may be a setting"
    if value.kind == "date":
        relative = evidence.matched(_RELATIVE)
        told = date_of(value.text)
        if told is not None and is_day_said(evidence, told, value.step):
            return "its month may be the one that was meant"
        if relative is None or relative >= value.step:
            return ""
        spoken = " ".join([words for at, words in evidence.user_words() if at < value.step])
        most = max([days for word, days in _SPANS.items() if word in spoken], default=COUNTED_DAYS)
        near = told is None or is_date_near(evidence, told, value.step, most)
        if near or not says_dates(evidence, value.step):
            return "may be counted from a day that was said"
        return ""
    if value.kind == "email":
        local = value.text.partition("@")[0]
        return "only its name was said" if evidence.said(local, value.step) is not None else ""
    if not MAKES.isdisjoint(words_of(value.tool)[:1]):
        return f"{value.tool} may name something new"
    return "" if "thing" in roles else "may be the agent's own choice"


@lru_cache(maxsize=4096)
def _roles(argument: str) -> frozenset[str]:
    """Return what an argument's name says: worded freely, an amount, one existing thing."""
    words = set(words_of(argument))
    known = {"free": FREE_TEXT, "amount": AMOUNTS, "thing": NAMES_A_THING}
    return frozenset(role for role, some in known.items() if not some.isdisjoint(words))


# Schemas looked at for one call, and one inside the other: real ones take tens, and five; a $ref
# to itself never ends, and two of them in an anyOf explode.
BUDGET = 2_000
DEPTH = 64
# A pattern is run only on short texts, and only if no group of it repeats (see `_pattern`).
PATTERN_CHARACTERS = 200
TEXT_CHARACTERS = 256
# A value quoted in a reason.
QUOTE_CHARACTERS = 40

# A single value with no more than these needs only its type looked at: most arguments.
_PLAIN = frozenset({"type", "description", "title", "default", "enum"})
_REPEATED_GROUP = re.compile(r"\)[*+{]")
_UNBOUNDED = re.compile(r"[*+]|,\}")
_UNBOUNDED_AT_MOST = 2


def declared_tools(trajectory: Trajectory, exchange: Exchange) -> list[ToolDef]:
    """Return the declared tools that a call may mean: of its name, offered to its agent.

    Where two agents have tools of one name, the caller's own counts; where the trace does not say
    who was offered what, any of them.
    """
    name = exchange.call.name
    named = [tool for tool in trajectory.tools or () if tool.name == name]
    caller = trajectory.steps[exchange.step].agent
    own = [tool for tool in named if tool.agent is not None and tool.agent == caller]
    if own:
        return own
    return [tool for tool in named if tool.agent is None or caller is None]


def schema_violations(trajectory: Trajectory) -> tuple[list[Fault], int]:
    """Return what breaks a declared schema, and how many of the agent's calls had one."""
    found: list[Fault] = []
    checked = 0
    if not trajectory.tools:
        return found, checked
    for exchange in agent_calls(trajectory):
        schemas = [t.schema for t in declared_tools(trajectory, exchange) if t.schema is not None]
        if not schemas:
            continue
        checked += 1
        reason = min((why_invalid(exchange, schema) or "" for schema in schemas), key=len)
        if reason:
            found.append(Fault(exchange.step, reason, rule=exchange.call.name))
    return found, checked


def why_invalid(exchange: Exchange, schema: dict[str, Json]) -> str | None:
    """Return why the arguments of a call break `schema`; None where they keep to it."""
    call = exchange.call
    if call.parse_error is not None:
        return f"the arguments are not JSON: {_short(call.raw)}"
    arguments = {} if call.arguments is None else call.arguments
    return next(_Check(schema).faults(arguments, schema, ""), None)


class _Check:
    """One walk over a value and its schema, with what is left of the budget."""

    def __init__(self, root: dict[str, Json]) -> None:
        self._root = root
        self._left = BUDGET
        self._depth = 0

    def faults(self, value: Json, schema: Json, at: str) -> Iterator[str]:
        """Yield one sentence for each breach."""
        if schema is False:
            yield f"{at or 'it'} is not allowed"
        self._left -= 1
        if self._left < 0 or self._depth >= DEPTH or not isinstance(schema, dict):
            return
        if schema.keys() <= _PLAIN and not isinstance(value, dict | list):
            yield from _of_type(value, schema, at)
            return
        self._depth += 1
        yield from _of_type(value, schema, at)
        yield from _of_range(value, schema, at)
        if "$ref" in schema:
            yield from self.faults(value, self._resolve(schema["$ref"]), at)
        if isinstance(value, dict):
            yield from self._object(value, schema, at)
        elif isinstance(value, list):
            yield from self._array(value, schema, at)
        yield from self._combined(value, schema, at)
        self._depth -= 1

    def _resolve(self, pointer: Json) -> Json:
        target: Json = self._root
        if not isinstance(pointer, str) or not pointer.startswith("#"):
            return None
        for name in pointer[1:].split("/")[1:]:
            if not isinstance(target, dict):
                return None
            target = target.get(name.replace("~1", "/").replace("~0", "~"))
        return target

    def _object(self, value: dict[str, Json], schema: dict[str, Json], at: str) -> Iterator[str]:
        required = schema.get("required")
        for name in required if isinstance(required, list) else ():
            if isinstance(name, str) and name not in value:
                yield f"{_path(at, name)} is required and missing"
        given = schema.get("properties")
        properties = given if isinstance(given, dict) else {}
        others = schema.get("additionalProperties", True)
        patterns = schema.get("patternProperties")
        for name, member in value.items():
            if name in properties:
                yield from self.faults(member, properties[name], _path(at, name))
            elif others is False and not patterns:
                yield f"{_path(at, name)} is not declared"
            elif isinstance(others, dict) and not patterns:
                yield from self.faults(member, others, _path(at, name))

    def _array(self, value: list[Json], schema: dict[str, Json], at: str) -> Iterator[str]:
        low, high = schema.get("minItems"), schema.get("maxItems")
        if _is_number(low) and len(value) < low:
            yield f"{at} has {len(value)} entries, at least {low} expected"
        if _is_number(high) and len(value) > high:
            yield f"{at} has {len(value)} entries, at most {high} expected"
        given = schema.get("prefixItems")
        first = given if isinstance(given, list) else []
        for number, member in enumerate(value):
            each = first[number] if number < len(first) else schema.get("items")
            yield from self.faults(member, each, f"{at}[{number}]")

    def _combined(self, value: Json, schema: dict[str, Json], at: str) -> Iterator[str]:
        every = schema.get("allOf")
        for part in every if isinstance(every, list) else ():
            yield from self.faults(value, part, at)
        for keyword in ("anyOf", "oneOf"):
            options = schema.get(keyword)
            if not isinstance(options, list) or not options:
                continue
            reasons = [self._first(value, option, at) for option in options]
            if all(reasons) and self._left > 0:
                yield f"{at or 'it'} is none of {len(options)} allowed forms: {reasons[0]}"
            elif keyword == "oneOf" and self._left > 0 and reasons.count(None) > 1:
                yield f"{at or 'it'} is {reasons.count(None)} of the forms, exactly one expected"

    def _first(self, value: Json, schema: Json, at: str) -> str | None:
        depth = self._depth
        reason = next(self.faults(value, schema, at), None)
        self._depth = depth  # a walk left half-way does not count itself out
        return reason


def _of_type(value: Json, schema: dict[str, Json], at: str) -> Iterator[str]:
    wanted = schema.get("type")
    names = wanted if isinstance(wanted, list) else [wanted]
    tests = [_TYPES[name] for name in names if isinstance(name, str) and name in _TYPES]
    if len(tests) == len(names) and not any(test(value) for test in tests):
        if not (value is None and schema.get("nullable") is True):
            yield f"{at or 'it'} is {_short(value)}, expected {' or '.join(map(str, names))}"
            return
    options = schema.get("enum")
    if isinstance(options, list) and not any(_equal_values(value, option) for option in options):
        yield f"{at or 'it'} is {_short(value)}, expected one of {_short(options)}"
    if "const" in schema and not _equal_values(value, schema["const"]):
        yield f"{at or 'it'} is {_short(value)}, expected {_short(schema['const'])}"


def _of_range(value: Json, schema: dict[str, Json], at: str) -> Iterator[str]:
    if isinstance(value, str):
        low, high = schema.get("minLength"), schema.get("maxLength")
        if _is_number(low) and len(value) < low:
            yield f"{at} is {_short(value)}, at least {low} characters expected"
        if _is_number(high) and len(value) > high:
            yield f"{at} has {len(value)} characters, at most {high} expected"
        pattern = schema.get("pattern")
        compiled = _pattern(pattern) if isinstance(pattern, str) else None
        if compiled and len(value) <= TEXT_CHARACTERS and not compiled.search(value):
            yield f"{at} is {_short(value)}, expected the form {_short(pattern)}"
    elif _is_number(value):
        for keyword, holds, said in _BOUNDS:
            bound = schema.get(keyword)
            if _is_number(bound) and not holds(value, bound):
                yield f"{at} is {_short(value)}, expected {said} {_short(bound)}"


@lru_cache(maxsize=256)
def _pattern(text: str) -> TextPattern | None:
    """Return a pattern of a trace, searched in linear time; None for one that is not read."""
    risky = _REPEATED_GROUP.search(text) or len(_UNBOUNDED.findall(text)) > _UNBOUNDED_AT_MOST
    if len(text) > PATTERN_CHARACTERS or risky:
        return None
    try:
        return compile_pattern(text, "a schema")
    except ConfigError:
        return None  # the dialect of JSON Schema is JavaScript's: what RE2 cannot read is unread


def _is_number(value: Json) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Json) -> bool:
    return _is_number(value) and float(value).is_integer()


_TYPES: dict[str, Callable[[Json], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": _is_integer,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}
_BOUNDS: Sequence[tuple[str, Callable[[float, float], bool], str]] = (
    ("minimum", lambda value, bound: value >= bound, "at least"),
    ("maximum", lambda value, bound: value <= bound, "at most"),
    ("exclusiveMinimum", lambda value, bound: value > bound, "more than"),
    ("exclusiveMaximum", lambda value, bound: value < bound, "less than"),
)


def _equal_values(value: Json, other: Json) -> bool:
    """Equality of JSON, where 1 is 1.0 and is not true."""
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    return bool(value == other)


def _path(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _short(value: Json) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= QUOTE_CHARACTERS else text[: QUOTE_CHARACTERS - 1] + "…"


ARGUMENT_VALIDITY_NAME = "axes.argument_validity"

_VALIDITY_OF_NO_CALLS = (no_calls(ARGUMENT_VALIDITY_NAME),)


def _validity(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    """Were the arguments well-formed and grounded, whichever tool was chosen?

    Incorrect: arguments that are not JSON, that break the tool's declared schema, that name an
    identifier, e-mail, date, amount, term of a calculation or file found nowhere before; a sum that
    leaves out a term of its kind; a write that differs from the expected one, unless the outcome's
    check passed or the user's words name the value. Whether the tool was the right one is the axis
    tool_selection; whether a result was read rightly, result_interpretation.
    """
    made = agent_calls(trajectory)
    absent = list(find_absent_names(trajectory))
    if not made:
        return fault_answers(ARGUMENT_VALIDITY_NAME, absent) if absent else _VALIDITY_OF_NO_CALLS
    broken, checked = schema_violations(trajectory)
    faults = [*absent, *(Fault(fault.step, f"{fault.rule}: {fault.reason}") for fault in broken)]
    known = {fault.step for fault in broken}
    faults += [
        Fault(x.step, f"{x.call.name}: the arguments are not JSON")
        for x in made
        if x.call.parse_error is not None and x.step not in known
    ]
    values = trace_values(trajectory)
    faults += [
        Fault(value.step, f"{value.tool}: {value.argument} {value.text!r} was said nowhere before")
        for value in values
        if value.state == "invented"
    ]
    terms = 0
    if calculations_of(trajectory):
        terms, untraced = find_untraced_terms(trajectory, evidence_of(trajectory))
        faults += untraced
    faults += find_missing_terms(trajectory)
    faults += _untraced_words(trajectory)
    faults += find_reference_differences(trajectory, case)
    if faults:
        return fault_answers(ARGUMENT_VALIDITY_NAME, faults)
    schema = f"{checked} of {len(made)} calls keep to a declared schema"
    unknown = [value for value in values if value.state == "unknown"]
    if unknown:
        first = unknown[0]
        why = f"{first.tool}: {first.argument} {first.text!r} was said nowhere, {first.reason}"
        cites = tuple(sorted({value.step for value in unknown}))
        return faultless_answer(ARGUMENT_VALIDITY_NAME, why, cites)
    if not values and not terms and not checked:
        return not_applicable(ARGUMENT_VALIDITY_NAME, "no argument to trace, and no schema")
    why = f"{len(values) + terms} values traced to what was said; {schema}"
    return faultless_answer(ARGUMENT_VALIDITY_NAME, f"{why}; not judged: whether right")


def _untraced_words(trajectory: Trajectory) -> Iterator[Fault]:
    """Yield what the agent's words in arguments tell without an origin: a summary, a street.

    Code and new texts are its own to write.
    """
    evidence = evidence_of(trajectory)
    dates: set[str] = set()
    for exchange in agent_calls(trajectory) if evidence.requested else ():
        for _, text in argument_leaves(exchange.call.arguments):
            if type(text) is not str or not _CODE.isdisjoint(text):
                continue
            if sum(map(str.isalpha, text.split())) < WORDS:
                continue
            if MAKES.isdisjoint(words_of(exchange.call.name)[:1]):
                step = trajectory.steps[exchange.step]
                faults = find_untraced(text, step.index, evidence, (), dates)[1]
                if found := told_amounts(text):
                    before = [
                        x.text for x in agent_messages(trajectory) if x.step.index < step.index
                    ]
                    sound = {one.value for said in before for one in told_amounts(said)}
                    words = AgentMessage(step, text, ())
                    faults += find_untraced_amounts(trajectory, words, found=found, sound=sound)
                for fault in faults:
                    yield fault._replace(reason=f"{exchange.call.name}: {fault.reason}")


ARGUMENT_VALIDITY = RuleMeasure(
    ARGUMENT_VALIDITY_NAME, "4", AXIS_SCALE, (), needing("arguments", _validity)
)


GROUNDING_LABELS = ("invented", "unknown")
_NAMES = ("grounding", "grounding.invented")
_GROUNDING_OF_NO_CALLS = tuple(no_calls(name) for name in _NAMES)
_NOTHING = tuple(
    Unmeasured("not_applicable", "no argument holds an identifier, e-mail, date or number", name)
    for name in _NAMES
)


def _grounding(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    """Whether the identifiers, e-mails, dates and numbers in arguments come from somewhere.

    Value: the share of judged values that were said earlier or are derived from what was, among
    those of which the rules can tell; those that may be the agent's own choice are left out and
    counted in the reason. Aspect `grounding.invented` counts the values found nowhere. What is
    judged and what a source is: `stepscope.measures.axes.arguments`.
    """
    values = trace_values(trajectory)
    if not values:
        return _NOTHING if agent_calls(trajectory) else _GROUNDING_OF_NO_CALLS
    invented = [value for value in values if value.state == "invented"]
    unknown = [value for value in values if value.state == "unknown"]
    known = len(values) - len(unknown)
    cites = tuple(sorted({value.step for value in invented}))
    reason = f"{known - len(invented)} of {known} values come from what was said"
    if unknown:
        reason += f"; of {len(unknown)} more nobody can tell"
    share: Answer = Unmeasured("undefined", f"of {len(unknown)} values nobody can tell", _NAMES[0])
    if known:
        share = Verdict(_NAMES[0], (known - len(invented)) / known, cites=cites, reason=reason)
    each = [
        Verdict(
            _NAMES[0],
            label=value.state,
            step=value.step,
            cites=(value.step,),
            reason=f"{value.tool}.{value.argument} {value.text}: {value.reason}",
        )
        for value in values
        if value.state in GROUNDING_LABELS
    ]
    return (
        share,
        Verdict(_NAMES[1], float(len(invented)), cites=cites),
        *one_a_step(each, lambda labels: min(labels, key=GROUNDING_LABELS.index)),
    )


GROUNDING = RuleMeasure("grounding", "2", Scale(0.0, inf, GROUNDING_LABELS), (), _grounding)


LABEL = "violation"

_SCHEMA_OF_NO_CALLS = (no_calls("tool_schema"),)
_NO_SCHEMA = (
    Unmeasured("missing_input", "no called tool has a declared JSON schema", "tool_schema"),
)


def _tool_schema(
    trajectory: Trajectory, case: Case | None, facts: Facts | None
) -> Iterable[Answer]:
    """Tool calls whose arguments break the JSON schema that the tool declares, each cited.

    Without any declared schema the answer is unmeasured, never "no violation"; calls of tools
    without one are not counted, and the reason says how many were.
    """
    made = agent_calls(trajectory)
    if not made:
        return _SCHEMA_OF_NO_CALLS
    found, checked = schema_violations(trajectory)
    if not checked:
        return _NO_SCHEMA
    checks = f"{checked} of {len(made)} calls have a declared schema"
    if not found:
        return (Verdict("tool_schema", 0.0, reason=checks),)
    whole = Verdict(
        "tool_schema",
        float(len(found)),
        cites=tuple(sorted({fault.step for fault in found})),
        reason=f"{found[0].rule}: {found[0].reason}; {checks}",
    )
    each = [
        Verdict(
            "tool_schema",
            label=LABEL,
            step=fault.step,
            cites=(fault.step,),
            reason=f"{fault.rule}: {fault.reason}",
        )
        for fault in found
    ]
    return (whole, *one_a_step(each, lambda labels: labels[0]))


TOOL_SCHEMA = RuleMeasure("tool_schema", "2", Scale(0.0, inf, (LABEL,)), (), _tool_schema)
