"""Who may send spans, and where the receiver may listen: decided before a body is looked at.

No web page may: a request that names an Origin, or says that a browser sent it, is refused, and so
is a Host that is not this machine's. Away from loopback there has to be a secret, which a program
sends with every request; whoever has it may call the machine what they like.
Source: RFC 6454 (Origin), Fetch Metadata Request Headers (W3C), RFC 6750 (Bearer).
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from stepscope.errors import UsageError
from stepscope.formats.otlp_request import JSON, PROTOBUF, kind_of
from stepscope.safety.offline import is_loopback

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


class Refusal(NamedTuple):
    """An answer instead of spans kept: a status, what to do about it, and when to try again."""

    status: int
    said: str
    retry_seconds: int | None = None


class Address(NamedTuple):
    """Where to listen."""

    host: str
    port: int


class Body(NamedTuple):
    """What a request says its body is: `kind` as `otlp_request.read` has it."""

    kind: str
    gzip: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What one start of the receiver accepts.

    Attributes:
        hosts: values of Host that are this machine's, lower case, with the port.
        token: the secret; None where loopback is enough.
    """

    hosts: frozenset[str]
    token: str | None

    def refusal(self, headers: Headers) -> Refusal | None:
        """Return why a request is refused, whatever it asks; None where it may ask."""
        held = list(headers)
        if sum([len(name) + len(value) for name, value in held]) > MAX_HEADERS:
            return Refusal(431, f"the headers are longer than {MAX_HEADERS} bytes")
        if any(name in _BROWSERS for name, _ in held):
            return Refusal(403, "a browser sent this, and no web page may send spans")
        if self.token is not None:
            sent = _values(held, b"authorization")
            if len(sent) == 1 and _same(sent[0], f"Bearer {self.token}"):
                return None
            return Refusal(
                401,
                "this receiver wants its token; set OTEL_EXPORTER_OTLP_HEADERS to "
                "authorization=Bearer%20TOKEN",
            )
        named = _values(held, b"host")
        if len(named) != 1 or named[0].lower() not in self.hosts:
            return Refusal(403, "the Host is not this receiver's; send to the address it printed")
        return None


def body_of(headers: Headers) -> Body | Refusal:
    """Return what a request's body is, or why it cannot be read."""
    held = list(headers)
    kinds, coded = _values(held, b"content-type"), _values(held, b"content-encoding")
    kind = kind_of(kinds[0]) if len(kinds) == 1 else ""
    if kind not in {PROTOBUF, JSON}:
        return Refusal(415, f"spans are sent as {PROTOBUF} or {JSON}; found {kind[:60]!r}")
    coding = coded[0].strip().lower() if coded else "identity"
    if len(coded) > 1 or coding not in {"gzip", "identity", ""}:
        return Refusal(415, f"a body is sent as it is or as gzip; found {coding[:60]!r}")
    return Body(kind, coding == "gzip")


def address(text: str | None, token: str | None) -> Address:
    """Return where to listen; not where others could send, unless there is a secret.

    Raises:
        UsageError: no address, or one that is not loopback and no secret, or a short one.

    >>> address(None, None), address("[::1]:9000", None), address("9000", None)
    (Address(host='127.0.0.1', port=4318), Address(host='::1', port=9000), \
Address(host='127.0.0.1', port=9000))
    """
    if token is not None and len(token) < MIN_TOKEN:
        raise UsageError(
            f"{TOKEN_VARIABLE} has {len(token)} characters; expected {MIN_TOKEN} or more"
        )
    if text is None:
        return Address(LOOPBACK, USUAL_PORT)
    host, colon, digits = text.rpartition(":")
    if colon and ":" in host and not host.startswith("["):
        host, digits = text, str(USUAL_PORT)  # an IPv6 address without a port
    elif not colon and not digits.isdecimal():
        host, digits = text, str(USUAL_PORT)
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
    return Address(str(found), int(digits))


def hosts(host: str, port: int) -> frozenset[str]:
    """Return what a program may put into Host for a receiver at this address.

    >>> sorted(hosts("127.0.0.1", 4318))
    ['127.0.0.1:4318', 'localhost:4318']
    """
    names = {f"[{host}]" if ":" in host else host}
    if is_loopback(host):
        names.add("localhost")
    with_port = {f"{name}:{port}" for name in names}
    return frozenset(with_port | names if port == 80 else with_port)


def _same(given: str, secret: str) -> bool:
    """Compare in a time that does not tell how much is right."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())


def _values(headers: list[tuple[bytes, bytes]], name: bytes) -> list[str]:
    return [value.decode("latin-1").strip() for key, value in headers if key == name]
