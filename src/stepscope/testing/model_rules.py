"""What a judge model promises, each asked of it on a server that does what the rule says.

A rule is a function of a subject: it yields one line for every way in which the promise is broken.
Its docstring is the promise.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import get_args

import msgspec

from stepscope.errors import ModelError
from stepscope.judges.models.http import REPLY_BYTES
from stepscope.judges.models.opening import closing
from stepscope.model import Reply, Structure
from stepscope.testing.model_server import Canned, serving
from stepscope.testing.model_subject import (
    KEY,
    NAME,
    REQUEST,
    TEXT,
    Outcome,
    Subject,
    asked,
    many,
)
from stepscope.testing.model_wires import INPUT_TOKENS, OUTPUT_TOKENS, SNAPSHOT, Situation

# Asked at once, and how long the server waits for all of them.
_MANY = 20
_ALL_SECONDS = 5.0
# How long a call hangs before it is given up.
_HANGS_SECONDS = 0.1
# A call that is given up ends within this.
_PROMPTLY_SECONDS = 5.0
_STATUSES = ((400, False), (401, False), (404, False), (429, True), (500, True), (503, True))


def is_called_as_it_was_opened(subject: Subject) -> Iterator[str]:
    """Its name is the endpoint's, and opening it sends nothing."""
    model = subject.opened()
    if model.name != NAME:
        yield f"name is {model.name!r}; expected that of the endpoint, {NAME!r}"
    if subject.server.asked:
        yield "opening it asks the server; ask in `complete` alone"


def keeps_everything_that_came(subject: Subject) -> Iterator[str]:
    """Text, reason to stop, tokens, snapshot and the raw bytes of a reply are kept as they came."""
    canned = subject.answer
    found = subject.asked(canned)
    if not isinstance(found, Reply):
        yield f"a good reply gives {_told(found)}"
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


def asks_in_the_order_that_is_cached(subject: Subject) -> Iterator[str]:
    """The rubric is sent first, then the trace, then the question, each once."""
    subject.asked(subject.answer)
    body = subject.server.asked[-1].body if subject.server.asked else b""
    marks = (b"RUBRIC: judge", b"TRACE: step", b"QUESTION: was")
    places = [body.find(mark) for mark in marks]
    if -1 in places or places != sorted(places):
        yield f"rubric, trace and question stand at {places} of the request; send all, in order"


def asks_once(subject: Subject) -> Iterator[str]:
    """One question is one request, whatever comes of it: retries are not its business."""
    for canned in (subject.answer, Canned(status=500), Canned(status=429), Canned(badly="reset")):
        before = len(subject.server.asked)
        subject.asked(canned)
        sent = len(subject.server.asked) - before
        if sent != 1:
            what = canned.badly or f"status {canned.status}"
            yield f"{sent} requests for one question ({what}); turn the retries of its client off"


def says_why_the_model_stopped(subject: Subject) -> Iterator[str]:
    """A refusal, a cut and a filter are told from a finished answer."""
    situations: tuple[Situation, ...] = ("refusal", "length", "filter")
    for situation in situations:
        canned = subject.can(situation)
        if canned is None:
            continue
        found = subject.asked(canned)
        stop = found.stop if isinstance(found, Reply) else _told(found)
        if stop != situation:
            yield f"stop is {stop!r}; expected {situation!r}"


def hands_on_what_does_not_fit(subject: Subject) -> Iterator[str]:
    """An answer that is no JSON, or beside the schema, is handed on as it came."""
    for text in ("so much for schemas", '{"label": "excellent"}', "[]", ""):
        canned = subject.can("answer", text)
        if canned is None:
            continue
        found = subject.asked(canned)
        if not isinstance(found, Reply) or found.text != text:
            yield f"the answer {text!r} gives {_told(found)}; believing is not its business"


def says_whether_to_ask_again(subject: Subject) -> Iterator[str]:
    """An error is a `ModelError` with its status, and says whether and when to ask again."""
    for status, again in _STATUSES:
        found = subject.asked(Canned(status=status, body=b'{"error": {"message": "told"}}'))
        if not isinstance(found, ModelError):
            yield f"status {status} gives {_told(found)}; raise ModelError"
        elif (found.again, found.status) != (again, status):
            yield f"status {status} gives again={found.again}, status={found.status}"
    told = Canned(status=429, headers={"retry-after": "7"}, body=b"{}")
    found = subject.asked(told)
    if isinstance(found, ModelError) and found.after != 7:
        yield f"`retry-after: 7` gives after={found.after}"


def tells_what_is_no_reply(subject: Subject) -> Iterator[str]:
    """Broken connections, half replies and other bodies are `ModelError`s, worth asking again."""
    answer = subject.answer
    spoils = {
        "a reset": Canned(badly="reset"),
        "half a reply": msgspec.structs.replace(answer, badly="half"),
        "a web page": Canned(body=b"<html>sign in</html>"),
        "another object": Canned(body=b"{}"),
        "deep nesting": Canned(body=b"[" * 100_000),
        "no body": Canned(),
    }
    for what, canned in spoils.items():
        found = subject.asked(canned)
        if not isinstance(found, ModelError) or not found.again:
            yield f"{what} gives {_told(found)}; raise ModelError(again=True)"


