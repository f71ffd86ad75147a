"""The first bytes of a file: the records in them, and the format that the file is in.

Formats look at keys and types, not at substrings, so that a run *about* a format is not taken for
one *in* it. The head of a large file ends anywhere; everything up to the last whole value is read.
The installed format most sure of the head is taken; names and extensions of files are never looked
at. A table of signatures says which of the built-in formats are asked at all, so that the readers
of the others are not loaded. Refused: a head of which no format is sure, or two nearly equally.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Literal, NamedTuple

import msgspec

from stepscope import registry
from stepscope.errors import TraceError
from stepscope.formats.records import RawRecord, is_json, split_records
from stepscope.model import Format, Json, Stream
from stepscope.safety.json import BOM, decode
from stepscope.safety.limits import Limits
from stepscope.safety.text import visible_line

# Opening a file is a look; the limits that the user set hold when it is read.
_LIMITS = Limits()

# The next byte that matters for structure, behind whole strings and all that does not matter.
_TOKEN = re.compile(rb'(?:[^"\[\]{},]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+([\[\]{},])', re.DOTALL)
_CLOSER = {b"[": b"]", b"{": b"}"}
# Deeper than any format nests near its beginning; beyond it, sniffing gives up.
_MAX_DEPTH = 100
# Lines at the beginning that may all be broken, and records behind them that are tried as a first.
_MAX_BROKEN, _MAX_TRIED = 200, 4
# Records are looked at to tell a format, not to read it.
_MAX_RECORDS = 20


class Opening(NamedTuple):
    """The first records of a file and how the file holds them."""

    shape: Literal["object", "array", "lines", "none"]
    records: tuple[Json, ...]

    @property
    def first_record(self) -> Json:
        """The first record, None where there is none."""
        return self.records[0] if self.records else None

    def first(self, *keys: str) -> dict[str, Json] | None:
        """Return the first record that is an object with all of `keys`."""
        for record in self.records:
            if isinstance(record, dict) and all(key in record for key in keys):
                return record
        return None


def any_record(is_own: Callable[[Json], bool], sure: float) -> Callable[[Opening], float]:
    """Return a likeness: `sure` where any record of the opening is the format's own."""
    return lambda opening: sure if any(map(is_own, opening.records)) else 0.0


@lru_cache(maxsize=4)
def read_opening(head: bytes) -> Opening:
    """Return the records at the beginning of a file."""
    text = head.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n")
    if text[:1] not in {b"{", b"["}:
        return Opening("none", ())
    whole = _decode_value(text)
    if whole is None and b"\n" in text:
        line, *others = text.split(b"\n", _MAX_RECORDS)[:_MAX_RECORDS]
        if (first := _decode_value(line)) is not None:
            values = [first, *map(_decode_value, others)]
            return Opening("lines", tuple(value for value in values if value is not None))
    if whole is None:
        whole = _decode_value(close_brackets(text))
    if whole is None and text[:1] == b"[":
        # One broken record near the beginning must not hide what the others are.
        cut = split_records(Stream(io.BytesIO(text), ""))
        raws = (one.raw for one in cut if isinstance(one, RawRecord))
        found = (value for raw in raws if (value := _decode_value(raw)) is not None)
        whole = list(islice(found, _MAX_RECORDS)) or None
    if isinstance(whole, list):
        return Opening("array", tuple(whole[:_MAX_RECORDS]))
    return Opening("none", ()) if whole is None else Opening("object", (whole,))


def close_brackets(text: bytes) -> bytes:
    """Return cut JSON up to its last whole value, with every open bracket closed."""
    stack: list[bytes] = []
    at = end = 0
    while token := _TOKEN.match(text, at):
        sign, at = token[1], token.end()
        if sign in _CLOSER:
            stack.append(_CLOSER[sign])
        elif sign != b"," and (not stack or stack.pop() != sign):
            return b""
        if len(stack) > _MAX_DEPTH:
            return b""
        # Before a comma, after a bracket: both places where a container may end.
        end = at - 1 if sign == b"," else at
        if not stack:
            break
    return text[:end] + b"".join(reversed(stack))


def _decode_value(text: bytes) -> Json:
    try:
        return decode(text, limits=_LIMITS).value
    except TraceError:
        return None


