"""The coefficients of some raters of one rubric, with intervals over runs.

Every figure draws the same weights of runs, so that kappa and AC1 beside each other differ by what
they mean, not by chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Literal

import msgspec
import numpy as np

from stepscope import stats
from stepscope.calibrate.agreement_ratings import Floats, Ints, Ratings
from stepscope.calibrate.agreement_types import Figure, Together
from stepscope.stats.coefficients import Metric, Name
from stepscope.stats.interrater import agreement, usage
from stepscope.values import Estimate, Unmeasured

# Scores are rounded to twentieths where the distance between two counts: judges name no finer ones.
TWENTIETHS = 20
# A menu of answers is shorter; what has more labels is free text, which no two raters word alike.
MOST_LABELS = 40
# Between kappa and AC1; below it they tell one story.
APART = 0.2

NOMINAL: dict[str, tuple[Name, Metric]] = {
    "raw": ("raw", "nominal"),
    "kappa": ("kappa", "nominal"),
    "fleiss": ("fleiss", "nominal"),
    "alpha": ("alpha", "nominal"),
    "gwet": ("gwet", "nominal"),
    "pabak": ("pabak", "nominal"),
}
OF_BANDS: dict[str, tuple[Name, Metric]] = {
    "kappa.linear": ("kappa", "linear"),
    "kappa.quadratic": ("kappa", "quadratic"),
    "gwet.quadratic": ("gwet", "quadratic"),
    "alpha.ordinal": ("alpha", "ordinal"),
}
TWO_ONLY = Unmeasured("not_applicable", "kappa is of two raters; fleiss and alpha are of more")


@dataclass(frozen=True, slots=True)
class Drawing:
    """How intervals are drawn: where random draws start, what they cover, how many there are."""

    seed: int = 0
    level: float = 0.95
    draws: int = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Ratings that are compared: rows of them, and the run of each row.

    Attributes:
        codes: shape (n, raters).
        values: shape (n, raters), scores.
        runs: shape (n,).
        cites: mean overlap of the steps cited, one entry for each pair that cites any; by row.
        labels: the labels in use.
        scored: whether these are scores.
        unmeasured: items that one of the raters could not answer, by kind.
        unit: what a row is.
    """

    codes: Ints
    values: Floats
    runs: Ints
    cites: tuple[tuple[int, float], ...]
    labels: tuple[str, ...]
    scored: bool
    unmeasured: dict[str, int]
    unit: str


def of_raters(ratings: Ratings, columns: Sequence[int]) -> Asked:
    """Return the ratings of some raters; of a pair, what both rated."""
    codes = ratings.codes[:, columns]
    kept = (codes >= 0).sum(axis=1) >= 2
    citing = [cited for at in columns if (cited := ratings.cites[at]) is not None]
    places = np.flatnonzero(kept).tolist()
    return Asked(
        codes=codes[kept],
        values=ratings.values[:, columns][kept],
        runs=ratings.runs[kept],
        cites=tuple(
            (row, overlap)
            for row, place in enumerate(places)
            for first, second in combinations(citing, 2)
            for overlap in _overlap(first.get(place), second.get(place))
        ),
        labels=ratings.labels,
        scored=ratings.scored,
        unmeasured=ratings.lost(columns),
        unit=ratings.rated.unit,
    )


def of_families(ratings: Ratings, first: str, second: str) -> Asked:
    """Return every pair of a judge of one family and one of the other, one below the other."""
    columns = {
        family: [at for at, voice in enumerate(ratings.voices) if voice.family == family]
        for family in (first, second)
    }
    pairs = list(product(columns[first], columns[second]))
    each = [of_raters(ratings, pair) for pair in pairs]
    before = np.cumsum([0, *(len(asked.runs) for asked in each)]).tolist()
    return Asked(
        codes=np.concatenate([asked.codes for asked in each]),
        values=np.concatenate([asked.values for asked in each]),
        runs=np.concatenate([asked.runs for asked in each]),
        cites=tuple(
            (start + row, overlap)
            for start, asked in zip(before, each, strict=False)
            for row, overlap in asked.cites
        ),
        labels=ratings.labels,
        scored=ratings.scored,
        unmeasured=ratings.lost([*columns[first], *columns[second]]),
        unit=ratings.rated.unit,
    )


def _overlap(first: frozenset[int] | None, second: frozenset[int] | None) -> Iterator[float]:
    """Yield Jaccard's index of the steps that two raters cite; nothing where neither cites."""
    if first is not None and second is not None and first | second:
        yield len(first & second) / len(first | second)


