"""Check that a format plugin keeps what formats promise, on its own files.

    from stepscope.testing import check_format

    check_format("acme.py:FORMAT", "tests/runs.log")

In pytest or anywhere: what is broken is one `FormatFault` with a line for every rule, saying where
and what to do. A rule is a function of a `FormatSubject`: it yields one line for every way in
which the promise of its docstring is broken. Files are cut and spoilt at the same places each
time: nothing is random. Nothing is written and nothing is fetched.
"""

from __future__ import annotations

import copy
import io
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from stepscope import registry
from stepscope.errors import StepscopeError, UsageError
from stepscope.formats.finish import Ordinals, find_oddities, finish_run
from stepscope.formats.opening import HEAD_BYTES, MARGIN, SURE
from stepscope.formats.ours import decode_run, encode_run
from stepscope.model import Format, Json, Quarantined, Stream, Trajectory, Usage
from stepscope.safety.limits import Limits, read_file
from stepscope.safety.text import visible_line

# What a reader may not raise: all but our own errors and what ends the process.
CRASHES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


class ReadResult(NamedTuple):
    """What was yielded; `refused` is the message of an error of ours, `crashed` of any other."""

    items: tuple[object, ...]
    refused: str | None = None
    crashed: str | None = None

    @property
    def runs(self) -> list[Trajectory]:
        """The runs that came out."""
        return [item for item in self.items if isinstance(item, Trajectory)]

    @property
    def quarantined(self) -> list[Quarantined]:
        """The records that were set aside."""
        return [item for item in self.items if isinstance(item, Quarantined)]


def read_as_file(form: Format, content: bytes, uri: str) -> ReadResult:
    """Read bytes as a file and return all that came of it; raises nothing that a reader raises."""
    items: list[object] = []
    try:
        items.extend(form.read(Stream(io.BytesIO(content), uri)))
    except StepscopeError as e:
        return ReadResult(tuple(items), refused=str(e))
    except CRASHES as e:
        return ReadResult(tuple(items), crashed=f"{type(e).__name__}: {e}")
    return ReadResult(tuple(items))


@dataclass(frozen=True)
class FormatSubject:
    """One file of the format under test."""

    form: Format
    uri: str
    content: bytes

    @cached_property
    def plain(self) -> ReadResult:
        """What the file gives as it is."""
        return self.read(self.content)

    @property
    def runs(self) -> list[Trajectory]:
        """The runs of the file as it is."""
        return self.plain.runs

    def read(self, content: bytes, uri: str | None = None) -> ReadResult:
        """Read other bytes in its place."""
        return read_as_file(self.form, content, self.uri if uri is None else uri)

    @cached_property
    def documents(self) -> tuple[Json, ...] | None:
        """The JSON of the file: one document, or one a line; None where it is no JSON."""
        whole = _decode_documents(self.content)
        if whole is not None:
            return (whole,)
        lines = [line for line in self.content.split(b"\n") if line.strip()]
        values = [_decode_documents(line) for line in lines]
        return None if None in values or not values else tuple(values)

    @cached_property
    def is_lines(self) -> bool:
        """Whether the file is JSON lines of which each by itself holds runs."""
        found = self.documents or ()
        if len(found) == 1 and isinstance(found[0], list):
            return False
        whole = [self.read(encode_documents((value,))) for value in found]
        alone = [len(made.runs) for made in whole]
        if not alone or max(alone) == 0 or sum(alone) != len(self.runs):
            return False
        twice = self.read(encode_documents((*found, *found)))
        return len(twice.runs) == 2 * len(self.runs) and not twice.quarantined

    def changed(self, change: Callable[[Json], Json]) -> bytes:
        """Return the file with every document changed; the file itself where it is no JSON."""
        return encode_documents(tuple([change(value) for value in self.documents or ()]))


def _decode_documents(raw: bytes) -> Json:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def encode_documents(documents: tuple[Json, ...]) -> bytes:
    """Return JSON documents as a file: one by itself, several one a line."""
    return b"\n".join([msgspec.json.encode(value) for value in documents]) + b"\n"


