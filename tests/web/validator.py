"""Whether a response keeps the promises of the local server, whatever its route and status."""

from __future__ import annotations

import httpx2

POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "frame-ancestors": "'none'",
    "base-uri": "'none'",
    "form-action": "'self'",
}
EXACT = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
TYPES = {
    "text/html; charset=utf-8",
    "text/plain; charset=utf-8",
    "text/javascript; charset=utf-8",
    "text/css; charset=utf-8",
    "text/csv; charset=utf-8",
    "text/event-stream; charset=utf-8",
    "application/json",
    "application/octet-stream",
    "image/svg+xml",
}
# Shown by a browser as what they are: these pages and files are ours.
INLINE = {"/static/app.js", "/static/app.css"}


def faults(response: httpx2.Response) -> list[str]:
    """Return every promise that a response breaks."""
    headers = response.headers
    found = [f"{n} is {headers.get(n)!r}" for n, v in EXACT.items() if headers.get(n) != v]
    policies = headers.get_list("content-security-policy")
    if len(policies) != 1 or _parsed(policies[0]) != POLICY:
        found.append(f"content-security-policy is {policies}")
    if headers.get("cache-control") not in ("no-store", "private, no-cache"):
        found.append(f"cache-control is {headers.get('cache-control')!r}")
    found += [f"{n} is there" for n in headers if n.startswith("access-control-") or n == "server"]
    if response.status_code not in (204, 303, 304) and headers.get("content-type") not in TYPES:
        found.append(f"content-type is {headers.get('content-type')!r}")
    return found + _cookies(headers.get_list("set-cookie"))


def check(response: httpx2.Response) -> None:
    """Fail where a response breaks a promise: a hook of the client, so that none is forgotten."""
    broken = faults(response)
    assert not broken, f"{response.request.method} {response.request.url}: {'; '.join(broken)}"


def _parsed(policy: str) -> dict[str, str]:
    pairs = (directive.strip().partition(" ") for directive in policy.split(";"))
    return {name: value for name, _, value in pairs}


def _cookies(cookies: list[str]) -> list[str]:
    found = []
    for cookie in cookies:
        parts = {part.strip().lower() for part in cookie.split(";")[1:]}
        if not {"httponly", "samesite=strict", "path=/"} <= parts:
            found.append(f"set-cookie lacks a guard: {sorted(parts)}")
        if any(part.startswith("domain") for part in parts):
            found.append("set-cookie names a domain")
    return found
