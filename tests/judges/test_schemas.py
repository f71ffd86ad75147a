"""Schemas that the strict modes of all providers take."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from stepscope.judges.rubrics import BUILT_IN_RUBRICS, answer_schema, load_rubric, schema_name
from stepscope.model import Json

# What strict modes refuse, or SDKs move out of the schema in silence.
LIMITS = {
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minItems",
    "maxItems",
    "uniqueItems",
    "default",
    "oneOf",
    "allOf",
    "not",
    "$ref",
}


def inside(schema: Json) -> Iterator[dict[str, Json]]:
    """Yield every schema within a schema, itself first."""
    yield schema
    for part in (*schema.get("properties", {}).values(), *schema.get("anyOf", ())):
        yield from inside(part)
    if "items" in schema:
        yield from inside(schema["items"])


@pytest.mark.parametrize("name", BUILT_IN_RUBRICS)
def test_a_schema_is_strict_and_has_no_limits(name: str) -> None:
    schema = answer_schema(load_rubric(name))
    assert schema["type"] == "object"
    for part in inside(schema):
        assert not LIMITS & set(part)
        assert {"type", "anyOf"} & set(part)
        if part.get("type") == "object":
            assert part["required"] == list(part["properties"])
            assert part["additionalProperties"] is False
    assert json.loads(json.dumps(schema)) == schema


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        (
            "axes.termination",
            ["evidence", "cited_step_indices", "rationale", "label", "confidence"],
        ),
        ("step_labels", ["step", "quote", "explanation", "label", "score", "addresses"]),
        ("no_look", ["rationale", "score"]),
        ("behaviour.sycophancy", ["step", "quote", "present"]),
        ("attribution", ["evidence", "rationale", "part", "step", "whose", "confidence"]),
    ],
)
def test_reasons_come_before_what_they_are_for(name: str, fields: list[str]) -> None:
    schema = answer_schema(load_rubric(name))
    entries = schema["properties"].get("steps")
    assert list((entries["items"] if entries else schema)["properties"]) == fields


def test_menus_are_those_of_the_rubric() -> None:
    axis = answer_schema(load_rubric("axes.termination"))
    assert axis["properties"]["label"]["enum"] == list(load_rubric("axes.termination").answers)
    blame = answer_schema(load_rubric("attribution"))["properties"]
    assert blame["part"]["enum"] == ["plan", "tool_selection", "argument", "recovery"]
    assert blame["whose"]["enum"] == ["agent", "user", "environment"]


def test_a_name_of_a_schema_is_letters_and_underscores() -> None:
    names = {schema_name(load_rubric(name).kind) for name in BUILT_IN_RUBRICS}
    assert names == {
        "axis_answer",
        "labels_answer",
        "presence_answer",
        "attribution_answer",
        "score_answer",
    }
