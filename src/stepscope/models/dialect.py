"""What a model is asked and how one provider's protocol says it: asks, chats, dialects.

A judge's request becomes a `Chat`: messages, and the schema of the answer. A dialect turns a chat
into plain JSON, so that the same words go over the wire at once and into a batch, and takes the
answer out of a reply. An ask is a request to one judge under the key of its
reply. Also checks whether a reply fits the JSON schema that its endpoint accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal, NamedTuple

import msgspec

from stepscope.model import Endpoint, Json, Media, Reply, Request, Structure

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


class Chat(NamedTuple):
    """What a model is asked: messages, the schema of its answer, and how it is sampled."""

    messages: tuple[ChatMessage, ...]
    schema_name: str
    schema: dict[str, Json]
    max_output_tokens: int
    temperature: float | None
    seed: int | None
    extra: dict[str, Json]  # further parameters of the provider

    def instructed(self) -> Chat:
        """Return the chat for a model that takes no schema: its first message says it in words."""
        schema = msgspec.json.encode(self.schema).decode()
        words = (
            "\n\nAnswer with one JSON object and nothing else: no text around it, no code fence. "
            f"It fits this JSON schema:\n{schema}"
        )
        first, *rest = self.messages
        told = first._replace(parts=(*first.parts[:-1], f"{first.parts[-1]}{words}"))
        return self._replace(messages=(told, *rest))


def make_chat(request: Request) -> Chat:
    """Return the chat of a judge's request: rubric, then trace, images and question in one turn."""
    shared: list[str | Media] = [request.context] if request.context else []
    for image in request.media:
        shared += (image.words, image)
    return Chat(
        messages=(
            ChatMessage("system", (request.system,), shared=1),
            ChatMessage("user", (*shared, request.question), len(shared)),
        ),
        schema_name=request.schema_name,
        schema=request.schema,
        max_output_tokens=request.max_output_tokens,
        temperature=request.temperature,
        seed=request.seed,
        extra=request.extra,
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
    parameters: Callable[[Endpoint, Chat, Structure], dict[str, Json]]  # what is sent
    # answer, stop, tokens and snapshot in a body; raises `ModelError` where it is none
    read: Callable[[Endpoint, bytes, Structure], Reply]


def token_count(value: object) -> int | None:
    """Return a number of tokens; None for what is no such number.

    >>> token_count(7), token_count(-1), token_count(True), token_count("7")
    (7, None, None, None)
    """
    return value if type(value) is int and value >= 0 else None


_TYPES: dict[str, type | tuple[type, ...]] = {
    "array": list,
    "boolean": bool,
    "integer": int,
    "null": type(None),
    "number": (int, float),
    "object": dict,
    "string": str,
}


def ignores_schema(request: Request, reply: Reply) -> bool:
    """Return whether a finished reply breaks a schema that the endpoint had promised to enforce.

    Asked in words alone (`prompt_only`), nothing was promised; cut off or refused, nothing was
    finished.
    """
    if reply.stop != "end" or reply.structure == "prompt_only":
        return False
    try:
        value = msgspec.json.decode(reply.text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return True
    return not fits_schema(value, request.schema)


def fits_schema(value: Json, schema: Json) -> bool:
    """Return whether a value is an instance of a JSON schema, as far as its words are known.

    >>> schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}
    >>> (
    ...     fits_schema({"a": 1}, schema),
    ...     fits_schema({"a": 3}, schema),
    ...     fits_schema({}, schema),
    ...     fits_schema("a", schema),
    ... )
    (True, False, False, False)
    """
    if not isinstance(schema, dict):
        return schema is not False
    if "enum" in schema and not any(_equal_json(value, one) for one in schema["enum"]):
        return False
    if "const" in schema and not _equal_json(value, schema["const"]):
        return False
    if "type" in schema and not _fits_type(value, schema["type"]):
        return False
    if "anyOf" in schema and not any(fits_schema(value, one) for one in schema["anyOf"]):
        return False
    if isinstance(value, dict):
        return _object_fits(value, schema)
    if isinstance(value, list):
        item = schema.get("items", True)
        return all(fits_schema(one, item) for one in value)
    return True


def _object_fits(value: dict[str, Json], schema: dict[str, Json]) -> bool:
    properties = schema.get("properties", {})
    if any(name not in value for name in schema.get("required", ())):
        return False
    others = schema.get("additionalProperties", True)
    return all(fits_schema(one, properties.get(name, others)) for name, one in value.items())


def _fits_type(value: Json, told: Json) -> bool:
    names = told if isinstance(told, list) else [told]
    for name in names:
        wanted = _TYPES.get(name, object)
        # True is no number here, though Python counts with it.
        if isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool)):
            return True
        if name == "integer" and isinstance(value, float) and value.is_integer():
            return True
        if name not in _TYPES:
            return True
    return False


def _equal_json(one: Json, other: Json) -> bool:
    return type(one) is type(other) and bool(one == other)
