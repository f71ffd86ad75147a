"""Labels of steps, where rules can know: REDUNDANT and ERROR; all others are uncertain."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from stepscope.measures.calls import failed_calls
from stepscope.measures.errors import TRANSIENT, first_line
from stepscope.measures.rule import RuleMeasure
from stepscope.measures.same_calls import redundant_calls
from stepscope.model import Answer, Case, Facts, Scale, Trajectory, Verdict
from stepscope.model.records import STEP_LABELS_NAME
from stepscope.values import Unmeasured

ERROR, REDUNDANT = LABELS = ("ERROR", "REDUNDANT")

_NO_STEPS = tuple(
    Unmeasured("not_applicable", "the agent did nothing", name)
    for name in (
        STEP_LABELS_NAME, f"{STEP_LABELS_NAME}.errors", f"{STEP_LABELS_NAME}.redundant",
        f"{STEP_LABELS_NAME}.steps",
    )
)  # fmt: skip
_NO_LABELS = (
    Verdict(f"{STEP_LABELS_NAME}.errors", 0.0),
    Verdict(f"{STEP_LABELS_NAME}.redundant", 0.0),
)


def _labels(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    """Labels of steps, where rules can know: REDUNDANT and ERROR; all others are uncertain.

    REDUNDANT: every call of the step repeats one whose answer still holds (`redundant_calls`).
    ERROR: a call of the step failed, and not by bad luck that a retry would mend (a timeout, a rate
    limit). No rule claims PROGRESS or DETOUR: whether a step helped is for judges.

    Aspects: `step_labels` how many of the agent's steps have a label; `.errors`, `.redundant`
    counts; `.steps` how many steps the agent made, each cited: where a label could stand. Source of
    the labels: the categories of trajectory judges that label every step.
    """
    acted = tuple([step.index for step in trajectory.steps if step.actor == "agent"])
    if not acted:
        return _NO_STEPS
    errors: dict[int, str] = {}
    for exchange in failed_calls(trajectory):
        said = first_line(exchange.result)
        if exchange.call.requestor == "agent" and not TRANSIENT.search(said):
            errors.setdefault(exchange.step, f"{exchange.call.name} failed: {said}")
    again: dict[int, list[int]] = {}
    for repeat, earlier in redundant_calls(trajectory.exchanges, facts):
        again.setdefault(repeat.step, []).append(earlier.step)
    where = Verdict(f"{STEP_LABELS_NAME}.steps", float(len(acted)), cites=acted)
    if not errors and not again:
        why = f"0 ERROR, 0 REDUNDANT, {len(acted)} uncertain"
        return (Verdict(STEP_LABELS_NAME, 0.0, reason=why), *_NO_LABELS, where)
    twice = {
        step: sources
        for step, sources in again.items()
        if step not in errors and len(sources) == len(trajectory.steps[step].calls)
    }
    labelled = {
        **{step: (ERROR, (step,), reason) for step, reason in errors.items()},
        **{
            step: (REDUNDANT, (*sorted(set(sources)), step), f"repeats {min(sources)}")
            for step, sources in twice.items()
        },
    }
    left = len(acted) - len(labelled)
    why = f"{len(errors)} ERROR, {len(twice)} REDUNDANT, {left} uncertain"
    return (
        Verdict(STEP_LABELS_NAME, float(len(labelled)), cites=tuple(sorted(labelled)), reason=why),
        Verdict(f"{STEP_LABELS_NAME}.errors", float(len(errors)), cites=tuple(sorted(errors))),
        Verdict(f"{STEP_LABELS_NAME}.redundant", float(len(twice)), cites=tuple(sorted(twice))),
        where,
        *(
            Verdict(STEP_LABELS_NAME, label=label, step=step, cites=cites, reason=reason)
            for step, (label, cites, reason) in sorted(labelled.items())
        ),
    )


STEP_LABELS = RuleMeasure(STEP_LABELS_NAME, "4", Scale(0.0, inf, LABELS), ("effects",), _labels)
