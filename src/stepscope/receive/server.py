"""The HTTP side of the receiver: who may send, reading a body, parsing its spans, the answer.

Decided before a body is looked at: no web page may send (a request that names an Origin, or says
that a browser sent it, is refused), nor one with a Host that is not this machine's; away from
loopback a secret is needed. A body is decompressed piece by piece within limits of size and time,
and all bodies share one memory budget. One request is parsed at a time in one thread; waiting
spans go into the journal in one transaction in another, and each sender is answered after that
flush. Source: OTLP specification 1.9, "OTLP/HTTP Response"; `google.rpc.Status`; RFC 1952 (gzip
members), RFC 6454 (Origin), RFC 6750 (Bearer), RFC 9110 (Retry-After), Fetch Metadata Request
Headers (W3C).
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import sys
import zlib
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import NamedTuple, Self

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from stepscope.errors import EnvironmentFault, LimitError, TraceError, UsageError
from stepscope.formats.otlp.protobuf import encode_varint
from stepscope.formats.otlp.request import JSON, PROTOBUF, ReceivedSpan, media_type, read_request
from stepscope.receive.journal import Journal
from stepscope.safety.limits import MIB, Limits
from stepscope.safety.redact import scrub_message

LOOPBACK = "127.0.0.1"
# The port that OTLP/HTTP has by registration.
USUAL_PORT = 4318
TOKEN_VARIABLE = "STEPSCOPE_LISTEN_TOKEN"
# Characters of a secret that nobody guesses.
MIN_TOKEN = 32
# Bytes of all headers; exporters send some 300.
MAX_HEADERS = 16 * 1024
_BROWSERS = (b"origin", b"sec-fetch-site", b"sec-fetch-mode")

Headers = Iterable[tuple[bytes, bytes]]


class ReceiverRefusal(NamedTuple):
    """An answer instead of spans kept: a status, what to do about it, and when to try again."""

    status: int
    said: str
    retry_seconds: int | None = None


def find_refusal(
    headers: Headers, hosts: frozenset[str], token: str | None
) -> ReceiverRefusal | None:
    """Return why a request is refused, whatever it asks; None where it may ask.

    `hosts` are the values of Host that are this machine's, lower case, with the port; `token` is
    the secret, None where loopback is enough.
    """
    held = list(headers)
    if sum([len(name) + len(value) for name, value in held]) > MAX_HEADERS:
        return ReceiverRefusal(431, f"the headers are longer than {MAX_HEADERS} bytes")
    if any(name in _BROWSERS for name, _ in held):
        return ReceiverRefusal(403, "a browser sent this, and no web page may send spans")
    if token is not None:
        sent = _header_values(held, b"authorization")
        # Compare in a time that does not tell how much is right.
        if len(sent) == 1 and hmac.compare_digest(
            sent[0].encode("utf-8", "replace"), f"Bearer {token}".encode()
        ):
            return None
        wanted = "set OTEL_EXPORTER_OTLP_HEADERS to authorization=Bearer%20TOKEN"
        return ReceiverRefusal(401, f"this receiver wants its token; {wanted}")
    named = _header_values(held, b"host")
    if len(named) != 1 or named[0].lower() not in hosts:
        said = "the Host is not this receiver's; send to the address it printed"
        return ReceiverRefusal(403, said)
    return None


def read_body_headers(headers: Headers) -> tuple[str, bool] | ReceiverRefusal:
    """Return the media type of a request's body and whether it is gzip, or why it is refused."""
    held = list(headers)
    kinds, coded = _header_values(held, b"content-type"), _header_values(held, b"content-encoding")
    kind = media_type(kinds[0]) if len(kinds) == 1 else ""
    if kind not in {PROTOBUF, JSON}:
        return ReceiverRefusal(415, f"spans are sent as {PROTOBUF} or {JSON}; found {kind[:60]!r}")
    coding = coded[0].strip().lower() if coded else "identity"
    if len(coded) > 1 or coding not in {"gzip", "identity", ""}:
        return ReceiverRefusal(415, f"a body is sent as it is or as gzip; found {coding[:60]!r}")
    return kind, coding == "gzip"


