"""What headers say about pace: how long to wait, and how much may still be asked.

Read in every form that the providers use: `retry-after-ms`, `retry-after` as seconds or as a date,
`x-should-retry`, `x-ratelimit-*` with durations as "1m30s" or "12ms", `anthropic-ratelimit-*` with
moments. Moments are held against the server's own `date` where it sends one, since clocks differ.
Source: the retry code of the SDKs, openai 3.54 and anthropic 2.12; the providers' pages on limits.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

Headers = Mapping[str, str]

# A limit is told for requests and for tokens, by one of these.
_REMAINING = re.compile(
    r"(?:x-ratelimit-remaining|anthropic-ratelimit)-(requests|tokens|input-tokens|output-tokens)"
    r"(?:-remaining)?"
)
_RESETS = ("x-ratelimit-reset-{}", "anthropic-ratelimit-{}-reset")
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+)s)?(?:([\d.]+)ms)?")
# No provider's window is longer; a header that asks for more is a mistake or a trap.
_LONGEST = 24 * 3600.0


def retry_after(headers: Headers) -> float | None:
    """Return how many seconds the server asks to wait; None where it does not say.

    >>> retry_after({"retry-after-ms": "1500"}), retry_after({"retry-after": "2"})
    (1.5, 2.0)
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _number(headers.get(name, ""))
        if seconds is not None:
            return _bounded(seconds * unit)
    moment = _http_date(headers.get("retry-after", ""))
    if moment is not None:
        return _bounded(moment - _now(headers))
    waits = [wait for what in spent(headers) if (wait := reset_seconds(what, headers)) is not None]
    return max(waits) if waits else None


def told_to_retry(headers: Headers) -> bool | None:
    """Return what `x-should-retry` says; None where it says nothing."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())


def remaining(headers: Headers) -> dict[str, int]:
    """Return what may still be asked in this window: requests, tokens, input-tokens ...

    >>> remaining({"x-ratelimit-remaining-requests": "9", "anthropic-ratelimit-tokens-limit": "5"})
    {'requests': 9}
    """
    found: dict[str, int] = {}
    for name, value in headers.items():
        match = _REMAINING.fullmatch(name)
        if match and value.strip().isdecimal() and ("remaining" in name):
            found[match[1]] = int(value.strip()[:15])
    return found


def spent(headers: Headers) -> list[str]:
    """Return of what nothing is left."""
    return [what for what, left in remaining(headers).items() if left == 0]


def reset_seconds(what: str, headers: Headers) -> float | None:
    """Return after how many seconds there is more of something; None where nothing is said.

    >>> reset_seconds("tokens", {"x-ratelimit-reset-tokens": "1m30s"})
    90.0
    """
    for form in _RESETS:
        text = headers.get(form.format(what), "").strip()
        if not text:
            continue
        seconds = _number(text)
        if seconds is None:
            seconds = _duration(text)
        if seconds is None:
            moment = _rfc3339(text)
            seconds = None if moment is None else moment - _now(headers)
        if seconds is not None:
            return _bounded(seconds)
    return None


def _bounded(seconds: float) -> float:
    return min(max(seconds, 0.0), _LONGEST)


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _duration(text: str) -> float | None:
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        return None
    try:
        days, hours, minutes, seconds, thousandths = (float(part or 0) for part in match.groups())
    except ValueError:
        return None
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds + thousandths / 1000


def _http_date(text: str) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _rfc3339(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _now(headers: Headers) -> float:
    """Return the server's time of its reply, else ours: only differences to it are used."""
    said = _http_date(headers.get("date", ""))
    return time.time() if said is None else said
