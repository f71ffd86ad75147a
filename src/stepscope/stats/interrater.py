"""Agreement of raters beyond chance: kappa, Fleiss, Krippendorff's alpha, Gwet, PABAK, with limits.

Items that raters answered alike are one kind, counted; a coefficient is a function of sums over
kinds, computed for many resamples at once. The interval weighs whole runs by Gamma(1), since the
ratings of one run hang together, and adds pseudo-pairs of total mass 2, so that twenty items that
all agree are not taken for certainty. Refuses a value where the raters gave one answer throughout:
kappa is then undefined, not 1. Sources: see `agreement`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from stepscope.errors import DataError
from stepscope.stats import sample
from stepscope.stats.estimates import proportion
from stepscope.stats.sample import Bools, EstimateFrame, Floats, Ints
from stepscope.values import NO_INTERVAL, Estimate, Unmeasured

Share = Estimate | Unmeasured
CoefficientName = Literal["raw", "kappa", "fleiss", "alpha", "gwet", "pabak"]
Metric = Literal["nominal", "ordinal", "linear", "quadratic"]

# Chance disagreement below this is rounding of floats: the raters gave one answer throughout.
_NOTHING = 1e-12


def category_distances(metric: Metric, q: int) -> Floats | None:
    """Return the distance between every two of q categories, shape (q, q), largest 1.

    None for ordinal ones, which depend on how often categories are used; see `ordinal_distances`.
    """
    if metric == "ordinal":
        return None
    if metric == "nominal":
        return 1.0 - np.eye(q)
    apart = np.abs(np.subtract.outer(np.arange(float(q)), np.arange(float(q))))
    if metric == "quadratic":
        apart = apart**2
    return np.asarray(apart / max(float(apart.max(initial=0.0)), _NOTHING))


def ordinal_distances(used: Floats) -> Floats:
    """Return Krippendorff's ordinal distances, shape (resamples, q, q), from use, (resamples, q).

    Source: Krippendorff (2011), Computing Krippendorff's Alpha-Reliability, section E.
    """
    upto = np.cumsum(used, axis=1) - used / 2
    return np.asarray((upto[:, :, None] - upto[:, None, :]) ** 2)


def count_categories(answers: Ints, q: int) -> Floats:
    """Return how many raters gave each category, shape (kinds, q)."""
    return np.asarray((answers[:, :, None] == np.arange(q)).sum(axis=1), dtype=np.float64)


def _pairs(r: Floats) -> Floats:
    """Ordered pairs of different raters by their categories, shape (kinds, q, q)."""
    return r[:, :, None] * r[:, None, :] - r[:, :, None] * np.eye(r.shape[1])


def _shares(answers: Ints, q: int) -> Floats:
    """Agreement of an item's pairs, and how its ratings spread: shape (kinds, q * q + q + 2)."""
    r = count_categories(answers, q)
    m = r.sum(axis=1)
    paired = m >= 2
    agreement = _pairs(r) / np.where(paired, m * (m - 1), 1)[:, None, None]
    spread = r / np.maximum(m, 1)[:, None]
    parts = (agreement.reshape(len(r), q * q), spread, paired[:, None], (m >= 1)[:, None])
    return np.concatenate(parts, axis=1)


def _coincidences(answers: Ints, q: int) -> Floats:
    """Krippendorff's coincidences of an item: shape (kinds, q * q)."""
    r = count_categories(answers, q)
    m = r.sum(axis=1)
    return np.asarray((_pairs(r) / np.maximum(m - 1, 1)[:, None, None]).reshape(len(r), q * q))


def _confusion(answers: Ints, q: int) -> Floats:
    """First rater down, second across; nothing where one of them is silent."""
    first, second = (answers[:, at, None] == np.arange(q) for at in (0, 1))
    return np.asarray(first[:, :, None] & second[:, None, :], np.float64).reshape(-1, q * q)


def _chance_corrected(observed: Floats, expected: Floats) -> Floats:
    with np.errstate(all="ignore"):
        return np.asarray(np.where(expected > _NOTHING, 1 - observed / expected, np.nan))


def _mean_distance(weights: Floats, distance: Floats) -> Floats:
    """Return the mean distance under weights of shape (resamples, q, q)."""
    return np.asarray((weights * distance).sum(axis=(1, 2)))


def _square(flat: Floats) -> Floats:
    q = round(flat.shape[1] ** 0.5)
    return flat.reshape(-1, q, q)


