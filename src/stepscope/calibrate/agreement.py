"""Agreement of raters on every rubric: judges, rules, people, imported verdicts; and disputes.

Agreement says that raters read a rubric alike, not that they are right. What was refused or could
not be read is counted, and is no label. Every figure draws the same weights of runs, so that kappa
and AC1 differ by what they mean, not by chance. The decision compares kappa with .5 on its limits,
several rubrics at one joint level. Where people labelled, a judge's confidence becomes the share of
its verdicts, at that confidence, that people found right; confidences of two judges are compared
only after that. The queue lists the runs and steps on which families disagree, the most telling
first: such labels tune a rubric and are never a test of it, nor part of any rate. Formulas and
intervals: `stepscope.stats.interrater`.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np
from msgspec.structs import replace

from stepscope import stats
from stepscope.calibrate.ratings import (
    WHAT_ENTERS,
    Item,
    RaterVerdicts,
    RatingTable,
    label_of,
    read_ratings,
)
from stepscope.calibrate.types import (
    Agreement,
    CalibrationCurve,
    ConfidenceBin,
    Dispute,
    GroupAgreement,
    ProofAgreement,
    RubricAgreement,
    RubricChange,
)
from stepscope.errors import ConfigError, UsageError
from stepscope.judges.rubrics import load_rubric
from stepscope.measures.rule import INCORRECT
from stepscope.model import Verdict
from stepscope.model.records import ANNOTATORS, HUMAN, NOT_MODELS, UNCERTAIN, Figure
from stepscope.safety.text import visible_line
from stepscope.stats.interrater import CoefficientName, Metric, agreement, category_shares
from stepscope.stats.sample import Bools, Floats, Ints, codes
from stepscope.store import Store
from stepscope.store.columns import Rows
from stepscope.store.where import FIELDS, Where, parse_where
from stepscope.values import Decision, Estimate, Unmeasured, format_count

# Scores are rounded to twentieths where the distance between two counts: judges name no finer ones.
TWENTIETHS = 20
# A menu of answers is shorter; what has more labels is free text, which no two raters word alike.
MOST_LABELS = 40
# Between kappa and AC1; below it they tell one story.
APART = 0.2

NOMINAL: dict[str, tuple[CoefficientName, Metric]] = {
    name: (name, "nominal") for name in get_args(CoefficientName)
}
OF_BANDS: dict[str, tuple[CoefficientName, Metric]] = {
    "kappa.linear": ("kappa", "linear"),
    "kappa.quadratic": ("kappa", "quadratic"),
    "gwet.quadratic": ("gwet", "quadratic"),
    "alpha.ordinal": ("alpha", "ordinal"),
}
# What intervals cover, and how many draws of weights they take.
LEVEL = 0.95
FEW_DRAWS = 2_000
TWO_ONLY = Unmeasured("not_applicable", "kappa is of two raters; fleiss and alpha are of more")


def group_agreement(
    ratings: RatingTable,
    groups: Sequence[Sequence[int]],  # columns, one below the other: each as many raters
    raters: tuple[str, ...],  # what they are called
    of: Literal["raters", "families", "all"],  # what these names are of
    seed: int,  # where random draws start
    *,
    # the agreement expected of calibrated confidences, where there are such
    weighted: Figure | None = None,
) -> GroupAgreement:
    """Return how far raters agree by every coefficient, on what two of them or more rated."""
    kept = [(ratings.codes[:, group] >= 0).sum(axis=1) >= 2 for group in groups]
    codes = np.concatenate([ratings.codes[:, g][k] for g, k in zip(groups, kept, strict=True)])
    runs = np.concatenate([ratings.runs[k] for k in kept])
    columns = dict.fromkeys(at for side in zip(*groups, strict=True) for at in side)
    unmeasured = ratings.lost(list(columns))
    two = codes.shape[1] == 2
    figures: dict[str, Figure] = {
        name: agreement_figure(name, codes, runs, ratings.labels, unmeasured, seed=seed)
        for name in [*NOMINAL, *(OF_BANDS if ratings.scored else ())]
    }
    if ratings.scored:
        values = np.concatenate([
            ratings.values[:, g][k] for g, k in zip(groups, kept, strict=True)
        ])  # fmt: skip
        figures["alpha.interval"] = agreement(
            np.where(np.isnan(values), -1, np.rint(values * TWENTIETHS)).astype(np.int64),
            "alpha",
            rng=np.random.default_rng(seed),
            metric="quadratic",
            categories=TWENTIETHS + 1,
            clusters=runs,
            unmeasured=unmeasured,
        )
    figures["jaccard"] = _jaccard(ratings, groups, kept)
    first_bad, by_chance = None, None
    if two and ratings.unit == "steps" and (bad := _failing_codes(ratings)):
        first_bad, by_chance = first_bad_step(np.isin(codes, bad), runs)
    if first_bad is not None:
        figures["first_bad"] = first_bad
    if weighted is not None:
        figures["weighted"] = weighted
    used = (
        category_shares(codes, categories=max(len(ratings.labels), 1))
        if (len(codes) > 0 and len(ratings.labels) <= MOST_LABELS)
        else None
    )
    return GroupAgreement(
        raters=raters,
        of=of,
        n=len(codes),
        figures=figures,
        prevalence=None if used is None else _prevalence(used.mean(axis=0)),
        first_bad_by_chance=by_chance,
        bias=float(np.abs(used[0] - used[1]).sum() / 2) if used is not None and two else None,
        sentence=""
        if used is None
        else explain_prevalence(
            figures, ratings, figures["kappa" if two else "fleiss"], used.mean(axis=0)
        ),
    )


def _failing_codes(ratings: RatingTable) -> list[int]:
    """Return the codes of the labels that speak against the agent; none of an unknown rubric."""
    try:
        failing = load_rubric(ratings.aspect).failing
    except ConfigError:
        return []
    return [code for code, label in enumerate(ratings.labels) if label in failing]


def first_bad_step(bad: Bools, runs: Ints) -> tuple[Figure, float | None]:
    """Return the share of runs on which two raters name the same first bad step, and by chance.

    Runs on which neither names any count as the same. By chance: each rater calls its own share of
    steps bad, whatever stands there.

    Args:
        bad: shape (n, 2), which steps each calls bad, in the order of the runs' steps.
        runs: shape (n,), the run of each step.

    Source: FirstErrAcc of AgentProcessBench (2026), as ProcessBench counts runs without an error.

    >>> bad = np.array([[1, 1], [0, 1], [0, 0], [0, 1]], bool)
    >>> found, chance = first_bad_step(bad, np.array([0, 0, 1, 1]))
    >>> found.value, round(chance, 4)
    (0.5, 0.2578)
    """
    if not len(bad):
        return Unmeasured("insufficient_data", "no step that both rated"), None
    q, r = bad.mean(axis=0).tolist()
    both, neither = q * r, (1 - q) * (1 - r)
    same, chance = [], []
    for of_run in np.split(bad, np.flatnonzero(np.diff(runs)) + 1):
        steps = len(of_run)
        first = [int(column.argmax()) if column.any() else steps for column in of_run.T]
        same.append(first[0] == first[1])
        # The sum of both * neither ** k over the places k of a first bad step, and none at all.
        found_at = both * (1 - neither**steps) / (1 - neither) if neither < 1 else 0.0
        chance.append(found_at + neither**steps)
    return stats.proportion(np.array(same, bool), np.arange(len(same))), float(np.mean(chance))


def compare_proofs(ratings: RatingTable) -> Iterator[ProofAgreement]:
    """Yield the precision and recall of the rules' proofs beside each rater, items by run.

    What the rules could not check for want of an input is no miss of theirs.
    """
    rules = [at for at in range(len(ratings.voices)) if at not in ratings.readers]
    for own in rules:
        proved = ratings.codes[:, own]
        labels = [ratings.labels[code] for code in np.unique(proved[proved >= 0]).tolist()]
        labels += [INCORRECT] if ratings.aspect.startswith("axes.") else []
        told = np.isin(proved, [at for at, name in enumerate(ratings.labels) if name in labels])
        ran = np.array([at not in ratings.absent[own] for at in range(len(proved))], np.bool_)
        for at in ratings.readers:
            said = ratings.codes[:, at]
            right = (told & (said == proved)).astype(np.float64)
            same = [place for place, name in enumerate(ratings.labels) if name in labels]
            of, among = told & (said >= 0), ran & np.isin(said, same)
            yield ProofAgreement(
                rater=ratings.voices[at].name,
                precision=stats.proportion(right[of], ratings.runs[of]),
                recall=stats.proportion(right[among], ratings.runs[among]),
            )


def agreement_figure(
    name: str,
    codes: Ints,  # shape (n, raters)
    runs: Ints,  # shape (n,)
    labels: Sequence[str],  # in use
    unmeasured: Mapping[str, int],  # items that one of the raters could not answer, by kind
    *,
    seed: int,
    level: float = LEVEL,
    draws: int = FEW_DRAWS,
) -> Figure:
    """Return one coefficient; kappa of more than two raters is not applicable."""
    if len(labels) > MOST_LABELS:
        many = f"{len(labels):,} different labels; a rubric has at most {MOST_LABELS}"
        return Unmeasured("undefined", f"{many}: translate them with import --labels")
    coefficient, metric = (NOMINAL | OF_BANDS)[name]
    two = codes.shape[1] == 2
    if coefficient == "kappa" and not two:
        return TWO_ONLY
    found = agreement(
        codes,
        coefficient,
        rng=np.random.default_rng(seed),
        metric=metric,
        # One label throughout is no agreement beyond chance; but what share agrees is known.
        categories=max(len(labels), 2 if name == "raw" else 1),
        clusters=runs,
        level=level,
        draws=draws,
        unmeasured=unmeasured,
    )
    if name != "raw" or not two or isinstance(found, Unmeasured):
        return found
    worst = stats.worst_case(found.value, found.n, found.unmeasured, low=0.0, high=1.0)
    return replace(found, worst_low=worst[0], worst_high=worst[1])


def _jaccard(
    ratings: RatingTable, groups: Sequence[Sequence[int]], kept: Sequence[Bools]
) -> Figure:
    overlaps, runs = [], []
    for group, rows in zip(groups, kept, strict=True):
        citing = [cited for at in group if (cited := ratings.cites[at]) is not None]
        for place in np.flatnonzero(rows).tolist():
            for first, second in combinations(citing, 2):
                a, b = first.get(place), second.get(place)
                # Jaccard's index of the steps that two raters cite; none where neither cites.
                if a is not None and b is not None and a | b:
                    overlaps.append(len(a & b) / len(a | b))
                    runs.append(ratings.runs[place])
    if not overlaps:
        return Unmeasured("not_applicable", "no two raters cite steps of what both rated")
    return stats.mean_share(overlaps, np.array(runs, np.int64), unit_of_n="pairs of verdicts")


def _prevalence(used: Floats) -> float:
    """Return how far the commonest label stands above the others; of two, Byrt's index."""
    if len(used) < 2:
        return 1.0
    top = float(used.max())
    return top - (float(used.sum()) - top) / (len(used) - 1)


