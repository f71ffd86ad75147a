"""Did it work: the environment's check, the recorded reward or a person's label; says which."""

from __future__ import annotations

from collections.abc import Iterable

from stepscope.measures.rule import Rule
from stepscope.model import Answer, Case, Facts, Scale, Trajectory, Verdict
from stepscope.values import Unmeasured

_UNKNOWN = (
    Unmeasured(
        "missing_input", "the trace has no reward, check or label of its outcome", "outcome"
    ),
)


def _run(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    outcome = trajectory.outcome
    if outcome.status == "unknown":
        return _UNKNOWN
    said = outcome.reason
    if not said and outcome.reward is not None:
        said = f"reward {outcome.reward:g}"
    if not said.startswith(outcome.source):
        said = f"{outcome.source}: {said}" if said else outcome.source
    value = 1.0 if outcome.status == "pass" else 0.0
    return (Verdict("outcome", value, outcome.status, reason=said),)


MEASURE = Rule("outcome", "1", Scale(0.0, 1.0, ("pass", "fail")), (), _run)
