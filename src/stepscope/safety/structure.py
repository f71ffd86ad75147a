"""Where the brackets of a JSON text stand, chunk by chunk: the index that records are split by.

Vectorised: quotes preceded by an odd run of backslashes are not quotes, a bracket after an odd
number of quotes is text. Grammar is not checked here; on broken JSON the index is still an index,
and what it delimits fails to decode. Refuses nothing.
Source: the structural index of Langdale and Lemire (2019), Parsing Gigabytes of JSON per Second,
VLDB Journal 28, sections 3.1.1 and 3.1.2, here in numpy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

# A block of this many bytes and its masks stay in a core's own cache.
BLOCK_BYTES = 256 * 1024

_QUOTE = 0x22
_BACKSLASH = 0x5C
# Change of depth by byte: +1 for { and [, -1 for } and ], 0 for all others.
_CHANGE = np.zeros(256, np.int8)
_CHANGE[[0x7B, 0x5B]] = 1
_CHANGE[[0x7D, 0x5D]] = -1


class Brackets(NamedTuple):
    """The brackets of one chunk that stand outside strings, in order.

    Attributes:
        at: shape (n,), positions within the chunk.
        opens: shape (n,), whether each one opens.
        depth: shape (n,), open containers after each one; negative where more close than opened.
    """

    at: npt.NDArray[np.int64]
    opens: npt.NDArray[np.bool_]
    depth: npt.NDArray[np.int64]


class Structure:
    """Reads chunks of one JSON text in order, and remembers between them where it stands."""

    def __init__(self) -> None:
        self.depth = 0
        self.in_string = False
        self._escaping = False

    def scan(self, chunk: bytes) -> Brackets:
        r"""Return the brackets of the next chunk.

        >>> index = Structure()
        >>> index.scan(b'[{"a]": "\\"}').at.tolist()
        [0, 1]
        >>> index.scan(b'"}]').depth.tolist()
        [1, 0]
        """
        text = np.frombuffer(chunk, np.uint8)
        # {, }, [ and ] are the bytes that these two bits of slack leave, once 0x20 is set.
        folded = text | 0x20
        folded -= 0x7B
        folded &= 0xFD
        marks = folded == 0
        marks |= text == _QUOTE
        marks |= text == _BACKSLASH
        at = np.flatnonzero(marks)
        kind = text[at]
        quotes = kind == _QUOTE
        quotes[self._escaped(at, kind, text.size)] = False
        quoted = np.cumsum(quotes)
        if self.in_string:
            quoted += 1
        if quoted.size:
            self.in_string = bool(quoted[-1] & 1)
        change = _CHANGE[kind]
        outside = ((quoted & 1) == 0) & (change != 0)
        at, change = at[outside], change[outside]
        depth = np.cumsum(change, dtype=np.int64) + self.depth
        if depth.size:
            self.depth = int(depth[-1])
        return Brackets(at, change > 0, depth)

    def _escaped(
        self, at: npt.NDArray[np.int64], kind: npt.NDArray[np.uint8], size: int
    ) -> npt.NDArray[np.int64]:
        """Return which of the marked bytes an odd run of backslashes precedes, as indexes."""
        carried, slashes = self._escaping, np.flatnonzero(kind == _BACKSLASH)
        if not size:
            return slashes
        self._escaping = False
        first_escaped = slashes[:0]
        if carried and at.size and at[0] == 0 and kind[0] != _BACKSLASH:
            first_escaped = np.zeros(1, np.int64)
        if not slashes.size:
            return first_escaped
        where = at[slashes]
        last = np.flatnonzero(np.diff(where, append=size + 1) != 1)
        length = np.diff(last, prepend=-1)
        if carried and where[0] == 0:
            length[0] += 1
        odd = slashes[last[length % 2 == 1]]
        if odd.size and at[odd[-1]] == size - 1:
            self._escaping = True
            odd = odd[:-1]
        odd = odd[odd + 1 < at.size]
        return np.concatenate((first_escaped, odd[at[odd + 1] == at[odd] + 1] + 1))


def deepest(raw: bytes) -> int:
    """Return how many containers are open at once, at most, in a JSON text.

    >>> deepest(b'{"a": [[1], "[[[["]}')
    3
    """
    index, most = Structure(), 0
    for start in range(0, len(raw), BLOCK_BYTES):
        depth = index.scan(raw[start : start + BLOCK_BYTES]).depth
        most = max(most, int(depth.max(initial=0)))
    return most
