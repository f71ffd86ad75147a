"""An endpoint that promised a schema and does not keep to it is told from one that does."""

from __future__ import annotations

import msgspec
import pytest

from stepscope.model import Json, Reply, Stop, Structure
from stepscope.models.dialect import find_schema_fault, ignores_schema
from tests.models.scripted import REQUEST


def reply(text: str, structure: Structure = "json_schema", stop: Stop = "end") -> Reply:
    return Reply(text=text, stop=stop, structure=structure)


@pytest.mark.parametrize("structure", ["json_schema", "json_object_schema", "forced_tool"])
@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ('{"label": "correct"}', False),
        (' {"label":\n"incorrect"} ', False),
        ("the verdict is: correct", True),
        ("", True),
        ('{"label": "excellent"}', True),
        ('{"label": "correct", "more": 1}', True),
        ("{}", True),
        ('["correct"]', True),
        ('```json\n{"label": "correct"}\n```', True),
        ("[" * 100_000, True),
    ],
)
def test_a_finished_answer_beside_its_schema_shows_an_endpoint_that_ignores_it(
    structure: Structure, text: str, broken: bool
) -> None:
    assert ignores_schema(REQUEST, reply(text, structure)) is broken


@pytest.mark.parametrize("stop", ["length", "refusal", "filter", "tool", "other"])
def test_what_was_not_finished_shows_nothing(stop: Stop) -> None:
    assert not ignores_schema(REQUEST, reply('{"lab', stop=stop))


def test_an_endpoint_that_was_told_the_schema_in_words_promised_nothing() -> None:
    assert not ignores_schema(REQUEST, reply("no", "prompt_only"))


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer"}, [0, 7, 2.0, 10**400], [True, "7", 7.5, None]),
        ({"type": "number"}, [0, 0.5], [True, "0.5"]),
        ({"type": "boolean"}, [True], [1, "true"]),
        ({"type": ["integer", "null"]}, [None, 3], ["", 1.5]),
        ({"type": "string"}, ["", "a"], [1, None]),
        ({"const": 1}, [1], [True, 2]),
        ({"enum": ["a", 1]}, ["a", 1], ["A", True]),
        ({"type": "array", "items": {"type": "string"}}, [[], ["a"]], [["a", 1], "a"]),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, [None, "a"], [1]),
        ({"type": "object", "required": ["a"]}, [{"a": 1, "b": 2}], [{}, []]),
        ({"properties": {"a": {"enum": [1]}}}, [{"a": 1}, {}], [{"a": 2}]),
        ({"additionalProperties": False, "properties": {"a": {}}}, [{"a": 1}], [{"b": 1}]),
        ({"minimum": 5}, [5, "1"], [1]),
        ({"multipleOf": 5}, [1], []),  # not known, so it forbids nothing
    ],
)
def test_the_words_of_schemas(schema: dict[str, Json], good: list[Json], bad: list[Json]) -> None:
    assert [find_schema_fault(value, schema) for value in good] == [None] * len(good)
    assert all(find_schema_fault(value, schema) for value in bad)


def test_instances_that_the_scripted_provider_makes_fit() -> None:
    value = msgspec.json.decode('{"label": "correct"}')
    assert find_schema_fault(value, REQUEST.schema) is None
