"""How large, deep and dense a trace may be; every limit that is hit is counted and reported."""

from __future__ import annotations

import msgspec

MIB = 1024 * 1024


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on what is read. All are settings of `stepscope.toml`, table `[limits]`.

    Attributes:
        line_bytes: one line of JSONL, or one record of a JSON array or object file.
        text_bytes: one text value; what is longer is kept to this length, with a mark and a hash.
        depth: nesting of JSON containers.
        steps: steps of one run.
        spans: spans of one trace.
        trace_bytes: what a receiver keeps of one trace, as JSON.
        attributes: attributes of one span; of what has more, the first are kept, with a mark.
        zip_members: members of one archive.
        zip_total_bytes: bytes of all members after decompression.
        zip_ratio: decompressed over compressed size, judged above `zip_ratio_floor_bytes`.
        zip_ratio_floor_bytes: an archive smaller than this when unpacked is not judged by ratio.
    """

    line_bytes: int = 16 * MIB
    text_bytes: int = 1 * MIB
    depth: int = 128
    steps: int = 100_000
    spans: int = 100_000
    trace_bytes: int = 64 * MIB
    attributes: int = 1_024
    zip_members: int = 100_000
    zip_total_bytes: int = 2048 * MIB
    zip_ratio: float = 200.0
    zip_ratio_floor_bytes: int = 10 * MIB
