"""Judges held against people: what each gets right, how far it leans, and whether it may be used.

A judge is compared with the label that most people gave an item, a score with people's mean; items
on which they are split, or that they could not decide, are counted and left out. The protocol asks
for 100 labels, a bias shown to lie within .05 (two one-sided tests), and correlation and
concordance shown to be .60 or more; of labels Cohen's kappa of "speaks against the agent, or not".
Five labels with r = .8 are shown as what they are: -.28 to .99. Labels of items that
were chosen for how they look are in no figure here. "Labels still needed" is a plan: testing again
and again until a judge passes is not this test.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import atanh, ceil
from typing import Any, NamedTuple

import msgspec
import numpy as np

from stepscope import stats
from stepscope.calibrate.agreement import LEVEL, agreement_figures, failing_codes
from stepscope.calibrate.confidence import calibration_curves, majority_labels
from stepscope.calibrate.ratings import Item, RaterKey, RatingTable, rating_measure, read_ratings
from stepscope.calibrate.types import CalibrationCurve, Unit
from stepscope.errors import UsageError
from stepscope.model import Label
from stepscope.model.labels import ADJUDICATION, settle_labels
from stepscope.model.records import JUDGE_PREFIX, NEUTRAL, NOT_APPLICABLE, UNCERTAIN, Figure
from stepscope.stats.interrater import SharedWeights
from stepscope.stats.intervals import difference_limits, wilson
from stepscope.stats.sample import (
    EstimateFrame,
    Floats,
    Ints,
    make_estimate,
    make_value,
    sum_by_cluster,
)
from stepscope.store import Store
from stepscope.store.columns import LabelledRows, Rows
from stepscope.store.where import Where, parse_where
from stepscope.values import Decision, Unmeasured, format_count

# The protocol: labels, how far a judge may lean, and what correlation and concordance it needs.
LABELS_OF_PROTOCOL, MOST_BIAS, LEAST_AGREEMENT = 100, 0.05, 0.6
# One label has no interval; two that a judge got wrong may put kappa below what it needs.
FEWEST_TO_REJECT = 2
# One-sided tests at 95 % are limits at 90 %.
ONE_SIDED = 0.9
# z of 95 % and of 80 % power for both one-sided tests together (Chow and Liu).
EQUIVALENCE = 2.93
# More labels than this nobody gives.
MOST_LABELS = 5_000
# A label that weighs less than this share of another one is taken to weigh so much.
LEAST_WEIGHT = 1e-12
# How near a score is right.
NEAR = 0.1
# A band with a smaller share of the labels is not looked at by them.
THIN = 0.1


class JudgeCalibration(msgspec.Struct, frozen=True, kw_only=True):
    """One judge beside people, on one rubric at one granularity."""

    rubric: str
    unit: Unit
    judge: str
    family: str
    version: str = ""  # of the rubric that the judge read
    n: int  # items that have a label of people and one of the judge
    runs: int  # how many runs these are of
    people: tuple[str, ...]
    labels: tuple[str, ...] = ()  # those in use; bands of scores
    confusion: tuple[tuple[int, ...], ...] = ()  # what people said down, what the judge said across
    # "accuracy", "kappa", "gwet" (AC1), "bias" (judge less people; of labels in the share that
    # speaks against the agent), "recall.LABEL"; of scores "pearson", "spearman", "concordance",
    # and "near", the share within .1; of a list of suspects "first", "among_three", "among_five";
    # of the rules "precision", the share of the steps proved at fault that people name
    figures: dict[str, Figure]
    decision: Decision  # whether the judge passes the protocol
    labels_needed: int | None = None  # in all, for a decision; None: none, or no number decides
    curve: CalibrationCurve | None = None  # of its confidence; None where it states none
    notes: tuple[str, ...] = ()


def calibrate_judges(
    rows: Rows,
    *,
    where: Where | None = None,
    rubric: str | None = None,
    raters: Container[RaterKey] | None = None,
    version: str | None = None,
    seed: int = 0,
) -> tuple[JudgeCalibration, ...]:
    """Return every judge that judged what people labelled, by rubric."""
    runs = rows.runs(where)
    task_of = {
        run: run if task is None else task
        for run, task in zip(runs.id.tolist(), runs.task.tolist(), strict=True)
    }
    found = []
    for table in read_ratings(
        rows, where=where, rubric=rubric, raters=raters, version=version, adjudicated=True
    ):
        if table.people:
            chosen = find_chosen(rows, where, table.aspect)
            fair, said = [item not in chosen for item in table.items], majority_labels(table)
            curves = calibration_curves(table, np.where(fair, said, -1))
            judges = [at for at in table.rated if at not in table.people]
            found += [_calibrate(table, at, said, chosen, curves, task_of, seed) for at in judges]
    return tuple(found)


def find_chosen(rows: Rows, where: Where | None, aspect: str) -> dict[Item, str]:
    """Return the queue of each item of a rubric that was labelled for how it looks alone."""
    found: dict[Item, str] = {}
    random = set[Item]()
    given = rows.labels if isinstance(rows, LabelledRows) else None
    for label in given(where, measure=rating_measure(aspect)) if given else ():
        item = (label.trajectory, label.step)
        if _tests_judges(label):
            random.add(item)
        else:
            found.setdefault(item, label.queue)
    return {item: queue for item, queue in found.items() if item not in random}


def _tests_judges(label: Label) -> bool:
    """Tell whether a label's item was not chosen for how it looks."""
    return label.queue == "file" or (label.is_random and label.queue != "active")


