"""What each judge answers about each run, and the shares of a panel of judges.

A vote is a yes, a no, or the reason for neither. Uncertain is no vote. A failed state check
outranks a judge that found no fault, except where the question is about a part of the run. Any and
all are over the runs that every judge answered. Where runs were drawn, each is weighed by its
probability.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import NamedTuple
from zlib import crc32

import numpy as np
from msgspec.structs import replace

from stepscope import stats
from stepscope.calibrate.judges import NO_LABELS, LabelledRuns, read_run_labels
from stepscope.calibrate.ratings import Item
from stepscope.judges.patterns import PATTERN_NAMES, LabelPattern, PatternName, find_label_patterns
from stepscope.measures.step_features import agent_steps
from stepscope.model import Record, Trajectory, Verdict
from stepscope.model.records import (
    HUMAN,
    IMPORTED,
    NOT_APPLICABLE,
    OUTRANKED,
    RULES,
    STEP_SCORES,
    UNCERTAIN,
    Figure,
)
from stepscope.model.records import STEP_LABELS_NAME as STEP_LABELS
from stepscope.report import types
from stepscope.report.corrected import JudgeVotes, correct_scores, correct_share
from stepscope.report.rows import RunTable
from stepscope.report.words import AXES, INCORRECT, name_group
from stepscope.stats.sample import Bools, Floats
from stepscope.store.columns import ANSWERED, NO_RECORD, Rows, text_array, unmeasured_kind
from stepscope.store.judged import (
    JudgeAnswers,
    JudgedQuestion,
    RatedRows,
    RunAnswers,
    SampledRows,
    choose_modes,
    current_records,
    question_of_record,
    read_file_scores,
)
from stepscope.store.where import Where
from stepscope.values import Estimate, Unmeasured

PRESENT = "present"
# The answers of an axis; a rubric with other answers is counted, not put before a panel.
AXIS_ANSWERS = frozenset({INCORRECT, "correct", UNCERTAIN, NOT_APPLICABLE})
# The step labels that speak against the agent.
AGAINST = ("ERROR", "REDUNDANT", "DETOUR")
# What a reason may begin with that is counted by that word, not by the kind of the absence.
WORDS = {"not_json", "off_menu", "wrong_type", "missing_field", "extra_field", "out_of_range"}
WORDS |= {"missing_step", "duplicate_step", "extra_step", "refused", "filtered", "truncated"}
WORDS |= {"hallucinated_citation", "evidence_not_found", "copied_from_trace", "canary_missed"}
WORDS |= {"too_long", "budget", "no_answer", OUTRANKED.rstrip(": ")}

# Rubrics that ask about a part of the run, and the one among them that asks about its end.
PARTS, THE_END = ("axes.", "quality."), "quality.final_answer"
# The agent's steps of each run, None where they are not known.
Acted = Sequence[frozenset[int] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelAspect:
    """One question of a rubric with all votes on it, models by name, then the rules."""

    rubric: str
    failing: str
    votes: tuple[JudgeVotes, ...]
    table: RunTable  # the runs that the votes are aligned with
    probability: Floats | None  # that each run was drawn with, NaN where it was not; None: no draw
    labels: LabelledRuns = NO_LABELS  # what people said of whole runs

    @property
    def inside(self) -> Bools:
        """Runs that estimates may speak from: all, or those that were drawn."""
        if self.probability is None:
            return np.ones(len(self.table), np.bool_)
        return ~np.isnan(self.probability)

    @property
    def even(self) -> bool:
        """Whether all runs inside were drawn with one chance: only then are groups compared."""
        return self.probability is None or len(np.unique(self.probability[self.inside])) < 2

    def share(self, failing: Bools, answered: Bools, why: Mapping[str, Bools]) -> Figure:
        """Return the share of failing runs among those answered; `why` are those lost."""
        inside = self.inside
        kept = answered & inside
        lost = {name: int((runs & inside).sum()) for name, runs in why.items()}
        lost = {name: n for name, n in sorted(lost.items()) if n}
        clusters, chances = self.table.clusters[kept], self.probability
        figure: Figure
        if chances is None:
            figure = stats.proportion(failing[kept], clusters, unmeasured=lost)
        else:
            gone = np.zeros_like(kept)
            for name, runs in why.items():
                if name != NOT_APPLICABLE:
                    gone |= runs & inside
            figure = stats.weighted_proportion(
                failing[kept], chances[kept], clusters, lost=chances[gone], unmeasured=lost
            )
        if isinstance(figure, Unmeasured) and lost and not kept.any():
            said = ", ".join(f"{n:,} {name}" for name, n in lost.items())
            return Unmeasured(figure.kind, f"no run with a yes or no: {said}")
        return figure


def classify_absence(reason: str, kind: str) -> str:
    """Return what an absence is counted by: the word that its reason begins with, or its kind."""
    first = reason.partition(":")[0]
    return first if first in WORDS else kind


def read_aspects(
    rows: Rows, table: RunTable, judged: Sequence[JudgeAnswers], acted: Acted
) -> Iterator[PanelAspect]:
    """Yield every aspect that a judge was asked about, by rubric, with the rules' votes beside.

    Labels of steps that are not the agent's, as `acted` knows them, speak against nobody. Without a
    draw for a rubric, or for its set, every run counts the same.
    """
    by_rubric: dict[str, list[JudgeAnswers]] = {}
    for one in judged:
        if one.main:
            by_rubric.setdefault(one.asked.measure, []).append(one)
    for rubric, judges in sorted(by_rubric.items()):
        said = [x.verdict.answer for one in judges for x in one.runs.values() if x.verdict]
        labels = {x.label for x in said if isinstance(x, Verdict) and x.label}
        of = rubric.partition(".")[0]
        read: dict[str, Reading] = {}
        if rubric == STEP_LABELS:
            read = {x: partial(_over_steps, wanted=x, acted=acted) for x in AGAINST}
        elif of == "behaviour":
            read = {PRESENT: partial(_over_steps, wanted=PRESENT, acted=acted)}
        elif labels <= AXIS_ANSWERS and (labels or rubric.startswith(PARTS)):
            part = rubric.startswith(PARTS) and rubric != THE_END
            read = {INCORRECT: _of_a_part if part else _of_the_whole}
        drawn = (rows.drawn(rubric) or rows.drawn(of)) if isinstance(rows, SampledRows) else {}
        chances = np.array([drawn.get(id_, np.nan) for id_ in table.runs.id.tolist()])
        for failing, reading in read.items():
            votes = [_votes(table, one, reading) for one in judges]
            votes += _rules_axis(table, rubric) if failing == INCORRECT else ()
            yield PanelAspect(
                rubric=rubric,
                failing=failing,
                votes=tuple(votes),
                table=table,
                probability=chances if drawn else None,
                labels=read_run_labels(rows, rubric) if failing == INCORRECT else NO_LABELS,
            )


# What a judge's answers about a run, at its place, come to: a yes, a no, or why neither.
Reading = Callable[[int, RunAnswers], bool | str]


def _votes(table: RunTable, one: JudgeAnswers, read: Reading) -> JudgeVotes:
    n = len(table)
    failing, answered, asked = (np.zeros(n, np.bool_) for _ in range(3))
    why, setups = (np.full(n, None, np.object_) for _ in range(2))
    confidence = np.full(n, np.nan)
    for at, of_run in one.runs.items():
        if not of_run.whole and not of_run.steps:
            continue
        asked[at] = True
        if (record := of_run.verdict) is not None:
            setups[at] = f"{record.judge} {record.prompt}"
            if isinstance(record.answer, Verdict) and record.answer.confidence is not None:
                confidence[at] = record.answer.confidence
        found = read(at, of_run)
        if isinstance(found, str):
            why[at] = found
        else:
            answered[at], failing[at] = True, found
    member = types.PanelMember(
        judge=one.asked.judge,
        family=one.asked.family,
        mode=one.asked.mode,
        version=one.version,
        n_prompts=len(one.prompts),
        snapshots=dict(one.snapshots),
        older=dict(one.older),
    )
    return JudgeVotes(
        member=member,
        failing=failing,
        answered=answered,
        why=why,
        asked=asked,
        setups=setups,
        confidence=confidence,
    )


def _no_answer(record: Record | None) -> str | None:
    if record is None:
        return "missing_step"
    answer = record.answer
    return None if isinstance(answer, Verdict) else classify_absence(answer.reason, answer.kind)


def _of_a_part(at: int, of_run: RunAnswers) -> bool | str:
    record = of_run.verdict
    lost = _no_answer(record)
    if record is None or lost is not None or not isinstance(record.answer, Verdict):
        return lost or "error"
    label = record.answer.label or UNCERTAIN
    return label if label in (UNCERTAIN, NOT_APPLICABLE) else label == INCORRECT


def _of_the_whole(at: int, of_run: RunAnswers) -> bool | str:
    found = _of_a_part(at, of_run)
    return OUTRANKED.rstrip(": ") if found is False and is_outranked(of_run.verdict) else found


def is_outranked(record: Record | None) -> bool:
    """Tell whether a verdict praises a run that is known to have failed."""
    return record is not None and record.answer.reason.startswith(OUTRANKED)


def _over_steps(at: int, of_run: RunAnswers, *, wanted: str, acted: Acted) -> bool | str:
    """Tell whether a step of the agent has a label; one that could not be read leaves a no open."""
    own, told = acted[at], of_run.steps.get(0, {})
    steps = {step: told[step] for step in told if own is None or step in own}
    if any(isinstance(r.answer, Verdict) and r.answer.label == wanted for r in steps.values()):
        return True
    lost = _no_answer(of_run.verdict) if of_run.verdict is not None or not steps else None
    if lost is not None:
        return lost
    missing = (_no_answer(record) for record in steps.values())
    return next((why for why in missing if why is not None), False)


def _rules_axis(table: RunTable, rubric: str) -> Iterator[JudgeVotes]:
    """Yield what the rules proved of an axis: they answer where their checks ran."""
    if rubric not in AXES or not table.scored(rubric):
        return
    column = table.columns[rubric]
    decided = np.isin(column.label.astype(str), (INCORRECT, UNCERTAIN)) & column.answered
    why = np.full(len(table), None, np.object_)
    for at in np.flatnonzero(~decided & (column.state != NO_RECORD)).tolist():
        state = int(column.state[at])
        why[at] = str(column.label[at]) if state == ANSWERED else unmeasured_kind(state)
    yield JudgeVotes(
        member=types.PanelMember(judge=RULES, family=RULES, version=", ".join(column.versions)),
        failing=decided & (column.label == INCORRECT),
        answered=decided,
        why=why,
        asked=column.state != NO_RECORD,
    )


# Groups that are compared pair by pair; of more the shares are there, and no claim.
MOST_GROUPS = 5
ALPHA = 0.05
INCOMPLETE = "incomplete"


def measure_group(aspect: PanelAspect, of: types.Profile) -> types.PanelGroup:
    """Return what every judge found in one group of runs, and what they found together."""
    chosen = aspect.table.matches(of.group)
    votes = aspect.votes
    return types.PanelGroup(
        title=name_group(of),
        n_runs=int(chosen.sum()),
        seats=tuple(_seat(aspect, one, chosen) for one in votes),
        votes=tuple(_vote(aspect, sitting, chosen) for sitting in list_panels(votes)),
    )


def list_panels(votes: Sequence[JudgeVotes]) -> Iterator[Sequence[JudgeVotes]]:
    """Yield the panels that are summed up: the models where they are two or more, then everyone."""
    models = [one for one in votes if one.member.family != RULES]
    if len(models) > 1 and len(models) < len(votes):
        yield models
    if len(votes) > 1:
        yield votes


def _seat(aspect: PanelAspect, one: JudgeVotes, chosen: Bools) -> types.JudgeShare:
    open_ = one.asked & chosen & ~one.answered
    why = {str(name): open_ & (one.why == name) for name in set(one.why[open_].tolist())}
    return types.JudgeShare(
        judge=one.member.judge,
        failing=aspect.share(one.failing, one.answered & chosen, why),
        lost={name: int(runs.sum()) for name, runs in sorted(why.items())},
        not_judged=int((chosen & ~one.asked & aspect.inside).sum()),
        corrected=_correct(aspect, one, chosen),
    )


def _correct(aspect: PanelAspect, one: JudgeVotes, chosen: Bools) -> types.CorrectedShare | None:
    """Correct a judge's share by people's labels, where its runs were judged with one chance."""
    if one.member.family == HUMAN or not (aspect.labels and aspect.even):
        return None
    counted, table = one.asked & chosen & aspect.inside, aspect.table
    seed, failing = crc32(f"{aspect.rubric} {one.member.judge}".encode()), aspect.failing
    return correct_share(
        aspect.labels, one, table.runs, table.clusters, counted=counted, failing=failing, seed=seed
    )


def find_complete(sitting: Sequence[JudgeVotes]) -> tuple[Bools, Bools]:
    """Return which runs every model answered, rules aside, and which any was asked about."""
    models = [one for one in sitting if one.member.family != RULES]
    answered = np.logical_and.reduce([one.answered for one in models])
    return answered, np.logical_or.reduce([one.asked for one in models])


def _vote(aspect: PanelAspect, sitting: Sequence[JudgeVotes], chosen: Bools) -> types.PanelVote:
    answered, asked = find_complete(sitting)
    # A run that an aspect does not apply to, as each judge says, asks nothing of the panel.
    models = [one for one in sitting if one.member.family != RULES]
    idle = np.logical_and.reduce([one.why == NOT_APPLICABLE for one in models]) & chosen
    part = asked & ~answered & chosen & ~idle
    why = {INCOMPLETE: part, NOT_APPLICABLE: idle}
    found, agreed = [one.failing for one in sitting], [one.failing for one in models]
    return types.PanelVote(
        judges=tuple(one.member.judge for one in sitting),
        any=aspect.share(np.logical_or.reduce(found), answered & chosen, why),
        all=aspect.share(np.logical_and.reduce(agreed), answered & chosen, why),
        incomplete=int(part.sum()),
    )


def claim_differences(
    aspect: PanelAspect, groups: Sequence[types.Profile], seed: int
) -> tuple[types.PanelClaim, ...]:
    """Return few groups of evenly drawn runs compared pair by pair, p not adjusted yet."""
    if not 2 <= len(groups) <= MOST_GROUPS or not aspect.even:
        return ()
    whole, *_ = [*list_panels(aspect.votes), aspect.votes]
    answered, _asked = find_complete(whole)
    failing = np.logical_or.reduce([one.failing for one in whole])
    answered = answered & aspect.inside
    out = []
    for pair in combinations(groups, 2):
        sides = []
        for of in pair:
            kept = answered & aspect.table.matches(of.group)
            sides.append((failing[kept].astype(np.float64), aspect.table.clusters[kept]))
        (xs, x_cases), (ys, y_cases) = sides
        names = [name_group(of) for of in pair]
        key = f"{aspect.rubric} {aspect.failing} {' '.join(names)}"
        rng = np.random.default_rng([seed, crc32(key.encode())])
        paired = len(np.intersect1d(x_cases, y_cases)) > 0
        compare = stats.compare_paired if paired else stats.compare_unpaired
        found = compare(xs, x_cases, ys, y_cases, rng=rng)
        effect, p = (found, None) if isinstance(found, Unmeasured) else (found.effect, found.p)
        out.append(types.PanelClaim(first=names[0], second=names[1], effect=effect, p=p))
    return tuple(out)


def adjust_claims(
    all_: Sequence[tuple[types.PanelClaim, ...]],
) -> list[tuple[types.PanelClaim, ...]]:
    """Return the claims of every panel with p adjusted by Holm over all of them."""
    tested = [claim.p for claims in all_ for claim in claims if claim.p is not None]
    holm = iter(stats.holm(tested).tolist() if tested else ())

    def adjust(claim: types.PanelClaim) -> types.PanelClaim:
        p = None if claim.p is None else next(holm)
        return replace(claim, p_adjusted=p, survives=p is not None and p <= ALPHA)

    return [tuple(map(adjust, claims)) for claims in all_]


TENTHS = 10


def measure_onsets(
    table: RunTable,
    judged: Sequence[JudgeAnswers],
    groups: Sequence[types.Profile],
    aspects: Sequence[PanelAspect],
    acted: Acted,
) -> Iterator[types.BehaviourOnset]:
    """Yield what each judge says of each behaviour in the agent's steps, by group of runs."""
    by_rubric = {aspect.rubric: aspect for aspect in aspects}
    for one in judged:
        aspect = by_rubric.get(one.asked.measure)
        if not one.main or aspect is None or aspect.failing != PRESENT:
            continue
        first, present, told = _places(table, one, acted)
        votes = next(v for v in aspect.votes if v.member.judge == one.asked.judge)
        for of in groups:
            chosen = table.matches(of.group)
            began, clusters = chosen & ~np.isnan(first), table.clusters
            shows, steps, tasks = present[chosen].T, told[chosen].T, clusters[chosen]
            yield types.BehaviourOnset(
                rubric=one.asked.measure,
                judge=one.asked.judge,
                group=name_group(of),
                runs=aspect.share(votes.failing, votes.answered & chosen, {}),
                onset=stats.quantile(first[began], 0.5, clusters[began], unit="share of the run"),
                tenths=tuple(
                    stats.ratio(present_at, of, tasks, unit_of_n="steps")
                    for present_at, of in zip(shows, steps, strict=True)
                ),
            )


