"""What a gate comes to before and after all p values are known together.

Holm needs the p of every gate of an invocation, so a gate is asked first (`Question`, with its p)
and answered when the others have been asked too. What needs no p is an `Answer` at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from stepscope.gates.types import Cause, GateOutcome
from stepscope.values import Estimate, Unmeasured

# Estimates are shown with this level: each limit is one-sided 95 %.
SHOWN = 0.90
# Halvings until a p value is known to a millionth of itself or better.
HALVINGS = 40
# Rounding in a difference of two shares is no difference.
HAIR = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """What one look may spend.

    Attributes:
        alpha: chance of a false alarm over all gates of this look.
        alpha_pass: chance of passing a proof that should not: one-sided, of one gate.
        tests: gates that have a p.
    """

    alpha: float
    alpha_pass: float
    tests: int

    @property
    def alone(self) -> float:
        """What a gate has where every other one holds: Holm's first step."""
        return self.alpha / max(self.tests, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Outcome of a gate with its reason; see `GateDecision` for each field."""

    outcome: GateOutcome
    reason: str
    cause: Cause | None = None
    estimate: Estimate | Unmeasured | None = None
    detectable: float | None = None
    runs_needed: int | None = None


class Question(Protocol):
    """A gate that was asked: its p, and its answer once p is adjusted."""

    @property
    def p(self) -> float:
        """Chance of runs so bad if nothing is wrong, lost runs at their best."""

    def answer(self, p_adjusted: float, spend: Spend) -> Answer:
        """Return the decision."""


# An estimate at a level of coverage, as its limits are needed at several.
Limits = Callable[[float], Estimate | Unmeasured]


def p_above(limits: Limits, bound: float) -> float:
    """Return the smallest one-sided alpha whose lower limit lies above `bound`; 1 if none does.

    A value within the bound says 1: nothing speaks against it.
    """
    found = limits(SHOWN)
    if isinstance(found, Unmeasured) or found.value <= bound:
        return 1.0
    low, high = 0.0, 0.5
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        at = limits(1 - 2 * middle)
        above = isinstance(at, Estimate) and at.low is not None and at.low > bound
        low, high = (low, middle) if above else (middle, high)
        if high - low < 1e-6 * high:
            break
    return high


def below(limits: Limits, bound: float, alpha: float) -> bool:
    """Tell whether the one-sided upper limit at `alpha` lies below `bound`."""
    found = limits(1 - 2 * alpha)
    return isinstance(found, Estimate) and found.high is not None and found.high < bound


def percent(share: float) -> str:
    """Return a share as people read it.

    >>> percent(0.055), percent(0.5), percent(0.0004)
    ('5.5 %', '50 %', '0.04 %')
    """
    return f"{100 * share:.2g} %" if abs(share) < 0.1 else f"{100 * share:.3g} %"


def counted(n: int, noun: str) -> str:
    """Return a count with its noun.

    >>> counted(1, "run"), counted(1200, "run")
    ('1 run', '1,200 runs')
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def interval(found: Estimate, scale: float = 1.0) -> str:
    """Return the limits in brackets; a limit that is not known is a dash."""
    digits = 1 if scale == 100 else 2
    limits = (found.low, found.high)
    low, high = ("-" if x is None else f"{round(scale * x, digits) + 0.0:g}" for x in limits)
    return f"[{low}, {high}]"


def lost_said(unmeasured: dict[str, int]) -> str:
    """Return the losses by kind, those to which the question does not apply left out."""
    return ", ".join(f"{n:,} {kind}" for kind, n in unmeasured.items() if kind != "not_applicable")
