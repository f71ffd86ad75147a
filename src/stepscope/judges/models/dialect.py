"""What one protocol says: how a question is put, and where in a reply the answer stands.

The words are plain JSON, so that the same ones go over the wire at once and into a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from stepscope.model import Endpoint, Json, Request, Stop, Structure, Usage


class Read(NamedTuple):
    """What stands in a reply.

    Attributes:
        text: the answer as the model wrote it.
        stop: why it stopped.
        usage: its tokens, where they are said.
        model: the snapshot that answered.
    """

    text: str
    stop: Stop
    usage: Usage | None
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One protocol.

    Attributes:
        path: what is posted to, below the base URL.
        request_id: the header that names a request, for the provider's support.
        structures: how structured output can be asked for, the strictest first.
        parameters: what is sent.
        read: what is taken from the body of a reply; raises `ModelError` where it is none.
    """

    path: str
    request_id: str
    structures: tuple[Structure, ...]
    parameters: Callable[[Endpoint, Request, Structure], dict[str, Json]]
    read: Callable[[Endpoint, bytes, Structure], Read]


def instructed(request: Request) -> str:
    """Return the system turn of a model that takes no schema: it is told the schema in words."""
    schema = msgspec.json.encode(request.schema).decode()
    return (
        f"{request.system}\n\nAnswer with one JSON object and nothing else: no text around it, no "
        f"code fence. It fits this JSON schema:\n{schema}"
    )


def count(value: object) -> int | None:
    """Return a number of tokens; None for what is no such number.

    >>> count(7), count(-1), count(True), count("7")
    (7, None, None, None)
    """
    return value if type(value) is int and value >= 0 else None