class NarrowDraw(NamedTuple):
    """A queue that was drawn among some runs alone: its labels are for no rate of others."""

    where: str  # the condition on runs
    queue: str
    policy: str
    items: frozenset[str]  # ids of the runs that were drawn
    among: frozenset[str]  # and of those that might have been


@dataclass(frozen=True, slots=True)
class LabelledRuns:
    """What people said of runs, or of steps, by run, and which queues were not drawn among all."""

    by_run: Mapping[str, Sequence[Label]]
    narrow: tuple[NarrowDraw, ...] = ()

    def __len__(self) -> int:
        """Return how many labels there are."""
        return sum(map(len, self.by_run.values()))


NO_LABELS = LabelledRuns({})


def read_run_labels(
    rows: Rows, rubric: str, *, digits: int | None = None, steps: bool = False
) -> LabelledRuns:
    """Return what people said of whole runs, or of steps, under a rubric, norming rounds aside.

    Ids of runs are cut to so many digits.
    """
    measure = rating_measure(rubric)
    given = rows.labels(measure=measure) if isinstance(rows, LabelledRows) else ()
    found: dict[str, list[Label]] = {}
    for label in given:
        if (label.step is not None) == steps and not label.round:
            run = label.trajectory[:digits]
            found.setdefault(run, []).append(msgspec.structs.replace(label, trajectory=run))
    return LabelledRuns(found, tuple(_narrow_draws(rows, measure, digits)) if found else ())


def _narrow_draws(rows: Rows, measure: str, digits: int | None) -> Iterator[NarrowDraw]:
    """Yield the queues of a rubric that were drawn among some runs alone.

    What another draw among all runs holds too is not theirs alone. A condition that cannot be read
    again, such as a time before now, stands for the drawn runs themselves.
    """
    if not isinstance(rows, Store):
        return
    made = {
        at: msgspec.json.decode(body, type=dict[str, Any]) for at, body in rows.queues().items()
    }
    made = {at: one for at, one in made.items() if one["measure"] == measure}
    draws = {at: (one.get("where", ""), one["queue"], one["policy"]) for at, one in made.items()}
    if not any(where for where, _, _ in draws.values()):
        return
    runs = rows.runs()
    id_of = {key: id_[:digits] for key, id_ in zip(runs.key.tolist(), runs.id, strict=True)}
    items = {at: {id_of.get(x, "") for x in rows.queue_items(at).run.tolist()} for at in draws}
    for at, (where, queue, policy) in draws.items():
        if where:
            broad = [items[x] for x, other in draws.items() if other == ("", queue, policy)]
            own = frozenset(items[at].difference(*broad))
            try:
                among = frozenset(x[:digits] for x in rows.runs(parse_where(where)).id.tolist())
            except UsageError:
                among = own
            yield NarrowDraw(where, queue, policy, own, among)


class RateLabels(NamedTuple):
    """The labels of some runs, or steps, from which a rate or a mean of them may be computed."""

    decided: list[Label]  # from a random draw, each with an answer
    places: Ints  # of the items that have one
    values: Floats  # what people said there, the mean of several: 1 for a failure, or a score
    shares: Floats  # of the draw
    lost: dict[str, int]  # items that people could not decide, or found not to be asked about
    refused: dict[str, int]  # labels for no rate, by why


