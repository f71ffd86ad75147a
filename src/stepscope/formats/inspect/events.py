"""Read the events of an Inspect sample: what models said, tools gave back, people decided.

Models and tools within a scorer's span are not the agent's: they make no steps and stay in that
span. An agent that begins within another one is a handoff. A tool that an agent carried out answers
when that agent's span ends. Every other event is kept whole in its span. Where older logs have
steps, or events within an event, these stand for spans; what carries no span is of the innermost.

Today `input_tokens` leaves the cache out; older logs have what the provider said, cache included
for OpenAI. Where input and output alone make up the recorded total, the cache is in there already.
Format: UKGovernmentBEIS/inspect_ai 0.3.285, `event/`; `model/_model_output.py`, `ModelUsage`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.fields import USAGE_COUNTS, entries_at, parse_ns, parse_time, rest, text_at
from stepscope.formats.inspect import messages
from stepscope.formats.inspect.messages import Attachments, SampleSteps, ToolError
from stepscope.model import Json, Part, Span, Step, StepKind, ToolDef, Usage, Warn

_BEGIN = frozenset({"event", "id", "parent_id", "span_id", "type", "name", "timestamp"})
# What scores a sample is not the agent, whichever models it asks.
_SCORERS = frozenset({"scorer", "scorers"})


class SampleSpan:
    """A span: who works in it, whether for another agent (`inner`), or for a scorer."""

    def __init__(self, own_id: str, parent: SampleSpan | None, name: str, kind: str) -> None:
        self.id = own_id
        self.name = name
        self.kind = kind
        self.outer: str | None = None if parent is None else parent.agent
        self.agent: str | None = name if kind == "agent" else self.outer
        self.inner: bool = parent is not None and (
            parent.inner or (kind == "agent" and parent.agent is not None)
        )
        self.scores: bool = kind in _SCORERS or (parent is not None and parent.scores)
        self.parent_id: str | None = None if parent is None else parent.id
        self.start_ns: int | None = None
        self.end_ns: int | None = None
        self.attributes: dict[str, Json] = {}
        self.events: list[Json] = []


class SampleTree:
    """The spans of one sample in the order in which they began."""

    def __init__(self) -> None:
        self.loose: list[Json] = []
        self.warnings: list[Warn] = []
        self._nodes: dict[str, SampleSpan] = {}
        self._open: list[SampleSpan] = []

    def at(self, event: dict[str, Json], own: str | None = None) -> SampleSpan | None:
        """Return the span that an event belongs to; no span, by its id `own`, is in itself."""
        span = text_at(event, "span_id")
        if span is not None and span != own:
            return self._nodes.get(span)
        return self._open[-1] if self._open else None

    def begin(self, event: dict[str, Json]) -> SampleSpan:
        """Begin a span as its event says."""
        own = text_at(event, "id") or f"span-{len(self._nodes)}"
        parent_id = text_at(event, "parent_id")
        parent = self._nodes.get(parent_id) if parent_id is not None else self.at(event, own)
        if own in self._nodes:
            self._warn("duplicate_span", f"span {own!r} begins twice")
        if parent_id is not None and parent is None:
            self._warn("orphan_parent", f"the parent {parent_id!r} of span {own!r} never began")
        node = self._begun(own, parent, event)
        node.parent_id = parent_id or node.parent_id
        node.attributes = rest(event, _BEGIN) or {}
        return node

    def end(self, event: dict[str, Json]) -> SampleSpan | None:
        """End a span, and return it."""
        node = self._nodes.get(text_at(event, "id") or "")
        if node is None:
            self.keep(event)
            return None
        node.end_ns = parse_ns(event.get("timestamp"))
        return node

    def ended(self, own: str) -> bool:
        """Say whether the span of this id has begun and ended."""
        node = self._nodes.get(own)
        return node is not None and node.end_ns is not None

    def open(self, event: dict[str, Json], kind: str, name: str) -> SampleSpan:
        """Begin a span for what has none of its own; what follows is in it until `close`."""
        around = self.at(event)
        node = self._begun(f"{kind}-{len(self._nodes)}", around, {"type": kind, "name": name})
        node.start_ns = parse_ns(event.get("timestamp"))
        self._open.append(node)
        return node

    def close(self, event: dict[str, Json], *, at: str = "timestamp") -> None:
        """End the innermost span that `open` began."""
        if self._open:
            self._open.pop().end_ns = parse_ns(event.get(at))

    def keep(self, event: Json) -> None:
        """Keep an event that makes no step, whole, in its span."""
        node = self.at(event) if isinstance(event, dict) else None
        (self.loose if node is None else node.events).append(event)

    def spans(self) -> tuple[Span, ...]:
        """Return the spans in the order in which they began."""
        return tuple(
            Span(
                id=node.id,
                parent=node.parent_id,
                name=node.name,
                kind=node.kind,
                start_ns=node.start_ns,
                end_ns=node.end_ns,
                attributes=node.attributes,
                events=tuple(node.events),
            )
            for node in self._nodes.values()
        )

    def _begun(self, own: str, parent: SampleSpan | None, event: dict[str, Json]) -> SampleSpan:
        node = SampleSpan(own, parent, text_at(event, "name") or "", text_at(event, "type") or "")
        node.start_ns = parse_ns(event.get("timestamp"))
        key = own
        while key in self._nodes:
            key += "'"
        self._nodes[key] = node
        return node

    def _warn(self, code: str, reason: str) -> None:
        self.warnings.append(Warn(code, reason))


class ModelUsage(msgspec.Struct, gc=False):
    """What one reply, or one model in all of a sample, used; cost in USD."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    input_tokens_cache_write: int | None = None
    input_tokens_cache_read: int | None = None
    reasoning_tokens: int | None = None
    total_cost: float | None = None


