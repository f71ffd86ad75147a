"""What a view gives to a renderer: tables, charts, pages, and the addresses between them.

Values only; each renderer escapes text in its own way. Ids and addresses consist of digests and
numbers, so that no text of a trace becomes part of an address.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal
from urllib.parse import urlencode

PageName = Literal["overview", "run", "compare", "profile", "label", "calibration", "gates"]
Tone = Literal["", "good", "bad", "warn", "quiet"]
SortOrder = Literal["", "ascending", "descending"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnInterval:
    """An interval as it is drawn in a cell: shares of the scale, from 0 at its left to 100."""

    low: float
    value: float
    high: float


@dataclass(frozen=True, slots=True)
class TableCell:
    """One cell: what is read, what orders it (None last), where it leads, what is drawn in it."""

    text: str
    _: KW_ONLY
    sort: float | str | None = None
    href: str | None = None
    level: int = 0  # how far it is indented below the row above
    short: str = ""  # what stands for it where there is no room
    code: bool = False  # quoted from a trace or a file of the user: never more than a quotation
    keep_end: bool = False  # where it is cut, its last words stay as well as its first
    note: str = ""  # stands below the text, on a page
    title: str = ""  # told when it is pointed at, on a page
    tone: Tone = ""
    interval: DrawnInterval | None = None
    histogram: tuple[int, ...] = ()  # heights from 0 to 100; `text` says from where to where


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column; numbers stand on the right."""

    label: str
    _: KW_ONLY
    number: bool = False
    least: int = 0  # width in characters that it has in text, whatever it holds
    most: int = 0  # width that it has at most; cells are cut
    gap: int = 2  # characters before it
    code: bool = False  # its label is quoted from a trace or a file of the user
    overflow: Literal["", "wrap", "cut"] = ""  # of the last column: wrapped below itself, or cut
    help: str = ""
    href: str | None = None  # orders the rows on the server; without it the browser orders them
    order: SortOrder = ""
    axis: bool = False  # its cells are drawn on one scale, which stands in its head


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row; `match` is what a filter looks in, `facets` what it chooses by.

    `below` are lines about the row, for text and Markdown.
    """

    cells: tuple[TableCell, ...]
    _: KW_ONLY
    anchor: str = ""  # what leads to it on a page
    match: str = ""
    facets: Mapping[str, str] = field(default_factory=dict)
    below: Sequence[Paragraph] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A table: a page can order it and give it as CSV; text and Markdown lay it out once."""

    id: str
    columns: Sequence[TableColumn]
    rows: Sequence[TableRow]
    _: KW_ONLY
    caption: str = ""  # names it on a page
    heading: str = ""  # stands above it in text and Markdown
    corner: str = ""  # stands there instead, in its first heading
    notes: Sequence[str] = ()  # remarks below it
    # in text, columns in one line each; all of them wrapped; or as many as fit beside each other,
    # the others below
    layout: Literal["lines", "wrapped", "beside"] = "lines"
    own: bool = False  # only our own words, with nothing that Markdown would have to escape
    indent: int = 0
    empty: EmptyNotice | None = None


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A sentence; `lead` comes before it, `code` quotes it, `terminal` leaves it out elsewhere.

    Lines that follow its first one are indented by `hang`; with `one_line` it is cut instead.
    """

    text: str
    _: KW_ONLY
    heading: str = ""  # the name of what the blocks below are about; stands before everything
    lead: str = ""
    hang: int = 2
    indent: int = 0
    one_line: bool = False
    code: bool = False
    terminal: bool = False


# What stands together: in text without an empty line between, in Markdown with one. A string is
# laid out already, for text of a known width.
Section = Sequence[Paragraph | Table | str]
Document = Sequence[Section]


def make_columns(*labels: str, numbers: Collection[str] = ()) -> tuple[TableColumn, ...]:
    """Return columns by their names; `numbers` are those that stand on the right."""
    return tuple(TableColumn(label, number=label in numbers) for label in labels)


def make_row(*cells: TableCell | str) -> TableRow:
    """Return a row of cells; a text alone is a cell."""
    return TableRow(tuple(TableCell(c) if isinstance(c, str) else c for c in cells))


def make_table(
    id: str,
    labels: Sequence[str],
    rows: Iterable[Sequence[TableCell | str]],
    *,
    numbers: Collection[str] = (),
    caption: str = "",
) -> Table:
    """Return a table by the names of its columns and the cells of its rows."""
    made = tuple(make_row(*row) for row in rows)
    return Table(id, make_columns(*labels, numbers=numbers), made, caption=caption)


@dataclass(frozen=True, slots=True)
class EmptyNotice:
    """Why there is nothing to see, and what to run."""

    said: str
    commands: Sequence[str] = ()


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


# So much of a run's id tells it from the others in an address.
DIGITS = 16


def run_anchor(run: str) -> str:
    """Return the id of the element that holds a run."""
    return f"r-{run[:DIGITS]}"


def row_anchor(run: str) -> str:
    """Return the id of the row that stands for a run whose steps are not in the file."""
    return f"l-{run[:DIGITS]}"


def step_anchor(run: str, step: int) -> str:
    """Return the id of the element that holds one step."""
    return f"{run_anchor(run)}-s{step}"


def verdict_anchor(run: str, number: int) -> str:
    """Return the id of the row that holds one verdict about a run."""
    return f"{run_anchor(run)}-v{number}"


def pair_anchor(first: str, second: str) -> str:
    """Return the id of the element that holds two runs side by side."""
    return f"c-{first[:DIGITS]}-{second[:DIGITS]}"


def parting_anchor(first: str, second: str) -> str:
    """Return the id of the first pair of calls in which two runs differ."""
    return f"{pair_anchor(first, second)}-d"


class Links:
    """Addresses of pages; None for what is not there. These are fragments inside one file."""

    is_served = False

    # What of the present address every other one keeps: `where`, `since`, `by`.
    kept: Mapping[str, str] = {}

    def __init__(
        self,
        runs: Collection[str] = (),  # that are in the file
        pairs: Collection[tuple[str, str]] = (),  # of these, side by side
        groups: bool = False,  # whether two groups are compared in it
    ) -> None:
        self._runs, self._pairs, self._groups = frozenset(runs), frozenset(pairs), groups

    def page(self, name: PageName) -> str:
        """Return the address of a page."""
        return f"#{name}"

    def run(self, run: str, step: int | None = None) -> str | None:
        """Return the address of a run, or of one of its steps."""
        if run not in self._runs:
            return None
        return f"#{run_anchor(run) if step is None else step_anchor(run, step)}"

    def window(self, run: str, first: int) -> str | None:
        """Return the address of a run whose shown steps begin at `first`; None: all are shown."""
        return None

    def pair(self, first: str, second: str) -> str | None:
        """Return the address of two runs side by side, where they part."""
        return f"#{parting_anchor(first, second)}" if (first, second) in self._pairs else None

    def groups(self, by: str, first: str, second: str) -> str | None:
        """Return the address of two groups side by side."""
        return "#groups-compared" if self._groups else None

    def raw(self, run: str, step: int) -> str | None:
        """Return the address of one step as it was recorded; None where it is in the page."""
        return None

    def runs(self, **query: str) -> str | None:
        """Return the address of the runs so chosen and ordered; None: the browser does it."""
        return None


class ServerLinks(Links):
    """Addresses on the local server, which keep what was chosen (`where`, `since`, `by`)."""

    is_served = True

    def __init__(self, kept: Mapping[str, str] | None = None) -> None:
        """Say what of the present address every other one keeps."""
        self.kept = {key: value for key, value in (kept or {}).items() if value}

    def page(self, name: PageName) -> str:
        """Return the address of a page."""
        return self._address("/" if name == "overview" else f"/{name}")

    def run(self, run: str, step: int | None = None) -> str | None:
        """Return the address of a run; of a step, with the window that holds it."""
        at = f"/run/{run}"
        if step is None:
            return self._address(at)
        return f"{self._address(at, step=str(step))}#{step_anchor(run, step)}"

    def window(self, run: str, first: int) -> str | None:
        """Return the address of a run whose shown steps begin at `first`."""
        return self._address(f"/run/{run}", **{"from": str(first)})

    def pair(self, first: str, second: str) -> str | None:
        """Return the address of two runs side by side, where they part."""
        at = self._address("/compare", run=first, **{"with": second})
        return f"{at}#{parting_anchor(first, second)}"

    def groups(self, by: str, first: str, second: str) -> str | None:
        """Return the address of two groups side by side."""
        return self._address("/compare", by=by, a=first, b=second)

    def raw(self, run: str, step: int) -> str | None:
        """Return the address of one step as it was recorded."""
        return f"/run/{run}/raw?step={step}"

    def runs(self, **query: str) -> str | None:
        """Return the address of the runs so chosen and ordered."""
        return self._address("/", **query) + "#runs"

    def _address(self, path: str, **query: str) -> str:
        said = {key: value for key, value in {**self.kept, **query}.items() if value}
        return f"{path}?{urlencode(said)}" if said else path


# The address of a step; None where the page does not hold it.
StepAddress = Callable[[int], str | None]
