"""Where a classifier may be trusted: what its answers are worth over number of steps and noise.

Runs with planted shapes and breaks are drawn, noise is put on them, and every classifier answers
about the same runs. The draws of a cell depend on the seed and on that cell alone. Every figure has
the standard error of the simulation; one that a classifier cannot have is `Unmeasured`. Shares use
(k + 1) / (m + 2) in their error; other scores a delete-one-group jackknife of 20 groups.

Source: expected calibration error, Naeini, Cooper and Hauskrecht (2015), AAAI; jackknife, Efron and
Tibshirani (1993), chapter 11.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope.errors import UsageError
from stepscope.lab import curves as planted
from stepscope.shape.articles import Codes, find_break_point_many, v1_many, v2_many, v3_many
from stepscope.shape.classifier import classify_many
from stepscope.shape.noise import learn_noise
from stepscope.shape.types import HEALTHY, SHAPES, UNRESOLVED, ShapeName
from stepscope.stats.sample import Bools, Floats, Ints
from stepscope.values import Unmeasured


@dataclass(frozen=True, slots=True, kw_only=True)
class Classifications:
    """One entry a run; indexes into `SHAPES`, steps from 0."""

    best: npt.NDArray[np.int8]  # shape (m,), the shape it would name if it had to
    # shape (m,), the shape it names, -1 where it leaves the run unresolved
    label: npt.NDArray[np.int8]
    break_step: Ints  # shape (m,), where the run broke, -1 for no break
    posterior: Floats | None = None  # shape (m, 5), None where the classifier has none
    break_low: Ints | None = None  # shape (m,), first step of its 90 % set; None where it has none
    break_high: Ints | None = None  # shape (m,), last step of it
    # shape (m,), runs that fit no shape; None where it cannot say
    unmodelled: npt.NDArray[np.bool_] | None = None


# Scores, shape (m, n), and what is known of their noise: its sigma, None for nothing, and the step
# between scores, None where all are possible.
Classifier = Callable[[Floats, float | None, float | None], Classifications]


def _reference(classify: Callable[[Floats], Codes]) -> Classifier:
    def answer(scores: Floats, sigma: float | None, quantum: float | None) -> Classifications:
        codes = classify(scores)
        return Classifications(best=codes, label=codes, break_step=find_break_point_many(scores))

    return answer


def classify_by_default(
    scores: Floats, sigma: float | None, quantum: float | None = None, correlation: float = 0.0
) -> Classifications:
    """Answer as the product does; a run that it cannot classify is healthy and unresolved."""
    batch = classify_many(scores, sigma=sigma, quantum=quantum, correlation=correlation)
    m = len(scores)
    columns: dict[str, npt.NDArray[Any]] = {
        "best": np.full(m, HEALTHY, np.int8),
        "label": np.full(m, UNRESOLVED, np.int8),
        "posterior": np.full((m, len(SHAPES)), 1 / len(SHAPES)),
        **{f"break_{what}": np.full(m, -1, np.int64) for what in ("step", "low", "high")},
        "unmodelled": np.zeros(m, np.bool_),
    }
    for name, column in columns.items():
        column[batch.rows] = getattr(batch, name)
    return Classifications(**columns)


def classify_as_fleet(
    scores: Floats, sigma: float | None, quantum: float | None = None
) -> Classifications:
    """Answer as `classify_by_default`, with the correlation of errors learned from these runs.

    Its sigma is the one it is told; where it is told none, that too is learned.
    """
    found = learn_noise(scores.ravel(), np.full(len(scores), scores.shape[1]), quantum=quantum)
    if isinstance(found, Unmeasured):
        return classify_by_default(scores, sigma, quantum)
    known = found.sigma.value if sigma is None else sigma
    return classify_by_default(scores, known, quantum, found.correlation_to_tell())


CLASSIFIERS: dict[str, Classifier] = {
    "v1": _reference(v1_many),
    "v2": _reference(v2_many),
    "v3": _reference(v3_many),
    "default": classify_by_default,
    "fleet": classify_as_fleet,
}
GROUPS = 20
BINS = 10

_NO_POSTERIOR = Unmeasured("not_applicable", "this classifier gives no probabilities")
_NO_FIT = Unmeasured("not_applicable", "this classifier gives every run one of the shapes")
_NO_SET = Unmeasured("not_applicable", "this classifier gives no set of break steps")


class SimulatedFigure(msgspec.Struct, frozen=True, tag="figure"):
    """A number from simulated runs, and its standard error."""

    value: float
    error: float


class EnvelopeRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one classifier is worth on one kind of runs."""

    classifier: str  # its name
    generator: str  # what made the curves
    noise: str  # kind of the noise
    n: int  # steps of a run
    sigma: float  # standard deviation of the noise of one score
    trials: int  # runs, a fifth of each shape
    # share of runs whose shape is named, every run being given one
    accuracy: SimulatedFigure | Unmeasured
    macro_f1: SimulatedFigure  # mean over shapes of F1
    recall: dict[ShapeName, SimulatedFigure | Unmeasured]  # share named, by shape
    resolved: SimulatedFigure | Unmeasured  # share of runs that get a label at all
    resolved_accuracy: SimulatedFigure | Unmeasured  # share of right labels among those
    # mean distance between what it claims and how often it is right
    calibration_error: SimulatedFigure | Unmeasured
    # share of runs, all of them of the five shapes, said to fit none
    unmodelled: SimulatedFigure | Unmeasured
    break_found: SimulatedFigure | Unmeasured  # share of runs with a break where one is declared
    # of those, share where the step is right or next to it
    break_within_one: SimulatedFigure | Unmeasured
    # of those, share where the 90 % set of steps holds the step
    coverage: SimulatedFigure | Unmeasured
    false_breaks: SimulatedFigure | Unmeasured  # share of healthy runs where a break is declared