def choose_labels(
    labels: LabelledRuns, place: Mapping[Item, int], worth: Callable[[Label], float | None]
) -> RateLabels | None:
    """Return the labels of these items, by place, for a rate; None where no label is of them.

    `worth` is what a label says as a number, None where it says nothing.
    """
    runs = dict.fromkeys(run for run, _ in place)
    given = (label for run in runs for label in labels.by_run.get(run, ()))
    of_these = settle_labels(label for label in given if _item(label) in place)
    if not of_these:
        return None
    narrow = [one for one in labels.narrow if not runs.keys() <= one.among]
    why = [name_refusal(one, narrow) for one in of_these]
    usable = [one for one, no in zip(of_these, why, strict=True) if not no]
    decided, said = list[Label](), defaultdict[int, list[float]](list)
    for one in usable:
        if one.decided and one.label not in NEUTRAL and (value := worth(one)) is not None:
            decided.append(one)
            said[place[_item(one)]].append(value)
    places = np.array(sorted(said), np.int64)
    # An item that people find the rubric not to apply to is in no rate, and no loss.
    known, lost = {_item(one) for one in decided}, Counter[str]()
    for one in {_item(one): one for one in usable if _item(one) not in known}.values():
        lost[NOT_APPLICABLE if one.label == NOT_APPLICABLE else UNCERTAIN] += 1
    return RateLabels(
        decided,
        places,
        np.array([sum(said[at]) / len(said[at]) for at in places.tolist()]),
        _shares(decided, place, places, len(place)),
        dict(sorted(lost.items())),
        dict(sorted(Counter(filter(None, why)).items())),
    )


def _item(label: Label) -> Item:
    return label.trajectory, label.step


def name_refusal(label: Label, narrow: Iterable[NarrowDraw] = ()) -> str:
    """Return why a label is for no rate; "" where it is for one."""
    if not label.is_random:
        from_file = label.queue == "file"
        return "of unknown probability" if from_file else f"from the queue {label.queue}"
    drawn = (
        f"drawn among the runs {of.where} alone"
        for of in narrow
        if (of.queue, of.policy) == (label.queue, label.policy) and label.trajectory in of.items
    )
    return next(drawn, "")


def _shares(labels: Sequence[Label], place: Mapping[Item, int], places: Ints, n: int) -> Floats:
    """Return the share of a draw of each labelled item; queues count by their numbers of labels."""
    known: dict[str, list[Label]] = defaultdict(list)
    for one in labels:
        known[f"{one.queue} {one.policy}"].append(one)
    weight: dict[int, float] = {}
    for of_queue in known.values():
        # Relative to the rarest, so that no weight is too large or small for a number.
        least = min(one.probability or 1.0 for one in of_queue)
        inverse = {place[_item(one)]: least / (one.probability or 1.0) for one in of_queue}
        mean = sum(inverse.values()) / len(inverse)
        weight |= {at: one / mean for at, one in inverse.items() if at not in weight}
    return 1 / (n * np.array([max(weight[at], LEAST_WEIGHT) for at in places.tolist()]))


