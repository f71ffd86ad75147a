"""What a report reads: runs with their columns, score curves, the rules' records, whole runs.

No trace is decoded for tables. Versions of a measure are never mixed: a figure over two versions
would compare two questions. Scores of two scorers are never put together: the scorer of most steps
is taken, and labels of rules stand in only where no run has a score. Labels make no shares of
shapes. Secrets become placeholders before a run is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from itertools import takewhile
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope import registry
from stepscope.errors import StoreError, UsageError
from stepscope.model import Case, Json, Record, Trajectory, Verdict
from stepscope.model.records import HUMAN, IMPORTED, JUDGE_PREFIX, RULES, STEP_SCORES, UNCERTAIN
from stepscope.report.types import NO_CURVES, Shapes
from stepscope.report.words import ALSO_READ, AXES, INCORRECT, MEASURES, NOT_SCORED
from stepscope.safety.redact import Redactor, hide_in, redact_json
from stepscope.shape.fleet import FleetEvidence, prevalence, weigh_fleet
from stepscope.shape.inputs import lay_out, notice_quantum
from stepscope.shape.noise import learn_noise
from stepscope.shape.types import SHAPES, UNRESOLVED
from stepscope.shape.weights import gate_failed
from stepscope.stats.sample import Bools, Floats, Ints
from stepscope.store import Store
from stepscope.store import columns as stored
from stepscope.store.judged import JudgeAnswers, keep_chosen
from stepscope.store.records import EVERY_TASK
from stepscope.store.runs import texts_in
from stepscope.store.where import Where
from stepscope.values import Estimate, Unmeasured


class RuleFindings(NamedTuple):
    """The rules' records of one run: answers about all of it by measure, verdicts about steps."""

    whole: dict[str, Verdict]
    absent: dict[str, Unmeasured]
    by_step: dict[str, tuple[Verdict, ...]]

    def cites(self, measure: str) -> tuple[int, ...]:
        """Return the steps that a measure's answer about the whole run points at."""
        verdict = self.whole.get(measure)
        return verdict.cites if verdict is not None else ()

    def labels(self, measure: str) -> dict[int, str]:
        """Return the label that a measure gave to each step."""
        steps = self.by_step.get(measure, ())
        return {v.step: v.label for v in steps if v.step is not None and v.label is not None}


def sort_findings(records: Iterable[Record]) -> RuleFindings:
    """Sort the rules' records of one run; those of people and judges are left aside."""
    whole: dict[str, Verdict] = {}
    absent: dict[str, Unmeasured] = {}
    by_step: dict[str, list[Verdict]] = {}
    for record in records:
        answer = record.answer
        if record.family != RULES:
            continue
        if isinstance(answer, Unmeasured):
            if answer.step is None:
                absent[answer.measure] = answer
        elif answer.step is None:
            whole[answer.measure] = answer
        else:
            by_step.setdefault(answer.measure, []).append(answer)
    return RuleFindings(whole, absent, {name: tuple(steps) for name, steps in by_step.items()})


def average_scorings(entry: Ints, value: Floats) -> tuple[Floats, Ints]:
    """Return the mean score of each step that begins at `entry`, NaN for none, and of how many."""
    known = ~np.isnan(value)
    counts = np.add.reduceat(known.astype(np.int64), entry)
    sums = np.add.reduceat(np.where(known, value, 0.0), entry)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan), counts


def count_fewest(counts: Ints, begins: Ints) -> Ints:
    """Return the fewest scorings averaged in a score of each curve, at least 1."""
    most = np.iinfo(np.int64).max
    fewest = np.minimum.reduceat(np.where(counts > 0, counts, most), begins)
    return np.where(fewest == most, 1, fewest)


