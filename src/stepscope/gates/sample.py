"""The runs of one workflow as gates see them: cells by measure, and how bad each run was.

A `Sample` comes from a store, from a baseline file or from the log of looks, so that what is
compared, pooled and logged is one thing; versions of a measure are never mixed. An `Arm` is a
sample as one gate sees it. A lost run has no answer and should have one: it counts at its worst
where a gate would pass and at its best where it would fail. A run to which the question does not
apply is no loss.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope import registry
from stepscope.errors import StoreError, suggest_name
from stepscope.gates import settings
from stepscope.gates.settings import MODES, GatePolicy
from stepscope.model import Facts, digest, records
from stepscope.model.signatures import is_signed
from stepscope.safety.redact import Redactor
from stepscope.safety.text import visible_line
from stepscope.stats.sample import Bools, Floats, Ints
from stepscope.store import Store
from stepscope.store.columns import (
    ANSWERED,
    NO_RECORD,
    AnswerColumn,
    Rows,
    Runs,
    text_array,
    unmeasured_kind,
)
from stepscope.store.store import Current
from stepscope.store.where import Where
from stepscope.values import UNMEASURED_KINDS

# Not a kind of Unmeasured: the run has no record of the measure at all.
NOT_SCORED = "not_scored"
# Nor this: the run itself is missing or could not be read, and counts at its worst everywhere.
ABSENT = "absent"
# What a measure learns because the user declared it; fitted tables change with every run.
DECLARED = ("alternatives", "claims", "effects", "policy", "preconditions")


class Absent(msgspec.Struct, frozen=True, omit_defaults=True):
    """No answer, by kind; `not_scored` where there is no record."""

    unmeasured: str
    at_least: float = 0.0  # a count that is proved, where the whole of it is unmeasured


# A number, a label, or neither.
Cell = float | str | Absent


class MeasureQuestion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which question the cells of a measure answer: all of it must be equal to compare them."""

    version: str  # the measure's
    # hash of what the user declared and the measure uses: rules, effects of tools
    declared: str = ""
    judge: str = ""  # model and snapshot of the judge; empty for rules
    prompt: str = ""  # hash of its prompt
    rubric: str = ""  # name, version and hash of its rubric

    def __str__(self) -> str:
        parts = [("version", self.version), ("judge", self.judge), ("prompt", self.prompt)]
        parts += [("rubric", self.rubric), ("declared rules", self.declared)]
        return ", ".join(f"{name} {value}" for name, value in parts if value)


# Names stand in baselines, which people commit: keys in them are hidden, alike in every store.
hide_keys = Redactor(b"names of cases").redact


class SampleRun(msgspec.Struct, frozen=True):
    """A run: its id, its name and its case (its task, or its name where it names none)."""

    id: str
    name: str
    case: str


