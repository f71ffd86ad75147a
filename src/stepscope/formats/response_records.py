"""One recorded exchange of the Responses API as a run not yet finished.

A record is a response alone, a request and its response (as an HTTP exchange, a line of a batch, or
`input` and `output` side by side), or a request alone. Its usage stands at the last turn of the
answer, its status there too. An answer that failed is a step with an error.
Format: OpenAI Python SDK 3.54.0, `types/responses/response.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.beliefs import judge_text
from stepscope.formats.bodies import unwrapped
from stepscope.formats.building import rest, text_at
from stepscope.formats.chat import Reading
from stepscope.formats.envelope import KEYS, Envelope, tool_defs
from stepscope.formats.item_turns import placed, turns
from stepscope.formats.items import item_step
from stepscope.formats.plain import Found
from stepscope.formats.provider_items import offered
from stepscope.formats.times import bounds, instant
from stepscope.formats.tokens import openai_usage, total, uncounted
from stepscope.model import Json, Part, Source, Step, ToolDef, Trajectory

NAME = "openai_responses"
_BODY = frozenset(
    "input output messages instructions usage object created_at completed_at previous_response_id "
    "custom_id".split()
)
_ENDED_WELL = frozenset({None, "completed"})


class Told(NamedTuple):
    """A record as a run; `answer` is its response's own id, `earlier` the one that it continues."""

    draft: Trajectory
    answer: str | None
    earlier: str | None


def items_of(listed: list[Json], found: Found) -> tuple[list[Step], tuple[ToolDef, ...]]:
    """Return a list of items as turns, and the tools that items among them offer."""
    reading = Reading(judge_text, found.limits)
    steps = turns([item_step(item, index, reading) for index, item in enumerate(listed)])
    return steps, tool_defs([tool for item in listed for tool in offered(item)]) or ()


def told(found: Found) -> Told:
    """Return a record as the run that it tells.

    Raises:
        TraceError: it holds neither input nor output, or an item that is none.
        msgspec.ValidationError: a key around them is of another type.
    """
    record = found.value
    if not isinstance(record, dict):
        raise TraceError(f"expected a request or a response; found {str(record)[:60]!r}")
    request, response, around = _sides(record, found)
    envelope = msgspec.convert({**_offering(response), **request, **around}, Envelope)
    steps, tools = _asked(request, response, found)
    if response is not None:
        made, more = _answered(response, found, request_model=envelope.model)
        steps, tools = [*steps, *made], (*tools, *more)
    if not steps:
        raise TraceError("a record without an item; expected a list under `input` or `output`")
    placed_steps = placed(steps)
    answer = None if response is None else text_at(response, "id")
    run_id = envelope.source_id or answer
    task = envelope.task_name or text_at(record, "custom_id")
    named = "/".join(filter(None, (envelope.workflow or NAME, task, envelope.trial_name)))
    start, end = bounds(placed_steps)
    draft = Trajectory(
        id="",
        name=named if task else run_id or "",
        steps=placed_steps,
        source=Source(format=NAME, uri=found.uri, offset=found.offset, run_id=run_id),
        workflow=envelope.workflow or NAME,
        task=task,
        trial=envelope.trial_name,
        agent=envelope.agent,
        agent_version=envelope.agent_version,
        tags=envelope.tags,
        tools=_offered(envelope, tools),
        outcome=envelope.outcome,
        termination=None if response is None else _termination(response),
        usage=total(placed_steps),
        start=start,
        end=end,
        extra=_extra(request, response, around),
    )
    return Told(draft, answer, _earlier(request, response))


def _sides(
    record: dict[str, Json], found: Found
) -> tuple[dict[str, Json], dict[str, Json] | None, dict[str, Json]]:
    """Return what was asked, what was answered, and what the wrapping says beside."""
    bodies = unwrapped(record, found.limits)
    if bodies is not None:
        return bodies.request or {}, bodies.response, bodies.extra or {}
    if record.get("object") == "response":
        return {}, record, {}
    return record, record if "output" in record else None, {}


