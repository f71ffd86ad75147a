"""A trace of LangSmith as a run and the runs of its subagents, linked both ways.

An agent at work within a tool's run is a subagent: its messages are between it and the tool, so it
is a run of its own. An agent that is a node of a graph speaks in the graph's own run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from stepscope.formats.building import Ordinals
from stepscope.formats.langsmith_run import Fault, Trace
from stepscope.formats.spans.assembling import assemble
from stepscope.formats.spans.attributes import text
from stepscope.formats.spans.graph import graph
from stepscope.formats.spans.langsmith import is_agent
from stepscope.formats.spans.span import Span
from stepscope.model import Json, Source, Trajectory, Warn
from stepscope.safety.door import Repair
from stepscope.safety.limits import Limits

# What LangGraph calls a graph that nobody named.
_UNNAMED = "LangGraph"


def families(
    trace: Trace,
    *,
    source: Source,
    ordinals: Ordinals,
    limits: Limits,
    extra: Mapping[str, Json] | None,
    repairs: Iterable[Repair],
) -> Iterator[Trajectory]:
    """Yield the run of a trace, then those of its subagents, each after the one that it is of.

    Raises:
        TraceError: a run cannot be written as JSON, or has more steps than `limits` allows.
    """
    groups, above = _groups(trace.spans)
    heads = {group[0].span_id: group[0].parent_id for group in groups[1:]}
    runs: list[Trajectory] = []
    for number, group in enumerate(groups):
        if number:
            group = _apart(group)
        (run,) = assemble(
            group,
            source=source,
            ordinals=ordinals,
            limits=limits,
            extra=None if number else extra,
            repairs=() if number else repairs,
        )
        parent = above[number]
        runs.append(
            msgspec.structs.replace(
                run,
                task=_task(group),
                parent=None if parent is None else runs[parent].id,
                spans=tuple(
                    [
                        msgspec.structs.replace(node, parent=heads[node.id])
                        if node.id in heads
                        else node
                        for node in run.spans
                    ]
                ),
            )
        )
    for number, run in enumerate(runs):
        children = [child.id for child, parent in zip(runs, above, strict=True) if parent == number]
        yield _told(run, trace.faults, tuple(children))


def _groups(spans: tuple[Span, ...]) -> tuple[list[list[Span]], list[int | None]]:
    """Return the spans of each run, the trace's own first, and which run each of them is below."""
    tree = graph(spans)
    inside: list[Literal["tool", "agent"] | None] = [None] * len(spans)
    member = [0] * len(spans)
    above: list[int | None] = [None]
    for at in tree.order:
        parent, span = tree.parents[at], spans[at]
        if parent is not None:
            inside[at], member[at] = inside[parent], member[parent]
        agent = span.kind == "chain" and (is_agent(span) or span.name == _UNNAMED)
        if agent and inside[at] == "tool":
            above.append(member[at])
            member[at] = len(above) - 1
        inside[at] = "agent" if agent else "tool" if span.kind == "tool" else inside[at]
    groups: list[list[Span]] = [[] for _ in above]
    for at in tree.order:
        groups[member[at]].append(spans[at])
    if len(groups) == 1:
        groups = [list(spans)]
    return groups, above


def _apart(group: list[Span]) -> list[Span]:
    """Return the spans of a subagent as a trace of their own, under the id of the first."""
    head, *others = group
    name = head.span_id
    return [
        msgspec.structs.replace(head, trace_id=name, parent_id=None),
        *[msgspec.structs.replace(span, trace_id=name) for span in others],
    ]


def _task(group: list[Span]) -> str | None:
    """Return the example that a run was made for, where it was an experiment's."""
    return text(group[0].attributes, "langsmith.reference_example_id")


def _told(run: Trajectory, faults: tuple[Fault, ...], children: tuple[str, ...]) -> Trajectory:
    """Return a run with its children, and a warning for each fault of a run in it."""
    if not faults and not children:
        return run
    here = {node.id for node in run.spans}
    # What a model was given stands before what it said.
    last = {step.span: step.index for step in run.steps}
    warnings = [
        Warn(fault.code, fault.reason, last.get(fault.run_id))
        for fault in faults
        if fault.run_id in here
    ]
    return msgspec.structs.replace(run, children=children, warnings=(*run.warnings, *warnings))
