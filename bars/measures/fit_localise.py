"""Fit and test the table that ranks the agent's steps of a failed run: `localise.json`.

`python -m bars.measures.fit_localise [FOLDER] [--write] [--seeds N]`; FOLDER defaults to the data
kept beside the repository; `--write` replaces the file in the package. What is measured is the list
that `report`, `show` and the pages print (`report.suspects`), on labels that fitted nothing.
 Two candidates are compared by nested out-of-fold log score:

(a) today's factors as a prior mean, and a prior of places learned from people's labels;
(b) the same, with small features of what the step says and what came before and after it.

Both are conditional logits over all steps of the agent: shared weights, and deviations by family of
runs, both drawn to their prior mean by a normal prior. Penalties are weighed inside the training
folds; a task is in one fold only. Planted faults are never read. Code 0: the bars hold, and the
file is the one that the data give; 3: one does not; 4: the runs are absent.

Conditional logit: McFadden 1974. Weighing fits by e to their out-of-fold score: pseudo-BMA,
Yao et al. 2018 (10.1214/17-BA1091). L-BFGS: Nocedal and Wright, Numerical Optimization, 7.4.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import structs
from scipy.stats import binomtest

from stepscope import registry
from stepscope.formats.reading import read_files
from stepscope.measures import localise
from stepscope.measures.localise import (
    FACTORS_COLUMN,
    LOCALISE_NAME,
    NOBODY_NAME,
    find_evidence,
    log_factors,
)
from stepscope.measures.step_features import (
    FAMILIES,
    NAMES,
    PLACE_NAMES,
    agent_steps,
    family_of,
    step_features,
)
from stepscope.model import Record, Trajectory, Verdict
from stepscope.report.suspects import list_suspects

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

VERSION = 1
DEFAULT = Path(__file__).resolve().parents[3] / "shared" / "data"
TABLE: Final = Path(localise.__file__).with_name("localise.json")
SUBSETS: Final = ("whowhen-algorithm", "whowhen-handcrafted", "agentrx, all")
# The family of runs that each set stands for.
FAMILY_OF_SUBSET: Final = ("dialogue", "search", "calls")
TITLES: Final = ("Who&When algorithm-generated", "Who&When hand-crafted", "AgentRx, the agent's")
# Where today's list, as printed before this table, put its first suspect: run -> step, or None.
PRINTED: Final = Path(__file__).with_name("printed_before.json")

OUTER_FOLDS, INNER_FOLDS, SEEDS = 10, 5, 10
# Standard deviations of the prior, a feature scaled to one within runs: of place and factors, of
# the other features, and of a family's deviation as a share of either.
PLACE_SD: Final = (0.15, 0.3)
FEATURE_SD: Final = (0.06, 0.1, 0.15)
OWN_SHARE: Final = (0.5, 1.0)
# A search's pages are no dialogue: how much of the features' shared weights it takes.
SEARCH_SHARE: Final = (0.3, 1.0)
# Temperature is drawn to 1: some hundred labels say little about it.
LOG_TEMPERATURE_SD: Final = 0.1
# Log of the product of the factors of all evidence at the step: how other evidence comes in.
FACTOR_NAME = FACTORS_COLUMN
COLUMNS: Final = (*NAMES, FACTOR_NAME)
# Place and factors: candidate (a), and all that is read in runs with tool calls.
CORE: Final = np.array([name in PLACE_NAMES or name == FACTOR_NAME for name in COLUMNS])
CALLS, SEARCH = FAMILIES.index("calls"), FAMILIES.index("search")


# --- What is read ---------------------------------------------------------------------------------


class Example(NamedTuple):
    """A failed run and the steps that people named in it."""

    run: Trajectory
    named: tuple[int, ...]

    def near(self, step: int, tolerance: int) -> bool:
        """Tell whether a step is within `tolerance` of any that was named."""
        return any(abs(step - named) <= tolerance for named in self.named)


def examples_of(folder: Path) -> dict[str, list[Example]]:
    """Return the labelled failed runs by set."""
    sets: dict[str, list[Example]] = {}
    for reading in read_files([str(folder / "whowhen"), str(folder / "agentrx-retail")]):
        for run in reading:
            if isinstance(run, Trajectory) and run.outcome.status == "fail":
                for name, named in _named(run):
                    if named:
                        sets.setdefault(name, []).append(Example(run, named))
    return sets


def _named(run: Trajectory) -> list[tuple[str, tuple[int, ...]]]:
    decisive = tuple(x.step for x in run.labels if x.kind == "decisive_step" and x.step is not None)
    failures = tuple(x.step for x in run.labels if x.kind == "failure" and x.step is not None)
    own = tuple(step for step in failures if run.steps[step].actor == "agent")
    return [(run.workflow, decisive), ("agentrx, agent's", own), ("agentrx, all", failures)]


def tuned_on(run: Trajectory) -> bool:
    """Tell whether the run's task belongs to the half that the factors were set on."""
    return sha256((run.task or "").encode()).digest()[0] % 2 == 0


