"""The scripts and styles of the pages, read once at the start; no request ever names a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

TYPES: Mapping[str, str] = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file as it is sent: `etag` is another one for other bytes."""

    content: bytes
    media_type: str
    etag: str


def static_files() -> dict[str, StaticFile]:
    """Return every file of the package that pages refer to, by its address below `/static/`."""
    return dict(_below(files("stepscope.report") / "static", ""))


def _below(folder: Traversable, at: str) -> list[tuple[str, StaticFile]]:
    found: list[tuple[str, StaticFile]] = []
    for entry in folder.iterdir():
        name = at + entry.name
        if entry.is_dir():
            found += _below(entry, name + "/")
        elif (suffix := name[name.rfind(".") :]) in TYPES:
            content = entry.read_bytes()
            etag = f'"{sha256(content).hexdigest()[:32]}"'
            found.append((name, StaticFile(content, TYPES[suffix], etag)))
    return found
