"""Steps of an Inspect sample as its events and messages say them, each thing once.

A model's event has what the model was given, which repeats what was said before: only what is new
in it makes a step. A tool's event and the message that tells the model of it are one step. A
message with an agent's words that no model said in this sample is context, and marked as replayed.
Words that were put otherwise later, under the same id, stand beside those said, as `retold`.
What the sample's own list of messages has beyond that stands behind the message it follows there.
Where there are no events, that list is all there is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from stepscope.formats.inspect_messages import Said, said
from stepscope.formats.inspect_texts import Texts
from stepscope.model import Json, Step, Warn

Key = tuple[str, ...]
# From, and up to.
Range = tuple[int, int]


class _Given(NamedTuple):
    """What a conversation was last given: ranges of the pool, or messages; `seen` in them."""

    refs: Sequence[Range]
    messages: Sequence[Json]
    seen: Counter[Key]


class Script:
    """Collects the steps of one sample."""

    def __init__(self, texts: Texts, pool: Sequence[Json]) -> None:
        self.steps: list[Step] = []
        self.warnings: list[Warn] = []
        self._texts = texts
        self._pool = pool
        self._read: dict[int, Said] = {}
        self._ids: dict[str, int] = {}
        self._keys: dict[str, Key] = {}
        self._said: dict[Key, list[int]] = {}
        # Results by their call's id that wait for their message, and messages for their event.
        self._told: dict[str, list[int]] = {}
        self._heard: dict[str, list[int]] = {}
        self._looked: dict[Key, int] = {}
        self._retold: dict[int, list[Json]] = {}
        self._called: set[str] = set()
        self._given: dict[str | None, _Given] = {}
        self._between: dict[int, list[Step]] = {}

    def add(self, step: Step) -> int:
        """Add a step; return its place."""
        self.steps.append(step)
        return len(self.steps) - 1

    def speak(self, message: Said, step: Step) -> int:
        """Add what a model said."""
        place = self.add(step)
        self._note(message, place)
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
        if step.id is not None:
            self._ids.setdefault(step.id, place)
            self._keys.setdefault(step.id, ("tool", call_id or ""))
        return place

    def given(self, messages: Sequence[Json], refs: Sequence[Range], span: str | None) -> None:
        """Add what is new in what a model was given, in place or as ranges of the pool."""
        before = self._given.get(span, _NOTHING)
        grown = _grown(refs, before.refs) if refs else None
        if refs:
            seen = Counter() if grown is None else before.seen
            for start, end in refs if grown is None else grown:
                for at in range(start, min(end, len(self._pool))):
                    self._hear(at, seen, span, pooled=True)
        else:
            told = len(before.messages)
            again = not told or messages[:told] != before.messages
            seen = Counter() if again else before.seen
            for item in messages if again else messages[told:]:
                self._hear(item, seen, span, pooled=False)
        self._given[span] = _Given(refs, messages, seen)

    def ending(self, messages: Sequence[Json], *, context: bool) -> None:
        """Add what the sample's own list of messages has beyond what was said so far.

        Args:
            messages: the list.
            context: whether models were asked, so that tools' results without a call are context.
        """
        known = [self._by_id(item) for item in messages]
        taken = {place for place in known if place is not None}
        place = -1
        for item, own in zip(messages, known, strict=True):
            if own is None:
                message = said(item, self._texts)
                own = self._by_words(message, taken)
                if own is None:
                    own = self._add_behind(place, message, context=context)
                taken.add(own)
            place = own

    def _by_id(self, item: Json) -> int | None:
        """Return where a message of this id was said, None where no step has its id."""
        own = item.get("id") if type(item) is dict else None
        place = self._ids.get(own) if type(own) is str else None
        if place is not None and self._awaited(item):
            self._complete(said(item, self._texts))
        elif place is not None:
            self._retell(place, item)
        return place

    def _retell(self, place: int, item: dict[str, Json]) -> None:
        """Keep, beside its step, a message that was told in other words than it was said."""
        step, content = self.steps[place], item.get("content")
        first = step.results[0] if step.kind == "result" else step
        calls = item.get("tool_calls")
        same = (len(calls) if type(calls) is list else 0) == len(step.calls)
        if same and type(content) is str and self._texts.of(content) == first.text:
            return
        told = said(item, self._texts).step
        heard = told.results[0].parts if told.kind == "result" else told.parts
        if heard == first.parts and told.calls == step.calls:
            return
        words: Json = {"parts": [msgspec.to_builtins(part) for part in heard]}
        if told.calls:
            words["calls"] = [msgspec.to_builtins(call) for call in told.calls]
        before = self._retold.setdefault(place, [])
        if words not in before:
            before.append(words)
            extra = {**(step.extra or {}), "retold": [*before]}
            self.steps[place] = msgspec.structs.replace(step, extra=extra)

    def _by_words(self, message: Said, taken: set[int]) -> int | None:
        """Return where the same words were said that are no other message of the list."""
        places = self._said.get(message.key, ())
        at = self._looked.get(message.key, 0)
        while at < len(places) and places[at] in taken:
            at += 1
        self._looked[message.key] = at
        if at == len(places):
            return None
        self._complete(message)
        return places[at]

    def _add_behind(self, place: int, message: Said, *, context: bool) -> int:
        step = message.step
        if context and step.kind == "result" and not self._was_called(step):
            step = msgspec.structs.replace(step, replayed=True)
        self._called.update([call.id for call in step.calls if call.id is not None])
        if place < len(self.steps) - 1 or place in self._between:
            self._between.setdefault(place, []).append(step)
            return place
        added = self.add(step)
        self._note(message, added)
        return added

    def numbered(self) -> tuple[tuple[Step, ...], list[int]]:
        """Return the steps with their indexes, and the index of each place."""
        steps: list[Step] = []
        places: list[int] = []
        ordered = [*self._between.get(-1, ())]
        for place, step in enumerate(self.steps):
            places.append(len(ordered))
            ordered.append(step)
            ordered += self._between.get(place, ())
        for index, step in enumerate(ordered):
            steps.append(msgspec.structs.replace(step, index=index) if index else step)
        return tuple(steps), places

    def _pooled(self, at: int) -> Said:
        found = self._read.get(at)
        if found is None:
            found = self._read[at] = said(self._pool[at], self._texts)
        return found

    def _hear(self, at: int | Json, seen: Counter[Key], span: str | None, *, pooled: bool) -> None:
        """Add a message that a model was given, unless it was said already."""
        item = self._pool[at] if pooled else at
        if self._is_again(item, seen):
            return
        message = self._pooled(at) if pooled else said(item, self._texts)
        seen[message.key] += 1
        if seen[message.key] <= len(self._said.get(message.key, ())):
            self._complete(message)
            return
        step = message.step
        context = (step.actor == "agent" and not message.generated) or (
            step.kind == "result" and not self._was_called(step)
        )
        if step.id in self._ids:
            step = msgspec.structs.replace(step, id=None)  # a pool has equal messages once
        if context:
            step = msgspec.structs.replace(step, replayed=True)
        else:
            self._called.update([call.id for call in step.calls if call.id is not None])
        if span is not None:
            step = msgspec.structs.replace(step, span=span)
        place = self.add(step)
        self._note(message, place)
        if message.key[0] == "tool" and not context:
            self._heard.setdefault(message.key[1], []).append(place)

    def _is_again(self, item: Json, seen: Counter[Key]) -> bool:
        """Say whether a message of this id was said, as often as it is heard here.

        Told to another agent, its words may be put otherwise.
        """
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

    def _complete(self, message: Said) -> None:
        """Give the step of a tool's event the words that the model was told."""
        waiting = self._told.get(message.key[1]) if message.key[0] == "tool" else None
        if not waiting:
            return
        place = waiting.pop(0)
        heard = message.step
        self.steps[place] = _whole(self.steps[place], heard)
        if heard.id is not None:
            self._ids.setdefault(heard.id, place)
            self._keys.setdefault(heard.id, message.key)

    def _note(self, message: Said, place: int) -> None:
        self._said.setdefault(message.key, []).append(place)
        if message.step.id is not None:
            self._ids.setdefault(message.step.id, place)
            self._keys.setdefault(message.step.id, message.key)

    def _was_called(self, step: Step) -> bool:
        return step.results[0].call_id in self._called


