"""Read Inspect logs, `.eval` and `.json`: one run for each sample and epoch.

Steps come from the events of a sample, what models were told from its messages, each once; texts
that the log keeps apart are put back in their places. Grader models are not the agent's. A log that
is still being written, or was cancelled, is read as far as it stands. Members packed by zstd, as
Inspect packs them by default, need the extra `zstd`.
Format: UKGovernmentBEIS/inspect_ai 0.3.285, log versions 1 to 3.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from stepscope.errors import TraceError
from stepscope.formats import inspect_eval, inspect_json
from stepscope.formats.archive import MAGIC
from stepscope.formats.building import Ordinals
from stepscope.formats.inspect_door import decode_sample
from stepscope.formats.inspect_log import taken_apart
from stepscope.formats.inspect_sample import NAME, run_of
from stepscope.formats.opening import Opening
from stepscope.formats.pieces import RawRecord
from stepscope.formats.plain import Found, Place, RecordFormat, attempt
from stepscope.formats.rejoined import from_start
from stepscope.model import Quarantined, Stream, Trajectory

_SURE = 0.95
# The first member of a log: that it was begun; or, where it was rewritten, any other.
_MEMBER = re.compile(rb"_journal/|samples/.*\.json\Z|header\.json\Z", re.DOTALL)
_NAME_AT, _LENGTH_AT = 30, 26
_MAGIC_BYTES = 4


@dataclass(frozen=True, slots=True)
class _InspectFormat(RecordFormat):
    """The format; a zip is told by the name of its first member."""

    def sniff(self, head: bytes) -> float:
        """Confidence, 0 to 1, that a file starting with `head` is an Inspect log."""
        if not head.startswith(MAGIC):
            return RecordFormat.sniff(self, head)
        if len(head) < _NAME_AT:
            return 0.0
        (size,) = struct.unpack_from("<H", head, _LENGTH_AT)
        return _SURE if _MEMBER.match(head[_NAME_AT : _NAME_AT + size]) else 0.0


def _likeness(opening: Opening) -> float:
    if opening.shape not in {"object", "lines"}:
        return 0.0
    match opening.first("eval"):
        case {"eval": {"task": _, "model": _}}:
            return _SURE
        case {"eval": {"task": _}, "plan": _} | {"eval": {"task": _}, "status": _}:
            return _SURE
    return 0.0


def _split(stream: Stream) -> Iterator[RawRecord | Quarantined]:
    head = stream.file.read(_MAGIC_BYTES)
    whole = Stream(from_start(stream.file, head), stream.uri, stream.limits)
    if head.startswith(MAGIC):
        return inspect_eval.samples(whole)
    return inspect_json.samples(whole)


def _one(record: RawRecord, place: Place, ordinals: Ordinals) -> Iterable[Trajectory | Quarantined]:
    log, sample = taken_apart(record.raw)
    try:
        value, repairs = decode_sample(sample, limits=place.limits)
    except TraceError as e:
        return (Quarantined(reason=str(e), offset=record.offset, raw=sample, uri=place.uri),)
    found = Found(value, record.offset, place.uri, repairs, place.limits, sample)
    return attempt(found, lambda found: (run_of(found, log, ordinals),))


FORMAT = _InspectFormat(NAME, _likeness, _one, _split)