def mcnemar(first: Sequence[bool], second: Sequence[bool]) -> float:
    """Exact two-sided p of McNemar's test: only runs where the two differ count."""
    won = sum(a and not b for a, b in zip(first, second, strict=True))
    lost = sum(b and not a for a, b in zip(first, second, strict=True))
    return float(binomtest(won, won + lost).pvalue) if won + lost else 1.0


class Runs(NamedTuple):
    """Labelled runs, the rows of all their agents' steps below each other."""

    examples: list[Example]
    subset: Ints  # by run: index into SUBSETS
    family: Ints  # by run: index into FAMILIES
    task: npt.NDArray[np.str_]
    start: Ints  # first row of each run, and one past the last
    rows: Floats
    named: Floats  # by row: 1 where people named the step

    @property
    def n(self) -> int:
        """The number of runs."""
        return len(self.examples)

    def span(self, run: int) -> slice:
        """Return the rows of a run."""
        return slice(int(self.start[run]), int(self.start[run + 1]))

    def has_agent_label(self, run: int) -> bool:
        """Tell whether people named a step of the agent."""
        return bool(self.named[self.span(run)].any())


def read_runs(folder: Path) -> Runs:
    """Return the labelled failed runs with their features."""
    sets = examples_of(folder)
    chosen = [(at, example) for at, name in enumerate(SUBSETS) for example in sets[name]]
    rows, named = [], []
    for _, example in chosen:
        run = example.run
        factors = log_factors(run, find_evidence(run, run.case))
        rows.append(np.column_stack([np.array(step_features(run), np.float64), factors]))
        named.append(np.isin(agent_steps(run), example.named).astype(np.float64))
    lengths = [len(values) for values in rows]
    return Runs(
        examples=[example for _, example in chosen],
        subset=np.array([at for at, _ in chosen]),
        family=np.array([FAMILIES.index(family_of(e.run)) for _, e in chosen]),
        task=np.array([example.run.task or "" for _, example in chosen]),
        start=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        rows=np.concatenate(rows),
        named=np.concatenate(named),
    )


def hash_data(folder: Path) -> dict[str, str]:
    """Return sha256 over the names and bytes of the files of each set."""
    hashes = {}
    for name in ("whowhen", "agentrx-retail"):
        total = sha256()
        for path in sorted((folder / name).rglob("*.json")):
            total.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
        hashes[name] = total.hexdigest()
    return hashes


# --- The model ------------------------------------------------------------------------------------


class Penalty(NamedTuple):
    """One choice of prior standard deviations; `features` None leaves them out: candidate (a)."""

    place: float
    features: float | None
    own: float
    search: float


BY_PLACE: Final = [Penalty(p, None, o, 1.0) for p, o in product(PLACE_SD, OWN_SHARE)]
BY_FEATURES: Final = [
    Penalty(p, f, o, s) for p, f, o, s in product(PLACE_SD, FEATURE_SD, OWN_SHARE, SEARCH_SHARE)
]


class Weights(NamedTuple):
    """Weights of unscaled features: shared by families, and of each family in all."""

    shared: Floats
    family: Floats  # family, feature

    def score(self, runs: Runs, run: int) -> Floats:
        """Return the log odds of each step of the agent, up to a constant."""
        return np.asarray(runs.rows[runs.span(run)] @ self.family[runs.family[run]])


def scales_of(runs: Runs, chosen: Ints) -> Floats:
    """Return the standard deviation within runs, each run weighing the same; inf where none."""
    variance = np.mean([runs.rows[runs.span(run)].var(axis=0) for run in chosen], axis=0)
    deviation = np.sqrt(variance)
    return np.where(deviation > 1e-6, deviation, np.inf)