def _calibrate(
    table: RatingTable,
    at: int,
    said: Ints,
    chosen: Mapping[Item, str],
    curves: Iterable[CalibrationCurve],
    task_of: Mapping[str, str],
    seed: int,
) -> JudgeCalibration:
    voice = table.voices[at]
    undecided = said == (table.labels.index(UNCERTAIN) if UNCERTAIN in table.labels else -2)
    fair = np.array([item not in chosen for item in table.items], np.bool_)
    kept = np.flatnonzero((said >= 0) & ~undecided & (table.codes[:, at] >= 0) & fair)
    tasks = stats.codes(task_of.get(table.items[place][0], "") for place in kept.tolist())
    people, judge = said[kept], table.codes[kept, at]
    confusion = np.zeros((len(table.labels), len(table.labels)), np.int64)
    np.add.at(confusion, (people, judge), 1)
    weights, both = SharedWeights(np.random.default_rng(seed)), np.stack([people, judge], axis=1)
    figures: dict[str, Figure] = {
        "accuracy": stats.proportion(people == judge, tasks, unit_of_n=table.unit),
        **agreement_figures(["kappa", "gwet"], both, tasks, table.labels, {}, weights=weights),
    }
    for code in np.unique(people).tolist():
        of = people == code
        recall = stats.proportion(judge[of] == code, tasks[of], unit_of_n=table.unit)
        figures[f"recall.{table.labels[code]}"] = recall
    scores = _as_scores(table, kept, at, people, judge)
    known = ", ".join(table.labels)
    open_ = f"which of {known} speaks against the agent is not known"
    open_ = open_ if len(table.labels) > 1 else f"every label is {known}"
    decision, needed = Decision("undecided", open_), None
    if scores is not None:
        figures["bias"] = measure_bias(*scores, tasks, table.unit)
        decision, needed = decide_protocol(*scores, tasks, table.unit, scored=table.scored)
    if table.scored and scores is not None:
        near = np.abs(scores[0] - scores[1]) <= NEAR + 1e-9
        figures |= {
            "pearson": stats.pearson(*scores, tasks, unit_of_n=table.unit),
            "spearman": stats.rank_correlation(*scores, tasks, unit_of_n=table.unit),
            "concordance": stats.concordance(*scores, tasks, unit_of_n=table.unit),
            "near": stats.proportion(near, tasks, unit_of_n=table.unit),
        }
    curve = next((one for one in curves if one.judge == voice.name), None)
    return JudgeCalibration(
        rubric=table.aspect,
        unit=table.unit,
        judge=voice.name,
        family=voice.family,
        version=voice.version,
        n=len(kept),
        runs=len({table.items[place][0] for place in kept.tolist()}),
        people=tuple(table.voices[one].name for one in table.people),
        labels=table.labels,
        confusion=tuple(map(tuple, confusion.tolist())),
        figures=figures,
        decision=decision,
        labels_needed=needed,
        curve=curve,
        notes=tuple(_notes(table, said, int(undecided.sum()), people, chosen)),
    )


def _as_scores(
    table: RatingTable, kept: Ints, at: int, people: Ints, judge: Ints
) -> tuple[Floats, Floats] | None:
    """Return scores of judge and people; of labels 1 for a failing one; None where none is."""
    if table.scored:
        said = table.values[kept][:, table.people]
        given = ~np.isnan(said)
        mean = np.where(given, said, 0).sum(axis=1) / np.maximum(given.sum(axis=1), 1)
        return table.values[kept, at], mean
    if not (bad := _bad_codes(table)):
        return None
    return np.isin(judge, bad).astype(np.float64), np.isin(people, bad).astype(np.float64)


def _bad_codes(table: RatingTable) -> list[int]:
    """Return the labels that count as 1; of two that are not known, the last."""
    return failing_codes(table) or ([1] if len(table.labels) == 2 else [])


def measure_bias(
    judge: Floats, people: Floats, tasks: Ints, unit: Unit, level: float = LEVEL
) -> Figure:
    """Return by how much the judge's scores exceed people's, each task counting alike."""
    if not len(judge):
        return Unmeasured("insufficient_data", f"no {unit} that judge and people both rated")
    sums = sum_by_cluster(judge - people, tasks)
    frame = EstimateFrame(level=level, unit_of_n=unit, n_tasks=len(sums.sums))
    means = sums.sums / sums.sizes
    if len(means) < 2:
        return make_value(float(means[0]), "one task", n=len(judge), frame=frame)
    value, low, high = (float(one) for one in difference_limits(means, level, bounded=True))
    return make_estimate((value, low, high), method="t", n=len(judge), frame=frame)


