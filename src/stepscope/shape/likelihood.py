"""How well each template explains scores under one noise: exactly, and fast for many runs.

    y = level + offset + depth * f + noise

The level is normal, the depth a normal cut off below; the noise of the scores is the judge's, may
correlate from step to step, and is joined by a small roughness of the curve and a small slope.
Level and depth are integrated out in closed form. `weigh_many` works in single precision and in
tiles; products are cut small, so that a linear algebra library starts no threads of its own.

Source: Bayesian linear regression with a truncated normal coefficient; the integral is the one of
Bishop (2006), Pattern Recognition and Machine Learning, 3.5.1, times a ratio of normal integrals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from stepscope.shape import templates as library
from stepscope.shape.inputs import Assumptions
from stepscope.shape.types import HEALTHY
from stepscope.stats.sample import Bools, Floats, Ints

# Multiplications of one product, below what makes OpenBLAS start threads (4 * 65,536).
PRODUCT = 250_000


def product(left: Floats, right: Floats) -> Floats:
    """Return left @ right, shapes (m, p) and (p, k), worked off in pieces of rows."""
    height = max(1, PRODUCT // max(1, right.size))
    found = np.empty((len(left), right.shape[1]))
    for start in range(0, len(left), height):
        np.matmul(left[start : start + height], right, out=found[start : start + height])
    return found


def inverse_of_lower(root: Floats) -> Floats:
    """Return the inverse of a lower triangular matrix, by forward substitution."""
    found = np.zeros_like(root)
    for i, row in enumerate(root):
        found[i, i] = 1.0
        found[i] = (found[i] - np.einsum("j,jk->k", row[:i], found[:i])) / row[i]
    return found


# Level of a run at its best: centre and standard deviation.
LEVEL, LEVEL_SPREAD = 0.80, 0.18
# How deep runs fall: centre, standard deviation, least. Half way between the least fall of a broken
# run and the steepest of a healthy one lies .15, where the articles draw their line.
DEPTH, DEPTH_SPREAD, DEPTH_LEAST = 0.40, 0.15, 0.20
# How much healthy runs climb from first to last step, beside the rise of their template.
CLIMB, CLIMB_SPREAD, CLIMB_LEAST = 0.0, 0.07, -0.10
# Roughness of a curve around its template, and of its slope over the run: standard deviations.
ROUGHNESS, SLOPE = 0.025, 0.03
# Correlations below this are nothing.
NEGLIGIBLE = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WhitenedTemplates:
    """Templates seen through one noise, so that evidence is a dot product away."""

    bank: library.Templates  # the templates
    weights: Floats  # shape (p, n), the averages of the scores that are compared
    part: Ints  # shape (n,), the step of the templates that each step of the run belongs to
    whiten: Floats  # shape (p, p), turns residuals into independent ones of variance 1
    level: Floats  # shape (p,), a change of level, whitened, of length 1
    f: Floats  # shape (K, p), the templates' forms, whitened
    offset: Floats  # shape (K, p), whitened
    cross: Floats  # shape (K,), f times offset
    square: Floats  # shape (K,), offset times offset
    precision: Floats  # shape (K,), posterior precision of the depth
    pull: Floats  # shape (K,), prior mean of the depth times its prior precision
    least: Floats  # shape (K,), least depth
    constant: Floats  # shape (K,), what of the log evidence does not depend on the scores
    log_scale: float  # log of the density's scale, the same for all templates


@lru_cache(maxsize=32)
def _whiten_templates(
    observed: bytes,  # n bytes, 1 where a step has a score
    sigma: bytes,  # n doubles, the noise of each score; of missing ones, anything
    quantum: float,  # step between the values that a judge can give, 0 when it can give all
    correlation: float,
    compound: bool,  # the collapses in two stages instead of the five shapes
) -> WhitenedTemplates:
    from scipy.special import log_ndtr

    seen = np.frombuffer(observed, dtype=np.bool_)
    noise = np.where(seen, np.frombuffer(sigma, dtype=np.float64), 1.0)
    noise = np.sqrt(noise**2 + quantum**2 / 12)
    weights, places = library.pool_steps(seen, noise)
    size = min(len(seen), library.LONGEST)
    templates = (library.two_stage_templates if compound else library.make_templates)(size)
    covariance = curve_covariance(weights, places / (size - 1) - 0.5, noise, correlation)
    root = np.asarray(np.linalg.cholesky(covariance), np.float64)
    unit = inverse_of_lower(root)
    f = product(templates.f[:, places], unit.T)
    offset = product(templates.offset[:, places], unit.T)
    healthy = templates.shape == HEALTHY
    centre = np.where(healthy, CLIMB, DEPTH)
    spread = np.where(healthy, CLIMB_SPREAD, DEPTH_SPREAD)
    least = np.where(healthy, CLIMB_LEAST, DEPTH_LEAST)
    level = unit.sum(1)
    precision = (f**2).sum(1) + spread**-2.0
    square = (offset**2).sum(1)
    constant = templates.log_weight - (centre / spread) ** 2 / 2 - np.log(spread**2 * precision) / 2
    return WhitenedTemplates(
        bank=templates,
        weights=weights,
        part=library.parts_of_run(len(seen)),
        whiten=unit,
        level=level / np.sqrt(level @ level),
        f=f,
        offset=offset,
        cross=(f * offset).sum(1),
        square=square,
        precision=precision,
        pull=centre / spread**2,
        least=least,
        constant=constant - log_ndtr((centre - least) / spread) - square / 2,
        log_scale=float(-np.log(np.diag(root)).sum() - len(root) * np.log(2 * np.pi) / 2),
    )


def curve_covariance(weights: Floats, middle: Floats, noise: Floats, correlation: float) -> Floats:
    """Return the covariance, (p, p), of averages of n scores around `LEVEL` plus a template.

    Weights have shape (p, n), noise (n,); `middle`, (p,), says where in the run each average is,
    from -.5 to .5. The correlation of neighbouring errors falls off geometrically with distance.
    """
    spread = weights * noise
    found = spread @ spread.T
    lag, shared = 1, correlation
    while abs(shared) > NEGLIGIBLE and lag < len(noise):
        beside = shared * (spread[:, :-lag] @ spread[:, lag:].T)
        found += beside + beside.T
        lag, shared = lag + 1, shared * correlation
    own = ROUGHNESS**2 * np.eye(len(found))
    return np.asarray(found + own + LEVEL_SPREAD**2 + SLOPE**2 * np.outer(middle, middle))


# What a judge's sigma may be when nobody has measured it: equally likely each.
SIGMAS = (0.03, 0.055, 0.1, 0.18)


@dataclass(frozen=True, slots=True, eq=False)
class TemplateEvidence:
    """One run against all templates under one noise."""

    lens: WhitenedTemplates  # the templates as this noise shows them
    sigma: Floats  # shape (n,), the noise
    residual: Floats  # shape (p,), scores minus `LEVEL`, whitened
    log: Floats  # shape (K,), log evidence of each template, its weight included
    depth: Floats  # shape (K,), posterior mean of the depth before it is cut off at the least


def weigh_templates(
    scores: Floats, observed: Bools, sigma: Floats, what: Assumptions, *, compound: bool = False
) -> TemplateEvidence:
    """Return the evidence for each template; all arrays have shape (n,)."""
    from scipy.special import log_ndtr

    lens = templates_under(observed, sigma, what, compound=compound)
    residual = _dot(lens.whiten, _dot(lens.weights, np.where(observed, scores, 0.0)) - LEVEL)
    depth = (_dot(lens.f, residual) - lens.cross + lens.pull) / lens.precision
    root = np.sqrt(lens.precision)
    log = (
        lens.constant
        + (depth * root) ** 2 / 2
        + log_ndtr((depth - lens.least) * root)
        + _dot(lens.offset, residual)
        + lens.log_scale
        - residual @ residual / 2
    )
    return TemplateEvidence(lens, sigma, residual, log, depth)


def templates_under(
    observed: Bools, sigma: Floats, what: Assumptions, *, compound: bool = False
) -> WhitenedTemplates:
    """Return the templates as this noise shows them; the last 32 answers are kept."""
    noise = np.ascontiguousarray(sigma).tobytes()
    return _whiten_templates(observed.tobytes(), noise, what.quantum, what.correlation, compound)


def _dot(rows: Floats, vector: Floats) -> Floats:
    """Return rows @ vector without a library's threads; see `products`."""
    return np.asarray(np.einsum("kp,p->k", rows, vector))


