"""Parquet files as untrusted input: how they begin, what their footer says, pyarrow if it is there.

A file says at its end what it holds, so what formats are asked about is its footer, not its first
bytes. Sizes that a file claims are checked before it is unpacked. Needs the extra `parquet`.
Format: Apache Parquet, `README.md`: magic, row groups, footer, length of the footer, magic.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from stepscope.errors import ConfigError, LimitError, TraceError
from stepscope.model import Stream

MAGIC = b"PAR1"
_LENGTH_BYTES = 4
# Of a footer: schemas stand first in it, and none of a known format is longer.
_FOOTER_BYTES = 64 * 1024


def pyarrow_module(name: str) -> Any:
    """Return a module of pyarrow. `Any`: it is loaded by name, because it may be absent.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as e:
        raise ConfigError("Parquet needs pyarrow: pip install 'stepscope[parquet]'") from e


def seen(file: BinaryIO, head: bytes) -> bytes:
    """Return what formats are asked about: of Parquet its footer, else the first bytes."""
    if not head.startswith(MAGIC) or not file.seekable():
        return head
    size = file.seek(0, 2)
    if size < 2 * len(MAGIC) + _LENGTH_BYTES:
        return head
    file.seek(size - len(MAGIC) - _LENGTH_BYTES)
    end = file.read(len(MAGIC) + _LENGTH_BYTES)
    length = int.from_bytes(end[:_LENGTH_BYTES], "little")
    start = size - len(end) - length
    if end[_LENGTH_BYTES:] != MAGIC or start < len(MAGIC):
        return head
    file.seek(start)
    kept = file.read(min(length, _FOOTER_BYTES))
    return MAGIC + kept + len(kept).to_bytes(_LENGTH_BYTES, "little") + MAGIC


def footer(head: bytes) -> bytes:
    """Return the footer of a file that is seen whole, nothing of any other.

    >>> footer(b"PAR1" + b"rows" + b"foot" + bytes([4, 0, 0, 0]) + b"PAR1")
    b'foot'
    """
    end = head[-len(MAGIC) - _LENGTH_BYTES :]
    if not (head.startswith(MAGIC) and end.endswith(MAGIC) and len(head) > len(MAGIC) + len(end)):
        return b""
    start = len(head) - len(end) - int.from_bytes(end[:_LENGTH_BYTES], "little")
    return head[start : -len(end)] if start >= len(MAGIC) else b""


@contextmanager
def opened(stream: Stream) -> Iterator[Any]:
    """Give the file to read; `Any`: a `pyarrow.parquet.ParquetFile`.

    Raises:
        TraceError: it is no stream of a file, no Parquet, or cut short; here and while it is read.
        ConfigError: pyarrow is not installed.
    """
    pa, parquet = pyarrow_module("pyarrow"), pyarrow_module("pyarrow.parquet")
    if not stream.file.seekable():
        raise TraceError(f"{stream.uri}: Parquet is read from a file, not from a stream")
    try:
        yield parquet.ParquetFile(stream.file)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as e:
        reason = str(e).splitlines()[0] if str(e) else type(e).__name__
        raise TraceError(f"{stream.uri}: Parquet that cannot be read: {reason}") from e


def check_sizes(file: Any, stream: Stream) -> None:
    """Refuse a file that claims more than the limits allow; `file`: a `ParquetFile`.

    Raises:
        LimitError: a row group unpacks to more than `limits.zip_total_bytes`.
    """
    for group in range(file.metadata.num_row_groups):
        size = file.metadata.row_group(group).total_byte_size
        if not 0 <= size <= stream.limits.zip_total_bytes:
            raise LimitError(
                f"{stream.uri}: row group {group} unpacks to {size} bytes; limits.zip_total_bytes "
                f"is {stream.limits.zip_total_bytes}"
            )


def batches(
    file: Any, stream: Stream, rows: int, columns: list[str] | None = None
) -> Iterator[Any]:
    """Yield a file's rows, so many at a time, as `pyarrow.RecordBatch`; `file`: a `ParquetFile`.

    Raises:
        TraceError: fewer or more came than the file claims.
    """
    came = 0
    for batch in file.iter_batches(rows, columns=columns):
        came += batch.num_rows
        yield batch
    claimed = file.metadata.num_rows
    if came != claimed:
        raise TraceError(f"{stream.uri}: damaged Parquet: {came} rows came of {claimed}")
