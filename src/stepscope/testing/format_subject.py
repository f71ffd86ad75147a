"""A file of a format under test: its bytes, its JSON where it has any, ways to read it again."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import msgspec

from stepscope.errors import StepscopeError
from stepscope.model import Format, Json, Quarantined, Stream, Trajectory

# What a reader may not raise: all but our own errors and what ends the process.
CRASHES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    UnicodeError,
    ValueError,
)


class Read(NamedTuple):
    """What came of reading bytes: what was yielded, then how it ended.

    `refused` is the message of an error of ours, `crashed` of any other.
    """

    items: tuple[object, ...]
    refused: str | None = None
    crashed: str | None = None

    @property
    def runs(self) -> list[Trajectory]:
        """The runs that came out."""
        return [item for item in self.items if isinstance(item, Trajectory)]

    @property
    def quarantined(self) -> list[Quarantined]:
        """The records that were set aside."""
        return [item for item in self.items if isinstance(item, Quarantined)]


def read(form: Format, content: bytes, uri: str) -> Read:
    """Read bytes as a file and return all that came of it; raises nothing that a reader raises."""
    items: list[object] = []
    try:
        items.extend(form.read(Stream(io.BytesIO(content), uri)))
    except StepscopeError as e:
        return Read(tuple(items), refused=str(e))
    except CRASHES as e:
        return Read(tuple(items), crashed=f"{type(e).__name__}: {e}")
    return Read(tuple(items))


@dataclass(frozen=True)
class Subject:
    """One file of the format under test."""

    form: Format
    uri: str
    content: bytes

    @cached_property
    def plain(self) -> Read:
        """What the file gives as it is."""
        return self.read(self.content)

    @property
    def runs(self) -> list[Trajectory]:
        """The runs of the file as it is."""
        return self.plain.runs

    def read(self, content: bytes, uri: str | None = None) -> Read:
        """Read other bytes in its place."""
        return read(self.form, content, self.uri if uri is None else uri)

    @cached_property
    def documents(self) -> tuple[Json, ...] | None:
        """The JSON of the file: one document, or one a line; None where it is no JSON."""
        whole = _decoded(self.content)
        if whole is not None:
            return (whole,)
        lines = [line for line in self.content.split(b"\n") if line.strip()]
        values = [_decoded(line) for line in lines]
        return None if None in values or not values else tuple(values)

    @cached_property
    def is_lines(self) -> bool:
        """Whether the file is JSON lines of which each by itself holds runs."""
        found = self.documents or ()
        if len(found) == 1 and isinstance(found[0], list):
            return False
        whole = [self.read(written((value,))) for value in found]
        alone = [len(made.runs) for made in whole]
        return bool(alone) and max(alone) > 0 and sum(alone) == len(self.runs) and self._doubles

    @property
    def _doubles(self) -> bool:
        documents = self.documents or ()
        twice = self.read(written((*documents, *documents)))
        return len(twice.runs) == 2 * len(self.runs) and not twice.quarantined

    def changed(self, change: Callable[[Json], Json]) -> bytes:
        """Return the file with every document changed; the file itself where it is no JSON."""
        return written(tuple([change(value) for value in self.documents or ()]))


def _decoded(raw: bytes) -> Json:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def written(documents: tuple[Json, ...]) -> bytes:
    """Return JSON documents as a file: one by itself, several one a line."""
    return b"\n".join([msgspec.json.encode(value) for value in documents]) + b"\n"


def objects(value: Json, path: str = "") -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield every object within a value, with the way to it, outer ones first."""
    if isinstance(value, dict):
        yield path or "the record", value
        for key, inner in value.items():
            yield from objects(inner, f"{path}.{key}".removeprefix("."))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from objects(inner, f"{path}[{at}]")
