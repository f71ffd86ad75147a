"""Read Google ADK: sessions with their events, eval sets, and eval results.

A session is one run, and so is a file of bare events; a session that has grown supersedes its
earlier version. Of an eval set every case with a conversation is one run, tagged `kind=reference`;
of a result every case, with its outcome. A case that only describes a user to be simulated is no
run and is set aside. Results that versions before 1.20 encoded twice, as JSON in a text, are not
read.
Format: google-adk 2.13.0, `evaluation/eval_case.py`, `evaluation/eval_result.py`; both spellings of
keys.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.chat.messages import reference_calls
from stepscope.formats.chat.response_items import number_steps
from stepscope.formats.fields import (
    Content,
    entries_at,
    list_at,
    merge_extra,
    object_at,
    parse_time,
    rest,
    text_at,
    time_bounds,
    total_usage,
)
from stepscope.formats.finish import Ordinals
from stepscope.formats.format import DecodedRecord, attempt, message_format
from stepscope.formats.google_adk import events as adk
from stepscope.formats.opening import Opening
from stepscope.model import Case, Json, Outcome, Quarantined, Step, ToolDef, ToolResult, Trajectory

_CASE = frozenset({"eval_id", "conversation", "session_input"})
_BETWEEN = frozenset({"invocation_events", "tool_uses", "tool_responses", "intermediate_responses"})
_INVOCATION = frozenset({"user_content", "final_response", "intermediate_data", "app_details"})
_DECLARED = frozenset({"function_declarations"})
_AGENT = frozenset({"name", "instructions", "tool_declarations"})
_PASSED, _FAILED = (1, "1", "PASSED"), (2, "2", "FAILED")


def parse_conversation(conversation: Json) -> list[dict[str, Json]]:
    """Return the invocations of a conversation."""
    if not isinstance(conversation, list):
        raise TraceError(f"a conversation is {str(conversation)[:60]!r}; expected a list")
    for invocation in conversation:
        if not isinstance(invocation, dict):
            raise TraceError(f"an invocation is {str(invocation)[:60]!r}; expected an object")
    return [adk.to_snake_keys(invocation) for invocation in conversation]


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
    beside = rest(adk.to_snake_keys(about.get("intermediate_data")), _BETWEEN)
    kept = {} if beside is None else {"intermediate_data": beside}
    return {**(rest(about, _INVOCATION) or {}), **kept, **_app(about.get("app_details"))[0]}


def _turn(about: dict[str, Json], *, timed: bool) -> list[Step]:
    asked = adk.read_adk_content(about.get("user_content"), "user_content")
    start = parse_time(about.get("creation_timestamp") or None) if timed else None
    first = Step(index=0, actor="user", parts=asked.parts, results=asked.results, start=start)
    steps = [msgspec.structs.replace(first, extra=_content(asked))]
    held = adk.to_snake_keys(about.get("intermediate_data"))
    events = held.get("invocation_events")
    last: Step | None = None
    if isinstance(events, list):
        steps += [adk.read_event_step(event, at) for at, event in enumerate(events)]
        # The event of the final response has its tokens; its text stands beside.
        if events and not (steps[-1].parts or steps[-1].calls or steps[-1].results):
            last = steps.pop()
    else:
        steps += _between(held)
    said = adk.read_adk_content(about.get("final_response"), "final_response")
    if said.calls and (said.parts, said.calls) == (steps[-1].parts, steps[-1].calls):
        # A response that asks for a tool stands among the events too.
        return steps
    if said.parts or said.calls or last is not None:
        last = last or Step(index=0, actor="agent")
        kind, extra = "call" if said.calls else last.kind, merge_extra(last.extra, _content(said))
        last = msgspec.structs.replace(last, parts=said.parts, calls=said.calls, kind=kind)
        steps.append(msgspec.structs.replace(last, extra=extra))
    return steps


def _content(held: Content) -> dict[str, Json] | None:
    return None if held.extra is None else {"content": held.extra}


def _between(held: dict[str, Json]) -> list[Step]:
    """Return the tools that were used, each with its response, then what agents said meanwhile."""
    calls, responses = _listed(held, "tool_uses"), _listed(held, "tool_responses")
    answers: dict[str | None, deque[ToolResult]] = {}
    for answer in [adk.read_function_response(one) for one in responses]:
        answers.setdefault(answer.call_id, deque()).append(answer)
    steps: list[Step] = []
    for made in [adk.read_function_call(one) for one in calls]:
        steps.append(Step(index=0, actor="agent", kind="call", calls=(made,)))
        if answers.get(made.id):
            steps.append(_result_step(answers[made.id].popleft()))
    steps += [_result_step(answer) for left in answers.values() for answer in left]
    for entry in entries_at(held, "intermediate_responses"):
        match entry:
            case [str(author), list(listed)]:
                parts = adk.read_adk_parts(listed, "intermediate_responses").parts
                steps.append(Step(index=0, actor="agent", agent=author or None, parts=parts))
            case _:
                raise TraceError(f"an intermediate response is {str(entry)[:60]!r}")
    return steps


def _result_step(answer: ToolResult) -> Step:
    return Step(index=0, actor="environment", kind="result", results=(answer,))


def _listed(held: dict[str, Json], key: str) -> list[dict[str, Json]]:
    value = held.get(key)
    if value is None or (isinstance(value, list) and all(isinstance(one, dict) for one in value)):
        return value or []
    raise TraceError(f"`{key}` is {str(value)[:60]!r}; expected a list of objects")


def _app(details: Json) -> tuple[dict[str, Json], list[ToolDef]]:
    """Return the instructions of an app's agents and what else is said of them, and their tools."""
    about = adk.to_snake_keys(details)
    agents = about.get("agent_details")
    if not isinstance(agents, dict):
        return {} if details is None else {"app_details": details}, []
    instructions: dict[str, Json] = {}
    beside = rest(about, frozenset({"agent_details"})) or {}
    tools: list[ToolDef] = []
    for name, agent in sorted(agents.items()):
        held = adk.to_snake_keys(agent) if isinstance(agent, dict) else {"value": agent}
        if held.get("instructions"):
            instructions[name] = held["instructions"]
        tools += adk.read_declarations(held.get("tool_declarations"), name)
        more, listed = rest(held, _AGENT) or {}, held.get("tool_declarations")
        if isinstance(listed, list):
            # Tools that declare no functions, and what others say beside theirs.
            left = [
                rest(adk.to_snake_keys(one), _DECLARED) if isinstance(one, dict) else one
                for one in listed
            ]
            more |= {"tool_declarations": left} if any(left) else {}
        elif listed is not None:
            more["tool_declarations"] = listed
        if more:
            beside[name] = more
    found: dict[str, Json] = {"instructions": instructions} if instructions else {}
    return {**found, "app_details": beside} if beside else found, tools


