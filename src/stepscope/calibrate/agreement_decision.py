"""Is a rubric sharp enough to be automated? Kappa against .5, decided on its limits.

Whole interval below: sharpen the rubric, and look at the disputed items first. Whole interval
above: proceed. Else undecided, with the labels that would tell. Several rubrics are decided at
once, so that each interval is as wide as keeps all of them together at the stated level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from stepscope.calibrate.agreement_figures import Drawing, figure, of_raters
from stepscope.calibrate.agreement_ratings import Ratings
from stepscope.calibrate.agreement_reading import HUMAN, RULES
from stepscope.values import Decision, Estimate, Unmeasured

# Below it two raters who know their trade read the rubric in two ways: first passes at step
# granularity usually do (trajectory-vs-outcome, inter-rater agreement).
THRESHOLD = 0.5
# Limits further out than 95 % are held a little less often than they say: at 99 % the truth is
# outside in 1.0 to 1.5 % of samples. This much of the error each rubric may make makes up for it.
SHY = 0.6
# Draws for such limits: the two-hundredth part of two thousand is ten.
MANY_DRAWS = 10_000
# More runs than this nobody labels: a kappa so near the threshold is not decided by labels.
MOST_RUNS = 10_000
# Disputed items that come with the advice to sharpen.
DISPUTED = 5


def deciding(ratings: Ratings) -> list[int]:
    """Return the columns that a decision rests on.

    People alone where two of them rated; else judges and people; the rules only where a single
    rater would be left without them: rules speak where they know, not as a reading of the rubric.
    """
    columns = range(len(ratings.voices))
    rated = [at for at in columns if (ratings.codes[:, at] >= 0).any()]
    people = [at for at in rated if ratings.voices[at].family == HUMAN]
    readers = [at for at in rated if ratings.voices[at].family != RULES]
    if len(people) >= 2:
        return people
    return readers if len(readers) >= 2 else rated


def decide(
    ratings: Ratings, drawing: Drawing, *, threshold: float = THRESHOLD, at_once: int = 1
) -> tuple[Decision, str]:
    """Return whether to sharpen ("fail"), proceed ("pass") or label more, and on what it rests.

    Args:
        ratings: of one rubric.
        drawing: how intervals are drawn.
        threshold: kappa below which a rubric is to be sharpened.
        at_once: how many rubrics are decided together.
    """
    columns = deciding(ratings)
    name = "kappa" if len(columns) == 2 else "fleiss"
    said = ", ".join(ratings.voices[at].name for at in columns) or "nobody"
    if len(columns) < 2:
        reason = f"one rater ({said}): agreement needs two"
        return Decision("undecided", reason), said
    if at_once > 1:
        level = 1 - SHY * (1 - drawing.level) / at_once
        drawing = replace(drawing, level=level, draws=MANY_DRAWS)
    found = figure(of_raters(ratings, columns), name, drawing)
    told = f"{name} of {said}"
    if isinstance(found, Unmeasured):
        return Decision("undecided", f"{name} is unmeasured: {found.reason}"), told
    return _on_limits(found, name, threshold, at_once), told


def _on_limits(found: Estimate, name: str, threshold: float, at_once: int) -> Decision:
    together = f", {at_once} rubrics at once" if at_once > 1 else ""
    low, high = found.low, found.high
    if low is None or high is None:
        return Decision("undecided", f"{name} {found.value:.2f} of one run has no limits")
    value = f"{name} {found.value:.2f}, {low:.2f} to {high:.2f}{together}"
    if high < threshold:
        return Decision("fail", f"{value}: sharpen the rubric before automating it")
    if low > threshold:
        return Decision("pass", f"{value}: proceed")
    return Decision("undecided", f"{value}, holds {threshold:g}: {_needed(found, threshold)}")


def _needed(found: Estimate, threshold: float) -> str:
    """Return how many runs would tell, if kappa stays where it is: limits shrink as a root."""
    low, high = found.low or 0.0, found.high or 0.0
    off = abs(found.value - threshold)
    reach = found.value - low if found.value > threshold else high - found.value
    runs = math.inf if off == 0 else found.n_tasks * (reach / off) ** 2
    if runs > MOST_RUNS:
        return "too near for any sensible number of labels to tell"
    more = max(math.ceil(runs) - found.n_tasks, 1)
    noun = "run" if more == 1 else "runs"
    return f"about {more:,} more {noun} rated by all would tell"


def summary(decisions: Sequence[Decision]) -> dict[str, int]:
    """Return how many rubrics are to be sharpened, may proceed, are undecided."""
    names = {"fail": "sharpen", "pass": "proceed", "undecided": "undecided"}
    found = dict.fromkeys(names.values(), 0)
    for decision in decisions:
        found[names[decision.outcome]] += 1
    return found
