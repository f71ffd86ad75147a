"""Whether outcomes were earned: outcome against path, and what is wrong with the runs of a corner.

A pass is right for the wrong reason where a proved fault or breach had an effect: on the world, by
a write that went through, or on what the user was left with, by a false statement or the data of
somebody else. What was refused, only read, written anew as it should be, or put right in a later
message is a fault of its axis all the same, and no such reason. Where the trace cannot tell, or
there is none (a Parquet folder), the pass stays on the list and is called a doubt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import compress

import numpy as np

from stepscope import stats
from stepscope.measures.calls import effect_of, has_succeeded
from stepscope.measures.conduct import leaf_texts, ways_to_ask
from stepscope.measures.language import sentences
from stepscope.model import Exchange, Facts, Step, Trajectory, Verdict
from stepscope.report.rows import RunTable, read_axis_faults, read_outcomes, sort_findings
from stepscope.report.types import OutcomeTable, RunLine
from stepscope.report.words import (
    AXES,
    describe_value,
    find_differences,
    name_figure,
)
from stepscope.stats.sample import Bools, Floats, Ints
from stepscope.store import Store
from stepscope.store.columns import Rows
from stepscope.values import Decision, Unmeasured

# In which runs each axis proved a fault, and in which its checks ran.
AxisFaults = dict[str, tuple[Floats, Bools]]


def _find_faults(table: RunTable) -> dict[str, Bools]:
    """Return which runs have a proved fault of each axis, or a breach of a declared rule."""
    axes = {key: read_axis_faults(table, key) for key in AXES}
    proved = {key: fault * ran > 0 for key, (fault, ran) in axes.items()}
    return {**proved, "policy": table.columns["policy"].value > 0}


def find_faulty(table: RunTable) -> Bools:
    """Return which passing runs have a proved fault, or a breach of a declared rule."""
    known, passed = read_outcomes(table)
    found: Bools = known & passed & np.logical_or.reduce([*_find_faults(table).values()])
    return found


# Passing runs with a fault that are opened; of any more it is not known whether it had an effect.
MOST_OPENED = 500
# By row of a run: whether its proved faults had an effect; what nobody can tell is not in it.
Effects = Mapping[int, bool]


def find_effects(rows: Rows, table: RunTable) -> Effects:
    """Return whether the faults of passing runs had an effect, as their steps show."""
    if not isinstance(rows, Store):
        return {}
    found: dict[int, bool] = {}
    facts, faults = cache(rows.facts), _find_faults(table)
    chosen = np.flatnonzero(find_faulty(table))[:MOST_OPENED]
    place = dict(zip(table.runs.key[chosen].tolist(), chosen.tolist(), strict=True))
    for stored in rows.stored(list(place)):
        run = stored.trajectory
        effects: set[bool | None] = set()
        for measure in (name for name, runs in faults.items() if runs[place[stored.key]]):
            held = sort_findings(rows.records(trajectory=run.id, measure=measure))
            each = held.by_step.get(measure, ())
            effects |= {has_effect(run, fault, facts(run.workflow)) for fault in each} or {None}
        if True in effects or effects == {False}:
            found[stored.key] = True in effects
    return found


# What these axes cite is a message, unless they name the call; and how an agent takes one back.
_TOLD, _ENDING = "axes.result_interpretation", "axes.termination"
_CORRECTS = re.compile(
    r"(?i)\b(?:(?:apolog\w+|sorry) (?:for|about) (?:\w+ ){0,3}(?:confusion|error|mistake|mix-?up)|"
    r"correction|(?:my|a) mistake|mistaken(?:ly)?|misread|misspoke|incorrectly|i was wrong)\b"
)
# What a fault says is true: "the result at 8 says 47.00", "where the total is 1203".
_TRUE = re.compile(r" (?:says|total is) (?:[a-z_ ]*)(?:'([^']{2,})'|(\d[\d,.]*\d))")
# Words of what a fault is about, besides those of faults.
_WORDS = re.compile(r"\b(?!(?:tells|result|which|before|nothing)\b)[a-z]{5,}")
_THING = re.compile(r"\b(?=[A-Z_-]*\d)[A-Z\d_-]{5,20}\b")


def has_effect(run: Trajectory, fault: Verdict, facts: Facts | None) -> bool | None:
    """Return whether a proved fault changed the world, or what the user was left with.

    None where the trace does not tell: no result, a tool of unknown effect, a run that ended badly.
    """
    at = -1 if fault.step is None else fault.step
    made = [x for x in run.agent_exchanges if at in (x.step, x.result_step)]
    calls = [x for x in made if x.call.name in fault.reason]
    if calls or (made and fault.measure not in (_TOLD, _ENDING)):
        effects = {_has_changed(run, x, fault, facts) for x in calls or made}
        return True if True in effects else None if None in effects else False
    if not 0 <= at < len(run.steps) or run.steps[at].actor != "agent" or not run.steps[at].text:
        return None
    if " of another customer, " in fault.reason:
        return True  # what was shown cannot be unseen
    later = run.steps[at + 1 :]
    told = any(step.actor == "user" for step in later) or not any(map(_said, later))
    if not told or (fault.measure == _ENDING and not fault.reason.startswith("announces ")):
        return None
    return not (_is_corrected(fault, later) or _is_done_later(run, fault, facts))


def _has_changed(
    run: Trajectory, call: Exchange, fault: Verdict, facts: Facts | None
) -> bool | None:
    effect = effect_of(call.call.name, facts)
    if call.failed or (effect == "read" and fault.measure != "policy"):
        return False
    if call.result is None or effect != "write":
        return None
    for later in run.agent_exchanges:
        if later.position > call.position and later.call.name == call.call.name:
            # Done again, with another value in place of what the fault quotes, and nothing else.
            found = list(find_differences(call.call.arguments, later.call.arguments))
            quoted = [describe_value(was) for _, was, _ in found]
            if has_succeeded(later) and quoted and all(x and x in fault.reason for x in quoted):
                return False
    return True


def _said(step: Step) -> str:
    return step.text if step.actor == "agent" else ""


def _is_corrected(fault: Verdict, later: Sequence[Step]) -> bool:
    """True if a later message says what is true, or takes back what it is about."""
    about, true = set(_WORDS.findall(fault.reason.lower())), _TRUE.search(fault.reason)
    value = (true[1] or true[2].removesuffix(".00").replace(",", "")) if true else ""
    for text in map(_said, later):
        plain = re.sub(r"(?<=\d),(?=\d{3})", "", text)
        if value and re.search(rf"(?<![\w.]){re.escape(value)}(?!\w|\.\d*[1-9])", plain):
            return True
        corrects = (said for said in sentences(text) if _CORRECTS.search(said))
        if any(not about.isdisjoint(_WORDS.findall(said.lower())) for said in corrects):
            return True
    return False


def _is_done_later(run: Trajectory, fault: Verdict, facts: Facts | None) -> bool:
    """True if what was told as done was done after all, to the thing that was named."""
    things = set(_THING.findall(fault.reason))
    for made in run.agent_exchanges if not _TRUE.search(fault.reason) else ():
        verbs, _ = ways_to_ask(made.call.name)
        writes = effect_of(made.call.name, facts) == "write" and has_succeeded(made)
        if writes and made.step > (fault.step or 0) and verbs is not None:
            given = set(leaf_texts(made.call.arguments))
            if verbs.search(fault.reason.casefold()) and (not things or things & given):
                return True
    return False


# Shares are counted in whole sub-goals and errors: below 1 by less than this is rounding.
NEARLY = 1e-9
OTHER_WRITES = "subgoals.other_writes"


def count_outcome_tables(table: RunTable) -> Iterator[OutcomeTable]:
    """Yield outcome against sub-goals, errors and policy, each where anything was measured."""
    goals = table.columns["subgoals"]
    complete = _full(goals.value)
    of_goals = ("all sub-goals", "some missed")
    yield from _joint(table, "sub-goals", of_goals, goals.valued, (complete, ~complete))
    errors, recovery = table.columns["errors"], table.columns["recovery"]
    none = errors.valued & (errors.value == 0)
    over = recovery.valued & _full(recovery.value)
    left = recovery.valued & ~_full(recovery.value)
    of_errors = ("no error", "all recovered", "some not")
    if (over | left).any():
        yield from _joint(table, "errors", of_errors, none | over | left, (none, over, left))
    policy = table.columns["policy"]
    kept = policy.value == 0
    yield from _joint(
        table, "policy", ("rules kept", "a rule broken"), policy.valued, (kept, ~kept)
    )


# The figures that the grade of a path is made of.
GRADES = ("subgoals.reached", "policy.violations")


def grade_paths(table: RunTable) -> tuple[Bools, Bools]:
    """Return which runs have a grade of the path, and which of these earned a pass by it.

    The grade is good with every sub-goal reached and no rule broken (where a policy is declared).
    """
    goals, policy = table.columns["subgoals"], table.columns["policy"]
    graded = goals.valued | policy.valued
    bad = goals.valued & ~_full(goals.value) | policy.valued & (policy.value > 0)
    return graded, graded & ~bad


def judge_looseness(joint: stats.JointTable | Unmeasured, grades: Iterable[str]) -> Decision:
    """Decide whether outcome and path disagree so rarely that these grades add nothing."""
    found = joint if isinstance(joint, Unmeasured) else joint.limit
    if isinstance(found, Unmeasured):
        return Decision("undecided", found.reason)
    by = " and ".join(map(name_figure, grades))
    upper = f"outcome and path, graded by {by}, disagree in at most {found:.0%} of runs"
    if found < stats.MOST_DISAGREEMENT:
        return Decision("fail", f"{upper}: this grade of the path is too loose to add anything")
    return Decision("pass", f"nothing shows that this grade of the path is too loose: {upper}")


def list_runs(
    table: RunTable, places: Ints, faults: AxisFaults, effects: Effects | None = None
) -> tuple[RunLine, ...]:
    """Return chosen runs in their order, with what their path shows."""
    shares, broken, writes = (
        table.columns[name].numbers[places].tolist()
        for name in ("subgoals", "policy", OTHER_WRITES)
    )
    axes = [((proved > 0) & ran)[places].tolist() for proved, ran in faults.values()]
    reason = cache(_describe_path)
    ids, names, keys = (getattr(table.runs, x)[places].tolist() for x in ("id", "name", "key"))
    paths = zip(shares, broken, writes, *axes, strict=True)
    return tuple([
        RunLine(id=id, name=name, reason=reason(*path), sure=effects is None or key in effects)
        for id, name, key, path in zip(ids, names, keys, paths, strict=True)
    ])  # fmt: skip


def _describe_path(
    share: float | None, broken: float | None, writes: float | None, *axes: bool
) -> str:
    """Return what the path of a run shows; what was not measured is not said."""
    said = []
    if share is not None:
        said.append("every sub-goal reached" if share >= 1 else f"{share:.0%} of sub-goals")
    said += [f"{broken:.0f} violations"] if broken else []
    said += [f"{writes:.0f} other writes"] if writes else []
    proved = " and ".join(compress(AXES.values(), axes))
    return ", ".join([*said, f"proved: {proved}"] if proved else said)


def _joint(
    table: RunTable, grade: str, names: tuple[str, ...], graded: Bools, columns: tuple[Bools, ...]
) -> Iterator[OutcomeTable]:
    known, passed = read_outcomes(table)
    both = known & graded
    if not both.any():
        return
    notes = {}
    if grade == "sub-goals":
        # Of the failing runs with every sub-goal reached, those that also wrote something else.
        unearned = both & ~passed & columns[0]
        more = int((unearned & (table.columns[OTHER_WRITES].value > 0)).sum())
        said = f"{more} of these {int(unearned.sum())} also made other writes"
        notes = {"fail": said} if more else {}
    yield OutcomeTable(
        grade=grade,
        columns=names,
        passed=tuple(int((both & passed & flags).sum()) for flags in columns),
        failed=tuple(int((both & ~passed & flags).sum()) for flags in columns),
        unmeasured=len(table) - int(both.sum()),
        notes=notes,
    )


def _full(value: Floats) -> Bools:
    return np.nan_to_num(value) >= 1 - NEARLY
