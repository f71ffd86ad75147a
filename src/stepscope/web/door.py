"""The one door of the server: every request passes here before any route sees it.

Nothing but the page's own origin, with the cookie of this start, gets further. The token in the
printed address opens once: whoever follows it first gets the cookie, and the address is spent. The
security headers are put on every response, errors included.
"""

from __future__ import annotations

from http import HTTPStatus
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stepscope.web.policy import HEADERS, Policy, Refusal, same

TOKEN = "token"
POLICY_VIOLATION = 1008  # RFC 6455, 7.4.1


class Door:
    """An ASGI application around another; it holds whether its token is spent."""

    def __init__(self, app: ASGIApp, policy: Policy, token: str) -> None:
        """Guard `app`; `token` opens once."""
        self.app = app
        self.policy = policy
        self._token = token
        self._spent = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one connection."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            guarded = _with_headers(send)
            answer = self._answer(scope)
            await (self.app if answer is None else answer)(scope, receive, guarded)
        else:
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})

    def _answer(self, scope: Scope) -> Response | None:
        """Return what a request gets instead of a page; None lets it in."""
        query: bytes = scope["query_string"]
        raw: bytes = scope["raw_path"]
        refused = self.policy.refusal(
            method=scope["method"],
            target=raw + (b"?" + query if query else b""),
            headers=scope["headers"],
        )
        if refused is not None:
            return _say(refused)
        inside = self.policy.admits(scope["headers"])
        asked = dict(parse_qsl(query.decode("latin-1"))) if raw == b"/" else {}
        given = asked.pop(TOKEN, None)
        if given is None:
            return None if inside else _say(_NO_COOKIE)
        onward = f"/?{urlencode(asked)}" if asked else "/"
        return self._open(given, onward, inside=inside, spends=scope["method"] == "GET")

    def _open(self, given: str, onward: str, *, inside: bool, spends: bool) -> Response:
        if not same(given, self._token):
            return _say(Refusal(403, "not the token of this start; open the address it printed"))
        answer = RedirectResponse(onward, HTTPStatus.SEE_OTHER)
        if inside or not spends:
            return answer
        if self._spent:
            return _say(_SPENT)
        self._spent = True
        answer.set_cookie(
            self.policy.cookie, self.policy.session, httponly=True, samesite="strict", path="/"
        )
        return answer


_NO_COOKIE = Refusal(403, "open the address that stepscope view printed; it works once")
_SPENT = Refusal(
    403, "this address was opened once already; go on in that browser, or start stepscope view anew"
)


def _say(refusal: Refusal) -> Response:
    answer = PlainTextResponse(f"{refusal.said}\n", refusal.status)
    if refusal.status == HTTPStatus.METHOD_NOT_ALLOWED:
        answer.headers["Allow"] = "GET, HEAD"
    return answer


def _with_headers(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.setdefault("Cache-Control", "no-store")
            headers.update(HEADERS)
        await send(message)

    return guarded
