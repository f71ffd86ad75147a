"""Google ADK's eval cases and results: what was expected, what came, and whether it passed.

An eval case is a conversation that somebody holds for right, with the tools it used: it is read as
a run tagged `kind=reference`, with itself as its case. A result is the run that was made for a
case, with the case that it was held against and the outcome that ADK gave. The steps of one
invocation are its user's content, what came between in recorded order, and the final response.
Format: google-adk 2.13.0, `evaluation/eval_case.py`, `evaluation/eval_result.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.chat.messages import reference_calls
from stepscope.formats.chat.response_items import number_steps
from stepscope.formats.fields import Content, entries_at, object_at, parse_time, rest, text_at
from stepscope.formats.google_adk.events import (
    read_adk_content,
    read_adk_parts,
    read_declarations,
    read_event_step,
    read_function_call,
    read_function_response,
    to_snake_keys,
)
from stepscope.model import Case, Json, Outcome, Step, ToolDef, ToolResult

_CASE = frozenset({"eval_id", "conversation", "session_input"})
_BETWEEN = frozenset({"invocation_events", "tool_uses", "tool_responses", "intermediate_responses"})
_INVOCATION = frozenset({"user_content", "final_response", "intermediate_data", "app_details"})
_AGENT = frozenset({"name", "instructions", "tool_declarations"})
_PASSED, _FAILED = (1, "1", "PASSED"), (2, "2", "FAILED")


def parse_conversation(conversation: Json) -> list[dict[str, Json]]:
    """Return the invocations of a conversation."""
    if not isinstance(conversation, list):
        raise TraceError(f"a conversation is {str(conversation)[:60]!r}; expected a list")
    for invocation in conversation:
        if not isinstance(invocation, dict):
            raise TraceError(f"an invocation is {str(invocation)[:60]!r}; expected an object")
    return [to_snake_keys(invocation) for invocation in conversation]


def invocation_steps(turns: list[dict[str, Json]], *, timed: bool) -> tuple[Step, ...]:
    """Return the steps of invocations; `timed`: their times are of the run they tell."""
    return number_steps([step for about in turns for step in _turn(about, timed=timed)])


def invocation_tools(turns: list[dict[str, Json]]) -> tuple[ToolDef, ...]:
    """Return every tool that invocations offered, once for each agent."""
    tools: dict[tuple[str, str | None], ToolDef] = {}
    for about in turns:
        for tool in _app(about.get("app_details"))[1]:
            tools.setdefault((tool.name, tool.agent), tool)
    return tuple(tools.values())


def invocation_notes(about: dict[str, Json]) -> dict[str, Json]:
    """Return what an invocation says that no step and no tool has a field for."""
    beside = rest(to_snake_keys(about.get("intermediate_data")), _BETWEEN)
    kept = {} if beside is None else {"intermediate_data": beside}
    return {**(rest(about, _INVOCATION) or {}), **kept, **_app(about.get("app_details"))[0]}


def _turn(about: dict[str, Json], *, timed: bool) -> list[Step]:
    asked = read_adk_content(about.get("user_content"), "user_content")
    start = parse_time(about.get("creation_timestamp") or None) if timed else None
    first = Step(index=0, actor="user", parts=asked.parts, results=asked.results, start=start)
    steps = [msgspec.structs.replace(first, extra=_content(asked))]
    held = to_snake_keys(about.get("intermediate_data"))
    events = held.get("invocation_events")
    last: Step | None = None
    if isinstance(events, list):
        steps += [read_event_step(event, at) for at, event in enumerate(events)]
        # The event of the final response has its tokens; its text stands beside.
        if events and not (steps[-1].parts or steps[-1].calls or steps[-1].results):
            last = steps.pop()
    else:
        steps += _between(held)
    said = read_adk_content(about.get("final_response"), "final_response")
    if said.calls and (said.parts, said.calls) == (steps[-1].parts, steps[-1].calls):
        # A response that asks for a tool stands among the events too.
        return steps
    if said.parts or said.calls or last is not None:
        if last is None:
            last = Step(index=0, actor="agent")
        kind = "call" if said.calls else last.kind
        extra = {**(last.extra or {}), **(_content(said) or {})} or None
        last = msgspec.structs.replace(last, parts=said.parts, calls=said.calls, kind=kind)
        steps.append(msgspec.structs.replace(last, extra=extra))
    return steps


def _content(held: Content) -> dict[str, Json] | None:
    return None if held.extra is None else {"content": held.extra}


def _between(held: dict[str, Json]) -> list[Step]:
    """Return the tools that were used, each with its response, then what agents said meanwhile."""
    calls, responses = _listed(held, "tool_uses"), _listed(held, "tool_responses")
    answers: dict[str | None, deque[ToolResult]] = {}
    for answer in [read_function_response(one) for one in responses]:
        answers.setdefault(answer.call_id, deque()).append(answer)
    steps: list[Step] = []
    for made in [read_function_call(one) for one in calls]:
        steps.append(Step(index=0, actor="agent", kind="call", calls=(made,)))
        if answers.get(made.id):
            steps.append(_result(answers[made.id].popleft()))
    steps += [_result(answer) for left in answers.values() for answer in left]
    for entry in entries_at(held, "intermediate_responses"):
        match entry:
            case [str(author), list(listed)]:
                parts = read_adk_parts(listed, "intermediate_responses").parts
                steps.append(Step(index=0, actor="agent", agent=author or None, parts=parts))
            case _:
                raise TraceError(f"an intermediate response is {str(entry)[:60]!r}")
    return steps


def _result(answer: ToolResult) -> Step:
    return Step(index=0, actor="environment", kind="result", results=(answer,))


def _listed(held: dict[str, Json], key: str) -> list[dict[str, Json]]:
    value = held.get(key)
    if value is None:
        return []
    if isinstance(value, list) and all(isinstance(entry, dict) for entry in value):
        return value
    raise TraceError(f"`{key}` is {str(value)[:60]!r}; expected a list of objects")


def _app(details: Json) -> tuple[dict[str, Json], list[ToolDef]]:
    """Return the instructions of an app's agents and what else is said of them, and their tools."""
    about = to_snake_keys(details)
    agents = about.get("agent_details")
    if not isinstance(agents, dict):
        return {} if details is None else {"app_details": details}, []
    instructions: dict[str, Json] = {}
    beside = rest(about, frozenset({"agent_details"})) or {}
    tools: list[ToolDef] = []
    for name, agent in sorted(agents.items()):
        held = to_snake_keys(agent) if isinstance(agent, dict) else {"value": agent}
        if held.get("instructions"):
            instructions[name] = held["instructions"]
        tools += read_declarations(held.get("tool_declarations"), name)
        if more := {**(rest(held, _AGENT) or {}), **_undeclared(held.get("tool_declarations"))}:
            beside[name] = more
    found: dict[str, Json] = {"instructions": instructions} if instructions else {}
    return {**found, "app_details": beside} if beside else found, tools


