"""Confidence of judges: calibrated on people's labels, weighing agreement, moved by a rubric.

Where people labelled, a judge's confidence becomes the share of its verdicts, at that confidence,
that people found right; confidences of two judges are compared only after that. Without labels a
judge is compared with itself alone, before and after a new version of the rubric.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from stepscope import stats
from stepscope.calibrate.ratings import Item, RatingTable, label_of
from stepscope.calibrate.types import CalibrationCurve, ConfidenceBin, RubricChange
from stepscope.model import Verdict
from stepscope.model.records import ANNOTATORS, Figure
from stepscope.stats.sample import Floats, Ints, codes
from stepscope.values import Unmeasured

# Verdicts that people labelled, below which a curve would be drawn through noise.
FEWEST = 20
# A block of the curve takes this much of each outcome on top, as Jeffreys' prior does: no block of
# five right ones is certain.
PRIOR = 0.5


def majority_labels(ratings: RatingTable) -> Ints:
    """Return the code of the label that most people gave each item; -1 where they are split."""
    given = ratings.codes[:, ratings.people]
    known = range(max(len(ratings.labels), 1))
    counts = np.stack([(given == code).sum(axis=1) for code in known], axis=1)
    most = counts.max(axis=1, keepdims=True)
    alone = (most[:, 0] > 0) & ((counts == most).sum(axis=1) == 1)
    return np.where(alone, counts.argmax(axis=1), -1).astype(np.int64)


def calibration_curves(
    ratings: RatingTable, labels: Ints | None = None
) -> tuple[CalibrationCurve, ...]:
    """Return the calibration of every judge that says how sure it is; none without labels.

    `labels` are those of `majority_labels` that count, -1 elsewhere; all when left out.
    """
    labels = majority_labels(ratings) if labels is None else labels
    judges = [at for at, v in enumerate(ratings.voices) if v.family not in ANNOTATORS]
    sure = [at for at in judges if not np.isnan(ratings.confidence[:, at]).all()]
    return tuple(_curve(ratings, at, labels) for at in sure) if (labels >= 0).any() else ()


def _curve(ratings: RatingTable, at: int, labels: Ints) -> CalibrationCurve:
    both = np.flatnonzero(~np.isnan(ratings.confidence[:, at]) & (labels >= 0))
    confidence = ratings.confidence[both, at]
    right = np.equal(ratings.codes[both, at], labels[both]).astype(np.float64)
    runs = ratings.runs[both]
    if len(both) < FEWEST:
        few = f"{len(both)} verdicts have a person's label; a curve needs {FEWEST}"
        bins: tuple[ConfidenceBin, ...] | Unmeasured = Unmeasured("insufficient_data", few)
    else:
        bins = tuple(
            ConfidenceBin(
                low=float(confidence[block].min()),
                high=float(confidence[block].max()),
                confidence=float(confidence[block].mean()),
                right=stats.proportion(right[block], runs[block], unit_of_n="verdicts"),
                probability=float((right[block].sum() + PRIOR) / (len(block) + 2 * PRIOR)),
            )
            for block in pool_rising(confidence, right)
        )
    voice = ratings.voices[at]
    return CalibrationCurve(judge=voice.name, family=voice.family, n=len(both), bins=bins)


def pool_rising(confidence: Floats, right: Floats) -> list[Ints]:
    """Return the rows of each block of confidences, such that the share right never falls.

    `right` is 1 where people agree, else 0; both arrays have shape (n,).

    Source: Ayer, Brunk, Ewing, Reid and Silverman (1955), Ann. Math. Statist. 26:641-647:
    neighbours whose means are out of order are pooled until none are.
    """
    order = np.argsort(confidence, kind="stable")
    _, starts = np.unique(confidence[order], return_index=True)
    blocks: list[Ints] = []
    for rows in np.split(order, starts[1:]):
        blocks.append(rows)
        while len(blocks) > 1 and right[blocks[-2]].mean() >= right[blocks[-1]].mean():
            last = blocks.pop()
            blocks[-1] = np.concatenate([blocks[-1], last])
    return blocks


def calibrated_confidences(ratings: RatingTable, known: Iterable[CalibrationCurve]) -> Floats:
    """Return the probability behind each confidence, shape (items, raters); NaN without a curve."""
    found = np.full(ratings.codes.shape, np.nan)
    names = [voice.name for voice in ratings.voices]
    for curve in known:
        if isinstance(curve.bins, tuple):
            column = ratings.confidence[:, at := names.index(curve.judge)]
            # That of the last block which begins at or below.
            block = np.searchsorted([x.low for x in curve.bins], column, side="right") - 1
            likely = np.array([x.probability for x in curve.bins])[np.maximum(block, 0)]
            found[:, at] = np.where(np.isnan(column), np.nan, likely)
    return found


def confidence_weighted(ratings: RatingTable, likely: Floats, pair: list[int]) -> Figure | None:
    """Return the agreement of two judges that their calibrated confidences lead to expect.

    Each verdict is taken as its label with the calibrated probability, any other label sharing
    the rest; the figure is the mean chance that both then name the same label. None without a
    curve of both.
    """
    given = ~np.isnan(likely[:, pair])
    if not given.any(axis=0).all():
        return None
    rows = given.all(axis=1)
    p, q = likely[rows][:, pair].T
    others = max(len(ratings.labels) - 1, 1)
    missed = (1 - p) * (1 - q) / others
    crossed = (p * (1 - q) + q * (1 - p)) / others + missed * (others - 1) / others
    same = np.equal(*ratings.codes[rows][:, pair].T)
    chances = np.where(same, p * q + missed, crossed)
    found = stats.mean_share(chances, ratings.runs[rows], unit_of_n=ratings.unit)
    if isinstance(found, Unmeasured):
        return found
    return replace(found, diagnostics=(*found.diagnostics, "the calibration is taken as known"))


def rubric_changes(ratings: RatingTable) -> Iterator[RubricChange]:
    """Yield every judge whose version of the rubric judged items that the one before it judged."""
    for voice in ratings.voices:
        version, old = voice.before
        if voice.family in ANNOTATORS or not old:
            continue
        pairs = [
            (item, a, b)
            for item, b in voice.said.items()
            if isinstance(b, Verdict) and isinstance(a := old.get(item), Verdict)
        ]
        if pairs:
            yield compare_versions(voice.name, (version, voice.version), pairs)


def compare_versions(
    judge: str, versions: tuple[str, str], pairs: Sequence[tuple[Item, Verdict, Verdict]]
) -> RubricChange:
    """Return how the answers of one judge differ from those under another version."""
    runs = codes(item[0] for item, _, _ in pairs)
    sure = {
        at: b.confidence - a.confidence
        for at, (_, a, b) in enumerate(pairs)
        if a.confidence is not None and b.confidence is not None
    }
    cited = {
        at: overlap
        for at, (_, a, b) in enumerate(pairs)
        if (overlap := overlap_cites(a, b)) is not None
    }
    kept = [float(label_of(a) == label_of(b)) for _, a, b in pairs]
    return RubricChange(
        judge=judge,
        before=versions[0],
        after=versions[1],
        n=len(pairs),
        kept=stats.proportion(kept, runs, unit_of_n="verdicts"),
        confidence=stats.mean(list(sure.values()), runs[list(sure)], unit_of_n="verdicts"),
        cites=stats.mean_share(list(cited.values()), runs[list(cited)], unit_of_n="verdicts"),
    )


def overlap_cites(first: Verdict, second: Verdict) -> float | None:
    """Return the overlap of the steps that two verdicts cite (Jaccard's); None where none does."""
    both = {*first.cites, *second.cites}
    return len(set(first.cites) & set(second.cites)) / len(both) if both else None
