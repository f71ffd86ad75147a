"""Did the agent pick the right tool, and only when one was called for?

Incorrect: a tool that was not offered; a tool that a declared policy forbids; the same call failing
again in the same way with nothing changed in between; a write that the user neither asked for nor
agreed to (only where the tool is *declared* to write: a guess from its name makes it uncertain).

Correct needs a case: every sub-goal was reached and nothing else was written. Without one no rule
knows whether another tool would have served better, and the answer is uncertain. Arguments belong
to argument_validity, order and consent to a write that was asked for to sequencing.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from stepscope.effects import WRITES, words_of
from stepscope.measures.axes.axis import CORRECT, SCALE, UNCERTAIN, Fault, condemned, judged
from stepscope.measures.axes.evidence import evidence_of
from stepscope.measures.axes.schema import definitions
from stepscope.measures.calls import agent_calls, effect_of, ends, failures, succeeded, writes_of
from stepscope.measures.consent import unconfirmed
from stepscope.measures.errors import error_step, gist
from stepscope.measures.policy import breaches
from stepscope.measures.rule import Rule
from stepscope.measures.subgoals import other_writes, taken
from stepscope.model import Answer, Case, Exchange, Facts, Trajectory
from stepscope.values import Unmeasured

NAME = "axes.tool_selection"
Words = re.Pattern[str] | None

# Kinds of calls that a recorder lists among the declared tools; a provider's own are often not.
DECLARABLE = frozenset({"function", "mcp"})
# What a tool says when the same call may well work the next time.
TRANSIENT = re.compile(
    r"time[d]?[ -]?out|temporar|rate.?limit|too many requests|try again|unavailable|overloaded|"
    r"connection|network|\b(?:429|500|502|503|504|529)\b",
    re.IGNORECASE,
)
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

_NO_CALLS = (Unmeasured("not_applicable", "the agent made no tool calls", NAME),)


def _run(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    made = agent_calls(trajectory)
    if not made:
        return _NO_CALLS
    faults = [
        *_undeclared(trajectory, made),
        *_forbidden(trajectory, case, facts),
        *(_again(made, facts) if failures(trajectory) else ()),
    ]
    unasked = _unasked(trajectory, made, facts)
    declared = facts.effects if facts is not None else {}
    faults += [
        Fault(x.step, f"{x.call.name} writes, and the user neither asked for it nor agreed")
        for x in unasked
        if x.call.name in declared
    ]
    if faults:
        return condemned(NAME, faults)
    if unasked:
        cites = tuple(sorted({exchange.step for exchange in unasked}))
        why = f"{unasked[0].call.name} seems to write without having been asked for"
        return judged(NAME, UNCERTAIN, f"{why}; declare what it does under [tools]", cites)
    return _fulfilled(trajectory, case, facts)


def _undeclared(trajectory: Trajectory, made: Sequence[Exchange]) -> Iterator[Fault]:
    if not trajectory.tools:
        return
    for exchange in made:
        call = exchange.call
        if call.kind in DECLARABLE and not definitions(trajectory, exchange):
            offered = len({tool.name for tool in trajectory.tools})
            reason = f"{call.name} is not among the {offered} tools that were offered"
            yield Fault(exchange.step, reason)


def _forbidden(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterator[Fault]:
    rules = (facts.policy if facts is not None else ()) + (case.policy if case is not None else ())
    for rule in rules:
        if rule.before is None and rule.max_calls is None:
            for breach in breaches(trajectory, rule, facts):
                yield Fault(breach.step, f"policy {rule.name!r}: {breach.reason}")


def _again(made: Sequence[Exchange], facts: Facts | None) -> Iterator[Fault]:
    """The same call, the same error, and nothing in between that could have changed it."""
    open_errors: dict[str, Exchange] = {}
    for exchange in made:
        name = exchange.call.name
        if not exchange.failed:
            if effect_of(name, facts) != "read" and succeeded(exchange):
                open_errors.clear()
            continue
        said = gist(exchange.result)
        before = open_errors.get(exchange.key)
        if before is not None and gist(before.result) == said and not TRANSIENT.search(said):
            cites = (error_step(before), exchange.step)
            yield Fault(exchange.step, f"{name} failed the same way before: {said}", cites)
        open_errors[exchange.key] = exchange


def _unasked(
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
        if unconfirmed(trajectory, at) is not None:
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


def _fulfilled(
    trajectory: Trajectory, case: Case | None, facts: Facts | None
) -> tuple[Answer, ...]:
    made = agent_calls(trajectory)
    if case is not None and (case.subgoals or case.reference is not None):
        pairs = taken(case, trajectory)
        if None not in pairs and not other_writes(trajectory, pairs, facts):
            cites = tuple(sorted({made[at].step for at in pairs if at is not None}))
            return judged(NAME, CORRECT, "every sub-goal was reached, nothing else written", cites)
    writes = [made[at] for at in writes_of(trajectory, facts)]
    n = len([x for x in writes if succeeded(x) and not ends(x.call.name)])
    why = f"no rule broken in {len(made)} calls ({n} writes); whether others served better is open"
    return judged(NAME, UNCERTAIN, why)


MEASURE = Rule(NAME, "1", SCALE, ("effects", "policy"), _run)
