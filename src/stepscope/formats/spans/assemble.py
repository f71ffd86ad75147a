"""Make runs of spans: one run a trace, in whatever order its spans came.

Several dialects may speak in one span: the first to say anything of a field holds. Every span stays
in the run as recorded (`Trajectory.spans`), whether it made a step or not; what our spans have no
field for stands beside them in `extra`, in the same order. A trace that stepscope exported names
its run, and is read under that run's id, so that a run that comes back is not counted twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.fields import total_usage
from stepscope.formats.finish import Ordinals, finish_run
from stepscope.formats.format import DecodedRecord, decode_records, quarantine_value
from stepscope.formats.spans.attributes import decode_object, find_text, label_evaluation
from stepscope.formats.spans.dialects import (
    gen_ai,
    langfuse,
    langsmith,
    openai_agents,
    openinference,
    vercel,
)
from stepscope.formats.spans.span import (
    EVALUATION_EVENT,
    RUN_KEY,
    VERSION_KEY,
    RawSpan,
    SpanContent,
    SpanStatus,
    limit_trace,
    merge_contents,
)
from stepscope.formats.spans.steps import SpanSteps
from stepscope.formats.spans.tree import SpanTree, assign_roles, build_tree
from stepscope.model import (
    Instant,
    Json,
    Quarantined,
    ResultStatus,
    Source,
    Step,
    Stream,
    ToolDef,
    TraceLabel,
    Trajectory,
    Warn,
)
from stepscope.model import Span as Node
from stepscope.safety.json import Repair
from stepscope.safety.limits import DEFAULT_LIMITS, Limits
from stepscope.values import sum_known

# The most telling first: what one leaves out, the next may say.
_DIALECTS = (
    vercel.read_vercel,
    openai_agents.read_openai_agents,
    openinference.read_openinference,
    langfuse.read_langfuse,
    openinference.read_mlflow,
    langsmith.read_langsmith,
    gen_ai.read_gen_ai,
    gen_ai.read_pydantic_ai,
)
_NO_CONTENT = SpanContent()
_EVALUATION = "gen_ai.evaluation."
# Ids of runs are 32 hex digits.
_RUN_ID = re.compile(r"[0-9a-f]{32}").fullmatch


def read_content(span: RawSpan, limits: Limits) -> SpanContent:
    """Return what a span says; nothing at all where no dialect is spoken."""
    sayings = [said for dialect in _DIALECTS if (said := dialect(span, limits)) is not None]
    found = merge_contents(sayings) if sayings else _NO_CONTENT
    labels = [
        label_evaluation({k.removeprefix(_EVALUATION): v for k, v in e.attributes.items()}, {})
        for e in span.events
        if e.name == EVALUATION_EVENT
    ]
    session = None if found.session is not None else find_text(span.attributes, "session.id")
    failed = found.failed
    if failed is None and span.status == "error":
        raised = [event.attributes for event in span.events if event.name == "exception"]
        told = [find_text(about, "exception.message", "exception.type") for about in raised]
        failed = next((text for text in (span.status_message, *told) if text), None)
        failed = failed or "the span's status is error"
    if not labels and session is None and failed == found.failed:
        return found
    return merge_contents(
        [SpanContent(labels=(*found.labels, *labels), session=session, failed=failed), found]
    )


_STATUSES: dict[SpanStatus, ResultStatus] = {"ok": "ok", "error": "error", "unset": "unknown"}


def assemble(
    spans: Sequence[RawSpan],
    *,
    source: Source,
    ordinals: Ordinals | None = None,
    limits: Limits = DEFAULT_LIMITS,
    extra: Mapping[str, Json] | None = None,
    repairs: Iterable[Repair] = (),
) -> Iterator[Trajectory]:
    """Yield one run for each trace, in the order of their first spans.

    A trace in which no span speaks of an agent is a run without steps, and says so in a warning.
    `ordinals` are the file's, for spans that name no trace. `TraceError` where a run cannot be
    written as JSON, or has more steps or spans than allowed.
    """
    counts = Ordinals() if ordinals is None else ordinals
    told = tuple(repairs)
    for members in group_by_trace(spans).values():
        kept, cut = limit_trace(members, limits)
        # The run that stepscope exported as this trace.
        keys = (span.attributes.get(RUN_KEY) for span in kept)
        run_id = next((key for key in keys if isinstance(key, str) and _RUN_ID(key)), None)
        if run_id is not None:
            kept, warnings = _strip_export(kept, limits)
        draft = _draft_trace(kept, source, limits, extra)
        if run_id is not None:
            draft = msgspec.structs.replace(draft, warnings=(*draft.warnings, *warnings))
        run = finish_run(draft, counts, limits=limits, repairs=(*told, *cut))
        yield run if run_id is None else msgspec.structs.replace(run, id=run_id)


def _strip_export(spans: Sequence[RawSpan], limits: Limits) -> tuple[list[RawSpan], list[Warn]]:
    """Return spans without the run's id and the verdicts of the export, counted in a warning."""
    bare: list[RawSpan] = []
    verdicts = 0
    for span in spans:
        ours = [RUN_KEY]
        for key, value in span.attributes.items():
            if key.startswith("evaluations.") and key.endswith(".evaluation.metadata"):
                about = decode_object(value, limits)
                if isinstance(about, dict) and VERSION_KEY in about:
                    ours.append(key.removesuffix("metadata"))
        verdict = [e.name == EVALUATION_EVENT and VERSION_KEY in e.attributes for e in span.events]
        events = tuple(e for e, is_ours in zip(span.events, verdict, strict=True) if not is_ours)
        verdicts += len(ours) - 1 + len(span.events) - len(events)
        kept = {k: v for k, v in span.attributes.items() if not k.startswith(tuple(ours))}
        bare.append(msgspec.structs.replace(span, events=events, attributes=kept))
    if not verdicts:
        return bare, []
    reason = f"{verdicts} verdicts of stepscope on its spans are left out"
    return bare, [Warn("verdicts_not_read", reason)]


