"""Fields that many formats share: calls, tools, times, token counts, media, tool status.

Token counts have one meaning: input includes cache, output includes reasoning. OpenAI's and ATIF's
input already includes the cache; Anthropic's excludes it, so both cache counts are added. A count
that is no whole number, or below zero, is absent. Times are nanoseconds UTC beside the text as it
stood. A link to an image or a file is never followed.
Where a format has no flag of a tool's failure, the status of a result is inferred from its text and
marked `heuristic`. Only a text's own verdict counts: an exit code, an HTTP status, a JSON `error`
field, a traceback, a leading `Error:`. A text that merely mentions errors decides nothing. An exit
code beats what the output says after it.
Source: OpenAI SDK 3.54.0 `CompletionUsage`, `ResponseUsage`; Anthropic SDK 2.12.0 `Usage`.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Annotated, Any, NamedTuple

import msgspec

from stepscope.errors import TraceError
from stepscope.model import (
    Belief,
    Instant,
    Json,
    Part,
    PartKind,
    ResultStatus,
    Step,
    StepKind,
    SubGoal,
    ToolCall,
    ToolDef,
    ToolResult,
    Usage,
)
from stepscope.model.effects import infer_effect
from stepscope.safety.json import decode
from stepscope.safety.limits import Limits
from stepscope.values import sum_known

# Arguments that hold no objects and no number beyond 64 bits; others are the door's business.
_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_load_flat = msgspec.json.Decoder(dict[str, str | _Int64 | float | bool | list[str] | None]).decode


def parse_call(
    name: str,
    arguments: Json,
    call_id: str | None,
    *,
    limits: Limits,
    extra: dict[str, Json] | None = None,
) -> ToolCall:
    """Return a tool call; arguments given as text are decoded, and kept as text beside.

    Text that is no JSON is data: the call then has `parse_error` and no arguments. Empty text is
    how some recorders write a call without arguments. What the door repaired is named in `extra`.
    """
    if type(arguments) is not str:
        return ToolCall(name, arguments, call_id, extra=extra)
    try:
        flat = _load_flat(arguments)
    except (msgspec.MsgspecError, UnicodeError):
        flat = None
    # Nearly every call is plain and short: as many colons as keys, so that none came twice.
    if (
        flat is not None
        and len(flat) == arguments.count(":")
        and len(arguments) <= limits.text_bytes
        and "\\u0000" not in arguments
    ):
        return ToolCall(name, flat, call_id, arguments, extra=extra)
    if not arguments.strip():
        return ToolCall(name, {}, call_id, arguments, extra=extra)
    try:
        value, repairs = decode(arguments.encode(), limits=limits)
    except TraceError as e:
        return ToolCall(name, None, call_id, arguments, str(e), extra=extra)
    if repairs:
        extra = {**(extra or {}), "repaired": [repair.code for repair in repairs]}
    return ToolCall(name, value, call_id, arguments, extra=extra)


def object_at(record: Json, key: str) -> dict[str, Json]:
    """Return the object under a key of an object, an empty one where there is none."""
    value = record.get(key) if isinstance(record, dict) else None
    return value if isinstance(value, dict) else {}


def expect_object(value: Json, what: str) -> dict[str, Json]:
    """Return a value that is an object; anything else is refused, `what` saying where it stands."""
    if isinstance(value, dict):
        return value
    raise TraceError(f"{what}; found {str(value)[:60]!r}")


def entries_at(record: Json, key: str) -> list[Json]:
    """Return the list under a key of an object, an empty one where there is none."""
    value = record.get(key) if isinstance(record, dict) else None
    return value if isinstance(value, list) else []


def parts_text(parts: Iterable[Part]) -> str:
    """Return the texts of parts, a line each."""
    return "\n".join([part.text for part in parts if part.text is not None])


def step_kind(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> StepKind:
    """Return what kind of step makes these calls or holds these results."""
    return "call" if calls else "result" if results else "message"


def merge_extra(*extras: dict[str, Json] | None) -> dict[str, Json] | None:
    """Return what several extras say, of a key the last; None where they say nothing."""
    return {key: value for extra in extras for key, value in (extra or {}).items()} or None


def text_at(record: dict[str, Json], key: str) -> str | None:
    """Return the text under a key, None where there is none, or something else than text."""
    value = record.get(key)
    return value if isinstance(value, str) else None


def list_at(record: dict[str, Json], key: str) -> list[Json]:
    """Return the list under a key, an empty one where there is none; anything else is refused."""
    value = record.get(key)
    if value is None or isinstance(value, list):
        return value or []
    raise TraceError(f"`{key}` is {str(value)[:60]!r}; expected a list")


def sub_goals(actions: Iterable[tuple[str, dict[str, Json]]]) -> tuple[SubGoal, ...]:
    """Return a sub-goal for every action (name, arguments) that writes; same names are numbered."""
    used: Counter[str] = Counter()
    goals = []
    for name, arguments in actions:
        if infer_effect(name) == "write":
            used[name] += 1
            goal = name if used[name] == 1 else f"{name} {used[name]}"
            goals.append(SubGoal(goal, name, arguments))
    return tuple(goals)


def rest(record: dict[str, Json], known: frozenset[str]) -> dict[str, Json] | None:
    """Return what a record says beyond the known keys, None where nothing, as null says nothing."""
    if record.keys() <= known:
        return None
    return {k: v for k, v in record.items() if k not in known and v is not None} or None


# Where OpenAI, Anthropic and MCP have the schema of a tool's arguments.
_SCHEMAS = ("parameters", "input_schema", "inputSchema")


def tool_defs(listed: Json) -> tuple[ToolDef, ...] | None:
    """Return the tools of a list, in OpenAI's, Anthropic's or a bare shape; None without one."""
    return tuple([tool_def(tool) for tool in listed]) if isinstance(listed, list) else None


def function_json(tool: ToolDef) -> dict[str, Json]:
    """Return an offered tool as OpenAI has it under `function`."""
    told = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {key: value for key, value in told.items() if value is not None}


def read_tools(listed: Json) -> tuple[ToolDef, ...]:
    """Return the tools of a list, or of an object that has it under `tools`, as MCP answers.

    `TraceError` where there is no such list, or a tool of it has no name of its own.
    """
    while isinstance(listed, dict):
        listed = listed.get("tools", listed.get("result"))
    if not isinstance(listed, list) or not listed:
        raise TraceError("no list of tools in it")
    tools = tuple(map(tool_def, listed))
    for at, tool in enumerate(tools):
        known = [one.name for one in tools[:at]]
        if not (isinstance(listed[at], dict) and tool.name) or tool.name in known:
            raise TraceError(f"tool {at + 1} has no name of its own, but {tool.name!r}")
    return tools


def tool_def(tool: Json) -> ToolDef:
    """Return one offered tool; what it says beyond name, description and schema is kept."""
    if not isinstance(tool, dict):
        return ToolDef(str(tool))
    inner = tool.get("function")
    about = inner if isinstance(inner, dict) else tool
    name, told, schema = about.get("name"), about.get("description"), None
    for key in _SCHEMAS:
        schema = about[key] if isinstance(about.get(key), dict) else schema
    extra = {**(rest(about, frozenset({"name", "description", "type", *_SCHEMAS})) or {})}
    if about is not tool:
        extra.update(rest(tool, frozenset({"type", "function"})) or {})
    kind = tool.get("type")
    if kind is not None and kind != "function":
        extra["type"] = kind
    named = name if isinstance(name, str) else str(kind or "")
    described = told if isinstance(told, str) else None
    return ToolDef(named, described, schema, extra=extra or None)


def data_part(
    kind: PartKind, media_type: str | None, data: str, *, extra: dict[str, Json] | None = None
) -> Part:
    """Return a part of base64 `data`, with size and hash of what it decodes to, if it does."""
    try:
        content = base64.b64decode(data, validate=True)
    except ValueError:
        return Part(kind, media_type=media_type, data=data, extra=extra)
    size, digest = len(content), sha256(content).hexdigest()
    return Part(kind, media_type=media_type, size=size, sha256=digest, data=data, extra=extra)


def url_part(kind: PartKind, url: str, *, extra: dict[str, Json] | None = None) -> Part:
    """Return a part for a URL: a `data:` URL is taken apart, any other is only kept."""
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return data_part(kind, head[5:-7] or None, data, extra=extra)
    return Part(kind, uri=url, extra=extra)


class Content(NamedTuple):
    """What a message holds, sorted by what it is; `extra` is what it says beside its blocks."""

    parts: tuple[Part, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    extra: dict[str, Json] | None = None


def sort_content(pieces: Iterable[Part | ToolCall | ToolResult | None]) -> Content:
    """Return parts, calls and results as the content that they are of, None left out."""
    parts, calls, results = list[Part](), list[ToolCall](), list[ToolResult]()
    for piece in pieces:
        if isinstance(piece, Part):
            parts.append(piece)
        elif isinstance(piece, ToolCall):
            calls.append(piece)
        elif piece is not None:
            results.append(piece)
    return Content(tuple(parts), tuple(calls), tuple(results))


class ModelStats(msgspec.Struct, gc=False):
    """`model_stats`, as far as it is read; the whole stays in the run's `extra`."""

    instance_cost: float | None = None
    tokens_sent: int | None = None
    tokens_received: int | None = None
    api_calls: int | None = None

    @property
    def usage(self) -> Usage | None:
        """The tokens of the run, None where none were counted."""
        sent, received = self.tokens_sent or 0, self.tokens_received or 0
        if min(sent, received) < 0 or not sent + received:
            return None
        return Usage(input_total=self.tokens_sent, output_total=self.tokens_received)

    @property
    def cost_usd(self) -> float | None:
        """The cost of the run in USD, None where no call of a model was counted."""
        return None if self.api_calls == 0 and not self.instance_cost else self.instance_cost