def explain_prevalence(
    figures: dict[str, Figure], ratings: RatingTable, kappa: Figure, used: Floats
) -> str:
    """Return why kappa says little where one label is nearly all there is; "" elsewhere."""
    gwet, raw = figures["gwet"], figures["raw"]
    if not isinstance(raw, Estimate):
        return ""
    label, most = ratings.labels[int(used.argmax())], float(used.max())
    if isinstance(kappa, Unmeasured) and kappa.kind == "undefined":
        return (
            f"every answer is {label!r}: kappa has no value, and the raters agree because there "
            "was nothing to tell apart"
        )
    if not isinstance(kappa, Estimate) or not isinstance(gwet, Estimate):
        return ""
    if gwet.value - kappa.value < APART:
        return ""
    return (
        f"kappa {kappa.value:.2f} and AC1 {gwet.value:.2f} disagree because {most:.0%} of the "
        f"answers are {label!r}: chance alone would agree on {float((used**2).sum()):.0%} of the "
        f"{ratings.unit}, which leaves kappa little to go by; look at the other answers"
    )


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


def deciding_columns(ratings: RatingTable) -> list[int]:
    """Return the columns that a decision rests on.

    People alone where two of them rated; else judges and people.
    """
    rated = [at for at in ratings.readers if (ratings.codes[:, at] >= 0).any()]
    people = [at for at in rated if ratings.voices[at].family == HUMAN]
    return people if len(people) >= 2 else rated


