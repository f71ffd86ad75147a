"""Read attributes of a span: JSON in text, keys with indexes, numbers in text, arguments of a tool.

Every reader takes what is there in the form that its recorder chose; a value of another type than
expected reads as absent. Nothing is refused.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.fields import parse_call
from stepscope.model import Json, ToolCall, TraceLabel, Usage
from stepscope.safety.json import decode
from stepscope.safety.limits import Limits

_starts_object = re.compile(r"\s*[\[{]").match
# An index beyond this is no place in a list that any exporter wrote.
_MAX_ENTRIES = 100_000


def decode_object(value: Json, limits: Limits) -> Json:
    """Return a value; text that holds a JSON object or list is taken apart."""
    held = isinstance(value, str) and _starts_object(value)
    return decode_value(value, limits) if held else value


def decode_value(value: Json, limits: Limits) -> Json:
    """Return a value; text that holds any JSON, a text or a number too, is taken apart."""
    if not isinstance(value, str):
        return value
    try:
        return decode(value.encode(), limits=limits).value
    except (TraceError, UnicodeEncodeError):
        return value


def find_text(attributes: Mapping[str, Json], *keys: str) -> str | None:
    """Return the first text under any of the keys, None where there is none."""
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, str) and value:
            return value
    return None


def find_value(attributes: Mapping[str, Json], *keys: str) -> Json:
    """Return what stands under the first of the keys that holds anything."""
    return next((found for key in keys if (found := attributes.get(key)) is not None), None)


def find_count(attributes: Mapping[str, Json], *keys: str) -> int | None:
    """Return the first whole number, 0 or above, under any of the keys."""
    for key in keys:
        found = attributes.get(key)
        if isinstance(found, str) and found.isdecimal() and len(found) < 19:
            return int(found)
        if isinstance(found, float) and found.is_integer():
            found = int(found)
        if isinstance(found, int) and not isinstance(found, bool) and found >= 0:
            return found
    return None


def find_number(attributes: Mapping[str, Json], *keys: str) -> float | None:
    """Return the first finite number, 0 or above, under any of the keys."""
    for key in keys:
        found = attributes.get(key)
        if isinstance(found, int | float) and not isinstance(found, bool):
            if found >= 0 and math.isfinite(found):
                return float(found)
    return None


def normalise_usage(
    given: int | None,
    made: int | None,
    *,
    read: int | None = None,
    written: int | None = None,
    reasoning: int | None = None,
) -> Usage | None:
    """Return token counts with one meaning; None where nothing is told.

    Conventions say that input includes the cache, and some exporters leave it out: an input smaller
    than its own cache does not include it.
    """
    cached = (read or 0) + (written or 0)
    if given is not None and given < cached:
        given += cached
    told = Usage(
        input_total=given,
        cache_read=read,
        cache_write=written,
        output_total=made,
        reasoning=reasoning,
    )
    return None if told == Usage() else told


def unflatten_list(attributes: Mapping[str, Json], prefix: str) -> list[Json]:
    """Return what stands under indexed keys as a list of nested values, gaps left out."""
    listed = unflatten(attributes, prefix)
    return listed if isinstance(listed, list) else []


def unflatten(attributes: Mapping[str, Json], prefix: str) -> Json:
    """Return what stands under dotted keys as the value that was spread over them."""
    tree: dict[str, Json] = {}
    for key, found in attributes.items():
        if not key.startswith(prefix):
            continue
        *path, last = key[len(prefix) :].split(".")
        at = tree
        for name in path:
            under = at.get(name)
            if not isinstance(under, dict):
                under = at[name] = {}
            at = under
        at[last] = found
    return _list_of_indexes(tree)


def _list_of_indexes(tree: Json) -> Json:
    if not isinstance(tree, dict):
        return tree
    inner = {key: _list_of_indexes(found) for key, found in tree.items()}
    if inner and all(key.isdecimal() and len(key) < 7 and int(key) < _MAX_ENTRIES for key in inner):
        return [inner[key] for key in sorted(inner, key=int)]
    return inner


# The printed form of an object is read up to this many characters.
_MAX_PYTHON_CHARS = 100_000


def make_tool_call(name: str, made: Json, call_id: str | None, limits: Limits) -> ToolCall:
    """Return the call of a tool's span; no arguments at all are an empty object."""
    held = unwrap_arguments(made, limits)
    if isinstance(held, str) and (fields := parse_python_object(held)) is not None:
        return msgspec.structs.replace(parse_call(name, fields, call_id, limits=limits), raw=held)
    return parse_call(name, {} if held is None else held, call_id, limits=limits)


