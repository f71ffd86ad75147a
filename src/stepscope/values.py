"""What every number and every absence is: `Estimate`, `Unmeasured`, `Decision`, `RankFlips`.

A float never means "could not measure": a NaN clamped with `max(0, min(1, x))` becomes a perfect 1.
These types sit below the statistics, so that `stats` and `shape` can speak of absence without
knowing what an agent is. They are msgspec structs because they leave in published JSON.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, TypeVar, get_args

import msgspec

from stepscope.errors import DataError

Number = TypeVar("Number", int, float)
UnmeasuredKind = Literal[
    "not_applicable",  # the question does not arise: no tool calls, no reference
    "missing_input",  # the trace lacks the field that the answer needs
    "insufficient_data",  # too few runs, tasks or clusters for the statistic
    "undefined",  # the formula has no value here: 0 / 0, constant ratings
    "unparsable",  # an answer came and could not be read
    "invalid_evidence",  # an answer came whose citation does not hold
    "refused",  # a judge declined
    "budget",  # the money or the calls ran out
    "error",  # a measure crashed; the reason carries the exception
]
UNMEASURED_KINDS: tuple[UnmeasuredKind, ...] = get_args(UnmeasuredKind)

Target = Literal["these cases", "tasks like these"]


class Unmeasured(msgspec.Struct, frozen=True, gc=False, tag="unmeasured"):
    """The typed absence of an answer: which kind, and a reason that a person can act on.

    `measure` and `step` are set where a measure speaks of itself; statistics leave them empty.
    """

    kind: UnmeasuredKind
    reason: str
    measure: str = ""
    step: int | None = None


class Estimate(msgspec.Struct, frozen=True, kw_only=True, tag="estimate"):
    """A number with its error bar and its losses.

    Attributes:
        value: the point estimate, in `unit`.
        low: lower limit of the `level` interval; None where only a description is claimed.
        high: upper limit.
        level: coverage promised by the interval, a share.
        method: how the interval was made, one or two words ("wilson clustered", "t", "bootstrap").
        target: what the interval speaks of: these cases, or tasks like these.
        n: units counted (runs unless `unit_of_n` says otherwise).
        unit_of_n: what `n` counts: "runs", "tasks", "errors".
        n_tasks: clusters behind the n.
        unmeasured: how many units could not be measured, by kind.
        worst_low: the value if every unmeasured unit had come out at the low end of the scale.
        worst_high: the value if every unmeasured unit had come out at the high end.
        unit: unit of the value: "share", "calls", "steps", "usd", "tokens", "seconds".
        diagnostics: what weakens the number ("3 tasks: weak"); a column, not a footnote.
    """

    value: float
    low: float | None
    high: float | None
    level: float = 0.95
    method: str
    target: Target = "tasks like these"
    n: int
    unit_of_n: str = "runs"
    n_tasks: int
    unmeasured: dict[str, int] = msgspec.field(default_factory=dict)
    worst_low: float | None = None
    worst_high: float | None = None
    unit: str = "share"
    diagnostics: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse NaN and infinity: they are never an estimate.

        Raises:
            DataError: a number of the estimate is not finite.
        """
        for name in ("value", "low", "high", "level", "worst_low", "worst_high"):
            number = getattr(self, name)
            if number is not None and not math.isfinite(number):
                raise DataError(f"estimate {name} is {number!r}; expected a finite number")

    @property
    def n_unmeasured(self) -> int:
        """Units that could not be measured, all kinds together."""
        return sum(self.unmeasured.values())


class Flip(msgspec.Struct, frozen=True, kw_only=True):
    """Two agents that outcome and a figure of the path order differently."""

    first: str  # ahead by outcome
    second: str  # ahead by the figure
    figure: str  # which figure of the path
    # mean outcome of the first minus the second, over the cases that both have, each counting alike
    outcome: Estimate | Unmeasured
    path: Estimate | Unmeasured  # the same of the figure
    # the larger of two one-sided p: outcome does not favour the first; the figure not the second
    p: float
    # the same, the figure's after Holm over all figures, times the pairs compared; at most .025
    p_adjusted: float


class RankFlips(msgspec.Struct, frozen=True, kw_only=True, tag="rank_flips"):
    """The rank flips that are shown; of every other pair and figure the orders cannot be told."""

    flips: tuple[Flip, ...]  # pair by pair
    figures: tuple[str, ...]  # figures of the path by which at least one pair was compared
    n_pairs: int  # pairs of agents compared


class Decision(msgspec.Struct, frozen=True, tag="decision"):
    """Pass, fail or undecided, with the reason in one line."""

    outcome: Literal["pass", "fail", "undecided"]
    reason: str


def sum_known(numbers: Iterable[Number | None]) -> Number | None:
    """Return the sum of the numbers that are known, None where none is."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def format_count(n: int, noun: str) -> str:
    """Return a number of things.

    >>> format_count(1, "run"), format_count(1200, "run")
    ('1 run', '1,200 runs')
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
