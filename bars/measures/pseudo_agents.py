"""Comparisons on runs whose truth is known: one agent against itself, and planted differences.

`python -m bars.measures.pseudo_agents [FILE]`; FILE defaults to the airline runs beside the
repository. Code 0: all hold; 3: one does not; 4: the runs are absent. What must hold:

- trial 0 against trial 1 (one agent, so no difference): no figure survives Holm;
- random halves of the four trials: some figure survives in at most 5 % + 1 % of the halves;
- passes turned into failures with a known chance, calls repeated with a known chance: the interval
  holds the planted difference in at least 93 % of the halves on average and 90 % in every line
  (calibration, section 8); the share found is printed (power);
- calls repeated inside real traces, scored again: the effect is the planted number, and survives.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope.formats.tau_bench import FORMAT
from stepscope.model import Record, Step, Stream, Trajectory
from stepscope.report.compare import ALPHA, compare_groups
from stepscope.report.render import text
from stepscope.report.views.compare import make_comparison_document
from stepscope.score import score_runs
from stepscope.store import Store
from stepscope.store.columns import AnswerColumn, Runs, Signs, StepColumn, Texts
from stepscope.store.where import Where
from stepscope.values import Estimate

RUNS = Path(__file__).resolve().parents[3] / "shared" / "data" / "taubench/airline/runs.json"
# 200 halves leave 1.5 points of noise on a share of .95, and take some five minutes.
REPLICATIONS = 200
# Chance that a pass is made a failure, or that a run repeats a call; 0 is the null.
PLANTED: tuple[tuple[str, float], ...] = (
    ("outcome.pass", 0.25),
    ("outcome.pass", 0.5),
    ("outcome.pass", 0.75),
    ("redundant_calls.per_run", 0.1),
    ("redundant_calls.per_run", 0.2),
    ("redundant_calls.per_run", 0.4),
)
COVERED, COVERED_ON_AVERAGE = 0.90, 0.93
FALSE_ALARMS = ALPHA + 0.01

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Row:
    """One line of the table: what was planted, what came out, whether that holds."""

    what: str
    planted: float
    found: float
    covered: float
    effect: float
    detectable: float
    holds: bool


@dataclass(frozen=True)
class Halves:
    """The rows of a store with every case's trials dealt to two agents, and a difference planted.

    Attributes:
        base: runs and columns as they were read.
        columns: the columns that a comparison reads.
        second: which runs belong to the second agent.
        planted: columns that the second agent's runs have instead.
    """

    base: Runs
    columns: dict[str, AnswerColumn]
    second: npt.NDArray[np.bool_]
    planted: dict[str, Floats]

    def runs(self, where: Where | None = None) -> Runs:
        """Return the runs under the two agents."""
        agent = np.where(self.second, "second", "first").astype(object)
        return replace(self.base, agent=agent)

    def column(self, measure: str, runs: Runs | None = None) -> AnswerColumn:
        """Return a column, the planted one where there is one."""
        column = self.columns[measure]
        values = self.planted.get(measure)
        return column if values is None else replace(column, value=values)

    def step_values(self, measure: str, runs: Runs) -> StepColumn:
        """Return no scores: comparisons of shapes are measured elsewhere."""
        return StepColumn.of_table((), np.empty((0, 5)))

    def cited(self, measure: str, runs: Runs) -> list[tuple[int, ...] | None]:
        """Return no citations."""
        return [None] * len(runs)

    def signs(self, runs: Runs, known: object = None) -> Signs:
        """Return no signatures: comparisons read columns only."""
        none = np.empty(0, np.int64)
        return Signs(texts=(), number=none, at=none, step=none, state=none.astype(np.int8))

    def weights(self) -> dict[tuple[str, str], tuple[float, ...]]:
        """Return no weights."""
        return {}

    def noise(self) -> dict[str, Estimate]:
        """Return no sigma."""
        return {}

    def tag(self, key: str, runs: Runs) -> Texts:
        """Return no tag: the halves differ by agent alone."""
        return np.full(len(runs.id), None, dtype=object)

    def measures(self) -> tuple[str, ...]:
        """Return the measures read so far."""
        return tuple(sorted(self.columns))

    def records(
        self,
        where: Where | None = None,
        *,
        trajectory: str | None = None,
        measure: str | None = None,
    ) -> Iterator[Record]:
        """Yield nothing: comparisons read columns only."""
        yield from ()


class Columns(dict[str, AnswerColumn]):
    """Columns of a store, read when first asked for."""

    def __init__(self, store: Store, runs: Runs) -> None:
        super().__init__()
        self._store, self._runs = store, runs

    def __missing__(self, measure: str) -> AnswerColumn:
        self[measure] = self._store.column(measure, self._runs)
        return self[measure]


def read(path: Path) -> list[Trajectory]:
    with path.open("rb") as file:
        runs = list(FORMAT.read(Stream(file, path.name)))
    return [run for run in runs if isinstance(run, Trajectory)]


def stored(runs: Iterable[Trajectory]) -> Store:
    store = Store.open(":memory:")
    store.put(runs)
    score_runs(store, workers=1)
    return store


def deal(runs: Runs, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Deal each case's runs to two agents at random, half to each."""
    second = np.zeros(len(runs), dtype=np.bool_)
    for task in dict.fromkeys(runs.task.tolist()):
        places = np.flatnonzero(runs.task == task)
        second[rng.permutation(places)[: len(places) // 2]] = True
    return second


def plant(
    columns: dict[str, AnswerColumn],
    key: str,
    chance: float,
    second: npt.NDArray[np.bool_],
    rng: np.random.Generator,
) -> tuple[dict[str, Floats], float]:
    """Return the second agent's changed column, and the difference that it makes on average."""
    struck = second & (rng.random(len(second)) < chance)
    if key == "outcome.pass":
        passed = columns["outcome"].value
        return {"outcome": np.where(struck, 0.0, passed)}, -chance * float(passed.mean())
    counts = columns["redundant_calls.count"].value
    return {"redundant_calls.count": counts + struck}, chance


def dealt(store: Store, replications: int, seed: int) -> list[Row]:
    """Return the null and every planted difference over random halves."""
    runs = store.runs()
    columns = Columns(store, runs)
    rng = np.random.default_rng(seed)
    rows = [_null(runs, columns, replications, rng)]
    for key, chance in PLANTED:
        found, covered, effects, powers = 0, 0, [], []
        truth = 0.0
        for _ in range(replications):
            second = deal(runs, rng)
            planted, truth = plant(columns, key, chance, second, rng)
            report = compare_groups(Halves(runs, columns, second, planted), "first", "second")
            difference = report[key]
            found += difference.survives
            if isinstance(difference.effect, Estimate):
                low, high = difference.effect.low, difference.effect.high
                covered += low is not None and high is not None and low <= truth <= high
                effects.append(difference.effect.value)
            powers.append(difference.detectable or np.nan)
        rows.append(
            Row(
                what=f"{key}, chance {chance:g}",
                planted=truth,
                found=found / replications,
                covered=covered / replications,
                effect=float(np.mean(effects)),
                detectable=float(np.nanmean(powers)),
                holds=covered / replications >= COVERED,
            )
        )
    return rows


def _null(runs: Runs, columns: Columns, replications: int, rng: np.random.Generator) -> Row:
    alarms, covered, effects, powers = 0, 0, [], []
    for _ in range(replications):
        report = compare_groups(Halves(runs, columns, deal(runs, rng), {}), "first", "second")
        alarms += any(d.survives for d in report.differences.values())
        effect = report["outcome.pass"].effect
        assert isinstance(effect, Estimate)
        covered += (effect.low or 0) <= 0 <= (effect.high or 0)
        effects.append(effect.value)
        powers.append(report["outcome.pass"].detectable or np.nan)
    rate = alarms / replications
    return Row(
        what="one agent, any figure",
        planted=0.0,
        found=rate,
        covered=covered / replications,
        effect=float(np.mean(effects)),
        detectable=float(np.nanmean(powers)),
        holds=rate <= FALSE_ALARMS,
    )


def repeated(run: Trajectory) -> Trajectory:
    """Return the run with its first answered read asked a second time, right after the answer."""
    for exchange in run.exchanges:
        result_step = exchange.result_step
        reads = exchange.call.name.startswith(("get_", "search_", "list_"))
        if reads and result_step is not None and not exchange.failed:
            pair = (run.steps[exchange.step], run.steps[result_step])
            at = result_step + 1
            steps: Sequence[Step] = (*run.steps[:at], *pair, *run.steps[at:])
            renumbered = tuple(
                msgspec.structs.replace(step, index=index) for index, step in enumerate(steps)
            )
            return msgspec.structs.replace(run, steps=renumbered, id="copy" + run.id[4:])
    raise ValueError(f"{run.name} has no read to repeat")


def in_traces(runs: Iterable[Trajectory]) -> Row:
    """Repeat one call in each run of trial 1 that reads anything; compare with it as it was."""
    chosen = [run for run in runs if run.trial == "1"]
    pairs: list[Trajectory] = []
    planted = 0
    for run in chosen:
        pairs.append(msgspec.structs.replace(run, agent="first"))
        try:
            copy = repeated(run)
            planted += 1
        except ValueError:
            copy = msgspec.structs.replace(run, id="copy" + run.id[4:])
        pairs.append(msgspec.structs.replace(copy, agent="second"))
    difference = compare_groups(stored(pairs), "first", "second")["redundant_calls.per_run"]
    effect = difference.effect
    assert isinstance(effect, Estimate)
    truth = planted / len(chosen)
    assert effect.low is not None
    assert effect.high is not None
    return Row(
        what="a call repeated in the traces",
        planted=truth,
        found=float(difference.survives),
        covered=float(effect.low <= truth <= effect.high),
        effect=effect.value,
        detectable=difference.detectable or float("nan"),
        holds=difference.survives and abs(effect.value - truth) < 1e-9,
    )


def trials(runs: Iterable[Trajectory]) -> tuple[str, bool]:
    """Return trial 0 against trial 1 as text, and whether nothing survives."""
    named = [msgspec.structs.replace(run, agent=f"trial {run.trial}") for run in runs]
    report = compare_groups(stored(named), "trial 0", "trial 1")
    survivors = [key for key, d in report.differences.items() if d.survives]
    return text.render(make_comparison_document(report)), not survivors


def main(path: Path = RUNS, replications: int = REPLICATIONS, seed: int = 0) -> int:
    if not path.is_file():
        print(f"not measured: no runs at {path}")
        return 4
    runs = read(path)
    text, quiet = trials(runs)
    print(text)
    rows = [*dealt(stored(runs), replications, seed), in_traces(runs)]
    print(
        f"{'planted in one of two halves':<40}{'truth':>8}{'effect':>8}{'covers':>8}"
        f"{'found':>8}{'detectable':>12}"
    )
    for row in rows:
        print(
            f"{row.what:<40}{row.planted:>8.3f}{row.effect:>8.3f}{row.covered:>8.3f}"
            f"{row.found:>8.3f}{row.detectable:>12.3f}  {'holds' if row.holds else 'MISSED'}"
        )
    print(f"\n{replications} halves a line, seed {seed}; detectable: at 80 % power, before Holm")
    covered = float(np.mean([row.covered for row in rows[1:-1]]))
    print(f"planted differences covered on average: {covered:.3f}")
    return 0 if quiet and all(r.holds for r in rows) and covered >= COVERED_ON_AVERAGE else 3


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else RUNS))
