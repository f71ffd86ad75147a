"""Agreement of raters on every rubric: judges, rules, people, imported verdicts; and disputes.

Agreement says that raters read a rubric alike, not that they are right. What was refused or could
not be read is counted, and is no label. The queue lists the runs and steps on which families
disagree, the most telling first: such labels tune a rubric and are never a test of it, nor part of
any rate. Formulas and intervals: `stepscope.stats.interrater`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, product
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from stepscope.calibrate.figures import (
    DISPUTED,
    NOMINAL,
    THRESHOLD,
    calibration_curves,
    compare_proofs,
    confidence_weighted,
    decide_rubric,
    deciding_columns,
    group_agreement,
    rubric_changes,
)
from stepscope.calibrate.ratings import WHAT_ENTERS, RatingTable, read_ratings
from stepscope.calibrate.types import (
    Agreement,
    CalibrationCurve,
    Dispute,
    GroupAgreement,
    RubricAgreement,
)
from stepscope.errors import UsageError
from stepscope.model.records import HUMAN, IMPORTED, NOT_MODELS, UNCERTAIN
from stepscope.safety.text import visible_line
from stepscope.store import Store
from stepscope.store.columns import Rows
from stepscope.store.where import FIELDS, Where, parse_where
from stepscope.values import Unmeasured

# Answers that commit to nothing: a dispute in which one side has none is less telling.
OPEN = frozenset({UNCERTAIN, "not_applicable"})
COLUMNS = (
    "aspect", "run", "name", "step", "rater", "family", "label", "value", "confidence", "cites",
    "reason", "use",
)  # fmt: skip
# What a spreadsheet would take for a formula.
_FORMULA = ("=", "+", "-", "@")


def find_disputes(
    ratings: RatingTable, *, within: bool = False, most: int | None = None
) -> list[Dispute]:
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
        if within or _independent(ratings.voices[a].family, ratings.voices[b].family)
    ]
    open_ = [label in OPEN for label in ratings.labels]
    for place, row in enumerate(ratings.codes.tolist()):
        both = [(a, b) for a, b in pairs if row[a] >= 0 and row[b] >= 0]
        apart = [(a, b) for a, b in both if row[a] != row[b]]
        if apart:
            committed = any(not open_[row[a]] and not open_[row[b]] for a, b in apart)
            sure = float(np.mean([ranks[place, at] for at in {at for p in apart for at in p}]))
            # Labels have no distance.
            scores = ratings.values[place]
            far = max(abs(scores[a] - scores[b]) for a, b in apart) if ratings.scored else 0.0
            share = len(apart) / len(both)
            found.append((-float(committed), -share, -float(far), -sure, place))
    disputes = []
    for _, negated, *_, number in sorted(found)[:most]:
        run, step = ratings.items[int(number)]
        disputes.append(
            Dispute(
                aspect=ratings.aspect,
                run=run,
                name=ratings.names.get(run, ""),
                step=step,
                answers=ratings.answers((run, step)),
                apart=-negated,
            )
        )
    return disputes


def _independent(first: str, second: str) -> bool:
    """Whether raters of these families are not wrong together as a matter of course."""
    return first != second or first in (HUMAN, IMPORTED)


def _ranks(ratings: RatingTable) -> npt.NDArray[np.float64]:
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


def queue_csv(queue: Iterable[Dispute]) -> str:
    """Return the queue as CSV, one row an answer."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for dispute in queue:
        for answer in dispute.answers:
            writer.writerow([
                dispute.aspect, dispute.run, _escape_formula(dispute.name),
                "" if dispute.step is None else dispute.step,
                _escape_formula(answer.rater), answer.family, _escape_formula(answer.label),
                "" if answer.value is None else answer.value,
                "" if answer.confidence is None else answer.confidence,
                " ".join(map(str, answer.cites)), _escape_formula(answer.reason), dispute.use,
            ])  # fmt: skip
    return out.getvalue()


def _escape_formula(text: str) -> str:
    shown = visible_line(text)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown


TAG = "tag."


