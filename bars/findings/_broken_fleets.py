"""Fleets in which it is known what broke: runs with the records that rules leave of them.

Written from the description of the task, before anything that finds modes: tasks times trials; a
few planted modes, each the cause of 6 to 10 % of all runs' failures to pass; evidence that is
missing in a tenth of the runs; signatures that have nothing to do with the outcome, some of which
mark hard tasks; and failures that are each alone. A mode leaves one record or several in a run, in
the words of the rules, with ids, amounts, dates and steps that differ from run to run. Rates differ
from task to task: of a mode by a log-normal factor of SD `SPREAD`, of the lone failures by the
task's difficulty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stepscope.model import Answer, Outcome, Record, Source, Step, Trajectory, Verdict
from stepscope.model.records import UNCERTAIN
from stepscope.store import Store
from stepscope.values import Unmeasured

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Draw = np.random.Generator

# How much rates of modes and of noise differ between tasks, and how much tasks differ in
# difficulty: SD of the logarithm of the rate.
SPREAD, DIFFICULTY = 0.7, 0.7
# Share of runs in which a signature that means nothing stands.
NOISE_RATES = (0.02, 0.10)
# Of those, so many are commoner the harder the task.
HARD_NOISE = 5
# Share of passing runs with an oddity of their own; of lone failures with evidence of any kind.
ODD, EXPLAINED = 0.2, 0.5
# How often what follows from a cause is seen, too.
FOLLOWS = 0.6

TOOLS = (
    "get_customer", "find_order", "cancel_order", "refund_payment", "update_address",
    "exchange_item", "book_seat", "send_voucher", "search_catalogue", "calculate",
    "reserve_table", "change_plan",
)  # fmt: skip
ERRORS = (
    "Error: amount {amount} is larger than the balance of {id}",
    "Error: total is {amount}, but paid {amount2}",
    "Error: no seat left in {id} on {date}",
    "Error: item {id} is not delivered yet",
    "Error: customer {id} not found",
    "Error: 2 items expected, got {n}",
    "HTTP 429: too many requests, retry in {n} s",
    "timed out after {seconds} s",
    "ValueError: could not convert string to float: '{quote}'",
    "permission denied for account {id}",
    'the address "{quote}" is outside of the delivery area',
    "field zip: '{quote}' does not match the pattern",
)
CHECKS: tuple[tuple[str, str], ...] = (
    ("axes.sequencing", "{tool} without consent: the user's message at {step} does not agree"),
    ("axes.sequencing", "{tool} without consent: nothing was asked before {step}"),
    ("axes.argument_validity", "{tool}: payment_id '{id}' was said nowhere before"),
    ("axes.argument_validity", "{tool}: {n} in '{n} * 1.5' comes from nowhere"),
    ("axes.argument_validity", "adds {amount} + {amount2} = {amount3} and leaves out {n} ({id})"),
    ("axes.result_interpretation", "tells {amount}, which follows from nothing before"),
    ("axes.result_interpretation", "tells '{quote}', and no call before it did that"),
    ("axes.result_interpretation", "tells of {id} '{quote}', {step} says status 'open'"),
    ("axes.termination", 'announces and never does it: "{quote}"'),
    ("axes.termination", "hands over at {step} although {tool} was never tried"),
    ("axes.tool_selection", "{tool} writes, and the user neither asked for it nor agreed"),
    ("axes.tool_selection", "{tool} does again what it did at {step}"),
)  # fmt: skip
RULES_OF_CONDUCT = (
    "confirm before paying",
    "one refund an order",
    "no personal data",
    "ask for the id",
)
WORDS = (
    "amber basin cedar delta ember fjord grove harbor island juniper kernel lagoon meadow nectar "
    "orchard prairie quarry ravine saddle timber umbra valley willow xenon yonder zephyr anchor "
    "beacon copper dragon engine falcon garden hammer indigo jacket kettle ladder marble needle"
).split()
AXES = tuple(dict.fromkeys(axis for axis, _ in CHECKS))


class Trace(NamedTuple):
    """One record that a cause leaves: the measure, its label, its words with gaps, how often."""

    measure: str
    label: str
    words: str
    share: float = 1.0


class Cause(NamedTuple):
    """What a mode, or a signature that means nothing, leaves in a run, and where in it."""

    traces: tuple[Trace, ...]
    place: float  # share of the run at which it begins, on average


class MadeRun(NamedTuple):
    """A run and all that rules said of it."""

    task: int
    trial: int
    passed: bool
    steps: int
    answers: tuple[Answer, ...]


class Fleet(NamedTuple):
    """Runs with the truth: the cause of each failed run, a number of its own where it is alone."""

    runs: tuple[MadeRun, ...]
    cause: Ints  # shape (runs,); -1 where the run passed, below `modes` where a mode is the cause
    modes: int


class Design(NamedTuple):
    """What a fleet is made of."""

    tasks: int = 50
    trials: int = 4
    modes: int = 5
    rates: tuple[float, float] = (0.06, 0.10)
    noise: int = 20
    alone: float = 0.4  # share of the failures that are each of their own
    missing: float = 0.1  # share of the runs in which the evidence of a mode is missing
    spread: float = SPREAD


class Agent(NamedTuple):
    """The chances of one agent on its tasks, and what its causes leave behind."""

    causes: tuple[Cause, ...]
    modes: int
    chances: Floats  # shape (tasks, causes), modes first
    alone: Floats  # shape (tasks,), of a lone failure where no mode strikes
    design: Design


def draw_agent(rng: Draw, design: Design) -> Agent:
    """Draw an agent: its modes and habits, and how often each shows on each task."""
    causes = _draw_causes(rng, design.modes + design.noise)
    rates = np.concatenate(
        [rng.uniform(*design.rates, design.modes), rng.uniform(*NOISE_RATES, design.noise)]
    )
    factors = _factors(rng, (design.tasks, len(causes)), design.spread)
    difficulty = _factors(rng, (design.tasks, 1), DIFFICULTY)
    factors[:, design.modes : design.modes + min(HARD_NOISE, design.noise)] = difficulty
    chances = np.minimum(rates * factors, 0.9)
    of_modes = chances[:, : design.modes].sum(axis=1, keepdims=True)
    chances[:, : design.modes] *= np.minimum(1.0, 0.95 / np.maximum(of_modes, 1e-9))
    struck = float(chances[:, : design.modes].sum(axis=1).mean())
    lone = struck * design.alone / (1 - design.alone) if design.modes else 0.3
    alone = np.minimum(lone / (1 - struck) * difficulty[:, 0], 0.95)
    return Agent(causes, design.modes, chances, alone, design)


def run_agent(rng: Draw, agent: Agent) -> Fleet:
    """Run an agent on its tasks."""
    design = agent.design
    runs: list[MadeRun] = []
    cause: list[int] = []
    lone = agent.modes
    for task in range(design.tasks):
        for trial in range(design.trials):
            drawn = rng.random()
            edges = np.cumsum(agent.chances[task, : agent.modes])
            mode = int(np.searchsorted(edges, drawn, side="right"))
            fails_alone = mode == agent.modes and rng.random() < agent.alone[task]
            noise = np.flatnonzero(
                rng.random(len(agent.causes) - agent.modes) < agent.chances[task, agent.modes :]
            )
            of = [agent.causes[agent.modes + i] for i in noise.tolist()]
            lost = rng.random() < design.missing
            if mode < agent.modes and not lost:
                of.append(agent.causes[mode])
            if rng.random() < (EXPLAINED if fails_alone else ODD) and mode == agent.modes:
                of.append(_draw_oddity(rng))
            # Half of what is lost is lost for all rules alike: the results were not recorded.
            blind = lost and rng.random() < 0.5
            steps = int(rng.integers(10, 41))
            runs.append(
                MadeRun(
                    task, trial, mode == agent.modes and not fails_alone, steps,
                    tuple(_answers(rng, () if blind else of, steps, blind=blind)),
                )
            )  # fmt: skip
            if fails_alone:
                cause.append(lone)
                lone += 1
            else:
                cause.append(mode if mode < agent.modes else -1)
    return Fleet(tuple(runs), np.array(cause), agent.modes)


def shuffle_outcomes(rng: Draw, fleet: Fleet) -> Fleet:
    """Permute the outcomes of the runs of each task."""
    passed = np.array([run.passed for run in fleet.runs])
    task = np.array([run.task for run in fleet.runs])
    for one in np.unique(task):
        at = np.flatnonzero(task == one)
        passed[at] = passed[rng.permutation(at)]
    runs = [run._replace(passed=bool(p)) for run, p in zip(fleet.runs, passed, strict=True)]
    return fleet._replace(runs=tuple(runs))


def store_fleet(fleets: Iterable[tuple[str, Fleet]]) -> Store:
    """Put the runs of fleets, each with a name, and their records into a store in memory."""
    store = Store.open(":memory:")
    runs: list[Trajectory] = []
    records: list[Record] = []
    for name, fleet in fleets:
        for run in fleet.runs:
            id_ = f"{name}-{run.task:03}-{run.trial}"
            outcome = Outcome(
                status="pass" if run.passed else "fail",
                source="check",
                reward=float(run.passed),
            )
            runs.append(
                Trajectory(
                    id=id_,
                    name=f"{name}/{run.task}/{run.trial}",
                    steps=tuple(Step(index=at, actor="agent") for at in range(run.steps)),
                    source=Source(format="made"),
                    workflow="made",
                    task=str(run.task),
                    trial=str(run.trial),
                    agent_version=name,
                    outcome=outcome,
                )
            )
            answers = (
                Verdict("outcome", float(run.passed), outcome.status, reason="check"),
                *run.answers,
            )
            records += [Record(trajectory=id_, answer=one, version="1") for one in answers]
    store.put(runs)
    store.append(records)
    return store


# --- What causes leave ----------------------------------------------------------------------------


def _draw_causes(rng: Draw, count: int) -> tuple[Cause, ...]:
    """Draw causes whose main traces all differ."""
    errors = [(tool, said) for tool in TOOLS for said in ERRORS]
    checks = [(axis, words.replace("{tool}", tool)) for tool in TOOLS for axis, words in CHECKS]
    checks, rules = list(dict.fromkeys(checks)), list(RULES_OF_CONDUCT)
    for pool in (errors, checks, rules):
        rng.shuffle(pool)
    causes = []
    for _ in range(count):
        kind = rng.choice(4, p=(0.35, 0.15, 0.4, 0.1))
        place = float(rng.uniform(0.1, 0.9))
        if kind == 3 and not rules:
            kind = 2
        traces: tuple[Trace, ...]
        if kind < 2:
            tool, said = errors.pop()
            traces = (Trace("step_labels", "ERROR", f"{tool} failed: {said}"),)
            if kind == 1:
                again = f"{tool} failed the same way before: {said}"
                traces += (Trace("axes.tool_selection", "incorrect", again, FOLLOWS),)
        elif kind == 2:
            axis, words = checks.pop()
            traces = (Trace(axis, "incorrect", words),)
        else:
            rule = rules.pop()
            broken = "{id} was not asked for at {step}"
            traces = (
                Trace("policy", rule, broken),
                Trace("axes.tool_selection", "incorrect", f"policy {rule!r}: {broken}"),
            )
        causes.append(Cause(traces, place))
    return tuple(causes)


def _draw_oddity(rng: Draw) -> Cause:
    """Draw a cause that no other run has, but by chance."""
    tool, (first, second, third) = rng.choice(TOOLS), rng.choice(WORDS, 3, replace=False)
    if rng.random() < 0.5:
        traces = (
            Trace("step_labels", "ERROR", f"{tool} failed: Error: {first} {second} needs {third}"),
        )
    else:
        axis = str(rng.choice(AXES))
        traces = (Trace(axis, "incorrect", f"{tool}: the {first} {second} lacks its {third}"),)
    return Cause(traces, float(rng.random()))


def _answers(rng: Draw, of: Sequence[Cause], steps: int, *, blind: bool) -> Iterable[Answer]:
    """Yield what the rules say of one run: answers about the whole, then of its steps."""
    at: dict[str, dict[int, Verdict]] = {}
    for cause in of:
        step = int(np.clip(rng.normal(cause.place, 0.12) * steps, 0, steps - 1))
        for trace in cause.traces:
            if rng.random() < trace.share:
                held = at.setdefault(trace.measure, {})
                while step in held and step < steps - 1:
                    step += 1
                said = _fill(rng, trace.words, step)
                held[step] = Verdict(
                    trace.measure, label=trace.label, step=step, cites=(step,), reason=said
                )
    for axis in AXES:
        faults = at.get(axis, {})
        if blind:
            yield Unmeasured("missing_input", "results not recorded", axis)
        elif faults:
            first = faults[min(faults)]
            cites = tuple(sorted(faults))
            yield Verdict(axis, label="incorrect", cites=cites, reason=first.reason)
        else:
            yield Verdict(axis, label=UNCERTAIN, reason=f"{steps} steps checked; nothing proved")
    errors = len(at.get("step_labels", ()))
    yield Verdict("step_labels", 1.0, reason=f"{errors} ERROR, 0 REDUNDANT, {steps} uncertain")
    broken = len(at.get("policy", ()))
    yield Verdict("policy", float(broken), reason=f"{broken} breaches")
    for held in at.values():
        yield from held.values()
    for step, error in at.get("step_labels", {}).items():
        said = error.reason.partition(" failed: ")[2]
        yield Verdict("errors", label="explicit", step=step + 1, cites=(step,), reason=said)
    if not blind:
        yield Verdict("errors", float(errors))


def _fill(rng: Draw, words: str, step: int) -> str:
    """Fill the gaps of a sentence with values as they differ from run to run."""

    def amount() -> str:
        return f"{rng.uniform(5, 4000):,.2f}" if rng.random() < 0.5 else str(rng.integers(5, 4000))

    gaps: dict[str, Callable[[], str]] = {
        "{amount}": amount,
        "{amount2}": amount,
        "{amount3}": amount,
        "{id}": lambda: f"{rng.choice(WORDS)}_{rng.integers(1000, 9_999_999)}",
        "{date}": lambda: f"2026-{rng.integers(1, 13):02}-{rng.integers(1, 29):02}",
        "{n}": lambda: str(rng.integers(2, 90)),
        "{seconds}": lambda: f"{rng.uniform(1, 60):.1f}",
        "{quote}": lambda: " ".join(rng.choice(WORDS, rng.integers(2, 6))),
        "{step}": lambda: str(max(0, step - int(rng.integers(1, 9)))),
    }
    for gap, value in gaps.items():
        while gap in words:
            words = words.replace(gap, value(), 1)
    return words


def _factors(rng: Draw, shape: tuple[int, int], sd: float) -> Floats:
    """Return log-normal factors of mean 1."""
    return np.asarray(rng.lognormal(-(sd**2) / 2, sd, shape))
