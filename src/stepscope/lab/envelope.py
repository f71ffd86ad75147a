"""Where a classifier may be trusted: what it is worth over the number of steps and the noise.

Runs with planted shapes and breaks are drawn, noise is put on them, and every classifier answers
about the same runs. A label means what its row says for *your* n and sigma; nothing is promised
outside the grid. The draws of a cell depend on the seed and on that cell alone, so that a larger
grid changes no row of a smaller one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product

import msgspec
import numpy as np

from stepscope.errors import UsageError
from stepscope.lab.answers import CLASSIFIERS, Classifier, Told
from stepscope.lab.curves import GENERATORS, NOISES, noisy
from stepscope.lab.envelope_row import Cell, Row, worth
from stepscope.lab.noise import QUANTUM
from stepscope.lab.planted import FEWEST_STEPS, Floats, Ints
from stepscope.shape.names import SHAPES

# Standard error of an accuracy of .9 at this many runs: .007.
TRIALS = 2_000
# Differ in form from the classifier's templates, and from each other.
DEFAULT_GENERATORS = ("smooth", "walk", "agent")
# Above it a score says next to nothing: half of a judge's answers are off by a third of the scale.
LARGEST_SIGMA = 0.5
MOST_STEPS = 200
FEWEST_TRIALS = 100

Progress = Callable[[int, int], None]


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """Rows over the grid, and what they were made with.

    Attributes:
        rows: one for each generator, noise, n, sigma and classifier, in this order.
        trials: runs of a cell.
        seed: where the draws start.
        told: the sigma that classifiers were told, as a multiple of the true one; None: not told.
    """

    rows: tuple[Row, ...]
    trials: int
    seed: int
    told: float | None


def envelope(
    classifiers: Mapping[str, Classifier],
    *,
    ns: Sequence[int],
    sigmas: Sequence[float],
    generators: Sequence[str] = DEFAULT_GENERATORS,
    noises: Sequence[str] = ("gaussian",),
    trials: int = TRIALS,
    seed: int = 0,
    told: float | None = 1.0,
    progress: Progress | None = None,
) -> Envelope:
    """Return what each classifier is worth in every cell of the grid.

    Args:
        classifiers: by name; `CLASSIFIERS` has the articles' three and the default.
        ns: numbers of steps.
        sigmas: standard deviations of a score's noise.
        generators: names in `GENERATORS`.
        noises: kinds of noise.
        trials: runs of a cell, a fifth of each shape; rounded up.
        seed: where the draws start.
        told: classifiers are told this multiple of the true sigma; None: they are not told.
        progress: called with cells done and cells in all.

    Raises:
        UsageError: an empty or unknown entry, or a number out of range.
    """
    cells = list(_grid(ns=ns, sigmas=sigmas, generators=generators, noises=noises))
    _check(trials, told, classifiers)
    rows: list[Row] = []
    for done, cell in enumerate(cells):
        if progress is not None:
            progress(done, len(cells))
        scores, truth, broke = drawn(cell, trials, seed)
        quantum = QUANTUM if cell.noise == "quantised" else None
        hint = Told(None if told is None else told * cell.sigma, quantum)
        for name, classify in classifiers.items():
            answers = classify(scores, hint)
            rows.append(worth(name, cell, answers, truth=truth, broke=broke))
    if progress is not None:
        progress(len(cells), len(cells))
    return Envelope(rows=tuple(rows), trials=trials, seed=seed, told=told)


def drawn(cell: Cell, trials: int, seed: int) -> tuple[Floats, Ints, Ints]:
    """Draw a cell's runs: scores (m, n) with noise, shapes (m,) as codes, break steps (m,).

    Shapes take turns, so that every part of the runs has as many of each.
    """
    key = f"{cell.generator} {cell.noise} {cell.n} {cell.sigma!r}"
    rng = np.random.default_rng([seed, zlib.crc32(key.encode())])
    each = -(-trials // len(SHAPES))
    made = [GENERATORS[cell.generator].draw(shape, cell.n, each, rng) for shape in SHAPES]
    curves = np.stack([one.curves for one in made], axis=1).reshape(-1, cell.n)
    broke = np.stack([one.break_step for one in made], axis=1).ravel()
    truth = np.tile(np.arange(len(SHAPES), dtype=np.int64), each)
    return noisy(curves, cell.sigma, rng, kind=cell.noise), truth, broke


def chosen(names: Sequence[str]) -> dict[str, Classifier]:
    """Return built-in classifiers by name.

    Raises:
        UsageError: a name that is not built in.
    """
    _known("classifier", names, CLASSIFIERS)
    return {name: CLASSIFIERS[name] for name in names}


def _known(what: str, names: Sequence[str], known: Iterable[str]) -> None:
    there = list(known)
    if not names:
        raise UsageError(f"no {what} given; one or more of {', '.join(there) or 'those you write'}")
    for name in names:
        if name not in there:
            raise UsageError(f"no {what} {name!r}; one of {', '.join(there)}")


def _grid(
    *,
    ns: Sequence[int],
    sigmas: Sequence[float],
    generators: Sequence[str],
    noises: Sequence[str],
) -> Iterator[Cell]:
    _known("generator", generators, GENERATORS)
    _known("noise", noises, NOISES)
    if not ns or not sigmas:
        raise UsageError("an envelope needs at least one n and one sigma")
    for n in ns:
        if not FEWEST_STEPS <= n <= MOST_STEPS:
            raise UsageError(f"n is {n}; expected {FEWEST_STEPS} to {MOST_STEPS} steps")
    for sigma in sigmas:
        if not 0 < sigma <= LARGEST_SIGMA:
            raise UsageError(f"sigma is {sigma!r}; expected above 0, at most {LARGEST_SIGMA}")
    kinds = [noise for noise in NOISES if noise in noises]
    for generator, noise, n, sigma in product(generators, kinds, ns, sigmas):
        yield Cell(generator=generator, noise=noise, n=n, sigma=sigma)


def _check(trials: int, told: float | None, classifiers: Mapping[str, Classifier]) -> None:
    _known("classifier", list(classifiers), classifiers)
    if trials < FEWEST_TRIALS:
        raise UsageError(f"{trials} runs a cell; expected {FEWEST_TRIALS} or more")
    if told is not None and not 0 < told <= 10:
        raise UsageError(f"told is {told!r}; expected a multiple of sigma above 0, at most 10")
