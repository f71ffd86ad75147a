"""Who may ask the local server, and for what: decided before any route sees a request.

Refused is what a page of another site, a name that was rebound to this machine, or a program of
another user could send: a foreign Host, Origin or Sec-Fetch-Site, a request without this start's
cookie, an address that needs decoding, a body, anything too long. The token in the printed address
is traded for the cookie, in as many browsers as open it until the server stops. Security headers
are put on every response, errors included. Source: Fetch Metadata Request Headers (W3C), RFC 6454
(Origin), RFC 6265bis (SameSite).
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stepscope.errors import UsageError

# Bytes of an address with its query, and of all headers: a filter of a page or two fits.
MAX_TARGET = 8 * 1024
MAX_HEADERS = 16 * 1024
# Bytes of what a route that writes may be sent.
MAX_BODY = 1024 * 1024
# What a secret of the user's own must at least have, in characters, away from loopback.
MIN_TOKEN = 32

LOOPBACK = "127.0.0.1"
READS = ("GET", "HEAD")
WRITES = ("POST", "PUT", "PATCH", "DELETE")
API = "/api/"
# Ids are hexadecimal and files have plain names: no address of ours needs an escape, so none is
# decoded, not even once.
_PATH = re.compile(rb"/(?:[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*)?")

# On every response, whatever it is; a route cannot loosen them.
SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPolicy:
    """What one start of the server allows."""

    hosts: frozenset[str]  # the values of Host that are ours, exact, with the port
    # the name of the cookie; the port is in it, since a browser shares cookies between the ports of
    # one host
    cookie: str
    session: str  # its value, drawn at random for this start
    allow_write: bool = False  # whether routes under `/api/` may be asked to write

    @property
    def origins(self) -> frozenset[str]:
        """The values of Origin that are ours."""
        return frozenset(f"http://{host}" for host in self.hosts)

    def refusal(
        self, *, method: str, target: bytes, headers: Iterable[tuple[bytes, bytes]]
    ) -> Response | None:
        """Return why a request is not even looked at; None where its cookie is left to check."""
        held = list(headers)
        if len(target) > MAX_TARGET:
            return refuse(414, f"the address is longer than {MAX_TARGET} bytes")
        if sum(len(name) + len(value) for name, value in held) > MAX_HEADERS:
            return refuse(431, f"the headers are longer than {MAX_HEADERS} bytes")
        if _PATH.fullmatch(target.partition(b"?")[0]) is None:
            return refuse(400, "no page has such an address")
        return self._foreign(held) or self._unwanted(method, target, held)

    def _foreign(self, headers: list[tuple[bytes, bytes]]) -> Response | None:
        hosts = _values(headers, b"host")
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return refuse(403, "the Host is not this server's; open the address that was printed")
        if not set(_values(headers, b"origin")) <= self.origins:
            return refuse(403, "another site asked for this; it gets nothing")
        if not set(_values(headers, b"sec-fetch-site")) <= {"same-origin", "none"}:
            return refuse(403, "another site led here; type or paste the address instead")
        return None

    def _unwanted(self, verb: str, path: bytes, sent: list[tuple[bytes, bytes]]) -> Response | None:
        lengths = _values(sent, b"content-length")
        coded = _values(sent, b"transfer-encoding")
        if verb in READS:
            body = bool(coded) or any(length != "0" for length in lengths)
            return refuse(413, "a request for a page has no body") if body else None
        if verb not in WRITES or not path.startswith(API.encode()) or not self.allow_write:
            return refuse(405, "this server only reads")
        if not _values(sent, b"origin"):
            return refuse(403, "a request that writes says its Origin")
        if coded or len(lengths) != 1 or not lengths[0].isdecimal():
            return refuse(411, "a request that writes says its Content-Length, once")
        if int(lengths[0]) > MAX_BODY:
            return refuse(413, f"the body is longer than {MAX_BODY} bytes")
        return None

    def admits(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Tell whether a request brings the cookie of this start."""
        for value in _values(list(headers), b"cookie"):
            try:
                morsel = SimpleCookie(value).get(self.cookie)
            except CookieError:
                continue
            if morsel is not None and is_same_secret(morsel.value, self.session):
                return True
        return False


def refuse(status: int, said: str) -> Response:
    """Return an answer instead of a page: a status, and one line that says what to do."""
    answer = PlainTextResponse(f"{said}\n", status)
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        answer.headers["Allow"] = "GET, HEAD"
    return answer


def is_same_secret(given: str, secret: str) -> bool:
    """Compare in a time that does not tell how much is right."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())


def check_address(host: str, token: str | None) -> str:
    """Return the address to listen at; one that others reach needs a long secret."""
    if host == "localhost":
        return LOOPBACK
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise UsageError(f"--host {host!r}: expected an address, as {LOOPBACK}") from None
    if address.is_unspecified:
        raise UsageError(f"--host {host!r} is every address at once; name the one to serve on")
    if not address.is_loopback and (token is None or len(token) < MIN_TOKEN):
        raise UsageError(
            f"--host {host!r} is not loopback, so others can ask too: set STEPSCOPE_VIEW_TOKEN to "
            f"a secret of {MIN_TOKEN} or more characters, or serve on {LOOPBACK} and use ssh -L"
        )
    return str(address)


def _values(headers: list[tuple[bytes, bytes]], name: bytes) -> list[str]:
    return [value.decode("latin-1").strip() for key, value in headers if key == name]


TOKEN = "token"
POLICY_VIOLATION = 1008  # RFC 6455, 7.4.1


class WebGuard:
    """An ASGI application around another."""

    def __init__(self, app: ASGIApp, policy: WebPolicy, token: str) -> None:
        """Guard `app`; a browser that brings `token` gets the cookie."""
        self.app = app
        self.policy = policy
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one connection."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":

            async def guarded(message: Message) -> None:
                if message["type"] == "http.response.start":
                    headers = MutableHeaders(scope=message)
                    headers.setdefault("Cache-Control", "no-store")
                    headers.update(SECURITY_HEADERS)
                await send(message)

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
            return refused
        inside = self.policy.admits(scope["headers"])
        asked = dict(parse_qsl(query.decode("latin-1"))) if raw == b"/" else {}
        given = asked.pop(TOKEN, None)
        if given is None:
            if inside:
                return None
            return refuse(403, "open the address that stepscope view printed, token and all")
        onward = f"/?{urlencode(asked)}" if asked else "/"
        if not is_same_secret(given, self._token):
            return refuse(403, "not the token of this start; open the address it printed")
        answer = RedirectResponse(onward, HTTPStatus.SEE_OTHER)
        if inside or scope["method"] != "GET":
            return answer
        answer.set_cookie(
            self.policy.cookie, self.policy.session, httponly=True, samesite="strict", path="/"
        )
        return answer
