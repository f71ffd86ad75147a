"""A file of step scores in blocks of whole lines."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.errors import TraceError
from stepscope.model import Stream
from stepscope.safety.forgiving import BOM

# Bytes read at a time: some thousand rows, few enough to stay in a processor's cache.
BLOCK_BYTES = 1 << 16
# Rows that are looked at together where they are looked at one by one.
CHUNK_ROWS = 4096


def blocks(stream: Stream) -> Iterator[bytes]:
    """Yield a file in blocks of whole lines, the byte order mark left out.

    Raises:
        TraceError: a line is over the limit.
    """
    held = stream.file.read(BLOCK_BYTES).removeprefix(BOM)
    while held:
        more = stream.file.read(BLOCK_BYTES)
        whole, newline, rest = held.rpartition(b"\n")
        if newline:
            yield whole + newline
        held = rest if newline else held
        if len(held) > stream.limits.line_bytes:
            raise TraceError(
                f"{stream.uri}: a row of over {stream.limits.line_bytes:,} bytes; raise "
                "limits.line_bytes"
            )
        if not more:
            break
        held += more
    if held:
        yield held