def classify_fleet(rows: stored.Rows, runs: stored.Runs) -> FleetShapes | None:
    """Return what the curves of the scorer of most steps say; None where no run has one."""
    column = rows.step_values(STEP_SCORES, runs)
    if not len(column):
        return None
    scored = np.bincount(column.scorer[~np.isnan(column.value)], minlength=len(column.scorers))
    order = sorted(range(len(column.scorers)), key=lambda i: (-scored[i], column.scorers[i]))
    family, judge = column.scorers[order[0]]
    mine = np.flatnonzero(column.scorer == order[0])
    at, step = column.at[mine], column.step[mine]
    first = np.append(True, at[1:] != at[:-1])
    entry = np.flatnonzero(first | np.append(True, step[1:] != step[:-1]))
    begins = np.flatnonzero(first[entry])
    scores, counts = average_scorings(entry, column.value[mine])
    lengths = np.diff(np.append(begins, len(entry)))
    some = counts[counts > 0]
    low, high = int(some.min(initial=1)), int(some.max(initial=1))
    said = "imported step scores" if family == IMPORTED else "step scores of a judge"
    said += f" of {judge}" if judge else ""
    if high > 1:
        said += f", means of {low if low == high else f'{low} to {high}'} scorings"
    if len(order) > 1:
        others = sorted(column.scorers[i][1] or "unnamed" for i in order[1:])
        said += f" ({', '.join(others)} left aside)"
    of, fewest = at[entry][begins], count_fewest(counts, begins)
    axes, places = _lay_axes(rows, runs, of, np.split(step[entry], begins[1:]))
    sizes = np.array([len(axis) for axis in axes])
    scores = lay_out(scores, lengths, np.concatenate(places), sizes)
    sigma, correlation, noise = know_noise(rows.noise().get(judge), scores, sizes, fewest)
    found = weigh_fleet(scores, sizes, sigma=sigma, repeats=fewest, correlation=correlation)
    most = sigma.high if isinstance(sigma, Estimate) else None
    spread = None if most is None else most / np.sqrt(fewest)
    each = zip(np.split(scores, np.cumsum(sizes)[:-1]), places, strict=True)
    failed = _fail_gates(rows, runs, of, list(each), spread)
    batch = found.batch
    broken = (batch.break_step >= 0) & ~batch.unmodelled
    break_step = np.full(len(batch.break_step), -1)
    entry = batch.break_step[broken].astype(np.int64).tolist()
    broke = zip(batch.rows[broken].tolist(), entry, strict=True)
    break_step[broken] = [axes[row][step] for row, step in broke]
    made = align_shapes(found, of, len(runs), gate_failed=failed, break_step=break_step)
    return replace(made, source=said, sigma=noise + note_grid(scores, fewest))


# Limits further apart than this contradict each other.
APART = 1.25


def note_grid(scores: Floats, repeats: Ints) -> str:
    """Return what is said of the noise where scores show that their judge answers in few steps."""
    step = notice_quantum(scores, int(repeats.min(initial=99)) if len(repeats) else 1)
    return f"; {step / 12**0.5:.3f} of rounding added: few values occur" if step else ""


def _span(sigma: Estimate) -> str:
    return f"{sigma.value:.3f}, {sigma.low or 0.0:.3f}\u2013{sigma.high or 0.0:.3f}"


def know_noise(
    measured: Estimate | None, scores: Floats, sizes: Ints, repeats: Ints
) -> tuple[Estimate | None, float, str]:
    """Return the noise of one of `repeats` scorings, the correlation of errors, and sources."""
    learned, said = learn_noise(scores, sizes), "stepscope calibrate sigma measures it"
    if measured is not None and measured.high is not None:
        said = f"{_span(measured)} from repeated scorings; runs are classified with the upper limit"
    if isinstance(learned, Unmeasured):
        absent = "unknown, averaged over a range; " if measured is None else ""
        return measured, 0.0, f"{absent}{said}"
    root, one = float(np.sqrt(np.median(repeats))), learned.sigma
    value, low, high = (root * (x or 0.0) for x in (one.value, one.low, one.high))
    looks = msgspec.structs.replace(learned.sigma, value=value, low=low, high=high)
    if measured is None:
        said = f"{_span(looks)}, learned from the scores of {looks.n} runs; {said}"
        return looks, learned.correlation_to_tell(), said
    if low > APART * (measured.high or 1.0) or high * APART < (measured.low or 0.0):
        said += f"; the curves contradict it: they look like {_span(looks)}"
    return measured, 0.0, said


