"""Where runs may have broken: their curves, one list of suspects each, and the runs to read first.

A failed run has every step of the agent in it, in the order of `findings.ranking`, each with its
probability. Any other has first the errors that a judge says nobody looked back at, then what is
proved of it (what changed nothing last), what judges cite, and findings of the rules in reading
order, without probabilities. Why a run counts as failed is no suspect: it is a line of its own.
Where nobody scored there is no curve: labels of rules are no scores (docs/design/score-curves.md).
Runs to read first are selected: no rate may be computed on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from math import sqrt

import msgspec
import numpy as np

from stepscope.errors import StoreError
from stepscope.findings import ranking as rank
from stepscope.measures.calls import agent_calls, compared_error, error_message
from stepscope.measures.conduct import find_decision, ways_to_ask
from stepscope.measures.language import WANTS, sentences
from stepscope.measures.localise import Kind
from stepscope.measures.outcome import ANOTHER_WAY, subgoal_calls
from stepscope.measures.same_calls import is_same_purpose, redundant_calls
from stepscope.model import Case, Exchange, Json, Record, Step, SubGoal, Trajectory, Verdict
from stepscope.model.effects import infer_effect
from stepscope.model.records import IMPORTED, STEP_SCORES
from stepscope.report import rows, words
from stepscope.report.rows import RuleFindings, RunTable, sort_findings
from stepscope.report.types import Curve, LookFirst, SuspectKind, SuspectSteps
from stepscope.report.words import AXES, INCORRECT
from stepscope.shape.breaks import fuse_signals, third_slopes
from stepscope.shape.classifier import classify
from stepscope.shape.types import HEALTHY
from stepscope.shape.weights import FLOOR, gate_failed, weighted_score
from stepscope.stats.sample import Floats, Ints
from stepscope.store import Store
from stepscope.store.judged import JudgeAnswers, current_records, keep_chosen
from stepscope.store.records import COST, EVERY_TASK, LATENCY
from stepscope.store.where import Where
from stepscope.values import Estimate, Unmeasured, format_number, format_percent

# Evidence names at most this many differing arguments; the rest are counted.
NAMED_DIFFERENCES = 2
# What the agent did about an error that leaves nothing to suspect, when it happened once.
HANDLED = frozenset({"recovered", "replanned", "reported"})


def find_failed_calls(
    trajectory: Trajectory, handled: dict[int, str]
) -> Iterator[tuple[float, SuspectSteps]]:
    """Yield a suspect for each tool that failed, weighed; `handled` is by step that is cited."""
    by_tool: dict[str, list[Exchange]] = {}
    for exchange in trajectory.exchanges:
        by_tool.setdefault(exchange.call.name, []).append(exchange)
    for tool, exchanges in by_tool.items():
        failed = [e for e in exchanges if e.failed]
        if not failed:
            continue
        first, last = failed[0], failed[-1]
        texts = [quote_error(e) for e in failed]
        later = [e for e in exchanges if e.position > last.position and not e.failed]
        after = next((e for e in later if is_same_purpose(last.call, e.call)), None)
        answered = {e.step: e.step if e.result_step is None else e.result_step for e in failed}
        labels = {handled.get(at) or handled.get(end, "") for at, end in answered.items()}
        times = len(failed)
        alike = len({compared_error(e) for e in failed}) == 1
        same, at_last = (" with the same error", "") if alike else ("", "; last error")
        if times == 1:
            ends = {"ignored": ", and is ignored", "repeated": ", and is repeated"}
            said = f"{tool} fails{ends.get(next(iter(labels)), '')}: {texts[0]}"
        elif after is not None:
            said = f"{tool} fails {times} times{same}, then step {after.step} succeeds{at_last}: "
            said += texts[-1]
        elif last is trajectory.exchanges[-1]:
            said = f"{tool} fails {times} times{same}, and the run ends on it{at_last}: {texts[-1]}"
        else:
            said = f"{tool} fails {times} times{same} and never succeeds{at_last}: {texts[-1]}"
        settled = after is not None or labels <= HANDLED
        weight = (1.0 if settled else 4.0) + 0.5 * (times - 1) + (1.0 if times > 1 else 0.0)
        stop = after.step if after is not None and times > 1 else last.step
        yield weight, SuspectSteps(first=first.step, last=stop, kind="error", evidence=said)


def quote_error(exchange: Exchange) -> str:
    """Return the first line of an error, without the word that only says it is one."""
    result = exchange.result
    if result is None:
        return "no result"
    line = error_message(result) or words.describe_value(result.structured) or "no text"
    return line.removeprefix("Error:").strip() or "no text"


def find_missed_goals(
    trajectory: Trajectory, goals: list[SubGoal]
) -> Iterator[tuple[float, SuspectSteps]]:
    """Yield the nearest attempts at missed sub-goals, weighed; one call is one suspect."""
    near: dict[int, list[tuple[Exchange, SubGoal]]] = {}
    for goal in goals:
        tries = [e for e in trajectory.exchanges if e.call.name == goal.tool]
        if tries:
            nearest = min(tries, key=lambda e: (len(find_lacks(e, goal)), e.failed, -e.position))
            near.setdefault(nearest.position, []).append((nearest, goal))
    for attempts in near.values():
        attempt, goal = attempts[0]
        more = f" ({len(attempts)} sub-goals missed)" if len(attempts) > 1 else ""
        lacks = find_lacks(attempt, goal)
        how = "is not as expected" if lacks else "is as expected, but"
        parts = [
            f"{path} is {words.brief_value(was) or repr(was)}, "
            f"not {words.brief_value(want) or repr(want)}"
            for path, was, want in lacks[:NAMED_DIFFERENCES]
        ]
        if len(lacks) > NAMED_DIFFERENCES:
            parts.append(f"{len(lacks) - NAMED_DIFFERENCES} more differ")
        if attempt.failed:
            parts.append(f"refused: {quote_error(attempt)}")
        said = f"{goal.tool} {how}{more}: {('; '.join(parts) or 'called out of order')}"
        yield 3.0, SuspectSteps(first=attempt.step, last=attempt.step, kind="missed", evidence=said)


def find_uncalled_goals(trajectory: Trajectory, goals: list[SubGoal]) -> str:
    """Return which sub-goals were never tried, and where the run stopped; "" for none."""
    tried = {exchange.call.name for exchange in trajectory.exchanges}
    never = [goal for goal in goals if goal.tool not in tried]
    if not never:
        return ""
    names = []
    for goal in never[:NAMED_DIFFERENCES]:
        named = next((item for item in goal.arguments.values() if isinstance(item, str)), None)
        names.append(f"{goal.tool}({named}, ...)" if named else goal.tool)
    rest = len(never) - NAMED_DIFFERENCES
    stop = "made no call at all: it never called"
    if trajectory.exchanges:
        last = trajectory.exchanges[-1]
        stop = f"stopped after {last.call.name} at step {last.step} and never called"
    return f"{stop} {', '.join(names)}{f' and {rest} more' if rest > 0 else ''}"


def find_lacks(exchange: Exchange, goal: SubGoal) -> list[tuple[str, Json, Json]]:
    """Return what a call has otherwise than expected: path, value, expected value."""
    given = exchange.call.arguments if isinstance(exchange.call.arguments, dict) else {}
    wanted = goal.arguments
    return list(words.find_differences({name: given.get(name) for name in wanted}, wanted))


def add_curve_suspects(
    curve: Curve | Unmeasured | None, others: Sequence[SuspectSteps]
) -> tuple[SuspectSteps, ...]:
    """Return the suspects of a run that is not ranked, those of its scores first."""
    if not isinstance(curve, Curve):
        return tuple(others)
    return (*(_broken(curve) or _throughout(curve)), *_gates(curve), *others)


def _broken(curve: Curve) -> tuple[SuspectSteps, ...]:
    first, last, step = curve.break_first, curve.break_last, curve.break_step
    if first is None or last is None or step is None or isinstance(curve.shape, Unmeasured):
        return ()
    points = list(zip(curve.steps, curve.scores, strict=True))
    before = _mean([value for index, value in points if value is not None and index < first])
    after = _mean([value for index, value in points if value is not None and index > last])
    fall = f" from {before}" if before else ""
    fall += f" to {after}" if after and curve.shape != "recovery" else ""
    share = curve.posterior.get(curve.shape)
    sure = f", probability {format_percent(share)}" if share else ""
    said = f"the scores fall{fall} at step {step}: {words.name_shape(curve.shape)}{sure}"
    return (SuspectSteps(first=first, last=last, kind="break", evidence=said),)


def _throughout(curve: Curve) -> tuple[SuspectSteps, ...]:
    """Return the whole run where no one step stands out: it loses at every step, or is low."""
    if isinstance(curve.shape, Unmeasured):
        return ()
    if curve.shape == "steady_degradation":
        share = format_percent(curve.posterior[curve.shape])
        said = f"the scores fall steadily: steady degradation, probability {share}"
    elif curve.low_level and curve.mean is not None:
        said = f"the scores are low throughout: mean {format_number(curve.mean.value)}"
    else:
        return ()
    return (SuspectSteps(first=curve.steps[0], last=curve.steps[-1], kind="break", evidence=said),)


def _mean(scores: Sequence[float]) -> str:
    return format_number(sum(scores) / len(scores)) if scores else ""


def _gates(curve: Curve) -> tuple[SuspectSteps, ...]:
    score = dict(zip(curve.steps, curve.scores, strict=True))
    said = f"a step of weight 3 scored {{}}, below {format_number(FLOOR)}"
    return tuple(
        _suspect_at(step, "gate", said.format(format_number(score[step] or 0.0)))
        for step in curve.gate_failed
        if step != curve.break_step
    )


# Reading order of the kinds: breaking a declared rule first, asking twice for a known answer last.
KIND_WEIGHTS = {"violation": 5.0, "other_write": 3.0, "end": 1.5}
REPEAT_WEIGHT = 0.5
# A finding that was not handled weighs at least this.
STRONG_WEIGHT = 4.0
# What `localise` may say of a step of any failed run: no mark on it.
WEAK_KINDS = frozenset[Kind | rank.StoreKind]({"write", "code", "end", "place"})
# What `localise` says of a step where these findings say the same, and more.
SAID_BETTER: dict[SuspectKind, frozenset[Kind | rank.StoreKind]] = {
    "error": frozenset({"failed", "repeated", "ignored"}),
    "loop": frozenset({"repeat", "repeated", "failed"}),
    "missed": frozenset({"wrong_write"}),
    "other_write": frozenset({"other_write"}),
    "repeat": frozenset({"repeat"}),
    "violation": frozenset({"unconfirmed"}),
}
STORE_KINDS: dict[Kind | rank.StoreKind, SuspectKind] = {
    "new_write": "new_write",
    "breach": "violation",
    "fault": "fault",
    "judge_cause": "judge",
    "judge_cascade": "judge",
    "judge_fault": "judge",
    "judge_error": "judge",
    "break": "break",
    "gate": "gate",
}
# Writes that nothing asks for are named up to this many; the rest are counted.
NAMED_WRITES = 2
# A cycle shorter than three calls is a repeat, not a loop; beyond twelve calls it is no worse.
SHORTEST_LOOP, LONGEST_LOOP = 3, 12


def list_suspects(
    trajectory: Trajectory,
    case: Case | None,
    records: Iterable[Record],
    *,
    curve: Curve | Unmeasured | None = None,
    evidence: Iterable[rank.StepEvidence] = (),  # what other runs say, see `compare_with_trials`
    fit: rank.StoreFit | None = None,  # what the labels of the store add to the shipped ranking
) -> LookFirst:
    """Return the suspects of one run, most telling first, and why it failed.

    A passing run is suspected only of what its outcome does not excuse: violations, writes that
    nothing asked for, sub-goals missed, errors never got over, loops, repeated calls, and what
    judges cite but for errors that the agent came back to.
    """
    held = list(records)
    found = sort_findings(held)
    goals = list_unreached(trajectory, case, found)
    weighed = list(_findings(trajectory, case, found, goals))
    status, unranked = trajectory.outcome.status, ""
    if status == "pass":
        weighed = [
            (weight, one)
            for weight, one in weighed
            if not (one.kind == "end" or (one.kind == "error" and weight < STRONG_WEIGHT))
        ]
    weighed.sort(key=lambda item: (-item[0], item[1].first, item[1].kind))
    findings = [one for _, one in weighed]
    because = "" if status == "pass" else "; ".join(_reasons(trajectory, found, goals))
    id_, name, steps = trajectory.id, trajectory.name, len(trajectory.steps)
    look = LookFirst(id=id_, name=name, outcome=status, steps=steps, suspects=(), because=because)
    if status == "fail":
        said = [*_curve_evidence(curve), *evidence]
        ranked = rank.rank_steps(current_records(held), said, trajectory=trajectory, fit=fit)
        if isinstance(ranked, rank.StepRanking):
            # What scores say of the whole run, where they break at no step.
            low = isinstance(curve, Curve) and not _broken(curve)
            whole = _throughout(curve) if isinstance(curve, Curve) and low else ()
            suspects = _merge(ranked, [*findings, *whole])
            reliability = rank.describe_reliability(ranked.family)
            return msgspec.structs.replace(
                look, suspects=suspects, nobody=ranked.nobody, reliability=reliability
            )
        if ranked is rank.NOT_RANKED:
            unranked = f"Not ranked: {ranked.reason}"
    # Who only reads, or tries once more in vain, harmed nobody: behind what was told or written.
    failed: set[str] = set()
    harmless: set[int] = set()
    for x in agent_calls(trajectory):
        if infer_effect(x.call.name) == "read" or (x.failed and x.key in failed):
            harmless.add(x.step)
        if x.failed:
            failed.add(x.key)
    proofs = rank.find_proofs(current_records(held))
    proofs.sort(key=lambda one: one.step in harmless)
    kinds = {"judge_cascade", "judge_fault", "judge_cause"}
    kinds |= set() if status == "pass" else {"judge_error"}
    said_of = rank.evidence_of_records(current_records(held))
    judged = [one for one in said_of if one.kind in kinds]
    judged.sort(key=lambda one: (one.kind != "judge_cascade", one.step))
    leading = sum(one.kind == "judge_cascade" for one in judged)
    proofs = [*judged[:leading], *proofs, *judged[leading:]]
    others = _lead_with(proofs, add_curve_suspects(curve, findings))
    return msgspec.structs.replace(look, suspects=others, reliability=unranked)


Trials = Callable[[str, str], Sequence[Trajectory]]  # of a task, by its workflow and its name


def list_passing_trials(store: Store, tasks: Iterable[str | None]) -> Trials:
    """Return what reads the first passing trials of some tasks, by name."""
    found: dict[tuple[str, str], list[int]] = {}
    some = msgspec.json.encode({*tasks}).decode()
    same = "runs.outcome = 'pass' AND runs.task IN (SELECT value FROM json_each(?))"
    runs = store.runs(Where(same, (some,)))
    for workflow, task, key in zip(runs.workflow, runs.task, runs.key.tolist(), strict=True):
        found.setdefault((workflow, task), []).append(key)

    @lru_cache(8)  # many of the runs to look at first are of the same few tasks
    def read(workflow: str, task: str) -> Sequence[Trajectory]:
        stored = store.stored(found.get((workflow, task), ()))
        return [one.trajectory for one in islice(stored, rank.MOST_TRIALS)]

    return read


def compare_with_trials(
    store: Store, run: Trajectory, trials: Trials
) -> tuple[rank.StepEvidence, ...]:
    """Return what the passing trials of a failed run's task say of its steps, all as stored."""
    if run.outcome.status != "fail" or run.task is None or not agent_calls(run):
        return ()
    found = rank.find_new_write(run, trials(run.workflow, run.task), store.facts(run.workflow))
    return () if found is None else (found,)


