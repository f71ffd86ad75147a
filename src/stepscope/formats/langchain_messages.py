"""Read LangChain messages: plain, under `data`, or serialised (`lc`), bare or in a graph's state.

One run is: a file that is a list of messages (or one message a line); a record that is such a list;
a record with `messages`, or with a state that has them under `values`. A tool's message says itself
whether the tool failed. Calls that LangChain could not take apart are calls with a parse error.
Refuses lists of a thread's past states, each of which repeats the one before.
Format: langchain-core 1.7.2, `messages` and `load/dump.py`; langgraph 1.2.22, `StateSnapshot`.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.building import Ordinals, finish, rest, text_at
from stepscope.formats.envelope import KEYS, Envelope, tool_defs
from stepscope.formats.gathering import gathered
from stepscope.formats.langchain_steps import certain, is_message, langchain_step
from stepscope.formats.opening import Opening
from stepscope.formats.plain import Found, PlainFormat
from stepscope.formats.tokens import total
from stepscope.model import Json, Quarantined, Source, Step, Stream, Trajectory

NAME = "langchain_messages"
_WHOLE = frozenset({"messages", "values"})
_NOTHING = Envelope()


def _likeness(opening: Opening) -> float:
    if not opening.records:
        return 0.0
    first = opening.records[0]
    if opening.shape in {"array", "lines"} and is_message(first):
        return _of(list(opening.records))
    if isinstance(first, dict):
        first = _messages(first) if "values" not in first or opening.shape != "array" else None
    return _of(first) if isinstance(first, list) else 0.0


def _of(messages: list[Json]) -> float:
    """Return how sure it is that messages are LangChain's: one of them must say so."""
    # The last message of a cut head may lack anything.
    whole = all(is_message(message) for message in messages[:-1])
    return 0.95 if whole and any(map(certain, messages)) else 0.0


def _messages(record: dict[str, Json]) -> Json:
    """Return the messages of a state, bare or in a snapshot."""
    held = record.get("values")
    return held.get("messages") if isinstance(held, dict) else record.get("messages")


def _is_part(record: Json) -> bool:
    """Say whether a record is one message of the file's run rather than a run of its own."""
    if isinstance(record, dict):
        return is_message(record) or not record.keys() & _WHOLE
    return not isinstance(record, list)


def _read(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    ordinals = Ordinals()
    return gathered(
        stream,
        is_part=_is_part,
        step=lambda found, index: langchain_step(found.value, index, found.limits),
        whole=lambda found: (_whole(found, ordinals),),
        run=lambda steps, first: _run(steps, first, ordinals),
    )


def _whole(found: Found, ordinals: Ordinals) -> Trajectory:
    record = found.value
    around = record if isinstance(record, dict) else {}
    listed = _messages(record) if isinstance(record, dict) else record
    if not isinstance(listed, list) or not listed:
        raise TraceError(f"needs a list of messages; found {str(listed)[:60]!r}")
    steps = [langchain_step(each, index, found.limits) for index, each in enumerate(listed)]
    return _run(tuple(steps), found, ordinals, around)


def _run(
    steps: tuple[Step, ...], at: Found, ordinals: Ordinals, around: dict[str, Json] | None = None
) -> Trajectory:
    state = around or {}
    envelope = _envelope(state)
    known = KEYS if envelope is not _NOTHING else frozenset()
    named = (envelope.workflow or NAME, envelope.task_name, envelope.trial_name)
    thread = _thread(state)
    draft = Trajectory(
        id="",
        name="/".join([part for part in named if part is not None]) if envelope.task_name else "",
        steps=steps,
        source=Source(format=NAME, uri=at.uri, offset=at.offset, run_id=envelope.source_id),
        workflow=envelope.workflow or NAME,
        task=envelope.task_name,
        trial=envelope.trial_name,
        agent=envelope.agent or next((s.agent for s in steps if s.actor == "agent"), None),
        agent_version=envelope.agent_version,
        tags={**envelope.tags, **({} if thread is None else {"session": thread})},
        tools=tool_defs(envelope.tools if envelope.tools is not None else envelope.functions),
        outcome=envelope.outcome,
        usage=total(steps),
        extra=_beside(state, known),
    )
    return finish(draft, ordinals, limits=at.limits, repairs=at.repairs)


def _envelope(state: dict[str, Json]) -> Envelope:
    """Return what stands around messages; a graph's state may use these names for anything."""
    try:
        return msgspec.convert({key: state[key] for key in KEYS & state.keys()}, Envelope)
    except msgspec.ValidationError:
        return _NOTHING


def _thread(state: dict[str, Json]) -> str | None:
    """Return the thread that a state is of, as its snapshot says."""
    config = state.get("config")
    for held in (config.get("configurable") if isinstance(config, dict) else None, state):
        if isinstance(held, dict) and (thread := text_at(held, "thread_id")):
            return thread
    return None


def _beside(state: dict[str, Json], known: frozenset[str]) -> dict[str, Json] | None:
    """Return what a state says beyond its messages."""
    values = state.get("values")
    found = rest(state, known | _WHOLE) or {}
    if isinstance(values, dict):
        if more := rest(values, frozenset({"messages"})):
            found["values"] = more
        if state.get("messages") is not None:
            found["messages"] = state["messages"]
    elif values is not None:
        found["values"] = values
    return found or None


FORMAT = PlainFormat(NAME, _likeness, _read)