def _whole(told: Step, heard: Step) -> Step:
    """Return the step of a tool's event with the words that the model heard of it."""
    first, result = told.results[0], heard.results[0]
    extra = {**(first.extra or {}), **(result.extra or {})}
    if first.text != result.text:
        extra["returned"] = [msgspec.to_builtins(part) for part in first.parts]
    whole = msgspec.structs.replace(
        result,
        name=result.name or first.name,
        truncated=first.truncated,
        status="error" if "error" in {first.status, result.status} else "ok",
        error=result.error or first.error,
        extra=extra or None,
    )
    beside = {**(told.extra or {}), **(heard.extra or {})}
    return msgspec.structs.replace(
        told, results=(whole,), id=heard.id or told.id, extra=beside or None
    )


def _grown(refs: Sequence[Range], before: Sequence[Range]) -> list[Range] | None:
    """Return what ranges have beyond those before, None where they do not begin with them.

    >>> _grown([(0, 3), (5, 9)], [(0, 3), (5, 7)])
    [(7, 9)]
    """
    if not before or len(refs) < len(before) or refs[: len(before) - 1] != before[:-1]:
        return None
    (start, end), (same, old_end) = refs[len(before) - 1], before[-1]
    if start != same or end < old_end:
        return None
    return [(old_end, end), *refs[len(before) :]]


_NOTHING = _Given((), (), Counter())