def parse_address(text: str | None, token: str | None) -> tuple[str, int]:
    """Return where to listen; UsageError for no address, or where others need no long secret."""
    if token is not None and len(token) < MIN_TOKEN:
        raise UsageError(
            f"{TOKEN_VARIABLE} has {len(token)} characters; expected {MIN_TOKEN} or more"
        )
    if text is None:
        return LOOPBACK, USUAL_PORT
    host, colon, digits = text.rpartition(":")
    bare_ipv6 = ":" in host and not host.startswith("[")
    if bare_ipv6 or not (colon or digits.isdecimal()):
        host, digits = text, str(USUAL_PORT)  # an address without a port
    host = host.removeprefix("[").removesuffix("]") or LOOPBACK
    host = LOOPBACK if host == "localhost" else host
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        raise UsageError(f"--listen {text!r}: expected HOST:PORT, as 127.0.0.1:4318") from None
    if not digits.isdecimal() or not 0 <= int(digits) <= 65535:
        raise UsageError(f"--listen {text!r}: {digits!r} is no port; expected 1 to 65535")
    if not found.is_loopback and token is None:
        raise UsageError(
            f"--listen {text!r} is not loopback, so others can send too: set {TOKEN_VARIABLE} to a "
            f"secret of {MIN_TOKEN} or more characters, or listen on {LOOPBACK}"
        )
    return str(found), int(digits)


def _header_values(headers: list[tuple[bytes, bytes]], name: bytes) -> list[str]:
    return [value.decode("latin-1").strip() for key, value in headers if key == name]


# google.rpc.Code: INVALID_ARGUMENT, DEADLINE_EXCEEDED, PERMISSION_DENIED, RESOURCE_EXHAUSTED,
# UNIMPLEMENTED, UNAVAILABLE, UNAUTHENTICATED.
_CODES = {400: 3, 401: 16, 403: 7, 404: 12, 405: 12, 408: 4, 413: 8, 415: 3, 431: 8, 503: 14}
_MAX_SAID = 500


def answer_kept(kind: str, *, refused: int, reason: str) -> Response:
    """Return the answer to spans that were kept, but for `answer_refused` of them."""
    reason = scrub_message(reason)
    if kind == JSON:
        said = {"partialSuccess": {"rejectedSpans": str(refused), "errorMessage": reason}}
        return Response(msgspec.json.encode(said if refused else {}), 200, media_type=JSON)
    if not refused:
        return Response(b"", 200, media_type=PROTOBUF)
    partial = b"\x08" + encode_varint(refused) + _text_field(2, reason)
    return Response(b"\x0a" + encode_varint(len(partial)) + partial, 200, media_type=PROTOBUF)


def answer_refused(refusal: ReceiverRefusal, kind: str) -> Response:
    """Return the answer to a request that was refused whole; the connection ends with it."""
    code = _CODES.get(refusal.status, 2)
    said = scrub_message(refusal.said)
    if kind == PROTOBUF:
        body = b"\x08" + encode_varint(code) + _text_field(2, said)
    else:
        kind = JSON
        body = msgspec.json.encode({"code": code, "message": said})
    answer = Response(body, refusal.status, media_type=kind)
    answer.headers["Connection"] = "close"
    if refusal.retry_seconds is not None:
        answer.headers["Retry-After"] = str(refusal.retry_seconds)
    if refusal.status == 405:
        answer.headers["Allow"] = "POST"
    return answer


def _text_field(number: int, text: str) -> bytes:
    raw = text[:_MAX_SAID].encode("utf-8", "replace")
    return bytes([number << 3 | 2]) + encode_varint(len(raw)) + raw


MAX_BODY = 20 * MIB
# Of all bodies at once, decompressed: two of the largest, or hundreds of usual ones.
MEMORY_BYTES = 48 * MIB
# A refused body is read to its end, so that the answer is: so much, for so long.
_POLITE_BYTES = MAX_BODY
_POLITE_SECONDS = 5.0
_GZIP = 16 + zlib.MAX_WBITS
_TOO_LARGE = ReceiverRefusal(413, f"a body of more than {MAX_BODY // MIB} MiB; send less at once")
_SENDER_GONE = ReceiverRefusal(400, "the sender went away in the middle of the body")
_MEMORY_FULL = ReceiverRefusal(503, "too much is coming in at once; send it again", 1)


class BodyMemory:
    """How much memory bodies may still take."""

    def __init__(self, size: int = MEMORY_BYTES) -> None:
        self._left = size

    def take(self, size: int) -> bool:
        """Take so much, if it is there."""
        if size > self._left:
            return False
        self._left -= size
        return True

    def give(self, size: int) -> None:
        """Give it back."""
        self._left += size


class IncomingBody:
    """A body on its way: how far it has come."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.ended = False
        self.gone = False

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield what is left of the body as it comes in; `gone` if its sender went away."""
        while not self.ended:
            message = await self._receive()
            self.gone = message["type"] == "http.disconnect"
            self.ended = self.gone or not message.get("more_body", False)
            yield message.get("body", b"")

    async def pass_over(self) -> None:
        """Read the rest of a body that is refused, within reason: else its sender hears nothing."""
        left = _POLITE_BYTES
        try:
            async with asyncio.timeout(_POLITE_SECONDS):
                async for piece in self.pieces():
                    left -= len(piece)
                    if left < 0:
                        return
        except TimeoutError:
            return