def read_model_usage(used: ModelUsage) -> Usage:
    """Return tokens with the cache in their input, once."""
    fresh, out = used.input_tokens, used.output_tokens
    read, written = used.input_tokens_cache_read, used.input_tokens_cache_write
    included = fresh is not None and used.total_tokens == fresh + (out or 0)
    return Usage(
        input_total=(fresh if fresh is None or included else fresh + (read or 0) + (written or 0)),
        cache_read=read,
        cache_write=written,
        output_total=out,
        reasoning=used.reasoning_tokens,
    )


def sum_model_usage(used: Iterable[ModelUsage], *, less: Iterable[ModelUsage]) -> Usage | None:
    """Return the sum over models without what `less` used, None where nothing is known."""
    counts = [read_model_usage(one) for one in used]
    away = [read_model_usage(one) for one in less]
    if not counts:
        return None

    def summed(name: str) -> int | None:
        known: list[int] = [n for one in counts if (n := getattr(one, name)) is not None]
        taken: int = sum([getattr(one, name) or 0 for one in away])
        return max(0, sum(known) - taken) if known else None

    sums: dict[str, Any] = {name: summed(name) for name in USAGE_COUNTS}
    return Usage(**sums)


def sum_model_cost(used: Iterable[ModelUsage], *, less: Iterable[ModelUsage]) -> float | None:
    """Return the reported cost in USD of all models without what `less` cost, None if one lacks."""
    costs = [one.total_cost for one in used]
    known = [amount for amount in costs if amount is not None]
    if not known or len(known) < len(costs):
        return None
    return max(0.0, sum(known) - sum(one.total_cost or 0.0 for one in less))


# What tells when and as which event a step was logged, not what happened: no part of a step, so
# that a log written anew holds the same runs.
_CLOCK = ("uuid", "working_start", "working_time")
_MODEL = frozenset(
    "event model input input_refs tools output error call timestamp completed span_id".split()
).union(_CLOCK)
_OUTPUT = frozenset({"model", "choices", "completion", "usage", "error"})
_CHOICE = frozenset({"message", "stop_reason"})
_TOOL = frozenset(
    "event type id function arguments result truncated error events timestamp completed span_id "
    "message_id".split()
).union(_CLOCK)
_OTHER = frozenset({"event", "timestamp", "span_id", *_CLOCK})
_TOOL_DEF = frozenset({"name", "description", "parameters"})
# Events that are a step of the environment: the kind of step, and where their words are.
_STEPS: dict[str, tuple[StepKind, tuple[str, ...]]] = {
    **dict.fromkeys(("approval", "review"), ("guardrail", ("decision", "explanation", "message"))),
    "compaction": ("compaction", ()),
    "sample_limit": ("other", ("message",)),
    "interrupt": ("other", ("source", "interrupted")),
    "error": ("other", ()),
}


class _Output(msgspec.Struct, gc=False):
    model: str | None = None
    choices: list[dict[str, Any]] = []
    usage: ModelUsage | None = None
    error: str | None = None


class _Model(msgspec.Struct, gc=False):
    model: str
    input: list[Any] = []
    input_refs: list[tuple[int, int]] | None = None
    tools: list[Any] = []
    output: _Output | None = None
    error: str | None = None
    retries: int | None = None
    cache: str | None = None
    pending: bool | None = None