def _as_shares(sums: Floats, whole: Floats) -> Floats:
    """Return sums as shares of a whole, shape (resamples,), NaN where that is 0."""
    with np.errstate(all="ignore"):
        return np.asarray(sums / np.where(whole > 0, whole, np.nan)[:, None])


def _kappa(sums: Floats, distance: Floats) -> Floats:
    table = _square(_as_shares(sums, sums.sum(axis=1)))
    by_chance = table.sum(axis=2)[:, :, None] * table.sum(axis=1)[:, None, :]
    return _chance_corrected(_mean_distance(table, distance), _mean_distance(by_chance, distance))


def _alpha(sums: Floats, distance: Floats) -> Floats:
    used = _square(sums).sum(axis=2)
    whole = used.sum(axis=1)
    by_chance = used[:, :, None] * used[:, None, :]
    # A pair of ratings is the least that there is; light draws of weights may sum to less.
    others = np.maximum(whole - 1, whole / 2)
    expected = _as_shares(by_chance.reshape(len(sums), -1), whole * others)
    observed = _as_shares(sums, whole)
    return _chance_corrected(
        _mean_distance(_square(observed), distance), _mean_distance(_square(expected), distance)
    )


def _split_features(sums: Floats) -> tuple[Floats, Floats]:
    """Return agreement, shape (resamples, q, q), and spread, shape (resamples, q), as shares."""
    q = round((-1 + (1 + 4 * (sums.shape[1] - 2)) ** 0.5) / 2)
    agreement = _as_shares(sums[:, : q * q], sums[:, -2])
    return _square(agreement), _as_shares(sums[:, q * q : -2], sums[:, -1])


def _fleiss(sums: Floats, distance: Floats) -> Floats:
    agreement, used = _split_features(sums)
    chance = used[:, :, None] * used[:, None, :]
    return _chance_corrected(_mean_distance(agreement, distance), _mean_distance(chance, distance))


def _gwet(sums: Floats, distance: Floats) -> Floats:
    agreement, used = _split_features(sums)
    q = used.shape[1]
    weight = 1 - distance
    with np.errstate(all="ignore"):
        hit = (used * (1 - used)).sum(axis=1) * weight.sum() / (q * (q - 1))
        found = (_mean_distance(agreement, weight) - hit) / (1 - hit)
    return np.asarray(np.where(1 - hit > _NOTHING, found, np.nan))


def _raw_agreement(sums: Floats, distance: Floats) -> Floats:
    agreement, _ = _split_features(sums)
    return 1 - _mean_distance(agreement, distance)


def _pabak(sums: Floats, distance: Floats) -> Floats:
    agreement, _ = _split_features(sums)
    by_chance = np.full(len(agreement), distance.sum() / agreement.shape[1] ** 2)
    return _chance_corrected(_mean_distance(agreement, distance), by_chance)


# Of answers, shape (kinds, raters), and the number of categories: shape (kinds, d).
Features = Callable[[Ints, int], Floats]
# Of sums of features, shape (resamples, d), and distances, shape (q, q) or (resamples, q, q): shape
# (resamples,), NaN where undefined.
Value = Callable[[Floats, Floats], Floats]
_COEFFICIENTS: dict[CoefficientName, tuple[Features, Value]] = {
    "raw": (_shares, _raw_agreement),
    "kappa": (_confusion, _kappa),
    "fleiss": (_shares, _fleiss),
    "alpha": (_coincidences, _alpha),
    "gwet": (_shares, _gwet),
    "pabak": (_shares, _pabak),
}
# More categories than this are no categories; scores are to be rounded (a percentage point is 101).
MOST_CATEGORIES = 128
# Kinds are numbered within this, so that one integer names the answers of every rater.
_MOST_CODES = 2**62


def _check_ratings(ratings: ArrayLike, categories: int | None) -> tuple[Ints, int]:
    """Return ratings as codes, (items, raters), and the number of categories."""
    given = np.asarray(ratings)
    if given.ndim != 2 or given.shape[1] < 2:
        raise DataError(f"ratings have shape {given.shape}; expected (items, 2 or more raters)")
    if given.size and (given.dtype.kind not in "iu" or given.min() < -1):
        raise DataError("ratings are no codes; expected whole numbers from 0, -1 for none")
    if given.max(initial=-1) >= MOST_CATEGORIES:
        why = f"{int(given.max()) + 1} categories; expected at most {MOST_CATEGORIES}: round scores"
        raise DataError(why)
    q = int(given.max(initial=-1)) + 1
    if categories is not None and not q <= categories <= MOST_CATEGORIES:
        raise DataError(f"categories is {categories}; expected {q} to {MOST_CATEGORIES}")
    return np.asarray(given, dtype=np.int64), q if categories is None else categories


