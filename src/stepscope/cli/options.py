"""The options that several commands share, and opening the store that they name.

A store that is missing is an error, not a new empty one.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from stepscope import api
from stepscope.errors import StepscopeError, UsageError

if TYPE_CHECKING:
    from stepscope.api import Notebook
    from stepscope.settings import Settings


def _show_version(asked: bool) -> None:
    if asked:
        from stepscope import __version__

        sys.stdout.write(f"stepscope {__version__}\n")
        raise typer.Exit


def _go_offline(asked: bool) -> bool:
    if asked:
        from stepscope.safety.offline import refuse_network

        refuse_network()
    return asked


Version = Annotated[
    bool, Option("--version", is_eager=True, callback=_show_version, help="Print the version.")
]
Offline = Annotated[
    bool,
    Option(
        "--offline",
        callback=_go_offline,
        help="Refuse every connection except to this machine (loopback).",
    ),
]
Json = Annotated[bool, Option("--json", help="Print JSON.")]
StorePath = Annotated[
    Path | None,
    Option(metavar="PATH", help="The store. Default: from stepscope.toml, or else stepscope.db."),
]
WhereText = Annotated[
    str | None,
    Option(metavar="EXPR", help="Only these runs: \"agent = 'gpt-4o' and outcome = 'fail'\"."),
]


def complete_run(context: typer.Context, incomplete: str) -> list[str]:
    """Return names of runs that begin so, for a shell; none where there is no store."""
    from stepscope.settings import load_settings
    from stepscope.store import Store

    try:
        path = find_store(context.params.get("store"), load_settings())
        with Store.open(path, read_only=True) as store:
            return store.names(incomplete)
    except StepscopeError:  # nobody reads an error between two keys
        return []


Run = Annotated[
    str,
    Argument(
        metavar="RUN",
        autocompletion=complete_run,
        help="The run's name or id, or a prefix that matches only one run.",
    ),
]
Since = Annotated[
    str | None,
    Option(
        metavar="WHEN",
        help="Only runs that began after this time: 7d (7 days ago), 12h, 2026-01-31.",
    ),
]
By = Annotated[
    str | None,
    Option(metavar="FIELD", help="Make one group for each value of this field, or of tag.KEY."),
]
RubricVersion = Annotated[
    str | None, Option(metavar="V", help="Only verdicts given under this version of the rubric.")
]
Seed = Annotated[
    int | None,
    Option(min=0, help="Seed of the random draws. Default: from stepscope.toml, or else 0."),
]

Markdown = Annotated[bool, Option("--markdown", help="Print Markdown.")]
Junit = Annotated[bool, Option("--junit", help="Print JUnit XML.")]
Out = Annotated[
    Path | None,
    Option(
        "--out",
        "-o",
        metavar="FILE",
        help="Write to this file; its extension determines the format.",
    ),
]
Quantum = Annotated[
    float | None, Option(help="Smallest difference that two scores of the judge can have.")
]


# Exit codes: what was measured is bad; nothing could be measured or decided.
GATE_FAILED, UNMEASURED = 3, 4


FORMS = {".json": "json", ".md": "markdown", ".xml": "junit"}


def choose_form(as_json: bool, markdown: bool, junit: bool, out: Path | None) -> str:
    """Return the name of the one output form asked for, or meant by a file; "" for a terminal's."""
    asked = {"json": as_json, "markdown": markdown, "junit": junit}
    chosen = [name for name, wanted in asked.items() if wanted]
    if len(chosen) > 1:
        raise UsageError("--json, --markdown and --junit say different things; choose one")
    return chosen[0] if chosen else "" if out is None else FORMS.get(out.suffix.lower(), "")


def refuse_given(given: Mapping[str, object], why: str) -> None:
    """Refuse the first option that was given, saying why."""
    for name, value in given.items():
        if value is not None and value is not False:
            raise UsageError(f"--{name} {why}")


def open_existing(path: Path | None, settings: Settings | None = None) -> Notebook:
    """Open the store at `path`, or the one of the settings (of the working directory)."""
    from stepscope.settings import load_settings

    settings = load_settings() if settings is None else settings
    return api.open(find_store(path, settings), settings=settings)


def find_store(path: Path | None, settings: Settings) -> Path:
    """Return where the store lies: at `path`, or where the settings say; it is there."""
    place = Path(settings.store) if path is None else path
    if not place.exists():
        raise UsageError(
            f"no store at {str(place)!r}; make one with stepscope import PATHS --store {place}"
            if path is not None
            else f"no store at {str(place)!r}; stepscope report PATHS makes one, "
            "stepscope demo shows one"
        )
    return place
