"""A schema condemns what it declares wrong, and never what it does not say or cannot be read."""

from __future__ import annotations

import msgspec
import pytest

from stepscope.measures.axes.arguments import TOOL_SCHEMA, schema_violations
from stepscope.model import Json, ToolCall, ToolDef, Trajectory, Verdict
from tests.factories import calls, did, result, run
from tests.measures.answers import cites, label, labels, value, whole

ORDER = {
    "type": "object",
    "properties": {
        "order_id": {"type": "string", "pattern": "^#W[0-9]{7}$"},
        "items": {
            "type": "array",
            "minItems": 1,
            "maxItems": 2,
            "items": {"$ref": "#/$defs/item"},
        },
        "share": {"type": "number", "minimum": 0, "maximum": 1},
        "count": {"type": ["integer", "null"]},
        "why": {"enum": ["late", "broken"]},
        "to": {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 3}]},
    },
    "required": ["order_id"],
    "additionalProperties": False,
    "$defs": {"item": {"type": "object", "required": ["sku"]}},
}


def reason(schema: dict[str, Json], arguments: Json) -> str | None:
    made = run(
        calls(ToolCall("pack", arguments)), result("ok"), tools=(ToolDef("pack", schema=schema),)
    )
    found, checked = schema_violations(made)
    assert checked == 1
    return found[0].reason if found else None


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"order_id": "#W1234567"}, None),
        ({"order_id": "#W123"}, 'order_id is "#W123", expected the form "^#W[0-9]{7}$"'),
        ({"share": 0.5}, "order_id is required and missing"),
        ({"order_id": "#W1234567", "colour": 1}, "colour is not declared"),
        ({"order_id": 7}, "order_id is 7, expected string"),
        ({"order_id": "#W1234567", "share": 1}, None),
        ({"order_id": "#W1234567", "share": 1.5}, "share is 1.5, expected at most 1"),
        ({"order_id": "#W1234567", "share": True}, "share is true, expected number"),
        ({"order_id": "#W1234567", "count": 2.0}, None),
        ({"order_id": "#W1234567", "count": None}, None),
        ({"order_id": "#W1234567", "count": "2"}, 'count is "2", expected integer or null'),
        ({"order_id": "#W1234567", "why": "late"}, None),
        ({"order_id": "#W1234567", "why": "tired"}, 'why is "tired", expected one of'),
        ({"order_id": "#W1234567", "items": [{"sku": 1}]}, None),
        ({"order_id": "#W1234567", "items": [{"sku": 1}, {}]}, "items[1].sku is required"),
        ({"order_id": "#W1234567", "items": []}, "items has 0 entries, at least 1"),
        ({"order_id": "#W1234567", "to": "Bob"}, None),
        ({"order_id": "#W1234567", "to": "Robert"}, "to is none of 2 allowed forms"),
        ("#W1234567", 'it is "#W1234567", expected object'),
        (None, "order_id is required and missing"),
    ],
)
def test_an_argument_breaks_its_schema_or_keeps_to_it(
    arguments: Json, expected: str | None
) -> None:
    found = reason(ORDER, arguments)
    assert found is None if expected is None else found is not None and found.startswith(expected)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "colour"},
        {"enum": "late"},
        {"properties": 7, "required": "x", "anyOf": {}},
        {"properties": {"x": {"pattern": "("}}},
        {"properties": {"x": {"pattern": "^(a+)+$"}}},
        {"properties": {"x": {"pattern": "a*a*a*a*b"}}},
        {"properties": {"x": {"minimum": 9, "format": "date", "minLength": "no"}}},
        {"$ref": "#"},
        {"$ref": "https://example.com/schema"},
        {"anyOf": [{"$ref": "#"}, {"$ref": "#"}], "properties": {"x": True}},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}, {"$ref": "#"}]},
    ],
)
def test_what_cannot_be_read_never_condemns_nor_runs_for_ever(schema: dict[str, Json]) -> None:
    assert reason(schema, {"x": "a" * 40}) is None


@pytest.mark.parametrize(
    ("schema", "given", "expected"),
    [
        ({"type": "integer"}, 2.5, "x is 2.5, expected integer"),
        ({"type": "string", "nullable": True}, None, None),
        ({"type": "string"}, None, "x is null, expected string"),
        ({"oneOf": [{"type": "integer"}, {"minimum": 0}]}, 1, "x is 2 of the forms"),
        ({"oneOf": [{"type": "integer"}, {"minimum": 5}]}, 1, None),
        ({"type": ["string", "colour"]}, 1, None),
    ],
)
def test_forms_and_absences(schema: Json, given: Json, expected: str | None) -> None:
    found = reason({"properties": {"x": schema}}, {"x": given})
    assert found is None if expected is None else found is not None and found.startswith(expected)


def test_a_name_that_a_pattern_may_allow_is_not_condemned() -> None:
    schema = {"additionalProperties": False, "patternProperties": {"^x": {}}}
    assert reason(schema, {"x1": 1}) is None


def test_a_schema_that_forbids_everything_is_read() -> None:
    assert reason({"properties": {"x": False}}, {"x": 1}) == "x is not allowed"


def test_true_is_not_one() -> None:
    assert reason({"properties": {"x": {"const": 1}}}, {"x": True}) is not None
    assert reason({"properties": {"x": {"const": 1}}}, {"x": 1.0}) is None


def declared(*tools: ToolDef, caller: str | None) -> Trajectory:
    made = run(*did("pack", order_id="#W1234567"), tools=tools)
    first = msgspec.structs.replace(made.steps[0], agent=caller)
    return msgspec.structs.replace(made, steps=(first, made.steps[1]))


def test_of_two_tools_of_one_name_the_callers_own_counts() -> None:
    strict = ToolDef("pack", schema={"required": ["box"]}, agent="packer")
    loose = ToolDef("pack", schema={}, agent="helper")
    assert len(schema_violations(declared(strict, loose, caller="packer"))[0]) == 1
    assert schema_violations(declared(strict, loose, caller="helper")) == ([], 1)
    # Nobody knows who called: what any of them allows is allowed.
    assert schema_violations(declared(strict, loose, caller=None)) == ([], 1)


def test_arguments_that_are_no_json_break_any_schema() -> None:
    broken = ToolCall("pack", None, raw='{"order_id": ', parse_error="unexpected end")
    made = run(calls(broken), result("Error"), tools=(ToolDef("pack", schema={}),))
    answer = whole(TOOL_SCHEMA, made)["tool_schema"]
    assert isinstance(answer, Verdict)
    assert (answer.value, cites(answer)) == (1.0, (0,))
    assert "not JSON" in answer.reason


def test_no_declared_schema_is_unmeasured_not_zero() -> None:
    for tools in (None, (), (ToolDef("pack"),), (ToolDef("other", schema=ORDER),)):
        answer = whole(TOOL_SCHEMA, run(*did("pack"), tools=tools))["tool_schema"]
        assert label(answer) == "missing_input"
    assert label(whole(TOOL_SCHEMA, run())["tool_schema"]) == "not_applicable"


def test_violations_are_counted_and_cited_with_what_was_not_checked() -> None:
    made = run(
        *did("pack", order_id="#W1234567"),
        *did("look", x=1),
        *did("pack", order_id="1"),
        tools=(ToolDef("pack", schema=ORDER),),
    )
    answer = whole(TOOL_SCHEMA, made)["tool_schema"]
    assert isinstance(answer, Verdict)
    assert (value(answer), cites(answer)) == (1.0, (4,))
    assert answer.reason.endswith("2 of 3 calls have a declared schema")
    assert labels(TOOL_SCHEMA, made) == {4: "violation"}
