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
from itertools import chain, islice

import msgspec
import numpy as np

from stepscope import registry, stats
from stepscope.calibrate.drift import find_shifts
from stepscope.calibrate.judges import NO_LABELS, LabelledRuns, read_run_labels
from stepscope.errors import UsageError
from stepscope.gates import against_baseline, rates, types
from stepscope.gates.baseline import ID_DIGITS, Design, absences, design_of, load_baseline, said
from stepscope.gates.corrected import correct_gate
from stepscope.gates.judged import (
    FEWEST_GOOD,
    FalseAlarms,
    count_false_alarms,
    judged_evidence,
    read_gate_samples,
)
from stepscope.gates.looks import Looks, look_key, pool_looks, replace_entry
from stepscope.gates.new_modes import build_modes_test, list_new_cases
from stepscope.gates.rates import GateTest, Spending
from stepscope.gates.sample import Absent, Arm, Sample, SampleRun, build_arm, say_no_runs
from stepscope.gates.settings import (
    GatePolicy,
    WorkflowPolicy,
    policies_hash,
    rescore_command,
    split_judged,
)
from stepscope.gates.types import CaseFailure, GateAnswer, answer_undecided
from stepscope.model import Verdict
from stepscope.model.records import NOT_APPLICABLE, RULES
from stepscope.safety.redact import scrub_message
from stepscope.store.columns import Rows
from stepscope.store.where import Where
from stepscope.values import format_count


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowUnderTest:
    """One workflow before its gates are asked: its runs, its baseline, and remarks on both."""

    policy: WorkflowPolicy
    sample: Sample  # the runs under test, those of earlier looks pooled
    baseline: Sample | GateAnswer  # what they are compared with, or why there is nothing
    design: Design
    missing: tuple[SampleRun, ...] = ()  # the trials of the design that this look lacks
    none: str = ""  # why there are no runs, where there are none
    notes: tuple[str, ...] = ()
    # all that counts at its worst in every gate, as if every look had lacked it
    absent: tuple[SampleRun, ...] = ()
    seed: int = 0  # where permutations that are drawn start
    # what people said of whole runs, by judged column, ids cut to `ID_DIGITS`; None: not asked
    labels: Mapping[str, LabelledRuns] | None = None
    look: int = 1
    # of a selftest: what is done to the runs before they are asked about; p is told less exactly
    change: Callable[[Arm], Arm] | None = None

    @property
    def whole(self) -> Sample:
        """The runs under test, and behind them those that are absent."""
        return self.sample.with_absent(self.absent)


def prepare_workflow(
    policy: WorkflowPolicy,  # the workflow
    found: Sample,  # its runs
    baseline: Sample | GateAnswer,  # what they are compared with
    *,
    log: Looks,  # renewed with this look, where the commit is known
    commit: str | None,  # what is under test
    # no run is there because the baseline was made of it: one that is the same was made again, and
    # is a trial where its case has not enough others
    apart: bool,
    none: str,  # why there are no runs, where there are none
    labels: Mapping[str, int],  # how many people gave, by judged column
) -> WorkflowUnderTest:
    """Return a workflow with the runs under test: not the baseline's own, earlier looks pooled."""
    # Whom this tier does not ask has lost nothing, in later looks at these runs neither.
    unasked = (Absent(NOT_APPLICABLE),) * len(found.runs)
    sample = msgspec.structs.replace(
        found,
        cells={name: found.cells.get(name, unasked) for name in policy.reads},
        asked={name: found.asked[name] for name in policy.reads if name in found.asked},
    )
    notes: list[str] = []
    design = design_of(policy, baseline, sample.runs)
    if isinstance(baseline, Sample) and sample.runs:
        own = {run.id for run in baseline.runs}
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
    if sample.runs and commit is not None:
        name = look_key(commit, policy.workflow, policy.hash)
        pooled = pool_looks(log.log.entries.get(name), sample, labels)
        log.log = replace_entry(log.log, name, pooled)
        if len(pooled.runs) > len(sample.runs):
            earlier = len(pooled.runs) - len(sample.runs)
            runs = format_count(earlier, "run")
            notes.append(f"{runs} of earlier looks at this commit are pooled")
        sample = pooled
    return WorkflowUnderTest(
        policy=policy,
        sample=sample,
        baseline=baseline,
        design=design,
        missing=missing,
        none=none,
        notes=tuple(notes),
    )


