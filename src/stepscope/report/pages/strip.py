"""The strip under the curve: a column a step, a lane for each who spoke.

A long run is drawn in columns of several steps, each with the gravest thing said of any of them:
nothing is left out by drawing less. Every mark is a sign as well as a colour.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from stepscope.report.pages.run_data import RunData
from stepscope.report.pages.verdicts import CATEGORIES, Said, To
from stepscope.safety.text import visible_line

# Columns that a wide screen shows apart.
MOST = 100
# Columns up to which each has room for its number.
ROOMY = 20
# The sign of each category, for those who do not see its colour.
SIGNS = {
    "error": "✕",
    "fault": "!",
    "redundant": "○",
    "detour": "~",
    "suspect": "?",
    "progress": "·",
    "label": "▲",
    "user": "",
    "agent": "",
    "system": "",
    "call": "▪",
    "failed": "✕",
}
_CALLS = ("failed", "call")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One column of a lane; without a category there is nothing to see."""

    category: str = ""
    sign: str = ""
    title: str = ""
    href: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Who speaks, and a mark a column."""

    name: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """All lanes; `each` is how many steps a column holds."""

    lanes: tuple[Lane, ...]
    each: int
    ticks: tuple[str, ...]


def strip(data: RunData, said: Said, to: To) -> Strip:
    """Return the strip of a whole run."""
    count = len(data.trajectory.steps)
    each = width(count)
    calls = {exchange.step: "call" for exchange in data.trajectory.exchanges}
    calls |= {exchange.step: "failed" for exchange in data.trajectory.exchanges if exchange.failed}
    suspects = {
        step: "suspect"
        for suspect in reversed(data.suspects)
        for step in range(suspect.first, suspect.last + 1, each)
    }
    people = {step: "label" for step in said.labels if step >= 0}
    lanes = [("calls", calls, _CALLS), ("look", suspects, CATEGORIES)]
    lanes += [(judge, steps, CATEGORIES) for judge, steps in said.by_judge.items()]
    lanes += [("people", people, ("label",))] if people else []
    return Strip(
        lanes=tuple(_lane(name, steps, order, count, to) for name, steps, order in lanes if steps),
        each=each,
        ticks=tuple(_ticks(count, each)),
    )


def width(count: int) -> int:
    """Return how many steps a column holds.

    >>> width(100), width(101), width(100_000)
    (1, 2, 1000)
    """
    return max(-(-count // MOST), 1)


def _ticks(count: int, each: int) -> Iterator[str]:
    """Yield what stands below each column: its first step, or nothing where it would be crowded."""
    columns = -(-count // each)
    spread = next((n for n in (1, 2) if columns <= ROOMY * n), 5)
    for column in range(columns):
        yield "" if column % spread else str(column * each)


def _lane(name: str, steps: Mapping[int, str], order: tuple[str, ...], count: int, to: To) -> Lane:
    each = width(count)
    held: dict[int, dict[str, int]] = {}
    for step in sorted(steps):
        held.setdefault(step // each, {}).setdefault(steps[step], step)
    marks = []
    for column in range(-(-count // each)):
        here = held.get(column)
        if not here:
            marks.append(Mark())
            continue
        category = next((c for c in order if c in here), next(iter(here)))
        step = here[category]
        marks.append(
            Mark(
                category=category,
                sign=SIGNS.get(category, "·"),
                title=f"step {step}: {visible_line(name)} {category}",
                href=to(step),
            )
        )
    return Lane(name=name, marks=tuple(marks))
