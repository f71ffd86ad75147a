"""The shares of a panel: each judge alone, any of them, all of them, by group of runs.

Any and all are over the runs that every judge of the panel answered. Where the rules sit beside two
models or more, they leave many runs open: the panel is summed up without them first, then with
them. Where runs were drawn, each counts for as many as it stands for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from zlib import crc32

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from stepscope import stats
from stepscope.report.panels_types import Claim, Figure, PanelGroup, Seat, Vote
from stepscope.report.panels_votes import NOT_APPLICABLE, RULES, Aspect, Flags, Votes
from stepscope.values import Unmeasured

Places = npt.NDArray[np.int64]
# Groups that are compared pair by pair; of more the shares are there, and no claim.
MOST_GROUPS = 5
ALPHA = 0.05
INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """How runs came before the judges, aligned with them.

    Attributes:
        probability: with which each run was drawn; None where none was drawn.
        inside: runs that estimates may speak from: all, or those that were drawn.
    """

    probability: npt.NDArray[np.float64] | None
    inside: Flags

    @classmethod
    def of(cls, ids: Sequence[str], drawn: Mapping[str, float]) -> Drawn:
        """Return how these runs came; without a draw every run counts the same."""
        if not drawn:
            return cls(probability=None, inside=np.ones(len(ids), np.bool_))
        found = np.array([drawn.get(id_, np.nan) for id_ in ids])
        return cls(probability=found, inside=~np.isnan(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Runs that stand together: what they are called, and where they are."""

    title: str
    places: Places


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One aspect with the tasks of its runs and how they were drawn: what shares are made of."""

    aspect: Aspect
    clusters: npt.NDArray[np.int64]
    drawn: Drawn

    def share(self, failing: Flags, answered: Flags, why: Mapping[str, Flags]) -> Figure:
        """Return the share of failing runs among those answered; `why` are those lost."""
        kept = answered & self.drawn.inside
        lost = {name: int((runs & self.drawn.inside).sum()) for name, runs in why.items()}
        lost = {name: n for name, n in sorted(lost.items()) if n}
        clusters, chances = self.clusters[kept], self.drawn.probability
        figure: Figure
        if chances is None:
            figure = stats.proportion(failing[kept], clusters, unmeasured=lost)
        else:
            gone = np.zeros_like(kept)
            for name, runs in why.items():
                if name != NOT_APPLICABLE:
                    gone |= runs & self.drawn.inside
            figure = stats.weighted_proportion(
                failing[kept], chances[kept], clusters, lost=chances[gone], unmeasured=lost
            )
        if isinstance(figure, Unmeasured) and lost and not kept.any():
            said = ", ".join(f"{n:,} {name}" for name, n in lost.items())
            return Unmeasured(figure.kind, f"no run with a yes or no: {said}")
        return figure


def group(bench: Bench, of: Group) -> PanelGroup:
    """Return what every judge found in one group of runs, and what they found together."""
    chosen = np.zeros(len(bench.clusters), np.bool_)
    chosen[of.places] = True
    votes = bench.aspect.votes
    return PanelGroup(
        title=of.title,
        n_runs=int(chosen.sum()),
        seats=tuple(_seat(bench, one, chosen) for one in votes),
        votes=tuple(_vote(bench, sitting, chosen) for sitting in sittings(votes)),
    )


def sittings(votes: Sequence[Votes]) -> Iterator[Sequence[Votes]]:
    """Yield the panels that are summed up: the models where they are two or more, then everyone."""
    models = [one for one in votes if one.member.family != RULES]
    if len(models) > 1 and len(models) < len(votes):
        yield models
    if len(votes) > 1:
        yield votes


def _seat(bench: Bench, one: Votes, chosen: Flags) -> Seat:
    asked = one.asked & chosen
    open_ = asked & ~one.answered
    why = {str(name): open_ & (one.why == name) for name in set(one.why[open_].tolist())}
    figure = bench.share(one.failing, one.answered & chosen, why)
    counted = {name: int(runs.sum()) for name, runs in sorted(why.items())}
    return Seat(
        judge=one.member.judge,
        failing=figure,
        lost=counted,
        not_judged=int((chosen & ~one.asked & bench.drawn.inside).sum()),
    )


def complete(sitting: Sequence[Votes]) -> tuple[Flags, Flags]:
    """Return which runs every judge answered, and which at least one was asked about."""
    answered = np.logical_and.reduce([one.answered for one in sitting])
    asked = np.logical_or.reduce([one.asked for one in sitting])
    return answered, asked


def _vote(bench: Bench, sitting: Sequence[Votes], chosen: Flags) -> Vote:
    answered, asked = complete(sitting)
    # A run that an aspect does not apply to, as each judge says, asks nothing of the panel.
    idle = np.logical_and.reduce([one.why == NOT_APPLICABLE for one in sitting]) & chosen
    part = asked & ~answered & chosen & ~idle
    why = {INCOMPLETE: part, NOT_APPLICABLE: idle}
    found = [one.failing for one in sitting]
    return Vote(
        judges=tuple(one.member.judge for one in sitting),
        any=bench.share(np.logical_or.reduce(found), answered & chosen, why),
        all=bench.share(np.logical_and.reduce(found), answered & chosen, why),
        incomplete=int(part.sum()),
    )


def claims(bench: Bench, groups: Sequence[Group], seed: int) -> tuple[Claim, ...]:
    """Return the groups compared pair by pair, p not adjusted yet.

    Nothing is claimed of groups that were drawn with different chances, or of very many groups.
    """
    chances = bench.drawn.probability
    uneven = chances is not None and len(np.unique(chances[bench.drawn.inside])) > 1
    if not 2 <= len(groups) <= MOST_GROUPS or uneven:
        return ()
    first, *_ = [*sittings(bench.aspect.votes), bench.aspect.votes]
    answered, _asked = complete(first)
    failing = np.logical_or.reduce([one.failing for one in first])
    answered = answered & bench.drawn.inside
    return tuple(
        _claim(bench, failing, answered, pair=pair, seed=seed) for pair in combinations(groups, 2)
    )


def _claim(
    bench: Bench, failing: Flags, answered: Flags, *, pair: tuple[Group, Group], seed: int
) -> Claim:
    sides = []
    for of in pair:
        kept = of.places[answered[of.places]]
        sides.append((failing[kept].astype(np.float64), bench.clusters[kept]))
    (xs, x_cases), (ys, y_cases) = sides
    key = f"{bench.aspect.rubric} {bench.aspect.failing} {pair[0].title} {pair[1].title}"
    rng = np.random.default_rng([seed, crc32(key.encode())])
    paired = len(np.intersect1d(x_cases, y_cases)) > 0
    compare = stats.compare_paired if paired else stats.compare_unpaired
    found = compare(xs, x_cases, ys, y_cases, rng=rng)
    first, second = pair[0].title, pair[1].title
    if isinstance(found, Unmeasured):
        return Claim(first=first, second=second, effect=found)
    return Claim(first=first, second=second, effect=found.effect, p=found.p)


def adjusted(all_: Sequence[tuple[Claim, ...]]) -> list[tuple[Claim, ...]]:
    """Return the claims of every panel with p adjusted by Holm over all of them."""
    tested = [claim.p for claims in all_ for claim in claims if claim.p is not None]
    holm = iter(stats.holm(tested).tolist())
    out = []
    for claims in all_:
        made = []
        for claim in claims:
            p = None if claim.p is None else next(holm)
            made.append(replace(claim, p_adjusted=p, survives=p is not None and p <= ALPHA))
        out.append(tuple(made))
    return out
