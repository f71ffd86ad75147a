"""Which of five shapes the scores of one run, or of millions, have, and where they broke.

A Bayesian comparison of templates with a known, or averaged, noise: a label comes with its
probability; "unresolved" and "no break" are answers. Refuses to name a shape of fewer than four
scores. Whether any shape fits is asked in two ways: the residuals of the best template against
their noise (a chi-square, less a degree of freedom for each of level and depth), and the best shape
against collapses in two stages. `classify_many` groups runs with the same steps observed and the
same noise, agrees with `classify` to about a thousandth, and gives the same bytes on any number of
cores. The envelope in which labels hold is in docs/design/classifier.md.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from typing import Unpack

import numpy as np
import numpy.typing as npt

from stepscope.errors import DataError
from stepscope.shape import inputs, types
from stepscope.shape.inputs import FLOOR, Assumptions, ShapeOptions
from stepscope.shape.likelihood import (
    LEVEL,
    SIGMAS,
    GroupEvidence,
    TemplateEvidence,
    WhitenedTemplates,
    product,
    templates_under,
    weigh_many,
    weigh_templates,
)
from stepscope.shape.templates import SHORTEST, SHORTEST_COMPOUND, parts_of_run
from stepscope.stats.sample import Bools, Floats, Ints
from stepscope.values import Unmeasured

# One run under each noise that is considered.
EachNoise = Sequence[TemplateEvidence]
# Sums of probabilities are equal within this.
ROUNDING = 1e-6


def shortest_run(probability: Floats) -> tuple[Ints, Ints]:
    """Return first and last step of the shortest run that holds 90 % of each row's positive sum.

    Of runs of one length the one with most probability wins, then the earliest.
    """
    m, n = probability.shape
    upto = np.zeros((m, n + 1))
    np.cumsum(probability, axis=1, out=upto[:, 1:])
    needed = 0.9 * upto[:, -1] - ROUNDING * upto[:, -1]
    first, last = np.zeros(m, np.int64), np.full(m, n - 1, np.int64)
    open_rows = np.arange(m)
    for length in range(1, n):
        held = upto[open_rows, length:] - upto[open_rows, :-length]
        start = held.argmax(1)
        enough = held[np.arange(len(start)), start] >= needed[open_rows]
        done = open_rows[enough]
        first[done], last[done] = start[enough], start[enough] + length - 1
        open_rows = open_rows[~enough]
        if not len(open_rows):
            break
    return first, last


# Templates with less of the probability than this are left out.
NEGLIGIBLE_WEIGHT = 1e-6
# Halvings of the range of depths: limits are exact to 1e-9.
HALVINGS = 32
# No run falls deeper than this, in the unit of the scores.
DEEPEST = 2.0


def depth_span(found: EachNoise, odds: Sequence[Floats]) -> types.CredibleInterval:
    """Return the mean depth with 90 % limits, given that the run fell.

    Evidence and weights, (K,) each, the posterior of the templates, are those of each noise.
    """
    from scipy.special import log_ndtr

    broken = found[0].lens.bank.shape != types.HEALTHY
    weight = np.concatenate([w[broken] for w in odds])
    centre = np.concatenate([each.depth[broken] for each in found])
    root = np.sqrt(np.concatenate([each.lens.precision[broken] for each in found]))
    least = np.concatenate([each.lens.least[broken] for each in found])
    kept = weight > NEGLIGIBLE_WEIGHT * weight.max()
    weight, centre = weight[kept] / weight[kept].sum(), centre[kept]
    root, least = root[kept], least[kept]
    inside = log_ndtr((centre - least) * root)
    edge = -(((centre - least) * root) ** 2) / 2 - np.log(2 * np.pi) / 2
    mean = float(weight @ (centre + np.exp(edge - inside) / root))

    def above(depth: float) -> float:
        tail = log_ndtr((centre - np.maximum(depth, least)) * root)
        return float(weight @ np.exp(tail - inside))

    def limit(share: float) -> float:
        low, high = 0.0, DEEPEST
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if above(middle) > share else (low, middle)
        return (low + high) / 2

    low, high = limit(0.95), limit(0.05)
    return types.CredibleInterval(min(max(mean, low), high), low, high)


# Misfits less probable than this are no accident.
MISFIT = 0.01
# A collapse in two stages must explain the scores this much better than the best shape; ten is
# Jeffreys' "strong".
COMPOUND_LOG_FACTOR = math.log(10)
# Only runs that fit less well than this are asked about two stages: of runs with a shape one in
# nine, and nearly all of those that fall twice.
ASKED_BELOW = 0.3


def fit_probability(left: Floats, level: Floats) -> Floats:
    """Return the probability of residuals this large, were the template true, shape (m,).

    The level is fitted: a run of zeros is low, and not without a shape. Whitened are both what a
    template leaves of the scores, (m, p), and a change of level, (p,), of length 1.
    """
    from scipy.special import chdtrc

    square = np.einsum("mp,mp->m", left, left) - np.einsum("mp,p->m", left, level) ** 2
    return np.asarray(chdtrc(left.shape[1] - 2, np.maximum(square, 0.0)), dtype=np.float64)


def suspicious(gof_p: Floats, size: int) -> Bools:
    """Return which runs of `size` template steps are worth asking about two stages."""
    return np.asarray((gof_p < ASKED_BELOW) & (size >= SHORTEST_COMPOUND))


# Below this a run is low, in the articles' rubric: sub-goal not achieved, or achieved in part.
LOW = 0.6
# Two-sided 90 %, in standard errors.
NORMAL_90 = 1.6448536269514722
# Correlations below this are nothing.
NEGLIGIBLE_CORRELATION = 1e-4


def mean_level(
    scores: Floats, observed: Bools, sigma: Floats, what: Assumptions
) -> tuple[Floats, Floats]:
    """Return means of the observed scores and their 90 % half widths from the noise, (m,) each.

    All arrays are (m, n); scores are read where observed.
    """
    count = observed.sum(1)
    noise = np.where(observed, np.sqrt(sigma**2 + what.quantum**2 / 12), 0.0)
    variance = (noise**2).sum(1)
    lag, shared = 1, what.correlation
    while abs(shared) > NEGLIGIBLE_CORRELATION and lag < scores.shape[1]:
        variance += 2 * shared * (noise[:, :-lag] * noise[:, lag:]).sum(1)
        lag, shared = lag + 1, shared * what.correlation
    mean = np.where(observed, scores, 0.0).sum(1) / count
    return mean, NORMAL_90 * np.sqrt(np.maximum(variance, 0.0)) / count


# Below this probability of the best shape the label is "unresolved".
RESOLVED = 0.8
# A break is declared when it is more probable than none.
DECLARED = 0.5
# With fewer scores than this an unknown noise is not told from a shape: no label is given. At a
# noise of .15 one in five labels above .9 would be wrong.
FEWEST_BLIND = 8
# No finite evidence of ten scores says more.
LARGEST_FACTOR = 1e12


def classify(
    scores: Sequence[float | None] | npt.NDArray[np.float64],
    *,
    sigma: float | Sequence[float] | None = None,
    **options: Unpack[ShapeOptions],
) -> types.Shape | Unmeasured:
    """Compare five shapes for one run's scores.

    Scores are within 0..1, None or NaN where a step was not scored. `sigma` is the noise of a
    score, one standard deviation, for all steps or for each, above 0 and at most 1; None averages
    over `likelihood.SIGMAS`, resolves less, and no run of fewer than eight scores. `prior` has the
    share of each shape in the fleet, the same for all unless given; `quantum` is the step between
    the values that the judge can give (0.1 for tenths), None looks whether the scores show it;
    `correlation` is that of the errors of neighbouring steps, 0 unless given; see
    `noise.learn_noise`. `Unmeasured` with fewer than four scores, a score off the scale, or a sigma
    that is none.

    >>> found = classify([0.9, 0.91, 0.88, 0.6, 0.55, 0.58, 0.61, 0.62, 0.6, 0.58], sigma=0.05)
    >>> found.label, found.break_.step, round(found.depth.value, 2)
    ('early_collapse', 3, 0.31)
    """
    values = inputs.as_scores(scores)
    what = inputs.check_assumptions(values, **options)
    observed = ~np.isnan(values)
    noise = None if sigma is None else inputs.as_sigma(sigma, values.shape)
    if (absent := inputs.find_absence_of_shape(values, observed, noise)) is not None:
        return absent
    noises = [np.full(len(values), s) for s in SIGMAS] if noise is None else [noise]
    found = [weigh_templates(values, observed, one, what) for one in noises]
    if len(found[0].lens.weights) < SHORTEST:
        return inputs.TOO_CLOSE
    return _shape(values, observed, found, what, given=noise is not None)


def _shape(
    scores: Floats, observed: Bools, found: EachNoise, what: Assumptions, *, given: bool
) -> types.Shape:
    templates = found[0].lens.bank
    log = np.stack([each.log for each in found]) - np.log(len(found))
    top = log.max()
    starts = np.searchsorted(templates.shape, np.arange(len(types.SHAPES)))
    with np.errstate(divide="ignore"):
        likelihood = top + np.log(np.add.reduceat(np.exp(log - top).sum(0), starts))
    likelihood = np.maximum(likelihood, top + inputs.FLOOR)
    posterior = _normalise(likelihood + what.log_prior)
    weights = _normalise(log + what.log_prior[templates.shape])
    best, second = np.argsort(-posterior, kind="stable")[:2].tolist()
    gof_p = _misfit_p(found, _normalise(log).sum(1))
    unmodelled = gof_p < MISFIT
    if not unmodelled and bool(suspicious(np.array(gof_p), int(found[0].lens.part[-1]) + 1)):
        gain = _two_stage_evidence(scores, observed, found, what) - float(likelihood.max())
        unmodelled = gain > COMPOUND_LOG_FACTOR
    sigma = np.tensordot(weights.sum(1), np.stack([each.sigma for each in found]), 1)
    means, halves = mean_level(scores[None], observed[None], sigma[None], what)
    mean = types.CredibleInterval(
        float(means[0]), float(means[0] - halves[0]), float(means[0] + halves[0])
    )
    told = given or int(observed.sum()) >= FEWEST_BLIND
    resolved = told and posterior[best] >= RESOLVED and not unmodelled
    recovered = np.where(templates.shape == types.RECOVERY, weights.sum(0), 0.0)
    log_factor = min(likelihood[best] - likelihood[second], np.log(LARGEST_FACTOR))
    return types.Shape(
        posterior={name: float(posterior[i]) for i, name in enumerate(types.SHAPES)},
        log_likelihood=tuple(likelihood.tolist()),
        label=types.SHAPES[best] if resolved else "unresolved",
        best=types.SHAPES[best],
        runner_up=types.SHAPES[second],
        bayes_factor=float(np.exp(log_factor)),
        unmodelled=unmodelled,
        gof_p=gof_p,
        low_level=mean.high < LOW,
        mean=mean,
        break_=_break(weights.sum(0), found[0], unmodelled=unmodelled),
        depth=None if best == types.HEALTHY else depth_span(found, list(weights)),
        trough_length=int(templates.trough[recovered.argmax()]) if best == types.RECOVERY else None,
        sigma=float(sigma[observed].mean()),
        sigma_source="given" if given else "marginalised",
        n=len(scores),
        missing=int((~observed).sum()),
    )


def _normalise(log: Floats) -> Floats:
    """Return exp(log) scaled to sum to 1."""
    found = np.exp(log - log.max())
    return np.asarray(found / found.sum())


def _misfit_p(found: EachNoise, share: Floats) -> float:
    """Return the probability of residuals as large, averaged over the noises considered."""
    p = []
    for each in found:
        k = int(each.log.argmax())
        depth = max(each.depth[k], each.lens.least[k])
        rest = each.residual - each.lens.offset[k] - depth * each.lens.f[k]
        p.append(float(fit_probability(rest[None], each.lens.level)[0]))
    return float(np.clip(share @ np.array(p), 0.0, 1.0))


def _two_stage_evidence(
    scores: Floats, observed: Bools, found: EachNoise, what: Assumptions
) -> float:
    """Return the log evidence for a collapse in two stages."""
    log = np.stack(
        [weigh_templates(scores, observed, each.sigma, what, compound=True).log for each in found]
    )
    top = log.max()
    return float(top + np.log(np.exp(log - top).sum() / len(found)))


def _break(weight: Floats, one: TemplateEvidence, *, unmodelled: bool) -> types.Break:
    """Return where it broke, from the posterior of the templates, shape (K,)."""
    templates, part = one.lens.bank, one.lens.part
    size = np.bincount(part)

    def by_step(place: npt.NDArray[np.int16]) -> Floats:
        there = place >= 0
        mass = np.bincount(place[there], weights=weight[there], minlength=len(size))
        return np.asarray((mass / size)[part])

    probability = by_step(templates.half_drop)
    total = float(probability.sum())
    onset = by_step(templates.onset)
    step = first = last = None
    if total > DECLARED:
        step = int(probability.argmax())
        run = shortest_run(probability[None])
        first, last = int(run[0][0]), int(run[1][0])
    return types.Break(
        probability=tuple(probability.tolist()),
        none=max(0.0, 1.0 - total),
        step=step,
        first=first,
        last=last,
        unmodelled=unmodelled,
        onset=int(onset.argmax()) if step is not None else None,
    )


Codes = npt.NDArray[np.int8]
Steps = npt.NDArray[np.int16]


def classify_block(
    scores: Floats,  # shape (m, n), NaN or anything where not observed
    observed: Bools,  # shape (n,), the same for all rows
    sigma: Floats | None,  # shape (n,), the same for all rows; None averages over `SIGMAS`
    what: Assumptions,
    rows: Ints,  # shape (m,), which run of the input each is
) -> types.ShapeBatch:
    """Return the answers for a block."""
    values = np.where(observed, scores, 0.0)
    noises = [np.full(len(observed), s) for s in SIGMAS] if sigma is None else [sigma]
    seen = [_weigh_block(values, templates_under(observed, noise, what)) for noise in noises]
    # Rows of `share` sum to 1: how well each noise explains the run.
    top = np.stack([each.top for each in seen])
    highest = top.max(0)
    scale = np.exp(top - highest) / len(seen)
    sums = np.add.reduce([s[:, None] * each.sums for s, each in zip(scale, seen, strict=True)])
    share = np.stack([s * each.sums.sum(1) for s, each in zip(scale, seen, strict=True)])
    share /= share.sum(0)

    groups = seen[0]
    starts = np.searchsorted(groups.shape, np.arange(len(types.SHAPES)))
    likelihood = (
        np.asarray(np.log(np.maximum(np.add.reduceat(sums, starts, axis=1), np.exp(FLOOR))))
        + highest[:, None]
    )
    log = likelihood + what.log_prior
    found = np.exp(log - log.max(1, keepdims=True))
    posterior = np.asarray(found / found.sum(1, keepdims=True))
    best = posterior.argmax(1)
    misfits = np.stack([_misfit_p_rows(each) for each in seen])
    gof_p = np.clip(np.add.reduce(share * misfits), 0.0, 1.0)
    asked = np.flatnonzero(suspicious(gof_p, int(seen[0].lens.part[-1]) + 1) & (gof_p >= MISFIT))
    unmodelled = gof_p < MISFIT
    if len(asked):
        stages = _two_stage_evidence_rows(values[asked], observed, noises, what)
        unmodelled[asked] = stages - likelihood[asked].max(1) > COMPOUND_LOG_FACTOR
    noise = product(share.T, np.stack(noises))
    mean, half = mean_level(values, np.broadcast_to(observed, values.shape), noise, what)
    resolved = (posterior.max(1) >= RESOLVED) & ~unmodelled
    if sigma is None and int(observed.sum()) < FEWEST_BLIND:
        resolved[:] = False
    where = _break_columns(sums * np.exp(what.log_prior[groups.shape]), groups, seen[0].lens.part)
    return types.ShapeBatch(
        rows=rows,
        reasons=np.empty(0, np.int8),
        absences=inputs.ABSENCES,
        log_likelihood=likelihood,
        posterior=posterior,
        label=np.where(resolved, best, types.UNRESOLVED).astype(np.int8),
        best=best.astype(np.int8),
        unmodelled=unmodelled,
        gof_p=gof_p,
        low_level=mean + half < LOW,
        mean=mean,
        sigma=noise[:, observed].mean(1),
        missing=np.full(len(values), (~observed).sum(), np.int16),
        break_probability=where[0],
        break_step=where[1],
        break_low=where[2],
        break_high=where[3],
    )


def log_density(scores: Floats, observed: Bools, sigma: Floats, what: Assumptions) -> Floats:
    """Return the log density of each run's scores, shape (m,), whatever their shape."""
    seen = _weigh_block(np.where(observed, scores, 0.0), templates_under(observed, sigma, what))
    return np.asarray(seen.top + np.log((seen.sums * np.exp(what.log_prior[seen.shape])).sum(1)))