def measure_agreement(
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
    found = read_ratings(rows, where=where, rubric=rubric)
    decided = sum(len(deciding_columns(one)) > 1 for one in found)
    return Agreement(
        aspects=tuple(
            rubric_agreement(
                one,
                seed,
                threshold=threshold,
                at_once=max(decided, 1),
                drawn=rows.sampled(one.aspect) if isinstance(rows, Store) else {},
            )
            for one in found
        ),
        seed=seed,
        threshold=threshold,
    )


def measure_agreement_by(
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
        found = measure_agreement(rows, rubric=rubric, where=chosen, seed=seed, threshold=threshold)
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
        key = field.removeprefix(TAG)
        condition = parse_where(
            f"{(field if key == field else TAG + _literal(key))} = {_literal(value)}"
        )
        yield (
            (None if value is None else str(value)),
            condition if where is None else (where & condition),
        )


def _literal(value: object) -> str:
    if value is None:
        return "null"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def rubric_agreement(
    rated: RatingTable,  # its ratings
    seed: int,  # where random draws start
    *,
    threshold: float,  # kappa below which it is to be sharpened
    at_once: int = 1,  # how many rubrics are decided together
    # probability of each run that could have been drawn for the rubric; empty: all were judged
    drawn: Mapping[str, float] = MappingProxyType({}),
) -> RubricAgreement:
    """Return the agreement on one rubric."""
    known = calibration_curves(rated)
    decision, decided_on = decide_rubric(rated, seed, threshold=threshold, at_once=at_once)
    every = rated.readers
    names = tuple(rated.voices[at].name for at in every)
    reason = f"one rater ({', '.join(names)}): agreement needs two"
    alone = dict.fromkeys(NOMINAL, Unmeasured("insufficient_data", reason))
    return RubricAgreement(
        name=rated.aspect,
        unit=rated.unit,
        items=len(rated.items),
        runs=len({run for run, _ in rated.items}),
        labels=rated.labels,
        raters=rated.raters(),
        together=GroupAgreement(raters=names, of="all", n=0, figures=dict(alone))
        if len(every) < 2
        else group_agreement(rated, [every], names, "all", seed),
        pairs=tuple(_pairs(rated, known, seed)),
        families=tuple(_families(rated, seed)),
        proofs=tuple(compare_proofs(rated)),
        decision=decision,
        decided_on=decided_on,
        disputed=tuple(find_disputes(rated, within=True, most=DISPUTED)),
        curves=known,
        changes=tuple(rubric_changes(rated)),
        notes=tuple(_notes(rated, drawn)),
    )


def labelling_queue(
    rows: Rows, *, rubric: str | None = None, where: Where | None = None
) -> tuple[Dispute, ...]:
    """Return the runs and steps on which families disagree, the most telling of each rubric first.

    Rubrics take turns, so that the first ten are not all of one.
    """
    each = [find_disputes(rated) for rated in read_ratings(rows, where=where, rubric=rubric)]
    ordered = [
        (place, number, dispute)
        for number, found in enumerate(each)
        for place, dispute in enumerate(found)
    ]
    return tuple(dispute for *_, dispute in sorted(ordered, key=lambda entry: entry[:2]))


def _pairs(
    rated: RatingTable, known: tuple[CalibrationCurve, ...], seed: int
) -> Iterator[GroupAgreement]:
    for first, second in combinations(rated.readers, 2):
        yield group_agreement(
            rated,
            [[first, second]],
            (rated.voices[first].name, rated.voices[second].name),
            "raters",
            seed,
            weighted=confidence_weighted(rated, known, first, second),
        )


def _families(rated: RatingTable, seed: int) -> Iterator[GroupAgreement]:
    columns: dict[str, list[int]] = {}
    for at in rated.readers:
        columns.setdefault(rated.voices[at].family, []).append(at)
    for first, second in combinations(columns, 2):
        pairs = list(product(columns[first], columns[second]))
        # Of one pair of raters the pair itself says it.
        if len(pairs) > 1:
            yield group_agreement(rated, pairs, (first, second), "families", seed)


def _notes(rated: RatingTable, drawn: Mapping[str, float]) -> Iterator[str]:
    yield WHAT_ENTERS
    chances = {drawn[run] for run, _ in rated.items if run in drawn}
    if chances - {1.0}:
        alike = "alike" if len(chances) == 1 else "with different chances, each counted once"
        yield f"runs were drawn, {alike}, of {len(drawn):,}: figures are of those that were rated"
    if rated.scored:
        yield "scores are compared in four bands: 0 to .2, .3 to .5, .6 to .8, .9 to 1"
    judges = [v for v in rated.voices if v.family not in NOT_MODELS]
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
