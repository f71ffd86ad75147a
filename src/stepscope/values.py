"""What every number and every absence is, and how numbers are written, the same in every output.

A float never means "could not measure": a NaN clamped with `max(0, min(1, x))` becomes a perfect 1.
Shares are in percent, money in dollars, means and coefficients have two places. These types sit
below the statistics, so that `stats` and `shape` can speak of absence without knowing what an agent
is. They are msgspec structs because they leave in published JSON.
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

# Before the reason why a value has no interval, among the diagnostics of its estimate.
NO_INTERVAL = "no interval: "
# A share that differs from none or from all by less does so by rounding alone.
ROUNDING = 1e-9


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
        low: lower limit of the `level` interval; None where only a description is claimed, and
            then a diagnostic says why.
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
        diagnostics: what weakens the number ("weak evidence: only 3 tasks"); it has a column.
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
        """Raise `DataError` for NaN and infinity: they are never an estimate."""
        for name in ("value", "low", "high", "level", "worst_low", "worst_high"):
            number = getattr(self, name)
            if number is not None and not math.isfinite(number):
                raise DataError(f"estimate {name} is {number!r}; expected a finite number")

    @property
    def n_unmeasured(self) -> int:
        """Units that could not be measured, all kinds together."""
        return sum(self.unmeasured.values())

    @property
    def no_interval(self) -> str:
        """Why there are no limits, as "no interval: all equal"; "" where there is a limit."""
        if self.low is not None or self.high is not None:
            return ""
        return next((one for one in self.diagnostics if one.startswith(NO_INTERVAL)), "no interval")


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


def format_percent(value: float) -> str:
    """Return a share in percent: one place below ten percent, and what is not all is never 100 %.

    >>> [format_percent(x) for x in (0.42, 0.05, 0.0, 1.0, 0.9999, 0.0004, -0.0004)]
    ['42 %', '5.0 %', '0 %', '100 %', '99.9 %', '<0.1 %', '>-0.1 %']
    """
    size = abs(value)
    if size < ROUNDING or 0.0995 <= size < 0.995 or size > 1 - ROUNDING:
        return f"{100 * value + 0.0:.0f} %"
    if size < 0.0005:
        return "<0.1 %" if value > 0 else ">-0.1 %"
    return f"{min(max(100 * value, -99.9), 99.9):.1f} %"


def format_number(value: float, unit: str = "") -> str:
    """Return a value in its unit, which for most is said elsewhere.

    >>> format_number(0.42, "share"), format_number(0.031, "usd"), format_number(-1203.0, "usd")
    ('42 %', '$0.0310', '-$1,203.00')
    >>> format_number(24.0, "steps"), format_number(24.5, "steps"), format_number(1.2, "seconds")
    ('24', '24.5', '1.2 s')
    >>> format_number(0.576), format_number(0.031), format_number(-1.0, "kappa")
    ('0.58', '0.031', '-1.00')
    """
    if unit.startswith("share"):
        return format_percent(value)
    if unit in ("steps", "tokens"):
        return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"
    if unit == "usd":
        sign = "-" if value < 0 else ""
        if 0 < abs(value) < 0.00005:
            return f"{sign}<$0.0001"
        return f"{sign}${abs(value):,.4f}" if abs(value) < 1 else f"{sign}${abs(value):,.2f}"
    if unit == "seconds":
        return f"{value:,.1f} s"
    return f"{value:.3f}" if 0.0005 <= abs(value) < 0.0995 else f"{value:,.2f}"


def format_limits(low: float | None, high: float | None, unit: str = "") -> str:
    """Return an interval, a share's in percent; a limit that cannot be given is an open end.

    >>> format_limits(0.32, 0.52, "share"), format_limits(-0.03, 0.27, "share")
    ('32\u201352', '-3.0 to 27')
    >>> format_limits(None, 9.0, "steps"), format_limits(3.0, None, "steps")
    ('at most 9', 'at least 3')
    """
    ends = [
        "" if x is None else format_number(x, unit).removesuffix(" %").removesuffix(" s")
        for x in (low, high)
    ]
    if all(ends):
        return (" to " if (low or 0) < 0 else "\u2013").join(ends)
    return f"at least {ends[0]}" if ends[0] else f"at most {ends[1]}" if ends[1] else ""


def format_interval(estimate: Estimate) -> str:
    """Return the interval of an estimate, or that it has none, and why."""
    limits = format_limits(estimate.low, estimate.high, estimate.unit)
    return limits or estimate.no_interval


def format_estimate(figure: Estimate | Unmeasured, absent: str = "-") -> str:
    """Return a value with its interval; `absent` where nothing was measured.

    >>> one = Estimate(value=7.0, low=None, high=None, method="none", n=3, n_tasks=3, unit="steps",
    ...     diagnostics=("no interval: all equal",))
    >>> format_estimate(one), format_estimate(Unmeasured("undefined", "0 of 0"))
    ('7 [no interval: all equal]', '-')
    """
    if isinstance(figure, Unmeasured):
        return absent
    value = format_number(figure.value, figure.unit)
    return (
        f"{value} [{figure.no_interval}]"
        if figure.no_interval
        else f"{value}, {format_interval(figure)}"
    )


def format_difference(value: float, unit: str = "") -> str:
    """Return a difference with its sign, also of a positive one; of shares in points.

    >>> format_difference(0.12, "share"), format_difference(-2.0, "steps")
    ('+12 points', '-2')
    >>> format_difference(0.0003, "share"), format_difference(-0.0003, "share")
    ('+<0.1 points', '>-0.1 points')
    """
    text = format_number(value, unit).replace(" %", " points")
    return text if text.startswith(("-", ">")) else f"+{text}"


def format_p(p: float | None) -> str:
    """Return p in few characters; "-" where nothing was tested."""
    return "-" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"