def _weigh_block(values: Floats, lens: WhitenedTemplates) -> GroupEvidence:
    return weigh_many(lens, product(product(values, lens.weights.T) - LEVEL, lens.whiten.T))


def _misfit_p_rows(seen: GroupEvidence) -> Floats:
    """Return how probable residuals as large as those of the best template are."""
    lens, k = seen.lens, seen.best
    left = seen.residual - lens.offset[k]
    along = np.einsum("mp,mp->m", left, lens.f[k])
    depth = np.maximum((along + lens.pull[k]) / lens.precision[k], lens.least[k])
    left -= depth[:, None] * lens.f[k]
    return fit_probability(left, lens.level)


def _two_stage_evidence_rows(
    values: Floats, observed: Bools, noises: list[Floats], what: Assumptions
) -> Floats:
    """Return the log evidence for a collapse in two stages."""
    seen = [_weigh_block(values, templates_under(observed, x, what, compound=True)) for x in noises]
    top = np.stack([each.top for each in seen])
    highest = top.max(0)
    sums = np.stack([each.sums.sum(1) for each in seen])
    return np.asarray(highest + np.log((sums * np.exp(top - highest)).sum(0) / len(seen)))


def _break_columns(
    weight: Floats, groups: GroupEvidence, part: Ints
) -> tuple[Floats, Steps, Steps, Steps]:
    """Return probability of a break, its step, and the 90 % run, from group weights (m, J)."""
    size = np.bincount(part)
    broken = np.flatnonzero(groups.half_drop >= 0)
    # One row a group with a break: 1 / steps of the part at each of its steps.
    by_step = product(weight[:, broken], (groups.half_drop[broken, None] == part) / size[part])
    probability = np.clip(by_step.sum(1) / weight.sum(1), 0.0, 1.0)
    declared = np.flatnonzero(probability > DECLARED)
    found = np.full((3, len(weight)), -1, np.int16)
    found[0, declared] = by_step[declared].argmax(1)
    found[1:, declared] = shortest_run(by_step[declared])
    return probability, found[0], found[1], found[2]


