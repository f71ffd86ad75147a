"""The same comparison as `classify` for millions of runs: 1,000,000 of ten steps in a few seconds.

Runs with the same steps observed and the same noise share one product of matrices. Probabilities
are those of `classify` to about a thousandth; the same input gives the same bytes, however many
cores there are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import numpy as np
import numpy.typing as npt

from stepscope.errors import DataError
from stepscope.shape import door
from stepscope.shape.bank import SHORTEST
from stepscope.shape.block import Answers, answer
from stepscope.shape.names import ShapeName
from stepscope.shape.pools import pool
from stepscope.shape.types import Batch, Bools, Floats

Ints = npt.NDArray[np.int64]

# Runs that a thread takes at once.
BLOCK = 16_384


def classify_many(
    scores: npt.NDArray[np.float64],
    *,
    sigma: float | Sequence[float] | npt.NDArray[np.float64] | None = None,
    prior: Mapping[ShapeName, float] | None = None,
    quantum: float | None = None,
    correlation: float = 0.0,
) -> Batch:
    """Compare five shapes for each of m runs of n steps.

    Args:
        scores: shape (m, n), within 0..1, NaN where a step was not scored.
        sigma: noise of a score: one number, shape (n,) for all runs, (m, 1) or (m, n); None as in
            `classify`.
        prior: share of each shape in the fleet; the same for all unless given.
        quantum: step between the values that the judge can give.
        correlation: of the errors of neighbouring steps.

    Returns:
        One row a run that could be classified, in their order, and why the others could not.

    Raises:
        DataError: the prior, the quantum, the correlation or a shape of the arguments makes no
            sense.

    >>> curves = np.array([[0.9, 0.9, 0.9, 0.9, 0.9, 0.9], [0.9, 0.9, 0.4, 0.4, 0.4, 0.4]])
    >>> found = classify_many(curves, sigma=0.05)
    >>> found.label.tolist(), found.break_step.tolist()
    ([0, 1], [-1, 2])
    """
    what = door.asked(prior, quantum, correlation)
    values = _rectangle(scores)
    noise = None if sigma is None else door.noise(sigma, values.shape)
    observed = ~np.isnan(values)
    reasons = _reasons(values, observed, noise)
    groups = []
    for rows, seen in _groups(observed, noise, np.flatnonzero(reasons == 0)):
        own = None if noise is None else noise[rows[0]]
        if len(pool(seen, np.ones(len(seen)) if own is None else own).places) < SHORTEST:
            reasons[rows] = door.ABSENCES.index(door.CROWDED) + 1
        else:
            groups.append((rows, seen, own))
    jobs = [
        (rows[start : start + BLOCK], seen, own)
        for rows, seen, own in groups
        for start in range(0, len(rows), BLOCK)
    ]

    def done(job: tuple[Ints, Bools, Floats | None]) -> Answers:
        rows, seen, own = job
        return answer(values[rows], seen, own, what)

    with ThreadPoolExecutor(_cores()) as threads:
        parts = list(threads.map(done, jobs)) if len(jobs) > 1 else [done(job) for job in jobs]
    return _batch([job[0] for job in jobs], parts, reasons)


def classify_ragged(
    values: npt.NDArray[np.float64],
    lengths: npt.NDArray[np.int64],
    *,
    sigma: float | npt.NDArray[np.float64] | None = None,
    prior: Mapping[ShapeName, float] | None = None,
    quantum: float | None = None,
    correlation: float = 0.0,
) -> Batch:
    """Compare five shapes for runs of unequal length.

    Args:
        values: the scores of all runs end to end, NaN where a step was not scored.
        lengths: shape (m,), the steps of each run; they sum to the number of values.
        sigma: one number, or one for each value; None as in `classify`.
        prior: as in `classify_many`.
        quantum: as in `classify_many`.
        correlation: as in `classify_many`.

    Returns:
        As `classify_many`.

    Raises:
        DataError: as `classify_many`, or the lengths do not sum to the number of values.

    >>> found = classify_ragged(np.array([0.9] * 5 + [0.9, 0.4]), np.array([5, 2]), sigma=0.05)
    >>> found.rows.tolist(), found.absences[found.reasons[1] - 1].kind
    ([0], 'insufficient_data')
    """
    flat, counts = door.ends(values, lengths)
    noise = None if sigma is None else door.noise(sigma, flat.shape)
    begins = np.cumsum(counts) - counts
    rows, parts = [], []
    reasons = np.zeros(len(counts), np.int8)
    for length in np.unique(counts).tolist():
        mine = np.flatnonzero(counts == length)
        at = begins[mine, None] + np.arange(length)
        part = classify_many(
            flat[at],
            sigma=None if noise is None else noise[at],
            prior=prior,
            quantum=quantum,
            correlation=correlation,
        )
        reasons[mine] = part.reasons
        rows.append(mine[part.rows])
        parts.append(part)
    return _batch(rows, parts, reasons)


def _rectangle(scores: npt.NDArray[np.float64]) -> Floats:
    try:
        values = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as e:
        raise DataError(f"scores are not a table of numbers ({e}); expected shape (m, n)") from e
    if values.ndim != 2:
        raise DataError(f"scores have shape {values.shape}; expected (m, n), one row a run")
    return values


def _reasons(values: Floats, observed: Bools, noise: Floats | None) -> npt.NDArray[np.int8]:
    """Return for each run 0, or one more than the index of its absence."""
    found = door.reasons(values, observed, noise)
    return np.where(found.any(1), found.argmax(1) + 1, 0).astype(np.int8)


def _groups(observed: Bools, noise: Floats | None, rows: Ints) -> Iterator[tuple[Ints, Bools]]:
    """Yield rows with the same steps observed and the same noise, and which steps these are."""
    if not len(rows):
        return
    seen = observed[rows]
    keys = np.packbits(seen, axis=1)
    if noise is not None and not _shared(noise):
        own = np.where(seen, noise[rows], 0.0)
        keys = np.concatenate([keys, own.view(np.uint8)], axis=1)
    if (keys == keys[0]).all():
        yield rows, seen[0]
        return
    padded = np.pad(keys, ((0, 0), (0, -keys.shape[1] % 8)))
    words = padded.view(np.uint64 if padded.shape[1] == 8 else np.dtype((np.void, padded.shape[1])))
    _, first, group = np.unique(words.ravel(), return_index=True, return_inverse=True)
    order = np.argsort(group, kind="stable")
    for at, members in zip(
        first, np.split(order, np.flatnonzero(np.diff(group[order])) + 1), strict=True
    ):
        yield rows[members], seen[at]


def _shared(noise: Floats) -> bool:
    """Return whether all runs were given one noise: broadcast, or equal."""
    return noise.strides[0] == 0 or bool((noise == noise[0]).all())


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _batch(
    rows: Sequence[Ints], parts: Sequence[Answers | Batch], reasons: npt.NDArray[np.int8]
) -> Batch:
    """Return parts put together in the order of their runs."""
    if not parts:
        parts = [_nothing()]
        rows = [np.empty(0, np.int64)]
    every = np.concatenate(rows)
    order = np.argsort(every, kind="stable")
    columns = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])[order]
        for field in fields(Answers)
    }
    return Batch(rows=every[order], reasons=reasons, absences=door.ABSENCES, **columns)


def _nothing() -> Answers:
    """Return the answers of no runs: those of one, without it."""
    some = answer(
        np.full((1, SHORTEST), 0.5), np.ones(SHORTEST, np.bool_), None, door.asked(None, None, 0.0)
    )
    return Answers(**{field.name: getattr(some, field.name)[:0] for field in fields(Answers)})