def _reasons(trajectory: Trajectory, found: RuleFindings, goals: list[SubGoal]) -> Iterator[str]:
    """Yield why a run counts as failed, what was missed first."""
    told = found.whole.get("subgoals.outputs")
    untold = told.reason if told is not None and told.label != "all" else ""
    untold = untold.replace("never told the user ", "never told the user these values: ", 1)
    if missed := [x for x in (untold, find_uncalled_goals(trajectory, goals)) if x]:
        yield f"the agent {'; it '.join(missed)}"
    if trajectory.outcome.source == "check" and trajectory.outcome.reason:
        yield f"its check reports: {trajectory.outcome.reason}"


def _merge(ranked: rank.StepRanking, findings: Sequence[SuspectSteps]) -> tuple[SuspectSteps, ...]:
    """Return the ranked steps with what was found at each; what no such step has comes last."""
    at: dict[int, list[SuspectSteps]] = {}
    for one in findings:
        at.setdefault(one.first, []).append(one)
    steps = [_merge_step(one, at.pop(one.step, [])) for one in ranked.steps]
    return (*steps, *(one for here in at.values() for one in here))


def _lead_with(
    proofs: Iterable[rank.StepEvidence], findings: Sequence[SuspectSteps]
) -> tuple[SuspectSteps, ...]:
    """Return the steps at which something is proved, the first one first, then what was found."""
    at: dict[int, list[rank.StepEvidence]] = {}
    for proof in proofs:
        at.setdefault(proof.step, []).append(proof)
    lead = []
    for step, here in at.items():
        found = [one.evidence for one in findings if one.first == one.last == step]
        said = "; ".join(dict.fromkeys([*(one.reason for one in here), *found]))
        cites = tuple(sorted(set[int]().union(*(one.cites for one in here))))
        lead.append(_suspect_at(step, STORE_KINDS[here[0].kind], said, cites=cites))
    return (*lead, *(one for one in findings if one.first != one.last or one.first not in at))


