"""What `import stepscope` promises."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

import stepscope
import stepscope.formats


@pytest.mark.parametrize("module", ["stepscope", "stepscope.api"])
def test_all_names_what_is_there_and_nothing_public_is_left_out(module: str) -> None:
    room = importlib.import_module(module)
    assert list(room.__all__) == sorted(room.__all__)
    for name in room.__all__:
        assert getattr(room, name) is not None
    public = {
        name
        for name, value in vars(room).items()
        if not name.startswith("_")
        and name not in ("annotations", "TYPE_CHECKING", "lazy_names")
        and not inspect.ismodule(value)
    }
    assert public <= set(room.__all__)


def test_the_public_names_are_these() -> None:
    assert stepscope.__all__ == ["__version__", "match", "open", "shapes"]


def test_importing_stepscope_loads_its_lazy_names_alone() -> None:
    code = (
        "import sys; import stepscope;"
        "print([m for m in sys.modules if m.startswith('stepscope.') or m in ('numpy', 'msgspec')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['stepscope.lazy']\n"


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'stepscope' has no attribute 'nothing'"):
        stepscope.nothing  # noqa: B018


def test_every_format_is_named_by_the_room_of_formats() -> None:
    points = entry_points(group="stepscope.formats")
    assert [point.value for point in points] == [
        f"stepscope.formats:{point.name.upper()}" for point in points
    ]
    assert {point.name: point.load().name for point in points} == {
        point.name: point.name for point in points
    }
    with pytest.raises(AttributeError, match="has no attribute 'ACME'"):
        stepscope.formats.ACME  # noqa: B018