def _places(table: RunTable, one: JudgeAnswers, acted: Acted) -> tuple[Floats, Floats, Floats]:
    """Return where it first shows, NaN for nowhere; by tenth, steps that do, and judged steps."""
    first = np.full(len(table), np.nan)
    present, told = (np.zeros((len(table), TENTHS)) for _ in range(2))
    for at, of_run in one.runs.items():
        last = max(int(table.runs.steps[at]) - 1, 1)
        for step, record in of_run.steps.get(0, {}).items():
            own = acted[at]
            if not isinstance(record.answer, Verdict) or (own is not None and step not in own):
                continue
            place = min(step / last, 1.0)
            tenth = min(int(place * TENTHS), TENTHS - 1)
            told[at, tenth] += 1
            if record.answer.label == PRESENT:
                present[at, tenth] += 1
                first[at] = np.fmin(first[at], place)
    return first, present, told


def measure_scores(
    rows: Rows,
    table: RunTable,
    judged: Sequence[JudgeAnswers],
    groups: Sequence[types.Profile],
    where: Where | None = None,
) -> Iterator[types.ScoreMean]:
    """Yield the mean of each judge's step scores by group of runs, with what labels make of it.

    Scores of files are among them where people scored steps, too.
    """
    asked = [one for one in judged if one.main and one.asked.measure == STEP_SCORES]
    of_files = isinstance(rows, RatedRows) and IMPORTED in rows.families(STEP_SCORES)
    if not (asked or of_files):
        return
    ids, labels = table.runs.id.tolist(), read_run_labels(rows, STEP_SCORES, steps=True)
    asked += read_file_scores(rows, table.runs, where) if of_files and labels else ()
    for one in asked:
        chances = rows.drawn(one.rubric) if isinstance(rows, SampledRows) else {}
        even = len({*chances.values()}) < 2
        for of in groups:
            scores, lost = dict[Item, float](), Counter[str]()
            at_of, setups = list[int](), list[str]()
            for at in np.flatnonzero(table.matches(of.group)).tolist():
                if at not in one.runs or (chances and ids[at] not in chances):
                    continue
                for step, record in one.runs[at].steps.get(0, {}).items():
                    answer = record.answer
                    if not isinstance(answer, Verdict) or answer.value is None:
                        lost[_no_answer(record) or UNCERTAIN] += 1
                        continue
                    scores[ids[at], step] = answer.value
                    at_of.append(at)
                    setups.append(f"{record.judge} {record.prompt}")
            places = np.array(at_of, np.int64)
            clusters, starts = table.clusters[places], table.runs.start_ns[places]
            values, name = [*scores.values()], name_group(of)
            mean: Figure = Unmeasured("not_applicable", "runs were drawn with unequal chances")
            if even:
                mean = stats.mean_share(values, clusters, unmeasured=lost, unit_of_n="steps")
            if isinstance(mean, Estimate):
                mean = replace(mean, unit="score")
            given = labels if even else NO_LABELS
            fixed = correct_scores(given, scores, starts, text_array(setups), clusters)
            if scores or lost:
                yield types.ScoreMean(judge=one.asked.judge, group=name, mean=mean, corrected=fixed)


