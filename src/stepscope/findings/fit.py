"""Fit the ranking of steps to the steps that people named in the runs of one store.

The shipped table was fitted on public runs of other agents. Here its log share of each step, with
what the rules prove, is one feature (its weight: a temperature), and the step's places are the
others: a conditional logit (McFadden 1974) whose weights are drawn to those of the shipped table by
a normal prior, shared by all runs, with deviations by family. Out of fold, folds by task, it is
compared with the shipped table on the same runs; it is used only where its log score is better by
more than one paired standard error, and the named step first no less often. Labels: a label of a
person in the trace that names a step, and people's verdicts under the rubric `attribution`.
Refused: fewer than 30 runs with such a step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from stepscope import stats
from stepscope.errors import EnvironmentFault
from stepscope.findings.ranking import AXES, FamilyFit, StepRanking, fit_path, rank_steps
from stepscope.measures.rule import INCORRECT
from stepscope.measures.step_features import (
    FAMILIES,
    PLACE_NAMES,
    Family,
    agent_steps,
    family_of,
    place_features,
)
from stepscope.model import Record, Trajectory, Verdict
from stepscope.model.records import HUMAN, JUDGE_PREFIX, RULES, Figure
from stepscope.safety.limits import open_output
from stepscope.store import Store
from stepscope.store.judged import current_records
from stepscope.store.where import Where, parse_where

Floats = npt.NDArray[np.float64]
LABEL_RUBRIC = f"{JUDGE_PREFIX}attribution"
# Measures under which people's words on where a run went wrong are kept.
NAMING = (LABEL_RUBRIC, "human.decisive_step", "human.failure")
# With fewer labels the folds say little; the shipped table stands.
FEWEST_RUNS = 30
# Folds, draws of them, and the seed of the first: the figures are means over the draws.
FOLDS, DRAWS, SEED = 10, 5, 0
# Standard deviations of the prior: of the logarithm's weight, of a place scaled to one within runs,
# and of a family's deviation as a share of either. As `bars.run fit_localise` chooses them.
TEMPERATURE_SD, PLACE_SD, OWN_SHARE = 0.3, 0.3, 0.5


class LabelledRun(NamedTuple):
    """A failed run, and the first step of the agent that people named; None where none is its."""

    task: str
    family: Family
    rows: Floats  # by step of the agent: the log share of the shipped list, then places
    named: int | None
    # steps of the agent by what people said of them down, named or not, what the rules did across
    proofs: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0))


class LocaliseFit(msgspec.Struct, frozen=True, kw_only=True):
    """What a fit to people's labels found, and whether it is used."""

    runs: int  # failed runs in which people named a step
    missing: int = 0  # how many more are needed; 0 where it was fitted
    shipped_first: float | None = None  # share of runs whose named step the shipped list has first
    fitted_first: float | None = None  # the same out of fold, of the refitted list
    gain: float | None = None  # mean gain in log score a run, out of fold
    error: float | None = None  # its paired standard error over tasks
    used: bool = False
    path: str = ""  # the file that holds the fit, where it is used

    def __str__(self) -> str:
        said = f"{self.runs:,} failed runs in which people named a step"
        if self.missing:
            return f"{said}; {self.missing} more are needed, the default ranking is kept"
        lines = [
            said,
            "on tasks not used in the fit, the step that people named is first:",
            f"  default {self.shipped_first:.2f}, fitted {self.fitted_first:.2f}",
            f"  gain in log score a run {self.gain:+.3f}, standard error {self.error:.3f}",
            "not better by more than one standard error: the default ranking is kept",
        ]
        if (self.fitted_first or 0.0) < (self.shipped_first or 0.0):
            lines[-1] = "first less often than before: the default ranking is kept"
        if self.used:
            lines[-1] = f"used from now on: {self.path} (delete it to go back)"
        return "\n".join(lines)