def decide_protocol(
    judge: Floats, people: Floats, tasks: Ints, unit: Unit, *, scored: bool
) -> tuple[Decision, int | None]:
    """Decide whether a judge may stand for people; and how many labels in all would decide.

    Source: Schuirmann (1987), J. Pharmacokinetics and Biopharmaceutics 15:657-680, for the bias;
    the planned number is 2.93^2 * (SD / .05)^2, Chow, Shao and Wang (2008), section 3.2.
    """
    n = len(judge)
    spread = float((judge - people).std(ddof=1)) if n > 1 else 0.0
    wanted = ceil((EQUIVALENCE * spread / MOST_BIAS) ** 2)
    checks = [_check_bias(measure_bias(judge, people, tasks, unit, ONE_SIDED), wanted)]
    if scored:
        checks += [
            _check_agreement(name, of(judge, people, tasks, level=ONE_SIDED, unit_of_n=unit))
            for name, of in (("r", stats.pearson), ("concordance", stats.concordance))
        ]
    else:
        both = np.stack([judge, people], axis=1).astype(np.int64)
        kappa = partial(agreement_figures, ["kappa"], both, tasks, ("no", "yes"), {})
        found = kappa(weights=SharedWeights(np.random.default_rng(0)), level=ONE_SIDED)
        checks.append(_check_agreement("kappa", found["kappa"]))
    if n < LABELS_OF_PROTOCOL:
        enough = Decision("undecided", f"{n} of {LABELS_OF_PROTOCOL} labels")
        checks.insert(0, (enough, LABELS_OF_PROTOCOL))
    said: dict[str, list[str]] = defaultdict(list)
    for decision, _ in checks:
        said[decision.outcome].append(decision.reason)
    if said["fail"]:
        return Decision("fail", "; ".join(said["fail"])), None
    if not said["undecided"]:
        return Decision("pass", f"{n} labels; " + "; ".join(said["pass"])), None
    needed = max(LABELS_OF_PROTOCOL, n + 1, *(more or 0 for _, more in checks))
    plan = f"about {format_count(needed - n, 'more label')} would decide"
    unknown = n >= LABELS_OF_PROTOCOL and any(more is None for _, more in checks)
    if unknown or needed > MOST_LABELS:
        most = f"more than {MOST_LABELS:,} labels would be needed"
        plan = "how many labels would decide is not known" if unknown else most
    reason = "; ".join([*said["undecided"], plan])
    return Decision("undecided", reason), None if unknown or needed > MOST_LABELS else needed


def _check_bias(bias: Figure, wanted: int) -> tuple[Decision, int | None]:
    """Test that a judge leans by less than `MOST_BIAS`; with the labels that would tell."""
    if isinstance(bias, Unmeasured):
        return Decision("undecided", f"bias is unmeasured: {bias.reason}"), None
    low, high, told = bias.low, bias.high, f"bias {bias.value:+.3f}"
    if low is None or high is None:
        return Decision("undecided", f"{told} of one task"), None
    told = f"{told}, {low:+.3f} to {high:+.3f}"
    if low > MOST_BIAS or high < -MOST_BIAS:
        return Decision("fail", f"{told}: beyond {MOST_BIAS}"), 0
    if low <= -MOST_BIAS or high >= MOST_BIAS:
        # One that leans needs as many as part it from the limit; limits shrink as a root.
        ahead = max(abs(MOST_BIAS - abs(bias.value)), 1e-3)
        wanted = max(wanted, ceil(bias.n * ((high - low) / 2 / ahead) ** 2))
        return Decision("undecided", f"{told}: not shown to be within {MOST_BIAS}"), wanted
    return Decision("pass", f"{told}"), 0


def _check_agreement(name: str, found: Figure) -> tuple[Decision, int | None]:
    """Test that a coefficient is `LEAST_AGREEMENT` or more; with the labels that would tell."""
    if isinstance(found, Unmeasured):
        return Decision("undecided", f"{name} is unmeasured: {found.reason}"), None
    told = f"{name} {found.value:.2f}"
    if found.low is None or found.high is None:
        if abs(found.value) > 1 - 1e-9 and found.n_tasks >= LABELS_OF_PROTOCOL:
            return Decision("fail" if found.value < 0 else "pass", told), 0
        return Decision("undecided", f"{told} without limits"), None
    if found.high < LEAST_AGREEMENT:
        return Decision("fail", f"{told}, at most {found.high:.2f}: below {LEAST_AGREEMENT}"), 0
    if found.low >= LEAST_AGREEMENT:
        return Decision("pass", f"{told}, at least {found.low:.2f}"), 0
    # Limits shrink as a root on Fisher's scale.
    low, value = (atanh(min(max(x, 1e-9 - 1), 1 - 1e-9)) for x in (found.low, found.value))
    ahead, reach = max(abs(value - atanh(LEAST_AGREEMENT)), 1e-3), value - low
    told = f"{told}, at least {found.low:.2f}: {LEAST_AGREEMENT} is not shown"
    return Decision("undecided", told), ceil(found.n * (reach / ahead) ** 2)


