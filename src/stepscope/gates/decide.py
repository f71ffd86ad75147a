"""Rows, policies and baselines in, one `GateReport` out: the only place where gates are decided.

Every gate is evaluated first, lost runs at their best; Holm adjusts the p of all gates of the
invocation together; then each is answered. Runs of the baseline that lie in the same store are not
under test; runs of earlier looks at the same commit are. A comparison across versions of a
measure, or across declared rules, is refused. A gate that could not be measured never passes: its
cause says why. Failing cases are listed worst first, for reading: no rate is computed on them.
Nothing is read from disk or written here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import msgspec
import numpy as np

from stepscope import stats
from stepscope.errors import UsageError
from stepscope.gates import against_baseline, rates
from stepscope.gates.baseline import (
    ID_DIGITS,
    Baseline,
    BaselineProblem,
    Design,
    absences,
    design_of,
    load_baseline,
    said,
)
from stepscope.gates.looks import Looks, look_key, pool_looks, replace_entry
from stepscope.gates.rates import GateAnswer, GateTest, LookAlpha, say_count
from stepscope.gates.sample import Arm, Sample, SampleRun, build_arm, read_samples, say_no_runs
from stepscope.gates.settings import GatePolicy, WorkflowPolicy, policies_hash, rescore_command
from stepscope.gates.types import CaseFailure, GateDecision, GateReport, WorkflowDecision
from stepscope.model import Verdict
from stepscope.model.records import RULES
from stepscope.safety.redact import scrub_message
from stepscope.store.columns import Rows
from stepscope.store.where import Where


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedGate:
    """A gate with the runs that it speaks of, and what asking came to."""

    gate: GatePolicy
    found: GateTest | GateAnswer
    current: Arm | None = None
    baseline: Arm | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowUnderTest:
    """One workflow before its gates are asked: its runs, its baseline, and remarks on both."""

    policy: WorkflowPolicy
    sample: Sample  # the runs under test, those of earlier looks pooled
    baseline: Baseline | BaselineProblem
    design: Design
    missing: tuple[SampleRun, ...]  # the trials of the design that this look lacks
    none: str  # why there are no runs, where there are none
    notes: tuple[str, ...]
    looks: int
    # all that counts at its worst in every gate, as if every look had lacked it
    absent: tuple[SampleRun, ...] = ()

    @property
    def whole(self) -> Sample:
        """The runs under test, and behind them those that are absent."""
        return self.sample.with_absent(self.absent)


def prepare_workflow(
    policy: WorkflowPolicy,  # the workflow
    found: Sample,  # its runs
    baseline: Baseline | BaselineProblem,  # what they are compared with
    *,
    log: Looks,  # renewed with this look, where the commit is known
    commit: str | None,  # what is under test
    # no run is there because the baseline was made of it: one that is the same was made again, and
    # is a trial where its case has not enough others
    apart: bool,
    none: str,  # why there are no runs, where there are none
) -> WorkflowUnderTest:
    """Return a workflow with the runs under test: not the baseline's own, earlier looks pooled."""
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
        name = look_key(commit, policy.workflow, policy.hash)
        entry, pooled = pool_looks(log.log.entries.get(name), sample)
        log.log = replace_entry(log.log, name, entry)
        count = entry.looks
        if len(pooled.runs) > len(sample.runs):
            earlier = len(pooled.runs) - len(sample.runs)
            notes.append(f"{say_count(earlier, 'run')} of earlier looks at this commit are pooled")
        sample = pooled
    return WorkflowUnderTest(
        policy=policy,
        sample=sample,
        baseline=baseline,
        design=design,
        missing=missing,
        none=none,
        notes=tuple(notes),
        looks=count,
    )


def evaluate_gate(
    setting: WorkflowUnderTest,
    gate: GatePolicy,
    *,
    tier: Sequence[str],
    seed: int,
    false_alarms: Mapping[str, float],
    late: bool,
) -> EvaluatedGate:
    """Ask one gate, or say why it cannot be asked."""
    if gate.source not in tier:
        said = f"source {gate.source!r} is no part of this tier ({', '.join(tier) or 'none'})"
        answer = GateAnswer(outcome="not_run", cause="source_not_in_tier", reason=said)
        return EvaluatedGate(gate=gate, found=answer)
    if late:
        said = "the time was over before this gate"
        answer = GateAnswer(outcome="undecided", cause="out_of_time", reason=said)
        return EvaluatedGate(gate=gate, found=answer)
    if not setting.sample.runs:
        answer = GateAnswer(outcome="undecided", cause="no_runs", reason=setting.none)
        return EvaluatedGate(gate=gate, found=answer)
    current = build_arm(gate, setting.sample)
    whole = build_arm(gate, setting.whole) if setting.absent else current
    if not gate.compares:
        question = partial(rates.evaluate_rate, gate, false_alarms=false_alarms.get(gate.source))
        return _asked(gate, question, current, whole if current.n_measured else current, None)
    baseline = setting.baseline
    problem = _incomparable(gate, setting)
    if problem is not None or isinstance(baseline, BaselineProblem):
        assert problem is not None
        return EvaluatedGate(gate=gate, found=problem, current=current)
    before = build_arm(gate, baseline.sample)
    shared = not set(before.cases.tolist()).isdisjoint(current.measured().cases.tolist())
    question = partial(
        against_baseline.build_drop_test
        if gate.about == "drop"
        else against_baseline.build_ratio_test,
        gate,
        baseline=before,
        seed=seed,
    )
    return _asked(gate, question, current, whole if shared else current, before)


