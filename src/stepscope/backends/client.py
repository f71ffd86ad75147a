"""HTTP to one host: bounded in time and size, patient where the server asks for it, and no further.

No redirect is followed and no other host is ever called: the key goes where the operator said. A
request is repeated after 429, 502, 503, 504 and broken connections, because every request made here
may be repeated; `Retry-After` is kept to. Replies and errors are read up to a cap.
"""

from __future__ import annotations

import email.utils
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

import msgspec

from stepscope.backends.access import Access
from stepscope.errors import ConfigError, EnvironmentFault, TraceError
from stepscope.model import Json
from stepscope.safety.door import Decoded, decode
from stepscope.safety.limits import MIB, Limits
from stepscope.safety.text import visible_line

if TYPE_CHECKING:
    import httpx2

QueryValue = str | int | list[str]
Query = Mapping[str, QueryValue]

_AGAIN = frozenset({429, 502, 503, 504})
# Bytes of an error body that are read, and characters that are shown.
_ERROR_BYTES = 16 * 1024
_ERROR_SHOWN = 200
_JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for a server, in seconds, and how much to take from it.

    Attributes:
        connect: for a connection.
        read: for the next bytes of a reply.
        whole: for one reply from its request to its end: a sender of single bytes is no server.
        tries: how often a request is made that a server puts off.
        tries_broken: how often where the connection breaks, or there is none.
        wait: the longest pause between two tries; a server that asks for more is left for later.
        reply_bytes: one reply after decompression.
    """

    connect: float = 10.0
    read: float = 60.0
    whole: float = 300.0
    tries: int = 6
    tries_broken: int = 3
    wait: float = 120.0
    reply_bytes: int = 64 * MIB


class Rejected(EnvironmentFault):
    """The server answered, and not with what was asked; `status` is its HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        """Keep the status."""
        super().__init__(message)
        self.status = status


class TooLarge(EnvironmentFault):
    """A reply is larger than is taken; ask for less at once."""