def make_case(about: dict[str, Json], workflow: str, expected: Sequence[Step]) -> Case:
    """Return what a conversation asks of a run: its request, its tools in order, its state."""
    session = adk.to_snake_keys(about.get("session_input"))
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
        told = adk.to_snake_keys(metric)
        name, score, threshold = (told.get(key) for key in ("metric_name", "score", "threshold"))
        against = "" if threshold is None else f" of {threshold}"
        if name is not None and score is not None:
            reasons.append(f"{name} {score}{against}")
    return Outcome("pass" if status in _PASSED else "fail", "check", None, "; ".join(reasons))


NAME = "google_adk"
_SESSION = frozenset({"id", "app_name", "events"})
_RESULT = frozenset(
    "eval_id eval_set_id session_id session_details eval_metric_result_per_invocation".split()
)


def _likeness(opening: Opening) -> float:
    first = opening.first_record
    if opening.shape in {"array", "lines"} and adk.is_adk_event(first):
        return 0.95
    return 0.0 if _sort(adk.to_snake_keys(first)) is None else 0.95


def _sort(about: dict[str, Json]) -> str | None:
    if isinstance(about.get("eval_cases"), list) and "eval_set_id" in about:
        return "set"
    if isinstance(about.get("eval_case_results"), list):
        return "results"
    if "eval_id" in about and "final_eval_status" in about:
        return "result"
    if "eval_id" in about and about.keys() & {"conversation", "conversation_scenario"}:
        return "case"
    events = about.get("events")
    if isinstance(events, list) and "id" in about:
        if adk.is_adk_event(events[0]) if events else {"app_name", "user_id"} <= about.keys():
            return "session"
    return None


def _runs(found: DecodedRecord, ordinals: Ordinals) -> Iterator[Trajectory | Quarantined]:
    """Yield the runs of a record; a case or a result that is none is quarantined alone."""
    about = adk.to_snake_keys(found.value)
    sort = _sort(about)
    if sort == "session":
        run_id = text_at(about, "id")
        draft = _draft(_events(about), found)
        draft = msgspec.structs.replace(
            draft,
            name=run_id or "",
            source=msgspec.structs.replace(draft.source, run_id=run_id),
            workflow=text_at(about, "app_name") or NAME,
            tools=adk.list_offered_tools(about.get("event_logs")) or None,
            extra=rest(about, _SESSION),
        )
        yield found.finish(draft, ordinals)
    elif sort in {"case", "result"}:
        yield _member(found, {}, ordinals)
    elif sort is not None:
        listed = "eval_cases" if sort == "set" else "eval_case_results"
        if not about[listed]:
            raise TraceError(f"nothing stands in `{listed}`")
        around = rest(about, frozenset({listed})) or {}
        for member in about[listed]:
            one = found._replace(value=member, raw=msgspec.json.encode(member))
            yield from attempt(one, lambda one: (_member(one, around, ordinals),))
    else:
        raise TraceError(f"no session, eval set or eval result: {str(found.value)[:60]!r}")