def assess_answers(
    answers: Classifications,
    *,
    classifier: str,
    generator: str,
    noise: planted.Noise,
    n: int,
    sigma: float,
    truth: Ints,
    broke: Ints,
) -> EnvelopeRow:
    """Compare answers with planted shapes, shape (m,), and break steps, (m,), -1 for none."""
    right, m = answers.best == truth, len(truth)
    declared, exists = answers.break_step != planted.NO_BREAK, broke != planted.NO_BREAK
    both = declared & exists
    sure: SimulatedFigure | Unmeasured = _NO_POSTERIOR
    covered: SimulatedFigure | Unmeasured = _NO_SET
    if (posterior := answers.posterior) is not None:
        sure = _jackknife(lambda at: calibration_error(posterior[at].max(1), right[at]), m)
    if answers.break_low is not None and answers.break_high is not None:
        covered = _share(((answers.break_low <= broke) & (broke <= answers.break_high))[both])
    return EnvelopeRow(
        classifier=classifier,
        generator=generator,
        noise=noise,
        n=n,
        sigma=sigma,
        trials=m,
        accuracy=_share(right),
        macro_f1=_jackknife(lambda at: macro_f1(answers.best[at], truth[at]), m),
        recall={name: _share(right[truth == code]) for code, name in enumerate(SHAPES)},
        resolved=_share(answers.label != UNRESOLVED),
        resolved_accuracy=_share(right[answers.label != UNRESOLVED]),
        calibration_error=sure,
        unmodelled=_NO_FIT if answers.unmodelled is None else _share(answers.unmodelled),
        break_found=_share(declared[exists]),
        break_within_one=_share(np.abs(answers.break_step - broke)[both] <= 1),
        coverage=covered,
        false_breaks=_share(declared[truth == HEALTHY]),
    )


def macro_f1(found: npt.NDArray[np.int8], truth: Ints) -> float:
    """Return the mean over the shapes of 2 hits / (named + true); a shape never met counts 0."""
    table = np.bincount(len(SHAPES) * truth + found, minlength=len(SHAPES) ** 2)
    table = table.reshape(len(SHAPES), len(SHAPES))
    return float(np.mean(2 * np.diag(table) / np.maximum(table.sum(0) + table.sum(1), 1)))


def calibration_error(claimed: Floats, right: Bools) -> float:
    """Return the mean over runs of |claimed - right|, averaged first in ten bins of the claim."""
    bins = np.minimum((claimed * BINS).astype(np.int64), BINS - 1)
    apart = np.bincount(bins, weights=claimed - right, minlength=BINS)
    return float(np.abs(apart).sum() / len(claimed))


def _share(held: Bools) -> SimulatedFigure | Unmeasured:
    m = len(held)
    if not m:
        return Unmeasured("insufficient_data", "no simulated run is of this kind")
    near = (float(held.sum()) + 1) / (m + 2)
    return SimulatedFigure(float(held.mean()), (near * (1 - near) / m) ** 0.5)


def _jackknife(statistic: Callable[[Ints], float], m: int) -> SimulatedFigure:
    every = np.arange(m)
    groups = min(GROUPS, m)
    # Neighbours together: the shapes take turns, so that each group has as many of each.
    group_of = every * groups // m
    left = np.array([statistic(every[group_of != group]) for group in range(groups)])
    spread = (groups - 1) / groups * ((left - left.mean()) ** 2).sum()
    return SimulatedFigure(statistic(every), float(spread**0.5))


# Standard error of an accuracy of .9 at this many runs: .007.
TRIALS = 2_000
# Differ in form from the classifier's templates, and from each other.
DEFAULT_GENERATORS = ("smooth", "walk", "agent")
# Above it a score says next to nothing: half of a judge's answers are off by a third of the scale.
LARGEST_SIGMA = 0.5
MOST_STEPS = 200
FEWEST_TRIALS = 100

Progress = Callable[[int, int], None]


