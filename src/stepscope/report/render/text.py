"""Lay out a document for a terminal: readable at 80 columns and in a log, without colour.

Whatever came from a trace passes through `visible_line`: no escape sequence reaches the terminal.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from stepscope.report import document as doc
from stepscope.report.words import clip, cut_words, fold, shorten
from stepscope.safety.text import disarm_commands, visible_line

GAP = 2
# The first column gives way to the others down to so much: enough to tell names apart.
LEAST_NAME = 14
# The last column has at least so much room, whatever stands before it.
LEAST_ROOM = 12
# The heading of a column beside others says no more in more characters than this.
LONGEST_HEADING = 36


def render(document: doc.Document, width: int = 100, *, log: bool = False) -> str:
    """Return a document as text of `width` columns; with `log` no line commands a CI system."""
    # Calming a line that a fold begins with `::` adds a column.
    sections = ("\n".join(lay_out_section(section, width - log)) for section in document)
    text = "\n\n".join(section for section in sections if section) + "\n"
    return disarm_commands(text) if log else text


def lay_out_section(section: doc.Section, width: int) -> list[str]:
    """Return the blocks of a section as lines."""
    out: list[str] = []
    for block in section:
        match block:
            case doc.Paragraph():
                out += _paragraph(block, width)
            case doc.Table():
                out += lay_out_table(block, width)
            case str():
                out += block.split("\n")
    return out


def _paragraph(block: doc.Paragraph, width: int) -> list[str]:
    head = f"{block.heading}   " if block.heading else ""
    said = " " * block.indent + visible_line(head + block.lead + block.text)
    if block.one_line:
        return [cut_words(said, width)]
    return fold(said, width, block.hang + block.indent)


def lay_out_table(table: doc.Table, width: int) -> list[str]:
    """Return a table as lines, its heading above and its notes below."""
    out = [visible_line(table.heading)] if table.heading and table.layout != "beside" else []
    if table.rows:
        lay_out = {"lines": _lines, "wrapped": _wrapped, "beside": _beside}[table.layout]
        out += [line.rstrip() for line in lay_out(table, width)]
    for note in table.notes:
        said = visible_line(note)
        out += textwrap.wrap(said, width, initial_indent="  ", subsequent_indent="    ")
    return out


def _words(cell: doc.TableCell, most: int = 0) -> str:
    said = " " * GAP * cell.level + visible_line(cell.text)
    return clip(said, most) if most else said


def _lines(table: doc.Table, width: int) -> Iterator[str]:
    """Yield a line a row; the last cell of a row that ends early takes the rest of the line."""
    columns, count = table.columns, len(table.columns)
    labels = [(c.label if at else table.corner).split("\n") for at, c in enumerate(columns)]
    heads = [doc.TableRow(tuple(map(doc.TableCell, x))) for x in zip_longest(*labels, fillvalue="")]
    rows = [*heads, *table.rows]
    texts = [
        [_words(cell, column.most) for cell, column in zip(row.cells, columns, strict=False)]
        for row in rows
    ]
    last = count - 1 if columns[-1].overflow else count
    held = [text if len(text) == count else text[:-1] for text in texts]
    wide = [
        max(column.least, *(len(text[at]) for text in held if at < len(text)))
        for at, column in enumerate(columns[:last])
    ]
    if columns[0].least and not columns[0].most:
        wide[0] = columns[0].least
    room = width - table.indent - sum(wide[1:]) - sum(column.gap for column in columns[1:])
    room -= LEAST_ROOM if last < count else 0
    above: dict[int, str] = {}
    if wide[0] > room:
        wide[0] = max(room, LEAST_NAME)
        cut = [
            clip(visible_line(row.cells[0].short) or text[0], wide[0])
            for row, text in zip(rows, texts, strict=True)
        ]
        names: dict[str, set[str]] = {}
        for short, text in zip(cut, texts, strict=True):
            names.setdefault(short, set()).add(text[0])
        for at, (short, text) in enumerate(zip(cut, texts, strict=True)):
            if len(text[0]) > wide[0]:
                # Names that would be cut to one stand whole, above their figures.
                above |= {at: text[0]} if len(names[short]) > 1 else {}
                text[0] = "" if at in above else short
    for at, (row, text) in enumerate(zip(rows, texts, strict=True)):
        if at in above:
            yield from fold(" " * table.indent + above[at], width, table.indent + GAP)
        full = len(text) == count
        line = " " * table.indent + _line(text[: last if full else -1], columns, wide)
        if full and last == count:
            yield clip(line.rstrip(), width)
        else:
            column = columns[-1] if full else doc.TableColumn("", overflow="wrap")
            yield from _overflow(line, row.cells[-1], column, width)
        for said in row.below:
            yield from _paragraph(said, width)


def _line(cells: Sequence[str], columns: Sequence[doc.TableColumn], wide: Sequence[int]) -> str:
    """Return cells in their columns; a long first cell runs into the room before a number."""
    line, end = "", 0
    for at, (cell, column) in enumerate(zip(cells, columns, strict=False)):
        start = end + (column.gap if at else 0)
        end = start + wide[at]
        line = line.ljust(end - len(cell) if column.number else start) + cell
    return line.ljust(end)


def _overflow(line: str, cell: doc.TableCell, column: doc.TableColumn, width: int) -> Iterator[str]:
    line, text = line + " " * column.gap, visible_line(cell.text)
    room = max(width - len(line), LEAST_ROOM)
    if column.overflow == "wrap":
        first, *more = fold(text, room, 2)
        yield line + first
        yield from (" " * len(line) + rest for rest in more)
    else:
        yield line + shorten(text, room, ends=cell.keep_end)


def _beside(table: doc.Table, width: int) -> Iterator[str]:
    """Yield rows of names and columns; columns that do not fit stand below, names repeated."""
    corner = table.corner or table.heading
    names = [visible_line(corner), *(f"  {visible_line(row.cells[0].text)}" for row in table.rows)]
    columns = []
    for at, column in enumerate(table.columns[1:], 1):
        head = cut_words(visible_line(column.label), LONGEST_HEADING)
        columns.append([head, *(_words(row.cells[at]) for row in table.rows)])
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
            yield (" " * GAP).join([f"{'' if at == 0 and start else name:<{first}}", *cells])
            for said in table.rows[at - 1].below if at and stop == len(columns) else ():
                yield from _paragraph(said, width)
        start = stop


def _wrapped(table: doc.Table, width: int) -> Iterator[str]:
    """Yield rows whose cells wrap within their columns: words first, then figures."""
    head = [visible_line(column.label) for column in table.columns]
    rows = [head, *([_words(cell) for cell in row.cells] for row in table.rows)]
    columns = list(zip(*rows, strict=True))
    wide = [max(map(len, column)) or 1 for column in columns]
    wordy = [any(cell[:1].isalpha() for cell in column[1:]) for column in columns]
    room = width - GAP * len(wide)
    for among in (wordy, [True] * len(wide)):
        least = [max(map(len, " ".join(c).split())) if among is wordy else 1 for c in columns]
        while sum(wide) > room:
            may = [at for at, n in enumerate(wide) if among[at] and n > least[at]]
            if not may:
                break
            wide[max(may, key=lambda at: wide[at])] -= 1
    for row in rows:
        cells = [
            textwrap.wrap(cell, room, break_on_hyphens=False) or [""]
            for cell, room in zip(row, wide, strict=True)
        ]
        for at in range(max(map(len, cells))):
            parts = (
                f"{cell[at] if at < len(cell) else '':<{room}}"
                for cell, room in zip(cells, wide, strict=True)
            )
            yield " " * GAP + (" " * GAP).join(parts)
