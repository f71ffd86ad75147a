"""The JSON schema that the answer to each kind of rubric must fit.

Only what strict modes of all providers take: every field required, no other allowed, menus as
enumerations, no limits on numbers or lengths, a union only with null. Ranges, steps and quotations
are checked when the reply is read (`stepscope.judges.believing`); what they say stands in the
descriptions. Reasons come before the answer that they are for: a model writes in that order.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.judges.rubric import Kind, Rubric
from stepscope.model import Json

Schema = dict[str, Json]

# Whose failure it was: not the rubric's to choose.
WHOSE = ("agent", "user", "environment")


def schema_of(rubric: Rubric) -> Schema:
    """Return the schema of the answers to a rubric."""
    return _object(_FIELDS[rubric.kind](rubric.answers))


def schema_name(kind: Kind) -> str:
    """Return what the schema is called where a provider wants a name."""
    return f"{kind}_answer"


def _axis(answers: Sequence[str]) -> Schema:
    return {
        "evidence": _evidence(),
        "cited_step_indices": _list(
            {"type": "integer"}, "steps that decide the answer; never empty for an answer against"
        ),
        "rationale": _text("why, in one to three sentences"),
        "label": _menu(answers),
        "confidence": _number("0 to 1"),
    }


def _labels(answers: Sequence[str]) -> Schema:
    step = {
        "step": _step("which step is labelled"),
        "explanation": _text("why, in one sentence"),
        "label": _menu(answers),
        "score": _number("0 to 1, how well the step does within its label"),
        "addresses": {
            "anyOf": [{"type": "integer"}, {"type": "null"}],
            "description": "the earlier step whose error this one repairs, else null",
        },
    }
    return {"steps": _list(_object(step), "one for each step asked about, in order")}


def _score(_: Sequence[str]) -> Schema:
    return {"rationale": _text("why, in one sentence"), "score": _number("0 to 1")}


def _presence(_: Sequence[str]) -> Schema:
    step = {
        "step": _step("which step is looked at"),
        "quote": _text("words of that step that show it, copied exactly; empty where absent"),
        "present": {"type": "boolean"},
    }
    return {
        "steps": _list(_object(step), "one for each step asked about, in order"),
        "rationale": _text("what was found, in one to three sentences"),
    }


def _attribution(answers: Sequence[str]) -> Schema:
    return {
        "evidence": _evidence(),
        "rationale": _text("why, in one to three sentences"),
        "part": _menu(answers),
        "step": _step("where it failed"),
        "whose": _menu(WHOSE),
        "confidence": _number("0 to 1"),
    }


_FIELDS = {
    "axis": _axis,
    "labels": _labels,
    "score": _score,
    "presence": _presence,
    "attribution": _attribution,
}


def _object(properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(items: Schema, description: str) -> Schema:
    return {"type": "array", "items": items, "description": description}


def _evidence() -> Schema:
    item = {"step": _step("whose words"), "quote": _text("words of that step, copied exactly")}
    return _list(_object(item), "observations that bear the answer, results before claims")


def _menu(answers: Sequence[str]) -> Schema:
    return {"type": "string", "enum": list(answers)}


def _text(description: str) -> Schema:
    return {"type": "string", "description": description}


def _number(description: str) -> Schema:
    return {"type": "number", "description": description}


def _step(description: str) -> Schema:
    return {"type": "integer", "description": description}
