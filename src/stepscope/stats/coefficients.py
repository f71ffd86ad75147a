"""Coefficients of agreement as functions of sums over items, for many resamples at once.

Each coefficient names the features of an item that it needs (an item of two ratings and one of six
each speak with their own weight) and computes itself from their sums. Distances between categories
are given as `distance`, 0 on the diagonal. Refused: a value where the chance disagreement is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stepscope.stats.clusters import Floats, Ints

Name = Literal["raw", "kappa", "fleiss", "alpha", "gwet", "pabak"]
Metric = Literal["nominal", "ordinal", "linear", "quadratic"]

# Chance disagreement below this is rounding of floats: the raters gave one answer throughout.
_NOTHING = 1e-12


@dataclass(frozen=True, slots=True)
class Coefficient:
    """What a coefficient needs of items, and what it makes of the sums.

    Attributes:
        features: of answers, shape (kinds, raters), and the number of categories q; returns
            shape (kinds, d).
        value: of sums, shape (resamples, d), and distances, shape (q, q) or (resamples, q, q);
            returns shape (resamples,), NaN where undefined.
    """

    features: Callable[[Ints, int], Floats]
    value: Callable[[Floats, Floats], Floats]


def distances(metric: Metric, values: Floats) -> Floats:
    """Return the distance between every two categories, shape (q, q), largest 1.

    Ordinal distances depend on how often categories are used; see `ordinal`.
    """
    if metric in ("nominal", "ordinal"):
        return 1.0 - np.eye(len(values))
    apart = np.abs(values[:, None] - values[None, :])
    if metric == "quadratic":
        apart = apart**2
    return np.asarray(apart / max(float(apart.max(initial=0.0)), _NOTHING))


def ordinal(used: Floats) -> Floats:
    """Return Krippendorff's ordinal distances, shape (resamples, q, q), from use, (resamples, q).

    Source: Krippendorff (2011), Computing Krippendorff's Alpha-Reliability, section E.
    """
    upto = np.cumsum(used, axis=1) - used / 2
    return np.asarray((upto[:, :, None] - upto[:, None, :]) ** 2)


def counts(answers: Ints, q: int) -> Floats:
    """Return how many raters gave each category, shape (kinds, q)."""
    return np.asarray((answers[:, :, None] == np.arange(q)).sum(axis=1), dtype=np.float64)


def _pairs(r: Floats) -> Floats:
    """Ordered pairs of different raters by their categories, shape (kinds, q, q)."""
    return r[:, :, None] * r[:, None, :] - r[:, :, None] * np.eye(r.shape[1])


def _shares(answers: Ints, q: int) -> Floats:
    """Agreement of an item's pairs, and how its ratings spread: shape (kinds, q * q + q + 2)."""
    r = counts(answers, q)
    m = r.sum(axis=1)
    paired = m >= 2
    agreement = _pairs(r) / np.where(paired, m * (m - 1), 1)[:, None, None]
    spread = r / np.maximum(m, 1)[:, None]
    parts = (agreement.reshape(len(r), q * q), spread, paired[:, None], (m >= 1)[:, None])
    return np.concatenate(parts, axis=1)


def _coincidences(answers: Ints, q: int) -> Floats:
    """Krippendorff's coincidences of an item: shape (kinds, q * q)."""
    r = counts(answers, q)
    m = r.sum(axis=1)
    return np.asarray((_pairs(r) / np.maximum(m - 1, 1)[:, None, None]).reshape(len(r), q * q))


def _confusion(answers: Ints, q: int) -> Floats:
    """First rater down, second across; nothing where one of them is silent."""
    first, second = (answers[:, at, None] == np.arange(q) for at in (0, 1))
    return np.asarray(first[:, :, None] & second[:, None, :], np.float64).reshape(-1, q * q)


def _chance_corrected(observed: Floats, expected: Floats) -> Floats:
    with np.errstate(all="ignore"):
        return np.asarray(np.where(expected > _NOTHING, 1 - observed / expected, np.nan))


def _apart(weights: Floats, distance: Floats) -> Floats:
    """Return the mean distance under weights of shape (resamples, q, q)."""
    return np.asarray((weights * distance).sum(axis=(1, 2)))


def _square(flat: Floats) -> Floats:
    q = round(flat.shape[1] ** 0.5)
    return flat.reshape(-1, q, q)


def _over(sums: Floats, whole: Floats) -> Floats:
    """Return sums as shares of a whole, shape (resamples,), NaN where that is 0."""
    with np.errstate(all="ignore"):
        return np.asarray(sums / np.where(whole > 0, whole, np.nan)[:, None])


def _kappa(sums: Floats, distance: Floats) -> Floats:
    table = _square(_over(sums, sums.sum(axis=1)))
    by_chance = table.sum(axis=2)[:, :, None] * table.sum(axis=1)[:, None, :]
    return _chance_corrected(_apart(table, distance), _apart(by_chance, distance))


def _alpha(sums: Floats, distance: Floats) -> Floats:
    table = _square(sums)
    used = table.sum(axis=2)
    whole = used.sum(axis=1)
    by_chance = used[:, :, None] * used[:, None, :]
    # A pair of ratings is the least that there is; light draws of weights may sum to less.
    others = np.maximum(whole - 1, whole / 2)
    expected = _over(by_chance.reshape(len(sums), -1), whole * others)
    observed = _over(sums, whole)
    return _chance_corrected(
        _apart(_square(observed), distance), _apart(_square(expected), distance)
    )


def _split(sums: Floats) -> tuple[Floats, Floats]:
    """Return agreement, shape (resamples, q, q), and spread, shape (resamples, q), as shares."""
    wide = sums.shape[1] - 2
    q = round((-1 + (1 + 4 * wide) ** 0.5) / 2)
    agreement = _over(sums[:, : q * q], sums[:, -2])
    return _square(agreement), _over(sums[:, q * q : -2], sums[:, -1])


def _fleiss(sums: Floats, distance: Floats) -> Floats:
    agreement, used = _split(sums)
    by_chance = used[:, :, None] * used[:, None, :]
    return _chance_corrected(_apart(agreement, distance), _apart(by_chance, distance))


def _gwet(sums: Floats, distance: Floats) -> Floats:
    agreement, used = _split(sums)
    q = used.shape[1]
    weight = 1 - distance
    with np.errstate(all="ignore"):
        hit = (used * (1 - used)).sum(axis=1) * weight.sum() / (q * (q - 1))
        found = (_apart(agreement, weight) - hit) / (1 - hit)
    return np.asarray(np.where(1 - hit > _NOTHING, found, np.nan))


def _raw(sums: Floats, distance: Floats) -> Floats:
    agreement, _ = _split(sums)
    return 1 - _apart(agreement, distance)


def _pabak(sums: Floats, distance: Floats) -> Floats:
    agreement, _ = _split(sums)
    q = agreement.shape[1]
    by_chance = np.full(len(agreement), distance.sum() / q**2)
    return _chance_corrected(_apart(agreement, distance), by_chance)


COEFFICIENTS: dict[Name, Coefficient] = {
    "raw": Coefficient(_shares, _raw),
    "kappa": Coefficient(_confusion, _kappa),
    "fleiss": Coefficient(_shares, _fleiss),
    "alpha": Coefficient(_coincidences, _alpha),
    "gwet": Coefficient(_shares, _gwet),
    "pabak": Coefficient(_shares, _pabak),
}
