"""Collapses in two stages: the compound shape that passes for one of the five.

Two dips or a sawtooth leave large residuals under every template, and a test of fit finds them. A
run that falls twice looks like a steady decline, and only a comparison with its own kind tells.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from stepscope.shape.bank import LONGEST, Bank, ramp
from stepscope.shape.names import EARLY_COLLAPSE

# With fewer steps a second stage is one score, and noise makes those.
SHORTEST_COMPOUND = 6
# Share of the whole fall that comes first.
STAGES = (0.35, 0.5, 0.65)


@lru_cache(maxsize=LONGEST)
def two_stages(n: int) -> Bank:
    """Return templates of n steps that fall, hold for two steps or more, and fall again.

    >>> two_stages(6).f[0].round(2).tolist()
    [-0.0, -0.35, -0.35, -1.0, -1.0, -1.0]
    """
    first, second = np.array(
        [(a, b) for a in range(1, n - 2) for b in range(a + 2, n) for _ in STAGES]
    ).T
    share = np.tile(STAGES, len(first) // len(STAGES))[:, None]
    f = -(share * ramp(n, first, 1) + (1 - share) * ramp(n, second, 1))
    k = len(f)
    return Bank(
        shape=np.full(k, EARLY_COLLAPSE, np.int8),
        f=f,
        offset=np.zeros_like(f),
        log_weight=np.full(k, -np.log(k)),
        half_drop=np.where(share[:, 0] < 0.5, second, first).astype(np.int16),
        onset=first.astype(np.int16),
        trough=np.zeros(k, np.int16),
    )
