"""The one retry loop: error classes, Retry-After headers, rate limits, when to give up.

The error of a provider becomes one line without a secret that says whether asking again may help.
Headers say how long to wait and how much may still be asked; one limiter a provider says how many
calls run at once. Source: RFC 9110, 10.2.3 (Retry-After); headers of OpenAI and Anthropic.
"""

from __future__ import annotations

import asyncio
import math
import random
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

from stepscope.errors import ModelError
from stepscope.model import Endpoint, Model, Reply, Request, Structure, Usage
from stepscope.safety.redact import scrub_message
from stepscope.safety.text import visible_line

ResponseHeaders = Mapping[str, str]

# A limit is told for requests and for tokens, by one of these.
_REMAINING = re.compile(
    r"(?:x-ratelimit-remaining|anthropic-ratelimit)-(requests|tokens|input-tokens|output-tokens)"
    r"(?:-remaining)?"
)
_RESETS = ("x-ratelimit-reset-{}", "anthropic-ratelimit-{}-reset")
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+)s)?(?:([\d.]+)ms)?")
# No provider's window is longer; a header that asks for more is a mistake or a trap.
_LONGEST = 24 * 3600.0


def retry_after(headers: ResponseHeaders) -> float | None:
    """Return how many seconds the server asks to wait; None where it does not say."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _number(headers.get(name, ""))
        if seconds is not None:
            return _bounded(seconds * unit)
    moment = _timestamp(parsedate_to_datetime, headers.get("retry-after", ""))
    if moment is not None:
        return _bounded(moment - _now(headers))
    waits = [
        wait
        for what, left in remaining_quota(headers).items()
        if left == 0 and (wait := reset_seconds(what, headers)) is not None
    ]
    return max(waits) if waits else None


def should_retry(headers: ResponseHeaders) -> bool | None:
    """Return what `x-should-retry` says; None where it says nothing."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())


def remaining_quota(headers: ResponseHeaders) -> dict[str, int]:
    """Return what may still be asked in this window: requests, tokens, input-tokens ..."""
    found: dict[str, int] = {}
    for name, value in headers.items():
        match = _REMAINING.fullmatch(name)
        if match and value.strip().isdecimal() and ("remaining" in name):
            found[match[1]] = int(value.strip()[:15])
    return found


def reset_seconds(what: str, headers: ResponseHeaders) -> float | None:
    """Return after how many seconds there is more of something; None where nothing is said."""
    for form in _RESETS:
        text = headers.get(form.format(what), "").strip()
        if not text:
            continue
        seconds = _number(text)
        if seconds is None:
            seconds = _duration(text)
        if seconds is None:
            moment = _timestamp(datetime.fromisoformat, text)
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


