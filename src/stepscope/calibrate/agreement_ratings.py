"""The ratings of one rubric as an array: items down, raters across, codes of labels in it.

Scores are put into the four bands of the no-look rubric. A judge's `uncertain` and `not_applicable`
are labels like any other; an item that a rater has no verdict on is -1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.calibrate.agreement_reading import Item, Rated, Voice
from stepscope.calibrate.agreement_types import Answer, Rater
from stepscope.judges.judgement import SCORES
from stepscope.model import Verdict
from stepscope.stats.clusters import codes as numbered
from stepscope.values import Unmeasured, UnmeasuredKind

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# Where one band of the no-look rubric ends, half-way between the scores that it names, and the
# next begins: not achieved to .2, partial from .3, with caveats from .6, fully from .9.
BANDS = ((0.25, "0-.2"), (0.55, ".3-.5"), (0.85, ".6-.8"), (2.0, ".9-1"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratings:
    """What raters said of items.

    Attributes:
        rated: the rubric and its raters.
        items: what anybody was asked about, by name of the run, run and step.
        labels: what the codes stand for; bands in their order, else by name.
        codes: shape (items, raters), -1 where a rater has none.
        values: shape (items, raters), scores; NaN where there is none.
        runs: shape (items,), a number for the run of each item.
        cites: for each rater the steps that it cites, by place of the item; of a step those beside
            itself. None of a rater who never cites: people, files from elsewhere.
        absent: for each rater the kind of each answer that there is not, by place of the item.
    """

    rated: Rated
    items: tuple[Item, ...]
    labels: tuple[str, ...]
    codes: Ints
    values: Floats
    runs: Ints
    cites: tuple[dict[int, frozenset[int]] | None, ...]
    absent: tuple[dict[int, UnmeasuredKind], ...]

    @property
    def voices(self) -> tuple[Voice, ...]:
        """The raters, in the order of the columns."""
        return self.rated.voices

    @property
    def scored(self) -> bool:
        """Whether the ratings are scores, so that near misses count as near."""
        return self.rated.aspect == SCORES

    def verdict(self, item: Item, at: int) -> Verdict | None:
        """Return the verdict of one rater on one item; None where it has none."""
        answer = self.voices[at].said.get(item)
        return answer if isinstance(answer, Verdict) else None

    def answers(self, item: Item) -> tuple[Answer, ...]:
        """Return what each rater said of one item."""
        found = []
        for voice in self.voices:
            verdict = voice.said.get(item)
            if isinstance(verdict, Verdict):
                found.append(
                    Answer(
                        rater=voice.name,
                        family=voice.family,
                        label=label_of(verdict),
                        value=verdict.value,
                        confidence=verdict.confidence,
                        cites=verdict.cites,
                        reason=verdict.reason,
                    )
                )
        return tuple(found)

    def raters(self) -> tuple[Rater, ...]:
        """Return who rated, with the counts of what was said and of what was not."""
        columns = zip(self.voices, self.codes.T, strict=True)
        return tuple(_rater(voice, codes, self.labels) for voice, codes in columns)

    def lost(self, columns: Sequence[int]) -> dict[str, int]:
        """Return how many items one of these raters could not answer, by kind."""
        kinds: dict[int, UnmeasuredKind] = {}
        for at in reversed(columns):
            kinds |= self.absent[at]
        return dict(Counter(kinds.values()))


def ratings(rated: Rated) -> Ratings:
    """Return what raters said as an array."""
    every = {item for voice in rated.voices for item in voice.said}
    items = tuple(sorted(every, key=lambda i: (rated.names.get(i[0], ""), i[0], _step(i))))
    used = {
        label_of(answer)
        for voice in rated.voices
        for answer in voice.said.values()
        if isinstance(answer, Verdict)
    }
    if rated.aspect == SCORES:
        labels = tuple(name for _, name in BANDS)
    else:
        labels = tuple(sorted(used))
    code = {label: number for number, label in enumerate(labels)}
    codes = np.full((len(items), len(rated.voices)), -1, np.int64)
    values = np.full(codes.shape, np.nan)
    for at, voice in enumerate(rated.voices):
        for place, item in enumerate(items):
            answer = voice.said.get(item)
            if isinstance(answer, Verdict):
                codes[place, at] = code[label_of(answer)]
                values[place, at] = np.nan if answer.value is None else answer.value
    return Ratings(
        rated=rated,
        items=items,
        labels=labels,
        codes=codes,
        values=values,
        runs=numbered(run for run, _ in items),
        cites=tuple(_cites(voice, items) for voice in rated.voices),
        absent=tuple(
            {
                place: answer.kind
                for place, item in enumerate(items)
                if isinstance(answer := voice.said.get(item), Unmeasured)
            }
            for voice in rated.voices
        ),
    )


def _cites(voice: Voice, items: Sequence[Item]) -> dict[int, frozenset[int]] | None:
    found = {
        place: frozenset(answer.cites) - {item[1]}
        for place, item in enumerate(items)
        if isinstance(answer := voice.said.get(item), Verdict)
    }
    return found if any(found.values()) else None


def label_of(verdict: Verdict) -> str:
    """Return what a verdict is compared by: its label, or the band of its score."""
    return band(verdict.value or 0.0) if verdict.label is None else verdict.label


def band(score: float) -> str:
    """Return the band of a score.

    >>> band(0.2), band(0.5), band(1.0)
    ('0-.2', '.3-.5', '.9-1')
    """
    return next(name for end, name in BANDS if score < end)


def _step(item: Item) -> int:
    return -1 if item[1] is None else item[1]


def _rater(voice: Voice, codes: Ints, labels: Sequence[str]) -> Rater:
    counts = np.bincount(codes[codes >= 0], minlength=len(labels)).tolist()
    lost: dict[str, int] = {}
    for answer in voice.said.values():
        if isinstance(answer, Unmeasured):
            lost[answer.kind] = lost.get(answer.kind, 0) + 1
    return Rater(
        name=voice.name,
        family=voice.family,
        labels={label: n for label, n in zip(labels, counts, strict=True) if n},
        unmeasured=lost,
        silent=voice.silent,
        version=voice.version,
        snapshots=voice.snapshots,
        prompts=len(voice.prompts),
        left_out=voice.left_out,
    )
