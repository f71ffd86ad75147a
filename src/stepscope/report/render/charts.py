"""Every chart as an Altair specification, shared by pages, notebooks, PNG and SVG files.

A specification is fixed and only its rows change. Rows come ready from the views: nothing is
aggregated here or in a browser. A second mark (form, dash, text) always says what a colour says.
Specifications that fetch data are refused. Files need the `plots` extra.
Source: M. Okabe and K. Ito (2008), Color Universal Design.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib.util import find_spec
from itertools import compress, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import altair as alt

from stepscope.errors import ConfigError, UsageError
from stepscope.report.document import Chart
from stepscope.report.views.run import name_curve_chart
from stepscope.safety.limits import open_output
from stepscope.values import Unmeasured

if TYPE_CHECKING:
    from stepscope.lab.envelope import ClassifierEnvelope

# A Vega-Lite specification, or a part of one: any JSON. The type is Altair's own freedom.
Spec = dict[str, Any]

ROWS = "rows"
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PINK, GREY = "#56B4E9", "#CC79A7", "#8a8f98"
GROUPS = [BLUE, ORANGE, GREEN, PINK, SKY, RED, GREY]
FORMS = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right"]
# What a point of a curve may be besides a score.
MARKS = ["break", "watch", "below the gate"]
# Pixels across, where the page does not say how wide it is.
WIDTH = 640
# Left edge of the curve's plot, in pixels: the strips of verdicts below it begin there too.
LEFT = 44


def make_chart(name: str, rows: Sequence[Mapping[str, object]]) -> alt.TopLevelMixin:
    """Return a chart with its rows, as a notebook shows it."""
    return CHARTS[name]().properties(datasets={ROWS: [dict(row) for row in rows]})


@cache
def make_spec(name: str) -> Spec:
    """Return a specification without its rows: a page puts them in as the data set `rows`."""
    made: Spec = CHARTS[name]().to_dict()
    return made


def _base() -> alt.Chart:
    return alt.Chart(alt.NamedData(name=ROWS))


def _share(title: str) -> alt.X:
    axis = alt.Axis(format=".1f", tickCount=5)
    return alt.X("low:Q", title=title, scale=alt.Scale(domain=[0, 1]), axis=axis)


def _intervals(x: alt.X, *below: alt.Chart) -> alt.LayerChart:
    """A point and its interval a row, the groups one under another; `below` is drawn first."""
    order = alt.EncodingSortField(field="order", op="min")
    axis = alt.Axis(labelLimit=170, ticks=False, domain=False)
    y = alt.Y("label:N", title=None, sort=order, axis=axis)
    legend = alt.Legend(orient="top", title=None)
    color = alt.Color("group:N", scale=alt.Scale(range=GROUPS), legend=legend)
    shape = alt.Shape("group:N", scale=alt.Scale(range=FORMS), legend=legend)
    tip = [
        alt.Tooltip("label:N", title=" "),
        alt.Tooltip("group:N", title="group"),
        alt.Tooltip("text:N", title="value and interval"),
    ]
    base = _base().encode(y=y, yOffset=alt.YOffset("group:N"), tooltip=tip)
    silent = alt.Stroke("group:N", scale=alt.Scale(range=GROUPS), legend=None)
    lines = base.mark_rule(strokeWidth=2).encode(x=x, x2="high:Q", stroke=silent)
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        x="value:Q", color=color, shape=shape
    )
    whole = alt.LayerChart(layer=[*below, lines, points])
    made: alt.LayerChart = whole.properties(width=WIDTH, height=alt.Step(22))
    made = made.configure_view(stroke=None)
    return made


def _effects() -> alt.LayerChart:
    x = alt.X("low:Q", title="second minus first, with 95 % interval", axis=alt.Axis(tickCount=5))
    return _intervals(x, _base().mark_rule(strokeDash=[4, 4], color=GREY).encode(x=alt.datum(0)))


def _curve(*panels: str) -> alt.VConcatChart:
    """The score with its noise, and above it what is known of the break, of time and of money."""
    views = [*(PANELS[name]() for name in panels), _scores()]
    made: alt.VConcatChart = alt.vconcat(*views, spacing=4).resolve_scale(x="shared")
    made = made.configure_view(stroke=None)
    return made


def _panel(view: alt.Chart | alt.LayerChart, title: str, height: int) -> alt.Chart | alt.LayerChart:
    words = alt.TitleParams(title, anchor="start", fontSize=11, fontWeight="normal", offset=2)
    return view.properties(height=height, width=WIDTH, title=words)


def _across(axis: alt.Axis | None = None) -> Spec:
    """From the left to the right edge of a step's column."""
    x = alt.X("from:Q", title=None, axis=axis, scale=alt.Scale(zero=False, nice=False, padding=0))
    return {"x": x, "x2": "to:Q", "href": "href:N"}


