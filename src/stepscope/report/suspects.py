"""Where one run may have broken: ranked steps, each with the evidence a person can check.

Read from the rules' records and the run's own calls, no judge; in the order of `localise` where it
ranked the run. A reading order, not a probability, and no accuracy is claimed for it (that needs
labels; `localise` is measured on them). A passing run in which nothing is found is clean; a failing
one always gets where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stepscope.measures.assignment import assign
from stepscope.measures.calls import agent_calls
from stepscope.measures.redundant_calls import repeats
from stepscope.measures.subgoals import candidates
from stepscope.model import Case, Record, SubGoal, Trajectory, Verdict
from stepscope.report.attempts import failures, missed
from stepscope.report.calls import words
from stepscope.report.findings import Findings, findings
from stepscope.report.types import Suspect, SuspectKind

# Reading order of the kinds: breaking a declared rule first, asking twice for a known answer last.
WEIGHTS = {"violation": 5.0, "other_write": 3.0, "untold": 2.0, "end": 1.5}
REPEAT = 0.5
# From this weight on a suspect is not a thing that was handled, asked twice, or a mere ending.
STRONG = 2.0
# What `localise` may say of a step of any failed run: evidence only where there is no other.
WEAK = frozenset({"write", "end", "position"})
# Writes that nothing asks for are named up to this many; the rest are counted.
NAMED_WRITES = 2
# A cycle shorter than three calls is a repeat, not a loop; beyond twelve calls it is no worse.
LOOP, LONG_LOOP = 3, 12


def suspects(
    trajectory: Trajectory, case: Case | None, records: Iterable[Record]
) -> tuple[Suspect, ...]:
    """Return the suspects of one run, most telling first; () for a clean run.

    A passing run is suspected only of what its outcome does not excuse: violations, writes that
    nothing asked for, sub-goals missed, errors never got over, loops, repeated calls.
    """
    found = findings(records)
    goals = unreached(trajectory, case, found)
    ranked = list(_ranked(trajectory, case, found, goals))
    passed = trajectory.outcome.status == "pass"
    if passed:
        ranked = [(w, s) for w, s in ranked if not _excused(w, s)]
    ranked.sort(key=lambda item: (-item[0], item[1].first, item[1].kind))
    return tuple(_localised(ranked, found))


def _localised(ranked: list[tuple[float, Suspect]], found: Findings) -> list[Suspect]:
    """Order ranked suspects by `localise`, where it ranked the steps, and add what it alone names.

    Strong suspects come first, by the most suspicious step they speak of; then steps that only
    `localise` names; then weak suspects.
    """
    steps = [(v.step, v) for v in found.by_step.get("localise", ()) if v.step is not None]
    steps.sort(key=lambda item: (-(item[1].value or 0.0), item[0]))

    def share(suspect: Suspect) -> float:
        return max((v.value or 0.0 for step, v in steps if _at(suspect, step)), default=0.0)

    strong = [suspect for weight, suspect in ranked if weight >= STRONG]
    strong.sort(key=share, reverse=True)
    own = [
        (verdict.label in WEAK, _one(step, "localised", verdict.reason))
        for step, verdict in steps
        if not any(_at(suspect, step) for _, suspect in ranked)
    ]
    named = [suspect for weak, suspect in own if not weak]
    rest = [suspect for weight, suspect in ranked if weight < STRONG]
    return strong + named + rest or [suspect for _, suspect in own[:1]]


def _at(suspect: Suspect, step: int) -> bool:
    return suspect.first <= step <= suspect.last


def unreached(trajectory: Trajectory, case: Case | None, found: Findings) -> list[SubGoal]:
    """Return the sub-goals of the case that no successful call of the run reached."""
    verdict = found.whole.get("subgoals")
    if case is None or verdict is None or verdict.label == "all":
        return []
    taken = assign(candidates(case.subgoals, agent_calls(trajectory)))
    return [goal for goal, at in zip(case.subgoals, taken, strict=True) if at is None]


def _ranked(
    trajectory: Trajectory, case: Case | None, found: Findings, goals: list[SubGoal]
) -> Iterator[tuple[float, Suspect]]:
    for verdict in found.by_step.get("policy", ()):
        if verdict.step is not None:
            said = f"breaks the rule {verdict.label!r}: {verdict.reason}".removesuffix(": ")
            yield WEIGHTS["violation"], _one(verdict.step, "violation", said)
    yield from failures(trajectory, found.labels("recovery"))
    near = list(missed(trajectory, goals))
    yield from near
    others = list(_other_writes(trajectory, found, {suspect.first for _, suspect in near}))
    yield from others
    yield from _cycles(trajectory, found)
    told = found.whole.get("subgoals.outputs")
    if told is not None and told.label != "all":
        yield WEIGHTS["untold"], _one(_last_word(trajectory), "untold", told.reason)
    ending = found.whole.get("termination")
    # What was missed, or written beside it, says what a wrong end says, and where.
    if ending is not None and (ending.label == "limit" or (_wrong(ending) and not near + others)):
        step = ending.cites[-1] if ending.cites else max(len(trajectory.steps) - 1, 0)
        said = ending.reason or str(ending.label).replace("_", " ")
        yield WEIGHTS["end"], _one(step, "end", said)


def _wrong(ending: Verdict) -> bool:
    return ending.label in ("too_early", "too_late")


def _last_word(trajectory: Trajectory) -> int:
    """Return the step where the agent last spoke: the last chance to tell."""
    spoken = [s.index for s in trajectory.steps if s.actor == "agent" and s.text]
    return spoken[-1] if spoken else max(len(trajectory.steps) - 1, 0)


def _other_writes(
    trajectory: Trajectory, found: Findings, explained: set[int]
) -> Iterator[tuple[float, Suspect]]:
    """One suspect for the writes that nothing asks for, but for the nearest attempts at a goal."""
    cited = set(found.cites("subgoals.other_writes")) - explained
    calls = [e for e in trajectory.exchanges if e.step in cited and not e.failed]
    if not calls:
        return
    named = ", ".join(words(e.call) for e in calls[:NAMED_WRITES])
    more = f" and {len(calls) - NAMED_WRITES} more" if len(calls) > NAMED_WRITES else ""
    said = f"unasked write: {named}{more}"
    suspect = Suspect(first=calls[0].step, last=calls[-1].step, kind="other_write", evidence=said)
    yield WEIGHTS["other_write"], suspect


def _cycles(trajectory: Trajectory, found: Findings) -> Iterator[tuple[float, Suspect]]:
    loop = found.whole.get("loops")
    if loop is not None and loop.cites and (loop.value or 0) >= LOOP:
        said = loop.reason or f"a cycle of {loop.value:.0f} calls"
        suspect = Suspect(first=min(loop.cites), last=max(loop.cites), kind="loop", evidence=said)
        yield 1.5 + 0.25 * min(loop.value or 0, LONG_LOOP), suspect
    cited = set(found.cites("redundant_calls"))
    for again, before in repeats(trajectory.exchanges, None):
        if again.step in cited:
            said = f"asks again what {before.step} answered: {words(again.call)}"
            yield REPEAT, _one(again.step, "repeat", said)


def _one(step: int, kind: SuspectKind, said: str) -> Suspect:
    return Suspect(first=step, last=step, kind=kind, evidence=said)


def _excused(weight: float, suspect: Suspect) -> bool:
    """Whether a passing outcome takes the suspicion away: an error that was got over, an ending."""
    return suspect.kind in ("end", "untold") or (suspect.kind == "error" and weight < 4.0)
