"""How far raters agree, beyond what chance would give: people, judges, families of judges.

The interval weighs whole runs by Gamma(1), since what is said of one run hangs together, and adds
pseudo-pairs of total mass 2, so that twenty items that all agree are not taken for certainty.
Refuses a value where the raters gave one answer throughout: kappa is then undefined, not 1.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from stepscope.errors import DataError
from stepscope.stats.clusters import Floats
from stepscope.stats.coefficients import (
    COEFFICIENTS,
    Metric,
    Name,
    counts,
    distances,
    ordinal,
)
from stepscope.stats.ratings import Kinds, kinds
from stepscope.stats.sample import Frame, conclude
from stepscope.stats.worstcase import nothing_measured
from stepscope.values import Estimate, Unmeasured

# Weights drawn at most; beyond it the jackknife over runs gives the interval.
MOST_WEIGHTS = 8_000_000


def agreement(
    ratings: npt.ArrayLike,
    coefficient: Name = "kappa",
    *,
    rng: np.random.Generator,
    metric: Metric = "nominal",
    values: npt.ArrayLike | None = None,
    categories: int | None = None,
    clusters: npt.ArrayLike | None = None,
    level: float = 0.95,
    draws: int = 2_000,
    unmeasured: Mapping[str, int] | None = None,
) -> Estimate | Unmeasured:
    """Agreement of raters by one coefficient, with the interval of a Bayesian bootstrap over runs.

    Args:
        ratings: shape (items, raters), categories as codes from 0, -1 where a rater gave none.
        coefficient: "raw" share of agreeing pairs, Cohen's "kappa" (two raters), "fleiss",
            Krippendorff's "alpha", "gwet" (AC1; AC2 with a metric), "pabak". All but kappa take
            any number of raters and missing ratings.
        rng: draws the weights.
        metric: how far two categories are apart; "quadratic" is what alpha calls interval,
            "ordinal" is alpha's alone.
        values: shape (categories,), where each category lies; None puts them at 0, 1, 2, ...
        categories: how many there are; None counts up to the largest code. Gwet's coefficient
            and PABAK depend on it.
        clusters: shape (items,), the run that each item is of.
        level: coverage of the interval, a share.
        draws: weights of all runs drawn.
        unmeasured: verdicts that there are not, by kind.

    Returns:
        The coefficient, at most 1; `n` counts items with two ratings or more, `n_tasks` the runs
        behind all items. `Unmeasured` without an item that two raters rated, and ("undefined")
        where chance alone would always agree.

    Raises:
        DataError: ratings are no codes, kappa is asked of other than two raters, or a metric that
            the coefficient does not know.

    Source:
        Cohen (1960, 1968); Fleiss (1971); Krippendorff (2011); Gwet (2008) and his Handbook of
        Inter-Rater Reliability (2014) for missing ratings and AC2; Byrt, Bishop and Carlin (1993)
        for PABAK; Rubin (1981), The Bayesian Bootstrap, Ann. Statist. 9:130-134.

    >>> twelve = [[0, 0], [1, 1], [0, 1], [1, 1], [0, 0], [1, 0]] * 2
    >>> found = agreement(twelve, rng=np.random.default_rng(0))
    >>> round(found.value, 3), found.n
    (0.333, 12)
    """
    if not 0 < level < 1:
        raise DataError(f"level is {level!r}; expected a share between 0 and 1, such as 0.95")
    read = kinds(ratings, categories=categories, clusters=clusters)
    if coefficient == "kappa" and read.answers.shape[1] != 2:
        raise DataError(
            f"kappa is of two raters, got {read.answers.shape[1]}; ask for fleiss or alpha"
        )
    if metric == "ordinal" and coefficient != "alpha":
        raise DataError(f"{coefficient} has no ordinal form; expected alpha, or another metric")
    paired = (read.answers >= 0).sum(axis=1) >= 2
    n = int(read.often[paired].sum())
    if not n:
        return nothing_measured(unmeasured, "items")
    asked = _Asked(coefficient, read, metric, values)
    value = asked.value()
    if not np.isfinite(value):
        return Unmeasured(
            "undefined",
            f"{coefficient} has no value: {n} items got one and the same answer from every rater",
        )
    few = read.runs < 2
    limits = (None, None) if few else asked.limits(rng, draws, level)
    return conclude(
        (value, *limits),
        method="bayesian bootstrap",
        n=n,
        frame=Frame(
            level=level,
            unmeasured=unmeasured,
            unit=coefficient,
            unit_of_n="items",
            n_tasks=read.runs,
            diagnostics=("one run: no limits",) if few else (),
        ),
    )


class _Asked:
    """One coefficient of one set of ratings: features once, values for any weights."""

    def __init__(
        self, name: Name, read: Kinds, metric: Metric, values: npt.ArrayLike | None
    ) -> None:
        q = read.categories
        places = np.arange(q, dtype=np.float64) if values is None else np.asarray(values, float)
        if places.shape != (q,) or not np.isfinite(places).all():
            raise DataError(f"values have shape {places.shape}; expected {q} finite numbers")
        self._q = q
        self._distance = None if metric == "ordinal" else distances(metric, places)
        made = COEFFICIENTS[name]
        self._of = made.value
        self._grouped = read.run is not None
        self._units, self._repeats = read.units(made.features(read.answers, q))
        pairs, self._mass = _pseudo_pairs(read.answers.shape[1], q)
        self._pairs = made.features(pairs, q)
        if name == "alpha":  # an item weighs as many coincidences there as it has ratings
            self._pairs = self._pairs * _ratings_an_item(read) / 2

    def value(self) -> float:
        """Return the coefficient itself, NaN where undefined."""
        return float(self._values((self._repeats @ self._units)[None, :])[0])

    def limits(self, rng: np.random.Generator, draws: int, level: float) -> tuple[float, float]:
        """Return the limits: quantiles over weights, or the jackknife's where runs are too many."""
        tails = (1 - level) / 2, (1 + level) / 2
        if draws * len(self._repeats) > MOST_WEIGHTS:
            return self._closed(tails)
        shape = self._shape(level)
        weights = rng.standard_gamma(self._repeats * shape, (draws, len(self._repeats)))
        pseudo = rng.standard_gamma(self._mass * shape, (draws, len(self._mass)))
        drawn = self._values(weights @ self._units + pseudo @ self._pairs)
        low, high = np.quantile(drawn, tails)
        return float(low), float(high)

    def _values(self, sums: Floats) -> Floats:
        if self._distance is not None:
            return self._of(sums, self._distance)
        return self._of(sums, ordinal(sums.reshape(-1, self._q, self._q).sum(axis=2)))

    def _shape(self, level: float) -> float:
        """Return the Gamma shape that makes few runs of several items spread as t would.

        Gamma(1) spreads a mean over C runs by C / (C + 1) of what it should, and as z, not t.
        Items that are their own runs are left at 1: with the pseudo-pairs they cover by
        themselves (`bars.agreement`).
        """
        if not self._grouped:
            return 1.0
        from scipy.special import ndtri, stdtrit

        runs, tail = len(self._repeats), (1 + level) / 2
        wider = runs / (runs - 1) * float(stdtrit(runs - 1, tail) / ndtri(tail)) ** 2
        return max(float(1 / wider - 1 / runs), 1 / runs)

    def _closed(self, tails: tuple[float, float]) -> tuple[float, float]:
        from scipy.special import ndtri

        whole = self._repeats @ self._units
        left = self._values(whole - self._units)
        n = self._repeats.sum()
        spread = self._repeats @ (left - self._repeats @ left / n) ** 2
        error = np.sqrt((n - 1) / n * spread)
        low, high = (self.value() + float(ndtri(tail)) * float(error) for tail in tails)
        return low, high