def _left(ticks: int, **more: Any) -> alt.Axis:
    return alt.Axis(tickCount=ticks, minExtent=LEFT, maxExtent=LEFT, title=None, **more)


def _bars(field: str, title: str, color: str) -> alt.Chart:
    y = alt.Y(f"{field}:Q", title=None, axis=_left(2))
    tip = [alt.Tooltip("step:Q"), alt.Tooltip(f"{field}:Q", title=title, format=".3~g")]
    made: alt.Chart = (
        _base().mark_bar(color=color).encode(**_across(), y=y, y2=alt.datum(0), tooltip=tip)
    )
    return made


_BREAK = "probability that it broke here"
PANELS: dict[str, Callable[[], alt.Chart | alt.LayerChart]] = {
    "latency": lambda: _panel(_bars("latency_s", "seconds", GREY), "latency, seconds", 32),
    "cost": lambda: _panel(_bars("cost_usd", "usd", GREY), "cost, usd", 32),
    "break": lambda: _panel(
        _bars("break_probability", _BREAK, RED), "probability that the run broke here", 40
    ),
}


def _scores() -> alt.Chart | alt.LayerChart:
    base = _base()
    left = _left(3, values=[0, 0.5, 1], format=".1f")
    y = alt.Y("score:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=left)
    below = alt.Axis(title="step", tickMinStep=1, format="d", grid=False)
    # Every step has its width, scored or not, and leads to itself.
    steps = base.mark_rect(opacity=0).encode(**_across(below), tooltip=[alt.Tooltip("step:Q")])
    broke = base.transform_filter("datum.in_break").mark_rect(color=RED, opacity=0.16)
    scored = base.transform_filter("isValid(datum.score)")
    noise = scored.mark_area(color=BLUE, opacity=0.15).encode(x="step:Q", y="low:Q", y2="high:Q")
    line = scored.mark_line(color=BLUE, strokeWidth=1.5).encode(x="step:Q", y=y)
    domain = ["score", *MARKS]
    kinds = alt.Scale(domain=domain, range=[BLUE, RED, ORANGE, PINK])
    forms = alt.Scale(domain=domain, range=["circle", "triangle-down", "diamond", "square"])
    legend = alt.Legend(orient="top", title=None)
    kind = alt.Tooltip("kind:N", title=" ")
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        x="step:Q",
        y=y,
        href="href:N",
        color=alt.Color("kind:N", scale=kinds, legend=legend),
        shape=alt.Shape("kind:N", scale=forms, legend=legend),
        tooltip=[alt.Tooltip("step:Q"), alt.Tooltip("score:Q", format=".2f"), kind],
    )
    layers = alt.LayerChart(layer=[broke.encode(**_across(below)), steps, noise, line, points])
    return _panel(layers, "score", 150)


CHARTS: dict[str, Callable[[], alt.LayerChart | alt.VConcatChart]] = {
    "vector": lambda: _intervals(_share("share, with 95 % interval")),
    "shapes": lambda: _intervals(_share("share of runs, with 95 % interval")),
    "axes": lambda: _intervals(_share("share of runs with a proved fault, at least")),
    "panel": lambda: _intervals(_share("share of runs at fault, by judge")),
    "effects": _effects,
    **{
        name_curve_chart(*panels): partial(_curve, *panels)
        for panels in (tuple(compress(PANELS, chosen)) for chosen in product((0, 1), repeat=3))
    },
}
KINDS = (".png", ".svg")
PANEL = 200


