"""Faces of rooms: the names that a package promises, each loaded when it is first asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a package (PEP 562).

    `homes` has the promised names by module, relative to the package where it begins with a dot;
    one that is called otherwise at home is written NAME:OWN. A name that was asked for once is an
    attribute from then on.
    """
    places: dict[str, tuple[str, str]] = {}
    for module, names in homes.items():
        for name in names:
            public, _, own = name.partition(":")
            places[public] = (module, own or public)
    promised = sorted(places)

    def get_name(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, own = places[name]
        found: object = getattr(import_module(module, package), own)
        setattr(sys.modules[package], name, found)
        return found

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *promised})

    return promised, get_name, list_names
