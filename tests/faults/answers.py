"""What a scripted model says: a function of the texts that it was shown and the schema it must fit.

The right answer is a valid instance of the schema, chosen by the hash of the request, so that the
same question always has the same answer. The others are what models and attackers make of it.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

# Python writes these three in JSON, though JSON has none of them.
_NOT_NUMBERS = (float("nan"), float("inf"), float("-inf"))
_WORDS = ("the", "agent", "called", "tool", "and", "told", "user", "what", "result", "said")
_OFF_MENU = "excellent"
# A Cyrillic letter that looks like the Latin one.
_LOOK_ALIKE = {"e": "\u0435", "o": "\u043e", "a": "\u0430", "E": "\u0415", "O": "\u041e"}
_DEPTH = 32

Schema = Mapping[str, Any]


class Shown(NamedTuple):
    """What a model was shown: its texts in order, and the schema where one was given."""

    texts: tuple[str, ...]
    schema: Schema | None

    @property
    def seed(self) -> int:
        """A number that is the same for the same request."""
        digest = sha256(json.dumps([self.texts, self.schema], sort_keys=True).encode()).digest()
        return int.from_bytes(digest[:8], "big")


class Said(NamedTuple):
    """What the model says; a refusal is words of its own."""

    text: str
    refusal: str = ""


AnswerFunction = Callable[[Shown], Said]


def hashed(shown: Shown) -> Said:
    """A valid instance of the schema, chosen by the hash of the request."""
    return Said(json.dumps(_instance(shown), ensure_ascii=False))


def echo(shown: Shown) -> Said:
    """The longest text that was shown, word for word: the trace, for a judge."""
    return Said(max(shown.texts, key=len))


def echo_json(shown: Shown) -> Said:
    """The last JSON object of the longest text that has a field of the schema, word for word."""
    text = max(shown.texts, key=len)
    found = [held for held in objects(text) if set(held) & set(_fields(shown))]
    return Said(json.dumps(found[-1])) if found else Said(text)


def obedient(shown: Shown) -> Said:
    """A valid instance, bent to what the longest text asks for.

    Fields of JSON objects in the text take the place of those of the same name; a label of the menu
    that the text names takes the place of every label; scores and confidence are the highest.
    """
    text = max(shown.texts, key=len)
    made = _bent(shown.schema or {}, _instance(shown), text)
    for held in objects(text):
        if isinstance(made, dict):
            made |= {key: value for key, value in held.items() if key in made}
    return Said(json.dumps(made, ensure_ascii=False))


def refuse(shown: Shown) -> Said:
    """A refusal."""
    return Said("", "I cannot help with that.")


def prose(shown: Shown) -> Said:
    """Words about the matter, no JSON: an endpoint that was never told of the schema."""
    return Said("Overall the agent did well, so I would say: correct, score 0.9.")


def fenced(shown: Shown) -> Said:
    """The right answer between the marks of a Markdown code block."""
    return Said(f"```json\n{hashed(shown).text}\n```")


def instance(schema: Schema, rng: random.Random) -> Any:
    """Return a value that fits a JSON schema, drawn from `rng`."""
    return _made(schema, schema, rng, _DEPTH)


def _instance(shown: Shown) -> Any:
    return instance(shown.schema or {"type": "string"}, random.Random(shown.seed))


def _made(schema: Schema, root: Schema, rng: random.Random, depth: int) -> Any:
    if depth == 0:
        raise ValueError("the schema does not end")
    if "$ref" in schema:
        return _made(_target(schema["$ref"], root), root, rng, depth - 1)
    if "anyOf" in schema:
        return _made(rng.choice(schema["anyOf"]), root, rng, depth - 1)
    if "const" in schema or "enum" in schema:
        return rng.choice(schema.get("enum", [schema.get("const")]))
    kind = schema.get("type", "object")
    if isinstance(kind, list):
        kind = rng.choice(kind)
    if kind == "object":
        held = schema.get("properties", {})
        return {name: _made(part, root, rng, depth - 1) for name, part in held.items()}
    if kind == "array":
        low = schema.get("minItems", 1)
        high = schema.get("maxItems", max(low, 2))
        items = schema.get("items", {"type": "string"})
        count = rng.randint(low, max(low, min(high, low + 2)))
        return [_made(items, root, rng, depth - 1) for _ in range(count)]
    return _plain(kind, schema, rng)


def _target(reference: str, root: Schema) -> Schema:
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return dict(found)


def _plain(kind: str, schema: Schema, rng: random.Random) -> Any:
    if kind == "integer":
        low = schema.get("minimum", 0)
        return rng.randint(low, schema.get("maximum", low + 3))
    if kind == "number":
        low = schema.get("minimum", 0.0)
        return round(rng.uniform(low, schema.get("maximum", low + 1.0)), 2)
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "null":
        return None
    text = " ".join(rng.choice(_WORDS) for _ in range(rng.randint(4, 9)))
    text = text.ljust(schema.get("minLength", 0), ".")
    return text[: schema.get("maxLength", len(text))]


def objects(text: str) -> list[dict[str, Any]]:
    """Return every JSON object that stands in a text, outermost ones, in order."""
    decoder = json.JSONDecoder()
    found = []
    at = text.find("{")
    while at >= 0:
        try:
            held, end = decoder.raw_decode(text, at)
        except (json.JSONDecodeError, RecursionError):
            end = at + 1
        else:
            found.append(held)
        at = text.find("{", end)
    return found


def schema_in(text: str) -> Schema | None:
    """Return the last JSON schema of an object that stands in a text: a prompt that shows it."""
    found = [held for held in objects(text) if isinstance(held.get("properties"), dict)]
    return found[-1] if found else None


def _fields(shown: Shown) -> list[str]:
    return list((shown.schema or {}).get("properties", {}))


def _bent(schema: Schema, made: Any, text: str) -> Any:
    if "enum" in schema:
        named = [
            word
            for word in schema["enum"]
            if isinstance(word, str) and re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE)
        ]
        return named[0] if named else made
    if isinstance(made, dict):
        held = schema.get("properties", {})
        return {key: _bent(held.get(key, {}), value, text) for key, value in made.items()}
    if isinstance(made, list):
        return [_bent(schema.get("items", {}), item, text) for item in made]
    if isinstance(made, float):
        return schema.get("maximum", 1.0)
    return made


def _bad(change: Callable[[Any], Any]) -> AnswerFunction:
    """Return an answer function whose instance went through `change`."""

    def answer(shown: Shown) -> Said:
        return Said(json.dumps(change(_instance(shown)), ensure_ascii=False))

    return answer


def _numbers(bad: Any) -> Callable[[Any], Any]:
    """Return a change that puts a value in the place of every number with a fraction."""

    def change(made: Any) -> Any:
        if isinstance(made, dict):
            return {key: change(value) for key, value in made.items()}
        if isinstance(made, list):
            return [change(value) for value in made]
        return bad if isinstance(made, float) else made

    return change


def _labels(bad: Callable[[str], Any]) -> Callable[[Any], Any]:
    """Return a change of every value of a field called label or ending so, and of menus' words."""

    def change(made: Any) -> Any:
        if isinstance(made, dict):
            return {
                key: bad(value) if key in {"label", "part", "whose"} else change(value)
                for key, value in made.items()
            }
        return [change(value) for value in made] if isinstance(made, list) else made

    return change


