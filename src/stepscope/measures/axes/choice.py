"""Whether the agent chose the right tools, in a workable order, with consent before writes."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from stepscope.measures.axes.arguments import declared_tools
from stepscope.measures.axes.evidence import evidence_of
from stepscope.measures.calls import (
    agent_calls,
    effect_of,
    failed_calls,
    has_succeeded,
    no_calls,
    writes_of,
)
from stepscope.measures.conduct import (
    REFUSES,
    asks_consent,
    declared_rules,
    find_breaches,
    lacks_consent,
)
from stepscope.measures.errors import TRANSIENT, first_line
from stepscope.measures.facts import calls_too_early, describe_source, is_binding
from stepscope.measures.rule import (
    AXIS_SCALE,
    Fault,
    RuleMeasure,
    cached_on_run,
    fault_answers,
    faultless_answer,
    not_applicable,
)
from stepscope.model import Answer, Case, Exchange, Facts, Precondition, Step, Trajectory
from stepscope.model.effects import WRITES, words_of

TOOL_SELECTION_NAME = "axes.tool_selection"
Words = re.Pattern[str] | None

# Kinds of calls that a recorder lists among the declared tools; a provider's own are often not.
DECLARABLE = frozenset({"function", "mcp"})


# How users ask for what the tools call otherwise.
SAID_FOR = {
    "book": "reserve buy purchase get flight ticket",
    "cancel": "stop call undo rid",
    "close": "cancel end finish",
    "create": "make new add open set",
    "delete": "remove erase clear rid drop",
    "edit": "change fix correct update",
    "exchange": "swap replace trade change switch",
    "modify": "change switch update replace correct different",
    "pay": "charge buy settle",
    "refund": "return money back",
    "remove": "delete cancel drop rid",
    "reserve": "book",
    "return": "refund send back",
    "send": "give compensat mail share",
    "update": "change modify switch add upgrade downgrade correct new different",
}
# Words in tools' names that every message of a shop holds: no sign of a wish.
EVERYWHERE = frozenset(
    "account all by data delivered detail details for in info item items new of on order orders "
    "pending record records the to user users".split()
)
# A word of five letters is compared by these: "cancelling" asks for `cancel_order`.
STEM_CHARACTERS = 5

_SELECTION_OF_NO_CALLS = (no_calls(TOOL_SELECTION_NAME),)


def _selection(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    """Did the agent pick the right tool, and only when one was called for?

    Incorrect: a tool that was not offered; a tool that a declared policy forbids; the same call
    failing again in the same way with nothing changed in between; a write that the user neither
    asked for nor agreed to (only where the tool is *declared* to write: a guess from its name makes
    it uncertain).

    Otherwise uncertain, with what was checked: no rule knows whether another tool would have served
    better. Arguments belong to argument_validity, order and consent to a write that was asked for
    to sequencing.
    """
    made = agent_calls(trajectory)
    if not made:
        return _SELECTION_OF_NO_CALLS
    faults = [
        *_undeclared_tools(trajectory, made),
        *_forbidden_tools(trajectory, case, facts),
        *(_unchanged_retries(made, facts) if failed_calls(trajectory) else ()),
    ]
    unasked = _unasked_writes(trajectory, made, facts)
    declared = facts.effects if facts is not None else {}
    faults += [
        Fault(x.step, f"{x.call.name} writes, and the user neither asked for it nor agreed")
        for x in unasked
        if x.call.name in declared
    ]
    if faults:
        return fault_answers(TOOL_SELECTION_NAME, faults)
    if unasked:
        cites = tuple(sorted({exchange.step for exchange in unasked}))
        why = f"{unasked[0].call.name} seems to write without having been asked for"
        why += "; declare what it does under [tools]"
        return faultless_answer(TOOL_SELECTION_NAME, why, cites)
    n = sum(has_succeeded(made[at]) for at in writes_of(trajectory, facts))
    why = f"no rule broken in {len(made)} calls ({n} writes)"
    return faultless_answer(TOOL_SELECTION_NAME, f"{why}; not judged: whether others served better")


def _undeclared_tools(trajectory: Trajectory, made: Sequence[Exchange]) -> Iterator[Fault]:
    if not trajectory.tools:
        return
    for exchange in made:
        call = exchange.call
        if call.kind in DECLARABLE and not declared_tools(trajectory, exchange):
            offered = len({tool.name for tool in trajectory.tools})
            reason = f"{call.name} is not among the {offered} tools that were offered"
            yield Fault(exchange.step, reason)


def _forbidden_tools(
    trajectory: Trajectory, case: Case | None, facts: Facts | None
) -> Iterator[Fault]:
    rules = declared_rules(case, facts)
    forbidding = [rule for rule in rules if rule.before is None and rule.max_calls is None]
    for breach in find_breaches(trajectory, forbidding, facts):
        yield Fault(breach.step, f"policy {breach.rule!r}: {breach.reason}")


def _unchanged_retries(made: Sequence[Exchange], facts: Facts | None) -> Iterator[Fault]:
    """The same call, the same error, and nothing in between that could have changed it."""
    open_errors: dict[str, Exchange] = {}
    for exchange in made:
        name = exchange.call.name
        if not exchange.failed:
            if effect_of(name, facts) != "read" and has_succeeded(exchange):
                open_errors.clear()
            continue
        said = first_line(exchange.result)
        before = open_errors.get(exchange.key)
        if before is not None and first_line(before.result) == said and not TRANSIENT.search(said):
            cites = (before.answer_step, exchange.step)
            yield Fault(exchange.step, f"{name} failed the same way before: {said}", cites)
        open_errors[exchange.key] = exchange


def _unasked_writes(
    trajectory: Trajectory, made: Sequence[Exchange], facts: Facts | None
) -> list[Exchange]:
    """Return the writes that came without any word for them from the user, nor a yes.

    What a tool writes to counts only in the user's latest message: "make it my default address". In
    a run whose user speaks once, the task itself is the request and says nothing of tools.
    """
    found: list[Exchange] = []
    spoken: list[tuple[int, str]] | None = None
    for at in writes_of(trajectory, facts):
        exchange = made[at]
        name, step = exchange.call.name, exchange.step
        verbs, things = ways_to_ask(name)
        if verbs is None:
            continue
        evidence = evidence_of(trajectory)
        asked = evidence.matched(verbs)
        if asked is not None and asked < step:
            continue
        if spoken is None:
            spoken = evidence.user_words()
        heard = bisect_left(spoken, step, key=lambda said: said[0])
        if heard < 2 or (things is not None and things.search(spoken[heard - 1][1])):
            continue
        if lacks_consent(trajectory, at) is not None:
            found.append(exchange)
    return found


@lru_cache(maxsize=4096)
def ways_to_ask(tool: str) -> tuple[Words, Words]:
    """Return the words for what a tool does (also as users say it), and for what it does it to."""
    words = words_of(tool)
    verbs = [word for word in words if word in WRITES]
    said = [word for verb in verbs for word in SAID_FOR.get(verb, "").split()]
    things = [word for word in words if word not in WRITES and word not in EVERYWHERE]
    return _stems(verbs + said), _stems(things)


def _stems(words: Sequence[str]) -> Words:
    stems = "|".join(sorted({word[:STEM_CHARACTERS] for word in words}))
    return re.compile(rf"\b(?:{stems})") if stems else None


TOOL_SELECTION = RuleMeasure(
    TOOL_SELECTION_NAME, "2", AXIS_SCALE, ("effects", "policy"), _selection
)


SEQUENCING_NAME = "axes.sequencing"
# How instructions ask for consent: "obtain explicit user confirmation (yes) to proceed".
ASKS_FOR_CONSENT = re.compile(
    r"(?:obtain|get|ask|require|receive|seek|wait)\w*\b[^.\n]{0,60}\b(?:confirm\w*|consent|approv\w*)",
    re.IGNORECASE,
)
# The runs of a workflow have the same instructions, which are long: so many are kept read.
INSTRUCTIONS = 16

_SEQUENCING_OF_NO_CALLS = (no_calls(SEQUENCING_NAME),)


def _sequencing(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    """Were the calls in a workable order: what is needed first, first, consent before writes?

    Incorrect: a tool called before another that it needs (declared, or kept by practically all
    passing runs of the workflow: `facts.is_binding`); a write without consent where the
    instructions ask for consent, and the user neither agreed nor asked for it nor was asked
    anything. A mined habit that is not binding, and a write that the user asked for but did not
    confirm, are said and prove nothing.

    Otherwise uncertain, with the preconditions kept and the writes confirmed. Whether the tool was
    the right one is tool_selection's, rules of the policy are `policy`'s.
    """
    made = agent_calls(trajectory)
    if not made:
        return _SEQUENCING_OF_NO_CALLS
    tools = {exchange.call.name for exchange in made}
    rules = [rule for rule in facts.preconditions if rule.tool in tools] if facts else []
    broken = [(rule, x.step) for rule in rules for x in calls_too_early(made, rule)]
    faults = [Fault(step, _why_too_early(rule)) for rule, step in broken if is_binding(rule)]
    writes = writes_of(trajectory, facts)
    doubts = [(step, _why_too_early(rule)) for rule, step in broken if not is_binding(rule)]
    confirmed = 0
    for at in writes:
        why = lacks_consent(trajectory, at)
        if why is None:
            confirmed += 1
        elif _is_unwanted(trajectory.steps, made[at]) and _consent_is_asked_for(
            trajectory, case, facts
        ):
            faults.append(Fault(made[at].step, f"{made[at].call.name} without consent: {why}"))
        else:
            doubts.append((made[at].step, f"{made[at].call.name} may lack consent: {why}"))
    if faults:
        return fault_answers(SEQUENCING_NAME, faults)
    if doubts:
        cites = tuple(sorted({step for step, _ in doubts}))
        return faultless_answer(SEQUENCING_NAME, min(doubts)[1], cites)
    kept = len([rule for rule in rules if is_binding(rule)])
    if not kept and not writes:
        why = "no precondition is known for the tools called, and none of them writes"
        return not_applicable(SEQUENCING_NAME, why)
    cites = tuple(sorted({made[at].step for at in writes}))
    why = f"{kept} preconditions kept, {confirmed} of {len(writes)} writes confirmed"
    why += "; not judged: whether another order was better"
    return faultless_answer(SEQUENCING_NAME, why, cites)


def _why_too_early(rule: Precondition) -> str:
    same = f" for the same {rule.by}" if rule.by is not None else ""
    source = describe_source(rule)
    return f"{rule.tool} before {rule.after} had succeeded{same} ({source} it comes after)"


def _consent_is_asked_for(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> bool:
    asked = any(rule.require == "confirm" for rule in declared_rules(case, facts))
    return asked or _instructions_ask(trajectory)


@cached_on_run
def _instructions_ask(trajectory: Trajectory) -> bool:
    return any(_asks_for_consent(s.text) for s in trajectory.steps if s.actor == "system")


@lru_cache(maxsize=INSTRUCTIONS)
def _asks_for_consent(instructions: str) -> bool:
    return ASKS_FOR_CONSENT.search(instructions) is not None


def _is_unwanted(steps: Sequence[Step], write: Exchange) -> bool:
    """True if the user's latest message before a write neither asks for it nor answers."""
    said = asked = None
    for at in range(write.step - 1, -1, -1):
        step = steps[at]
        if said is None:
            said = step if step.actor == "user" and step.text else None
        elif step.actor == "agent" and step.text:
            asked = step
            break
    if said is None:
        return False
    if REFUSES.match(said.text):
        return True
    heard = said.text.casefold()
    if any(words and words.search(heard) for words in ways_to_ask(write.call.name)):
        return False
    return asked is None or not ("?" in asked.text or asks_consent(asked.text))


SEQUENCING = RuleMeasure(
    SEQUENCING_NAME, "2", AXIS_SCALE, ("effects", "policy", "preconditions"), _sequencing
)
