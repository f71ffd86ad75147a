"""Whether the text of a tool result tells of an error, where the format has no flag.

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
_QUOTE_LENGTH = 200

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
_EXIT_CODE_KEYS = ("exit_code", "exitCode", "returncode", "return_code")
_HTTP_STATUS_KEYS = ("status_code", "statusCode")
# Keys by which an object speaks of itself; most say nothing.
_STATUS_KEYS = frozenset(
    {
        "error",
        "isError",
        "is_error",
        "success",
        "ok",
        "status",
        *_EXIT_CODE_KEYS,
        *_HTTP_STATUS_KEYS,
    }
)


class ToolStatus(NamedTuple):
    """What a result's text says of itself: the first three fields of a `ToolResult`'s belief."""

    status: ResultStatus
    source: Belief
    error: str | None


UNKNOWN_STATUS = ToolStatus("unknown", "none", None)
OK_STATUS = ToolStatus("ok", "heuristic", None)


def infer_text_status(text: str) -> ToolStatus:
    """Return error, ok or unknown for the text of a tool result.

    >>> infer_text_status("Error: no such user").status, infer_text_status("Errors are rare").status
    ('error', 'unknown')
    >>> infer_text_status('{"error_status": null, "rows": []}').status
    'ok'
    """
    # Looking for a plain word is ten times faster than for what begins a line.
    lowered = text.lower()
    code = _EXIT.search(text) if "exit" in lowered or "return" in lowered else None
    if code is not None:
        return OK_STATUS if int(code.group(1)) == 0 else error_status(text)
    if _LEADING.match(text) or _RAISED.match(text):
        return error_status(text)
    if "Traceback" in text and _TRACEBACK.search(text):
        return error_status(text)
    http = _HTTP.match(text)
    if http is not None:
        return error_status(text) if http.group(1)[0] in "45" else OK_STATUS
    if text[:1] == "{" and len(text) <= _JSON_BYTES:
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return UNKNOWN_STATUS
        return infer_object_status(value, text)
    return UNKNOWN_STATUS


def error_status(text: str) -> ToolStatus:
    """Return the belief that a text tells of an error, quoting it."""
    return ToolStatus("error", "heuristic", text.strip()[:_QUOTE_LENGTH])


def infer_object_status(value: Json, text: str) -> ToolStatus:
    """Return what a decoded JSON result says of itself; `text` is what an error quotes."""
    if not isinstance(value, dict) or _STATUS_KEYS.isdisjoint(value):
        return UNKNOWN_STATUS
    # Every verdict that the object gives of itself: True for well.
    flags: list[bool] = []
    if "error" in value:
        flags.append(not value["error"])
    flags += [not value[key] for key in ("isError", "is_error") if isinstance(value.get(key), bool)]
    flags += [value[key] for key in ("success", "ok") if isinstance(value.get(key), bool)]
    flags += [value[key] == 0 for key in _EXIT_CODE_KEYS if isinstance(value.get(key), int)]
    flags += [value[key] < 400 for key in _HTTP_STATUS_KEYS if isinstance(value.get(key), int)]
    status = value.get("status")
    if isinstance(status, str) and status.lower() in {"error", "failed", "failure"}:
        flags.append(False)
    elif isinstance(status, str) and status.lower() in {"success", "ok", "succeeded"}:
        flags.append(True)
    if False in flags:
        return error_status(text)
    return OK_STATUS if flags else UNKNOWN_STATUS