def _ratings_an_item(read: Kinds) -> float:
    """Mean number of ratings of the items that have two or more."""
    ratings = (read.answers >= 0).sum(axis=1)
    paired = ratings >= 2
    return float(np.average(ratings[paired], weights=read.often[paired]))


def _pseudo_pairs(raters: int, q: int) -> tuple[npt.NDArray[np.int64], Floats]:
    """Every pair of categories as an item of the first two raters, and its mass.

    Agreeing pairs weigh 1 together, disagreeing ones 1: for two classes Dirichlet(1/2).
    """
    first, second = np.divmod(np.arange(q * q), q)
    answers = np.full((q * q, raters), -1, dtype=np.int64)
    answers[:, 0], answers[:, 1] = first, second
    same = first == second
    return answers, np.where(same, 1 / q, 1 / max(q * (q - 1), 1))


def usage(ratings: npt.ArrayLike, *, categories: int | None = None) -> Floats:
    """Share of all ratings that each category got, one row a rater.

    Args:
        ratings: as those of `agreement`.
        categories: how many there are.

    Returns:
        shape (raters, categories); rows of 0 for a rater who gave none.

    Source: Byrt, Bishop and Carlin (1993), J. Clin. Epidemiol. 46:423-429, whose prevalence and
    bias indices are differences within and between its rows.

    >>> usage([[0, 1], [1, 1]]).tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """
    read = kinds(ratings, categories=categories)
    raters = range(read.answers.shape[1])
    used = np.stack([read.often @ counts(read.answers[:, [at]], read.categories) for at in raters])
    return np.asarray(used / np.maximum(used.sum(axis=1, keepdims=True), 1))