def _merge_step(ranked: rank.RankedStep, here: Sequence[SuspectSteps]) -> SuspectSteps:
    known = frozenset[Kind | rank.StoreKind]().union(*(SAID_BETTER.get(x.kind, ()) for x in here))
    said = [one.evidence for one in here]
    if not (here or ranked.more) or (ranked.label not in known | WEAK_KINDS):
        said.append(ranked.own)
    said += ranked.more
    if ranked.kind in STORE_KINDS:
        kind = STORE_KINDS[ranked.kind]
    elif here:
        kind = here[0].kind
    else:
        kind = "place" if ranked.kind in WEAK_KINDS else "localised"
    made = _suspect_at(ranked.step, kind, "; ".join(dict.fromkeys(said)), cites=ranked.cites)
    return msgspec.structs.replace(made, share=ranked.share)


def _curve_evidence(curve: Curve | Unmeasured | None) -> Iterator[rank.StepEvidence]:
    """Yield what a curve of scores says of single steps."""
    if not isinstance(curve, Curve):
        return
    for one in (*_broken(curve), *_gates(curve)):
        step = curve.break_step if one.kind == "break" else one.first
        if step is not None:
            kind: rank.StoreKind = "break" if one.kind == "break" else "gate"
            yield rank.StepEvidence(step, kind, one.evidence, (step,))


