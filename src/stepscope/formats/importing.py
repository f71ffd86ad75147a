"""Read whatever the user names: paths in, one `Reading` a file out, every byte accounted for.

A file given by name that is no trace is an error. The same file within a folder, a glob or an
archive is an account with its problem, because folders hold other things than traces. Inside a
trace, a record that cannot be read comes out as `Quarantined`: runs and quarantined records
together are what the file offered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from stepscope import registry
from stepscope.errors import TraceError, UsageError
from stepscope.formats.account import Account, Tally
from stepscope.formats.agentrx_labels import beside
from stepscope.formats.archive import DAMAGE, MAGIC, members
from stepscope.formats.detect import HEAD_BYTES, SURE, detect
from stepscope.formats.parquet_file import seen
from stepscope.formats.rejoined import from_start
from stepscope.formats.sources import Opened, Refused, sources
from stepscope.model import Format, Quarantined, Stream, Trajectory
from stepscope.safety.forgiving import BOM
from stepscope.safety.limits import Limits

__all__ = ["Account", "Reading", "readings"]

_LIMITS = Limits()


class Reading:
    """One file being read: iterate once, then ask for the `account`."""

    def __init__(
        self, found: Opened | Refused, stream: Stream | None = None, format: Format | None = None
    ) -> None:
        self.stream = stream
        self.format = format
        self.named = found.named
        problem = found.problem if isinstance(found, Refused) else None
        self.tally = Tally(found.uri, None if format is None else format.name, problem)

    @property
    def uri(self) -> str:
        """The file, or archive and member, fit to be printed."""
        return self.tally.uri

    @property
    def account(self) -> Account:
        """What came out so far; complete when the reading is at its end."""
        return self.tally.account()

    def repaired(self, code: str) -> None:
        """Count a repair that was made to the file as a whole."""
        self.tally.repaired(code)

    def __iter__(self) -> Iterator[Trajectory | Quarantined]:
        """Yield the runs and the quarantined records of the file.

        Raises:
            TraceError: a file given by name turns out to be unreadable half way.
            UsageError: the next reading was asked for before this one was read.
        """
        stream, reader = self.stream, self.format
        self.stream = None
        if stream is None or reader is None:
            return
        if stream.file.closed:
            raise UsageError(f"{self.uri}: closed; read each file before asking for the next")
        labels = beside(stream.uri, stream.limits)
        with self.telling():
            for found in reader.read(stream):
                if labels is not None and isinstance(found, Trajectory):
                    found = labels.attach(found)
                self.tally.counts.add(found)
                yield found
            for _ in labels.without_run if labels is not None else ():
                self.tally.repaired("label_without_run")

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Note in the account why a file is read no further.

        Raises:
            TraceError: the file was given by name.
        """
        try:
            yield
        except TraceError as e:
            self.tally.problem = str(e)
            if self.named:
                raise
        except DAMAGE as e:
            self.tally.problem = f"damaged, read no further: {e}"
            if self.named:
                raise TraceError(f"{self.uri}: {self.tally.problem}") from e


def readings(
    paths: Sequence[str], *, format_name: str | None = None, limits: Limits = _LIMITS
) -> Iterator[Reading]:
    """Yield a reading for every file that `paths` stand for; read each before asking for the next.

    Raises:
        TraceError: a file given by name cannot be read, or is no trace of one known format.
        UsageError: a glob that matches nothing, a folder without files.
        ConfigError: no format is called `format_name`.
    """
    chosen = None if format_name is None else registry.format(format_name)
    for found in sources(paths):
        yield from _readings(found, chosen, limits, nested=False)


def _readings(
    found: Opened | Refused, chosen: Format | None, limits: Limits, *, nested: bool
) -> Iterator[Reading]:
    try:
        if isinstance(found, Refused):
            raise TraceError(f"{found.uri}: {found.problem}")
        head = found.file.read(HEAD_BYTES)
        if head.startswith(MAGIC) and (nested or not found.file.seekable()):
            raise TraceError(f"{found.uri}: a zip within another file; unpack it first")
        if head.startswith(MAGIC) and not _is_one_trace(head, chosen):
            for member in members(found.file, found.uri, limits):
                yield from _readings(member, chosen, limits, nested=True)
            return
        format = chosen or detect(seen(found.file, head), found.uri)
        reading = Reading(found, Stream(from_start(found.file, head), found.uri, limits), format)
        if head.startswith(BOM):
            reading.repaired("bom")
    except (TraceError, *DAMAGE) as e:
        problem = str(e).removeprefix(f"{found.uri}: ")
        if not found.named:
            yield Reading(Refused(found.uri, problem, named=False))
            return
        if isinstance(e, TraceError):
            raise
        raise TraceError(f"{found.uri}: cannot be read: {problem}") from e
    yield reading


def _is_one_trace(head: bytes, chosen: Format | None) -> bool:
    """Say whether a zip is a trace as a whole, rather than an archive of traces."""
    asked = registry.formats() if chosen is None else (chosen,)
    return any(format.sniff(head) >= SURE for format in asked)
