"""The score curve of a run, where it may have broken, with evidence, and the runs to read first.

Suspects are read from the rules' records, the run's own calls and its score curve; no judge is
asked. They are a reading order, not a probability: no accuracy is claimed for them, and no rate may
be computed on the runs to look at first. Shapes of curves are classified by `stepscope.shape`: the
scorer of most steps is taken and the others are named; repeated scorings of a step are averaged.
Where nobody gave scores, step labels of the rules stand in for them (docs/design/score-curves.md).
Too few scores for a shape still make a curve.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import sqrt

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope.errors import StoreError
from stepscope.measures.calls import agent_calls
from stepscope.measures.outcome import subgoal_candidates
from stepscope.measures.same_calls import largest_matching, redundant_calls
from stepscope.model import Case, Exchange, Json, Record, Step, SubGoal, Trajectory, Verdict
from stepscope.model.records import IMPORTED, STEP_SCORES
from stepscope.report.formatting import (
    brief_value,
    describe_call,
    describe_value,
    find_differences,
    format_score,
    format_share,
)
from stepscope.report.rows import (
    LABEL_SCORES,
    LABEL_SIGMA,
    FleetShapes,
    RuleFindings,
    RunTable,
    hide_secrets,
    read_outcomes,
    sort_findings,
)
from stepscope.report.types import Curve, LookFirst, SuspectKind, SuspectSteps
from stepscope.safety.text import visible_line
from stepscope.shape.breaks import fuse_signals, third_slopes
from stepscope.shape.classifier import classify
from stepscope.shape.types import HEALTHY
from stepscope.shape.weights import FLOOR, gate_failed, weighted_score
from stepscope.store import Store
from stepscope.store.records import COST, EVERY_TASK, LATENCY
from stepscope.values import Estimate, Unmeasured

# Evidence names at most this many differing arguments; the rest are counted.
NAMED_DIFFERENCES = 2
# What the agent did about an error that leaves nothing to suspect, when it happened once.
HANDLED = frozenset({"recovered", "replanned", "reported"})


def find_failed_calls(
    trajectory: Trajectory, handled: dict[int, str]
) -> Iterator[tuple[float, SuspectSteps]]:
    """Yield one suspect for each tool that failed, with its weight.

    Args:
        trajectory: the run.
        handled: what the agent did about each error, by the step that the error is cited at.
    """
    by_tool: dict[str, list[Exchange]] = {}
    for exchange in trajectory.exchanges:
        by_tool.setdefault(exchange.call.name, []).append(exchange)
    for tool, exchanges in by_tool.items():
        failed = [e for e in exchanges if e.failed]
        if failed:
            yield _thread(tool, exchanges, failed, handled, len(trajectory.exchanges) - 1)


def _thread(
    tool: str,
    exchanges: list[Exchange],
    failed: list[Exchange],
    handled: dict[int, str],
    last_position: int,
) -> tuple[float, SuspectSteps]:
    first, last = failed[0], failed[-1]
    texts = [quote_error(e) for e in failed]
    after = next((e for e in exchanges if e.position > last.position and not e.failed), None)
    labels = {
        handled.get(e.step) or handled.get(e.step if e.result_step is None else e.result_step, "")
        for e in failed
    }
    times = len(failed)
    same = "same " if times > 1 and len(set(texts)) == 1 else ""
    if times == 1:
        said = f"{tool} fails{_ending(labels)}: {texts[0]}"
    elif after is not None:
        said = f"{tool} fails {times} times, accepted at {after.step}; {same or 'last '}error: "
        said += texts[-1]
    elif last.position == last_position:
        said = f"{same}{tool} error {times} times, ends on it: {texts[-1]}"
    else:
        said = f"{same}{tool} error {times} times, never accepted: {texts[-1]}"
    settled = after is not None or labels <= HANDLED
    weight = (1.0 if settled else 4.0) + 0.5 * (times - 1) + (1.0 if times > 1 else 0.0)
    stop = after.step if after is not None and times > 1 else last.step
    return weight, SuspectSteps(first=first.step, last=stop, kind="error", evidence=said)


def _ending(labels: set[str]) -> str:
    label = "".join(sorted(labels)) if len(labels) == 1 else ""
    return {"ignored": ", and is ignored", "repeated": ", and is repeated"}.get(label, "")


def quote_error(exchange: Exchange) -> str:
    """Return the first line of an error, without the word that only says it is one."""
    result = exchange.result
    if result is None:
        return "no result"
    text = (result.error or result.text or describe_value(result.structured)).strip()
    line = text.splitlines()[0] if text else "no text"
    return line.removeprefix("Error:").strip() or "no text"


def find_missed_goals(
    trajectory: Trajectory, goals: list[SubGoal]
) -> Iterator[tuple[float, SuspectSteps]]:
    """Yield where sub-goals were missed, with a weight: nearest attempts, or where the run stopped.

    Several sub-goals whose nearest attempt is one and the same call are one suspect.
    """
    never = []
    near: dict[int, list[tuple[Exchange, SubGoal]]] = {}
    for goal in goals:
        tries = [e for e in trajectory.exchanges if e.call.name == goal.tool]
        if tries:
            nearest = min(tries, key=lambda e: (len(_lacks(e, goal)), e.failed, -e.position))
            near.setdefault(nearest.position, []).append((nearest, goal))
        else:
            never.append(goal)
    for attempts in near.values():
        attempt, goal = attempts[0]
        more = f" ({len(attempts)} sub-goals missed)" if len(attempts) > 1 else ""
        how = "not as asked" if _lacks(attempt, goal) else "as asked, but"
        lacks = _lacks(attempt, goal)
        parts = [
            f"{path} {brief_value(was) or repr(was)}, expected {brief_value(want) or repr(want)}"
            for path, was, want in lacks[:NAMED_DIFFERENCES]
        ]
        if len(lacks) > NAMED_DIFFERENCES:
            parts.append(f"{len(lacks) - NAMED_DIFFERENCES} more differ")
        if attempt.failed:
            parts.append(f"refused: {quote_error(attempt)}")
        said = (
            f"{goal.tool} {how}{more}: {('; '.join(parts) or 'called, but not in the asked order')}"
        )
        yield 3.0, SuspectSteps(first=attempt.step, last=attempt.step, kind="missed", evidence=said)
    if never:
        first, last, how = _stop(trajectory)
        names = ", ".join(_goal(goal) for goal in never[:NAMED_DIFFERENCES])
        rest = len(never) - NAMED_DIFFERENCES
        said = f"{how} {names}{f' and {rest} more' if rest > 0 else ''}"
        yield 2.5, SuspectSteps(first=first, last=last, kind="missed", evidence=said)


def _goal(goal: SubGoal) -> str:
    named = next((item for item in goal.arguments.values() if isinstance(item, str)), None)
    return f"{goal.tool}({named}, ...)" if named else goal.tool


def _lacks(exchange: Exchange, goal: SubGoal) -> list[tuple[str, Json, Json]]:
    given = exchange.call.arguments if isinstance(exchange.call.arguments, dict) else {}
    wanted = goal.arguments
    return list(find_differences({name: given.get(name) for name in wanted}, wanted))


def _stop(trajectory: Trajectory) -> tuple[int, int, str]:
    """Return the last thing the agent did: first and last step of it, and in words."""
    spoken = [s.index for s in trajectory.steps if s.actor == "agent"]
    end = spoken[-1] if spoken else len(trajectory.steps) - 1
    if not trajectory.exchanges:
        return (spoken[0] if spoken else end), end, "makes no call at all; never"
    last = trajectory.exchanges[-1]
    return last.step, max(end, last.step), f"stops after {last.call.name}; never calls"


def add_curve_suspects(
    curve: Curve | Unmeasured | None, others: Sequence[SuspectSteps]
) -> tuple[SuspectSteps, ...]:
    """Return the suspects of a run, those of its scores first."""
    if not isinstance(curve, Curve) or curve.source == "step_labels":
        return tuple(others)
    return (*(_broken(curve) or _throughout(curve)), *_gates(curve), *others)


def _broken(curve: Curve) -> tuple[SuspectSteps, ...]:
    first, last, step = curve.break_first, curve.break_last, curve.break_step
    if first is None or last is None or step is None or isinstance(curve.shape, Unmeasured):
        return ()
    points = zip(curve.steps, curve.scores, strict=True)
    known = [(index, value) for index, value in points if value is not None]
    before = _mean([value for index, value in known if index < first])
    after = _mean([value for index, value in known if index > last])
    fall = f" from {before}" if before else ""
    fall += f" to {after}" if after and curve.shape != "recovery" else ""
    name = curve.shape.replace("_", " ")
    sure = format_share(curve.posterior.get(curve.shape, 0.0))
    shape = f"{name} {sure}" if curve.posterior.get(curve.shape) else name
    said = f"scores fall{fall} at {step}: {shape}"
    return (SuspectSteps(first=first, last=last, kind="break", evidence=said),)


def _throughout(curve: Curve) -> tuple[SuspectSteps, ...]:
    """Return the whole run where no one step stands out: it loses at every step, or is low."""
    if isinstance(curve.shape, Unmeasured):
        return ()
    if curve.shape == "steady_degradation":
        said = (
            f"scores fall steadily: steady degradation {format_share(curve.posterior[curve.shape])}"
        )
    elif curve.low_level and curve.mean is not None:
        said = f"scores are low throughout: mean {format_score(curve.mean.value)}"
    else:
        return ()
    return (SuspectSteps(first=curve.steps[0], last=curve.steps[-1], kind="break", evidence=said),)


def _mean(scores: Sequence[float]) -> str:
    return format_score(sum(scores) / len(scores)) if scores else ""


def _gates(curve: Curve) -> tuple[SuspectSteps, ...]:
    score = dict(zip(curve.steps, curve.scores, strict=True))
    said = f"a step of weight 3 scored {{}}, below {format_score(FLOOR)}"
    return tuple(
        _suspect_at(step, "gate", said.format(format_score(score[step] or 0.0)))
        for step in curve.gate_failed
        if step != curve.break_step
    )


# Reading order of the kinds: breaking a declared rule first, asking twice for a known answer last.
KIND_WEIGHTS = {"violation": 5.0, "other_write": 3.0, "untold": 2.0, "end": 1.5}
REPEAT_WEIGHT = 0.5
# From this weight on a suspect is not a thing that was handled, asked twice, or a mere ending.
STRONG_WEIGHT = 2.0
# What `localise` may say of a step of any failed run: evidence only where there is no other.
WEAK_LABELS = frozenset({"write", "end", "position"})
# Writes that nothing asks for are named up to this many; the rest are counted.
NAMED_WRITES = 2
# A cycle shorter than three calls is a repeat, not a loop; beyond twelve calls it is no worse.
SHORTEST_LOOP, LONGEST_LOOP = 3, 12


def list_suspects(
    trajectory: Trajectory, case: Case | None, records: Iterable[Record]
) -> tuple[SuspectSteps, ...]:
    """Return the suspects of one run, most telling first; () for a clean run.

    A passing run is suspected only of what its outcome does not excuse: violations, writes that
    nothing asked for, sub-goals missed, errors never got over, loops, repeated calls.
    """
    found = sort_findings(records)
    goals = list_unreached(trajectory, case, found)
    ranked = list(_ranked(trajectory, case, found, goals))
    passed = trajectory.outcome.status == "pass"
    if passed:
        ranked = [
            (w, s)
            for w, s in ranked
            if not (s.kind in ("end", "untold") or (s.kind == "error" and w < 4.0))
        ]
    ranked.sort(key=lambda item: (-item[0], item[1].first, item[1].kind))
    return tuple(_localised(ranked, found))


def _localised(ranked: list[tuple[float, SuspectSteps]], found: RuleFindings) -> list[SuspectSteps]:
    """Order ranked suspects by `localise`, where it ranked the steps, and add what it alone names.

    Strong suspects come first, by the most suspicious step they speak of; then steps that only
    `localise` names; then weak suspects.
    """
    steps = [(v.step, v) for v in found.by_step.get("localise", ()) if v.step is not None]
    steps.sort(key=lambda item: (-(item[1].value or 0.0), item[0]))

    def share(suspect: SuspectSteps) -> float:
        return max((v.value or 0.0 for step, v in steps if _at(suspect, step)), default=0.0)

    strong = [suspect for weight, suspect in ranked if weight >= STRONG_WEIGHT]
    strong.sort(key=share, reverse=True)
    own = [
        (verdict.label in WEAK_LABELS, _suspect_at(step, "localised", verdict.reason))
        for step, verdict in steps
        if not any(_at(suspect, step) for _, suspect in ranked)
    ]
    named = [suspect for weak, suspect in own if not weak]
    rest = [suspect for weight, suspect in ranked if weight < STRONG_WEIGHT]
    return strong + named + rest or [suspect for _, suspect in own[:1]]


def _at(suspect: SuspectSteps, step: int) -> bool:
    return suspect.first <= step <= suspect.last


def list_unreached(trajectory: Trajectory, case: Case | None, found: RuleFindings) -> list[SubGoal]:
    """Return the sub-goals of the case that no successful call of the run reached."""
    verdict = found.whole.get("subgoals")
    if case is None or verdict is None or verdict.label == "all":
        return []
    taken = largest_matching(subgoal_candidates(case.subgoals, agent_calls(trajectory)))
    return [goal for goal, at in zip(case.subgoals, taken, strict=True) if at is None]


def _ranked(
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
    yield from _cycles(trajectory, found)
    told = found.whole.get("subgoals.outputs")
    if told is not None and told.label != "all":
        spoken = [s.index for s in trajectory.steps if s.actor == "agent" and s.text]
        yield (
            KIND_WEIGHTS["untold"],
            _suspect_at(
                (spoken[-1] if spoken else max(len(trajectory.steps) - 1, 0)), "untold", told.reason
            ),
        )
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
    """One suspect for the writes that nothing asks for, but for the nearest attempts at a goal."""
    cited = set(found.cites("subgoals.other_writes")) - explained
    calls = [e for e in trajectory.exchanges if e.step in cited and not e.failed]
    if not calls:
        return
    named = ", ".join(describe_call(e.call) for e in calls[:NAMED_WRITES])
    more = f" and {len(calls) - NAMED_WRITES} more" if len(calls) > NAMED_WRITES else ""
    said = f"unasked write: {named}{more}"
    suspect = SuspectSteps(
        first=calls[0].step, last=calls[-1].step, kind="other_write", evidence=said
    )
    yield KIND_WEIGHTS["other_write"], suspect


def _cycles(trajectory: Trajectory, found: RuleFindings) -> Iterator[tuple[float, SuspectSteps]]:
    loop = found.whole.get("loops")
    if loop is not None and loop.cites and (loop.value or 0) >= SHORTEST_LOOP:
        said = loop.reason or f"a cycle of {loop.value:.0f} calls"
        suspect = SuspectSteps(
            first=min(loop.cites), last=max(loop.cites), kind="loop", evidence=said
        )
        yield 1.5 + 0.25 * min(loop.value or 0, LONGEST_LOOP), suspect
    cited = set(found.cites("redundant_calls"))
    for again, before in redundant_calls(trajectory.exchanges, None) if cited else ():
        if again.step in cited:
            said = f"asks again what {before.step} answered: {describe_call(again.call)}"
            yield REPEAT_WEIGHT, _suspect_at(again.step, "repeat", said)


def _suspect_at(step: int, kind: SuspectKind, said: str) -> SuspectSteps:
    return SuspectSteps(first=step, last=step, kind=kind, evidence=said)


# What one finding weighs in choosing a run. Counts are capped, so that one long run with many
# small findings does not stand before a broken rule.
FINDING_WEIGHTS = {
    "policy": 5.0,
    "subgoals.other_writes": 1.5,
    "errors": 0.5,
    "redundant_calls.count": 0.25,
}
COUNT_CAP = 6.0
MISSED_WEIGHT = 1.0
LEFT_WEIGHT = 2.0
LOOP_WEIGHT = 0.25
GATE_WEIGHT, BREAK_WEIGHT, LOW_WEIGHT = 3.0, 2.0, 1.0
# A failing run comes before any passing one, but for passes that were badly unearned.
FAILED_WEIGHT = 4.0


def weigh_runs(table: RunTable) -> npt.NDArray[np.float64]:
    """Return what was found in each run, weighed; 0 for a passing run without findings."""
    total = np.zeros(len(table))
    for measure, weight in FINDING_WEIGHTS.items():
        total += weight * np.minimum(_values_or_zero(table, measure), COUNT_CAP)
    goals, recovery = table.columns["subgoals"], table.columns["recovery"]
    total += MISSED_WEIGHT * np.where(goals.valued, 1 - _values_or_zero(table, "subgoals"), 0.0)
    left = np.where(recovery.valued, 1 - _values_or_zero(table, "recovery"), 0.0)
    total += LEFT_WEIGHT * np.minimum(left * _values_or_zero(table, "errors"), COUNT_CAP)
    total += LOOP_WEIGHT * np.minimum(_values_or_zero(table, "loops"), COUNT_CAP)
    known, passed = read_outcomes(table)
    excused = (
        passed
        & (_values_or_zero(table, "policy") == 0)
        & (_values_or_zero(table, "subgoals.other_writes") == 0)
    )
    excused &= ~goals.valued | (_values_or_zero(table, "subgoals") >= 1)
    total[excused] *= 0.1
    total += np.where(known & ~passed, FAILED_WEIGHT, 0.0)
    return total if table.shapes is None else total + _by_shape(table.shapes)


def _by_shape(found: FleetShapes) -> npt.NDArray[np.float64]:
    """Return what the scores of each run weigh; labels of rules weigh nothing a second time."""
    if not found.scored:
        return np.zeros(len(found.state))
    broken = (found.label > HEALTHY) | (found.break_step >= 0)
    low = np.where(found.low_level, LOW_WEIGHT, 0.0)
    return np.where(found.gate_failed, GATE_WEIGHT, 0.0) + np.where(broken, BREAK_WEIGHT, 0.0) + low


def choose_runs(table: RunTable, count: int | None) -> npt.NDArray[np.int64]:
    """Return the places of the chosen runs, most telling first; of all runs for None.

    Ties stay in the order of the rows: by name, then id.
    """
    found = weigh_runs(table)
    order = np.argsort(-found, kind="stable")
    if count is None:
        return order
    return order[found[order] > 0][:count]


def read_look_first(store: Store, table: RunTable, count: int | None) -> Iterator[LookFirst]:
    """Yield the chosen runs, each read whole, with its suspects and the command that shows it."""
    names = Counter(table.runs.name.tolist())
    scored = table.shapes is not None and table.shapes.scored
    given = (store.noise(), store.weights()) if scored else None
    for at in choose_runs(table, count).tolist():
        key, name = table.runs.id[at], table.runs.name[at]
        found, note = _read_suspects(store, key, given)
        short = name if names[name] == 1 and visible_line(name) == name else key[:12]
        yield LookFirst(
            id=key,
            name=name,
            outcome=table.runs.outcome[at],
            steps=int(table.runs.steps[at]),
            suspects=found,
            command=f"stepscope show {shlex.quote(short)}",
            note=note,
        )


def _read_suspects(
    store: Store, key: str, given: tuple[Mapping[str, Estimate], Weights] | None
) -> tuple[tuple[SuspectSteps, ...], str]:
    """Return the suspects of one run, or none and why the run could not be read.

    `given` are noise and weights, where any run has scores.
    """
    try:
        trajectory = store.trajectory(key)
    except StoreError as e:  # its texts were purged; its records still speak in the figures
        return (), str(e)
    records = list(store.records(trajectory=key))
    trajectory, records = hide_secrets(store.shown, trajectory, records)
    found = list_suspects(trajectory, trajectory.case, records)
    if given is None:
        return found, ""
    noise, weights = given
    return add_curve_suspects(
        make_curve(trajectory, records, noise=noise, weights=weights), found
    ), ""


def _values_or_zero(table: RunTable, measure: str) -> npt.NDArray[np.float64]:
    """Return a column's numbers, 0 where it has none: for weighing only, never for a figure."""
    column = table.columns[measure]
    return np.where(column.valued, np.nan_to_num(column.value), 0.0)