def list_unreached(trajectory: Trajectory, case: Case | None, found: RuleFindings) -> list[SubGoal]:
    """Return the sub-goals of the case that no successful call of the run reached."""
    verdict = found.whole.get("subgoals")
    if case is None or verdict is None or verdict.label in ("all", ANOTHER_WAY):
        return []
    taken = subgoal_calls(case, trajectory)
    return [goal for goal, at in zip(case.called, taken, strict=True) if at is None]


def _findings(
    trajectory: Trajectory, case: Case | None, found: RuleFindings, goals: list[SubGoal]
) -> Iterator[tuple[float, SuspectSteps]]:
    for verdict in found.by_step.get("policy", ()):
        if verdict.step is not None:
            said = f"breaks the rule {verdict.label!r}: {verdict.reason}".removesuffix(": ")
            yield KIND_WEIGHTS["violation"], _suspect_at(verdict.step, "violation", said)
    yield from find_failed_calls(trajectory, found.labels("recovery"))
    near = list(find_missed_goals(trajectory, goals))
    yield from near
    others = list(_other_writes(trajectory, found, {suspect.first for _, suspect in near}))
    yield from others
    loop = found.whole.get("loops")
    if loop is not None and loop.cites and (loop.value or 0) >= SHORTEST_LOOP:
        said = loop.reason or f"a cycle of {loop.value:.0f} calls"
        suspect = _suspect_at(min(loop.cites), "loop", said, last=max(loop.cites))
        yield 1.5 + 0.25 * min(loop.value or 0, LONGEST_LOOP), suspect
    cited = set(found.cites("redundant_calls"))
    for again, before in redundant_calls(trajectory.exchanges, None) if cited else ():
        if again.step in cited:
            said = f"asks again what step {before.step} answered: {words.describe_call(again.call)}"
            yield REPEAT_WEIGHT, _suspect_at(again.step, "repeat", said)
    ending = found.whole.get("termination")
    # What was missed, or written beside it, says what a wrong end says, and where.
    if ending is not None and (
        ending.label == "limit"
        or ((ending.label in ("too_early", "too_late")) and not near + others)
    ):
        step = ending.cites[-1] if ending.cites else max(len(trajectory.steps) - 1, 0)
        said = ending.reason or str(ending.label).replace("_", " ")
        yield KIND_WEIGHTS["end"], _suspect_at(step, "end", said)


