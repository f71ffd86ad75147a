"""One HTTP exchange with a provider: bounded in size, redirects not followed, raw bytes kept.

The SDKs read a reply as large as a server sends it, errors included, and unpack whatever it claims
to hold. Here the client under them reads up to a cap, packed and unpacked, so that no server fills
the memory. Imported when a model is opened: httpx2 takes a tenth of a second.
"""

from __future__ import annotations

import ssl
import zlib
from functools import cache
from typing import Any

import httpx2

from stepscope.errors import ModelError
from stepscope.safety.limits import MIB

# One reply after unpacking; a verdict with its rationale is some kilobytes.
REPLY_BYTES = 4 * MIB
# Sent at once to one provider, and kept open for the next.
CONNECTIONS = 256
_KEEP_SECONDS = 30.0
# The call as a whole is bounded by who makes it; these end what nobody bounds.
_TIMES = httpx2.Timeout(connect=10.0, read=600.0, write=60.0, pool=None)
_GZIP = {"gzip", "x-gzip", "deflate"}
_EITHER = zlib.MAX_WBITS | 32  # gzip or zlib, told from its first bytes


class Capped(httpx2.AsyncClient):
    """A client that reads every reply itself, up to `REPLY_BYTES`."""

    async def send(self, request: httpx2.Request, **_given: Any) -> httpx2.Response:
        """Return the whole reply, unpacked; what the SDK asks about redirects is not heeded.

        Raises:
            ModelError: the reply is over the cap, or packed as nobody asked for.
            httpx2.TransportError: the connection broke.
        """
        reply = await super().send(request, stream=True, auth=None, follow_redirects=False)
        try:
            packing = reply.headers.pop("content-encoding", "identity").strip().lower()
            body = bytearray()
            async for chunk in reply.aiter_raw():
                body += chunk
                if len(body) > REPLY_BYTES:
                    raise _too_large(reply.status_code)
        finally:
            await reply.aclose()
        content = bytes(body)
        if packing != "identity":
            content = unpacked(content, packing, reply.status_code)
        return httpx2.Response(
            reply.status_code, headers=reply.headers, content=content, request=request
        )


def client(base: type[httpx2.AsyncClient] | None, *, loopback: bool) -> httpx2.AsyncClient:
    """Return a capped client.

    Args:
        base: the SDK's client over aiohttp, which costs half the time of a call; None without it.
        loopback: asks this machine itself, never a proxy.
    """
    over = (Capped,) if base is None else (Capped, base)
    made: type[httpx2.AsyncClient] = type("CappedClient", over, {})
    return made(
        verify=_certificates(),
        timeout=_TIMES,
        limits=httpx2.Limits(
            max_connections=CONNECTIONS,
            max_keepalive_connections=CONNECTIONS,
            keepalive_expiry=_KEEP_SECONDS,
        ),
        headers={"accept-encoding": "gzip"},
        follow_redirects=False,
        trust_env=not loopback,
    )


@cache
def _certificates() -> ssl.SSLContext:
    """Return what servers are checked against; reading it takes as long as ten calls."""
    return httpx2.create_ssl_context()


def unpacked(body: bytes, packing: str, status: int) -> bytes:
    """Return what a packed body holds, never unpacking more than the cap of it.

    Raises:
        ModelError: it is over the cap, ends too early, or is packed as nobody asked for.
    """
    if packing not in _GZIP:
        raise ModelError(
            f"the reply is packed as {packing[:20]!r}, which was not asked for", again=False
        )
    unpacking = zlib.decompressobj(_EITHER)
    try:
        found = unpacking.decompress(body, REPLY_BYTES + 1)
    except zlib.error as e:
        raise ModelError("the reply does not unpack", again=True, status=status) from e
    if len(found) > REPLY_BYTES:
        raise _too_large(status)
    if not unpacking.eof:
        raise ModelError("the reply ends too early", again=True, status=status)
    return found


def _too_large(status: int) -> ModelError:
    return ModelError(
        f"the reply is over {REPLY_BYTES // MIB} MiB; no judge says so much",
        again=False,
        status=status,
    )
