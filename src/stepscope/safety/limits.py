"""How large, deep and dense a trace may be; every limit that is hit is counted and reported.

And what a regular expression may cost that a user or a trace gives: it is searched by RE2, in time
that is linear in the text, and is refused where its own size makes that long.
"""

from __future__ import annotations

import errno
import os
import stat
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec

from stepscope.errors import ConfigError

MIB = 1024 * 1024


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on what is read. All are settings of `stepscope.toml`, table `[limits]`."""

    line_bytes: int = 16 * MIB  # one line of JSONL, or one record of a JSON array or object file.
    # one text value; what is longer is kept to this length, with a mark and a hash.
    text_bytes: int = 1 * MIB
    depth: int = 128  # nesting of JSON containers.
    steps: int = 100_000  # steps of one run.
    spans: int = 100_000  # spans of one trace.
    trace_bytes: int = 64 * MIB  # what a receiver keeps of one trace, as JSON.
    # attributes of one span; of what has more, the first are kept, with a mark.
    attributes: int = 1_024
    zip_members: int = 100_000  # members of one archive.
    zip_total_bytes: int = 2048 * MIB  # bytes of all members after decompression.
    # decompressed over compressed size, judged above `zip_ratio_floor_bytes`.
    zip_ratio: float = 200.0
    # an archive smaller than this when unpacked is not judged by ratio.
    zip_ratio_floor_bytes: int = 10 * MIB


def open_file(path: str | Path) -> BinaryIO:
    """Open a file that the user names; what is no file is an OSError, and is not waited for."""
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "A name with NUL")
    file = open(path, "rb", opener=lambda name, how: os.open(name, how | os.O_NONBLOCK))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "Not a file")
    return file


def read_file(path: str | Path, most: int = -1) -> bytes:
    """Return the content of a file that the user names, or its first bytes; as `open_file`."""
    with open_file(path) as file:
        return file.read(most)


# Instructions of a compiled pattern: a text of 1 MiB takes seconds at worst, usually milliseconds.
PATTERN_SIZE = 500
# What RE2 lacks, and how the same is said without it; the first that stands in a pattern is named.
_REWRITES = (
    (("(?=", "(?!", "(?<=", "(?<!"), "it has no look-around: match the text, or use a rule each"),
    (("(?P=", "\\1", "\\2", "\\3"), "it has no back-references: write the repeated text out"),
    (("++", "*+", "?+", "}+", "(?>"), "it never backtracks: leave the second + out, or write (?:"),
    (("\\Z",), "write \\z for the end of the text"),
    (("\\u", "\\N"), "write the character itself, or \\x{...}"),
)  # fmt: skip


class TextPattern(Protocol):
    """A compiled regular expression."""

    def search(self, text: str) -> object | None:
        """Return a match, None where there is none."""


@lru_cache(maxsize=256)
def compile_pattern(text: str, where: str) -> TextPattern:
    """Return a regular expression that is searched in linear time.

    Raises:
        ConfigError: it is none, uses what RE2 lacks, or is too large; `where` it stands is named.
    """
    import re2  # type: ignore[import-untyped]  # not before somebody gives a pattern

    options = re2.Options()
    options.log_errors = False
    try:
        found = re2.compile(text, options)
        size = found.programsize
    except (re2.error, UnicodeEncodeError) as e:
        said = e.args[0].decode(errors="replace") if isinstance(e.args[0], bytes) else str(e)
        lacks = (advice for signs, advice in _REWRITES if any(sign in text for sign in signs))
        advice = next(lacks, "see the syntax of RE2")
        raise ConfigError(
            f"{where}: {text!r} is no regular expression that RE2 reads ({said}); {advice}"
        ) from e
    if size > PATTERN_SIZE:
        raise ConfigError(
            f"{where}: {text[:80]!r} compiles to {size:,} instructions, at most {PATTERN_SIZE}; "
            "repeat less, or make several rules of it"
        )
    return found  # type: ignore[no-any-return]
