"""Agreement of raters on every rubric: judges, rules, people, imported verdicts; and disputes.

Agreement says that raters read a rubric alike, not that they are right. What was refused or could
not be read is counted, and is no label. Every figure draws the same weights of runs, so that kappa
and AC1 differ by what they mean, not by chance. The decision compares kappa with .5 on its limits,
several rubrics at one joint level. The queue lists the runs and steps on which families disagree,
the most telling first: such labels tune a rubric and are never a test of it, nor part of any rate.
Formulas and intervals: `stepscope.stats.interrater`; confidences: `stepscope.calibrate.confidence`.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, product, zip_longest
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np
from msgspec.structs import replace

from stepscope import stats
from stepscope.calibrate import types
from stepscope.calibrate.confidence import (
    calibrated_confidences,
    calibration_curves,
    confidence_weighted,
    rubric_changes,
)
from stepscope.calibrate.ratings import WHAT_ENTERS, RaterKey, RatingTable, read_ratings
from stepscope.errors import ConfigError, UsageError
from stepscope.judges.rubrics import load_rubric
from stepscope.measures.rule import INCORRECT
from stepscope.model.records import NOT_MODELS, UNCERTAIN, Figure
from stepscope.safety.text import escape_formula, visible_line
from stepscope.stats import interrater
from stepscope.stats.interrater import CoefficientName, Metric, RatedItems, SharedWeights
from stepscope.stats.sample import Bools, Floats, Ints
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
    weights: SharedWeights,
    *,
    # the agreement expected of calibrated confidences, where there are such
    weighted: Figure | None = None,
) -> types.GroupAgreement:
    """Return how far raters agree by every coefficient, on what two of them or more rated."""
    kept, codes, runs = _stack(ratings, groups)
    columns = dict.fromkeys(at for side in zip(*groups, strict=True) for at in side)
    unmeasured = ratings.lost(list(columns))
    two = codes.shape[1] == 2
    names = [*NOMINAL, *(OF_BANDS if ratings.scored else ())]
    figures = agreement_figures(names, codes, runs, ratings.labels, unmeasured, weights=weights)
    if ratings.scored:
        scores = [ratings.values[:, g][k] for g, k in zip(groups, kept, strict=True)]
        values = np.concatenate(scores)
        twentieths = np.where(np.isnan(values), -1, np.rint(values * TWENTIETHS)).astype(np.int64)
        rated = RatedItems(twentieths, weights, categories=TWENTIETHS + 1, clusters=runs)
        figures["alpha.interval"] = rated.coefficient("alpha", "quadratic", unmeasured=unmeasured)
    figures["jaccard"] = _jaccard(ratings, groups, kept)
    by_chance = None
    if two and ratings.unit == "steps" and (bad := failing_codes(ratings)):
        # Those of the next pair of raters are lower, so that they begin anew.
        places = np.concatenate([np.flatnonzero(k) - at * len(k) for at, k in enumerate(kept)])
        exact, near, by_chance = interrater.first_bad_step(np.isin(codes, bad), runs, places)
        figures |= {"first_bad": exact, "first_bad.within_one": near}
    if weighted is not None:
        figures["weighted"] = weighted
    found = types.GroupAgreement(
        raters=raters, of=of, n=len(codes), figures=figures, first_bad_by_chance=by_chance
    )
    if not len(codes) or len(ratings.labels) > MOST_LABELS:
        return found
    used = interrater.category_shares(codes, categories=max(len(ratings.labels), 1))
    mean = used.mean(axis=0)
    top = float(mean.max())
    return replace(
        found,
        # How far the commonest label stands above the others; of two, Byrt's index.
        prevalence=1.0 if len(mean) < 2 else top - (float(mean.sum()) - top) / (len(mean) - 1),
        bias=float(np.abs(used[0] - used[1]).sum() / 2) if two else None,
        sentence=explain_prevalence(figures, ratings, figures["kappa" if two else "fleiss"], mean),
    )


def failing_codes(ratings: RatingTable) -> list[int]:
    """Return the codes of the labels that speak against the agent; none of an unknown rubric."""
    try:
        failing = load_rubric(ratings.aspect).failing
    except ConfigError:
        return []
    return [code for code, label in enumerate(ratings.labels) if label in failing]


def compare_proofs(ratings: RatingTable) -> Iterator[types.ProofAgreement]:
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
            yield types.ProofAgreement(
                rater=ratings.voices[at].name,
                precision=stats.proportion(right[of], ratings.runs[of]),
                recall=stats.proportion(right[among], ratings.runs[among]),
            )


def _stack(ratings: RatingTable, groups: Sequence[Sequence[int]]) -> tuple[list[Bools], Ints, Ints]:
    """Return, groups one below the other, what two or more rated: places, codes and runs."""
    kept = [(ratings.codes[:, group] >= 0).sum(axis=1) >= 2 for group in groups]
    codes = [ratings.codes[rows][:, group] for group, rows in zip(groups, kept, strict=True)]
    return kept, np.concatenate(codes), np.concatenate([ratings.runs[rows] for rows in kept])


def agreement_figures(
    names: Iterable[str],
    codes: Ints,  # shape (n, raters)
    runs: Ints,  # shape (n,)
    labels: Sequence[str],  # in use
    unmeasured: Mapping[str, int],  # items that one of the raters could not answer, by kind
    *,
    weights: SharedWeights,
    level: float = LEVEL,
    draws: int = FEW_DRAWS,
) -> dict[str, Figure]:
    """Return coefficients by name; kappa of more than two raters is not applicable."""
    if len(labels) > MOST_LABELS:
        many = f"{len(labels):,} different labels; a rubric has at most {MOST_LABELS}"
        said = Unmeasured("undefined", f"{many}: translate them with import --labels")
        return dict.fromkeys(names, said)
    two = codes.shape[1] == 2
    # One label throughout is no agreement beyond chance; but what share agrees is known.
    least = {name: max(len(labels), 2 if name == "raw" else 1) for name in names}
    rated = {q: RatedItems(codes, weights, categories=q, clusters=runs) for q in {*least.values()}}
    found: dict[str, Figure] = {}
    for name, q in least.items():
        coefficient, metric = (NOMINAL | OF_BANDS)[name]
        figure: Figure = TWO_ONLY
        if coefficient != "kappa" or two:
            figure = rated[q].coefficient(
                coefficient, metric, level=level, draws=draws, unmeasured=unmeasured
            )
        if name == "raw" and two and isinstance(figure, Estimate):
            worst = stats.worst_case(figure.value, figure.n, figure.unmeasured, low=0.0, high=1.0)
            figure = replace(figure, worst_low=worst[0], worst_high=worst[1])
        found[name] = figure
    return found


def _jaccard(
    ratings: RatingTable, groups: Sequence[Sequence[int]], kept: Sequence[Bools]
) -> Figure:
    overlaps, runs = [np.empty(0)], [np.empty(0, np.int64)]
    cites, cited = ratings.cites, ratings.cited
    for group, rows in zip(groups, kept, strict=True):
        for first, second in combinations(group, 2):
            places = np.flatnonzero(rows & (cites[:, first] >= 0) & (cites[:, second] >= 0))
            both = cites[places, first] * len(cited) + cites[places, second]
            # Jaccard's index of the steps that two raters cite; none where neither cites.
            kinds, kind = np.unique(both, return_inverse=True)
            sets = [(cited[at // len(cited)], cited[at % len(cited)]) for at in kinds.tolist()]
            found = np.array([len(a & b) / len(a | b) if a | b else -1.0 for a, b in sets])[kind]
            overlaps.append(found[found >= 0])
            runs.append(ratings.runs[places[found >= 0]])
    shares = np.concatenate(overlaps)
    if not len(shares):
        return Unmeasured("not_applicable", "no two raters cite steps of what both rated")
    return stats.mean_share(shares, np.concatenate(runs), unit_of_n="pairs of verdicts")


def explain_prevalence(
    figures: dict[str, Figure], ratings: RatingTable, kappa: Figure, used: Floats
) -> str:
    """Return why kappa says little where one label is nearly all there is; "" elsewhere."""
    gwet, raw = figures["gwet"], figures["raw"]
    if not isinstance(raw, Estimate):
        return ""
    label, most = ratings.labels[int(used.argmax())], float(used.max())
    if isinstance(kappa, Unmeasured) and kappa.kind == "undefined":
        said = f"every answer is {label!r}: kappa is undefined"
        return f"{said}, since there was nothing to distinguish"
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
    return ratings.people if len(ratings.people) >= 2 else ratings.rated


def decide_rubric(
    ratings: RatingTable, weights: SharedWeights, *, threshold: float = THRESHOLD, at_once: int = 1
) -> tuple[Decision, str]:
    """Decide: sharpen the rubric ("fail"), proceed ("pass") or label more; and on which figure.

    `at_once` is how many rubrics are decided together.
    """
    columns = deciding_columns(ratings)
    said = ", ".join(ratings.voices[at].name for at in columns) or "nobody"
    if len(columns) < 2:
        return Decision("undecided", f"one rater ({said}): agreement needs two"), said
    found = _decide(ratings, [columns], weights, threshold, (at_once, "rubrics"))
    return found, f"{'kappa' if len(columns) == 2 else 'fleiss'} of {said}"


def decide_judges(
    ratings: RatingTable, weights: SharedWeights, *, threshold: float, at_once: int
) -> dict[str, Decision]:
    """Decide of each of `at_once` judges whether it reads the rubric as each of the people does."""
    judges = [at for at in ratings.rated if at not in ratings.people] if ratings.people else []
    return {
        ratings.voices[at].name: _decide(
            ratings, [[at, one] for one in ratings.people], weights, threshold, (at_once, "judges")
        )
        for at in judges
    }


def _decide(
    ratings: RatingTable,
    groups: Sequence[Sequence[int]],
    weights: SharedWeights,
    threshold: float,
    at_once: tuple[int, str],
) -> Decision:
    name = "kappa" if len(groups[0]) == 2 else "fleiss"
    _, codes, runs = _stack(ratings, groups)
    lost = ratings.lost([at for group in groups for at in group])
    many = at_once[0] > 1
    level = 1 - SHY * (1 - LEVEL) / at_once[0] if many else LEVEL
    draws = MANY_DRAWS if many else FEW_DRAWS
    found = agreement_figures(
        [name], codes, runs, ratings.labels, lost, weights=weights, level=level, draws=draws
    )[name]
    if isinstance(found, Unmeasured):
        return Decision("undecided", f"{name} is unmeasured: {found.reason}")
    together = f", {at_once[0]} {at_once[1]} at once" if many else ""
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
        return "too close for any sensible number of labels to decide"
    more = max(math.ceil(runs) - found.n_tasks, 1)
    return f"about {format_count(more, 'more run')} rated by all would decide"


# Answers that commit to nothing: a dispute in which one side has none is less telling.
OPEN = frozenset({UNCERTAIN, "not_applicable"})
COLUMNS = "aspect run name step rater family label value confidence cites reason use".split()
# Pairs of answers that are looked at together, to bound memory.
CELLS = 1_000_000


def find_disputes(
    ratings: RatingTable, *, within: bool = False, most: int | None = None
) -> list[types.Dispute]:
    """Return the items on which raters of different families disagree, the most telling first.

    First where both sides commit themselves, then by the share of pairs that disagree, then by how
    sure the raters are. How sure is reckoned within each judge, as the rank of this confidence
    among its own: confidences of two families cannot be compared. With `within`, judges of one
    family may disagree as well; people always may, and so may judges whose verdicts were imported.
    """
    ranks = _ranks(ratings)
    families = [voice.family for voice in ratings.voices]
    # Raters of one family are wrong together, unless they are people or came from elsewhere.
    pairs = [
        (a, b)
        for a, b in combinations(range(len(families)), 2)
        if within or families[a] != families[b] or families[a] in NOT_MODELS
    ]
    first, second = np.array(pairs, np.int64).reshape(-1, 2).T
    of_pair = np.zeros((len(pairs), len(families)))
    of_pair[np.arange(len(pairs)), first] = of_pair[np.arange(len(pairs)), second] = 1
    # Behind the labels stands what -1 reads.
    open_ = np.array([*(label in OPEN for label in ratings.labels), True])
    size = len(ratings.items)
    # By what disputes are ordered, the first last.
    keys = np.zeros((4, size))
    for rows in np.array_split(np.arange(size), 1 + size * len(pairs) // CELLS):
        a, b = ratings.codes[rows][:, first], ratings.codes[rows][:, second]
        both = (a >= 0) & (b >= 0)
        apart = both & (a != b)
        differ = apart @ of_pair > 0
        keys[0, rows] = (ranks[rows] * differ).sum(axis=1) / np.maximum(differ.sum(axis=1), 1)
        if ratings.scored:  # labels have no distance
            far = ratings.values[rows][:, first] - ratings.values[rows][:, second]
            keys[1, rows] = np.abs(far).max(axis=1, where=apart, initial=0.0)
        keys[2, rows] = apart.sum(axis=1) / np.maximum(both.sum(axis=1), 1)
        keys[3, rows] = (apart & ~open_[a] & ~open_[b]).any(axis=1)
    ordered = [at for at in np.lexsort(-keys).tolist() if keys[2, at] > 0]
    return [
        types.Dispute(
            aspect=ratings.aspect,
            run=run,
            name=ratings.names.get(run, ""),
            step=step,
            answers=ratings.answers((run, step)),
            apart=float(keys[2, at]),
        )
        for at in ordered[:most]
        for run, step in [ratings.items[at]]
    ]


def _ranks(ratings: RatingTable) -> Floats:
    """Return each confidence as its rank among the judge's own, 0 to 1; one half without any."""
    found = np.full(ratings.codes.shape, 0.5)
    for at, confidence in enumerate(ratings.confidence.T):
        given = ~np.isnan(confidence)
        numbers = np.sort(confidence[given])
        below = np.searchsorted(numbers, confidence[given], side="left")
        upto = np.searchsorted(numbers, confidence[given], side="right")
        found[given, at] = (below + upto) / 2 / max(len(numbers), 1)
    return found