def evaluate_gate(
    setting: WorkflowUnderTest, gate: GatePolicy, rows: Rows | None, *, late: bool = False
) -> GateTest | GateAnswer:
    """Ask one gate, or say why it cannot be asked."""
    tier = setting.policy.tier
    if gate.source not in tier:
        said = f"source {gate.source!r} is not in this tier ({', '.join(tier)})"
        return GateAnswer(outcome="not_run", cause="source_not_in_tier", reason=said)
    if late:
        return answer_undecided("out_of_time", "the time was over before this gate")
    if not setting.sample.runs:
        return answer_undecided("no_runs", setting.none)
    name = gate.reads[0]
    asked = setting.sample.asked.get(name)
    if gate.source != RULES and asked is None:
        said = f"no judge that {gate.name} may read ({gate.source}) answered any of these runs: "
        return answer_undecided("no_verdicts", said + rescore_command(name))
    if gate.proves and asked is not None:
        version = registry.measure(name).version
        if asked.version != version:
            said = f"{name} was scored by version {asked.version}, this is version {version}: "
            return answer_undecided("no_verdicts", said + rescore_command(name))
    alarms = None
    if gate.rule == "count" and gate.source != RULES:
        before = setting.baseline if isinstance(setting.baseline, Sample) else None
        alarms = count_false_alarms(gate, setting.policy.workflow, setting.sample, before, rows)
        if alarms.good < FEWEST_GOOD:
            return _ask_regression(gate, setting, alarms)
    found = _ask(gate, setting, alarms)
    if setting.labels is None or isinstance(found, GateAnswer):
        return found
    if gate.source == RULES or gate.rule == "count":
        return found
    samples = [(len(setting.sample.runs), setting.whole)]
    if gate.compares and isinstance(setting.baseline, Sample):
        samples.append((len(setting.baseline.runs), setting.baseline))
    labels, look, seed = setting.labels.get(name, NO_LABELS), setting.look, setting.seed
    looked = setting.sample.labels.get(name, (0, None))[1]
    return correct_gate(gate, found, samples, labels, look=look, looked=looked, seed=seed)


def _answer_drift(
    gate: GatePolicy, sample: Sample, shifts: Sequence[tuple[str, str, str]]
) -> GateAnswer | None:
    """Return that a gate is undecided because its judge has shifted; None where it has not."""
    asked = sample.asked.get(gate.reads[0])
    for rubric, judge, why in shifts:
        if asked is not None and (asked.rubric, asked.judge.partition("@")[0]) == (rubric, judge):
            told = f"{judge} has shifted on {rubric}, so a change may be its own: {why}"
            return answer_undecided("judge_drifted", told)
    return None


def _ask(
    gate: GatePolicy, setting: WorkflowUnderTest, alarms: FalseAlarms | None = None
) -> GateTest | GateAnswer:
    current = build_arm(gate, setting.sample)
    current = current if setting.change is None else setting.change(current)
    whole = build_arm(gate, setting.whole) if setting.absent else current
    question: Callable[[Arm], GateTest | GateAnswer]
    if not gate.compares:
        question = partial(rates.evaluate_rate, gate, alarms=alarms)
        together = current.n_measured > 0
    else:
        problem = _why_incomparable(gate, setting)
        if problem is not None or isinstance(setting.baseline, GateAnswer):
            assert problem is not None
            return problem
        if gate.about == "modes":
            return build_modes_test(setting.whole, setting.baseline)
        before = build_arm(gate, setting.baseline)
        together = not set(before.cases.tolist()).isdisjoint(current.measured().cases.tolist())
        drop, ratio = against_baseline.build_drop_test, against_baseline.build_ratio_test
        build = drop if gate.about == "drop" else ratio
        most = against_baseline.MANY
        if setting.change is not None:
            # A p of 1/1,000 is rare enough for each of a dozen gates.
            most = against_baseline.STAGES[len(setting.policy.gates) > 12][0]
        question = partial(build, gate, baseline=before, seed=setting.seed, most=most)
    alone = question(current)
    if not together or len(whole.at) <= len(current.at):
        return alone
    worst = question(whole)
    if isinstance(worst, GateAnswer):
        return worst
    return replace(worst, answer=partial(_answer_whole, worst, alone))


