"""The shapes of the score curves in a file, without a store: read, classified, printed, estimated.

Memory stays bounded: curves are classified some thousands at a time and forgotten, but for a few
numbers each, from which the shares of the fleet are estimated at the end. Repeats of a step are
averaged. A row that cannot be read is an error that names it: a curve with a hole that nobody
meant has another shape.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope.errors import DataError, TraceError, UsageError
from stepscope.formats.scores.rows import read_score_rows
from stepscope.formats.scores.runs import group_runs
from stepscope.model import Quarantined, Stream
from stepscope.report import rows as tables
from stepscope.report.document import TableColumn
from stepscope.report.render import text
from stepscope.report.types import Shapes
from stepscope.report.views import overview
from stepscope.report.views.show import draw_sparkline
from stepscope.report.words import clip, name_shape
from stepscope.runtime.database import Closeable
from stepscope.safety.limits import open_file
from stepscope.safety.text import visible_line
from stepscope.settings import Settings, load_settings
from stepscope.shape.breaks import break_point
from stepscope.shape.fleet import FleetEvidence, weigh_fleet
from stepscope.shape.inputs import lay_out
from stepscope.shape.types import SHAPES, UNRESOLVED, ShapeLabel
from stepscope.shape.weights import gate_failed, weighted_score
from stepscope.stats import codes
from stepscope.store import Store
from stepscope.values import Estimate, Unmeasured, format_count, format_number, format_percent

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# Curves held at once: enough that what is made for a length of curve serves many.
BATCH_CURVES = 20_000
# Steps classified at once, or one late step of each run would fill the memory.
LOT = 8_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CurveBatch:
    """Curves laid end to end, one for each run and judge."""

    runs: list[tuple[str, str]]  # name and judge of each curve, m of them
    tasks: list[str]  # task of each, "" where the file does not say
    starts: Ints  # shape (m + 1,), where each begins
    sizes: Ints  # shape (m,), steps of each run, up to the last that any judge was shown
    steps: Ints  # shape (n,), index of each scored step
    scores: Floats  # shape (n,), NaN where nobody scored
    repeats: Ints  # shape (m,), fewest scorings averaged in a score of the curve
    numbers: dict[str, Floats]  # latency, cost, weight of each step, as far as the file has them
    # of the curves, once they are classified
    found: FleetEvidence = field(default_factory=lambda: weigh_fleet((), np.empty(0, np.int64)))
    sigma: float | None = None  # noise of one scoring, with which they were labelled

    def __len__(self) -> int:
        return len(self.runs)

    def noise_of(self, at: int) -> float | None:
        """Return the noise of the scores of a curve."""
        return None if self.sigma is None else min(self.sigma / float(self.repeats[at]) ** 0.5, 1.0)

    def take(self, at: Ints) -> CurveBatch:
        """Return the curves at some places."""
        spans = [np.arange(self.starts[i], self.starts[i + 1]) for i in at.tolist()]
        entries = np.concatenate(spans) if spans else np.empty(0, np.int64)
        return CurveBatch(
            runs=[self.runs[i] for i in at.tolist()],
            tasks=[self.tasks[i] for i in at.tolist()],
            starts=np.append(0, np.cumsum(np.diff(self.starts)[at])),
            sizes=self.sizes[at],
            steps=self.steps[entries],
            scores=self.scores[entries],
            repeats=self.repeats[at],
            numbers={name: cells[entries] for name, cells in self.numbers.items()},
        )


def read_curves(stream: Stream) -> Iterator[CurveBatch]:
    """Yield the curves of a file in batches."""
    held: list[CurveBatch] = []
    for found in group_runs(read_score_rows(stream), stream.uri):
        if isinstance(found, Quarantined):
            raise TraceError(f"{stream.uri}, {found.reason}", offset=found.offset)
        rows = found.rows
        run = np.repeat(np.arange(len(found.names)), np.diff(found.starts))
        judges, tasks = rows.texts.get("judge"), rows.texts.get("task")
        breaks = run[1:] != run[:-1]
        if judges is not None:
            breaks |= np.array([a != b for a, b in zip(judges[1:], judges, strict=False)], np.bool_)
        first = np.append(True, breaks)
        entry = np.flatnonzero(first | np.append(True, rows.step[1:] != rows.step[:-1]))
        begins = np.flatnonzero(first[entry])
        scores, counts = tables.average_scorings(entry, rows.score)
        places = entry[begins].tolist()
        sizes = np.maximum.reduceat(rows.step, found.starts[:-1])[run[entry[begins]]] + 1
        if (sizes > stream.limits.steps).any():
            at, most = places[int(sizes.argmax())], stream.limits.steps
            name = f"{stream.uri}, row {int(rows.row[at])}: run {rows.run[at]!r}"
            raise TraceError(f"{name} has over {most:,} steps; raise limits.steps")
        batch = CurveBatch(
            runs=[(rows.run[i], "" if judges is None else judges[i]) for i in places],
            tasks=["" if tasks is None else tasks[i] for i in places],
            starts=np.append(begins, len(entry)),
            sizes=sizes,
            steps=rows.step[entry],
            scores=scores,
            repeats=tables.count_fewest(counts, begins),
            numbers={name: cells[entry] for name, cells in rows.numbers.items()},
        )
        held.append(batch)
        if sum(map(len, held)) >= BATCH_CURVES:
            yield _join_batches(held)
            held = []
    if held:
        yield _join_batches(held)


def _join_batches(parts: list[CurveBatch]) -> CurveBatch:
    offsets = np.cumsum([0, *(len(part.steps) for part in parts)])
    starts = [part.starts[:-1] + off for part, off in zip(parts, offsets.tolist(), strict=False)]
    numbers = {}
    for name in dict.fromkeys(name for part in parts for name in part.numbers):
        cells = [part.numbers.get(name, np.full(len(part.steps), np.nan)) for part in parts]
        numbers[name] = np.concatenate(cells)
    return CurveBatch(
        runs=[run for part in parts for run in part.runs],
        tasks=[task for part in parts for task in part.tasks],
        starts=np.append(np.concatenate(starts), offsets[-1]),
        sizes=np.concatenate([part.sizes for part in parts]),
        steps=np.concatenate([part.steps for part in parts]),
        scores=np.concatenate([part.scores for part in parts]),
        repeats=np.concatenate([part.repeats for part in parts]),
        numbers=numbers,
    )


Weights = Mapping[str, Sequence[float]]

_NONE = np.empty(0, np.bool_)
JudgeNoise = tuple[Estimate | float | None, float, str]
# Weights of every run, beside those of a run or a task by its name.
EVERY_RUN = "*"
_SIGNALS = ("latency", "cost")


class RunShape(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of one run of a file, for each of its judges; steps are those of the file."""

    run: str  # its name in the file
    judge: str  # who scored it; "" where the file does not say
    steps: tuple[int, ...]  # steps that are in the file, in order
    scores: tuple[float | None, ...]  # their scores, None where nobody scored
    sigma: float | None  # noise of a score; None where it was averaged over a range
    shape: ShapeLabel | Unmeasured  # the shape, "unresolved", or why there is none
    posterior: dict[str, float] = msgspec.field(default_factory=dict)  # probability by shape
    unmodelled: bool = False  # no shape fits
    low_level: bool = False  # the mean is low, whatever the shape
    mean: float | None = None  # mean score
    break_step: int | None = None  # the most probable break; None where no break is declared
    break_first: int | None = None  # first step of the 90 % run of the break
    break_last: int | None = None  # last step of it
    break_from: tuple[str, ...] = ()  # what the break rests on: "scores", "latency", "cost"
    watch: tuple[int, ...] = ()  # steps where latency or cost spikes and the score holds
    weighted: float | None = None  # mean under the weights; None without, or with a score missing
    gate_failed: tuple[int, ...] = ()  # steps of weight 3 below the gate


