"""What the backends share: a pull with its remarks, and verdicts as evaluations of spans.

An `Evaluation` is a name, a score or a label, and the span that it is about. What is unmeasured
has no place in a backend and is not sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import NamedTuple, TypeVar

import msgspec

from stepscope.backends.client import BackendName, Client, TooLarge
from stepscope.errors import EnvironmentFault
from stepscope.formats.otlp.protobuf import encode_protobuf
from stepscope.formats.otlp.values import SPAN_DIGITS, TRACE_DIGITS, make_id
from stepscope.formats.otlp.write import find_root, restore_spans, synthesise_spans
from stepscope.formats.spans.assemble import group_by_trace, read_traces
from stepscope.formats.spans.span import RawSpan
from stepscope.model import Json, Quarantined, Record, Source, Trajectory, Verdict
from stepscope.model.records import ANNOTATORS, Annotator
from stepscope.safety.json import Decoded, Repair
from stepscope.safety.limits import Limits

T = TypeVar("T")
PulledItem = Trajectory | Quarantined
# Where a pull ended, in the words of its backend; kept between pulls.
PullMark = dict[str, Json]


class PullNotes:
    """What was withheld, by what it is, and where the pull ends: None until it is at its end."""

    def __init__(self) -> None:
        self.withheld: Counter[str] = Counter()
        self.mark: PullMark | None = None


class PullQuery(NamedTuple):
    """One pull."""

    client: Client  # the host
    place: str  # the project or experiment
    uri: str  # what the runs say of where they are from
    # only traces that began then or later, nanoseconds since 1970; None for all
    since_ns: int | None
    # where the previous pull ended; None where there was none, or it does not matter
    mark: PullMark | None
    limits: Limits  # of what is decoded
    told: PullNotes  # where to put what is told

    def withhold(self, what: str, count: int) -> None:
        """Note how often the backend kept something back; nothing where it did not."""
        if count > 0:
            self.told.withheld[what] += count


def send_protobuf(client: Client, path: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Send one request of OTLP in protobuf."""
    kind = "application/x-protobuf"
    client.send("POST", path, content=encode_protobuf(body), kind=kind, headers=headers)


def in_batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of at most `size`."""
    left = iter(items)
    while batch := list(islice(left, size)):
        yield batch


def list_objects(reply: Decoded, key: str, asked: PullQuery) -> list[dict[str, Json]]:
    """Return the list of objects under a key of a reply."""
    value = reply.value
    listed = value.get(key, []) if isinstance(value, dict) else None
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise asked.client.access.misdirected(f"a list of objects under {key!r}")
    return listed


def iter_pages(
    ask: Callable[[int, dict[str, str]], Decoded],  # of what length, and what names the page
    most: int,  # the length that is asked for first
    asked: PullQuery,
    *path: str,  # where in a page the cursor of the next one stands
    name: str = "cursor",  # under which it is sent
) -> Iterator[Decoded]:
    """Yield pages; one that is too large is asked for in parts."""
    length, cursor, seen = most, dict[str, str](), set[str]()
    while True:
        try:
            page = ask(length, cursor)
        except TooLarge:
            if length == 1:
                raise
            length = max(1, length // 8)
            continue
        yield page
        found = page.value
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        if found is None or found == "":
            return
        if str(found) in seen:
            host = asked.client.access.host
            raise EnvironmentFault(f"{host} gives the same page twice; what came before it is kept")
        seen.add(str(found))
        cursor = {name: str(found)}


def assemble_runs(
    spans: Sequence[RawSpan], asked: PullQuery, *, format: str, repairs: Sequence[Repair] = ()
) -> Iterator[PulledItem]:
    """Yield the runs of whole traces; parents that did not come with them are counted."""
    ordered = sorted(spans, key=lambda span: (span.start_ns or 0, span.span_id))
    for members in group_by_trace(ordered).values():
        ids = {span.span_id for span in members}
        named = {span.parent_id for span in members if span.parent_id}
        asked.withhold("spans referenced and not returned", len(named - ids))
    source = Source(format=format, uri=asked.uri)
    yield from read_traces(ordered, source=source, limits=asked.limits, extra=None, repairs=repairs)


def quarantine_reply(record: Json, reason: str, asked: PullQuery) -> Quarantined:
    """Return a record that could not be read, with its bytes."""
    return Quarantined(reason=reason, offset=0, raw=msgspec.json.encode(record), uri=asked.uri)


class Evaluation(NamedTuple):
    """One verdict for one place."""

    key: str  # tells this verdict from every other on the same run; the same whenever it is sent
    name: str  # the measure
    trace: str  # the trace's id
    span: str | None  # the span's id; None where it is about the whole run
    root: str  # the span that stands for the whole run, where a backend knows no traces
    value: float | None  # finite, or None where there is a label only
    label: str | None  # or None
    reason: str  # in words; may be ""
    annotator: Annotator  # who said it
    at_ns: int | None  # when the run ended, nanoseconds since 1970; None where that is not known
    about: dict[str, Json]  # provenance, for people and for us


def separate_trace(run: Trajectory, given: set[str]) -> Trajectory:
    """Return a run under a trace of its own where another run was read from the same one."""
    wanted = make_id(run.source.run_id or run.id, TRACE_DIGITS)
    if wanted in given:
        source = msgspec.structs.replace(run.source, run_id=run.id)
        run, wanted = msgspec.structs.replace(run, source=source), make_id(run.id, TRACE_DIGITS)
    given.add(wanted)
    return run


def list_evaluations(
    run: Trajectory, records: Iterable[Record], backend: BackendName
) -> list[Evaluation]:
    """Return the verdicts among the records of a run; what is unmeasured has no place.

    A run that was read from this very backend is there under its own ids; any other under those of
    its recorder, or those that it is written under.
    """
    if run.source.format == backend and run.spans:
        ids = {span.id for span in run.spans}
        root = next((span.id for span in run.spans if span.parent not in ids), run.spans[0].id)
        trace = run.source.run_id or root
        told = (run.extra or {}).get("trace")
        if backend == "mlflow" and isinstance(told, dict):
            trace = str(told.get("trace_id") or told.get("request_id") or trace)
        homes = [step.span if step.span in ids else root for step in run.steps]
    else:
        spans, homes = restore_spans(run) if run.spans else synthesise_spans(run, {}, None)
        top = spans[find_root(spans)]
        trace, root = top.trace_id, top.span_id
    last = run.end or run.start
    found: list[Evaluation] = []
    for record in records:
        answer = record.answer
        if not isinstance(answer, Verdict):
            continue
        step = answer.step
        question = (answer.measure, step, record.judge, record.repeat)
        about: dict[str, Json] = {"stepscope": answer.measure, "version": record.version}
        about |= {"step": step, "cites": list(answer.cites) or None}
        about |= {"confidence": answer.confidence, "judge": record.judge or None}
        about["rubric"] = record.rubric or None
        evaluation = Evaluation(
            key=make_id(msgspec.json.encode(question).decode(), SPAN_DIGITS),
            name=answer.measure,
            trace=trace,
            span=homes[step] if step is not None and 0 <= step < len(homes) else None,
            root=root,
            value=answer.value,
            label=answer.label,
            reason=answer.reason,
            annotator=ANNOTATORS.get(record.family, "LLM"),
            at_ns=None if last is None else last.ns,
            about={key: value for key, value in about.items() if value is not None},
        )
        found.append(evaluation)
    return found


def iso_time(ns: int) -> str:
    """Return nanoseconds since 1970 as a time with its offset, to the microsecond below."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)).isoformat()
