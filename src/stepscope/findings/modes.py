"""Failure modes: signatures that several runs share, and whether runs with them fail more often.

Modes are formed of all runs without a look at outcomes: signatures of 3 runs of 2 tasks or more;
signatures that stand in the same runs are one mode. Then the failures among a mode's runs are held
against every way to hand out the outcomes of each task to its trials (`null_of_failures`): what
only marks hard tasks has no more of them than that. Holm runs over all modes whose p could be small
at all, which the numbers of each task tell, whatever the outcomes were (Tarone 1990, Biometrics
46). Since nothing is chosen by outcomes, no half of the tasks is held back. A signature that says
what the outcome is judged by (the expected call was not made) has more failures by definition: such
modes are counted, never tested. Refused: a p value for them, and for modes of which no task has
trials with and without it and both outcomes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from stepscope import stats
from stepscope.model.records import STEP_LABELS_NAME
from stepscope.model.signatures import reads_outcome, signature_code
from stepscope.stats.permutation import null_of_failures
from stepscope.stats.sample import Bools, Floats, Ints
from stepscope.store.columns import Rows, Runs, Signs
from stepscope.store.judged import judge_version_order
from stepscope.values import Estimate, Unmeasured

FEWEST_RUNS, FEWEST_TASKS = 3, 2
# The commonest signatures are looked at; what is rarer than so many others says little of a fleet.
MOST_SIGNATURES = 200
# Two signatures are one mode where the rarer one hardly stands without the other, and the commoner
# one in at least half of its runs with it.
WITHIN, TOGETHER = 0.8, 0.5
ALPHA = 0.05
# A failed run is counted under a mode whose failures chance would bring in 1 of 5 fleets at most.
PLAUSIBLE = 0.2
# One-sided: runs with the mode fail more often than runs of all tasks do.
HARDER = 1.645
# Modes that are listed, and of these at most those that say what the outcome is judged by.
LISTED, JUDGED_BY = 25, 10
EXAMPLES, VERSIONS, PARTS = 3, 6, 5

ModeVerdict = Literal[
    "marks_failure",  # runs with it fail more often than other trials of their tasks
    "unclear",  # more failures than expected, and chance may bring as many
    "judged_by",  # it says what the outcome is judged by: not tested
    "not_tested",  # no task has trials with and without it, and both outcomes
    "hard_tasks",  # its runs fail often, and other trials of the same tasks as often
    "harmless",  # its runs fail no more often than others
]
_ORDER: tuple[ModeVerdict, ...] = (
    "marks_failure", "unclear", "hard_tasks", "not_tested", "judged_by", "harmless",
)  # fmt: skip


class ModeExample(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has a mode, and where it begins there."""

    id: str
    name: str
    step: int | None  # None where it is of no one step


