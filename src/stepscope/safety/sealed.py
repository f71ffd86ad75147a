"""Files that a command writes and a person commits: JSON that holds a hash of its own content.

What was edited by hand is told from what was written: the first is refused, with the way back. The
layout may change, since the hash is over the content.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import msgspec

from stepscope.errors import ConfigError, EnvironmentFault
from stepscope.safety.limits import open_output, read_file

SCHEMA = 1


class SealedFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of such a file."""

    schema: int = SCHEMA
    hash: str = ""  # sha256 over all else


class _Schema(msgspec.Struct):
    schema: int = SCHEMA


T = TypeVar("T", bound=SealedFile)


def seal(value: T) -> T:
    """Return the content with its hash."""
    raw = msgspec.json.encode(msgspec.structs.replace(value, hash=""))
    return msgspec.structs.replace(value, hash=sha256(raw).hexdigest())


def write_sealed(path: Path, value: SealedFile) -> None:
    """Write a file as a whole; `EnvironmentFault` where the disk does not take it."""
    try:
        with open_output(path, follow=False) as file:
            file.write(msgspec.json.format(msgspec.json.encode(seal(value)), indent=1) + b"\n")
    except OSError as e:
        raise EnvironmentFault(f"{path}: cannot be written ({e.strerror})") from e


@contextmanager
def hold_sealed(path: Path) -> Iterator[None]:
    """Keep others from changing a file between a reading and a writing: they wait.

    The lock is a file beside it, which is removed; what a kill leaves of it keeps nobody waiting.
    `EnvironmentFault` where the folder cannot be written.
    """
    held, handle = path.with_name(f".{path.name}.held"), -1
    try:
        while handle < 0:
            handle = os.open(held, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o666)
            fcntl.flock(handle, fcntl.LOCK_EX)
            if not os.fstat(handle).st_nlink:  # removed by who held it: the next one is another
                os.close(handle)
                handle = -1
    except OSError as e:
        raise EnvironmentFault(f"{path}: cannot be written ({e.strerror})") from e
    try:
        yield
    finally:
        held.unlink(missing_ok=True)
        os.close(handle)


def read_sealed(path: Path, kind: type[T], what: str) -> T | None:
    """Return what a file holds; None where there is none.

    `ConfigError` where it cannot be read, is none of this kind, or was edited.
    """
    undo = f"restore it (git checkout {path})"
    try:
        raw = read_file(path)
    except FileNotFoundError:
        return None
    except OSError as e:
        raise ConfigError(f"{path}: the {what} cannot be read ({e.strerror})") from e
    try:
        schema = msgspec.json.decode(raw, type=_Schema).schema
        if schema > SCHEMA:
            raise ConfigError(f"{path} was written by a newer stepscope: upgrade stepscope")
        found = msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as e:
        raise ConfigError(f"{path} is no {what} ({' '.join(str(e).split())}); {undo}") from e
    if (now := seal(found).hash) != found.hash:
        raise ConfigError(
            f"{path} was edited by hand: its content has the hash {now[:16]}, it was written with "
            f"{found.hash[:16]!r}; {undo}"
        )
    return found