def _timestamp(parse: Callable[[str], datetime], text: str) -> float | None:
    try:
        moment = parse(text)
    except (ValueError, OverflowError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _now(headers: ResponseHeaders) -> float:
    """Return the server's time of its reply, else ours: only differences to it are used."""
    said = _timestamp(parsedate_to_datetime, headers.get("date", ""))
    return time.time() if said is None else said


_RETRY_STATUSES = frozenset({408, 409, 429})
# Said with a 429, and no wait mends it.
_PAID_OUT = ("insufficient_quota", "billing_hard_limit_reached", "credit_balance_too_low")
# Said with a 400 where the provider's filter took the question.
FILTERED = frozenset({"content_filter", "content_policy_violation"})
_SHOWN = 300
# Statuses and words of a server that does not know how structured output was asked for.
_REJECTS = frozenset({400, 404, 415, 422, 500, 501})
_WORDS: dict[Structure, tuple[str, ...]] = {
    "json_schema": (
        *("response_format", "json_schema", "json_object", "output_config", "output_format"),
        *("structured output", "schema", "grammar", "strict"),
    ),
    "json_object_schema": ("response_format", "json_object", "schema", "grammar"),
    "forced_tool": ("tool", "function"),
    "prompt_only": (),
}
# Words of one that knows very well, and was asked for too much.
_OTHERWISE = ("context length", "context window", "context size", "too long", "too many tokens")


def read_error_body(body: bytes) -> tuple[str, str]:
    """Return the message and the code of an error; its text and "" where it is no JSON."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body[: 4 * _SHOWN].decode("utf-8", "replace"), ""
    inner = found.get("error", found) if isinstance(found, dict) else found
    if not isinstance(inner, dict):
        return str(inner), ""
    message = inner.get("message") or inner.get("detail") or body.decode("utf-8", "replace")
    return str(message)[: 4 * _SHOWN], str(inner.get("code") or inner.get("type") or "")[:60]


def status_error(
    endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes
) -> ModelError:
    """Return the error of a reply that is none: status, message, whether and when to ask again."""
    message, code = read_error_body(body)
    told = should_retry(headers)
    again = (status in _RETRY_STATUSES or status >= 500) if told is None else told
    again = again and code not in _PAID_OUT
    advice = ""
    if 300 <= status < 400:
        advice = "; redirects are not followed: set base_url to where it is"
    elif status in {401, 403}:
        advice = "; check the key of this provider"
    elif code in _PAID_OUT or status == 402:
        advice = "; the account has no credit left"
    text = f"{status}: {error_line(endpoint, message)}{advice}"
    after = retry_after(headers) if again else None
    return ModelError(f"{endpoint.name}: {text}", again=again, after=after, status=status)


def connection_error(endpoint: Endpoint, error: Exception, *, reached: bool) -> ModelError:
    """Return the error of a connection that could not be made, or broke after it was."""
    cause = error.__cause__ or error
    why = error_line(endpoint, str(cause)) if str(cause) else type(cause).__name__
    what = "the connection broke" if reached else "no connection; is base_url right?"
    return ModelError(f"{endpoint.name}: {what} ({why})", again=True, reached=reached)


def invalid_reply_error(endpoint: Endpoint, what: str) -> ModelError:
    """Return the error of a reply that came and is no answer of this protocol."""
    return ModelError(f"{endpoint.name}: {error_line(endpoint, what)}", again=True, status=200)


def rejects_structure(structure: Structure, status: int, message: str) -> bool:
    """Whether an error says that structured output cannot be asked for in this way."""
    text = message.lower()
    if status not in _REJECTS or any(word in text for word in _OTHERWISE):
        return False
    return any(word in text for word in _WORDS[structure])


def next_structure_error(
    endpoint: Endpoint, status: int, before: Structure, after: Structure
) -> ModelError:
    """Return the error that asks to be asked again, in the way that comes next."""
    said = f"{endpoint.name}: {status}: it does not take {before}; asking with {after}"
    return ModelError(said, again=True, after=0.0, status=status)


def error_line(endpoint: Endpoint, text: str) -> str:
    """Return a text as a message may show it: one line, short, without secrets."""
    if endpoint.key:
        text = text.replace(endpoint.key, "***")
    return visible_line(scrub_message(text)[:_SHOWN]).strip() or "no reason given"


# Seconds that a window is waited for at most because a *good* reply says that it is used up.
_AHEAD = 60.0


class ProviderLimiter:
    """One provider; all times on the monotonic clock of the event loop."""

    def __init__(self, most: int) -> None:
        """Allow `most` in flight, until the provider says otherwise."""
        self.most = most
        self.allowed = float(most)
        self.inside = 0
        # Nobody sends before this moment.
        self.opens = 0.0
        self._cut = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> None:
        """Wait for a place, in the order of asking."""
        if not self._waiting and self.inside < int(self.allowed):
            self.inside += 1
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.leave()  # the place was given at the very moment of giving up
            raise

    def leave(self) -> None:
        """Give the place to the next."""
        self.inside -= 1
        self._admit()

    def answered(self, headers: Mapping[str, str], usage: Usage | None, now: float) -> None:
        """Learn from a good reply: more at once, unless its headers say that little is left."""
        self.allowed = min(float(self.most), self.allowed + 1.0 / self.allowed)
        left = remaining_quota(headers)
        if left:
            # No more in flight than what is left of a window lets through.
            for what, number in left.items():
                each = 1 if what == "requests" else _tokens(what, usage)
                fits = number // each if each else self.most
                self.allowed = max(1.0, min(self.allowed, float(fits)))
                if fits == 0 and (wait := reset_seconds(what, headers)) is not None:
                    self.opens = max(self.opens, now + min(wait, _AHEAD))
        self._admit()

    def refused(self, began: float, now: float, after: float | None) -> None:
        """Learn from a refusal for rate: half as many at once, and all wait as long as it says.

        Calls of one burst, sent before the last refusal, count once.
        """
        if began >= self._cut:
            self.allowed = max(1.0, self.allowed / 2)
            self._cut = now
        if after is not None:
            self.opens = max(self.opens, now + after)

    def _admit(self) -> None:
        while self._waiting and self.inside < int(self.allowed):
            place = self._waiting.popleft()
            if not place.done():
                self.inside += 1
                place.set_result(None)


def _tokens(what: str, usage: Usage | None) -> int:
    """Return what one more call of the same size takes of a limit; 0 where that is unknown."""
    if usage is None:
        return 0
    read, written = usage.input_total or 0, usage.output_total or 0
    return {"input-tokens": read, "output-tokens": written}.get(what, read + written)


BeforeAttempt = Callable[[int, ModelError | None], None]

# Too many requests; and overloaded, as two providers say it.
_RATE = frozenset({429, 503, 529})
# After a shared wait, calls begin spread over this share of it, at most over a second.
_SPREAD = 0.1


class RetryLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long a call may take."""

    tries: int = 8  # how often it is made at most
    # how often where a reply comes that cannot be read: each may be paid for
    tries_unreadable: int = 2
    attempt_seconds: float = 300.0  # one try, from sending to the last byte
    # all of them with the pauses between, from when the first one begins
    whole_seconds: float = 900.0
    base_seconds: float = 0.5  # the bound of the first random pause; it doubles with each
    cap_seconds: float = 60.0  # where it stops doubling


RETRY_LIMITS = RetryLimits()


@dataclass
class RetryPolicy:
    """Calls to all providers of one command."""

    rng: random.Random  # draws the pauses
    _: KW_ONLY
    most: int = 32  # calls in flight to one provider
    limits: RetryLimits = RETRY_LIMITS  # how long a call may take
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep  # waits so many seconds
    _lanes: dict[str, ProviderLimiter] = field(default_factory=dict, init=False)

    def lane(self, provider: str) -> ProviderLimiter:
        """Return the traffic to a provider."""
        return self._lanes.setdefault(provider, ProviderLimiter(self.most))

    async def complete(self, model: Model, request: Request, *, before: BeforeAttempt) -> Reply:
        """Return the reply to a request, however many tries it takes.

        `before` is called with the number of the try and the error of the one before it (0 and None
        at first), when nothing stands between it and sending; what it raises ends the call.
        `ModelError` where the last try gave nothing, or the next would come too late.
        """
        lane = self.lane(model.name.partition("/")[0])
        await lane.enter()
        try:
            return await self._tried(lane, model, request, before)
        finally:
            lane.leave()

    async def _tried(
        self, lane: ProviderLimiter, model: Model, request: Request, before: BeforeAttempt
    ) -> Reply:
        clock = asyncio.get_running_loop().time
        end = clock() + self.limits.whole_seconds
        error: ModelError | None = None
        unreadable = 0
        for number in range(self.limits.tries):
            # Until the provider's pause is over, and a little, so that not all begin at once.
            while (wait := lane.opens - clock()) > 0:
                await self._wait(wait + self.rng.uniform(0.0, min(1.0, _SPREAD * wait)), end, error)
            before(number, error)
            began = clock()
            try:
                async with asyncio.timeout_at(min(end, began + self.limits.attempt_seconds)):
                    reply = await model.complete(request)
            except TimeoutError:
                seconds = clock() - began
                error = ModelError(f"{model.name}: no answer within {seconds:.3g} s", again=True)
            except ModelError as e:
                error = e
            else:
                lane.answered(reply.headers, reply.usage, clock())
                return reply
            if error.status in _RATE:
                lane.refused(began, clock(), error.after)
            unreadable += error.status is not None and error.status < 300
            if unreadable == self.limits.tries_unreadable or number + 1 == self.limits.tries:
                raise error
            if not error.again or clock() >= end:
                raise error
            await self._pause(number, error, end)
        raise AssertionError("the last try returns or raises")

    async def _pause(self, number: int, error: ModelError, end: float) -> None:
        """Wait before the next try: as long as was asked for, else a random time."""
        if error.after is not None:
            seconds = error.after
            if error.status in _RATE:
                return  # all wait together, for the lane to open
        else:
            bound = min(self.limits.cap_seconds, self.limits.base_seconds * 2.0**number)
            seconds = self.rng.uniform(0.0, bound)
        if seconds > 0:
            await self._wait(seconds, end, error)

    async def _wait(self, seconds: float, end: float, error: ModelError | None) -> None:
        if seconds > end - asyncio.get_running_loop().time():
            told = f"{error}; " if error else ""
            raise ModelError(
                f"{told}the next attempt would be in {seconds:,.0f} s, over the "
                f"{self.limits.whole_seconds:g} s of one call; run the same command again later",
                again=True,
                after=seconds,
                status=error.status if error else None,
            )
        await self.sleep(seconds)
