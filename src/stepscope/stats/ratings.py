"""Ratings as counted kinds of items: what every coefficient of agreement needs of 100,000 items.

Items that the raters answered alike are one kind, counted. A resample then weighs kinds, not items,
and a coefficient is a function of sums over kinds. Items of one run are weighed together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from stepscope.errors import DataError
from stepscope.stats.clusters import Floats, Ints, index

# More categories than this are no categories; scores are to be rounded (a percentage point is 101).
MOST_CATEGORIES = 128
# Kinds are numbered within this, so that one integer names the answers of every rater.
_MOST_CODES = 2**62


@dataclass(frozen=True, slots=True)
class Kinds:
    """The distinct items, how often each occurs, and in which runs.

    Attributes:
        answers: shape (kinds, raters), the category that each rater gave, -1 where none.
        often: shape (kinds,), items of each kind.
        categories: how many categories there are.
        kind: shape (items,), the kind of each item; None where every item is its own run.
        run: shape (items,), the run of each item; None likewise.
    """

    answers: Ints
    often: Floats
    categories: int
    kind: Ints | None = None
    run: Ints | None = None

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return int(self.often.sum()) if self.run is None else int(self.run.max(initial=-1)) + 1

    def units(self, features: Floats) -> tuple[Floats, Floats]:
        """Return what is weighed as a whole: sums of features, and how many runs are just so.

        Args:
            features: shape (kinds, d).

        Returns:
            shapes (units, d) and (units,): kinds where every item is its own run, else runs.
        """
        if self.kind is None or self.run is None:
            return features, self.often
        columns = [np.bincount(self.run, weights=f[self.kind]) for f in features.T]
        return np.stack(columns, axis=1), np.ones(self.runs)


def kinds(
    ratings: npt.ArrayLike,
    *,
    categories: int | None = None,
    clusters: npt.ArrayLike | None = None,
) -> Kinds:
    """Count the distinct items.

    Args:
        ratings: shape (items, raters), categories as codes from 0, -1 where a rater gave none.
        categories: how many there are; None counts up to the largest code.
        clusters: shape (items,), the run that each item is of; None makes every item its own.

    Raises:
        DataError: not two-dimensional whole numbers from -1, fewer than two raters, too many
            categories, or clusters of another length.
    """
    given = _checked(ratings)
    q = int(given.max(initial=-1)) + 1
    if categories is not None and not q <= categories <= MOST_CATEGORIES:
        raise DataError(f"categories is {categories}; expected {q} to {MOST_CATEGORIES}")
    answers, kind = _distinct(given + 1, q + 1)
    often = np.bincount(kind, minlength=len(answers)).astype(np.float64)
    found = Kinds(answers - 1, often, q if categories is None else categories)
    run = index(clusters, len(given))
    alone = run.max(initial=-1) + 1 == len(run)
    return found if alone else replace(found, kind=kind, run=run)


def _checked(ratings: npt.ArrayLike) -> Ints:
    given = np.asarray(ratings)
    if given.ndim != 2 or given.shape[1] < 2:
        raise DataError(f"ratings have shape {given.shape}; expected (items, 2 or more raters)")
    if given.size and (given.dtype.kind not in "iu" or given.min() < -1):
        raise DataError("ratings are no codes; expected whole numbers from 0, -1 for none")
    if given.max(initial=-1) >= MOST_CATEGORIES:
        raise DataError(
            f"{int(given.max()) + 1} categories; expected at most {MOST_CATEGORIES}: round scores"
        )
    return np.asarray(given, dtype=np.int64)


def _distinct(shifted: Ints, base: int) -> tuple[Ints, Ints]:
    """Return the distinct rows and, for each row, which of them it is."""
    raters = shifted.shape[1]
    if base**raters >= _MOST_CODES:
        rows, kind = np.unique(shifted, axis=0, return_inverse=True)
        return rows, np.asarray(kind.reshape(-1), dtype=np.int64)
    powers = base ** np.arange(raters, dtype=np.int64)
    codes = shifted @ powers
    if base**raters <= 4 * len(codes):
        present = np.bincount(codes, minlength=base**raters) > 0
        found = np.flatnonzero(present)
        kind = (np.cumsum(present) - 1)[codes]
    else:
        found, kind = np.unique(codes, return_inverse=True)
    rows = found[:, None] // powers % base
    return np.asarray(rows, dtype=np.int64), np.asarray(kind, dtype=np.int64)
