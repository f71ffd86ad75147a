"""Whether a run worked, which sub-goals of its case it reached, and whether it stopped in time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from math import inf

from stepscope.measures.calls import agent_calls, ends_run, has_succeeded, writes_of
from stepscope.measures.rule import RuleMeasure, absences, cached_with_facts
from stepscope.measures.same_calls import excludes, fits_reference, largest_matching, tool_called
from stepscope.model import Answer, Case, Exchange, Facts, Scale, Trajectory, Verdict
from stepscope.values import Unmeasured

_NOBODY_SAYS = "the trace has no reward, check or label of its outcome"
_UNKNOWN_OUTCOME = absences("missing_input", _NOBODY_SAYS, "outcome")


# 1 where somebody says otherwise of a run's outcome; else it has no such answer.
CONTRADICTED = "outcome.contradicted"


def _outcome(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    """Did it work: the environment's check, the recorded reward or a person's label; says which.

    The first of these that speaks counts; `.contradicted` says who else says otherwise.
    """
    outcome = trajectory.outcome
    if outcome.status == "unknown":
        return _UNKNOWN_OUTCOME
    said = outcome.reason
    if not said and outcome.reward is not None:
        said = f"reward {outcome.reward:g}"
    if not said.startswith(outcome.source):
        said = f"{outcome.source}: {said}" if said else outcome.source
    value = 1.0 if outcome.status == "pass" else 0.0
    whole = Verdict("outcome", value, outcome.status, reason=said)
    if not (others := trajectory.contradictions):
        return (whole,)
    return (whole, Verdict(CONTRADICTED, 1.0, reason="; ".join(others)))


OUTCOME = RuleMeasure("outcome", "1", Scale(0.0, 1.0, ("pass", "fail")), (), _outcome)


_ORDER, _WRITES, _OUTPUTS = "subgoals.order", "subgoals.other_writes", "subgoals.outputs"
_OF_GOALS = ("subgoals", "subgoals.reached", "subgoals.total", _ORDER)
_WITHOUT_CASE = "no case says what this run should reach"
_NO_CASE = absences("missing_input", _WITHOUT_CASE, *_OF_GOALS, _WRITES, _OUTPUTS)
_NO_SUBGOALS: tuple[Answer, ...] = absences(
    "not_applicable", "no reference write: the case has no sub-goals", *_OF_GOALS
)
_NO_ORDER = Unmeasured("not_applicable", "the case asks for no order", _ORDER)
_ORDER_UNSEEN = Unmeasured("not_applicable", "no sub-goal that follows another was reached", _ORDER)
_NO_OUTPUTS = Unmeasured("not_applicable", "the case names nothing to tell the user", _OUTPUTS)
_NOTHING_ELSE = Verdict(_WRITES, 0.0)


# The label of a run whose state was checked and found right, though the letter was not kept.
ANOTHER_WAY = "another_way"


def outranks_reference(trajectory: Trajectory) -> bool:
    """True if the state at the end was checked and passed: how it was reached is then open."""
    return trajectory.outcome.status == "pass" and trajectory.outcome.source in ("check", "reward")


def subgoal_calls(case: Case, trajectory: Trajectory) -> list[int | None]:
    """Return for each sub-goal the call (by its index among the agent's) that it takes."""
    return _match_subgoals(trajectory, case)[1]


@cached_with_facts
def _match_subgoals(trajectory: Trajectory, case: Case) -> tuple[list[list[int]], list[int | None]]:
    """Return for each sub-goal the calls that satisfy it, and the one that it takes."""
    made = [(at, x.call) for at, x in enumerate(agent_calls(trajectory)) if has_succeeded(x)]
    options = []
    for goal in case.called:
        name, wanted, tool = goal.tool, goal.arguments, tool_called(trajectory, goal.tool)
        named = [(at, call.arguments) for at, call in made if call.name == name]
        options.append([at for at, given in named if fits_reference(given, wanted, tool)])
    pairs = largest_matching(options)
    for at, goal in enumerate(case.called):
        if pairs[at] is None:
            # Of sub-goals that exclude each other one is enough.
            met = (p for p, one in zip(pairs, case.called, strict=True) if excludes(goal, one))
            pairs[at] = next((p for p in met if p is not None), None)
    return options, pairs


def find_untold(trajectory: Trajectory, outputs: Sequence[str]) -> list[str]:
    """Return the texts that no message of the agent holds, commas and case aside."""
    every = zip(trajectory.steps, trajectory.texts, strict=True)
    said = [text.replace(",", "").lower() for step, text in every if step.actor == "agent"]
    wanted = [(output, output.replace(",", "").lower()) for output in outputs]
    return [output for output, plain in wanted if not any(plain in text for text in said)]


def find_other_writes(
    trajectory: Trajectory, pairs: Sequence[int | None], facts: Facts | None
) -> list[Exchange]:
    """Return the writes that succeeded and serve no sub-goal; handing in an answer is none."""
    made = agent_calls(trajectory)
    return [
        made[at]
        for at in writes_of(trajectory, facts)
        if at not in pairs and has_succeeded(made[at]) and not ends_run(made[at].call.name)
    ]


def _subgoals(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    """Sub-goals reached, in which order, what else was written, and what the user was told.

    A sub-goal is a predicate on calls: the tool, at least these arguments, and an answer that is no
    error. Each sub-goal takes a call of its own (a largest matching), so two refunds need two
    calls, and a third refund is a write that nothing asked for. The order of lists of things,
    defaults of the tool's schema and things left as they were make no difference; of sub-goals that
    exclude each other one is enough.

    Where the state at the end was checked and passed, sub-goals not met in the letter were reached
    another way: the label is `another_way`, the share 1, and writes by their tools serve them.

    Aspects: `subgoals` share reached, `.reached` and `.total` counts (so that a fleet's share can
    be pooled), `.order`, `.other_writes`, `.outputs`.
    """
    if case is None:
        return _NO_CASE
    exchanges = agent_calls(trajectory)
    options, pairs = _match_subgoals(trajectory, case)
    goals = _NO_SUBGOALS
    writes = find_other_writes(trajectory, pairs, facts)
    if options:
        total, missed = len(pairs), pairs.count(None)
        another = missed and outranks_reference(trajectory)
        n_reached = total if another else total - missed
        cites = tuple(sorted({exchanges[at].step for at in pairs if at is not None}))
        reason = f"{total - missed} of {total}"
        if missed:
            unmet = [g for g, at in zip(case.called, pairs, strict=True) if at is None]
            how = "reached another way, as the passed check says:" if another else "missed"
            reason += f"; {how} {', '.join(goal.name for goal in unmet)}"
            if another:
                tools = {goal.tool for goal in unmet}
                writes = [write for write in writes if write.call.name not in tools]
        label = "all" if not missed else "some" if n_reached else "none"
        label = ANOTHER_WAY if another else label
        goals = (
            Verdict("subgoals", n_reached / total, label, cites=cites, reason=reason),
            Verdict("subgoals.reached", float(n_reached)),
            Verdict("subgoals.total", float(total)),
            _order(case, exchanges, options),
        )
    told = _outputs(trajectory, case) if case.outputs else _NO_OUTPUTS
    return (*goals, _other_writes(case, writes), told)


def _order(case: Case, exchanges: Sequence[Exchange], options: list[list[int]]) -> Answer:
    """Share of the reached sub-goals with prerequisites that came after all of them.

    Each sub-goal takes the first call that keeps the order, where there is one.
    """
    if case.order == "unordered":
        return _NO_ORDER
    needs = _prerequisites(case)
    if needs is None:
        return Unmeasured("undefined", "a sub-goal waits for one that the case lacks", _ORDER)
    try:
        sequence = list(TopologicalSorter(needs).static_order())
    except CycleError as e:
        return Unmeasured("undefined", f"sub-goals wait for each other: {e.args[1]}", _ORDER)
    first: dict[int, int] = {}
    judged: list[int] = []
    broken: list[int] = []
    for goal in sequence:
        free = [at for at in options[goal] if at not in first.values()]
        if not free:
            continue
        after = max((first[need] for need in needs[goal] if need in first), default=-1)
        in_time = [at for at in free if at > after and all(need in first for need in needs[goal])]
        first[goal] = in_time[0] if in_time else free[0]
        if needs[goal]:
            judged.append(goal)
            if not in_time:
                broken.append(goal)
    if not judged:
        return _ORDER_UNSEEN
    label = "broken" if broken else "kept"
    cites = tuple(sorted({exchanges[first[goal]].step for goal in broken}))
    said = ", ".join(f"{case.called[goal].name} came too soon" for goal in broken)
    return Verdict(_ORDER, 1 - len(broken) / len(judged), label, cites=cites, reason=said)


def _prerequisites(case: Case) -> dict[int, set[int]] | None:
    """Sub-goal -> the sub-goals (by index) that must be reached before it; None: one is unknown."""
    if case.order == "ordered":
        return {at: {at - 1} if at else set() for at in range(len(case.called))}
    at_name = {goal.name: at for at, goal in enumerate(case.called)}
    if not all(name in at_name for goal in case.called for name in goal.after):
        return None
    return {at: {at_name[n] for n in goal.after} for at, goal in enumerate(case.called)}


def _other_writes(case: Case, writes: Sequence[Exchange]) -> Answer:
    if not case.called and case.reference is None:
        return Unmeasured("missing_input", "the case does not say what may be written", _WRITES)
    if not writes:
        return _NOTHING_ELSE
    names = ", ".join(f"{write.call.name} at {write.step}" for write in writes)
    cites, said = tuple(write.step for write in writes), f"nothing asked for {names}"
    return Verdict(_WRITES, float(len(writes)), cites=cites, reason=said)


def _outputs(trajectory: Trajectory, case: Case) -> Answer:
    missing = find_untold(trajectory, case.outputs)
    n_told = len(case.outputs) - len(missing)
    label = "all" if not missing else "some" if n_told else "none"
    said = f"never told the user {', '.join(missing)}" if missing else ""
    return Verdict(_OUTPUTS, n_told / len(case.outputs), label, reason=said)


_SUBGOAL_LABELS = ("all", "some", "none", ANOTHER_WAY, "kept", "broken")
SUBGOALS = RuleMeasure("subgoals", "2", Scale(0.0, inf, _SUBGOAL_LABELS), (), _subgoals)


ENDINGS = ("stopped_well", "too_early", "too_late", "limit")
# How recorders name a stop that was not the agent's: max_steps, context_length_exceeded, timeout.
LIMITS = re.compile(
    r"(?i)max|limit|time_?out|timed|exceed|exhaust|length|budget|abort|kill|cancel|interrupt|crash|error"
)

_NO_END = "neither a case nor an outcome says when to stop"
_UNKNOWN_ENDING = absences("missing_input", _NO_END, "termination")
_WELL = (Verdict("termination", label="stopped_well"),)


def _ending(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    """Whether the run stopped at the right time, measured against its case.

    `limit`: it did not stop by itself; the trace says so, or it ends on a tool result that the
    agent never answered (unless the tool is one that ends a run). `too_early`: something of the
    case was undone when it stopped. `too_late`: everything was done and it wrote on.
    `stopped_well`: neither, or the state at the end was checked and passed with something undone in
    the letter. Without a case a recorded pass counts as stopped well; else nobody knows, and it is
    unmeasured.
    """
    last = (trajectory.steps[-1].index,) if trajectory.steps else ()
    cut = _outside_stop(trajectory)
    if cut is not None:
        return (Verdict("termination", label="limit", cites=last, reason=cut),)
    if case is None or (not case.called and case.reference is None and not case.outputs):
        return _WELL if trajectory.outcome.status == "pass" else _UNKNOWN_ENDING
    pairs = subgoal_calls(case, trajectory)
    undone = [goal.name for goal, at in zip(case.called, pairs, strict=True) if at is None]
    another = undone and outranks_reference(trajectory)
    if another:
        reason = f"reached another way, as the passed check says: {', '.join(undone)}"
        undone = []
    if case.outputs:
        undone += [f"telling {output}" for output in find_untold(trajectory, case.outputs)]
    if undone:
        reason = f"stopped before {', '.join(undone)}"
        return (Verdict("termination", label="too_early", cites=last, reason=reason),)
    if another:
        return (Verdict("termination", label="stopped_well", reason=reason),)
    return _judge_late_writes(trajectory, pairs, facts)


def _judge_late_writes(
    trajectory: Trajectory, pairs: list[int | None], facts: Facts | None
) -> tuple[Answer, ...]:
    """Judge what was written once everything was done."""
    made = agent_calls(trajectory)
    done = max((at for at in pairs if at is not None), default=-1)
    late = [
        write
        for write in find_other_writes(trajectory, pairs, facts)
        if write.position > (made[done].position if done >= 0 else -1)
    ]
    if not late:
        return _WELL
    when = f"everything was done at {made[done].step}" if done >= 0 else "nothing was to be written"
    cites = tuple(write.step for write in late)
    said = f"{when}, yet it wrote {', '.join(write.call.name for write in late)}"
    return (Verdict("termination", label="too_late", cites=cites, reason=said),)


def _outside_stop(trajectory: Trajectory) -> str | None:
    """Return what ended the run from outside, as recorded or as its last step shows."""
    said = trajectory.termination
    if said and LIMITS.search(said):
        return f"recorded: {said}"
    steps = trajectory.steps
    if said or not steps or steps[-1].actor != "environment" or not steps[-1].results:
        return None
    last = trajectory.exchanges[-1] if trajectory.exchanges else None
    if last is None or last.result_step != steps[-1].index or ends_run(last.call.name):
        return None
    return f"ends on the result of {last.call.name}, which the agent never answered"


TERMINATION = RuleMeasure("termination", "2", Scale(0.0, 0.0, ENDINGS), ("effects",), _ending)