class SweAgentInfo(msgspec.Struct, gc=False):
    """`info`, as SWE-agent and mini-swe-agent write it."""

    exit_status: str | None = None
    swe_agent_version: str | None = None
    mini_version: str | None = None
    model_stats: ModelStats | None = None
    config: Any = None


_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?)(?:[.,](\d{1,9})\d*)?\s*(Z|z|[+-]\d\d:?\d\d|)\Z"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# Most times have six digits of a second and an offset, and Python reads those ten times as fast.
_USUAL_LENGTH = len("2025-12-24T10:00:00.500000+01:00")
# The unit of a bare number: seconds since 1970 have ten digits until 2286, finer units 3 more each.
_UNITS = ((1e11, 1_000_000_000), (1e14, 1_000_000), (1e17, 1_000), (1e20, 1))


def parse_time(value: Json) -> Instant | None:
    """Return an ISO 8601 text or a number since 1970 as a time, None where it is neither.

    Without an offset a time is taken as UTC. Digits finer than nanoseconds are cut.
    """
    if isinstance(value, str):
        return _parse_time_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    for limit, factor in _UNITS:
        if abs(value) < limit:
            return Instant(round(value * factor), str(value))
    return None


def parse_ns(value: Json) -> int | None:
    """Return a time as nanoseconds UTC since 1970, None where it is none."""
    time = parse_time(value)
    return None if time is None else time.ns