NO_LABELS = Unmeasured(
    "insufficient_data", "no step scores, and the rules labelled no step of this run"
)


# Of a curve whose scores are known and whose shape is not asked for yet.
NO_SHAPE = Unmeasured("undefined", "")


def read_points(records: Iterable[Record], noise: Mapping[str, Estimate]) -> Curve | Unmeasured:
    """Return the curve of a run without its shape; `noise` is the sigma of each judge."""
    held = list(records)
    return _scored(held, noise) or _labelled(held)


def average_noise(judge: str, repeats: int, noise: Mapping[str, Estimate]) -> float | None:
    """Return the upper limit of a judge's sigma for the mean of some scorings; None when unknown.

    >>> found = Estimate(value=0.1, low=0.05, high=0.2, method="", n=9, n_tasks=3)
    >>> average_noise("j", 4, {"j": found}), average_noise("k", 4, {"j": found})
    (0.1, None)
    """
    found = noise.get(judge)
    if found is None or found.high is None:
        return None
    return min(found.high / sqrt(repeats), 1.0)


def _scored(records: Iterable[Record], noise: Mapping[str, Estimate]) -> Curve | None:
    by_scorer: dict[tuple[str, str], dict[int, list[float | None]]] = {}
    for record in records:
        answer = record.answer
        if answer.measure == STEP_SCORES and answer.step is not None:
            value = answer.value if isinstance(answer, Verdict) else None
            steps = by_scorer.setdefault((record.family, record.judge), {})
            steps.setdefault(answer.step, []).append(value)
    if not by_scorer:
        return None
    (family, judge), steps = max(
        sorted(by_scorer.items()),
        key=lambda item: sum(any(v is not None for v in values) for values in item[1].values()),
    )
    counts = [n for values in steps.values() if (n := sum(v is not None for v in values))]
    repeats = min(counts, default=1)
    sigma = average_noise(judge, repeats, noise)
    others = ", ".join([other or "unnamed" for _, other in sorted(by_scorer) if other != judge])
    return Curve(
        steps=tuple(sorted(steps)),
        scores=tuple([_average(steps[step]) for step in sorted(steps)]),
        source="imported" if family == IMPORTED else "judge",
        judge=judge,
        repeats=repeats,
        sigma=sigma,
        sigma_source="marginalised" if sigma is None else "repeats",
        shape=NO_SHAPE,
        notes=(f"scores of {others} are left aside",) if others else (),
    )