def group_by_trace(spans: Iterable[RawSpan]) -> dict[str, list[RawSpan]]:
    """Return spans by the trace that they are of, in the order in which they came."""
    traces: dict[str, list[RawSpan]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(span)
    return traces


def read_traces(
    spans: Iterable[RawSpan],
    *,
    source: Source,
    limits: Limits,
    extra: Mapping[str, Json] | None,
    repairs: Iterable[Repair],
) -> Iterator[Trajectory | Quarantined]:
    """Yield the runs of a file of spans; a trace that makes none is quarantined, with its spans."""
    counts, told = Ordinals(), tuple(repairs)
    for members in group_by_trace(spans).values():
        try:
            yield from assemble(
                members, source=source, ordinals=counts, limits=limits, extra=extra, repairs=told
            )
        except TraceError as e:
            yield quarantine_value(source, members, e)


def read_span_file(
    stream: Stream,
    name: str,
    members: Callable[[DecodedRecord, dict[str, Json]], Iterator[RawSpan | Quarantined]],
) -> Iterator[Trajectory | Quarantined]:
    """Yield the runs of a file of spans; `members` gives those of a record, and what is beside."""
    spans: list[RawSpan] = []
    repairs: list[Repair] = []
    beside: dict[str, Json] = {}
    first: int | None = None
    for record in decode_records(stream):
        if isinstance(record, Quarantined):
            yield record
            continue
        repairs.extend(record.repairs)
        for item in members(record, beside):
            if isinstance(item, Quarantined):
                yield item
            else:
                spans.append(item)
                first = record.offset if first is None else first
    source = Source(format=name, uri=stream.uri, offset=first)
    yield from read_traces(
        spans, source=source, limits=stream.limits, extra=beside or None, repairs=repairs
    )


def _draft_trace(
    spans: list[RawSpan], source: Source, limits: Limits, extra: Mapping[str, Json] | None
) -> Trajectory:
    trace_id = spans[0].trace_id
    read = [read_content(span, limits) for span in spans]
    tree = assign_roles(read, build_tree(spans))
    collected = SpanSteps(spans, tree)
    steps = collected.build()
    warnings = _warnings(tree, collected.first)
    if not steps:
        reason = f"none of {len(spans)} spans is of a model, a tool or an agent that speaks"
        warnings.append(Warn("no_agent_span", reason))
    # Where the steps have no usage, what agents say of themselves.
    own = [Step(index=0, actor="agent", usage=x.usage) for x in _outermost(read, tree, "usage")]
    roots = [at for at in tree.order if tree.parents[at] is None]
    starts = [span.start_ns for span in spans if span.start_ns is not None]
    ends = [span.end_ns for span in spans if span.end_ns is not None]
    session = next((said.session for said in read if said.session is not None), None)
    labels: list[TraceLabel] = []
    for at, said in enumerate(read):
        for label in said.labels:
            # Evaluations of a whole trace have no step.
            step = None if "of" in (label.extra or {}) else collected.first.get(at)
            labels.append(msgspec.structs.replace(label, step=step))
    return Trajectory(
        id="",
        name=trace_id,
        steps=steps,
        source=msgspec.structs.replace(source, run_id=trace_id or source.run_id),
        workflow=next((said.workflow for said in read if said.workflow is not None), ""),
        agent=next((s.agent for s in steps if s.actor == "agent" and not s.replayed), None),
        tags={} if session is None else {"session": session},
        tools=_tools(tree) or None,
        spans=tuple(map(_node, spans)),
        termination=next((read[at].failed for at in roots if read[at].failed is not None), None),
        labels=tuple(labels),
        usage=total_usage(steps) or total_usage(own),
        cost_usd=_cost(steps, read, tree),
        start=Instant(min(starts), str(min(starts))) if starts else None,
        end=Instant(max(ends), str(max(ends))) if ends else None,
        warnings=tuple(warnings),
        extra=_extra(spans, extra),
    )


def _node(span: RawSpan) -> Node:
    return Node(
        id=span.span_id,
        parent=span.parent_id,
        name=span.name,
        kind=span.kind,
        start_ns=span.start_ns,
        end_ns=span.end_ns,
        status=_STATUSES[span.status],
        attributes=span.attributes,
        events=tuple([msgspec.to_builtins(event) for event in span.events]),
        links=span.links,
    )


def _warnings(tree: SpanTree, first: Mapping[int, int]) -> list[Warn]:
    """Return the faults of the graph, each at the step of its span.

    A span that made no step points at the first step below it, else at what its parent points at.
    """
    below: dict[int, int] = dict(first)
    for at in reversed(tree.order):
        parent = tree.parents[at]
        if parent is not None and parent not in first and at in below:
            below[parent] = min(below[at], below.get(parent, below[at]))
    nearest: dict[int, int | None] = {}
    for at in tree.order:
        parent = tree.parents[at]
        nearest[at] = below.get(at, None if parent is None else nearest[parent])
    return [msgspec.structs.replace(warn, step=nearest[at]) for at, warn in tree.faults]


def _tools(tree: SpanTree) -> tuple[ToolDef, ...]:
    found: dict[tuple[str, str | None], ToolDef] = {}
    for said, agent in zip(tree.contents, tree.agents, strict=True):
        for tool in said.tools:
            owner = agent or said.agent
            found.setdefault((tool.name, owner), msgspec.structs.replace(tool, agent=owner))
    return tuple(found.values())


def _outermost(read: Sequence[SpanContent], tree: SpanTree, name: str) -> list[SpanContent]:
    """Return what says `name` with nothing above it saying it too."""
    covered: set[int] = set()
    found: list[SpanContent] = []
    for at in tree.order:
        if tree.parents[at] in covered:
            covered.add(at)
        elif at not in tree.superseded and getattr(read[at], name) is not None:
            covered.add(at)
            found.append(read[at])
    return found


def _cost(steps: Sequence[Step], read: Sequence[SpanContent], tree: SpanTree) -> float | None:
    if any(step.cost_usd is not None for step in steps):
        return None  # figures add up what the steps say
    return sum_known(said.cost_usd for said in _outermost(read, tree, "cost_usd"))


def _extra(spans: Sequence[RawSpan], extra: Mapping[str, Json] | None) -> dict[str, Json] | None:
    """Return what spans say that a run's spans have no field for: `resources`, and `span_facts`.

    `span_facts` has an object for every span; its `resource` is a place in `resources`.
    """
    resources: dict[bytes, int] = {}
    listed: list[Json] = []
    facts: list[dict[str, Json]] = []
    for span in spans:
        about: dict[str, Json] = {**(span.extra or {})}
        if span.resource:
            key = msgspec.json.encode(span.resource, order="deterministic")
            about["resource"] = resources.setdefault(key, len(listed))
            if len(resources) > len(listed):
                listed.append(span.resource)
        for name in ("scope", "status_message"):
            if getattr(span, name) is not None:
                about[name] = getattr(span, name)
        facts.append(about)
    found: dict[str, Json] = {**(extra or {})}
    if listed:
        found["resources"] = listed
    if any(facts):
        found["span_facts"] = facts
    return found or None
