"""What the rules said about one run, by measure: the reading side of its records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stepscope.model import Record, Verdict
from stepscope.values import Unmeasured


class Findings(NamedTuple):
    """The rules' records of one run.

    `whole` holds the answer about the whole run by measure, `by_step` the verdicts about steps.
    """

    whole: dict[str, Verdict]
    absent: dict[str, Unmeasured]
    by_step: dict[str, tuple[Verdict, ...]]

    def cites(self, measure: str) -> tuple[int, ...]:
        """Return the steps that a measure's answer about the whole run points at."""
        verdict = self.whole.get(measure)
        return verdict.cites if verdict is not None else ()

    def labels(self, measure: str) -> dict[int, str]:
        """Return the label that a measure gave to each step."""
        steps = self.by_step.get(measure, ())
        return {v.step: v.label for v in steps if v.step is not None and v.label is not None}


def findings(records: Iterable[Record]) -> Findings:
    """Sort the rules' records of one run; those of people and judges are left aside."""
    whole: dict[str, Verdict] = {}
    absent: dict[str, Unmeasured] = {}
    by_step: dict[str, list[Verdict]] = {}
    for record in records:
        answer = record.answer
        if record.family != "rules":
            continue
        if isinstance(answer, Unmeasured):
            if answer.step is None:
                absent[answer.measure] = answer
        elif answer.step is None:
            whole[answer.measure] = answer
        else:
            by_step.setdefault(answer.measure, []).append(answer)
    return Findings(whole, absent, {name: tuple(steps) for name, steps in by_step.items()})
