"""What a run's score curve points at: the steps where it broke, and gates that were not reached.

Only scores that somebody gave point at anything: the labels of rules have their own suspects.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.report.curve_types import Curve, GateFailure
from stepscope.report.lines import score, share
from stepscope.report.types import Suspect
from stepscope.values import Unmeasured


def with_curve(curve: Curve | Unmeasured | None, others: Sequence[Suspect]) -> tuple[Suspect, ...]:
    """Return the suspects of a run, those of its scores first."""
    if not isinstance(curve, Curve) or curve.source == "step_labels":
        return tuple(others)
    return (*(_broken(curve) or _throughout(curve)), *_gates(curve), *others)


def _broken(curve: Curve) -> tuple[Suspect, ...]:
    first, last, step = curve.break_first, curve.break_last, curve.break_step
    if first is None or last is None or step is None or isinstance(curve.shape, Unmeasured):
        return ()
    points = zip(curve.steps, curve.scores, strict=True)
    known = [(index, value) for index, value in points if value is not None]
    before = _mean([value for index, value in known if index < first])
    after = _mean([value for index, value in known if index > last])
    fall = f" from {before}" if before else ""
    fall += f" to {after}" if after and curve.shape != "recovery" else ""
    name = curve.shape.replace("_", " ")
    sure = share(curve.posterior.get(curve.shape, 0.0))
    shape = f"{name} {sure}" if curve.posterior.get(curve.shape) else name
    said = f"scores fall{fall} at {step}: {shape}"
    return (Suspect(first=first, last=last, kind="break", evidence=said),)


def _throughout(curve: Curve) -> tuple[Suspect, ...]:
    """Return the whole run where no one step stands out: it loses at every step, or is low."""
    if isinstance(curve.shape, Unmeasured):
        return ()
    if curve.shape == "steady_degradation":
        said = f"scores fall steadily: steady degradation {share(curve.posterior[curve.shape])}"
    elif curve.low_level and curve.mean is not None:
        said = f"scores are low throughout: mean {score(curve.mean.value)}"
    else:
        return ()
    return (Suspect(first=curve.steps[0], last=curve.steps[-1], kind="break", evidence=said),)


def _mean(scores: Sequence[float]) -> str:
    return score(sum(scores) / len(scores)) if scores else ""


def _gates(curve: Curve) -> tuple[Suspect, ...]:
    found = [failed for failed in curve.gate_failed if failed.step != curve.break_step]
    return tuple(
        Suspect(first=at.step, last=at.step, kind="gate", evidence=_below(at)) for at in found
    )


def _below(failed: GateFailure) -> str:
    return f"a step of weight 3 scored {score(failed.score)}, below {score(failed.limit)}"
