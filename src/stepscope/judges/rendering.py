"""A run as a judge reads it: a block for each step, without secrets, cut visibly where it is long.

A step becomes pieces: what was said, called and returned, each under a label of ours. Secrets are
out before anything is cut or marked; ids stay, because citations point at them. Images and files
are named by type, size and hash. Without narration the agent's words are out and its calls stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from stepscope.judges.fence import Fence
from stepscope.judges.normal import composed, folded, plain, spelt
from stepscope.model import Json, Part, Step, ToolCall, ToolResult, Trajectory
from stepscope.safety.redact import Redactor, redact_json

Narration = Literal["on", "off"]

# Bytes of UTF-8 for each token that a text may cost: English has four and more, few scripts fewer.
BYTES_PER_TOKEN = 3
# A text is never cut below this many bytes: what is left would say nothing.
FLOOR_BYTES = 240
# What the line that stands for a cut takes, at most.
_CUT_LINE_BYTES = 64
# Of what is kept of a long text, its beginning; the rest is its end.
_HEAD_SHARE = 2 / 3
_HASH = re.compile(r"[0-9a-f]{64}")
MEDIA = frozenset({"image", "audio", "file"})


class Piece(NamedTuple):
    """One text of a step: our label, and the trace's text, normal and without secrets."""

    label: str
    text: str


class Block(NamedTuple):
    """What stands between two lines of a fence.

    Attributes:
        words: ours, on the line that opens it.
        pieces: the trace's.
        at: index of the step, None where it is none.
        actor: whose step it is.
    """

    words: str
    pieces: tuple[Piece, ...]
    at: int | None = None
    actor: str = ""


class Context(NamedTuple):
    """A recording as it is sent, and how many characters of it were left out."""

    text: str
    left_out: int


class Copy:
    """A run as judges read it: its tools, and one block a step, in order."""

    def __init__(self, tools: tuple[Block, ...], steps: tuple[Block, ...]) -> None:
        """Keep the blocks; what quotations are looked for in is made when first asked for."""
        self.tools = tools
        self.steps = steps
        self._folded: dict[int, str] = {}
        self._whole: tuple[Fence, str] | None = None

    def whole(self, fence: Fence, room: int) -> Context | None:
        """Return the tools and all steps as one text of at most `room` bytes, or None.

        The rubrics of one judge are asked of the same text: it is kept until another fence comes.
        """
        blocks = (*self.tools, *self.steps)
        if self._whole is None or self._whole[0] != fence:
            marked = [[fence.data(piece.text) for piece in block.pieces] for block in blocks]
            self._whole = (fence, _joined(blocks, fence, marked))
        text = self._whole[1]
        return Context(text, 0) if _bytes(text) <= room else fitted(blocks, fence=fence, room=room)

    def folded(self, step: int) -> str:
        """Return a step's texts, each after its label, as quotations are compared."""
        if step not in self._folded:
            # Judges quote lines as they see them: "call 0:" and what was called.
            lines = (f"{piece.label}:\n{piece.text}" for piece in self.steps[step].pieces)
            self._folded[step] = folded("\n".join(lines))
        return self._folded[step]


def tokens_of(text: str) -> int:
    """Return how many tokens a text may cost: one for three bytes, rounded up."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def read_of(text: str, redactor: Redactor) -> str:
    """Return a text of a trace as a judge reads it: without secrets, and as `normal` does."""
    # Looked for twice, and before anything is spelt out: a character without ink can stand beside
    # a secret, where it parts it from a word, and inside of one, where it hides it.
    return _bare(redactor.redact(composed(text)).text, redactor)


def _bare(hidden: str, redactor: Redactor) -> str:
    bare = plain(hidden)
    return spelt(bare if bare == hidden else redactor.redact(bare).text)


def copy_of(trajectory: Trajectory, *, redactor: Redactor, narration: Narration) -> Copy:
    """Return the copy of a run that judges read; made once for each redactor and narration."""
    kept: dict[Narration, tuple[Redactor, Copy]]
    kept = trajectory.__dict__.setdefault("_judges_copy", {})
    if narration not in kept or kept[narration][0] is not redactor:
        kept[narration] = (
            redactor,
            _Reading(redactor, narration, _calls(trajectory)).of(trajectory),
        )
    return kept[narration][1]


def _calls(trajectory: Trajectory) -> dict[int, tuple[int, int]]:
    """Return by a result's identity the step and place of the call that it answers."""
    places: dict[int, tuple[int, int]] = {}
    seen: dict[int, int] = {}
    for exchange in trajectory.exchanges:
        place = seen.get(exchange.step, 0)
        seen[exchange.step] = place + 1
        if exchange.result is not None:
            places[id(exchange.result)] = (exchange.step, place)
    return places


