"""Lay out a report for a terminal: 100 columns, readable at 80 and in a log, without colour.

Whatever came from a trace passes through `visible_line`: no escape sequence reaches the terminal.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from stepscope.report import words
from stepscope.report.document import WordTable
from stepscope.report.panel_types import Panels
from stepscope.report.types import LookFirst, OutcomeTable, Profile, Report
from stepscope.report.views import profile
from stepscope.report.views.panels import tabulate_panels
from stepscope.report.views.profile import LONGEST_NAME, lay_side_by_side
from stepscope.report.words import (
    clip,
    cut_words,
    describe_flip,
    describe_profile,
    describe_suspect,
    fold,
    note_unearned,
    shorten,
)
from stepscope.safety.text import visible_line
from stepscope.values import Unmeasured

GAP = 2
# Shares by judge or by group: columns that do not fit stand below.
_WIDE = "panel"


def render_panels_text(found: Panels, width: int) -> list[list[str]]:
    """Return the lines of every table, a block each, no line longer than `width`."""
    return [_block(sheet, width) for sheet in tabulate_panels(found)]


def _block(sheet: WordTable, width: int) -> list[str]:
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
        [cut_words(head[at], LONGEST_NAME), *(row[at] for row in rows)]
        for at in range(1, len(head))
    ]
    return lay_side_by_side(names, columns, width)


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


# Of many groups more pairs than this differ by chance alone; the JSON has them all.
SHOWN_FLIPS = 5
# Columns of the vector; an interval in dollars or seconds may need more than its column.
LABEL, VALUE, INTERVAL, COUNT = 22, 9, 15, 10


def render_report_text(report: Report, width: int = 100) -> str:
    """Return the report as text, no line longer than `width` columns; ends in a line break."""
    blocks = [_profile(profile, report, width) for profile in report.profiles]
    flips = list(_flips(report, width))
    if flips:
        blocks.append(flips)
    blocks.append(profile.lay_out_axes(report.profiles, width))
    blocks.append(profile.lay_out_shapes(report.profiles, width))
    if report.panels:
        blocks += render_panels_text(report.panels, width)
    if report.look_first:
        blocks.append(_look_first(report, width))
    blocks.append(list(_closing(report, width)))
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _profile(profile: Profile, report: Report, width: int) -> list[str]:
    out = fold("   ".join(describe_profile(profile, report)), width, 2)
    vector = words.list_figures(profile)
    wide = max(INTERVAL, *(len(item.interval) for item in vector))
    out += ["", _row("", "value", "95 % interval", "n", wide) + "unmeasured"]
    for item in vector:
        head = _row(item.label, item.value, item.interval, item.n, wide)
        room = max(width - len(head), 12)
        said = fold(visible_line(item.unmeasured), room, 2)
        out.append((head + said[0]).rstrip())
        out += [" " * len(head) + rest for rest in said[1:]]
    earned = [line for table in profile.earned for line in _joint(table, profile, width)]
    if earned:
        out += ["", *earned]
    if profile.too_loose.outcome == "fail":
        out += ["", *fold(f"Warning: {profile.too_loose.reason}", width, 2)]
    return out


def _row(label: str, value: str, interval: str, n: str, wide: int) -> str:
    return f"{label:<{LABEL}}{value:>{VALUE}}  {interval:<{wide}}{n:>{COUNT}}  "


def _joint(table: OutcomeTable, profile: Profile, width: int) -> Iterator[str]:
    first = table is profile.earned[0]
    widths = [max(len(column) + 2, 7) for column in table.columns]
    title = "Was it earned?" if first else ""
    yield f"{title:<16}" + "".join(f"{c:>{w}}" for c, w in zip(table.columns, widths, strict=True))
    notes = note_unearned(table, profile)
    for name, counts in (("pass", table.passed), ("fail", table.failed)):
        cells = "".join(f"{n:>{w},}" for n, w in zip(counts, widths, strict=True))
        row = f"  {name:<14}{cells}   "
        note = fold(visible_line(notes.get(name, "")), width - len(row), 2)
        yield (row + note[0]).rstrip()
        yield from (" " * len(row) + rest for rest in note[1:2])


def _flips(report: Report, width: int) -> Iterator[str]:
    if isinstance(report.rank_flips, Unmeasured):
        if len(report.profiles) > 1:
            yield from fold(f"Rank flips: unmeasured, {report.rank_flips.reason}", width, 2)
        return
    for flip in report.rank_flips[:SHOWN_FLIPS]:
        yield from fold(f"Rank flip: {describe_flip(flip)}", width, 2)
    if not report.rank_flips and len(report.profiles) > 1:
        yield "Rank flips: none; outcome and path order these groups alike."


def _look_first(report: Report, width: int) -> list[str]:
    runs = report.look_first
    names = [clip(visible_line(run.name), 30) for run in runs]
    wide = max(14, *(len(name) for name in names))
    out = [f"{'Look first':<{wide + 2}} {'steps':>5}  {'suspect':<8} evidence"]
    for name, run in zip(names, runs, strict=True):
        where, said = describe_suspect(run)
        head = f"  {name:<{wide}} {run.steps:>5,}  {where:<8} "
        out.append(head + shorten(visible_line(said), width - len(head), ends=_ends(run)))
    return out


def _ends(run: LookFirst) -> bool:
    """Whether the last words of the evidence say most: those of an error message do."""
    return bool(run.suspects) and run.suspects[0].kind == "error"


def _closing(report: Report, width: int) -> Iterator[str]:
    if report.not_claimed:
        yield from fold(f"Not claimed: {', '.join(report.not_claimed)}.", width, 2)
    if report.next:
        yield from fold("Next: " + visible_line(" · ".join(report.next)), width, 6)
