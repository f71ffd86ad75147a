"""What a model is asked and how one provider's protocol says it: asks, chats, dialects.

A judge's request becomes a chat, and the schema of the answer. A dialect turns them into plain
JSON, so that the same words go over the wire at once and into a batch, and takes the answer out of
a reply. An ask is a request to one judge under the key of its reply.

Also checks values against JSON schemas: a reply against the one that its endpoint accepted, a
call's arguments against the one that their tool declares. Keywords checked: type, enum, const,
required, properties, additionalProperties, items, prefixItems, minItems, maxItems, minimum,
maximum, exclusiveMinimum, exclusiveMaximum, minLength, maxLength, pattern, anyOf, oneOf, allOf and
local $ref; any other is left unread and never condemns. A schema in a trace is hostile text:
patterns that could run for ever are not run, and work is bounded (`BUDGET`, `DEPTH`).

Source: JSON Schema 2020-12, core and validation vocabularies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Literal, NamedTuple, TypeGuard

import msgspec

from stepscope.errors import ConfigError
from stepscope.model import Endpoint, Json, Media, Reply, Request, Structure
from stepscope.safety.limits import TextPattern, compile_pattern

_encode = msgspec.json.encode


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One request to one model."""

    key: str  # under which its reply is bought, once: see `reply_key`
    model: str  # whose reply it is, by name: provider, slash, model
    request: Request  # what is sent
    images_left_out: int = 0  # how many images of its steps are not sent though images are


def reply_key(judge: str, request: Request, repeat: int) -> str:
    """Return 64 hex digits over everything that makes a reply: judge, request and repeat.

    The request holds the slice of the run, the rubric and its version, the prompt and the
    parameters, so that any change of them is another purchase.
    """
    return sha256(_encode((judge, _hashed_request(request), repeat))).hexdigest()


def request_hash(judge: str, request: Request) -> str:
    """Return 64 hex digits over what is sent: equal for all repeats."""
    return sha256(_encode((judge, _hashed_request(request)))).hexdigest()


def _hashed_request(request: Request) -> dict[str, Json]:
    """Return a request as it is hashed: without media where it has none, and never their data."""
    told: dict[str, Json] = msgspec.to_builtins(request, order="deterministic")
    media = [(one.content_type, one.sha256, one.words) for one in request.media]
    return {**told, "media": media} if media else {k: v for k, v in told.items() if k != "media"}


class ChatMessage(NamedTuple):
    """One message of a chat: texts and images, in the order in which the model reads them."""

    role: Literal["system", "user"]
    parts: tuple[str | Media, ...]
    shared: int = 0  # how many of the first parts other chats share: a provider may cache them


def chat_messages(request: Request, structure: Structure) -> tuple[ChatMessage, ...]:
    """Return a judge's request as a chat: rubric, then trace, images and question in one turn.

    For a model that takes no schema the rubric says it in words.
    """
    system = request.system
    if structure == "prompt_only":
        system += (
            "\n\nAnswer with one JSON object and nothing else: no text around it, no code fence. "
            f"It fits this JSON schema:\n{msgspec.json.encode(request.schema).decode()}"
        )
    shared: list[str | Media] = [request.context] if request.context else []
    for image in request.media:
        shared += (image.words, image)
    return (
        ChatMessage("system", (system,), shared=1),
        ChatMessage("user", (*shared, request.question), len(shared)),
    )


class ContentBlock(msgspec.Struct, frozen=True):
    """One block of a message's content, as both protocols write it."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None
    input: msgspec.Raw = msgspec.Raw()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One protocol."""

    path: str  # what is posted to, below the base URL
    request_id: str  # the header that names a request, for the provider's support
    structures: tuple[Structure, ...]  # how structured output can be asked for, the strictest first
    parameters: Callable[[Endpoint, Request, Structure], dict[str, Json]]  # what is sent
    # answer, stop, tokens and snapshot in a body; raises `ModelError` where it is none
    read: Callable[[Endpoint, bytes, Structure], Reply]


def token_count(value: object) -> int | None:
    """Return a number of tokens; None for what is no such number."""
    return value if type(value) is int and value >= 0 else None


