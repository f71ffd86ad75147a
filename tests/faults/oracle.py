"""What a provider was really asked, in a file that is only ever appended to.

A line when a request has come whole and a line when the last byte of its answer has gone out: what
a client received is never more than what stands here as answered, and what it paid for is what
stands here as received.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Literal

import msgspec

Event = Literal["received", "answered"]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line.

    Attributes:
        event: the request has come whole; the last byte of the answer has gone.
        number: of the request, from 0; an item of a batch has a number of its own.
        path: what was asked for; items of a batch have the path of the batch.
        hash: 64 hex digits over the body as canonical JSON: equal for equal requests.
        custom: the custom id of an item of a batch, else the header `idempotency-key`.
        status: of the answer; 0 where the connection was dropped, and at receipt.
        at: seconds since the epoch.
    """

    event: Event
    number: int
    path: str
    hash: str
    custom: str = ""
    status: int = 0
    at: float = 0.0


def hash_of(body: object) -> str:
    """Return 64 hex digits over a decoded body, whatever the order of its keys."""
    return sha256(msgspec.json.encode(body, order="sorted")).hexdigest()


class Oracle:
    """Appends entries to a file; without a file it keeps nothing."""

    def __init__(self, path: Path | None, *, sync: bool = True) -> None:
        """Open the file for appending; `sync` forces every line to the disk."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = None if path is None else os.open(path, flags, 0o600)
        self._sync = sync

    @property
    def kept(self) -> bool:
        """Whether anything is written, so that nobody hashes for nothing."""
        return self._file is not None

    def add(self, event: Event, asked: Mapping[str, str | int], *, status: int = 0) -> None:
        """Append one line; `asked` holds number, path, hash and custom."""
        if self._file is None:
            return
        line = {"event": event, **asked, "status": status, "at": time.time()}
        os.write(self._file, msgspec.json.encode(line) + b"\n")
        if self._sync:
            os.fdatasync(self._file)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)


def entries(path: Path) -> list[Entry]:
    """Return the whole lines of a file; a line that is being written is left out."""
    if not path.is_file():
        return []
    held = path.read_bytes()
    lines = held[: held.rfind(b"\n") + 1].split(b"\n")
    return [msgspec.json.decode(line, type=Entry) for line in lines if line]
