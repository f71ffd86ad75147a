"""Calls of the agent: which are its own, what they do, which are redundant, which go in circles.

Two calls are the same when tool and canonical arguments are equal (`Exchange.key`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import inf

from stepscope.measures.rule import RuleMeasure, cached_on_run, cached_with_facts
from stepscope.model import Answer, Case, Effect, Exchange, Facts, Scale, Trajectory, Verdict
from stepscope.model.effects import infer_effect, words_of
from stepscope.values import Unmeasured

# Whom a run is handed to when the agent gives up.
PEOPLE = frozenset({"agent", "agents", "human", "humans", "operator", "supervisor", "support"})
ESCALATIONS = frozenset({"escalate", "escalation", "handoff"})
# First words of tools whose success ends a run: after them no answer of the agent is missing.
ENDS = frozenset(
    {"complete", "done", "end", "exit", "final", "finish", "stop", "submit", "terminate"}
)


def no_calls(measure: str) -> Unmeasured:
    """Return the absence of a measure of calls where the agent made none."""
    return Unmeasured("not_applicable", "the agent made no tool calls", measure)


@cached_on_run
def agent_calls(trajectory: Trajectory) -> tuple[Exchange, ...]:
    """Return the calls that the agent made; where users have tools, theirs are left out."""
    exchanges = trajectory.exchanges
    for exchange in exchanges:
        if exchange.call.requestor != "agent":
            return tuple(x for x in exchanges if x.call.requestor == "agent")
    return exchanges


@cached_on_run
def failed_calls(trajectory: Trajectory) -> tuple[Exchange, ...]:
    """Return the calls whose result is an error, whoever made them."""
    return tuple([exchange for exchange in trajectory.exchanges if exchange.failed])


def has_succeeded(exchange: Exchange) -> bool:
    """True if an answer came that is no error; without an answer nobody knows."""
    return exchange.result is not None and exchange.result.status != "error"


def effect_of(tool: str, facts: Facts | None) -> Effect:
    """Return what a tool does to the world: as declared, else as its name suggests.

    >>> effect_of("book_flight", None), effect_of("poke", Facts(effects={"poke": "write"}))
    ('write', 'write')
    """
    if facts is not None and tool in facts.effects:
        return facts.effects[tool]
    return infer_effect(tool)


@cached_with_facts
def writes_of(trajectory: Trajectory, facts: Facts | None) -> tuple[int, ...]:
    """Return which of the agent's calls (by index among them) change the world."""
    made = agent_calls(trajectory)
    return tuple([at for at, x in enumerate(made) if effect_of(x.call.name, facts) == "write"])


@lru_cache(maxsize=4096)
def escalates_to_person(tool: str) -> bool:
    """True if a tool's name says that a person takes over.

    >>> escalates_to_person("transfer_to_human_agents"), escalates_to_person("transfer_funds")
    (True, False)
    """
    words = words_of(tool)
    if not ESCALATIONS.isdisjoint(words) or words[:2] == ["hand", "off"]:
        return True
    return words[:1] == ["transfer"] and not PEOPLE.isdisjoint(words)


@lru_cache(maxsize=4096)
def ends_run(tool: str) -> bool:
    """True if a tool's name says that the run is over once it is called.

    >>> ends_run("submit_answer"), ends_run("send_certificate"), ends_run("search_onestop_flight")
    (True, False, False)
    """
    return escalates_to_person(tool) or not ENDS.isdisjoint(words_of(tool)[:1])


# Cycles longer than this many calls are a plan carried out again, not an agent going round; the
# bound also keeps the cost linear in the number of calls.
LONGEST_CYCLE_CALLS = 32

_LOOPS_OF_NO_CALLS = (no_calls("loops"),)
_NONE = (Verdict("loops", 0.0),)


