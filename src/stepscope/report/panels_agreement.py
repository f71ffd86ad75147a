"""How far the judges of a report agree, and the runs on which their families do not.

Computed by `calibrate.agreement`; here it is put into the report's words, and what was rated by
nobody but files of scores is left to the command `agree`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stepscope.calibrate.agreement import agreement, queue
from stepscope.calibrate.agreement_types import Aspect, Dispute, Together
from stepscope.report.panels_types import Agreed, Disputed
from stepscope.store.columns import Rows
from stepscope.store.scores import MEASURE as SCORES
from stepscope.store.where import Where
from stepscope.values import Unmeasured

# Disputed runs and steps that a report holds.
QUEUE = 5
_NO_CITES = Unmeasured("not_applicable", "no step is cited")


def agreed(
    rows: Rows, rubrics: Iterable[str], *, where: Where | None, seed: int
) -> Iterator[Agreed]:
    """Yield how far each pair of judges agrees on each rubric."""
    for rubric in dict.fromkeys(rubrics):
        for aspect in agreement(rows, rubric=rubric, where=where, seed=seed).aspects:
            if aspect.name == rubric:
                yield from (_pair(aspect, pair) for pair in aspect.pairs if pair.n)


def _pair(aspect: Aspect, pair: Together) -> Agreed:
    family = {rater.name: rater.family for rater in aspect.raters}
    return Agreed(
        rubric=aspect.name,
        unit=aspect.unit,
        judges=pair.raters,
        families=tuple(family[name] for name in pair.raters),
        raw=pair["raw"],
        kappa=pair["kappa"],
        ac1=pair["gwet"],
        cites=pair.figures.get("jaccard", _NO_CITES),
        sentence=pair.sentence,
    )


def disputed(rows: Rows, where: Where | None) -> tuple[tuple[Disputed, ...], int]:
    """Return the most telling disputes, and how many there are."""
    all_ = [one for one in queue(rows, where=where) if one.aspect != SCORES]
    return tuple(_disputed(one) for one in all_[:QUEUE]), len(all_)


def _disputed(one: Dispute) -> Disputed:
    return Disputed(
        id=one.run,
        name=one.name,
        rubric=one.aspect,
        step=one.step,
        answers={answer.rater: answer.label for answer in one.answers},
        steps=tuple(sorted({step for answer in one.answers for step in answer.cites})),
    )
