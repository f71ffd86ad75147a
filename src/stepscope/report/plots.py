"""The charts of a report as files: PNG for slides, SVG for print; needs the `plots` extra.

They are the same specifications as in the page. Refused: anything that would have to be fetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from stepscope.errors import ConfigError
from stepscope.report import charts
from stepscope.report.pages.page import Chart

# Pixels of a PNG for each of the specification's: sharp on a slide.
SCALE = 2.0


def write(drawn: Mapping[str, Chart], folder: str | Path) -> list[Path]:
    """Write charts to a folder, each as PNG and SVG under its name; return the files.

    Raises:
        ConfigError: the extra is not installed.
    """
    try:
        import vl_convert
    except ImportError as e:
        raise ConfigError(
            "pictures of charts need vl-convert: pip install 'stepscope[plots]'"
        ) from e
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    written = []
    for name, chart in drawn.items():
        spec = charts.chart(chart.spec, chart.rows).to_dict()
        png, svg = place / f"{name}.png", place / f"{name}.svg"
        png.write_bytes(vl_convert.vegalite_to_png(spec, scale=SCALE, allowed_base_urls=[]))
        text = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
        svg.write_text(text, encoding="utf-8", newline="\n")
        written += [png, svg]
    return written