class Likelihood:
    """The posterior of a conditional logit on some runs, in standard normal coordinates.

    Coordinates: one row of shared weights, then one of deviations for each family.
    """

    def __init__(self, runs: Runs, chosen: Ints, scale: Floats, penalty: Penalty) -> None:
        labelled = [run for run in chosen if runs.has_agent_label(run)]
        labelled.sort(key=lambda run: int(runs.family[run]))
        use = np.isfinite(scale) & (CORE if penalty.features is None else True)
        self.columns = np.flatnonzero(use)
        core = CORE[self.columns]
        at = np.concatenate([np.arange(runs.start[r], runs.start[r + 1]) for r in labelled])
        lengths = np.diff(runs.start)[labelled]
        self.rows = runs.rows[at][:, self.columns] / scale[self.columns]
        self.named = runs.named[at]
        self.first = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        self.run = np.repeat(np.arange(len(labelled)), lengths)
        families = np.repeat(runs.family[labelled], lengths)
        self.bounds = [np.searchsorted(families, (k, k + 1)) for k in range(len(FAMILIES))]
        self.mean = np.where(self.columns == FACTOR_NAME_AT, scale[self.columns], 0.0)
        self.shared_sd = np.where(core, penalty.place, penalty.features or 0.0)
        self.takes = np.ones((len(FAMILIES), len(core)))
        self.takes[SEARCH, ~core] = penalty.search
        # A dozen labels of runs with tool calls fit no features: today's factors and places only.
        self.takes[CALLS, ~core] = 0.0
        self.own_sd = np.tile(self.shared_sd * penalty.own, (len(FAMILIES), 1))
        self.own_sd[SEARCH, ~core] *= penalty.search
        self.own_sd[CALLS, ~core] = 0.0

    def weights(self, x: Floats) -> Floats:
        """Return the weights of scaled features by family."""
        return np.asarray(self.mean + self.takes * (self.shared_sd * x[0]) + self.own_sd * x[1:])

    def loss(self, x: Floats) -> tuple[float, Floats]:
        """Return minus the log posterior, up to a constant, and its gradient."""
        weights = self.weights(x)
        score = np.concatenate(
            [self.rows[a:b] @ w for (a, b), w in zip(self.bounds, weights, strict=True)]
        )
        odds = np.exp(score - np.maximum.reduceat(score, self.first)[self.run])
        share = odds / np.add.reduceat(odds, self.first)[self.run]
        hit = np.add.reduceat(share * self.named, self.first)
        rest = share - share * self.named / hit[self.run]
        gradient = x.copy()
        for k, (a, b) in enumerate(self.bounds):
            pull = rest[a:b] @ self.rows[a:b]
            gradient[0] += self.takes[k] * self.shared_sd * pull
            gradient[k + 1] += self.own_sd[k] * pull
        return float(-np.log(hit).sum() + 0.5 * (x * x).sum()), gradient


FACTOR_NAME_AT: Final = COLUMNS.index(FACTOR_NAME)


def minimise(
    loss: Callable[[Floats], tuple[float, Floats]], x: Floats, *, steps: int = 100, memory: int = 12
) -> Floats:
    """Return the minimum of a smooth convex function by L-BFGS with backtracking."""
    value, gradient = loss(x)
    pairs: list[tuple[Floats, Floats]] = []
    for _ in range(steps):
        direction = -_two_loops(gradient, pairs)
        slope = float((gradient * direction).sum())
        length = 1.0
        while True:
            new_value, new_gradient = loss(x + length * direction)
            if new_value <= value + 1e-4 * length * slope or length < 1e-6:
                break
            length /= 2
        moved, turned = length * direction, new_gradient - gradient
        x = x + moved
        if (moved * turned).sum() > 1e-10:
            pairs = [*pairs, (moved, turned)][-memory:]
        settled = abs(value - new_value) < 1e-3
        value, gradient = new_value, new_gradient
        if settled:
            break
    return x


def _two_loops(gradient: Floats, pairs: Sequence[tuple[Floats, Floats]]) -> Floats:
    q = gradient.copy()
    if not pairs:
        return np.asarray(q / max(1.0, float(np.linalg.norm(q))))
    shares = []
    for moved, turned in reversed(pairs):
        share = (moved * q).sum() / (moved * turned).sum()
        shares.append(share)
        q -= share * turned
    moved, turned = pairs[-1]
    q *= (moved * turned).sum() / (turned * turned).sum()
    for (moved, turned), share in zip(pairs, reversed(shares), strict=True):
        q += moved * (share - (turned * q).sum() / (moved * turned).sum())
    return q