def decide_rubric(
    ratings: RatingTable, seed: int = 0, *, threshold: float = THRESHOLD, at_once: int = 1
) -> tuple[Decision, str]:
    """Decide: sharpen the rubric ("fail"), proceed ("pass") or label more; and on which figure.

    `at_once` is how many rubrics are decided together.
    """
    columns = deciding_columns(ratings)
    name = "kappa" if len(columns) == 2 else "fleiss"
    said = ", ".join(ratings.voices[at].name for at in columns) or "nobody"
    if len(columns) < 2:
        return Decision("undecided", f"one rater ({said}): agreement needs two"), said
    kept = (ratings.codes[:, columns] >= 0).sum(axis=1) >= 2
    many = at_once > 1
    found = agreement_figure(
        name,
        ratings.codes[:, columns][kept],
        ratings.runs[kept],
        ratings.labels,
        ratings.lost(columns),
        seed=seed,
        level=1 - SHY * (1 - LEVEL) / at_once if many else LEVEL,
        draws=MANY_DRAWS if many else FEW_DRAWS,
    )
    told = f"{name} of {said}"
    if isinstance(found, Unmeasured):
        return Decision("undecided", f"{name} is unmeasured: {found.reason}"), told
    return _decide_on_limits(found, name, threshold, at_once), told


