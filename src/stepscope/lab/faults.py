"""Plant one known fault in a real run that passed, so that a judge's recall can be measured.

Each kind belongs to the axis that has to find it. Planting is seeded and blind to the judge's
rules. A run in which a kind cannot occur (no write, no amount told, no declared tools) gives None.
Where a fault is one only against a declaration, the declaration is planted with it (a policy rule
in the case) or is the caller's (tools with schemas, `EFFECTS`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np

from stepscope.errors import UsageError
from stepscope.lab import faults_calls, faults_endings, faults_words
from stepscope.model import Effect, Trajectory

Axis = Literal[
    "tool_selection", "argument_validity", "sequencing", "result_interpretation", "termination"
]
AXES: tuple[Axis, ...] = get_args(Axis)

Plant = Callable[[Trajectory, np.random.Generator], tuple[Trajectory, int] | None]

KINDS: dict[str, tuple[Axis, Plant]] = {
    "undeclared_tool": ("tool_selection", faults_calls.undeclared_tool),
    "forbidden_tool": ("tool_selection", faults_calls.forbidden_tool),
    "same_failure_again": ("tool_selection", faults_calls.same_failure_again),
    "unrequested_write": ("tool_selection", faults_calls.unrequested_write),
    "fabricated_identifier": ("argument_validity", faults_calls.fabricated_identifier),
    "wrong_format": ("argument_validity", faults_calls.wrong_format),
    "skipped_precondition": ("sequencing", faults_calls.skipped_precondition),
    "write_without_confirmation": ("sequencing", faults_calls.write_without_confirmation),
    "misread_number": ("result_interpretation", faults_words.misread_number),
    "misread_identifier": ("result_interpretation", faults_words.misread_identifier),
    "misread_labelled_quantity": ("result_interpretation", faults_words.misread_labelled_quantity),
    "error_then_success": ("result_interpretation", faults_words.error_then_success),
    "calls_after_closing": ("termination", faults_endings.calls_after_closing),
    "ended_on_error": ("termination", faults_endings.ended_on_error),
    "ended_on_limit": ("termination", faults_endings.ended_on_limit),
    "announced_never_made": ("termination", faults_endings.announced_never_made),
}
# What a user would declare of the tools that `unrequested_write` calls.
EFFECTS: dict[str, Effect] = dict.fromkeys(faults_calls.UNASKED, "write")


class Planted(NamedTuple):
    """A run with one fault: which kind, whose axis, and the step that shows it."""

    trajectory: Trajectory
    kind: str
    axis: Axis
    step: int


def plant(trajectory: Trajectory, kind: str, rng: np.random.Generator) -> Planted | None:
    """Return the run with one fault of a kind, None where it cannot have one.

    Raises:
        UsageError: no such kind.
    """
    if kind not in KINDS:
        raise UsageError(f"no planted fault {kind!r}; there are: {', '.join(sorted(KINDS))}")
    axis, make = KINDS[kind]
    made = make(trajectory, rng)
    return None if made is None else Planted(made[0], kind, axis, made[1])


def plant_many(
    runs: Sequence[Trajectory], kinds: Sequence[str], n: int, rng: np.random.Generator
) -> Iterator[Planted]:
    """Yield `n` faults, the kinds in turn, each in a run drawn anew among those that can have it.

    Fewer than `n` come where no run can have any of the kinds.
    """
    left = {kind: list(rng.permutation(len(runs))) for kind in kinds}
    given = 0
    while given < n and left:
        for kind in tuple(left):
            planted = None
            while planted is None and left[kind]:
                planted = plant(runs[left[kind].pop()], kind, rng)
            if planted is None:
                # Every run has had its turn: begin again, unless none of them can have it.
                left[kind] = list(rng.permutation(len(runs)))
                planted = next(
                    filter(None, (plant(runs[at], kind, rng) for at in left[kind])), None
                )
                if planted is None:
                    del left[kind]
                    continue
            yield planted
            given += 1
            if given == n:
                return