def fit(runs: Runs, chosen: Ints, scale: Floats, penalty: Penalty) -> Weights:
    """Return the most probable weights on the chosen runs."""
    likelihood = Likelihood(runs, chosen, scale, penalty)
    x = minimise(likelihood.loss, np.zeros((1 + len(FAMILIES), len(likelihood.columns))))
    family = np.zeros((len(FAMILIES), len(COLUMNS)))
    shared = np.zeros(len(COLUMNS))
    by = scale[likelihood.columns]
    family[:, likelihood.columns] = likelihood.weights(x) / by
    shared[likelihood.columns] = (likelihood.mean + likelihood.shared_sd * x[0]) / by
    return Weights(shared, family)


def softmax(score: Floats) -> Floats:
    """Return shares that sum to 1."""
    odds = np.exp(score - score.max())
    return np.asarray(odds / odds.sum())


def log_score(runs: Runs, run: int, score: Floats) -> float:
    """Return the log of the share that the labelled steps have among the agent's."""
    return float(np.log((softmax(score) * runs.named[runs.span(run)]).sum()))


def draw_folds(task: npt.NDArray[np.str_], folds: int, seed: int) -> Ints:
    """Return the fold of each run; runs of one task are in one fold."""
    tasks = np.unique(task)
    order = np.random.default_rng(seed).permutation(len(tasks)) % folds
    return np.asarray(order[np.searchsorted(tasks, task)])


class Table(NamedTuple):
    """What is shipped: weights, temperature, and how often no step of the agent is named."""

    weights: Weights
    temperature: float
    nobody: Floats  # by family: probability of "no step of the agent"
    penalties: list[tuple[Penalty, float]]  # how much each fit weighs

    def predict(self, runs: Runs, run: int) -> Floats:
        """Return the probability of each step of the agent; what is missing to 1 is nobody's."""
        share = softmax(self.temperature * self.weights.score(runs, run))
        return np.asarray((1.0 - self.nobody[runs.family[run]]) * share)


def train(runs: Runs, chosen: Ints, penalties: Sequence[Penalty], seed: int) -> Table:
    """Return the table fitted on the chosen runs and nothing else."""
    labelled = [run for run in chosen if runs.has_agent_label(run)]
    fold = draw_folds(runs.task[chosen], INNER_FOLDS, seed)
    scores: list[dict[int, Floats]] = [{} for _ in penalties]
    for k in range(INNER_FOLDS):
        inside, outside = chosen[fold != k], chosen[fold == k]
        scale = scales_of(runs, inside)
        for at, penalty in enumerate(penalties):
            weights = fit(runs, inside, scale, penalty)
            scores[at].update({int(run): weights.score(runs, run) for run in outside})
    total = np.array([sum(log_score(runs, r, found[r]) for r in labelled) for found in scores])
    share = softmax(total)
    temperature = _fit_temperature(
        [
            (runs, run, sum((w * s[run] for w, s in zip(share, scores, strict=True)), np.zeros(1)))
            for run in labelled
        ]
    )
    scale = scales_of(runs, chosen)
    fits = [fit(runs, chosen, scale, penalty) for penalty in penalties]
    mean = Weights(
        sum((w * f.shared for w, f in zip(share, fits, strict=True)), np.zeros(1)),
        sum((w * f.family for w, f in zip(share, fits, strict=True)), np.zeros(1)),
    )
    named = np.array([runs.has_agent_label(run) for run in chosen])
    family = runs.family[chosen]
    nobody = np.array(
        [((~named & (family == k)).sum() + 0.5) / ((family == k).sum() + 1) for k in range(3)]
    )
    return Table(mean, temperature, nobody, list(zip(penalties, share.tolist(), strict=True)))


def _fit_temperature(scored: Sequence[tuple[Runs, int, Floats]]) -> float:
    logs = np.linspace(-0.7, 0.7, 57)
    gain = [
        sum(log_score(runs, run, np.exp(log) * score) for runs, run, score in scored)
        - 0.5 * (log / LOG_TEMPERATURE_SD) ** 2
        for log in logs
    ]
    return float(np.exp(logs[int(np.argmax(gain))]))


def predict_nested(runs: Runs, penalties: Sequence[Penalty], seed: int) -> list[Floats]:
    """Return the probabilities of each run's steps, from a table that saw no run of its task."""
    fold = draw_folds(runs.task, OUTER_FOLDS, seed)
    every = np.arange(runs.n)
    predicted: list[Floats] = [np.zeros(0)] * runs.n
    for k in range(OUTER_FOLDS):
        table = train(runs, every[fold != k], penalties, seed)
        for run in every[fold == k]:
            predicted[run] = table.predict(runs, run)
    return predicted