def _notes(
    table: RatingTable, said: Ints, undecided: int, people: Ints, chosen: Mapping[Item, str]
) -> Iterator[str]:
    if held := Counter(chosen[item] for item in table.items if item in chosen):
        told = ", ".join(f"{queue} {n:,}" for queue, n in sorted(held.items()))
        yield f"labels of items that were chosen for how they look are left out: {told}"
    rated = (table.codes[:, table.people] >= 0).any(axis=1)
    if split := int((rated & (said < 0)).sum()):
        yield f"people are split on {format_count(split, table.unit[:-1])}: left out"
    if undecided:
        yield f"people could not decide {format_count(undecided, table.unit[:-1])}: left out"
    if not table.scored and (bad := _bad_codes(table)):
        told = " or ".join(table.labels[code] for code in bad)
        yield f"bias, and kappa in the protocol, are of one question: {told}, or not"
    if table.scored and len(people):
        of_band = np.bincount(people, minlength=len(table.labels)) / len(people)
        thin = [table.labels[code] for code in np.flatnonzero(of_band < THIN).tolist()]
        if thin:
            told = ", ".join(thin)
            yield f"few labels in the band {told}: the protocol spreads them over all four"


def describe_labels(labels: Iterable[Label]) -> Iterator[str]:
    """Yield in sentences what labels can decide, rubric by rubric, and what they cannot."""
    given: dict[str, list[Label]] = defaultdict(list)
    for label in labels:
        if not label.round:
            given[label.measure.removeprefix(JUDGE_PREFIX)].append(label)
    for rubric, of in sorted(given.items()):
        deciding, said = settle_labels(of), defaultdict[Item, set[str]](set)
        settled = len({(x.trajectory, x.step) for x in of if x.queue == ADJUDICATION})
        of = [one for one in of if one.queue != ADJUDICATION]
        for one in of:
            said[one.trajectory, one.step].add(one.annotator)
        drawn = {
            (one.trajectory, one.step): 1 / (one.probability or 1.0)
            for one in deciding
            if one.is_random and one.decided
        }
        weight: dict[str, float] = defaultdict(float)
        for (run, _), one_weight in drawn.items():
            weight[run] += one_weight
        chosen = Counter(name_refusal(one) for one in of if not one.is_random)
        people = len({one.annotator for one in of})
        person = "1 person" if people == 1 else f"{people:,} people"
        items = format_count(len(said), "item")
        yield f"{rubric}: {format_count(len(of), 'label')} of {items} by {person}."
        if n := len(drawn):
            # At worst the steps of a run are alike; heavy runs count for more (Kish).
            size = sum(weight.values()) ** 2 / sum(one**2 for one in weight.values())
            low, high = (float(one) for one in wilson(0.5, size, LEVEL))
            more = max(stats.HEADLINE_LABELS - n, 0)
            start = f"; {format_count(more, 'more label')} for a headline" if more else ""
            yield (
                f"  A rate: {format_count(n, 'label')} of a random draw "
                f"{'gives' if n == 1 else 'give'} it to within {50 * (high - low):.0f} points at "
                f"worst, closer with a judge{start}. Two such draws show a drop from 84 % if it "
                f"is {100 * stats.drop_to_see(0.84, n):.0f} points or more."
            )
        if chosen:
            told = ", ".join(f"{count:,} {why}" for why, count in sorted(chosen.items()))
            yield f"  No rate from {told}: how likely an item was to be asked about is not known."
        fair = {(x.trajectory, x.step) for x in deciding if x.decided and _tests_judges(x)}
        few = max(LABELS_OF_PROTOCOL - len(fair), 0)
        told = f"{format_count(few, 'more label')} needed to accept one"
        sooner = "one that is often wrong may be rejected now"
        if len(fair) < FEWEST_TO_REJECT:
            sooner = f"{FEWEST_TO_REJECT - len(fair)} to reject one that is often wrong"
        enough = "enough labels to accept or reject one that answered the same items"
        yield f"  A judge: {f'{told}; {sooner}' if few else enough}."
        both = sum(len(annotators) > 1 for annotators in said.values())
        told = f", {settled:,} adjudicated" if settled else ""
        yield "  The rubric: " + (
            f"{format_count(both, 'item')} by two people or more{told}; stepscope agree decides."
            if both
            else "no item has labels of two people, so whether people agree is not known."
        )
