"""Judging from a notebook: names become rubrics, models, prices and a ledger.

Nothing is opened and nothing is sent before it is asked for; a dry run needs no key. `rejudge`
asks again about the runs that some judge answered about by the rubric before. Old records stay;
compared are the answers about the same runs, or steps, of the same judge where it was asked before,
else of each earlier judge.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from stepscope import stats
from stepscope.calibrate.ratings import BANDS, Item, label_of
from stepscope.errors import ConfigError, UsageError
from stepscope.judges import judgement
from stepscope.judges.goals import Goal, goals_toml, load_goals, propose_goals
from stepscope.judges.rubrics import Rubric, load_rubrics
from stepscope.ledger.budget import Budget
from stepscope.ledger.calls import CallClients
from stepscope.ledger.ledger import Ledger, ledger_path
from stepscope.model import Answer, Model, Request, Verdict, records
from stepscope.model.records import NOT_MODELS
from stepscope.models import opening
from stepscope.models.batches import open_batches
from stepscope.models.prices import Prices
from stepscope.models.retry import RetryPolicy
from stepscope.report.rows import number_tasks
from stepscope.report.words import format_n
from stepscope.safety import scrub_message
from stepscope.score.judges import JudgePlan, JudgingResult
from stepscope.settings import Settings, read_keys
from stepscope.store import PurgeResult, Store
from stepscope.store.judged import read_judge_answers
from stepscope.store.samples import draw_sample
from stepscope.store.where import Where
from stepscope.values import Estimate, Unmeasured, format_count, format_estimate


class GoalDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A draft of a goals file."""

    text: str  # the file, TOML; nothing in it is confirmed
    tasks: int  # tasks that it has goals for
    goals: int  # their goals
    without_subgoals: int  # runs whose cases have no sub-goals to draft from

    def __str__(self) -> str:
        return (
            f"{format_count(self.tasks, 'task')} with {format_count(self.goals, 'goal')}; "
            f"{format_count(self.without_subgoals, 'run')} without sub-goals to draft from"
        )


def draft_goals(store: Store, where: Where | None) -> GoalDraft:
    """Return a draft of the sub-goals of the chosen runs."""
    drafts: dict[tuple[str, str], tuple[Goal, ...]] = {}
    without = 0
    for run in store.trajectories(where):
        if run.case is None or isinstance(found := propose_goals(run.case), Unmeasured):
            without += 1
        else:
            drafts.setdefault((run.workflow, run.task or run.case.task), found)
    text = goals_toml((*task, goals) for task, goals in drafts.items())
    count = sum(map(len, drafts.values()))
    return GoalDraft(text=text, tasks=len(drafts), goals=count, without_subgoals=without)


def load_named_rubrics(names: str | Sequence[str]) -> tuple[Rubric, ...]:
    """Return the rubrics of these names, sets and files, each once."""
    return load_rubrics(unique_names(names, "rubric"))


def unique_names(given: str | Sequence[str], what: str) -> tuple[str, ...]:
    """Return one or several names as names, each once."""
    names = tuple(dict.fromkeys([given] if isinstance(given, str) else given))
    if not names:
        raise UsageError(f"no {what} is named")
    return names


def plan_questions(
    store: Store,
    settings: Settings,
    judges: Sequence[str],
    asked: Sequence[str],
    *,
    where: Where | None,
    options: judgement.JudgingOptions,
    ledger: Ledger | None = None,  # None where there is none yet, and nothing is asked
) -> JudgePlan:
    """Return what is asked, by the names of judges and rubrics; a sample is drawn, and not kept."""
    chosen = load_rubrics(asked)
    if where is not None and not len(store.runs(where)):
        raise UsageError(store.explain_no_match(where))
    if isinstance(options.goals, str | Path):
        goals = load_goals(Path(options.goals))
        names = sorted(goals.citations() & set(map(str, store.runs().name)))
        cited = {name: store.trajectory(store.find(name)) for name in names}
        options = msgspec.structs.replace(options, goals=replace(goals, cited=cited))
    drawn: dict[str, Container[str]] = dict(options.only)
    if options.sample is not None:
        runs = [str(run) for run in store.runs(where).id]
        for one in chosen:
            some, _ = draw_sample(runs, options.sample, seed=settings.seed, rubric=one.name)
            drawn[one.name] = frozenset(some)
    named = tuple(judgement.configured_judge(name, settings.judges) for name in judges)
    if options.strict_families:
        families = settings.judges.families
        for agent in sorted({str(one) for one in store.runs(where).agent if one is not None}):
            kin = opening.agent_family(agent, families)
            for judge in named:
                if kin is not None and judge.family == kin:
                    raise ConfigError(
                        f"judge {judge.name!r} is of the family of agent {agent!r} ({kin}); name "
                        "another judge, leave these runs out, or leave out --strict-families"
                    )
    key = store.secret("fence")
    key = key if ledger is None else ledger.fence_key(key)
    return JudgePlan(
        store, rubrics=chosen, judges=named, where=where, options=options, drawn=drawn, key=key
    )


