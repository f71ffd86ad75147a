"""The vector as lines of words, shared by every renderer that a person reads.

A line says what was measured, on how many units, and what could not be. Figures that are absent
for one and the same reason share a line. Nothing is computed here.
"""

from __future__ import annotations

from typing import NamedTuple

from stepscope.report.keys import AXES, LABELS, SCORE_FIRST, SHORT, reason
from stepscope.report.types import Figure, Profile
from stepscope.values import Estimate, Unmeasured

# Figures that share a line when they are absent for one reason.
SPREADS = ("steps", "tokens", "cost_usd", "seconds")


class Line(NamedTuple):
    """One line of the vector: `value` and `interval` are as people read them, "-" when absent."""

    label: str
    value: str
    interval: str
    n: str
    unmeasured: str


def vector(profile: Profile) -> list[Line]:
    """Return the vector's lines in their fixed order, without axes; of pass^k the largest k."""
    keys = [k for k in profile.figures if not k.startswith("outcome.pass^") and k not in AXES]
    powers = [k for k in profile.figures if k.startswith("outcome.pass^")]
    if powers:
        keys.insert(keys.index("outcome.pass") + 1, powers[-1])
    lines: list[Line] = []
    shared: dict[tuple[str, str], list[str]] = {}
    for key in keys:
        figure = profile.figures[key]
        if isinstance(figure, Unmeasured) and _shares(key, profile):
            shared.setdefault((figure.kind, absent(figure, profile.n_runs)), []).append(key)
        else:
            found = line(key, figure, note=profile.notes.get(key, ""), runs=profile.n_runs)
            lines.append(found._replace(label=_standing_alone(key, profile) or found.label))
    for (_, why), absent_keys in shared.items():
        names = [SHORT[key] for key in absent_keys if key in SHORT]
        lines.append(Line(", ".join(names), "-", "-", "0", why))
    return lines


def _standing_alone(key: str, profile: Profile) -> str | None:
    """Return the whole name of a 95th percentile that has no median above it."""
    median = key.removesuffix(".p95") + ".median"
    if not key.endswith(".p95") or not isinstance(profile.figures.get(median), Unmeasured):
        return None
    return LABELS[median].replace("median", "p95")


def axes(profile: Profile) -> list[Line]:
    """Return the lines of the failure profile, one for each axis that was scored."""
    return [
        line(key, figure)._replace(label=name)
        for key, name in AXES.items()
        if (figure := profile.figures.get(key)) is not None and not unscored(figure)
    ]


def unscored(figure: Figure) -> bool:
    """Whether there is no figure because nobody asked for it."""
    return isinstance(figure, Unmeasured) and figure.reason == SCORE_FIRST


def _shares(key: str, profile: Profile) -> bool:
    """Whether an absent figure may share a line: its median is absent as well."""
    family = key.split(".")[0]
    return family in SPREADS and isinstance(profile.figures.get(f"{family}.median"), Unmeasured)


def line(key: str, figure: Figure, *, note: str = "", runs: int = 0) -> Line:
    """Return one figure as a line; `note` comes last, after what was not measured."""
    name = label(key)
    if isinstance(figure, Unmeasured):
        return Line(name, "-", "-", "0", _join(absent(figure, runs), note))
    said = _join(losses(key, figure), bounds(key, figure), note, *figure.diagnostics)
    return Line(name, number(key, figure.value), interval(key, figure), counted(figure), said)


def label(key: str) -> str:
    """Return the name of a figure as people read it.

    >>> label("outcome.pass^4")
    '  pass^4'
    """
    return "  " + key.removeprefix("outcome.") if "^" in key else LABELS.get(key, key)


def number(key: str, value: float) -> str:
    """Return a value in the figure's own unit.

    >>> number("outcome.pass", 0.42), number("steps.median", 24.0), number("cost_usd.p95", 0.0312)
    ('.420', '24', '$0.0312')
    """
    family = key.split(".")[0]
    if family in ("steps", "tokens"):
        return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"
    if family == "cost_usd":
        sign = "-" if value < 0 else ""
        return f"{sign}${abs(value):,.4f}" if abs(value) < 1 else f"{sign}${abs(value):,.2f}"
    if family == "seconds":
        return f"{value:,.1f} s"
    return share(value)


def share(value: float) -> str:
    """Return a number to three places, without the zero before the point.

    >>> share(0.42), share(-0.05), share(1.0), share(0.9999)
    ('.420', '-.050', '1.000', '1.000')
    """
    text = f"{value:.3f}"
    if text.startswith("0."):
        return text[1:]
    if text.startswith("-0."):
        return "-" + text[2:] if text != "-0.000" else ".000"
    return text


def score(value: float) -> str:
    """Return a score to two places, without the zero before the point: no scorer knows more.

    >>> score(0.576), score(1.0), score(-0.5)
    ('.58', '1.00', '-.50')
    """
    text = f"{value:.2f}"
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def interval(key: str, estimate: Estimate) -> str:
    """Return `[low, high]`, a limit that cannot be given as "-"; "-" alone where neither can."""
    limits = estimate.low, estimate.high
    if limits == (None, None):
        return "-"
    low, high = ("-" if limit is None else number(key, limit) for limit in limits)
    return f"[{low}, {high}]"


def counted(estimate: Estimate) -> str:
    """Return how many of what an estimate counts; a single one loses its plural s."""
    unit = estimate.unit_of_n
    return f"{estimate.n:,} {unit[:-1] if estimate.n == 1 and unit.endswith('s') else unit}"


def losses(key: str, estimate: Estimate) -> str:
    """Return how many units were not measured, by kind and why: "0" when none."""
    said = []
    for kind, count in sorted(estimate.unmeasured.items()):
        why = reason(key, kind)
        if count:
            said.append(f"{count:,} {kind}: {why}" if why else f"{count:,} {kind}")
    return ", ".join(said) or "0"


def bounds(key: str, estimate: Estimate) -> str:
    """Return the worst case over the unmeasured, where it differs from the value."""
    low, high = estimate.worst_low, estimate.worst_high
    if low is None or high is None or low == high:
        return ""
    return f"worst case {number(key, low)} to {number(key, high)}"


def absent(figure: Unmeasured, runs: int) -> str:
    """Return how many runs have no answer, which kind, and why."""
    return f"{runs:,} {figure.kind}: {figure.reason}" if runs else f"{figure.kind}: {figure.reason}"


def _join(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
