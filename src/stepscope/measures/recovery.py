"""What the agent did about each tool error, the best of five that holds.

`recovered`: a later call with the same purpose (the same tool, or an alternative declared in
`stepscope.toml`) succeeds within two further calls. `replanned`: later still, or by another tool of
the same effect, a call about the same thing (at least half of the failed call's arguments recur, or
the tools differ only in what they look `_by_`) succeeds. `reported`: before it changes anything
else the agent tells the user of it, or escalates. `repeated`: within two further calls the same
call brings the same error. `ignored`: it went on as if it had worked.

Aspects: `recovery` share of errors recovered; `recovery.recovered` their count, to be pooled over a
fleet; per error one answer at the step of the error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import NamedTuple

from stepscope.measures.assignment import alike
from stepscope.measures.calls import effect_of, escalates, failures, succeeded
from stepscope.measures.errors import error_step, gist, judged
from stepscope.measures.once import once_with
from stepscope.measures.rule import Rule, one_a_step
from stepscope.model import Answer, Case, Exchange, Facts, Scale, Step, Trajectory, Verdict
from stepscope.values import Unmeasured

LABELS = ("recovered", "replanned", "reported", "repeated", "ignored")
# Two: one call to look up what was wrong, one to try again.
FURTHER_CALLS = 2
# How an English message admits that something did not work; a message without any of these after
# an error speaks of something else.
ADMITS = re.compile(
    r"\b(not(?! hesitate)|cannot|unable|error|issue|problem|trouble|mistake|fail\w*|sorry|"
    r"apolog\w*|unfortunately|however|instead|insufficient|invalid|unavailable|discrepancy|mismatch|"
    r"exceed\w*|incorrect|unsuccessful)\b|n['\u2019]t\b(?! hesitate)",
    re.IGNORECASE,
)
# Every admission holds one of these: plain search finds several times faster that none is there.
_ADMISSIONS = (
    "not unable error issue problem trouble mistake fail sorry apolog unfortunately however "
    "instead insufficient invalid unavailable discrepancy mismatch exceed incorrect unsuccessful "
    "n't n\u2019t"
).split()

_NO_ERRORS = tuple(
    Unmeasured("not_applicable", "no tool call failed", name)
    for name in ("recovery", "recovery.recovered")
)
_NO_STATUS = tuple(
    Unmeasured("missing_input", "no tool result says whether it is ok or an error", name)
    for name in ("recovery", "recovery.recovered")
)


class Reaction(NamedTuple):
    """What followed one error: the label, the step that shows it (None: nothing followed), why."""

    error: Exchange
    label: str
    step: int | None
    reason: str


def _run(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    exchanges = trajectory.exchanges
    if not failures(trajectory):
        return _NO_ERRORS if judged(exchanges) else _NO_STATUS
    reactions = list(reactions_of(trajectory, facts).values())
    recovered = [reaction for reaction in reactions if reaction.label == "recovered"]
    left = {error_step(r.error) for r in reactions if r.label != "recovered"}
    each = sorted(
        (_answer(reaction) for reaction in reactions), key=lambda answer: answer.step or 0
    )
    return (
        Verdict(
            "recovery",
            len(recovered) / len(reactions),
            cites=tuple(sorted(left)),
            reason=f"{len(recovered)} of {len(reactions)} errors recovered",
        ),
        Verdict("recovery.recovered", float(len(recovered))),
        *one_a_step(each, _worst),
    )


def _worst(labels: list[str]) -> str:
    return max(labels, key=LABELS.index)


def _answer(reaction: Reaction) -> Verdict:
    cites = (
        (reaction.error.step,) if reaction.step is None else (reaction.error.step, reaction.step)
    )
    return Verdict(
        "recovery",
        label=reaction.label,
        step=error_step(reaction.error),
        cites=cites,
        reason=f"{reaction.reason}: {gist(reaction.error.result)}",
    )


def reactions_of(trajectory: Trajectory, facts: Facts | None) -> dict[int, Reaction]:
    """Return how the agent reacted to each failed exchange, by the index of the exchange."""
    return once_with(trajectory, facts, "_reactions", _reactions_of)


def _reactions_of(trajectory: Trajectory, facts: Facts | None) -> dict[int, Reaction]:
    steps, exchanges = trajectory.steps, trajectory.exchanges
    failed = [exchange.position for exchange in failures(trajectory)]
    return {at: _react(steps, exchanges, at, facts) for at in failed}


def _react(
    steps: Sequence[Step], exchanges: Sequence[Exchange], at: int, facts: Facts | None
) -> Reaction:
    error, later = exchanges[at], exchanges[at + 1 :]
    tool = error.call.name
    alternatives = facts.alternatives.get(tool, ()) if facts is not None else ()
    for again in later[:FURTHER_CALLS]:
        if succeeded(again) and (again.call.name == tool or again.call.name in alternatives):
            return Reaction(error, "recovered", again.step, f"{again.call.name} then succeeded")
    effect = effect_of(tool, facts)
    for again in later:
        name = again.call.name
        if (
            succeeded(again)
            and effect_of(name, facts) == effect
            and (_same_stem(name, tool) or alike(error.call.arguments, again.call.arguments))
        ):
            how = "succeeded later" if name == tool else "served instead"
            return Reaction(error, "replanned", again.step, f"{name} {how}")
    return (
        _reported(steps, error, facts)
        or _repeated(error, later)
        or Reaction(error, "ignored", later[0].step if later else None, _went_on(steps, error))
    )


def _same_stem(name: str, other: str) -> bool:
    """Tell whether two lookups differ only in their key: find_user_by_email, find_user_by_zip."""
    stem, by, _ = name.partition("_by_")
    return bool(by) and name != other and other.startswith(stem + by)


def _reported(steps: Sequence[Step], error: Exchange, facts: Facts | None) -> Reaction | None:
    """The agent's next message if it admits the error, or an escalation; only reads between."""
    for entry in _next_entries(steps, error):
        for call in entry.calls:
            if escalates(call.name):
                return Reaction(error, "reported", entry.index, f"escalated by {call.name}")
        text = entry.text
        if text and admits(text):
            return Reaction(error, "reported", entry.index, "told the user")
        if not entry.calls or any(effect_of(c.name, facts) != "read" for c in entry.calls):
            return None
    return None


def admits(text: str) -> bool:
    """Tell whether a message says that something did not work."""
    lower = text.lower()
    return any(word in lower for word in _ADMISSIONS) and ADMITS.search(text) is not None


def _repeated(error: Exchange, later: Sequence[Exchange]) -> Reaction | None:
    for again in later[:FURTHER_CALLS]:
        if again.failed and again.key == error.key and gist(again.result) == gist(error.result):
            return Reaction(error, "repeated", again.step, "the same call, the same error")
    return None


def _went_on(steps: Sequence[Step], error: Exchange) -> str:
    entry = next(_next_entries(steps, error), None)
    if entry is None:
        return "the run ends on it"
    return "went on with other calls" if entry.calls else "the next message says nothing of it"


def _next_entries(steps: Sequence[Step], error: Exchange) -> Iterator[Step]:
    for at in range(error_step(error) + 1, len(steps)):
        if steps[at].actor == "agent":
            yield steps[at]


MEASURE = Rule("recovery", "1", Scale(0.0, inf, LABELS), ("alternatives", "effects"), _run)
