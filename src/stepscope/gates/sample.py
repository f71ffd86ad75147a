"""The runs of one workflow as gates see them: a case, and for each measure one cell a run.

The same shape comes from a store, from a baseline file and from the log of looks, so that what is
compared, pooled and logged is one thing. Versions of a measure are never mixed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope import registry
from stepscope.errors import StoreError
from stepscope.gates.quantities import hint, measure_of, rescore
from stepscope.model import digest
from stepscope.store import Store
from stepscope.store.columns import ANSWERED, NO_RECORD, Column, Rows, kind_of
from stepscope.store.where import Where

# Not a kind of Unmeasured: the run has no record of the measure at all.
NOT_SCORED = "not_scored"
NOT_APPLICABLE = "not_applicable"
# Nor this: the run itself is missing or could not be read, and counts at its worst everywhere.
ABSENT = "absent"
# What a measure learns because the user declared it; fitted tables change with every run.
DECLARED = ("alternatives", "effects", "policy", "preconditions")


class Absent(msgspec.Struct, frozen=True):
    """No answer, by kind; `not_scored` where there is no record."""

    unmeasured: str


# A number, a label, or neither.
Cell = float | str | Absent


class Asked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which question the cells of a measure answer: all of it must be equal to compare them.

    Attributes:
        version: the measure's.
        declared: hash of what the user declared and the measure uses: rules, effects of tools.
        judge: model and snapshot of the judge; empty for rules.
        prompt: hash of its prompt.
        rubric: name, version and hash of its rubric.
    """

    version: str
    declared: str = ""
    judge: str = ""
    prompt: str = ""
    rubric: str = ""

    def __str__(self) -> str:
        """Say it in one line."""
        parts = [("version", self.version), ("judge", self.judge), ("prompt", self.prompt)]
        parts += [("rubric", self.rubric), ("declared rules", self.declared)]
        return ", ".join(f"{name} {value}" for name, value in parts if value)


class Run(msgspec.Struct, frozen=True):
    """A run: its id, its name and its case (its task, or its name where it names none)."""

    id: str
    name: str
    case: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Runs of one workflow.

    Attributes:
        runs: the runs.
        cells: by measure, one cell a run.
        asked: by measure that has records: which question they answer.
        agents: names of the agents, with their versions where known.
    """

    runs: tuple[Run, ...]
    cells: Mapping[str, tuple[Cell, ...]]
    asked: Mapping[str, Asked]
    agents: tuple[str, ...] = ()

    @property
    def cases(self) -> tuple[str, ...]:
        """The cases, each once, in the order in which they first appear."""
        return tuple(dict.fromkeys(run.case for run in self.runs))

    def with_absent(self, runs: Sequence[Run]) -> Sample:
        """Return these runs and those of which nothing is known."""
        nothing = (Absent(ABSENT),) * len(runs)
        return Sample(
            runs=(*self.runs, *runs),
            cells={name: (*cells, *nothing) for name, cells in self.cells.items()},
            asked=self.asked,
            agents=self.agents,
        )

    def take(self, chosen: Iterable[int]) -> Sample:
        """Return the runs at these places."""
        places = list(chosen)
        return Sample(
            runs=tuple(self.runs[at] for at in places),
            cells={name: tuple(c[at] for at in places) for name, c in self.cells.items()},
            asked=self.asked,
            agents=self.agents,
        )


def read(
    rows: Rows,
    workflows: Sequence[str],
    measures: Sequence[str],
    where: Where | None,
    *,
    labelled: Container[str] = (),
) -> dict[str, Sample]:
    """Read the runs of each workflow; a workflow without runs has an empty sample.

    Args:
        rows: a store, or anything else with its columns.
        workflows: their names.
        measures: full names of the columns to read.
        where: which runs.
        labelled: the measures whose label counts where an answer has a number as well.

    Raises:
        StoreError: the records of a measure are of two versions.
    """
    runs = rows.runs(where)
    columns = {name: rows.column(name, runs) for name in measures}
    for name, column in columns.items():
        if len(column.versions) > 1:
            raise StoreError(
                f"records of {name!r} are of versions {', '.join(column.versions)}, which may not "
                f"be mixed; score again: {rescore(name)}"
            )
    places: dict[str, list[int]] = {workflow: [] for workflow in workflows}
    for at, workflow in enumerate(runs.workflow.tolist()):
        if workflow in places:
            places[workflow].append(at)
    found = {}
    for workflow, listed in places.items():
        chosen = np.array(listed, dtype=np.int64)
        fields = (runs.id, runs.name, runs.task, runs.agent, runs.agent_version)
        lines = list(zip(*(field[chosen].tolist() for field in fields), strict=True))
        found[workflow] = Sample(
            runs=tuple(Run(i, name, name if task is None else task) for i, name, task, *_ in lines),
            cells={
                name: _cells(column, chosen, labelled=name in labelled)
                for name, column in columns.items()
            },
            asked={
                name: Asked(version=c.versions[0], declared=_declared(rows, name, workflow))
                for name, c in columns.items()
                if c.versions
            },
            agents=tuple(sorted({_agent(*line[3:]) for line in lines} - {""})),
        )
    return found


def no_runs(rows: Rows, workflow: str, where: Where | None) -> str:
    """Return why there is no run of a workflow, in one line."""
    if where is not None:
        return f"no run of {workflow!r} is chosen by {where.text!r}"
    others = sorted({name for name in rows.runs().workflow.tolist() if name})
    if not others:
        return f"no run of {workflow!r}: nothing was read; read traces with stepscope import PATHS"
    return (
        f"no run of {workflow!r} among those of {len(others)} workflows; {hint(workflow, others)}"
    )


def _cells(column: Column, chosen: npt.NDArray[np.int64], *, labelled: bool) -> tuple[Cell, ...]:
    arrays = (column.value, column.label, column.state, column.valued)
    cells: list[Cell] = []
    for value, label, state, has_number in zip(
        *(array[chosen].tolist() for array in arrays), strict=True
    ):
        if has_number and not (labelled and label is not None):
            cells.append(value)
        elif state == ANSWERED and label is not None:
            cells.append(label)
        else:
            cells.append(Absent(NOT_SCORED if state >= NO_RECORD else kind_of(state)))
    return tuple(cells)


def _declared(rows: Rows, measure: str, workflow: str) -> str:
    """Return the hash of what the user declared and a measure uses; "" where it uses nothing."""
    name = measure_of(measure)
    if not isinstance(rows, Store) or name is None:
        return ""
    learnt = [table for table in registry.measure(name).learns if table in DECLARED]
    facts = rows.facts(workflow) if learnt else None
    if facts is None:
        return ""
    chosen = {table: getattr(facts, table) for table in learnt}
    if "preconditions" in chosen:
        # Those mined from runs have their support; they change with every import.
        chosen["preconditions"] = [rule for rule in facts.preconditions if rule.support is None]
    return digest(chosen) if any(chosen.values()) else ""


def _agent(name: str | None, version: str | None) -> str:
    return " ".join(part for part in (name, version) if part)
