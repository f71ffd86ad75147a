"""The scripted provider's one answering function: from a request to the right route and its fault.

Numbers and faults belong to requests to models alone; what concerns batches and files is answered
as their scripts say.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from tests.faults import batching, chat
from tests.faults.batching import Batching, Wrong
from tests.faults.chat import Cache, Refused
from tests.faults.oracle import Oracle, hash_of
from tests.faults.script import Fault, Script
from tests.faults.wire import Answer, Asked, Connection, Sent

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
# Requests a minute and tokens a minute, as providers tell them.
_LIMITS = ("10000", "2000000")
_WHEN = "2026-09-21T14:13:21Z"

Body = dict[str, Any]
_encode = msgspec.json.encode
_decode = msgspec.json.decode


class Dialect(NamedTuple):
    """How one provider is read and answered."""

    read: Callable[[Body, Script], chat.Asking]
    reply: Callable[..., Body]
    error: Callable[[int, str], Body]
    headers: dict[str, str]


OPENAI = Dialect(
    chat.read_openai,
    chat.completion,
    chat.openai_error,
    {
        "x-request-id": "req_scripted",
        "openai-processing-ms": "5",
        "x-ratelimit-limit-requests": _LIMITS[0],
        "x-ratelimit-remaining-requests": _LIMITS[0],
        "x-ratelimit-reset-requests": "12ms",
        "x-ratelimit-limit-tokens": _LIMITS[1],
        "x-ratelimit-remaining-tokens": _LIMITS[1],
        "x-ratelimit-reset-tokens": "6m0s",
    },
)
ANTHROPIC = Dialect(
    chat.read_anthropic,
    chat.message,
    chat.anthropic_error,
    {
        "request-id": "req_scripted",
        "anthropic-organization-id": "org_scripted",
        "anthropic-ratelimit-requests-limit": _LIMITS[0],
        "anthropic-ratelimit-requests-remaining": _LIMITS[0],
        "anthropic-ratelimit-requests-reset": _WHEN,
        "anthropic-ratelimit-tokens-limit": _LIMITS[1],
        "anthropic-ratelimit-tokens-remaining": _LIMITS[1],
        "anthropic-ratelimit-tokens-reset": _WHEN,
    },
)


class Server:
    """What a scripted provider knows and does."""

    def __init__(self, script: Script, oracle: Oracle, *, keep: bool = True) -> None:
        """Do what `script` says and write it down; `keep` holds every request."""
        self.asked: list[Asked] = []
        self.most_in_flight = 0
        self._keep = keep
        self._oracle = oracle
        self._cache = Cache()
        self._batching = Batching()
        self._number = 0
        self._open = 0
        self._lines = 0
        self.put(script)

    def put(self, script: Script) -> None:
        """Do what this script says from now on; numbers begin at 0 again."""
        self.script = script
        self._remembered: dict[bytes, Answer] = {}
        self._number = 0
        self._about_batches = 0
        self._lists = 0
        self._times = [0] * len(script.where)

    async def serve(self, held: socket.socket, stop: asyncio.Event) -> None:
        """Answer on a listening socket until `stop` is set."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Connection(self.answer), sock=held)
        await stop.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        self._oracle.close()

    async def answer(self, asked: Asked) -> tuple[Answer, Sent]:
        """Return the answer to a request, and what to call when it has gone."""
        if asked.method == "POST" and asked.path in {CHAT, MESSAGES}:
            return self._model(asked)
        if asked.path.startswith("/_"):
            return self._control(asked), _nothing
        dialect = ANTHROPIC if asked.path.startswith(MESSAGES) else OPENAI
        how = self._batch_fault()
        try:
            body = self._batch(asked)
        except Wrong as wrong:
            return _told(dialect, wrong.status, str(wrong), how), _nothing
        if how.status:
            return _told(dialect, how.status, how.message, how), _nothing
        held = body if isinstance(body, bytes) else _encode(body)
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        return Answer(held, 200, {**dialect.headers, "content-type": kind}, how), _nothing

    def _batch_fault(self) -> Fault:
        number, self._about_batches = self._about_batches, self._about_batches + 1
        faults = self.script.batches.faults
        return faults[number] if number < len(faults) else Fault()

    def finish(self) -> None:
        """End every batch now."""
        self._batching.finish()

    @property
    def looks(self) -> int:
        """How often batches were looked at."""
        return sum(batch.looks for batch in self._batching.all())

    def _model(self, asked: Asked) -> tuple[Answer, Sent]:
        dialect = OPENAI if asked.path == CHAT else ANTHROPIC
        number, self._number = self._number, self._number + 1
        if self._keep:
            self.asked.append(asked)
        self._open += 1
        self.most_in_flight = max(self.most_in_flight, self._open)
        how = self._fault(number, asked)
        line = self._line(asked)
        self._oracle.add("received", line)

        def sent(status: int) -> None:
            self._open -= 1
            self._oracle.add("answered", line, status=status)

        return self._answered(asked, dialect, how), sent

    def _line(self, asked: Asked) -> dict[str, str | int]:
        if not self._oracle.kept:
            return {}
        custom = asked.headers.get("idempotency-key", "")
        return self._told_of(asked.path, custom, _decode(asked.body))

    def _told_of(self, path: str, custom: str, body: Body) -> dict[str, str | int]:
        self._lines += 1
        return {
            "number": self._lines - 1,
            "path": path,
            "custom": custom,
            "hash": hash_of(body),
        }

    def _fault(self, number: int, asked: Asked) -> Fault:
        """Return the fault of a request: by text, by number, else the one for all."""
        for at, where in enumerate(self.script.where):
            if where.text.encode() in asked.body and (
                not where.times or self._times[at] < where.times
            ):
                self._times[at] += 1
                return where.fault
        if number < len(self.script.first):
            return self.script.first[number]
        for times, fault in self.script.every.items():
            if number and number % times == 0:
                return fault
        return self.script.always

    def _answered(self, asked: Asked, dialect: Dialect, how: Fault) -> Answer:
        script = self.script
        if script.remember and asked.body in self._remembered:
            return self._remembered[asked.body]
        key = _key(asked)
        if script.key and key != script.key:
            return _told(dialect, 401, f"Incorrect API key provided: {key}", how)
        if how.status:
            return _told(dialect, how.status, how.message.replace("{key}", key), how)
        if script.most and self._open > script.most:
            return _told(dialect, 429, "too many requests at once", how)
        try:
            body = _decode(asked.body)
            asking = dialect.read(body, script)
        except Refused as refused:
            return _told(dialect, 400, str(refused), how)
        reply = dialect.reply(asking, body, how, script=script, cache=self._cache)
        answer = Answer(_encode(reply), 200, dialect.headers, how)
        if script.remember:
            self._remembered[asked.body] = answer
        return answer

    def _batch(self, asked: Asked) -> Body | bytes:
        """Answer what concerns batches and files."""
        parts = asked.path.strip("/").split("/")
        if parts[:3] == ["v1", "messages", "batches"]:
            return self._anthropic_batch(asked, parts[3:])
        held = self._batching
        match asked.method, parts[1:]:
            case "POST", ["files"]:
                return held.file(asked)
            case "GET", ["files", name]:
                return held.file_told(name)
            case "GET", ["files", name, "content"]:
                held.file_told(name)
                return held.files[name]
            case "DELETE", ["files", name]:
                held.file_told(name)
                del held.files[name]
                return {"id": name, "object": "file", "deleted": True}
            case "POST", ["batches"]:
                return held.make_openai(asked.json(), self.script, self._item(asked, OPENAI))
            case "GET", ["batches"]:
                names = self._listed(held.openai)
                told = [held.openai_told(name, self.script, look=True) for name in names]
                return batching.page(told, asked, "after")
            case "GET", ["batches", name]:
                return held.openai_told(name, self.script, look=True)
            case "POST", ["batches", name, "cancel"]:
                held.openai_told(name, self.script)
                held.openai[name].cancelled = True
                return held.openai_told(name, self.script)
        raise Wrong(404, f"no route {asked.method} {asked.path}")

    def _anthropic_batch(self, asked: Asked, parts: list[str]) -> Body | bytes:
        held = self._batching
        match asked.method, parts:
            case "POST", []:
                return held.make_anthropic(asked.json(), self.script, self._item(asked, ANTHROPIC))
            case "GET", []:
                names = self._listed(held.anthropic)
                told = [held.anthropic_told(name, look=True) for name in names]
                return batching.page(told, asked, "after_id")
            case "GET", [name]:
                return held.anthropic_told(name, look=True)
            case "GET", [name, "results"]:
                held.anthropic_told(name)
                return held.anthropic_results(name, self.script)
            case "POST", [name, "cancel"]:
                held.anthropic_told(name)
                held.anthropic[name].cancelled = True
                return held.anthropic_told(name)
        raise Wrong(404, f"no route {asked.method} {asked.path}")

    def _listed(self, batches: dict[str, batching.Batch]) -> list[str]:
        """Return the batches of a list, newest first; those of the script's first lists, none."""
        self._lists += 1
        return [] if self._lists <= self.script.batches.hidden else list(reversed(batches))

    def _item(self, asked: Asked, dialect: Dialect) -> batching.Answering:
        """Return what answers one item of a batch, and writes it down."""

        def answer(custom: str, body: Body) -> Body:
            number, self._number = self._number, self._number + 1
            how = self._fault(number, asked._replace(body=_encode(body)))
            asking = dialect.read(body, self.script)
            if self._oracle.kept:
                line = self._told_of(asked.path, custom, body)
                self._oracle.add("received", line)
                self._oracle.add("answered", line, status=200)
            return dialect.reply(asking, body, how, script=self.script, cache=self._cache)

        return answer

    def _control(self, asked: Asked) -> Answer:
        if asked.method == "POST" and asked.path == "/_script":
            self.put(msgspec.json.decode(asked.body, type=Script))
        state = {"number": self._number, "most_in_flight": self.most_in_flight}
        return Answer(_encode(state))


def _key(asked: Asked) -> str:
    return asked.headers.get("x-api-key") or asked.headers.get("authorization", "")[7:]


def _told(dialect: Dialect, status: int, words: str, how: Fault) -> Answer:
    return Answer(_encode(dialect.error(status, words)), status, dialect.headers, how)


def _nothing(status: int) -> None:
    pass
