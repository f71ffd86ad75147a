"""The shape of an axis' answers: one about the run, one at each step that is at fault.

`incorrect` always cites; `correct` says what was checked; whoever cannot know says `uncertain`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stepscope.measures.rule import one_a_step
from stepscope.model import Answer, Scale, Verdict

CORRECT, INCORRECT, UNCERTAIN = LABELS = ("correct", "incorrect", "uncertain")
SCALE = Scale(0.0, 0.0, LABELS)


class Fault(NamedTuple):
    """What is wrong at a step, one sentence, and the steps that show it (the step itself too)."""

    step: int
    reason: str
    cites: tuple[int, ...] = ()


def condemned(name: str, faults: Iterable[Fault]) -> Sequence[Answer]:
    """Return the answers of an axis that found faults: the run's first, then one a step."""
    found = sorted(set(faults))
    cited = [tuple(sorted({fault.step, *fault.cites})) for fault in found]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    each = [
        Verdict(name, label=INCORRECT, step=fault.step, cites=cites, reason=fault.reason)
        for fault, cites in zip(found, cited, strict=True)
    ]
    whole = Verdict(
        name,
        label=INCORRECT,
        cites=tuple(sorted({step for cites in cited for step in cites})),
        reason=found[0].reason + more,
    )
    return (whole, *one_a_step(each, lambda labels: labels[0]))


def judged(name: str, label: str, reason: str, cites: tuple[int, ...] = ()) -> tuple[Verdict]:
    """Return the one answer of an axis that found no fault: correct, or uncertain and why."""
    return (Verdict(name, label=label, cites=cites, reason=reason),)
