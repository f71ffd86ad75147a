"""Old runs under a new model, prompt or rubric: which they are, and what turned.

The runs are those that some judge answered about by the rubric before. Old records stay; what is
compared is the whole-run answer of the same judge where it was asked before, else of each earlier
judge, on the same runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from stepscope import stats
from stepscope.errors import UsageError
from stepscope.judges.options import measure_of
from stepscope.judges.rubric import Rubric
from stepscope.model import Record, Verdict
from stepscope.report.rows import clusters
from stepscope.score.judging import Judged
from stepscope.store import Runs, Store
from stepscope.store.where import Where
from stepscope.values import Estimate, Unmeasured

# Turned runs that are named; the others are counted.
NAMED = 5

# Rubric, judge without its snapshot, version, prompt: who answered, and what it was asked.
Asked = tuple[str, str, str, str]
Answers = Mapping[Asked, Mapping[str, Verdict]]


class Turned(msgspec.Struct, frozen=True, kw_only=True):
    """How the answers of one judge differ from earlier ones about the same runs.

    Attributes:
        rubric: by which both were asked.
        judge: who was asked now.
        before: who was asked before.
        was: version and prompt hash of the earlier question.
        changed: share of the runs whose label is another one now.
        runs: names of the first few of them, with both labels.
    """

    rubric: str
    judge: str
    before: str
    was: str
    changed: Estimate | Unmeasured
    runs: tuple[str, ...]

    def __str__(self) -> str:
        """Say it in a line or two."""
        who = f"{self.rubric}: {self.judge}, before {self.before} ({self.was})"
        if isinstance(self.changed, Unmeasured):
            return f"{who}: {self.changed.kind}: {self.changed.reason}"
        line = (
            f"{who}: {self.changed.value:.3f} [{self.changed.low:.3f}, {self.changed.high:.3f}] of "
            f"{self.changed.n:,} runs turned"
        )
        return "\n".join([line, *(f"  {run}" for run in self.runs)])


class Rejudged(msgspec.Struct, frozen=True, kw_only=True):
    """What one call of `rejudge` did: what was bought, and what turned."""

    judged: Judged
    turned: tuple[Turned, ...]

    def __str__(self) -> str:
        """Say it in a few lines."""
        return "\n".join([str(self.judged), *map(str, self.turned)])


def answers(
    store: Store, rubrics: Iterable[Rubric], where: Where | None
) -> dict[Asked, dict[str, Verdict]]:
    """Return the first whole-run answers of all judges by these rubrics, by who was asked what."""
    found: dict[Asked, dict[str, Verdict]] = {}
    for rubric in rubrics:
        for record in store.records(where, measure=measure_of(rubric)):
            if _is_judges(record, rubric):
                asked = (rubric.name, record.judge.partition("@")[0], record.version, record.prompt)
                of_runs = found.setdefault(asked, {})
                if isinstance(record.answer, Verdict) and record.answer.step is None:
                    of_runs.setdefault(record.trajectory, record.answer)
    return found


def judged_before(
    store: Store, rubrics: Sequence[Rubric], where: Where | None
) -> tuple[dict[str, frozenset[str]], tuple[str, ...]]:
    """Return rubric -> the runs that a judge was asked about by it, and who was.

    Raises:
        UsageError: nobody was asked by any of them.
    """
    runs: dict[str, set[str]] = {rubric.name: set() for rubric in rubrics}
    judges: dict[str, None] = {}
    for rubric in rubrics:
        for record in store.records(where, measure=measure_of(rubric)):
            if _is_judges(record, rubric):
                runs[rubric.name].add(record.trajectory)
                judges[record.judge.partition("@")[0]] = None
    if not judges:
        names = ", ".join(runs)
        raise UsageError(f"no judge was asked by {names} about these runs; stepscope judge asks")
    return {name: frozenset(of) for name, of in runs.items()}, tuple(sorted(judges))


def turned(store: Store, before: Answers, after: Answers) -> tuple[Turned, ...]:
    """Return how what was asked now differs from what was asked before, question by question.

    Args:
        store: for the names and tasks of runs.
        before: the answers that were there.
        after: all answers that are there now.
    """
    runs = store.runs()
    found: list[Turned] = []
    for asked in sorted(after.keys() - before.keys()):
        earlier = [one for one in sorted(before) if one[0] == asked[0]]
        own = [one for one in earlier if one[1] == asked[1]]
        found += [
            _turned(runs, (was, before[was]), (asked, after[asked])) for was in own or earlier
        ]
    return tuple(found)


def _turned(
    runs: Runs,
    before: tuple[Asked, Mapping[str, Verdict]],
    now: tuple[Asked, Mapping[str, Verdict]],
) -> Turned:
    (was, earlier), (asked, later) = before, now
    both = [at for at, run in enumerate(runs.id) if run in earlier and run in later]
    labels = [(earlier[runs.id[at]].label, later[runs.id[at]].label) for at in both]
    changed = np.asarray([old != new for old, new in labels], dtype=np.float64)
    tasks = clusters(runs)[both]
    lines = [
        f"{runs.name[at]}: {old} -> {new}"
        for at, (old, new) in zip(both, labels, strict=True)
        if old != new
    ]
    return Turned(
        rubric=asked[0],
        judge=asked[1],
        before=was[1],
        was=f"version {was[2]}, prompt {was[3]}",
        changed=stats.proportion(changed, tasks),
        runs=tuple(lines[:NAMED]),
    )


def _is_judges(record: Record, rubric: Rubric) -> bool:
    return record.rubric == rubric.name and record.family not in {"human", "imported", "rules"}
