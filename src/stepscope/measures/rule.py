"""What every deterministic measure is: a pure function with a name, a version and a scale."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from stepscope.model import Answer, Case, Facts, Scale, Trajectory, Verdict

Run = Callable[[Trajectory, Case | None, Facts | None], Iterable[Answer]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A measure made of one function; satisfies `stepscope.model.Measure`."""

    name: str
    version: str
    scale: Scale
    learns: tuple[str, ...]
    run: Run

    def __call__(
        self, trajectory: Trajectory, case: Case | None, facts: Facts | None
    ) -> Iterable[Answer]:
        """Answer about one run."""
        return self.run(trajectory, case, facts)


def one_a_step(answers: Sequence[Verdict], pick: Callable[[list[str]], str]) -> Sequence[Verdict]:
    """Return one answer a step: parallel calls may answer twice at one, and a record's key cannot.

    Args:
        answers: about steps, by step.
        pick: chooses the label of a step from its labels.
    """
    if len({answer.step for answer in answers}) == len(answers):
        return answers
    merged: list[Verdict] = []
    for step, group in groupby(answers, key=lambda answer: answer.step):
        same = list(group)
        merged.append(
            Verdict(
                same[0].measure,
                label=pick([answer.label for answer in same if answer.label is not None]),
                step=step,
                cites=tuple(sorted({cite for answer in same for cite in answer.cites})),
                reason="; ".join(answer.reason for answer in same),
            )
        )
    return merged
