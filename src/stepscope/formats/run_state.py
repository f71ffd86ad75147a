"""Run states of the OpenAI Agents SDK, saved to be resumed: one is one run, as far as it came.

Its input, then its items in order, each with the agent whose it is; a handoff is a step of the
agent that hands over. Items of one model's answer are one turn, which carries that answer's tokens.
What guardrails found stands at the beginning and at the end.
Format: openai-agents 0.24.0, `run_state.py`, schema 1.21 and those before.
"""

from __future__ import annotations

from collections import deque

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.beliefs import judge_text
from stepscope.formats.building import Ordinals, finish, rest, text_at
from stepscope.formats.chat import Reading
from stepscope.formats.item_turns import placed, turns
from stepscope.formats.items import item_step
from stepscope.formats.plain import Found
from stepscope.formats.tokens import openai_usage, total
from stepscope.model import Json, Part, Source, Step, Trajectory, Usage

_ITEM = frozenset({"type", "raw_item", "agent", "source_agent", "target_agent"})
_STATE = frozenset(
    "$schemaVersion original_input generated_items session_items model_responses "
    "last_model_response input_guardrail_results output_guardrail_results".split()
)


def is_state(record: dict[str, Json]) -> bool:
    """Say whether a record is a saved run state."""
    return "$schemaVersion" in record and record.keys() >= {"original_input", "model_responses"}


def run_of_state(found: Found, name: str, ordinals: Ordinals) -> Trajectory:
    """Return the run that a state holds, as the format `name`.

    Raises:
        TraceError: an item that is none, or a list that is something else.
    """
    state: dict[str, Json] = found.value
    reading = Reading(judge_text, found.limits)
    given = state["original_input"]
    listed = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(listed, list):
        raise TraceError(f"`original_input` is {str(given)[:60]!r}; expected text or a list")
    steps = turns([item_step(item, at, reading) for at, item in enumerate(listed)])
    steps += _checks(state, "input_guardrail_results")
    answers = _Answers(_list(state, "model_responses"))
    steps += turns([_of_item(item, reading, answers) for item in _items(state)])
    steps += _checks(state, "output_guardrail_results")
    trace, context = state.get("trace"), state.get("context")
    about = trace if isinstance(trace, dict) else {}
    run_steps = placed(steps)
    draft = Trajectory(
        id="",
        name=text_at(about, "id") or "",
        steps=run_steps,
        source=Source(
            format=name,
            format_version=str(state["$schemaVersion"]),
            uri=found.uri,
            offset=found.offset,
            run_id=text_at(about, "id"),
        ),
        workflow=text_at(about, "workflow_name") or name,
        agent=_agent(run_steps, state.get("current_agent")),
        termination=_pending(state.get("current_step")),
        usage=_usage(context) or total(run_steps),
        extra={**(rest(state, _STATE) or {}), **_beside(state, answers)} or None,
    )
    return finish(draft, ordinals, limits=found.limits, repairs=found.repairs)


def _list(state: dict[str, Json], key: str) -> list[Json]:
    value = state.get(key)
    if value is None or isinstance(value, list):
        return value or []
    raise TraceError(f"`{key}` is {str(value)[:60]!r}; expected a list")


def _items(state: dict[str, Json]) -> list[Json]:
    """Return the items of the session, which what goes to the model next may leave out in part."""
    return _list(state, "session_items") or _list(state, "generated_items")


def _beside(state: dict[str, Json], answers: _Answers) -> dict[str, Json]:
    """Return what answers say of themselves, and items and answers that are told nowhere else."""
    session, made = _list(state, "session_items"), _list(state, "generated_items")
    about = answers.about()
    found: dict[str, Json] = {"model_responses": about} if any(about) else {}
    if session and made and session != made:
        found["generated_items"] = made
    last, listed = state.get("last_model_response"), _list(state, "model_responses")
    if last is not None and (not listed or last != listed[-1]):
        found["last_model_response"] = last
    return found


class _Answers:
    """The answers of the model, and which of them each item is of."""

    def __init__(self, listed: list[Json]) -> None:
        self._about: list[dict[str, Json]] = []
        self._items: dict[bytes, Json] = {}
        self._of: dict[bytes, deque[int]] = {}
        self._left: list[int] = []
        self._usages: list[Usage | None] = []
        for at, answer in enumerate(listed):
            output = answer.get("output") if isinstance(answer, dict) else None
            if not isinstance(answer, dict) or not isinstance(output, list):
                raise TraceError(f"a model's response is {str(answer)[:60]!r}; expected `output`")
            for item in output:
                self._of.setdefault(_encoded(item), deque()).append(at)
                self._items[_encoded(item)] = item
            self._left.append(len(output))
            self._usages.append(_told(answer.get("usage")))
            self._about.append(rest(answer, frozenset({"output"})) or {})

    def about(self) -> list[Json]:
        """Return what answers say beyond their items, and the items that no step was made of."""
        found = [dict(answer) for answer in self._about]
        for key, places in self._of.items():
            for at in places:
                found[at].setdefault("output", []).append(self._items[key])
        return [answer or None for answer in found]

    def of(self, step: Step, raw: dict[str, Json]) -> Step:
        """Return a step with its model, and, of an answer's last item, with the answer's tokens.

        Of an answer that the items hold only in part, the tokens are in the run's total alone.
        """
        places = self._of.get(_encoded(raw))
        if not places:
            return step
        at = places.popleft()
        self._left[at] -= 1
        usage = None if self._left[at] else self._usages[at]
        return msgspec.structs.replace(step, model=_provider(raw, "model"), usage=usage)