# Runs that a thread takes at once.
BLOCK = 16_384


def classify_many(
    scores: npt.NDArray[np.float64],
    *,
    sigma: float | Sequence[float] | npt.NDArray[np.float64] | None = None,
    **options: Unpack[ShapeOptions],
) -> types.ShapeBatch:
    """Compare five shapes for each of m runs of n steps, as `classify` does.

    Scores have shape (m, n); sigma is one number, or has shape (n,) for all runs, (m, 1) or (m, n).
    Runs that cannot be classified have no row; the batch says why.

    >>> curves = np.array([[0.9, 0.9, 0.9, 0.9, 0.9, 0.9], [0.9, 0.9, 0.4, 0.4, 0.4, 0.4]])
    >>> found = classify_many(curves, sigma=0.05)
    >>> found.label.tolist(), found.break_step.tolist()
    ([0, 1], [-1, 2])
    """
    try:
        values = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as e:
        raise DataError(f"scores are not a table of numbers ({e}); expected shape (m, n)") from e
    if values.ndim != 2:
        raise DataError(f"scores have shape {values.shape}; expected (m, n), one row a run")
    what = inputs.check_assumptions(values, **options)
    noise = None if sigma is None else inputs.as_sigma(sigma, values.shape)
    return _classify_table(values, noise, what)


