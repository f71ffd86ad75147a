"""Check that a model plugin keeps what judge models promise.

    from stepscope.testing import check_model

    check_model("acme_models.py:open_endpoint", wire=acme_reply)

In pytest or anywhere: what is broken is one `ModelFault` with a line for every rule, saying what
was done and what to do. A rule is a function of a `ModelSubject`: it yields one line for every way
in which the promise of its docstring is broken. Each rule asks a model of its own at a server on
loopback, bare asyncio since a web framework cannot be told to break a connection within a reply; no
provider is called. A plugin that speaks another protocol than OpenAI's or Anthropic's gives it.
"""

from __future__ import annotations

import asyncio
import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Literal, NamedTuple, get_args

import msgspec

from stepscope import registry
from stepscope.errors import ConfigError, ModelError, UsageError
from stepscope.model import Endpoint, Model, Opener, Reply, Request, Structure
from stepscope.models.http import REPLY_BYTES
from stepscope.models.opening import close_models
from stepscope.safety.text import visible_line

Badly = Literal["", "hang", "reset", "half", "gzip"]


class CannedReply(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent back."""

    body: bytes = b""  # the reply's
    status: int = 200  # its HTTP status
    headers: dict[str, str] = msgspec.field(default_factory=dict)  # further ones
    delay: float = 0.0  # seconds before it
    # sent as soon as so many requests are open at once, after `delay` in any case
    together: int = 0
    badly: Badly = ""  # never sent, reset before it, ended after half of it, or packed by gzip


class ReceivedRequest(NamedTuple):
    """One request: its path, its headers with names in lower case, its body."""

    path: str
    headers: Mapping[str, str]
    body: bytes


class ModelServer:
    """What a server of this check was asked, and what it answers."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.canned = CannedReply()
        self.asked: list[ReceivedRequest] = []
        self.most_in_flight = 0
        self._in_flight = 0
        self._stop = asyncio.Event()
        self._crowd = asyncio.Event()
        self._open: dict[asyncio.Task[None] | None, asyncio.StreamWriter] = {}

    async def serve(self, held: socket.socket) -> None:
        """Answer on a listening socket until `stop` is called."""
        listening = await asyncio.start_server(self._connected, sock=held)
        await self._stop.wait()
        listening.close()
        for writer in self._open.values():
            writer.transport.abort()
        await asyncio.gather(*[task for task in self._open if task is not None])

    def stop(self) -> None:
        """End, from the thread that serves."""
        self._stop.set()
        self._crowd.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._open[task] = writer
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while await self._answered(writer, await _request(reader)):
                pass
        writer.close()
        del self._open[task]

    async def _answered(self, writer: asyncio.StreamWriter, asked: ReceivedRequest) -> bool:
        """Answer as told; return whether the connection stands."""
        canned = self.canned
        self.asked.append(asked)
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        if self._in_flight >= canned.together > 0:
            self._crowd.set()
        try:
            async with asyncio.timeout(None if canned.badly == "hang" else canned.delay):
                await (self._crowd if canned.together else self._stop).wait()
        except TimeoutError:
            if canned.together:
                self._crowd.set()  # one such wait tells enough
        self._in_flight -= 1
        if canned.badly in {"hang", "reset"}:
            writer.transport.abort()
            return False
        body = gzip.compress(canned.body, 1) if canned.badly == "gzip" else canned.body
        headers = {"content-type": "application/json", "content-length": str(len(body))}
        if canned.badly == "gzip":
            headers["content-encoding"] = "gzip"
        lines = [f"{name}: {value}" for name, value in {**headers, **canned.headers}.items()]
        writer.write(
            "\r\n".join([f"HTTP/1.1 {canned.status} Said", *lines, "", ""]).encode()
            + (body[: len(body) // 2] if canned.badly == "half" else body)
        )
        await writer.drain()
        return canned.badly != "half"


@contextmanager
def serve_replies() -> Iterator[ModelServer]:
    """Serve in a thread until the block ends."""
    held = socket.create_server(("127.0.0.1", 0), backlog=256)
    server = ModelServer(f"http://127.0.0.1:{held.getsockname()[1]}")
    loop = asyncio.new_event_loop()

    def whole() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(server.serve(held))

    thread = threading.Thread(target=whole, name="model server")
    thread.start()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(server.stop)
        thread.join()


async def _request(reader: asyncio.StreamReader) -> ReceivedRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    path = head[0].split(" ")[1]
    pairs = [line.partition(":") for line in head[1:] if line]
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += await reader.readexactly(size)
            await reader.readuntil(b"\r\n")
        await reader.readuntil(b"\r\n")
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return ReceivedRequest(path, headers, body)


Situation = Literal["answer", "refusal", "length", "filter"]
# The body of a reply; None where a protocol cannot say such a thing.
Wire = Callable[[Situation, str], bytes | None]

# Tokens that every reply reports.
INPUT_TOKENS, OUTPUT_TOKENS = 100, 20
SNAPSHOT = "checked-2026-01-01"


def openai(situation: Situation, text: str) -> bytes:
    """Return a chat completion that says `text`."""
    reasons = {"length": "length", "filter": "content_filter"}
    message = {"role": "assistant", "content": text, "refusal": None}
    if situation == "refusal":
        message |= {"content": None, "refusal": text}
    choice = {"index": 0, "message": message, "finish_reason": reasons.get(situation, "stop")}
    usage = {"prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS}
    usage["total_tokens"] = INPUT_TOKENS + OUTPUT_TOKENS
    about = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": SNAPSHOT}
    return msgspec.json.encode({**about, "choices": [choice], "usage": usage})


def anthropic(situation: Situation, text: str) -> bytes | None:
    """Return a message that says `text`; a filter of its own is not in this protocol."""
    reasons = {"answer": "end_turn", "refusal": "refusal", "length": "max_tokens"}
    if situation not in reasons:
        return None
    found = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": SNAPSHOT,
        "content": [{"type": "text", "text": text}],
        "stop_reason": reasons[situation],
        "stop_sequence": None,
        "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS},
    }
    return msgspec.json.encode(found)


WIRES: dict[str, Wire] = {"anthropic": anthropic, "openai": openai}
NAME = "checked/model-1"
KEY = "sk-checked-0123456789abcdefghijkl"
TEXT = '{"label": "correct"}'
REQUEST = Request(
    system="RUBRIC: judge whether the run was ended in time.",
    context="TRACE: step 0, the user says goodbye.",
    question="QUESTION: was it?",
    schema_name="termination",
    schema={
        "type": "object",
        "properties": {"label": {"type": "string", "enum": ["correct", "incorrect"]}},
        "required": ["label"],
        "additionalProperties": False,
    },
)
Outcome = Reply | BaseException


class ModelSubject(NamedTuple):
    """What opens models, and a server at which they are opened."""

    opener: Opener
    wire: Wire
    server: ModelServer

    def opened(self, base: str = "") -> Model:
        """Return the model, at the server or at another address."""
        return self.opener(Endpoint(name=NAME, base_url=base or self.server.base, key=KEY))

    def can(self, situation: Situation, text: str = TEXT) -> CannedReply | None:
        """Return how the server says something; None where the protocol has no words for it."""
        body = self.wire(situation, text)
        return None if body is None else CannedReply(body=body)

    @property
    def answer(self) -> CannedReply:
        """A good answer."""
        return self.can("answer") or CannedReply()

    def asked(self, canned: CannedReply) -> Outcome:
        """Return what one question gives, or what it raises, where the server answers so."""
        self.server.canned = canned
        return ask_once(self.opened())


def ask_once(model: Model) -> Outcome:
    """Return what one question gives, or what it raises."""
    return ask_many_times(model, 1)[0]


def ask_many_times(model: Model, times: int) -> list[Outcome]:
    """Return what so many questions at once give, on an event loop of their own."""

    async def whole() -> list[Outcome]:
        async with close_models([model]):
            calls = [model.complete(REQUEST) for _ in range(times)]
            return await asyncio.gather(*calls, return_exceptions=True)

    return asyncio.run(whole())


# Asked at once, and how long the server waits for all of them.
_MANY = 20
_ALL_SECONDS = 5.0
# How long a call hangs before it is given up.
_HANGS_SECONDS = 0.1
# A call that is given up ends within this.
_PROMPTLY_SECONDS = 5.0
_STATUSES = ((400, False), (401, False), (404, False), (429, True), (500, True), (503, True))


def is_called_as_it_was_opened(subject: ModelSubject) -> Iterator[str]:
    """Its name is the endpoint's, and opening it sends nothing."""
    model = subject.opened()
    if model.name != NAME:
        yield f"name is {model.name!r}; expected that of the endpoint, {NAME!r}"
    if subject.server.asked:
        yield "opening it asks the server; ask in `complete` alone"


def keeps_everything_that_came(subject: ModelSubject) -> Iterator[str]:
    """Text, reason to stop, tokens, snapshot and the raw bytes of a reply are kept as they came."""
    canned = subject.answer
    found = subject.asked(canned)
    if not isinstance(found, Reply):
        yield f"a good reply gives {_describe_outcome(found)}"
        return
    if found.text != TEXT:
        yield f"text is {found.text!r}; expected {TEXT!r} as the model wrote it"
    if found.stop != "end":
        yield f"stop is {found.stop!r} of a finished answer; expected 'end'"
    if found.structure not in get_args(Structure):
        yield f"structure is {found.structure!r}; expected one of {', '.join(get_args(Structure))}"
    if found.raw != canned.body:
        yield "raw is not the body that was sent"
    if found.model != SNAPSHOT:
        yield f"model is {found.model!r}; expected what the provider says, {SNAPSHOT!r}"
    usage = found.usage
    if usage is None or (usage.input_total, usage.output_total) != (INPUT_TOKENS, OUTPUT_TOKENS):
        yield f"usage is {usage}; expected {INPUT_TOKENS} read and {OUTPUT_TOKENS} written"
    if not 0 < found.seconds < _PROMPTLY_SECONDS:
        yield f"seconds is {found.seconds}; expected the time from sending to the last byte"


def asks_in_the_order_that_is_cached(subject: ModelSubject) -> Iterator[str]:
    """The rubric is sent first, then the trace, then the question, each once."""
    subject.asked(subject.answer)
    body = subject.server.asked[-1].body if subject.server.asked else b""
    places = [body.find(mark) for mark in (b"RUBRIC: judge", b"TRACE: step", b"QUESTION: was")]
    if -1 in places or places != sorted(places):
        yield f"rubric, trace and question stand at {places} of the request; send all, in order"


def asks_once(subject: ModelSubject) -> Iterator[str]:
    """One question is one request, whatever comes of it: retries are not its business."""
    for canned in (
        subject.answer,
        CannedReply(status=500),
        CannedReply(status=429),
        CannedReply(badly="reset"),
    ):
        before = len(subject.server.asked)
        subject.asked(canned)
        sent = len(subject.server.asked) - before
        if sent != 1:
            what = canned.badly or f"status {canned.status}"
            yield f"{sent} requests for one question ({what}); turn the retries of its client off"


def says_why_the_model_stopped(subject: ModelSubject) -> Iterator[str]:
    """A refusal, a cut and a filter are told from a finished answer."""
    for situation in ("refusal", "length", "filter"):
        canned = subject.can(situation)
        if canned is None:
            continue
        found = subject.asked(canned)
        stop = found.stop if isinstance(found, Reply) else _describe_outcome(found)
        if stop != situation:
            yield f"stop is {stop!r}; expected {situation!r}"


def hands_on_what_does_not_fit(subject: ModelSubject) -> Iterator[str]:
    """An answer that is no JSON, or beside the schema, is handed on as it came."""
    for text in ("so much for schemas", '{"label": "excellent"}', "[]", ""):
        canned = subject.can("answer", text)
        if canned is None:
            continue
        found = subject.asked(canned)
        if not isinstance(found, Reply) or found.text != text:
            said = _describe_outcome(found)
            yield f"the answer {text!r} gives {said}; believing is not its business"


def says_whether_to_ask_again(subject: ModelSubject) -> Iterator[str]:
    """An error is a `ModelError` with its status, and says whether and when to ask again."""
    for status, again in _STATUSES:
        found = subject.asked(CannedReply(status=status, body=b'{"error": {"message": "told"}}'))
        if not isinstance(found, ModelError):
            yield f"status {status} gives {_describe_outcome(found)}; raise ModelError"
        elif (found.again, found.status) != (again, status):
            yield f"status {status} gives again={found.again}, status={found.status}"
    found = subject.asked(CannedReply(status=429, headers={"retry-after": "7"}, body=b"{}"))
    if isinstance(found, ModelError) and found.after != 7:
        yield f"`retry-after: 7` gives after={found.after}"


def tells_what_is_no_reply(subject: ModelSubject) -> Iterator[str]:
    """Broken connections, half replies and other bodies are `ModelError`s, worth asking again."""
    answer = subject.answer
    spoils = {
        "a reset": CannedReply(badly="reset"),
        "half a reply": msgspec.structs.replace(answer, badly="half"),
        "a web page": CannedReply(body=b"<html>sign in</html>"),
        "another object": CannedReply(body=b"{}"),
        "deep nesting": CannedReply(body=b"[" * 100_000),
        "no body": CannedReply(),
    }
    for what, canned in spoils.items():
        found = subject.asked(canned)
        if not isinstance(found, ModelError) or not found.again:
            yield f"{what} gives {_describe_outcome(found)}; raise ModelError(again=True)"


def tells_that_nobody_listens(subject: ModelSubject) -> Iterator[str]:
    """Where there is no server, a `ModelError` says so."""
    with serve_replies() as gone:
        model = subject.opened(gone.base)
    found = ask_once(model)
    if not isinstance(found, ModelError) or not found.again:
        said = _describe_outcome(found)
        yield f"a server that is gone gives {said}; raise ModelError(again=True)"


def reads_up_to_a_cap(subject: ModelSubject) -> Iterator[str]:
    """No more than the cap of a reply is read, packed or not, of errors too."""
    large = subject.answer.body + b" " * (REPLY_BYTES + 1)
    for status in (200, 500):
        for badly in ("", "gzip"):
            canned = CannedReply(body=large, status=status, badly="gzip" if badly else "")
            found = subject.asked(canned)
            if not isinstance(found, ModelError) or found.again:
                what = f"{len(large):,} bytes under status {status}{', packed' if badly else ''}"
                yield f"{what} give {_describe_outcome(found)}; raise ModelError(again=False)"


def unpacks(subject: ModelSubject) -> Iterator[str]:
    """A packed reply is read."""
    found = subject.asked(msgspec.structs.replace(subject.answer, badly="gzip"))
    if not isinstance(found, Reply) and subject.server.asked[-1].headers.get("accept-encoding"):
        yield f"a reply packed by gzip gives {_describe_outcome(found)}"


def follows_no_redirect(subject: ModelSubject) -> Iterator[str]:
    """A redirect is an error: what opens one host is never sent to another."""
    with serve_replies() as elsewhere:
        for status in (301, 307):
            away = {"location": f"{elsewhere.base}/taken"}
            found = subject.asked(CannedReply(status=status, headers=away))
            if not isinstance(found, ModelError) or found.again:
                said = _describe_outcome(found)
                yield f"status {status} gives {said}; raise ModelError(again=False)"
        if elsewhere.asked:
            yield "it follows a redirect to another host, with its key"


def keeps_its_key(subject: ModelSubject) -> Iterator[str]:
    """The key is sent, and is part of no error, reply or `repr`, though the server repeats it."""
    echo = msgspec.json.encode({"error": {"message": f"the key {KEY} is wrong"}})
    found = subject.asked(CannedReply(status=401, body=echo))
    request = subject.server.asked[-1]
    if KEY not in str(request.headers) and KEY.encode() not in request.body:
        yield "the key of the endpoint is not sent"
    if KEY in f"{found} {found!r}":
        yield "an error repeats the key"
    repeated = CannedReply(body=subject.answer.body, headers={"set-cookie": KEY, "x-echo": KEY})
    reply = subject.asked(repeated)
    if isinstance(reply, Reply) and KEY in str(reply.headers):
        yield "the headers of a reply hold the key; keep those about limits and ids alone"
    if KEY in repr(subject.opened()):
        yield "the repr of the model holds the key"


def can_be_given_up(subject: ModelSubject) -> Iterator[str]:
    """A call that is cancelled ends at once."""
    subject.server.canned = CannedReply(badly="hang")
    model = subject.opened()

    async def given_up() -> bool:
        async with close_models([model]):
            call = asyncio.ensure_future(model.complete(REQUEST))
            await asyncio.sleep(_HANGS_SECONDS)
            call.cancel()
            await asyncio.wait([call], timeout=_PROMPTLY_SECONDS)
            return call.cancelled()

    began = time.monotonic()
    if not asyncio.run(given_up()) or time.monotonic() - began > _PROMPTLY_SECONDS:
        yield "a call that is cancelled goes on; let CancelledError pass"


def asks_many_at_once(subject: ModelSubject) -> Iterator[str]:
    """Questions wait for their answers side by side."""
    server = subject.server
    server.most_in_flight = 0
    server.canned = msgspec.structs.replace(subject.answer, together=_MANY, delay=_ALL_SECONDS)
    bad = [one for one in ask_many_times(subject.opened(), _MANY) if not isinstance(one, Reply)]
    if bad:
        yield f"{len(bad)} of {_MANY} questions at once fail: {_describe_outcome(bad[0])}"
    elif server.most_in_flight < _MANY:
        yield f"of {_MANY} questions at once {server.most_in_flight} were asked; widen its pool"


def works_on_another_loop(subject: ModelSubject) -> Iterator[str]:
    """It may be asked again after the event loop that it was asked on has ended."""
    subject.server.canned = subject.answer
    model = subject.opened()
    ask_once(model)
    again = ask_once(model)
    if not isinstance(again, Reply):
        said = _describe_outcome(again)
        yield f"a second event loop gives {said}; let `close` forget its connections"


def _describe_outcome(found: Outcome) -> str:
    if isinstance(found, Reply):
        return f"a reply that says {found.text[:40]!r}"
    if isinstance(found, ModelError):
        return f"ModelError(again={found.again}, status={found.status}): {found}"
    return f"{type(found).__name__}: {found}"


Rule = Callable[[ModelSubject], Iterator[str]]

RULES: tuple[Rule, ...] = (
    *(is_called_as_it_was_opened, keeps_everything_that_came, asks_in_the_order_that_is_cached),
    *(asks_once, says_why_the_model_stopped, hands_on_what_does_not_fit),
    *(says_whether_to_ask_again, tells_what_is_no_reply, tells_that_nobody_listens),
    *(reads_up_to_a_cap, unpacks, follows_no_redirect, keeps_its_key),
    *(can_be_given_up, asks_many_at_once, works_on_another_loop),
)


class ModelFault(AssertionError):
    """A model does not keep what models promise; one line for every rule that is broken."""


class ModelChecked(NamedTuple):
    """What was checked: print it."""

    model: str
    rules: int

    def __str__(self) -> str:
        return f"{self.model}: {self.rules} rules hold"


def check_model(opener: Opener | str, wire: Wire | str = "openai") -> ModelChecked:
    """Check what opens judge models.

    Args:
        opener: the function itself, its installed name, or `FILE.py:NAME`.
        wire: the protocol that it speaks: "openai", "anthropic", or a function of a situation
            ("answer", "refusal", "length", "filter") and a text that returns the body of a reply
            that says it: 100 tokens read, 20 written, by the model `checked-2026-01-01`; None
            where the protocol cannot say it.

    Raises:
        ModelFault: rules are broken; the message has a line for each.
        UsageError: no such protocol.
        ConfigError: no such opener.
    """
    named = opener if isinstance(opener, str) else getattr(opener, "__name__", repr(opener))
    found = registry.model(opener) if isinstance(opener, str) else opener
    if not callable(found):
        raise ConfigError(f"{named!r} is a model; name the function of an Endpoint that opens it")
    speaks = WIRES.get(wire) if isinstance(wire, str) else wire
    if speaks is None:
        raise UsageError(f"no protocol {wire!r}; known: {', '.join(WIRES)}, or give a function")
    faults = []
    for rule in RULES:
        with serve_replies() as server:
            for line in rule(ModelSubject(found, speaks, server)):
                faults.append(f"{named}: " + visible_line(f"{rule.__name__}: {line}"))
    if faults:
        raise ModelFault("\n".join(faults))
    return ModelChecked(named, len(RULES))
