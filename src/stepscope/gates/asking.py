"""Ask one gate: which runs are under test, what they are compared with, or why it cannot be asked.

Runs of the baseline that lie in the same store are not under test; runs of earlier looks at the
same commit are. A comparison across versions of a measure, or across declared rules, is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stepscope.gates import drops, rates, ratios
from stepscope.gates.answers import Answer, Question, counted
from stepscope.gates.baseline import ID_DIGITS, Baseline, BaselineProblem
from stepscope.gates.looks import Looks, key, pool, with_entry
from stepscope.gates.policy import GatePolicy, WorkflowPolicy
from stepscope.gates.quantities import rescore
from stepscope.gates.sample import Sample
from stepscope.gates.sides import Side, side


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A gate with the runs that it speaks of, and what asking came to."""

    gate: GatePolicy
    found: Question | Answer
    current: Side | None = None
    baseline: Side | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One workflow before its gates are asked: its runs, its baseline, and remarks on both."""

    policy: WorkflowPolicy
    sample: Sample
    baseline: Baseline | BaselineProblem
    missing: str
    notes: tuple[str, ...]
    looks: int


def setting_of(
    policy: WorkflowPolicy,
    found: Sample,
    baseline: Baseline | BaselineProblem,
    *,
    log: Looks,
    commit: str | None,
    missing: str,
) -> Setting:
    """Return a workflow with the runs under test: not the baseline's own, earlier looks pooled.

    Args:
        policy: the workflow.
        found: its runs.
        baseline: what they are compared with.
        log: renewed with this look, where the commit is known.
        commit: what is under test.
        missing: why there are no runs, where there are none.
    """
    sample = Sample(
        runs=found.runs,
        cells={name: found.cells[name] for name in policy.reads},
        asked={name: found.asked[name] for name in policy.reads if name in found.asked},
        agents=found.agents,
    )
    notes: list[str] = []
    if isinstance(baseline, Baseline) and sample.runs:
        own = {run.id for run in baseline.sample.runs}
        other = [at for at, run in enumerate(sample.runs) if run.id[:ID_DIGITS] not in own]
        if other:
            sample = sample.take(other)
        else:
            notes.append("these are the runs of the baseline itself: nothing new was measured")
    count = 0
    if sample.runs and commit is not None:
        name = key(commit, policy.workflow, policy.hash)
        entry, pooled = pool(log.log.entries.get(name), sample)
        log.log = with_entry(log.log, name, entry)
        count = entry.looks
        if len(pooled.runs) > len(sample.runs):
            earlier = len(pooled.runs) - len(sample.runs)
            notes.append(f"{counted(earlier, 'run')} of earlier looks at this commit are pooled")
        sample = pooled
    return Setting(
        policy=policy,
        sample=sample,
        baseline=baseline,
        missing=missing,
        notes=tuple(notes),
        looks=count,
    )


def ask(
    setting: Setting,
    gate: GatePolicy,
    *,
    tier: Sequence[str],
    seed: int,
    false_alarms: Mapping[str, float],
    late: bool,
) -> Asked:
    """Ask one gate, or say why it cannot be asked."""
    if gate.source not in tier:
        said = f"source {gate.source!r} is no part of this tier ({', '.join(tier) or 'none'})"
        answer = Answer(outcome="not_run", cause="source_not_in_tier", reason=said)
        return Asked(gate=gate, found=answer)
    if late:
        said = "the time was over before this gate"
        answer = Answer(outcome="undecided", cause="out_of_time", reason=said)
        return Asked(gate=gate, found=answer)
    if not setting.sample.runs:
        answer = Answer(outcome="undecided", cause="no_runs", reason=setting.missing)
        return Asked(gate=gate, found=answer)
    current = side(gate, setting.sample)
    if not gate.compares:
        found = rates.ask(gate, current, false_alarms.get(gate.source))
        return Asked(gate=gate, found=found, current=current)
    baseline = setting.baseline
    problem = _incomparable(gate, setting)
    if problem is not None or isinstance(baseline, BaselineProblem):
        assert problem is not None
        return Asked(gate=gate, found=problem, current=current)
    before = side(gate, baseline.sample)
    compared = drops.ask if gate.about == "drop" else ratios.ask
    return Asked(
        gate=gate,
        found=compared(gate, current, before, seed=seed),
        current=current,
        baseline=before,
    )


def _incomparable(gate: GatePolicy, setting: Setting) -> Answer | None:
    """Return why a gate cannot be compared with its baseline; None where it can."""
    baseline = setting.baseline
    if isinstance(baseline, BaselineProblem):
        return Answer(outcome="undecided", cause=baseline.cause, reason=baseline.reason)
    update = f"stepscope baseline update --workflow {setting.policy.workflow}"
    for name in gate.reads:
        before, now = baseline.measures.get(name), setting.sample.asked.get(name)
        if now is None:
            return Answer(
                outcome="undecided",
                cause="no_verdicts",
                reason=f"no run has a record of {name}: {rescore(name)}",
            )
        if before is None:
            return Answer(
                outcome="undecided",
                cause="baseline_lacks_measure",
                reason=f"the baseline was made before this gate and keeps no {name}: score its "
                f"runs again ({rescore(name)}), then {update}",
            )
        if before != now:
            return Answer(
                outcome="undecided",
                cause="baseline_other_version",
                reason=f"{name} answers another question in the baseline ({before}) than here "
                f"({now}): score its runs again ({rescore(name)}), then "
                f"{update}",
            )
    return None