class _Reading:
    """Reads one run: what hides secrets, whether the agent is heard, who answers whom."""

    def __init__(
        self, redactor: Redactor, narration: Narration, calls: Mapping[int, tuple[int, int]]
    ) -> None:
        self.redactor = redactor
        self.narration = narration
        self.calls = calls

    def of(self, trajectory: Trajectory) -> Copy:
        tools = tuple(
            Piece("tool", self.json(msgspec.to_builtins(t))) for t in trajectory.tools or ()
        )
        offered = (Block(f"tools offered, {len(tools)}", tools),) if tools else ()
        return Copy(offered, tuple(self.step(step) for step in trajectory.steps))

    def text(self, text: str) -> str:
        return read_of(text, self.redactor)

    def json(self, value: Json) -> str:
        hidden = redact_json(self.redactor, _composed_texts(value))
        text = json.dumps(hidden, ensure_ascii=False, separators=(",", ":"))
        return _bare(text, self.redactor)

    def step(self, step: Step) -> Block:
        words = f"step {step.index}: {step.actor}, {step.kind}"
        if step.replayed:
            words += ", replayed"
        if step.sidechain:
            words += ", side chain"
        return Block(words, tuple(self.pieces(step)), step.index, step.actor)

    def pieces(self, step: Step) -> Iterator[Piece]:
        if step.agent:
            yield Piece("agent", self.text(step.agent))
        silent = self.narration == "off" and step.actor == "agent"
        for part in step.parts:
            if silent and part.kind in {"text", "reasoning", "refusal"}:
                yield Piece(f"{part.kind}, left out, {len(part.text or '')} characters", "")
            else:
                yield from self.part(part, part.kind)
        for number, call in enumerate(step.calls):
            yield self.call(number, call)
        for number, result in enumerate(step.results):
            yield from self.result(number, result)
        if step.error:
            yield Piece("error of the step", self.text(step.error))

    def part(self, part: Part, label: str) -> Iterator[Piece]:
        if part.kind in MEDIA:
            yield self.named(part, label)
        elif part.text is not None or part.kind == "data":
            yield Piece(label, self.text(part.text or ""))

    def named(self, part: Part, label: str) -> Piece:
        """Return what is said of an image, a sound or a file; of which type is the trace's word."""
        size = "size unknown" if part.size is None else f"{part.size} bytes"
        known = part.sha256 is not None and _HASH.fullmatch(part.sha256)
        said = " ".join(text for text in (part.media_type, part.text) if text)
        label = f"{label}, {size}, sha256 {part.sha256 if known else 'unknown'}"
        return Piece(label, self.text(said))

    def call(self, number: int, call: ToolCall) -> Piece:
        label = f"call {number}" if call.requestor == "agent" else f"call {number} by the user"
        if call.parse_error is not None:
            return Piece(f"{label}, malformed", self.text(f"{call.name} {call.raw or ''}"))
        given = "" if call.arguments is None else " " + self.json(call.arguments)
        return Piece(label, self.text(call.name) + given)

    def result(self, number: int, result: ToolResult) -> Iterator[Piece]:
        answered = self.calls.get(id(result))
        label = f"result {number}, {result.status}"
        if answered is not None:
            label = f"result of call {answered[1]} at step {answered[0]}, {result.status}"
        if result.truncated:
            label += ", cut in the recording"
        text = result.text
        media = [part for part in result.parts if part.kind in MEDIA]
        if not text and result.structured is not None:
            yield Piece(label, self.json(result.structured))
        elif text or not media:
            yield Piece(label, self.text(text))
        for part in media:
            yield self.named(part, f"{label}, {part.kind}")
        if result.error and result.error != text:
            yield Piece(f"{label}, error", self.text(result.error))


