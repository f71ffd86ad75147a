"""What the labels of a run's steps look like together: whip, detour, cascade, healthy recovery.

Pure and deterministic, from `step_labels` verdicts alone; thresholds are the constants below.

Whip: one or two REDUNDANT steps, none of them first or last, in a run that passed. Detour: the one
DETOUR of a run, not its first step, with PROGRESS right after it. Cascade: an ERROR that no later
step addresses, with PROGRESS behind it: labels cannot say that it builds on the error, only that
nobody looked back. Healthy recovery: an ERROR that a step within two addresses without being an
ERROR itself. A recovery that comes later, or fails, is neither of the last two.

Steps are the agent's alone: what users and tools did is labelled for nobody, and "right after" and
"within two" count the agent's steps. One without a label can hide a pattern: where it could, the
answer is Unmeasured, not "none".
Source: the verdict patterns of trajectory judges; the numbers are ours.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from stepscope.model import Answer, Verdict
from stepscope.values import Unmeasured

PatternName = Literal["whip", "detour", "cascade", "healthy_recovery"]
PATTERN_NAMES: tuple[PatternName, ...] = get_args(PatternName)
# What became of an error; "unknown" where a step without a label could have addressed it.
ErrorFate = Literal["recovered", "late", "attempted", "unaddressed", "unknown"]

# Steps of the agent after an error within which it counts as recovered: one to look, one to mend.
WITHIN = 2
# With more REDUNDANT steps than this a run is not whipping back once, it is going round.
MOST_REDUNDANT = 2

PATTERN_ADVICE: Mapping[PatternName, str] = {
    "whip": (
        "Usually the tool returns too little the first time: improve its description or its "
        "result, so that nobody must repeat the call to be sure."
    ),
    "detour": (
        "Usually the tool's description promises too much: state what it is for and what it is "
        "not for."
    ),
    "cascade": (
        "Read this run first: what follows rests on an uncorrected error, and the end can look "
        "right all the same."
    ),
    "healthy_recovery": (
        "Nothing to fix after the error; look at its cause if it occurs in many runs."
    ),
}

# Of a whip: nobody says whether the run passed.
UNKNOWN_OUTCOME = Unmeasured("missing_input", "unknown outcome")

_ADDRESSES = re.compile(r"addresses (\d{1,9}): ")


class LabelPattern(NamedTuple):
    """One pattern in one run: its name, the step where it begins, all its steps, and why."""

    name: PatternName
    step: int
    cites: tuple[int, ...]
    reason: str


class LabelledError(NamedTuple):
    """One ERROR of a run: its step, what became of it, and the step that dealt with it."""

    step: int
    fate: ErrorFate
    by: int | None


class RecoveryComparison(NamedTuple):
    """The judge's errors beside those that tools reported, as counts."""

    both: int  # recovered by the judge's labels and by the rules
    judge: int  # by the judge's labels alone
    rules: int  # by the rules alone
    neither: int  # by neither
    unknown: int  # named by both; the judge left a step open that could have addressed it
    judge_only: int  # errors that no tool reported
    rules_only: int  # tool errors in steps that the judge did not label ERROR


PatternSteps = dict[PatternName, tuple[LabelPattern, ...] | Unmeasured]


def find_label_patterns(
    answers: Iterable[Answer], acted: Collection[int], *, passed: bool | None = None
) -> PatternSteps:
    """Return the patterns of one run, every name with what was found of it.

    `answers` are what one judge said of the run and its steps; those about other steps than the
    agent's, whose indexes are `acted`, are left out. `passed` is None where nobody knows.
    """
    steps = _in_order(answers, acted)
    if not any(isinstance(step, Verdict) for step in steps):
        nothing = Unmeasured("missing_input", "no step of this run has a label")
        return dict.fromkeys(PATTERN_NAMES, nothing)
    fates = labelled_errors(steps, acted)
    return {
        "whip": () if passed is False else _or_open(_whip(steps, passed), steps),
        "detour": _or_open(_detour(steps), steps),
        "cascade": _or_open(tuple(_cascades(steps, fates)), steps),
        "healthy_recovery": _or_open(tuple(_recoveries(fates)), steps),
    }


def addressed_step(verdict: Verdict) -> int | None:
    """Return the earlier step whose error a step addresses, None where it addresses none."""
    found = _ADDRESSES.match(verdict.reason)
    if found is None or verdict.step is None:
        return None
    step = int(found[1])
    return step if step < verdict.step and step in verdict.cites else None


def labelled_errors(answers: Iterable[Answer], acted: Collection[int]) -> tuple[LabelledError, ...]:
    """Return every ERROR of the agent with what became of it, in order."""
    steps = _in_order(answers, acted)
    return tuple(
        _fate(step.step, steps[at + 1 :])
        for at, step in enumerate(steps)
        if isinstance(step, Verdict) and step.label == "ERROR" and step.step is not None
    )