# --- The list that is printed -----------------------------------------------------------------


def score_by_rules(run: Trajectory) -> list[Record]:
    """Return what a store holds of a run that was scored, but for the values of `localise`."""
    return [
        Record(trajectory=run.id, answer=answer, version=measure.version)
        for measure in registry.installed_measures()
        for answer in measure(run, run.case, None)
    ]


def print_list(run: Trajectory, records: Sequence[Record], predicted: Floats) -> Floats:
    """Return the probability that is printed at each step of the agent.

    Args:
        run: the run.
        records: as `score_by_rules` gives them.
        predicted: probabilities from a table that did not see the run, one a step of the agent.
    """
    nobody = 1.0 - float(predicted.sum())
    share = dict(zip(agent_steps(run), np.log(predicted / predicted.sum()).tolist(), strict=True))
    held = []
    for record in records:
        answer = record.answer
        if isinstance(answer, Verdict) and answer.measure == NOBODY_NAME:
            answer = structs.replace(answer, value=nobody)
        elif isinstance(answer, Verdict) and answer.measure == LOCALISE_NAME:
            if answer.step is not None:
                answer = structs.replace(answer, value=share[answer.step])
        held.append(structs.replace(record, answer=answer))
    shown = list_suspects(run, run.case, held).suspects
    printed = {one.first: one.share for one in shown if one.share is not None}
    assert list(printed.values()) == sorted(printed.values(), reverse=True)
    return np.array([printed[step] for step in agent_steps(run)])


# --- Figures --------------------------------------------------------------------------------------

TOP: Final = (1, 3, 5)


def ranks_of(runs: Runs, predicted: Sequence[Floats]) -> Ints:
    """Return the best rank of a labelled step, from 1; 0 where no step of the agent is named."""
    ranks = []
    for run, shares in enumerate(predicted):
        order = np.argsort(-shares, kind="stable")
        found = np.flatnonzero(runs.named[runs.span(run)][order])
        ranks.append(int(found[0]) + 1 if len(found) else 0)
    return np.array(ranks)


def own_named(example: Example) -> list[int]:
    """Return the named steps that a suspect may hit: of AgentRx, where users fail too, the agent's.

    In Who&When one label stands on the code executor: no suspect hits it, and it counts as missed.
    """
    steps = example.run.steps
    return [step for step in example.named if steps[step].actor in ("agent", "environment")]


def is_counted(runs: Runs, subset: int) -> npt.NDArray[np.bool_]:
    """Tell which runs a subset's figures count: of AgentRx those with a failure of the agent."""
    named = np.array([runs.has_agent_label(run) for run in range(runs.n)])
    return np.asarray((runs.subset == subset) & (named | (subset < 2)))


def top_of(runs: Runs, ranks: Ints) -> list[list[float]]:
    """Return by subset the share of runs with a labelled step among the first 1, 3 and 5."""
    sets = [is_counted(runs, subset) for subset in range(len(SUBSETS))]
    return [[float(((ranks[s] > 0) & (ranks[s] <= k)).mean()) for k in TOP] for s in sets]


def calibration_of(runs: Runs, predicted: Sequence[Floats]) -> tuple[float, float, float]:
    """Return slope, mean predicted and observed share of the first suspect, on both Who&When sets.

    Slope: of a logistic regression of hit on the logit of the probability (Cox 1958).
    """
    chosen = np.flatnonzero(runs.subset < 2)
    first = np.array([predicted[int(run)].max() for run in chosen])
    hit = (ranks_of(runs, predicted)[chosen] == 1).astype(np.float64)
    design = np.stack([np.ones(len(chosen)), np.log(first / (1 - first))], axis=1)
    beta = np.array([0.0, 1.0])
    for _ in range(30):
        mean = 1 / (1 + np.exp(-design @ beta))
        hessian = (design * (mean * (1 - mean))[:, None]).T @ design
        beta = beta + np.linalg.solve(hessian, design.T @ (hit - mean))
    return float(beta[1]), float(first.mean()), float(hit.mean())


class Figures(NamedTuple):
    """What one candidate reaches, a row a seed."""

    top: Floats  # seed, subset, first 1, 3, 5
    near: Floats  # seed, subset: the first suspect within three steps
    halves: Floats  # seed, subset: exact on the tasks whose texts nobody read
    scores: Floats  # seed, run: log score; nan where no step of the agent is named
    calibration: Floats  # seed: slope, predicted, observed
    p: Floats  # seed: McNemar against the list printed before
    first: Floats  # seed, run: 1 where the first suspect is a labelled step