def _parse_time_text(text: str) -> Instant | None:
    if len(text) == _USUAL_LENGTH and text[0] == "2" and text[10:20:9] == "T." and text[26] in "+-":
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


def time_bounds(steps: Sequence[Step]) -> tuple[Instant | None, Instant | None]:
    """Return the earliest start and the latest time of any step, None where no step has times."""
    starts = [step.start for step in steps if step.start is not None]
    ends = [step.end for step in steps if step.end is not None]
    first = min(starts, key=lambda time: time.ns, default=None)
    return first, max(starts + ends, key=lambda time: time.ns, default=None)


# What a usage of OpenAI's or LangChain's counts, in its own object and in those of its details.
_COUNTED = frozenset(
    "prompt_tokens input_tokens completion_tokens output_tokens total_tokens".split()
)
_DETAILED = frozenset(
    "cached_tokens cache_write_tokens reasoning_tokens "
    "cache_read cache_creation cache_write reasoning".split()
)
_DETAILS = frozenset(
    "prompt_tokens_details input_tokens_details completion_tokens_details output_tokens_details "
    "input_token_details output_token_details".split()
)


# The counts of a `Usage`.
USAGE_COUNTS = ("input_total", "cache_read", "cache_write", "output_total", "reasoning")


def openai_usage(usage: Json) -> Usage | None:
    """Return the usage of a Chat Completions or Responses body, None where it has none."""
    if not isinstance(usage, dict):
        return None
    inputs = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    outputs = usage.get("completion_tokens_details") or usage.get("output_tokens_details")
    counts = Usage(
        input_total=_token_count(usage, "prompt_tokens", "input_tokens"),
        cache_read=_token_count(inputs, "cached_tokens"),
        cache_write=_token_count(inputs, "cache_write_tokens"),
        output_total=_token_count(usage, "completion_tokens", "output_tokens"),
        reasoning=_token_count(outputs, "reasoning_tokens"),
    )
    return known_usage(counts)


