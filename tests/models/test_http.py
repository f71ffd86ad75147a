"""Packed replies: unpacked up to a cap, whole or not at all."""

from __future__ import annotations

import gzip
import zlib

import pytest

from stepscope.errors import ModelError
from stepscope.models.http import REPLY_BYTES, decompress_body

TEXT = b'{"label": "correct"}' * 50


@pytest.mark.parametrize(
    ("packing", "body"),
    [
        ("gzip", gzip.compress(TEXT)),
        ("x-gzip", gzip.compress(TEXT)),
        ("deflate", zlib.compress(TEXT)),
    ],
    ids=["gzip", "x-gzip", "deflate"],
)
def test_a_packed_body_is_unpacked(packing: str, body: bytes) -> None:
    assert decompress_body(body, packing, 200) == TEXT


def test_a_body_of_the_cap_is_taken_and_one_byte_more_is_not() -> None:
    fits = bytes(REPLY_BYTES)
    assert len(decompress_body(gzip.compress(fits), "gzip", 200)) == REPLY_BYTES
    with pytest.raises(ModelError, match="over 4 MiB") as told:
        decompress_body(gzip.compress(fits + b"x"), "gzip", 200)
    assert not told.value.again


@pytest.mark.parametrize(
    ("packing", "body", "said", "again"),
    [
        ("gzip", gzip.compress(TEXT)[:-9], "ends too early", True),
        ("gzip", b"", "ends too early", True),
        ("gzip", TEXT, "does not unpack", True),
        ("br", TEXT, "packed as 'br'", False),
        ("gzip, gzip", TEXT, "not asked for", False),
    ],
    ids=["cut", "empty", "plain", "unknown", "twice"],
)
def test_what_cannot_be_unpacked_is_told(packing: str, body: bytes, said: str, again: bool) -> None:
    with pytest.raises(ModelError, match=said) as told:
        decompress_body(body, packing, 200)
    assert told.value.again is again
