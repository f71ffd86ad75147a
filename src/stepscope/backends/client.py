"""HTTP to one tracing backend: where it is, what opens it, and requests bounded in time and size.

Address and keys come from the variables of the environment that the backend's own SDK reads, never
from a settings file: a pull request can change a file, and with it the host that a key is sent to.
A key is never part of an error, a log line or a `repr`. No redirect is followed and no other host
is called. A request is repeated after 429, 502, 503, 504 and broken connections, since every
request made here may be; `Retry-After` is kept to. Replies and errors are read up to a cap.
"""

from __future__ import annotations

import base64
import email.utils
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, cast
from urllib.parse import unquote, urlsplit

import msgspec

from stepscope.errors import ConfigError, EnvironmentFault, TraceError, UsageError
from stepscope.model import Json
from stepscope.runtime.database import Closeable
from stepscope.safety import redact
from stepscope.safety.json import Decoded, decode
from stepscope.safety.limits import MIB, Limits
from stepscope.safety.text import visible_line

if TYPE_CHECKING:
    import httpx2

BackendName = Literal["langfuse", "langsmith", "mlflow", "phoenix"]

_TARGET = re.compile(r"(langfuse|langsmith|mlflow|phoenix):(.*)\Z", re.DOTALL).match


def parse_target(text: str) -> tuple[BackendName, str]:
    """Return the backend that a text names, and the place in it; UsageError without either."""
    match = _TARGET(text)
    if match is None:
        raise UsageError(
            f"{text!r} names no backend; expected langfuse:[PROJECT], langsmith:PROJECT, "
            "mlflow:EXPERIMENT or phoenix:PROJECT"
        )
    backend, place = cast(BackendName, match[1]), match[2].strip()
    noun = "EXPERIMENT" if backend == "mlflow" else "PROJECT"
    # A key of Langfuse opens one project only, so the name is for the reader.
    if not place and backend != "langfuse":
        raise UsageError(f"{text!r} names no {noun.lower()}; expected {backend}:{noun}")
    if any(ord(character) < 32 for character in place):
        raise UsageError(f"{text!r}: the name of a {noun.lower()} holds no control characters")
    return backend, place


