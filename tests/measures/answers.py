"""Reading answers in tests: by aspect, and by step."""

from __future__ import annotations

from stepscope.model import Answer, Case, Facts, Measure, Trajectory, Verdict
from stepscope.values import Unmeasured


def whole(
    measure: Measure, run: Trajectory, case: Case | None = None, facts: Facts | None = None
) -> dict[str, Answer]:
    """Return the answers about the whole run, by aspect."""
    return {a.measure: a for a in measure(run, case, facts) if a.step is None}


def labels(
    measure: Measure, run: Trajectory, case: Case | None = None, facts: Facts | None = None
) -> dict[int, str | None]:
    """Return the labels of the answers about steps."""
    answers = measure(run, case, facts)
    return {a.step: a.label for a in answers if isinstance(a, Verdict) and a.step is not None}


def value(answer: Answer) -> float | str | None:
    """Return the value of a verdict, or the kind of an absence."""
    return answer.kind if isinstance(answer, Unmeasured) else answer.value


def label(answer: Answer) -> str | None:
    """Return the label of a verdict, or the kind of an absence."""
    return answer.kind if isinstance(answer, Unmeasured) else answer.label


def cites(answer: Answer) -> tuple[int, ...]:
    """Return the steps that a verdict cites."""
    assert isinstance(answer, Verdict)
    return answer.cites