def _other_writes(
    trajectory: Trajectory, found: RuleFindings, explained: set[int]
) -> Iterator[tuple[float, SuspectSteps]]:
    """Yield the writes that the reference lacks, apart from those that the user asked for."""
    cited = set(found.cites("subgoals.other_writes")) - explained
    calls = [e for e in trajectory.exchanges if e.step in cited and not e.failed]
    proved = {v.step for name in (*words.AXES, "policy") for v in found.by_step.get(name, ())}
    asked = {e.step: find_request(trajectory, e) for e in calls if e.step not in proved}
    for wanted in (False, True):
        held = [e for e in calls if (asked.get(e.step) is not None) == wanted]
        named = ", ".join(words.describe_call(e.call) for e in held[:NAMED_WRITES])
        named += f" and {len(held) - NAMED_WRITES} more" if len(held) > NAMED_WRITES else ""
        said = f"unexpected write: {named}"
        if wanted and held:
            said = f"the user requested this at step {asked[held[0].step]}, but it is not in the "
            said += f"reference: {named}"
            said += "; not judged: whether the policy allows it"
        if held:
            suspect = _suspect_at(held[0].step, "other_write", said, last=held[-1].step)
            yield KIND_WEIGHTS["other_write"], suspect


# Steps before a write in which its request is looked for: a run of 100,000 has thousands of writes.
LOOK_BACK = 400


