"""Runs as literals for gates: what each measure answers about each run, in a few lines.

>>> rows(run("a", outcome=1), run("a", outcome="?refused")).runs().task.tolist()
['a', 'a']
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import msgspec
import numpy as np

from stepscope.gates.baseline import make_baseline
from stepscope.gates.decide import decide_gates
from stepscope.gates.looks import Looks
from stepscope.gates.sample import Sample
from stepscope.gates.settings import WorkflowPolicy, WorkflowTable, read_policy
from stepscope.gates.types import GateAnswer, GateDecision, GateReport
from stepscope.model import Answer, Record, Verdict
from stepscope.store.columns import (
    ANSWERED,
    NO_RECORD,
    AnswerColumn,
    Columns,
    Rows,
    Runs,
    Signs,
    StepColumn,
    Texts,
    cell_state,
)
from stepscope.store.where import Where
from stepscope.values import UNMEASURED_KINDS, Estimate, Unmeasured
from tests.factories import current_version, signs

# A number, a label, "?kind" for an absence, or nothing at all: not scored.
Said = float | str


@dataclass(frozen=True)
class One:
    """A run: its case and what measures say of it, by full name with _ for the dot."""

    case: str | None
    said: dict[str, Said]
    workflow: str = "w"
    tag: str = ""
    signatures: tuple[str, ...] = ()


def run(
    case: str | None,
    *,
    workflow: str = "w",
    tag: str = "",
    signatures: tuple[str, ...] = (),
    **said: Said,
) -> One:
    names = {name.replace("__", "."): value for name, value in said.items()}
    return One(case, names, workflow, tag, signatures)


@dataclass(frozen=True)
class Literal:
    """Rows of these runs; ids differ by place and tag."""

    ones: Sequence[One]
    versions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    cites: tuple[int, ...] = ()

    def runs(self, where: Where | None = None) -> Runs:
        n = len(self.ones)
        blank = texts([None] * n)
        return Runs(
            key=np.arange(n),
            id=texts([self.id(at) for at in range(n)]),
            name=texts([f"{one.workflow}/{one.case}/{at}" for at, one in enumerate(self.ones)]),
            workflow=texts([one.workflow for one in self.ones]),
            task=texts([one.case for one in self.ones]),
            trial=blank,
            agent=texts(["bot"] * n),
            agent_version=blank,
            outcome=texts(["unknown"] * n),
            steps=np.full(n, 10),
            calls=np.full(n, 3),
            start_ns=np.full(n, np.nan),
        )

    def id(self, at: int) -> str:
        return sha256(f"{at} {self.ones[at].tag}".encode()).hexdigest()[:32]

    def column(self, measure: str, runs: Runs | None = None) -> AnswerColumn:
        said = [one.said.get(measure) for one in self.ones]
        numbers = [s if isinstance(s, int | float) else np.nan for s in said]
        words = [s if isinstance(s, str) and not s.startswith("?") else None for s in said]
        known = any(s is not None for s in said)
        return AnswerColumn(
            measure=measure,
            value=np.array(numbers, dtype=np.float64),
            label=texts(words),
            state=np.array([_state(s) for s in said], dtype=np.int8),
            versions=self.versions.get(measure, (current_version(measure),) if known else ()),
        )

    def step_values(self, measure: str, runs: Runs) -> StepColumn:
        return StepColumn.of_table((), np.empty((0, 5)))

    def cited(self, measure: str, runs: Runs) -> list[tuple[int, ...] | None]:
        return [None] * len(runs)

    def signs(self, runs: Runs, known: Columns | None = None) -> Signs:
        ones = [self.ones[at] for at in runs.key.tolist()]
        states = [_state(one.said.get("step_labels")) for one in ones]
        return signs([one.signatures for one in ones], states=states)

    def weights(self) -> dict[tuple[str, str], tuple[float, ...]]:
        return {}

    def noise(self) -> dict[str, Estimate]:
        return {}

    def tag(self, key: str, runs: Runs) -> Texts:
        return texts([None] * len(runs.id))

    def measures(self) -> tuple[str, ...]:
        names = {name for one in self.ones for name in one.said}
        return tuple(sorted({name.removeprefix("people.") for name in names}))

    def records(
        self,
        where: Where | None = None,
        *,
        trajectory: str | None = None,
        measure: str | None = None,
    ) -> Iterator[Record]:
        for at, one in enumerate(self.ones):
            if trajectory not in (None, self.id(at)):
                continue
            for name in (measure, f"people.{measure}"):
                if name in one.said and str(measure).startswith("judge."):
                    yield from answers(self.id(at), str(measure), name, str(one.said[name]))
            if trajectory is not None and measure in one.said and not measure.startswith("judge."):
                verdict = Verdict(measure, 1.0, cites=self.cites, reason=f"{measure} of {one.case}")
                yield Record(trajectory=trajectory, answer=verdict, version="1")

    def families(self, measure: str) -> tuple[str, ...]:
        names = {name for one in self.ones for name in one.said}
        return tuple(
            family
            for family, name in (("human", f"people.{measure}"), ("lab", measure))
            if name in names
        )


# Labels of steps by their first letter.
LABELS = {"P": "PROGRESS", "R": "REDUNDANT", "D": "DETOUR", "E": "ERROR"}
JUDGE = "lab/judge"


def answers(run: str, measure: str, name: str, said: str) -> Iterator[Record]:
    """Yield what a judge, or a person, says: a label, "PPD" a step, "?kind"; "/" parts judges."""
    people = name.startswith("people.")
    for number, text in enumerate(said.split("/")):
        made: list[Answer] = []
        kind = next((k for k in UNMEASURED_KINDS if k == text[1:]), None)
        if text.startswith("?") and kind is not None:
            made = [Unmeasured(kind, "said so", measure)]
        elif measure == "judge.step_labels":
            made = [
                Verdict(
                    measure, label=LABELS[letter], step=at, cites=(at,), reason=f"{letter} {at}"
                )
                if letter in LABELS
                else Unmeasured("refused", "refused: no", measure, at)
                for at, letter in enumerate(text)
            ]
        elif text:
            made = [Verdict(measure, label=text, cites=(1, 2), reason=f"says {text}")]
        for answer in made:
            yield Record(
                trajectory=run,
                answer=answer,
                version="2",
                family="human" if people else "lab",
                judge=f"person {number}" if people else f"{JUDGE}{number or ''}",
                rubric=measure.removeprefix("judge."),
            )


def _state(said: Said | None) -> int:
    if said is None:
        return NO_RECORD
    if isinstance(said, str) and said.startswith("?"):
        kind = next(kind for kind in UNMEASURED_KINDS if kind == said[1:])
        return cell_state(kind)
    return ANSWERED


def texts(values: Sequence[object]) -> Texts:
    found = np.empty(len(values), dtype=np.object_)
    found[:] = values
    return found


def rows(*ones: One, **versions: tuple[str, ...]) -> Rows:
    return Literal(ones, versions)


def gates(workflow: str = "w", /, **written: object) -> WorkflowPolicy:
    """Return the policy of a workflow; `axes__sequencing` is the gate axes.sequencing."""
    table = {"baseline": "b.json", "gates": {k.replace("__", "."): v for k, v in written.items()}}
    return read_policy(workflow, msgspec.convert(table, WorkflowTable), where="stepscope.toml")


def report(
    now: Rows,
    asked: WorkflowPolicy,
    before: Rows | Sample | GateAnswer | None = None,
    *,
    commit: str | None = None,
    looks: Looks | None = None,
    attempt: int = 1,
    tier: Sequence[str] = ("rules",),
) -> GateReport:
    asked = msgspec.structs.replace(asked, tier=tuple(tier))
    held = {}
    if isinstance(before, Sample | GateAnswer):
        held = {asked.workflow: before}
    elif before is not None:
        held = {asked.workflow: make_baseline(before, asked)}
    return decide_gates(
        now,
        [asked],
        baselines=held,
        commit=commit,
        looks=looks,
        attempt=attempt,
    )


def decision(
    now: Rows, before: Rows | Sample | GateAnswer | None = None, /, **written: object
) -> GateDecision:
    """Return the answer of the one gate that is written."""
    return report(now, gates(**written), before).gates[0]


def trials(tag: str, passes: Sequence[int], of: int = 4, measure: str = "outcome") -> list[One]:
    """Return `of` runs a case, of which so many pass: case c0, c1, ..."""
    return [
        One(f"c{case}", {measure: float(trial < passed)}, tag=f"{tag} {case} {trial}")
        for case, passed in enumerate(passes)
        for trial in range(of)
    ]