def measure(runs: Runs, every: Sequence[Sequence[Floats]], before: Sequence[bool]) -> Figures:
    """Return the figures of the predictions of several seeds."""
    top, near, halves, scores, calibration, p, hits = [], [], [], [], [], [], []
    unread = np.array([not tuned_on(example.run) for example in runs.examples])
    for predicted in every:
        ranks = ranks_of(runs, predicted)
        close = np.array(
            [
                any(abs(named - agent_steps(e.run)[int(s.argmax())]) <= 3 for named in own_named(e))
                for e, s in zip(runs.examples, predicted, strict=True)
            ]
        )
        sets = [is_counted(runs, subset) for subset in range(3)]
        top.append(top_of(runs, ranks))
        near.append([close[s].mean() for s in sets])
        halves.append([(ranks[s & unread] == 1).mean() if s.any() else 0.0 for s in sets])
        scores.append(
            [
                np.log((shares * runs.named[runs.span(run)]).sum() / shares.sum())
                if runs.has_agent_label(run)
                else np.nan
                for run, shares in enumerate(predicted)
            ]
        )
        calibration.append(calibration_of(runs, predicted))
        hits.append(ranks == 1)
        talk = np.flatnonzero(runs.subset < 2)
        p.append(mcnemar(list(ranks[talk] == 1), [before[int(run)] for run in talk]))
    return Figures(
        *(np.array(x, np.float64) for x in (top, near, halves, scores, calibration, p, hits))
    )


def constant_orders(runs: Runs) -> dict[str, list[Floats]]:
    """Return what rules that do not read a run would print, learned from other tasks."""
    orders: dict[str, list[Floats]] = {}
    for run, example in enumerate(runs.examples):
        own = agent_steps(example.run)
        others = [
            e
            for at, e in enumerate(runs.examples)
            if runs.subset[at] == runs.subset[run] and e.run.task != example.run.task
        ]
        start = Counter(step for e in others for step in e.named)
        end = Counter(len(e.run.steps) - 1 - step for e in others for step in e.named)
        size = [len(example.run.steps[step].text) for step in own]
        last = len(example.run.steps) - 1
        for name, order in {
            "first step": [-float(step) for step in own],
            "last step": [float(step) for step in own],
            "most common index": [start[step] - step * 1e-6 for step in own],
            "most common from the end": [end[last - step] - (last - step) * 1e-6 for step in own],
            "longest step": [float(value) for value in size],
        }.items():
            orders.setdefault(name, []).append(np.array(order))
    return orders


def print_top(title: str, top: Floats) -> None:
    """Print a line of mean shares with their range over seeds."""
    cells = []
    for subset in range(3):
        for k in range(len(TOP)):
            values = top[:, subset, k]
            spread = f" [{values.min():.2f}, {values.max():.2f}]" if len(values) > 1 else ""
            cells.append(f"{values.mean():.3f}{spread}")
    print(f"| {title} | " + " | ".join(cells) + " |")


def compare_scores(a: Figures, b: Figures, runs: Runs) -> list[tuple[str, int, float, float]]:
    """Return by subset: runs, mean gain in log score of b over a, its paired standard error."""
    gain = (b.scores - a.scores).mean(axis=0)
    lines = []
    for subset, title in enumerate(TITLES):
        values = gain[(runs.subset == subset) & np.isfinite(gain)]
        error = float(values.std(ddof=1) / np.sqrt(len(values)))
        lines.append((title, len(values), float(values.mean()), error))
    return lines


def check_bars(figures: Figures, agentrx_before: float) -> list[tuple[str, float, str, bool]]:
    """Return each bar: what, the figure, the bound, whether it holds."""
    top = figures.top.mean(axis=0)
    slope, predicted, observed = figures.calibration.mean(axis=0)
    bars = [
        (f"{TITLES[subset]}, first {k}", float(top[subset, at]), bound)
        for subset, bounds in enumerate(((0.45, 0.80, 0.90), (0.20, 0.43, 0.57)))
        for at, (k, bound) in enumerate(zip(TOP, bounds, strict=True))
    ]
    checked = [(name, value, f">= {bound:.2f}", value >= bound) for name, value, bound in bars]
    gap = abs(float(predicted - observed))
    worst = float(figures.p.max())
    hits = float(top[2, 0])
    return [
        *checked,
        ("AgentRx exact", hits, f">= {agentrx_before:.3f}", hits >= agentrx_before - 1e-9),
        ("calibration slope", float(slope), "0.75 to 1.25", 0.75 <= slope <= 1.25),
        ("|predicted - observed|", gap, "<= 0.08", gap <= 0.08),
        ("McNemar p, worst seed", worst, "< 0.01", worst < 0.01),
    ]