def walk_objects(value: Json, path: str = "") -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield every object within a value, with the way to it, outer ones first."""
    if isinstance(value, dict):
        yield path or "the record", value
        for key, inner in value.items():
            yield from walk_objects(inner, f"{path}.{key}".removeprefix("."))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from walk_objects(inner, f"{path}[{at}]")


_RENAMED = "another-name.dat"
_encode = msgspec.json.Encoder(order="deterministic").encode
# Keys under which token counts and prices stand in any format that we know of.
_COUNTS = ("token", "usage", "cost", "price")


def reads_its_own(subject: FormatSubject) -> Iterator[str]:
    """Its own files are read without an error, and nothing in them is set aside."""
    found = subject.plain
    if found.crashed is not None:
        yield f"reading raises {found.crashed}; raise TraceError, or yield Quarantined"
    if found.refused is not None:
        yield f"reading refuses the file: {found.refused}"
    for item in found.quarantined[:1]:
        yield f"the record at byte {item.offset} is quarantined: {item.reason}"
    if not found.runs and found.crashed is None and found.refused is None:
        yield "no run comes out; give a file with at least one"


def yields_typed(subject: FormatSubject) -> Iterator[str]:
    """What comes out is a `Trajectory` or a `Quarantined`, and says which format read it."""
    for item in subject.plain.items:
        if not isinstance(item, Trajectory | Quarantined):
            yield f"{type(item).__name__} comes out; yield Trajectory or Quarantined"
        elif isinstance(item, Trajectory) and not item.source.format:
            yield f"run {item.name!r} has no source.format; set it to {subject.form.name!r}"


def same_every_time(subject: FormatSubject) -> Iterator[str]:
    """Reading twice gives the same bytes."""
    first, again = (_encode(read.runs) for read in (subject.plain, subject.read(subject.content)))
    if first != again:
        yield "a second reading gives other runs; use no clock, no random number, no set order"


def key_order_is_nothing(subject: FormatSubject) -> Iterator[str]:
    """The order of keys in an object changes nothing."""
    if subject.documents is not None:
        other = subject.read(subject.changed(_reverse_keys))
        yield from _differences(subject.runs, other.runs, "with its keys in another order")


def _reverse_keys(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _reverse_keys(value[key]) for key in reversed(list(value))}
    return [_reverse_keys(entry) for entry in value] if isinstance(value, list) else value


def name_is_nothing(subject: FormatSubject) -> Iterator[str]:
    """A file under another name, or read a second time, gives the same runs with the same ids."""
    other = subject.read(subject.content, _RENAMED)
    yield from _differences(subject.runs, other.runs, "under another name")


def _differences(runs: list[Trajectory], others: list[Trajectory], how: str) -> Iterator[str]:
    if len(runs) != len(others):
        yield f"{how} the file gives {len(others)} runs instead of {len(runs)}"
        return
    for run, other in zip(runs, others, strict=True):
        here, there = _without_place(run), _without_place(other)
        if run.id != other.id:
            yield f"{how} run {run.name!r} has another id; make ids with finish_run"
        elif here != there:
            fields = [n for n in here.__struct_fields__ if getattr(here, n) != getattr(there, n)]
            yield f"{how} run {run.name!r} has another {fields[0]}"


def _without_place(run: Trajectory) -> Trajectory:
    return replace(run, source=replace(run.source, uri="", offset=None))


def ids_are_content(subject: FormatSubject) -> Iterator[str]:
    """Ids are those of `finish_run`, and no two runs of a file share one."""
    for run in subject.runs:
        own = finish_run(replace(run, id=""), Ordinals()).id
        if run.id != own:
            yield f"run {run.name!r} has the id {run.id!r}; finish_run gives {own!r}"
    doubled = [key for key, n in Counter([run.id for run in subject.runs]).items() if n > 1]
    if doubled:
        yield f"id {doubled[0]!r} is that of several runs; share one Ordinals among a file's runs"


def steps_are_numbered(subject: FormatSubject) -> Iterator[str]:
    """Steps count from 0; labels, scores and warnings point at steps that are there."""
    for run in subject.runs:
        count = len(run.steps)
        if [step.index for step in run.steps] != list(range(count)):
            yield f"run {run.name!r} has steps {[step.index for step in run.steps]}; count from 0"
        pointed = [
            *[label.step for label in run.labels],
            *[score.step for score in run.scores],
            *[warning.step for warning in run.warnings],
        ]
        for at in pointed:
            if at is not None and not 0 <= at < count:
                yield f"run {run.name!r} points at step {at} of {count}"


def calls_and_results_are_told(subject: FormatSubject) -> Iterator[str]:
    """Calls without results, results without calls and doubled ids are warned of."""
    for run in subject.runs:
        missing = [warning for warning in find_oddities(run.steps) if warning not in run.warnings]
        if missing:
            yield f"run {run.name!r} does not say: {missing[0].reason}; end with finish_run"


def beliefs_have_sources(subject: FormatSubject) -> Iterator[str]:
    """A result's status says where the belief comes from; one that nobody recorded is unknown."""
    for run in subject.runs:
        for step in run.steps:
            for result in step.results:
                if (result.status == "unknown") != (result.source == "none"):
                    yield (
                        f"run {run.name!r}, step {step.index}: a result of status "
                        f"{result.status!r} has the source {result.source!r}"
                    )