def _classify_table(values: Floats, noise: Floats | None, what: Assumptions) -> types.ShapeBatch:
    """Return the shapes of runs of one length; both arrays are (m, n)."""
    observed = ~np.isnan(values)
    found = inputs.find_absences(values, observed, noise)
    reasons = np.where(found.any(1), found.argmax(1) + 1, 0).astype(np.int8)
    jobs: list[tuple[Ints, Bools, Floats | None]] = []
    for rows, seen in _by_pattern(observed, noise, np.flatnonzero(reasons == 0)):
        own = None if noise is None else noise[rows[0]]
        if len(np.unique(parts_of_run(len(seen))[seen])) < SHORTEST:
            reasons[rows] = inputs.ABSENCES.index(inputs.TOO_CLOSE) + 1
        else:
            jobs += [(rows[at : at + BLOCK], seen, own) for at in range(0, len(rows), BLOCK)]

    def done(job: tuple[Ints, Bools, Floats | None]) -> types.ShapeBatch:
        rows, seen, own = job
        return classify_block(values[rows], seen, own, what, rows)

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    with ThreadPoolExecutor(cores) as threads:
        parts = list(threads.map(done, jobs)) if len(jobs) > 1 else [done(job) for job in jobs]
    return _join(parts, reasons)


def classify_ragged(
    values: npt.NDArray[np.float64],
    lengths: npt.NDArray[np.int64],
    *,
    sigma: float | npt.NDArray[np.float64] | None = None,
    **options: Unpack[ShapeOptions],
) -> types.ShapeBatch:
    """Compare five shapes for runs of unequal length, laid end to end, as `classify_many` does.

    `lengths` are the steps of each run; sigma is one number, or one for each value.

    >>> found = classify_ragged(np.array([0.9] * 5 + [0.9, 0.4]), np.array([5, 2]), sigma=0.05)
    >>> found.rows.tolist(), found.absences[found.reasons[1] - 1].kind
    ([0], 'insufficient_data')
    """
    flat, counts = inputs.check_lengths(values, lengths)
    what = inputs.check_assumptions(flat, **options)
    noise = None if sigma is None else inputs.as_sigma(sigma, flat.shape)
    begins = np.cumsum(counts) - counts
    parts = []
    reasons = np.zeros(len(counts), np.int8)
    for length in np.unique(counts).tolist():
        mine = np.flatnonzero(counts == length)
        at = begins[mine, None] + np.arange(length)
        part = _classify_table(flat[at], None if noise is None else noise[at], what)
        reasons[mine] = part.reasons
        parts.append(replace(part, rows=mine[part.rows]))
    return _join(parts, reasons)