def _decide_on_limits(found: Estimate, name: str, threshold: float, at_once: int) -> Decision:
    together = f", {at_once} rubrics at once" if at_once > 1 else ""
    low, high = found.low, found.high
    if low is None or high is None:
        return Decision("undecided", f"{name} {found.value:.2f} of one run has no limits")
    value = f"{name} {found.value:.2f}, {low:.2f} to {high:.2f}{together}"
    if high < threshold:
        return Decision("fail", f"{value}: sharpen the rubric before automating it")
    if low > threshold:
        return Decision("pass", f"{value}: proceed")
    return Decision("undecided", f"{value}, holds {threshold:g}: {_runs_to_tell(found, threshold)}")


def _runs_to_tell(found: Estimate, threshold: float) -> str:
    """Return how many runs would tell, if kappa stays where it is: limits shrink as a root."""
    low, high = found.low or 0.0, found.high or 0.0
    off = abs(found.value - threshold)
    reach = found.value - low if found.value > threshold else high - found.value
    runs = math.inf if off == 0 else found.n_tasks * (reach / off) ** 2
    if runs > MOST_RUNS:
        return "too near for any sensible number of labels to tell"
    more = max(math.ceil(runs) - found.n_tasks, 1)
    return f"about {format_count(more, 'more run')} rated by all would tell"


# Verdicts that people labelled, below which a curve would be drawn through noise.
FEWEST = 20
# A block of the curve takes this much of each outcome on top, as Jeffreys' prior does: no block of
# five right ones is certain.
PRIOR = 0.5


def majority_labels(ratings: RatingTable) -> dict[Item, str]:
    """Return the label that most people gave each item; none where they are split."""
    people = [voice for voice in ratings.voices if voice.family == HUMAN]
    found: dict[Item, str] = {}
    for item in ratings.items:
        said = [v.said[item] for v in people if item in v.said]
        top = Counter(label_of(one) for one in said if isinstance(one, Verdict)).most_common(2)
        if top and (len(top) == 1 or top[0][1] > top[1][1]):
            found[item] = top[0][0]
    return found