AGAIN, SILENT = "turns when asked again", "turns without the agent's words"


class CurrentAnswer(NamedTuple):
    """A current record of a judge: who was asked what, and what turns the answer, if anything."""

    asked: JudgedQuestion
    record: Record
    turns: tuple[str, ...] = ()


def select_current(records: Iterable[Record]) -> list[CurrentAnswer]:
    """Return what judges say of one run, by judge, measure and step; what rules say is left out."""
    held: list[tuple[JudgedQuestion, Record]] = []
    labels: dict[tuple[str, str, int | None], dict[tuple[str, int], str]] = {}
    judged = [record for record in records if question_of_record(record) is not None]
    for record in current_records(judged):
        key = question_of_record(record)
        if key is None:
            continue
        held.append((key, record))
        answer = record.answer
        if isinstance(answer, Verdict) and answer.label is not None:
            place = (key.judge, key.measure, answer.step)
            labels.setdefault(place, {})[key.mode, record.repeat] = answer.label
    first = choose_modes(key for key, _ in held)
    found = []
    for key, record in held:
        if key in first and not record.repeat:
            given = labels.get((key.judge, key.measure, record.answer.step), {})
            again = {label for (mode, _), label in given.items() if mode == key.mode}
            silent = {label for (_, repeat), label in given.items() if not repeat}
            turns = ((AGAIN, again), (SILENT, silent))
            said = tuple(word for word, answers in turns if len(answers) > 1)
            found.append(CurrentAnswer(key, record, said))
    return sorted(found, key=_order)