def _asked(
    gate: GatePolicy,
    question: Callable[[Arm], GateTest | GateAnswer],
    current: Arm,
    whole: Arm,
    before: Arm | None,
) -> EvaluatedGate:
    """Ask a gate of the runs that there are; where others are absent, of all together as well."""
    found = question(current)
    if len(whole.at) > len(current.at):
        worst = question(whole)
        found = worst if isinstance(worst, GateAnswer) else _Whole(worst, found)
    return EvaluatedGate(gate=gate, found=found, current=whole, baseline=before)


@dataclass(frozen=True, slots=True)
class _Whole:
    """A question about all runs, absent ones included: these never make an answer better."""

    worst: GateTest
    alone: GateTest | GateAnswer

    @property
    def p(self) -> float:
        return self.worst.p

    def answer(self, p_adjusted: float, spend: LookAlpha) -> GateAnswer:
        """Pass only where the runs that there are would pass without the others."""
        found, alone = self.worst.answer(p_adjusted, spend), self.alone
        if found.outcome != "pass":
            return found
        alone = alone if isinstance(alone, GateAnswer) else alone.answer(1.0, spend)
        return found if alone.outcome == "pass" else alone


def _incomparable(gate: GatePolicy, setting: WorkflowUnderTest) -> GateAnswer | None:
    """Return why a gate cannot be compared with its baseline; None where it can."""
    baseline = setting.baseline
    if isinstance(baseline, BaselineProblem):
        return GateAnswer(outcome="undecided", cause=baseline.cause, reason=baseline.reason)
    update = f"stepscope baseline update --workflow {setting.policy.workflow}"
    for name in gate.reads:
        before, now = baseline.measures.get(name), setting.sample.asked.get(name)
        if now is None:
            return GateAnswer(
                outcome="undecided",
                cause="no_verdicts",
                reason=f"no run has a record of {name}: {rescore_command(name)}",
            )
        if before is None:
            return GateAnswer(
                outcome="undecided",
                cause="baseline_lacks_measure",
                reason=f"the baseline was made before this gate and keeps no {name}: score its "
                f"runs again ({rescore_command(name)}), then {update}",
            )
        if before != now:
            return GateAnswer(
                outcome="undecided",
                cause="baseline_other_version",
                reason=f"{name} answers another question in the baseline ({before}) than here "
                f"({now}): score its runs again ({rescore_command(name)}), then "
                f"{update}",
            )
    return None


# More cases than this are counted, not listed.
CASES_LISTED = 10


def list_failing_cases(
    gate: GatePolicy, current: Arm, baseline: Arm | None, sample: Sample, rows: Rows
) -> tuple[tuple[CaseFailure, ...], int]:
    """Return the worst cases of a gate, and how many cases are in breach."""
    measured = current.measured()
    if gate.compares and baseline is not None:
        worst = _worse_cases(gate, measured, baseline.measured())
    else:
        worst = _bad_cases(measured)
    found = [
        _failure(gate, [sample.runs[at] for at in places], said, rows)
        for _, places, said in worst[:CASES_LISTED]
    ]
    return tuple(found), len(worst)


WorstCases = list[tuple[float, list[int], str]]


def _bad_cases(side: Arm) -> WorstCases:
    """Return the cases that have bad runs: how bad, the places of these runs, nothing to add."""
    cases: dict[object, list[int]] = {}
    for row in np.flatnonzero(side.top > 0).tolist():
        cases.setdefault(side.cases[row], []).append(row)
    worst = []
    for rows in cases.values():
        rows.sort(key=lambda row: -side.top[row])
        worst.append((float(side.top[rows].sum()), side.at[rows].tolist(), ""))
    return _sorted(worst)