def axis_of(scored: Sequence[int], made: Sequence[int], size: int) -> list[int]:
    """Return the steps that a curve is drawn over: those scored, and the agent's or all."""
    return sorted({*scored, *(made or range(size))})


def _lay_axes(
    rows: stored.Rows, runs: stored.Runs, at: Ints, steps: Sequence[Ints]
) -> tuple[list[Ints], list[Ints]]:
    """Return the steps that each curve is drawn over, and where among them its rows are."""
    sizes = [max(int(runs.steps[i]), int(own[-1]) + 1) for i, own in zip(at, steps, strict=True)]
    if [len(own) for own in steps] == sizes:
        return list(steps), [np.arange(size) for size in sizes]
    made = rows.cited("step_labels.steps", runs)
    axes = [
        np.array(axis_of(own.tolist(), made[place] or (), size), np.int64)
        for place, own, size in zip(at.tolist(), steps, sizes, strict=True)
    ]
    return axes, [np.searchsorted(axis, own) for axis, own in zip(axes, steps, strict=True)]


T = TypeVar("T", bound=np.generic)
RowMask = Bools | Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetShapes:
    """What the curve of each run says, aligned with the runs of a table."""

    state: npt.NDArray[np.int8]  # 1 classified, 0 without a curve, negative: see `unmeasured_kind`
    label: npt.NDArray[np.int8]  # index of the shape, or -1: unresolved, unmodelled, not classified
    unmodelled: Bools  # no shape fits the run
    low_level: Bools  # its mean is low, whatever its shape
    gate_failed: Bools  # a step of the highest weight is below the gate
    break_step: Ints  # index of the step where it broke, -1 where no break is declared
    log_likelihood: Floats  # shape (m, 3, 5), see `FleetEvidence`; meaningless unless state is 1
    error: Floats  # shape (m,), the model's
    source: str = ""  # where the scores come from, in words
    sigma: str = ""  # their noise, in words

    def take(self, chosen: RowMask) -> FleetShapes:
        """Return the chosen rows."""
        return replace(self, **{name: getattr(self, name)[chosen] for name in _SHAPE_COLUMNS})

    @property
    def fitted(self) -> Bools:
        """Runs that were classified and that a shape fits."""
        return np.equal(self.state, stored.ANSWERED) & ~self.unmodelled

    def lost(self) -> dict[str, int]:
        """Return how many runs have no shape, by kind; those without a curve are missing input."""
        found = {"missing_input": int((self.state == stored.NO_RECORD).sum())}
        states = np.unique(self.state[self.state < 0], return_counts=True)
        for state, n in zip(*states, strict=True):
            kind = stored.unmeasured_kind(int(state))
            found[kind] = found.get(kind, 0) + int(n)
        return {kind: n for kind, n in found.items() if n}


_SHAPE_COLUMNS = [x.name for x in fields(FleetShapes) if x.default is MISSING]


def _fail_gates(
    rows: stored.Rows,
    runs: stored.Runs,
    at: Ints,  # the place of each curve's run
    curves: Sequence[tuple[Floats, Ints]],  # scores, NaN where nobody scored; where it has rows
    noise: Floats | None,  # of each curve; None where nobody has measured it
) -> Bools:
    """Return the runs in which a step of the highest weight is below the gate."""
    failed = np.zeros(len(runs), np.bool_)
    weights = rows.weights()
    for row, (points, scored) in enumerate(curves if weights else ()):
        place = int(at[row])
        workflow, task = runs.workflow[place], runs.task[place] or runs.name[place]
        own = weights.get((workflow, task)) or weights.get((workflow, EVERY_TASK)) or ()
        # Weights are of all steps, or of those that have rows.
        weighed = points if len(own) == len(points) else points[scored]
        if own and len(own) == len(weighed):
            sigma = None if noise is None else float(noise[row])
            below = gate_failed(weighed.tolist(), own, sigma=sigma)
            failed[place] = not isinstance(below, Unmeasured) and bool(below)
    return failed


