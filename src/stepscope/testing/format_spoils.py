"""What a format promises of files that are cut, spoilt, hostile, or hold what it does not know.

The same shape as `format_rules`. Nothing here is random: every file is spoilt at the same places.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator

import msgspec

from stepscope.model import Json, Stream
from stepscope.testing.format_subject import Read, Subject, objects, written

# Places at which a file is cut, spread over it; the last bytes are cut one by one.
_CUTS, _LAST = 240, 24
# Objects of a file that are given a key that no format knows, values that are spoilt.
_PROBES, _SPOILS = 60, 60
_PROBE = "unheard_of"
_STREAM_BYTES = 4 * 1024 * 1024

HOSTILE: tuple[bytes, ...] = (
    b"",
    b" \n\t",
    b"\xef\xbb\xbf",
    b"\x00\x01\x02\xff\xfe",
    b"null",
    b"[]",
    b"{}",
    b"[[]]",
    b"7",
    b'"text"',
    b"[" * 2_000,
    b'{"a":' * 2_000,
    b'{"a": NaN, "b": -Infinity, "c": 1e999}',
    b'{"a": ' + b"9" * 5_000 + b"}",
    b'{"a": "\\ud800", "b": "\\udc00\\ud800"}',
    b'{"a": "\\u0000", "a": 1}',
    b'{"a": "\xff\xfe"}',
    b"PK\x03\x04" + b"\x00" * 40,
    b"PAR1" + b"\x00" * 40,
)
# In place of a value: what JSON may say there and no recorder does.
_SPOILERS: tuple[bytes, ...] = (
    b"null",
    b"true",
    b"-1",
    b"NaN",
    b"1e999",
    b"123456789012345678901234567890",
    b'"\\ud800"',
    b'"a\\u0000b"',
    b"[[[]]]",
    b'{"a": 1, "a": 2}',
    b"[" * 300 + b"]" * 300,
)
_MARK = "\ue000spoil\ue000"


def cut_files_are_told(subject: Subject) -> Iterator[str]:
    """A file cut anywhere gives runs and a quarantined record, or one line of error."""
    size = len(subject.content)
    spread = range(1, size, max(1, size // _CUTS))
    for at in sorted({*spread, *range(max(1, size - _LAST), size)}):
        read = subject.read(subject.content[:at])
        yield from _told(read, at, f"cut at byte {at}")
        if read.items or read.refused is not None or read.crashed is not None:
            continue
        if subject.documents is None or not subject.content[at:].strip():
            continue  # a table may end behind any row, its first one too
        yield f"cut at byte {at}: nothing comes out, not even a quarantined record"


def hostile_bytes_are_told(subject: Subject) -> Iterator[str]:
    """Any bytes give runs, a quarantined record or one line of error; sniffing never raises."""
    for content in HOSTILE:
        shown = repr(content[:24])
        yield from _told(subject.read(content), len(content), f"of bytes {shown}")
        sure = subject.form.sniff(content)
        if not 0 <= sure <= 1:
            yield f"of bytes {shown}: sniff gives {sure!r}; expected 0 to 1"


def hostile_values_are_told(subject: Subject) -> Iterator[str]:
    """NaN, halves of characters, huge numbers, depth and wrong types within a record are told."""
    places = [place for place, _ in _places(subject.documents or ())]
    for at in range(0, len(places), max(1, len(places) // _SPOILS)):
        for way in (at, at + 1):
            spoiler = _SPOILERS[way % len(_SPOILERS)]
            content = _spoilt(subject, places[at], spoiler)
            read = subject.read(content)
            where = f"with {spoiler[:32]!r} at {_shown(places[at])}"
            yield from _told(read, len(content), where)
            yield from _storable(read, where)


def _places(documents: tuple[Json, ...]) -> Iterator[tuple[tuple[Json, ...], Json]]:
    """Yield the way to every value within documents."""
    waiting: list[tuple[tuple[Json, ...], Json]] = [((), list(documents))]
    while waiting:
        way, value = waiting.pop()
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, found in inner:
            yield (*way, key), found
            if isinstance(found, dict | list):
                waiting.append(((*way, key), found))


def _spoilt(subject: Subject, place: tuple[Json, ...], spoiler: bytes) -> bytes:
    documents = [copy.deepcopy(value) for value in subject.documents or ()]
    holder: Json = documents
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = _MARK
    return written(tuple(documents)).replace(msgspec.json.encode(_MARK), spoiler, 1)


def _shown(place: tuple[Json, ...]) -> str:
    return "".join([f"[{key}]" if isinstance(key, int) else f".{key}" for key in place])


def _told(read: Read, size: int, where: str) -> Iterator[str]:
    """Yield what is wrong with how a spoilt file was refused or set aside."""
    if read.crashed is not None:
        yield f"{where}: {read.crashed}; raise TraceError, or yield Quarantined"
    if read.refused is not None and ("\n" in read.refused or not read.refused):
        yield f"{where}: an error that is not one line: {read.refused[:80]!r}"
    for item in read.quarantined:
        if not item.reason or "\n" in item.reason:
            yield f"{where}: a quarantined record whose reason is not one line: {item.reason!r}"
        if not 0 <= item.offset <= size:
            yield f"{where}: a quarantined record at byte {item.offset} of {size}"


def _storable(read: Read, where: str) -> Iterator[str]:
    for run in read.runs:
        try:
            again = msgspec.json.decode(msgspec.json.encode(run), type=type(run))
        except (msgspec.MsgspecError, UnicodeError, OverflowError, RecursionError) as e:
            yield f"{where}: a run that cannot be stored ({e}); decode with safety.door"
            continue
        if [step.index for step in again.steps] != list(range(len(again.steps))):
            yield f"{where}: steps {[step.index for step in again.steps]}; count from 0"


def unknown_keys_are_kept(subject: Subject) -> Iterator[str]:
    """A key that the format does not know is kept, in `extra` or among the spans."""
    documents = copy.deepcopy(subject.documents or ())
    found = [each for value in documents for each in objects(value) if not _is_closed(each[1])]
    probed = found[:: max(1, len(found) // _PROBES)]
    for at, (_, held) in enumerate(probed):
        told = {f"{_PROBE}_{at}": f"kept-{at}-kept", **held}
        held.clear()
        held.update(told)
    read = subject.read(written(documents))
    yield from _told(read, len(written(documents)), "with unknown keys")
    whole = msgspec.json.encode(read.runs) + b"".join([item.raw for item in read.quarantined])
    lost = [path for at, (path, _) in enumerate(probed) if f"kept-{at}-kept".encode() not in whole]
    if lost and read.refused is None and read.crashed is None:
        yield f"an unknown key of {lost[0]} is lost, {len(lost)} of {len(probed)}; keep it in extra"


def _is_closed(held: dict[str, Json]) -> bool:
    """Whether another key would say something else than an unknown one.

    In a value as OTLP writes it readers must ignore what they do not know; where all values are
    objects, keys are names, and another one names something of their kind.
    """
    if held.keys() in ({"key", "value"}, {"values"}):
        return True
    if len(held) == 1 and next(iter(held)).endswith("Value"):
        return True
    return bool(held) and all(isinstance(value, dict) for value in held.values())


def bad_records_are_counted(subject: Subject) -> Iterator[str]:
    """A record that is none of its own is set aside or told of, and the others are read."""
    documents = subject.documents
    if documents is None:
        return
    if len(documents) == 1 and isinstance(documents[0], list):
        read = subject.read(written(([*documents[0], 7],)))
    elif subject.is_lines:
        read = subject.read(written(documents) + b'{"broken": \n')
        if len(read.runs) != len(subject.runs):
            yield f"behind a broken line {len(read.runs)} runs come out of {len(subject.runs)}"
    else:
        return
    if read.quarantined or read.refused is not None:
        return
    if [run.warnings for run in read.runs] == [run.warnings for run in subject.runs] and (
        [run.extra for run in read.runs] == [run.extra for run in subject.runs]
    ):
        yield "a record that is none disappears; yield Quarantined with its bytes and offset"


def lines_are_streamed(subject: Subject) -> Iterator[str]:
    """Where every line is a run, the first comes out before the file is read to its end."""
    if not subject.is_lines or not subject.documents:
        return
    once = written(subject.documents)
    content = once * (_STREAM_BYTES // len(once) + 1)
    file = io.BytesIO(content)
    first = next(iter(subject.form.read(Stream(file, subject.uri))), None)
    if first is None or file.tell() > len(content) // 2:
        yield f"{file.tell()} of {len(content)} bytes are read before the first run; read by line"
