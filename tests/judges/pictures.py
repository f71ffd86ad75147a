"""Images as their first bytes, which is all that anybody here reads of them."""

from __future__ import annotations

import base64
import struct

from stepscope.model import Part, Step, ToolResult


def png(width: int = 3, height: int = 2, *, fill: bytes = b"") -> bytes:
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height)
    return head + b"\x08\x02\x00\x00\x00" + fill


def gif(width: int = 3, height: int = 2) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height)


def jpeg(width: int = 3, height: int = 2) -> bytes:
    profile = b"\xff\xe2" + struct.pack(">H", 6) + b"abcd"
    frame = b"\xff\xc2" + struct.pack(">HBHH", 11, 8, height, width)
    return b"\xff\xd8" + profile + frame


def webp(width: int = 3, height: int = 2, *, form: bytes = b"VP8X") -> bytes:
    sides = {
        b"VP8X": bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"),
        b"VP8L": b"\x2f" + struct.pack("<I", (height - 1) << 14 | (width - 1)),
        b"VP8 ": b"\x00\x00\x00\x9d\x01\x2a" + struct.pack("<HH", width, height),
    }
    return b"RIFF\0\0\0\0WEBP" + form + b"\0\0\0\0" + sides[form]


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def picture(content: bytes, content_type: str | None = "image/png") -> Part:
    return Part("image", media_type=content_type, size=len(content), data=encoded(content))


def looked(*parts: Part) -> Step:
    """A result of a tool that is pictures."""
    results = (ToolResult(parts=parts, status="ok"),)
    return Step(index=0, actor="environment", kind="result", results=results)