_encoded = msgspec.json.Encoder(order="deterministic").encode


def _provider(item: dict[str, Json], key: str) -> str | None:
    data = item.get("provider_data")
    return text_at(data, key) if isinstance(data, dict) else None


def _told(usage: Json) -> Usage | None:
    """Return tokens as the SDK writes them, its details in lists; none where no request is told."""
    if not isinstance(usage, dict) or usage.get("requests") == 0:
        return None
    plain = dict(usage)
    for key in ("input_tokens_details", "output_tokens_details"):
        held = plain.get(key)
        plain[key] = held[0] if isinstance(held, list) and held else held
    return openai_usage(plain)


def _usage(context: Json) -> Usage | None:
    return _told(context.get("usage")) if isinstance(context, dict) else None


def _of_item(item: Json, reading: Reading, answers: _Answers) -> Step:
    """Return one item as a step without a place, with its agent and what is said beside it."""
    raw = item.get("raw_item") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(raw, dict):
        raise TraceError(f"an item needs an object under `raw_item`; found {str(item)[:60]!r}")
    if item.get("type") == "tool_approval_item":
        return Step(index=0, actor="agent", kind="other", agent=_name(item, "agent"), extra=item)
    step = item_step(raw, 0, reading)
    about = {key: value for key, value in item.items() if key not in _ITEM and value is not None}
    if "output" in about and step.results:
        if about["output"] in (step.results[0].text, raw.get("output")):
            del about["output"]
    for key in ("agent", "source_agent", "target_agent"):
        agent = item.get(key)
        more = rest(agent, frozenset({"name"})) if isinstance(agent, dict) else agent
        if more is not None:
            about[key] = more
    source, target = _name(item, "source_agent"), _name(item, "target_agent")
    if target is not None:
        step = _handed(step, target)
    if step.actor == "agent":
        step = msgspec.structs.replace(step, agent=source or _name(item, "agent"))
        step = answers.of(step, raw)
    return _with(step, about) if about else step


def _handed(step: Step, target: str) -> Step:
    """Return the answer to a handoff's call as the handoff, which came about."""
    results = tuple(
        [
            msgspec.structs.replace(result, status="ok", source="protocol")
            if result.status == "unknown"
            else result
            for result in step.results
        ]
    )
    return msgspec.structs.replace(
        step, actor="agent", kind="handoff", results=results, extra={"to": target}
    )


def _name(item: dict[str, Json], key: str) -> str | None:
    agent = item.get(key)
    return text_at(agent, "name") if isinstance(agent, dict) else None


def _with(step: Step, about: dict[str, Json]) -> Step:
    """Return a step with what its item says beside, at the call or the result that it is."""
    if step.calls:
        call = step.calls[0]
        call = msgspec.structs.replace(call, extra={**(call.extra or {}), **about})
        return msgspec.structs.replace(step, calls=(call, *step.calls[1:]))
    if step.results:
        result = step.results[0]
        result = msgspec.structs.replace(result, extra={**(result.extra or {}), **about})
        return msgspec.structs.replace(step, results=(result, *step.results[1:]))
    return msgspec.structs.replace(step, extra={**(step.extra or {}), **about})


def _checks(state: dict[str, Json], key: str) -> list[Step]:
    """Return what guardrails found, a step each."""
    return [
        Step(
            index=0,
            actor="environment",
            kind="guardrail",
            parts=(Part("data", extra=check if isinstance(check, dict) else {"value": check}),),
        )
        for check in _list(state, key)
    ]


def _agent(steps: tuple[Step, ...], current: Json) -> str | None:
    """Return the agent that the run began with, else the one whose turn it is."""
    first = next((step.agent for step in steps if step.agent is not None), None)
    return first or (text_at(current, "name") if isinstance(current, dict) else None)


def _pending(current: Json) -> str | None:
    """Return what the run waits for, None where it waits for nothing."""
    if not isinstance(current, dict) or not isinstance(current.get("type"), str):
        return None
    return str(current["type"]).removeprefix("next_step_")
