"""What judges say, as Markdown tables for a comment on a pull request.

Names and labels come from records: every cell that is more than our own figures has its active
characters replaced, as in the rest of the report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stepscope.report.panels_profile import Sheet
from stepscope.report.panels_tables import sheets
from stepscope.report.panels_types import Panels

# What figures are written with; a cell of nothing else can neither end a cell nor name anybody.
_FIGURES = frozenset("0123456789.,[]() -+$%of")


def blocks(found: Panels, plain: Callable[[str], str]) -> Iterator[list[str]]:
    """Yield the lines of every table, a block each; `plain` takes the meaning out of a text."""
    for sheet in sheets(found):
        yield list(_block(sheet, plain))


def _block(sheet: Sheet, plain: Callable[[str], str]) -> Iterator[str]:
    yield f"**{plain(sheet.title)}**"
    yield ""
    if sheet.rows:
        yield "| " + " | ".join(map(plain, sheet.head)) + " |"
        yield "|---" * len(sheet.head) + "|"
        for row in sheet.rows:
            yield "| " + " | ".join(_cell(cell, plain) for cell in row) + " |"
    if sheet.notes:
        yield ""
        yield "<br>".join(map(plain, sheet.notes))


def _cell(cell: str, plain: Callable[[str], str]) -> str:
    return cell if _FIGURES.issuperset(cell) and "](" not in cell else plain(cell)