def counts_are_counts(subject: FormatSubject) -> Iterator[str]:
    """Token counts include the cache; absent ones are None, and no number is NaN or negative."""
    for run in subject.runs:
        for where, usage in _usages(run):
            counts = [count for count in msgspec.structs.astuple(usage) if isinstance(count, int)]
            cached = (usage.cache_read or 0) + (usage.cache_write or 0)
            if not counts:
                yield f"{where} has a Usage without any count; leave it None"
            elif min(counts) < 0:
                yield f"{where} counts {min(counts)} tokens"
            elif usage.input_total is not None and usage.input_total < cached:
                yield f"{where} has {usage.input_total} input tokens and {cached} cached ones; add"
        for where, cost in _costs(run):
            if cost is not None and not (math.isfinite(cost) and cost >= 0):
                yield f"run {run.name!r}, {where}: a cost of {cost!r}"


def _usages(run: Trajectory) -> Iterator[tuple[str, Usage]]:
    if run.usage is not None:
        yield f"run {run.name!r}", run.usage
    for step in run.steps:
        if step.usage is not None:
            yield f"run {run.name!r}, step {step.index}", step.usage


def _costs(run: Trajectory) -> list[tuple[str, float | None]]:
    steps = [(f"step {step.index}", step.cost_usd) for step in run.steps]
    return [("the run", run.cost_usd), *steps]


def absence_is_none(subject: FormatSubject) -> Iterator[str]:
    """Where the file says nothing of tokens and cost, the run says nothing: None, never 0."""
    silent = subject.changed(_uncounted)
    if subject.documents is None or any(word.encode() in silent for word in _COUNTS):
        return  # counts stand in text, where they cannot be taken away
    for run in subject.read(silent).runs:
        for where, _ in _usages(run):
            yield f"{where}: a Usage, though the file says nothing of tokens; leave it None"
        for at, cost in _costs(run):
            if cost is not None:
                yield f"run {run.name!r}, {at}: a cost of {cost!r}, and the file says none"


def _uncounted(value: Json) -> Json:
    if isinstance(value, dict):
        if isinstance(value.get("key"), str) and _is_count(value["key"]):
            return {}
        return {key: _uncounted(found) for key, found in value.items() if not _is_count(key)}
    return [_uncounted(entry) for entry in value] if isinstance(value, list) else value


def _is_count(key: str) -> bool:
    return any(word in key.lower() for word in _COUNTS)


def comes_back_from_ours(subject: FormatSubject) -> Iterator[str]:
    """A run can be written in our own format and comes back equal."""
    for run in subject.runs:
        try:
            again = decode_run(encode_run(run), Limits(line_bytes=2**62))
        except StepscopeError as e:
            yield f"run {run.name!r} cannot be kept: {e}"
            continue
        if again != run:
            yield f"run {run.name!r} comes back from our own format as another"


# Places at which a file is cut, spread over it; the last bytes are cut one by one.
_CUTS, _LAST = 240, 24
# Objects of a file that are given a key that no format knows, values that are spoilt.
_PROBES, _SPOILS = 60, 60
_PROBE = "unheard_of"
_STREAM_BYTES = 4 * 1024 * 1024

HOSTILE: tuple[bytes, ...] = (
    *(b"", b" \n\t", b"\xef\xbb\xbf", b"\x00\x01\x02\xff\xfe"),  # no text
    *(b"null", b"[]", b"{}", b"[[]]", b"7", b'"text"'),  # no record
    *(b"[" * 2_000, b'{"a":' * 2_000),  # too deep
    *(b'{"a": NaN, "b": -Infinity, "c": 1e999}', b'{"a": ' + b"9" * 5_000 + b"}"),  # no number
    *(b'{"a": "\\ud800", "b": "\\udc00\\ud800"}', b'{"a": "\\u0000", "a": 1}'),  # no character
    *(b'{"a": "\xff\xfe"}', b"PK\x03\x04" + b"\x00" * 40, b"PAR1" + b"\x00" * 40),  # other bytes
)
# In place of a value: what JSON may say there and no recorder does.
_SPOILERS: tuple[bytes, ...] = (
    *(b"null", b"true", b"-1", b"NaN", b"1e999", b"123456789012345678901234567890"),
    *(b'"\\ud800"', b'"a\\u0000b"', b"[[[]]]", b'{"a": 1, "a": 2}', b"[" * 300 + b"]" * 300),
)
_MARK = "\ue000spoil\ue000"