def align_shapes(
    found: FleetEvidence,
    of: Ints,  # the place of each curve's run
    size: int,  # how many runs there are
    *,
    gate_failed: Bools,  # of each run
    break_step: Ints,  # of each curve that was classified, -1 for none
) -> FleetShapes:
    """Return the shapes of curves in the places of their runs."""
    batch = found.batch
    state = np.full(size, stored.NO_RECORD, np.int8)
    lost = [stored.cell_state(absent.kind) for absent in batch.absences]
    state[of] = np.array([stored.ANSWERED, *lost], np.int8)[batch.reasons]
    at = of[batch.rows]
    return FleetShapes(
        state=state,
        label=_spread(at, size, batch.label, UNRESOLVED),
        unmodelled=_spread(at, size, batch.unmodelled, False),
        low_level=_spread(at, size, batch.low_level, False),
        gate_failed=gate_failed,
        break_step=_spread(at, size, break_step, -1),
        log_likelihood=_spread(at, size, found.log_likelihood, 0.0),
        error=_spread(at, size, found.error, 0.0),
    )


def join_shapes(parts: Sequence[FleetShapes], *, source: str, sigma: str) -> FleetShapes:
    """Return the shapes of several lots of runs one after the other."""
    columns = {x: np.concatenate([getattr(part, x) for part in parts]) for x in _SHAPE_COLUMNS}
    return FleetShapes(**columns, source=source, sigma=sigma)


def _spread(at: Ints, size: int, values: npt.NDArray[T], absent: float) -> npt.NDArray[T]:
    """Return values in the places of their runs, `absent` in all others."""
    whole = np.full((size, *values.shape[1:]), absent, values.dtype)
    whole[at] = values
    return whole


def estimate_shapes(of: FleetShapes | None, clusters: Ints, seed: int) -> Shapes | Unmeasured:
    """Return the shapes of a group of runs: shares with intervals, and what was counted beside."""
    if of is None or not (of.state != stored.NO_RECORD).any():
        return NO_CURVES
    return count_shapes(of, clusters, np.random.default_rng([seed, 0x53484150]))


def count_shapes(of: FleetShapes, clusters: Ints | None, rng: np.random.Generator) -> Shapes:
    """Return the shapes of runs, of which at least one may have a curve; see `estimate_shapes`."""
    fitted, answered = of.fitted, of.state == stored.ANSWERED
    lost = of.lost()
    unmodelled = int(of.unmodelled.sum())
    shares = prevalence(
        of.log_likelihood[fitted],
        rng=rng,
        error=float(of.error[fitted].mean()) if fitted.any() else 0.0,
        clusters=None if clusters is None else clusters[fitted],
        unmeasured={**lost, **({"unmodelled": unmodelled} if unmodelled else {})},
    )
    counts = np.bincount(of.label[of.label >= 0], minlength=len(SHAPES)).tolist()
    return Shapes(
        shares={} if isinstance(shares, Unmeasured) else shares,
        no_shares=shares if isinstance(shares, Unmeasured) else None,
        labels={str(name): n for name, n in zip(SHAPES, counts, strict=True) if n},
        n_runs=int(answered.sum()),
        unresolved=int((fitted & (of.label == UNRESOLVED)).sum()),
        unmodelled=unmodelled,
        low_level=int(of.low_level.sum()),
        gate_failed=int(of.gate_failed.sum()),
        unmeasured=lost,
        source=of.source,
        sigma=of.sigma,
    )


# What `by` may name, besides `tag.KEY`; by default groups are the agents of each workflow.
FIELDS = ("workflow", "agent", "agent_version", "task", "trial", "outcome")
DEFAULT_BY = ("workflow", "agent")
TAG = "tag."


