"""Write runs as OTLP JSON, with their verdicts: what any tracing backend can take and show.

A run that was recorded as spans is written as those spans, ids and attributes as they were; any
other as spans of the GenAI conventions, under ids derived from its own. Reading it back gives the
same run (docs/formats/otlp.md has the table of what is lost). Nothing is sent anywhere here.
Source: OTLP specification 1.9; open-telemetry/semantic-conventions-genai.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO, NamedTuple

import msgspec

from stepscope.formats.building import oddities
from stepscope.formats.otlp_any import TRACE_DIGITS, group, id_of, read_back, record, scoped
from stepscope.formats.otlp_made import made
from stepscope.formats.otlp_marks import MARK, SCHEMA, SCHEMA_KEY, SPANS_KEY, packed
from stepscope.formats.otlp_protobuf import protobuf
from stepscope.formats.otlp_recorded import recorded
from stepscope.formats.otlp_residue import difference
from stepscope.formats.otlp_restore import base_of
from stepscope.formats.otlp_verdicts import Verdicts, judged
from stepscope.formats.spans.assembling import draft_of
from stepscope.formats.spans.span import Span
from stepscope.model import Json, Record, Source, Trajectory, Warn
from stepscope.safety.limits import Limits

__all__ = ["Request", "Verdicts", "Written", "protobuf", "requests", "write"]

# Runs, each with the records about it.
Scored = Iterable[tuple[Trajectory, Sequence[Record]]]

# Receivers refuse bodies over some 20 MiB, readers lines over 16: a long run is several requests.
_BODY_BYTES = 4 * 1024 * 1024
_SERVICE = {"service.name": "stepscope"}
_LIMITS = Limits()
_NAME = "otlp"


class Request(NamedTuple):
    """One ExportTraceServiceRequest as JSON, and what of which run is in it.

    Attributes:
        body: what is POSTed as `application/json`, or written as a line; no line break in it.
        run: the id of the run.
        spans: how many of its spans are in this request.
        verdicts: how many verdicts stand on them.
    """

    body: bytes
    run: str
    spans: int
    verdicts: int


class Written(NamedTuple):
    """How much was written."""

    runs: int
    spans: int
    verdicts: int


def requests(
    scored: Scored,
    *,
    verdicts: Verdicts = "gen_ai",
    resource: Mapping[str, Json] | None = None,
    placed_at: int | None = None,
) -> Iterator[Request]:
    """Yield the requests that hold runs, one run after the other; a long run takes several.

    Args:
        scored: runs, each with the records that are to stand on its spans.
        verdicts: as events of the GenAI conventions, as OpenInference's attributes, or not at all.
        resource: attributes of the resource beside what is recorded (a backend's project, say).
        placed_at: nanoseconds since 1970 where spans of runs without any time begin; None leaves
            them without times, which is true and which backends show at 1970.
    """
    given: set[str] = set()
    for run, records in scored:
        spans, homes, root = _spans(run, given, dict(resource or {}), placed_at)
        told = _by_span(spans, homes, root, () if verdicts == "none" else records)
        counts = [len(told.get(at, ())) for at in range(len(spans))]
        yield from _bodies(run.id, judged(spans, told, verdicts), counts)


def write(scored: Scored, file: BinaryIO, *, verdicts: Verdicts = "gen_ai") -> Written:
    """Write runs as OTLP JSON lines, one request a line; return how much of what."""
    runs, spans, count = set[str](), 0, 0
    for request in requests(scored, verdicts=verdicts):
        file.write(request.body + b"\n")
        runs.add(request.run)
        spans += request.spans
        count += request.verdicts
    return Written(len(runs), spans, count)


def _spans(
    run: Trajectory, given: set[str], resource: dict[str, Json], placed_at: int | None
) -> tuple[list[Span], list[str], int]:
    """Return the spans of a run, the span of each step, and the position of the root, marked."""
    if run.spans:
        wanted = id_of(run.source.run_id or run.id, TRACE_DIGITS)
        # Another run may have been read from the same trace: two runs are never one trace.
        trace_id = id_of(run.id, TRACE_DIGITS) if wanted in given else wanted
        given.add(trace_id)
        spans, root, homes = recorded(run, trace_id)
        order = {**spans[root].attributes, SPANS_KEY: packed([span.span_id for span in spans])}
        spans[root] = msgspec.structs.replace(spans[root], attributes=order)
    else:
        spans, homes = made(run, {**_SERVICE, **resource}, placed_at)
        root, resource = 0, {}
        trace_id = spans[0].trace_id
    about = {**spans[root].attributes, SCHEMA_KEY: SCHEMA, MARK: packed(_residue(run, spans))}
    spans[root] = msgspec.structs.replace(spans[root], attributes=about)
    if resource:
        spans = [
            msgspec.structs.replace(span, resource={**span.resource, **resource}) for span in spans
        ]
    return spans, homes, root


def _residue(run: Trajectory, spans: list[Span]) -> dict[str, Json]:
    """Return what reading the spans back would get wrong of the run."""
    back = [read_back(span) for span in spans]
    source = Source(format=_NAME, run_id=back[0].trace_id)
    base = base_of(back, source, _LIMITS, lambda found: draft_of(found, source, _LIMITS, None))
    # Where a run was read is this machine's business: paths are not written.
    here = msgspec.structs.replace(run.source, uri=base.source.uri, offset=base.source.offset)
    told = msgspec.structs.replace(run, source=here, warnings=_own_warnings(run))
    return difference(told, base, skip="id")


def _own_warnings(run: Trajectory) -> tuple[Warn, ...]:
    """Return the warnings that reading the steps again would not give by itself."""
    again = oddities(run.steps)
    return tuple([warning for warning in run.warnings if warning not in again])


def _by_span(
    spans: list[Span], homes: list[str], root: int, records: Sequence[Record]
) -> dict[int, list[Record]]:
    """Return records by the position of the span that they are about."""
    places = {span.span_id: at for at, span in enumerate(spans)}
    found: dict[int, list[Record]] = {}
    for told in records:
        step = told.answer.step
        at = root if step is None or not 0 <= step < len(homes) else places[homes[step]]
        found.setdefault(at, []).append(told)
    return found


def _bodies(run: str, spans: list[Span], counts: list[int]) -> Iterator[Request]:
    held: list[tuple[Span, msgspec.Raw]] = []
    size = verdicts = 0
    for span, count in zip(spans, counts, strict=True):
        raw = msgspec.Raw(msgspec.json.encode(record(span)))
        if held and size + len(bytes(raw)) > _BODY_BYTES:
            yield Request(_body(held), run, len(held), verdicts)
            held, size, verdicts = [], 0, 0
        held.append((span, raw))
        size += len(bytes(raw))
        verdicts += count
    yield Request(_body(held), run, len(held), verdicts)


def _body(held: list[tuple[Span, msgspec.Raw]]) -> bytes:
    """Return spans as one request, in their order; neighbours of one resource share a group."""
    groups: list[dict[str, Json]] = []
    for span, raw in held:
        about, inside = group(span), scoped(span)
        if not groups or groups[-1]["resource"] != about["resource"]:
            groups.append({**about, "scopeSpans": []})
        scopes = groups[-1]["scopeSpans"]
        if not scopes or scopes[-1].get("scope") != inside.get("scope"):
            scopes.append({**inside, "spans": []})
        scopes[-1]["spans"].append(raw)
    return msgspec.json.encode({"resourceSpans": groups})
