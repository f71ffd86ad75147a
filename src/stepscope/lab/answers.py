"""What a classifier answers about many runs at once, in one form for all that are compared.

The references answer with a shape and the article's break step; they have no posterior and declare
a break in every run. The default answers with a posterior, "unresolved", and a break or none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from stepscope.lab.planted import Floats, Ints
from stepscope.shape.batch import classify_many
from stepscope.shape.names import HEALTHY, SHAPES, UNRESOLVED
from stepscope.shape.noise import learn
from stepscope.shape.references import Codes, find_break_point_many, v1_many, v2_many, v3_many
from stepscope.values import Unmeasured


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """One entry a run; indexes into `SHAPES`, steps from 0.

    Attributes:
        best: shape (m,), the shape it would name if it had to.
        label: shape (m,), the shape it names, -1 where it leaves the run unresolved.
        break_step: shape (m,), where the run broke, -1 for no break.
        posterior: shape (m, 5), None where the classifier has none.
        break_low: shape (m,), first step of its 90 % set; None where it has none.
        break_high: shape (m,), last step of it.
        unmodelled: shape (m,), runs that fit no shape; None where it cannot say.
    """

    best: npt.NDArray[np.int8]
    label: npt.NDArray[np.int8]
    break_step: Ints
    posterior: Floats | None = None
    break_low: Ints | None = None
    break_high: Ints | None = None
    unmodelled: npt.NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """What a classifier is told of the noise.

    Attributes:
        sigma: its standard deviation, None for nothing.
        quantum: step between scores, None where all are possible.
        correlation: of the errors of neighbouring steps.
    """

    sigma: float | None
    quantum: float | None = None
    correlation: float = 0.0


Classifier = Callable[[Floats, Told], Answers]


def _reference(classify: Callable[[Floats], Codes]) -> Classifier:
    def answer(scores: Floats, told: Told) -> Answers:
        codes = classify(scores)
        return Answers(best=codes, label=codes, break_step=find_break_point_many(scores))

    return answer


def default(scores: Floats, told: Told) -> Answers:
    """Answer as the product does; a run that it cannot classify is healthy and unresolved."""
    batch = classify_many(
        scores, sigma=told.sigma, quantum=told.quantum, correlation=told.correlation
    )
    rows, m = batch.rows, len(scores)
    best, label = np.full(m, HEALTHY, np.int8), np.full(m, UNRESOLVED, np.int8)
    steps = np.full((3, m), -1, np.int64)
    posterior = np.full((m, len(SHAPES)), 1 / len(SHAPES))
    unmodelled = np.zeros(m, np.bool_)
    best[rows], label[rows], posterior[rows] = batch.best, batch.label, batch.posterior
    steps[:, rows] = batch.break_step, batch.break_low, batch.break_high
    unmodelled[rows] = batch.unmodelled
    return Answers(
        best=best,
        label=label,
        posterior=posterior,
        break_step=steps[0],
        break_low=steps[1],
        break_high=steps[2],
        unmodelled=unmodelled,
    )


def fleet(scores: Floats, told: Told) -> Answers:
    """Answer as `default`, told how long errors last, as learned from these runs together.

    Its sigma is the one it is told; where it is told none, that too is learned.
    """
    lengths = np.full(len(scores), scores.shape[1])
    found = learn(scores.ravel(), lengths, quantum=told.quantum)
    if isinstance(found, Unmeasured):
        return default(scores, told)
    sigma = found.sigma.value if told.sigma is None else told.sigma
    return default(scores, replace(told, sigma=sigma, correlation=found.correlation_to_tell()))


CLASSIFIERS: dict[str, Classifier] = {
    "v1": _reference(v1_many),
    "v2": _reference(v2_many),
    "v3": _reference(v3_many),
    "default": default,
    "fleet": fleet,
}