def find_request(trajectory: Trajectory, write: Exchange) -> int | None:
    """Return the user's message before a write that asks for it; None where none does.

    It names what is done as a wish, none after it takes that back, and all that the call passes was
    said by the user: who says yes to a proposal, or leaves the details open, has asked for less.
    """
    verbs, _ = ways_to_ask(write.call.name)
    before = trajectory.steps[max(write.step - LOOK_BACK, 0) : write.step]
    heard = [s for s in before if s.actor == "user" and s.text]
    passed = words.describe_value(write.call.arguments).replace(" + ", " ").split()
    if verbs is None or not all(any(one in step.text for step in heard) for one in passed):
        return None
    for step in reversed(heard):
        if find_decision(step.text) in ("refuses", "takes back", "hesitates", "asks back"):
            return None
        if any(verbs.search(one.casefold()) and WANTS.search(one) for one in sentences(step.text)):
            return step.index
    return None


def _suspect_at(
    step: int, kind: SuspectKind, said: str, last: int | None = None, cites: tuple[int, ...] = ()
) -> SuspectSteps:
    last = step if last is None else last
    return SuspectSteps(first=step, last=last, kind=kind, evidence=said, cites=cites)


# What one finding weighs in choosing a run. Counts are capped, so that one long run with many
# small findings does not stand before a broken rule.
FINDING_WEIGHTS = {
    "policy": 5.0,
    "subgoals.other_writes": 1.5,
    "errors": 0.5,
    "redundant_calls.count": 0.25,
}
COUNT_CAP = 6.0
MISSED_WEIGHT, LEFT_WEIGHT, LOOP_WEIGHT = 1.0, 2.0, 0.25
GATE_WEIGHT, BREAK_WEIGHT, LOW_WEIGHT = 3.0, 2.0, 1.0
# What a judge faults weighs like a sub-goal missed. An error that nobody looked back at is read
# before all else: more than everything above can come to.
JUDGED_WEIGHT, CASCADE_WEIGHT = 1.0, 1_000.0
# A failing run comes before any passing one, but for passes that were badly unearned. Where nobody
# says how a run ended, a proved fault weighs as much, or the run is never read.
FAILED_WEIGHT = 4.0


def weigh_runs(table: RunTable) -> Floats:
    """Return what was found in each run, weighed; 0 for a passing run without findings."""
    total = np.zeros(len(table))
    for measure, weight in FINDING_WEIGHTS.items():
        total += weight * np.minimum(_values_or_zero(table, measure), COUNT_CAP)
    goals, recovery = table.columns["subgoals"], table.columns["recovery"]
    total += MISSED_WEIGHT * np.where(goals.valued, 1 - _values_or_zero(table, "subgoals"), 0.0)
    left = np.where(recovery.valued, 1 - _values_or_zero(table, "recovery"), 0.0)
    total += LEFT_WEIGHT * np.minimum(left * _values_or_zero(table, "errors"), COUNT_CAP)
    total += LOOP_WEIGHT * np.minimum(_values_or_zero(table, "loops"), COUNT_CAP)
    known, passed = rows.read_outcomes(table)
    excused = passed & (_values_or_zero(table, "policy") == 0)
    excused &= _values_or_zero(table, "subgoals.other_writes") == 0
    excused &= ~goals.valued | (_values_or_zero(table, "subgoals") >= 1)
    total[excused] *= 0.1
    failed, columns = ~passed, [table.columns[axis] for axis in AXES]
    failed[~known] = np.any([one.label[~known] == INCORRECT for one in columns], axis=0)
    total += FAILED_WEIGHT * failed
    if (shapes := table.shapes) is not None:
        broken = (shapes.label > HEALTHY) | (shapes.break_step >= 0)
        low = np.where(shapes.low_level, LOW_WEIGHT, 0.0)
        total += np.where(shapes.gate_failed, GATE_WEIGHT, 0.0)
        total += np.where(broken, BREAK_WEIGHT, 0.0) + low
    return total if table.judged is None else total + table.judged


def weigh_judged(judged: Iterable[JudgeAnswers], n: int) -> Floats:
    """Return what judges found in each of n runs, weighed."""
    said: dict[int, list[Record]] = {}
    for one in judged:
        for at, of_run in one.runs.items() if one.main else ():
            found = [of_run.whole, *of_run.steps.values()]
            said.setdefault(at, []).extend(chain.from_iterable(each.values() for each in found))
    total = np.zeros(n)
    for at, records in said.items():
        kinds = [one.kind for one in rank.evidence_of_records(records)]
        total[at] = min(JUDGED_WEIGHT * len(kinds), COUNT_CAP)
        total[at] += CASCADE_WEIGHT * ("judge_cascade" in kinds)
    return total


