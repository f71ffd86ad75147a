"""Failure modes: signatures that several runs share, and whether runs with them fail more often.

Modes are formed of all runs without a look at outcomes: signatures of 3 runs of 2 tasks or more;
signatures that stand in the same runs are one mode. Then the failures among a mode's runs are held
against every way to hand out the outcomes of each task to its trials (`null_of_failures`): what
only marks hard tasks has no more of them than that. Holm runs over all modes whose p could be small
at all, which the numbers of each task tell, whatever the outcomes were (Tarone 1990, Biometrics
46). Since nothing is chosen by outcomes, no half of the tasks is held back. A signature that says
what the outcome is judged by (the expected call was not made) has more failures by definition: such
modes are counted, never tested. Runs of which rules could not see what went wrong are left out and
counted. Refused: a p value for modes of the outcome, and for modes of which no task has trials with
and without it and both outcomes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, get_args

import msgspec
import numpy as np

from stepscope import stats
from stepscope.model.records import STEP_LABELS_NAME
from stepscope.model.signatures import reads_outcome, signature_code
from stepscope.stats.permutation import null_of_failures
from stepscope.stats.sample import Bools, Floats, Ints
from stepscope.store.columns import Columns, Rows, Runs, Signs, count_unmeasured
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
# Stands for a step that nobody names: behind all that a run can have.
LATE = np.iinfo(np.int64).max

# In the order in which modes are listed.
ModeVerdict = Literal[
    "marks_failure",  # runs with it fail more often than other trials of their tasks
    "unclear",  # more failures than expected, and chance may bring as many
    "hard_tasks",  # its runs fail often, and other trials of the same tasks as often
    "not_tested",  # no task has trials with and without it, and both outcomes
    "judged_by",  # it says what the outcome is judged by: not tested
    "harmless",  # its runs fail no more often than others
]
_ORDER: tuple[ModeVerdict, ...] = get_args(ModeVerdict)


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
    assigned: tuple[str, ...]  # ids of the failed runs that are counted under this mode
    # failures that as many runs of the same tasks have on average, outcomes permuted within tasks
    expected: float
    p: float | None = None  # chance of so many failures if it has nothing to do with them
    p_adjusted: float | None = None  # the same after Holm over the modes that were tested
    # modes with a p as small that permuted outcomes would show, of those that were tested
    by_chance: float | None = None
    # what a fix is worth at most: the share of all runs that failed with it
    worth: Estimate | Unmeasured
    begins: tuple[int, ...]  # runs by the fifth of the run in which it begins, if at one step
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
    n_failed: int  # runs that failed, of those that rules could see
    n_judged_by: int  # of these, runs counted only under what the outcome is judged by
    unassigned: Estimate | Unmeasured  # share of the failed runs that are counted under no mode
    # runs of which rules could not see what went wrong, by kind: they are in no number above
    unmeasured: dict[str, int]


NO_SIGNS = Unmeasured("missing_input", "no answers of rules; stepscope score makes them")
UNSEEN = Unmeasured("missing_input", "results of tools were not recorded, or texts are erased")


class Contrast(NamedTuple):
    """Failures among the runs of a mode, beside those of other trials of the same tasks."""

    runs: int  # with a known outcome
    failed: int
    expected: float  # failures, were outcomes handed out anew within tasks
    # chance of at least so many failures as each number that there can be, the fewest first; empty
    # where nothing is tested
    tails: Floats
    p: float | None  # chance of at least as many as there are; None where nothing is tested

    def chances_of(self, p: Floats) -> Floats:
        """Return the chances that outcomes handed out anew give a p as small as each."""
        rising = np.append(0.0, self.tails[::-1])
        return rising[np.searchsorted(rising, p * (1 + 1e-9), side="right") - 1]


def find_modes(
    rows: Rows, runs: Runs, tasks: Ints, columns: Columns | None = None
) -> FailureModes | Unmeasured:
    """Return the failure modes of runs of these tasks, by number; `columns` are read already."""
    signs = rows.signs(runs, columns)
    if not len(signs.at) and STEP_LABELS_NAME not in rows.measures():
        return NO_SIGNS
    seen = signs.seen
    if not seen.any():
        return UNSEEN if signs.unmeasured().keys() - {"not_applicable"} else NO_SIGNS
    signs = signs.of_seen()
    names, has = form_modes(signs, tasks)
    failed = (runs.outcome == "fail") & seen
    ended = (runs.outcome == "fail") | (runs.outcome == "pass")
    known = ended & seen
    judged = [reads_outcome(of[0]) for of in names]
    contrasts = list(contrast_modes(has, tasks, known, failed, untested=judged))
    adjusted = adjust_modes(contrasts)
    share = float(failed.sum() / max(int(known.sum()), 1))
    verdicts: list[ModeVerdict] = [
        "judged_by" if of_outcome else judge_mode(contrast, p, share)
        for of_outcome, contrast, p in zip(judged, contrasts, adjusted, strict=True)
    ]
    of_run = assign_runs(has, contrasts, judged, failed)
    counted = np.bincount(of_run[of_run >= 0], minlength=len(names)).tolist()
    tested = [contrast for contrast in contrasts if contrast.p is not None]
    versions = {version: at[seen[at]] for version, at in _list_versions(runs).items()}
    lost = count_unmeasured(signs.state[ended])
    order = sorted(
        range(len(names)),
        key=lambda k: (_ORDER.index(verdicts[k]), contrasts[k].p or 0.0, -contrasts[k].failed, k),
    )
    apart = [mode for mode in order if judged[mode]][JUDGED_BY:]
    chosen = [mode for mode in order if mode not in apart][:LISTED]
    small = np.array([ALPHA, *(contrasts[mode].p or 0.0 for mode in chosen)])
    by_chance = sum((one.chances_of(small) for one in tested), np.zeros(len(small))).tolist()
    n_signatures, listed = len(np.unique(signs.number)), []
    for at, mode in enumerate(chosen, 1):
        one, has_it = contrasts[mode], has[mode]
        step = _find_begins(signs, names[mode], len(runs))
        placed = has_it & (step < LATE)
        parts = np.minimum(step[placed] * PARTS // np.maximum(runs.steps[placed], 1), PARTS - 1)
        begins = np.bincount(parts, minlength=PARTS).tolist() if len(parts) else ()
        listed.append(
            FailureMode(
                name=names[mode][0],
                code=signature_code(names[mode][0]),
                signatures=names[mode],
                verdict=verdicts[mode],
                runs=int(has_it.sum()),
                tasks=int((np.bincount(tasks[has_it]) > 0).sum()),
                failed=one.failed,
                assigned=tuple(runs.id[of_run == mode].tolist()),
                expected=one.expected,
                p=one.p,
                p_adjusted=adjusted[mode],
                by_chance=None if one.p is None else by_chance[at],
                worth=stats.proportion((has_it & failed)[known], tasks[known], unmeasured=lost),
                begins=tuple(begins),
                versions={v: stats.proportion(has_it[at], tasks[at]) for v, at in versions.items()},
                examples=_choose_examples(has_it, step, runs, tasks, failed),
            )
        )
    return FailureModes(
        modes=tuple(listed),
        n_modes=len(names),
        n_tested=len(tested),
        n_shown=verdicts.count("marks_failure"),
        n_small=sum(one.p <= ALPHA for one in tested if one.p is not None),
        small_by_chance=by_chance[0] if tested else 0,
        n_signatures=n_signatures,
        n_lone=n_signatures - sum(map(len, names)),
        n_failed=int(failed.sum()),
        n_judged_by=sum(n for n, of_outcome in zip(counted, judged, strict=True) if of_outcome),
        unassigned=stats.proportion(of_run[failed] < 0, tasks[failed]),
        unmeasured=signs.unmeasured(),
    )


def form_modes(signs: Signs, tasks: Ints) -> tuple[list[tuple[str, ...]], Bools]:
    """Return the signatures of each mode, commonest first, and who has it, shape (modes, runs)."""
    return merge_signatures(*choose_signatures(signs, tasks))


def choose_signatures(signs: Signs, tasks: Ints) -> tuple[list[str], Bools]:
    """Return commonest signatures first, of enough tasks, and who has each: (signatures, runs)."""
    n, size, width = max(len(tasks), 1), len(signs.texts), int(tasks.max(initial=0)) + 1
    pairs = np.unique(signs.number * n + signs.at)
    number, at = pairs // n, pairs % n
    runs = np.bincount(number, minlength=size)
    of_tasks = np.bincount(np.unique(number * width + tasks[at]) // width, minlength=size)
    enough = np.flatnonzero((runs >= FEWEST_RUNS) & (of_tasks >= FEWEST_TASKS)).tolist()
    chosen = sorted(enough, key=lambda k: (-runs[k], signs.texts[k]))[:MOST_SIGNATURES]
    rank = np.full(size, -1)
    rank[chosen] = np.arange(len(chosen))
    kept = rank[number] >= 0
    has = np.zeros((len(chosen), len(tasks)), np.bool_)
    has[rank[number[kept]], at[kept]] = True
    return [signs.texts[one] for one in chosen], has


def merge_signatures(texts: Sequence[str], has: Bools) -> tuple[list[tuple[str, ...]], Bools]:
    """Return the modes, as `form_modes` does, of signatures that runs have."""
    # Whole words of bits, so that runs are compared 64 at a time.
    bits = np.packbits(np.pad(has, ((0, 0), (0, -has.shape[1] % 64))), axis=1).view(np.uint64)
    shared = (np.bitwise_count(bits[at:] & row) for at, row in enumerate(bits))
    both = [counts.sum(axis=1, dtype=np.int64).tolist() for counts in shared]
    judged = list(map(reads_outcome, texts))
    modes: list[list[int]] = []
    for one in range(len(texts)):
        for mode in modes:
            first, alone, beside = mode[0], both[one][0], both[mode[0]][one - mode[0]]
            together = alone + both[first][0] - beside
            alike = judged[first] == judged[one]
            if alike and beside >= WITHIN * alone and beside >= TOGETHER * together:
                mode.append(one)
                break
        else:
            modes.append([one])
    joined = [has[of].any(axis=0) for of in modes]
    names = [tuple([texts[one] for one in of]) for of in modes]
    return names, np.array(joined, np.bool_).reshape(-1, has.shape[1])


def contrast_modes(
    has: Bools, tasks: Ints, known: Bools, failed: Bools, *, untested: Sequence[bool] = ()
) -> Iterator[Contrast]:
    """Yield each mode's failures beside those of other trials; the `untested` are only counted."""
    size = int(tasks.max(initial=0)) + 1
    trials = np.bincount(tasks[known], minlength=size)
    failures = np.bincount(tasks[failed], minlength=size)
    for mode, has_it in enumerate(has):
        at = np.flatnonzero(has_it & known)
        marked = np.bincount(tasks[at])
        task = np.flatnonzero(marked)
        counts = (trials[task].tolist(), failures[task].tolist(), marked[task].tolist())
        tables = list(zip(*counts, strict=True))
        seen, tails, p = int(failed[at].sum()), np.empty(0), None
        if not (untested and untested[mode]):
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


