"""Calls that ask again what is already known.

A call is redundant when an earlier call of the same tool with the same arguments has an answer that
still holds: it was no error (a retry is not redundant), and nothing in between may have changed the
world. A tool of unknown effect may have (declare it in `stepscope.toml`).

Aspects: `redundant_calls` share of calls; `.count`; `.identical` the same tool and arguments as any
earlier call, before those two rules; `.back_to_back` as the call just before (the definition of
trajectory-vs-outcome); `.near` a new question that brought an answer already had.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import inf

from stepscope.measures.calls import agent_calls, effect_of
from stepscope.measures.rule import Rule
from stepscope.model import Answer, Case, Exchange, Facts, Scale, Trajectory, Verdict
from stepscope.values import Unmeasured

# Shorter answers ("ok", "[]", "375.0", "true") coincide by chance: they are no sign of repetition.
NEAR_MIN_CHARACTERS = 32

_NO_COUNTS = tuple(
    Verdict(f"redundant_calls.{aspect}", 0.0)
    for aspect in ("count", "identical", "back_to_back", "near")
)
_NO_CALLS: tuple[Answer, ...] = (
    Unmeasured("not_applicable", "the agent made no tool calls", "redundant_calls"),
    *_NO_COUNTS,
)
_CLEAN = (Verdict("redundant_calls", 0.0), *_NO_COUNTS[:3])


def _run(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    exchanges = trajectory.exchanges
    made = agent_calls(trajectory)
    if not made:
        return _NO_CALLS
    near = _count("near", near_duplicates(made, facts))
    if len({exchange.key for exchange in made}) == len(made):
        return (*_CLEAN, near)
    redundant = repeats(exchanges, facts)
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
            reason=_reason(redundant),
        ),
        _count("count", [repeat for repeat, _ in redundant]),
        _count("identical", identical),
        _count("back_to_back", adjacent),
        near,
    )


def repeats(exchanges: Sequence[Exchange], facts: Facts | None) -> list[tuple[Exchange, Exchange]]:
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


def _reason(redundant: list[tuple[Exchange, Exchange]]) -> str:
    return ", ".join(f"{again.step} repeats {before.step}" for again, before in redundant)


MEASURE = Rule("redundant_calls", "1", Scale(0.0, inf), ("effects",), _run)