def compare_recoveries(
    answers: Iterable[Answer], acted: Collection[int], recovery: Iterable[Answer]
) -> RecoveryComparison:
    """Return how a judge's recoveries agree with those that results show (measure `recovery`).

    An error of the rules is one of the judge's where the judge labels the step of its call ERROR.
    What no tool reported (a false statement, an unwanted act) is the judge's alone.
    """
    named = {mishap.step: mishap.fate for mishap in labelled_errors(answers, acted)}
    told = [
        (verdict.cites[0], verdict.label == "recovered")
        for verdict in recovery
        if isinstance(verdict, Verdict) and verdict.step is not None and verdict.cites
    ]
    counts = dict.fromkeys(RecoveryComparison._fields, 0)
    for call, mended in told:
        counts[_cell(named.pop(call, None), mended)] += 1
    counts["judge_only"] = len(named)
    return RecoveryComparison(**counts)


def _cell(fate: ErrorFate | None, mended: bool) -> str:
    if fate is None:
        return "rules_only"
    if fate == "unknown":
        return "unknown"
    if fate == "recovered":
        return "both" if mended else "judge"
    return "rules" if mended else "neither"


def _in_order(answers: Iterable[Answer], acted: Collection[int]) -> list[Answer]:
    about = [answer for answer in answers if answer.step in acted]
    return sorted(about, key=lambda answer: -1 if answer.step is None else answer.step)


def _label(step: Answer) -> str | None:
    return step.label if isinstance(step, Verdict) else None


def _or_open(
    found: tuple[LabelPattern, ...] | Unmeasured, steps: Sequence[Answer]
) -> tuple[LabelPattern, ...] | Unmeasured:
    """Return what was found; where that is nothing, only if every step has a label."""
    unlabelled = sum(_label(step) is None for step in steps)
    if found == () and unlabelled:
        return Unmeasured(
            "insufficient_data", f"{unlabelled} of {len(steps)} steps have no label of this judge"
        )
    return found


def _places_inside(steps: Sequence[Answer], label: str) -> list[int]:
    """Return where a label stands; nowhere if it is at an end, or a step has no label."""
    at = [place for place, step in enumerate(steps) if _label(step) == label]
    whole = all(_label(step) is not None for step in steps)
    return at if whole and all(0 < place < len(steps) - 1 for place in at) else []


def _whip(steps: Sequence[Answer], passed: bool | None) -> tuple[LabelPattern, ...] | Unmeasured:
    at = _places_inside(steps, "REDUNDANT")
    if not 1 <= len(at) <= MOST_REDUNDANT:
        return ()
    if passed is None:
        return UNKNOWN_OUTCOME
    cites = tuple(_index(steps[place]) for place in at)
    return (LabelPattern("whip", cites[0], cites, f"{len(cites)} REDUNDANT in a run that passed"),)


def _detour(steps: Sequence[Answer]) -> tuple[LabelPattern, ...]:
    at = _places_inside(steps, "DETOUR")
    if len(at) != 1:
        return ()
    here, behind = _index(steps[at[0]]), steps[at[0] + 1]
    if _label(behind) != "PROGRESS":
        return ()
    back = _index(behind)
    return (LabelPattern("detour", here, (here, back), f"left at {here}, back at {back}"),)


def _cascades(steps: Sequence[Answer], fates: Iterable[LabelledError]) -> Iterator[LabelPattern]:
    progress = [_index(step) for step in steps if _label(step) == "PROGRESS"]
    for mishap in fates:
        behind = [step for step in progress if step > mishap.step]
        if mishap.fate == "unaddressed" and behind:
            why = f"the error at {mishap.step} is never addressed, {len(behind)} PROGRESS behind it"
            yield LabelPattern("cascade", mishap.step, (mishap.step, behind[0]), why)


def _recoveries(fates: Iterable[LabelledError]) -> Iterator[LabelPattern]:
    for mishap in fates:
        if mishap.fate == "recovered" and mishap.by is not None:
            why = f"the error at {mishap.step} is addressed at {mishap.by}"
            yield LabelPattern("healthy_recovery", mishap.step, (mishap.step, mishap.by), why)


def _fate(error: int, later: Sequence[Answer]) -> LabelledError:
    """Return what became of an error, the steps after it given in order."""
    dealt = [
        (place, step)
        for place, step in enumerate(later, 1)
        if isinstance(step, Verdict) and addressed_step(step) == error
    ]
    mended = [(place, _index(step)) for place, step in dealt if step.label != "ERROR"]
    unlabelled = [place for place, step in enumerate(later, 1) if _label(step) is None]
    if mended and mended[0][0] <= WITHIN:
        return LabelledError(error, "recovered", mended[0][1])
    if unlabelled and unlabelled[0] <= WITHIN:
        return LabelledError(error, "unknown", None)
    if mended:
        return LabelledError(error, "late", mended[0][1])
    if unlabelled:
        return LabelledError(error, "unknown", None)
    if dealt:
        return LabelledError(error, "attempted", _index(dealt[0][1]))
    return LabelledError(error, "unaddressed", None)


def _index(step: Answer) -> int:
    return -1 if step.step is None else step.step