def _composed_texts(value: Json) -> Json:
    """Return a JSON value whose texts are composed, keys too."""
    if isinstance(value, str):
        return composed(value)
    if isinstance(value, list | tuple):
        return [_composed_texts(item) for item in value]
    if isinstance(value, dict):
        made: dict[str, Json] = {}
        for key, item in value.items():
            name = composed(str(key))
            while name in made:  # two keys that differ only in what does not show
                name += "'"
            made[name] = _composed_texts(item)
        return made
    return value


def fitted(blocks: Sequence[Block], *, fence: Fence, room: int) -> Context | None:
    """Return blocks as one text of at most `room` bytes, the longest texts cut first.

    None where they do not fit even so.
    """
    marked = [[fence.data(piece.text) for piece in block.pieces] for block in blocks]
    sizes = sorted(_bytes(text) for texts in marked for text in texts)
    fixed = _bytes(_joined(blocks, fence, [[""] * len(block.pieces) for block in blocks]))
    cap = _cap(sizes, room - fixed)
    while cap is not None:
        left_out = 0
        shown: list[list[str]] = []
        for block, texts in zip(blocks, marked, strict=True):
            line: list[str] = []
            for piece, text in zip(block.pieces, texts, strict=True):
                kept, lost = _cut(piece.text, text, fence, cap)
                line.append(kept)
                left_out += lost
            shown.append(line)
        whole = _joined(blocks, fence, shown)
        if _bytes(whole) <= room:
            return Context(whole, left_out)
        cap = cap * 9 // 10 if cap * 9 // 10 >= FLOOR_BYTES else None
    return None


def _bytes(text: str) -> int:
    return len(text.encode())


def _cap(sizes: Sequence[int], room: int) -> int | None:
    """Return how long the longest texts may be so that all fit, None where none is long enough.

    >>> _cap([100, 300, 5000], 1400), _cap([100, 300, 5000], 6000), _cap([100, 300, 5000], 500)
    (1000, 5000, None)
    """
    left = room
    for at, size in enumerate(sizes):
        share = left // (len(sizes) - at)
        if size > share:
            return share if share >= FLOOR_BYTES else None
        left -= size
    return None if left < 0 else max(sizes, default=FLOOR_BYTES)


def _cut(text: str, marked: str, fence: Fence, cap: int) -> tuple[str, int]:
    """Return a marked text of about `cap` bytes, and how many characters of it are missing."""
    size = _bytes(marked)
    if size <= cap:
        return marked, 0
    raw = text.encode()
    kept = (cap - _CUT_LINE_BYTES) * len(raw) // size
    head_bytes = int(kept * _HEAD_SHARE)
    head = raw[:head_bytes].decode("utf-8", "ignore")
    tail = raw[len(raw) - (kept - head_bytes) :].decode("utf-8", "ignore")
    lost = len(text) - len(head) - len(tail)
    return "\n".join((fence.data(head), fence.left_out(lost), fence.data(tail))), lost


def _joined(blocks: Sequence[Block], fence: Fence, shown: Sequence[Sequence[str]]) -> str:
    lines = [fence.opening()]
    for block, texts in zip(blocks, shown, strict=True):
        lines.append(fence.head(block.words))
        for piece, text in zip(block.pieces, texts, strict=True):
            lines += (fence.label(piece.label), text)
    lines.append(fence.closing())
    return "\n".join(lines)