# What formats see of a file. A tau-bench run of usual length ends within it.
HEAD_BYTES = 256 * 1024
# Of a first record that does not: elements of a list, and characters of a text.
_OUTLINE_ELEMENTS, _OUTLINE_CHARACTERS = 100, 2000


def is_first_cut(head: bytes) -> bool:
    """Say whether the first record of a file, of which `head` is the beginning, goes on behind."""
    if len(head) < HEAD_BYTES or not is_json(head):
        return False
    first = next(split_records(Stream(io.BytesIO(head), "")), None)
    return not isinstance(first, RawRecord) or first.offset + len(first.raw) >= len(head)


def outline_first(text: bytes) -> bytes | None:
    """Return a file of the first record alone, long lists and texts cut; None without one."""
    first = next(split_records(Stream(io.BytesIO(text), "")), None)
    value = _decode_value(first.raw) if isinstance(first, RawRecord) else None
    if not value:
        return None
    outlined = msgspec.json.encode(_outline(value))
    is_element = isinstance(value, dict) and text.removeprefix(BOM).lstrip()[:1] == b"["
    return b"[" + outlined + b"]" if is_element else outlined


def _outline(value: Json) -> Json:
    if isinstance(value, list):
        return [_outline(one) for one in value[:_OUTLINE_ELEMENTS]]
    if isinstance(value, dict):
        return {key: _outline(one) for key, one in value.items()}
    return value[:_OUTLINE_CHARACTERS] if isinstance(value, str) else value


# Below this a format is not sure enough; two closer than the margin cannot be told apart.
SURE = 0.5
MARGIN = 0.1
_ROUNDING = 1e-9

_MAGIC = (
    (b"PK\x03\x04", "a zip archive"),
    (b"\x28\xb5\x2f\xfd", "zstd; give its content: `zstdcat FILE | stepscope import -`"),
    (b"%PDF", "PDF"),
    (b"\x89PNG", "an image"),
    (b"SQLite format 3\0", "an SQLite database; a store is opened, not imported"),
)
# How a refusal begins of a file that no format knows; what it looks like follows.
NO_TRACE = "no known trace; it looks like "
_SHOWN_KEYS = 6
_SHOWN_CHARACTERS = 40

# The keys that some record has in whatever a built-in format is sure of: `_NO_JSON`, or the keys of
# one record, those of one text all together. One spelling stands for all: `traceid` for `trace_id`,
# `traceId` and ` Trace_ID`. Formats without an entry, such as plugins, are always asked.
_NO_JSON = ""
_SIGNATURES: dict[str, tuple[str, ...]] = {
    "agentrx_labels": ("trajectoryid failures",),
    "anthropic_messages": ("role", "messages", "request", "response", "body status"),
    "atif": ("schemaversion",),
    "chat_history": ("role content", "messages", "history", "chathistory"),
    "claude_code": ("type message", "type sessionid", "type leafuuid", "type snapshot"),
    "gemini_contents": ("role parts", "contents", "candidates", "request", "response"),
    "google_adk": ("author", "evalid", "evalcases", "evalcaseresults", "events id"),
    "graph_trajectory": ("steps results", "outputs"),
    "inspect_ai": ("eval", _NO_JSON),
    "langchain_messages": ("content", "toolcalls", "data", "kwargs", "messages", "values"),
    "langfuse": (
        *("data meta", "trace observations", "id observations", "timestamp tags"),
        *("traceid", "observationid", "sessionid id", "sessionid name value"),
    ),
    "langsmith": ("runtype", "dottedorder", "runs", "items", "post", "patch"),
    "langsmith_parquet": (_NO_JSON,),
    "mini_swe_agent": ("role", "info messages", "trajectoryformat messages"),
    "mlflow": ("traces", "trace", "info data", "traceinfo", "tracemetadata", "requestmetadata"),
    "openai_agents": ("object", "$schemaversion", "data"),
    "openai_messages": ("role", "messages", "request", "response", "body status", "object"),
    "openai_responses": (
        *("type", "role", "object", "request", "response", "body"),
        *("input", "output", "messages"),
    ),
    "openhands": ("source", "trajectory", "events", "history instanceid"),
    "otlp": ("resourcespans",),
    "ours": ("stepscope schema",),
    "ours_parquet": (_NO_JSON,),
    "spans": ("name context", "name spancontext", "name spanid", "spans"),
    "step_scores": ("score", _NO_JSON),
    "swe_agent": ("trajectory",),
    "tau2": ("tasks", "taskid terminationreason"),
    "tau_bench": ("taskid", "traj"),
    "whowhen": ("history",),
}


