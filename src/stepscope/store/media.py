"""Images, audio and files of a run: moved out of its steps into the blob folder, and back.

A blob is named by the sha256 of its bytes, never by anything a trace says, and lies at mode 0600
beside the store. Data that is not base64, or would not come back letter for letter, stays where it
is. A store in memory has no folder and moves nothing.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec

from stepscope.errors import EnvironmentFault, StoreError
from stepscope.model import Part, Step

# How a part's data looks in the encoded steps. Inside a text the quotes would be escaped.
MARK = b'"data":'


class Blob(NamedTuple):
    """The bytes of one part; `place` counts parts as `each_part` meets them."""

    place: int
    sha256: str
    content: bytes


def each_part(steps: tuple[Step, ...], change: Callable[[int, Part], Part]) -> tuple[Step, ...]:
    """Return the steps with `change(place, part)` for every part, results' parts after a step's."""
    place = -1

    def changed(parts: tuple[Part, ...]) -> tuple[Part, ...]:
        nonlocal place
        found = []
        for part in parts:
            place += 1
            found.append(change(place, part))
        return tuple(found)

    return tuple(
        msgspec.structs.replace(
            step,
            parts=changed(step.parts),
            results=tuple(
                msgspec.structs.replace(result, parts=changed(result.parts))
                for result in step.results
            ),
        )
        for step in steps
    )


def moved_out(steps: tuple[Step, ...]) -> tuple[tuple[Step, ...], list[Blob]]:
    """Return the steps without their data, and the data as blobs."""
    blobs: list[Blob] = []

    def out(place: int, part: Part) -> Part:
        content = None if part.data is None else _decoded(part.data)
        if content is None:
            return part
        blobs.append(Blob(place, sha256(content).hexdigest(), content))
        return msgspec.structs.replace(part, data=None)

    return each_part(steps, out), blobs


def moved_in(steps: tuple[Step, ...], names: Mapping[int, str], folder: Path) -> tuple[Step, ...]:
    """Return the steps with their data read back from the blob folder.

    Args:
        steps: as stored.
        names: place of a part -> sha256 of its bytes.
        folder: where the blobs lie.

    Raises:
        StoreError: a blob is missing or has been changed.
    """

    def back(place: int, part: Part) -> Part:
        if place not in names:
            return part
        content = read(folder, names[place])
        return msgspec.structs.replace(part, data=base64.b64encode(content).decode())

    return each_part(steps, back)


def write(folder: Path, blob: Blob) -> None:
    """Write a blob that is not there yet; it is on disk, whole, before it has its name.

    Raises:
        EnvironmentFault: the folder or the disk does not take it.
    """
    target = folder / blob.sha256
    part = folder / f"{blob.sha256}.{os.getpid()}.part"
    try:
        if target.exists():
            return
        folder.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(blob.content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except OSError as e:
        part.unlink(missing_ok=True)
        raise EnvironmentFault(f"{target}: a blob cannot be written ({e.strerror})") from e


def read(folder: Path, name: str) -> bytes:
    """Return the bytes of a blob.

    Raises:
        StoreError: it is missing or has been changed.
    """
    path = folder / name
    try:
        content = path.read_bytes()
    except OSError as e:
        raise StoreError(f"{path}: a blob of the store cannot be read ({e.strerror})") from e
    if sha256(content).hexdigest() != name:
        raise StoreError(f"{path}: a blob of the store has been changed; import its run again")
    return content


def _decoded(data: str) -> bytes | None:
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    return content if base64.b64encode(content).decode() == data else None