def _average(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _labelled(records: Iterable[Record]) -> Curve | Unmeasured:
    found = sort_findings(records)
    steps = found.cites("step_labels.steps")
    labels = found.labels("step_labels")
    if not steps or not labels:
        return NO_LABELS
    return Curve(
        steps=steps,
        scores=tuple([LABEL_SCORES[labels.get(step, "")] for step in steps]),
        source="step_labels",
        sigma=LABEL_SIGMA,
        sigma_source="assumed",
        shape=NO_SHAPE,
    )


Weights = Mapping[tuple[str, str], tuple[float, ...]]
Cells = tuple[float | None, ...]


def read_curve(store: Store, trajectory_id: str) -> Curve | Unmeasured:
    """Return the score curve of one run with its shape and break, or why there is none.

    Raises:
        StoreError: no such run.
    """
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
    told: dict[str, dict[int, float]] = {LATENCY: {}, COST: {}}
    for record in held:
        answer = record.answer
        if answer.measure in told and isinstance(answer, Verdict):
            if answer.step is not None and answer.value is not None:
                told[answer.measure][answer.step] = answer.value
    if trajectory is not None:
        for step, before in zip(trajectory.steps, (None, *trajectory.steps), strict=False):
            seconds = _seconds(step, before)
            if seconds is not None:
                told[LATENCY].setdefault(step.index, seconds)
            if step.cost_usd is not None:
                told[COST].setdefault(step.index, step.cost_usd)
    latency, cost = _cells(told[LATENCY], found.steps), _cells(told[COST], found.steps)
    slopes = third_slopes(found.scores)
    drawn = msgspec.structs.replace(
        found,
        id="" if trajectory is None else trajectory.id,
        name="" if trajectory is None else trajectory.name,
        latency_s=latency,
        cost_usd=cost,
        slopes=None if isinstance(slopes, Unmeasured) else slopes,
    )
    drawn = _shaped(drawn, cost if cost is not None else _tokens(trajectory, found.steps))
    return drawn if trajectory is None else _weighed(drawn, choose_weights(trajectory, weights))


def choose_weights(trajectory: Trajectory, weights: Weights) -> tuple[float, ...] | None:
    """Return the weights that hold for a run: its task's, else those of every task."""
    task = trajectory.task or trajectory.name
    own = weights.get((trajectory.workflow, task))
    return own if own is not None else weights.get((trajectory.workflow, EVERY_TASK))


def _shaped(drawn: Curve, cost: Cells | None) -> Curve:
    """Return a curve with shape and break; `cost` in any unit says where it spiked."""
    shape = classify(drawn.scores, sigma=drawn.sigma)
    if isinstance(shape, Unmeasured):
        return msgspec.structs.replace(drawn, shape=shape)
    found = fuse_signals(
        shape.break_.probability,
        drawn.scores,
        latency=drawn.latency_s,
        cost=cost,
        unmodelled=shape.unmodelled,
    )
    sure = found.step is not None and not shape.unmodelled
    steps = drawn.steps
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
        break_step=steps[found.step] if sure and found.step is not None else None,
        break_first=steps[found.first] if sure and found.first is not None else None,
        break_last=steps[found.last] if sure and found.last is not None else None,
        watch=tuple([steps[at] for at in found.watch]),
    )