def _worse_cases(gate: GatePolicy, now: Arm, before: Arm) -> WorstCases:
    """Return the cases that both have and that got worse, by how much they did."""
    worst: WorstCases = []
    known = set(before.cases.tolist())
    for case in dict.fromkeys(now.cases.tolist()):
        if case not in known:
            continue
        rows = np.flatnonzero(now.cases == case)
        old = before.top[before.cases == case]
        if gate.about == "ratio":
            was, is_ = float(np.median(old)), float(np.median(now.top[rows]))
            unit = gate.quantity.unit or gate.quantity.measure
            said = f"median {is_:g} {unit}, {was:g} in the baseline"
            chosen = rows[np.argsort(-now.top[rows], kind="stable")]
            more = is_ / was if was > 0 else is_
            limit = 1.0
        else:
            new, first = now.bad[rows], before.bad[before.cases == case]
            more, limit = float(new.mean() - first.mean()), 0.0
            said = f"bad in {_of(new)}, in the baseline in {_of(first)}"
            chosen = rows[new > 0]
        if more > limit:
            worst.append((more, now.at[chosen].tolist(), said))
    return _sorted(worst)


def _sorted(worst: WorstCases) -> WorstCases:
    return sorted(worst, key=lambda case: -case[0])


def _of(bad: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> str:
    return f"{bad.sum():g} of {len(bad)} runs" if len(bad) != 1 else f"{bad.sum():g} of 1 run"


def _failure(gate: GatePolicy, runs: Sequence[SampleRun], said: str, rows: Rows) -> CaseFailure:
    steps, reason = _evidence(gate, runs[0].id, rows) if runs and runs[0].id else ((), "")
    return CaseFailure(
        case=runs[0].case,
        runs=tuple(run.name for run in runs),
        ids=tuple(run.id for run in runs if run.id),
        steps=steps,
        evidence=scrub_message("; ".join(part for part in (said, reason) if part)),
    )


def _evidence(gate: GatePolicy, run: str, rows: Rows) -> tuple[tuple[int, ...], str]:
    """Return what the measure of a gate says of a run: the steps it cites, its reason."""
    measure = "errors" if gate.quantity.kind == "recovered" else gate.quantity.measure
    steps: tuple[int, ...] = ()
    reason = ""
    # An aspect counts; the whole measure may say it in words.
    for name in dict.fromkeys((measure, measure.rpartition(".")[0])):
        for record in rows.records(trajectory=run, measure=name) if name else ():
            answer = record.answer
            if isinstance(answer, Verdict) and answer.step is None:
                steps = steps or answer.cites
                reason = reason or answer.reason
    return steps, reason


# Chance of a false alarm over all gates of one invocation, and all looks at one commit.
ALPHA = 0.05


def decide_gates(
    rows: Rows,  # a store, or anything else with its columns
    policies: Sequence[WorkflowPolicy],  # the workflows to gate
    *,
    # by workflow, as `baseline.load_all` gives them
    baselines: Mapping[str, Baseline | BaselineProblem],
    # which runs are under test; those of the baseline are left out where there are others
    where: Where | None = None,
    # the sources whose gates are run; the others are not run, and listed
    tier: Sequence[str] = (RULES,),
    commit: str | None = None,  # what is under test; runs of earlier looks at it are pooled
    # how often this commit was gated at least, this time included, as CI knows it
    attempt: int = 1,
    looks: Looks | None = None,  # the log of looks, renewed here; the caller saves it
    seed: int = 0,  # where permutations that are drawn start
    alpha: float = ALPHA,  # chance of a false alarm over all gates and looks
    # by judge, how often it calls a good run bad, as measured
    false_alarms: Mapping[str, float] | None = None,
    # asked before each gate; once it says yes, the rest is out of time
    enough: Callable[[], bool] | None = None,
    set_aside: int = 0,  # records among those under test that could not be read
    apart: bool = False,  # the rows hold no run because a baseline was made of it
) -> GateReport:
    """Return the decisions of all gates of one invocation.

    Raises:
        StoreError: the records of a measure are of two versions.
        UsageError: there is nothing to gate, or two policies of one workflow.
    """
    _check(policies)
    samples = _samples(rows, policies, where)
    log = Looks() if looks is None else looks
    settings = [
        prepare_workflow(
            policy,
            sample,
            baselines.get(policy.workflow) or load_baseline(None, policy.workflow),
            log=log,
            commit=commit,
            apart=apart,
            none="" if sample.runs else say_no_runs(rows, policy.workflow, where),
        )
        for policy, sample in zip(policies, samples, strict=True)
    ]
    lacks = absences([s.design for s in settings], [s.missing for s in settings], set_aside)
    settings = [
        replace(setting, absent=absent * max(1, setting.looks))
        for setting, absent in zip(settings, lacks, strict=True)
    ]
    late = enough or _never
    asked = [
        [
            evaluate_gate(
                s, gate, tier=tier, seed=seed, false_alarms=false_alarms or {}, late=late()
            )
            for gate in s.policy.gates
        ]
        for s in settings
    ]
    look = max([attempt, *(setting.looks for setting in settings)])
    answers, spend = answer_gates([one.found for each in asked for one in each], look, alpha)
    told = iter(answers)
    return GateReport(
        workflows=tuple(
            _workflow(setting, [(one, *next(told)) for one in each], rows)
            for setting, each in zip(settings, asked, strict=True)
        ),
        commit=commit,
        policy_hash=policies_hash(policies),
        look=look,
        alpha=alpha,
        alpha_look=spend.alpha,
        tier=tuple(tier),
        seed=seed,
    )


def _never() -> bool:
    return False


def _check(policies: Sequence[WorkflowPolicy]) -> None:
    names = [policy.workflow for policy in policies]
    if not any(policy.gates for policy in policies):
        raise UsageError("no gate is declared; add [workflow.NAME.gates] to the settings")
    if len(set(names)) < len(names):
        raise UsageError(f"a workflow is gated twice: {', '.join(sorted(names))}")


def _samples(rows: Rows, policies: Sequence[WorkflowPolicy], where: Where | None) -> list[Sample]:
    """Return the runs under test of each workflow, with every answer that its gates read."""
    names = [policy.workflow for policy in policies]
    measures = sorted({*chain.from_iterable(policy.reads for policy in policies)})
    labelled = frozenset().union(*(policy.labelled for policy in policies))
    samples = read_samples(rows, names, measures, where, labelled=labelled)
    return [samples[name] for name in names]


def answer_gates(
    found: Sequence[GateTest | GateAnswer], look: int, alpha: float
) -> tuple[list[tuple[GateAnswer, float | None, float | None]], LookAlpha]:
    """Return each answer with its p and adjusted p, and what this look may spend.

    Args:
        found: what asking every gate of an invocation came to.
        look: which look it is, from 1.
        alpha: chance of a false alarm over all gates and looks.
    """
    tested = [one.p for one in found if not isinstance(one, GateAnswer)]
    share = stats.look_alpha(look, alpha)
    spend = LookAlpha(alpha=share, alpha_pass=2 * share, tests=len(tested))
    adjusted = iter(stats.holm(tested).tolist())
    told: list[tuple[GateAnswer, float | None, float | None]] = []
    for one in found:
        if isinstance(one, GateAnswer):
            told.append((one, None, None))
        else:
            p_adjusted = next(adjusted)
            told.append((one.answer(p_adjusted, spend), one.p, p_adjusted))
    return told, spend


def _workflow(
    setting: WorkflowUnderTest,
    answers: Sequence[tuple[EvaluatedGate, GateAnswer, float | None, float | None]],
    rows: Rows,
) -> WorkflowDecision:
    cases = setting.sample.cases
    known: tuple[str, ...] = ()
    if isinstance(setting.baseline, Baseline):
        known = setting.baseline.sample.cases
    compared = bool(known) and bool(cases)
    return WorkflowDecision(
        workflow=setting.policy.workflow,
        n_runs=len(setting.sample.runs),
        n_cases=len(cases),
        n_baseline_runs=(
            len(setting.baseline.sample.runs) if isinstance(setting.baseline, Baseline) else 0
        ),
        n_shared=len(set(known) & set(cases)),
        vanished=tuple(case for case in known if case not in set(cases)) if compared else (),
        new=tuple(case for case in cases if case not in set(known)) if compared else (),
        absent=said(setting.absent),
        design=setting.design.narrower,
        gates=tuple(_decision(setting, *one, rows) for one in answers),
    )


def _decision(
    setting: WorkflowUnderTest,
    asked: EvaluatedGate,
    answer: GateAnswer,
    p: float | None,
    p_adjusted: float | None,
    rows: Rows,
) -> GateDecision:
    gate = asked.gate
    parts = [answer.reason]
    if asked.current is not None:
        parts += [said(setting.absent), setting.design.narrower]
    decision = GateDecision(
        name=gate.name,
        measure=gate.quantity.measure,
        rule=gate.rule,
        threshold=gate.threshold,
        source=gate.source,
        severity=gate.severity,
        file_on=gate.file_on,
        outcome=answer.outcome,
        cause=answer.cause,
        reason="; ".join(part for part in parts if part),
        estimate=answer.estimate,
        p=p,
        p_adjusted=p_adjusted,
        detectable=answer.detectable,
        runs_needed=answer.runs_needed,
        n_runs=len(setting.sample.runs),
        notes=setting.notes if asked.current is not None else (),
    )
    decided = answer.outcome == "fail" or answer.cause == "interval"
    if asked.current is None or not decided:
        return decision
    cases, n = list_failing_cases(gate, asked.current, asked.baseline, setting.whole, rows)
    return msgspec.structs.replace(decision, failing=cases, n_failing=n)