def fit_store(store: Store) -> LocaliseFit:
    """Fit the ranking to the labels of a store, and write it where it is better out of fold."""
    runs = list(read_labelled(store))
    found = [run for run in runs if run.named is not None]
    if len(found) < FEWEST_RUNS:
        return LocaliseFit(runs=len(found), missing=FEWEST_RUNS - len(found))
    shipped = np.array([_log_score(run, run.rows[:, 0]) for run in found])
    draws = [_predict(found, seed) for seed in range(SEED, SEED + DRAWS)]
    fitted = np.array([[_log_score(r, s) for r, s in zip(found, d, strict=True)] for d in draws])
    gain, error = _mean_of_tasks(found, fitted.mean(axis=0) - shipped)
    hits = [[_hits(r, s) for r, s in zip(found, scores, strict=True)] for scores in draws]
    path = fit_path(store.path)
    shipped_first = float(np.mean([_hits(run, run.rows[:, 0]) for run in found]))
    fitted_first = float(np.mean(hits))
    used = path is not None and gain > error and fitted_first >= shipped_first
    if used and path is not None:
        try:
            with open_output(path) as file:
                file.write(msgspec.json.format(msgspec.json.encode(_table(runs))) + b"\n")
        except OSError as e:
            raise EnvironmentFault(f"cannot write {str(path)!r}: {e.strerror}") from e
    return LocaliseFit(
        runs=len(found),
        shipped_first=shipped_first,
        fitted_first=fitted_first,
        gain=gain,
        error=error,
        used=used,
        path=str(path) if used else "",
    )


def read_labelled(store: Store) -> Iterator[LabelledRun]:
    """Yield the failed runs of a store in which people said where it went wrong."""
    given = (record for measure in NAMING for record in store.records(measure=measure))
    labelled = {record.trajectory for record in given if record.family == HUMAN}
    ids = msgspec.json.encode(sorted(labelled)).decode()
    chosen = Where("runs.id IN (SELECT value FROM json_each(?))", (ids,))
    for trajectory in store.trajectories(parse_where("outcome = 'fail'") & chosen):
        held = list(current_records(list(store.records(trajectory=trajectory.id))))
        named = named_steps(trajectory, held)
        ranking = rank_steps([record for record in held if record.family == RULES])
        if not named or not isinstance(ranking, StepRanking):
            continue
        proved = {one.answer.step for one in held if is_proof(one)}
        share = {one.step: one.share for one in ranking.steps}
        own = agent_steps(trajectory)
        at = next((own.index(step) for step in named if step in share), None)
        logs = np.log([max(share[step], 1e-12) for step in own])
        rows = np.column_stack([logs, np.array(place_features(trajectory), np.float64)])
        counts = Counter((step in named, step in proved) for step in own)
        said, unsaid = ((counts[one, True], counts[one, False]) for one in (True, False))
        task, family = trajectory.task or trajectory.id, family_of(trajectory)
        yield LabelledRun(task, family, rows, at, (said, unsaid))


def measure_suspects(runs: Sequence[LabelledRun]) -> dict[str, Figure]:
    """Return how often the step that people named is listed first, by runs in which they named one.

    "first", "among_three" and "among_five" of the list that reports print, without other runs and
    judges. The shipped ranking was fitted on public runs, where it is better than elsewhere.
    """
    ranks = np.array(
        [np.argsort(-run.rows[:, 0], kind="stable").tolist().index(run.named) for run in runs]
    )
    return {
        name: stats.proportion((ranks < most).astype(np.float64), _tasks(runs))
        for name, most in (("first", 1), ("among_three", 3), ("among_five", 5))
    }


def measure_proofs(runs: Sequence[LabelledRun]) -> tuple[npt.NDArray[np.int64], dict[str, Figure]]:
    """Return what the rules prove beside what people named, and "precision" and "recall.named".

    Counts of the agent's steps, shape (2, 2): named or not, then proved at fault by an axis or not.
    """
    proofs = np.array([run.proofs for run in runs], np.int64)
    hits, of = proofs[:, 0, 0], _tasks(runs)
    asked = {"precision": proofs[:, :, 0].sum(axis=1), "recall.named": proofs[:, 0].sum(axis=1)}
    return proofs.sum(axis=0), {
        name: stats.ratio(hits, total, of, unit_of_n="steps") for name, total in asked.items()
    }


def _tasks(runs: Sequence[LabelledRun]) -> npt.NDArray[np.int64]:
    return np.unique([run.task for run in runs], return_inverse=True)[1]


def is_proof(record: Record) -> bool:
    """Tell whether the rules prove a fault of a step by this record."""
    answer = record.answer
    return (
        record.family == RULES
        and isinstance(answer, Verdict)
        and (answer.measure.startswith(AXES), answer.label) == (True, INCORRECT)
    )


