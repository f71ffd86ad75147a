"""The fast path: many runs under one noise against all templates, in single precision.

Rows are worked off in tiles that stay in the cache; the same rows give the same bytes, however many
threads there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from stepscope.shape.products import PRODUCT
from stepscope.shape.types import Floats
from stepscope.shape.whiten import Whitened

Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

# Floats of one tile: rows times templates.
TILE = 150_000
MOST_ROWS = 512
# The factor of `_normal_table` beyond these limits is as good as at them.
TABLE_LOW, TABLE_HIGH, TABLE_STEPS = -5.6, 4.2, 1 << 13
PER_UNIT = TABLE_STEPS / (TABLE_HIGH - TABLE_LOW)


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """What is left of m runs against K templates.

    Attributes:
        top: shape (m,), log density at the best template, up to its normal integral.
        sums: shape (m, J), density of each group of templates over exp(top).
        best: shape (m,), index of the best template.
        shape: shape (J,), the shape of each group.
        half_drop: shape (J,), the break of each group, -1 for none.
    """

    top: Floats
    sums: Floats
    best: Ints
    shape: npt.NDArray[np.int8]
    half_drop: npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True, eq=False)
class _Tables:
    """Templates in single precision, sorted by shape and break, and scaled for one product.

    Attributes:
        order: shape (K,), which template of the bank each column is.
        starts: shape (J,), the first column of each group.
        depth: shape (p + 1, K), gives depth times root of half its precision.
        offset: shape (p, L), of the first L templates; the others have none.
        constant: shape (K,).
        edge: shape (K,), least depth times root of half its precision.
    """

    order: Ints
    starts: Ints
    depth: Singles
    offset: Singles
    constant: Singles
    edge: Singles


def sweep(lens: Whitened, residual: Floats) -> Sweep:
    """Return the evidence of each group of templates for each row.

    Args:
        lens: the templates as the noise of these rows shows them.
        residual: shape (m, p), whitened.
    """
    tables = _tables(lens)
    m, p = residual.shape
    templates = len(tables.order)
    height = max(2, min(MOST_ROWS, TILE // templates))
    width = max(1, PRODUCT // (height * (p + 1)))
    # A tile of one row would be a product with a vector, which starts threads: one row more.
    padded = m + (m % height == 1)
    rows = np.zeros((padded, p + 1), np.float32)
    rows[:m, :p] = residual
    rows[:, p] = 1.0
    top = np.empty(padded, np.float32)
    sums = np.empty((padded, len(tables.starts)), np.float32)
    best = np.empty(padded, np.int64)
    space = np.empty((3, min(height, padded), templates), np.float32)
    index = np.empty((min(height, padded), templates), np.intp)
    for start in range(0, padded, height):
        tile = rows[start : start + height]
        end = start + len(tile)
        log, factor = _tile(tile, tables, space[:, : len(tile)], index[: len(tile)], width)
        top[start:end] = log.max(1)
        log -= top[start:end, None]
        np.exp(log, out=log)
        log *= factor
        best[start:end] = log.argmax(1)
        np.add.reduceat(log, tables.starts, axis=1, out=sums[start:end])
    common = lens.log_scale - np.einsum("mp,mp->m", residual, residual) / 2
    first = tables.order[tables.starts]
    return Sweep(
        top=top[:m] + common,
        sums=sums[:m].astype(np.float64),
        best=tables.order[best[:m]],
        shape=lens.bank.shape[first],
        half_drop=lens.bank.half_drop[first],
    )


def _tile(
    rows: Singles, tables: _Tables, space: Singles, index: npt.NDArray[np.intp], width: int
) -> tuple[Singles, Singles]:
    """Return log densities without the normal integral, and what that integral adds as a factor.

    With z the depth in its own standard deviations over the root of 2, so that squares need not be
    halved, and t its distance from the least depth, the log density is z^2 + log Phi(t root 2). For
    t < 0 both terms are large and cancel, so -t^2 is taken into the first and what is left of the
    integral comes from a table.
    """
    log, z, square = space
    log[:] = tables.constant
    for start in range(0, tables.offset.shape[1], width):
        log[:, start : start + width][:, : tables.offset.shape[1] - start] += (
            rows[:, :-1] @ tables.offset[:, start : start + width]
        )
    for start in range(0, z.shape[1], width):
        np.matmul(rows, tables.depth[:, start : start + width], out=z[:, start : start + width])
    np.multiply(z, z, out=square)
    log += square
    z -= tables.edge
    np.minimum(z, 0, out=square)
    square *= square
    log -= square
    z *= np.float32(PER_UNIT)
    z += np.float32(0.5 - TABLE_LOW * PER_UNIT)
    np.copyto(index, z, casting="unsafe")
    _normal_table().take(index, out=z, mode="clip")
    return log, z


def _tables(lens: Whitened) -> _Tables:
    templates = lens.bank
    order = np.lexsort((templates.half_drop, templates.shape))
    group = templates.shape[order].astype(np.int64) * len(order) + templates.half_drop[order]
    starts = np.flatnonzero(np.diff(group, prepend=group[0] - 1))
    root = np.sqrt(2 * lens.precision)[order]
    depth = np.vstack([(lens.f[order] / root[:, None]).T, (lens.pull - lens.cross)[order] / root])
    moved = np.flatnonzero(lens.square[order] > 0)
    last = int(moved[-1]) + 1 if len(moved) else 0
    return _Tables(
        order=order,
        starts=starts,
        depth=depth.astype(np.float32),
        offset=lens.offset[order[:last]].T.astype(np.float32),
        constant=lens.constant[order].astype(np.float32),
        edge=(lens.least[order] * root / 2).astype(np.float32),
    )


@lru_cache(maxsize=1)
def _normal_table() -> Singles:
    """Return Phi(t root 2) exp(min(t, 0)^2) on a grid; neighbours differ by .0014 at most."""
    from scipy.special import erfcx

    t = np.linspace(TABLE_LOW, TABLE_HIGH, TABLE_STEPS + 1)
    below = erfcx(np.abs(t)) / 2
    return np.asarray(np.where(t < 0, below, 1 - below * np.exp(-t * t)), np.float32)