def longest_cycle(keys: Sequence[str]) -> tuple[int, int, int]:
    """Return start, length and period of the longest repeated cycle; length 0 where none is.

    Of equally long ones the first, with its shortest period.

    >>> longest_cycle("xababy")
    (1, 4, 2)
    """
    best = (0, 0, 0)
    for period in range(1, min(LONGEST_CYCLE_CALLS, len(keys) // 2) + 1):
        echoes = 0  # calls in a row that equal the one a period before
        for at in range(period, len(keys)):
            echoes = echoes + 1 if keys[at] == keys[at - period] else 0
            if echoes >= period and echoes + period > best[1]:
                best = (at + 1 - echoes - period, echoes + period, period)
    return best


def _loops(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    """The longest cycle of calls that went round at least twice, cited.

    The value is the number of calls in it: `a b a b` is 4, `a a` is 2, no cycle is 0. A call is its
    tool and its arguments; what came back does not count, so polling shows up as well.
    """
    made = agent_calls(trajectory)
    if not made:
        return _LOOPS_OF_NO_CALLS
    keys = [exchange.key for exchange in made]
    if len(set(keys)) == len(keys):
        return _NONE
    start, length, period = longest_cycle(keys)
    if not length:
        return _NONE
    cycle = made[start : start + length]
    names = ", ".join(exchange.call.name for exchange in cycle[:period])
    return (
        Verdict(
            "loops",
            float(length),
            cites=tuple(exchange.step for exchange in cycle),
            reason=f"{length} calls go round: {names}",
        ),
    )


LOOPS = RuleMeasure("loops", "1", Scale(0.0, inf), (), _loops)


# Shorter answers ("ok", "[]", "375.0", "true") coincide by chance: they are no sign of repetition.
NEAR_MIN_CHARACTERS = 32

_NO_COUNTS = tuple(
    Verdict(f"redundant_calls.{aspect}", 0.0)
    for aspect in ("count", "identical", "back_to_back", "near")
)
_REDUNDANCY_OF_NO_CALLS: tuple[Answer, ...] = (no_calls("redundant_calls"), *_NO_COUNTS)
_CLEAN = (Verdict("redundant_calls", 0.0), *_NO_COUNTS[:3])


def _redundancy(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    """Calls that ask again what is already known.

    A call is redundant when an earlier call of the same tool with the same arguments has an answer
    that still holds: it was no error (a retry is not redundant), and nothing in between may have
    changed the world. A tool of unknown effect may have (declare it in `stepscope.toml`).

    Aspects: `redundant_calls` share of calls; `.count`; `.identical` the same tool and arguments as
    any earlier call, before those two rules; `.back_to_back` as the call just before (the
    definition of trajectory-vs-outcome); `.near` a new question that brought an answer already had.
    """
    exchanges = trajectory.exchanges
    made = agent_calls(trajectory)
    if not made:
        return _REDUNDANCY_OF_NO_CALLS
    near = _count("near", near_duplicates(made, facts))
    if len({exchange.key for exchange in made}) == len(made):
        return (*_CLEAN, near)
    redundant = redundant_calls(exchanges, facts)
    earlier: set[str] = set()
    identical: list[Exchange] = []
    for exchange in made:
        if exchange.key in earlier:
            identical.append(exchange)
        earlier.add(exchange.key)
    adjacent = [b for a, b in pairwise(made) if a.key == b.key]
    return (
        Verdict(
            "redundant_calls",
            len(redundant) / len(made),
            cites=tuple(repeat.step for repeat, _ in redundant),
            reason=", ".join(f"{again.step} repeats {before.step}" for again, before in redundant),
        ),
        _count("count", [repeat for repeat, _ in redundant]),
        _count("identical", identical),
        _count("back_to_back", adjacent),
        near,
    )


def redundant_calls(
    exchanges: Sequence[Exchange], facts: Facts | None
) -> list[tuple[Exchange, Exchange]]:
    """Return the agent's redundant calls, each with the earlier call whose answer still holds."""
    if len({exchange.key for exchange in exchanges}) == len(exchanges):
        return []
    valid: dict[str, Exchange] = {}
    found: list[tuple[Exchange, Exchange]] = []
    for exchange in exchanges:
        earlier = valid.get(exchange.key)
        if earlier is not None and exchange.call.requestor == "agent":
            found.append((exchange, earlier))
        if exchange.failed:
            continue
        if effect_of(exchange.call.name, facts) != "read":
            valid.clear()
        if exchange.result is not None:
            valid[exchange.key] = exchange
    return found


def near_duplicates(exchanges: Iterable[Exchange], facts: Facts | None) -> list[Exchange]:
    """Return reads with new arguments whose answer is, word for word, one the tool gave before."""
    answers: dict[tuple[str, str], set[str]] = {}
    found: list[Exchange] = []
    for exchange in exchanges:
        result = exchange.result
        if result is None or result.status == "error" or len(result.parts) != 1:
            continue
        text = result.parts[0].text
        if text is None or len(text) < NEAR_MIN_CHARACTERS:
            continue
        name = exchange.call.name
        questions = answers.get((name, text))
        if questions is None:
            answers[name, text] = {exchange.key}
        elif exchange.key not in questions:
            questions.add(exchange.key)
            if effect_of(name, facts) != "write":
                found.append(exchange)
    return found


def _count(aspect: str, exchanges: list[Exchange]) -> Verdict:
    return Verdict(
        f"redundant_calls.{aspect}",
        float(len(exchanges)),
        cites=tuple(exchange.step for exchange in exchanges),
    )


REDUNDANT_CALLS = RuleMeasure("redundant_calls", "1", Scale(0.0, inf), ("effects",), _redundancy)
