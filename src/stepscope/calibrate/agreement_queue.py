"""The runs and steps on which families disagree, the most telling first: material for rubric work.

Whoever labels from this queue labels what was chosen for being disputed: such labels tune a rubric
and are never a test of it, nor part of any rate.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from stepscope.calibrate.agreement_ratings import Ratings
from stepscope.calibrate.agreement_reading import HUMAN, IMPORTED
from stepscope.calibrate.agreement_types import Dispute
from stepscope.measures.axes.axis import UNCERTAIN
from stepscope.safety.text import visible_line

# Answers that commit to nothing: a dispute in which one side has none is less telling.
OPEN = frozenset({UNCERTAIN, "not_applicable"})
COLUMNS = (
    "aspect", "run", "name", "step", "rater", "family", "label", "value", "confidence", "cites",
    "reason", "use",
)  # fmt: skip
# What a spreadsheet would take for a formula.
_FORMULA = ("=", "+", "-", "@")


def disputes(ratings: Ratings, *, within: bool = False, most: int | None = None) -> list[Dispute]:
    """Return the items on which raters of different families disagree, the most telling first.

    First where both sides commit themselves, then by the share of pairs that disagree, then by how
    sure the raters are. How sure is reckoned within each judge, as the rank of this confidence
    among its own: confidences of two families cannot be compared.

    Args:
        ratings: of one rubric.
        within: judges of one family may disagree as well; people always may, and so may judges
            whose verdicts were imported.
        most: how many are returned; None for all.
    """
    ranks = _ranks(ratings)
    found: list[tuple[float, ...]] = []
    pairs = [
        (a, b)
        for a, b in combinations(range(len(ratings.voices)), 2)
        if within or _strangers(ratings.voices[a].family, ratings.voices[b].family)
    ]
    open_ = [label in OPEN for label in ratings.labels]
    for place, row in enumerate(ratings.codes.tolist()):
        both = [(a, b) for a, b in pairs if row[a] >= 0 and row[b] >= 0]
        apart = [(a, b) for a, b in both if row[a] != row[b]]
        if apart:
            committed = any(not open_[row[a]] and not open_[row[b]] for a, b in apart)
            sure = float(np.mean([ranks[place, at] for at in {at for p in apart for at in p}]))
            distance = _distance(ratings, place, apart)
            share = len(apart) / len(both)
            found.append((-float(committed), -share, -distance, -sure, place))
    return [_dispute(ratings, int(key[-1]), -key[1]) for key in sorted(found)[:most]]


def _dispute(ratings: Ratings, place: int, apart: float) -> Dispute:
    run, step = ratings.items[place]
    return Dispute(
        aspect=ratings.rated.aspect,
        run=run,
        name=ratings.rated.names.get(run, ""),
        step=step,
        answers=ratings.answers((run, step)),
        apart=apart,
    )


def _strangers(first: str, second: str) -> bool:
    """Whether raters of these families are not wrong together as a matter of course."""
    return first != second or first in (HUMAN, IMPORTED)


def _distance(ratings: Ratings, place: int, apart: Sequence[tuple[int, int]]) -> float:
    """Return how far apart scores are at most; 0 for labels, which have no distance."""
    if not ratings.scored:
        return 0.0
    values = ratings.values[place]
    return float(max(abs(values[a] - values[b]) for a, b in apart))


def _ranks(ratings: Ratings) -> npt.NDArray[np.float64]:
    """Return each confidence as its rank among the judge's own, 0 to 1; one half without any."""
    found = np.full(ratings.codes.shape, 0.5)
    for at in range(len(ratings.voices)):
        given = {
            place: verdict.confidence
            for place, item in enumerate(ratings.items)
            if (verdict := ratings.verdict(item, at)) is not None and verdict.confidence is not None
        }
        numbers = np.array(list(given.values()), np.float64)
        below = np.searchsorted(np.sort(numbers), numbers, side="left")
        upto = np.searchsorted(np.sort(numbers), numbers, side="right")
        found[list(given), at] = (below + upto) / 2 / max(len(numbers), 1)
    return found


def as_csv(queue: Iterable[Dispute]) -> str:
    """Return the queue as CSV, one row an answer."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for dispute in queue:
        for answer in dispute.answers:
            writer.writerow([
                dispute.aspect, dispute.run, _plain(dispute.name),
                "" if dispute.step is None else dispute.step,
                _plain(answer.rater), answer.family, _plain(answer.label),
                "" if answer.value is None else answer.value,
                "" if answer.confidence is None else answer.confidence,
                " ".join(map(str, answer.cites)), _plain(answer.reason), dispute.use,
            ])  # fmt: skip
    return out.getvalue()


def _plain(text: str) -> str:
    shown = visible_line(text)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown
