"""One judge, two modes: steps judged in isolation against the same steps judged in context.

A step alone may look like an achievement and be a repetition in its run; a step in its run may be
blamed for what came before it. Where the two differ, and how much, is told by part of the run and
by what the judge says in context. A difference is always the isolated answer minus the contextual.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from stepscope import stats
from stepscope.calibrate.figures import ComparedRatings, IntervalDraws, agreement_figure
from stepscope.calibrate.ratings import Item, RaterVerdicts, label_of, rater_answer, read_raters
from stepscope.calibrate.types import RaterAnswer
from stepscope.model import Verdict
from stepscope.model.records import ISOLATED_SUFFIX, JUDGE_PREFIX, STEP_SCORES, Figure
from stepscope.stats.sample import Floats, Ints, codes
from stepscope.store.columns import Rows, Runs
from stepscope.store.where import Where

THIRDS = ("first third", "middle third", "last third")
# Steps named as those that differ most.
MOST = 5
# The scores that a judge gives within the label of a step, with the whole run in view.
CONTEXTUAL_SCORES = JUDGE_PREFIX + "step_labels"


class ModeGap(msgspec.Struct, frozen=True, kw_only=True):
    """A step on which the two modes differ; `difference` of scores, None of labels."""

    run: str
    name: str
    step: int
    isolated: RaterAnswer
    contextual: RaterAnswer
    difference: float | None = None


class ModeDifference(msgspec.Struct, frozen=True, kw_only=True):
    """How much the modes differ in one part of the runs, or where context says one label.

    `difference`: of labels the share that differ, of scores the mean difference.
    """

    part: str
    n: int
    difference: Figure


class ModeComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One judge's two modes on the steps that it judged in both."""

    judge: str  # who judged
    family: str  # its family
    isolated: str  # the measure of the isolated answers
    contextual: str  # the measure of the contextual ones
    of: Literal["labels", "scores"]  # whether labels or scores are compared
    n: int  # steps judged in both modes
    runs: int  # how many runs they are of
    # of labels "raw", "kappa", "gwet"; of scores "difference", "distance" (its mean size) and
    # "rank" (the rank correlation)
    figures: dict[str, Figure]
    # of labels, how often the contextual label (outer) met the isolated one (inner)
    table: dict[str, dict[str, int]] = {}
    where: tuple[ModeDifference, ...] = ()  # by third of the run, then by contextual label
    most: tuple[ModeGap, ...] = ()  # the steps that differ most


@dataclass(frozen=True, slots=True, kw_only=True)
class _PairedAnswers:
    """A judge's answers in both modes, one of each a step."""

    judge: str
    family: str
    scores: bool  # whether scores are compared, not labels
    items: tuple[Item, ...]  # the steps
    alone: tuple[Verdict, ...]  # the isolated answers
    within: tuple[Verdict, ...]  # the contextual answers
    runs: Ints  # shape (n,), a number for the run of each step
    thirds: Ints  # shape (n,), which third of its run each step lies in, from 0
    names: Mapping[str, str]  # of runs, by id


def compare_modes(
    rows: Rows, drawing: IntervalDraws, *, where: Where | None = None
) -> tuple[ModeComparison, ...]:
    """Return how far each judge's two modes differ: labels first, then scores, by judge.

    Labels are compared where a rubric was asked in both modes; scores where a judge gave no-look
    scores to steps that it also scored in context.
    """
    chosen = rows.runs(where)
    measures = rows.measures()
    pairs = [
        (name, name.removesuffix(ISOLATED_SUFFIX))
        for name in measures
        if name.endswith(ISOLATED_SUFFIX)
    ]
    pairs += [(STEP_SCORES, CONTEXTUAL_SCORES)] if STEP_SCORES in measures else []
    found = []
    for isolated, contextual in pairs:
        alone, within = (
            {(voice.family, voice.name): voice for voice in read_raters(records, "steps")}
            for records in (rows.records(where, measure=name) for name in (isolated, contextual))
        )
        for key in sorted(alone.keys() & within.keys()):
            both = _pair_answers(alone[key], within[key], chosen, scores=isolated == STEP_SCORES)
            if not both.items:
                continue
            pairs_of = zip(both.alone, both.within, strict=True)
            if both.scores:
                apart = [(a.value or 0.0) - (b.value or 0.0) for a, b in pairs_of]
            else:
                apart = [float(label_of(a) != label_of(b)) for a, b in pairs_of]
            differences = np.array(apart, np.float64)
            found.append(
                ModeComparison(
                    judge=both.judge,
                    family=both.family,
                    isolated=isolated,
                    contextual=contextual,
                    of="scores" if both.scores else "labels",
                    n=len(both.items),
                    runs=int(both.runs.max()) + 1,
                    figures=_score_figures(both, differences, drawing)
                    if both.scores
                    else _label_figures(both, drawing),
                    table={} if both.scores else _table(both),
                    where=tuple(_places(both, differences, drawing)),
                    most=tuple(_largest_gaps(both, differences)),
                )
            )
    return tuple(found)