def _order(one: CurrentAnswer) -> tuple[str, int, str, int]:
    measure, step = one.asked.measure, one.record.answer.step
    place = list(AXES).index(measure) if measure in AXES else len(AXES)
    return one.asked.judge, place, measure, -1 if step is None else step


def find_patterns(
    trajectory: Trajectory, records: Sequence[Record]
) -> dict[str, dict[PatternName, tuple[LabelPattern, ...]]]:
    """Return the patterns of a run that are there, by the judge whose labels make them."""
    by_judge: dict[str, list[Record]] = {}
    for one in select_current(records):
        if one.asked.measure == STEP_LABELS:
            by_judge.setdefault(one.asked.judge, []).append(one.record)
    passed = {"pass": True, "fail": False}.get(trajectory.outcome.status)
    found = {}
    for judge, labelled in by_judge.items():
        answers = [record.answer for record in labelled if record.answer.step is not None]
        all_ = find_label_patterns(answers, frozenset(agent_steps(trajectory)), passed=passed)
        found[judge] = {n: of for n in PATTERN_NAMES if isinstance(of := all_[n], tuple) and of}
    return found


def describe_pattern(found: Sequence[LabelPattern]) -> str:
    """Return why a pattern is seen: of its first place, and how many there are."""
    return found[0].reason + ("" if len(found) == 1 else f" (the first of {len(found)})")