def judge_mode(found: Contrast, p_adjusted: float | None, share_failed: float) -> ModeVerdict:
    """Return what a contrast says of a mode; `share_failed` is that of all runs."""
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
    has: Bools, contrasts: Sequence[Contrast], judged: Sequence[bool], failed: Bools
) -> Ints:
    """Return the mode that each failed run counts under, which chance explains least, or -1."""
    of_run = np.full(len(failed), -1)
    rarest = [(-contrasts[mode].runs, mode) for mode, of_outcome in enumerate(judged) if of_outcome]
    likely = [(one.p, mode) for mode, one in enumerate(contrasts) if one.p is not None]
    likely = sorted((pair for pair in likely if pair[0] <= PLAUSIBLE), reverse=True)
    # What comes later wins.
    for _, mode in (*sorted(rarest), *likely):
        of_run[has[mode] & failed] = mode
    return of_run


def _find_begins(signs: Signs, names: Sequence[str], n: int) -> Ints:
    """Return the first step of a mode in each of `n` runs, `LATE` where it names none."""
    numbers = [at for at, text in enumerate(signs.texts) if text in names]
    kept = np.isin(signs.number, numbers) & (signs.step >= 0)
    step = np.full(n, LATE)
    np.minimum.at(step, signs.at[kept], signs.step[kept])
    return step


def _list_versions(runs: Runs) -> dict[str, Ints]:
    """Return the places of the runs of the last versions of the agent; empty where all are one."""
    places: dict[str, list[int]] = {}
    for at, version in enumerate(runs.agent_version.tolist()):
        if version is not None:
            places.setdefault(version, []).append(at)
    last = sorted(places, key=judge_version_order)[-VERSIONS:]
    return {one: np.array(places[one]) for one in last} if len(places) > 1 else {}


def _choose_examples(
    has: Bools, step: Ints, runs: Runs, tasks: Ints, failed: Bools
) -> tuple[ModeExample, ...]:
    """Return runs of a mode, failed ones first, one a task as long as there are tasks."""
    chosen: list[int] = []
    for part in (np.flatnonzero(has & failed), np.flatnonzero(has & ~failed)):
        first = np.sort(np.unique(tasks[part], return_index=True)[1])
        chosen += np.concatenate([part[first], np.delete(part, first)])[:EXAMPLES].tolist()
    return tuple(
        ModeExample(id=runs.id[i], name=runs.name[i], step=int(step[i]) if step[i] < LATE else None)
        for i in chosen[:EXAMPLES]
    )