_LANGFUSE = "https://cloud.langfuse.com"
_LANGSMITH = "https://api.smith.langchain.com"
_PHOENIX_PORT = "6006"
# Shorter texts are no secrets, and cutting them out of messages would make those unreadable.
_SECRET_CHARACTERS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendAccess:
    """A host, and the headers that open it."""

    base: str  # address, without a slash at its end
    host_variable: str  # the variable that says so, for messages
    key_variable: str  # the variable that holds the key, for messages
    # sent with every request to this host, and to no other
    headers: Mapping[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)  # what no message may hold

    def misdirected(self, what: str) -> EnvironmentFault:
        """Return what to raise for an answer that this backend does not give."""
        asked = f"is {self.host_variable} its address?"
        return EnvironmentFault(f"{self.host} answers without {what}; {asked}")

    @property
    def host(self) -> str:
        """Host and port, for messages."""
        return urlsplit(self.base).netloc

    def scrubbed(self, text: str) -> str:
        """Return a text without the secrets: these, and whatever else looks like one."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return redact.scrub_message(text)


def read_access(backend: BackendName, variables: Mapping[str, str]) -> BackendAccess:
    """Return where a backend is and what opens it; ConfigError names a variable that is wrong."""
    found = _READERS[backend](variables)
    sent = "".join([*found.headers, *found.headers.values()])
    if not sent.isascii() or not sent.isprintable():
        raise ConfigError(
            f"{found.key_variable} cannot be sent: a key holds printable ASCII characters only"
        )
    return found


def _phoenix(variables: Mapping[str, str]) -> BackendAccess:
    names = ("PHOENIX_ENDPOINT", "PHOENIX_COLLECTOR_ENDPOINT")
    host_variable = next((name for name in names if variables.get(name)), "")
    base = variables.get(host_variable, "")
    if not base:
        host_variable, host = "PHOENIX_HOST", variables.get("PHOENIX_HOST", "")
        if host in {"", "0.0.0.0", "::"}:  # what a server listens on is no place to call
            host = "localhost"
        port = variables.get("PHOENIX_PORT") or _PHOENIX_PORT
        base = host if "://" in host else f"http://{host}:{port}"
    headers = {}
    for pair in variables.get("PHOENIX_CLIENT_HEADERS", "").split(","):
        name, equals, value = pair.partition("=")
        if equals and name.strip():
            headers[unquote(name.strip()).lower()] = unquote(value.strip())
    key = variables.get("PHOENIX_API_KEY", "")
    if key:
        headers["authorization"] = f"Bearer {key}"
    return BackendAccess(
        base=_clean_address(base, host_variable).removesuffix("/v1/traces"),
        host_variable=host_variable,
        key_variable="PHOENIX_API_KEY",
        headers=headers,
        secrets=_secrets(key, *headers.values()),
    )


def _mlflow(variables: Mapping[str, str]) -> BackendAccess:
    base = variables.get("MLFLOW_TRACKING_URI", "")
    if not base.startswith(("http://", "https://")):
        raise ConfigError(
            f"MLFLOW_TRACKING_URI is {_without_login(base)}; expected the address of a tracking "
            "server as http://localhost:5000 (`mlflow server` serves a file store or a database)"
        )
    user, password = (variables.get(f"MLFLOW_TRACKING_{n}", "") for n in ("USERNAME", "PASSWORD"))
    token = variables.get("MLFLOW_TRACKING_TOKEN", "")
    said = _basic_auth(user, password) if user or password else token and f"Bearer {token}"
    headers = {"authorization": said} if said else {}
    return BackendAccess(
        base=_clean_address(base, "MLFLOW_TRACKING_URI"),
        host_variable="MLFLOW_TRACKING_URI",
        key_variable="MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and _PASSWORD,",
        headers=headers,
        secrets=_secrets(password, token, *headers.values()),
    )


def _langfuse(variables: Mapping[str, str]) -> BackendAccess:
    public = _require("LANGFUSE_PUBLIC_KEY", variables)
    secret = _require("LANGFUSE_SECRET_KEY", variables)
    host_variable = "LANGFUSE_BASE_URL" if variables.get("LANGFUSE_BASE_URL") else "LANGFUSE_HOST"
    return BackendAccess(
        base=_clean_address(variables.get(host_variable) or _LANGFUSE, host_variable),
        host_variable=host_variable,
        key_variable="LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY",
        headers={"authorization": (basic := _basic_auth(public, secret))},
        secrets=_secrets(secret, basic),
    )


def _langsmith(variables: Mapping[str, str]) -> BackendAccess:
    key = variables.get("LANGSMITH_API_KEY") or variables.get("LANGCHAIN_API_KEY")
    key = key or _require("LANGSMITH_API_KEY", variables)
    old = variables.get("LANGCHAIN_ENDPOINT")
    host_variable = "LANGSMITH_ENDPOINT"
    workspace = variables.get("LANGSMITH_WORKSPACE_ID")
    return BackendAccess(
        base=_clean_address(variables.get(host_variable) or old or _LANGSMITH, host_variable),
        host_variable=host_variable,
        key_variable="LANGSMITH_API_KEY",
        headers={"x-api-key": key, **({"x-tenant-id": workspace} if workspace else {})},
        secrets=_secrets(key),
    )


def _require(name: str, variables: Mapping[str, str]) -> str:
    value = variables.get(name, "")
    if not value:
        raise ConfigError(f"{name} is not set; set it to the key that opens the backend")
    return value


def _clean_address(text: str, variable: str) -> str:
    """Return an address without the slash at its end."""
    try:
        parts = urlsplit(text.strip())
        parts.port  # noqa: B018 - a port that is none raises here
    except ValueError as e:
        raise ConfigError(f"{variable} is no address ({e})") from e
    plain = not (parts.query or parts.fragment or re.search(r"[^!-~]|//[^/]*@", text.strip()))
    if parts.scheme not in {"http", "https"} or not parts.hostname or not plain:
        raise ConfigError(
            f"{variable} is {_without_login(text)}; expected an address as https://host:port, "
            "without user, query or fragment"
        )
    return text.strip().rstrip("/")


def _without_login(text: str) -> str:
    """Return a value as a message may show it: without what stands before an `@`."""
    return repr(text.rpartition("@")[2][:60]) if text else "not set"


def _basic_auth(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _secrets(*texts: str) -> tuple[str, ...]:
    """Return what to cut out of messages, the longest first: with and without its scheme."""
    bare = [text.removeprefix("Bearer ").removeprefix("Basic ") for text in texts]
    return tuple(sorted({t for t in bare if len(t) >= _SECRET_CHARACTERS}, key=len, reverse=True))


_READERS: dict[BackendName, Callable[[Mapping[str, str]], BackendAccess]] = {
    "langfuse": _langfuse,
    "langsmith": _langsmith,
    "mlflow": _mlflow,
    "phoenix": _phoenix,
}

QueryValue = str | int | list[str]
Query = Mapping[str, QueryValue]

_RETRIED_STATUSES = frozenset({429, 502, 503, 504})
# Bytes of an error body that are read, and characters that are shown.
_ERROR_BYTES = 16 * 1024
_ERROR_SHOWN = 200
_JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """How long to wait for a server, in seconds, and how much to take from it."""

    connect: float = 10.0  # for a connection
    read: float = 60.0  # for the next bytes of a reply
    # for one reply from its request to its end: a sender of single bytes is no server
    whole: float = 300.0
    tries: int = 6  # how often a request is made that a server puts off
    tries_broken: int = 3  # how often where the connection breaks, or there is none
    # the longest pause between two tries; a server that asks for more is left for later
    wait: float = 120.0
    reply_bytes: int = 64 * MIB  # one reply after decompression


class Rejected(EnvironmentFault):
    """The server answered, and not with what was asked; `status` is its HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class TooLarge(EnvironmentFault):
    """A reply is larger than is taken; ask for less at once."""


