"""Messages of an Inspect sample as steps, each message once.

A tool's message says whether its call failed, so its status is explicit. A text that is nothing but
a pointer (`attachment://`, `tc://` in the oldest logs) stands for the attachment of that name.

A model's event has what the model was given: only what is new in it makes a step. A tool's event
and the message that tells the model of it are one step. A message with an agent's words that no
model said in this sample is context, marked as replayed. Words that were put otherwise later, under
the same id, stand beside the first, as `retold`. What the sample's own list of messages has beyond
that stands behind the message it follows there.
Format: UKGovernmentBEIS/inspect_ai 0.3.285, `model/_chat_message.py`, `_util/content.py`,
`log/_condense.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from stepscope.formats import fields
from stepscope.formats.fields import Content, rest, text_at, url_part
from stepscope.model import Actor, Json, Part, PartKind, Step, ToolCall, ToolResult, Warn
from stepscope.safety.limits import Limits

_PROTOCOLS = ("attachment://", "tc://")
_POINTER = re.compile(rb'"(?:attachment|tc)://([^"\\]*)"')


class Attachments:
    """The attachments of one sample; `missing` counts the pointers that lead nowhere."""

    def __init__(self, attachments: dict[str, str], limits: Limits) -> None:
        self.limits = limits
        self.missing = 0
        self._attachments = attachments

    def resolve(self, text: str) -> str:
        """Return a text, or the attachment that it points at."""
        if not text.startswith(_PROTOCOLS):
            return text
        found = self._attachments.get(text.partition("://")[2])
        if found is None:
            self.missing += 1
            return text
        return found

    def resolve_copy(self, value: Json) -> Json:
        """Return a value with every pointer in it replaced; the value itself stays as it is."""
        if type(value) is str:
            return self.resolve(value)
        if type(value) is dict:
            return {key: self.resolve_copy(item) for key, item in value.items()}
        return [self.resolve_copy(item) for item in value] if type(value) is list else value

    def resolve_in_place(self, value: Json) -> Json:
        """Return a value with every pointer in it replaced, in place where it is no text itself."""
        if type(value) is str:
            return self.resolve(value)
        if type(value) is dict or type(value) is list:
            self._replace(value)
        return value

    def _replace(self, top: dict[str, Json] | list[Json]) -> None:
        if not self._attachments:
            return
        waiting: list[Json] = [top]  # `Json`: a holder is indexed by its own keys or places
        while waiting:
            holder = waiting.pop()
            for key, item in holder.items() if type(holder) is dict else enumerate(holder):
                kind = type(item)
                if kind is str:
                    if item.startswith(_PROTOCOLS):
                        holder[key] = self.resolve(item)  # no key comes or goes: the loop may go on
                elif kind is dict or kind is list:
                    waiting.append(item)

    def find_needed(self, text: bytes) -> dict[str, str]:
        """Return the attachments that a JSON text, kept with its pointers, needs."""
        names = {found.decode() for found in _POINTER.findall(text)}
        return {name: self._attachments[name] for name in sorted(names & self._attachments.keys())}


_ACTORS: dict[str, Actor] = {
    "system": "system",
    "user": "user",
    "assistant": "agent",
    "tool": "environment",
}
_MESSAGE = frozenset("id role content tool_calls tool_call_id function error model".split())
_CALL = frozenset({"id", "function", "arguments", "parse_error", "type"})
_SERVED = frozenset({"type", "tool_type", "id", "name", "arguments", "result", "error"})
_MEDIA: dict[str, tuple[PartKind, str]] = {
    "image": ("image", "image"),
    "audio": ("audio", "audio"),
    "video": ("file", "video"),
    "document": ("file", "document"),
}
_TEXT, _REASONING = frozenset({"type", "text"}), frozenset({"type", "reasoning"})


class ToolError(msgspec.Struct, gc=False):
    """A tool's error: its `type` is one of Inspect's `ToolCallError`."""

    message: str = ""
    type: str = "unknown"

    @property
    def text(self) -> str:
        """Type and message in one line of text."""
        return f"{self.type}: {self.message}" if self.message else self.type


class InspectCall(msgspec.Struct, gc=False):
    """A tool call that a model made."""

    function: str
    id: str | None = None
    arguments: Any = None
    parse_error: str | None = None
    type: str | None = None


class InspectMessage(msgspec.Struct, gc=False):
    """A message, in any role."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | list[Any] | None = None
    id: str | None = None
    tool_calls: list[Any] | None = None
    tool_call_id: str | list[str] | None = None
    function: str | None = None
    error: ToolError | None = None
    model: str | None = None
    source: str | None = None


_message: Callable[[Json, type[InspectMessage]], InspectMessage] = msgspec.convert


