"""The spans of an Inspect sample: who began within whom, which agent, and what else was told there.

A span knows its parent when it begins. Where older logs have steps, or events within a tool's or a
subtask's event, these stand for spans: whatever carries no span of its own is of the innermost one
open. An event that makes no step is kept whole in its span.
Format: UKGovernmentBEIS/inspect_ai 0.3.285, `event/_span.py`, `event/_step.py`.
"""

from __future__ import annotations

from stepscope.formats.building import rest, text_at
from stepscope.formats.times import instant
from stepscope.model import Json, Span, Warn

_BEGIN = frozenset({"event", "id", "parent_id", "span_id", "type", "name", "timestamp"})
# What scores a sample is not the agent, whichever models it asks.
_SCORERS = frozenset({"scorer", "scorers"})


class Node:
    """A span that has begun.

    Attributes:
        agent: the agent that works in it, None where none was named.
        inner: whether that agent works for another one.
        scores: whether it is a scorer's.
    """

    def __init__(self, own_id: str, parent: Node | None, name: str, kind: str) -> None:
        self.id = own_id
        self.name = name
        self.kind = kind
        self.outer: str | None = None if parent is None else parent.agent
        self.agent: str | None = name if kind == "agent" else self.outer
        self.inner: bool = parent is not None and (
            parent.inner or (kind == "agent" and parent.agent is not None)
        )
        self.scores: bool = kind in _SCORERS or (parent is not None and parent.scores)
        self.parent_id: str | None = None if parent is None else parent.id
        self.start_ns: int | None = None
        self.end_ns: int | None = None
        self.attributes: dict[str, Json] = {}
        self.events: list[Json] = []


class Tree:
    """The spans of one sample in the order in which they began."""

    def __init__(self) -> None:
        self.loose: list[Json] = []
        self.warnings: list[Warn] = []
        self._nodes: dict[str, Node] = {}
        self._open: list[Node] = []

    def at(self, event: dict[str, Json]) -> Node | None:
        """Return the span that an event belongs to."""
        own = text_at(event, "span_id")
        if own is not None:
            return self._nodes.get(own)
        return self._open[-1] if self._open else None

    def begin(self, event: dict[str, Json]) -> Node:
        """Begin a span as its event says."""
        own = text_at(event, "id") or f"span-{len(self._nodes)}"
        parent_id = text_at(event, "parent_id")
        parent = self._nodes.get(parent_id) if parent_id is not None else self._around(event, own)
        if own in self._nodes:
            self._warn("duplicate_span", f"span {own!r} begins twice")
        if parent_id is not None and parent is None:
            self._warn("orphan_parent", f"the parent {parent_id!r} of span {own!r} never began")
        node = self._begun(own, parent, event)
        node.parent_id = parent_id or node.parent_id
        node.attributes = rest(event, _BEGIN) or {}
        return node

    def end(self, event: dict[str, Json]) -> Node | None:
        """End a span, and return it."""
        node = self._nodes.get(text_at(event, "id") or "")
        if node is None:
            self.keep(event)
            return None
        node.end_ns = _ns(event, "timestamp")
        return node

    def ended(self, own: str) -> bool:
        """Say whether the span of this id has begun and ended."""
        node = self._nodes.get(own)
        return node is not None and node.end_ns is not None

    def open(self, event: dict[str, Json], kind: str, name: str) -> Node:
        """Begin a span for what has none of its own; what follows is in it until `close`."""
        around = self.at(event)
        node = self._begun(f"{kind}-{len(self._nodes)}", around, {"type": kind, "name": name})
        node.start_ns = _ns(event, "timestamp")
        self._open.append(node)
        return node

    def close(self, event: dict[str, Json], *, at: str = "timestamp") -> None:
        """End the innermost span that `open` began."""
        if self._open:
            self._open.pop().end_ns = _ns(event, at)

    def keep(self, event: Json) -> None:
        """Keep an event that makes no step, whole, in its span."""
        node = self.at(event) if isinstance(event, dict) else None
        (self.loose if node is None else node.events).append(event)

    def spans(self) -> tuple[Span, ...]:
        """Return the spans in the order in which they began."""
        return tuple(
            [
                Span(
                    id=node.id,
                    parent=node.parent_id,
                    name=node.name,
                    kind=node.kind,
                    start_ns=node.start_ns,
                    end_ns=node.end_ns,
                    attributes=node.attributes,
                    events=tuple(node.events),
                )
                for node in self._nodes.values()
            ]
        )

    def _around(self, event: dict[str, Json], own: str) -> Node | None:
        """Return the parent of a span whose event names none."""
        span = text_at(event, "span_id")
        if span is not None and span != own:
            return self._nodes.get(span)
        return self._open[-1] if self._open else None

    def _begun(self, own: str, parent: Node | None, event: dict[str, Json]) -> Node:
        node = Node(own, parent, text_at(event, "name") or "", text_at(event, "type") or "")
        node.start_ns = _ns(event, "timestamp")
        key = own
        while key in self._nodes:
            key += "'"
        self._nodes[key] = node
        return node

    def _warn(self, code: str, reason: str) -> None:
        self.warnings.append(Warn(code, reason))


def _ns(event: dict[str, Json], key: str) -> int | None:
    time = instant(event.get(key))
    return None if time is None else time.ns
