"""The steps of a run, each in one plain sentence: who does what, in the words of the trace.

A sentence is made by rules from what was recorded: the verb of a tool's name, the values passed,
what came back, the earlier step that it repeats. What a message means is not guessed; it is quoted.
Names of checks do not stand in it. A step has one mark, the gravest thing that happens in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Literal, NamedTuple

import msgspec

from stepscope.measures.calls import compared_error
from stepscope.model import Exchange, Json, Step, SubGoal, ToolCall, Trajectory
from stepscope.model.effects import READS, WRITES, infer_effect, words_of
from stepscope.report import words
from stepscope.report.suspects import find_lacks, quote_error
from stepscope.report.types import SuspectSteps
from stepscope.values import format_number

# What happens in a step, the gravest first; a column of the strip shows the gravest of its steps.
StepEvent = Literal["refused", "writes", "calls", "says", "user", "system", "returns"]
# The sign of each, for those who do not see its colour.
EVENT_SIGNS: Mapping[StepEvent, str] = {
    "refused": "✕",
    "writes": "■",
    "calls": "▸",
    "says": "○",
    "user": "●",
    "system": "§",
    "returns": "",
}
EVENTS = tuple(EVENT_SIGNS)
# Characters of a sentence, and of one value in it.
SENTENCE, VALUE = 120, 60
# Values that a sentence names of one call, and differences.
NAMED_VALUES, NAMED_DIFFERENCES = 4, 2
# A result shorter than this stands whole in the sentence of its call.
SHORT_RESULT = 24
# Probability from which the outline names it.
TOLD_SHARE = 0.03

_ACTS = (
    "ask call click communicate complete execute exit finish go handoff hand navigate open run "
    "scroll start stop transfer type wait"
)
_VERBS = READS | WRITES | frozenset(_ACTS.split())
_COMPUTES = frozenset({"calculate", "compute", "evaluate"})
# "total price is 1203, but paid 833": what was due, and what was given for it.
_AMOUNTS = re.compile(
    r"\b(?:price|total|cost|amount|due|sum)\b\D{0,14}(\$?\d(?:[\d,]*\d)?(?:\.\d+)?)\D{1,24}"
    r"\b(?:paid|pays|payments?|given|got)\b\D{0,8}(\$?\d(?:[\d,]*\d)?(?:\.\d+)?)"
)
_MARKUP = re.compile(r"\*\*|`|^\s*(?:[-*>]|\d+\.|#{1,6})\s+", re.MULTILINE)
_BETWEEN = re.compile(r"(?<=[.!?])[\s\"*]+|\n+")
# A sentence that only opens a message says nothing of it.
_OPENING = re.compile(
    r"(?i)(?:(?:hi|hello|certainly|great|of course|thank you|thanks|i understand|i can help|"
    r"i'll help|let me|i'm sorry|i apologi[sz]e|got it|perfect)\b"
    r"[^.!?]{0,40}|found it)[.!]"
)
# What evidence begins with that is a sentence about the step by itself.
_TELLS = re.compile(r"(?:adds|announces|assumes|brings|tells) ")


class StepLine(NamedTuple):
    """One step in one line: what happens, in a sentence; how likely the run went wrong there."""

    step: int
    event: StepEvent
    sentence: str
    share: float | None = None
    why: str = ""  # the evidence against it


class CallHistory(NamedTuple):
    """What came before each call of a run, by its position."""

    same: Mapping[int, int]  # the step of the last call that was the same, to the letter
    errors: Mapping[int, tuple[int, ...]]  # the steps of earlier calls with the same error
    earlier: Mapping[int, Exchange]  # the last call of the same tool


def read_history(trajectory: Trajectory) -> CallHistory:
    """Return what came before each call of a run."""
    same: dict[int, int] = {}
    errors: dict[int, tuple[int, ...]] = {}
    earlier: dict[int, Exchange] = {}
    keys: dict[str, int] = {}
    tools: dict[str, Exchange] = {}
    failed: dict[tuple[str, str], list[int]] = {}
    for one in trajectory.exchanges:
        if one.key in keys:
            same[one.position] = keys[one.key]
        if one.call.name in tools:
            earlier[one.position] = tools[one.call.name]
        if one.failed:
            steps = failed.setdefault(compared_error(one), [])
            errors[one.position] = tuple(steps[-3:])
            steps.append(one.step)
        keys[one.key], tools[one.call.name] = one.step, one
    return CallHistory(same, errors, earlier)


def list_step_lines(
    trajectory: Trajectory,
    shown: Sequence[int],
    *,
    history: CallHistory,
    suspects: Sequence[SuspectSteps] = (),
    goals: Sequence[SubGoal] = (),  # expected calls that the run never reached
) -> Iterator[StepLine]:
    """Yield some steps of a run, each in one line."""
    made, answered = group_calls(trajectory, shown)
    found: dict[int, SuspectSteps] = {}
    for one in suspects:
        found.setdefault(one.first, one)
    for index in shown:
        step, suspect = trajectory.steps[index], found.get(index)
        calls = made.get(index, [])
        said = _tell_evidence(suspect) or tell_step(
            step, calls, answered.get(index, []), history=history, goals=goals
        )
        why = "" if suspect is None or suspect.kind == "place" else suspect.evidence
        share = None if suspect is None else suspect.share
        yield StepLine(index, find_event(step, calls), said, share, why)


def group_calls(
    trajectory: Trajectory, shown: Sequence[int]
) -> tuple[dict[int, list[Exchange]], dict[int, list[Exchange]]]:
    """Return the calls of some steps by the step that makes them, and by the one that answers."""
    made: dict[int, list[Exchange]] = {}
    answered: dict[int, list[Exchange]] = {}
    wanted = frozenset(shown)
    for one in trajectory.exchanges:
        if one.step in wanted:
            made.setdefault(one.step, []).append(one)
        if one.result_step is not None and one.result_step in wanted:
            answered.setdefault(one.result_step, []).append(one)
    return made, answered


def find_event(step: Step, made: Sequence[Exchange] = ()) -> StepEvent:
    """Return the gravest thing that happens in a step."""
    if step.error or any(result.status == "error" for result in step.results):
        return "refused"
    if step.actor == "environment":
        return "returns"
    if step.calls:
        names = (one.call.name for one in made) if made else (call.name for call in step.calls)
        return "writes" if any(infer_effect(name) == "write" for name in names) else "calls"
    return {"system": "system", "user": "user"}.get(step.actor, "says")  # type: ignore[return-value]


def tell_step(
    step: Step,
    made: Sequence[Exchange],  # the calls that it makes
    answered: Sequence[Exchange],  # the calls that it answers
    *,
    history: CallHistory,
    goals: Sequence[SubGoal] = (),
) -> str:
    """Return one sentence about a step."""
    if made and step.actor != "environment":
        said = tell_call(made[0], history, goals)
        more = len(made) - 1
        return f"{said.removesuffix('.')}; and {more} more call{'s' * (more > 1)}" if more else said
    if step.results:
        return tell_result(step, answered, history)
    text = " ".join(_MARKUP.sub("", step.text).split())
    if step.actor == "system":
        count = len(text.split())
        return f"The instructions: {count:,} words" if count > 12 else text or "No text"
    if not text:
        kinds = ", ".join(dict.fromkeys(part.kind for part in step.parts))
        return f"No text ({kinds or step.kind})"
    return words.cut_words(_choose_sentence(text), SENTENCE)


def _choose_sentence(text: str) -> str:
    """Return the beginning of a message, behind what only opens it."""
    said = [one for one in map(str.strip, _BETWEEN.split(text)) if len(one) > 1]
    while len(said) > 1 and _OPENING.fullmatch(said[0]):
        del said[0]
    begins = ""
    for one in said:
        begins = f"{begins} {one}".strip()
        if len(begins) > SENTENCE // 3:
            break
    return begins or text


def tell_call(
    made: Exchange, history: CallHistory, goals: Sequence[SubGoal] = (), width: int = SENTENCE
) -> str:
    """Return one sentence about a call: what is done, and how it went."""
    before = history.same.get(made.position)
    if made.failed:
        # What was due and what was given, where a refusal names both.
        amounts = _AMOUNTS.search(quote_error(made))
        said = _tell_action(made, VALUE)
        if amounts is not None:
            said = f"Pays {_amount(amounts[2])} of {_amount(amounts[1])}"
        if again := history.errors.get(made.position):
            return f"{said}; same mistake as at {join_steps(again)}"
        said += "; refused" if infer_effect(made.call.name) == "write" else "; fails"
        return said if amounts else words.cut_words(f"{said}: {quote_error(made)}", width)
    if before is not None:
        return f"Makes the call of {before} again, unchanged"
    verb = _tell_verb(made.call)
    if changed := _changes(history.earlier.get(made.position), made):
        return words.cut_words(f"{verb} again, with other {', '.join(changed)}", width)
    if not (lacks := find_expected(made, goals)):
        return _tell_action(made, width)
    parts = [
        f"{path} {words.brief_value(was) or 'none'}, expected {words.brief_value(want)}"
        for path, was, want in lacks[:NAMED_DIFFERENCES]
    ]
    return words.cut_words(f"{verb}: {'; '.join(parts)}", width)


def find_expected(made: Exchange, goals: Sequence[SubGoal]) -> list[tuple[str, Json, Json]]:
    """Return how a call differs from the nearest expected one that the run never made."""
    near = [find_lacks(made, goal) for goal in goals if goal.tool == made.call.name]
    return min(near, key=len, default=[])


def _amount(text: str) -> str:
    number = text.lstrip("$").replace(",", "").rstrip(".")
    sign = "$" if text.startswith("$") else ""
    whole = number.removesuffix(".00").removesuffix(".0")
    return f"{sign}{int(whole):,}" if whole.isdecimal() else text


def _changes(earlier: Exchange | None, made: Exchange) -> list[str]:
    """Return what a call has otherwise than the last of its tool, where most is the same."""
    given = made.call.arguments
    if earlier is None or not isinstance(given, dict) or len(given) < words.WORTH_A_DIFFERENCE:
        return []
    found = list(words.find_differences(earlier.call.arguments, given))
    return [
        f"{path} ({words.brief_value(was) or 'none'} to {words.brief_value(now) or 'none'})"
        for path, was, now in (found if len(found) <= NAMED_DIFFERENCES else ())
    ]


def _tell_verb(call: ToolCall) -> str:
    verb, *rest = words_of(call.name) or (call.name,)
    if verb not in _VERBS:
        return f"Calls {call.name}"
    ends = "es" if re.search(r"(?:[sxz]|[cs]h|o)$", verb) else "s"
    verb = f"{verb[:-1]}ies" if re.search(r"[^aeiou]y$", verb) else verb + ends
    return " ".join([verb.capitalize(), *rest])


def _tell_action(made: Exchange, width: int) -> str:
    call = made.call
    verb, given = _tell_verb(call), call.arguments
    if given is None:
        given = {} if call.raw is None else {"": call.raw}
    items = list(given.items()) if isinstance(given, dict) else [("", given)]
    values = [
        value
        for name, item in items[:NAMED_VALUES]
        if (value := words.cut_words(_tell_value(name, item), VALUE if len(items) > 1 else width))
    ]
    said = f"{verb}: {', '.join(values)}" if values else verb
    if words_of(call.name)[:1] and words_of(call.name)[0] in _COMPUTES and len(values) == 1:
        said = f"{verb} {values[0]}"
        result = "" if made.result is None else " ".join(words.quote_result(made.result).split())
        if 0 < len(result) <= SHORT_RESULT:
            said += f" = {result.removesuffix('.0')}"
    return words.cut_words(said, width)


def _tell_value(name: str, item: Json) -> str:
    text = " ".join(words.describe_value(item).split())
    if isinstance(item, str) and (len(text) > words.SHORT_TEXT or not name):
        return text
    return text if isinstance(item, list | dict) or not name else f"{name} {text}"


def tell_result(step: Step, answered: Sequence[Exchange], history: CallHistory) -> str:
    """Return one sentence about what came back."""
    for made in answered:
        if made.failed:
            if history.errors.get(made.position):
                return "The same error again"
            verb = "Refused" if infer_effect(made.call.name) == "write" else "Fails"
            return words.cut_words(f"{verb}: {quote_error(made)}", SENTENCE)
    for result in step.results:
        if result.status == "error":
            return words.cut_words(f"Fails: {words.quote_result(result)}", SENTENCE)
    said = summarise_value(words.quote_result(step.results[0]))
    more = len(step.results) - 1
    return f"{said}; and {more} more" if more else said


def summarise_value(text: str) -> str:
    """Return a result in few words: the values at the top of an object, how long a list is."""
    text = text.strip()
    if not text:
        return "Returns nothing"
    value: Json = None
    if text[0] in "{[":
        with suppress(msgspec.DecodeError, RecursionError):
            value = msgspec.json.decode(text)
    if isinstance(value, list):
        first = words.describe_value(value[0]) if value else ""
        count = f"{len(value):,} entr{'ies' if len(value) > 1 else 'y'}"
        return words.cut_words(f"{count}: {first}", SENTENCE) if value else "Nothing found"
    if isinstance(value, dict):
        parts = []
        for name, item in value.items():
            if item is True:
                parts.append(name)
            elif isinstance(item, str | int | float) and not isinstance(item, bool):
                parts.append(_tell_value("" if isinstance(item, str) else name, item))
        text = ", ".join(parts[: 2 * NAMED_VALUES]) or text
    return words.cut_words(" ".join(text.split()), SENTENCE)


def _tell_evidence(suspect: SuspectSteps | None) -> str:
    """Return what was found at a step, where that is a sentence about what happens in it."""
    if suspect is None or suspect.kind == "place" or not _TELLS.match(suspect.evidence):
        return ""
    said = suspect.evidence.partition("; ")[0]
    return words.cut_words(said[:1].upper() + said[1:], SENTENCE)


def join_steps(steps: Sequence[int]) -> str:
    """Return steps as people name them."""
    *some, last = map(str, steps)
    return f"{', '.join(some)} and {last}" if some else last


def choose_events(events: Sequence[StepEvent], each: int) -> list[StepEvent]:
    """Return what each column of `each` steps shows: the gravest thing of any."""
    if each == 1:
        return list(events)
    return [min(events[at : at + each], key=EVENTS.index) for at in range(0, len(events), each)]


# Bars of the strip of time; of more, the longest are drawn.
MOST_BARS = 400
# Lanes of the strip of time; agents beyond them share one.
MOST_LANES = 6


class TimeBar(NamedTuple):
    """A step in the strip of time: its lane, where it begins and how long it is, in percent."""

    step: int
    lane: int
    left: float
    width: float
    said: str


def lay_out_time(run: Trajectory) -> tuple[str, list[str], list[TimeBar]] | None:
    """Return where the time went: in a sentence, lanes, bars; a step lasts up to the next one."""
    timed = [(step, step.start.ns) for step in run.steps if step.start is not None]
    after = [begin for _, begin in timed[1:]] + [begin for _, begin in timed[-1:]]
    spans = [
        (step, begin, max((step.end.ns if step.end else following) - begin, 0))
        for (step, begin), following in zip(timed, after, strict=True)
    ]
    first = min((begin for _, begin, _ in spans), default=0)
    total = max((begin + length for _, begin, length in spans), default=0) - first
    if not total:
        return None
    lanes: dict[str, int] = {}
    bars = []
    seconds = partial(format_number, unit="seconds")
    others = {"environment": "tools", "user": "user", "system": "system"}
    for step, begin, length in sorted(spans, key=lambda span: -span[2]):
        name = others.get(step.actor, step.agent or "agent")
        name = name if name in lanes or len(lanes) < MOST_LANES else "others"
        lanes[name] = lanes.get(name, 0) + length
        said, width = f"step {step.index}: {seconds(length / 1e9)}", 100 * length / total
        bars.append((name, step.index, 100 * (begin - first) / total, max(width, 0.15), said))
    parts = ", ".join(f"{name} {seconds(ns / 1e9)}" for name, ns in lanes.items())
    told = f"Time: {seconds(total / 1e9)}, of these {parts}. Cost: {_tell_cost(run)}."
    if len(bars) > MOST_BARS:
        told += f" The {MOST_BARS} longest of {len(bars):,} steps are drawn."
    order = list(lanes)
    return told, order, [TimeBar(bar[1], order.index(bar[0]), *bar[2:]) for bar in bars[:MOST_BARS]]


def _tell_cost(run: Trajectory) -> str:
    usd = partial(format_number, unit="usd")
    spent = [(step.cost_usd, step.index) for step in run.steps if step.cost_usd]
    if not spent:
        return "not in the trace" if run.cost_usd is None else usd(run.cost_usd)
    most, at = max(spent)
    whole = sum(cost for cost, _ in spent) if run.cost_usd is None else run.cost_usd
    return f"{usd(whole)}, most at {at} ({usd(most)})"