def cut_files_are_told(subject: FormatSubject) -> Iterator[str]:
    """A file cut anywhere gives runs and a quarantined record, or one line of error."""
    size = len(subject.content)
    for at in sorted({*range(1, size, max(1, size // _CUTS)), *range(max(1, size - _LAST), size)}):
        read = subject.read(subject.content[:at])
        yield from _check_told(read, at, f"cut at byte {at}")
        if read.items or read.refused is not None or read.crashed is not None:
            continue
        if subject.documents is None or not subject.content[at:].strip():
            continue  # a table may end behind any row, its first one too
        yield f"cut at byte {at}: nothing comes out, not even a quarantined record"


def hostile_bytes_are_told(subject: FormatSubject) -> Iterator[str]:
    """Any bytes give runs, a quarantined record or one line of error; sniffing never raises."""
    for content in HOSTILE:
        shown = repr(content[:24])
        yield from _check_told(subject.read(content), len(content), f"of bytes {shown}")
        sure = subject.form.sniff(content)
        if not 0 <= sure <= 1:
            yield f"of bytes {shown}: sniff gives {sure!r}; expected 0 to 1"


def hostile_values_are_told(subject: FormatSubject) -> Iterator[str]:
    """NaN, halves of characters, huge numbers, depth and wrong types within a record are told."""
    places = list(_places(subject.documents or ()))
    for at in range(0, len(places), max(1, len(places) // _SPOILS)):
        for way in (at, at + 1):
            spoiler = _SPOILERS[way % len(_SPOILERS)]
            place = places[at]
            documents = [copy.deepcopy(value) for value in subject.documents or ()]
            holder: Json = documents
            for key in place[:-1]:
                holder = holder[key]
            holder[place[-1]] = _MARK
            mark, whole = msgspec.json.encode(_MARK), encode_documents(tuple(documents))
            content = whole.replace(mark, spoiler, 1)
            read = subject.read(content)
            shown = "".join([f"[{key}]" if isinstance(key, int) else f".{key}" for key in place])
            where = f"with {spoiler[:32]!r} at {shown}"
            yield from _check_told(read, len(content), where)
            for run in read.runs:
                try:
                    again = msgspec.json.decode(msgspec.json.encode(run), type=type(run))
                except (msgspec.MsgspecError, UnicodeError, OverflowError, RecursionError) as e:
                    yield f"{where}: a run that cannot be stored ({e}); decode with safety.json"
                    continue
                if [step.index for step in again.steps] != list(range(len(again.steps))):
                    yield f"{where}: steps {[step.index for step in again.steps]}; count from 0"


def _places(documents: tuple[Json, ...]) -> Iterator[tuple[Json, ...]]:
    waiting: list[tuple[tuple[Json, ...], Json]] = [((), list(documents))]
    while waiting:
        way, value = waiting.pop()
        for key, found in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*way, key)
            if isinstance(found, dict | list):
                waiting.append(((*way, key), found))


def _check_told(read: ReadResult, size: int, where: str) -> Iterator[str]:
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


def unknown_keys_are_kept(subject: FormatSubject) -> Iterator[str]:
    """A key that the format does not know is kept, in `extra` or among the spans."""
    documents = copy.deepcopy(subject.documents or ())
    found = [each for value in documents for each in walk_objects(value) if not _is_closed(each[1])]
    probed = found[:: max(1, len(found) // _PROBES)]
    for at, (_, held) in enumerate(probed):
        told = {f"{_PROBE}_{at}": f"kept-{at}-kept", **held}
        held.clear()
        held.update(told)
    read = subject.read(encode_documents(documents))
    yield from _check_told(read, len(encode_documents(documents)), "with unknown keys")
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


def bad_records_are_counted(subject: FormatSubject) -> Iterator[str]:
    """A record that is none of its own is set aside or told of, and the others are read."""
    documents = subject.documents
    if documents is None:
        return
    if len(documents) == 1 and isinstance(documents[0], list):
        read = subject.read(encode_documents(([*documents[0], 7],)))
    elif subject.is_lines:
        read = subject.read(encode_documents(documents) + b'{"broken": \n')
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


def lines_are_streamed(subject: FormatSubject) -> Iterator[str]:
    """Where every line is a run, the first comes out before the file is read to its end."""
    if not subject.is_lines or not subject.documents:
        return
    once = encode_documents(subject.documents)
    content = once * (_STREAM_BYTES // len(once) + 1)
    file = io.BytesIO(content)
    first = next(iter(subject.form.read(Stream(file, subject.uri))), None)
    if first is None or file.tell() > len(content) // 2:
        yield f"{file.tell()} of {len(content)} bytes are read before the first run; read by line"


SAMPLES = Path(__file__).with_name("samples")
# As sure as a format may be of a file of another.
_UNSURE = 0.2
# Lines of one rule that are told; the rest is counted.
_MOST_LINES = 3

Rule = Callable[[FormatSubject], Iterator[str]]


class FormatFault(AssertionError):
    """A format does not keep what formats promise; one line for every rule that is broken."""


class FormatChecked(NamedTuple):
    """What was checked: print it."""

    format: str
    files: int
    runs: int
    rules: int

    def __str__(self) -> str:
        return f"{self.format}: {self.rules} rules hold on {self.files} files with {self.runs} runs"


def check_format(format: Format | str, *files: str | Path) -> FormatChecked:
    """Check a format on files of its own, at least one of them with a run in it.

    Args:
        format: the format itself, its installed name, or `FILE.py:NAME`.
        files: files that it reads; small ones do, since each is read some hundred times.

    Raises:
        FormatFault: rules are broken; the message has a line for each.
        UsageError: no file is given.
        ConfigError: no such format.
    """
    form = registry.format(format) if isinstance(format, str) else format
    if not files:
        raise UsageError(f"check_format({form.name!r}) needs a file that the format reads")
    subjects = [FormatSubject(form, str(path), read_file(path)) for path in files]
    faults = []
    for subject, rule in product(subjects, RULES):
        lines = list(rule(subject))
        more = [f"{len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
        place = f"{form.name}, {subject.uri}: {rule.__name__}"
        faults += [visible_line(f"{place}: {line}") for line in lines[:_MOST_LINES] + more]
    if faults:
        raise FormatFault("\n".join(faults))
    return FormatChecked(
        form.name, len(subjects), sum([len(subject.runs) for subject in subjects]), len(RULES)
    )


def knows_its_own(subject: FormatSubject) -> Iterator[str]:
    """The first bytes of its own files make it sure, and surer than any installed format."""
    head = subject.content[:HEAD_BYTES]
    sure = subject.form.sniff(head)
    if not SURE <= sure <= 1:
        yield f"sniff gives {sure!r} for its own file; expected {SURE} to 1"
        return
    if subject.form.sniff(head) != sure:
        yield "sniff gives another answer when it is asked again"
    for other in [form for form in registry.installed_formats() if form.name != subject.form.name]:
        theirs = other.sniff(head)
        if theirs > sure - MARGIN:
            yield f"{other.name} is as sure of the file: {theirs} against {sure}"


def leaves_others_alone(subject: FormatSubject) -> Iterator[str]:
    """It is not sure of files of other formats."""
    for sample in sample_files():
        if sample.stem == subject.form.name:
            continue
        sure = subject.form.sniff(sample.read_bytes()[:HEAD_BYTES])
        if sure > _UNSURE:
            yield f"sniff gives {sure} for a file of {sample.stem}; look at keys that it lacks"


def sample_files() -> list[Path]:
    """Return the small files that come with this package, one of each format."""
    return sorted(path for path in SAMPLES.iterdir() if path.is_file())


RULES: tuple[Rule, ...] = (
    *(knows_its_own, leaves_others_alone, reads_its_own, yields_typed),
    *(same_every_time, name_is_nothing, key_order_is_nothing, ids_are_content),
    *(steps_are_numbered, calls_and_results_are_told, beliefs_have_sources),
    *(counts_are_counts, absence_is_none, comes_back_from_ours, unknown_keys_are_kept),
    *(bad_records_are_counted, cut_files_are_told, hostile_bytes_are_told),
    *(hostile_values_are_told, lines_are_streamed),
)
