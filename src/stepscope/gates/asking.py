"""Ask one gate: which runs are under test, what they are compared with, or why it cannot be asked.

Runs of the baseline that lie in the same store are not under test; runs of earlier looks at the
same commit are. Trials that are missing and records that could not be read stand among them at
their worst, unless nothing else was measured. A comparison across versions of a measure, or across
declared rules, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from stepscope.gates import drops, rates, ratios
from stepscope.gates.answers import Answer, Question, Spend, counted
from stepscope.gates.baseline import ID_DIGITS, Baseline, BaselineProblem
from stepscope.gates.design import Design, design_of
from stepscope.gates.looks import Looks, key, pool, with_entry
from stepscope.gates.policy import GatePolicy, WorkflowPolicy
from stepscope.gates.quantities import rescore
from stepscope.gates.sample import Run, Sample
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
    """One workflow before its gates are asked: its runs, its baseline, and remarks on both.

    Attributes:
        sample: the runs under test, those of earlier looks pooled.
        missing: the trials of the design that this look lacks.
        absent: all that counts at its worst in every gate, as if every look had lacked it.
        none: why there are no runs, where there are none.
    """

    policy: WorkflowPolicy
    sample: Sample
    baseline: Baseline | BaselineProblem
    design: Design
    missing: tuple[Run, ...]
    none: str
    notes: tuple[str, ...]
    looks: int
    absent: tuple[Run, ...] = ()

    @property
    def whole(self) -> Sample:
        """The runs under test, and behind them those that are absent."""
        return self.sample.with_absent(self.absent)


def setting_of(
    policy: WorkflowPolicy,
    found: Sample,
    baseline: Baseline | BaselineProblem,
    *,
    log: Looks,
    commit: str | None,
    apart: bool,
    none: str,
) -> Setting:
    """Return a workflow with the runs under test: not the baseline's own, earlier looks pooled.

    Args:
        policy: the workflow.
        found: its runs.
        baseline: what they are compared with.
        log: renewed with this look, where the commit is known.
        commit: what is under test.
        apart: no run is there because the baseline was made of it: one that is the same was made
            again, and is a trial where its case has not enough others.
        none: why there are no runs, where there are none.
    """
    sample = Sample(
        runs=found.runs,
        cells={name: found.cells[name] for name in policy.reads},
        asked={name: found.asked[name] for name in policy.reads if name in found.asked},
        agents=found.agents,
    )
    notes: list[str] = []
    design = design_of(policy, baseline, sample.runs)
    if isinstance(baseline, Baseline) and sample.runs:
        own = {run.id for run in baseline.sample.runs}
        other = [at for at, run in enumerate(sample.runs) if run.id[:ID_DIGITS] not in own]
        if other:
            new = sample.take(other)
            design = design_of(policy, baseline, new.runs)
            short = {run.case for run in design.missing(new.runs)} if apart else set()
            again = [at for at, run in enumerate(sample.runs) if run.case in short]
            sample = sample.take(sorted({*other, *again}))
        else:
            notes.append("these are the runs of the baseline itself: nothing new was measured")
    missing = design.missing(sample.runs)
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
        design=design,
        missing=missing,
        none=none,
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
        answer = Answer(outcome="undecided", cause="no_runs", reason=setting.none)
        return Asked(gate=gate, found=answer)
    current = side(gate, setting.sample)
    whole = side(gate, setting.whole) if setting.absent else current
    if not gate.compares:
        question = partial(rates.ask, gate, false_alarms=false_alarms.get(gate.source))
        return _asked(gate, question, current, whole if current.n_measured else current, None)
    baseline = setting.baseline
    problem = _incomparable(gate, setting)
    if problem is not None or isinstance(baseline, BaselineProblem):
        assert problem is not None
        return Asked(gate=gate, found=problem, current=current)
    before = side(gate, baseline.sample)
    shared = not set(before.cases.tolist()).isdisjoint(current.measured().cases.tolist())
    question = partial(
        drops.ask if gate.about == "drop" else ratios.ask, gate, baseline=before, seed=seed
    )
    return _asked(gate, question, current, whole if shared else current, before)


def _asked(
    gate: GatePolicy,
    question: Callable[[Side], Question | Answer],
    current: Side,
    whole: Side,
    before: Side | None,
) -> Asked:
    """Ask a gate of the runs that there are; where others are absent, of all together as well."""
    found = question(current)
    if len(whole.at) > len(current.at):
        worst = question(whole)
        found = worst if isinstance(worst, Answer) else _Whole(worst, found)
    return Asked(gate=gate, found=found, current=whole, baseline=before)


@dataclass(frozen=True, slots=True)
class _Whole:
    """A question about all runs, absent ones included: these never make an answer better."""

    worst: Question
    alone: Question | Answer

    @property
    def p(self) -> float:
        return self.worst.p

    def answer(self, p_adjusted: float, spend: Spend) -> Answer:
        """Pass only where the runs that there are would pass without the others."""
        found, alone = self.worst.answer(p_adjusted, spend), self.alone
        if found.outcome != "pass":
            return found
        alone = alone if isinstance(alone, Answer) else alone.answer(1.0, spend)
        return found if alone.outcome == "pass" else alone


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
