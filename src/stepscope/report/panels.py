"""What judges say of the chosen runs, in one value: panels, agreement, patterns, flags, costs.

Nothing is asked of a judge here, and nothing is decided about one: records are read and counted. A
store without a judge's record has no panels at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from stepscope.judges.models.configured import JudgesTable
from stepscope.judges.models.family import agent_family
from stepscope.judges.models.prices import Prices
from stepscope.measures.step_labels import NAME as STEP_LABELS
from stepscope.model import Verdict
from stepscope.report.keys import AXES
from stepscope.report.panels_agreement import agreed, disputed
from stepscope.report.panels_costs import costs
from stepscope.report.panels_flags import flags
from stepscope.report.panels_onset import onsets
from stepscope.report.panels_patterns import acted, counted
from stepscope.report.panels_shares import Bench, Drawn, Group, adjusted, claims, group
from stepscope.report.panels_trace import worked
from stepscope.report.panels_types import Answers, Flag, Panel, Panels, Pattern
from stepscope.report.panels_votes import Acted, aspects, word
from stepscope.report.rows import Table
from stepscope.store import Store
from stepscope.store.columns import Rows
from stepscope.store.judged import Judged, Sampled, judged
from stepscope.store.scores import MEASURE as SCORES
from stepscope.store.where import Where

# The order in which rubrics are told; those of users come behind.
SETS = ("axes", "quality", "step_labels", "behaviour", "attribution")
# Measures about other measures: of a rubric asked without context, of how windows fit, of what was
# looked up.
_BESIDE = (".isolated", ".seams", ".looks")


def panels(
    rows: Rows, table: Table, groups: Sequence[Group], *, where: Where | None = None, seed: int = 0
) -> Panels | None:
    """Return what judges say of the runs of a table; None where none was asked.

    Args:
        rows: where their records are.
        table: the runs, as a report reads them.
        groups: the report's groups of these runs.
        where: what chose the runs.
        seed: where random draws start.
    """
    found = judged(rows, table.runs, where)
    if not found:
        return None
    asked = [one for one in found if one.asked.measure != SCORES]
    asked = [one for one in asked if not one.asked.measure.endswith(_BESIDE)]
    steps = acted(rows, table, asked)
    all_ = sorted(aspects(table, asked, steps), key=lambda aspect: _place(aspect.rubric))
    ids = table.runs.id.tolist()
    benches = [
        Bench(
            aspect=aspect,
            clusters=table.clusters,
            drawn=Drawn.of(ids, drawn(rows, aspect.rubric)),
        )
        for aspect in all_
    ]
    seated = [_panel(bench, groups) for bench in benches]
    compared = adjusted([claims(bench, groups, seed) for bench in benches])
    whole = [replace(panel, claims=made) for panel, made in zip(seated, compared, strict=True)]
    measures = {one.asked.measure for one in asked}
    spoken = {aspect.rubric for aspect in all_}
    apart, n_disputed = disputed(rows, where)
    return Panels(
        panels=tuple(whole),
        answers=tuple(_answers(table, [o for o in asked if o.asked.measure not in spoken], groups)),
        patterns=tuple(_patterns(table, asked, groups, benches, steps)),
        onsets=tuple(onsets(table, asked, groups, benches)),
        agreement=tuple(agreed(rows, sorted(measures, key=_place), where=where, seed=seed)),
        queue=apart,
        n_disputed=n_disputed,
        trace=worked(rows, table, all_) if isinstance(rows, Store) else None,
        flags=(*flags(table, found, whole, family=agent_family), *_not_drawn(table, benches)),
        costs=costs(found, Prices(JudgesTable())),
        judges=tuple(sorted({one.asked.judge for one in found})),
    )


def _place(rubric: str) -> tuple[int, int, str]:
    """Return where a rubric stands: sets in their order, the axes in theirs, then by name."""
    axes, of = list(AXES), rubric.partition(".")[0]
    return (
        SETS.index(of) if of in SETS else len(SETS),
        axes.index(rubric) if rubric in AXES else 0,
        rubric,
    )


def drawn(rows: Rows, rubric: str) -> Mapping[str, float]:
    """Return with which probability runs were drawn for a rubric, or for its set, if they were."""
    if not isinstance(rows, Sampled):
        return {}
    return rows.drawn(rubric) or rows.drawn(rubric.partition(".")[0])


def _patterns(
    table: Table,
    judged: Sequence[Judged],
    groups: Sequence[Group],
    benches: Sequence[Bench],
    steps: Acted,
) -> Iterator[Pattern]:
    bench = next((one for one in benches if one.aspect.rubric == STEP_LABELS), None)
    if bench is not None:
        yield from counted(table, judged, groups, bench, steps)


def _panel(bench: Bench, groups: Sequence[Group]) -> Panel:
    return Panel(
        rubric=bench.aspect.rubric,
        failing=bench.aspect.failing,
        members=tuple(one.member for one in bench.aspect.votes),
        groups=tuple(group(bench, of) for of in groups),
        drawn=bench.drawn.probability is not None,
    )


def _not_drawn(table: Table, benches: Sequence[Bench]) -> Iterator[Flag]:
    """Yield how many judged runs no share speaks of, since they were not in the sample."""
    for bench in benches:
        asked = np.logical_or.reduce([one.asked for one in bench.aspect.votes])
        outside = table.runs.name[asked & ~bench.drawn.inside].tolist()
        if outside:
            said = f"{bench.aspect.rubric}: judged, but outside of the sample that was drawn"
            runs = tuple(outside[:5])
            yield Flag(kind="not_drawn", judge="", said=said, n=len(outside), runs=runs)


def _answers(table: Table, judged: Sequence[Judged], groups: Sequence[Group]) -> Iterator[Answers]:
    """Yield the answers to rubrics that have none against the agent, counted by group."""
    for one in judged:
        if not one.main:
            continue
        for of in groups:
            counts: Counter[str] = Counter()
            lost: Counter[str] = Counter()
            for at in of.places.tolist():
                record = one.runs[at].verdict if at in one.runs else None
                if record is None:
                    continue
                answer = record.answer
                if not isinstance(answer, Verdict):
                    lost[word(answer.reason, answer.kind)] += 1
                elif answer.label is not None:
                    counts[answer.label] += 1
            if counts or lost:
                yield Answers(
                    rubric=one.asked.measure,
                    judge=one.asked.judge,
                    group=of.title,
                    counts=dict(sorted(counts.items())),
                    lost=dict(sorted(lost.items())),
                )