def calibration_curves(ratings: RatingTable) -> tuple[CalibrationCurve, ...]:
    """Return the calibration of every judge that says how sure it is; none without labels."""
    labels = majority_labels(ratings)
    if not labels:
        return ()
    judges = [v for v in ratings.voices if v.family not in ANNOTATORS]
    return tuple(curve for voice in judges if (curve := _curve(voice, labels)) is not None)


def _curve(voice: RaterVerdicts, labels: Mapping[Item, str]) -> CalibrationCurve | None:
    verdicts = {item: a for item, a in voice.said.items() if isinstance(a, Verdict)}
    sure = {item: a for item, a in verdicts.items() if a.confidence is not None}
    if not sure:
        return None
    both = [(item, a) for item, a in sure.items() if item in labels]
    confidence = np.array([a.confidence for _, a in both], np.float64)
    right = np.array([label_of(a) == labels[item] for item, a in both], np.float64)
    runs = codes(item[0] for item, _ in both)
    if len(both) < FEWEST:
        few = f"{len(both)} verdicts have a person's label; a curve needs {FEWEST}"
        bins: tuple[ConfidenceBin, ...] | Unmeasured = Unmeasured("insufficient_data", few)
    else:
        bins = tuple(
            ConfidenceBin(
                low=float(confidence[block].min()),
                high=float(confidence[block].max()),
                confidence=float(confidence[block].mean()),
                right=stats.proportion(right[block], runs[block], unit_of_n="verdicts"),
                probability=float((right[block].sum() + PRIOR) / (len(block) + 2 * PRIOR)),
            )
            for block in pool_rising(confidence, right)
        )
    return CalibrationCurve(judge=voice.name, family=voice.family, n=len(both), bins=bins)


def pool_rising(confidence: Floats, right: Floats) -> list[Ints]:
    """Return the rows of each block of confidences, such that the share right never falls.

    Args:
        confidence: shape (n,).
        right: shape (n,), 1 where people agree, else 0.

    Source:
        Ayer, Brunk, Ewing, Reid and Silverman (1955), Ann. Math. Statist. 26:641-647: neighbours
        whose means are out of order are pooled until none are.

    >>> pooled = pool_rising(np.array([0.9, 0.6, 0.8]), np.array([1.0, 1.0, 0.0]))
    >>> [rows.tolist() for rows in pooled]
    [[1, 2], [0]]
    """
    order = np.argsort(confidence, kind="stable")
    _, starts = np.unique(confidence[order], return_index=True)
    blocks: list[Ints] = []
    for rows in np.split(order, starts[1:]):
        blocks.append(rows)
        while len(blocks) > 1 and right[blocks[-2]].mean() >= right[blocks[-1]].mean():
            last = blocks.pop()
            blocks[-1] = np.concatenate([blocks[-1], last])
    return blocks


def confidence_weighted(
    ratings: RatingTable, known: tuple[CalibrationCurve, ...], first: int, second: int
) -> Figure | None:
    """Return the agreement of two judges that their calibrated confidences lead to expect.

    Each verdict is taken as its label with the calibrated probability, any other label sharing
    the rest; the figure is the mean chance that both then name the same label. None without a
    curve of both.
    """
    pair = [ratings.voices[at] for at in (first, second)]
    of = {curve.judge: curve.bins for curve in known}
    bins = [some for voice in pair if isinstance(some := of.get(voice.name), tuple)]
    if len(bins) < len(pair):
        return None
    others = max(len(ratings.labels) - 1, 1)
    chances, runs = [], []
    for item in ratings.items:
        a, b = (ratings.verdict(item, at) for at in (first, second))
        if a is None or b is None or a.confidence is None or b.confidence is None:
            continue
        p, q = (
            # That of the last block which begins at or below.
            [blocks[0].probability, *(x.probability for x in blocks if x.low <= sure)][-1]
            for blocks, sure in zip(bins, (a.confidence, b.confidence), strict=True)
        )
        missed = (1 - p) * (1 - q) / others
        crossed = (p * (1 - q) + q * (1 - p)) / others + missed * (others - 1) / others
        chances.append(p * q + missed if label_of(a) == label_of(b) else crossed)
        runs.append(item[0])
    found = stats.mean_share(chances, codes(runs), unit_of_n=ratings.unit)
    if isinstance(found, Unmeasured):
        return found
    return replace(found, diagnostics=(*found.diagnostics, "the calibration is taken as known"))