def beats(lines: Sequence[tuple[str, int, float, float]]) -> bool:
    """Tell whether (b) ships: a gain above one error in one family, no such loss in any other."""
    return any(gain > error for *_, gain, error in lines) and all(
        gain >= -error for *_, gain, error in lines
    )


def as_json(table: Table, runs: Runs, folder: Path, figures: dict[str, object]) -> dict[str, Any]:
    """Return the data file: numpy alone reads it."""
    scale = scales_of(runs, np.arange(runs.n))
    features = [
        {
            "name": name,
            "scale": round(float(scale[at]), 6),
            "shared": round(float(table.weights.shared[at] * scale[at]), 5),
            "weights": {
                family: round(float(table.weights.family[k, at] * scale[at]), 5)
                for k, family in enumerate(FAMILIES)
            },
        }
        for at, name in enumerate(COLUMNS)
        if np.isfinite(scale[at]) and np.abs(table.weights.family[:, at]).any()
    ]
    return {
        "version": VERSION,
        "reads": "share of a step = softmax over the agent's steps of temperature * sum(weight * "
        "feature / scale); times 1 - nobody",
        "features": features,
        "nobody": {
            family: {
                "probability": round(float(p), 5),
                "intercept": round(float(np.log(p / (1 - p))), 5),
            }
            for family, p in zip(FAMILIES, table.nobody, strict=True)
        },
        "temperature": round(table.temperature, 5),
        "penalties": [
            {**penalty._asdict(), "weighs": round(share, 4)}
            for penalty, share in table.penalties
            if share >= 0.001
        ],
        "data": {
            "sha256": hash_data(folder),
            "runs": {name: int((runs.subset == at).sum()) for at, name in enumerate(SUBSETS)},
        },
        "folds": {"by": "task", "outer": OUTER_FOLDS, "inner": INNER_FOLDS, "seeds": SEEDS},
        "figures": figures,
    }


class Measured(NamedTuple):
    """Both candidates and the list printed before, on the same runs."""

    a: Figures
    b: Figures
    before: list[bool]  # by run: the list printed before had a labelled step first
    runs: Runs

    @property
    def ships(self) -> str:
        """The candidate that ships."""
        return "b" if beats(compare_scores(self.a, self.b, self.runs)) else "a"


def print_tables(measured: Measured) -> None:
    """Print what each list reaches, beside the constant rules, and the comparison of scores."""
    a, b, before, runs = measured.a, measured.b, measured.before, measured.runs
    talk = np.flatnonzero(runs.subset < 2)
    rules = {"the list printed before": [before[int(run)] for run in talk]}
    heads = [f"{title} first {k}" for title in ("AG", "HC", "AgentRx") for k in TOP]
    print("| list | " + " | ".join(heads) + " |\n|" + "---|" * 10)
    print_top("(b) features", b.top)
    print_top("(a) factors and places", a.top)
    for name, order in constant_orders(runs).items():
        ranks = ranks_of(runs, order)
        print_top(name, np.array([top_of(runs, ranks)]))
        rules[name] = [bool(ranks[run] == 1) for run in talk]
    known = [sum(before[int(run)] for run in np.flatnonzero(is_counted(runs, s))) for s in range(3)]
    sizes = [int(is_counted(runs, s).sum()) for s in range(3)]
    print(f"\nprinted before, first: {known} of {sizes}")
    print("McNemar, exact step over both Who&When sets, p of the worst seed:")
    for name, hits in rules.items():
        worst = [max(mcnemar(list(row[talk] > 0), hits) for row in f.first) for f in (a, b)]
        print(f"  against {name}: (a) {worst[0]:.1e}, (b) {worst[1]:.1e}")
    for name, found in (("a", a), ("b", b)):
        slope, predicted, observed = found.calibration.mean(axis=0)
        low, high = found.calibration[:, 0].min(), found.calibration[:, 0].max()
        scores = [float(np.nanmean(found.scores[:, runs.subset == s])) for s in range(3)]
        print(
            f"({name}) first within 3 steps {np.round(found.near.mean(axis=0), 3)}, exact on tasks "
            f"not read {np.round(found.halves.mean(axis=0), 3)}, log score {np.round(scores, 3)}; "
            f"slope {slope:.2f} [{low:.2f}, {high:.2f}], predicted {predicted:.3f}, observed "
            f"{observed:.3f}"
        )
    for title, n, gain, error in compare_scores(a, b, runs):
        print(f"(b) - (a), log score a run: {title} (n {n}) {gain:+.3f}, error {error:.3f}")


