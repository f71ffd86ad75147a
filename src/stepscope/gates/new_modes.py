"""The gate `no_new_modes`: it fails where a failure mode that the baseline lacks is too frequent.

The signatures of a run are one cell, so that a baseline keeps them. Modes are formed of the runs of
the baseline and of those under test together, without a look at which is which; then the runs that
have one are held against every way to hand out the runs of each case to the two sides. So are the
runs of each signature of a mode: what is new may stand beside what is known. Holm runs over all of
them whose p could be small, known or new: which of them the baseline lacks is itself chance. A lost
run may have any signature: where lost runs could make a new mode, nothing passes.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from math import ceil, comb, log, prod
from typing import NamedTuple

import numpy as np

from stepscope import stats
from stepscope.findings import modes
from stepscope.gates.rates import GateTest, Spending, say_losses
from stepscope.gates.sample import ABSENT, Absent, Sample
from stepscope.gates.settings import MODES
from stepscope.gates.types import GateAnswer, answer_undecided
from stepscope.model.records import NOT_APPLICABLE
from stepscope.safety.text import visible_line
from stepscope.store.columns import ANSWERED, Signs
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
    step, state = np.full(len(pairs), -1), np.full(len(cells), ANSWERED, np.int8)
    return Signs(texts=tuple(codes), number=number, at=at, step=step, state=state)


def merge_baseline(sample: Sample) -> tuple[tuple[str, ...], ...]:
    """Return the signatures of a baseline that stand in the same runs, a group a mode."""
    cells = [cell if isinstance(cell, str) else "" for cell in sample.cells.get(MODES, ())]
    names, _ = modes.form_modes(sign_cells(cells), stats.codes([x.case for x in sample.runs]))
    return tuple(group for group in names if len(group) > 1)


def find_new_modes(now: Sample, before: Sample) -> tuple[list[NewMode], int]:
    """Return the modes that the baseline lacks, and how many were tested, known ones among them.

    A signature that it lacks is one of them where the others of its mode are known.
    """
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
    texts, alone = modes.choose_signatures(signs, tasks)
    names, together = modes.merge_signatures(texts, alone)
    # The same runs are tested once, under the name of the whole mode.
    has, first = np.unique(np.concatenate([together, alone]), axis=0, return_index=True)
    listed = [*names, *((text,) for text in texts)]
    every = np.ones(len(found), np.bool_)
    contrasts = list(modes.contrast_modes(has, tasks, every, places >= 0))
    adjusted = modes.adjust_modes(contrasts)
    new = [
        (listed[at], NewMode(p, listed[at][0], tuple(places[has_it].tolist())))
        for at, has_it, one, p in zip(first.tolist(), has, contrasts, adjusted, strict=True)
        if p is not None and one.failed == one.runs
    ]
    # What is part of a new mode is no second one.
    parts = {text for of, _ in new if len(of) > 1 for text in of}
    kept = sorted(mode for of, mode in new if len(of) > 1 or of[0] not in parts)
    return kept, sum(one.p is not None for one in contrasts)


# Runs of a case: measured of the baseline, measured under test, and lost under test.
Counts = tuple[int, int, int]


def build_modes_test(now: Sample, before: Sample) -> GateTest | GateAnswer:
    """Return the question whether a mode that the baseline lacks is more frequent than chance."""
    known, marked = set[str](), {"": Counter[str]()}
    runs, kinds = Counter[tuple[str, int]](), (Counter[str](), Counter[str]())
    for at, side in enumerate((before, now)):
        for run, cell in zip(side.runs, side.cells[MODES], strict=True):
            signatures = set(filter(None, cell.split("\n"))) if isinstance(cell, str) else set()
            if isinstance(cell, str):
                runs[run.case, at] += 1
            elif isinstance(cell, Absent) and cell.unmeasured != NOT_APPLICABLE:
                runs[run.case, at + 2] += 1
                kinds[at][cell.unmeasured] += 1
            if side is before:
                known |= signatures
            for text in signatures - known:
                marked.setdefault(text, Counter())[run.case] += 1
    counts = {case: (runs[case, 0], runs[case, 1], runs[case, 3]) for case in before.cases}
    shared = {case: of for case, of in counts.items() if of[0] and of[1] + of[2]}
    before_said, now_said = (say_losses(dict(sorted(one.items()))) for one in kinds)
    if not any(new for _, new, _ in shared.values()):
        said = "no case of the baseline was measured in these runs"
        if not {*kinds[0], *kinds[1]} - {ABSENT}:
            return answer_undecided("no_shared_cases", said)
        of_both = f"of the baseline {before_said or 'none'}, under test {now_said or 'none'}"
        return answer_undecided("not_measured", f"{said}; unmeasured {of_both}")
    found, tested = find_new_modes(now, before)
    p = min((mode.p for mode in found), default=1.0)
    # A lost run may have a signature that the baseline lacks, or one that no measured run has.
    least = [
        prod(
            comb(new + lost, lost + of[case]) / comb(old + new + lost, lost + of[case])
            for case, (old, new, lost) in shared.items()
        )
        for of in (marked.values() if now_said else ())
    ]
    worst = min(least, default=1.0), now_said
    return GateTest(p, partial(_answer, found, tested, tuple(shared.values()), worst))


def _answer(
    found: list[NewMode],
    tested: int,
    cases: tuple[Counts, ...],
    worst: tuple[float, str],
    at: Spending,
) -> GateAnswer:
    """Fail where a new mode is no chance; pass where one could be seen.

    `cases` are those that both have. `worst` is the least p that lost runs could give a new mode,
    and their kinds in words.
    """
    before, now = sum(old for old, _, _ in cases), sum(new for _, new, _ in cases)
    if at.p <= at.alpha:
        first = found[0]
        said = f"{format_count(len(first.places), 'run')} of {now:,}, none of {before:,} before"
        return GateAnswer("fail", f"new: {visible_line(first.name)}: {said}, p {at.p:.2g}")
    said = f"{format_count(len(found), 'mode')} of {tested:,} not in the baseline"
    said += f", the least likely by chance p {at.p:.2g}" if found else ""
    level = at.alone / (tested + 1)
    if prod(1 / comb(old + new, new) for old, new, _ in cases) > level:
        why = "even a mode of every run could not be shown to be new in these cases"
        return answer_undecided("too_few_cases", f"{said}; {why}")
    least, kinds = worst
    # They may have a mode that is tested already.
    if least <= at.alone / max(tested, 1):
        runs = sum(lost for _, _, lost in cases)
        said = f"{said}; {runs:,} lost runs could have a new one: {kinds}"
        return answer_undecided("not_measured", said)
    share = sum(new / (old + new) for old, new, _ in cases) / len(cases)
    seen = ceil(log(level) / log(share))
    return GateAnswer(
        "pass", f"{said}; a new mode in {format_count(seen, 'run')} would be detected"
    )


def list_new_cases(now: Sample, before: Sample) -> list[tuple[float, list[int], str]]:
    """Return the cases with runs of new modes that are no chance: how many, their places, which."""
    cases: dict[str, tuple[set[int], set[str]]] = {}
    for mode in find_new_modes(now, before)[0]:
        for place in mode.places if mode.p <= modes.ALPHA else ():
            places, names = cases.setdefault(now.runs[place].case, (set(), set()))
            places.add(place)
            names.add(mode.name)
    return [(float(len(x)), sorted(x), f"new: {'; '.join(sorted(y))}") for x, y in cases.values()]
