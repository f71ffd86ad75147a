"""What a page is made of: pure values that a template lays out and computes nothing from.

Text in here may come from a trace: it is escaped by the template, never marked safe. Numbers come
as the words that people read, and beside them as `sort`, which only orders rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

PageName = Literal["overview", "run", "compare", "profile", "gates"]
Tone = Literal["", "good", "bad", "warn", "quiet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An interval as it is drawn in a cell: shares of the scale, from 0 at its left to 100."""

    low: float
    value: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell: what is read, what orders it (None last), where it leads, what is drawn in it.

    `note` stands below the text, `title` is told when it is pointed at.
    """

    text: str
    sort: float | str | None = None
    href: str | None = None
    note: str = ""
    title: str = ""
    tone: Tone = ""
    interval: Interval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its key in the address and its name; numbers stand on the right.

    `href` orders the rows on the server; without it the browser orders them.
    """

    key: str
    label: str
    number: bool = False
    help: str = ""
    href: str | None = None
    order: Literal["", "ascending", "descending"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row; `match` is what a filter looks in, `facets` what it chooses by."""

    cells: tuple[Cell, ...]
    match: str = ""
    facets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table that can be ordered and taken away as CSV; `empty` says what to run.

    `csv` is where the server gives all rows; without it the browser writes what it shows.
    """

    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    empty: Empty | None = None
    csv: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Empty:
    """Why there is nothing to see, and what to run."""

    said: str
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart: the name of a specification of `report.charts`, its rows, and its table.

    `alt` says in words what it shows.
    """

    id: str
    spec: str
    title: str
    alt: str
    rows: Sequence[Mapping[str, object]]
    table: Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page: `content` is what its template reads, `charts` what the browser has to draw.

    `anchor` is the id of its element: in one file with all pages, its address.
    """

    name: PageName
    title: str
    template: str
    anchor: str
    content: object
    charts: tuple[Chart, ...] = ()