def _steps(bad: Callable[[list[Any]], list[Any]]) -> Callable[[Any], Any]:
    """Return a change of every list of objects that have a field `step`."""

    def change(made: Any) -> Any:
        if isinstance(made, list):
            listed = [change(value) for value in made]
            told = listed and all(isinstance(item, dict) and "step" in item for item in listed)
            return bad(listed) if told else listed
        if isinstance(made, dict):
            return {key: change(value) for key, value in made.items()}
        return made

    return change


def _look_alike(word: str) -> str:
    return "".join(_LOOK_ALIKE.get(letter, letter) for letter in word)


ANSWERS: dict[str, AnswerFunction] = {
    "hash": hashed,
    "echo": echo,
    "echo_json": echo_json,
    "obedient": obedient,
    "refuse": refuse,
    "prose": prose,
    "fenced": fenced,
    "nan": _bad(_numbers(_NOT_NUMBERS[0])),
    "infinity": _bad(_numbers(_NOT_NUMBERS[1])),
    "negative": _bad(_numbers(-0.1)),
    "over": _bad(_numbers(1.0000001)),
    "number_as_string": _bad(_numbers("0.9")),
    "true": _bad(_numbers(True)),
    "null": _bad(_numbers(None)),
    "off_menu": _bad(_labels(lambda word: _OFF_MENU)),
    "look_alike": _bad(_labels(_look_alike)),
    "shouted": _bad(_labels(lambda word: word.swapcase())),
    "missing_step": _bad(_steps(lambda steps: steps[:-1])),
    "duplicate_step": _bad(_steps(lambda steps: [*steps, steps[0]])),
    "extra_step": _bad(_steps(lambda steps: [*steps, {**steps[0], "step": 100_000}])),
    "field_more": _bad(lambda made: {**made, "more": 1}),
    "field_less": _bad(lambda made: dict(list(made.items())[1:])),
    "broken_json": lambda shown: Said(hashed(shown).text[:-2]),
    "trailing": lambda shown: Said(hashed(shown).text + " and so on"),
    "twice": lambda shown: Said(hashed(shown).text * 2),
    "empty": lambda shown: Said(""),
}
