"""Conditional logits over the steps of runs, with normal priors, weighed by out-of-fold score.

Conditional logit: McFadden 1974. Weighing fits by e to their out-of-fold score: pseudo-BMA,
Yao et al. 2018 (10.1214/17-BA1091). L-BFGS: Nocedal and Wright, Numerical Optimization, 7.4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from bars.measures._labelled_runs import COLUMNS, Floats, Ints, Runs
from stepscope.measures.localise import FACTORS_COLUMN
from stepscope.measures.step_features import FAMILIES, PLACE_NAMES

OUTER_FOLDS, INNER_FOLDS = 10, 5
# Standard deviations of the prior, a feature scaled to one within runs: of place and factors, of
# the other features, and of a family's deviation as a share of either.
PLACE_SD: Final = (0.15, 0.3)
FEATURE_SD: Final = (0.06, 0.1, 0.15)
OWN_SHARE: Final = (0.5, 1.0)
# A search's pages are no dialogue: how much of the features' shared weights it takes.
SEARCH_SHARE: Final = (0.3, 1.0)
# Temperature is drawn to 1: some hundred labels say little about it.
LOG_TEMPERATURE_SD: Final = 0.1
# Place and factors: candidate (a), and all that is read in runs with tool calls.
CORE: Final = np.array([name in PLACE_NAMES or name == FACTORS_COLUMN for name in COLUMNS])
FACTORS_AT: Final = COLUMNS.index(FACTORS_COLUMN)
CALLS, SEARCH = FAMILIES.index("calls"), FAMILIES.index("search")


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
        self.mean = np.where(self.columns == FACTORS_AT, scale[self.columns], 0.0)
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