class Client:
    """Requests to the host of `access`; a context manager that closes its connections."""

    def __init__(
        self,
        access: Access,
        limits: Limits,
        *,
        patience: Patience | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Open nothing yet; `sleep` waits so many seconds."""
        import httpx2  # .1 s, and only pulling and sending need it

        self.access = access
        self._limits = limits
        self._patience = patience or Patience()
        self._sleep = sleep
        self._broken = httpx2.TransportError
        self._undecodable = httpx2.DecodingError
        timeout = httpx2.Timeout(self._patience.read, connect=self._patience.connect)
        headers = {**access.headers, "accept": _JSON, "user-agent": "stepscope"}
        self._http = httpx2.Client(headers=headers, timeout=timeout, follow_redirects=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()

    def get(self, path: str, query: Query | None = None) -> Decoded:
        """Return the JSON at a path, and what was repaired in it.

        Raises:
            Rejected: the server refuses, or answers with something else than JSON.
            TooLarge: the reply is over the cap.
            EnvironmentFault: no connection, no time left, or the server asks to wait too long.
            ConfigError: the key is refused.
        """
        return self._decoded(self.send("GET", path, query=query), path)

    def post(self, path: str, body: Json, *, method: str = "POST") -> Decoded:
        """Send JSON and return the JSON that comes back; raises as `get` does."""
        sent = self.send(method, path, content=msgspec.json.encode(body), kind=_JSON)
        return self._decoded(sent, path)

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        content: bytes = b"",
        kind: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Return the body of the reply to a request that may be repeated; raises as `get` does."""
        about = {**(headers or {}), **({"content-type": kind} if kind else {})}
        request = self._http.build_request(
            method,
            f"{self.access.base}{path}",
            params=query,
            content=content or None,
            headers=about,
        )
        for attempt in range(1, self._patience.tries + 1):
            last = attempt == self._patience.tries
            try:
                status, told, body = self._once(request)
            except self._undecodable as e:
                raise Rejected(self._said(path, "sends what it does not announce"), 200) from e
            except self._broken as e:
                if last or attempt >= self._patience.tries_broken:
                    raise EnvironmentFault(self._unreached(e)) from e
                self._sleep(self._pause(None, attempt))
                continue
            if status in _AGAIN and not last:
                self._sleep(self._pause(told, attempt))
                continue
            return self._taken(status, told, body, path)
        raise AssertionError("the last try returns or raises")

    def _once(self, request: httpx2.Request) -> tuple[int, Mapping[str, str], bytes]:
        """Return status, headers and body of one try, read no further than is taken."""
        end = time.monotonic() + self._patience.whole
        reply = self._http.send(request, stream=True)
        try:
            good = reply.is_success
            most = self._patience.reply_bytes if good else _ERROR_BYTES
            body = bytearray()
            for chunk in reply.iter_bytes():
                body += chunk
                if len(body) > most:
                    break
                if time.monotonic() > end:
                    raise EnvironmentFault(
                        f"{self.access.host}: the reply took over {self._patience.whole:g} s; "
                        "try again later"
                    )
            if good and len(body) > most:
                raise TooLarge(
                    f"{self.access.host}: a reply over {most // MIB} MiB to "
                    f"{request.method} {request.url.path}"
                )
            return reply.status_code, reply.headers, bytes(body[:most])
        finally:
            reply.close()

    def _pause(self, told: Mapping[str, str] | None, attempt: int) -> float:
        """Return how many seconds to wait before the next try.

        Raises:
            EnvironmentFault: the server asks for more than is waited.
        """
        asked = None if told is None else _retry_after(told.get("retry-after", ""))
        if asked is None:
            return float(min(2 ** (attempt - 1), self._patience.wait))
        if asked > self._patience.wait:
            raise EnvironmentFault(
                f"{self.access.host} asks to wait {asked:,.0f} s; run the same command again then: "
                "what was done is kept"
            )
        return asked

    def _taken(self, status: int, told: Mapping[str, str], body: bytes, path: str) -> bytes:
        if 200 <= status < 300:
            return body
        if 300 <= status < 400:
            to = urlsplit(told.get("location", "")).netloc or "another place"
            message = f"redirects to {to[:80]}, which is not followed"
            raise Rejected(
                self._said(path, f"{message}; set {self.access.host_variable} to where it is"),
                status,
            )
        said = body.decode("utf-8", "replace").strip()
        shown = visible_line(self.access.scrubbed(said)[:_ERROR_SHOWN]) or "no reason given"
        if status in {401, 403}:
            raise ConfigError(
                self._said(
                    path, f"{status}: {shown}; check {self.access.key_variable} in the environment"
                )
            )
        raise Rejected(self._said(path, f"{status}: {shown}"), status)

    def _decoded(self, body: bytes, path: str) -> Decoded:
        if not body.strip():
            return Decoded(None)
        try:
            return decode(body, limits=self._limits)
        except TraceError as e:
            problem = f"{str(e)[:_ERROR_SHOWN]}; is {self.access.host_variable} its address?"
            raise Rejected(self._said(path, f"answers no JSON ({problem})"), 200) from e

    def _said(self, path: str, text: str) -> str:
        return visible_line(f"{self.access.host}{path}: {text}")

    def _unreached(self, error: Exception) -> str:
        why = visible_line(self.access.scrubbed(str(error) or type(error).__name__)[:_ERROR_SHOWN])
        return (
            f"{self.access.host} cannot be reached ({why}); is {self.access.host_variable} right, "
            "and the server up?"
        )


def _retry_after(text: str) -> float | None:
    """Return the seconds that a server asks for: a number, or a date; None where it says nothing.

    >>> _retry_after("7"), _retry_after(""), _retry_after("soon")
    (7.0, None, None)
    """
    if text.strip().isdecimal():
        return float(text.strip()[:9])
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, moment.timestamp() - time.time())
