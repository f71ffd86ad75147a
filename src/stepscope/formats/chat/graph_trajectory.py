"""Read agentevals' graph trajectories: which nodes of a LangGraph graph ran, turn by turn.

One record is one thread: for each turn its input, the nodes in order, and the result, bare or as
`extract_langgraph_trajectory_from_thread` gives it. A visit of a node is a step of which nothing
but the node is known; what a node called or said on the way is not in such a file.
Format: agentevals 0.0.9, `types.py` and `graph_trajectory/utils.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.fields import rest, step_kind
from stepscope.formats.finish import Ordinals
from stepscope.formats.format import DecodedRecord, RecordFormat, read_each
from stepscope.formats.opening import any_record
from stepscope.formats.spans.messages import read_messages
from stepscope.model import Actor, Json, Step, Trajectory
from stepscope.safety.limits import Limits

NAME = "graph_trajectory"
# Where a graph begins and ends; its input and its result say the same.
_EDGES = frozenset({"__start__", "__end__"})
_PAUSE = "__interrupt__"
_NOTHING: tuple[()] = ()  # what a turn lacks that others have
_KEYS = frozenset({"inputs", "results", "steps", "outputs"})


def _is_like(record: Json) -> bool:
    held = _find_graph(record)
    if held is None:
        return False
    turns = held["steps"]
    return bool(turns) and all(
        isinstance(nodes, list) and all(isinstance(node, str) for node in nodes) for nodes in turns
    )


def _find_graph(record: Json) -> dict[str, Json] | None:
    """Return the object that has steps and results: a record, or what stands under `outputs`."""
    for held in (record, record.get("outputs") if isinstance(record, dict) else None):
        if isinstance(held, dict) and isinstance(held.get("results"), list):
            if isinstance(held.get("steps"), list):
                return held
    return None


def _runs(record: DecodedRecord, ordinals: Ordinals) -> tuple[Trajectory]:
    held, around = _find_graph(record.value), record.value
    if held is None:
        raise TraceError(
            "a graph's trajectory needs lists under `results` and `steps`; found "
            f"{str(around)[:60]!r}"
        )
    turns, results = msgspec.convert(held["steps"], list[list[str]]), held["results"]
    inputs = around.get("inputs")
    given = inputs if isinstance(inputs, list) else []
    extra = {**(rest(held, _KEYS) or {}), **(rest(around, _KEYS) or {})}
    if held is not around and held.get("inputs"):
        extra["outputs_inputs"] = held["inputs"]
    if inputs is not None and inputs is not given:
        extra["inputs"] = inputs
    steps: list[Step] = []
    for entry, nodes, result in zip_longest(given, turns, results, fillvalue=_NOTHING):
        for made in _turn_steps(entry, nodes, result, record.limits):
            steps.append(msgspec.structs.replace(made, index=len(steps)))
    source = record.source(NAME)
    draft = Trajectory(
        id="", name="", steps=tuple(steps), source=source, workflow=NAME, extra=extra or None
    )
    return (record.finish(draft, ordinals),)


def _turn_steps(entry: Json, nodes: Iterable[str], result: Json, limits: Limits) -> Iterator[Step]:
    if entry is not _NOTHING:
        began = isinstance(entry, dict) and "__start__" in entry
        around = rest(entry, frozenset({"__start__"})) if began else None
        yield from _state_steps(entry["__start__"] if began else entry, "user", limits, around)
    for node in nodes:
        if node not in _EDGES:
            # A visit within a subgraph bears the name of the subgraph's node.
            graph, inside, _ = node.rpartition(":")
            actor: Actor = "environment" if node == _PAUSE else "agent"
            agent = None if node == _PAUSE else graph if inside else node
            yield Step(index=0, actor=actor, kind="other", agent=agent, extra={"node": node})
    if result is not _NOTHING:
        yield from _state_steps(result, "agent", limits, None)


def _state_steps(
    held: Json, actor: Actor, limits: Limits, around: dict[str, Json] | None
) -> Iterator[Step]:
    """Yield the messages of a state; the last keeps what else the state and what is around say."""
    made = [
        Step(
            index=0,
            actor=message.actor,
            kind=step_kind(message.calls, message.results),
            parts=message.parts,
            calls=message.calls,
            results=message.results,
            agent=message.name if message.actor == "agent" else None,
            extra=message.extra,
        )
        for message in read_messages(held, actor, limits)
    ]
    listed = isinstance(held, dict) and isinstance(held.get("messages"), list)
    beside = {**(around or {}), **((rest(held, frozenset({"messages"})) or {}) if listed else {})}
    if beside and made:
        made[-1] = msgspec.structs.replace(made[-1], extra={**beside, **(made[-1].extra or {})})
    elif beside:
        made = [Step(index=0, actor=actor, kind="other", extra=beside)]
    yield from made


FORMAT = RecordFormat(NAME, any_record(_is_like, 0.95), read_each(_runs))
