"""What a notebook shows of a report or a curve: tables as HTML, and pictures of charts.

There is no script in it, so it shows in every notebook, trusted or not. Pictures need the `plots`
extra; without it the charts are there as Altair objects.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from stepscope.report import charts
from stepscope.report.curve_types import Curve
from stepscope.report.pages import curve_view
from stepscope.report.pages.figures import vector_chart, vector_table
from stepscope.report.pages.page import Cell, Chart, Column, Row, Table
from stepscope.report.pages.panels import panel_charts
from stepscope.report.pages.profile import axes_chart
from stepscope.report.pages.rendering import environment
from stepscope.report.pages.shapes import view as shapes_view
from stepscope.report.text import evidence, headline
from stepscope.report.types import Report

LOOKS = tuple(Column(key=key, label=key) for key in ("run", "outcome", "steps", "suspect", "why"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A chart as a picture inside the page."""

    alt: str
    address: str


def report_charts(report: Report) -> dict[str, Chart]:
    """Return the charts of a report by name: vector, axes, shapes; those that have anything.

    Where judges were asked there is a panel for each group: panel, panel-1, panel-2.
    """
    tables = [vector_table(profile, "vector") for profile in report.profiles[:1]]
    shapes = shapes_view(report.profiles)
    found = {
        "vector": vector_chart(report.profiles, tables[0]),
        "axes": axes_chart(report.profiles),
        "shapes": None if shapes is None else shapes.chart,
    }
    drawn = panel_charts(report.panels) if report.panels else ()
    panels = {f"panel-{at}" if at else "panel": chart for at, chart in enumerate(drawn)}
    return {name: chart for name, chart in found.items() if chart is not None} | panels


def curve_chart(curve: Curve) -> Chart:
    """Return the chart of one curve."""
    last = curve.steps[-1] + 1 if curve.steps else 0
    return curve_view.view(curve, last, "curve", lambda step: None).chart


def report_html(report: Report) -> str:
    """Return the vector of each group, where to look first, and pictures of the charts."""
    tables = [
        *(vector_table(profile, f"v{at}") for at, profile in enumerate(report.profiles)),
        *([_looks(report)] if report.look_first else []),
    ]
    headings = [headline(report.whole, report)[1].replace("   ", " · ")]
    return _html(headings, tables, list(report_charts(report).values()))


def curve_html(curve: Curve) -> str:
    """Return what is concluded from a curve, its scores, and its picture."""
    shown = curve_view.view(curve, 0, "curve", lambda step: None)
    return _html([*shown.said, shown.rests_on], [shown.chart.table], [shown.chart])


def _html(headings: Sequence[str], tables: Sequence[Table], drawn: Sequence[Chart]) -> str:
    template = environment().get_template("notebook.html")
    return template.render(
        headings=headings, tables=tables, pictures=list(map(_picture, drawn)) if _can_draw() else []
    )


def _can_draw() -> bool:
    return find_spec("vl_convert") is not None


def _picture(chart: Chart) -> Picture:
    import vl_convert

    spec = charts.chart(chart.spec, chart.rows).to_dict()
    svg = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
    address = "data:image/svg+xml;base64," + b64encode(svg.encode()).decode()
    return Picture(alt=f"{chart.title}: {chart.alt}", address=address)


def _looks(report: Report) -> Table:
    rows = []
    for run in report.look_first:
        where, why = evidence(run)
        words = (run.name, run.outcome, f"{run.steps:,}", where, why)
        rows.append(Row(cells=tuple(Cell(text=word) for word in words)))
    return Table(id="looks", caption="Look first", columns=LOOKS, rows=tuple(rows))