def read_message_step(value: Json, texts: Attachments) -> Step:
    """Return a message as a step without a place; it stays as it is, to be compared later."""
    message = _message(value, InspectMessage)
    actor = _ACTORS[message.role]
    content = read_inspect_content(message.content, texts)
    if message.role == "tool":
        call_id = message.tool_call_id if isinstance(message.tool_call_id, str) else None
        result = make_result(call_id, message.function, content.parts, message.error)
        own, extra = message.id, rest(value, _MESSAGE)
        return Step(index=0, actor=actor, kind="result", results=(result,), id=own, extra=extra)
    calls = tuple([read_inspect_call(call, texts) for call in message.tool_calls or ()])
    calls += content.calls
    return Step(
        index=0,
        actor=actor,
        kind="call" if calls else "message",
        parts=content.parts,
        calls=calls,
        results=content.results,
        model=message.model,
        id=message.id,
        extra=rest(value, _MESSAGE),
    )


def _key(step: Step) -> Key:
    """Return what a message repeated elsewhere, maybe under another id, has in common."""
    if step.actor == "environment" and step.results[0].call_id is not None:
        return ("tool", step.results[0].call_id)
    ids = [call.id for call in step.calls if call.id is not None]
    if ids and len(ids) == len(step.calls):
        return ("calls", *ids)
    told = [part.text if part.text is not None else repr(part) for part in step.parts]
    told += [result.text for result in step.results]
    role = "tool" if step.actor == "environment" else step.actor
    return (role, *told, *[call.name for call in step.calls])


def make_result(
    call_id: str | None, name: str | None, parts: tuple[Part, ...], error: ToolError | None
) -> ToolResult:
    """Return a tool's result; without an error it went well, since Inspect would tell."""
    if error is None:
        return ToolResult(call_id, name, parts, None, "ok", "explicit")
    told: dict[str, Json] = {"error_type": error.type}
    return ToolResult(call_id, name, parts, None, "error", "explicit", error.text, extra=told)


def read_inspect_call(value: Json, texts: Attachments) -> ToolCall:
    """Return a tool call; arguments that could not be parsed are kept as the text that came."""
    call = msgspec.convert(value, InspectCall)
    extra = rest(value, _CALL)
    if call.type not in {None, "function"}:
        extra = {"type": call.type, **(extra or {})}
    arguments = texts.resolve_copy(call.arguments)
    if call.parse_error is None:
        return ToolCall(call.function, arguments, call.id, extra=extra)
    raw = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    return ToolCall(call.function, None, call.id, raw, call.parse_error, extra=extra)


def read_inspect_content(content: Json, texts: Attachments) -> Content:
    """Return content, text or blocks, sorted by what it is; anything else is data."""
    if isinstance(content, str):
        return Content((Part("text", texts.resolve(content)),) if content else ())
    if content is None:
        return Content(())
    pieces: list[Part | ToolCall | ToolResult] = []
    for block in content if isinstance(content, list) else [content]:
        value = texts.resolve_copy(block)
        if isinstance(value, dict) and value.get("type") == "tool_use" and text_at(value, "name"):
            pieces += _served(value, texts.limits)
        else:
            pieces.append(_part(value))
    return fields.sort_content(pieces)


def _served(block: dict[str, Json], limits: Limits) -> tuple[ToolCall, ToolResult]:
    """Return a call that the provider ran, and what came of it."""
    name, call_id, error = str(block["name"]), text_at(block, "id"), text_at(block, "error")
    told = fields.parse_call(
        name, block.get("arguments"), call_id, limits=limits, extra=rest(block, _SERVED)
    )
    kind: Literal["mcp", "server"] = "mcp" if block.get("tool_type") == "mcp_call" else "server"
    call = replace(told, kind=kind)
    answer = text_at(block, "result")
    parts = (Part("text", answer),) if answer else ()
    return call, make_result(call_id, name, parts, None if error is None else ToolError(error))


def _part(block: Json) -> Part:
    match block:
        case str(text):
            return Part("text", text)
        case {"type": "text", "text": str(text)}:
            kind: PartKind = "refusal" if block.get("refusal") is True else "text"
            return Part(kind, text, extra=rest(block, _TEXT))
        case {"type": "reasoning", "reasoning": str(text)}:
            return Part("reasoning", text or None, extra=rest(block, _REASONING))
        case {"type": "image" | "audio" | "video" | "document" as sort}:
            kind, key = _MEDIA[sort]
            link = block.get(key)
            if isinstance(link, str):
                return url_part(kind, link, extra=rest(block, frozenset({"type", key})))
    return Part("data", extra=block if isinstance(block, dict) else {"value": block})


Key = tuple[str, ...]
# From, and up to.
Range = tuple[int, int]