def _pair_answers(
    alone: RaterVerdicts, within: RaterVerdicts, chosen: Runs, *, scores: bool
) -> _PairedAnswers:
    names = dict(zip(chosen.id.tolist(), chosen.name.tolist(), strict=True))
    steps = dict(zip(chosen.id.tolist(), chosen.steps.tolist(), strict=True))
    shared = alone.said.keys() & within.said.keys()
    items, first, second = [], [], []
    for item in sorted(shared, key=lambda i: (names[i[0]], i[0], i[1] or 0)):
        a, b = alone.said[item], within.said[item]
        if not (isinstance(a, Verdict) and isinstance(b, Verdict)):
            continue
        if scores and (a.value is None or b.value is None):
            continue
        items.append(item)
        first.append(a)
        second.append(b)
    thirds = [min(3 * (step or 0) // max(steps[run], 1), 2) for run, step in items]
    return _PairedAnswers(
        judge=alone.name,
        family=alone.family,
        scores=scores,
        items=tuple(items),
        alone=tuple(first),
        within=tuple(second),
        runs=codes(run for run, _ in items),
        thirds=np.array(thirds, np.int64),
        names=names,
    )


def _score_figures(
    both: _PairedAnswers, differences: Floats, drawing: IntervalDraws
) -> dict[str, Figure]:
    alone, within = ([v.value or 0.0 for v in side] for side in (both.alone, both.within))
    return {
        "difference": _mean(differences, both.runs, drawing, scores=True),
        "distance": stats.mean_share(
            np.abs(differences), both.runs, level=drawing.level, unit_of_n="steps"
        ),
        "rank": stats.rank_correlation(
            alone, within, both.runs, rng=np.random.default_rng(drawing.seed), level=drawing.level
        ),
    }


def _label_figures(both: _PairedAnswers, drawing: IntervalDraws) -> dict[str, Figure]:
    said = [[label_of(v) for v in side] for side in (both.alone, both.within)]
    labels = tuple(sorted({*said[0], *said[1]}))
    asked = ComparedRatings(
        codes=np.array([[labels.index(label) for label in side] for side in said]).T,
        values=np.empty((len(both.items), 0)),
        runs=both.runs,
        cites=(),
        labels=labels,
        scored=False,
        unmeasured={},
        unit="steps",
    )
    return {name: agreement_figure(asked, name, drawing) for name in ("raw", "kappa", "gwet")}


def _table(both: _PairedAnswers) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for a, b in zip(both.alone, both.within, strict=True):
        row = found.setdefault(label_of(b), {})
        row[label_of(a)] = row.get(label_of(a), 0) + 1
    return {label: dict(sorted(found[label].items())) for label in sorted(found)}


def _places(
    both: _PairedAnswers, differences: Floats, drawing: IntervalDraws
) -> Iterator[ModeDifference]:
    labels = np.array([v.label or "" for v in both.within], np.object_)
    parts = [(name, both.thirds == at) for at, name in enumerate(THIRDS)]
    parts += [(label, np.equal(labels, label)) for label in sorted(set(labels.tolist()) - {""})]
    for part, chosen in parts:
        of = differences[chosen]
        difference = _mean(of, both.runs[chosen], drawing, scores=both.scores)
        yield ModeDifference(part=part, n=len(of), difference=difference)


def _mean(differences: Floats, runs: Ints, drawing: IntervalDraws, *, scores: bool) -> Figure:
    """Return the mean difference of scores, or the share of labels that differ."""
    if scores:
        return stats.mean(differences, runs, level=drawing.level, unit="score", unit_of_n="steps")
    return stats.proportion(differences, runs, level=drawing.level, unit_of_n="steps")


def _largest_gaps(both: _PairedAnswers, differences: Floats) -> Iterator[ModeGap]:
    """Yield the steps that differ most; of labels those where both answers are surest."""
    if both.scores:
        weight = np.abs(differences)
    else:
        sure = [
            (a.confidence or 0.0) + (b.confidence or 0.0) + abs((a.value or 0.0) - (b.value or 0.0))
            for a, b in zip(both.alone, both.within, strict=True)
        ]
        weight = np.where(differences > 0, 1.0 + np.array(sure), 0.0)
    for at in np.argsort(-weight, kind="stable")[:MOST].tolist():
        if differences[at] != 0:
            run, step = both.items[at]
            yield ModeGap(
                run=run,
                name=both.names[run],
                step=step or 0,
                isolated=rater_answer(both.judge, both.family, both.alone[at]),
                contextual=rater_answer(both.judge, both.family, both.within[at]),
                difference=float(differences[at]) if both.scores else None,
            )
