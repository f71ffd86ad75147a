"""A body as it comes in: decompressed piece by piece, never more than a limit held, never forever.

All bodies together share one store of memory; who comes when it is full is asked to come again.
Source: RFC 1952 (gzip members), RFC 9110 (Retry-After).
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator

from starlette.types import Receive

from stepscope.receive.policy import Refusal
from stepscope.safety.limits import MIB

MAX_BODY = 20 * MIB
# Of all bodies at once, decompressed: two of the largest, or hundreds of usual ones.
ROOM = 48 * MIB
# A refused body is read to its end, so that the answer is: so much, for so long.
_POLITE_BYTES = MAX_BODY
_POLITE_SECONDS = 5.0
_GZIP = 16 + zlib.MAX_WBITS
_TOO_LARGE = Refusal(413, f"a body of more than {MAX_BODY // MIB} MiB; send less at once")
_GONE = Refusal(400, "the sender went away in the middle of the body")
_FULL = Refusal(503, "too much is coming in at once; send it again", 1)


class Room:
    """How much memory bodies may still take."""

    def __init__(self, size: int = ROOM) -> None:
        """Let bodies of `size` bytes in at once."""
        self._left = size

    def take(self, size: int) -> bool:
        """Take so much, if it is there."""
        if size > self._left:
            return False
        self._left -= size
        return True

    def give(self, size: int) -> None:
        """Give it back."""
        self._left += size


class Coming:
    """A body on its way: how far it has come."""

    def __init__(self, receive: Receive) -> None:
        """Take what `receive` gives."""
        self._receive = receive
        self.ended = False
        self.gone = False

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield what is left of the body as it comes in; `gone` if its sender went away."""
        while not self.ended:
            message = await self._receive()
            self.gone = message["type"] == "http.disconnect"
            self.ended = self.gone or not message.get("more_body", False)
            yield message.get("body", b"")

    async def pass_over(self) -> None:
        """Read the rest of a body that is refused, within reason: else its sender hears nothing."""
        left = _POLITE_BYTES
        try:
            async with asyncio.timeout(_POLITE_SECONDS):
                async for piece in self.pieces():
                    left -= len(piece)
                    if left < 0:
                        return
        except TimeoutError:
            return


class Reading:
    """One body being read; what it holds of the room is given back by `close`."""

    def __init__(self, room: Room, *, gzip: bool, most: int = MAX_BODY) -> None:
        """Read a body of `most` bytes at most."""
        self._room = room
        self._most = most
        self._zip = zlib.decompressobj(_GZIP) if gzip else None
        self._parts: list[bytes] = []
        self._size = 0

    def close(self) -> None:
        """Give back the memory."""
        self._parts.clear()
        self._room.give(self._size)
        self._size = 0

    async def read(self, coming: Coming, seconds: float) -> bytes | Refusal:
        """Return the whole body, decompressed."""
        try:
            async with asyncio.timeout(seconds):
                async for piece in coming.pieces():
                    refused = self._add(piece)
                    if refused is not None:
                        return refused
        except TimeoutError:
            coming.ended = True  # no more of it is waited for
            return Refusal(408, f"the body took longer than {seconds:g} seconds")
        if coming.gone:
            return _GONE
        if self._zip is not None and not self._zip.eof:
            return Refusal(400, "the gzip stream of the body has no end")
        whole = b"".join(self._parts)
        self._parts.clear()
        return whole

    def _add(self, piece: bytes) -> Refusal | None:
        if self._zip is None:
            return self._hold(piece)
        while piece:
            if self._zip.eof:
                self._zip = zlib.decompressobj(_GZIP)  # another member
            try:
                refused = self._hold(self._zip.decompress(piece, self._most + 1 - self._size))
            except zlib.error as e:
                return Refusal(400, f"the body is not gzip: {e}")
            if refused is not None:
                return refused
            piece = self._zip.unused_data or self._zip.unconsumed_tail
        return None

    def _hold(self, part: bytes) -> Refusal | None:
        if self._size + len(part) > self._most:
            return _TOO_LARGE
        if not self._room.take(len(part)):
            return _FULL
        self._size += len(part)
        self._parts.append(part)
        return None
