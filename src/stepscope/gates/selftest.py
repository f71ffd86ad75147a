"""How often a policy would be wrong: its gates, put to runs drawn from its own baseline.

Each time the runs of every case of the design are drawn anew, from those of the case in the
baseline and, as one run more, from one of any case, each weighed by chance (the Bayesian bootstrap
with one pseudo-run: so often that cases run once vary as well). What a gate then fails is a false
alarm. With a worsening put into its runs, what it passes is missed: good runs turn bad until so
many fewer are good, or take so much longer. Whole runs are drawn, so that gates fail together as
they do. Nothing of a run beyond its answers is simulated; cases that nobody recorded are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, repeat

import msgspec
import numpy as np

from stepscope import stats
from stepscope.errors import UsageError
from stepscope.gates.baseline import design_of
from stepscope.gates.decide import ALPHA, WorkflowUnderTest, answer_gates, evaluate_gate
from stepscope.gates.rates import Spending
from stepscope.gates.sample import Arm, Sample, SampleRun, build_arm
from stepscope.gates.settings import DROP, REPLICATIONS, GatePolicy, WorkflowPolicy
from stepscope.gates.types import GateAnswer, GateOutcome, Severity
from stepscope.model.records import Figure
from stepscope.values import Unmeasured, format_count

# Below so many cases their spread says little of others.
FEW_CASES = 20
NOTHING_NEW = Unmeasured("not_applicable", "drawn runs have no mode that the baseline lacks")


class GateErrors(msgspec.Struct, frozen=True, kw_only=True):
    """How often one gate is wrong, as shares of the invocations that were drawn."""

    name: str  # the gate as the policy calls it
    severity: Severity
    false_alarms: Figure  # it fails though nothing got worse
    undecided: Figure  # it decides nothing though nothing got worse
    missed: Figure  # it passes though its runs got worse
    undecided_worse: Figure  # it decides nothing though its runs got worse
    not_run: str = ""  # why it is asked of nobody


class GateSelftest(msgspec.Struct, frozen=True, kw_only=True):
    """The selftest of one workflow."""

    workflow: str
    n_runs: int  # runs of the baseline
    n_cases: int  # their cases
    drawn: int  # runs of each invocation
    invocations: int  # that were drawn
    drop: float  # by how much fewer runs are good, a share; by how much longer runs take
    seed: int
    alpha: float  # chance of a false alarm over all gates and looks; this is one first look
    false_alarms: Figure  # any hard gate fails though nothing got worse
    gates: tuple[GateErrors, ...]
    notes: tuple[str, ...] = ()  # what these shares cannot say


def selftest_gates(
    policy: WorkflowPolicy,
    baseline: Sample | GateAnswer,
    *,
    drop: float = DROP,  # the worsening that is put in, in (0, 1]
    replications: int = REPLICATIONS,  # invocations drawn
    seed: int = 0,
    enough: Callable[[], bool] = lambda: False,  # asked before each; ends it with what there is
) -> GateSelftest:
    """Return how often the gates of a policy are wrong on runs like those of its baseline.

    `UsageError` without a baseline, or where the drop or the number makes no sense.
    """
    if isinstance(baseline, GateAnswer):
        raise UsageError(f"--selftest draws from the baseline: {baseline.reason}")
    if not 0 < drop <= 1 or replications < 1:
        got = f"got {drop!r} and {replications!r}"
        raise UsageError(f"a selftest takes a drop in (0, 1] and 1 replication or more; {got}")
    design = design_of(policy, baseline, ())
    places: dict[str, list[int]] = {}
    for at, run in enumerate(baseline.runs):
        places.setdefault(run.case, []).append(at)
    before = [build_arm(gate, baseline).measured() for gate in policy.gates]
    good = [float(np.mean(arm.top == 0)) if len(arm.at) else 1.0 for arm in before]
    null: list[list[GateOutcome]] = []
    worse: list[list[GateOutcome]] = []
    plain = WorkflowUnderTest(policy=policy, sample=baseline, baseline=baseline, design=design)
    for number in range(replications):
        if enough():
            break
        rng = np.random.default_rng([seed, number])
        sample = _draw(baseline, design.trials, places, rng)
        setting = replace(plain, sample=sample, seed=number, change=lambda arm: arm)
        tests = [evaluate_gate(setting, gate, None) for gate in policy.gates]
        null.append([answer.outcome for answer, *_ in answer_gates(tests, 1, ALPHA)[0]])
        # Of the others only p is asked, where one gate is worse.
        mute = [x if isinstance(x, GateAnswer) else replace(x, answer=_nothing) for x in tests]
        worse.append([])
        for at, gate in enumerate(policy.gates):
            if gate.about == "modes":
                worse[-1].append("not_run")
                continue
            change = partial(_worsen, gate, drop, drop / max(good[at], drop), rng)
            mute[at], held = evaluate_gate(replace(setting, change=change), gate, None), mute[at]
            worse[-1].append(answer_gates(mute, 1, ALPHA)[0][at][0].outcome)
            mute[at] = held
    hard = [at for at, gate in enumerate(policy.gates) if gate.severity == "hard"]
    return GateSelftest(
        workflow=policy.workflow,
        n_runs=len(baseline.runs),
        n_cases=len(places),
        drawn=sum(design.trials.values()),
        invocations=len(null),
        drop=drop,
        seed=seed,
        alpha=ALPHA,
        false_alarms=_share([any(row[at] == "fail" for at in hard) for row in null]),
        gates=tuple(
            GateErrors(
                name=gate.name,
                severity=gate.severity,
                undecided=_share([row[at] == "undecided" for row in null]),
                false_alarms=_errors(gate, [row[at] == "fail" for row in null]),
                missed=_errors(gate, [row[at] == "pass" for row in worse]),
                undecided_worse=_errors(gate, [row[at] == "undecided" for row in worse]),
                not_run="" if gate.source in policy.tier else f"{gate.source} is not in the tier",
            )
            for at, gate in enumerate(policy.gates)
        ),
        notes=tuple(_notes(places, len(null), replications)),
    )


def _draw(
    baseline: Sample,
    trials: Mapping[str, int],
    places: Mapping[str, Sequence[int]],
    rng: np.random.Generator,
) -> Sample:
    """Return runs of the design: of each case its own runs and one of any, weighed by chance."""
    taken: list[int] = []
    for case, n in trials.items():
        known = [*places.get(case, ()), int(rng.integers(len(baseline.runs)))]
        weights = np.cumsum(rng.exponential(size=len(known)))
        taken += [
            known[at] for at in np.searchsorted(weights, weights[-1] * rng.random(n)).tolist()
        ]
    cases = chain.from_iterable(repeat(case, n) for case, n in trials.items())
    runs = [SampleRun(f"drawn {at}", f"drawn {at}", case) for at, case in enumerate(cases)]
    return msgspec.structs.replace(baseline.take(taken), runs=tuple(runs))


def _worsen(
    gate: GatePolicy, drop: float, chance: float, rng: np.random.Generator, arm: Arm
) -> Arm:
    """Lengthen lengths by `drop`; of other figures turn each good run bad with a chance."""
    if gate.about == "ratio":
        return replace(arm, top=arm.top * (1 + drop))
    turned = (arm.top == 0) & (arm.size > 0) & (rng.random(len(arm.top)) < chance)
    return replace(arm, top=np.where(turned, arm.size, arm.top))


def _nothing(at: Spending) -> GateAnswer:
    return GateAnswer("not_run", "")


def _share(seen: Sequence[bool]) -> Figure:
    return stats.proportion(seen, target="these cases", unit_of_n="invocations")


def _errors(gate: GatePolicy, seen: Sequence[bool]) -> Figure:
    return NOTHING_NEW if gate.about == "modes" else _share(seen)


def _notes(places: Mapping[str, Sequence[int]], done: int, asked: int) -> Iterator[str]:
    once = sum(len(of_case) == 1 for of_case in places.values())
    if len(places) < FEW_CASES:
        yield f"{format_count(len(places), 'case')}: too few to say how other cases would do"
    if once:
        yield (
            f"{format_count(once, 'case')} of {len(places):,} run once: how much such a case "
            "varies is taken from the others; more trials in the baseline would tell"
        )
    if done < asked:
        yield f"stopped after {done:,} of {asked:,} invocations"
