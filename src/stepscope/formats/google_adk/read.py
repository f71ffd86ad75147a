"""Read Google ADK: sessions with their events, eval sets, and eval results.

A session is one run, and so is a file of bare events; a session that has grown supersedes its
earlier version. Of an eval set every case with a conversation is one run, tagged `kind=reference`;
of a result every case, with its outcome. A case that only describes a user to be simulated is no
run and is set aside. Results that versions before 1.20 encoded twice, as JSON in a text, are not
read.
Format: google-adk 2.13.0; both spellings of keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.fields import list_at, rest, text_at, time_bounds, total_usage
from stepscope.formats.finish import Ordinals, finish_run
from stepscope.formats.format import DecodedRecord, attempt, message_format
from stepscope.formats.google_adk import evals
from stepscope.formats.google_adk.events import (
    add_model_logs,
    is_adk_event,
    list_offered_tools,
    read_event_step,
    to_snake_keys,
)
from stepscope.formats.opening import Opening
from stepscope.model import Json, Quarantined, Step, Trajectory

NAME = "google_adk"
_SESSION = frozenset({"id", "app_name", "events"})
_RESULT = frozenset(
    "eval_id eval_set_id session_id session_details eval_metric_result_per_invocation".split()
)


def _likeness(opening: Opening) -> float:
    first = opening.records[0] if opening.records else None
    if opening.shape in {"array", "lines"} and is_adk_event(first):
        return 0.95
    return 0.0 if _sort(to_snake_keys(first)) is None else 0.95


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
        if is_adk_event(events[0]) if events else {"app_name", "user_id"} <= about.keys():
            return "session"
    return None


def _runs(found: DecodedRecord, ordinals: Ordinals) -> Iterator[Trajectory | Quarantined]:
    """Yield the runs of a record; a case or a result that is none is quarantined alone."""
    about = to_snake_keys(found.value)
    sort = _sort(about)
    if sort == "session":
        run_id = text_at(about, "id")
        draft = _draft(_events(about), found)
        yield _finished(
            msgspec.structs.replace(
                draft,
                name=run_id or "",
                source=msgspec.structs.replace(draft.source, run_id=run_id),
                workflow=text_at(about, "app_name") or NAME,
                tools=list_offered_tools(about.get("event_logs")) or None,
                extra=rest(about, _SESSION),
            ),
            found,
            ordinals,
        )
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
    about = to_snake_keys(found.value)
    sort = _sort(about)
    if sort not in {"case", "result"}:
        raise TraceError(f"no eval case and no result of one: {str(found.value)[:60]!r}")
    return _finished((_case if sort == "case" else _result)(about, around, found), found, ordinals)


def _object(value: Json) -> dict[str, Json]:
    if isinstance(value, dict):
        return to_snake_keys(value)
    raise TraceError(f"an invocation's result is {str(value)[:60]!r}; expected an object")


def _finished(draft: Trajectory, found: DecodedRecord, ordinals: Ordinals) -> Trajectory:
    return finish_run(draft, ordinals, limits=found.limits, repairs=found.repairs)


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
    """Return the steps of a session."""
    events = about.get("events")
    if not isinstance(events, list) or not events:
        raise TraceError("a session without events")
    steps = [read_event_step(event, at) for at, event in enumerate(events)]
    return add_model_logs(steps, about.get("event_logs"))


def _case(about: dict[str, Json], around: dict[str, Json], found: DecodedRecord) -> Trajectory:
    own = text_at(about, "eval_id") or ""
    if "conversation" not in about:
        raise TraceError(f"eval case {own!r} describes a user to be simulated; it is no run yet")
    turns = evals.parse_conversation(about["conversation"])
    steps = evals.invocation_steps(turns, timed=False)
    case = evals.make_case(about, text_at(around, "eval_set_id") or NAME, steps)
    extra = {**around, "invocations": [evals.invocation_notes(turn) for turn in turns]}
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
        tools=evals.invocation_tools(turns) or None,
        extra=extra,
    )


def _result(about: dict[str, Json], around: dict[str, Json], found: DecodedRecord) -> Trajectory:
    """Return the run that was made for a case: the session's events, else what was kept of it."""
    turns = [_object(turn) for turn in list_at(about, "eval_metric_result_per_invocation")]
    made = evals.parse_conversation([turn.get("actual_invocation", {}) for turn in turns])
    actual = evals.invocation_steps(made, timed=True)
    wanted = evals.parse_conversation([turn[_HELD] for turn in turns if _HELD in turn])
    expected = evals.invocation_steps(wanted, timed=False)
    session = to_snake_keys(about.get("session_details"))
    steps = _events(session) if session.get("events") else actual
    workflow = text_at(about, "eval_set_id") or text_at(around, "eval_set_id") or NAME
    task, run_id = text_at(about, "eval_id"), text_at(about, "session_id")
    draft = _draft(steps, found)
    # Events tell the run; what was kept of them beside is kept beside.
    told = {_HELD} if session.get("events") else {_HELD, "actual_invocation"}
    notes = [
        {**evals.invocation_notes(turn), **(said or {})}
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
        case=evals.make_case({"eval_id": task}, workflow, expected) if expected else None,
        outcome=evals.read_adk_outcome(about),
        tools=evals.invocation_tools(made) or None,
        extra=extra,
    )


_HELD = "expected_invocation"

FORMAT = message_format(
    NAME,
    _likeness,
    is_part=is_adk_event,
    step=lambda value, index, _: read_event_step(value, index),
    whole=_runs,
    run=lambda steps, first, ordinals: _finished(_draft(steps, first), first, ordinals),
)