def tells_that_nobody_listens(subject: Subject) -> Iterator[str]:
    """Where there is no server, a `ModelError` says so."""
    with serving() as gone:
        model = subject.opened(gone.base)
    found = asked(model)
    if not isinstance(found, ModelError) or not found.again:
        yield f"a server that is gone gives {_told(found)}; raise ModelError(again=True)"


def reads_up_to_a_cap(subject: Subject) -> Iterator[str]:
    """No more than the cap of a reply is read, packed or not, of errors too."""
    answer = subject.answer
    large = answer.body + b" " * (REPLY_BYTES + 1)
    for status in (200, 500):
        for badly in ("", "gzip"):
            canned = Canned(body=large, status=status, badly="gzip" if badly else "")
            found = subject.asked(canned)
            if not isinstance(found, ModelError) or found.again:
                what = f"{len(large):,} bytes under status {status}{', packed' if badly else ''}"
                yield f"{what} give {_told(found)}; raise ModelError(again=False)"


def unpacks(subject: Subject) -> Iterator[str]:
    """A packed reply is read."""
    found = subject.asked(msgspec.structs.replace(subject.answer, badly="gzip"))
    if not isinstance(found, Reply) and subject.server.asked[-1].headers.get("accept-encoding"):
        yield f"a reply packed by gzip gives {_told(found)}"


def follows_no_redirect(subject: Subject) -> Iterator[str]:
    """A redirect is an error: what opens one host is never sent to another."""
    with serving() as elsewhere:
        for status in (301, 307):
            away = {"location": f"{elsewhere.base}/taken"}
            found = subject.asked(Canned(status=status, headers=away))
            if not isinstance(found, ModelError) or found.again:
                yield f"status {status} gives {_told(found)}; raise ModelError(again=False)"
        if elsewhere.asked:
            yield "it follows a redirect to another host, with its key"


def keeps_its_key(subject: Subject) -> Iterator[str]:
    """The key is sent, and is part of no error, reply or `repr`, though the server repeats it."""
    echo = msgspec.json.encode({"error": {"message": f"the key {KEY} is wrong"}})
    found = subject.asked(Canned(status=401, body=echo))
    request = subject.server.asked[-1]
    if KEY not in str(request.headers) and KEY.encode() not in request.body:
        yield "the key of the endpoint is not sent"
    if KEY in f"{found} {found!r}":
        yield "an error repeats the key"
    repeated = Canned(body=subject.answer.body, headers={"set-cookie": KEY, "x-echo": KEY})
    reply = subject.asked(repeated)
    if isinstance(reply, Reply) and KEY in str(reply.headers):
        yield "the headers of a reply hold the key; keep those about limits and ids alone"
    model = subject.opened()
    if KEY in repr(model):
        yield "the repr of the model holds the key"


def can_be_given_up(subject: Subject) -> Iterator[str]:
    """A call that is cancelled ends at once."""
    subject.server.canned = Canned(badly="hang")
    model = subject.opened()

    async def given_up() -> bool:
        async with closing([model]):
            call = asyncio.ensure_future(model.complete(REQUEST))
            await asyncio.sleep(_HANGS_SECONDS)
            call.cancel()
            await asyncio.wait([call], timeout=_PROMPTLY_SECONDS)
            return call.cancelled()

    began = time.monotonic()
    if not asyncio.run(given_up()) or time.monotonic() - began > _PROMPTLY_SECONDS:
        yield "a call that is cancelled goes on; let CancelledError pass"


def asks_many_at_once(subject: Subject) -> Iterator[str]:
    """Questions wait for their answers side by side."""
    server = subject.server
    server.most_in_flight = 0
    server.canned = msgspec.structs.replace(subject.answer, together=_MANY, delay=_ALL_SECONDS)
    found = many(subject.opened(), _MANY)
    bad = [one for one in found if not isinstance(one, Reply)]
    if bad:
        yield f"{len(bad)} of {_MANY} questions at once fail: {_told(bad[0])}"
    elif server.most_in_flight < _MANY:
        yield f"of {_MANY} questions at once {server.most_in_flight} were asked; widen its pool"


def works_on_another_loop(subject: Subject) -> Iterator[str]:
    """It may be asked again after the event loop that it was asked on has ended."""
    subject.server.canned = subject.answer
    model = subject.opened()
    asked(model)
    again = asked(model)
    if not isinstance(again, Reply):
        yield f"a second event loop gives {_told(again)}; let `close` forget its connections"


def _told(found: Outcome) -> str:
    """Return an outcome for a message."""
    if isinstance(found, Reply):
        return f"a reply that says {found.text[:40]!r}"
    if isinstance(found, ModelError):
        return f"ModelError(again={found.again}, status={found.status}): {found}"
    return f"{type(found).__name__}: {found}"