class FailureMode(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong in several runs, in one sentence, with what is known of it."""

    name: str  # the sentence: the commonest of its signatures
    code: str  # six hex digits that stand for it: `--where "mode = 'CODE'"`
    signatures: tuple[str, ...]  # all of them; `--where "mode = '...'"` takes each
    verdict: ModeVerdict
    runs: int  # runs that have it, whatever their outcome
    tasks: int  # their tasks
    failed: int  # of these runs, those that failed
    assigned: int  # failed runs that are counted under this mode and no other
    # failures that as many runs of the same tasks have on average, outcomes permuted within tasks
    expected: float
    p: float | None = None  # chance of so many failures if it has nothing to do with them
    p_adjusted: float | None = None  # the same after Holm over the modes that were tested
    # modes with a p as small that permuted outcomes would show, of those that were tested
    by_chance: float | None = None
    # what a fix is worth at most: the share of all runs that failed with it
    worth: Estimate | Unmeasured
    # runs by the fifth of the run in which it begins; none where it is of no one step
    begins: tuple[int, ...]
    # share of the runs of each version of the agent that have it, the last versions
    versions: dict[str, Estimate | Unmeasured]
    examples: tuple[ModeExample, ...]  # of several tasks where it has them, failed runs first


class FailureModes(msgspec.Struct, frozen=True, kw_only=True, tag="failure_modes"):
    """The failure modes of a fleet, with what was looked at and what was left out."""

    modes: tuple[FailureMode, ...]  # those that mark failure first, at most 25
    n_modes: int  # how many there are, listed or not
    n_tested: int  # of these, those whose failures were held against chance
    n_shown: int  # of these, those that mark failure at .05 after Holm
    n_small: int  # tested modes with p <= .05 before Holm
    small_by_chance: float  # how many of these permuted outcomes would show
    n_signatures: int  # different signatures in these runs
    n_lone: int  # of these, those in too few runs or tasks to be a mode
    n_failed: int  # runs that failed
    n_judged_by: int  # of these, runs counted only under what the outcome is judged by
    # share of the failed runs that are counted under no mode
    unassigned: Estimate | Unmeasured


NO_SIGNS = Unmeasured("missing_input", "no answers of rules; stepscope score makes them")


class Contrast(NamedTuple):
    """Failures among the runs of a mode, beside those of other trials of the same tasks."""

    runs: int  # with a known outcome
    failed: int
    expected: float  # failures, were outcomes handed out anew within tasks
    # chance of at least so many failures as each number that there can be, the fewest first; empty
    # where nothing is tested
    tails: Floats
    p: float | None  # chance of at least as many as there are; None where nothing is tested

    def chance_of(self, p: float) -> float:
        """Return the chance that outcomes handed out anew give a p as small."""
        rising = self.tails[::-1]
        small = int(np.searchsorted(rising, p * (1 + 1e-9), side="right"))
        return float(rising[small - 1]) if small else 0.0


def find_modes(rows: Rows, runs: Runs, tasks: Ints) -> FailureModes | Unmeasured:
    """Return the failure modes of runs; `tasks`, shape (runs,), numbers the task of each."""
    signs = sort_signs(rows.signs(runs))
    if not len(signs.at) and STEP_LABELS_NAME not in rows.measures():
        return NO_SIGNS
    members = merge_signatures(signs, choose_signatures(signs, tasks))
    names = [tuple([signs.texts[one] for one in of]) for of in members]
    modes = join_signatures(signs, members)
    outcome = runs.outcome.tolist()
    failed = np.array([one == "fail" for one in outcome], np.bool_)
    known = failed | np.array([one == "pass" for one in outcome], np.bool_)
    contrasts = list(contrast_modes(modes, names, tasks, known, failed))
    adjusted = adjust_modes(contrasts)
    share = float(failed.sum() / max(int(known.sum()), 1))
    verdicts = [
        judge_mode(of[0], contrast, p, share)
        for of, contrast, p in zip(names, contrasts, adjusted, strict=True)
    ]
    of_run = assign_runs(modes, names, contrasts, failed)
    counted = np.bincount(of_run[of_run >= 0], minlength=len(names)).tolist()
    tested = [contrast for contrast in contrasts if contrast.p is not None]
    versions = _list_versions(runs)
    order = sorted(
        range(len(names)),
        key=lambda k: (_ORDER.index(verdicts[k]), contrasts[k].p or 0.0, -contrasts[k].failed, k),
    )
    apart = [mode for mode in order if verdicts[mode] == "judged_by"][JUDGED_BY:]
    order = [mode for mode in order if mode not in apart]
    listed = []
    for mode in order[:LISTED]:
        contrast = contrasts[mode]
        at, step = select_signs(modes, mode)
        has = np.zeros(len(runs), np.bool_)
        has[at] = True
        listed.append(
            FailureMode(
                name=names[mode][0],
                code=signature_code(names[mode][0]),
                signatures=names[mode],
                verdict=verdicts[mode],
                runs=len(at),
                tasks=len(np.unique(tasks[at])),
                failed=contrast.failed,
                assigned=counted[mode],
                expected=contrast.expected,
                p=contrast.p,
                p_adjusted=adjusted[mode],
                by_chance=None
                if contrast.p is None
                else sum(one.chance_of(contrast.p) for one in tested),
                worth=stats.proportion((has & failed)[known], tasks[known]),
                begins=_count_begins(step, runs.steps[at]),
                versions={v: stats.proportion(has[of], tasks[of]) for v, of in versions.items()},
                examples=_choose_examples(at, step, runs, tasks, failed),
            )
        )
    return FailureModes(
        modes=tuple(listed),
        n_modes=len(names),
        n_tested=len(tested),
        n_shown=verdicts.count("marks_failure"),
        n_small=sum(one.p <= ALPHA for one in tested if one.p is not None),
        small_by_chance=sum(one.chance_of(ALPHA) for one in tested),
        n_signatures=len(signs.texts),
        n_lone=len(signs.texts) - sum(map(len, members)),
        n_failed=int(failed.sum()),
        n_judged_by=sum(n for n, of in zip(counted, names, strict=True) if reads_outcome(of[0])),
        unassigned=stats.proportion(of_run[failed] < 0, tasks[failed]),
    )


def sort_signs(signs: Signs) -> Signs:
    """Return each signature of a run once, with its first step, by signature and run."""
    late = np.where(signs.step < 0, np.iinfo(np.int64).max, signs.step)
    order = np.lexsort((late, signs.at, signs.number))
    number, at = signs.number[order], signs.at[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (number[1:] != number[:-1]) | (at[1:] != at[:-1])
    return replace(signs, number=number[first], at=at[first], step=signs.step[order][first])


def _renumber(signs: Signs, numbers: Ints) -> Signs:
    number = numbers[signs.number]
    kept = number >= 0
    return replace(signs, number=number[kept], at=signs.at[kept], step=signs.step[kept])


def join_signatures(signs: Signs, members: Sequence[Sequence[int]]) -> Signs:
    """Return modes, each of the signatures of `members`, as `sort_signs` gives them."""
    numbers = np.full(len(signs.texts), -1)
    for mode, of in enumerate(members):
        numbers[list(of)] = mode
    return sort_signs(_renumber(signs, numbers))


def select_signs(signs: Signs, number: int) -> tuple[Ints, Ints]:
    """Return the places of the runs with a signature, sorted, and where it begins in each."""
    part = slice(*np.searchsorted(signs.number, (number, number + 1)).tolist())
    return signs.at[part], signs.step[part]


def choose_signatures(signs: Signs, tasks: Ints) -> list[int]:
    """Return the signatures that enough runs and tasks share, the commonest first."""
    size, width = len(signs.texts), int(tasks.max(initial=0)) + 1
    runs = np.bincount(signs.number, minlength=size)
    pairs = np.unique(signs.number * width + tasks[signs.at])
    of_tasks = np.bincount(pairs // width, minlength=size)
    chosen = np.flatnonzero((runs >= FEWEST_RUNS) & (of_tasks >= FEWEST_TASKS)).tolist()
    return sorted(chosen, key=lambda k: (-runs[k], signs.texts[k]))[:MOST_SIGNATURES]


def merge_signatures(signs: Signs, chosen: Sequence[int]) -> list[list[int]]:
    """Return the chosen signatures as modes, each with those that stand in the same runs."""
    numbers = np.full(len(signs.texts), -1)
    numbers[list(chosen)] = np.arange(len(chosen))
    by_run = _renumber(signs, numbers)
    order = np.lexsort((by_run.number, by_run.at))
    number, at = by_run.number[order], by_run.at[order]
    both = np.zeros((len(chosen), len(chosen)), np.int64)
    # Pairs of one run stand at most as far apart as it has signatures.
    for apart in range(len(chosen)):
        same = at[apart:] == at[: len(at) - apart]
        if not same.any():
            break
        pairs = number[: len(at) - apart][same] * len(chosen) + number[apart:][same]
        both += np.bincount(pairs, minlength=both.size).reshape(both.shape)
    judged = [reads_outcome(signs.texts[one]) for one in chosen]
    alone = both.diagonal()
    modes: list[list[int]] = []
    for one in range(len(chosen)):
        for mode in modes:
            first, shared = mode[0], both[mode[0], one]
            together = alone[one] + alone[first] - shared
            if (
                judged[first] == judged[one]
                and shared >= WITHIN * alone[one]
                and shared >= TOGETHER * together
            ):
                mode.append(one)
                break
        else:
            modes.append([one])
    return [[chosen[one] for one in mode] for mode in modes]


def contrast_modes(
    modes: Signs, names: Sequence[Sequence[str]], tasks: Ints, known: Bools, failed: Bools
) -> Iterator[Contrast]:
    """Yield for each mode the failures of its runs beside those of other trials of their tasks."""
    size = int(tasks.max(initial=0)) + 1
    trials = np.bincount(tasks[known], minlength=size)
    failures = np.bincount(tasks[failed], minlength=size)
    for mode, signatures in enumerate(names):
        at, _ = select_signs(modes, mode)
        at = at[known[at]]
        task, marked = np.unique(tasks[at], return_counts=True)
        counts = (trials[task].tolist(), failures[task].tolist(), marked.tolist())
        tables = list(zip(*counts, strict=True))
        seen, tails, p = int(failed[at].sum()), np.empty(0), None
        if not reads_outcome(signatures[0]):
            least, null = null_of_failures(tables)
            if len(null) > 1:
                tails = np.minimum(np.cumsum(null[::-1])[::-1], 1.0)
                p = float(tails[seen - least])
        expected = sum(fail * mark / runs for runs, fail, mark in tables)
        yield Contrast(len(at), seen, expected, tails, p)


def adjust_modes(contrasts: Sequence[Contrast]) -> list[float | None]:
    """Return p after Holm over the modes whose p could be small at all, 1 for others tested.

    Source: Tarone (1990), Biometrics 46:515-522. The smallest p that there can be depends on how
    many runs, failures and marked runs each task has, and not on which of them failed.
    """
    least = np.array([one.tails.min(initial=2.0) for one in contrasts])
    size = 1
    while (least <= ALPHA / size).sum() > size:
        size += 1
    family = np.flatnonzero(least <= ALPHA / size).tolist()
    found: list[float | None] = [None if one.p is None else 1.0 for one in contrasts]
    adjusted = stats.holm([contrasts[mode].p or 0.0 for mode in family])
    for mode, p in zip(family, adjusted.tolist(), strict=True):
        found[mode] = p
    return found


def judge_mode(
    name: str, found: Contrast, p_adjusted: float | None, share_failed: float
) -> ModeVerdict:
    """Return what a contrast says of a mode; `share_failed` is that of all runs."""
    if reads_outcome(name):
        return "judged_by"
    if found.p is None or p_adjusted is None:
        return "not_tested"
    if p_adjusted <= ALPHA:
        return "marks_failure"
    if found.p <= PLAUSIBLE:
        return "unclear"
    spread = (found.runs * share_failed * (1.0 - share_failed)) ** 0.5
    harder = found.failed - found.runs * share_failed > HARDER * spread
    return "hard_tasks" if harder else "harmless"


def assign_runs(
    modes: Signs, names: Sequence[Sequence[str]], contrasts: Sequence[Contrast], failed: Bools
) -> Ints:
    """Return the mode that each failed run is counted under, -1 for none; shape (runs,).

    Of several modes that chance hardly explains the one that it explains least; where there is
    none, the rarest of what the outcome is judged by.
    """
    of_run = np.full(len(failed), -1)
    judged = [mode for mode, of in enumerate(names) if reads_outcome(of[0])]
    judged.sort(key=lambda mode: -contrasts[mode].runs)
    likely = [(one.p, mode) for mode, one in enumerate(contrasts) if one.p is not None]
    likely = sorted((pair for pair in likely if pair[0] <= PLAUSIBLE), reverse=True)
    # What comes later wins.
    for mode in (*judged, *(mode for _, mode in likely)):
        at, _ = select_signs(modes, mode)
        of_run[at[failed[at]]] = mode
    return of_run


def _count_begins(step: Ints, steps: Ints) -> tuple[int, ...]:
    """Return how many runs begin in each fifth; none where no step is named."""
    at = step >= 0
    parts = np.minimum(step[at] * PARTS // np.maximum(steps[at], 1), PARTS - 1)
    return tuple(np.bincount(parts, minlength=PARTS).tolist()) if at.any() else ()


def _list_versions(runs: Runs) -> dict[str, Ints]:
    """Return the places of the runs of the last versions of the agent; empty where all are one."""
    places: dict[str, list[int]] = {}
    for at, version in enumerate(runs.agent_version.tolist()):
        if version is not None:
            places.setdefault(version, []).append(at)
    last = sorted(places, key=judge_version_order)[-VERSIONS:]
    return {one: np.array(places[one]) for one in last} if len(places) > 1 else {}


def _choose_examples(
    places: Ints, steps: Ints, runs: Runs, tasks: Ints, failed: Bools
) -> tuple[ModeExample, ...]:
    """Return runs of a mode, failed ones first, one a task as long as there are tasks."""
    seen: dict[int, int] = {}
    ranked = []
    for at, step in zip(places.tolist(), steps.tolist(), strict=True):
        key = int(tasks[at])
        ranked.append((not failed[at], seen.setdefault(key, 0), at, step))
        seen[key] += 1
    return tuple(
        ModeExample(id=runs.id[at], name=runs.name[at], step=None if step < 0 else step)
        for _, _, at, step in sorted(ranked)[:EXAMPLES]
    )