class Client(Closeable):
    """Requests to the host of `access`; a context manager that closes its connections."""

    def __init__(
        self,
        access: BackendAccess,
        limits: Limits,
        *,
        patience: RequestLimits | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Open nothing yet; `sleep` waits so many seconds."""
        import httpx2  # .1 s, and only pulling and sending need it

        self.access = access
        self._limits = limits
        self._patience = patience or RequestLimits()
        self._sleep = sleep
        self._broken = httpx2.TransportError
        self._undecodable = httpx2.DecodingError
        timeout = httpx2.Timeout(self._patience.read, connect=self._patience.connect)
        headers = {**access.headers, "accept": _JSON, "user-agent": "stepscope"}
        self._http = httpx2.Client(headers=headers, timeout=timeout, follow_redirects=False)

    def close(self) -> None:
        """Close the connections."""
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
        url = f"{self.access.base}{path}"
        request = self._http.build_request(
            method, url, params=query, content=content or None, headers=about
        )
        for attempt in range(1, self._patience.tries + 1):
            last = attempt == self._patience.tries
            try:
                status, told, body = self._once(request)
            except self._undecodable as e:
                raise Rejected(self._said(path, "sends what it does not announce"), 200) from e
            except self._broken as e:
                if last or attempt >= self._patience.tries_broken:
                    said = self.access.scrubbed(str(e) or type(e).__name__)[:_ERROR_SHOWN]
                    raise EnvironmentFault(
                        f"{self.access.host} cannot be reached ({visible_line(said)}); is "
                        f"{self.access.host_variable} right, and the server up?"
                    ) from e
                self._sleep(self._pause(None, attempt))
                continue
            if status in _RETRIED_STATUSES and not last:
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
                    took = f"the reply took over {self._patience.whole:g} s; try again later"
                    raise EnvironmentFault(f"{self.access.host}: {took}")
            if good and len(body) > most:
                asked = f"{request.method} {request.url.path}"
                raise TooLarge(f"{self.access.host}: a reply over {most // MIB} MiB to {asked}")
            return reply.status_code, reply.headers, bytes(body[:most])
        finally:
            reply.close()

    def _pause(self, told: Mapping[str, str] | None, attempt: int) -> float:
        """Return how many seconds to wait before the next try."""
        asked = None if told is None else _retry_after(told.get("retry-after", ""))
        if asked is None:
            return float(min(2 ** (attempt - 1), self._patience.wait))
        if asked > self._patience.wait:
            again = "run the same command again then: finished work is kept"
            raise EnvironmentFault(f"{self.access.host} asks to wait {asked:,.0f} s; {again}")
        return asked

    def _taken(self, status: int, told: Mapping[str, str], body: bytes, path: str) -> bytes:
        if 200 <= status < 300:
            return body
        if 300 <= status < 400:
            to = urlsplit(told.get("location", "")).netloc or "another place"
            message = f"redirects to {to[:80]}, which is not followed"
            advice = f"set {self.access.host_variable} to where it is"
            raise Rejected(self._said(path, f"{message}; {advice}"), status)
        said = body.decode("utf-8", "replace").strip()
        shown = visible_line(self.access.scrubbed(said)[:_ERROR_SHOWN]) or "no reason given"
        if status in {401, 403}:
            advice = f"check {self.access.key_variable} in the environment"
            raise ConfigError(self._said(path, f"{status}: {shown}; {advice}"))
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


def _retry_after(text: str) -> float | None:
    """Return the seconds that a server asks for: a number, or a date; None for anything else."""
    if text.strip().isdecimal():
        return float(text.strip()[:9])
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, moment.timestamp() - time.time())
