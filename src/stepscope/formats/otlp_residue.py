"""What a value of ours holds that its form in another format does not, and how it is put back.

The residue is whatever reading the written form back would get wrong, field by field, inside lists
of parts, calls and results too: right by construction, and small.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

import msgspec

from stepscope.errors import TraceError
from stepscope.model import Json

T = TypeVar("T", bound=msgspec.Struct)

# A field is kept whole, or by what differs inside it.
_WHOLE, _INSIDE = "whole", "inside"


def difference(value: msgspec.Struct, back: msgspec.Struct, *, skip: str = "") -> dict[str, Json]:
    """Return the fields of `value` that `back` has otherwise, without those named in `skip`."""
    skipped = skip.split()
    found: dict[str, Json] = {}
    for name in value.__struct_fields__:
        mine, theirs = getattr(value, name), getattr(back, name)
        if name not in skipped and mine != theirs:
            found[name] = _differing(mine, theirs)
    return found


def _differing(mine: Any, theirs: Any) -> Json:
    if isinstance(mine, tuple) and isinstance(theirs, tuple) and len(mine) == len(theirs):
        pairs = list(enumerate(zip(mine, theirs, strict=True)))
        if all(isinstance(a, msgspec.Struct) and type(a) is type(b) for _, (a, b) in pairs):
            return {_INSIDE: {str(at): difference(a, b) for at, (a, b) in pairs if a != b}}
    if isinstance(mine, dict) and isinstance(theirs, dict) and theirs.keys() <= mine.keys():
        return {_INSIDE: {k: v for k, v in mine.items() if k not in theirs or theirs[k] != v}}
    return {_WHOLE: msgspec.to_builtins(mine)}


def restored(value: T, residue: Json) -> T:
    """Return `value` with a residue put back.

    Raises:
        TraceError: the residue is none of `value`.
        msgspec.ValidationError: a field of another type than ours.
    """
    if not isinstance(residue, dict):
        raise TraceError(f"what is kept beside is {str(residue)[:60]!r}; expected an object")
    if not residue:
        return value
    kinds = _kinds(type(value))
    if strange := [name for name in residue if name not in kinds]:
        raise TraceError(f"what is kept beside names {strange[0]!r}, a field that is none of ours")
    fields = {
        name: _put_back(getattr(value, name), kept, kinds[name]) for name, kept in residue.items()
    }
    return msgspec.structs.replace(value, **fields)


@cache
def _kinds(struct: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(struct)}


def _put_back(value: Any, kept: Json, kind: Any) -> Any:
    about = kept if isinstance(kept, dict) else {}
    if _WHOLE in about:
        return msgspec.convert(about[_WHOLE], kind)
    inside = about.get(_INSIDE)
    if isinstance(inside, dict) and isinstance(value, dict):
        return {**value, **inside}
    if isinstance(inside, dict) and isinstance(value, tuple) and set(inside) <= _places(value):
        return tuple([restored(each, inside.get(str(at), {})) for at, each in enumerate(value)])
    raise TraceError(f"what is kept beside does not fit: {str(kept)[:60]!r}")


def _places(value: tuple[Any, ...]) -> set[str]:
    return {str(at) for at, each in enumerate(value) if isinstance(each, msgspec.Struct)}
