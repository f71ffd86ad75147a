"""Opening the store that a command reads: a missing one is an error, not a new empty one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.errors import UsageError

if TYPE_CHECKING:
    from stepscope.api import Notebook
    from stepscope.settings import Settings
    from stepscope.store.where import Where


def existing(path: Path | None, settings: Settings | None = None) -> Notebook:
    """Open the store at `path`, or the one of the settings (of the working directory).

    Raises:
        UsageError: there is no store there.
    """
    from stepscope import api
    from stepscope.settings import load

    settings = load() if settings is None else settings
    place = Path(settings.store) if path is None else path
    if not place.exists():
        raise UsageError(
            f"no store at {str(place)!r}; make one with stepscope import PATHS --store {place}"
            if path is not None
            else f"no store at {str(place)!r}; stepscope import PATHS makes one, "
            "stepscope demo shows one"
        )
    return api.open(place, settings=settings)


def parsed(where: str | None) -> Where | None:
    """Return a filter as the store reads it; None where none was said."""
    from stepscope.store.where import parse

    return None if where is None else parse(where)