def _unique_rows(given: Ints, q: int, *, inverse: bool) -> tuple[Ints, Floats, Ints | None]:
    """Return the distinct rows of codes from -1 below q, how often each occurs, and the inverse.

    The inverse (for each row, which of the distinct ones it is) is None unless asked for.
    """
    raters, base = given.shape[1], q + 1
    kind: Ints | None = None
    if base**raters >= _MOST_CODES:
        rows, kind, often = np.unique(given, axis=0, return_inverse=True, return_counts=True)
        return rows, often.astype(np.float64), np.asarray(kind.reshape(-1), dtype=np.int64)
    powers = base ** np.arange(raters, dtype=np.int64)
    codes = given @ powers
    codes += powers.sum()  # the codes of given + 1, without a copy of it
    if base**raters <= 4 * len(codes):
        counts = np.bincount(codes, minlength=base**raters)
        found = np.flatnonzero(counts)
        often = counts[found]
        if inverse:
            kind = (np.cumsum(counts > 0) - 1)[codes]
    else:
        found, kind, often = np.unique(codes, return_inverse=True, return_counts=True)
    rows = found[:, None] // powers % base - 1
    return np.asarray(rows, dtype=np.int64), often.astype(np.float64), kind


# Weights drawn at most; beyond it the jackknife over runs gives the interval.
MOST_WEIGHTS = 8_000_000
# Multiplications up to which BLAS takes one thread: of thousands of small products, those on two
# threads take 20 times as long where another process has one of the processors.
ONE_THREAD = 200_000


def _product(many: Floats, few: Floats) -> Floats:
    """Return the product of a matrix of many rows and one of few columns."""
    blocks = 1 + many.size * few.shape[1] // ONE_THREAD
    return np.concatenate([rows @ few for rows in np.array_split(many, blocks)])


