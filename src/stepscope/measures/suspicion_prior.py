"""Where in a run of one workflow the decisive step tends to lie, before anything is found there.

Learned by counting people's labels on *other* runs: at which index, how far from the end, in which
tenth of the run, by which speaker. Without labels the prior is flat over an agent's messages and
calls; entries that only pass the word on (plans, hand-offs) weigh less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from stepscope.model import Step, StepKind, Trajectory

NAMES_A_STEP = frozenset({"decisive_step", "failure"})
# A flat prior but for entries that organise. Of 20 labels on the tuning half of the hand-crafted
# Who&When runs 14 name the 198 messages, 7 the 694 plans, hand-offs and closing notes.
BY_KIND: dict[StepKind, float] = {"plan": 0.2, "handoff": 0.1, "other": 0.1}
# How many labels a learned prior needs before it is asked: below, one label is a spike.
FEWEST_LABELS = 8
# The flat prior counts as this many labels where the question is the place: on the tuning half of
# Who&When, out of fold, less let the commonest index outvote what was found in the run.
FLAT_LABELS = 32.0
# The same where the question is who speaks.
FLAT_SPEAKER_LABELS = 8.0
TENTHS = 10


def count_positions(runs: Iterable[Trajectory]) -> dict[str, int]:
    """Return the table `positions` of Facts: counts of what people's labels name, by place.

    Keys: `labels`; `at.K` index K; `end.K` K steps before the last; `tenth.K`; `who.NAME` labels on
    a speaker's steps, and `steps.NAME` how many steps it has in the labelled runs. Labels on steps
    that are not the agent's count nowhere: only the agent's steps are ranked.
    """
    counts: Counter[str] = Counter()
    for run in runs:
        named = {label.step for label in run.labels if label.kind in NAMES_A_STEP}
        own = [step for step in run.steps if step.index in named and step.actor == "agent"]
        if not own:
            continue
        for step in own:
            counts["labels"] += 1
            for place in _places(step.index, len(run.steps)):
                counts[place] += 1
            counts[f"who.{speaker(step)}"] += 1
        for step in run.steps:
            if step.actor == "agent":
                counts[f"steps.{speaker(step)}"] += 1
    return dict(sorted(counts.items()))


def speaker(step: Step) -> str:
    """Return who speaks, and how: an orchestrator plans, hands over, and talks."""
    return f"{step.agent or ''}/{step.kind}"


def prior_of(positions: Mapping[str, int], run: Trajectory) -> Callable[[Step], float]:
    """Return the prior of a run's steps, learned where `positions` has labels enough."""
    if not asked(positions):
        return _flat
    n = len(run.steps)
    base = positions["labels"] / sum(
        count for key, count in positions.items() if key.startswith("steps.")
    )

    def learned(step: Step) -> float:
        return _place(positions, step.index, n) * _speaks(positions, step, base)

    return learned


def asked(positions: Mapping[str, int]) -> bool:
    """Tell whether the table has labels enough to be asked."""
    return positions.get("labels", 0) >= FEWEST_LABELS


def share_at(positions: Mapping[str, int], step: int) -> tuple[int, int]:
    """Return how many labels name this index, and how many labels there are."""
    return positions.get(f"at.{step}", 0), positions.get("labels", 0)


def _flat(step: Step) -> float:
    return BY_KIND.get(step.kind, 1.0)


def _places(index: int, steps: int) -> tuple[str, str, str]:
    return f"at.{index}", f"end.{steps - 1 - index}", f"tenth.{index * TENTHS // steps}"


def _place(positions: Mapping[str, int], index: int, steps: int) -> float:
    at, end, tenth = (positions.get(key, 0) for key in _places(index, steps))
    # Labels of a tenth are shared by the steps in it.
    spread = max(steps / TENTHS, 1.0)
    seen = (at + end + tenth / spread) / 3
    return (seen + FLAT_LABELS / steps) / (positions["labels"] + FLAT_LABELS)


def _speaks(positions: Mapping[str, int], step: Step, base: float) -> float:
    """How much more often than any step this speaker's are named, drawn to what kinds tell."""
    name = speaker(step)
    hits, steps = positions.get(f"who.{name}", 0), positions.get(f"steps.{name}", 0)
    flat = FLAT_SPEAKER_LABELS
    return (hits + flat * _flat(step)) / (steps * base + flat)