class _Tool(msgspec.Struct, gc=False):
    function: str
    id: str | None = None
    result: Any = None
    truncated: list[int] | None = None
    error: ToolError | None = None
    events: list[Any] | None = None
    message_id: str | None = None
    agent: str | None = None
    agent_span_id: str | None = None
    pending: bool | None = None


class EventReader:
    """Reads events into steps and a tree of spans."""

    def __init__(self, steps: SampleSteps, tree: SampleTree, texts: Attachments) -> None:
        # What went over the wire, and ids and working times of events, by the place of their step.
        self.calls: list[tuple[int, Json]] = []
        self.clock: list[tuple[int, Json]] = []
        self.graded: list[ModelUsage] = []  # what scorers' models used
        self.models = 0  # how many replies made a step
        self.stopped: str | None = None  # why the last reply ended
        self.warnings: list[tuple[str, str, int]] = []
        self._steps = steps
        self._tree = tree
        self._texts = texts
        self._late: dict[str, list[tuple[dict[str, Json], _Tool]]] = {}
        self._tools: dict[tuple[str, str | None], ToolDef] = {}
        self._offered: dict[str | None, list[Any]] = {}

    def read(self, events: list[Any]) -> None:
        """Read events in order."""
        for event in events:
            if not isinstance(event, dict):
                raise TraceError(f"an event is {str(event)[:60]!r}; expected an object")
            self._read_event(event)

    def answer_late(self) -> None:
        """Answer the tools whose agents never ended."""
        for waiting in list(self._late.values()):
            for event, tool in waiting:
                self._answer(event, tool, late=True)
        self._late.clear()

    def tools(self) -> tuple[ToolDef, ...]:
        """Return every tool offered, once for each agent that it was offered to."""
        return tuple(self._tools.values())

    def _read_event(self, event: dict[str, Json]) -> None:
        match event.get("event"):
            case "span_begin":
                node = self._tree.begin(event)
                if node.kind == "agent" and node.outer is not None and not node.scores:
                    handoff = Step(
                        index=0,
                        actor="agent",
                        kind="handoff",
                        agent=node.outer,
                        start=parse_time(event.get("timestamp")),
                        span=node.id,
                        extra={"to": node.name},
                    )
                    self._steps.add(handoff)
            case "span_end":
                ended = self._tree.end(event)
                for asked, tool in self._late.pop(ended.id, ()) if ended else ():
                    self._answer(asked, tool, late=True)
            case "step":
                if event.get("action") == "begin":
                    name, kind = text_at(event, "name") or "", text_at(event, "type") or "step"
                    self._tree.open(event, kind, name)
                else:
                    self._tree.close(event)
            case "model":
                self._model(event)
            case "tool":
                self._tool(event)
            case "subtask":
                node = self._tree.open(event, "subtask", text_at(event, "name") or "")
                told = rest(event, frozenset({"event", "name", "events", "timestamp", "span_id"}))
                node.attributes = self._texts.resolve_in_place(told) or {}
                self.read(entries_at(event, "events"))
                self._tree.close(event, at="completed")
            case str(kind) if kind in _STEPS:
                sort, keys = _STEPS[kind]
                told = self._texts.resolve_in_place(event)
                words = [text for key in keys if (text := text_at(told, key))]
                failure = told.get("error")
                step = Step(
                    index=0,
                    actor="environment",
                    kind=sort,
                    parts=(Part("text", ": ".join(words)),) if words else (),
                    start=parse_time(event.get("timestamp")),
                    error=text_at(failure, "message") if isinstance(failure, dict) else None,
                    span=text_at(event, "span_id"),
                    extra={"event": kind, **(rest(told, _OTHER) or {})},
                )
                self._time(event, self._steps.add(step))
            case _:
                self._tree.keep(self._texts.resolve_in_place(event))

    def _model(self, event: dict[str, Json]) -> None:
        asked = msgspec.convert(event, _Model)
        node = self._tree.at(event)
        output = asked.output or _Output()
        if node is not None and node.scores:
            if output.usage is not None:
                self.graded.append(output.usage)
            self._tree.keep(self._texts.resolve_in_place(event))
            return
        self._offer(asked.tools, node)
        self._steps.add_input(asked.input, asked.input_refs or (), text_at(event, "span_id"))
        choice = output.choices[0] if output.choices else {"message": {"role": "assistant"}}
        spoken = messages.read_message_step(choice.get("message"), self._texts)
        used = output.usage
        reason = choice.get("stop_reason")
        if reason is not None:
            reason = msgspec.convert(reason, str)
        step = msgspec.structs.replace(
            spoken,
            agent=None if node is None else node.agent,
            model=output.model or asked.model,
            usage=None if used is None else read_model_usage(used),
            cost_usd=None if used is None else used.total_cost,
            start=parse_time(event.get("timestamp")),
            end=parse_time(event.get("completed")),
            finish_reason=reason,
            error=asked.error or output.error,
            span=text_at(event, "span_id"),
            sidechain=node is not None and node.inner,
            extra=self._beside(event, asked, spoken),
        )
        place = self._steps.speak(spoken, step)
        self._time(event, place)
        self.models += 1
        self.stopped = reason
        if event.get("call") is not None:
            self.calls.append((place, event["call"]))
        if asked.cache == "read":
            self._warn("cached_reply", "the reply came from Inspect's cache", place)
        if asked.retries:
            self._warn("retried", f"the model was asked again {asked.retries} times", place)
        if asked.pending:
            self._warn("pending", "the log was written before the model had answered", place)

    def _beside(self, event: dict[str, Json], asked: _Model, step: Step) -> dict[str, Json] | None:
        extra = {**(step.extra or {}), **(self._texts.resolve_in_place(rest(event, _MODEL)) or {})}
        output = event.get("output")
        if isinstance(output, dict):
            told = rest(output, _OUTPUT)
            if told:
                extra["output"] = self._texts.resolve_in_place(told)
            if output.get("model") and output["model"] != asked.model:
                extra["requested_model"] = asked.model
            match output.get("choices"):
                case [dict(first), *others]:
                    if more := rest(first, _CHOICE):
                        extra["choice"] = self._texts.resolve_in_place(more)
                    if others:
                        extra["choices"] = self._texts.resolve_in_place(others)
        return extra or None

    def _offer(self, tools: list[Any], node: SampleSpan | None) -> None:
        agent = None if node is None else node.agent
        if not tools or self._offered.get(agent) == tools:
            return
        self._offered[agent] = tools
        for value in tools:
            if not isinstance(value, dict) or not isinstance(value.get("name"), str):
                raise TraceError(f"a tool offered is {str(value)[:60]!r}; expected one by `name`")
            if (value["name"], agent) in self._tools:
                continue
            told = self._texts.resolve_copy(value)
            name, described, schema = value["name"], text_at(told, "description"), None
            if isinstance(told.get("parameters"), dict):
                schema = told["parameters"]
            more = rest(told, _TOOL_DEF)
            self._tools[name, agent] = ToolDef(name, described, schema, agent, more)

    def _tool(self, event: dict[str, Json]) -> None:
        tool = msgspec.convert(event, _Tool)
        node = self._tree.at(event)
        if node is not None and node.scores:
            self._tree.keep(self._texts.resolve_in_place(event))
            return
        if tool.events:
            self._tree.open(event, "agent" if tool.agent else "tool", tool.agent or tool.function)
            self.read(tool.events)
            self._tree.close(event, at="completed")
        if tool.agent_span_id is not None and not self._tree.ended(tool.agent_span_id):
            self._late.setdefault(tool.agent_span_id, []).append((event, tool))
        else:
            self._answer(event, tool, late=bool(tool.events))

    def _answer(self, event: dict[str, Json], tool: _Tool, *, late: bool) -> None:
        parts = messages.read_inspect_content(tool.result, self._texts).parts
        result = messages.make_result(tool.id, tool.function, parts, tool.error)
        if tool.truncated:
            result = msgspec.structs.replace(
                result, truncated=True, extra={**(result.extra or {}), "truncated": tool.truncated}
            )
        end = parse_time(event.get("completed"))
        node = self._tree.at(event)
        place = self._steps.answer(
            Step(
                index=0,
                actor="environment",
                kind="result",
                results=(result,),
                start=(end if late else None) or parse_time(event.get("timestamp")),
                end=end,
                span=text_at(event, "span_id"),
                sidechain=node is not None and node.inner,
                id=tool.message_id,
                extra=self._texts.resolve_in_place(rest(event, _TOOL)),
            )
        )
        self._time(event, place)
        if tool.pending:
            self._warn("pending", "the log was written before the tool had answered", place)

    def _time(self, event: dict[str, Json], place: int) -> None:
        told = {key: event[key] for key in _CLOCK if event.get(key) is not None}
        if told:
            self.clock.append((place, told))

    def _warn(self, code: str, reason: str, place: int) -> None:
        self.warnings.append((code, reason, place))
