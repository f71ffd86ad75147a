"""Restore runs of ours from the spans that `otlp.write` wrote, and write verdicts on spans.

The mark on a trace's root says that it is one of ours and keeps what spans cannot say of a run: the
residue, which is whatever reading the written form back would get wrong, field by field. A trace
that lost spans, or whose mark cannot be read, is read like any other, with a warning.

Verdicts are events `gen_ai.evaluation.result` of the span that a verdict is about, or
OpenInference's attributes `evaluations.{i}.evaluation.*` of it. What could not be measured has no
score: an event carries `error.type`, an attribute the kind in its metadata. Provenance stands under
`stepscope.*`. Verdicts on spans are not read back: they are counted in a warning.
Source: open-telemetry/semantic-conventions-genai, `gen-ai-events.md`;
openinference-semantic-conventions 0.1.42, `EvaluationAttributes`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, TypeVar

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.fields import tool_defs
from stepscope.formats.otlp.messages import (
    COUNT_KEY,
    RUN_KEY,
    SCHEMA,
    SCHEMA_KEY,
    SCOPE,
    SPAN_KEY,
    SPANS_KEY,
    STEPS_KEY,
    pack_attribute,
    read_span_steps,
    read_span_usage,
    span_instant,
)
from stepscope.formats.spans.attributes import decode_object
from stepscope.formats.spans.span import RawSpan, SpanEvent
from stepscope.model import Json, Record, Source, Step, Trajectory, Verdict, Warn
from stepscope.safety.limits import Limits

T = TypeVar("T", bound=msgspec.Struct)

# A field is kept whole, or by what differs inside it.
_WHOLE, _INSIDE = "whole", "inside"


def find_residue(value: msgspec.Struct, back: msgspec.Struct, *, skip: str = "") -> dict[str, Json]:
    """Return the fields of `value` that `back` has otherwise, without those named in `skip`."""
    skipped = skip.split()
    found: dict[str, Json] = {}
    for name in value.__struct_fields__:
        mine, theirs = getattr(value, name), getattr(back, name)
        if name not in skipped and mine != theirs:
            found[name] = _differing(mine, theirs)
    return found


def _differing(mine: Any, theirs: Any) -> Json:
    if isinstance(mine, tuple) and isinstance(theirs, tuple) and len(mine) == len(theirs):
        pairs = list(enumerate(zip(mine, theirs, strict=True)))
        if all(isinstance(a, msgspec.Struct) and type(a) is type(b) for _, (a, b) in pairs):
            return {_INSIDE: {str(at): find_residue(a, b) for at, (a, b) in pairs if a != b}}
    if isinstance(mine, dict) and isinstance(theirs, dict) and theirs.keys() <= mine.keys():
        return {_INSIDE: {k: v for k, v in mine.items() if k not in theirs or theirs[k] != v}}
    return {_WHOLE: msgspec.to_builtins(mine)}


def apply_residue(value: T, residue: Json) -> T:
    """Return `value` with a residue put back.

    Raises:
        TraceError: the residue is none of `value`.
        msgspec.ValidationError: a field of another type than ours.
    """
    if not isinstance(residue, dict):
        raise TraceError(f"what is kept beside is {str(residue)[:60]!r}; expected an object")
    if not residue:
        return value
    kinds = _kinds(type(value))
    if strange := [name for name in residue if name not in kinds]:
        raise TraceError(f"what is kept beside names {strange[0]!r}, a field that is none of ours")
    fields = {
        name: _put_back(getattr(value, name), kept, kinds[name]) for name, kept in residue.items()
    }
    return msgspec.structs.replace(value, **fields)


@cache
def _kinds(struct: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(struct)}


def _put_back(value: Any, kept: Json, kind: Any) -> Any:
    about = kept if isinstance(kept, dict) else {}
    if _WHOLE in about:
        return msgspec.convert(about[_WHOLE], kind)
    inside = about.get(_INSIDE)
    if isinstance(inside, dict) and isinstance(value, dict):
        return {**value, **inside}
    if isinstance(inside, dict) and isinstance(value, tuple) and set(inside) <= _places(value):
        return tuple(
            [apply_residue(each, inside.get(str(at), {})) for at, each in enumerate(value)]
        )
    raise TraceError(f"what is kept beside does not fit: {str(kept)[:60]!r}")


def _places(value: tuple[Any, ...]) -> set[str]:
    return {str(at) for at, each in enumerate(value) if isinstance(each, msgspec.Struct)}


Verdicts = Literal["gen_ai", "openinference", "none"]

EVENT = "gen_ai.evaluation.result"
_OURS = "stepscope.version"
_KINDS = {"rules": "CODE", "human": "HUMAN"}
_PREFIX = "evaluations."
_LIMITS = Limits()


def attach_verdicts(
    spans: list[RawSpan], records: Mapping[int, Iterable[Record]], how: Verdicts
) -> list[RawSpan]:
    """Return spans with the records about each of them, by position."""
    return [
        _with(span, list(records[at]), how) if at in records else span
        for at, span in enumerate(spans)
    ]


def _with(span: RawSpan, records: list[Record], how: Verdicts) -> RawSpan:
    if how == "gen_ai":
        events = [_event(record, span) for record in records]
        return msgspec.structs.replace(span, events=(*span.events, *events))
    first = _next(span.attributes)
    added: dict[str, Json] = {}
    for at, record in enumerate(records, first):
        added |= {f"{_PREFIX}{at}.evaluation.{key}": found for key, found in _fields(record)}
    return msgspec.structs.replace(span, attributes={**span.attributes, **added})


def _event(record: Record, span: RawSpan) -> SpanEvent:
    answer = record.answer
    prefix = "gen_ai.evaluation."
    about: dict[str, Json] = {f"{prefix}name": answer.measure}
    if isinstance(answer, Verdict):
        about |= {f"{prefix}score.value": answer.value, f"{prefix}score.label": answer.label}
    else:
        about["error.type"] = answer.kind
    about[f"{prefix}explanation"] = answer.reason or None
    about["gen_ai.response.id"] = span.attributes.get("gen_ai.response.id")
    about |= {f"stepscope.{key}": value for key, value in _provenance(record).items()}
    told = {key: value for key, value in about.items() if value is not None}
    return SpanEvent(name=EVENT, time_ns=span.end_ns or span.start_ns, attributes=told)


def _provenance(record: Record) -> dict[str, Json]:
    """Return what the conventions have no name for; the version marks a verdict of ours."""
    answer = record.answer
    about: dict[str, Json] = {
        "version": record.version,
        "family": record.family,
        "step": answer.step,
        "case": record.case,
        "facts": record.facts,
        "judge": record.judge,
        "rubric": record.rubric,
        "prompt": record.prompt,
        "repeat": record.repeat or None,
        "cost_usd": record.cost_usd,
        "seconds": record.seconds,
    }
    if isinstance(answer, Verdict):
        about |= {"cites": list(answer.cites) or None, "confidence": answer.confidence}
    if record.usage is not None:
        about["usage"] = pack_attribute(msgspec.to_builtins(record.usage))
    return {key: value for key, value in about.items() if value is not None and value != ""}


def _fields(record: Record) -> list[tuple[str, Json]]:
    answer = record.answer
    beside = {f"stepscope.{key}": value for key, value in _provenance(record).items()}
    about: dict[str, Json] = {"name": answer.measure}
    if isinstance(answer, Verdict):
        about |= {"score": answer.value, "label": answer.label}
    else:
        beside["stepscope.unmeasured"] = answer.kind
    about |= {
        "explanation": answer.reason or None,
        "annotator_kind": _KINDS.get(record.family, "LLM"),
        "identifier": record.judge or f"stepscope {answer.measure} {record.version}",
        "metadata": pack_attribute(beside),
    }
    return [(key, value) for key, value in about.items() if value is not None]


def _next(about: Mapping[str, Json]) -> int:
    """Return the first place behind the evaluations that a span has already."""
    taken = [
        int(place)
        for key in about
        if key.startswith(_PREFIX)
        and (place := key.removeprefix(_PREFIX).split(".")[0]).isdecimal()
        and len(place) < 7
    ]
    return max(taken, default=-1) + 1


def detach_verdicts(span: RawSpan) -> tuple[RawSpan, int]:
    """Return a span without the verdicts that we wrote on it, and how many those are."""
    events = tuple([event for event in span.events if not _is_ours(event)])
    count = len(span.events) - len(events)
    ours = [
        key.removesuffix("metadata")
        for key, value in span.attributes.items()
        if key.startswith(_PREFIX) and key.endswith(".evaluation.metadata") and _is_mark(value)
    ]
    if not count and not ours:
        return span, 0
    about = {
        key: value
        for key, value in span.attributes.items()
        if not key.startswith(_PREFIX) or not key.startswith(tuple(ours))
    }
    return msgspec.structs.replace(span, events=events, attributes=about), count + len(ours)


def _is_ours(event: SpanEvent) -> bool:
    return event.name == EVENT and _OURS in event.attributes


def _is_mark(value: Json) -> bool:
    found = decode_object(value, _LIMITS)
    return isinstance(found, dict) and _OURS in found


# Reads the spans of a trace as those of any recorder.
Draft = Callable[[list[RawSpan]], Trajectory]

_OWN = ("gen_ai.", "stepscope.", "error.type")
_MARKS = frozenset({RUN_KEY, SCHEMA_KEY, SPAN_KEY, SPANS_KEY})


def restore_run(
    spans: Sequence[RawSpan], source: Source, limits: Limits, draft: Draft
) -> Trajectory | None:
    """Return the run that a trace of ours holds, without its id; None where it is not of ours."""
    marked = [span for span in spans if RUN_KEY in span.attributes]
    if not marked:
        return None
    clean, verdicts = _without_verdicts(spans)
    try:
        run = _restored(clean, marked[-1], source, limits, draft)
    except (TraceError, msgspec.ValidationError) as e:
        run = draft(clean)
        lost = Warn("not_restored", f"read as any recorder's: {e}")
        run = msgspec.structs.replace(run, warnings=(*run.warnings, lost))
    if not verdicts:
        return run
    told = Warn("verdicts_not_read", f"{verdicts} verdicts of stepscope on its spans are left out")
    return msgspec.structs.replace(run, warnings=(*run.warnings, told))


def _without_verdicts(spans: Sequence[RawSpan]) -> tuple[list[RawSpan], int]:
    bare = [detach_verdicts(span) for span in spans]
    return [span for span, _ in bare], sum([count for _, count in bare])


def _restored(
    spans: list[RawSpan], root: RawSpan, source: Source, limits: Limits, draft: Draft
) -> Trajectory:
    schema = root.attributes.get(SCHEMA_KEY)
    if schema != SCHEMA:
        raise TraceError(f"spans of schema {schema!r}; this version reads {SCHEMA}")
    run = apply_residue(
        draft_without_residue(spans, source, limits, draft),
        decode_object(root.attributes[RUN_KEY], limits),
    )
    here = msgspec.structs.replace(run.source, uri=source.uri, offset=source.offset)
    return msgspec.structs.replace(run, source=here)


def draft_without_residue(
    spans: list[RawSpan], source: Source, limits: Limits, draft: Draft
) -> Trajectory:
    """Return what spans of ours say of a run by themselves.

    Raises:
        TraceError: spans are missing, or what is kept beside them does not fit.
        msgspec.ValidationError: the same.
    """
    root = next((span for span in spans if COUNT_KEY in span.attributes), None)
    if root is None:
        return draft([_original(span, limits) for span in _in_order(spans, limits)])
    if foreign := [span.span_id for span in spans if span.scope != SCOPE]:
        raise TraceError(f"{len(foreign)} spans of others are among them, {foreign[0]!r} first")
    steps = [step for span in spans for step in _steps(span, limits)]
    steps.sort(key=lambda step: step.index)
    if len(steps) != root.attributes[COUNT_KEY]:
        raise TraceError(f"{len(steps)} of {root.attributes[COUNT_KEY]!r} steps are there")
    about = root.attributes
    session = _text(about, "gen_ai.conversation.id")
    tools = decode_object(about.get("gen_ai.tool.definitions"), limits)
    return Trajectory(
        id="",
        name="",
        steps=tuple(steps),
        source=source,
        workflow=_text(about, "gen_ai.workflow.name") or "",
        agent=_text(about, "gen_ai.agent.name"),
        agent_version=_text(about, "gen_ai.agent.version"),
        tags={} if session is None else {"session": session},
        tools=tool_defs(tools) if isinstance(tools, list) else None,
        usage=read_span_usage(about),
        start=span_instant(root.start_ns),
        end=span_instant(root.end_ns),
        extra=_added(spans),
    )


def _text(about: Mapping[str, Json], key: str) -> str | None:
    value = about.get(key)
    return value if isinstance(value, str) else None


def _steps(span: RawSpan, limits: Limits) -> list[Step]:
    if STEPS_KEY not in span.attributes:
        return []
    kept = decode_object(span.attributes[STEPS_KEY], limits)
    told = read_span_steps(span, limits)
    if not isinstance(kept, list) or len(kept) != len(told):
        raise TraceError(f"span {span.span_id!r} tells {len(told)} steps and keeps others beside")
    return [apply_residue(step, residue) for step, residue in zip(told, kept, strict=True)]


def _in_order(spans: list[RawSpan], limits: Limits) -> list[RawSpan]:
    """Return recorded spans in the order in which they were first read."""
    listed = next((s.attributes[SPANS_KEY] for s in spans if SPANS_KEY in s.attributes), None)
    order = decode_object(listed, limits)
    waiting: dict[str, list[RawSpan]] = {}
    for span in reversed(spans):
        waiting.setdefault(span.span_id, []).append(span)
    if not isinstance(order, list) or Counter(order) != {k: len(v) for k, v in waiting.items()}:
        raise TraceError(f"{len(spans)} spans are there, not those that were written")
    return [waiting[span_id].pop() for span_id in order]


def _original(span: RawSpan, limits: Limits) -> RawSpan:
    """Return a span as it was recorded, without our marks."""
    about = {k: v for k, v in span.attributes.items() if k not in _MARKS}
    bare = msgspec.structs.replace(span, attributes=about)
    kept = span.attributes.get(SPAN_KEY)
    return bare if kept is None else apply_residue(bare, decode_object(kept, limits))


def _added(spans: Sequence[RawSpan]) -> dict[str, Json] | None:
    """Return what others put on our spans on their way, by the id of the span."""
    found: dict[str, Json] = {}
    for span in spans:
        more = {k: v for k, v in span.attributes.items() if not k.startswith(_OWN)}
        if span.events:
            more["events"] = [msgspec.to_builtins(event) for event in span.events]
        if more:
            found[span.span_id] = more
    return {"added_to_spans": found} if found else None
