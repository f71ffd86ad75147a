"""The journal: every span that was acknowledged, on disk until its run is in the store.

A file beside the store, with the store's own durability: what `keep` was given is on disk when it
returns. A span that comes a second time, byte for byte, is counted and not kept twice, so that an
exporter may send again what it is unsure of. Time is the receiver's own, of running only: it stands
still while nothing listens, and no change of the machine's clock closes a run.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

import msgspec

from stepscope.formats.otlp.request import ReceivedSpan
from stepscope.runtime.database import Database, Schema, transaction, translate_faults
from stepscope.safety.limits import Limits

_SQL = """
    -- One row a trace, kept for a while after it was closed, so that what comes late is known.
    -- state: open; closed (in the store); left (no agent in it); stuck (could not be read).
    -- spans, bytes: accepted, ever. again: came a second time. refused: over a limit.
    CREATE TABLE traces (trace TEXT PRIMARY KEY, state TEXT NOT NULL, rooted INTEGER NOT NULL,
        spans INTEGER NOT NULL, bytes INTEGER NOT NULL, again INTEGER NOT NULL,
        refused INTEGER NOT NULL, last REAL NOT NULL) WITHOUT ROWID;
    CREATE INDEX traces_by_state ON traces (state, rooted, last);
    -- key: hash of body, which is a ReceivedSpan as JSON.
    CREATE TABLE spans (seq INTEGER PRIMARY KEY, trace TEXT NOT NULL, key BLOB NOT NULL,
        body BLOB NOT NULL, UNIQUE (trace, key));