def save_envelope_chart(envelope: ClassifierEnvelope, path: Path) -> None:
    """Write the picture; raises as `check_picture_path` does."""
    check_picture_path(path)
    _write_picture(make_envelope_chart(envelope).to_dict(), path)


def check_picture_path(path: Path) -> None:
    """Refuse an ending that is no picture's, or any without the `plots` extra."""
    if path.suffix.lower() not in KINDS:
        raise UsageError(f"{path}: a picture ends in .png or .svg")
    if find_spec("vl_convert") is None:
        raise ConfigError("a picture needs vl-convert-python: pip install 'stepscope[plots]'")


def make_envelope_chart(envelope: ClassifierEnvelope) -> alt.FacetChart:
    """Return the picture as an Altair chart, as a notebook shows it."""
    rows = [
        {
            "classifier": row.classifier,
            "kind": f"{row.generator}, {row.noise}",
            "steps": f"{row.n} steps",
            "sigma": row.sigma,
            "value": row.accuracy.value,
            "low": max(row.accuracy.value - 2 * row.accuracy.error, 0.0),
            "high": min(row.accuracy.value + 2 * row.accuracy.error, 1.0),
        }
        for row in envelope.rows
        if not isinstance(row.accuracy, Unmeasured)
    ]
    names = _met(rows, "classifier")
    spread = alt.Scale(zero=False, padding=12)
    base = alt.Chart().encode(x=alt.X("sigma:Q", title="noise of a score (sigma)", scale=spread))
    y = alt.Y("value:Q", title="named right", scale=alt.Scale(domain=[0, 1]))
    legend = alt.Legend(title=None, orient="top")
    hues = alt.Scale(domain=names, range=GROUPS[: len(names)])
    forms = alt.Scale(domain=names, range=FORMS[: len(names)])
    color = alt.Color("classifier:N", scale=hues, legend=legend)
    form = alt.Shape("classifier:N", scale=forms, legend=legend)
    lines = base.mark_line(strokeWidth=1.5).encode(y=y, color=color)
    points = base.mark_point(filled=True, size=45, opacity=1).encode(y=y, color=color, shape=form)
    bars = base.mark_rule().encode(y=alt.Y("low:Q", title="named right"), y2="high:Q", color=color)
    made: alt.FacetChart = (
        alt.layer(lines, bars, points, data=alt.InlineData(values=rows))
        .properties(width=PANEL, height=0.7 * PANEL)
        .facet(
            column=alt.Column("steps:N", title=None, sort=_met(rows, "steps")),
            row=alt.Row("kind:N", title=None, sort=_met(rows, "kind")),
        )
    )
    return made


def _met(rows: Sequence[Mapping[str, object]], field: str) -> list[str]:
    return list(dict.fromkeys(str(row[field]) for row in rows))


# Pixels of a PNG for each of the specification's: sharp on a slide.
SCALE = 2.0


def write_plots(drawn: Mapping[str, Chart], folder: str | Path) -> list[Path]:
    """Write charts to a folder, each as PNG and SVG under its name; return the files."""
    if find_spec("vl_convert") is None:
        raise ConfigError("pictures of charts need vl-convert: pip install 'stepscope[plots]'")
    Path(folder).mkdir(parents=True, exist_ok=True)
    written = []
    for name, chart in drawn.items():
        spec = make_chart(chart.spec, chart.rows).to_dict()
        for kind in KINDS:
            written.append(Path(folder) / f"{name}{kind}")
            _write_picture(spec, written[-1])
    return written


def _write_picture(spec: Spec, path: Path) -> None:
    import vl_convert

    if path.suffix.lower() == ".png":
        raw = vl_convert.vegalite_to_png(spec, scale=SCALE, allowed_base_urls=[])
    else:
        raw = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[]).encode()
    with open_output(path) as file:
        file.write(raw)
