"""How often whip, detour, cascade and healthy recovery show in a group's runs, by judge.

What a pattern is says `judges.patterns`; here runs are counted. Of whom the steps are, rules have
said (`step_labels.steps`); a run that they have not seen is opened for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from stepscope.errors import StoreError
from stepscope.judges.patterns import ADVICE, NAMES, Found, PatternName, patterns
from stepscope.measures.step_labels import NAME as STEP_LABELS
from stepscope.model import Trajectory
from stepscope.report.panels_shares import Bench, Group
from stepscope.report.panels_types import Pattern
from stepscope.report.panels_votes import Acted, Flags
from stepscope.report.rows import Table
from stepscope.store import Store
from stepscope.store.columns import Rows
from stepscope.store.judged import Judged
from stepscope.values import Unmeasured

# Runs that a pattern names.
NAMED = 5
_PASSED = {"pass": True, "fail": False}


def acted(rows: Rows, table: Table, judged: Sequence[Judged]) -> Acted:
    """Return the agent's steps of each run that has labels of steps, None of the others."""
    labelled = {at for one in judged if one.asked.measure == STEP_LABELS for at in one.runs}
    if not labelled:
        return [None] * len(table)
    told = rows.cited(f"{STEP_LABELS}.steps", table.runs)
    found: list[frozenset[int] | None] = []
    for at, steps in enumerate(told):
        if at not in labelled:
            found.append(None)
        elif steps is not None:
            found.append(frozenset(steps))
        else:
            found.append(_opened(rows, str(table.runs.id[at])))
    return found


def _opened(rows: Rows, run: str) -> frozenset[int] | None:
    if not isinstance(rows, Store):
        return None
    try:
        return of_agent(rows.trajectory(run))
    except StoreError:
        return None  # its texts were purged


def of_agent(trajectory: Trajectory) -> frozenset[int]:
    """Return the agent's steps of a run."""
    return frozenset([step.index for step in trajectory.steps if step.actor == "agent"])


def counted(
    table: Table, judged: Sequence[Judged], groups: Sequence[Group], bench: Bench, steps: Acted
) -> Iterator[Pattern]:
    """Yield each pattern, by judge and group; `bench` says how the runs were drawn."""
    for one in judged:
        if one.asked.measure != STEP_LABELS or not one.main:
            continue
        of_run = {at: found for at in one.runs if (found := _of(table, one, at, steps)) is not None}
        for of in groups:
            chosen = np.zeros(len(table), np.bool_)
            chosen[of.places] = True
            for name in NAMES:
                yield _pattern(
                    table, {at: f for at, f in of_run.items() if chosen[at]}, name, of, bench,
                    judge=one.asked.judge,
                )  # fmt: skip


def _of(table: Table, one: Judged, at: int, steps: Acted) -> Found | None:
    within = steps[at]
    if within is None:
        return None
    told = one.runs[at].steps.get(0, {})
    # A step that nobody says anything of can hide a pattern, like one that could not be read.
    untold = [Unmeasured("missing_input", "no label", STEP_LABELS, s) for s in within - told.keys()]
    answers = [*(record.answer for record in told.values()), *untold]
    return patterns(answers, within, passed=_PASSED.get(str(table.runs.outcome[at])))


def _pattern(
    table: Table,
    of_run: dict[int, Found],
    name: PatternName,
    of: Group,
    bench: Bench,
    *,
    judge: str,
) -> Pattern:
    shows, told = (np.zeros(len(table), np.bool_) for _ in range(2))
    why: dict[str, Flags] = {}
    for at, found in of_run.items():
        seen = found[name]
        if isinstance(seen, tuple):
            told[at], shows[at] = True, bool(seen)
        else:
            why.setdefault(seen.kind, np.zeros(len(table), np.bool_))[at] = True
    names = [str(table.runs.name[at]) for at in np.flatnonzero(shows).tolist()]
    return Pattern(
        name=name,
        judge=judge,
        group=of.title,
        share=bench.share(shows, told, why),
        n=len(names),
        runs=tuple(names[:NAMED]),
        advice=ADVICE[name],
    )