def _ask_regression(
    gate: GatePolicy, setting: WorkflowUnderTest, alarms: FalseAlarms
) -> GateTest | GateAnswer:
    """Ask whether a judge calls more runs bad than in the baseline, its false alarms unknown."""
    known = f"{format_count(alarms.good, 'run')} known to be good ({alarms.known_by}): the judge's "
    known += f"false alarms are known from {FEWEST_GOOD} such runs on"
    regression = msgspec.structs.replace(gate, about="drop", bound=0.0, rule="regression")
    asked = _ask(regression, setting)

    def explain(found: GateAnswer) -> GateAnswer:
        none = (found.cause or "").startswith("baseline_")  # nothing to compare with
        cause = "judge_not_calibrated" if none else found.cause
        reason = f"compared with the baseline: {found.reason}; {known}"
        return replace(found, cause=cause, reason=reason)

    if isinstance(asked, GateAnswer):
        return explain(asked)
    return replace(asked, answer=lambda at: explain(asked.answer(at)))


def _answer_whole(worst: GateTest, alone: GateTest | GateAnswer, at: Spending) -> GateAnswer:
    """Pass only where the runs that there are would pass without those that are absent."""
    found = worst.answer(at)
    if found.outcome != "pass":
        return found
    if isinstance(alone, GateTest):
        alone = alone.answer(at._replace(p=1.0))
    return found if alone.outcome == "pass" else alone


def _why_incomparable(gate: GatePolicy, setting: WorkflowUnderTest) -> GateAnswer | None:
    """Return why a gate cannot be compared with its baseline; None where it can."""
    baseline = setting.baseline
    if isinstance(baseline, GateAnswer):
        return baseline
    update = f"stepscope baseline update --workflow {setting.policy.workflow}"
    score = rescore_command
    for name in gate.reads:
        before, now = baseline.asked.get(name), setting.sample.asked.get(name)
        if now is None:
            return answer_undecided("no_verdicts", f"no run has a record of {name}: {score(name)}")
        if before is None:
            said = f"the baseline was made before this gate and keeps no {name}: score its "
            said += f"runs again ({score(name)}), then {update}"
            return answer_undecided("baseline_lacks_measure", said)
        if before != now:
            other = before.version != now.version
            said = f"baseline of version {before.version}: " if other else ""
            said += f"{name} answers another question in the baseline ({before}) than here "
            said += f"({now}): "
            again = " --again" if gate.source != RULES else ""
            said += f"score its runs again ({score(name)}{again}), then {update}"
            return answer_undecided("baseline_other_version", said)
    return None


# More cases than this are counted, not listed.
CASES_LISTED = 10


def list_failing_cases(
    gate: GatePolicy, setting: WorkflowUnderTest, rows: Rows
) -> tuple[tuple[CaseFailure, ...], int]:
    """Return the worst cases of a gate, and how many cases are in breach."""
    whole = setting.whole
    before = setting.baseline if gate.compares and isinstance(setting.baseline, Sample) else None
    if before is not None and gate.about == "modes":
        worst = list_new_cases(whole, before)
    elif before is not None:
        measured = build_arm(gate, before).measured()
        worst = _worse_cases(gate, build_arm(gate, whole).measured(), measured)
    else:
        worst = _bad_cases(build_arm(gate, whole).measured())
    worst.sort(key=lambda case: -case[0])
    found = [
        _failure(gate, [whole.runs[at] for at in places], said, rows)
        for _, places, said in worst[:CASES_LISTED]
    ]
    return tuple(found), len(worst)


WorstCases = list[tuple[float, list[int], str]]


def _bad_cases(side: Arm) -> WorstCases:
    """Return the cases that have bad runs: how bad, the places of these runs, nothing to add."""
    cases: dict[object, list[int]] = {}
    for row in np.flatnonzero(side.top > 0).tolist():
        cases.setdefault(side.cases[row], []).append(row)
    worst: WorstCases = []
    for rows in cases.values():
        rows.sort(key=lambda row: -side.top[row])
        worst.append((float(side.top[rows].sum()), side.at[rows].tolist(), ""))
    return worst


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
            said = f"{_of(new)} are bad (in the baseline, {_of(first)})"
            chosen = rows[new > 0]
        if more > limit:
            worst.append((more, now.at[chosen].tolist(), said))
    return worst