def detect(head: bytes, uri: str) -> Format:
    """Return the installed format of a file that begins with `head`.

    Where the first of several lines are no records of any, the format is that of those behind them.
    `TraceError` where none is sure, or two nearly as sure as each other; `ConfigError` where one
    fails to import.
    """
    try:
        return choose_format(head, uri, likely_formats(read_opening(head)))
    except TraceError:
        for rest in _behind_broken_lines(head):
            formats = likely_formats(read_opening(rest))
            if any(each.sniff(rest) >= SURE for each in formats):
                return choose_format(rest, uri, formats)
        raise


def _behind_broken_lines(head: bytes) -> Iterator[bytes]:
    """Yield what begins with another line than the first: a record, and most behind it are, too."""
    lines = head.split(b"\n")
    if len(head) == HEAD_BYTES:
        lines.pop()  # cut off
    looked = lines[: 1 + _MAX_BROKEN]
    objects = [isinstance(_decode_value(line), dict) for line in looked]
    filled = [bool(line.strip()) for line in looked]
    tried = 0
    for at in range(1, len(looked)):
        if objects[at] and tried < _MAX_TRIED and 2 * sum(objects[at:]) > sum(filled[at:]):
            tried += 1
            yield b"\n".join(lines[at:])


def likely_formats(opening: Opening) -> list[Format]:
    """Return the installed formats that may be sure of a file that begins so."""
    keys: list[set[str]] = []
    for record in opening.records:
        for one in record if isinstance(record, list) else (record,):
            if isinstance(one, dict):
                keys.append({key.strip().replace("_", "").lower() for key in one})

    def may_be(signature: str) -> bool:
        if signature == _NO_JSON:
            return opening.shape == "none"
        return any(held.issuperset(signature.split()) for held in keys)

    names = registry.names("formats")
    likely = [x for x in names if x not in _SIGNATURES or any(map(may_be, _SIGNATURES[x]))]
    return [registry.format(name) for name in likely]


def choose_format(head: bytes, uri: str, formats: Sequence[Format]) -> Format:
    """Return the one of `formats` that is sure of a file that begins with `head`."""
    sure = [(each.sniff(head), each) for each in formats]
    sure.sort(key=lambda found: (-found[0], found[1].name))
    if not sure or sure[0][0] < SURE:
        raise TraceError(f"{visible_line(uri)}: {NO_TRACE}{describe_head(head)}")
    best, first = sure[0]
    if len(sure) > 1 and best - sure[1][0] < MARGIN + _ROUNDING:
        second = sure[1][1]
        raise TraceError(
            f"{visible_line(uri)}: may be {first.name} or {second.name}; say which with --format"
        )
    return first


def describe_head(head: bytes) -> str:
    """Say in a few words what a file that begins with `head` looks like."""
    if not head.strip():
        return "an empty file"
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return name
    found = read_opening(head)
    if found.shape == "none":
        return _describe_text(head)
    if not found.records:
        return "an empty JSON array"
    shape = {"object": "a JSON object", "array": "a JSON array of", "lines": "JSON lines of"}
    record = found.records[0]
    if not isinstance(record, dict):
        return f"{shape[found.shape]} {type(record).__name__}"
    roles = [one.get("role") if isinstance(one, dict) else None for one in found.records]
    if "tool_calls" in record and all(role in ("assistant", "tool") for role in roles):
        return "example calls: tool calls without messages"
    keys = visible_line(", ".join(list(record)[:_SHOWN_KEYS]))
    kind = shape[found.shape] + (" objects" if found.shape != "object" else "")
    return f"{kind} with keys {keys}" if record else _describe_text(head)


def _describe_text(head: bytes) -> str:
    # The head may end within a character of four bytes.
    for end in range(4):
        try:
            text = head[: len(head) - end].decode()
        except UnicodeDecodeError:
            continue
        if "\0" in text:
            break
        start = " ".join(text[: 10 * _SHOWN_CHARACTERS].split())
        kind = "JSON" if start[:1] in {"{", "["} else "text"
        return f"{kind} beginning '{visible_line(start[:_SHOWN_CHARACTERS])}'"
    return "binary data"
