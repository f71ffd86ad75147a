"""What the user names: a backend and a place in it, as `phoenix:my-project`."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, cast

from stepscope.errors import UsageError

BackendName = Literal["langfuse", "langsmith", "mlflow", "phoenix"]

_TARGET = re.compile(r"(langfuse|langsmith|mlflow|phoenix):(.*)\Z", re.DOTALL).match
# What a place is called in each backend, and whether one must be named. A key of Langfuse opens
# one project only, so the name is for the reader.
_PLACES: dict[BackendName, tuple[str, bool]] = {
    "langfuse": ("PROJECT", False),
    "langsmith": ("PROJECT", True),
    "mlflow": ("EXPERIMENT", True),
    "phoenix": ("PROJECT", True),
}


class Target(NamedTuple):
    """A backend, and the project or experiment in it."""

    backend: BackendName
    place: str

    def __str__(self) -> str:
        """As the user writes it."""
        return f"{self.backend}:{self.place}"


def is_target(text: str) -> bool:
    """Whether a text names a backend and not a file; a file of such a name is `./phoenix:x`.

    >>> is_target("phoenix:default"), is_target("./phoenix:default"), is_target("C:runs")
    (True, False, False)
    """
    return _TARGET(text) is not None


def target(text: str) -> Target:
    """Return what a text names.

    Raises:
        UsageError: no backend of that name, or no place in it.

    >>> target("mlflow:agents")
    Target(backend='mlflow', place='agents')
    """
    match = _TARGET(text)
    if match is None:
        raise UsageError(
            f"{text!r} names no backend; expected langfuse:[PROJECT], langsmith:PROJECT, "
            "mlflow:EXPERIMENT or phoenix:PROJECT"
        )
    backend, place = cast(BackendName, match[1]), match[2].strip()
    noun, needed = _PLACES[backend]
    if needed and not place:
        raise UsageError(f"{text!r} names no {noun.lower()}; expected {backend}:{noun}")
    if any(ord(character) < 32 for character in place):
        raise UsageError(f"{text!r}: the name of a {noun.lower()} holds no control characters")
    return Target(backend, place)