def _offering(response: dict[str, Json] | None) -> dict[str, Json]:
    """Return what a response repeats of its request."""
    answer = response or {}
    return {key: answer[key] for key in ("tools", "model") if key in answer}


def _asked(
    request: dict[str, Json], response: dict[str, Json] | None, found: Found
) -> tuple[list[Step], tuple[ToolDef, ...]]:
    """Return the instructions as a first step, then the input."""
    instructions = request.get("instructions")
    if instructions is None and response is not None:
        instructions = response.get("instructions")
    given = request.get("input", request.get("messages"))
    listed = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if listed is not None and not isinstance(listed, list):
        raise TraceError(f"`input` is {str(given)[:60]!r}; expected text or a list of items")
    if isinstance(instructions, str):
        system = [Step(index=0, actor="system", parts=(Part("text", instructions),))]
    else:
        system = items_of(instructions, found)[0] if isinstance(instructions, list) else []
    steps, tools = items_of(listed or [], found)
    return [*system, *steps], tools


def _answered(
    response: dict[str, Json], found: Found, *, request_model: str | None
) -> tuple[list[Step], tuple[ToolDef, ...]]:
    """Return the turns of an answer; the last carries its usage and how it ended."""
    output, failure = response.get("output"), _failure(response)
    if not isinstance(output, list) and not (output is None and failure is not None):
        raise TraceError(f"`output` is {str(output)[:60]!r}; expected a list of items")
    steps, tools = items_of(output or [], found)
    model = text_at(response, "model") or request_model
    if not any(step.actor == "agent" for step in steps):
        steps = [*steps, Step(index=len(steps), actor="agent")]
    mine = [at for at, step in enumerate(steps) if step.actor == "agent"]
    for at in mine:
        steps[at] = msgspec.structs.replace(steps[at], model=model)
    first, last = mine[0], mine[-1]
    start = instant(response.get("created_at"))
    steps[first] = msgspec.structs.replace(steps[first], start=start)
    beside = uncounted(response.get("usage"))
    extra = {**(steps[last].extra or {}), **({"usage": beside} if beside else {})}
    steps[last] = msgspec.structs.replace(
        steps[last],
        extra=extra or None,
        usage=openai_usage(response.get("usage")),
        finish_reason=_reason(response),
        end=instant(response.get("completed_at")),
        error=failure,
    )
    return steps, tools


def _failure(response: dict[str, Json]) -> str | None:
    match response.get("error"):
        case {"message": str(message)}:
            return message
        case None:
            return "failed" if response.get("status") == "failed" else None
        case other:
            return str(other)[:200]


def _reason(response: dict[str, Json]) -> str | None:
    details = response.get("incomplete_details")
    reason = text_at(details, "reason") if isinstance(details, dict) else None
    return reason or text_at(response, "status")


def _termination(response: dict[str, Json]) -> str | None:
    status = text_at(response, "status")
    if status in _ENDED_WELL:
        return None
    reason = _failure(response) or _reason(response)
    return status if reason in {None, status} else f"{status}: {reason}"


def _earlier(request: dict[str, Json], response: dict[str, Json] | None) -> str | None:
    held = text_at(response or {}, "previous_response_id")
    return held or text_at(request, "previous_response_id")


def _offered(envelope: Envelope, more: tuple[ToolDef, ...]) -> tuple[ToolDef, ...] | None:
    offered = tool_defs(envelope.tools if envelope.tools is not None else envelope.functions)
    return offered if not more else (*(offered or ()), *more)


def _extra(
    request: dict[str, Json], response: dict[str, Json] | None, around: dict[str, Json]
) -> dict[str, Json] | None:
    found: dict[str, Json] = {}
    for side in (around, request, response or {}):
        found.update(rest(side, KEYS | _BODY) or {})
    return found or None
