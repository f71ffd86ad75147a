"""One judge, three views: steps judged alone, or with all before them, against the whole run.

A step alone may look like an achievement and be a repetition in its run; a step in its run may be
blamed for what came before it. Where the two differ, and how much, is told by part of the run and
by what the judge says in context. A difference is the isolated answer minus the contextual. With a
prefix it is a shift, the contextual minus that: how far knowing the end moves it is the halo.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope import stats
from stepscope.calibrate import ratings
from stepscope.calibrate.agreement import agreement_figures
from stepscope.calibrate.ratings import RaterVerdicts
from stepscope.calibrate.types import RaterAnswer
from stepscope.model import Verdict
from stepscope.model.records import (
    ISOLATED_SUFFIX,
    JUDGE_PREFIX,
    PREFIX_SUFFIX,
    STEP_SCORES,
    Figure,
)
from stepscope.stats.interrater import SharedWeights
from stepscope.stats.sample import Floats, Ints, codes
from stepscope.store.columns import Rows, Runs
from stepscope.store.where import Where
from stepscope.values import Unmeasured

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
    isolated: str  # the measure of the isolated answers, or of those with a prefix
    contextual: str  # the measure of the contextual ones
    of: Literal["labels", "scores"]  # whether labels or scores are compared
    n: int  # steps judged in both modes
    runs: int  # how many runs they are of
    # of labels "raw", "kappa", "gwet"; of scores "difference", "distance" (its mean size) and
    # "rank" (the rank correlation); of prefixes "shift" (contextual minus prefix) and "halo"
    figures: dict[str, Figure]
    # of labels, how often the contextual label (outer) met the isolated one (inner)
    table: dict[str, dict[str, int]] = {}
    where: tuple[ModeDifference, ...] = ()  # by third of the run, then by contextual label
    most: tuple[ModeGap, ...] = ()  # the steps that differ most


def compare_modes(
    rows: Rows, seed: int = 0, *, where: Where | None = None
) -> tuple[ModeComparison, ...]:
    """Return how far each judge's two modes differ: labels first, then scores, by judge.

    Labels are compared where a rubric was asked in both modes; scores where a judge gave no-look
    scores to steps that it also scored in context.
    """
    chosen = rows.runs(where)
    measures = rows.measures()
    pairs = [
        (name, name.removesuffix(suffix))
        for suffix in (ISOLATED_SUFFIX, PREFIX_SUFFIX)
        for name in measures
        if name.endswith(suffix)
    ]
    pairs += [(STEP_SCORES, CONTEXTUAL_SCORES)] if STEP_SCORES in measures else []
    held = {name: list(rows.records(where, measure=name)) for pair in pairs for name in pair}
    of = {name: {record.trajectory for record in records} for name, records in held.items()}
    own = ratings.load_agent_steps(rows, chosen, {run for a, b in pairs for run in of[a] & of[b]})
    found = []
    for pair in pairs:
        alone, within = (
            {
                (voice.family, voice.name): voice
                for voice in ratings.read_raters(held[name], "steps", own)
            }
            for name in pair
        )
        for key in sorted(alone.keys() & within.keys()):
            made = _compare_judge(alone[key], within[key], chosen, pair=pair, seed=seed)
            if made is not None:
                found.append(made)
    return tuple(found)


def _compare_judge(
    alone: RaterVerdicts, within: RaterVerdicts, chosen: Runs, *, pair: tuple[str, str], seed: int
) -> ModeComparison | None:
    """Return how one judge's modes differ; None without a step that it answered in both."""
    isolated, contextual = pair
    prefix = isolated.endswith(PREFIX_SUFFIX)
    scored = isolated == STEP_SCORES or prefix
    names, steps, outcomes = (
        dict(zip(chosen.id.tolist(), column.tolist(), strict=True))
        for column in (chosen.name, chosen.steps, chosen.outcome)
    )
    shared = alone.said.keys() & within.said.keys()
    last = {run: step for run, step in sorted((run, step or 0) for run, step in shared)}
    items: list[ratings.Item] = []
    first: list[Verdict] = []  # the isolated answers
    second: list[Verdict] = []  # the contextual answers
    for item in sorted(shared, key=lambda i: (names[i[0]], i[0], i[1] or 0)):
        a, b = alone.said[item], within.said[item]
        if not (isinstance(a, Verdict) and isinstance(b, Verdict)):
            continue
        if scored and (a.value is None or b.value is None):
            continue
        # The end is in view at the last exchange in any case.
        if prefix and item[1] == last[item[0]]:
            continue
        items.append(item)
        first.append(a)
        second.append(b)
    if not items:
        return None
    runs = codes(run for run, _ in items)
    said = [(ratings.label_of(b), ratings.label_of(a)) for a, b in zip(first, second, strict=True)]
    table: dict[str, dict[str, int]] = {}
    if scored:
        values = [np.array([v.value for v in side], np.float64) for side in (first, second)]
        differences = values[1] - values[0] if prefix else values[0] - values[1]
    else:
        differences = np.array([float(a != b) for b, a in said])
    if prefix:
        shifts = np.bincount(runs, differences) / np.bincount(runs)
        known = [outcomes[run] for run in dict.fromkeys(run for run, _ in items)]
        figures = {
            "shift": stats.mean(shifts, np.arange(len(shifts)), unit="score"),
            "halo": measure_halo(shifts, known),
        }
    elif scored:
        figures = {
            "difference": _mean(differences, runs, scored=True),
            "distance": stats.mean_share(np.abs(differences), runs, unit_of_n="steps"),
            "rank": stats.rank_correlation(values[0], values[1], runs),
        }
    else:
        labels = tuple(sorted({label for pair in said for label in pair}))
        both = np.array([[labels.index(label) for label in answers] for answers in said])
        weights, names_ = SharedWeights(np.random.default_rng(seed)), ("raw", "kappa", "gwet")
        figures = agreement_figures(names_, both, runs, labels, {}, weights=weights)
        for (outer, inner), n in sorted(Counter(said).items()):
            table.setdefault(outer, {})[inner] = n
    # Which third of its run each step lies in, from 0.
    thirds = np.array([min(3 * (step or 0) // max(steps[run], 1), 2) for run, step in items])
    parts = [(name, thirds == at) for at, name in enumerate(THIRDS)]
    given = np.array([v.label or "" for v in second], np.object_)
    parts += [(label, np.equal(given, label)) for label in sorted(set(given.tolist()) - {""})]
    return ModeComparison(
        judge=alone.name,
        family=alone.family,
        isolated=isolated,
        contextual=contextual,
        of="scores" if scored else "labels",
        n=len(items),
        runs=int(runs.max()) + 1,
        figures=figures,
        table=table,
        where=tuple(
            ModeDifference(
                part=part,
                n=len(differences[there]),
                difference=_mean(differences[there], runs[there], scored=scored),
            )
            for part, there in parts
        ),
        most=tuple(
            ModeGap(
                run=items[at][0],
                name=names[items[at][0]],
                step=items[at][1] or 0,
                isolated=ratings.rater_answer(alone.name, alone.family, first[at]),
                contextual=ratings.rater_answer(alone.name, alone.family, second[at]),
                difference=float(differences[at]) if scored else None,
            )
            for at in _largest_gaps(first, second, differences, scored=scored)
        ),
    )


def measure_halo(shifts: npt.ArrayLike, outcomes: Sequence[str]) -> Figure:
    """Return how far knowing the end moves a judge: half of passing minus failing runs, in points.

    A judge that is kinder, or harder, whenever it sees more has a shift and no halo: the plain mean
    cancels. The shifts are of each run the mean of contextual minus prefix scores, its outcome
    "pass", "fail" or "unknown". `Unmeasured` with fewer than two runs that passed, or that failed.

    Source: Welch (1947), Biometrika 34:28-35, over runs.
    """
    values, said = np.asarray(shifts, np.float64) / 2, np.asarray(outcomes)
    fails, passes = values[said == "fail"], values[said == "pass"]
    if min(len(fails), len(passes)) < 2:
        what = f"{len(passes)} passing and {len(fails)} failing runs; a halo needs two of each"
        return Unmeasured("missing_input", what)
    unknown = len(values) - len(fails) - len(passes)
    runs, rng = (np.arange(len(fails)), np.arange(len(passes))), np.random.default_rng(0)
    lost = {"unknown outcome": unknown} if unknown else None
    found = stats.compare_unpaired(
        fails, runs[0], passes, runs[1], rng=rng, unmeasured=lost, unit="score", draws=1
    )
    return found if isinstance(found, Unmeasured) else found.effect


def _mean(differences: Floats, runs: Ints, *, scored: bool) -> Figure:
    """Return the mean difference of scores, or the share of labels that differ."""
    if scored:
        return stats.mean(differences, runs, unit="score", unit_of_n="steps")
    return stats.proportion(differences, runs, unit_of_n="steps")


def _largest_gaps(
    first: Sequence[Verdict], second: Sequence[Verdict], differences: Floats, *, scored: bool
) -> list[int]:
    """Return where the modes differ most; of labels where both answers are surest."""
    if scored:
        weight = np.abs(differences)
    else:
        sure = [
            (a.confidence or 0.0) + (b.confidence or 0.0) + abs((a.value or 0.0) - (b.value or 0.0))
            for a, b in zip(first, second, strict=True)
        ]
        weight = np.where(differences > 0, 1.0 + np.array(sure), 0.0)
    return [at for at in np.argsort(-weight, kind="stable")[:MOST].tolist() if differences[at] != 0]