Singles = npt.NDArray[np.float32]

# Floats of one tile: rows times templates.
TILE = 150_000
MOST_ROWS = 512
# The factor of `_normal_table` beyond these limits is as good as at them.
TABLE_LOW, TABLE_HIGH, TABLE_STEPS = -5.6, 4.2, 1 << 13
PER_UNIT = TABLE_STEPS / (TABLE_HIGH - TABLE_LOW)


@dataclass(frozen=True, slots=True, eq=False)
class GroupEvidence:
    """What is left of m runs against K templates."""

    lens: WhitenedTemplates
    residual: Floats  # shape (m, p), whitened
    top: Floats  # shape (m,), log density at the best template, up to its normal integral
    sums: Floats  # shape (m, J), density of each group of templates over exp(top)
    best: Ints  # shape (m,), index of the best template
    shape: npt.NDArray[np.int8]  # shape (J,), the shape of each group
    half_drop: npt.NDArray[np.int16]  # shape (J,), the break of each group, -1 for none


def weigh_many(lens: WhitenedTemplates, residual: Floats) -> GroupEvidence:
    """Return the evidence of each group of templates for each row of `residual`, (m, p)."""
    # Templates in single precision, sorted by shape and break, and scaled for one product: `starts`
    # are the first columns of groups; `depth`, shape (p + 1, K), gives the depth times the root of
    # half its precision; only the first templates have an offset.
    bank = lens.bank
    order = np.lexsort((bank.half_drop, bank.shape))
    group = bank.shape[order].astype(np.int64) * len(order) + bank.half_drop[order]
    starts = np.flatnonzero(np.diff(group, prepend=group[0] - 1))
    root = np.sqrt(2 * lens.precision)[order]
    scaled = np.vstack([(lens.f[order] / root[:, None]).T, (lens.pull - lens.cross)[order] / root])
    depth = scaled.astype(np.float32)
    moved = np.flatnonzero(lens.square[order] > 0)
    offset = lens.offset[order[: int(moved[-1]) + 1 if len(moved) else 0]].T.astype(np.float32)
    constant = lens.constant[order].astype(np.float32)
    edge = (lens.least[order] * root / 2).astype(np.float32)

    m, p = residual.shape
    templates = len(order)
    height = max(2, min(MOST_ROWS, TILE // templates))
    width = max(1, PRODUCT // (height * (p + 1)))
    # A tile of one row would be a product with a vector, which starts threads: one row more.
    padded = m + (m % height == 1)
    rows = np.zeros((padded, p + 1), np.float32)
    rows[:m, :p] = residual
    rows[:, p] = 1.0
    top = np.empty(padded, np.float32)
    sums = np.empty((padded, len(starts)), np.float32)
    best = np.empty(padded, np.int64)
    space = np.empty((3, min(height, padded), templates), np.float32)
    index = np.empty((min(height, padded), templates), np.intp)

    def weigh_tile(tile: Singles) -> tuple[Singles, Singles]:
        """Return log densities without the normal integral, and the factor that it adds.

        With z the depth in its own standard deviations over the root of 2, so that squares need not
        be halved, and t its distance from the least depth, the log density is z^2 + log Phi(t root
        2). For t < 0 both terms are large and cancel, so -t^2 is taken into the first and what is
        left of the integral comes from a table.
        """
        log, z, square = space[:, : len(tile)]
        log[:] = constant
        for start in range(0, offset.shape[1], width):
            log[:, start : start + width][:, : offset.shape[1] - start] += (
                tile[:, :-1] @ offset[:, start : start + width]
            )
        for start in range(0, z.shape[1], width):
            np.matmul(tile, depth[:, start : start + width], out=z[:, start : start + width])
        np.multiply(z, z, out=square)
        log += square
        z -= edge
        np.minimum(z, 0, out=square)
        square *= square
        log -= square
        z *= np.float32(PER_UNIT)
        z += np.float32(0.5 - TABLE_LOW * PER_UNIT)
        at = index[: len(tile)]
        np.copyto(at, z, casting="unsafe")
        _normal_table().take(at, out=z, mode="clip")
        return log, z

    for start in range(0, padded, height):
        tile = rows[start : start + height]
        end = start + len(tile)
        log, factor = weigh_tile(tile)
        top[start:end] = log.max(1)
        log -= top[start:end, None]
        np.exp(log, out=log)
        log *= factor
        best[start:end] = log.argmax(1)
        np.add.reduceat(log, starts, axis=1, out=sums[start:end])
    common = lens.log_scale - np.einsum("mp,mp->m", residual, residual) / 2
    first = order[starts]
    return GroupEvidence(
        lens=lens,
        residual=residual,
        top=top[:m] + common,
        sums=sums[:m].astype(np.float64),
        best=order[best[:m]],
        shape=bank.shape[first],
        half_drop=bank.half_drop[first],
    )


@lru_cache(maxsize=1)
def _normal_table() -> Singles:
    """Return Phi(t root 2) exp(min(t, 0)^2) on a grid; neighbours differ by .0014 at most."""
    from scipy.special import erfcx

    t = np.linspace(TABLE_LOW, TABLE_HIGH, TABLE_STEPS + 1)
    below = erfcx(np.abs(t)) / 2
    return np.asarray(np.where(t < 0, below, 1 - below * np.exp(-t * t)), np.float32)
