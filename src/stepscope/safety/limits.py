"""How large, deep and dense a trace may be; every limit that is hit is counted and reported.

And what a regular expression may cost that a user or a trace gives: it is searched by RE2, in time
that is linear in the text, and is refused where its own size makes that long.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Protocol
from uuid import uuid4

import msgspec

from stepscope.errors import ConfigError, UsageError

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


# What holds where nobody set anything.
DEFAULT_LIMITS = Limits()


# The files behind a database; and the databases that SQLite has open in this process, by device
# and number, each with how often.
_LOG = re.compile(r"-(?:wal|shm|journal)$")
_IN_USE: Counter[tuple[int, int]] = Counter()


def hold_database(path: str | Path) -> Callable[[], None]:
    """Note that SQLite has a file open in this process; return what ends that."""
    key = _identify(path)

    def release() -> None:
        _IN_USE[key] -= 1
        if _IN_USE[key] <= 0:
            del _IN_USE[key]

    _IN_USE[key] += 1
    return release


def is_in_use(path: str | Path) -> bool:
    """Tell whether SQLite has a database open in this process to which this path belongs.

    To open such a file beside SQLite, and to close it, drops the locks that keep other processes
    out: they write over each other (https://sqlite.org/howtocorrupt.html, 2.2).
    """
    try:
        return bool(_IN_USE) and _identify(_LOG.sub("", os.path.realpath(path))) in _IN_USE
    except (OSError, ValueError):  # nothing is there, or it is no name of a file
        return False


def _identify(path: str | Path) -> tuple[int, int]:
    status = Path(path).stat()
    return status.st_dev, status.st_ino


def open_file(path: str | Path) -> BinaryIO:
    """Open a file that the user names; what is no file is an OSError, and is not waited for."""
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "A name with NUL")
    if is_in_use(path):
        raise OSError(errno.EBUSY, "A database in use")
    file = open(path, "rb", opener=lambda name, how: os.open(name, how | os.O_NONBLOCK))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "Not a file")
    return file


def read_file(path: str | Path, most: int = -1) -> bytes:
    """Return the content of a file that the user names, or its first bytes; as `open_file`."""
    with open_file(path) as file:
        return file.read(most)


# How the file of a database begins; and what is nobody's output.
_DATABASE = b"SQLite format 3\0"
_SETTINGS = frozenset({"stepscope.toml", "pyproject.toml", ".env"})
# What is being written, by the number of its process.
_PART = re.compile(r"\.(\d+)(?:\.[0-9a-f]{8})?\.part$")


def refuse_to_write(place: Path, own: str = "") -> None:
    """Raise UsageError where a file is a store or settings other than `own`."""
    of_log = place.with_name(_LOG.sub("", place.name) or place.name)
    held = is_in_use(place) or any(
        one.is_file() and read_file(one, 16) == _DATABASE for one in (place, of_log)
    )
    if held or place.name in _SETTINGS - {own}:
        raise UsageError(f"{place}: a database or settings; name another file to write to")


@contextmanager
def open_output(
    path: str | Path, *, private: bool = False, follow: bool = True, own: str = ""
) -> Iterator[BinaryIO]:
    """Open a file of results for writing: it appears whole and durable, or not at all.

    It is written beside its place and put there in one move; what a killed writer left beside it is
    removed. What a link leads to is replaced, or the link where `follow` is False; a device or a
    pipe that is read takes what comes, where links are followed. `private` is mode 0600, `own` as
    in `refuse_to_write`.

    `UsageError` for a folder, a socket, a pipe that nobody reads, a store or settings; `OSError`
    where the disk does not take it: what was there stands, and the file as asked for is named.
    """
    try:
        place = Path(path).resolve() if follow else Path(path)
        place.exists()
    except (RuntimeError, ValueError) as e:  # a circle of links; NUL in a name
        raise UsageError(f"{path}: cannot be written ({e})") from e
    try:
        if Path(path).exists() and not Path(path).is_file():
            with _open_stream(Path(path), follow) as file:
                yield file
            return
        refuse_to_write(place, own)
        for left in place.parent.glob(f".{glob.escape(place.name)}.*.part"):
            if not _may_be_written(left):
                left.unlink(missing_ok=True)
        part = place.with_name(f".{place.name}.{os.getpid()}.{uuid4().hex[:8]}.part")
        mode = 0o600 if private else 0o666
        try:
            handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            part.replace(place)
        finally:
            part.unlink(missing_ok=True)
    except OSError as e:
        raise OSError(e.errno, e.strerror, str(path)) from e


def _open_stream(path: Path, streams: bool) -> BinaryIO:
    """Open what is no file, and takes what comes; what nobody reads is not waited for."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise UsageError(f"{path} is a folder; name a file in it")
    if not (streams and (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode))):
        raise UsageError(f"{path} is no file; name another")
    try:
        handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as e:
        if e.errno != errno.ENXIO:
            raise
        raise UsageError(f"{path}: nobody reads this pipe; read it first, or name a file") from e
    os.set_blocking(handle, True)
    return os.fdopen(handle, "wb")


def _may_be_written(part: Path) -> bool:
    """Whether the process that a part is named by may be alive; true of what is not ours."""
    named = _PART.search(part.name)
    if named is None:
        return True
    try:
        os.kill(int(named[1]), 0)
    except ProcessLookupError:
        return False
    except (OverflowError, PermissionError):
        pass
    return True


# Instructions of a compiled pattern: a text of 1 MiB takes seconds at worst, usually milliseconds.
PATTERN_SIZE = 500
# What RE2 lacks, and how the same is said without it; the first that stands in a pattern is named.
_REWRITES = (
    (("(?=", "(?!", "(?<=", "(?<!"), "it has no look-around: match the text, or use a rule each"),
    (("(?P=", "\\1", "\\2", "\\3"), "it has no back-references: write the repeated text out"),
    (("++", "*+", "?+", "}+", "(?>"), "it never backtracks: leave the second + out, or write (?:"),
    (("\\Z",), "write \\z for the end of the text"),
    (("\\u", "\\N"), "write the character itself, or \\x{...}"),
)
# What RE2 takes as mere text.
_REPEAT = re.compile(r"(?<=\{)\d{5,}(?=[,}])")


class TextPattern(Protocol):
    """A compiled regular expression."""

    def search(self, text: str) -> object | None:
        """Return a match, None where there is none."""


@lru_cache(maxsize=256)
def compile_pattern(text: str, where: str) -> TextPattern:
    """Return a regular expression that is searched in linear time.

    `ConfigError` where it is none, uses what RE2 lacks, or is too large; names `where` it stands.
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
    if repeat := _REPEAT.search(text):
        raise ConfigError(f"{where}: {text[:80]!r} repeats {repeat[0]} times; at most 1,000")
    if size > PATTERN_SIZE:
        raise ConfigError(
            f"{where}: {text[:80]!r} compiles to {size:,} instructions, at most {PATTERN_SIZE}; "
            "repeat less, or make several rules of it"
        )
    return found  # type: ignore[no-any-return]
