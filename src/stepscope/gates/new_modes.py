"""The gate `no_new_modes`: it fails where a failure mode that the baseline lacks is too frequent.

The signatures of a run are one cell, so that a baseline keeps them. Modes are formed of the runs of
the baseline and of those under test together, without a look at which is which; then the runs that
have one are held against every way to hand out the runs of each case to the two sides. Holm runs
over all modes whose p could be small, known or new: which of them the baseline lacks is itself
chance. A lost run may have any mode: where lost runs alone would make a new one, nothing passes.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from math import ceil, comb, log, prod
from typing import NamedTuple

import numpy as np

from stepscope import stats
from stepscope.findings import modes
from stepscope.gates.rates import GateTest
from stepscope.gates.sample import Sample
from stepscope.gates.settings import MODES
from stepscope.gates.types import GateAnswer, answer_undecided
from stepscope.safety.text import visible_line
from stepscope.store.columns import Signs
from stepscope.values import format_count


class NewMode(NamedTuple):
    """A mode that runs under test have and the baseline lacks."""

    p: float  # after Holm over all modes of both
    name: str
    places: tuple[int, ...]  # of its runs in the sample under test


def sign_cells(cells: list[str], merged: tuple[tuple[str, ...], ...] = ()) -> Signs:
    """Return the signatures of runs from their cells; `merged` ones have the name of the first."""
    first = {text: group[0] for group in merged for text in group}
    codes: dict[str, int] = {}
    pairs = [
        (codes.setdefault(first.get(text, text), len(codes)), at)
        for at, cell in enumerate(cells)
        for text in filter(None, cell.split("\n"))
    ]
    number, at = np.array(pairs, np.int64).reshape(-1, 2).T
    return Signs(texts=tuple(codes), number=number, at=at, step=np.full(len(pairs), -1))


def merge_baseline(sample: Sample) -> tuple[tuple[str, ...], ...]:
    """Return the signatures of a baseline that stand in the same runs, a group a mode."""
    cells = [cell if isinstance(cell, str) else "" for cell in sample.cells.get(MODES, ())]
    names, _ = modes.form_modes(sign_cells(cells), stats.codes([x.case for x in sample.runs]))
    return tuple(group for group in names if len(group) > 1)


def find_new_modes(now: Sample, before: Sample) -> tuple[list[NewMode], int]:
    """Return the modes that the baseline lacks, and how many were tested, known ones among them."""
    cases = {case: at for at, case in enumerate(before.cases)}
    found = [
        (cell, cases[run.case], place if side is now else -1)
        for side in (before, now)
        for place, (run, cell) in enumerate(zip(side.runs, side.cells[MODES], strict=True))
        if run.case in cases and isinstance(cell, str)
    ]
    tasks = np.array([task for _, task, _ in found], np.int64)
    places = np.array([place for _, _, place in found], np.int64)
    signs = sign_cells([cell for cell, _, _ in found], before.merged)
    names, has = modes.form_modes(signs, tasks)
    every = np.ones(len(found), np.bool_)
    contrasts = list(modes.contrast_modes(has, tasks, every, places >= 0))
    adjusted = modes.adjust_modes(contrasts)
    new = [
        NewMode(p, of[0], tuple(places[has_it].tolist()))
        for of, has_it, one, p in zip(names, has, contrasts, adjusted, strict=True)
        if p is not None and one.failed == one.runs
    ]
    return sorted(new), sum(one.p is not None for one in contrasts)


def build_modes_test(now: Sample, before: Sample) -> GateTest | GateAnswer:
    """Return the question whether a mode that the baseline lacks is more frequent than chance."""
    runs = Counter(
        (run.case, side is now, isinstance(cell, str))
        for side in (before, now)
        for run, cell in zip(side.runs, side.cells[MODES], strict=True)
    )
    cases = [
        (runs[case, False, True], runs[case, True, True], runs[case, True, False])
        for case in before.cases
    ]
    shared = [counts for counts in cases if counts[0] and counts[1] + counts[2]]
    if not any(new for _, new, _ in shared):
        said = "no case of the baseline was measured in these runs"
        return answer_undecided("no_shared_cases", said)
    found, tested = find_new_modes(now, before)
    p = min((mode.p for mode in found), default=1.0)
    return GateTest(p, partial(_answer, found, tested, shared))


def _answer(
    found: list[NewMode], tested: int, cases: list[tuple[int, int, int]],
    p_adjusted: float, alpha: float, alone: float,
) -> GateAnswer:  # fmt: skip
    """Fail where a new mode is no chance; pass where one could be seen.

    `cases` are runs of the baseline, under test, and lost under test, of each case that both have.
    """
    before, now = sum(old for old, _, _ in cases), sum(new for _, new, _ in cases)
    if p_adjusted <= alpha:
        worst = found[0]
        said = f"{format_count(len(worst.places), 'run')} of {now:,}, none of {before:,} before"
        return GateAnswer("fail", f"new: {visible_line(worst.name)}: {said}, p {p_adjusted:.2g}")
    said = f"{format_count(len(found), 'mode')} of {tested:,} not in the baseline"
    said += f", the least likely by chance p {p_adjusted:.2g}" if found else ""
    level = alone / (tested + 1)
    if prod(1 / comb(old + new, new) for old, new, _ in cases) > level:
        why = "even a mode of every run could not be shown to be new in these cases"
        return answer_undecided("too_few_cases", f"{said}; {why}")
    if prod(comb(n + x, x) / comb(old + n + x, x) for old, n, x in cases if x) <= level:
        lost = sum(lost for _, _, lost in cases)
        return answer_undecided("not_measured", f"{said}; {lost:,} lost runs could have a new one")
    share = sum(new / (old + new) for old, new, _ in cases) / len(cases)
    seen = ceil(log(level) / log(share))
    return GateAnswer("pass", f"{said}; one in {format_count(seen, 'case')} would be seen")


def list_new_cases(now: Sample, before: Sample) -> list[tuple[float, list[int], str]]:
    """Return the cases with runs of new modes that are no chance: how many, their places, which."""
    cases: dict[str, tuple[set[int], set[str]]] = {}
    for mode in find_new_modes(now, before)[0]:
        for place in mode.places if mode.p <= modes.ALPHA else ():
            places, names = cases.setdefault(now.runs[place].case, (set(), set()))
            places.add(place)
            names.add(mode.name)
    return [(float(len(x)), sorted(x), f"new: {'; '.join(sorted(y))}") for x, y in cases.values()]
