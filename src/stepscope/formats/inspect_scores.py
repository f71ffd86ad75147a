"""Scores of an Inspect sample: the outcome from the first scorer, and a label from each.

C and I, true and false, 1 and 0 say pass and fail. Anything between, and any other number, is a
reward whose threshold the log does not know: the outcome is unknown and carries it. A scorer's
label is of the kind `outcome`, the scorer its annotator.
Format: UKGovernmentBEIS/inspect_ai 0.3.285, `scorer/_metric.py`, `Score` and `value_to_float`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from stepscope.formats.building import rest
from stepscope.formats.tau_bench import PASSING_REWARD
from stepscope.model import Json, Label, Outcome

# Inspect's letters (correct, incorrect, partial, no answer) and words, as the numbers they mean.
_WORDS = {
    "C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0,
}  # fmt: skip
_KNOWN = frozenset({"value", "explanation"})


class _Score(msgspec.Struct, gc=False):
    value: Any = None
    explanation: str | None = None


def labels(scores: dict[str, Json]) -> tuple[Label, ...]:
    """Return one label a scorer.

    Raises:
        msgspec.ValidationError: a score is none.
    """
    found = []
    for name, value in scores.items():
        score = msgspec.convert(value, _Score)
        more = rest(value, _KNOWN) or {}
        if not isinstance(score.value, str):
            more["value"] = score.value
        found.append(
            Label(
                kind="outcome",
                category=_shown(score.value),
                reason=score.explanation or "",
                annotator=name,
                extra={key: item for key, item in more.items() if item != []} or None,
            )
        )
    return tuple(found)


def outcome(scores: dict[str, Json], order: Sequence[str]) -> Outcome:
    """Return what the first scorer says; `order` is that of the log."""
    name = next((name for name in order if name in scores), next(iter(scores), None))
    if name is None:
        return Outcome()
    score = msgspec.convert(scores[name], _Score)
    worth = _worth(score.value)
    told = f"{name}: {_shown(score.value)}"
    if worth is None:
        return Outcome(reason=told)
    reward, source = worth
    if reward >= PASSING_REWARD and reward <= 1:
        return Outcome("pass", source, reward, told)
    return Outcome("fail" if reward == 0 else "unknown", source, reward, told)


def _worth(value: Json) -> tuple[float, Literal["check", "reward"]] | None:
    """Return a score as a number and what kind of finding it is, None where it is neither."""
    if isinstance(value, bool):
        return float(value), "check"
    if isinstance(value, int | float):
        return float(value), "reward"
    if isinstance(value, str):
        number = _WORDS.get(value, _WORDS.get(value.lower()))
        return None if number is None else (number, "check")
    return None


def _shown(value: Json) -> str | None:
    if value is None:
        return None
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
