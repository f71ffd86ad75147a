"""Render pages with Jinja: everything is escaped, and an unknown name is an error.

Trace text passes through `visible`, then autoescape; nothing is marked safe. Scripts read blocks of
JSON in which no character can end the block.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from stepscope.report.document import Page, PageName
from stepscope.report.render import charts
from stepscope.safety.text import visible

NAVIGATION: tuple[tuple[PageName, str], ...] = (
    ("overview", "Overview"),
    ("run", "Run"),
    ("compare", "Compare"),
    ("profile", "Profile"),
    ("gates", "Gates"),
)
# What could end a script block or a line of a script, by what JSON writes instead.
_ACTIVE = str.maketrans({
    "<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PageShell:
    """What surrounds pages."""

    title: str  # of the window
    mode: str  # "file" for one file with all pages, "server" for one page at a time
    # address and name of each page, and whether it is the present one
    navigation: tuple[tuple[str, str, bool], ...]
    styles: tuple[str, ...] = ()  # addresses of style sheets
    # addresses of scripts, in order; those of charts only where there is one
    scripts: tuple[str, ...] = ()
    events: str = ""  # address of the server's events, "" without
    about: str = ""  # one line at the foot


@cache
def open_environment() -> Environment:
    """Return the one environment of all templates."""
    made = Environment(
        loader=PackageLoader("stepscope.report.render", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    made.filters["json"] = embed_json
    return made


def embed_json(value: object) -> Markup:
    r"""Return a value as JSON that no element of a page can end or begin in.

    >>> embed_json({"a": "</script>"})
    Markup('{"a":"\\u003c/script\\u003e"}')
    """
    return Markup(msgspec.json.encode(value).decode().translate(_ACTIVE))


def render_body(page: Page) -> str:
    """Return one page as the element that holds it."""
    return open_environment().get_template(page.template).render(page=page, it=page.content)


def render_document(page: Page, shell: PageShell) -> str:
    """Return one page as a whole document, its specifications of charts beside it."""
    template = open_environment().get_template("base.html")
    return template.render(
        shell=shell,
        bodies=[Markup(render_body(page))],
        specs=lambda: embed_specs(chart.spec for chart in page.charts),
    )


def embed_specs(names: Iterable[str]) -> dict[str, Markup]:
    """Return specifications of charts by name, as JSON."""
    return {name: embed_json(charts.make_spec(name)) for name in sorted(set(names))}


def _shown(value: object) -> object:
    """Spell out what hides in a text; what is HTML already stays."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
