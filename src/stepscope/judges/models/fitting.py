"""Whether an endpoint kept to the schema that it accepted.

Some servers answer 200 to a request for structured output and let the model say what it likes. A
finished answer that does not fit its schema, though the schema was to be enforced, shows such a
server: that is no fault of the judge, and the cure is another `structure` in the settings. Knows
the words of the schemas that are asked for, no more: an unknown word forbids nothing.
"""

from __future__ import annotations

import msgspec

from stepscope.model import Json, Reply, Request

_TYPES: dict[str, type | tuple[type, ...]] = {
    "array": list,
    "boolean": bool,
    "integer": int,
    "null": type(None),
    "number": (int, float),
    "object": dict,
    "string": str,
}


def ignored(request: Request, reply: Reply) -> bool:
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
    return not fits(value, request.schema)


def fits(value: Json, schema: Json) -> bool:
    """Return whether a value is an instance of a JSON schema, as far as its words are known.

    >>> schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}
    >>> fits({"a": 1}, schema), fits({"a": 3}, schema), fits({}, schema), fits("a", schema)
    (True, False, False, False)
    """
    if not isinstance(schema, dict):
        return schema is not False
    if "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
        return False
    if "const" in schema and not _same(value, schema["const"]):
        return False
    if "type" in schema and not _typed(value, schema["type"]):
        return False
    if "anyOf" in schema and not any(fits(value, one) for one in schema["anyOf"]):
        return False
    if isinstance(value, dict):
        return _object_fits(value, schema)
    if isinstance(value, list):
        item = schema.get("items", True)
        return all(fits(one, item) for one in value)
    return True


def _object_fits(value: dict[str, Json], schema: dict[str, Json]) -> bool:
    properties = schema.get("properties", {})
    if any(name not in value for name in schema.get("required", ())):
        return False
    others = schema.get("additionalProperties", True)
    return all(fits(one, properties.get(name, others)) for name, one in value.items())


def _typed(value: Json, told: Json) -> bool:
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


def _same(one: Json, other: Json) -> bool:
    return type(one) is type(other) and bool(one == other)
