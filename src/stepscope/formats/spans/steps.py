"""Steps of a run from the contents of its spans, each message once.

The messages that a model was given repeat what was said before: only what is new in them makes a
step. An agent's message that no span of the trace recorded is an earlier one, replayed. Calls and
answers are matched by id, else by tool and arguments, else by tool; a tool's span that no message
called makes the call too, under the span's id. The order is that of the recorded clock: a tool's
answer stands where the tool began or, where others speak within it, where it ended.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter

import msgspec

from stepscope.formats.fields import (
    ToolStatus,
    infer_text_status,
    merge_extra,
    parts_text,
    step_kind,
)
from stepscope.formats.spans.span import RawSpan, SpanContent, SpanMessage
from stepscope.formats.spans.tree import SpanTree
from stepscope.model import Actor, Instant, Step, StepKind, ToolCall, ToolResult, call_key


class PendingCalls:
    """Open calls, first come first found; each is given out once, in constant time."""

    def __init__(self) -> None:
        self._open: dict[int, ToolCall] = {}
        self._places: dict[tuple[str, ...], deque[int]] = {}
        self._count = 0

    def add(self, call: ToolCall) -> None:
        """Remember a call."""
        self._open[self._count] = call
        keys: list[tuple[str, ...]] = [("tool", call.name), ("asked", call_key(call))]
        if call.id is not None:
            keys.append(("id", call.name, call.id))
        for key in keys:
            self._places.setdefault(key, deque()).append(self._count)
        self._count += 1

    def take(self, call: ToolCall) -> ToolCall | None:
        """Return the open call that a tool's span carries out, if it has an id by that alone."""
        if call.id is not None:
            return self._first(("id", call.name, call.id))
        return self._first(("asked", call_key(call))) or self._first(("tool", call.name))

    def _first(self, key: tuple[str, ...]) -> ToolCall | None:
        places = self._places.get(key)
        while places:
            place = places.popleft()
            if place in self._open:
                return self._open.pop(place)
        return None


_canonical = msgspec.json.Encoder(order="deterministic").encode

# When something is said, its rank among what is said then, how deep its span lies, and a count.
TurnKey = tuple[int, int, int, int]
Turn = tuple[TurnKey, Callable[[], None]]
# Among what begins at one time: the question, the model, its calls, their answers. What ends at a
# time stands before what begins then.
_ENDING, _QUESTION, _MODEL, _CALL, _ANSWER = range(-1, 4)