def _member(found: DecodedRecord, around: dict[str, Json], ordinals: Ordinals) -> Trajectory:
    about = adk.to_snake_keys(found.value)
    sort = _sort(about)
    if sort not in {"case", "result"}:
        raise TraceError(f"no eval case and no result of one: {str(found.value)[:60]!r}")
    draft = (_case if sort == "case" else _result)(about, around, found)
    return found.finish(draft, ordinals)


def _draft(steps: Sequence[Step], found: DecodedRecord) -> Trajectory:
    start, end = time_bounds(steps)
    return Trajectory(
        id="",
        name="",
        steps=tuple(steps),
        source=found.source(NAME),
        workflow=NAME,
        agent=next((step.agent for step in steps if step.agent is not None), None),
        usage=total_usage(steps),
        start=start,
        end=end,
    )


def _events(about: dict[str, Json]) -> list[Step]:
    events = about.get("events")
    if not isinstance(events, list) or not events:
        raise TraceError("a session without events")
    steps = [adk.read_event_step(event, at) for at, event in enumerate(events)]
    return adk.add_model_logs(steps, about.get("event_logs"))


def _case(about: dict[str, Json], around: dict[str, Json], found: DecodedRecord) -> Trajectory:
    own = text_at(about, "eval_id") or ""
    if "conversation" not in about:
        raise TraceError(f"eval case {own!r} describes a user to be simulated; it is no run yet")
    turns = parse_conversation(about["conversation"])
    steps = invocation_steps(turns, timed=False)
    case = make_case(about, text_at(around, "eval_set_id") or NAME, steps)
    extra = {**around, "invocations": [invocation_notes(turn) for turn in turns]}
    draft = _draft(steps, found)
    name = f"{case.workflow}/{case.task}"
    return msgspec.structs.replace(
        draft,
        # A run that was made for the case has its name without this.
        name=f"{name}/reference",
        source=msgspec.structs.replace(draft.source, run_id=name),
        workflow=case.workflow,
        task=case.task,
        case=case,
        tags={"kind": "reference"},
        tools=invocation_tools(turns) or None,
        extra=extra,
    )


def _result(about: dict[str, Json], around: dict[str, Json], found: DecodedRecord) -> Trajectory:
    """Return the run that was made for a case: the session's events, else what was kept of it."""
    turns: list[dict[str, Json]] = []
    for turn in list_at(about, "eval_metric_result_per_invocation"):
        if not isinstance(turn, dict):
            raise TraceError(f"an invocation's result is {str(turn)[:60]!r}; expected an object")
        turns.append(adk.to_snake_keys(turn))
    made = parse_conversation([turn.get("actual_invocation", {}) for turn in turns])
    actual = invocation_steps(made, timed=True)
    wanted = parse_conversation([turn[_HELD] for turn in turns if _HELD in turn])
    expected = invocation_steps(wanted, timed=False)
    session = adk.to_snake_keys(about.get("session_details"))
    steps = _events(session) if session.get("events") else actual
    workflow = text_at(about, "eval_set_id") or text_at(around, "eval_set_id") or NAME
    task, run_id = text_at(about, "eval_id"), text_at(about, "session_id")
    draft = _draft(steps, found)
    # Events tell the run; what was kept of them beside is kept beside.
    told = {_HELD} if session.get("events") else {_HELD, "actual_invocation"}
    notes = [
        {**invocation_notes(turn), **(said or {})}
        for turn, said in zip(made, [rest(turn, frozenset(told)) for turn in turns], strict=True)
    ]
    extra = {**around, **(rest(about, _RESULT) or {}), "invocations": notes}
    if expected:
        extra["expected_invocations"] = [turn[_HELD] for turn in turns if _HELD in turn]
    if more_of_session := rest(session, _SESSION):
        extra["session"] = more_of_session
    return msgspec.structs.replace(
        draft,
        name=f"{workflow}/{task}",
        source=msgspec.structs.replace(draft.source, run_id=run_id),
        workflow=workflow,
        task=task,
        case=make_case({"eval_id": task}, workflow, expected) if expected else None,
        outcome=read_adk_outcome(about),
        tools=invocation_tools(made) or None,
        extra=extra,
    )


_HELD = "expected_invocation"

FORMAT = message_format(
    NAME,
    _likeness,
    is_part=adk.is_adk_event,
    step=lambda value, index, _: adk.read_event_step(value, index),
    whole=_runs,
    run=lambda steps, first, ordinals: first.finish(_draft(steps, first), ordinals),
)