class SampleSteps:
    """The steps of one sample, collected in order."""

    def __init__(self, texts: Attachments, pool: Sequence[Json]) -> None:
        self.steps: list[Step] = []
        self.warnings: list[Warn] = []
        self._texts = texts
        self._pool = pool
        self._read: dict[int, Step] = {}
        self._ids: dict[str, int] = {}
        self._keys: dict[str, Key] = {}
        self._said: dict[Key, list[int]] = {}
        # Results by their call's id that wait for their message, and messages for their event.
        self._told: dict[str, list[int]] = {}
        self._heard: dict[str, list[int]] = {}
        self._looked: dict[Key, int] = {}
        self._retold: dict[int, list[Json]] = {}
        self._called: set[str] = set()
        # What each conversation was last given, ranges of the pool or messages, and what is in it.
        self._refs: dict[str | None, Sequence[Range]] = {}
        self._messages: dict[str | None, Sequence[Json]] = {}
        self._seen: dict[str | None, Counter[Key]] = {}
        self._between: dict[int, list[Step]] = {}

    def add(self, step: Step) -> int:
        """Add a step; return its place."""
        self.steps.append(step)
        return len(self.steps) - 1

    def speak(self, message: Step, step: Step) -> int:
        """Add what a model said."""
        place = self.add(step)
        self._note(message, _key(message), place)
        self._called.update([call.id for call in step.calls if call.id is not None])
        return place

    def answer(self, step: Step) -> int:
        """Add a tool's result as its event has it; its message completes it, whichever is first."""
        call_id = step.results[0].call_id
        heard = self._heard.get(call_id or "")
        if heard:
            place = heard.pop(0)
            self.steps[place] = _whole(step, self.steps[place])
            return place
        place = self.add(step)
        if call_id is not None:
            self._said.setdefault(("tool", call_id), []).append(place)
            self._told.setdefault(call_id, []).append(place)
        self._identify(step, ("tool", call_id or ""), place)
        return place

    def add_input(self, messages: Sequence[Json], refs: Sequence[Range], span: str | None) -> None:
        """Add what is new in what a model was given, in place or as ranges of the pool."""
        seen = self._seen.get(span, Counter())
        if refs:
            grown = _grown(refs, self._refs.get(span, ()))
            seen = Counter() if grown is None else seen
            for start, end in refs if grown is None else grown:
                for at in range(start, min(end, len(self._pool))):
                    self._hear(at, seen, span, pooled=True)
        else:
            before = self._messages.get(span, ())
            told = len(before)
            again = not told or messages[:told] != before
            seen = Counter() if again else seen
            for item in messages if again else messages[told:]:
                self._hear(item, seen, span, pooled=False)
        self._refs[span], self._messages[span], self._seen[span] = refs, messages, seen

    def add_rest(self, messages: Sequence[Json], *, context: bool) -> None:
        """Add what the sample's list has beyond what was said; `context`: models were asked."""
        known = [self._by_id(item) for item in messages]
        taken = {place for place in known if place is not None}
        place = -1
        for item, own in zip(messages, known, strict=True):
            if own is None:
                message = read_message_step(item, self._texts)
                key = _key(message)
                own = self._by_words(message, key, taken)
                if own is None:
                    own = self._add_behind(place, message, key, context=context)
                taken.add(own)
            place = own

    def _by_id(self, item: Json) -> int | None:
        """Return where a message of this id was said, None where no step has its id."""
        own = item.get("id") if type(item) is dict else None
        place = self._ids.get(own) if type(own) is str else None
        if place is not None and self._awaited(item):
            told = read_message_step(item, self._texts)
            self._complete(told, _key(told))
        elif place is not None:
            self._retell(place, item)
        return place

    def _retell(self, place: int, item: dict[str, Json]) -> None:
        """Keep, beside its step, a message that was told in other words than it was said."""
        step, content = self.steps[place], item.get("content")
        first = step.results[0] if step.kind == "result" else step
        calls = item.get("tool_calls")
        same = (len(calls) if type(calls) is list else 0) == len(step.calls)
        if same and type(content) is str and self._texts.resolve(content) == first.text:
            return
        told = read_message_step(item, self._texts)
        heard = told.results[0].parts if told.kind == "result" else told.parts
        if heard == first.parts and told.calls == step.calls:
            return
        words: Json = {"parts": [msgspec.to_builtins(part) for part in heard]}
        if told.calls:
            words["calls"] = [msgspec.to_builtins(call) for call in told.calls]
        before = self._retold.setdefault(place, [])
        if words not in before:
            before.append(words)
            self.steps[place] = replace(step, extra={**(step.extra or {}), "retold": [*before]})

    def _by_words(self, message: Step, key: Key, taken: set[int]) -> int | None:
        """Return where the same words were said that are no other message of the list."""
        places = self._said.get(key, ())
        at = self._looked.get(key, 0)
        while at < len(places) and places[at] in taken:
            at += 1
        self._looked[key] = at
        if at == len(places):
            return None
        self._complete(message, key)
        return places[at]

    def _add_behind(self, place: int, message: Step, key: Key, *, context: bool) -> int:
        step = message
        if context and step.kind == "result" and not self._was_called(step):
            step = replace(step, replayed=True)
        self._called.update([call.id for call in step.calls if call.id is not None])
        if place < len(self.steps) - 1 or place in self._between:
            self._between.setdefault(place, []).append(step)
            return place
        added = self.add(step)
        self._note(message, key, added)
        return added

    def number(self) -> tuple[tuple[Step, ...], list[int]]:
        """Return the steps with their indexes, and the index of each place."""
        steps: list[Step] = []
        places: list[int] = []
        ordered = [*self._between.get(-1, ())]
        for place, step in enumerate(self.steps):
            places.append(len(ordered))
            ordered.append(step)
            ordered += self._between.get(place, ())
        for index, step in enumerate(ordered):
            steps.append(replace(step, index=index) if index else step)
        return tuple(steps), places

    def _hear(self, at: int | Json, seen: Counter[Key], span: str | None, *, pooled: bool) -> None:
        item = self._pool[at] if pooled else at
        if self._is_again(item, seen):
            return
        if pooled and at not in self._read:
            self._read[at] = read_message_step(item, self._texts)
        message = self._read[at] if pooled else read_message_step(item, self._texts)
        key = _key(message)
        seen[key] += 1
        if seen[key] <= len(self._said.get(key, ())):
            self._complete(message, key)
            return
        step, generated = message, (message.extra or {}).get("source") == "generate"
        context = (step.actor == "agent" and not generated) or (
            step.kind == "result" and not self._was_called(step)
        )
        if step.id in self._ids:
            step = replace(step, id=None)  # a pool has equal messages once
        if context:
            step = replace(step, replayed=True)
        else:
            self._called.update([call.id for call in step.calls if call.id is not None])
        if span is not None:
            step = replace(step, span=span)
        place = self.add(step)
        self._note(message, key, place)
        if key[0] == "tool" and not context:
            self._heard.setdefault(key[1], []).append(place)

    def _is_again(self, item: Json, seen: Counter[Key]) -> bool:
        """Say whether a message of this id, in any words, was said as often as heard here."""
        own = item.get("id") if type(item) is dict else None
        place = self._ids.get(own) if type(own) is str else None
        if own is None or place is None or self._awaited(item):
            return False
        key = self._keys[own]
        if seen[key] >= len(self._said.get(key, (place,))):
            return False
        seen[key] += 1
        self._retell(place, item)
        return True

    def _awaited(self, item: dict[str, Json]) -> bool:
        """Say whether a message may be that of a tool's event that waits for it."""
        call_id = item.get("tool_call_id")
        return bool(type(call_id) is str and self._told.get(call_id))

    def _complete(self, heard: Step, key: Key) -> None:
        waiting = self._told.get(key[1]) if key[0] == "tool" else None
        if not waiting:
            return
        place = waiting.pop(0)
        self.steps[place] = _whole(self.steps[place], heard)
        self._identify(heard, key, place)

    def _note(self, message: Step, key: Key, place: int) -> None:
        self._said.setdefault(key, []).append(place)
        self._identify(message, key, place)

    def _identify(self, message: Step, key: Key, place: int) -> None:
        if message.id is not None:
            self._ids.setdefault(message.id, place)
            self._keys.setdefault(message.id, key)

    def _was_called(self, step: Step) -> bool:
        return step.results[0].call_id in self._called


def _whole(told: Step, heard: Step) -> Step:
    first, result = told.results[0], heard.results[0]
    extra = {**(first.extra or {}), **(result.extra or {})}
    if first.text != result.text:
        extra["returned"] = [msgspec.to_builtins(part) for part in first.parts]
    whole = replace(
        result,
        name=result.name or first.name,
        truncated=first.truncated,
        status="error" if "error" in {first.status, result.status} else "ok",
        error=result.error or first.error,
        extra=extra or None,
    )
    beside = fields.merge_extra(told.extra, heard.extra)
    return replace(told, results=(whole,), id=heard.id or told.id, extra=beside)


def _grown(refs: Sequence[Range], before: Sequence[Range]) -> list[Range] | None:
    """Return what ranges have beyond those before, None where they do not begin with them."""
    if not before or len(refs) < len(before) or refs[: len(before) - 1] != before[:-1]:
        return None
    (start, end), (same, old_end) = refs[len(before) - 1], before[-1]
    if start != same or end < old_end:
        return None
    return [(old_end, end), *refs[len(before) :]]