def _of(bad: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> str:
    return f"{bad.sum():g} of {len(bad)} runs" if len(bad) != 1 else f"{bad.sum():g} of 1 run"


def _failure(gate: GatePolicy, runs: Sequence[SampleRun], said: str, rows: Rows) -> CaseFailure:
    measure = "errors" if gate.quantity.kind == "recovered" else gate.quantity.measure
    steps: tuple[int, ...] = ()
    reason = ""
    # An aspect counts; the whole measure may say it in words.
    names = filter(None, dict.fromkeys((measure, measure.rpartition(".")[0])))
    for name in names if runs[0].id and gate.source == RULES else ():
        for record in rows.records(trajectory=runs[0].id, measure=name):
            answer = record.answer
            if isinstance(answer, Verdict) and answer.step is None:
                steps = steps or answer.cites
                reason = reason or answer.reason
    if runs[0].id and gate.source != RULES:
        steps, reason = judged_evidence(gate, runs[0].id, rows)
    return CaseFailure(
        case=runs[0].case,
        runs=tuple(run.name for run in runs),
        ids=tuple(run.id for run in runs if run.id),
        steps=steps,
        evidence=scrub_message("; ".join(part for part in (said, reason) if part)),
    )


# Chance of a false alarm over all gates of one invocation, and all looks at one commit.
ALPHA = 0.05


def decide_gates(
    rows: Rows,  # a store, or anything else with its columns
    policies: Sequence[WorkflowPolicy],  # the workflows to gate
    *,
    # by workflow, as `baseline.load_baselines` gives them
    baselines: Mapping[str, Sample | GateAnswer],
    # which runs are under test; those of the baseline are left out where there are others
    where: Where | None = None,
    commit: str | None = None,  # what is under test; runs of earlier looks at it are pooled
    # how often this commit was gated at least, this time included, as CI knows it
    attempt: int = 1,
    looks: Looks | None = None,  # the log of looks, renewed here; the caller saves it
    seed: int = 0,  # where permutations that are drawn start
    alpha: float = ALPHA,  # chance of a false alarm over all gates and looks
    # asked before each gate; once it says yes, the rest is out of time
    enough: Callable[[], bool] | None = None,
    set_aside: int = 0,  # records among those under test that could not be read
    apart: bool = False,  # the rows hold no run because a baseline was made of it
) -> types.GateReport:
    """Return the decisions of all gates of one invocation.

    `StoreError` where the records of a measure are of two versions; `UsageError` where there is
    nothing to gate, or two policies of one workflow.
    """
    names = [policy.workflow for policy in policies]
    if not any(policy.gates for policy in policies):
        raise UsageError("no gate is declared; add [workflow.NAME.gates] to the settings")
    if len(set(names)) < len(names):
        raise UsageError(f"a workflow is gated twice: {', '.join(sorted(names))}")
    asked = [gate for policy in policies for gate in policy.gates if gate.source in policy.tier]
    columns = {*chain.from_iterable(gate.reads for gate in asked)}
    labelled = frozenset().union(*(policy.labelled for policy in policies))
    found = read_gate_samples(rows, names, columns, where, labelled=labelled)
    log = Looks() if looks is None else looks
    labels = {
        name: of
        for name in sorted({gate.reads[0] for gate in asked if gate.source != RULES})
        if (of := read_run_labels(rows, split_judged(name)[0], digits=ID_DIGITS))
    }
    counts = {} if looks is None else {name: len(of) for name, of in labels.items()}
    prepare = partial(prepare_workflow, log=log, commit=commit, apart=apart, labels=counts)
    settings = [
        prepare(
            policy,
            found[name],
            baselines.get(name) or load_baseline(None, name),
            none="" if found[name].runs else say_no_runs(rows, name, where),
        )
        for name, policy in zip(names, policies, strict=True)
    ]
    lacks = absences([s.design for s in settings], [s.missing for s in settings], set_aside)
    look = max([attempt, *(setting.sample.looks for setting in settings)])
    settings = [
        replace(one, absent=gone * max(1, one.sample.looks), seed=seed, labels=labels, look=look)
        for one, gone in zip(settings, lacks, strict=True)
    ]
    judged = any(gate.source != RULES for policy in policies for gate in policy.gates)
    shifts = tuple(find_shifts(rows)) if judged else ()
    tests = [
        _answer_drift(gate, s.sample, shifts)
        or evaluate_gate(s, gate, rows, late=enough is not None and enough())
        for s in settings
        for gate in s.policy.gates
    ]
    answers, spent = answer_gates(tests, look, alpha)
    alone = spent / max(1, sum(isinstance(one, GateTest) for one in tests))
    known = zip(tests, answers, strict=True)
    told = iter([(_with_power(test, found, alone), p, adj) for test, (found, p, adj) in known])
    return types.GateReport(
        workflows=tuple(
            _workflow(setting, tuple(islice(told, len(setting.policy.gates))), rows)
            for setting in settings
        ),
        commit=commit,
        policy_hash=policies_hash(policies),
        look=look,
        alpha=alpha,
        alpha_look=spent,
        tier=tuple(dict.fromkeys(chain.from_iterable(policy.tier for policy in policies))),
        seed=seed,
    )


def answer_gates(
    found: Sequence[GateTest | GateAnswer], look: int, alpha: float
) -> tuple[list[tuple[GateAnswer, float | None, float | None]], float]:
    """Return each answer with its p and adjusted p, and the part of alpha that this look may spend.

    `look` counts from 1; `alpha` is the chance of a false alarm over all gates and looks.
    """
    tested = [min(1.0, one.p / one.weight) for one in found if isinstance(one, GateTest)]
    share = stats.look_alpha(look, alpha)
    adjusted = iter(stats.holm(tested).tolist())
    told: list[tuple[GateAnswer, float | None, float | None]] = []
    for one in found:
        if isinstance(one, GateAnswer):
            told.append((one, None, None))
        else:
            p = next(adjusted)
            told.append((one.answer(Spending(p, share, share / len(tested))), one.p, p))
    return told, share


def _with_power(test: GateTest | GateAnswer, answer: GateAnswer, alone: float) -> GateAnswer:
    """Add to a pass what it could have seen."""
    if answer.outcome != "pass" or isinstance(test, GateAnswer) or test.power is None:
        return answer
    said, seen = test.power(alone)
    reason = "; ".join(part for part in (answer.reason, said) if part)
    return replace(answer, reason=reason, detectable=seen)


def _workflow(
    setting: WorkflowUnderTest,
    answers: Sequence[tuple[GateAnswer, float | None, float | None]],
    rows: Rows,
) -> types.WorkflowDecision:
    cases = setting.sample.cases
    baseline = setting.baseline if isinstance(setting.baseline, Sample) else None
    known = () if baseline is None else baseline.cases
    compared = bool(known) and bool(cases)
    return types.WorkflowDecision(
        workflow=setting.policy.workflow,
        n_runs=len(setting.sample.runs),
        n_cases=len(cases),
        n_baseline_runs=0 if baseline is None else len(baseline.runs),
        n_shared=len(set(known) & set(cases)),
        vanished=tuple(case for case in known if case not in set(cases)) if compared else (),
        new=tuple(case for case in cases if case not in set(known)) if compared else (),
        absent=said(setting.absent),
        design=setting.design.narrower,
        gates=tuple(
            _decision(setting, gate, *answer, rows)
            for gate, answer in zip(setting.policy.gates, answers, strict=True)
        ),
    )


# Why a gate was not put to the runs at all.
NOT_ASKED = ("source_not_in_tier", "out_of_time", "no_runs")


def _decision(
    setting: WorkflowUnderTest,
    gate: GatePolicy,
    answer: GateAnswer,
    p: float | None,
    p_adjusted: float | None,
    rows: Rows,
) -> types.GateDecision:
    asked = answer.cause not in NOT_ASKED
    parts = [answer.reason, *([said(setting.absent), setting.design.narrower] if asked else [])]
    decision = types.GateDecision(
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
        uncorrected=answer.uncorrected,
        p=p,
        p_adjusted=p_adjusted,
        detectable=answer.detectable,
        runs_needed=answer.runs_needed,
        n_runs=len(setting.sample.runs),
        notes=setting.notes if asked else (),
    )
    if answer.outcome != "fail" and answer.cause != "interval":
        return decision
    cases, n = list_failing_cases(gate, setting, rows)
    return msgspec.structs.replace(decision, failing=cases, n_failing=n)
