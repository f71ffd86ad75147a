"""Times in traces: nanoseconds UTC beside the text as it stood."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from stepscope.model import Instant, Json, Step

_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?)(?:[.,](\d{1,9})\d*)?\s*(Z|z|[+-]\d\d:?\d\d|)\Z"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# Most times have six digits of a second and an offset, and Python reads those ten times as fast.
_USUAL = len("2025-12-24T10:00:00.500000+01:00")
# Which unit a bare number is in: seconds since 1970 have ten digits until 2286, and every finer
# unit three more.
_UNITS = ((1e11, 1_000_000_000), (1e14, 1_000_000), (1e17, 1_000), (1e20, 1))


def instant(value: Json) -> Instant | None:
    """Return an ISO 8601 text or a number since 1970 as a time, None where it is neither.

    Without an offset a time is taken as UTC. Digits finer than nanoseconds are cut.

    >>> instant("2025-12-24T10:00:00.5Z").ns
    1766570400500000000
    >>> instant(1766570400).ns, instant("soon")
    (1766570400000000000, None)
    """
    if isinstance(value, str):
        return _from_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    for limit, factor in _UNITS:
        if abs(value) < limit:
            return Instant(round(value * factor), str(value))
    return None


def _from_text(text: str) -> Instant | None:
    if len(text) == _USUAL and text[0] == "2" and text[10:20:9] == "T." and text[26] in "+-":
        try:
            return Instant((datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND * 1000, text)
        except ValueError:
            return None
    match = _ISO.match(text)
    if match is None:
        return None
    moment, fraction, zone = match.groups()
    zone = "+00:00" if zone in {"", "Z", "z"} else zone
    try:
        seconds = datetime.fromisoformat(moment + zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    whole = int((seconds - _EPOCH).total_seconds())
    return Instant(whole * 1_000_000_000 + int((fraction or "0").ljust(9, "0")), text)


def bounds(steps: Sequence[Step]) -> tuple[Instant | None, Instant | None]:
    """Return the earliest start and the latest time of any step, None where no step has times."""
    starts = [step.start for step in steps if step.start is not None]
    ends = [step.end for step in steps if step.end is not None]
    first = min(starts, key=lambda time: time.ns, default=None)
    last = max(starts + ends, key=lambda time: time.ns, default=None)
    return first, last
