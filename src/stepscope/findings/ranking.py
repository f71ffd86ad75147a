"""One ranking of the agent's steps in a failed run: where it went wrong, with probabilities.

The records of `localise` hold what one run shows by itself: the log of each step's share, and one
probability that no step of the agent is at fault. What only a store knows comes in here, when the
records are read, as factors: a write that no passing trial of the task makes, breaches of policy,
faults of axes, what judges said, breaks of score curves. A factor says how many times more often
such a step is where a run went wrong; the same holds against "no step of the agent". That of a
proved fault is counted, see `FAULT_FACTORS`; the others are set by hand, by how directly the
evidence contradicts the run, since no labelled public run has judges or trials; what they do to
the figures is measured on the list that is printed (`python -m bars.run fit_localise`). Refused:
runs that did not fail (what is proved of them is `find_proofs`), and records of an older version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import exp, log
from operator import mul
from pathlib import Path
from typing import Literal

import msgspec

from stepscope.errors import ConfigError
from stepscope.judges.patterns import find_label_patterns
from stepscope.measures import localise
from stepscope.measures.calls import agent_calls, effect_of, ends_run, has_succeeded
from stepscope.measures.localise import Kind
from stepscope.measures.rule import INCORRECT
from stepscope.measures.same_calls import same_arguments, tool_called
from stepscope.measures.step_features import PLACE_NAMES, Family, agent_steps, place_features
from stepscope.model import Answer, Exchange, Facts, Json, Record, Trajectory, Verdict
from stepscope.model.records import JUDGE_PREFIX, OUTRANKED, RULES, STEP_LABELS_NAME
from stepscope.safety.limits import read_file
from stepscope.values import Unmeasured

StoreKind = Literal[
    "new_write",  # the first successful write that no passing trial of the task makes
    "breach",  # a declared rule of conduct was broken
    "fault",  # an axis of the rules is at fault here
    "judge_cause",  # a judge says that the run broke here
    "judge_fault",  # a judge cites the step for an axis at fault
    "judge_error",  # a judge calls the step an error
    "judge_cascade",  # the same, no later step addresses it, and the run goes on
    "break",  # the step scores fall here
    "gate",  # a step of the highest weight scored below the gate
]
# How many times more often such a step is where a run went wrong. In 34 of 35 failed airline runs
# with a new write it is the write that the reference calls wrong.
STORE_FACTORS: dict[StoreKind, float] = {
    "new_write": 12.0,
    "judge_cause": 6.0,
    "judge_cascade": 6.0,
    "breach": 4.0,
    "break": 4.0,
    "judge_fault": 3.0,
    "judge_error": 3.0,
    "gate": 3.0,
}
# Of a fault that an axis of the rules has proved: the share of decisive steps that have one, by the
# share of other steps that do. Runs with calls: 3 of 10 decisive steps on public labels, cautiously
# .1, by .003 of the steps of passing runs (5 faults, and one more, in 1,900 steps; `python -m
# bars.run planted`). Runs in which agents only talk: 1 of 58 decisive steps, and 6 of 321 others,
# drawn towards 1 (`python -m bars.run fit_localise`).
FAULT_FACTORS: dict[Family, float] = {"calls": 30.0, "search": 1.5, "dialogue": 1.5}
# What says a second time what `localise` has counted at the step: only what its factor is larger
# counts again.
SAID_TWICE: dict[str, frozenset[Kind]] = {
    "new_write": frozenset({"wrong_write", "other_write", "write"}),
    "breach": frozenset({"unconfirmed"}),
    "axes.argument_validity": frozenset({"invented", "origin", "wrong_write"}),
    "axes.result_interpretation": frozenset({"ignored"}),
    "axes.sequencing": frozenset({"unconfirmed"}),
    "axes.tool_selection": frozenset({"other_write", "repeat", "repeated", "failed", "ignored"}),
    "axes.termination": frozenset({"gave_up", "end"}),
}
AXES = "axes."
_CAUSE = "attribution"
_ERROR = "ERROR"
# Passing trials of a task that a run is compared with: more tell nothing new, and cost reading.
MOST_TRIALS = 20
NOT_RANKED = Unmeasured(
    "missing_input",
    "no record of localise that is current; stepscope score makes it",
    localise.LOCALISE_NAME,
)


class StepEvidence(msgspec.Struct, frozen=True):
    """What something else says of a step of the agent; what a `source` repeats is counted once."""

    step: int
    kind: StoreKind
    reason: str  # one sentence
    cites: tuple[int, ...] = ()
    source: str = ""


class RankedStep(msgspec.Struct, frozen=True):
    """A step of the agent, with the probability that the run went wrong there."""

    step: int
    share: float
    kind: Kind | StoreKind  # the strongest evidence; "place" where nothing was found
    label: Kind  # the strongest evidence in the run itself
    own: str  # what the run itself shows there
    more: tuple[str, ...]  # what a store adds, one sentence each
    cites: tuple[int, ...]


class StepRanking(msgspec.Struct, frozen=True):
    """Every step of the agent, the likeliest first; shares and `nobody` sum to 1."""

    steps: tuple[RankedStep, ...]
    nobody: float  # probability that no step of the agent is at fault
    family: Family  # the kind of run that the figures were measured on


class FamilyFit(msgspec.Struct, frozen=True):
    """What the labels of one store add to the shipped table, for one family of runs."""

    temperature: float  # of the log share
    places: dict[str, float]  # weights of the features in `PLACE_NAMES`
    nobody: float  # probability that no step of the agent is at fault
    runs: int  # labelled runs that it was fitted on


StoreFit = dict[Family, FamilyFit]


def fit_path(store: str) -> Path | None:
    """Return where the fit of a store stands: beside its file; None for a store in memory."""
    return None if store == ":memory:" else Path(f"{store}.localise.json")


def read_fit(store: str) -> StoreFit:
    """Return what `stepscope calibrate localise` fitted, empty without; ConfigError if damaged."""
    path = fit_path(store)
    try:
        return msgspec.json.decode(b"{}" if path is None else read_file(path), type=StoreFit)
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as e:
        raise ConfigError(
            f"{str(path)!r} is not a fit of localise ({e}); delete it, or make it again "
            "with stepscope calibrate localise"
        ) from e


def rank_steps(
    records: Iterable[Record],  # of one run; those of judges where they are current
    evidence: Iterable[StepEvidence] = (),  # what the store knows besides records, in any order
    *,
    trajectory: Trajectory | None = None,  # needed where a fit is given
    fit: StoreFit | None = None,  # what the labels of the store add to the shipped table
) -> StepRanking | Unmeasured:
    """Return every step of the agent with its probability, the likeliest first."""
    held = list(records)
    own, nobody, absent = _read_localise(held)
    if absent is not None:
        return absent
    if nobody is None or nobody.value is None or not own:
        return NOT_RANKED
    odds = {step: (1.0 - nobody.value) * exp(answer.value or 0.0) for step, answer in own.items()}
    at: dict[int, list[StepEvidence]] = {}
    seen: set[tuple[int, str]] = set()
    kinds: set[str] = set()
    family: Family = nobody.label  # type: ignore[assignment]
    factors: dict[StoreKind, float] = {**STORE_FACTORS, "fault": FAULT_FACTORS[family]}
    for one in sorted(chain(evidence_of_records(held), evidence), key=lambda e: e.step):
        source = one.source or one.kind
        if one.step not in odds or (one.step, source) in seen:
            continue
        seen.add((one.step, source))
        at.setdefault(one.step, []).append(one)
        # Faults of several axes at one step have one cause, and the first is that of later ones.
        same = one.kind if one.kind == "fault" else source
        if same != source and (one.step, same) in seen:
            continue
        seen.add((one.step, same))
        factor = factors[one.kind]
        factor = factor if same not in kinds else 1.0 + (factor - 1.0) * localise.AGAIN
        kinds.add(same)
        known = own[one.step].label
        if known in SAID_TWICE.get(source, ()):
            factor = max(factor / localise.FACTORS[known], 1.0)  # type: ignore[index]
        odds[one.step] *= factor
    without = nobody.value
    of_family = (fit or {}).get(family)
    if of_family is not None and trajectory is not None:
        odds = _apply_fit(of_family, trajectory, odds, 1.0 - without)
        without = of_family.nobody
    total = without + sum(odds.values())
    shares = {step: odds[step] / total for step in own}
    ranked = [_rank(own[step], share, at.get(step, ()), factors) for step, share in shares.items()]
    ranked.sort(key=lambda one: (-one.share, one.step))
    return StepRanking(tuple(ranked), without / total, family)


def _apply_fit(
    fit: FamilyFit, trajectory: Trajectory, odds: Mapping[int, float], before: float
) -> dict[int, float]:
    """Return the odds of steps under a fit; evidence weighs against nobody as it did `before`."""
    weights = [fit.places.get(name, 0.0) for name in PLACE_NAMES]
    places = dict(zip(agent_steps(trajectory), place_features(trajectory), strict=True))
    score = {
        step: fit.temperature * log(share) + sum(map(mul, weights, places[step]))
        for step, share in odds.items()
    }
    most = max(score.values())
    raised = {step: exp(value - most) for step, value in score.items()}
    by = (1.0 - fit.nobody) / before * sum(odds.values()) / sum(raised.values())
    return {step: share * by for step, share in raised.items()}


def find_proofs(records: Iterable[Record]) -> list[StepEvidence]:
    """Return what rules prove of single steps of a run, by step, breaches of rules first."""
    held = [record for record in records if record.family == RULES]
    return sorted(evidence_of_records(held), key=lambda one: (one.step, one.kind))


def _read_localise(
    records: Iterable[Record],
) -> tuple[dict[int, Verdict], Verdict | None, Unmeasured | None]:
    """Return the answers of `localise` by step, the one about no step, and why there is none."""
    own: dict[int, Verdict] = {}
    nobody: Verdict | None = None
    for record in records:
        answer = record.answer
        if record.family != RULES or record.version != localise.LOCALISE.version:
            continue
        if isinstance(answer, Unmeasured):
            if answer.measure == localise.LOCALISE_NAME:
                return {}, None, answer
        elif answer.measure == localise.NOBODY_NAME:
            nobody = answer
        elif answer.measure == localise.LOCALISE_NAME and answer.step is not None:
            own[answer.step] = answer
    return own, nobody, None


def _rank(
    own: Verdict, share: float, here: Sequence[StepEvidence], factors: Mapping[StoreKind, float]
) -> RankedStep:
    strongest = max(here, key=lambda one: factors[one.kind], default=None)
    label: Kind = own.label  # type: ignore[assignment]
    kind: Kind | StoreKind = label
    if strongest is not None and factors[strongest.kind] >= localise.FACTORS[label]:
        kind = strongest.kind
    return RankedStep(
        step=-1 if own.step is None else own.step,
        share=share,
        kind=kind,
        label=label,
        own=own.reason,
        more=tuple(dict.fromkeys(one.reason for one in here)),
        cites=tuple(sorted(set(own.cites).union(*(one.cites for one in here)))),
    )


def evidence_of_records(records: Iterable[Record]) -> Iterator[StepEvidence]:
    """Yield what rules and judges said of single steps; answers that find nothing say nothing."""
    held = list(records)
    blamed = {
        (record.family, record.judge, record.repeat): record.answer.label
        for record in held
        if isinstance(record.answer, Verdict)
        and record.answer.measure == f"{JUDGE_PREFIX}{_CAUSE}.whose"
    }
    cascades = _find_cascades(held)
    for record in held:
        answer = record.answer
        if not isinstance(answer, Verdict) or answer.reason.startswith(OUTRANKED):
            continue
        if record.family == RULES:
            at, measure = answer.step, answer.measure
            if at is not None and measure == "policy":
                said = f"breaks the rule {answer.label!r}: {answer.reason}".removesuffix(": ")
                yield StepEvidence(at, "breach", said, answer.cites)
            elif at is not None and measure.startswith(AXES) and answer.label == INCORRECT:
                yield StepEvidence(at, "fault", answer.reason, answer.cites, measure)
        elif answer.measure.startswith(JUDGE_PREFIX):
            whose = blamed.get((record.family, record.judge, record.repeat), "agent")
            rubric = answer.measure.removeprefix(JUDGE_PREFIX)
            who = record.judge or record.family
            by = f"{rubric} of {who}"
            if rubric == STEP_LABELS_NAME and answer.step is not None and answer.label == _ERROR:
                cascade = (record.family, record.judge, record.repeat, answer.step) in cascades
                kind: StoreKind = "judge_cascade" if cascade else "judge_error"
                said = "an error that no later step addresses" if cascade else "an error"
                said = f"{said}, says {who}: {answer.reason}"
                yield StepEvidence(answer.step, kind, said, answer.cites, by)
            elif rubric == _CAUSE and whose == "agent":
                for step in answer.cites[:1]:
                    said = f"the run broke here, says {who}: {answer.reason}"
                    yield StepEvidence(step, "judge_cause", said, answer.cites, by)
            elif rubric.startswith(AXES) and answer.label == INCORRECT:
                for step in answer.cites if answer.step is None else (answer.step,):
                    said = f"{rubric.removeprefix(AXES).replace('_', ' ')} at fault, says {who}: "
                    yield StepEvidence(step, "judge_fault", said + answer.reason, answer.cites, by)


def _find_cascades(records: Iterable[Record]) -> set[tuple[str, str, int, int]]:
    """Return where errors are never addressed, by family, judge, repeat and step."""
    labels: dict[tuple[str, str, int], list[Answer]] = {}
    for record in records:
        if record.answer.measure == JUDGE_PREFIX + STEP_LABELS_NAME:
            voice = (record.family, record.judge, record.repeat)
            labels.setdefault(voice, []).append(record.answer)
    found = set()
    for voice, answers in labels.items():
        acted = {answer.step for answer in answers if answer.step is not None}
        said = find_label_patterns(answers, acted)["cascade"]
        cascades = () if isinstance(said, Unmeasured) else said
        found |= {(*voice, one.step) for one in cascades}
    return found


def find_new_write(
    trajectory: Trajectory, passing: Iterable[Trajectory], facts: Facts | None
) -> StepEvidence | None:
    """Return the first successful write of a run that no passing trial of its task makes."""
    made: dict[str, dict[str, Json]] = {}
    trials = 0
    for trial in passing:
        trials += 1
        for exchange in _writes(trial, facts):
            made.setdefault(exchange.call.name, {})[exchange.key] = exchange.call.arguments
    for exchange in _writes(trajectory, facts) if trials else ():
        known = made.get(exchange.call.name, {})
        tool = tool_called(trajectory, exchange.call.name)
        given = exchange.call.arguments
        if exchange.key not in known and not any(
            same_arguments(given, one, tool) for one in known.values()
        ):
            one = "the passing trial" if trials == 1 else f"none of {trials} passing trials"
            verb = "does not make" if trials == 1 else "makes"
            said = f"{exchange.call.name}: {one} of this task {verb} this write"
            return StepEvidence(exchange.step, "new_write", said, (exchange.step,))
    return None


def _writes(trajectory: Trajectory, facts: Facts | None) -> Iterator[Exchange]:
    for exchange in agent_calls(trajectory):
        name = exchange.call.name
        if effect_of(name, facts) == "write" and not ends_run(name) and has_succeeded(exchange):
            yield exchange


# Two teams who labelled the same public runs name the same step this often.
PEOPLE_AGREE = "36 %"
_RUNS_OF: dict[Family, str] = {
    "calls": "with tool calls",
    "search": "of agents led by a planner",
    "dialogue": "of agents that talk with each other",
}


def describe_reliability(family: Family) -> str:
    """Return how often a list of this kind of run is right, out of fold, in one sentence."""
    table = localise.read_table()
    runs = table.runs[family]
    first, three, _ = (round(share * runs) for share in table.reliability[family])
    return (
        f"On {runs} public runs {_RUNS_OF[family]}, the step that people blamed was listed first "
        f"in {first} runs and among the first three in {three} (these labels were not used to fit "
        f"the ranking). On other runs, two teams of people named the same step in {PEOPLE_AGREE} "
        "of the runs"
    )
