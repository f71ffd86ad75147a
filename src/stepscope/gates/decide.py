"""Rows, policies and baselines in, one `GateReport` out: the only place where gates are decided.

Every gate is asked first, lost runs at their best; Holm adjusts the p of all gates of the
invocation together; then each is answered. A gate that could not be measured never passes: its
cause says which of the many ways it was. Nothing is read from disk or written here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import msgspec

from stepscope import stats
from stepscope.errors import UsageError
from stepscope.gates.answers import Answer, Question, Spend
from stepscope.gates.asking import Asked, Setting, ask, setting_of
from stepscope.gates.baseline import Baseline, BaselineProblem, load
from stepscope.gates.design import absences, said
from stepscope.gates.failing import failing
from stepscope.gates.looks import Looks
from stepscope.gates.policy import RULES, WorkflowPolicy, policies_hash
from stepscope.gates.sample import Sample, no_runs, read
from stepscope.gates.types import GateDecision, GateReport, WorkflowDecision
from stepscope.store.columns import Rows
from stepscope.store.where import Where

# Chance of a false alarm over all gates of one invocation, and all looks at one commit.
ALPHA = 0.05


def decide(
    rows: Rows,
    policies: Sequence[WorkflowPolicy],
    *,
    baselines: Mapping[str, Baseline | BaselineProblem],
    where: Where | None = None,
    tier: Sequence[str] = (RULES,),
    commit: str | None = None,
    attempt: int = 1,
    looks: Looks | None = None,
    seed: int = 0,
    alpha: float = ALPHA,
    false_alarms: Mapping[str, float] | None = None,
    enough: Callable[[], bool] | None = None,
    set_aside: int = 0,
    apart: bool = False,
) -> GateReport:
    """Return the decisions of all gates of one invocation.

    Args:
        rows: a store, or anything else with its columns.
        policies: the workflows to gate.
        baselines: by workflow, as `baseline.load_all` gives them.
        where: which runs are under test; those of the baseline are left out where there are others.
        tier: the sources whose gates are run; the others are not run, and listed.
        commit: what is under test; runs of earlier looks at it are pooled.
        attempt: how often this commit was gated at least, this time included, as CI knows it.
        looks: the log of looks, renewed here; the caller saves it.
        seed: where permutations that are drawn start.
        alpha: chance of a false alarm over all gates and looks.
        false_alarms: by judge, how often it calls a good run bad, as measured.
        enough: asked before each gate; once it says yes, the rest is out of time.
        set_aside: records among those under test that could not be read.
        apart: the rows hold no run because a baseline was made of it.

    Raises:
        StoreError: the records of a measure are of two versions.
        UsageError: there is nothing to gate, or two policies of one workflow.
    """
    _check(policies)
    samples = _samples(rows, policies, where)
    log = Looks() if looks is None else looks
    settings = [
        setting_of(
            policy,
            sample,
            baselines.get(policy.workflow) or load(None, policy.workflow),
            log=log,
            commit=commit,
            apart=apart,
            none="" if sample.runs else no_runs(rows, policy.workflow, where),
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
            ask(s, gate, tier=tier, seed=seed, false_alarms=false_alarms or {}, late=late())
            for gate in s.policy.gates
        ]
        for s in settings
    ]
    look = max([attempt, *(setting.looks for setting in settings)])
    answers, spend = answered([one.found for each in asked for one in each], look, alpha)
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
    samples = read(rows, names, measures, where, labelled=labelled)
    return [samples[name] for name in names]


def answered(
    found: Sequence[Question | Answer], look: int, alpha: float
) -> tuple[list[tuple[Answer, float | None, float | None]], Spend]:
    """Return each answer with its p and adjusted p, and what this look may spend.

    Args:
        found: what asking every gate of an invocation came to.
        look: which look it is, from 1.
        alpha: chance of a false alarm over all gates and looks.
    """
    tested = [one.p for one in found if not isinstance(one, Answer)]
    share = stats.look_alpha(look, alpha)
    spend = Spend(alpha=share, alpha_pass=2 * share, tests=len(tested))
    adjusted = iter(stats.holm(tested).tolist())
    told: list[tuple[Answer, float | None, float | None]] = []
    for one in found:
        if isinstance(one, Answer):
            told.append((one, None, None))
        else:
            p_adjusted = next(adjusted)
            told.append((one.answer(p_adjusted, spend), one.p, p_adjusted))
    return told, spend


def _workflow(
    setting: Setting,
    answers: Sequence[tuple[Asked, Answer, float | None, float | None]],
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
    setting: Setting,
    asked: Asked,
    answer: Answer,
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
    cases, n = failing(gate, asked.current, asked.baseline, setting.whole, rows)
    return msgspec.structs.replace(decision, failing=cases, n_failing=n)