class SharedWeights:
    """Random weights, drawn once for all figures over as many runs; `MOST_WEIGHTS` are held.

    Figures then differ by what they mean, not by chance. Draws start where the generator stands.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng, self._start = rng, rng.bit_generator.state
        self._drawn: dict[tuple[int, bytes, bytes], tuple[Floats, Floats]] = {}

    def draw(self, draws: int, shapes: Floats, pseudo: Floats) -> tuple[Floats, Floats]:
        """Return Gamma weights of these shapes of runs and pseudo-pairs, (draws, len(shapes))."""
        key = draws, shapes.tobytes(), pseudo.tobytes()
        if key not in self._drawn:
            held = (weights.size for weights, _ in self._drawn.values())
            if draws * len(shapes) + sum(held) > MOST_WEIGHTS:
                self._drawn.clear()
            self._rng.bit_generator.state = self._start
            weights = self._rng.standard_gamma(shapes, (draws, len(shapes)))
            self._drawn[key] = weights, self._rng.standard_gamma(pseudo, (draws, len(pseudo)))
        return self._drawn[key]


def agreement(
    ratings: ArrayLike,
    coefficient: CoefficientName = "kappa",
    *,
    rng: np.random.Generator,
    metric: Metric = "nominal",
    categories: int | None = None,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    draws: int = 2_000,
    unmeasured: Mapping[str, int] | None = None,
) -> Estimate | Unmeasured:
    """Agreement of raters by one coefficient, with the interval of a Bayesian bootstrap over runs.

    `ratings` have shape (items, raters), categories as codes from 0, -1 where a rater gave none;
    `clusters` are the runs that items are of. The coefficient is the "raw" share of agreeing pairs,
    Cohen's "kappa" (two raters), "fleiss", Krippendorff's "alpha", "gwet" (AC1; AC2 with a metric)
    or "pabak": all but kappa take any number of raters and missing ratings. The metric says how far
    two categories are apart; "quadratic" is what alpha calls interval, "ordinal" is alpha's alone.
    Gwet's coefficient and PABAK depend on the number of categories; None counts up to the largest
    code. `n` counts items with two ratings or more, `n_tasks` the runs behind all items.
    `Unmeasured` without an item that two raters rated, and where chance alone would always agree.

    Source: Cohen (1960, 1968); Fleiss (1971); Krippendorff (2011); Gwet (2008) and his Handbook of
    Inter-Rater Reliability (2014) for missing ratings and AC2; Byrt, Bishop and Carlin (1993) for
    PABAK; Rubin (1981), The Bayesian Bootstrap, Ann. Statist. 9:130-134.

    >>> twelve = [[0, 0], [1, 1], [0, 1], [1, 1], [0, 0], [1, 0]] * 2
    >>> found = agreement(twelve, rng=np.random.default_rng(0))
    >>> round(found.value, 3), found.n
    (0.333, 12)
    """
    rated = RatedItems(ratings, SharedWeights(rng), categories=categories, clusters=clusters)
    return rated.coefficient(coefficient, metric, level=level, draws=draws, unmeasured=unmeasured)


class RatedItems:
    """Ratings of items, grouped once: any coefficient of them, under the same weights of runs.

    Arguments and errors are those of `agreement`.
    """

    def __init__(
        self,
        ratings: ArrayLike,
        weights: SharedWeights,
        *,
        categories: int | None = None,
        clusters: ArrayLike | None = None,
    ) -> None:
        given, self._q = _check_ratings(ratings, categories)
        self._run, self._weights = sample.cluster_index(clusters, len(given)), weights
        self._raters, self._runs = given.shape[1], int(self._run.max(initial=-1)) + 1
        self._grouped = self._runs != len(given)
        # The distinct items, how often each occurs, and which of them each item is.
        self._answers, self._often, self._kind = _unique_rows(given, self._q, inverse=self._grouped)
        # What is weighed as a whole: kinds where every item is its own run, else runs.
        self._repeats = np.ones(self._runs) if self._grouped else self._often
        # Under each coefficient's features, level and draws: weighted sums.
        self._sums: dict[tuple[object, ...], Floats] = {}

    def coefficient(
        self,
        name: CoefficientName,
        metric: Metric = "nominal",
        *,
        level: float = 0.95,
        draws: int = 2_000,
        unmeasured: Mapping[str, int] | None = None,
    ) -> Estimate | Unmeasured:
        """Return one coefficient with its interval, as `agreement` does."""
        if not 0 < level < 1:
            raise DataError(f"level is {level!r}; expected a share between 0 and 1, such as 0.95")
        if name == "kappa" and self._raters != 2:
            raise DataError(f"kappa is of two raters, got {self._raters}; ask for fleiss or alpha")
        if metric == "ordinal" and name != "alpha":
            raise DataError(f"{name} has no ordinal form; expected alpha, or another metric")
        # Items with two ratings or more: counted by distinct item, of which there are few.
        ratings = (self._answers >= 0).sum(axis=1)
        paired = ratings >= 2
        n = int(self._often[paired].sum())
        if not n:
            return sample.nothing_measured(unmeasured, "items")
        features_of, of_sums = _COEFFICIENTS[name]
        units = features = features_of(self._answers, self._q)
        if self._grouped:
            units = np.stack(
                [np.bincount(self._run, weights=f[self._kind]) for f in features.T], axis=1
            )
        distance = category_distances(metric, self._q)

        def value_of(sums: Floats) -> Floats:
            if distance is not None:
                return of_sums(sums, distance)
            used = sums.reshape(-1, self._q, self._q).sum(axis=2)
            return of_sums(sums, ordinal_distances(used))

        whole = self._repeats @ units
        value = float(value_of(whole[None, :])[0])
        if not np.isfinite(value):
            why = f"{name} has no value: {n} items got one and the same answer from every rater"
            return Unmeasured("undefined", why)
        limits: tuple[float | None, float | None] = None, None
        few = self._runs < 2
        tails = (1 - level) / 2, (1 + level) / 2
        if not few and draws * len(self._repeats) > MOST_WEIGHTS:
            limits = self._jackknife_limits(value, value_of(whole - units), tails)
        elif not few:
            key = features_of, level, draws
            if key not in self._sums:
                # An item weighs as many coincidences as it has ratings: their mean number.
                mean = float(np.average(ratings[paired], weights=self._often[paired]))
                self._sums[key] = self._weigh(
                    name, units, level, draws, mean / 2 if name == "alpha" else 1.0
                )
            low, high = np.quantile(value_of(self._sums[key]), tails)
            limits = float(low), float(high)
        unit, told = "share" if name == "raw" else name, (f"{NO_INTERVAL}one run",) if few else ()
        frame = EstimateFrame(level=level, unmeasured=unmeasured, unit=unit, unit_of_n="items")
        frame = replace(frame, n_tasks=self._runs, diagnostics=told)
        return sample.make_estimate((value, *limits), method="bayesian bootstrap", n=n, frame=frame)

    def _weigh(
        self, name: CoefficientName, units: Floats, level: float, draws: int, pseudo_mass: float
    ) -> Floats:
        """Return sums of features under random weights, with every pair of categories as an item.

        Agreeing pairs weigh 1 together, disagreeing ones 1: for two classes Dirichlet(1/2).
        """
        q, shape = self._q, self._shape(level)
        first, second = np.divmod(np.arange(q * q), q)
        pairs = np.full((q * q, self._raters), -1, dtype=np.int64)
        pairs[:, 0], pairs[:, 1] = first, second
        mass = np.where(first == second, 1 / q, 1 / max(q * (q - 1), 1))
        weights, pseudo = self._weights.draw(draws, self._repeats * shape, mass * shape)
        of_pairs = _COEFFICIENTS[name][0](pairs, q) * pseudo_mass
        return _product(weights, units) + _product(pseudo, of_pairs)

    def _shape(self, level: float) -> float:
        """Return the Gamma shape that makes few runs of several items spread as t would.

        Gamma(1) spreads a mean over C runs by C / (C + 1) of what it should, and as z, not t.
        Items that are their own runs are left at 1: with the pseudo-pairs they cover by
        themselves (`bars.stats.agreement`).
        """
        if not self._grouped:
            return 1.0
        from scipy.special import ndtri, stdtrit

        runs, tail = len(self._repeats), (1 + level) / 2
        wider = runs / (runs - 1) * float(stdtrit(runs - 1, tail) / ndtri(tail)) ** 2
        return max(float(1 / wider - 1 / runs), 1 / runs)

    def _jackknife_limits(
        self, value: float, left: Floats, tails: tuple[float, float]
    ) -> tuple[float, float]:
        from scipy.special import ndtri

        n = self._repeats.sum()
        error = np.sqrt((n - 1) / n * (self._repeats @ (left - self._repeats @ left / n) ** 2))
        low, high = (value + float(ndtri(tail)) * float(error) for tail in tails)
        return low, high


def category_shares(ratings: ArrayLike, *, categories: int | None = None) -> Floats:
    """Share of all ratings that each category got, shape (raters, categories), 0 of a silent rater.

    Ratings and categories are as those of `agreement`.

    Source: Byrt, Bishop and Carlin (1993), J. Clin. Epidemiol. 46:423-429, whose prevalence and
    bias indices are differences within and between its rows.

    >>> category_shares([[0, 1], [1, 1]]).tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """
    given, q = _check_ratings(ratings, categories)
    used = np.stack([np.bincount(column[column >= 0], minlength=q) for column in given.T])
    return np.asarray(used / np.maximum(used.sum(axis=1, keepdims=True), 1))


def first_bad_step(bad: Bools, runs: Ints, places: Ints) -> tuple[Share, Share, float | None]:
    """Return on which share of runs two raters name the same first bad step, and by chance.

    Between the two: on which share they name the same or neighbours. Runs on which neither names
    any count as the same. By chance: each rater calls its own share of steps bad, whatever stands
    there.

    `bad`, shape (n, 2), says which steps each calls bad, in the order of the runs' steps; `runs`,
    (n,), the run of each step; `places`, (n,), its place: that of its neighbour is one off; where
    it falls, another pair begins.

    Source: FirstErrAcc of AgentProcessBench (2026), as ProcessBench counts runs without an error.

    >>> bad = np.array([[1, 1], [0, 1], [0, 0], [0, 1]], bool)
    >>> found, near, chance = first_bad_step(bad, np.array([0, 0, 1, 1]), np.arange(4))
    >>> found.value, near.value, round(chance, 4)
    (0.5, 0.5, 0.2578)
    """
    if not len(bad):
        none = Unmeasured("insufficient_data", "no step that both rated")
        return none, none, None
    q, r = bad.mean(axis=0).tolist()
    both, neither = q * r, (1 - q) * (1 - r)
    starts = np.flatnonzero((np.diff(runs, prepend=-1) != 0) | (np.diff(places, prepend=0) < 0))
    steps = np.diff(starts, append=len(runs))
    # None at all stands further off than any two steps.
    nowhere = int(places.max()) + 2
    first = np.minimum.reduceat(np.where(bad, places[:, None], nowhere), starts)
    apart = np.abs(first[:, 0] - first[:, 1])
    # The sum of both * neither ** k over the places k of a first bad step, and none at all.
    found_at = both * (1 - neither**steps) / (1 - neither) if neither < 1 else 0.0
    chance = float(np.mean(found_at + neither**steps))
    of = runs[starts]
    return proportion(apart == 0, of), proportion(apart <= 1, of), chance
