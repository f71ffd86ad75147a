"""Rubrics of a store and its working directory: locked, listed, and refused where they must be.

An evaluation set is the held-out part of a frozen corpus that the settings name, or the runs with a
tag `evaluation`, whose value names the set. Judging one by a rubric that is not locked, or changed
since, is refused; `allow_unlocked` judges, and marks the version of every record. A test set is
consumed in the lock before the first question is sent. Judges are asked about fixed runs again, to
see whether they have shifted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from stepscope.api.judging import load_named_rubrics, read_first_answers
from stepscope.calibrate.adopt import MARGIN, Adoption, choose_labels, compare_judges
from stepscope.calibrate.agreement import measure_agreement
from stepscope.calibrate.drift import FEWEST_RUNS
from stepscope.calibrate.history import RubricHistory, trace_rubric
from stepscope.calibrate.ratings import Item
from stepscope.cases.split import find_split
from stepscope.errors import UsageError
from stepscope.judges import judgement
from stepscope.judges import lock as locks
from stepscope.judges.rubrics import BUILT_IN_RUBRICS, load_rubric, load_rubrics, system_prompt
from stepscope.model import Answer, Record
from stepscope.model.records import DRIFT_REPEAT, JUDGE_PREFIX, NOT_MODELS, Change
from stepscope.report.rows import number_tasks
from stepscope.score.judges import JudgePlan
from stepscope.settings import Settings
from stepscope.store import Store
from stepscope.store.judged import MODE, judge_version_order
from stepscope.store.samples import draw_sample
from stepscope.store.where import Where
from stepscope.values import Unmeasured, format_count, format_estimate


class RubricState(msgspec.Struct, frozen=True):
    """A rubric as `rubric list` shows it."""

    name: str
    version: str
    unlocked: str  # why it is not locked; "" where it is
    entry: locks.LockedRubric | None  # as it is in the lock

    def __str__(self) -> str:
        """Say it in a line."""
        said = f"{self.name:<28} {self.version:>7}  {self.unlocked or 'locked'}"
        if self.entry is None:
            return said
        agreed = self.entry.agreement
        if agreed is not None and not isinstance(agreed, Unmeasured):
            said += f"; {self.entry.agreed} {format_estimate(agreed)}"
        said += f"; tuned on {format_count(len(self.entry.development), 'run')}"
        seen = [f"{one.name} (by version {one.version})" for one in self.entry.tests]
        return said + (f"; test sets consumed: {', '.join(seen)}" if seen else "")


def list_rubrics(names: Sequence[str], folder: Path = Path()) -> tuple[RubricState, ...]:
    """Return the rubrics of these names, sets and files; all that are known when none is named."""
    lock = locks.read_lock(folder)
    own = [one.path for one in lock.rubric if one.path]
    rubrics = load_rubrics(names or (*BUILT_IN_RUBRICS, *(str(folder / one) for one in own)))
    why = {one.name: locks.explain_unlocked(one, lock) for one in rubrics}
    return tuple([RubricState(x.name, x.version, why[x.name], lock.get(x.name)) for x in rubrics])


def lock_rubrics(
    store: Store | None,
    settings: Settings,
    names: Sequence[str],
    where: Where | None = None,
    folder: Path = Path(),
) -> tuple[locks.LockedRubric, ...]:
    """Lock rubrics as they are, with what the store knows of them; return their entries.

    The development set is every run that some judge answered by a rubric, at any version, but for
    runs of evaluation sets; `where` narrows it.
    """
    paths = {load_rubric(one).name: one for one in names if one.endswith(".md") or "/" in one}
    tested = {} if store is None else find_evaluation_runs(store, settings, where)
    entries = []
    with locks.change_lock(folder) as lock:
        for rubric in load_named_rubrics(names):
            entry = locks.lock_rubric(rubric, paths.get(rubric.name, ""), lock)
            if store is not None:
                measure = judgement.record_measure(rubric)
                told = [
                    x for x in store.records(where, measure=measure) if x.family not in NOT_MODELS
                ]
                records = [one for one in told if one.trajectory not in tested]
                entry = _describe(store, entry, measure, records)
            entries.append(entry)
        locks.write_lock(folder, lock.put(entries))
    return tuple(entries)


def _describe(
    store: Store, entry: locks.LockedRubric, measure: str, records: Sequence[Record]
) -> locks.LockedRubric:
    ids = {one.trajectory for one in records}
    judges: dict[str, set[str]] = {}
    for one in records:
        if one.version == entry.version:
            name, _, snapshot = one.judge.partition("@")
            judges.setdefault(name, set()).add(snapshot)
    known = {*entry.development, *(run[: locks.ID_DIGITS] for run in ids)}
    snapshots = {judge: tuple(sorted(judges[judge] - {""})) for judge in sorted(judges)}
    entry = replace(entry, judges=snapshots, development=tuple(sorted(known)))
    among, name = store.among(sorted(ids), (), "development"), measure.removeprefix(JUDGE_PREFIX)
    found = measure_agreement(store, rubric=name, where=among).aspects if ids else ()
    if not found:
        return entry
    said = f"AC1 of {format_count(found[0].together.n, 'item')}"
    return replace(entry, agreement=found[0].ac1, agreed=said)


def find_evaluation_runs(store: Store, settings: Settings, where: Where | None) -> dict[str, str]:
    """Return the evaluation set of every chosen run that is in one, by its id."""
    runs = store.runs(where)
    ids = [str(id_) for id_ in runs.id.tolist()]
    tags = store.tag("evaluation", runs).tolist()
    found = {id_: f"tag evaluation={tag}" for id_, tag in zip(ids, tags, strict=True) if tag}
    tasks = list(zip(runs.workflow.tolist(), runs.task.tolist(), strict=True))
    for corpus in [Path(one.cases) for one in settings.workflow.values() if one.cases is not None]:
        if (split := find_split(corpus)) is not None:
            name, held = f"held out of {corpus.name}, {split.hash[:16]}", split.tasks("held_out")
            found |= {id_: name for id_, task in zip(ids, tasks, strict=True) if task in held}
    return found


def _tests_of(plan: JudgePlan, settings: Settings) -> dict[str, dict[str, int]]:
    """Return how many runs of each evaluation set a plan asks about, by rubric."""
    sets = find_evaluation_runs(plan.store, settings, plan.where)
    drawn: Mapping[str, Container[str]] = plan.drawn
    found = {}
    for rubric in [one.name for one in plan.rubrics]:
        asked = drawn.get(rubric, sets)
        found[rubric] = dict(Counter(name for id_, name in sets.items() if id_ in asked))
    return {name: counts for name, counts in found.items() if counts}


def refuse_unlocked(plan: JudgePlan, settings: Settings, folder: Path = Path()) -> None:
    """Refuse a plan that asks about evaluation sets by a rubric that is not locked.

    With `allow_unlocked` its records are marked instead. Raises `UsageError`.
    """
    if not (tests := _tests_of(plan, settings)):
        return
    lock = locks.read_lock(folder)
    why = {one.name: locks.explain_unlocked(one, lock) for one in plan.rubrics if one.name in tests}
    bad = {name: said for name, said in why.items() if said}
    if bad and not plan.options.allow_unlocked:
        name, said = next(iter(bad.items()))
        (test, n), *_ = tests[name].items()
        entry = lock.get(name)
        file = "FILE" if entry is None and name not in BUILT_IN_RUBRICS else name
        file = file if entry is None or not entry.path else entry.path
        raise UsageError(
            f"{format_count(n, 'run')} of an evaluation set ({test}) and rubric {name} {said}: "
            f"lock it first (stepscope rubric lock {file}), leave these runs out, or give "
            "--allow-unlocked, which marks the records"
        )
    plan.options = replace(plan.options, unlocked=frozenset(bad))
    plan.restart()


def consume_tests(plan: JudgePlan, settings: Settings, folder: Path = Path()) -> tuple[str, ...]:
    """Note in the lock which test sets locked rubrics see; return notes on second looks."""
    if not (tests := _tests_of(plan, settings)):
        return ()
    notes = list[str]()
    with locks.change_lock(folder) as lock:
        now = lock
        for name in sorted(tests.keys() - plan.options.unlocked):
            if (entry := lock.get(name)) is not None:
                entry, said = locks.consume_tests(entry, tests[name])
                now, notes = now.put([entry]), notes + said
        if now.rubric != lock.rubric:
            locks.write_lock(folder, now)
    return tuple(notes)


def read_history(
    store: Store, name: str, texts: Sequence[str] = (), where: Where | None = None
) -> RubricHistory:
    """Return the trail of a rubric; `texts` are files of other versions of it."""
    rubric = load_rubric(name)
    told = {rubric.version: system_prompt(rubric)}
    for path in texts:
        other = load_rubric(path)
        if other.name != rubric.name:
            raise UsageError(f"{path}: it is rubric {other.name!r}, not {rubric.name!r}")
        if told.setdefault(other.version, text := system_prompt(other)) != text:
            raise UsageError(f"{path}: another text of version {other.version} was read before")
    answers = {asked[1:]: of for asked, of in read_first_answers(store, (name,), where).items()}
    runs = store.runs(where)
    names = dict(zip(runs.id.tolist(), runs.name.tolist(), strict=True))
    return trace_rubric(rubric.name, answers, names, told)


def adopt_judge(
    store: Store,
    name: str,
    *,
    judges: tuple[str, str],  # the old one, the new one; with @SNAPSHOT where several answered
    versions: tuple[str | None, str | None] = (None, None),  # the latest when left out
    margin: float = MARGIN,
    where: Where | None = None,
    seed: int = 0,
    folder: Path = Path(),
) -> Adoption:
    """Return whether a judge may replace another; an adopted one is put in the lock.

    `UsageError` where the rubric is not in the lock: nobody knows which runs tuned it.
    """
    if not 0 < margin < 1:
        raise UsageError(f"--margin {margin:g}: expected a share between 0 and 1, such as .05")
    rubric, lock = load_rubric(name), locks.read_lock(folder)
    entry = lock.get(rubric.name)
    if entry is None:
        raise UsageError(
            f"{rubric.name} is not in {locks.LOCK_FILE}, so which labels tuned it is not known; "
            f"stepscope rubric lock {name}"
        )
    measure = judgement.record_measure(rubric)
    records = list(store.records(where, measure=measure))
    sides = [_choose_side(records, one, v) for one, v in zip(judges, versions, strict=True)]
    if sides[0] == sides[1]:
        raise UsageError(f"both sides are {sides[0][0]}, version {sides[0][1]}; name two")
    truth, left_out, seconds = choose_labels(store.labels(where, measure=measure))
    runs = store.runs(where)
    tuned = set(entry.development)
    found = compare_judges(
        truth,
        (_answers_of(records, sides[0]), _answers_of(records, sides[1])),
        names=(rubric.name, ", version ".join(sides[0]), ", version ".join(sides[1])),
        tasks=dict(zip(runs.id.tolist(), number_tasks(runs).tolist(), strict=True)),
        tuned={id_ for id_ in runs.id.tolist() if id_[: locks.ID_DIGITS] in tuned},
        left_out=left_out,
        seconds=seconds,
        margin=margin,
        seed=seed,
    )
    if found.decision.outcome == "pass" and sides[1][1] == entry.version:
        judge, _, snapshot = sides[1][0].partition("@")
        with locks.change_lock(folder) as lock:
            entry = lock.get(rubric.name) or entry
            named = {**entry.judges, judge: (snapshot,) if snapshot else ()}
            locks.write_lock(folder, lock.put([replace(entry, judges=named)]))
    return found


def _choose_side(records: Sequence[Record], judge: str, version: str | None) -> tuple[str, str]:
    """Return the judge, with its snapshot, and the version that are meant; else `UsageError`."""
    first = [one for one in records if one.family not in NOT_MODELS and not one.repeat]
    named = [one for one in first if judge in (one.judge, one.judge.partition("@")[0])]
    held = {(one.judge, one.version) for one in named}
    usual = [one for one in held if MODE not in one[1] and version in (None, one[1])]
    if not usual:
        there = ", ".join(sorted({f"{who}, version {v}" for who, v in held})) or "no answers of it"
        raise UsageError(f"{judge} did not answer under version {version or 'any'}: {there}")
    latest = max((one[1] for one in usual), key=judge_version_order)
    chosen = sorted(one for one in usual if one[1] == latest)
    if len(chosen) > 1:
        names = ", ".join(one[0] for one in chosen)
        said = f"{len(chosen)} snapshots of {judge} answered under version {latest}"
        raise UsageError(f"{said}; name one: {names}")
    return chosen[0]


def _answers_of(records: Sequence[Record], side: tuple[str, str]) -> dict[Item, Answer]:
    return {
        (one.trajectory, one.answer.step): one.answer
        for one in records
        if (one.judge, one.version) == side and one.repeat == 0 and one.family not in NOT_MODELS
    }


def choose_fixed_runs(
    store: Store,
    settings: Settings,
    names: Sequence[str],
    *,
    judges: Sequence[str],
    n: int,
    how: judgement.JudgingOptions,
    changes: Sequence[Change] = (),
) -> list[judgement.JudgingOptions]:
    """Return how to ask judges about n fixed runs again: those of earlier occasions, then a draw.

    With changes it is a draw that is asked about once with each. An occasion that was stopped goes
    on. `UsageError` where too few runs were judged before.
    """
    asked = {judgement.configured_judge(one, settings.judges).name for one in judges}
    only: dict[str, frozenset[str]] = {}
    occasions = {0}
    for rubric in load_named_rubrics(names):
        if rubric.kind == "score":
            raise UsageError(f"{rubric.name}: scores vary; stepscope calibrate sigma measures that")
        at: dict[int, set[tuple[str, str]]] = {}
        for one in store.records(measure=judgement.record_measure(rubric)):
            judge = one.judge.partition("@")[0]
            if judge in asked and one.prompt == judgement.record_prompt(rubric, how):
                at.setdefault(one.repeat, set()).add((judge, one.trajectory))
        first = {judge: {run for who, run in at.get(0, ()) if who == judge} for judge in asked}
        later = {} if changes else at
        again = {occasion: keys for occasion, keys in later.items() if occasion >= DRIFT_REPEAT}
        runs = sorted({run for keys in again.values() for _, run in keys})
        # A first occasion that was stopped, or runs that have grown since, leave some to be drawn.
        known = sorted(set.intersection(*first.values()).difference(runs))
        if known and (more := n - len(runs)) > 0:
            runs += draw_sample(known, more, seed=settings.seed, rubric=rubric.name)[0]
        if len(runs) < FEWEST_RUNS:
            raise UsageError(
                f"{rubric.name}: {format_count(len(runs), 'run')} to ask about again; all judges "
                f"must have judged {FEWEST_RUNS} by it, so as it is now, and N be as large"
            )
        only[rubric.name] = frozenset(runs)
        last = max(again, default=DRIFT_REPEAT - 1)
        whole = len(again.get(last, ())) == len(asked) * len(runs)
        occasions.add(last - DRIFT_REPEAT + 1 + (whole or not again))
    if changes:
        return [replace(how, only=only, change=change) for change in changes]
    return [replace(how, only=only, occasion=max(occasions))]
