"""Why a provider gave nothing, as one line without a secret, and whether asking again may help."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stepscope.errors import ModelError
from stepscope.judges.models.pacing import retry_after, told_to_retry
from stepscope.model import Endpoint, Structure
from stepscope.safety.redact import scrubbed
from stepscope.safety.text import visible_line

_AGAIN = frozenset({408, 409, 429})
# Said with a 429, and no wait mends it.
_PAID_OUT = frozenset(
    {"insufficient_quota", "billing_hard_limit_reached", "credit_balance_too_low"}
)
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


class Said(msgspec.Struct, frozen=True):
    """What the body of an error says: a message, and a code where there is one."""

    message: str
    code: str = ""


def said(body: bytes) -> Said:
    """Return what an error body says; its text where it is no JSON."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Said(body[: 4 * _SHOWN].decode("utf-8", "replace"))
    inner = found.get("error", found) if isinstance(found, dict) else found
    if not isinstance(inner, dict):
        return Said(str(inner))
    message = inner.get("message") or inner.get("detail") or body.decode("utf-8", "replace")
    code = inner.get("code") or inner.get("type") or ""
    return Said(str(message)[: 4 * _SHOWN], str(code)[:60])


def refused(endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
    """Return the error of a reply that is none: status, message, whether and when to ask again."""
    found = said(body)
    again = status in _AGAIN or status >= 500
    told = told_to_retry(headers)
    if told is not None:
        again = told
    if found.code in _PAID_OUT:
        again = False
    advice = ""
    if 300 <= status < 400:
        advice = "; redirects are not followed: set base_url to where it is"
    elif status in {401, 403}:
        advice = "; check the key of this provider"
    elif found.code in _PAID_OUT or status == 402:
        advice = "; the account has no credit left"
    text = f"{status}: {shown(endpoint, found.message)}{advice}"
    after = retry_after(headers) if again else None
    return ModelError(f"{endpoint.name}: {text}", again=again, after=after, status=status)


def broken(endpoint: Endpoint, error: Exception, *, reached: bool) -> ModelError:
    """Return the error of a connection that could not be made, or broke after it was."""
    cause = error.__cause__ or error
    why = shown(endpoint, str(cause)) if str(cause) else type(cause).__name__
    what = "the connection broke" if reached else "no connection; is base_url right?"
    return ModelError(f"{endpoint.name}: {what} ({why})", again=True, reached=reached)


def unusable(endpoint: Endpoint, what: str, *, again: bool, status: int = 200) -> ModelError:
    """Return the error of a reply that came and is no answer of this protocol."""
    return ModelError(f"{endpoint.name}: {shown(endpoint, what)}", again=again, status=status)


def rejects(structure: Structure, status: int, message: str) -> bool:
    """Whether an error says that structured output cannot be asked for in this way."""
    text = message.lower()
    if status not in _REJECTS or any(word in text for word in _OTHERWISE):
        return False
    return any(word in text for word in _WORDS[structure])


def falls(endpoint: Endpoint, status: int, before: Structure, after: Structure) -> ModelError:
    """Return the error that asks to be asked again, in the way that comes next."""
    return ModelError(
        f"{endpoint.name}: {status}: it does not take {before}; asking with {after}",
        again=True,
        after=0.0,
        status=status,
    )


def shown(endpoint: Endpoint, text: str) -> str:
    """Return a text as a message may show it: one line, short, without secrets."""
    if endpoint.key:
        text = text.replace(endpoint.key, "***")
    return visible_line(scrubbed(text)[:_SHOWN]).strip() or "no reason given"
