"""Rank flips of a report: groups that outcome and a figure of the path order differently.

Every figure of the path is asked: sub-goals, redundant calls, recovery, policy, and each axis, as
the rules prove faults and as judges find them. Runs that were drawn with different chances are not
compared by their judges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from zlib import crc32

import numpy as np

from stepscope import stats
from stepscope.model.records import RULES
from stepscope.report.rows import RunTable, read_values
from stepscope.report.types import Profile
from stepscope.report.votes import INCOMPLETE, PanelAspect, find_complete, read_aspects
from stepscope.report.words import AXES, COMPARED, JUDGED, RATES
from stepscope.stats import FigureRuns
from stepscope.stats.sample import Bools
from stepscope.store.columns import Rows
from stepscope.store.judged import JudgeAnswers
from stepscope.values import RankFlips, Unmeasured

MORE_IS_BETTER = ("subgoals.reached", "errors.recovered")
FEWER_IS_BETTER = (
    *("redundant_calls.per_run", "policy.violations", *AXES),
    *(JUDGED + key for key in AXES),
)
# Pairs grow with the square; more groups than this are no ranking that anyone reads.
MOST_GROUPS = 20


def find_rank_flips(
    rows: Rows,  # where the runs are
    table: RunTable,  # the runs, as a report reads them
    groups: Sequence[Profile],  # the groups of these runs that are ordered
    judged: Sequence[JudgeAnswers],  # what judges answered about the runs
    seed: int,  # where random draws start
) -> RankFlips | Unmeasured:
    """Return the pairs of groups that outcome and a path figure order differently.

    Unmeasured with too many groups, or when no two groups share tasks with both.
    """
    if len(groups) > MOST_GROUPS:
        said = f"{len(groups)} groups; pairs of 2 to {MOST_GROUPS} are compared"
        return Unmeasured("not_applicable", said)
    chosen = [table.matches(group.group) for group in groups]
    parts = [table.take(one) for one in chosen]
    by_rules = [key for key in (*MORE_IS_BETTER, *FEWER_IS_BETTER) if key in COMPARED]
    figures = {
        key: [_read_runs(part, COMPARED[key]) for part in parts]
        for key in by_rules
        if key not in AXES or table.scored(key)
    }
    axes = [one for one in judged if one.asked.measure in AXES]
    for aspect in read_aspects(rows, table, axes, ()):
        if aspect.even:
            figures[JUDGED + aspect.rubric] = list(_read_judged(aspect, chosen))
    return stats.rank_flips(
        [group.title for group in groups],
        [_read_runs(part, "outcome") for part in parts],
        figures,
        fewer_is_better=FEWER_IS_BETTER,
        units=RATES,
        rng=np.random.default_rng([seed, crc32(b"rank_flips")]),
    )


def _read_runs(part: RunTable, measure: str) -> FigureRuns:
    """Return the answers of one measure in a group."""
    values, valued = read_values(part, measure)
    return FigureRuns(
        values=values[valued], cases=part.clusters[valued], unmeasured=part.lost(measure)
    )


def _read_judged(aspect: PanelAspect, groups: Sequence[Bools]) -> Iterator[FigureRuns]:
    """Yield in which runs of each group any judge found the fault, of those that all answered."""
    answered, asked = find_complete(aspect.votes)
    models = [one.failing for one in aspect.votes if one.member.family != RULES]
    failing = np.logical_or.reduce(models).astype(np.float64)
    for group in groups:
        inside = group & aspect.inside
        kept = inside & answered
        lost = {INCOMPLETE: int((inside & asked & ~answered).sum())}
        yield FigureRuns(values=failing[kept], cases=aspect.table.clusters[kept], unmeasured=lost)