def rubric_changes(ratings: RatingTable) -> Iterator[RubricChange]:
    """Yield every judge whose latest two versions of the rubric judged the same items."""
    for voice in ratings.voices:
        version, old = voice.before
        if voice.family in ANNOTATORS or not old:
            continue
        pairs = [
            (item, a, b)
            for item, b in voice.said.items()
            if isinstance(b, Verdict) and isinstance(a := old.get(item), Verdict)
        ]
        if not pairs:
            continue
        runs = codes(item[0] for item, _, _ in pairs)
        sure = {
            at: b.confidence - a.confidence
            for at, (_, a, b) in enumerate(pairs)
            if a.confidence is not None and b.confidence is not None
        }
        cited = {
            at: len(set(a.cites) & set(b.cites)) / len({*a.cites, *b.cites})
            for at, (_, a, b) in enumerate(pairs)
            if a.cites or b.cites
        }
        kept = [float(label_of(a) == label_of(b)) for _, a, b in pairs]
        yield RubricChange(
            judge=voice.name,
            before=version,
            after=voice.version,
            n=len(pairs),
            kept=stats.proportion(kept, runs, unit_of_n="verdicts"),
            confidence=stats.mean(list(sure.values()), runs[list(sure)], unit_of_n="verdicts"),
            cites=stats.mean_share(list(cited.values()), runs[list(cited)], unit_of_n="verdicts"),
        )


# Answers that commit to nothing: a dispute in which one side has none is less telling.
OPEN = frozenset({UNCERTAIN, "not_applicable"})
COLUMNS = (
    "aspect", "run", "name", "step", "rater", "family", "label", "value", "confidence", "cites",
    "reason", "use",
)  # fmt: skip
# What a spreadsheet would take for a formula.
_FORMULA = ("=", "+", "-", "@")


def find_disputes(
    ratings: RatingTable, *, within: bool = False, most: int | None = None
) -> list[Dispute]:
    """Return the items on which raters of different families disagree, the most telling first.

    First where both sides commit themselves, then by the share of pairs that disagree, then by how
    sure the raters are. How sure is reckoned within each judge, as the rank of this confidence
    among its own: confidences of two families cannot be compared. With `within`, judges of one
    family may disagree as well; people always may, and so may judges whose verdicts were imported.
    """
    ranks = _ranks(ratings)
    found: list[tuple[float, ...]] = []
    families = [voice.family for voice in ratings.voices]
    # Raters of one family are wrong together, unless they are people or came from elsewhere.
    pairs = [
        (a, b)
        for a, b in combinations(range(len(families)), 2)
        if within or families[a] != families[b] or families[a] in NOT_MODELS
    ]
    open_ = [label in OPEN for label in ratings.labels]
    for place, row in enumerate(ratings.codes.tolist()):
        both = [(a, b) for a, b in pairs if row[a] >= 0 and row[b] >= 0]
        apart = [(a, b) for a, b in both if row[a] != row[b]]
        if apart:
            committed = any(not open_[row[a]] and not open_[row[b]] for a, b in apart)
            sure = float(np.mean([ranks[place, at] for at in {at for p in apart for at in p}]))
            # Labels have no distance.
            scores = ratings.values[place]
            far = max(abs(scores[a] - scores[b]) for a, b in apart) if ratings.scored else 0.0
            found.append((-float(committed), -(len(apart) / len(both)), -float(far), -sure, place))
    return [
        Dispute(
            aspect=ratings.aspect,
            run=run,
            name=ratings.names.get(run, ""),
            step=step,
            answers=ratings.answers((run, step)),
            apart=-negated,
        )
        for _, negated, *_, number in sorted(found)[:most]
        for run, step in [ratings.items[int(number)]]
    ]