class BodyReader:
    """One body being read; what it holds of the room is given back by `close`."""

    def __init__(self, room: BodyMemory, *, gzip: bool, most: int = MAX_BODY) -> None:
        self._room = room
        self._most = most
        self._zip = zlib.decompressobj(_GZIP) if gzip else None
        self._parts: list[bytes] = []
        self._size = 0

    def close(self) -> None:
        """Give back the memory."""
        self._parts.clear()
        self._room.give(self._size)
        self._size = 0

    async def read(self, coming: IncomingBody, seconds: float) -> bytes | ReceiverRefusal:
        """Return the whole body, decompressed."""
        try:
            async with asyncio.timeout(seconds):
                async for piece in coming.pieces():
                    refused = self._add(piece)
                    if refused is not None:
                        return refused
        except TimeoutError:
            coming.ended = True  # no more of it is waited for
            return ReceiverRefusal(408, f"the body took longer than {seconds:g} seconds")
        if coming.gone:
            return _SENDER_GONE
        if self._zip is not None and not self._zip.eof:
            return ReceiverRefusal(400, "the gzip stream of the body has no end")
        whole = b"".join(self._parts)
        self._parts.clear()
        return whole

    def _add(self, piece: bytes) -> ReceiverRefusal | None:
        if self._zip is None:
            return self._hold(piece)
        while piece:
            if self._zip.eof:
                self._zip = zlib.decompressobj(_GZIP)  # another member
            try:
                refused = self._hold(self._zip.decompress(piece, self._most + 1 - self._size))
            except zlib.error as e:
                return ReceiverRefusal(400, f"the body is not gzip: {e}")
            if refused is not None:
                return refused
            piece = self._zip.unused_data or self._zip.unconsumed_tail
        return None

    def _hold(self, part: bytes) -> ReceiverRefusal | None:
        if self._size + len(part) > self._most:
            return _TOO_LARGE
        if not self._room.take(len(part)):
            return _MEMORY_FULL
        self._size += len(part)
        self._parts.append(part)
        return None


# Batches in one transaction: what comes in while one flush lasts is far less.
_MOST = 256
# Characters of a trace id that is kept; the protocol's has 32.
_MAX_TRACE = 64


class _WaitingBatch(NamedTuple):
    spans: list[ReceivedSpan]
    taken: asyncio.Future[tuple[int, str]]


class Intake:
    """Reads bodies and keeps their spans; use `running` around it."""

    def __init__(self, path: str, limits: Limits) -> None:
        self._path = path
        self._limits = limits
        self._task: asyncio.Task[None] | None = None
        self._queue: asyncio.Queue[_WaitingBatch] = asyncio.Queue()
        # A connection belongs to the thread that opened it, so each of these has one thread.
        self._reading = ThreadPoolExecutor(1, "reading")
        self._writing = ThreadPoolExecutor(1, "writing")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Keep what comes in; at the end what was promised is on disk. Raises as `Journal`."""
        loop = asyncio.get_running_loop()
        journal = await loop.run_in_executor(self._writing, Journal, self._path)
        self._task = asyncio.create_task(self._work(journal))
        try:
            yield self
            await self._queue.join()
        finally:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            await loop.run_in_executor(self._writing, journal.close)
            self._reading.shutdown()
            self._writing.shutdown()

    @property
    def work(self) -> asyncio.Task[None]:
        """What puts spans on disk: if it ends by itself, it is by an error."""
        assert self._task is not None
        return self._task

    async def keep(self, body: bytes, kind: str) -> tuple[int, str] | ReceiverRefusal:
        """Put the spans of a request on disk; what is no request at all is refused.

        Returns how many of its spans were refused, and why.

        Raises:
            EnvironmentFault: the disk is full; nothing of them is kept.
        """
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._reading, _parse_spans, body, kind, self._limits)
        if isinstance(found, ReceiverRefusal):
            return found
        taken: asyncio.Future[tuple[int, str]] = loop.create_future()
        spans = [item for item in found if isinstance(item, ReceivedSpan)]
        await self._queue.put(_WaitingBatch(spans, taken))
        over, reason = await taken
        for item in found:
            if isinstance(item, TraceError):
                reason = str(item)
        return len(found) - len(spans) + over, reason

    async def _work(self, journal: Journal) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self._queue.get()]
            while len(batch) < _MOST and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            asked = [waiting.spans for waiting in batch]
            try:
                taken = await loop.run_in_executor(self._writing, journal.keep, asked, self._limits)
            except EnvironmentFault as e:
                for waiting in batch:
                    if not waiting.taken.done():
                        waiting.taken.set_exception(e)
            else:
                for waiting, answer in zip(batch, taken, strict=True):
                    # A sender that has gone away waits no more; its spans are kept all the same.
                    if not waiting.taken.done():
                        waiting.taken.set_result(answer)
            finally:
                for _ in batch:
                    self._queue.task_done()


def _parse_spans(
    body: bytes, kind: str, limits: Limits
) -> list[ReceivedSpan | TraceError] | ReceiverRefusal:
    found: list[ReceivedSpan | TraceError] = []
    try:
        for item in read_request(body, kind, limits):
            trace = item.span.trace_id if isinstance(item, ReceivedSpan) else None
            if trace is not None and not trace.strip("0"):
                found.append(TraceError("a span needs a `traceId`"))
            elif trace is not None and len(trace) > _MAX_TRACE:
                found.append(TraceError(f"a `traceId` of {len(trace)} characters"))
            else:
                found.append(item)
    except TraceError as e:
        return ReceiverRefusal(413 if isinstance(e, LimitError) else 400, str(e))
    return found


PATH = "/v1/traces"
# Told of what senders are not told, or do not print: how many spans of a request were refused, and
# why; 0 where the whole request was.
ReportRefusal = Callable[[int, str], None]
_NO_DISK_SECONDS = 30


class ReceiverGuard:
    """An ASGI application around another: what may not ask gets no further."""

    def __init__(
        self, app: ASGIApp, hosts: frozenset[str], token: str | None, tell: ReportRefusal
    ) -> None:
        self._app = app
        self._hosts, self._token = hosts, token
        self._tell = tell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one request."""
        if scope["type"] != "http":
            return
        refusal = find_refusal(scope["headers"], self._hosts, self._token)
        if refusal is None:
            await self._app(scope, receive, send)
            return
        self._tell(0, f"{refusal.status}: {refusal.said}")
        await IncomingBody(receive).pass_over()
        await answer_refused(refusal, _body_kind(scope))(scope, receive, send)