"""
SCHEMA = Schema(
    application_id=0x5354504A,  # "STPJ"
    version=0,
    sql=lambda: _SQL,
    foreign="no journal of a receiver; move it away",
    newer="a journal of version {found}; this stepscope reads up to {version}: upgrade stepscope",
)
# Receiver's seconds for which a closed trace is remembered: a day.
REMEMBERED = 86_400.0
_KEY_BYTES = 16
# What was written is soon read once and deleted: a store's cache would only fill memory.
CACHE_KIBIBYTES = 4 * 1024


class DueTrace(NamedTuple):
    """A trace to be read: the last span of it that is meant, and what is known of it."""

    trace: str
    upto: int
    spans: int
    bytes: int
    again: int
    refused: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ReceivedSpan).decode


def span_key(body: bytes) -> bytes:
    """Return what tells a span from another one of its trace."""
    return sha256(body).digest()[:_KEY_BYTES]


class Journal(Database):
    """One open journal; each thread and process opens its own."""

    def __init__(self, path: str) -> None:
        """Open the journal at `path`, making it where there is none; raises as `Database`."""
        super().__init__(path, SCHEMA, cache_kibibytes=CACHE_KIBIBYTES)

    def _prepare(self) -> None:
        ((behind,),) = self._execute("SELECT max(last) FROM traces")
        self._began = time.monotonic() - (behind or 0.0)

    def now(self) -> float:
        """Return the receiver's time in seconds."""
        return time.monotonic() - self._began

    def keep(self, lots: Sequence[Sequence[ReceivedSpan]], limits: Limits) -> list[tuple[int, str]]:
        """Put batches into the journal in one transaction; all are on disk at the end.

        Returns how many spans of each batch were refused over the limits of a trace, and the last
        reason.

        Raises:
            EnvironmentFault: the disk is full; nothing of them is kept.
        """
        with transaction(self._db, self.path):
            held: dict[str, _TraceRow] = {}
            taken = [self._batch(batch, held, limits) for batch in lots]
            now = self.now()
            self._db.executemany(
                "INSERT OR REPLACE INTO traces (trace, state, rooted, spans, bytes, again, refused,"
                " last) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [trace.row(name, now) for name, trace in held.items() if trace.spans],
            )
        return taken

    def _batch(
        self, batch: Iterable[ReceivedSpan], held: dict[str, _TraceRow], limits: Limits
    ) -> tuple[int, str]:
        refused, reason = 0, ""
        for received in batch:
            trace, body = received.span.trace_id, _encode(received)
            known = held[trace] = held.get(trace) or self._trace(trace)
            if known.spans >= limits.spans or known.bytes + len(body) > limits.trace_bytes:
                known.refused += 1
                refused += 1
                reason = (
                    f"trace {trace[:32]}: {known.spans:,} spans of {known.bytes:,} bytes are kept "
                    f"of it; the limits are {limits.spans:,} and {limits.trace_bytes:,}"
                )
                continue
            # A root that has ended closes its trace.
            known.rooted |= received.span.parent_id is None and received.span.end_ns is not None
            if self._db.execute(
                "INSERT OR IGNORE INTO spans (trace, key, body) VALUES (?, ?, ?)",
                (trace, span_key(body), body),
            ).rowcount:
                known.spans += 1
                known.bytes += len(body)
                known.state, known.last = "open", None
            else:
                known.again += 1
        return refused, reason

    def _trace(self, trace: str) -> _TraceRow:
        row = self._db.execute(
            "SELECT state, rooted, spans, bytes, again, refused, last FROM traces WHERE trace = ?",
            (trace,),
        ).fetchone()
        return _TraceRow() if row is None else _TraceRow(*row)

    def due(self, *, quiet: float, idle: float, most: int, room: int) -> list[DueTrace]:
        """Return open traces that end now, the longest waiting first.

        A trace ends after `quiet` seconds without a span once its root has ended, and after `idle`
        seconds whatever came of it; `room` is the bytes of all of them, unless one alone has more.
        """
        now = self.now()
        rows = self._execute(
            "SELECT trace, spans, bytes, again, refused, last FROM traces"
            " WHERE state = 'open' AND rooted = 1 AND last <= ?"
            " UNION ALL SELECT trace, spans, bytes, again, refused, last FROM traces"
            " WHERE state = 'open' AND rooted = 0 AND last <= ? ORDER BY last LIMIT ?",
            (now - quiet, now - idle, most),
        )
        found, held = list[DueTrace](), 0
        for trace, spans, size, again, refused, _ in rows:
            held += size
            if found and held > room:
                break
            last = "SELECT coalesce(max(seq), 0) FROM spans WHERE trace = ?"
            ((upto,),) = self._execute(last, (trace,))
            found.append(DueTrace(trace, upto, spans, size, again, refused))
        return found

    def spans(self, trace: str, upto: int) -> Iterator[ReceivedSpan]:
        """Yield the spans of a trace as they came, until the one called `upto`."""
        with translate_faults(self.path):
            for (body,) in self._db.execute(
                "SELECT body FROM spans WHERE trace = ? AND seq <= ? ORDER BY seq", (trace, upto)
            ):
                yield _decode(body)

    def closed(self, done: Iterable[tuple[str, int]]) -> None:
        """Forget the spans that were read of traces in the store; one that got more stays open."""
        with transaction(self._db, self.path):
            for trace, upto in done:
                self._db.execute("DELETE FROM spans WHERE trace = ? AND seq <= ?", (trace, upto))
                self._db.execute(
                    "UPDATE traces SET state = 'closed' WHERE trace = ? AND state = 'open'"
                    " AND NOT EXISTS (SELECT 1 FROM spans WHERE spans.trace = traces.trace)",
                    (trace,),
                )

    def mark(self, trace: str, upto: int, state: str) -> None:
        """Leave a trace in the journal in another state, unless it got more meanwhile."""
        with transaction(self._db, self.path):
            self._db.execute(
                "UPDATE traces SET state = ? WHERE trace = ? AND NOT EXISTS"
                " (SELECT 1 FROM spans WHERE spans.trace = traces.trace AND seq > ?)",
                (state, trace, upto),
            )

    def reopen_stuck(self) -> None:
        """Try again what could not be read: this may be another version, or have more memory."""
        with transaction(self._db, self.path):
            self._db.execute("UPDATE traces SET state = 'open' WHERE state = 'stuck'")

    def sweep(self, idle: float) -> list[DueTrace]:
        """Erase and return agentless traces idle for so long; forget those closed a day ago."""
        now = self.now()
        rows = self._execute(
            "SELECT trace, spans, bytes, again, refused FROM traces WHERE state = 'left'"
            " AND last <= ? LIMIT 1000",
            (now - idle,),
        )
        known = "SELECT 1 FROM traces WHERE state = 'closed' AND last <= ? LIMIT 1"
        old = self._execute(known, (now - REMEMBERED,))
        if rows or old:
            with transaction(self._db, self.path):
                for trace, *_ in rows:
                    self._db.execute("DELETE FROM spans WHERE trace = ?", (trace,))
                    self._db.execute("DELETE FROM traces WHERE trace = ?", (trace,))
                gone = "DELETE FROM traces WHERE state = 'closed' AND last <= ?"
                self._db.execute(gone, (now - REMEMBERED,))
        return [DueTrace(trace, 0, *rest) for trace, *rest in rows]

    def shrink(self) -> None:
        """Give the disk back what spans have left behind, where none is left."""
        if not self.waiting()[1]:
            self._execute("VACUUM")

    def waiting(self) -> tuple[int, int]:
        """Return how many traces are in the journal, and how many spans of them."""
        ((traces,),) = self._execute("SELECT count(*) FROM traces WHERE state <> 'closed'")
        ((spans,),) = self._execute("SELECT count(*) FROM spans")
        return traces, spans


class _TraceRow(msgspec.Struct):
    """A row of `traces` while a batch is put in."""

    state: str = "open"
    rooted: int = 0
    spans: int = 0
    bytes: int = 0
    again: int = 0
    refused: int = 0
    # None: now. What is only refused or known already keeps no trace open.
    last: float | None = None

    def row(self, name: str, now: float) -> tuple[object, ...]:
        *cells, last = msgspec.structs.astuple(self)
        return (name, *cells, now if last is None else last)