def choose_runs(table: RunTable, count: int | None) -> Ints:
    """Return the places of the chosen runs, most telling first, then by name; of all for None."""
    found = weigh_runs(table)
    order = np.argsort(-found, kind="stable")
    return order if count is None else order[found[order] > 0][:count]


def read_look_first(
    store: Store, table: RunTable, count: int | None, judged: Sequence[JudgeAnswers] | None = None
) -> Iterator[LookFirst]:
    """Yield the chosen runs, read whole, with suspects and command; of judges those in `judged`."""
    given = None if table.shapes is None else (store.noise(), store.weights())
    fit = rank.read_fit(store.path)
    chosen = choose_runs(table, count)
    trials = list_passing_trials(store, table.runs.task[chosen])
    for at in chosen.tolist():
        key, name = table.runs.id[at], table.runs.name[at]
        handle = store.handle(key, name)
        command = f"stepscope show {handle}"
        try:
            trajectory = store.trajectory(key)
        except StoreError as e:  # its texts were purged; its records still speak in the figures
            outcome, steps, note = table.runs.outcome[at], int(table.runs.steps[at]), str(e)
            look = LookFirst(
                id=key, name=name, outcome=outcome, steps=steps, suspects=(), note=note
            )
        else:
            evidence = compare_with_trials(store, trajectory, trials)
            records = keep_chosen(store.records(trajectory=key), judged)
            trajectory, records = rows.hide_secrets(store.shown, trajectory, records)
            curve = None
            if given is not None:
                curve = make_curve(trajectory, records, noise=given[0], weights=given[1])
            case = trajectory.case
            look = list_suspects(trajectory, case, records, curve=curve, evidence=evidence, fit=fit)
        yield msgspec.structs.replace(look, command=command, handle=handle)


def _values_or_zero(table: RunTable, measure: str) -> Floats:
    """Return a column's numbers, 0 where it has none: for weighing only, never for a figure."""
    column = table.columns[measure]
    return np.where(column.valued, np.nan_to_num(column.value), 0.0)


NO_SCORES = Unmeasured("missing_input", "the steps of this run have no scores")
# Of a curve whose scores are known and whose shape is not asked for yet.
NO_SHAPE = Unmeasured("undefined", "")


def read_points(records: Iterable[Record], noise: Mapping[str, Estimate]) -> Curve | Unmeasured:
    """Return the curve of a run without its shape; `noise` is the sigma of each judge."""
    by_scorer: dict[tuple[str, str], dict[int, list[float | None]]] = {}
    for record in records:
        answer = record.answer
        if answer.measure == STEP_SCORES and answer.step is not None:
            value = answer.value if isinstance(answer, Verdict) else None
            steps = by_scorer.setdefault((record.family, record.judge), {})
            steps.setdefault(answer.step, []).append(value)
    if not by_scorer:
        return NO_SCORES
    (family, judge), steps = max(
        sorted(by_scorer.items()),
        key=lambda item: sum(any(v is not None for v in values) for values in item[1].values()),
    )
    known = {step: [v for v in steps[step] if v is not None] for step in sorted(steps)}
    repeats = min((len(values) for values in known.values() if values), default=1)
    most = noise[judge].high if judge in noise else None
    sigma = None if most is None else min(most / sqrt(repeats), 1.0)
    others = ", ".join([other or "unnamed" for _, other in sorted(by_scorer) if other != judge])
    return Curve(
        steps=tuple(known),
        scores=tuple([sum(values) / len(values) if values else None for values in known.values()]),
        source="imported" if family == IMPORTED else "judge",
        judge=judge,
        repeats=repeats,
        sigma=sigma,
        sigma_source="marginalised" if sigma is None else "repeats",
        shape=NO_SHAPE,
        notes=(f"scores of {others} are left aside",) if others else (),
    )


Weights = Mapping[tuple[str, str], tuple[float, ...]]
Cells = tuple[float | None, ...]


def read_curve(store: Store, trajectory_id: str) -> Curve | Unmeasured:
    """Return the score curve of one run with its shape and break, or why there is none."""
    try:
        trajectory = store.trajectory(trajectory_id)
    except StoreError:
        trajectory = None  # its texts were purged; its numbers still make a curve
    records = store.records(trajectory=trajectory_id)
    return make_curve(trajectory, records, noise=store.noise(), weights=store.weights())