def _ranks(ratings: RatingTable) -> Floats:
    """Return each confidence as its rank among the judge's own, 0 to 1; one half without any."""
    found = np.full(ratings.codes.shape, 0.5)
    for at in range(len(ratings.voices)):
        given = {
            place: verdict.confidence
            for place, item in enumerate(ratings.items)
            if (verdict := ratings.verdict(item, at)) is not None and verdict.confidence is not None
        }
        numbers = np.array(list(given.values()), np.float64)
        below = np.searchsorted(np.sort(numbers), numbers, side="left")
        upto = np.searchsorted(np.sort(numbers), numbers, side="right")
        found[list(given), at] = (below + upto) / 2 / max(len(numbers), 1)
    return found


def queue_csv(queue: Iterable[Dispute]) -> str:
    """Return the queue as CSV, one row an answer."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for dispute in queue:
        for answer in dispute.answers:
            writer.writerow([
                dispute.aspect, dispute.run, _escape_formula(dispute.name),
                "" if dispute.step is None else dispute.step,
                _escape_formula(answer.rater), answer.family, _escape_formula(answer.label),
                "" if answer.value is None else answer.value,
                "" if answer.confidence is None else answer.confidence,
                " ".join(map(str, answer.cites)), _escape_formula(answer.reason), dispute.use,
            ])  # fmt: skip
    return out.getvalue()


def _escape_formula(text: str) -> str:
    shown = visible_line(text)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown


TAG = "tag."


def measure_agreement(
    rows: Rows,
    *,
    rubric: str | None = None,  # "axes.termination", or "axes" for a set; None for all
    where: Where | None = None,
    seed: int = 0,
    threshold: float = THRESHOLD,  # kappa below which a rubric is to be sharpened
) -> Agreement:
    """Return how far the raters of some runs agree, on each rubric that a judge or person rated.

    Returns:
        One aspect a rubric and granularity, by name; none where nobody but the rules rated.
    """
    found = read_ratings(rows, where=where, rubric=rubric)
    return Agreement(
        aspects=tuple(
            rubric_agreement(
                one,
                seed,
                threshold=threshold,
                at_once=max(sum(len(deciding_columns(one)) > 1 for one in found), 1),
                drawn=rows.sampled(one.aspect) if isinstance(rows, Store) else {},
            )
            for one in found
        ),
        seed=seed,
        threshold=threshold,
    )


def measure_agreement_by(
    rows: Rows,
    field: str,
    *,
    rubric: str | None = None,
    where: Where | None = None,
    seed: int = 0,
    threshold: float = THRESHOLD,
) -> tuple[Agreement, ...]:
    """Return the agreement of each group of runs that share the value of a field, or of a tag.

    Raises:
        UsageError: no such field.
    """
    groups = []
    for value, chosen in _groups(rows, field, where):
        found = measure_agreement(rows, rubric=rubric, where=chosen, seed=seed, threshold=threshold)
        groups.append(replace(found, group={field: value}))
    return tuple(groups)


def _groups(rows: Rows, field: str, where: Where | None) -> Iterator[tuple[str | None, Where]]:
    key = field.removeprefix(TAG)
    if field not in FIELDS and key in (field, ""):
        known = ", ".join(FIELDS)
        raise UsageError(f"--by {field!r} is no field to group by; expected {known} or tag.KEY")
    runs = rows.runs(where)
    values = getattr(runs, field, None) if key == field else rows.tag(key, runs)
    if values is None:
        raise UsageError(f"--by {field!r}: runs are not grouped by it here; take agent or a tag")
    for value in sorted(set(values.tolist()), key=lambda v: (v is None, str(v))):
        named = field if key == field else TAG + _literal(key)
        condition = parse_where(f"{named} = {_literal(value)}")
        chosen = condition if where is None else where & condition
        yield None if value is None else str(value), chosen


def _literal(value: object) -> str:
    if value is None:
        return "null"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def rubric_agreement(
    rated: RatingTable,  # its ratings
    seed: int,  # where random draws start
    *,
    threshold: float,  # kappa below which it is to be sharpened
    at_once: int = 1,  # how many rubrics are decided together
    # probability of each run that could have been drawn for the rubric; empty: all were judged
    drawn: Mapping[str, float] = MappingProxyType({}),
) -> RubricAgreement:
    """Return the agreement on one rubric."""
    known = calibration_curves(rated)
    decision, decided_on = decide_rubric(rated, seed, threshold=threshold, at_once=at_once)
    every = rated.readers
    names = tuple(rated.voices[at].name for at in every)
    reason = f"one rater ({', '.join(names)}): agreement needs two"
    alone = dict.fromkeys(NOMINAL, Unmeasured("insufficient_data", reason))
    return RubricAgreement(
        name=rated.aspect,
        unit=rated.unit,
        items=len(rated.items),
        runs=len({run for run, _ in rated.items}),
        labels=rated.labels,
        raters=rated.raters(),
        together=GroupAgreement(raters=names, of="all", n=0, figures=dict(alone))
        if len(every) < 2
        else group_agreement(rated, [every], names, "all", seed),
        pairs=tuple(
            group_agreement(
                rated, [[a, b]], (rated.voices[a].name, rated.voices[b].name), "raters", seed,
                weighted=confidence_weighted(rated, known, a, b),
            )
            for a, b in combinations(every, 2)
        ),
        families=tuple(_families(rated, seed)),
        proofs=tuple(compare_proofs(rated)),
        decision=decision,
        decided_on=decided_on,
        disputed=tuple(find_disputes(rated, within=True, most=DISPUTED)),
        curves=known,
        changes=tuple(rubric_changes(rated)),
        notes=tuple(_notes(rated, drawn)),
    )  # fmt: skip


def labelling_queue(
    rows: Rows, *, rubric: str | None = None, where: Where | None = None
) -> tuple[Dispute, ...]:
    """Return the runs and steps on which families disagree, the most telling of each rubric first.

    Rubrics take turns, so that the first ten are not all of one.
    """
    each = [find_disputes(rated) for rated in read_ratings(rows, where=where, rubric=rubric)]
    ordered = [
        (place, number, dispute)
        for number, found in enumerate(each)
        for place, dispute in enumerate(found)
    ]
    return tuple(dispute for *_, dispute in sorted(ordered, key=lambda entry: entry[:2]))


def _families(rated: RatingTable, seed: int) -> Iterator[GroupAgreement]:
    columns: dict[str, list[int]] = {}
    for at in rated.readers:
        columns.setdefault(rated.voices[at].family, []).append(at)
    for first, second in combinations(columns, 2):
        pairs = list(product(columns[first], columns[second]))
        # Of one pair of raters the pair itself says it.
        if len(pairs) > 1:
            yield group_agreement(rated, pairs, (first, second), "families", seed)


def _notes(rated: RatingTable, drawn: Mapping[str, float]) -> Iterator[str]:
    yield WHAT_ENTERS
    chances = {drawn[run] for run, _ in rated.items if run in drawn}
    if chances - {1.0}:
        alike = "alike" if len(chances) == 1 else "with different chances, each counted once"
        yield f"runs were drawn, {alike}, of {len(drawn):,}: figures are of those that were rated"
    if rated.scored:
        yield "scores are compared in four bands: 0 to .2, .3 to .5, .6 to .8, .9 to 1"
    judges = [v for v in rated.voices if v.family not in NOT_MODELS]
    for voice in judges:
        if len(voice.snapshots) > 1:
            told = ", ".join(voice.snapshots)
            yield f"{voice.name} answered as {len(voice.snapshots)} snapshots, taken as one: {told}"
        if len(voice.prompts) > 1:
            yield f"{voice.name} was asked under {len(voice.prompts)} prompts, taken as one"
    versions = sorted({voice.version for voice in judges})
    if len(versions) > 1:
        yield f"judges read different versions of the rubric: {', '.join(versions)}"
    for voice in rated.voices:
        if voice.left_out:
            told = ", ".join(f"{n:,} {why}" for why, n in voice.left_out.items())
            yield f"left out of {voice.name}: {told}"
