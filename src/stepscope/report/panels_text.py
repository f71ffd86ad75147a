"""What judges say, for a terminal: tables whose columns line up and whose last one wraps.

Names and labels come from records, and pass through `visible_line`: no escape sequence of a run
reaches the terminal.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from stepscope.report.axes_text import LONGEST_NAME, side_by_side
from stepscope.report.cutting import cut
from stepscope.report.panels_profile import Sheet
from stepscope.report.panels_tables import sheets
from stepscope.report.panels_types import Panels
from stepscope.safety.text import visible_line

GAP = 2
# Shares by judge or by group: columns that do not fit stand below.
_WIDE = "panel"


def blocks(found: Panels, width: int) -> list[list[str]]:
    """Return the lines of every table, a block each, no line longer than `width`."""
    return [_block(sheet, width) for sheet in sheets(found)]


def _block(sheet: Sheet, width: int) -> list[str]:
    rows = [tuple(visible_line(cell) for cell in row) for row in sheet.rows]
    head = tuple(visible_line(name) for name in sheet.head)
    title = visible_line(sheet.title)
    if sheet.key.startswith(_WIDE):
        out = list(_beside(title, head, rows, width))
    elif rows:
        out = list(_lined(title, head, rows, width))
    else:
        out = [title]
    for note in sheet.notes:
        out += textwrap.wrap(
            visible_line(note), width, initial_indent="  ", subsequent_indent="    "
        )
    return out


def _beside(
    title: str, head: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> Iterator[str]:
    names = [title, *(f"  {row[0]}" for row in rows)]
    columns = [
        [cut(head[at], LONGEST_NAME), *(row[at] for row in rows)] for at in range(1, len(head))
    ]
    return side_by_side(names, columns, width)


def _lined(
    title: str, head: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> Iterator[str]:
    """Yield a heading and the rows below it; cells that do not fit wrap within their column."""
    wide = _widths([head, *rows], width - GAP)
    yield title
    for row in (head, *rows):
        cells = [_wrapped(cell, room) for cell, room in zip(row, wide, strict=True)]
        for at in range(max(map(len, cells))):
            parts = (
                f"{cell[at] if at < len(cell) else '':<{room}}"
                for cell, room in zip(cells, wide, strict=True)
            )
            yield (" " * GAP + (" " * GAP).join(parts)).rstrip()


def _wrapped(cell: str, room: int) -> list[str]:
    return textwrap.wrap(cell, room, break_on_hyphens=False) or [""]


def _widths(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the width of each column: words give way to figures, the widest column first."""
    columns = list(zip(*rows, strict=True))
    wide = [max(map(len, column)) or 1 for column in columns]
    words = [any(_told(cell) for cell in column[1:]) for column in columns]
    room = width - GAP * (len(wide) - 1)
    for among in (words, [True] * len(wide)):
        least = [max(map(len, " ".join(c).split())) if among is words else 1 for c in columns]
        while sum(wide) > room:
            may = [at for at, n in enumerate(wide) if among[at] and n > least[at]]
            if not may:
                break
            widest = max(may, key=lambda at: wide[at])
            wide[widest] -= 1
    return wide


def _told(cell: str) -> bool:
    """Whether a cell says words, not figures: those are wrapped last."""
    return cell[:1].isalpha()
