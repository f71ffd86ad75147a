r"""Whether the text of a tool result tells of an error, where the format has no flag.

Used at import, and always marked `heuristic`. Only a text's own verdict counts: an exit code, an
HTTP status, a JSON `error` field, a traceback, a leading `Error:`. A text that merely mentions
errors decides nothing. An exit code beats what the output says after it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from stepscope.model import Belief, Json, ResultStatus

# Where the last resort, decoding JSON, stops paying; results that big are listings.
_JSON_BYTES = 262_144
# What is quoted of an error: enough to recognise it.
_QUOTE = 200

_EXIT = re.compile(
    r"(?:\A|\n)\W{0,3}(?:process |command )?(?:exited with |finished with )?"
    r"(?:exit ?code|return ?code|exit status|exit_code|returncode)\s*[:=]?\s*(-?\d{1,10})\b",
    re.IGNORECASE,
)
_HTTP = re.compile(
    r"\A\W{0,3}(?:HTTP/\d(?:\.\d)?\s+|HTTP (?:status |error )?(?:code )?:?\s*|"
    r"status(?: code)?\s*[:=]?\s*|Error\s+(?:code:?\s*)?)([1-5]\d\d)\b",
    re.IGNORECASE,
)
_LEADING = re.compile(
    r"\A\W{0,3}(?:(?:fatal|tool|execution|runtime|unexpected|api|internal)[ _-]?)?"
    r"(?:error|exception|failure)\b(?: (?:executing|calling|running|while|in)\b[^\n:]{0,80})?\s*:",
    re.IGNORECASE,
)
# `ValueError: x`, `requests.exceptions.HTTPError: x` as a line of its own.
_RAISED = re.compile(r"(?:\A|\n)(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception)(?:: |\Z|\n)")
_TRACEBACK = re.compile(r"(?:\A|\n)\s*Traceback \(most recent call last\):")
_CODES = ("exit_code", "exitCode", "returncode", "return_code")
_STATUSES = ("status_code", "statusCode")
# Keys by which an object speaks of itself; most say nothing.
_TELLING = frozenset(
    {"error", "isError", "is_error", "success", "ok", "status", *_CODES, *_STATUSES}
)


class Judged(NamedTuple):
    """What a result's text says of itself: the first three fields of a `ToolResult`'s belief."""

    status: ResultStatus
    source: Belief
    error: str | None


UNKNOWN = Judged("unknown", "none", None)
OK = Judged("ok", "heuristic", None)


def judge_text(text: str) -> Judged:
    """Return error, ok or unknown for the text of a tool result.

    >>> judge_text("Error: no such user").status, judge_text("Errors are rare").status
    ('error', 'unknown')
    >>> judge_text('{"error": null, "rows": []}').status
    'ok'
    """
    # Looking for a plain word is ten times faster than for what begins a line.
    lowered = text.lower()
    code = _EXIT.search(text) if "exit" in lowered or "return" in lowered else None
    if code is not None:
        return OK if int(code.group(1)) == 0 else error(text)
    if _LEADING.match(text) or _RAISED.match(text):
        return error(text)
    if "Traceback" in text and _TRACEBACK.search(text):
        return error(text)
    http = _HTTP.match(text)
    if http is not None:
        return error(text) if http.group(1)[0] in "45" else OK
    if text[:1] == "{" and len(text) <= _JSON_BYTES:
        return _judge_json(text)
    return UNKNOWN


def error(text: str) -> Judged:
    """Return the belief that a text tells of an error, quoting it."""
    return Judged("error", "heuristic", text.strip()[:_QUOTE])


def _judge_json(text: str) -> Judged:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return UNKNOWN
    return judge_object(value, text)


def judge_object(value: Json, text: str) -> Judged:
    """Return what a decoded JSON result says of itself; `text` is what an error quotes."""
    if not isinstance(value, dict) or _TELLING.isdisjoint(value):
        return UNKNOWN
    flags = _flags(value)
    if False in flags:
        return error(text)
    return OK if flags else UNKNOWN


def _flags(value: dict[str, Json]) -> list[bool]:
    """Every verdict that the object gives of itself: True for well."""
    flags: list[bool] = []
    if "error" in value:
        flags.append(not value["error"])
    flags += [not value[key] for key in ("isError", "is_error") if isinstance(value.get(key), bool)]
    flags += [value[key] for key in ("success", "ok") if isinstance(value.get(key), bool)]
    flags += [value[key] == 0 for key in _CODES if isinstance(value.get(key), int)]
    flags += [value[key] < 400 for key in _STATUSES if isinstance(value.get(key), int)]
    status = value.get("status")
    if isinstance(status, str) and status.lower() in {"error", "failed", "failure"}:
        flags.append(False)
    elif isinstance(status, str) and status.lower() in {"success", "ok", "succeeded"}:
        flags.append(True)
    return flags