def queue_csv(queue: Iterable[types.Dispute]) -> str:
    """Return the queue as CSV, one row an answer."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one in queue:
        for answer in one.answers:
            texts = (one.name, answer.rater, answer.label, answer.reason)
            name, rater, label, reason = (escape_formula(visible_line(text)) for text in texts)
            said = (rater, answer.family, label, answer.value, answer.confidence)
            cites = " ".join(map(str, answer.cites))
            writer.writerow([one.aspect, one.run, name, one.step, *said, cites, reason, one.use])
    return out.getvalue()


TAG = "tag."


def measure_agreement(
    rows: Rows,
    *,
    rubric: str | None = None,  # "axes.termination", or "axes" for a set; None for all
    where: Where | None = None,
    raters: Container[RaterKey] | None = None,  # those that count, see `choose_raters`; None: all
    version: str | None = None,  # of rubrics, that judges answered under; None: that of most runs
    seed: int = 0,
    threshold: float = THRESHOLD,  # kappa below which a rubric is to be sharpened
) -> types.Agreement:
    """Return how far the raters of some runs agree, on each rubric that a judge or person rated.

    One aspect a rubric and granularity, by name; none where nobody but the rules rated.
    """
    found = read_ratings(rows, where=where, rubric=rubric, raters=raters, version=version)
    judges = sum(len(one.rated) - len(one.people) for one in found if one.people)
    at_once = max(sum(len(deciding_columns(one)) > 1 for one in found), 1), judges
    aspects = []
    for one in found:
        drawn = rows.sampled(one.aspect) if isinstance(rows, Store) else {}
        made = rubric_agreement(one, seed, threshold=threshold, at_once=at_once, drawn=drawn)
        aspects.append(made)
    return types.Agreement(aspects=tuple(aspects), seed=seed, threshold=threshold)


def measure_agreement_by(
    rows: Rows,
    field: str | None,
    *,
    rubric: str | None = None,
    where: Where | None = None,
    raters: Container[RaterKey] | None = None,
    version: str | None = None,
    seed: int = 0,
    threshold: float = THRESHOLD,
) -> tuple[types.Agreement, ...]:
    """Return the agreement of each group of runs by a field or tag, of None that of all at once.

    `UsageError` for what is no field.
    """
    measure = partial(measure_agreement, rows, rubric=rubric, raters=raters, version=version)
    measure = partial(measure, seed=seed, threshold=threshold)
    if field is None:
        return (measure(where=where),)
    groups = _groups(rows, field, where)
    return tuple(replace(measure(where=chosen), group={field: name}) for name, chosen in groups)


def _groups(rows: Rows, field: str, where: Where | None) -> Iterator[tuple[str | None, Where]]:
    key = field.removeprefix(TAG)
    if field not in FIELDS and key in (field, ""):
        known = ", ".join(FIELDS)
        raise UsageError(f"--by {field!r} is not a field; expected {known} or tag.KEY")
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
    at_once: tuple[int, int] = (1, 1),  # how many rubrics, and judges, are decided together
    # probability of each run that could have been drawn for the rubric; empty: all were judged
    drawn: Mapping[str, float] = MappingProxyType({}),
) -> types.RubricAgreement:
    """Return the agreement on one rubric."""
    known = calibration_curves(rated)
    likely = calibrated_confidences(rated, known)
    weights = SharedWeights(np.random.default_rng(seed))
    decision, decided_on = decide_rubric(rated, weights, threshold=threshold, at_once=at_once[0])
    every = rated.readers
    names = tuple(rated.voices[at].name for at in every)
    reason = f"one rater ({', '.join(names)}): agreement needs two"
    alone = dict.fromkeys(NOMINAL, Unmeasured("insufficient_data", reason))
    return types.RubricAgreement(
        name=rated.aspect,
        unit=rated.unit,
        items=len(rated.items),
        runs=len({run for run, _ in rated.items}),
        labels=rated.labels,
        raters=rated.raters(),
        together=types.GroupAgreement(raters=names, of="all", n=0, figures=dict(alone))
        if len(every) < 2
        else group_agreement(rated, [every], names, "all", weights),
        pairs=tuple(_pairs(rated, likely, weights)),
        families=tuple(_families(rated, weights)),
        proofs=tuple(compare_proofs(rated)),
        decision=decision,
        decided_on=decided_on,
        judges=decide_judges(rated, weights, threshold=threshold, at_once=at_once[1]),
        disputed=tuple(find_disputes(rated, within=True, most=DISPUTED)),
        curves=known,
        changes=tuple(rubric_changes(rated)),
        notes=tuple(_notes(rated, drawn)),
    )


def labelling_queue(
    rows: Rows,
    *,
    rubric: str | None = None,
    where: Where | None = None,
    raters: Container[RaterKey] | None = None,
    version: str | None = None,
) -> tuple[types.Dispute, ...]:
    """Return the runs and steps on which families disagree, the most telling of each rubric first.

    Rubrics take turns, so that the first ten are not all of one.
    """
    tables = read_ratings(rows, where=where, rubric=rubric, raters=raters, version=version)
    turns = zip_longest(*map(find_disputes, tables))
    return tuple(dispute for turn in turns for dispute in turn if dispute is not None)


def _pairs(
    rated: RatingTable, likely: Floats, weights: SharedWeights
) -> Iterator[types.GroupAgreement]:
    for a, b in combinations(rated.readers, 2):
        names = rated.voices[a].name, rated.voices[b].name
        sure = confidence_weighted(rated, likely, [a, b])
        yield group_agreement(rated, [[a, b]], names, "raters", weights, weighted=sure)


def _families(rated: RatingTable, weights: SharedWeights) -> Iterator[types.GroupAgreement]:
    columns: dict[str, list[int]] = {}
    for at in rated.readers:
        columns.setdefault(rated.voices[at].family, []).append(at)
    for first, second in combinations(columns, 2):
        pairs = list(product(columns[first], columns[second]))
        # Of one pair of raters the pair itself says it.
        if len(pairs) > 1:
            yield group_agreement(rated, pairs, (first, second), "families", weights)


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