def _break_of(found: RunShape, entry: Sequence[int | None]) -> RunShape:
    step, first, last = (None if at is None or at < 0 else at for at in entry)
    return msgspec.structs.replace(found, break_step=step, break_first=first, break_last=last)


def _align(found: FleetEvidence, gate_failed: npt.NDArray[np.bool_] = _NONE) -> tables.FleetShapes:
    n, broke = len(gate_failed), found.batch.break_step.astype(np.int64)
    return tables.align_shapes(found, np.arange(n), n, gate_failed=gate_failed, break_step=broke)


class FileShapes(Closeable):
    """The shapes of a file of scores: iterate over its curves, ask for the `fleet`, close it."""

    def __init__(
        self,
        stream: Stream,  # the file
        *,
        sigma: float | None = None,  # noise of one score, instead of that of `noise`
        quantum: float | None = None,  # step between the values that the judge can give
        weights: Weights | None = None,  # of steps, by name of a run or task, or `EVERY_RUN`
        noise: Mapping[str, Estimate] | None = None,  # sigma of each judge, from repeats
        seed: int = 0,  # where random draws start
        # called with the number of curves done, and 0
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._stream, self._sigma, self._quantum = stream, sigma, quantum
        self._weights, self._noise = weights or {}, noise or {}
        self._seed, self._progress = seed, progress
        # Of every curve that was read: a few numbers, and its task.
        self._found = [_align(weigh_fleet((), np.empty(0, np.int64)))]
        self._tasks: list[str] = []
        # Of every judge: the noise of one scoring, the correlation of errors, and both in words.
        self._known: dict[str, JudgeNoise] = {}
        self._repeats = 1
        self.unweighed = 0  # curves so far for which no weights of their length are said

    def close(self) -> None:
        """Close the file."""
        self._stream.file.close()

    def __iter__(self) -> Iterator[RunShape]:
        """Yield every curve of the file.

        Raises:
            TraceError: a row cannot be read, or a column is missing; the message names the row.
        """
        for part in self.batches():
            for at in range(len(part)):
                yield self.shape_of(part, at)

    def batches(self) -> Iterator[CurveBatch]:
        """Yield curves some thousands at a time, classified; raises as `__iter__`."""
        done = 0
        for held in read_curves(self._stream):
            judges = [judge for _, judge in held.runs]
            for judge in dict.fromkeys(judges):
                mine = np.flatnonzero([one == judge for one in judges])
                lots = np.diff(np.cumsum(held.sizes[mine]) // LOT)
                for lot in np.split(mine, np.flatnonzero(lots) + 1):
                    found = self._classified(held.take(lot), judge)
                    self._count(found)
                    yield found
            done += len(held)
            if self._progress is not None:
                self._progress(done, 0)

    def fleet(self) -> Shapes:
        """Return the shares of the shapes over the curves read so far, and what was counted."""
        known = sorted((judge, noise) for judge, (_, _, noise) in self._known.items())
        named, source = ", ".join(judge for judge, _ in known if judge), self._stream.uri
        source += f", judged by {named}" if named else ""
        source += f", means of up to {self._repeats} scorings" if self._repeats > 1 else ""
        several = len(known) > 1 and self._sigma is None
        sigma = "; ".join(dict.fromkeys(f"{j}: {said}" if several else said for j, said in known))
        of = tables.join_shapes(self._found, source=source, sigma=sigma)
        tasks = [task for task, fits in zip(self._tasks, of.fitted.tolist(), strict=True) if fits]
        return tables.count_shapes(
            of,
            codes(self._tasks) if tasks and all(tasks) else None,
            np.random.default_rng(self._seed),
        )

    def _classified(self, part: CurveBatch, judge: str) -> CurveBatch:
        """Return the curves of one judge with their shapes."""
        scores = lay_out(part.scores, np.diff(part.starts), part.steps, part.sizes)
        if judge not in self._known:
            known: JudgeNoise = (self._sigma, 0.0, f"{self._sigma or 0:g}, given")
            if self._sigma is None:
                known = tables.know_noise(self._noise.get(judge), scores, part.sizes, part.repeats)
            grid = tables.note_grid(scores, part.repeats) if self._quantum is None else ""
            self._known[judge] = *known[:2], known[2] + grid
        sigma, correlation, _ = self._known[judge]
        self._repeats = max(self._repeats, int(part.repeats.max()))
        sizes, repeats, quantum = part.sizes, part.repeats, self._quantum
        found = weigh_fleet(
            scores, sizes, sigma=sigma, repeats=repeats, quantum=quantum, correlation=correlation
        )
        most = sigma.high if isinstance(sigma, Estimate) else sigma
        return replace(part, found=found, sigma=most)

    def _count(self, found: CurveBatch) -> None:
        failed = np.zeros(len(found), np.bool_)
        if self._weights or "weight" in found.numbers:
            weighed = [at for at in range(len(found)) if self._weights_of(found, at)]
            self.unweighed += len(found) - len(weighed)
            failed[weighed] = [bool(self.shape_of(found, at).gate_failed) for at in weighed]
        self._tasks += found.tasks
        self._found.append(_align(found.found, failed))

    def shape_of(self, held: CurveBatch, at: int) -> RunShape:
        """Return one curve of a batch with its shape."""
        name, judge = held.runs[at]
        mine = slice(int(held.starts[at]), int(held.starts[at + 1]))
        found = RunShape(
            run=name,
            judge=judge,
            steps=tuple(held.steps[mine].tolist()),
            scores=tuple([None if np.isnan(s) else float(s) for s in held.scores[mine].tolist()]),
            sigma=held.noise_of(at),
            shape="unresolved",
        )
        found = self._weighed(found, held, at)
        batch = held.found.batch
        if reason := int(batch.reasons[at]):
            return msgspec.structs.replace(found, shape=batch.absences[reason - 1])
        return self._shaped(found, held, at, mine)

    def _weights_of(self, held: CurveBatch, at: int) -> tuple[float, ...] | None:
        """Return the weights of a curve: of the file, else by run, task, or for every run."""
        name, _ = held.runs[at]
        own = held.numbers.get("weight")
        mine = slice(int(held.starts[at]), int(held.starts[at + 1]))
        if own is not None and not np.isnan(own[mine]).any():
            return tuple(own[mine].tolist())
        for key in (name, held.tasks[at], EVERY_RUN):
            if key in self._weights:
                found = tuple(self._weights[key])
                fits = len(found) in (mine.stop - mine.start, int(held.sizes[at]))
                if not fits and key != EVERY_RUN:
                    raise UsageError(
                        f"{len(found)} weights for {key!r}, whose run {name!r} has "
                        f"{mine.stop - mine.start} scored steps; expected one a step"
                    )
                return found if fits else None
        return None

    def _weighed(self, found: RunShape, held: CurveBatch, at: int) -> RunShape:
        weights = self._weights_of(held, at)
        if weights is None:
            return found
        steps: Sequence[int] = found.steps
        if len(weights) != len(steps):  # of all steps, also of those without a row
            steps = range(len(weights))
        points = dict(zip(found.steps, found.scores, strict=True))
        scores = [points.get(step) for step in steps]
        try:
            mean = weighted_score(scores, weights)
            failed = gate_failed(scores, weights, sigma=held.noise_of(at))
        except DataError as e:
            raise UsageError(f"run {found.run!r}: {e}") from e
        below = () if isinstance(failed, Unmeasured) else tuple([steps[step] for step in failed])
        known = None if isinstance(mean, Unmeasured) else mean
        return msgspec.structs.replace(found, weighted=known, gate_failed=below)

    def _shaped(self, found: RunShape, held: CurveBatch, at: int, mine: slice) -> RunShape:
        batch = held.found.batch
        row = int(np.searchsorted(batch.rows, at))
        label = int(batch.label[row])
        unmodelled = bool(batch.unmodelled[row])
        found = msgspec.structs.replace(
            found,
            shape="unresolved" if label == UNRESOLVED else SHAPES[label],
            posterior=dict(zip(SHAPES, batch.posterior[row].tolist(), strict=True)),
            unmodelled=unmodelled,
            low_level=bool(batch.low_level[row]),
            mean=float(batch.mean[row]),
            break_from=("scores",),
        )
        signals = {n: held.numbers[n][mine] for n in _SIGNALS if n in held.numbers}
        if any((~np.isnan(cells)).any() for cells in signals.values()):
            return self._fused(found, signals, int(held.sizes[at]))
        entry = [int(a[row]) for a in (batch.break_step, batch.break_low, batch.break_high)]
        return found if unmodelled else _break_of(found, entry)

    def _fused(self, found: RunShape, signals: Mapping[str, Floats], size: int) -> RunShape:
        """Return a curve with the break that scores, latency and cost give together."""
        cells = {"scores": np.array(found.scores, np.float64), **signals}
        whole = {name: np.full(size, np.nan) for name in cells}
        for name, told in cells.items():
            whole[name][list(found.steps)] = told
        broke = break_point(
            whole["scores"],
            latency=whole.get("latency"),
            cost=whole.get("cost"),
            sigma=found.sigma,
            quantum=self._quantum,
        )
        if isinstance(broke, Unmeasured):
            return found
        watched = msgspec.structs.replace(found, watch=broke.watch, break_from=broke.sources)
        entry = (broke.step, broke.first, broke.last)
        return watched if found.unmodelled else _break_of(watched, entry)


def shapes(
    scores: str | Path,
    *,
    sigma: float | None = None,
    quantum: float | None = None,
    weights: Mapping[str, Sequence[float]] | None = None,
    store: str | Path | None = None,
    seed: int | None = None,
    settings: Settings | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> FileShapes:
    """Return the shapes of the score curves in a file: CSV or JSON lines, "-" for standard input.

    Args:
        scores: the file; its columns are run, step, score and what else is known.
        sigma: noise of one score; when left out what `calibrate` measured, else unknown.
        quantum: step between the values that the judge can give.
        weights: of steps, by name of a run or task, or "*" for every run.
        store: where measured noise is looked up; the one of the settings when left out.
        seed: where random draws start; when left out that of the settings.
        settings: when left out those of the working directory.
        progress: called with the number of curves done, and 0.

    Raises:
        UsageError: no such file, or sigma is no noise of a score from 0 to 1.

    >>> with shapes("examples/scores/scores.csv", sigma=0.05) as found:
    ...     next(iter(found)).shape
    'healthy'
    """
    if sigma is not None and not 0 < sigma <= 1:
        raise UsageError(f"sigma is {sigma!r}; expected more than 0 and at most 1, such as 0.05")
    if quantum is not None and not 0 < quantum <= 1:
        raise UsageError(f"quantum is {quantum!r}; expected more than 0 and at most 1, such as 0.1")
    held = load_settings() if settings is None else settings
    place = Path(held.store if store is None else store)
    noise: Mapping[str, Estimate] = {}
    if sigma is None and place.is_file():
        with Store.open(place) as known:
            noise = known.noise()
    elif store is not None and not place.is_file():
        raise UsageError(f"no store at {str(place)!r}")
    return FileShapes(
        open_score_file(str(scores), held),
        sigma=sigma,
        quantum=quantum,
        weights=weights,
        noise=noise,
        seed=held.seed if seed is None else seed,
        progress=progress,
    )


def open_score_file(path: str, settings: Settings) -> Stream:
    """Return a file that is read as it is named, "-" for standard input."""
    if path == "-":
        # A copy of the handle, so that closing it leaves standard input alone.
        return Stream(open(sys.stdin.fileno(), "rb", closefd=False), "-", settings.limits)
    try:
        return Stream(open_file(path), visible_line(path), settings.limits)
    except (OSError, ValueError) as e:
        why = getattr(e, "strerror", None) or e
        raise UsageError(f"{visible_line(path)}: cannot be read: {why}") from e


# Columns of the table; the curve takes what is left.
NAME, SHAPE, SURE, MEAN, BREAK = 20, 18, 5, 5, 12
HEAD = (
    f"{'run':<{NAME}}  {'shape':<{SHAPE}}  {'P':>{SURE}}  {'mean':>{MEAN}}  "
    f"{'break (90 %)':<{BREAK}}  scores"
)
UNRESOLVED_LINE = "? no shape has a probability of .80: unresolved"


def curve_line(run: RunShape, width: int) -> str:
    """Return one curve as a line of at most `width` columns."""
    name = f"{run.run} ({run.judge})" if run.judge else run.run
    shape, sure = _shape_cell(run)
    mean = "-" if run.mean is None else format_number(run.mean)
    head = (
        f"{clip(visible_line(name), NAME):<{NAME}}  {shape:<{SHAPE}}  {sure:>{SURE}}  "
        f"{mean:>{MEAN}}  {_break_cell(run):<{BREAK}}  "
    )
    flags = " ".join(_flags_cell(run))
    room = max(width - len(head) - (len(flags) + 2 if flags else 0), 4)
    cells = dict(zip(run.steps, run.scores, strict=True))
    drawn = clip(draw_sparkline([cells.get(at) for at in range(max(cells, default=-1) + 1)]), room)
    return (f"{head}{drawn}  {flags}" if flags else f"{head}{drawn}").rstrip()


def _shape_cell(run: RunShape) -> tuple[str, str]:
    if isinstance(run.shape, Unmeasured):
        return f"- {run.shape.kind}"[:SHAPE], "-"
    if run.unmodelled:
        return "no shape fits", "-"
    best = max(run.posterior, key=lambda name: run.posterior[name])
    said = name_shape(run.shape if run.shape != "unresolved" else f"{best}?")
    return said, format_percent(run.posterior[best])


def _break_cell(run: RunShape) -> str:
    if run.break_step is None:
        return "-"
    if run.break_first == run.break_last:
        return f"{run.break_step}"
    return f"{run.break_step} ({run.break_first}-{run.break_last})"


def _flags_cell(run: RunShape) -> Iterator[str]:
    if run.low_level:
        yield "low"
    if run.gate_failed:
        yield f"gate-failed:{','.join(map(str, run.gate_failed[:3]))}"
    if run.watch:
        yield f"watch:{','.join(map(str, run.watch[:3]))}"


def fleet_lines(shapes: Shapes, width: int) -> list[str]:
    """Return the shares of the fleet as lines."""
    what = "share, 95 % interval" if shapes.shares else "curves by their own label"
    table = overview.tabulate_shapes_of([shapes], [TableColumn("")])
    heading = f"Shapes of {format_count(shapes.n_runs, 'curve')}: {what}"
    return [heading, *text.lay_out_table(replace(table, corner=""), width)[1:]]
