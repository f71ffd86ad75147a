"""The rows of one report, read once: runs, the columns of the vector, and groups of them.

Nothing here decodes a trace. Versions of a measure are never mixed: a figure over two versions
would compare two questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace

import numpy as np
import numpy.typing as npt

from stepscope.errors import StoreError, UsageError
from stepscope.report.fleet_shapes import FleetShapes, fleet_shapes
from stepscope.report.keys import ALSO_READ, AXES, MEASURES, NOT_SCORED, UNCERTAIN
from stepscope.store.columns import NO_RECORD, Column, Rows, Runs, Texts
from stepscope.store.where import Where

# What `by` may name, besides `tag.KEY`; by default groups are the agents of each workflow.
FIELDS = ("workflow", "agent", "agent_version", "task", "trial", "outcome")
DEFAULT_BY = ("workflow", "agent")
TAG = "tag."

Mask = npt.NDArray[np.bool_] | npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Runs with the columns that a report reads, all aligned.

    Attributes:
        runs: the runs.
        columns: one for each measure that has records or is part of the vector.
        clusters: the task that each run belongs to, as a number: (workflow, task), or the run
            itself where it names no task.
        tags: the value of each run of the tags that were asked for, as "tag.KEY".
        shapes: what the score curve of each run says; None where no run has one.
    """

    runs: Runs
    columns: Mapping[str, Column]
    clusters: npt.NDArray[np.int64]
    tags: Mapping[str, Texts] = field(default_factory=dict)
    shapes: FleetShapes | None = None

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def n_tasks(self) -> int:
        """How many tasks the runs come from."""
        return len(np.unique(self.clusters))

    def values(self, name: str) -> Texts:
        """Return a field of the runs, or one of the tags that were asked for."""
        found: Texts = self.tags[name] if name in self.tags else getattr(self.runs, name)
        return found

    def take(self, chosen: Mask) -> Table:
        """Return the chosen rows."""
        runs = {f.name: getattr(self.runs, f.name)[chosen] for f in fields(Runs)}
        tags = {name: values[chosen] for name, values in self.tags.items()}
        return Table(
            runs=Runs(**runs),
            columns={
                name: replace(
                    c, value=c.value[chosen], label=c.label[chosen], state=c.state[chosen]
                )
                for name, c in self.columns.items()
            },
            clusters=self.clusters[chosen],
            tags=tags,
            shapes=None if self.shapes is None else self.shapes.take(chosen),
        )

    def versions(self) -> dict[str, str]:
        """Return the version behind each measure that has records."""
        return {n: c.versions[0] for n, c in sorted(self.columns.items()) if c.versions}

    def scored(self, measure: str) -> bool:
        """Tell whether any run has a record of the measure."""
        return bool((self.columns[measure].state != NO_RECORD).any())

    def lost(self, measure: str, among: npt.NDArray[np.bool_] | None = None) -> dict[str, int]:
        """Return how many runs have no answer, by kind.

        Not scored is a kind of its own, and so is an axis' answer that it cannot tell.
        """
        column = self.columns[measure]
        if among is not None:
            column = replace(
                column, value=column.value[among], label=column.label[among],
                state=column.state[among],
            )  # fmt: skip
        missing = int((column.state == NO_RECORD).sum())
        found: dict[str, int] = {str(k): n for k, n in column.unmeasured().items()}
        open_ = int((column.label == UNCERTAIN).sum()) if measure in AXES else 0
        more = {UNCERTAIN: open_, NOT_SCORED: missing}
        return found | {kind: n for kind, n in more.items() if n}


def read(rows: Rows, where: Where | None, by: Iterable[str] = ()) -> Table:
    """Read the runs that `where` chooses, the vector's columns, their shapes, the tags of `by`.

    Raises:
        StoreError: a column mixes versions of its measure.
        UsageError: no run has a tag that groups are made by.
    """
    runs = rows.runs(where)
    names = (*MEASURES.values(), *ALSO_READ, *AXES)
    columns = {name: rows.column(name, runs) for name in names}
    mixed = {n: c.versions for n, c in columns.items() if len(c.versions) > 1}
    if mixed:
        name, versions = next(iter(mixed.items()))
        measure = name.split(".")[0]
        raise StoreError(
            f"records of {name!r} are of versions {', '.join(versions)}, which may not be mixed; "
            f"score again: stepscope score --measure {measure}"
        )
    asked = [name for name in by if name.startswith(TAG)]
    tags = {name: rows.tag(name.removeprefix(TAG), runs) for name in asked}
    for name, values in tags.items():
        if len(runs) and all(value is None for value in values.tolist()):
            raise UsageError(f"no run has the tag {name.removeprefix(TAG)!r}")
    return Table(
        runs=runs,
        columns=columns,
        clusters=clusters(runs),
        tags=tags,
        shapes=fleet_shapes(rows, runs),
    )


def clusters(runs: Runs) -> npt.NDArray[np.int64]:
    """Return the task of each run as a number; a run without a task is its own."""
    known: dict[tuple[str, str], int] = {}
    out = np.empty(len(runs), np.int64)
    for at, (workflow, task, key) in enumerate(
        zip(runs.workflow.tolist(), runs.task.tolist(), runs.key.tolist(), strict=True)
    ):
        name = (workflow, f"task {task}") if task is not None else ("", f"run {key}")
        out[at] = known.setdefault(name, len(known))
    return out


def fields_of(by: str | None) -> tuple[str, ...]:
    """Return the fields that make the groups.

    Raises:
        UsageError: there is no such field.
    """
    if by is None:
        return DEFAULT_BY
    if by not in FIELDS and by.removeprefix(TAG) in (by, ""):
        raise UsageError(
            f"--by {by!r} is no field to group by; expected one of {', '.join(FIELDS)}, tag.KEY"
        )
    return (by,)


def groups(table: Table, names: Iterable[str]) -> Iterator[tuple[dict[str, str | None], Table]]:
    """Yield each group, its fields and values first, in the order of the values."""
    names = tuple(names)
    values = [table.values(name) for name in names]
    places: dict[tuple[str | None, ...], list[int]] = {}
    for at, group in enumerate(zip(*(v.tolist() for v in values), strict=True)):
        places.setdefault(group, []).append(at)
    for group in sorted(places, key=lambda g: tuple((v is None, v or "") for v in g)):
        yield dict(zip(names, group, strict=True)), table.take(np.array(places[group]))