class Sample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Runs of one workflow: under test, of a baseline, or of the looks at one commit."""

    looks: int = 0  # looks that brought these runs; 0 outside of the log of looks
    asked: dict[str, MeasureQuestion]  # by measure that has records: which question they answer
    runs: tuple[SampleRun, ...]  # the runs, in the order in which they came
    cells: dict[str, tuple[Cell, ...]]  # by measure, one cell a run
    # of the log: by judged column, people's labels, and looks that brought runs or labels
    labels: dict[str, tuple[int, int]] = {}
    agents: tuple[str, ...] = ()  # names of the agents, with their versions where known
    workflow: str = ""  # of a baseline: whose runs they are
    commit: str | None = None  # of a baseline: what they are runs of, where that was said
    merged: tuple[tuple[str, ...], ...] = ()  # of a baseline: signatures that are one mode

    @property
    def cases(self) -> tuple[str, ...]:
        """The cases, each once, in the order in which they first appear."""
        return tuple(dict.fromkeys(run.case for run in self.runs))

    def with_absent(self, runs: Sequence[SampleRun]) -> Sample:
        """Return these runs and those of which nothing is known."""
        nothing = (Absent(ABSENT),) * len(runs)
        cells = {name: (*cells, *nothing) for name, cells in self.cells.items()}
        return msgspec.structs.replace(self, runs=(*self.runs, *runs), cells=cells)

    def take(self, chosen: Iterable[int]) -> Sample:
        """Return the runs at these places."""
        places = list(chosen)
        runs = tuple(self.runs[at] for at in places)
        cells = {name: tuple(c[at] for at in places) for name, c in self.cells.items()}
        return msgspec.structs.replace(self, runs=runs, cells=cells)


def read_samples(
    rows: Rows,  # a store, or anything else with its columns
    workflows: Sequence[str],  # their names
    measures: Sequence[str],  # full names of the columns to read
    where: Where | None,  # which runs
    *,
    # the measures whose label counts where an answer has a number as well
    labelled: Container[str] = (),
) -> dict[str, Sample]:
    """Read the runs of each workflow; a workflow without runs has an empty sample.

    `StoreError` where the records of a measure are of two versions.
    """
    runs = rows.runs(where)
    columns = {
        name: _read_modes(rows, runs) if name == MODES else rows.column(name, runs)
        for name in measures
    }
    purged = rows if isinstance(rows, Store) and rows.purged() else None
    for name, column in columns.items():
        if len(column.versions) > 1:
            raise StoreError(
                f"records of {name!r} are of versions {', '.join(column.versions)}, which may not "
                f"be mixed; score again: {settings.rescore_command(name)}"
            )
        if purged is not None:
            stale = [key for workflow in workflows for key in _stale_runs(purged, name, workflow)]
            column.state[np.isin(runs.key, stale)] = NO_RECORD
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
            runs=tuple(
                SampleRun(i, hide_keys(name), hide_keys(name if task is None else task))
                for i, name, task, *_ in lines
            ),
            cells={
                name: _cells(column, chosen, labelled=name in labelled)
                for name, column in columns.items()
            },
            asked={
                name: MeasureQuestion(
                    version=c.versions[0],
                    declared=_hash_of_declared(rows, "policy" if name == MODES else name, workflow),
                )
                for name, c in columns.items()
                if c.versions
            },
            agents=tuple(
                sorted({hide_keys(" ".join(filter(None, line[3:]))) for line in lines} - {""})
            ),
        )
    return found


def _read_modes(rows: Rows, runs: Runs) -> AnswerColumn:
    """Return the signatures of each run of which rules saw what went wrong, a line each."""
    signs = rows.signs(runs)
    texts = [visible_line(hide_keys(text)) for text in signs.texts]
    held: list[set[str]] = [set() for _ in range(len(runs))]
    for at, number in zip(signs.at.tolist(), signs.number.tolist(), strict=True):
        held[at].add(texts[number])
    names = {settings.find_installed_measure(name) for name in rows.measures() if is_signed(name)}
    versions = {name: rows.column(name, runs).versions for name in sorted(filter(None, names))}
    return AnswerColumn(
        measure=MODES,
        value=np.full(len(runs), np.nan),
        label=text_array(["\n".join(sorted(one)) for one in held]),
        state=signs.state,
        versions=(digest(versions), *(f"two of {x}" for x, of in versions.items() if len(of) > 1)),
    )


def say_no_runs(rows: Rows, workflow: str, where: Where | None) -> str:
    """Return why there is no run of a workflow, in one line."""
    if where is not None:
        return f"no run of {workflow!r} is chosen by {where.text!r}"
    others = sorted({name for name in rows.runs().workflow.tolist() if name})
    if not others:
        return f"no run of {workflow!r}: nothing was read; read traces with stepscope import PATHS"
    return (
        f"no run of {workflow!r} among those of {len(others)} workflows; "
        f"{suggest_name(workflow, others)}"
    )


def _cells(column: AnswerColumn, chosen: Ints, *, labelled: bool) -> tuple[Cell, ...]:
    arrays = (column.value, column.label, column.state, column.valued)
    cells: list[Cell] = []
    for value, label, state, has_number in zip(
        *(array[chosen].tolist() for array in arrays), strict=True
    ):
        if has_number and label == records.AT_LEAST:
            cells.append(Absent("missing_input", value))
        elif has_number and not (labelled and label is not None):
            cells.append(value)
        elif state == ANSWERED and label is not None:
            cells.append(label)
        else:
            cells.append(Absent(NOT_SCORED if state >= NO_RECORD else unmeasured_kind(state)))
    return tuple(cells)


def _stale_runs(store: Store, measure: str, workflow: str) -> set[int]:
    """Return the runs, by row, that answered when something else was declared, and not since."""
    name = settings.find_installed_measure(measure)
    asked: dict[bool, set[Current]] = {True: set(), False: set()}
    now: tuple[object, ...] = ()
    for facts in store.all_facts(workflow) if name is not None else ():
        one = registry.measure(name or "")
        then = (_digest_declared(facts, one.learns), facts.tools, facts.instructions)
        now = now or then
        asked[then == now].add(Current(one.name, workflow, one.version, facts.hash_of(one.learns)))
    # Facts are as many as imports; most of them ask the same.
    stale = {run for one in asked[False] - asked[True] for run in store.answered(one)}
    return stale - {run for one in asked[True] if stale for run in store.answered(one)}


def _hash_of_declared(rows: Rows, measure: str, workflow: str) -> str:
    """Return the hash of what the user declared and a measure uses; "" where it uses nothing."""
    name = settings.find_installed_measure(measure)
    facts = rows.facts(workflow) if isinstance(rows, Store) and name is not None else None
    if facts is None or name is None:
        return ""
    return _digest_declared(facts, registry.measure(name).learns)


def _digest_declared(facts: Facts, learns: Iterable[str]) -> str:
    chosen = {table: getattr(facts, table) for table in learns if table in DECLARED}
    if "preconditions" in chosen:
        # Those mined from runs have their support; they change with every import.
        chosen["preconditions"] = [rule for rule in facts.preconditions if rule.support is None]
    return digest(chosen) if any(chosen.values()) else ""


# Shares are counted in whole sub-goals and errors: bad by less than this is rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """The runs that a gate speaks of, one row each."""

    at: Ints  # place of each run in its sample
    cases: npt.NDArray[np.object_]  # the case of each run
    # how bad: 0 to `size` (for figures: the figure itself, infinite where the run is absent); nan
    # where lost
    top: Floats
    size: Floats  # units of each run: 1, or its errors where recovery is the question
    lost: Bools  # runs without an answer that should have one
    # how many runs have no answer, by kind, those that are no loss included
    unmeasured: Mapping[str, int]

    @property
    def n_lost(self) -> int:
        """Runs that should have an answer and have none."""
        return int(self.lost.sum())

    @property
    def n_measured(self) -> int:
        """Runs that have an answer."""
        return len(self.at) - self.n_lost

    def take(self, chosen: Bools) -> Arm:
        """Return the chosen rows; what is unmeasured stays counted."""
        return replace(
            self,
            at=self.at[chosen],
            cases=self.cases[chosen],
            top=self.top[chosen],
            size=self.size[chosen],
            lost=self.lost[chosen],
        )

    def measured(self) -> Arm:
        """Return the runs that have an answer."""
        return self.take(~self.lost)

    def filled(self, *, bad: bool) -> Arm:
        """Return all runs, the lost ones at their worst (`bad`) or at their best."""
        return self.filled_with(self.size if bad else 0.0)

    def filled_with(self, top: Floats | float) -> Arm:
        """Return all runs, the lost ones as bad or as long as `top`."""
        return replace(self, top=np.where(self.lost, top, self.top), lost=np.zeros_like(self.lost))

    @property
    def bad(self) -> Floats:
        """How bad each run was, 0 to 1; runs of no units leave this to `size`."""
        return np.divide(self.top, self.size, out=np.zeros_like(self.top), where=self.size > 0)


def build_arm(gate: GatePolicy, sample: Sample) -> Arm:
    """Return the runs of a sample as a gate sees them; those it does not apply to are left out."""
    columns = [sample.cells.get(name) for name in gate.reads]
    absent: tuple[Cell, ...] = (Absent(NOT_SCORED),) * len(sample.runs)
    rows = zip(*(absent if column is None else column for column in columns), strict=True)
    at: list[int] = []
    found: list[tuple[float, float]] = []
    counts: dict[str, int] = {}
    for place, cells in enumerate(rows):
        answer = run_badness(gate, cells)
        if isinstance(answer, str):
            counts[answer] = counts.get(answer, 0) + 1
            if answer == records.NOT_APPLICABLE:
                continue
            errors = cells[-1] if gate.quantity.kind == "recovered" else 1.0
            size = float(errors) if isinstance(errors, float | int) and errors > 0 else 1.0
            answer = np.nan, size
        at.append(place)
        found.append(answer)
    pairs = np.array(found, dtype=np.float64).reshape(-1, 2)
    cases = np.empty(len(at), dtype=np.object_)
    cases[:] = [sample.runs[place].case for place in at]
    order: tuple[str, ...] = (*UNMEASURED_KINDS, *sorted(counts.keys() - set(UNMEASURED_KINDS)))
    return Arm(
        at=np.array(at, dtype=np.int64),
        cases=cases,
        top=pairs[:, 0],
        size=pairs[:, 1],
        lost=np.isnan(pairs[:, 0]),
        unmeasured={kind: counts[kind] for kind in order if kind in counts},
    )


def run_badness(gate: GatePolicy, cells: tuple[Cell, ...]) -> tuple[float, float] | str:
    """Return how bad a run was and of how many units, or the kind of its absence."""
    kind = gate.quantity.kind
    cell = cells[0]
    if cell == Absent(ABSENT):
        return (np.inf if gate.about == "ratio" else 1.0), 1.0
    if kind == "recovered":
        errors = cells[1]
        if not isinstance(errors, float | int):
            return errors.unmeasured if isinstance(errors, Absent) else "undefined"
        if errors == 0:
            return 0.0, 0.0
        left = _unrecovered_errors(errors, cell)
        return left if isinstance(left, str) else (left, float(errors))
    if isinstance(cell, Absent):
        proved = gate.limit is not None and cell.at_least > gate.limit
        return (1.0, 1.0) if proved else cell.unmeasured
    if kind == "label":
        return _badness_of_label(gate, cell)
    if isinstance(cell, str):
        return "undefined"
    if gate.unrecovered and cell > 0:
        left = _unrecovered_errors(cell, cells[1])
        if isinstance(left, str):
            return left
        cell = left
    if gate.about == "ratio":
        return float(cell), 1.0
    if gate.limit is not None:
        return float(cell > gate.limit), 1.0
    good_end_is_high = gate.quantity.better == "high" or (
        gate.quantity.better is None and (gate.wants_good or gate.about == "drop")
    )
    bad = 1.0 - cell if good_end_is_high else float(cell)
    return (0.0 if abs(bad) < ROUNDING else bad), 1.0


def _badness_of_label(gate: GatePolicy, cell: float | str) -> tuple[float, float] | str:
    """Return whether a label is a bad one; `uncertain` is an answer nobody gave."""
    good, bad = gate.quantity.good, gate.quantity.bad
    if cell == records.UNCERTAIN and records.UNCERTAIN not in (*good, *bad):
        return records.UNCERTAIN if gate.uncertain == "worst" else records.NOT_APPLICABLE
    if cell in bad:
        return 1.0, 1.0
    if cell in good:
        return 0.0, 1.0
    # Where the policy names one label, every other one is its opposite.
    return "undefined" if good and bad else (float(not bad), 1.0)


def _unrecovered_errors(errors: float, saved: Cell) -> float | str:
    """Return how many errors of a run were not recovered, or the kind of the absence."""
    if isinstance(saved, float | int):
        return max(float(errors - saved), 0.0)
    # A run with errors to which recovery does not apply would be left out: it is a loss instead.
    lost = isinstance(saved, Absent) and saved.unmeasured != records.NOT_APPLICABLE
    return saved.unmeasured if isinstance(saved, Absent) and lost else "undefined"