# By axis: in which runs it proved a fault, 1 or 0, and in which its checks ran.
AxisFaults = Mapping[str, tuple[Floats, Bools]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTable:
    """Runs with the columns that a report reads, all aligned."""

    runs: stored.Runs  # the runs
    columns: stored.Columns  # of each measure with records, or in the vector
    clusters: Ints  # the task of each as a number: (workflow, task), or the run where it has none
    tags: Mapping[str, stored.Texts] = field(default_factory=dict)  # asked for, as "tag.KEY"
    shapes: FleetShapes | None = None  # of score curves; None where no run has one
    judged: Floats | None = None  # what judges found, weighed; None where it is not asked for
    custom: tuple[str, ...] = ()  # measures of the user, and their aspects
    faults: AxisFaults = field(default_factory=dict)  # what each axis proved

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def n_tasks(self) -> int:
        """How many tasks the runs come from."""
        return len(np.unique(self.clusters))

    def values(self, name: str) -> stored.Texts:
        """Return a field of the runs, or one of the tags that were asked for."""
        found: stored.Texts = self.tags[name] if name in self.tags else getattr(self.runs, name)
        return found

    def matches(self, group: Mapping[str, str | None]) -> Bools:
        """Return which runs have these values of these fields and tags; all for an empty group."""
        chosen = np.ones(len(self), np.bool_)
        for name, value in group.items():
            chosen &= self.values(name) == value
        return chosen

    def take(self, chosen: RowMask) -> RunTable:
        """Return the chosen rows."""
        runs = {f.name: getattr(self.runs, f.name)[chosen] for f in fields(stored.Runs)}
        return RunTable(
            runs=stored.Runs(**runs),
            columns={name: column.take(chosen) for name, column in self.columns.items()},
            clusters=self.clusters[chosen],
            tags={name: values[chosen] for name, values in self.tags.items()},
            shapes=None if self.shapes is None else self.shapes.take(chosen),
            custom=self.custom,
            faults={key: (one[chosen], ran[chosen]) for key, (one, ran) in self.faults.items()},
        )

    def versions(self) -> dict[str, str]:
        """Return the version behind each measure that has records."""
        return {n: c.versions[0] for n, c in sorted(self.columns.items()) if c.versions}

    def scored(self, measure: str) -> bool:
        """Tell whether any run has a record of the measure."""
        return bool((self.columns[measure].state != stored.NO_RECORD).any())

    def lost(self, measure: str, chosen: RowMask | None = None) -> dict[str, int]:
        """Return how many of the runs have no answer, by kind; not scored is a kind of its own."""
        state = self.columns[measure].state
        state = state if chosen is None else state[chosen]
        missing = int((state == stored.NO_RECORD).sum())
        return stored.count_unmeasured(state) | ({NOT_SCORED: missing} if missing else {})


def read_table(rows: stored.Rows, where: Where | None, by: Iterable[str] = ()) -> RunTable:
    """Read the chosen runs, their columns, shapes, tags of `by`; refuse versions that are mixed."""
    runs = rows.runs(where)
    custom = tuple(filter(is_custom, rows.measures()))
    read = (*MEASURES.values(), *ALSO_READ, *AXES, *custom)
    columns = {name: rows.column(name, runs) for name in read}
    mixed = {n: c.versions for n, c in columns.items() if len(c.versions) > 1}
    if mixed:
        name, versions = next(iter(mixed.items()))
        raise StoreError(
            f"records of {name!r} are of versions {', '.join(versions)}, which may not be mixed; "
            f"score again: stepscope score --measure {name.split('.')[0]}"
        )
    asked = [name for name in by if name.startswith(TAG)]
    tags = {name: rows.tag(name.removeprefix(TAG), runs) for name in asked}
    for name, values in tags.items():
        if len(runs) and all(value is None for value in values.tolist()):
            raise UsageError(f"no run has the tag {name.removeprefix(TAG)!r}")
    return RunTable(
        runs=runs,
        columns=columns,
        clusters=number_tasks(runs),
        tags=tags,
        shapes=classify_fleet(rows, runs),
        custom=custom,
        faults=read_axis_faults(columns),
    )


# What a report reads and no measure of the rules says.
_OTHERS = (JUDGE_PREFIX, f"{HUMAN}.", f"{STEP_SCORES}.")


def is_custom(measure: str) -> bool:
    """Whether answers of this name are of a measure of the user."""
    known = registry.built_in("measures")
    return not f"{measure}.".startswith((*_OTHERS, *(f"{one}." for one in known)))


def number_tasks(runs: stored.Runs) -> Ints:
    """Return the task of each run as a number; a run without a task is its own."""
    known: dict[tuple[str, str] | int, int] = {}
    named = zip(runs.workflow.tolist(), runs.task.tolist(), runs.key.tolist(), strict=True)
    tasks = [key if task is None else (workflow, task) for workflow, task, key in named]
    return np.array([known.setdefault(name, len(known)) for name in tasks], np.int64)


def choose_fields(by: str | None) -> tuple[str, ...]:
    """Return the fields that make the groups; refuse what is no field."""
    if by is None:
        return DEFAULT_BY
    if by not in FIELDS and by.removeprefix(TAG) in (by, ""):
        known = ", ".join(FIELDS)
        raise UsageError(f"--by {by!r} is not a field; expected one of {known}, tag.KEY")
    return (by,)


def split_groups(
    table: RunTable, names: Iterable[str]
) -> Iterator[tuple[dict[str, str | None], RunTable]]:
    """Yield each group, its fields and values first, in the order of the values."""
    names = tuple(names)
    values = [table.values(name) for name in names]
    places: dict[tuple[str | None, ...], list[int]] = {}
    for at, group in enumerate(zip(*(v.tolist() for v in values), strict=True)):
        places.setdefault(group, []).append(at)
    for group in sorted(places, key=lambda g: tuple((v is None, v or "") for v in g)):
        part = table.take(np.array(places[group])) if places.keys() - {group} else table
        yield dict(zip(names, group, strict=True)), part


def read_outcomes(table: RunTable) -> tuple[Bools, Bools]:
    """Return which runs have an outcome, and which of these passed."""
    column = table.columns["outcome"]
    known = column.valued
    return known, known & (np.nan_to_num(column.value) > 0)


def read_axis_faults(columns: stored.Columns) -> AxisFaults:
    """Return what each axis proved."""
    found = {}
    for key in AXES:
        column = columns[key]
        proved = column.label == INCORRECT
        ran = column.answered & (proved | (column.label == UNCERTAIN)) & (not is_outdated(column))
        found[key] = proved.astype(np.float64), ran
    return found


def is_outdated(column: stored.AnswerColumn) -> bool:
    """Tell whether answers are of a version of their measure that is not today's."""
    current = (registry.measure(column.measure).version,)
    return bool(column.versions) and column.versions != current


def read_values(table: RunTable, measure: str) -> tuple[Floats, Bools]:
    """Return a value for each run, and which runs have one."""
    if measure in AXES:
        return table.faults[measure]
    column = table.columns[measure]
    if measure == "policy":
        return (np.nan_to_num(column.value) > 0).astype(np.float64), column.valued
    return column.value, column.valued


def say_no_match(rows: stored.Rows, where: Where | None) -> str:
    """Return why a filter chooses no run."""
    if isinstance(rows, Store):
        return rows.explain_no_match(where)
    return stored.explain_no_match(rows, where)


def hide_texts(redactor: Redactor | None, texts: list[str]) -> list[str]:
    """Return texts without secrets, each different one looked at once."""
    values = list(dict.fromkeys(texts))
    shown = hide_in(redactor, values)
    put = {} if shown is values else dict(zip(values, shown, strict=True))
    return [put[text] for text in texts] if put else texts


def read_shown_run(
    store: Store, run: str, judged: Sequence[JudgeAnswers] | None = None
) -> tuple[Trajectory, Case | None, list[Record]]:
    """Return a run, its case, its records in order, secrets hidden; of judges those `judged`."""
    key = store.find(run)
    records = keep_chosen(store.records(trajectory=key), judged)
    # What is said of the whole run, at no step, comes first.
    records.sort(key=lambda r: (r.answer.step is not None, r.answer.step or 0, r.version))
    records.sort(key=lambda r: (r.family, r.answer.measure))
    trajectory, records = hide_secrets(store.shown, store.trajectory(key), records)
    return trajectory, trajectory.case, records


# What measures write where they cut a quotation.
_CUT = "…"
# Characters of a secret before a cut that are told from chance.
_TOLD = 5
# Characters of a secret that no chance puts together.
_BEGUN = 12
# Characters of one line of a secret in several that are worth hiding.
_LINE = 16
# A word of a secret that is no word of a language.
_WORD = re.compile(r"(?=[A-Za-z]*\d)[A-Za-z0-9]{8,}")


def hide_secrets(
    redactor: Redactor | None, run: Trajectory, records: list[Record]
) -> tuple[Trajectory, list[Record]]:
    """Return a run and its records without secrets, themselves where there are none to hide."""
    if redactor is None:
        return run, records
    plain = msgspec.to_builtins(run)
    clean = redact_json(redactor, plain)
    pieces: dict[str, str] = {}
    if clean is not plain:
        pieces = {p: put for text in texts_in(plain) for p, put in redactor.pieces(text)}
        # Readers cut long errors.
        run = msgspec.convert(_without_pieces(clean, pieces), Trajectory)
        for piece, placeholder in list(pieces.items()):
            # Measures quote the first line of a text, and words with a number of it.
            lines = piece.splitlines() if "\n" in piece else ()
            told = [line for line in lines if len(line) >= _LINE] + _WORD.findall(piece)
            pieces.update((part, placeholder) for part in told)
    redact = cache(redactor.redact)
    return run, [_record(redact, record, pieces) for record in records]


def _record(redact: Callable[[str], str], record: Record, pieces: Mapping[str, str]) -> Record:
    judge, reason = redact(record.judge), redact(record.answer.reason)
    reason = _without_pieces(reason, pieces)
    if pieces and _CUT in reason:
        said, *others = reason.split(_CUT)
        out = [_without_beginning(part, pieces) for part in (said, *others[:-1])]
        reason = _CUT.join([*out, others[-1]])
    if (judge, reason) == (record.judge, record.answer.reason):
        return record
    answer = msgspec.structs.replace(record.answer, reason=reason)
    return msgspec.structs.replace(record, answer=answer, judge=judge)


def _without_pieces(value: Json, pieces: Mapping[str, str]) -> Json:
    """Return a JSON value without some pieces in its texts, and without what begins as they do."""
    if isinstance(value, list | tuple):
        return [_without_pieces(one, pieces) for one in value]
    if isinstance(value, dict):
        return {key: _without_pieces(one, pieces) for key, one in value.items()}
    for piece, placeholder in pieces.items() if isinstance(value, str) else ():
        value = value.replace(piece, placeholder)
        at = value.find(piece[:_BEGUN]) if len(piece) > _BEGUN else -1
        while at >= 0:
            same = takewhile(lambda pair: pair[0] == pair[1], zip(value[at:], piece, strict=False))
            value = value[:at] + placeholder + value[at + sum(1 for _ in same) :]
            at = value.find(piece[:_BEGUN], at + len(placeholder))
    return value


def _without_beginning(said: str, pieces: Mapping[str, str]) -> str:
    """Return a text without the piece that it breaks off in."""
    found = (_begun(said, piece) for piece in pieces)
    at, piece = min(((at, piece) for at, piece in found if at >= 0), default=(-1, ""))
    return said if at < 0 else said[:at] + pieces[piece]


def _begun(said: str, piece: str) -> tuple[int, str]:
    """Return where the end of a text begins to be the beginning of a piece; -1 where nowhere."""
    at = said.find(piece[:_TOLD], max(len(said) - len(piece), 0))
    while at >= 0 and not piece.startswith(said[at:]):
        at = said.find(piece[:_TOLD], at + 1)
    return at, piece