def figures_of(measured: Measured) -> dict[str, object]:
    """Return the figures that stand in the data file: mean, least and most over seeds."""
    chosen = measured.b if measured.ships == "b" else measured.a
    by_family = {}
    for subset, family in enumerate(FAMILY_OF_SUBSET):
        columns = zip(("first", "three", "five"), chosen.top[:, subset].T, strict=True)
        by_family[family] = {
            "set": TITLES[subset],
            "runs": int(is_counted(measured.runs, subset).sum()),
            **{
                name: [round(float(x), 4) for x in (values.mean(), values.min(), values.max())]
                for name, values in columns
            },
        }
    slope, predicted, observed = np.round(chosen.calibration.mean(axis=0), 4).tolist()
    return {
        "candidate": measured.ships,
        "by_family": by_family,
        "calibration": {"slope": slope, "predicted": predicted, "observed": observed},
        "gain over (a)": {
            title: {"n": n, "mean": round(gain, 4), "error": round(error, 4)}
            for title, n, gain, error in compare_scores(measured.a, measured.b, measured.runs)
        },
    }


def main(arguments: Sequence[str]) -> int:
    """Fit, test, print and write; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=DEFAULT)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    options = parser.parse_args(arguments)
    if not (options.folder / "whowhen").is_dir():
        print(f"fit_localise: the runs are absent: no {options.folder / 'whowhen'}")
        return 4
    runs = read_runs(options.folder)
    printed = json.loads(PRINTED.read_text(encoding="utf-8"))
    before = [printed[example.run.name] in own_named(example) for example in runs.examples]
    records = [score_by_rules(example.run) for example in runs.examples]

    def printed_by(grid: Sequence[Penalty]) -> list[list[Floats]]:
        return [
            [
                print_list(example.run, held, shares)
                for example, held, shares in zip(
                    runs.examples, records, predict_nested(runs, grid, seed), strict=True
                )
            ]
            for seed in range(options.seeds)
        ]

    a, b = (measure(runs, printed_by(grid), before) for grid in (BY_PLACE, BY_FEATURES))
    measured = Measured(a, b, before, runs)
    print_tables(measured)
    chosen = measured.b if measured.ships == "b" else measured.a
    counted = np.flatnonzero(is_counted(runs, 2))
    bars = check_bars(chosen, float(np.mean([before[int(run)] for run in counted])))
    print(f"\nships: ({measured.ships})")
    for name, value, bound, holds in bars:
        print(f"{'holds ' if holds else 'MISSED'} {name}: {value:.3g} {bound}")
    grid = BY_FEATURES if measured.ships == "b" else BY_PLACE
    table = train(runs, np.arange(runs.n), grid, 0)
    content = as_json(table, runs, options.folder, figures_of(measured))
    text = format_table(content)
    if options.write:
        TABLE.write_text(text, encoding="utf-8")
    kept = json.loads(TABLE.read_text(encoding="utf-8"))
    same = weights_of(kept).keys() == weights_of(content).keys() and all(
        abs(value - weights_of(kept)[key]) < TOLERANCE for key, value in weights_of(content).items()
    )
    print(f"{'holds ' if same else 'MISSED'} the file of the package is what these data give")
    return 0 if same and all(holds for *_, holds in bars) else 3


# Weights of two fits of the same data differ by less, on any machine.
TOLERANCE = 2e-3


def weights_of(content: dict[str, Any]) -> dict[tuple[str, str], float]:
    """Return the weights of a data file by feature and family."""
    return {
        (feature["name"], family): float(weight)
        for feature in content["features"]
        for family, weight in feature["weights"].items()
    }


def format_table(content: dict[str, Any]) -> str:
    """Return a data file as text: a line a feature."""
    lines = []
    for key, value in content.items():
        if isinstance(value, list):
            inner = ",\n".join(f"  {json.dumps(one)}" for one in value)
            lines.append(f" {json.dumps(key)}: [\n{inner}\n ]")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
