"""What people's labels make of a judge's share or mean score, and which labels are for neither.

Only labels from a random draw count, or with a known probability of having been asked; how many
others there are is said, with the reason. The rate is of the runs that the judge was asked about
and that its rubric applies to; a refusal is a verdict like any other. From 50 labels, 5 or more on
each side of the judge's verdict, it takes the place of the judge's own share; below it stands
beside it, weak. Labels that are older than the runs by 90 days, or none of which the judge answered
as it answers now, weaken it, and it says so. Statistics: `stepscope.stats.corrected`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stepscope import stats
from stepscope.calibrate.judges import LabelledRuns, RateLabels, choose_labels
from stepscope.calibrate.ratings import Item
from stepscope.model import Label
from stepscope.model.records import NOT_APPLICABLE, Figure
from stepscope.report.types import CorrectedShare, PanelMember
from stepscope.stats.sample import Bools, Floats, Ints
from stepscope.store.columns import Runs, Texts
from stepscope.values import Estimate, Unmeasured, format_count, format_percent

# Labels that are older than the newest run by more than this speak of another time.
OLD_DAYS = 90
DAY_NS = 86_400 * 10**9
# The judge's two answers, as the reason of a weak rate names them.
NO_FAULT = "no fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeVotes:
    """One judge on one aspect of the runs, aligned with them."""

    member: PanelMember  # who
    failing: Bools  # the fault was found
    answered: Bools  # there is a yes or a no
    why: Texts  # why there is neither, None where there is, or where the judge was not asked
    asked: Bools  # the judge was asked about the run
    setups: Texts | None = None  # snapshot and prompt of each answer; None of rules
    confidence: Floats | None = None  # NaN where none was stated; None of rules


def correct_share(
    labels: LabelledRuns,
    votes: JudgeVotes,
    of: Runs,
    clusters: Ints,
    *,
    counted: Bools,  # runs that the judge was asked about and that a share may speak from
    failing: str,  # the answer that speaks against the agent
    seed: int,
) -> CorrectedShare | None:
    """Return a judge's share corrected by labels; None for rules, or without a label of the runs.

    All arrays are aligned with the runs.
    """
    if votes.setups is None or votes.confidence is None:
        return None
    runs = np.flatnonzero(counted & (votes.why != NOT_APPLICABLE))
    why, sure, tasks = votes.why[runs].tolist(), votes.confidence[runs], clusters[runs]
    place: dict[Item, int] = {(id_, None): at for at, id_ in enumerate(of.id[runs].tolist())}

    def fails(label: Label) -> float | None:
        return None if label.label is None else float(label.label == failing)

    chosen = choose_labels(labels, place, fails)
    if chosen is None:
        return None
    places, said, shares, lost = chosen.places, chosen.values, chosen.shares, chosen.lost
    kinds = [NO_FAULT, failing, *sorted({str(one) for one in why if one})]
    found = zip(why, votes.failing[runs].tolist(), strict=True)
    codes = np.array([kinds.index(str(x)) if x else int(hit) for x, hit in found], np.int64)
    rng = np.random.default_rng(seed)
    chances = np.where(codes > 1, 0.5, np.where(codes == 1, sure, 1 - sure))
    rate: Figure
    if any(one.queue == "active" for one in chosen.decided) and not np.isnan(chances).any():
        # Recalibrated on these very labels, the interval would hold the truth less often.
        rate = stats.drawn_rate(chances, places, said, shares, tasks, unmeasured=lost)
    else:
        rate = stats.corrected_rate(
            codes, places, said, shares=shares, clusters=tasks, unmeasured=lost, rng=rng
        )
    other: Figure = Unmeasured("not_applicable", "the judge has answers that are no verdict")
    if len(kinds) == 2:
        other = stats.rogan_gladen(codes, places, said, shares=shares, rng=rng)
    weak = stats.explain_weakness(codes, places, kinds)
    return _share(rate, weak, other, chosen, of.start_ns[runs], votes.setups[runs])


def correct_scores(
    labels: LabelledRuns,
    scores: dict[Item, float],  # a judge's, by run and step
    starts: Texts,  # when the run of each score began; both arrays are aligned with `scores`
    setups: Texts,  # snapshot and prompt of each score
    clusters: Ints,
) -> CorrectedShare | None:
    """Return the mean of a judge's scores corrected by people's; None without a label of them."""
    place = {item: at for at, item in enumerate(scores)}
    chosen = choose_labels(labels, place, lambda label: label.value)
    if chosen is None:
        return None
    given, places, said, lost = list(scores.values()), chosen.places, chosen.values, chosen.lost
    mean = stats.corrected_mean(
        given, places, said, shares=chosen.shares, clusters=clusters, unmeasured=lost
    )
    weak = stats.explain_weakness(np.zeros(len(scores)), places, ("a score",))
    other = Unmeasured("not_applicable", "it is of yes and no, not of scores")
    return _share(mean, weak, other, chosen, starts, setups)


def _share(
    rate: Figure, weak: str, other: Figure, chosen: RateLabels, starts: Texts, setups: Texts
) -> CorrectedShare:
    return CorrectedShare(
        rate=rate,
        weak=weak or (rate.no_interval if isinstance(rate, Estimate) else rate.reason),
        rogan_gladen=other,
        n_labels=len(chosen.places),
        n_judged=len(setups),
        refused=chosen.refused,
        warnings=tuple(_warn(chosen.decided, starts, setups, chosen.places)),
    )


def _warn(labels: Sequence[Label], starts: Texts, setups: Texts, places: Ints) -> Iterator[str]:
    """Yield what weakens a corrected rate: old labels, and a judge that has changed since."""
    given = [one.given_at for one in labels if one.given_at is not None]
    began = [int(one) for one in starts.tolist() if one is not None]
    if given and began and (days := (max(began) - max(given)) // DAY_NS) > OLD_DAYS:
        yield f"the newest label is {days:,} days older than the newest run: label some again"
    seen = set(setups[places].tolist())
    new = sum(setup is not None and setup not in seen for setup in setups.tolist())
    if new and len(places):
        share, unit = format_percent(new / len(setups)), "run" if labels[0].step is None else "step"
        yield (
            f"the judge has changed: {format_count(new, unit)} ({share}) were judged by a model "
            f"or prompt that judged no labelled {unit}"
        )
