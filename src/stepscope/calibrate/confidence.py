"""What a judge's confidence is worth: its calibration curve, and agreement weighted by it.

Where people labelled, a judge's confidence becomes the share of its verdicts, at that confidence,
that people found right. Confidences of two judges are compared only after that, never as they
are: families differ in how sure they sound. Without labels a judge is compared with itself alone,
before and after a new version of a rubric.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec
import numpy as np

from stepscope import stats
from stepscope.calibrate.ratings import Item, RaterVerdicts, RatingTable, label_of
from stepscope.calibrate.types import CalibrationCurve, ConfidenceBin, RubricChange
from stepscope.model import Verdict
from stepscope.model.records import HUMAN, RULES, Figure
from stepscope.stats.sample import Floats, codes
from stepscope.values import Unmeasured

# Verdicts that people labelled, below which a curve would be drawn through noise.
FEWEST = 20
# A block of the curve takes this much of each outcome on top, as Jeffreys' prior does: no block of
# five right ones is certain.
PRIOR = 0.5


def majority_labels(ratings: RatingTable) -> dict[Item, str]:
    """Return the label that most people gave each item; none where they are split."""
    people = [voice for voice in ratings.voices if voice.family == HUMAN]
    found: dict[Item, str] = {}
    for item in ratings.items:
        said = [v.said[item] for v in people if item in v.said]
        counts = Counter(label_of(one) for one in said if isinstance(one, Verdict))
        top = counts.most_common(2)
        if top and (len(top) == 1 or top[0][1] > top[1][1]):
            found[item] = top[0][0]
    return found


def calibration_curves(ratings: RatingTable) -> tuple[CalibrationCurve, ...]:
    """Return the calibration of every judge that says how sure it is; none without labels."""
    labels = majority_labels(ratings)
    if not labels:
        return ()
    judges = [v for v in ratings.voices if v.family not in (HUMAN, RULES)]
    return tuple(curve for voice in judges if (curve := _curve(voice, labels)) is not None)


def _curve(voice: RaterVerdicts, labels: Mapping[Item, str]) -> CalibrationCurve | None:
    verdicts = {item: a for item, a in voice.said.items() if isinstance(a, Verdict)}
    sure = {item: a for item, a in verdicts.items() if a.confidence is not None}
    if not sure:
        return None
    both = [(item, a) for item, a in sure.items() if item in labels]
    confidence = np.array([a.confidence for _, a in both], np.float64)
    right = np.array([label_of(a) == labels[item] for item, a in both], np.float64)
    runs = codes(item[0] for item, _ in both)
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
    return CalibrationCurve(judge=voice.name, family=voice.family, n=len(both), bins=bins)


def pool_rising(
    confidence: Floats, right: Floats
) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return the rows of each block of confidences, such that the share right never falls.

    Args:
        confidence: shape (n,).
        right: shape (n,), 1 where people agree, else 0.

    Source:
        Ayer, Brunk, Ewing, Reid and Silverman (1955), Ann. Math. Statist. 26:641-647: neighbours
        whose means are out of order are pooled until none are.

    >>> pooled = pool_rising(np.array([0.9, 0.6, 0.8]), np.array([1.0, 1.0, 0.0]))
    >>> [rows.tolist() for rows in pooled]
    [[1, 2], [0]]
    """
    order = np.argsort(confidence, kind="stable")
    _, starts = np.unique(confidence[order], return_index=True)
    blocks: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
    for rows in np.split(order, starts[1:]):
        blocks.append(rows)
        while len(blocks) > 1 and right[blocks[-2]].mean() >= right[blocks[-1]].mean():
            last = blocks.pop()
            blocks[-1] = np.concatenate([blocks[-1], last])
    return blocks


def confidence_weighted(
    ratings: RatingTable, known: tuple[CalibrationCurve, ...], first: int, second: int
) -> Figure | None:
    """Return the agreement of two judges that their calibrated confidences lead to expect.

    Each verdict is taken as its label with the calibrated probability, any other label sharing
    the rest; the figure is the mean chance that both then name the same label. None without a
    curve of both.
    """
    pair = [ratings.voices[at] for at in (first, second)]
    of = {curve.judge: curve.bins for curve in known}
    bins = [of.get(voice.name) for voice in pair]
    if any(found is None or isinstance(found, Unmeasured) for found in bins):
        return None
    others = max(len(ratings.labels) - 1, 1)
    chances, runs = [], []
    for item in ratings.items:
        said = [ratings.verdict(item, at) for at in (first, second)]
        if all(one is not None and one.confidence is not None for one in said):
            p, q = (
                _probability(found, one.confidence)
                for found, one in zip(bins, said, strict=True)
                if one is not None and one.confidence is not None and isinstance(found, tuple)
            )
            a, b = (label_of(one) for one in said if one is not None)
            missed = (1 - p) * (1 - q) / others
            crossed = (p * (1 - q) + q * (1 - p)) / others + missed * (others - 1) / others
            chances.append(p * q + missed if a == b else crossed)
            runs.append(item[0])
    found = stats.mean_share(chances, codes(runs), unit_of_n=ratings.unit)
    if isinstance(found, Unmeasured):
        return found
    doubt = "the calibration is taken as known"
    return msgspec.structs.replace(found, diagnostics=(*found.diagnostics, doubt))


def _probability(bins: tuple[ConfidenceBin, ...], confidence: float) -> float:
    """Return the calibrated probability: of the last block that begins at or below."""
    below = [block.probability for block in bins if block.low <= confidence]
    return below[-1] if below else bins[0].probability


def rubric_changes(ratings: RatingTable) -> Iterator[RubricChange]:
    """Yield every judge whose latest two versions of the rubric judged the same items."""
    for voice in ratings.voices:
        version, old = voice.before
        if voice.family in (HUMAN, RULES) or not old:
            continue
        pairs = [
            (item, a, b)
            for item, b in voice.said.items()
            if isinstance(b, Verdict) and isinstance(a := old.get(item), Verdict)
        ]
        if pairs:
            yield _change(voice, version, pairs)


def _change(
    voice: RaterVerdicts, version: str, pairs: list[tuple[Item, Verdict, Verdict]]
) -> RubricChange:
    runs = codes(item[0] for item, _, _ in pairs)
    sure = [
        (at, b.confidence - a.confidence)
        for at, (_, a, b) in enumerate(pairs)
        if a.confidence is not None and b.confidence is not None
    ]
    cited = [
        (at, len(set(a.cites) & set(b.cites)) / len({*a.cites, *b.cites}))
        for at, (_, a, b) in enumerate(pairs)
        if a.cites or b.cites
    ]
    kept = [float(label_of(a) == label_of(b)) for _, a, b in pairs]
    return RubricChange(
        judge=voice.name,
        before=version,
        after=voice.version,
        n=len(pairs),
        kept=stats.proportion(kept, runs, unit_of_n="verdicts"),
        confidence=stats.mean(
            [by for _, by in sure], runs[[at for at, _ in sure]], unit_of_n="verdicts"
        ),
        cites=stats.mean_share(
            [by for _, by in cited], runs[[at for at, _ in cited]], unit_of_n="verdicts"
        ),
    )
