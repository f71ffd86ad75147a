"""An envelope as a picture: how often each classifier names the shape, over the noise.

One panel for each number of steps and each generator with its noise; bars are two standard errors
of the simulation. Files need the `plots` extra; a notebook shows `chart` without it.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import altair as alt

from stepscope.errors import ConfigError, UsageError
from stepscope.lab.envelope import Envelope
from stepscope.lab.envelope_row import Figure
from stepscope.report.charts import FORMS, GROUPS

KINDS: dict[str, Literal["png", "svg"]] = {".png": "png", ".svg": "svg"}
PANEL = 200
# What two standard errors may not leave.
LEAST, MOST = 0.0, 1.0


def save(envelope: Envelope, path: Path) -> None:
    """Write the picture; its kind is the ending of the file, `.png` or `.svg`.

    Raises:
        UsageError: another ending.
        ConfigError: the `plots` extra is not installed.
    """
    check(path)
    chart(envelope).save(str(path), format=KINDS[path.suffix.lower()], scale_factor=2)


def check(path: Path) -> None:
    """Refuse what `save` would refuse, before an hour of simulation.

    Raises:
        UsageError: an ending that is no picture.
        ConfigError: the `plots` extra is not installed.
    """
    if path.suffix.lower() not in KINDS:
        raise UsageError(f"{path}: a picture ends in .png or .svg")
    if find_spec("vl_convert") is None:
        raise ConfigError("a picture needs vl-convert-python: pip install 'stepscope[plots]'")


def chart(envelope: Envelope) -> alt.FacetChart:
    """Return the picture as an Altair chart, as a notebook shows it."""
    rows = _rows(envelope)
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
    limits = alt.Y("low:Q", title="named right")
    bars = base.mark_rule().encode(y=limits, y2="high:Q", color=color)
    made: alt.FacetChart = (
        alt.layer(lines, bars, points, data=alt.InlineData(values=rows))
        .properties(width=PANEL, height=0.7 * PANEL)
        .facet(
            column=alt.Column("steps:N", title=None, sort=_met(rows, "steps")),
            row=alt.Row("kind:N", title=None, sort=_met(rows, "kind")),
        )
    )
    return made


def _met(rows: list[dict[str, str | float]], field: str) -> list[str]:
    """Return the values of a field in the order in which they come."""
    return list(dict.fromkeys(str(row[field]) for row in rows))


def _rows(envelope: Envelope) -> list[dict[str, str | float]]:
    return [
        {
            "classifier": row.classifier,
            "kind": f"{row.generator}, {row.noise}",
            "steps": f"{row.n} steps",
            "sigma": row.sigma,
            "value": row.accuracy.value,
            "low": max(row.accuracy.value - 2 * row.accuracy.error, LEAST),
            "high": min(row.accuracy.value + 2 * row.accuracy.error, MOST),
        }
        for row in envelope.rows
        if isinstance(row.accuracy, Figure)
    ]
