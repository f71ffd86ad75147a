"""The tree that spans of a trace make, and everything in it that is no tree.

Parents that are missing, spans that are their own ancestors, ids given twice, children outside
their parent's time: all is kept as recorded and told. For the order of steps alone, an orphan is
taken for a root and a circle is cut at the span that begins first. Linear in the number of spans.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stepscope.formats.spans.span import Span


class Fault(NamedTuple):
    """Something odd about the span at `span`: a code for counting, and the reason."""

    span: int
    code: str
    reason: str


class Graph(NamedTuple):
    """Spans by position.

    Attributes:
        parents: the parent's position; None for a root, an orphan, and where a circle is cut.
        order: every span, parents before their children.
        start: when a span began, by itself or, without a time, by its parent.
        depth: how many ancestors a span has.
        superseded: spans that were sent again later, more complete.
        faults: in the order of the spans.
    """

    parents: tuple[int | None, ...]
    order: tuple[int, ...]
    start: tuple[int, ...]
    depth: tuple[int, ...]
    superseded: frozenset[int]
    faults: tuple[Fault, ...]


def graph(spans: Sequence[Span]) -> Graph:
    """Return the tree of spans of one trace, with its faults."""
    places: dict[str, int] = {}
    faults: list[Fault] = []
    superseded = _doubles(spans, places, faults)
    parents: list[int | None] = []
    for at, span in enumerate(spans):
        parent = None if not span.parent_id else places.get(span.parent_id)
        if span.parent_id and parent is None:
            reason = f"span {span.span_id!r}: its parent {span.parent_id!r} is not in the trace"
            faults.append(Fault(at, "orphan_span", reason))
        parents.append(parent)
    _cut(spans, parents, faults)
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
        faults.extend(_times(spans, at, parent))
    return Graph(
        tuple(parents),
        tuple(order),
        tuple(start),
        tuple(depth),
        superseded,
        tuple(sorted(faults)),
    )


def _doubles(spans: Sequence[Span], places: dict[str, int], faults: list[Fault]) -> frozenset[int]:
    """Fill `places` with the position of each id and return the spans that were sent again.

    The same id, name and beginning is the same span, and its last form counts; anything else under
    an id already given is another span.
    """
    superseded: set[int] = set()
    last: dict[tuple[str, str, int | None], int] = {}
    for at, span in enumerate(spans):
        key = (span.span_id, span.name, span.start_ns)
        first = places.setdefault(span.span_id, at)
        if first != at:
            again = key in last
            told = "is sent again; its last form counts" if again else "is the id of another span"
            faults.append(Fault(at, "duplicate_span_id", f"span {span.span_id!r} {told}"))
        if key in last:
            superseded.add(last[key])
            if places[span.span_id] == last[key]:
                places[span.span_id] = at
        last[key] = at
    return frozenset(superseded)


def _cut(spans: Sequence[Span], parents: list[int | None], faults: list[Fault]) -> None:
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
            faults.append(Fault(each, "span_cycle", reason))
        parents[min(circle, key=lambda each: (spans[each].start_ns or 0, each))] = None


def _times(spans: Sequence[Span], at: int, parent: int | None) -> list[Fault]:
    span, found = spans[at], list[Fault]()
    if span.start_ns is not None and span.end_ns is not None and span.end_ns < span.start_ns:
        reason = f"span {span.span_id!r} ends {span.start_ns - span.end_ns} ns before it starts"
        found.append(Fault(at, "span_negative_duration", reason))
    if parent is None:
        return found
    above = spans[parent]
    if span.start_ns is not None and above.start_ns is not None and span.start_ns < above.start_ns:
        early = above.start_ns - span.start_ns
        reason = f"span {span.span_id!r} starts {early} ns before its parent {above.span_id!r}"
        found.append(Fault(at, "clock_skew", reason))
    elif span.start_ns is not None and above.end_ns is not None and span.start_ns > above.end_ns:
        late = span.start_ns - above.end_ns
        reason = f"span {span.span_id!r} starts {late} ns after its parent {above.span_id!r} ended"
        found.append(Fault(at, "clock_skew", reason))
    return found