def named_steps(trajectory: Trajectory, records: Iterable[Record]) -> list[int]:
    """Return the steps at which people say that the run went wrong, the first one first."""
    named = [
        label.step
        for label in trajectory.labels
        if label.kind in ("decisive_step", "failure") and label.step is not None
    ]
    for record in records:
        answer = record.answer
        if record.family != HUMAN or not isinstance(answer, Verdict):
            continue
        if answer.measure == LABEL_RUBRIC:
            named += answer.cites[:1] if answer.step is None else [answer.step]
    return sorted(named)


def fit_weights(runs: Sequence[LabelledRun]) -> tuple[Floats, Floats]:
    """Return weights by family of the columns of runs' rows, and the scales of the columns."""
    spread = np.sqrt(np.mean([run.rows.var(axis=0) for run in runs], axis=0))
    scale = np.where(spread > 1e-6, spread, np.inf)
    scale[0] = 1.0
    rows = np.concatenate([run.rows for run in runs]) / scale
    lengths = np.array([len(run.rows) for run in runs])
    first = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    of = np.repeat(np.arange(len(runs)), lengths)
    family = np.array([FAMILIES.index(run.family) for run in runs])[of]
    chosen = first + np.array([run.named for run in runs])
    sd = np.full(rows.shape[1], PLACE_SD)
    sd[0] = TEMPERATURE_SD
    shape = (1 + len(FAMILIES), rows.shape[1])

    def weights(x: Floats) -> Floats:
        by = x.reshape(shape)
        found = sd * (by[0] + OWN_SHARE * by[1:])
        found[:, 0] += 1.0
        return np.asarray(found)

    def loss(x: Floats) -> tuple[float, Floats]:
        score = (rows * weights(x)[family]).sum(axis=1)
        odds = np.exp(score - np.maximum.reduceat(score, first)[of])
        share = odds / np.add.reduceat(odds, first)[of]
        rest = share.copy()
        rest[chosen] -= 1.0
        pull = sd * np.array([rest[family == k] @ rows[family == k] for k in range(len(FAMILIES))])
        gradient = x + np.concatenate([pull.sum(axis=0), OWN_SHARE * pull.ravel()])
        return float(-np.log(share[chosen]).sum() + 0.5 * (x * x).sum()), gradient

    found = minimize(loss, np.zeros(shape[0] * shape[1]), jac=True, method="L-BFGS-B")
    return weights(found.x), scale


def _predict(runs: Sequence[LabelledRun], seed: int) -> list[Floats]:
    """Return the score of each run's steps, from weights that saw no run of its task."""
    tasks = sorted({run.task for run in runs})
    order = np.random.default_rng(seed).permutation(len(tasks)) % FOLDS
    fold = dict(zip(tasks, order.tolist(), strict=True))
    held_out = {k: [run for run in runs if fold[run.task] != k] for k in sorted(set(fold.values()))}
    fits = {k: fit_weights(inside) if inside else None for k, inside in held_out.items()}
    scores = []
    for run in runs:
        fit = fits[fold[run.task]]
        if fit is None:
            scores.append(run.rows[:, 0])
        else:
            weights, scale = fit
            scores.append(np.asarray(run.rows / scale @ weights[FAMILIES.index(run.family)]))
    return scores


def _log_score(run: LabelledRun, score: Floats) -> float:
    return float(score[run.named] - score.max() - np.log(np.exp(score - score.max()).sum()))


def _hits(run: LabelledRun, score: Floats) -> bool:
    return int(score.argmax()) == run.named


def _mean_of_tasks(runs: Sequence[LabelledRun], values: Floats) -> tuple[float, float]:
    """Return the mean over runs and its standard error, runs of one task counting together."""
    apart = np.bincount(_tasks(runs), weights=values - values.mean())
    count = len(apart)
    error = np.sqrt(count / max(count - 1, 1) * (apart**2).sum()) / len(values)
    return float(values.mean()), float(error) if count > 1 else float("inf")


def _table(runs: Sequence[LabelledRun]) -> dict[Family, FamilyFit]:
    weights, scale = fit_weights([run for run in runs if run.named is not None])
    table = {}
    for k, family in enumerate(FAMILIES):
        mine = [run for run in runs if run.family == family]
        if mine:
            places = (weights[k] / scale)[1:]
            table[family] = FamilyFit(
                temperature=float(weights[k, 0]),
                nobody=(sum(run.named is None for run in mine) + 0.5) / (len(mine) + 1),
                places={n: float(w) for n, w in zip(PLACE_NAMES, places, strict=True) if w},
                runs=len(mine),
            )
    return table