def _weighed(drawn: Curve, weights: tuple[float, ...] | None) -> Curve:
    if weights is None:
        return drawn
    if len(weights) != len(drawn.steps):
        note = f"not weighed: {len(weights)} weights are fixed for {len(drawn.steps)} scored steps"
        return msgspec.structs.replace(drawn, notes=(*drawn.notes, note))
    mean = weighted_score(drawn.scores, weights)
    failed = gate_failed(drawn.scores, weights, sigma=drawn.sigma)
    below = () if isinstance(failed, Unmeasured) else failed
    return msgspec.structs.replace(
        drawn,
        weights=weights,
        weighted=None if isinstance(mean, Unmeasured) else mean,
        gate_failed=tuple([drawn.steps[at] for at in below]),
    )


def _seconds(step: Step, before: Step | None) -> float | None:
    """Return how long a step took: by its own times, else since the step before began."""
    if step.start is None:
        return None
    if step.end is not None:
        passed = step.end.ns - step.start.ns
    elif before is not None and before.start is not None:
        passed = step.start.ns - before.start.ns
    else:
        return None
    return passed / 1e9 if passed >= 0 else None


def _tokens(trajectory: Trajectory | None, steps: Sequence[int]) -> Cells | None:
    """Return the tokens of each scored step, which spike where its cost would."""
    if trajectory is None:
        return None
    used = {
        step.index: float(step.usage.output_total)
        for step in trajectory.steps
        if step.usage is not None and step.usage.output_total is not None
    }
    return _cells(used, steps)


def _cells(told: Mapping[int, float], steps: Sequence[int]) -> Cells | None:
    cells = tuple([told.get(step) for step in steps])
    return cells if any(cell is not None for cell in cells) else None