def parse_python_object(said: str) -> dict[str, Json] | None:
    """Return an object that Python printed, None where the text is none."""
    if not said.startswith("{") or len(said) > _MAX_PYTHON_CHARS:
        return None
    try:
        value = msgspec.json.decode(msgspec.json.encode(ast.literal_eval(said)))
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None  # not printed by Python
    except (OverflowError, msgspec.MsgspecError):
        return None  # not to be said in JSON
    return value if isinstance(value, dict) else None


def unwrap_arguments(made: Json, limits: Limits) -> Json:
    """Return a tool's arguments, out of what decorators and callbacks wrap them in."""
    held = decode_object(made, limits)
    if not isinstance(held, dict):
        return made
    if held.keys() == {"args", "kwargs"} and held["args"] in ([], None):
        return held["kwargs"]
    if "input_str" in held and isinstance(held.get("inputs"), dict):
        return held["inputs"]
    return made


def label_evaluation(about: Mapping[str, Json], more: Mapping[str, Json]) -> TraceLabel:
    """Return one evaluation: its name is the category, all that it says stays beside."""
    return TraceLabel(
        kind="note",
        category=find_text(about, "name"),
        reason=find_text(about, "explanation") or "",
        annotator=find_text(about, "annotator_kind") or "unknown",
        extra={**about, **more} or None,
    )


_CACHE_READ = (
    "input_cached_tokens cache_read_input_tokens input_cache_read prompt_details.cache_read".split()
)
_CACHE_WRITTEN = (
    "cache_creation_input_tokens input_cache_creation input_cache_write_tokens "
    "prompt_details.cache_write".split()
)
_REASONED = "output_reasoning_tokens output_reasoning completion_details.reasoning".split()


def read_usage_details(told: Json, limits: Limits) -> Usage | None:
    """Return token counts that are listed by name, input with its cache.

    Whether `input` includes its own details is not the same everywhere; where there is a total, it
    tells. Names are Langfuse's, and those of providers, which some integrations pass on.
    """
    told = decode_object(told, limits)
    if not isinstance(told, dict):
        return None
    given = find_count(told, "input", "prompt_tokens", "input_tokens", "promptTokens")
    made = find_count(told, "output", "completion_tokens", "output_tokens", "completionTokens")
    total = find_count(told, "total", "total_tokens", "totalTokens")
    if total is not None and given is not None and made is not None:
        more_in = _sum_details(told, "input", "prompt")
        more_out = _sum_details(told, "output", "completion")
        for in_too, out_too in ((0, 0), (more_in, more_out), (more_in, 0), (0, more_out)):
            if given + in_too + made + out_too == total:
                given, made = given + in_too, made + out_too
                break
    return normalise_usage(
        given,
        made,
        read=find_count(told, *_CACHE_READ),
        written=find_count(told, *_CACHE_WRITTEN),
        reasoning=find_count(told, *_REASONED),
    )


def _sum_details(told: Mapping[str, Json], *words: str) -> int:
    plain = {f"{word}{end}" for word in words for end in ("", "_tokens", "Tokens")}
    named = [key for key in told if any(word in key for word in words) and key not in plain]
    return sum([find_count(told, key) or 0 for key in named])


# The values of one kind or another that an AnyValue may hold.
_ANY_VALUE_KEYS = ("stringValue", "boolValue", "doubleValue", "bytesValue")


def decode_any_value(value: Json) -> Json:
    """Return what an AnyValue holds; bytes stay base64, a whole number becomes one."""
    if not isinstance(value, dict):
        return value
    for key in _ANY_VALUE_KEYS:
        if key in value:
            return value[key]
    if "intValue" in value:
        return parse_whole(value["intValue"])
    if "arrayValue" in value:
        return [decode_any_value(entry) for entry in _any_values(value["arrayValue"])]
    if "kvlistValue" in value:
        return decode_attributes(_any_values(value["kvlistValue"]))
    camel = {to_camel_case(key): found for key, found in value.items()}
    return (value or None) if camel.keys() == value.keys() else decode_any_value(camel)


def parse_whole(value: Json) -> Json:
    """Return a whole number out of text or a float, anything else as it is."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return value


def _any_values(held: Json) -> list[Json]:
    listed = held.get("values") if isinstance(held, dict) else held
    return listed if isinstance(listed, list) else []


def decode_attributes(listed: Json) -> dict[str, Json]:
    """Return a list of keys and values as an object; of a key given twice the last counts."""
    found: dict[str, Json] = {}
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("key"), str):
            found[entry["key"]] = decode_any_value(entry.get("value"))
    return found


def to_camel_case(key: str) -> str:
    """Return a snake_case key as the protocol's JSON has it."""
    first, *others = key.split("_")
    return first + "".join([word.capitalize() for word in others])
