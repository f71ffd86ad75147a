"""Whether a run worked, where a backend holds that as a score or feedback among others.

Of all that is said of a whole run, a few names mean that it worked: `success`, `passed`, `correct`
and their like, and `reward`. What a person says outranks what code computed; a model's opinion is
no outcome. People who contradict each other leave the outcome unknown, and so does code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from stepscope.formats.tau_bench import PASSING_REWARD
from stepscope.model import Json, Outcome

Who = Literal["person", "code", "model"]

_NAMES = frozenset(
    "success successful task_success passed pass correct resolved completed task_completed outcome "
    "reward".split()
)
_WORDS = {
    **dict.fromkeys(("true", "yes", "pass", "passed", "success", "correct", "resolved"), True),
    **dict.fromkeys(("false", "no", "fail", "failed", "failure", "incorrect"), False),
}


class Opinion(NamedTuple):
    """What one source says of a whole run under one name."""

    name: str
    value: Json
    who: Who
    reason: str = ""


def outcome_of(opinions: Sequence[Opinion]) -> Outcome:
    """Return the outcome that opinions name, unknown where none of them does.

    >>> outcome_of([Opinion("success", True, "code"), Opinion("success", "no", "person")]).status
    'fail'
    """
    read = [(opinion, passed) for opinion in opinions if (passed := _passed(opinion)) is not None]
    ranks: tuple[Who, ...] = ("person", "code")
    for who in ranks:
        held = [(opinion, passed) for opinion, passed in read if opinion.who == who]
        if not held:
            continue
        if len({passed for _, passed in held}) > 1:
            names = ", ".join(f"{opinion.name} {opinion.value!r}" for opinion, _ in held)
            return Outcome(reason=f"scores contradict each other: {names}")
        opinion, passed = held[0]
        rewarded = opinion.name.lower() == "reward" and isinstance(opinion.value, int | float)
        return Outcome(
            "pass" if passed else "fail",
            "label" if who == "person" else "reward" if rewarded else "check",
            float(opinion.value) if rewarded else None,
            opinion.reason or f"{opinion.name} {opinion.value!r}",
        )
    return Outcome()


def _passed(opinion: Opinion) -> bool | None:
    name, value = opinion.name.lower().replace(" ", "_").replace("-", "_"), opinion.value
    if name not in _NAMES:
        return None
    if isinstance(value, str):
        return _WORDS.get(value.lower())
    if isinstance(value, bool):
        return value
    if not isinstance(value, int | float):
        return None
    if name == "reward":
        return value >= PASSING_REWARD
    return bool(value) if value in (0, 1) else None
