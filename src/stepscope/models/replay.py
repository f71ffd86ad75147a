"""A model that answers from what was recorded: no key, no network, no cost.

    replies = read_replies(Path("replies.jsonl"))
    model = ReplayModel("openai/gpt-5", replies)

A line of such a file is one reply and the hash of the request that it answers. A request that was
not recorded has no answer; none is made up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from stepscope.errors import ModelError, UsageError
from stepscope.model import Reply, Request
from stepscope.models.dialect import request_hash
from stepscope.safety.limits import open_file, open_output


class RecordedReply(msgspec.Struct, frozen=True, kw_only=True):
    """One line: a reply, and the hash of its judge and request (`request_hash`)."""

    request: str
    reply: Reply


_line = msgspec.json.Decoder(RecordedReply)


class ReplayModel:
    """Answers each request with the replies recorded for it, in their order, over and over.

    One request has several replies where it was asked several times, to see how the judge varies.
    """

    def __init__(self, name: str, replies: Iterable[tuple[str, Reply]]) -> None:
        """Stand for the judge called `name`; `replies` are pairs of request hash and reply."""
        self.name = name
        self._replies: dict[str, list[Reply]] = {}
        for key, reply in replies:
            self._replies.setdefault(key, []).append(reply)
        self._given: dict[str, int] = {}

    async def complete(self, request: Request) -> Reply:
        """Return the next recorded reply to a request; `ModelError` where none was recorded."""
        key = request_hash(self.name, request)
        replies = self._replies.get(key)
        if replies is None:
            raise ModelError(
                f"{self.name}: no reply is recorded for request {key[:16]} "
                f"({request.schema_name}: {request.question[:60]!r}); run, rubric or prompt are "
                "others than when it was recorded",
                again=False,
                reached=False,
            )
        given = self._given.get(key, 0)
        self._given[key] = given + 1
        return replies[given % len(replies)]


def read_replies(path: Path) -> Iterator[tuple[str, Reply]]:
    """Yield the pairs of a file of recorded replies, JSON lines; `UsageError` where it is none."""
    try:
        with open_file(path) as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    found = _line.decode(line)
                except (msgspec.DecodeError, UnicodeError, RecursionError) as e:
                    raise UsageError(f"{path}, line {number}: no recorded reply ({e})") from e
                yield found.request, found.reply
    except OSError as e:
        raise UsageError(f"{path}: cannot be read ({e.strerror})") from e


def write_replies(path: Path, replies: Iterable[tuple[str, Reply]]) -> int:
    """Write pairs of request hash and reply as JSON lines; return how many."""
    written = 0
    with open_output(path) as lines:
        for key, reply in replies:
            lines.write(msgspec.json.encode(RecordedReply(request=key, reply=reply)) + b"\n")
            written += 1
    return written