class SpanSteps:
    """Collects the steps of one trace; `first` says which step a span made first."""

    def __init__(self, spans: Sequence[RawSpan], tree: SpanTree) -> None:
        self.steps: list[Step] = []
        self.first: dict[int, int] = {}
        self._spans = spans
        self._tree = tree
        self._said: Counter[tuple[str, str]] = Counter()
        self._called: set[str] = set()
        self._answered: set[str] = set()
        self._old: set[str] = set()
        self._open = PendingCalls()
        self._asked: dict[int, ToolCall] = {}
        self._blank = False
        self._given = {
            result.call_id: result
            for said in tree.contents
            for message in said.inputs or said.input_value
            for result in message.results
            if result.call_id is not None
        }
        self._handed_to: dict[str, str] = {}

    def build(self) -> tuple[Step, ...]:
        """Return the steps that the spans make, in the order in which they speak."""
        tree, turns = self._tree, list[Turn]()
        inside = [False] * len(tree.parents)  # whether a span below speaks
        for at in reversed(tree.order):
            parent = tree.parents[at]
            if parent is not None and (tree.speaks[at] or inside[at]):
                inside[parent] = True
        tools: dict[str, int] = {}  # when the tool of each call began, by the call's id
        for at, said in enumerate(tree.contents):
            if said.operation == "tool" and said.call is not None and said.call.id is not None:
                tools[said.call.id] = min(tree.start[at], tools.get(said.call.id, tree.start[at]))
        others = sorted(
            tree.start[at]
            for at in tree.order
            if tree.speaks[at] and tree.contents[at].operation not in {"tool", "chain"}
        )
        for at in tree.order:
            if not tree.speaks[at]:
                continue
            said, start = tree.contents[at], tree.start[at]
            ended = self._spans[at].end_ns
            end = start if ended is None else max(start, ended)
            first, behind = (start, _QUESTION, tree.depth[at], at), tree.depth[at]
            if said.operation == "tool":
                turns.append(((start, _CALL, behind, at), partial(self._call, at, said)))
                within = bisect_left(others, end) > bisect_right(others, start)
                late = (inside[at] or within) and end > start and not said.momentary
                key = (end, _ENDING, -behind, len(turns)) if late else (start, _ANSWER, behind, at)
                turns.append((key, partial(self._answer, at, said, late=late)))
            elif said.operation in {"agent", "chain"}:
                turns.append((first, partial(self._context, at, said)))
                turns += self._list_own_messages(at, end, tools)
            else:
                turns.append(((start, _MODEL, behind, at), partial(self._spoken, at, said)))
        for _, speak in sorted(turns, key=itemgetter(0)):
            speak()
        return tuple(map(self._marked, self.steps)) if self._handed_to else tuple(self.steps)

    def _list_own_messages(self, at: int, end: int, tools: dict[str, int]) -> list[Turn]:
        """Return an agent's messages, each before the first later call's tool, else at its end."""
        said, depth, turns = self._tree.contents[at], self._tree.depth[at], list[Turn]()
        messages = said.outputs or said.output_value
        place = (end, _ENDING if end > self._tree.start[at] else _MODEL, -depth)
        for count in reversed(range(len(messages))):
            message = messages[count]
            times = [tools[c.id] for c in message.calls if c.id is not None and c.id in tools]
            if times:
                place = min(place, (min(times), _MODEL, depth))
            turns.append(((*place, count), partial(self._made, at, message)))
        return turns[::-1]

    def _marked(self, step: Step) -> Step:
        """Return a step as a handoff where a call of it passed control on."""
        called = [call.id for call in step.calls if call.id in self._handed_to]
        if not called or step.replayed:
            return step
        extra = {**(step.extra or {}), "to": self._handed_to[called[0] or ""]}
        return msgspec.structs.replace(step, kind="handoff", extra=extra)

    def _add(self, at: int, step: Step) -> None:
        self.first.setdefault(at, step.index)
        self.steps.append(step)

    def _step(self, at: int, actor: Actor, kind: StepKind, message: SpanMessage) -> Step:
        agent = self._tree.agents[at]
        own = self._tree.contents[at].agent
        return Step(
            index=len(self.steps),
            actor=actor,
            kind=kind,
            parts=message.parts,
            calls=message.calls,
            results=message.results,
            agent=(agent or own or message.name) if actor == "agent" else message.name,
            finish_reason=message.finish,
            span=self._spans[at].span_id or None,
            extra=message.extra,
        )

    def _context(self, at: int, said: SpanContent) -> None:
        seen: Counter[tuple[str, str]] = Counter()
        for message in said.inputs or self._handed(at, said):
            if not self._known(message, seen):
                old = not self._blank and (
                    (message.actor == "agent" and said.operation == "model")
                    or any(result.call_id in self._old for result in message.results)
                )
                self._tell(at, message, old=old)

    def _handed(self, at: int, said: SpanContent) -> tuple[SpanMessage, ...]:
        """Return an input that is one value: the user's; within another agent it is a handoff."""
        parent = self._tree.parents[at]
        while parent is not None:
            if self._tree.contents[parent].operation not in {None, "other"}:
                for message in said.input_value:
                    key = ("handoff", _text(message))
                    if not self._said[key]:
                        self._said[key] += 1
                        step = self._step(at, "agent", "handoff", message)
                        start = _instant(self._spans[at].start_ns)
                        self._add(at, msgspec.structs.replace(step, start=start))
                return ()
            parent = self._tree.parents[parent]
        return said.input_value

    def _known(self, message: SpanMessage, seen: Counter[tuple[str, str]]) -> bool:
        if message.calls:
            # A history may give a call another id than its answer had.
            return all([self._known_call(call, seen) for call in message.calls])
        if message.results:
            return all(
                (result.call_id is not None and result.call_id in self._answered)
                or bool(self._said[("answer", _same(result.text))])
                for result in message.results
            )
        key = (message.actor, _text(message))
        seen[key] += 1
        return self._said[key] >= seen[key] or (not message.parts)

    def _known_call(self, call: ToolCall, seen: Counter[tuple[str, str]]) -> bool:
        key = ("call", call_key(call))
        seen[key] += 1
        return _call_id(call) in self._called or self._said[key] >= seen[key]

    def _tell(self, at: int, message: SpanMessage, *, old: bool = False) -> None:
        """Add a message that nothing said before as a step without times of its own."""
        kind = step_kind(message.calls, message.results)
        step = self._step(at, message.actor, kind, message)
        self._note(message, old=old)
        self._add(at, msgspec.structs.replace(step, replayed=True) if old else step)

    def _note(self, message: SpanMessage, *, old: bool = False) -> None:
        for call in message.calls:
            name = _call_id(call)
            self._called.add(name)
            self._said[("call", call_key(call))] += 1
            if old:
                self._old.add(name)
            else:
                self._open.add(call)
        for result in message.results:
            if result.call_id is not None:
                self._answered.add(result.call_id)
            self._said[("answer", _same(result.text))] += 1
        if not message.calls and not message.results:
            self._said[(message.actor, _text(message))] += 1

    def _spoken(self, at: int, said: SpanContent) -> None:
        """Add what a model answered, a handoff, or what was retrieved or checked."""
        if said.operation == "model":
            given = said.inputs or said.input_value
            self._context(at, msgspec.structs.replace(said, inputs=given))
        message, actor, kind = _utterance(said)
        if said.operation == "model":
            self._blank = self._blank or not (said.outputs or said.output_value)
            self._note(message)
        span = self._spans[at]
        step = msgspec.structs.replace(
            self._step(at, actor, kind, message),
            model=said.model,
            usage=said.usage,
            cost_usd=said.cost_usd,
            start=_instant(span.start_ns),
            end=_instant(span.end_ns),
            first_token_seconds=said.first_token_seconds,
            finish_reason=said.finish_reason or message.finish,
            error=said.failed,
            id=said.response_id,
        )
        self._add(at, step)

    def _made(self, at: int, message: SpanMessage) -> None:
        """Add one of an agent's own messages, unless it was said within the agent."""
        if not self._known(message, Counter()):
            self._tell(at, message)

    def _call(self, at: int, said: SpanContent) -> None:
        call = said.call or ToolCall(self._spans[at].name)
        asked = self._open.take(call)
        if asked is None:
            own = self._spans[at].span_id
            own = own if own not in self._called else f"{own}.{at}"
            asked = call if call.id else msgspec.structs.replace(call, id=own)
            step = self._step(at, "agent", "call", SpanMessage("agent", calls=(asked,)))
            self._called.add(_call_id(asked))
            self._said[("call", call_key(asked))] += 1
            began = _instant(self._spans[at].start_ns)
            self._add(at, msgspec.structs.replace(step, start=began, end=began))
        self._asked[at] = asked

    def _answer(self, at: int, said: SpanContent, *, late: bool) -> None:
        span, asked = self._spans[at], self._asked[at]
        given = self._given.get(asked.id or "")
        parts = said.parts or (given.parts if given is not None else ())
        judged = said.status
        if judged is None and given is not None and given.source == "explicit":
            judged = ToolStatus(given.status, given.source, given.error)
        if said.failed is not None:
            judged = ToolStatus("error", "explicit", said.failed)
        elif judged is None:
            judged = infer_text_status(parts_text(parts))
            if judged.status == "unknown" and span.status == "ok":
                judged = ToolStatus("ok", "protocol", judged.error)
        if said.target is not None and asked.id is not None:
            self._handed_to[asked.id] = said.target
        result = ToolResult(asked.id, asked.name, parts, None, *judged)
        message = SpanMessage("environment", results=(result,))
        self._note(message)
        step = self._step(at, "environment", "result", message)
        ended = _instant(span.end_ns)
        began = ended if late else _instant(span.start_ns)
        self._add(at, msgspec.structs.replace(step, start=began, end=ended))