def keep_sample(store: Store, settings: Settings, asked: JudgePlan, sample: int) -> None:
    """Keep which runs were drawn, of which, so that estimates can speak of all of them."""
    runs = [str(run) for run in store.runs(asked.where).id]
    for one in asked.rubrics:
        chosen, probability = draw_sample(runs, sample, seed=settings.seed, rubric=one.name)
        store.put_sample(one.name, runs, probability, chosen)


def open_access(
    settings: Settings,
    ledger: Ledger,
    names: Sequence[str],
    judges: Sequence[judgement.Judge],
    *,
    budget: Budget,
    models: Mapping[str, Model] | None,
    batch: bool = False,
) -> CallClients:
    """Return what calls go through; models are opened unless they are given."""
    table = settings.judges
    if models is None:
        models, missing = _open_models(settings, names, judges)
        if missing:
            raise ConfigError("; ".join(missing))
    return CallClients(
        models=models,
        retry=RetryPolicy(random.Random(settings.seed), most=table.concurrency),
        prices=Prices(table),
        ledger=ledger,
        # A name of its own, where it has none: canaries and runs are paid from one budget.
        budget=Budget(budget.name or secrets.token_hex(16), budget.limit_usd),
        # One provider bears so many; several bear them each.
        concurrency=table.concurrency * len({name.partition("/")[0] for name in models}),
        batches={name: open_batches(one, table) for name, one in models.items()} if batch else None,
    )


def _open_models(
    settings: Settings, names: Sequence[str], judges: Sequence[judgement.Judge]
) -> tuple[dict[str, Model], list[str]]:
    # Models of one's own need no key.
    needed = any(opening.OWN_MODEL_MARK not in name for name in names)
    values: Mapping[str, str] = read_keys() if needed else {}
    opened: dict[str, Model] = {}
    missing: list[str] = []
    for name, judge in zip(names, judges, strict=True):
        try:
            opened[judge.name] = opening.open_model(
                name, settings.judges, keys=values, offline=settings.offline
            )
        except ConfigError as e:
            missing.append(str(e))
    return opened, missing


def find_missing(
    settings: Settings, names: Sequence[str], judges: Sequence[judgement.Judge], *, batch: bool
) -> tuple[str, ...]:
    """Return what keeps these judges from being asked, a line each; nothing is sent."""
    models, missing = _open_models(settings, names, judges)
    prices = Prices(settings.judges)
    for judge in judges:
        sdk = opening.needed_sdk(judge.name, settings.judges)
        # A key that is missing is told before its SDK is looked for.
        if sdk and judge.name not in models and not any(f"[{sdk}]" in one for one in missing):
            missing.append(f"judge {judge.name!r} needs pip install 'stepscope[{sdk}]'")
        if not sdk and not prices.source(judge.name):  # prices come with it
            missing.append(prices.advice(judge.name))
    for one in models.values() if batch else ():
        try:
            open_batches(one, settings.judges)
        except ConfigError as e:
            missing.append(str(e))
    return tuple([scrub_message(one) for one in missing])


class PlannedRequest(msgspec.Struct, frozen=True):
    """One request as it would be sent."""

    judge: str  # to whom
    rubric: str  # by what
    request: Request

    def __str__(self) -> str:
        """Say it as its texts, each under a line that names it."""
        asked, schema = self.request, msgspec.json.format(msgspec.json.encode(self.request.schema))
        texts = {
            "system": asked.system,
            "context": asked.context,
            "question": asked.question,
            f"answer, as {asked.schema_name}": schema.decode(),
        }
        head = f"=== {self.judge}, {self.rubric}: at most {asked.max_output_tokens:,} tokens back"
        head += f", {len(asked.media):,} images" if asked.media else ""
        return "\n".join([head, *(f"--- {name}\n{text}" for name, text in texts.items())])


