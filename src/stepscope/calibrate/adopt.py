"""Whether another judge, snapshot or version of a rubric may take the place of the one in use.

Both sides answered about runs, or steps, that people labelled. The new one is adopted where it is
shown to be right at most `margin` less often, refused where it is shown to be right more than that
less often; the test may be repeated after every label (`stats.sequential`). Tasks are the units: a
task's labels count as their mean. An answer that could not be given is not right. Left out and
counted: labels of runs that tuned either side or of tuning queues, split or uncertain labels, items
that one side was not asked about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from statistics import median
from types import MappingProxyType

import msgspec
import numpy as np

from stepscope import stats, values
from stepscope.calibrate.ratings import Item, label_of
from stepscope.model import Answer, Verdict
from stepscope.model.labels import Label, Queue, settle_labels
from stepscope.model.records import UNCERTAIN, Figure
from stepscope.stats.sample import EstimateFrame, make_estimate, make_value
from stepscope.stats.sequential import betting_limits, labels_to_adopt

MARGIN = 0.05
# Queues whose items were chosen for what raters or rules said of them: they tune, and test nothing;
# of those drawn by a judge's doubt, the share that is right is that of hard items.
TUNING: frozenset[Queue] = frozenset({"active", "disagreement", "look_first", "norming"})
# The share of labels on which one of the two is right alone, where nothing is known of it.
DISCORDANCE = 0.15
# From so many labels on the discordance that was seen is used.
FEWEST_SEEN = 20


class Adoption(msgspec.Struct, frozen=True, kw_only=True):
    """What labels say of a judge that is to replace another."""

    rubric: str
    old: str
    new: str
    margin: float
    # labels for 80 % power: counted once; looked at as they come; of the discordance before them
    needed: tuple[float, int, int | None]
    old_right: Figure
    new_right: Figure
    difference: Figure  # new less old; its limits hold at every look
    discordance: float | None  # the share of labels on which one of the two is right alone
    left_out: dict[str, int]  # labels, by why
    decision: values.Decision
    more: int | None  # labels that are likely still needed; None where that is not known
    minutes: float | None  # of people, for these; None where no label has its seconds

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def choose_labels(given: Iterable[Label]) -> tuple[dict[Item, str], Counter[str], list[float]]:
    """Return what most people said of each item, items left out by why, and seconds of labels."""
    said: dict[Item, Counter[str]] = {}
    seconds: list[float] = []
    left: Counter[str] = Counter()
    for label in settle_labels(given):
        seconds += [] if label.seconds is None else [label.seconds]
        answer = label.record().answer
        if label.queue in TUNING or not isinstance(answer, Verdict):
            left[f"queue_{label.queue}" if label.queue in TUNING else "cannot_be_decided"] += 1
        else:
            item = label.trajectory, label.step
            said.setdefault(item, Counter())[label_of(answer)] += 1
    found = {}
    for item, counts in said.items():
        (most, n), *others = counts.most_common(2)
        if most == UNCERTAIN or (others and others[0][1] == n):
            left["split_or_uncertain"] += 1
        else:
            found[item] = most
    return found, left, seconds


def compare_judges(
    truth: Mapping[Item, str],
    sides: tuple[Mapping[Item, Answer], Mapping[Item, Answer]],  # the old one, the new one
    *,
    names: tuple[str, str, str],  # of the rubric, the old side, the new side
    tasks: Mapping[str, int],  # of runs, by id
    tuned: Container[str] = (),  # runs that tuned either side
    left_out: Mapping[str, int] = MappingProxyType({}),  # labels, by why
    seconds: Sequence[float] = (),  # that labels took
    margin: float = MARGIN,
    seed: int = 0,
) -> Adoption:
    """Return whether the new side is adopted, refused or undecided."""
    left = Counter(left_out)
    right: dict[int, list[tuple[bool, bool]]] = {}
    for item in sorted(truth, key=lambda one: (one[0], one[1] or 0)):
        answers = [side.get(item) for side in sides]
        if item[0] in tuned:
            left["tuned_on"] += 1
        elif None in answers:
            left["not_judged_by_both"] += 1
        else:
            old, new = (isinstance(x, Verdict) and label_of(x) == truth[item] for x in answers)
            right.setdefault(tasks[item[0]], []).append((old, new))
    pairs = [pair for of in right.values() for pair in of]
    units = [task for task, of in right.items() for _ in of]
    n = len(pairs)
    discordance = sum(old != new for old, new in pairs) / n if n else None
    seen = discordance if n >= FEWEST_SEEN and discordance else DISCORDANCE
    once, watched = labels_to_adopt(seen, margin, rng=np.random.default_rng(seed))
    frame = EstimateFrame(level=0.9, unit="share", unit_of_n="labels", n_tasks=len(right))
    difference: Figure = values.Unmeasured("insufficient_data", "no label was judged by both sides")
    if n:
        each = np.array([np.mean([b - a for a, b in np.array(of, int)]) for of in right.values()])
        limits = float(each.mean()), *betting_limits(each)
        difference = make_estimate(limits, method="betting", n=n, frame=frame)
        if len(right) < 2:
            difference = make_value(limits[0], "one task", n=n, frame=frame)
    decision = decide_adoption(difference, margin)
    # Beyond the plan nobody knows: the truth may lie at the margin.
    more = None if watched is None or watched <= n else watched - n
    more = more if decision.outcome == "undecided" else 0
    sides_right = [
        stats.proportion([pair[side] for pair in pairs], units, unit_of_n="labels")
        for side in (0, 1)
    ]
    return Adoption(
        rubric=names[0],
        old=names[1],
        new=names[2],
        margin=margin,
        needed=(seen, once, watched),
        old_right=sides_right[0],
        new_right=sides_right[1],
        difference=difference,
        discordance=discordance,
        left_out=dict(sorted(left.items())),
        decision=decision,
        more=more,
        minutes=median(seconds) * more / 60 if seconds and more is not None else None,
    )


def decide_adoption(difference: Figure, margin: float) -> values.Decision:
    """Return pass (adopt), fail (refuse) or undecided, by limits that hold at every look."""
    points = values.format_percent(margin).replace(" %", " points")
    if isinstance(difference, values.Unmeasured):
        return values.Decision("undecided", f"{difference.kind}: {difference.reason}")
    if difference.low is None or difference.high is None:
        return values.Decision("undecided", difference.no_interval)
    if difference.low > -margin:
        return values.Decision("pass", f"adopt: it is not worse by {points}")
    if difference.high < -margin:
        return values.Decision("fail", f"refuse: it is worse by more than {points}")
    return values.Decision("undecided", f"a loss of {points} is neither shown nor excluded")


def _lines(found: Adoption) -> Iterator[str]:
    share, once, watched = found.needed
    later = "thousands" if watched is None else f"about {watched:,}"
    yield (
        f"To adopt a judge that is as good takes {once:,} labels at {values.format_percent(share)} "
        f"discordance if they are counted once,"
    )
    yield f"{later} if they are looked at as they come, as here (80 % power)."
    yield f"{found.rubric}: {found.new} in the place of {found.old}"
    for name, figure in ((found.old, found.old_right), (found.new, found.new_right)):
        yield f"  right, {name}: {values.format_estimate(figure)}"
    if isinstance(found.difference, values.Estimate):
        one = found.difference
        limits = values.format_limits(one.low, one.high, one.unit) or one.no_interval
        of = f"{values.format_count(one.n, 'label')} of {values.format_count(one.n_tasks, 'task')}"
        yield f"  difference {values.format_difference(one.value, one.unit)}, {limits}, {of}"
    for why, n in found.left_out.items():
        yield f"  left out: {values.format_count(n, 'label')}, {why}"
    yield found.decision.reason
    if found.more is None:
        yield "how many labels would decide is not known"
    elif found.more:
        minutes = found.minutes
        price = "no label has its seconds" if minutes is None else f"{minutes:.0f} minutes"
        yield f"likely still needed: {values.format_count(found.more, 'label')} ({price})"