class ClassifierEnvelope(msgspec.Struct, frozen=True, kw_only=True):
    """Rows over the grid, and what they were made with."""

    # one for each generator, noise, n, sigma and classifier, in this order
    rows: tuple[EnvelopeRow, ...]
    trials: int  # runs of a cell
    seed: int  # where the draws start
    # the sigma that classifiers were told, as a multiple of the true one; None: not told
    told: float | None


def measure_envelope(
    classifiers: Mapping[str, Classifier],  # `CLASSIFIERS` has the articles' three and the default
    *,
    ns: Sequence[int],  # numbers of steps
    sigmas: Sequence[float],  # standard deviations of a score's noise
    generators: Sequence[str] = DEFAULT_GENERATORS,  # names in `GENERATORS`
    noises: Sequence[str] = ("gaussian",),  # kinds of noise
    trials: int = TRIALS,  # runs of a cell, a fifth of each shape; rounded up
    seed: int = 0,  # where the draws start
    told: float | None = 1.0,  # multiple of the true sigma that classifiers are told
    progress: Progress | None = None,  # called with cells done and cells in all
) -> ClassifierEnvelope:
    """Return what each classifier is worth in each cell of a grid; `UsageError` for a bad grid."""
    _check_grid(ns, sigmas, generators, noises)
    cells = list(product(generators, [x for x in planted.NOISES if x in noises], ns, sigmas))
    _check_names("classifier", list(classifiers), classifiers)
    if trials < FEWEST_TRIALS:
        raise UsageError(f"{trials} runs a cell; expected {FEWEST_TRIALS} or more")
    if told is not None and not 0 < told <= 10:
        raise UsageError(f"told is {told!r}; expected a multiple of sigma above 0, at most 10")
    rows: list[EnvelopeRow] = []
    for done, (generator, noise, n, sigma) in enumerate(cells):
        if progress is not None:
            progress(done, len(cells))
        scores, truth, broke = draw_cell(generator, noise, n, sigma, trials=trials, seed=seed)
        quantum = planted.QUANTUM if noise == "quantised" else None
        known = None if told is None else told * sigma
        assess = partial(
            assess_answers,
            generator=generator,
            noise=noise,
            n=n,
            sigma=sigma,
            truth=truth,
            broke=broke,
        )
        for name, classify in classifiers.items():
            rows.append(assess(classify(scores, known, quantum), classifier=name))
    if progress is not None:
        progress(len(cells), len(cells))
    return ClassifierEnvelope(rows=tuple(rows), trials=trials, seed=seed, told=told)


def draw_cell(
    generator: str, noise: planted.Noise, n: int, sigma: float, *, trials: int, seed: int
) -> tuple[Floats, Ints, Ints]:
    """Draw a cell's runs: scores (m, n) with noise, shapes (m,) as codes, break steps (m,).

    Shapes take turns, so that every part of the runs has as many of each.
    """
    rng = np.random.default_rng([seed, zlib.crc32(f"{generator} {noise} {n} {sigma!r}".encode())])
    each = -(-trials // len(SHAPES))
    made = [planted.draw_curves(generator, shape, n, each, rng) for shape in SHAPES]
    curves = np.stack([one.curves for one in made], axis=1).reshape(-1, n)
    broke = np.stack([one.break_step for one in made], axis=1).ravel()
    truth = np.tile(np.arange(len(SHAPES), dtype=np.int64), each)
    return planted.add_noise(curves, sigma, rng, kind=noise), truth, broke


def choose_classifiers(names: Sequence[str]) -> dict[str, Classifier]:
    """Return built-in classifiers by name; `UsageError` where one is not built in."""
    _check_names("classifier", names, CLASSIFIERS)
    return {name: CLASSIFIERS[name] for name in names}


def _check_names(what: str, names: Sequence[str], known: Iterable[str]) -> None:
    there = list(known)
    if not names:
        raise UsageError(f"no {what} given; one or more of {', '.join(there) or 'those you write'}")
    for name in names:
        if name not in there:
            raise UsageError(f"no {what} {name!r}; one of {', '.join(there)}")


def _check_grid(
    ns: Sequence[int], sigmas: Sequence[float], generators: Sequence[str], noises: Sequence[str]
) -> None:
    _check_names("generator", generators, planted.GENERATORS)
    _check_names("noise", noises, planted.NOISES)
    if not ns or not sigmas:
        raise UsageError("an envelope needs at least one n and one sigma")
    for n in ns:
        if not planted.FEWEST_STEPS <= n <= MOST_STEPS:
            raise UsageError(f"n is {n}; expected {planted.FEWEST_STEPS} to {MOST_STEPS} steps")
    for sigma in sigmas:
        if not 0 < sigma <= LARGEST_SIGMA:
            raise UsageError(f"sigma is {sigma!r}; expected above 0, at most {LARGEST_SIGMA}")
