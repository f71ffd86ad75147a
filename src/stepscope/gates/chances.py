"""How rarely labels permuted within cases give what was seen, and the rarest that they could give.

A null that cannot be listed is drawn in stages: few permutations where p is large, many where it is
small. A p at or below a stage's mark is drawn anew, so that below every mark the level holds
exactly: P(p <= a) <= a for each a up to the first mark, far above any alpha here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from math import comb

import numpy as np

from stepscope.gates.sides import Side
from stepscope.stats import Comparison
from stepscope.values import Unmeasured

# Permutations drawn, and the p at or below which more are drawn.
STAGES = ((999, 0.05), (9_999, 0.002), (99_999, 0.0))
FEW, MANY = STAGES[0][0], STAGES[-1][0]


def staged(compare: Callable[[int], Comparison | Unmeasured]) -> Comparison | Unmeasured:
    """Return a comparison with as many permutations as its p needs.

    Args:
        compare: makes it with a number of permutations; the same number gives the same p.
    """
    found = compare(FEW)
    for (_, mark), (draws, _) in pairwise(STAGES):
        if isinstance(found, Unmeasured) or found.method != "permutation drawn" or found.p > mark:
            break
        found = compare(draws)
    return found


def floor(now: Side, before: Side, worst: float) -> float:
    """Return the smallest p that any current runs could give against this baseline.

    It is the chance that permuted labels hand every run at its worst to the current side, where all
    current runs are at their worst. A gate whose floor lies above alpha can never fail.

    Args:
        now: the current runs; only how many a case has matters.
        before: those of the baseline.
        worst: the value of a run at its worst.
    """
    runs, old = Counter(now.cases.tolist()), Counter(before.cases.tolist())
    at_worst = Counter(
        case for case, top in zip(before.cases.tolist(), before.bad.tolist(), strict=True)
        if top >= worst
    )  # fmt: skip
    p = 1.0
    for case in runs.keys() & old.keys():
        ways = comb(at_worst[case] + runs[case], runs[case])
        p *= ways / comb(old[case] + runs[case], runs[case])
    whole = bool(np.isin(before.bad, (0.0, 1.0)).all())
    return p if whole else max(p, 1 / (1 + MANY))
