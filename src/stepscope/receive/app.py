"""The one route of the receiver: spans in, an answer when they are on disk."""

from __future__ import annotations

import sys
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from stepscope.errors import EnvironmentFault
from stepscope.formats.otlp_request import JSON
from stepscope.receive.answers import kept, refused
from stepscope.receive.bodies import Coming, Reading, Room
from stepscope.receive.intake import Intake
from stepscope.receive.policy import Body, Policy, Refusal, body_of

PATH = "/v1/traces"
# Told of what senders are not told, or do not print: how many spans of a request were refused, and
# why; 0 where the whole request was.
Told = Callable[[int, str], None]
_NO_DISK_SECONDS = 30


class Door:
    """An ASGI application around another: what may not ask gets no further."""

    def __init__(self, app: ASGIApp, policy: Policy, tell: Told) -> None:
        """Guard `app`, and tell of whom it turns away."""
        self._app = app
        self._policy = policy
        self._tell = tell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one request."""
        if scope["type"] != "http":
            return
        refusal = self._policy.refusal(scope["headers"])
        if refusal is None:
            await self._app(scope, receive, send)
            return
        self._tell(0, f"{refusal.status}: {refusal.said}")
        await Coming(receive).pass_over()
        await refused(refusal, _kind(scope))(scope, receive, send)


class Traces:
    """The route: reads one request and answers it."""

    def __init__(self, intake: Intake, tell: Told, seconds: float) -> None:
        """Hand what comes within `seconds` to `intake`, and tell of what is refused."""
        self._intake = intake
        self._seconds = seconds
        self._tell = tell
        self._room = Room()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        body, coming = body_of(scope["headers"]), Coming(receive)
        if isinstance(body, Refusal):
            answer: Response | Refusal = body
        else:
            answer = await self._answer(body, coming)
        if isinstance(answer, Refusal):
            self._tell(0, f"{answer.status}: {answer.said}")
            await coming.pass_over()
            answer = refused(answer, body.kind if isinstance(body, Body) else JSON)
        await answer(scope, receive, send)

    async def _answer(self, body: Body, coming: Coming) -> Response | Refusal:
        reading = Reading(self._room, gzip=body.gzip)
        try:
            whole = await reading.read(coming, self._seconds)
            if isinstance(whole, Refusal):
                return whole
            found = await self._intake.read(whole, body.kind)
            if isinstance(found, Refusal):
                return found
            try:
                taken = await self._intake.keep(found.entries)
            except EnvironmentFault as e:
                return Refusal(503, f"the spans cannot be kept: {e}", _NO_DISK_SECONDS)
        finally:
            reading.close()
        count = found.refused + taken.refused
        reason = found.reason or taken.reason
        if count:
            self._tell(count, reason)
        return kept(body.kind, refused=count, reason=reason)


def make_app(intake: Intake, policy: Policy, tell: Told, *, body_seconds: float) -> Door:
    """Return the application, behind its door."""
    app = Starlette(
        routes=[Route(PATH, Traces(intake, tell, body_seconds), methods=["POST"])],
        exception_handlers={HTTPException: _http, Exception: _bug},
    )
    app.router.redirect_slashes = False
    app.state.tell = tell
    return Door(app, policy, tell)


def _kind(scope: Scope) -> str:
    body = body_of(scope["headers"])
    return body.kind if isinstance(body, Body) else JSON


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    await Coming(request.receive).pass_over()
    said = f"spans are sent with POST to {PATH}"
    asked = f"{request.method} {request.url.path}"
    request.app.state.tell(0, f"{error.status_code}: {asked[:80]}: {said}")
    return refused(Refusal(error.status_code, said), _kind(request.scope))


async def _bug(request: Request, error: Exception) -> Response:
    # The command line writes it down, as for every bug; the sender is not told what it quotes.
    sys.excepthook(type(error), error, error.__traceback__)
    said = f"a bug in stepscope ({type(error).__name__}); see its terminal"
    return refused(Refusal(500, said), _kind(request.scope))