def _utterance(said: SpanContent) -> tuple[SpanMessage, Actor, StepKind]:
    if said.operation == "model":
        made = _merged(said.outputs or said.output_value)
        return made, "agent", "call" if made.calls else "message"
    asked = [part.text for message in (said.input_value or said.inputs) for part in message.parts]
    if said.operation == "handoff":
        to = None if said.target is None else {"to": said.target}
        return SpanMessage("agent", name=said.agent, extra=to), "agent", "handoff"
    if said.operation == "embedding":
        given = said.inputs or said.input_value
        parts = tuple([part for message in given for part in message.parts])
        return SpanMessage("agent", parts), "agent", "other"
    extra = {"asked": asked[0] if len(asked) == 1 else asked} if asked else None
    kind: StepKind = "retrieval" if said.operation == "retrieval" else "guardrail"
    return SpanMessage("environment", said.parts, extra=extra), "environment", kind


def _merged(messages: tuple[SpanMessage, ...]) -> SpanMessage:
    if len(messages) == 1:
        return messages[0]._replace(actor="agent")
    return SpanMessage(
        "agent",
        tuple([part for message in messages for part in message.parts]),
        tuple([call for message in messages for call in message.calls]),
        tuple([result for message in messages for result in message.results]),
        finish=next((x.finish for x in messages if x.finish is not None), None),
        extra=merge_extra(*[message.extra for message in messages]),
    )


def _call_id(call: ToolCall) -> str:
    return call.id if call.id is not None else call_key(call)


def _same(text: str) -> str:
    """Return an answer in the one form that JSON has, whoever wrote it with which blanks."""
    if text[:1] not in {"{", "["}:
        return text
    try:
        return _canonical(msgspec.json.decode(text)).decode()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


def _text(message: SpanMessage) -> str:
    """Return what tells a message from others: its text, or a digest-like form of what it holds."""
    texts = [part.text for part in message.parts if part.text is not None and part.kind == "text"]
    return "\n".join(texts) if texts else repr(message.parts)


def _instant(ns: int | None) -> Instant | None:
    return None if ns is None else Instant(ns, str(ns))
