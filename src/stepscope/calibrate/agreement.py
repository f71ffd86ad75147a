"""Raters against raters: judges, the rules, people, verdicts from elsewhere, rubric by rubric.

Agreement says that raters read a rubric alike, not that they are right. A judge's `uncertain` and
`not_applicable` are labels; where the rules cannot know they have not rated; what was refused or
could not be read is counted, and is no label. Formulas and intervals are those of
`stepscope.stats.interrater`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from types import MappingProxyType

from stepscope.calibrate.agreement_confidence import changes, curves, weighted
from stepscope.calibrate.agreement_decision import DISPUTED, THRESHOLD, decide, deciding
from stepscope.calibrate.agreement_figures import (
    NOMINAL,
    Drawing,
    of_families,
    of_raters,
    together,
)
from stepscope.calibrate.agreement_queue import disputes
from stepscope.calibrate.agreement_ratings import Ratings, ratings
from stepscope.calibrate.agreement_reading import HUMAN, IMPORTED, RULES, WHAT_ENTERS, read
from stepscope.calibrate.agreement_types import Agreement, Aspect, Curve, Dispute, Together
from stepscope.errors import UsageError
from stepscope.store import Store
from stepscope.store.columns import Rows
from stepscope.store.samples import Drawn
from stepscope.store.where import FIELDS, Where, parse
from stepscope.values import Unmeasured

TAG = "tag."


def agreement(
    rows: Rows,
    *,
    rubric: str | None = None,
    where: Where | None = None,
    seed: int = 0,
    threshold: float = THRESHOLD,
) -> Agreement:
    """Return how far the raters of some runs agree, on each rubric that a judge or person rated.

    Args:
        rows: a store, or an exported folder.
        rubric: a rubric ("axes.termination"), or a set of them ("axes"); None for all.
        where: which runs.
        seed: where random draws start.
        threshold: kappa below which a rubric is to be sharpened.

    Returns:
        One aspect a rubric and granularity, by name; none where nobody but the rules rated.
    """
    found = [ratings(rated) for rated in read(rows, where=where, rubric=rubric)]
    drawing = Drawing(seed)
    decided = sum(len(deciding(one)) > 1 for one in found)
    return Agreement(
        aspects=tuple(
            aspect(
                one,
                drawing,
                threshold=threshold,
                at_once=max(decided, 1),
                drawn=rows.sampled(one.rated.aspect) if isinstance(rows, Store) else {},
            )
            for one in found
        ),
        seed=seed,
        threshold=threshold,
    )


def agreement_by(
    rows: Rows,
    field: str,
    *,
    rubric: str | None = None,
    where: Where | None = None,
    seed: int = 0,
    threshold: float = THRESHOLD,
) -> tuple[Agreement, ...]:
    """Return the agreement of each group of runs that share the value of a field, or of a tag.

    Raises:
        UsageError: no such field.
    """
    groups = []
    for value, chosen in _groups(rows, field, where):
        found = agreement(rows, rubric=rubric, where=chosen, seed=seed, threshold=threshold)
        groups.append(
            Agreement(group={field: value}, aspects=found.aspects, seed=seed, threshold=threshold)
        )
    return tuple(groups)


def _groups(rows: Rows, field: str, where: Where | None) -> Iterator[tuple[str | None, Where]]:
    if field not in FIELDS and field.removeprefix(TAG) in (field, ""):
        known = ", ".join(FIELDS)
        raise UsageError(f"--by {field!r} is no field to group by; expected {known} or tag.KEY")
    runs = rows.runs(where)
    tagged = field.startswith(TAG)
    values = rows.tag(field.removeprefix(TAG), runs) if tagged else getattr(runs, field, None)
    if values is None:
        raise UsageError(f"--by {field!r}: runs are not grouped by it here; take agent or a tag")
    for value in sorted(set(values.tolist()), key=lambda v: (v is None, str(v))):
        condition = parse(f"{_quoted(field)} = {_literal(value)}")
        yield (
            (None if value is None else str(value)),
            condition if where is None else (where & condition),
        )


def _quoted(field: str) -> str:
    key = field.removeprefix(TAG)
    return field if key == field else TAG + _literal(key)


def _literal(value: object) -> str:
    if value is None:
        return "null"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def aspect(
    rated: Ratings,
    drawing: Drawing,
    *,
    threshold: float,
    at_once: int = 1,
    drawn: Mapping[str, Drawn] = MappingProxyType({}),
) -> Aspect:
    """Return the agreement on one rubric.

    Args:
        rated: its ratings.
        drawing: how intervals are drawn.
        threshold: kappa below which it is to be sharpened.
        at_once: how many rubrics are decided together.
        drawn: the runs that could have been drawn for the rubric; empty where all were judged.
    """
    known = curves(rated)
    decision, decided_on = decide(rated, drawing, threshold=threshold, at_once=at_once)
    every = list(range(len(rated.voices)))
    names = tuple(voice.name for voice in rated.voices)
    return Aspect(
        name=rated.rated.aspect,
        unit=rated.rated.unit,
        items=len(rated.items),
        runs=len({run for run, _ in rated.items}),
        labels=rated.labels,
        raters=rated.raters(),
        together=_alone(names)
        if len(every) < 2
        else together(of_raters(rated, every), names, "all", drawing),
        pairs=tuple(_pairs(rated, known, drawing)),
        families=tuple(_families(rated, drawing)),
        decision=decision,
        decided_on=decided_on,
        disputed=tuple(disputes(rated, within=True, most=DISPUTED)),
        curves=known,
        changes=tuple(changes(rated)),
        notes=tuple(_notes(rated, drawn)),
    )


def queue(
    rows: Rows, *, rubric: str | None = None, where: Where | None = None
) -> tuple[Dispute, ...]:
    """Return the runs and steps on which families disagree, the most telling of each rubric first.

    Rubrics take turns, so that the first ten are not all of one.
    """
    each = [disputes(ratings(rated)) for rated in read(rows, where=where, rubric=rubric)]
    ordered = [
        (place, number, dispute)
        for number, found in enumerate(each)
        for place, dispute in enumerate(found)
    ]
    return tuple(dispute for *_, dispute in sorted(ordered, key=lambda entry: entry[:2]))


def _alone(names: tuple[str, ...]) -> Together:
    reason = f"one rater ({', '.join(names)}): agreement needs two"
    absent = Unmeasured("insufficient_data", reason)
    return Together(raters=names, of="all", n=0, figures=dict.fromkeys(NOMINAL, absent))


def _pairs(rated: Ratings, known: tuple[Curve, ...], drawing: Drawing) -> Iterator[Together]:
    for first, second in combinations(range(len(rated.voices)), 2):
        yield together(
            of_raters(rated, [first, second]),
            (rated.voices[first].name, rated.voices[second].name),
            "raters",
            drawing,
            weighted=weighted(rated, known, first, second),
        )


def _families(rated: Ratings, drawing: Drawing) -> Iterator[Together]:
    sizes: dict[str, int] = {}
    for voice in rated.voices:
        sizes[voice.family] = sizes.get(voice.family, 0) + 1
    for first, second in combinations(sizes, 2):
        # Of one pair of raters the pair itself says it.
        if sizes[first] * sizes[second] > 1:
            asked = of_families(rated, first, second)
            yield together(asked, (first, second), "families", drawing)


def _notes(rated: Ratings, drawn: Mapping[str, Drawn]) -> Iterator[str]:
    yield WHAT_ENTERS
    chances = {drawn[run].probability for run, _ in rated.items if run in drawn}
    if chances - {1.0}:
        alike = "alike" if len(chances) == 1 else "with different chances, each counted once"
        yield f"runs were drawn, {alike}, of {len(drawn):,}: figures are of those that were rated"
    if rated.scored:
        yield "scores are compared in four bands: 0 to .2, .3 to .5, .6 to .8, .9 to 1"
    judges = [v for v in rated.voices if v.family not in (HUMAN, IMPORTED, RULES)]
    for voice in judges:
        if len(voice.snapshots) > 1:
            told = ", ".join(voice.snapshots)
            yield f"{voice.name} answered as {len(voice.snapshots)} snapshots, taken as one: {told}"
        if len(voice.prompts) > 1:
            yield f"{voice.name} was asked under {len(voice.prompts)} prompts, taken as one"
    versions = sorted({voice.version for voice in judges})
    if len(versions) > 1:
        yield f"judges read different versions of the rubric: {', '.join(versions)}"
    for voice in rated.voices:
        if voice.left_out:
            told = ", ".join(f"{n:,} {why}" for why, n in voice.left_out.items())
            yield f"left out of {voice.name}: {told}"