def uncounted_usage(usage: Json) -> dict[str, Json] | None:
    """Return what a usage of OpenAI's or LangChain's says beyond its counts, None for nothing."""
    if not isinstance(usage, dict):
        return None
    found: dict[str, Json] = {}
    for key, value in usage.items():
        if key in _DETAILS and isinstance(value, dict):
            value = {inner: n for inner, n in value.items() if inner not in _DETAILED} or None
        if key not in _COUNTED and value is not None:
            found[key] = value
    return found or None


def anthropic_usage(usage: Json) -> Usage | None:
    """Return the usage of an Anthropic message, cache added to its input; None without any."""
    if not isinstance(usage, dict):
        return None
    fresh = _token_count(usage, "input_tokens")
    read = _token_count(usage, "cache_read_input_tokens")
    written = _token_count(usage, "cache_creation_input_tokens")
    counts = Usage(
        input_total=None if fresh is None else fresh + (read or 0) + (written or 0),
        cache_read=read,
        cache_write=written,
        output_total=_token_count(usage, "output_tokens"),
        reasoning=_token_count(usage.get("output_tokens_details"), "thinking_tokens"),
    )
    return known_usage(counts)


def total_usage(steps: Iterable[Step]) -> Usage | None:
    """Return the sum of the usages of steps; a field that no step has stays None."""
    usages = [step.usage for step in steps if step.usage is not None]
    sums: dict[str, Any] = {
        name: sum_known(getattr(usage, name) for usage in usages) for name in USAGE_COUNTS
    }
    return known_usage(Usage(**sums))


def known_usage(usage: Usage) -> Usage | None:
    """Return token counts, None where none is known."""
    return None if usage == Usage() else usage


def _token_count(usage: Json, *keys: str) -> int | None:
    if not isinstance(usage, dict):
        return None
    for key in keys:
        count = usage.get(key)
        if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
            return count
    return None


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
_STATUS_KEYS = frozenset("error isError is_error success ok status".split()).union(
    _EXIT_CODE_KEYS, _HTTP_STATUS_KEYS
)


class ToolStatus(NamedTuple):
    """What a result's text says of itself: the first three fields of a `ToolResult`'s belief."""

    status: ResultStatus
    source: Belief
    error: str | None


UNKNOWN_STATUS = ToolStatus("unknown", "none", None)
OK_STATUS = ToolStatus("ok", "heuristic", None)


def infer_text_status(text: str) -> ToolStatus:
    """Return error, ok or unknown for the text of a tool result."""
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


def passed_control(result: ToolResult) -> ToolResult:
    """Return the answer to a call that handed control to another agent, which came about."""
    if result.status != "unknown":
        return result
    return msgspec.structs.replace(result, status="ok", source="protocol")


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
    return error_status(text) if False in flags else OK_STATUS if flags else UNKNOWN_STATUS