def make_curve(
    trajectory: Trajectory | None,  # the run; None where its texts were purged
    records: Iterable[Record],  # all records of the run
    *,
    noise: Mapping[str, Estimate],  # the sigma of each judge, from repeated scorings
    weights: Weights,  # weights by workflow and task
) -> Curve | Unmeasured:
    """Return the score curve of a run from its records."""
    held = list(records)
    found = read_points(held, noise)
    if isinstance(found, Unmeasured):
        return found
    scored = found.steps
    made = rows.sort_findings(held).cites("step_labels.steps")
    made_by = () if trajectory is None else trajectory.steps
    size = max(scored) + 1 if trajectory is None else len(made_by)
    points = dict(zip(scored, found.scores, strict=True))
    steps = tuple(rows.axis_of(scored, made, size))
    scores = tuple([points.get(step) for step in steps])
    found = msgspec.structs.replace(found, steps=steps, scores=scores)
    told: dict[str, dict[int, float]] = {LATENCY: {}, COST: {}}
    for record in held:
        answer = record.answer
        if answer.measure in told and isinstance(answer, Verdict):
            if answer.step is not None and answer.value is not None:
                told[answer.measure][answer.step] = answer.value
    used: dict[int, float] = {}
    for step, before in zip(made_by, (None, *made_by), strict=False):
        if (seconds := _seconds(step, before)) is not None:
            told[LATENCY].setdefault(step.index, seconds)
        if step.cost_usd is not None:
            told[COST].setdefault(step.index, step.cost_usd)
        if step.usage is not None and step.usage.output_total is not None:
            used[step.index] = step.usage.output_total
    rows_of = (tuple([x.get(step) for step in steps]) for x in (told[LATENCY], told[COST], used))
    latency, cost, tokens = (row if any(x is not None for x in row) else None for row in rows_of)
    slopes = third_slopes(found.scores)
    known = None if isinstance(slopes, Unmeasured) else slopes
    drawn = msgspec.structs.replace(found, latency_s=latency, cost_usd=cost, slopes=known)
    # Tokens spike where the cost would.
    drawn = _shaped(drawn, tokens if cost is None else cost)
    if trajectory is None:
        return drawn
    drawn = msgspec.structs.replace(drawn, id=trajectory.id, name=trajectory.name)
    # The weights of its task, else those of every task.
    own = weights.get((trajectory.workflow, trajectory.task or trajectory.name))
    every = weights.get((trajectory.workflow, EVERY_TASK))
    return _weighed(drawn, scored, every if own is None else own)


def _shaped(drawn: Curve, cost: Cells | None) -> Curve:
    """Return a curve with shape and break; `cost` in any unit says where it spiked."""
    shape = classify(drawn.scores, sigma=drawn.sigma)
    if isinstance(shape, Unmeasured):
        return msgspec.structs.replace(drawn, shape=shape)
    broke = shape.break_.probability
    found = fuse_signals(
        broke, drawn.scores, latency=drawn.latency_s, cost=cost, unmodelled=shape.unmodelled
    )
    sure = found.step is not None and not shape.unmodelled
    entries = (found.step, found.first, found.last) if sure else (None, None, None)
    step, first, last = (None if at is None else drawn.steps[at] for at in entries)
    return msgspec.structs.replace(
        drawn,
        shape=shape.label,
        best=shape.best,
        runner_up=shape.runner_up,
        posterior={str(name): share for name, share in shape.posterior.items()},
        unmodelled=shape.unmodelled,
        low_level=shape.low_level,
        mean=shape.mean,
        depth=shape.depth,
        trough_length=shape.trough_length if shape.label == "recovery" else None,
        break_probability=found.probability,
        break_step=step,
        break_first=first,
        break_last=last,
        watch=tuple([drawn.steps[at] for at in found.watch]),
    )


def _weighed(drawn: Curve, scored: Sequence[int], weights: tuple[float, ...] | None) -> Curve:
    """Weigh all steps of a curve, or those that have rows, whichever the weights are of."""
    if weights is None:
        return drawn
    points = dict(zip(drawn.steps, drawn.scores, strict=True))
    steps = drawn.steps if len(weights) == len(points) else scored
    if len(weights) != len(steps):
        note = f"not weighed: {len(weights)} weights are fixed for {len(steps)} scored steps"
        return msgspec.structs.replace(drawn, notes=(*drawn.notes, note))
    scores = [points[step] for step in steps]
    mean = weighted_score(scores, weights)
    failed = gate_failed(scores, weights, sigma=drawn.sigma)
    known = None if isinstance(mean, Unmeasured) else mean
    below = () if isinstance(failed, Unmeasured) else tuple([steps[at] for at in failed])
    return msgspec.structs.replace(drawn, weights=weights, weighted=known, gate_failed=below)


def _seconds(step: Step, before: Step | None) -> float | None:
    """Return how long a step took: by its own times, else since the step before began."""
    begun = before.start if before is not None else None
    begin, end = (step.start, step.end) if step.end is not None else (begun, step.start)
    if step.start is None or begin is None or end is None or end.ns < begin.ns:
        return None
    return (end.ns - begin.ns) / 1e9
