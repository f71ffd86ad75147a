"""What judges say of the chosen runs: agreement, disputes, patterns, flags, costs, one worked run.

Records are read and counted; no judge is asked, and no judge is corrected. A store without records
of judges has no panels. A price that is not known is counted, never taken for 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from stepscope.calibrate.agreement import labelling_queue, measure_agreement
from stepscope.calibrate.ratings import BESIDE, load_agent_steps
from stepscope.errors import StoreError
from stepscope.judges.patterns import (
    PATTERN_ADVICE,
    PATTERN_NAMES,
    UNKNOWN_OUTCOME,
    PatternName,
    PatternSteps,
    find_label_patterns,
)
from stepscope.model import Record, Step, Verdict
from stepscope.model.records import NARRATION_OFF, RULES
from stepscope.model.records import STEP_LABELS_NAME as STEP_LABELS
from stepscope.model.records import STEP_SCORES as SCORES
from stepscope.models.configured import JudgesTable
from stepscope.models.opening import agent_family
from stepscope.models.prices import Prices
from stepscope.report import types, votes, words
from stepscope.report.rows import RunTable, read_shown_run, sort_findings
from stepscope.report.votes import Acted, PanelAspect
from stepscope.safety.text import visible_line
from stepscope.stats.sample import Bools
from stepscope.store import Store
from stepscope.store.columns import Rows
from stepscope.store.judged import JudgeAnswers, RunAnswers, name_and_snapshot
from stepscope.store.where import Where
from stepscope.values import Unmeasured, sum_known

# Disputed runs and steps that a report holds.
QUEUE = 5
_NO_CITES = Unmeasured("not_applicable", "no step is cited")


def compare_judges(
    rows: Rows, rubrics: Iterable[str], *, where: Where | None, seed: int, version: str | None
) -> Iterator[types.PairAgreement]:
    """Yield how far each pair of judges agrees on each rubric."""
    for rubric in dict.fromkeys(rubrics):
        found = measure_agreement(rows, rubric=rubric, where=where, version=version, seed=seed)
        for aspect in found.aspects:
            family = {rater.name: rater.family for rater in aspect.raters}
            for pair in aspect.pairs:
                if pair.n and aspect.name == rubric:
                    yield types.PairAgreement(
                        rubric=rubric,
                        unit=aspect.unit,
                        judges=pair.raters,
                        families=tuple(family[name] for name in pair.raters),
                        raw=pair["raw"],
                        kappa=pair["kappa"],
                        ac1=pair["gwet"],
                        cites=pair.figures.get("jaccard", _NO_CITES),
                        sentence=pair.sentence,
                    )


def list_disputes(
    rows: Rows, where: Where | None, version: str | None
) -> tuple[tuple[types.DisputedRun, ...], int]:
    """Return the most telling disputes, and how many there are."""
    queue = labelling_queue(rows, where=where, version=version)
    all_ = [one for one in queue if one.aspect != SCORES]
    found = tuple(
        types.DisputedRun(
            id=one.run,
            name=one.name,
            rubric=one.aspect,
            step=one.step,
            answers={answer.rater: answer.label for answer in one.answers},
            steps=tuple(sorted({step for answer in one.answers for step in answer.cites})),
        )
        for one in all_[:QUEUE]
    )
    return found, len(all_)


def count_costs(judged: Sequence[JudgeAnswers]) -> tuple[types.JudgeCost, ...]:
    """Return what each judge took, by name."""
    by_judge: dict[str, list[Record]] = {}
    for one in judged:
        for _, record in one.all:
            if record.usage is not None or record.cost_usd is not None:
                by_judge.setdefault(one.asked.judge, []).append(record)
    return tuple(_cost(judge, by_judge[judge]) for judge in sorted(by_judge))


def _cost(judge: str, records: Sequence[Record]) -> types.JudgeCost:
    usages = [record.usage for record in records if record.usage is not None]
    paid = [record.cost_usd for record in records if record.cost_usd is not None]
    cached = [record for record in records if record.usage is not None and record.usage.cache_read]
    prices = Prices(JudgesTable()) if cached else None
    saved = [f for record in cached if prices and (f := _saved(record, prices)) is not None]
    return types.JudgeCost(
        judge=judge,
        calls=len(records),
        input_tokens=sum_known(usage.input_total for usage in usages),
        cached_tokens=sum_known(usage.cache_read for usage in usages),
        output_tokens=sum_known(usage.output_total for usage in usages),
        usd=sum(paid) if paid else None,
        unpriced=len(records) - len(paid),
        usd_saved=sum(saved) if saved else None,
    )


def _saved(record: Record, prices: Prices) -> float | None:
    if record.usage is None:
        return None
    judge, snapshot = name_and_snapshot(record)
    listed = prices.cost(judge, record.usage, model=snapshot)
    saved = prices.saved(judge, record.usage, model=snapshot)
    if not listed or saved is None or record.cost_usd is None:
        return None
    # A batch, or a price of the user's own, is so much of the listed one.
    return max(saved, 0.0) * record.cost_usd / listed


# Runs that a flag names.
NAMED_RUNS = 5
# An endpoint ignores the schema where this share of its answers, of at least so many, breaks it.
BROKEN, OF_AT_LEAST = 0.2, 5
BREACHES = {"not_json", "off_menu", "wrong_type", "missing_field", "out_of_range"}
BREACHES |= {"missing_step", "duplicate_step", "extra_step"}

Family = Callable[[str], str | None]


def find_flags(
    table: RunTable, judged: Sequence[JudgeAnswers], panels: Sequence[types.Panel], family: Family
) -> tuple[types.VerdictFlag, ...]:
    """Return every flag, by kind; `family` says which family an agent is of, if it is known."""
    by_mode = {(one.asked.measure, one.asked.judge): one for one in judged if one.main}
    found: list[types.VerdictFlag] = list(_kin(table, judged, family))
    for one in judged:
        key = one.asked.measure, one.asked.judge
        if f"+{one.asked.mode}" == NARRATION_OFF and not one.main:
            with_it, said = by_mode[key], "turns without the agent's narration"
            both = with_it.runs.keys() & one.runs.keys()
            turned = _names(table, (at for at in both if _turns(with_it.runs[at], one.runs[at])))
            found.append(_flag_answers("narration_dependent", with_it, said, turned))
        if one.main:
            found += _of_one(table, one)
    found += _outranked(table, judged)
    found += _ignored(table, judged)
    found += _unequal(panels)
    kept = [flag for flag in found if flag.n]
    return tuple(sorted(kept, key=lambda flag: (flag.kind, flag.judge, flag.said)))


def _flag(
    kind: types.VerdictFlagKind, judge: str, said: str, runs: Sequence[str]
) -> types.VerdictFlag:
    named = tuple(runs[:NAMED_RUNS])
    return types.VerdictFlag(kind=kind, judge=judge, said=said, n=len(runs), runs=named)


def _flag_answers(
    kind: types.VerdictFlagKind, one: JudgeAnswers, said: str, runs: Sequence[str]
) -> types.VerdictFlag:
    return _flag(kind, one.asked.judge, f"{one.asked.measure}: {said}", runs)


def _names(table: RunTable, places: Iterable[int]) -> list[str]:
    return [str(table.runs.name[at]) for at in sorted(places)]


def _kin(
    table: RunTable, judged: Sequence[JudgeAnswers], family: Family
) -> Iterator[types.VerdictFlag]:
    agents = {agent: family(agent) for agent in set(table.runs.agent.tolist()) if agent}
    own: dict[tuple[str, str, str], set[int]] = {}
    for one in judged:
        for at in one.runs:
            agent = table.runs.agent[at]
            if agent and agents[agent] == one.asked.family:
                own.setdefault((one.asked.judge, one.asked.family, agent), set()).add(at)
    for (judge, of, agent), places in sorted(own.items()):
        said = f"judges runs of {agent}, a model of its own family ({of})"
        yield _flag("self_family", judge, said, _names(table, places))


def _of_one(table: RunTable, one: JudgeAnswers) -> Iterator[types.VerdictFlag]:
    runs = {at: str(table.runs.name[at]) for at in sorted(one.runs)}
    turned = [name for at, name in runs.items() if _flips(one.runs[at])]
    yield _flag_answers("flips", one, "turns when it is asked again", turned)
    why = {at: record.answer.reason for at in runs if (record := one.runs[at].verdict) is not None}
    missed = [runs[at] for at, reason in why.items() if reason.startswith("canary_missed:")]
    yield _flag_answers("canary_missed", one, "set aside: it missed a planted step", missed)
    if len(one.snapshots) > 1:
        counts = ", ".join(f"{name or 'as asked'} {n:,}" for name, n in one.snapshots.items())
        yield _flag_answers("snapshots_mixed", one, f"answered by {counts}", list(runs.values()))
    if len(one.prompts) > 1:
        said = f"judged under {len(one.prompts):,} prompts of version {one.version}"
        yield _flag_answers("prompts_mixed", one, said, list(runs.values()))
    for version, n in one.older.items():
        said = f"{one.asked.measure}: answers of version {version} are not used"
        yield types.VerdictFlag(kind="older_answers", judge=one.asked.judge, said=said, n=n)


def _outranked(table: RunTable, judged: Sequence[JudgeAnswers]) -> Iterator[types.VerdictFlag]:
    """Yield the judges that find no fault at all in runs that are known to have failed."""
    praised: dict[str, set[int]] = {}
    faulted: dict[str, set[int]] = {}
    for one in judged:
        for at, of_run in one.runs.items():
            if votes.is_outranked(of_run.verdict):
                praised.setdefault(one.asked.judge, set()).add(at)
            elif _label(of_run.verdict) == words.INCORRECT:
                faulted.setdefault(one.asked.judge, set()).add(at)
    for judge, places in sorted(praised.items()):
        said = "finds no fault in runs whose state check failed: the check decides"
        yield _flag("outranked", judge, said, _names(table, places - faulted.get(judge, set())))


def _label(record: Record | None) -> str | None:
    if record is None or not isinstance(record.answer, Verdict):
        return None
    return record.answer.label


def _flips(of_run: RunAnswers) -> bool:
    told: list[tuple[int | None, Record]] = [(None, record) for record in of_run.whole.values()]
    told += [one for steps in of_run.steps.values() for one in steps.items()]
    labels: dict[int | None, set[str]] = {}
    for step, record in told:
        if (label := _label(record)) is not None:
            labels.setdefault(step, set()).add(label)
    return any(len(given) > 1 for given in labels.values())


def _turns(first: RunAnswers, second: RunAnswers) -> bool:
    steps, others = first.steps.get(0, {}), second.steps.get(0, {})
    pairs: list[tuple[Record | None, Record | None]] = [(first.verdict, second.verdict)]
    pairs += [(steps[step], others[step]) for step in steps.keys() & others.keys()]
    labels = [(_label(one), _label(other)) for one, other in pairs]
    return any(None not in pair and pair[0] != pair[1] for pair in labels)


def _ignored(table: RunTable, judged: Sequence[JudgeAnswers]) -> Iterator[types.VerdictFlag]:
    """Yield the judges whose answers often do not have the form that was asked for."""
    asked: dict[str, int] = {}
    broken: dict[str, set[int]] = {}
    for one in judged:
        for at, of_run in one.runs.items():
            if (record := of_run.verdict) is None:
                continue
            judge, answer = one.asked.judge, record.answer
            asked[judge] = asked.get(judge, 0) + 1
            lost = isinstance(answer, Unmeasured) and answer.kind
            if lost and votes.classify_absence(answer.reason, lost) in BREACHES:
                broken.setdefault(judge, set()).add(at)
    for judge, places in sorted(broken.items()):
        if asked[judge] >= OF_AT_LEAST and len(places) >= BROKEN * asked[judge]:
            said = f"answers do not have the form that was asked for, of {asked[judge]:,}"
            yield _flag("schema_ignored", judge, said, _names(table, places))


def _unequal(panels: Sequence[types.Panel]) -> Iterator[types.VerdictFlag]:
    """Yield the panels before which some groups came with other judges than others did."""
    for panel in panels:
        of_group = {
            group.title: frozenset(s.judge for s in group.seats if s.not_judged < group.n_runs)
            for group in panel.groups
        }
        whole = frozenset().union(*of_group.values())
        for title, judges in of_group.items():
            if judges and judges != whole:
                absent = ", ".join(sorted(whole - judges))
                said = f"{panel.rubric}: {title} was not judged by {absent}"
                yield types.VerdictFlag(kind="unequal_panels", judge=absent, said=said, n=1)


# Runs that a pattern names.
NAMED_EXAMPLES = 5
_PASSED = {"pass": True, "fail": False}


def count_pattern_runs(
    judged: Sequence[JudgeAnswers],
    groups: Sequence[types.Profile],
    aspect: PanelAspect,
    steps: Acted,
) -> Iterator[types.PatternShare]:
    """Yield each pattern, by judge and group; `aspect` says how the runs were drawn."""
    table = aspect.table
    for one in judged:
        if one.asked.measure != STEP_LABELS or not one.main:
            continue
        of_run = {at: found for at in one.runs if (found := _of(table, one, at, steps)) is not None}
        for of in groups:
            chosen = table.matches(of.group)
            mine = {at: found for at, found in of_run.items() if chosen[at]}
            for name in PATTERN_NAMES:
                yield _pattern(mine, name, words.name_group(of), aspect, one.asked.judge)


def _of(table: RunTable, one: JudgeAnswers, at: int, steps: Acted) -> PatternSteps | None:
    within = steps[at]
    if within is None:
        return None
    told = one.runs[at].steps.get(0, {})
    # A step that nobody says anything of can hide a pattern, like one that could not be read.
    untold = [Unmeasured("missing_input", "no label", STEP_LABELS, s) for s in within - told.keys()]
    answers = [*(record.answer for record in told.values()), *untold]
    return find_label_patterns(answers, within, passed=_PASSED.get(str(table.runs.outcome[at])))


def _pattern(
    of_run: dict[int, PatternSteps], name: PatternName, group: str, aspect: PanelAspect, judge: str
) -> types.PatternShare:
    table = aspect.table
    shows, told = (np.zeros(len(table), np.bool_) for _ in range(2))
    why: dict[str, Bools] = {}
    for at, found in of_run.items():
        seen = found[name]
        if isinstance(seen, tuple):
            told[at], shows[at] = True, bool(seen)
        else:
            lost = seen.reason if seen == UNKNOWN_OUTCOME else seen.kind
            why.setdefault(lost, np.zeros(len(table), np.bool_))[at] = True
    names = [str(table.runs.name[at]) for at in np.flatnonzero(shows).tolist()]
    return types.PatternShare(
        name=name,
        judge=judge,
        group=group,
        share=aspect.share(shows, told, why),
        n=len(names),
        unknown=int(why.get(UNKNOWN_OUTCOME.reason, np.zeros(0)).sum()),
        runs=tuple(names[:NAMED_EXAMPLES]),
        advice=PATTERN_ADVICE[name],
    )


# Characters of a step's line, and steps that are told.
TOLD, MOST_STEPS = 160, 8


def choose_worked_trace(
    store: Store, table: RunTable, aspects: Sequence[PanelAspect], judged: Sequence[JudgeAnswers]
) -> types.WorkedTrace | None:
    """Return the run that shows most; None where no run was answered by two judges."""
    axes = [aspect for aspect in aspects if aspect.failing == words.INCORRECT]
    for at in _order(table, axes):
        try:
            trajectory, _, records = read_shown_run(store, str(table.runs.id[at]), judged)
        except StoreError:
            continue  # its texts were purged; another run serves as well
        lines = tuple(_lines(records, [aspect.rubric for aspect in axes]))
        cited = sorted({step for line in lines for step in line.common})
        steps = []
        for at in [at for at in cited if 0 <= at < len(trajectory.steps)][:MOST_STEPS]:
            text = words.cut_words(visible_line(_said(trajectory.steps[at])), TOLD)
            steps.append(types.TraceStep(step=at, actor=trajectory.steps[at].actor, text=text))
        id_, name, outcome = trajectory.id, trajectory.name, trajectory.outcome.status
        return types.WorkedTrace(
            id=id_, name=name, outcome=outcome, lines=lines, steps=tuple(steps)
        )
    return None


def _order(table: RunTable, axes: Sequence[PanelAspect]) -> Iterator[int]:
    """Yield places of runs that two judges answered, the most telling first."""
    n = len(table)
    found, shared = np.zeros(n), np.zeros(n)
    for aspect in axes:
        sitting = [vote for vote in aspect.votes if vote.answered.any()]
        if len(sitting) > 1:
            # The rules speak only where they prove a fault.
            said = [v.failing if v.member.family == RULES else v.answered for v in sitting]
            answers = np.sum(said, axis=0)
            faults = np.sum([vote.failing & vote.answered for vote in sitting], axis=0)
            shared += answers > 1
            found += (answers > 1) & (faults == answers)
    yield from (int(at) for at in np.lexsort((np.arange(n), -shared, -found)) if shared[at])


def _lines(records: Sequence[Record], rubrics: Sequence[str]) -> Iterator[types.TraceLine]:
    answers: dict[str, list[types.TraceAnswer]] = {}
    for one in votes.select_current(records):
        answer = one.record.answer
        if isinstance(answer, Verdict) and answer.step is None and answer.label is not None:
            judge, sure, cites = one.asked.judge, answer.confidence, answer.cites
            said = types.TraceAnswer(judge=judge, label=answer.label, confidence=sure, cites=cites)
            answers.setdefault(one.asked.measure, []).append(said)
    rules = sort_findings(records).whole
    for rubric in rubrics:
        here = answers.get(rubric, [])
        verdict = rules.get(rubric)
        if verdict is not None and verdict.label == words.INCORRECT:
            here.append(types.TraceAnswer(judge=RULES, label=verdict.label, cites=verdict.cites))
        if here:
            by_label: dict[str, Counter[int]] = {}
            for told in here:
                by_label.setdefault(told.label, Counter()).update(set(told.cites))
            common = {step for cited in by_label.values() for step, n in cited.items() if n > 1}
            yield types.TraceLine(rubric=rubric, answers=tuple(here), common=tuple(sorted(common)))


def _said(step: Step) -> str:
    if step.calls:
        return ", ".join(words.describe_call(call, None) for call in step.calls)
    if step.results:
        return ", ".join(words.quote_result(result) for result in step.results)
    return step.text or f"({step.kind}, no text)"


# The order in which rubrics are told; those of users come behind.
SETS = ("axes", "quality", "step_labels", "behaviour", "attribution")


def build_panels(
    rows: Rows,  # where their records are
    table: RunTable,  # the runs, as a report reads them
    groups: Sequence[types.Profile],  # the report's groups of these runs
    found: Sequence[JudgeAnswers],  # what judges answered about them
    *,
    where: Where | None = None,  # what chose the runs
    version: str | None = None,  # of rubrics, that `found` was read under
    seed: int = 0,  # where random draws start
) -> types.Panels | None:
    """Return what judges say of the runs of a table; None where none was asked."""
    scores = tuple(votes.measure_scores(rows, table, found, groups, where))
    if not found and not scores:
        return None
    asked = [one for one in found if one.asked.measure != SCORES]
    asked = [one for one in asked if not one.asked.measure.endswith(BESIDE)]
    ids = table.runs.id.tolist()
    of_steps = [one for one in asked if one.asked.measure.startswith((STEP_LABELS, "behaviour."))]
    known = load_agent_steps(rows, table.runs, {ids[at] for one in of_steps for at in one.runs})
    steps = [known.get(run) for run in ids]  # the agent's steps, None where no step was judged
    all_ = sorted(votes.read_aspects(rows, table, asked, steps), key=lambda one: _place(one.rubric))
    claims = votes.adjust_claims([votes.claim_differences(aspect, groups, seed) for aspect in all_])
    whole = [
        types.Panel(
            rubric=aspect.rubric,
            failing=aspect.failing,
            members=tuple([one.member for one in aspect.votes]),
            groups=tuple([votes.measure_group(aspect, of) for of in groups]),
            claims=made,
            drawn=aspect.probability is not None,
        )
        for aspect, made in zip(all_, claims, strict=True)
    ]
    labels = next((aspect for aspect in all_ if aspect.rubric == STEP_LABELS), None)
    patterns = () if labels is None else count_pattern_runs(asked, groups, labels, steps)
    measures = {one.asked.measure for one in asked}
    spoken = {aspect.rubric for aspect in all_}
    apart, n_disputed = list_disputes(rows, where, version)
    rubrics = sorted(measures, key=_place)
    return types.Panels(
        panels=tuple(whole),
        answers=tuple(_answers(table, [o for o in asked if o.asked.measure not in spoken], groups)),
        scores=scores,
        patterns=tuple(patterns),
        onsets=tuple(votes.measure_onsets(table, asked, groups, all_, steps)),
        agreement=tuple(compare_judges(rows, rubrics, where=where, seed=seed, version=version)),
        queue=apart,
        n_disputed=n_disputed,
        trace=choose_worked_trace(rows, table, all_, asked) if isinstance(rows, Store) else None,
        flags=(*find_flags(table, found, whole, family=agent_family), *_not_drawn(table, all_)),
        costs=count_costs(found),
        judges=tuple(sorted({one.asked.judge for one in found} | {one.judge for one in scores})),
    )


def _place(rubric: str) -> tuple[int, int, str]:
    """Return where a rubric stands: sets in their order, the axes in theirs, then by name."""
    axes, of = list(words.AXES), rubric.partition(".")[0]
    of_set = SETS.index(of) if of in SETS else len(SETS)
    return of_set, axes.index(rubric) if rubric in words.AXES else 0, rubric


def _not_drawn(table: RunTable, aspects: Sequence[PanelAspect]) -> Iterator[types.VerdictFlag]:
    for aspect in aspects:
        asked = np.logical_or.reduce([one.asked for one in aspect.votes])
        outside = table.runs.name[asked & ~aspect.inside].tolist()
        if outside:
            said = f"{aspect.rubric}: judged, but outside of the sample that was drawn"
            yield _flag("not_drawn", "", said, outside)


def _answers(
    table: RunTable, judged: Sequence[JudgeAnswers], groups: Sequence[types.Profile]
) -> Iterator[types.AnswerCounts]:
    for one in judged:
        if not one.main:
            continue
        for of in groups:
            counts: Counter[str] = Counter()
            lost: Counter[str] = Counter()
            for at in np.flatnonzero(table.matches(of.group)).tolist():
                record = one.runs[at].verdict if at in one.runs else None
                answer = None if record is None else record.answer
                if isinstance(answer, Unmeasured):
                    lost[votes.classify_absence(answer.reason, answer.kind)] += 1
                elif answer is not None and answer.label is not None:
                    counts[answer.label] += 1
            if counts or lost:
                rubric, judge, group = one.asked.measure, one.asked.judge, words.name_group(of)
                told, gone = (dict(sorted(each.items())) for each in (counts, lost))
                yield types.AnswerCounts(
                    rubric=rubric, judge=judge, group=group, counts=told, lost=gone
                )
