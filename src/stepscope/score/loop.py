"""The one loop: runs x measures -> store. Resumes; the same input gives the same records.

What was answered under a record's key is never asked again, so a second run of the loop, after a
kill at any moment, asks only what is missing. Facts are fitted from all runs of a workflow before
the first question, so neither the order of runs nor an interruption shows in an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from stepscope import processes, registry
from stepscope.errors import ConfigError
from stepscope.measures.facts import Declared, RunFigures, fit
from stepscope.measures.preconditions import Use, uses
from stepscope.model import Facts, Measure
from stepscope.score.asking import Asker, Batch, Plan, Task
from stepscope.score.workers import answered, score_chunk
from stepscope.sqlite import MEMORY
from stepscope.store import Store
from stepscope.store.store import Current
from stepscope.store.where import Where, parse

# Starting processes costs about half a second: what this many runs cost in one process.
POOL_FROM_RUNS = 1_500
# Runs in one durable batch: some 5,000 records, a tenth of a second of work.
CHUNK_RUNS = 128
# Passing runs of a workflow that preconditions are mined from: enough for shares of .98, and read
# in some 30 milliseconds.
MINED_RUNS = 300
_PASSED = parse("outcome = 'pass'")


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """What one call of `score` did.

    Attributes:
        runs: runs that were asked about.
        records: new records in the store.
        unmeasured_by_kind: whole-run answers of this call that measured nothing, by kind.
        skipped: runs that had all their answers already.
    """

    runs: int
    records: int
    unmeasured_by_kind: dict[str, int]
    skipped: int

    def __str__(self) -> str:
        """Say it in one line."""
        kinds = sorted(self.unmeasured_by_kind.items(), key=lambda item: (-item[1], item[0]))
        absent = ", ".join(f"{count:,} {kind}" for kind, count in kinds) or "none"
        return (
            f"{self.runs:,} runs scored, {self.records:,} records; unmeasured: {absent}; "
            f"{self.skipped:,} runs had their answers already"
        )


def score(
    store: Store,
    *,
    measures: Sequence[str] | None = None,
    where: Where | None = None,
    declared: Declared | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Scored:
    """Ask every measure about every run that it has not answered for yet; never spends.

    Args:
        store: read from and written to, in durable batches.
        measures: registry names; all that are installed when left out.
        where: which runs; facts are fitted from all of them in any case.
        declared: what the user says about tools and conduct.
        workers: processes; when left out, one a core for many runs and none for few.
        progress: called with runs done and runs to do.

    Raises:
        ConfigError: a measure is unknown, or named as an aspect of another.
        EnvironmentFault: the disk is full, or a process died; calling again goes on.
    """
    names = tuple(registry.names("measures") if measures is None else dict.fromkeys(measures))
    asked = [registry.measure(name) for name in names]
    _refuse_aspects([measure.name for measure in asked])
    facts = _fit(store, declared)
    current = [
        Current(measure.name, workflow, measure.version, fitted.hash_of(measure.learns))
        for measure in asked
        for workflow, fitted in facts.items()
    ]
    store.put_facts(facts.values(), current)
    keys = store.keys(where)
    todo = _todo(store, keys, asked, current)
    plan = Plan(names, facts)
    done = records = 0
    unmeasured: dict[str, int] = {}
    for batch in _batches(store, plan, todo, workers):
        records += store.append_lines(batch.questions, batch.lines)
        done += batch.runs
        for kind, count in batch.unmeasured.items():
            unmeasured[kind] = unmeasured.get(kind, 0) + count
        if progress is not None:
            progress(done, len(todo))
    return Scored(
        runs=done,
        records=records,
        unmeasured_by_kind=dict(sorted(unmeasured.items())),
        skipped=len(keys) - len(todo),
    )


def _refuse_aspects(asked: Sequence[str]) -> None:
    known = {*asked, *registry.names("measures")}
    for name in asked:
        words = name.split(".")
        for length in range(1, len(words)):
            if ".".join(words[:length]) in known:
                raise ConfigError(
                    f"measure {name!r} would be an aspect of {'.'.join(words[:length])!r}; "
                    "choose another name"
                )


def _fit(store: Store, declared: Declared | None) -> dict[str, Facts]:
    rows: dict[str, list[RunFigures]] = {}
    for workflow, outcome, figures in store.figures():
        rows.setdefault(workflow, []).append(RunFigures(outcome, *figures))
    passing = _passing_uses(store)
    return {
        workflow: fit(
            workflow, rows[workflow], declared=declared, passing_uses=passing.get(workflow, ())
        )
        for workflow in sorted(rows)
    }


def _passing_uses(store: Store) -> dict[str, list[tuple[Use, ...]]]:
    """Return what succeeded in the first passing runs of each workflow, in order of import.

    The first, so that what was mined stays what it is as runs come in, and answers stay current.
    """
    workflows = store.workflows()
    chosen: dict[str, list[int]] = {}
    for key in sorted(store.keys(_PASSED)):
        keys = chosen.setdefault(workflows[key], [])
        if len(keys) < MINED_RUNS:
            keys.append(key)
    return {
        workflow: [uses(stored.trajectory) for stored in store.stored(keys)]
        for workflow, keys in chosen.items()
    }


def _todo(
    store: Store, keys: list[int], asked: list[Measure], current: list[Current]
) -> list[Task]:
    """Return the runs that lack answers, each with the measures to ask."""
    bits = {measure.name: 1 << at for at, measure in enumerate(asked)}
    whole = (1 << len(asked)) - 1
    have: dict[int, int] = {}
    for question in current:
        for key in store.answered(question):
            have[key] = have.get(key, 0) | bits[question.measure]
    return [(key, whole & ~have.get(key, 0)) for key in keys if have.get(key, 0) != whole]


def _batches(store: Store, plan: Plan, todo: list[Task], workers: int | None) -> Iterator[Batch]:
    chunks = (todo[at : at + CHUNK_RUNS] for at in range(0, len(todo), CHUNK_RUNS))
    if workers is None:
        workers = processes.cores() if len(todo) >= POOL_FROM_RUNS else 1
    if workers > 1 and store.path != MEMORY and todo:
        yield from answered(store.path, plan, chunks, workers)
        return
    asker = Asker(plan)
    for chunk in chunks:
        yield score_chunk(store, asker, chunk)