def ignores_schema(request: Request, reply: Reply) -> bool:
    """Return whether a finished reply breaks a schema that the endpoint had promised to enforce.

    In words alone (`prompt_only`) nothing was promised; cut off or refused, nothing was finished.
    """
    if reply.stop != "end" or reply.structure == "prompt_only":
        return False
    try:
        value = msgspec.json.decode(reply.text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return True
    return find_schema_fault(value, request.schema) is not None


# Schemas looked at for one call, and one inside the other: real ones take tens, and five; a $ref
# to itself never ends, and two of them in an anyOf explode.
BUDGET = 2_000
DEPTH = 64
# A pattern is run only on short texts, and only if no group of it repeats (see `_pattern`).
PATTERN_CHARACTERS = 200
TEXT_CHARACTERS = 256
# A value quoted in a reason.
QUOTE_CHARACTERS = 40

# A single value with no more than these needs only its type looked at: most arguments.
_PLAIN = frozenset({"type", "description", "title", "default", "enum"})
_REPEATED_GROUP = re.compile(r"\)[*+{]")
_UNBOUNDED = re.compile(r"[*+]|,\}")
_UNBOUNDED_AT_MOST = 2


def find_schema_fault(value: Json, schema: Json) -> str | None:
    """Return why a value is no instance of a schema, as far as its words are known; else None."""
    return next(_Check(schema).faults(value, schema, ""), None)


@dataclass
class _Check:
    """One walk over a value and its schema, with what is left of the budget."""

    _root: Json
    _left: int = BUDGET
    _depth: int = 0

    def faults(self, value: Json, schema: Json, at: str) -> Iterator[str]:
        """Yield one sentence for each breach."""
        if schema is False:
            yield f"{at or 'it'} is not allowed"
        self._left -= 1
        if self._left < 0 or self._depth >= DEPTH or not isinstance(schema, dict):
            return
        if schema.keys() <= _PLAIN and not isinstance(value, dict | list):
            yield from _of_type(value, schema, at)
            return
        self._depth += 1
        yield from _of_type(value, schema, at)
        yield from _of_range(value, schema, at)
        if "$ref" in schema:
            yield from self.faults(value, self._resolve(schema["$ref"]), at)
        if isinstance(value, dict):
            yield from self._object(value, schema, at)
        elif isinstance(value, list):
            yield from self._array(value, schema, at)
        yield from self._combined(value, schema, at)
        self._depth -= 1

    def _resolve(self, pointer: Json) -> Json:
        target: Json = self._root
        if not isinstance(pointer, str) or not pointer.startswith("#"):
            return None
        for name in pointer[1:].split("/")[1:]:
            if not isinstance(target, dict):
                return None
            target = target.get(name.replace("~1", "/").replace("~0", "~"))
        return target

    def _object(self, value: dict[str, Json], schema: dict[str, Json], at: str) -> Iterator[str]:
        required = schema.get("required")
        for name in required if isinstance(required, list) else ():
            if isinstance(name, str) and name not in value:
                yield f"{_path(at, name)} is required and missing"
        given = schema.get("properties")
        properties = given if isinstance(given, dict) else {}
        others = schema.get("additionalProperties", True)
        patterns = schema.get("patternProperties")
        for name, member in value.items():
            if name in properties:
                yield from self.faults(member, properties[name], _path(at, name))
            elif others is False and not patterns:
                yield f"{_path(at, name)} is not declared"
            elif isinstance(others, dict) and not patterns:
                yield from self.faults(member, others, _path(at, name))

    def _array(self, value: list[Json], schema: dict[str, Json], at: str) -> Iterator[str]:
        low, high = schema.get("minItems"), schema.get("maxItems")
        if _is_number(low) and len(value) < low:
            yield f"{at} has {len(value)} entries, at least {low} expected"
        if _is_number(high) and len(value) > high:
            yield f"{at} has {len(value)} entries, at most {high} expected"
        given = schema.get("prefixItems")
        first = given if isinstance(given, list) else []
        for number, member in enumerate(value):
            each = first[number] if number < len(first) else schema.get("items")
            yield from self.faults(member, each, f"{at}[{number}]")

    def _combined(self, value: Json, schema: dict[str, Json], at: str) -> Iterator[str]:
        every = schema.get("allOf")
        for part in every if isinstance(every, list) else ():
            yield from self.faults(value, part, at)
        for keyword in ("anyOf", "oneOf"):
            options = schema.get(keyword)
            if not isinstance(options, list) or not options:
                continue
            reasons = [self._first(value, option, at) for option in options]
            if all(reasons) and self._left > 0:
                yield f"{at or 'it'} is none of {len(options)} allowed forms: {reasons[0]}"
            elif keyword == "oneOf" and self._left > 0 and reasons.count(None) > 1:
                yield f"{at or 'it'} is {reasons.count(None)} of the forms, exactly one expected"

    def _first(self, value: Json, schema: Json, at: str) -> str | None:
        depth = self._depth
        reason = next(self.faults(value, schema, at), None)
        self._depth = depth  # a walk left half-way does not count itself out
        return reason


def _of_type(value: Json, schema: dict[str, Json], at: str) -> Iterator[str]:
    wanted = schema.get("type")
    names = wanted if isinstance(wanted, list) else [wanted]
    tests = [_TYPES[name] for name in names if isinstance(name, str) and name in _TYPES]
    if len(tests) == len(names) and not any(test(value) for test in tests):
        if not (value is None and schema.get("nullable") is True):
            yield f"{at or 'it'} is {quote_json(value)}, expected {' or '.join(map(str, names))}"
            return
    options = schema.get("enum")
    if isinstance(options, list) and not any(_equal_values(value, option) for option in options):
        yield f"{at or 'it'} is {quote_json(value)}, expected one of {quote_json(options)}"
    if "const" in schema and not _equal_values(value, schema["const"]):
        yield f"{at or 'it'} is {quote_json(value)}, expected {quote_json(schema['const'])}"


def _of_range(value: Json, schema: dict[str, Json], at: str) -> Iterator[str]:
    if isinstance(value, str):
        low, high = schema.get("minLength"), schema.get("maxLength")
        if _is_number(low) and len(value) < low:
            yield f"{at} is {quote_json(value)}, at least {low} characters expected"
        if _is_number(high) and len(value) > high:
            yield f"{at} has {len(value)} characters, at most {high} expected"
        pattern = schema.get("pattern")
        compiled = _pattern(pattern) if isinstance(pattern, str) else None
        if compiled and len(value) <= TEXT_CHARACTERS and not compiled.search(value):
            yield f"{at} is {quote_json(value)}, expected the form {quote_json(pattern)}"
    elif _is_number(value):
        for keyword, holds, said in _BOUNDS:
            bound = schema.get(keyword)
            if _is_number(bound) and not holds(value, bound):
                yield f"{at} is {quote_json(value)}, expected {said} {quote_json(bound)}"


@lru_cache(maxsize=256)
def _pattern(text: str) -> TextPattern | None:
    """Return a pattern of a trace, searched in linear time; None for one that is not read."""
    risky = _REPEATED_GROUP.search(text) or len(_UNBOUNDED.findall(text)) > _UNBOUNDED_AT_MOST
    if len(text) > PATTERN_CHARACTERS or risky:
        return None
    try:
        return compile_pattern(text, "a schema")
    except ConfigError:
        return None  # the dialect of JSON Schema is JavaScript's: what RE2 cannot read is unread


def _is_number(value: Json) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[Json], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and value % 1 == 0,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}
_BOUNDS: Sequence[tuple[str, Callable[[float, float], bool], str]] = (
    ("minimum", lambda value, bound: value >= bound, "at least"),
    ("maximum", lambda value, bound: value <= bound, "at most"),
    ("exclusiveMinimum", lambda value, bound: value > bound, "more than"),
    ("exclusiveMaximum", lambda value, bound: value < bound, "less than"),
)


def _equal_values(value: Json, other: Json) -> bool:
    """Equality of JSON, where 1 is 1.0 and is not true."""
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    return bool(value == other)


def _path(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def quote_json(value: Json) -> str:
    """Return the beginning of a value, as a reason quotes it."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= QUOTE_CHARACTERS else text[: QUOTE_CHARACTERS - 1] + "…"
