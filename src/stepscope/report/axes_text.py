"""The failure profile as text: a row an axis; one group in full, several side by side.

A cell is the share of incorrect runs among those that the axis could judge, with its interval, and
beside it how many it could not, and what the share would be if these were all correct or all not.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from stepscope.report import lines
from stepscope.report.keys import AXES, SCORE_FIRST, UNCERTAIN
from stepscope.report.types import Figure, Profile
from stepscope.safety.text import visible_line
from stepscope.values import Unmeasured

TITLE = "Failure profile"
GAP = 2
# Columns as in the vector above; an axis' name may take some of its value's.
NAME_AND_VALUE, INTERVAL, WORST, COUNT = 31, 14, 11, 7
# A group's name longer than this says no more in a heading.
LONGEST_NAME = 36


def block(profiles: Sequence[Profile], width: int) -> list[str]:
    """Return the lines of the failure profile of all groups; none where no axis is part of them."""
    asked = [key for key in AXES if any(key in p.figures for p in profiles)]
    scored = [k for k in asked if not all(lines.unscored(p.figures[k]) for p in profiles)]
    if not asked:
        return []
    if not scored:
        return [f"{TITLE}: not scored; {SCORE_FIRST}"]
    out = list(
        _one(profiles[0], scored, width) if len(profiles) == 1 else _many(profiles, scored, width)
    )
    left = [AXES[key] for key in asked if key not in scored]
    return out + ([f"  not scored: {', '.join(left)}"] if left else [])


def _one(profile: Profile, keys: Sequence[str], width: int) -> Iterator[str]:
    rows = [(AXES[key], *_cells(key, profile.figures[key])) for key in keys]
    head = (TITLE, "incorrect", "95 % interval", "worst case", "judged", "not judged")
    wide = [max(len(row[at]) for row in [head, *rows]) for at in (2, 3, 4)]
    for label, value, interval, worst, n, rest in [head, *rows]:
        name = label if label is TITLE else f"  {label}"
        left = f"{name}{value:>{NAME_AND_VALUE - len(name)}}  "
        left += f"{interval:<{max(wide[0], INTERVAL)}}{worst:>{max(wide[1], WORST)}}"
        left += f"{n:>{max(wide[2], COUNT)}}  "
        said = textwrap.wrap(visible_line(rest), max(width - len(left), 16))
        yield (left + said[0]).rstrip()
        yield from (" " * len(left) + more for more in said[1:])


def _cells(key: str, figure: Figure) -> tuple[str, str, str, str, str]:
    if isinstance(figure, Unmeasured):
        return "-", "-", "-", "0", f"{figure.kind}: {figure.reason}"
    lost = [f"{n:,} {kind}" for kind, n in sorted(figure.unmeasured.items()) if n]
    value, interval = lines.number(key, figure.value), lines.interval(key, figure)
    worst = lines.bounds(key, figure).removeprefix("worst case ").replace(" to ", "-")
    return value, interval, worst, f"{figure.n:,}", ", ".join(reversed(lost)) or "0"


def _many(profiles: Sequence[Profile], keys: Sequence[str], width: int) -> Iterator[str]:
    """Yield tables of as many groups as stand side by side, a column each."""
    names = [TITLE, *(f"  {AXES[key]}" for key in keys)]
    columns = [
        [title(profile), *(_cell(key, profile.figures[key]) for key in keys)]
        for profile in profiles
    ]
    return side_by_side(names, columns, width)


def side_by_side(
    names: Sequence[str], columns: Sequence[Sequence[str]], width: int
) -> Iterator[str]:
    """Yield rows of names and columns; columns that do not fit stand below, names repeated."""
    first = max(map(len, names))
    widths = [max(map(len, column)) for column in columns]
    start = 0
    while start < len(columns):
        stop, room = start + 1, width - first - GAP - widths[start]
        while stop < len(columns) and room >= widths[stop] + GAP:
            room -= widths[stop] + GAP
            stop += 1
        for at, name in enumerate(names):
            cells = (f"{columns[c][at]:<{widths[c]}}" for c in range(start, stop))
            told = "" if at == 0 and start else name
            yield (" " * GAP).join([f"{told:<{first}}", *cells]).rstrip()
        start = stop


def title(profile: Profile) -> str:
    """Return a group's title, cut to what a heading can hold."""
    name = visible_line(profile.title)
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _cell(key: str, figure: Figure) -> str:
    if isinstance(figure, Unmeasured):
        return "- not scored" if lines.unscored(figure) else f"- {figure.kind}"
    left = figure.unmeasured.get(UNCERTAIN, 0)
    said = f"{lines.number(key, figure.value)} {lines.interval(key, figure)} of {figure.n:,}"
    return f"{said}, {UNCERTAIN} {left:,}" if left else said
