"""Orders of agents by two scores of the same runs: rank flips.

A rank flip is a pair of agents that outcome and a figure of the path order differently. It is told
only where both orders are shown within tasks; where one is not, nothing is said, least of all that
the orders are alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, permutations
from math import ceil

import numpy as np

from stepscope.errors import DataError
from stepscope.stats.comparison import DRAWS, Comparison, compare_paired, holm
from stepscope.stats.permutation import Tail, pair_trials
from stepscope.stats.sample import Floats, Ints
from stepscope.values import Flip, RankFlips, Unmeasured

# What each of the two directions of a flip may err with; together .05.
FLIP_ALPHA = 0.025


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRuns:
    """The runs of one agent that have a figure, and how many have none."""

    values: Floats  # shape (n,), the figure of each run, finite
    cases: Ints  # shape (n,), the case of each run, numbered from 0, alike for all agents
    unmeasured: Mapping[str, int]  # runs of the agent without the figure, by kind


# The runs of two agents.
Sides = tuple[FigureRuns, FigureRuns]


def rank_flips(
    agents: Sequence[str],
    outcome: Sequence[FigureRuns],
    figures: Mapping[str, Sequence[FigureRuns]],
    *,
    fewer_is_better: Collection[str],
    units: Mapping[str, str],
    rng: np.random.Generator,
    draws: int = DRAWS,
) -> RankFlips | Unmeasured:
    """Find the pairs of agents that outcome and a figure order differently, beyond chance.

    `outcome` has the outcomes of each agent, 0 or 1, `figures` a figure of the path of each, by
    name; `units` are of those that are no shares. `draws` are taken where the null is not exact,
    more where Holm asks for more. `Unmeasured` where no two agents share two cases with an outcome
    and two with one of the figures.

    Source: The larger of two one-sided p, each by permuting within cases (`compare_paired`), tests
    that both orders hold: Berger (1982), Technometrics 24:295-300. That of the outcome is the gate
    of those of the figures, which Holm (1979) adjusts: Westfall and Krishen (2001), J. Statist.
    Plann. Inference 99:25-40. Pairs are adjusted by their number (Bonferroni).

    >>> def runs(value: float) -> FigureRuns:
    ...     return FigureRuns(values=np.full(9, value), cases=np.arange(9), unmeasured={})
    >>> found = rank_flips(["a", "b"], [runs(0), runs(1)], {"errors": [runs(1), runs(2)]},
    ...     fewer_is_better={"errors"}, units={"errors": "errors"}, rng=np.random.default_rng(0))
    >>> [(flip.first, flip.second, flip.p) for flip in found.flips]
    [('b', 'a', 0.001953125)]
    """
    if any(len(runs) != len(agents) for runs in (outcome, *figures.values())):
        raise DataError(f"rank_flips takes an entry for each of {len(agents)} agents")
    tested = _shared_figures(outcome, figures)
    if not tested:
        why = "no two groups share two tasks with an outcome and a path figure"
        return Unmeasured("insufficient_data", why)
    found: list[Flip] = []
    alpha = FLIP_ALPHA / len(tested)
    for pair, keys in tested.items():
        # A p found by drawing is never below 1 / (draws + 1), and Holm may ask for less.
        enough = max(draws, ceil(len(keys) / alpha))
        for first, second in permutations(pair):
            sides = outcome[first], outcome[second]
            ahead = _show_order(sides, "upper", "share", alpha, enough, rng)
            if ahead is None:
                continue
            behind: dict[str, Comparison] = {}
            for key in keys:
                sides = figures[key][first], figures[key][second]
                tail: Tail = "upper" if key in fewer_is_better else "lower"
                path = _show_order(sides, tail, units.get(key, "share"), alpha, enough, rng)
                if path is not None:
                    behind[key] = path
            # Where no order is shown, p is above the level: as 1 it changes no other's.
            adjusted = holm([behind[key].p if key in behind else 1.0 for key in keys])
            for key, p_path in zip(keys, adjusted.tolist(), strict=True):
                p = len(tested) * max(ahead.p, p_path)
                if key in behind and p <= FLIP_ALPHA:
                    flip = Flip(
                        first=agents[first],
                        second=agents[second],
                        figure=key,
                        outcome=ahead.effect,
                        path=behind[key].effect,
                        p=max(ahead.p, behind[key].p),
                        p_adjusted=p,
                    )
                    found.append(flip)
    return RankFlips(
        flips=tuple(found),
        figures=tuple(key for key in figures if any(key in keys for keys in tested.values())),
        n_pairs=len(tested),
    )


def _shared_figures(
    outcome: Sequence[FigureRuns], figures: Mapping[str, Sequence[FigureRuns]]
) -> dict[tuple[int, int], list[str]]:
    """Return the figures by which pairs of agents can be compared, of pairs that have any.

    One case says nothing of the others: two must be shared, with the outcome and with the figure.
    """
    graded = _count_shared(outcome)
    shared = {key: _count_shared(runs) for key, runs in figures.items()}
    found = {
        pair: [key for key in figures if shared[key][pair] > 1]
        for pair in combinations(range(len(outcome)), 2)
        if graded[pair] > 1
    }
    return {pair: keys for pair, keys in found.items() if keys}


def _count_shared(agents: Sequence[FigureRuns]) -> Floats:
    """Return how many cases any two agents both have, shape (agents, agents)."""
    size = 1 + max((int(runs.cases.max(initial=0)) for runs in agents), default=0)
    held = np.array([np.bincount(runs.cases, minlength=size) > 0 for runs in agents], np.float64)
    return np.asarray(held @ held.T)


def _show_order(
    sides: Sides, tail: Tail, unit: str, alpha: float, draws: int, rng: np.random.Generator
) -> Comparison | None:
    """Return the first minus the second where it is shown to lie on one side; None elsewhere."""
    first, second = sides
    # First the side: a p of very uneven values may be small on the other one too.
    values, cases = (second.values, first.values), (second.cases, first.cases)
    with np.errstate(all="ignore"):
        mean = pair_trials(values, cases)[0].differences().mean()
    if not (mean > 0 if tail == "upper" else mean < 0):
        return None
    lost = Counter(first.unmeasured) + Counter(second.unmeasured)
    compare = partial(compare_paired, values[0], cases[0], values[1], cases[1], rng=rng)
    found = compare(unmeasured=lost, unit=unit, draws=draws, tail=tail, alpha=alpha)
    return None if isinstance(found, Unmeasured) or found.p > alpha else found
