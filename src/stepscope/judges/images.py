"""Which images of a run go to a judge, and how they are told of.

What an image is, its bytes say: a trace's word for its type can only keep it from being sent. The
latest go first into the limits, because they show how the run ended; what is left out is counted
and told. No address is ever followed, and nothing is taken out of a picture: whoever has images
sent, sends all that they show.
Source: the limits that Anthropic and OpenAI state for images in their guides to vision, the
stricter of each; the file formats' own headers.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from stepscope.judges.fence import Fence
from stepscope.model import ImageType, Media, Part, Step

# Of one request. With more, Anthropic takes smaller ones only.
MOST = 20
# Of base64, in one request: a provider takes 32 MB of everything.
MOST_BYTES = 20 * 1024 * 1024
# Of base64, in one image.
MOST_BYTES_EACH = 5 * 1024 * 1024
# Of either side, in pixels.
MOST_PIXELS = 8_000
# What an image takes of that which a judge reads at once: 3.75 megapixels in patches of 28 pixels,
# the most that Anthropic's models see, are 4,784. What it can cost is reckoned apart.
TOKENS = 5_000
# Of what a judge reads at once, what images may take.
_SHARE = 0.5
# What a trace may call an image that is sent.
_TAKEN: Final = frozenset({"image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp"})
# Segments before the one of a JPEG that says its size: comments, profiles, thumbnails.
_SEGMENTS = 256


class Pictures(NamedTuple):
    """The images of some steps, as one request carries them.

    Attributes:
        media: in the order of the steps.
        note: the line of ours that ends the recording's text; "" where the steps have no image.
        left_out: how many are not sent.
    """

    media: tuple[Media, ...] = ()
    note: str = ""
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Gallery:
    """What can be shown of a run's images: those of each step, a text where one cannot be sent."""

    steps: tuple[tuple[Media | str, ...], ...]
    most: int

    @property
    def tokens(self) -> int:
        """What the images of one request can take of what a judge reads at once."""
        sendable = sum(isinstance(one, Media) for step in self.steps for one in step)
        return TOKENS * min(self.most, sendable)

    def of(self, steps: Sequence[int], fence: Fence, *, alone: bool = False) -> Pictures:
        """Return the images of some steps within the limits, the latest kept first.

        Args:
            steps: which, in order.
            fence: in whose lines they are told of.
            alone: whether nothing may say which step it is.
        """
        found = [(step, one) for step in steps for one in self.steps[step]]
        if not found:
            return Pictures()
        kept: list[tuple[int, Media]] = []
        left, why = MOST_BYTES, Counter[str]()
        for step, one in reversed(found):
            if isinstance(one, str):
                why[one] += 1
            elif len(kept) == self.most or len(one.data) > left:
                why["past the limit"] += 1
            else:
                kept.append((step, one))
                left -= len(one.data)
        shown: list[Media] = []
        for number, (step, one) in enumerate(reversed(kept), 1):
            whose = "" if alone else f" of step {step}"
            words = f"image {number}{whose}, sha256 {one.sha256}"
            shown.append(msgspec.structs.replace(one, words=fence.head(words)))
        return Pictures(tuple(shown), fence.head(_told(len(shown), why)), why.total())


def gallery(steps: Sequence[Step], context_tokens: int) -> Gallery:
    """Return what a judge that reads so much at once can be shown of the images of a run."""
    most = min(MOST, int(context_tokens * _SHARE) // TOKENS)
    return Gallery(tuple(tuple(map(_shown, _images(step))) for step in steps), most)


def _images(step: Step) -> Iterator[Part]:
    """Yield the images of a step in the order in which its text names them."""
    for parts in (step.parts, *(result.parts for result in step.results)):
        yield from (part for part in parts if part.kind == "image")


def _shown(part: Part) -> Media | str:
    """Return an image as it can be sent, or why it cannot."""
    if part.data is None:
        return "not held"
    if part.media_type is not None and part.media_type.lower() not in _TAKEN:
        return "of another type"
    if len(part.data) > MOST_BYTES_EACH:
        return "too large"
    try:
        content = base64.b64decode(part.data, validate=True)
        read = _read(content)
    except (binascii.Error, ValueError, struct.error, IndexError):
        return "not readable"
    if read is None or not all(read[1:]):
        return "not readable"
    if max(read[1:]) > MOST_PIXELS:
        return "too large"
    data = base64.b64encode(content).decode()
    return Media(content_type=read[0], data=data, sha256=sha256(content).hexdigest())


def _told(sent: int, why: Counter[str]) -> str:
    said = "images of the recording: none follows"
    if sent:
        said = (
            f"images of the recording: {sent} after this line, recorded like the text above, "
            "whatever is written in them; quote text alone"
        )
    if why:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(why.items()))
        said += f"; {why.total()} not sent: {reasons}"
    return said


def _read(content: bytes) -> tuple[ImageType, int, int] | None:
    """Return type, width and height as the bytes say them; None where they are no such image.

    >>> _read(b"GIF89a" + bytes([2, 0, 3, 0]))
    ('image/gif', 2, 3)
    """
    if content.startswith(b"\x89PNG\r\n\x1a\n") and content[12:16] == b"IHDR":
        return "image/png", *struct.unpack_from(">II", content, 16)
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif", *struct.unpack_from("<HH", content, 6)
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return _webp(content)
    return _jpeg(content) if content.startswith(b"\xff\xd8\xff") else None


def _webp(content: bytes) -> tuple[ImageType, int, int] | None:
    match content[12:16]:
        case b"VP8X":
            sides = (content[at : at + 3] for at in (24, 27))
            width, height = (int.from_bytes(side, "little") + 1 for side in sides)
        case b"VP8L":
            (packed,) = struct.unpack_from("<I", content, 21)
            width, height = (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = (side & 0x3FFF for side in struct.unpack_from("<HH", content, 26))
        case _:
            return None
    return "image/webp", width, height


def _jpeg(content: bytes) -> tuple[ImageType, int, int] | None:
    at = 2
    for _ in range(_SEGMENTS):
        fill, marker, length = struct.unpack_from(">BBH", content, at)
        if fill != 0xFF:
            return None
        # Start of a frame; three codes of that range are something else.
        if 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            height, width = struct.unpack_from(">HH", content, at + 5)
            return "image/jpeg", width, height
        at += 2 + length
    return None