def _by_pattern(observed: Bools, noise: Floats | None, rows: Ints) -> Iterator[tuple[Ints, Bools]]:
    """Yield rows with the same steps observed and the same noise, and which steps these are."""
    if not len(rows):
        return
    seen = observed[rows]
    keys = np.packbits(seen, axis=1)
    if noise is not None and not (noise.strides[0] == 0 or bool((noise == noise[0]).all())):
        keys = np.concatenate([keys, np.where(seen, noise[rows], 0.0).view(np.uint8)], axis=1)
    if (keys == keys[0]).all():
        yield rows, seen[0]
        return
    padded = np.pad(keys, ((0, 0), (0, -keys.shape[1] % 8)))
    words = padded.view(np.uint64 if padded.shape[1] == 8 else np.dtype((np.void, padded.shape[1])))
    _, first, group = np.unique(words.ravel(), return_index=True, return_inverse=True)
    order = np.argsort(group, kind="stable")
    cuts = np.flatnonzero(np.diff(group[order])) + 1
    for at, members in zip(first, np.split(order, cuts), strict=True):
        yield rows[members], seen[at]


def _join(parts: Sequence[types.ShapeBatch], reasons: npt.NDArray[np.int8]) -> types.ShapeBatch:
    """Return parts put together in the order of their runs."""
    if not parts:  # the columns of one run, without it
        one, seen = np.full((1, SHORTEST), 0.5), np.ones(SHORTEST, np.bool_)
        what = inputs.check_assumptions(None)
        some = classify_block(one, seen, None, what, np.zeros(1, np.int64))
        parts = [replace(some, **{name: getattr(some, name)[:0] for name in _COLUMNS})]
    order = np.argsort(np.concatenate([part.rows for part in parts]), kind="stable")
    columns = {x: np.concatenate([getattr(part, x) for part in parts])[order] for x in _COLUMNS}
    return types.ShapeBatch(reasons=reasons, absences=inputs.ABSENCES, **columns)


_COLUMNS = [x.name for x in fields(types.ShapeBatch) if x.name not in {"reasons", "absences"}]
