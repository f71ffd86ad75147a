"""Which of five shapes a run's scores have, how probable each is, and where they broke.

A Bayesian comparison of templates with a known, or averaged, noise: a label comes with its
probability, "unresolved" is an answer, and so is a break that is nowhere. It refuses to name a
shape of fewer than four scores, and says when none of the five fits.
The envelope in which labels hold, and what was tried and refused, are in docs/design/classifier.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from stepscope.shape import door
from stepscope.shape.bank import SHORTEST
from stepscope.shape.credible import shortest_run
from stepscope.shape.depth import depth_span
from stepscope.shape.evidence import Evidence, evidence, evidences
from stepscope.shape.fit import COMPOUND_LOG_FACTOR, MISFIT, fit_probability, suspicious
from stepscope.shape.level import LOW, mean_level
from stepscope.shape.names import HEALTHY, RECOVERY, SHAPES, ShapeName
from stepscope.shape.types import Bools, BreakSteps, Floats, Shape, Span
from stepscope.values import Unmeasured

# Below this probability of the best shape the label is "unresolved".
RESOLVED = 0.8
# A break is declared when it is more probable than none.
DECLARED = 0.5
# No finite evidence of ten scores says more.
LARGEST_FACTOR = 1e12


def classify(
    scores: Sequence[float | None] | npt.NDArray[np.float64],
    *,
    sigma: float | Sequence[float] | None = None,
    prior: Mapping[ShapeName, float] | None = None,
    quantum: float | None = None,
    correlation: float = 0.0,
) -> Shape | Unmeasured:
    """Compare five shapes for one run's scores.

    Args:
        scores: n scores within 0..1, None or NaN where a step was not scored.
        sigma: noise of a score, one standard deviation, for all steps or for each; above 0, at
            most 1. None averages over `evidence.SIGMAS`, and resolves less.
        prior: share of each shape in the fleet; the same for all unless given.
        quantum: step between the values that the judge can give (0.1 for tenths).
        correlation: of the errors of neighbouring steps; see `noise.learn`.

    Returns:
        The shape; `Unmeasured` with fewer than four scores, a score off the scale, or a sigma that
        is none.

    Raises:
        DataError: the prior, the quantum, the correlation or a shape of the arguments makes no
            sense.

    >>> found = classify([0.9, 0.91, 0.88, 0.6, 0.55, 0.58, 0.61, 0.62, 0.6, 0.58], sigma=0.05)
    >>> found.label, found.break_.step, round(found.depth.value, 2)
    ('early_collapse', 3, 0.31)
    """
    what = door.asked(prior, quantum, correlation)
    values = door.read(scores)
    observed = ~np.isnan(values)
    noise = None if sigma is None else door.noise(sigma, values.shape)
    absent = door.absence(values, observed, noise)
    if absent is not None:
        return absent
    found = evidences(values, observed, noise, what)
    if len(found[0].lens.pool.places) < SHORTEST:
        return door.CROWDED
    return _shape(values, observed, found, what, given=noise is not None)


def _shape(
    scores: Floats, observed: Bools, found: list[Evidence], what: door.Asked, *, given: bool
) -> Shape:
    templates = found[0].lens.bank
    log = np.stack([each.log for each in found]) - np.log(len(found))
    top = log.max()
    starts = np.searchsorted(templates.shape, np.arange(len(SHAPES)))
    with np.errstate(divide="ignore"):
        likelihood = top + np.log(np.add.reduceat(np.exp(log - top).sum(0), starts))
    likelihood = np.maximum(likelihood, top + door.FLOOR)
    posterior = _normal(likelihood + what.log_prior)
    weights = _normal(log + what.log_prior[templates.shape])
    best, second = np.argsort(-posterior, kind="stable")[:2].tolist()
    gof_p = _fit(found, _normal(log).sum(1))
    unmodelled = gof_p < MISFIT
    if not unmodelled and bool(suspicious(np.array(gof_p), found[0].lens.pool.size)):
        gain = _two_stages(scores, observed, found, what) - float(likelihood.max())
        unmodelled = gain > COMPOUND_LOG_FACTOR
    sigma = np.tensordot(weights.sum(1), np.stack([each.sigma for each in found]), 1)
    means, halves = mean_level(scores[None], observed[None], sigma[None], what)
    mean = Span(float(means[0]), float(means[0] - halves[0]), float(means[0] + halves[0]))
    resolved = posterior[best] >= RESOLVED and not unmodelled
    recovered = np.where(templates.shape == RECOVERY, weights.sum(0), 0.0)
    return Shape(
        posterior={name: float(posterior[i]) for i, name in enumerate(SHAPES)},
        log_likelihood=tuple(likelihood.tolist()),
        label=SHAPES[best] if resolved else "unresolved",
        best=SHAPES[best],
        runner_up=SHAPES[second],
        bayes_factor=float(
            np.exp(min(likelihood[best] - likelihood[second], np.log(LARGEST_FACTOR)))
        ),
        unmodelled=unmodelled,
        gof_p=gof_p,
        low_level=mean.high < LOW,
        mean=mean,
        break_=_break(weights.sum(0), found[0]),
        depth=None if best == HEALTHY else depth_span(found, list(weights)),
        trough_length=int(templates.trough[recovered.argmax()]) if best == RECOVERY else None,
        sigma=float(sigma[observed].mean()),
        sigma_source="given" if given else "marginalised",
        n=len(scores),
        missing=int((~observed).sum()),
    )


def _normal(log: Floats) -> Floats:
    """Return exp(log) scaled to sum to 1."""
    found = np.exp(log - log.max())
    return np.asarray(found / found.sum())


def _fit(found: list[Evidence], share: Floats) -> float:
    """Return the probability of residuals as large, averaged over the noises considered."""
    p = []
    for each in found:
        k = int(each.log.argmax())
        depth = max(each.depth[k], each.lens.least[k])
        rest = each.residual - each.lens.offset[k] - depth * each.lens.f[k]
        p.append(float(fit_probability(rest[None], each.lens.level)[0]))
    return float(np.clip(share @ np.array(p), 0.0, 1.0))


def _two_stages(scores: Floats, observed: Bools, found: list[Evidence], what: door.Asked) -> float:
    """Return the log evidence for a collapse in two stages."""
    log = np.stack(
        [evidence(scores, observed, each.sigma, what, compound=True).log for each in found]
    )
    top = log.max()
    return float(top + np.log(np.exp(log - top).sum() / len(found)))


def _break(weight: Floats, one: Evidence) -> BreakSteps:
    """Return where it broke, from the posterior of the templates, shape (K,)."""
    templates, part = one.lens.bank, one.lens.pool.part
    size = np.bincount(part)

    def by_step(place: npt.NDArray[np.int16]) -> Floats:
        there = place >= 0
        mass = np.bincount(place[there], weights=weight[there], minlength=len(size))
        return np.asarray((mass / size)[part])

    probability = by_step(templates.half_drop)
    total = float(probability.sum())
    onset = by_step(templates.onset)
    if total <= DECLARED:
        step = first = last = None
    else:
        step = int(probability.argmax())
        run = shortest_run(probability[None])
        first, last = int(run[0][0]), int(run[1][0])
    return BreakSteps(
        probability=tuple(probability.tolist()),
        step=step,
        first=first,
        last=last,
        onset=int(onset.argmax()) if step is not None else None,
    )
