"""What judges say, on the page of the failure profile: aspects by judge as pictures and tables.

The tables are those of every renderer; beside them stands one with a row for each judge, group and
aspect, and what each gave no yes or no on. Runs lead to their pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from stepscope.report import lines
from stepscope.report.pages.figures import MOST_GROUPS, interval
from stepscope.report.pages.links import Links
from stepscope.report.pages.page import Cell, Chart, Column, Row, Table
from stepscope.report.panels_profile import Sheet, called, counted
from stepscope.report.panels_tables import sheets
from stepscope.report.panels_types import Figure, PanelGroup, Panels, Vote
from stepscope.values import Estimate, Unmeasured

# The table of shares stands in full below the pictures, not as in a terminal.
_LAID_OUT = "panel"
# A name of a judge longer than this does not fit above its column.
LONGEST = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetView:
    """A table with what is said below it."""

    title: str
    table: Table | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelsView:
    """What the template of the profile reads of judges."""

    charts: tuple[Chart, ...]
    shares: Table | None
    notes: tuple[str, ...]
    sheets: tuple[SheetView, ...]


def view(found: Panels, links: Links) -> PanelsView:
    """Return what judges say as pictures and tables."""
    all_ = sheets(found)
    shares = _shares(found)
    notes = dict.fromkeys(n for sheet in all_ if sheet.key.startswith(_LAID_OUT)
                          for n in sheet.notes if "--json" not in n)  # fmt: skip
    return PanelsView(
        charts=tuple(_charts(found, shares)) if shares is not None else (),
        shares=shares,
        notes=tuple(notes),
        sheets=tuple(
            SheetView(title=sheet.title, table=_table(sheet, found, links), notes=sheet.notes)
            for sheet in all_
            if not sheet.key.startswith(_LAID_OUT)
        ),
    )


def panel_charts(found: Panels) -> tuple[Chart, ...]:
    """Return the pictures alone, one for each group of runs."""
    shares = _shares(found)
    return () if shares is None else tuple(_charts(found, shares))


def _charts(found: Panels, table: Table) -> Iterator[Chart]:
    """Yield a picture for each group, aspects down and judges across, any and all before them."""
    titles = [group.title for group in found.panels[0].groups]
    names = _called(found)
    for at, title in enumerate(titles[:MOST_GROUPS]):
        rows = [
            {"label": panel.title, "order": order, **row}
            for order, panel in enumerate(found.panels)
            for row in _cells(panel.groups[at], names)
        ]
        yield Chart(
            id=f"panel-chart-{at}",
            spec="panel",
            title=f"Share of runs at fault, by judge: {title}",
            alt="Aspects by judges; each cell has the share and its 95 % interval in words.",
            rows=rows,
            table=table,
        )


def _cells(group: PanelGroup, names: Mapping[str, str]) -> Iterator[dict[str, object]]:
    said = _first(group.votes)
    figures = [*said, *((names[seat.judge], seat.failing) for seat in group.seats)]
    for column, (name, figure) in enumerate(figures):
        # Judges stand behind any and all, by name, wherever one of them is missing.
        place = column if column < len(said) else 2 + list(names.values()).index(name)
        yield {
            "group": name,
            "column": place,
            "value": figure.value if isinstance(figure, Estimate) else None,
            "text": _words(figure),
            "short": lines.score(figure.value) if isinstance(figure, Estimate) else "-",
            "judged": figure.n if isinstance(figure, Estimate) else 0,
        }


def _first(votes: Sequence[Vote]) -> list[tuple[str, Figure]]:
    return [("any", votes[0].any), ("all", votes[0].all)] if votes else []


def _called(found: Panels) -> dict[str, str]:
    judges = dict.fromkeys(member.judge for panel in found.panels for member in panel.members)
    order = sorted(judges, key=lambda judge: (judge == "rules", judge))
    return {name: short[:LONGEST] for name, short in called(order).items()}


def _words(figure: Figure) -> str:
    if isinstance(figure, Unmeasured):
        return "not judged"
    return f"{lines.share(figure.value)}\n{lines.interval('share', figure)}"


def _shares(found: Panels) -> Table | None:
    """Return every share: a row for each group, aspect and judge, any and all among them."""
    rows = [row for panel in found.panels for group in panel.groups
            for row in _rows(panel.title, group)]  # fmt: skip
    if not rows:
        return None
    columns = (
        Column(key="group", label="group"),
        Column(key="aspect", label="aspect"),
        Column(key="judge", label="judge"),
        Column(key="share", label="at fault", number=True),
        Column(key="interval", label="95 % interval"),
        Column(key="worst", label="worst case"),
        Column(key="judged", label="judged", number=True),
        Column(key="lost", label="no yes or no"),
    )
    caption = "Panels: runs at fault among those that a judge answered"
    return Table(id="panel-table", caption=caption, columns=columns, rows=tuple(rows))


def _rows(aspect: str, group: PanelGroup) -> Iterator[Row]:
    for vote in group.votes:
        of = ", ".join(vote.judges)
        lost = f"{vote.incomplete:,} not answered by all" if vote.incomplete else "0"
        yield _row(group.title, aspect, "any judge", vote.any, lost=lost, note=of)
        yield _row(group.title, aspect, "all judges", vote.all, lost=lost, note=of)
    for seat in group.seats:
        lost = counted(seat.lost) or "0"
        if seat.not_judged:
            lost += f"; {seat.not_judged:,} not asked about"
        yield _row(group.title, aspect, seat.judge, seat.failing, lost=lost)


def _row(group: str, aspect: str, judge: str, figure: Figure, *, lost: str, note: str = "") -> Row:
    names = (Cell(text=group), Cell(text=aspect), Cell(text=judge, note=note))
    gone = Cell(text=lost, tone="quiet")
    if isinstance(figure, Unmeasured):
        blank = Cell(text="-", tone="quiet")
        why = Cell(text="-", tone="quiet", title=f"{figure.kind}: {figure.reason}")
        return Row(cells=(*names, why, blank, blank, Cell(text="0", sort=0), gone))
    worst = lines.bounds("share", figure).removeprefix("worst case ")
    return Row(
        cells=(
            *names,
            Cell(text=lines.share(figure.value), sort=figure.value),
            Cell(text=lines.interval("share", figure), interval=interval(figure)),
            Cell(text=worst or "-", tone="quiet"),
            Cell(text=f"{figure.n:,}", sort=figure.n),
            gone,
        )
    )


def _table(sheet: Sheet, found: Panels, links: Links) -> Table | None:
    if not sheet.rows:
        return None
    hrefs = [links.run(one.id) for one in found.queue] if sheet.key == "queue" else []
    columns = tuple(
        Column(key=f"c{at}", label=name or "about") for at, name in enumerate(sheet.head)
    )
    rows = tuple(
        Row(
            cells=tuple(
                Cell(text=text, href=hrefs[at] if hrefs and place == 0 else None)
                for place, text in enumerate(cells)
            )
        )
        for at, cells in enumerate(sheet.rows)
    )
    return Table(id=f"judges-{sheet.key}", caption=sheet.title, columns=columns, rows=rows)
