"""The tree of the spans of a trace, and which spans make steps.

Missing parents, circles, ids given twice and times outside of the parent's are kept as recorded and
reported. For the order alone, an orphan is a root and a circle is cut at the span that begins
first. Linear in the number of spans.

A model's span around another model's span makes no step; what only the outer one says, the inner
one takes over. An agent or a chain is read by its own input and output only where no model's span
below it says more; a chain only in a trace without a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from stepscope.formats.spans.span import RawSpan, SpanContent, SpanMessage, merge_contents
from stepscope.model import Warn


class SpanTree(NamedTuple):
    """Spans by position."""

    # the parent's position; None for a root, an orphan, and where a circle is cut
    parents: tuple[int | None, ...]
    order: tuple[int, ...]  # every span, parents before their children
    start: tuple[int, ...]  # when a span began, by itself or, without a time, by its parent
    depth: tuple[int, ...]  # how many ancestors a span has
    superseded: frozenset[int]  # spans that were sent again later, more complete
    faults: tuple[tuple[int, Warn], ...]  # what is odd, each at the position of its span
    # what each span says, frames folded into what they frame; these three by `assign_roles`
    contents: Sequence[SpanContent] = ()
    agents: Sequence[str | None] = ()  # the agent that a span belongs to, by the nearest agent's
    speaks: Sequence[bool] = ()  # spans that make steps


def build_tree(spans: Sequence[RawSpan]) -> SpanTree:
    """Return the tree of spans of one trace, with its faults."""
    places: dict[str, int] = {}
    faults: list[tuple[int, Warn]] = []
    superseded = _find_resent(spans, places, faults)
    parents: list[int | None] = []
    for at, span in enumerate(spans):
        parent = None if not span.parent_id else places.get(span.parent_id)
        if span.parent_id and parent is None:
            reason = f"span {span.span_id!r}: its parent {span.parent_id!r} is not in the trace"
            faults.append((at, Warn("orphan_span", reason)))
        parents.append(parent)
    _cut_circles(spans, parents, faults)
    children: list[list[int]] = [[] for _ in spans]
    order: list[int] = []
    for at, parent in enumerate(parents):
        (order if parent is None else children[parent]).append(at)
    start, depth = [0] * len(spans), [0] * len(spans)
    for at in order:  # grows while it is walked
        parent = parents[at]
        began = spans[at].start_ns
        if began is None:
            began = spans[at].end_ns if parent is None else start[parent]
        start[at] = began or 0
        depth[at] = 0 if parent is None else depth[parent] + 1
        order.extend(children[at])
        faults.extend(_mistimed(spans, at, parent))
    faults.sort(key=lambda fault: (fault[0], fault[1].code, fault[1].reason))
    found = tuple(parents), tuple(order), tuple(start), tuple(depth)
    return SpanTree(*found, superseded, tuple(faults))


def _find_resent(
    spans: Sequence[RawSpan], places: dict[str, int], faults: list[tuple[int, Warn]]
) -> frozenset[int]:
    """Fill `places` with the position of each id and return the spans that were sent again.

    The same id, name and beginning is the same span, and its last form counts; anything else under
    an id already given is another span.
    """
    superseded: set[int] = set()
    last: dict[tuple[str, str, int | None], int] = {}
    for at, span in enumerate(spans):
        key = (span.span_id, span.name, span.start_ns)
        if places.setdefault(span.span_id, at) != at:
            again = key in last
            told = "is sent again; its last form counts" if again else "is the id of another span"
            faults.append((at, Warn("duplicate_span_id", f"span {span.span_id!r} {told}")))
        if key in last:
            superseded.add(last[key])
            if places[span.span_id] == last[key]:
                places[span.span_id] = at
        last[key] = at
    return frozenset(superseded)


def _cut_circles(
    spans: Sequence[RawSpan], parents: list[int | None], faults: list[tuple[int, Warn]]
) -> None:
    """Cut every circle at the span of it that begins first, and tell of each span in it."""
    walk = [0] * len(spans)  # 0: not yet seen, else the walk that saw it
    for begin in range(len(spans)):
        at: int | None = begin
        while at is not None and not walk[at]:
            walk[at] = begin + 1
            at = parents[at]
        if at is None or walk[at] != begin + 1:
            continue
        circle = [at]
        while (above := parents[circle[-1]]) is not None and above != at:
            circle.append(above)
        for each in circle:
            reason = f"span {spans[each].span_id!r} is its own ancestor, {len(circle)} up"
            faults.append((each, Warn("span_cycle", reason)))
        parents[min(circle, key=lambda each: (spans[each].start_ns or 0, each))] = None


def _mistimed(spans: Sequence[RawSpan], at: int, parent: int | None) -> Iterator[tuple[int, Warn]]:
    span, above = spans[at], None if parent is None else spans[parent]
    start, named = span.start_ns, f"span {span.span_id!r}"
    if start is None:
        return
    if span.end_ns is not None and span.end_ns < start:
        reason = f"{named} ends {start - span.end_ns} ns before it starts"
        yield at, Warn("span_negative_duration", reason)
    if above is not None and above.start_ns is not None and start < above.start_ns:
        early = above.start_ns - start
        reason = f"{named} starts {early} ns before its parent {above.span_id!r}"
        yield at, Warn("clock_skew", reason)
    elif above is not None and above.end_ns is not None and start > above.end_ns:
        late = start - above.end_ns
        reason = f"{named} starts {late} ns after its parent {above.span_id!r} ended"
        yield at, Warn("clock_skew", reason)


# Spans that end the reach of a model's frame: what is below them is another round.
_NEW_ROUND = frozenset({"tool", "agent", "handoff"})
_FOLDABLE = frozenset({"model", "embedding", "retrieval"})
# What a frame leaves to the span inside it.
_FRAME_FIELDS = (
    "inputs",
    "outputs",
    "input_value",
    "output_value",
    "usage",
    "cost_usd",
    "model",
    "finish_reason",
    "parts",
    "tools",
)


def assign_roles(sayings: Sequence[SpanContent], tree: SpanTree) -> SpanTree:
    """Return the tree with what is to be made of what its spans say."""
    count = len(sayings)
    found = list(sayings)
    frame: list[int | None] = [None] * count  # the frame that a span stands in
    outer: list[int | None] = [None] * count  # the frame that this span is for those below
    agents: list[str | None] = [None] * count
    for at in tree.order:
        said, parent = found[at], tree.parents[at]
        above = None if parent is None else outer[parent]
        own = said.agent if said.operation == "agent" else None
        agents[at] = own or (None if parent is None else agents[parent])
        if said.operation in _NEW_ROUND:
            continue
        outer[at] = above
        if said.operation in _FOLDABLE:
            same = above is not None and found[above].operation == said.operation
            frame[at] = above if same else None
            outer[at] = at
    frames = {at for at in frame if at is not None}
    # Counts and costs are sums of several rounds: inside only where no round has its own.
    inside: dict[int, list[int]] = {}
    for at in tree.order:
        if (above := frame[at]) is not None:
            inside.setdefault(above, []).append(at)
    for framing in [at for at in tree.order if at in frames]:
        rounds = sorted(inside[framing], key=lambda at: (tree.start[at], at))
        first, last = rounds[0], rounds[-1]
        frame_said = found[framing]
        if any(found[at].usage is not None for at in rounds):
            frame_said = msgspec.structs.replace(frame_said, usage=None)
        if any(found[at].cost_usd is not None for at in rounds):
            frame_said = msgspec.structs.replace(frame_said, cost_usd=None)
        if first == last and _has_calls(frame_said) and not _has_calls(found[last]):
            # A client that wrote its answer as text lost the calls in it.
            found[last] = msgspec.structs.replace(found[last], outputs=(), output_value=())
        # What is given goes to a span that stands alone.
        names = [name for name in _FRAME_FIELDS[1:] if first == last or name != "input_value"]
        framed = SpanContent(**{name: getattr(frame_said, name) for name in names})
        found[last] = merge_contents([found[last], framed])
        if not any(found[at].inputs for at in rounds):
            found[first] = merge_contents([found[first], SpanContent(inputs=frame_said.inputs)])
    _pass_instructions(found, tree)
    below = _find_better_below(found, tree)
    chains = not any(said.operation == "model" for said in found)
    speaks = [_makes(found, at, tree, below=below[at], chains=chains) for at in range(count)]
    for at in frames | set(tree.superseded):
        speaks[at] = False
    return tree._replace(contents=found, agents=agents, speaks=speaks)


def _has_calls(said: SpanContent) -> bool:
    return any(message.calls for message in said.outputs or said.output_value)


def _pass_instructions(found: list[SpanContent], tree: SpanTree) -> None:
    """Give an agent's system messages to its first model, unless one of its models has its own."""
    agents = [at for at, said in enumerate(found) if said.operation == "agent"]
    told = {at: _system_messages(found[at]) for at in agents}
    owner: list[int | None] = [None] * len(found)
    for at in tree.order:
        parent = tree.parents[at]
        owner[at] = at if told.get(at) else None if parent is None else owner[parent]
    models: dict[int, list[int]] = {}
    for at, agent in enumerate(owner):
        if agent is not None and found[at].operation == "model":
            models.setdefault(agent, []).append(at)
    for agent, members in models.items():
        if not any(_system_messages(found[at]) for at in members):
            first = min(members, key=lambda at: (tree.start[at], at))
            said = found[first]
            inputs = (*told[agent], *(said.inputs or said.input_value))
            found[first] = msgspec.structs.replace(said, inputs=inputs)


def _system_messages(said: SpanContent) -> tuple[SpanMessage, ...]:
    given = said.inputs or said.input_value
    return tuple([message for message in given if message.actor == "system"])


def _find_better_below(found: list[SpanContent], tree: SpanTree) -> list[bool]:
    """Say of each span whether anything below it tells the run better than its frame."""
    below = [False] * len(found)
    for at in reversed(tree.order):
        parent = tree.parents[at]
        if parent is not None:
            said = found[at]
            more = said.operation == "model" or (said.operation == "agent" and bool(said.outputs))
            below[parent] = below[parent] or below[at] or more
    return below


def _makes(found: list[SpanContent], at: int, tree: SpanTree, *, below: bool, chains: bool) -> bool:
    said, parent = found[at], tree.parents[at]
    if said.operation not in {"agent", "chain"}:
        return said.operation not in {None, "other", "evaluation"}
    if below or not (said.inputs or said.outputs or said.input_value or said.output_value):
        return False
    if said.operation == "agent":
        return True
    return chains and (parent is None or found[parent].operation in {None, "other"})
