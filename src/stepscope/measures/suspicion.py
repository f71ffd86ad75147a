"""What makes a step of a failed run suspicious, how much, and how suspicions become one ranking.

A suspicion is a place to look, with what a reader can check there. Its factor says how many times
more often such a step was the one people named than any other step of the agent; several kinds at
one step multiply. Where the factors come from: docs/explanation/localise.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from stepscope.model import Step

Kind = Literal[
    "wrong_write",
    "other_write",
    "gave_up",
    "invented",
    "ignored",
    "unconfirmed",
    "failed",
    "repeated",
    "repeat",
    "write",
    "empty",
    "stuck",
    "replan",
    "assumed",
    "cannot",
    "unsourced",
    "code",
    "end",
    "position",
]

# Odds against any other step of the agent. Of runs with messages only (from `empty` down, and
# `failed`, `ignored`) they are frequencies on the tuning half of Who&When, drawn towards 1 and
# rounded to halves; those of calls are set by hand, strongest where the case itself contradicts.
FACTORS: dict[Kind, float] = {
    "wrong_write": 5.0,
    "other_write": 4.0,
    "gave_up": 4.0,
    "invented": 3.0,
    "ignored": 2.0,
    "unconfirmed": 2.0,
    "failed": 2.0,
    "repeated": 1.5,
    "repeat": 1.2,
    "write": 1.5,
    "empty": 2.5,
    "stuck": 2.5,
    "replan": 2.5,
    "assumed": 1.5,
    "cannot": 1.5,
    "unsourced": 2.0,
    "code": 1.5,
    "end": 1.2,
    "position": 1.0,
}
KINDS: tuple[Kind, ...] = tuple(FACTORS)
# A mistake is named where it was first made: the same kind again later in the run counts less.
AGAIN = 0.5


class Suspicion(NamedTuple):
    """One thing found at a step of the agent: its kind, what a reader sees, where to check it."""

    step: int
    kind: Kind
    reason: str
    cites: tuple[int, ...] = ()


class Suspect(NamedTuple):
    """A step with everything found there; `share` is of all the agent's steps, which sum to 1."""

    step: int
    share: float
    kind: Kind
    reason: str
    cites: tuple[int, ...]


def rank(
    steps: Sequence[Step], found: Iterable[Suspicion], prior: Callable[[Step], float]
) -> list[Suspect]:
    """Return every step at which something was found, the most suspicious first.

    Args:
        steps: the run's; only the agent's own can be named.
        found: in the order of the run.
        prior: how likely a step is the one before anything is found there, to any constant factor.
    """
    odds = {step.index: prior(step) for step in steps if step.actor == "agent"}
    at: dict[int, list[Suspicion]] = {}
    seen: set[tuple[Kind, int]] = set()
    kinds: set[Kind] = set()
    for suspicion in found:
        step, kind = suspicion.step, suspicion.kind
        if step not in odds or (kind, step) in seen:
            continue
        seen.add((kind, step))
        factor = FACTORS[kind]
        odds[step] *= factor if kind not in kinds else 1.0 + (factor - 1.0) * AGAIN
        kinds.add(kind)
        at.setdefault(step, []).append(suspicion)
    total = sum(odds.values()) or 1.0
    suspects = [_suspect(step, odds[step] / total, here) for step, here in at.items()]
    return sorted(suspects, key=lambda suspect: (-suspect.share, suspect.step))


def _suspect(step: int, share: float, here: list[Suspicion]) -> Suspect:
    if len(here) == 1:
        only = here[0]
        return Suspect(step, share, only.kind, only.reason, tuple(sorted({step, *only.cites})))
    here = sorted(here, key=lambda suspicion: -FACTORS[suspicion.kind])
    cites = {step}.union(*(suspicion.cites for suspicion in here))
    reason = "; ".join(suspicion.reason for suspicion in here)
    return Suspect(step, share, here[0].kind, reason, tuple(sorted(cites)))