def _undeclared(listed: Json) -> dict[str, Json]:
    """Return tools that declare no functions, and what others say beside theirs."""
    if not isinstance(listed, list):
        return {} if listed is None else {"tool_declarations": listed}
    known = frozenset({"function_declarations"})
    left = [rest(to_snake_keys(tool), known) if isinstance(tool, dict) else tool for tool in listed]
    return {"tool_declarations": left} if any(left) else {}


def make_case(about: dict[str, Json], workflow: str, expected: Sequence[Step]) -> Case:
    """Return what a conversation asks of a run: its request, its tools in order, its state."""
    session = to_snake_keys(about.get("session_input"))
    requests = [step.text for step in expected if step.actor == "user" and step.text]
    finals = [step.text for step in expected if step.actor == "agent" and step.text]
    extra = {**(rest(about, _CASE) or {}), **({"responses": finals} if finals else {})}
    if more := rest(session, frozenset({"state"})):
        extra["session_input"] = more
    return Case(
        workflow=workflow,
        task=text_at(about, "eval_id") or "",
        request=requests[0] if requests else None,
        setup=object_at(session, "state") or None,
        reference=tuple(reference_calls([made for step in expected for made in step.calls])),
        extra=extra or None,
    )


def read_adk_outcome(about: dict[str, Json]) -> Outcome:
    """Return the outcome that ADK gave, with the metrics that decided."""
    status = about.get("final_eval_status")
    if status not in _PASSED and status not in _FAILED:
        return Outcome()
    reasons: list[str] = []
    for metric in entries_at(about, "overall_eval_metric_results"):
        told = to_snake_keys(metric)
        name, score, threshold = (told.get(key) for key in ("metric_name", "score", "threshold"))
        against = "" if threshold is None else f" of {threshold}"
        if name is not None and score is not None:
            reasons.append(f"{name} {score}{against}")
    return Outcome("pass" if status in _PASSED else "fail", "check", None, "; ".join(reasons))
