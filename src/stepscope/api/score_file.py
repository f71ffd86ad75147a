"""The door to the shapes of a file of scores; what it leads to is loaded when it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.errors import UsageError
from stepscope.model import Stream
from stepscope.safety.text import visible_line
from stepscope.settings import Settings, load
from stepscope.store import Store

if TYPE_CHECKING:
    from stepscope.api.shaping import FileShapes
    from stepscope.values import Estimate


def shapes(
    scores: str | Path,
    *,
    sigma: float | None = None,
    quantum: float | None = None,
    weights: Mapping[str, Sequence[float]] | None = None,
    store: str | Path | None = None,
    seed: int | None = None,
    settings: Settings | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> FileShapes:
    """Return the shapes of the score curves in a file: CSV or JSON lines, "-" for standard input.

    Args:
        scores: the file; its columns are run, step, score and what else is known.
        sigma: noise of one score; when left out what `calibrate` measured, else unknown.
        quantum: step between the values that the judge can give.
        weights: of steps, by name of a run or task, or "*" for every run.
        store: where measured noise is looked up; the one of the settings when left out.
        seed: where random draws start; when left out that of the settings.
        settings: when left out those of the working directory.
        progress: called with the number of curves done, and 0.

    Raises:
        UsageError: no such file, or sigma is no noise of a score from 0 to 1.

    >>> with shapes("examples/scores/scores.csv", sigma=0.05) as found:
    ...     next(iter(found)).shape
    'healthy'
    """
    from stepscope.api.shaping import FileShapes

    if sigma is not None and not 0 < sigma <= 1:
        raise UsageError(f"sigma is {sigma!r}; expected more than 0 and at most 1, such as 0.05")
    if quantum is not None and not 0 < quantum <= 1:
        raise UsageError(f"quantum is {quantum!r}; expected more than 0 and at most 1, such as 0.1")
    held = load() if settings is None else settings
    place = Path(held.store if store is None else store)
    noise: Mapping[str, Estimate] = {}
    if sigma is None and place.is_file():
        with Store.open(place) as known:
            noise = known.noise()
    elif store is not None and not place.is_file():
        raise UsageError(f"no store at {str(place)!r}")
    return FileShapes(
        opened(str(scores), held),
        sigma=sigma,
        quantum=quantum,
        weights=weights,
        noise=noise,
        seed=held.seed if seed is None else seed,
        progress=progress,
    )


def opened(path: str, settings: Settings) -> Stream:
    """Return a file that is read as it is named, "-" for standard input.

    Raises:
        UsageError: it cannot be opened.
    """
    if path == "-":
        # A copy of the handle, so that closing it leaves standard input alone.
        return Stream(open(sys.stdin.fileno(), "rb", closefd=False), "-", settings.limits)
    try:
        return Stream(Path(path).open("rb"), visible_line(path), settings.limits)
    except (OSError, ValueError) as e:
        why = getattr(e, "strerror", None) or e
        raise UsageError(f"{visible_line(path)}: cannot be read: {why}") from e
