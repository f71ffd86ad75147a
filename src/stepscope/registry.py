"""Find formats, measures and models by name: entry points, or `file.py:name`.

Built-ins are declared as entry points of this very package, so a plugin is found exactly as they
are. Nothing is imported until it is asked for; this module imports nothing that it registers.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Literal, cast

from stepscope.errors import ConfigError
from stepscope.model import Format, Measure, Model, Opener

Group = Literal["formats", "measures", "models"]

# Of what an error says, so many characters tell what it is.
_SAID = 2_000
_loaded: dict[tuple[Group, str], object] = {}


class PluginFault(Exception):
    """Code of others raised something; the message is what, in one line, its cause the error."""


@contextmanager
def guarded(*known: type[Exception]) -> Iterator[None]:
    """Run code of others: what it raises, unless it is `known`, becomes a `PluginFault`."""
    try:
        yield
    except known:
        raise
    except (Exception, SystemExit) as e:
        raise PluginFault(" ".join(f"{type(e).__name__}: {e}"[:_SAID].split())) from e


def format(name: str) -> Format:
    """Return the trace format called `name`; `ConfigError` unless one, and only one, loads."""
    found = _load("formats", name)
    if not all(callable(getattr(found, one, None)) for one in ("sniff", "read")):
        raise ConfigError(f"format {name!r}: expected something with `name`, `sniff` and `read`")
    return cast(Format, found)


def measure(name: str) -> Measure:
    """Return the measure called `name`; `ConfigError` unless one, and only one, loads."""
    found = _load("measures", name)
    wanted = ("name", "version", "scale", "learns")
    if not callable(found) or not all(hasattr(found, one) for one in wanted):
        raise ConfigError(f"measure {name!r}: expected a function with {', '.join(wanted)}")
    return cast(Measure, found)


def model(name: str) -> Model | Opener:
    """Return what opens a protocol's models, or an own model; errors as of `format`."""
    return cast("Model | Opener", _load("models", name))


def installed_formats() -> tuple[Format, ...]:
    """Return every installed format, by name."""
    return tuple(format(name) for name in names("formats"))


def installed_measures() -> tuple[Measure, ...]:
    """Return every installed measure, by name."""
    return tuple(measure(name) for name in names("measures"))


def loaded_name(group: Group, loaded: object) -> str:
    """Return the name under which something of a group was loaded; `ConfigError` if under none."""
    for (found, name), value in _loaded.items():
        if found == group and value is loaded:
            return name
    raise ConfigError(f"{loaded!r} was not loaded as one of the {group}")


def is_foreign(group: Group, loaded: object) -> bool:
    """Whether something is not one of a group that this package has."""
    for (found, name), value in _loaded.items():
        if found == group and value is loaded:
            return name not in built_in(group)
    return True


@cache
def built_in(group: Group) -> frozenset[str]:
    """Return the names of a group that this package has itself."""
    claims = _claims(group).items()
    return frozenset(name for name, one in claims if one.value.startswith("stepscope."))


@cache
def names(group: Group) -> tuple[str, ...]:
    """Return the installed names of a group, sorted; `ConfigError` where two packages claim one."""
    return tuple(sorted(_claims(group)))


@cache
def _claims(group: Group) -> dict[str, EntryPoint]:
    claims: dict[str, EntryPoint] = {}
    for point in entry_points(group=f"stepscope.{group}"):
        other = claims.setdefault(point.name, point)
        if other.value != point.value:
            raise ConfigError(
                f"{group[:-1]} {point.name!r} is claimed twice: {other.value} and {point.value}; "
                "uninstall one"
            )
    return claims


def _load(group: Group, name: str) -> object:
    if (group, name) not in _loaded:
        _loaded[group, name] = _find(group, name)
    return _loaded[group, name]


def _find(group: Group, name: str) -> object:
    if ".py:" in name:
        path, attribute = name.rsplit(":", 1)
        if not Path(path).is_file():
            raise ConfigError(f"{group[:-1]} {name!r}: no file {path!r}; expected FILE.py:NAME")
        module_name = f"stepscope_plugin_{Path(path).stem}"
        spec = importlib.util.spec_from_file_location(module_name, path)
        if spec is None or spec.loader is None:
            raise ConfigError(f"{group[:-1]} {name!r}: {path!r} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        try:
            with guarded():
                spec.loader.exec_module(module)
                return cast(object, getattr(module, attribute))
        except PluginFault as e:
            raise ConfigError(f"{group[:-1]} {name!r} fails to load: {e}") from e
    claims = _claims(group)
    if name not in claims:
        installed = ", ".join(sorted(claims)) or "none"
        raise ConfigError(f"no {group[:-1]} called {name!r}; installed: {installed}")
    try:
        with guarded():
            return cast(object, claims[name].load())
    except PluginFault as e:
        raise ConfigError(f"{group[:-1]} {name!r} ({claims[name].value}) fails to load: {e}") from e
