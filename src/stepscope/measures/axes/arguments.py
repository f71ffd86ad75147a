"""Arguments of calls: against the tool's JSON schema, and where their values come from.

Values traced: identifiers, e-mail addresses, dates, numbers. Not traced: words, truth values, small
whole numbers and free text. A value found nowhere is `invented` only where no honest source is
left; where the agent may choose the value itself it is `unknown`, which condemns nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from math import inf
from typing import Literal, NamedTuple

from stepscope.measures.axes.evidence import Evidence, evidence_of
from stepscope.measures.axes.quantities import AgentMessage, first_told, number_of, told_amounts
from stepscope.measures.axes.records import find_reference_differences
from stepscope.measures.axes.sums import (
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
    absences,
    cached_on_run,
    fault_answers,
    faultless_answer,
    not_applicable,
    one_a_step,
    step_answer,
)
from stepscope.model import Answer, Case, Exchange, Facts, Json, Scale, ToolDef, Trajectory, Verdict
from stepscope.model.effects import words_of
from stepscope.models.dialect import find_schema_fault, quote_json
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
_NESTED = frozenset((dict, list))
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_DATE = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[T ][\d:.]+(?:Z|[+-]\d{2}:?\d{2})?)?")
_DIGIT = re.compile(r"\d")
_TOKEN = re.compile(r"[#@]?\w+(?:[-.:]\w+)*")
# Words of letters that make a text one for people, and signs that such texts lack.
WORDS = 2
_CODE = re.compile(r"[{}<>=;\\|`\n\t]")
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
    # What was said once stays said.
    said: dict[tuple[ValueKind, str], tuple[ValueSource, int | None, str]] = {}
    for exchange, leaves in _leaves_of(trajectory):
        tool, step = exchange.call.name, exchange.step
        seen: set[tuple[str, str]] = set()
        for argument, given in leaves:
            long = type(given) is str and len(given) > EMAIL_CHARACTERS
            kind, text = (classify_value if long else _known_class)(argument, given)
            if kind is None or (argument, text) in seen:
                continue
            seen.add((argument, text))
            traced = said.get((kind, text)) or _trace(evidence, kind, text, step)
            state = traced[0]
            if state == "said":
                said[kind, text] = traced
            value = TracedValue(step, tool, argument, text, kind, *traced)
            doubt = _doubt(evidence, value) if state == "invented" else ""
            found.append(value._replace(state="unknown", reason=doubt) if doubt else value)
    return found


@cached_on_run
def _leaves_of(trajectory: Trajectory) -> list[tuple[Exchange, list[tuple[str, Json]]]]:
    """Return the agent's calls, each with the single values of its arguments."""
    return [(x, argument_leaves(x.call.arguments)) for x in agent_calls(trajectory)]


def argument_leaves(arguments: Json) -> list[tuple[str, Json]]:
    """Return the name and value of every single value in a call's arguments, at any depth."""
    if type(arguments) is dict and _NESTED.isdisjoint(map(type, arguments.values())):
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
    """Return what kind of judged value stands in an argument, and its text; None: not judged."""
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


# By type too: as keys 1, 1.0 and True are one.
_known_class = lru_cache(maxsize=8192, typed=True)(classify_value)


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
        spoken = " ".join([words for at, words in evidence.heard if at < value.step])
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
    for exchange in agent_calls(trajectory) if trajectory.tools else ():
        schemas = [t.schema for t in declared_tools(trajectory, exchange) if t.schema is not None]
        if not schemas:
            continue
        checked += 1
        call = exchange.call
        given = {} if call.arguments is None else call.arguments
        reason = min((find_schema_fault(given, schema) or "" for schema in schemas), key=len)
        if call.parse_error is not None:
            reason = f"the arguments are not JSON: {quote_json(call.raw)}"
        if reason:
            found.append(Fault(exchange.step, reason, rule=call.name))
    return found, checked


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
    for exchange, leaves in _leaves_of(trajectory) if evidence.requested else ():
        makes = not MAKES.isdisjoint(words_of(exchange.call.name)[:1])
        for _, text in () if makes else leaves:
            if type(text) is not str or len(text.split(None, 1)) < WORDS:
                continue
            if _CODE.search(text) or sum(map(str.isalpha, text.split())) < WORDS:
                continue
            step = trajectory.steps[exchange.step]
            faults = find_untraced(text, step.index, evidence, (), dates)[1]
            if found := told_amounts(text):
                here, first = step.index, first_told(trajectory)
                sound = {one.value for one in found if first.get(one.value, here) < here}
                words = AgentMessage(step, text, ())
                faults += find_untraced_amounts(trajectory, words, found=found, sound=sound)
            for fault in faults:
                yield fault._replace(reason=f"{exchange.call.name}: {fault.reason}")


ARGUMENT_VALIDITY = RuleMeasure(
    ARGUMENT_VALIDITY_NAME, "6", AXIS_SCALE, (), needing("arguments", _validity)
)


GROUNDING_LABELS = ("invented", "unknown")
_NAMES = ("grounding", "grounding.invented")
_GROUNDING_OF_NO_CALLS = tuple(no_calls(name) for name in _NAMES)
_WITHOUT_VALUES = "no argument holds an identifier, e-mail, date or number"
_NOTHING = absences("not_applicable", _WITHOUT_VALUES, *_NAMES)


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
        step_answer(_NAMES[0], x.state, x.step, f"{x.tool}.{x.argument} {x.text}: {x.reason}")
        for x in values
        if x.state in GROUNDING_LABELS
    ]
    return (
        share,
        Verdict(_NAMES[1], float(len(invented)), cites=cites),
        *one_a_step(each, lambda labels: min(labels, key=GROUNDING_LABELS.index)),
    )


GROUNDING = RuleMeasure("grounding", "2", Scale(0.0, inf, GROUNDING_LABELS), (), _grounding)


LABEL = "violation"

_SCHEMA_OF_NO_CALLS = (no_calls("tool_schema"),)
WITHOUT_SCHEMA = "no called tool has a declared JSON schema"
_NO_SCHEMA = absences("missing_input", WITHOUT_SCHEMA, "tool_schema")


def _schemas(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
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
    cites = tuple(sorted({fault.step for fault in found}))
    said = f"{found[0].rule}: {found[0].reason}; {checks}"
    whole = Verdict("tool_schema", float(len(found)), cites=cites, reason=said)
    each = [step_answer("tool_schema", LABEL, x.step, f"{x.rule}: {x.reason}") for x in found]
    return (whole, *one_a_step(each, lambda labels: labels[0]))


TOOL_SCHEMA = RuleMeasure("tool_schema", "2", Scale(0.0, inf, (LABEL,)), (), _schemas)
