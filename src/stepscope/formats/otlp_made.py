"""Spans for a run that was not recorded as spans: an agent, its rounds with a model, its tools.

`invoke_agent` is the root; every step of an agent is a `chat` below it (a `plan`, a handoff, a
retrieval where it is one), and every call an `execute_tool`. A chat's input holds what was said
since the chat before it, not the whole history again: a run of n steps stays of length n. Ids are
derived from the run's own id, so that the same run always has the same spans. What the conventions
have no word for stands beside under `stepscope.*`, and `otlp_restore` puts it back.
Source: open-telemetry/semantic-conventions-genai, `gen-ai-agent-spans.md`, `gen-ai-spans.md`.
"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

import msgspec

from stepscope.formats.otlp_any import SPAN_DIGITS, TRACE_DIGITS, id_of, read_back
from stepscope.formats.otlp_marks import COUNT_KEY, MESSAGES_KEY, SCOPE, STEPS_KEY, packed
from stepscope.formats.otlp_messages import (
    answer_of,
    message_of,
    response_of,
    steps_in,
    usage_of,
)
from stepscope.formats.otlp_residue import difference
from stepscope.formats.spans.span import Span, SpanStatus
from stepscope.model import Exchange, Instant, Json, Step, StepKind, ToolDef, Trajectory
from stepscope.safety.limits import Limits

_OPERATIONS: dict[StepKind, str] = {
    "plan": "plan",
    "handoff": "agent_handoff",
    "retrieval": "retrieval",
    "guardrail": "guardrail",
}
# Steps that are spans of their own whoever makes them.
_OWN = frozenset({"retrieval", "guardrail"})
_LIMITS = Limits()
_INT = 2**63
_MILLISECOND = 1_000_000
# What may stand as the name of a kind of error.
_NAME_MOST = 64


class Made(NamedTuple):
    """The spans of a run, its root first, and by position the span that tells each step."""

    spans: list[Span]
    homes: list[str]


def made(run: Trajectory, resource: dict[str, Json], placed_at: int | None) -> Made:
    """Return the spans of a run; one without any time begins at `placed_at`, a millisecond each."""
    trace_id = id_of(run.id, TRACE_DIGITS)
    root_id = _span_id(trace_id, "run", 0)
    template = Span(
        trace_id=trace_id, span_id=root_id, resource=resource, scope=SCOPE, kind="internal"
    )
    telling: list[_Telling] = []
    homes = [root_id] * len(run.steps)
    tools = _tools(run)
    heard: list[int] = []
    for at, step in enumerate(run.steps):
        if step.actor == "agent" or step.kind in _OWN:
            own = _chat(template, at, step, [run.steps[told] for told in heard])
            for told in (*heard, at):
                homes[told] = own.span.span_id
            telling.append(own)
            heard = []
        else:
            heard.append(at)
        telling += [_Telling(_tool(template, exchange, run)) for exchange in tools.get(at, ())]
    for exchange in run.exchanges:
        if exchange.result_step is not None and exchange.result_step != exchange.step:
            answered = _place(run, exchange.result_step)
            homes[answered] = _span_id(trace_id, "call", exchange.position)
    telling.insert(0, _root(template, run, [run.steps[told] for told in heard]))
    timed = _timed([each.span for each in telling], placed_at)
    spans = [_marked(each._replace(span=span)) for each, span in zip(telling, timed, strict=True)]
    return Made(spans, homes)


class _Telling(NamedTuple):
    """A span, the steps that its input tells, and the one that its answer is."""

    span: Span
    heard: tuple[Step, ...] = ()
    own: tuple[Step, ...] = ()


def _marked(told: _Telling) -> Span:
    """Return a span with what reading its messages back would get wrong of its steps."""
    steps = (*told.heard, *told.own)
    if not steps:
        return told.span
    back = read_back(told.span)
    kept = [
        difference(step, again) for step, again in zip(steps, steps_in(back, _LIMITS), strict=True)
    ]
    about = {**told.span.attributes, STEPS_KEY: packed(kept)}
    return msgspec.structs.replace(told.span, attributes=about)


def _span_id(trace_id: str, what: str, at: int) -> str:
    return sha256(f"{trace_id} {what} {at}".encode()).hexdigest()[:SPAN_DIGITS]


def _tools(run: Trajectory) -> dict[int, list[Exchange]]:
    """Return exchanges by the position of the step that called."""
    found: dict[int, list[Exchange]] = {}
    for exchange in run.exchanges:
        found.setdefault(_place(run, exchange.step), []).append(exchange)
    return found


def _place(run: Trajectory, index: int) -> int:
    """Return the position of the step with an index: the same, but for runs made by hand."""
    if 0 <= index < len(run.steps) and run.steps[index].index == index:
        return index
    return next(at for at, step in enumerate(run.steps) if step.index == index)


def _root(template: Span, run: Trajectory, trailing: list[Step]) -> _Telling:
    about: dict[str, Json] = {"gen_ai.operation.name": "invoke_agent"}
    for key, value in (
        ("gen_ai.agent.name", run.agent),
        ("gen_ai.agent.version", run.agent_version),
        ("gen_ai.conversation.id", run.tags.get("session")),
        ("gen_ai.workflow.name", run.workflow),
    ):
        if value:
            about[key] = value
    about |= usage_of(run.usage)
    if run.tools:
        about["gen_ai.tool.definitions"] = packed([_definition(tool) for tool in run.tools])
    if trailing:
        about[MESSAGES_KEY] = packed([message_of(step) for step in trailing])
    about[COUNT_KEY] = len(run.steps)
    root = msgspec.structs.replace(
        template,
        name=f"invoke_agent {run.agent}" if run.agent else "invoke_agent",
        start_ns=_ns(run.start),
        end_ns=_ns(run.end),
        attributes=about,
    )
    return _Telling(root, tuple(trailing))


def _definition(tool: ToolDef) -> Json:
    found: dict[str, Json] = {"type": "function", "name": tool.name}
    if tool.description is not None:
        found["description"] = tool.description
    return found if tool.schema is None else {**found, "parameters": tool.schema}


def _chat(template: Span, at: int, step: Step, heard: list[Step]) -> _Telling:
    """Return the span of a step, with what was said since the last one as its input."""
    operation = _OPERATIONS.get(step.kind, "chat")
    name = step.agent if operation != "chat" else step.model
    about: dict[str, Json] = {"gen_ai.operation.name": operation}
    if step.agent:
        about["gen_ai.agent.name"] = step.agent
    if step.model:
        # A run keeps one name of the model: asked for and answering are the same to it.
        about |= {"gen_ai.request.model": step.model, "gen_ai.response.model": step.model}
    if step.finish_reason:
        about["gen_ai.response.finish_reasons"] = [step.finish_reason]
    about |= usage_of(step.usage)
    if step.first_token_seconds is not None:
        about["gen_ai.response.time_to_first_chunk"] = step.first_token_seconds
    if step.error is not None:
        about["error.type"] = error_type(step.error)
    if heard:
        about["gen_ai.input.messages"] = packed([message_of(said) for said in heard])
    about["gen_ai.output.messages"] = packed([answer_of(step)])
    span = msgspec.structs.replace(
        template,
        span_id=_span_id(template.trace_id, "step", at),
        parent_id=template.span_id,
        name=f"{operation} {name}" if name else operation,
        kind="client" if operation == "chat" else "internal",
        start_ns=_ns(step.start),
        end_ns=_ns(step.end),
        status="unset" if step.error is None else "error",
        status_message=step.error,
        attributes=about,
    )
    return _Telling(span, tuple(heard), (step,))


def error_type(error: str) -> str:
    """Return the kind of an error: the text where it is a name, else the conventions' fallback.

    >>> error_type("RateLimitError"), error_type("the server said no")
    ('RateLimitError', '_OTHER')
    """
    return error if len(error) <= _NAME_MOST and error.isidentifier() else "_OTHER"


def _tool(template: Span, exchange: Exchange, run: Trajectory) -> Span:
    """Return the span of a call: what was asked, and what came back or went wrong."""
    call, result = exchange.call, exchange.result
    asked = call.raw if call.raw is not None else packed(call.arguments)
    about: dict[str, Json] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.name,
    }
    if call.id is not None:
        about["gen_ai.tool.call.id"] = call.id
    if call.kind == "function":
        about["gen_ai.tool.type"] = "function"
    about["gen_ai.tool.call.arguments"] = asked
    status: SpanStatus = "unset"
    message: str | None = None
    if exchange.failed and result is not None:
        status, message = "error", result.error or result.text or None
        about["error.type"] = error_type(result.error or "")
    elif result is not None:
        response = response_of(result)
        about["gen_ai.tool.call.result"] = (
            response if isinstance(response, str) else packed(response)
        )
    asking = run.steps[_place(run, exchange.step)]
    began, ended = _ns(asking.end) or _ns(asking.start), None
    if exchange.result_step is not None and exchange.result_step != exchange.step:
        answered = run.steps[_place(run, exchange.result_step)]
        ended = _ns(answered.end) or _ns(answered.start)
        if answered.start is not None and answered.end is not None:
            began = _ns(answered.start)
    late = began is not None and ended is not None and ended < began
    return msgspec.structs.replace(
        template,
        span_id=_span_id(template.trace_id, "call", exchange.position),
        parent_id=template.span_id,
        name=f"execute_tool {call.name}" if call.name else "execute_tool",
        start_ns=ended if late else began,
        end_ns=ended,
        status=status,
        status_message=message,
        attributes=about,
    )


def _ns(time: Instant | None) -> int | None:
    """Return nanoseconds that OTLP can hold; 0 is its absence."""
    return time.ns if time is not None and 0 < time.ns < _INT else None


def _timed(spans: list[Span], placed_at: int | None) -> list[Span]:
    """Return spans that all have times where any has one, or where a beginning is given.

    A span without a time stands where the one before it ended: backends sort and draw by it. It is
    no time of the step, and reading the run back knows that.
    """
    known = [ns for span in spans for ns in (span.start_ns, span.end_ns) if ns is not None]
    if not known and placed_at is None:
        return spans
    step = 0 if known else _MILLISECOND
    clock = min(known) if known else placed_at or 0
    timed: list[Span] = []
    for span in spans[1:]:
        start = clock if span.start_ns is None else span.start_ns
        end = max(start, start + step) if span.end_ns is None else span.end_ns
        clock = max(clock, start, end)
        timed.append(msgspec.structs.replace(span, start_ns=start, end_ns=end))
    root = spans[0]
    first = min([span.start_ns for span in timed if span.start_ns is not None], default=clock)
    start = root.start_ns or (min([*known, first]) if known else first)
    end = root.end_ns or max(clock, start)
    return [msgspec.structs.replace(root, start_ns=start, end_ns=end), *timed]