def together(
    asked: Asked,
    raters: tuple[str, ...],
    of: Literal["raters", "families", "all"],
    drawing: Drawing,
    *,
    weighted: Figure | None = None,
) -> Together:
    """Return how far raters agree by every coefficient.

    Args:
        asked: their ratings.
        raters: what they are called.
        of: what these names are of.
        drawing: how intervals are drawn.
        weighted: the agreement expected of calibrated confidences, where there are such.
    """
    two = asked.codes.shape[1] == 2
    figures: dict[str, Figure] = {name: figure(asked, name, drawing) for name in NOMINAL}
    if asked.scored:
        figures |= {name: figure(asked, name, drawing) for name in OF_BANDS}
        figures["alpha.interval"] = _interval(asked, drawing)
    figures["jaccard"] = _jaccard(asked, drawing)
    if weighted is not None:
        figures["weighted"] = weighted
    used = usage(asked.codes, categories=max(len(asked.labels), 1)) if _countable(asked) else None
    return Together(
        raters=raters,
        of=of,
        n=len(asked.codes),
        figures=figures,
        prevalence=None if used is None else _prevalence(used.mean(axis=0)),
        bias=float(np.abs(used[0] - used[1]).sum() / 2) if used is not None and two else None,
        sentence=sentence(figures, asked, None if used is None else used.mean(axis=0)),
    )


def _countable(asked: Asked) -> bool:
    return len(asked.codes) > 0 and len(asked.labels) <= MOST_LABELS


def figure(asked: Asked, name: str, drawing: Drawing) -> Figure:
    """Return one coefficient; kappa of more than two raters is not applicable."""
    if len(asked.labels) > MOST_LABELS:
        many = f"{len(asked.labels):,} different labels; a rubric has at most {MOST_LABELS}"
        return Unmeasured("undefined", f"{many}: translate them with import --labels")
    coefficient, metric = (NOMINAL | OF_BANDS)[name]
    two = asked.codes.shape[1] == 2
    if coefficient == "kappa" and not two:
        return TWO_ONLY
    found = agreement(
        asked.codes,
        coefficient,
        rng=np.random.default_rng(drawing.seed),
        metric=metric,
        # One label throughout is no agreement beyond chance; but what share agrees is known.
        categories=max(len(asked.labels), 2 if name == "raw" else 1),
        clusters=asked.runs,
        level=drawing.level,
        draws=drawing.draws,
        unmeasured=asked.unmeasured,
    )
    if name != "raw" or not two or isinstance(found, Unmeasured):
        return found
    worst = stats.worst_case(found.value, found.n, found.unmeasured, low=0.0, high=1.0)
    return msgspec.structs.replace(found, worst_low=worst[0], worst_high=worst[1])


def _interval(asked: Asked, drawing: Drawing) -> Figure:
    rounded = np.where(np.isnan(asked.values), -1, np.rint(asked.values * TWENTIETHS))
    return agreement(
        rounded.astype(np.int64),
        "alpha",
        rng=np.random.default_rng(drawing.seed),
        metric="quadratic",
        categories=TWENTIETHS + 1,
        clusters=asked.runs,
        level=drawing.level,
        unmeasured=asked.unmeasured,
    )


def _jaccard(asked: Asked, drawing: Drawing) -> Figure:
    if not asked.cites:
        return Unmeasured("not_applicable", "no two raters cite steps of what both rated")
    rows = np.array([row for row, _ in asked.cites], np.int64)
    found = stats.share(
        [overlap for _, overlap in asked.cites],
        asked.runs[rows],
        level=drawing.level,
        unit_of_n="pairs of verdicts",
    )
    return found


def _prevalence(used: Floats) -> float:
    """Return how far the commonest label stands above the others; of two, Byrt's index."""
    if len(used) < 2:
        return 1.0
    top = float(used.max())
    return top - (float(used.sum()) - top) / (len(used) - 1)


def sentence(figures: dict[str, Figure], asked: Asked, used: Floats | None) -> str:
    """Return why kappa says little where one label is nearly all there is; "" elsewhere."""
    kappa = figures["kappa" if asked.codes.shape[1] == 2 else "fleiss"]
    gwet, raw = figures["gwet"], figures["raw"]
    if used is None or not isinstance(raw, Estimate):
        return ""
    label, most = asked.labels[int(used.argmax())], float(used.max())
    if isinstance(kappa, Unmeasured) and kappa.kind == "undefined":
        return (
            f"every answer is {label!r}: kappa has no value, and the raters agree because there "
            "was nothing to tell apart"
        )
    if not (isinstance(kappa, Estimate) and isinstance(gwet, Estimate)):
        return ""
    if gwet.value - kappa.value < APART:
        return ""
    return (
        f"kappa {kappa.value:.2f} and AC1 {gwet.value:.2f} disagree because {most:.0%} of the "
        f"answers are {label!r}: chance alone would agree on {float((used**2).sum()):.0%} of the "
        f"{asked.unit}, which leaves kappa little to go by; look at the other answers"
    )