class TracesRoute:
    """The route: reads one request and answers it."""

    def __init__(self, intake: Intake, tell: ReportRefusal, seconds: float) -> None:
        """Hand what comes within `seconds` to `intake`, and tell of what is refused."""
        self._intake = intake
        self._seconds = seconds
        self._tell = tell
        self._room = BodyMemory()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        body, coming = read_body_headers(scope["headers"]), IncomingBody(receive)
        if isinstance(body, ReceiverRefusal):
            answer: Response | ReceiverRefusal = body
        else:
            answer = await self._answer(*body, coming)
        if isinstance(answer, ReceiverRefusal):
            self._tell(0, f"{answer.status}: {answer.said}")
            await coming.pass_over()
            answer = answer_refused(answer, _body_kind(scope))
        await answer(scope, receive, send)

    async def _answer(
        self, kind: str, gzip: bool, coming: IncomingBody
    ) -> Response | ReceiverRefusal:
        reading = BodyReader(self._room, gzip=gzip)
        try:
            whole = await reading.read(coming, self._seconds)
            if isinstance(whole, ReceiverRefusal):
                return whole
            try:
                kept = await self._intake.keep(whole, kind)
            except EnvironmentFault as e:
                return ReceiverRefusal(503, f"the spans cannot be kept: {e}", _NO_DISK_SECONDS)
        finally:
            reading.close()
        if isinstance(kept, ReceiverRefusal):
            return kept
        count, reason = kept
        if count:
            self._tell(count, reason)
        return answer_kept(kind, refused=count, reason=reason)


def make_receiver_app(intake: Intake, tell: ReportRefusal, *, body_seconds: float) -> Starlette:
    """Return the application that takes requests; put a `ReceiverGuard` around it."""
    app = Starlette(
        routes=[Route(PATH, TracesRoute(intake, tell, body_seconds), methods=["POST"])],
        exception_handlers={HTTPException: _answer_http_error, Exception: _answer_bug},
    )
    app.router.redirect_slashes = False
    app.state.tell = tell
    return app


def _body_kind(scope: Scope) -> str:
    body = read_body_headers(scope["headers"])
    return JSON if isinstance(body, ReceiverRefusal) else body[0]


async def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    await IncomingBody(request.receive).pass_over()
    said = f"spans are sent with POST to {PATH}"
    asked = f"{request.method} {request.url.path}"
    request.app.state.tell(0, f"{error.status_code}: {asked[:80]}: {said}")
    return answer_refused(ReceiverRefusal(error.status_code, said), _body_kind(request.scope))


async def _answer_bug(request: Request, error: Exception) -> Response:
    # The command line writes it down, as for every bug; the sender is not told what it quotes.
    sys.excepthook(type(error), error, error.__traceback__)
    said = f"a bug in stepscope ({type(error).__name__}); see its terminal"
    return answer_refused(ReceiverRefusal(500, said), _body_kind(request.scope))