def plan_requests(plan: JudgePlan) -> tuple[PlannedRequest, ...]:
    """Return the requests of a plan; nothing is kept."""
    with plan.open_files():
        asked = [(one, ask.request) for one, _ in plan.planned for ask in one.asks]
        return tuple([PlannedRequest(one.judge.name, one.rubric, sent) for one, sent in asked])


class JudgeFinding(msgspec.Struct, frozen=True):
    """What one judge found by one rubric."""

    judge: str  # who answered
    rubric: str  # by what, and in which mode where it is not the usual one
    judged: int  # runs with a verdict
    faulted: int  # runs of which it names a fault
    first: str = ""  # the name of one of these
    step: int | None = None  # the first step that it cites there

    def __str__(self) -> str:
        said = f"{self.judge}, {self.rubric}: faults in {self.faulted:,} of {self.judged:,} runs"
        at = "" if self.step is None else f" at step {self.step}"
        return f"{said}, as in {self.first}{at}" if self.faulted else said


def find_faulted(
    store: Store, rubrics: Iterable[Rubric], where: Where | None
) -> tuple[JudgeFinding, ...]:
    """Return what judges found by these rubrics, the most faults first."""
    runs = store.runs(where)
    failing = {judgement.record_measure(one): one.failing for one in rubrics}
    scores = records.STEP_SCORES
    # Scores have no label: those of the lowest band fail.
    failing |= {scores: (BANDS[0][1],)} if scores in failing else {}
    found: list[JudgeFinding] = []
    for one in read_judge_answers(store, runs, where):
        measure = one.asked.measure
        bad = failing.get(measure if measure == scores else records.JUDGE_PREFIX + measure, ())
        faults: dict[int, tuple[int, ...]] = {}
        judged: set[int] = set()
        for at, of_run in one.runs.items():
            said = [*of_run.whole.values(), *(x for s in of_run.steps.values() for x in s.values())]
            for answer in [x.answer for x in said if isinstance(x.answer, Verdict)]:
                judged.add(at)
                if (label_of(answer) if measure == scores else answer.label) in bad:
                    faults.setdefault(at, answer.cites)
        if bad:
            rubric = f"{one.rubric} {one.asked.mode}".rstrip()
            finding = JudgeFinding(one.asked.judge, rubric, len(judged), len(faults))
            if faults:
                run, step = runs.name[min(faults)], min(faults[min(faults)], default=None)
                finding = msgspec.structs.replace(finding, first=str(run), step=step)
            found.append(finding)
    return tuple(sorted(found, key=lambda one: -one.faulted))


def find_ledger(store: Store) -> str | None:
    """Return where the ledger of a store lies; None where there is none."""
    path = ledger_path(store.path)
    return path if Path(path).is_file() else None


def purge_replies(store: Store, purged: PurgeResult, ledger: Ledger) -> PurgeResult:
    """Erase the replies about purged runs, too; return what was erased and what remains."""
    erased = ledger.erase(store.purged())
    left = sum(ledger.states().values())
    line = f"{ledger.path}: {left:,} questions to judges, their prices and states"
    return msgspec.structs.replace(purged, replies=erased, remains=(*purged.remains, line))


# Turned runs that are named; the others are counted.
MOST_NAMED = 5

# Rubric, judge without its snapshot, version, prompt: who answered, and what it was asked.
AnswerKey = tuple[str, str, str, str]
AnswersByKey = Mapping[AnswerKey, Mapping[Item, Answer]]


class ChangedAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """How the answers of one judge differ from earlier ones about the same runs."""

    rubric: str  # by which both were asked
    judge: str  # who was asked now
    before: str  # who was asked before
    was: str  # version and prompt hash of the earlier question
    changed: Estimate | Unmeasured  # share of runs, or of steps judged alone, with another label
    runs: tuple[str, ...]  # names of the first few of them, with both labels

    def __str__(self) -> str:
        who = f"{self.rubric}: {self.judge}, before {self.before} ({self.was})"
        if isinstance(self.changed, Unmeasured):
            return f"{who}: {self.changed.kind}: {self.changed.reason}"
        line = f"{who}: {format_estimate(self.changed)} of {format_n(self.changed)} changed"
        return "\n".join([line, *(f"  {run}" for run in self.runs)])


class RejudgeResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one call of `rejudge` did: what was bought, and which answers changed."""

    judged: JudgingResult
    turned: tuple[ChangedAnswers, ...]

    def __str__(self) -> str:
        return "\n".join([str(self.judged), *map(str, self.turned)])


def read_first_answers(
    store: Store, rubrics: str | Sequence[str], where: Where | None
) -> dict[AnswerKey, dict[Item, Answer]]:
    """Return the first answers of all judges by these rubrics, by who was asked what."""
    named = [(one.name, judgement.record_measure(one)) for one in load_named_rubrics(rubrics)]
    return find_first_answers(store, named, where)


def find_first_answers(
    store: Store, rubrics: Iterable[tuple[str, str]], where: Where | None
) -> dict[AnswerKey, dict[Item, Answer]]:
    """Return the same of rubrics named with their measures, whether their texts are here or not."""
    found: dict[AnswerKey, dict[Item, Answer]] = {}
    for rubric, measure in rubrics:
        for record in store.records(where, measure=measure):
            first = record.family not in NOT_MODELS and record.repeat < records.DRIFT_REPEAT
            if record.rubric == rubric and first:
                asked = (rubric, record.judge.partition("@")[0], record.version, record.prompt)
                item = (record.trajectory, record.answer.step)
                found.setdefault(asked, {}).setdefault(item, record.answer)
    return found


def ask_again(
    store: Store,
    rubrics: str | Sequence[str],
    where: Where | None,
    judges: str | Sequence[str],
    how: judgement.JudgingOptions | None,
) -> tuple[AnswersByKey, str | Sequence[str], judgement.JudgingOptions]:
    """Return earlier answers, these judges or who gave them, and how to ask about their runs."""
    before = read_first_answers(store, rubrics, where)
    runs = {rubric.name: frozenset[str]() for rubric in load_named_rubrics(rubrics)}
    if not before:
        names = ", ".join(runs)
        raise UsageError(
            f"nothing to judge again: no judge answered by {names} about these runs; "
            "stepscope judge --judge PROVIDER/MODEL asks one"
        )
    for asked, answers in before.items():
        runs[asked[0]] |= {run for run, _ in answers}
    plan = msgspec.structs.replace(how or judgement.DEFAULT_OPTIONS, only=runs, again=True)
    return before, judges or sorted({asked[1] for asked in before}), plan


def _labels(answers: Mapping[Item, Answer]) -> dict[Item, str]:
    """Return what answers are compared by; that about a run whose steps have labels is a count."""
    return {
        item: label_of(answer)
        for item, answer in answers.items()
        if isinstance(answer, Verdict) and (answer.label or answer.step is not None)
    }


def compare_answers(
    store: Store, before: AnswersByKey, after: AnswersByKey
) -> tuple[ChangedAnswers, ...]:
    """Return how what was asked now differs from what was asked before, question by question."""
    runs = store.runs()
    tasks = dict(zip(runs.id.tolist(), number_tasks(runs).tolist(), strict=True))
    names = dict(zip(runs.id.tolist(), runs.name.tolist(), strict=True))
    found: list[ChangedAnswers] = []
    for asked in sorted(after.keys() - before.keys()):
        earlier = [one for one in sorted(before) if one[0] == asked[0]]
        later = _labels(after[asked])
        for was in [one for one in earlier if one[1] == asked[1]] or earlier:
            first = _labels(before[was])
            both = [item for item in first.keys() & later.keys() if item[0] in names]
            both.sort(key=lambda item: (names[item[0]], item[0], item[1] or 0))
            labels = [(first[item], later[item]) for item in both]
            turned = np.asarray([old != new for old, new in labels], dtype=np.float64)
            lines = [
                f"{names[run]}{'' if step is None else f' step {step}'}: {old} -> {new}"
                for (run, step), (old, new) in zip(both, labels, strict=True)
                if old != new
            ]
            unit = "runs" if all(step is None for _, step in both) else "steps"
            changed = ChangedAnswers(
                rubric=asked[0],
                judge=asked[1],
                before=was[1],
                was=f"version {was[2]}, prompt {was[3]}",
                changed=stats.proportion(turned, [tasks[run] for run, _ in both], unit_of_n=unit),
                runs=tuple(lines[:MOST_NAMED]),
            )
            found.append(changed)
    return tuple(found)
