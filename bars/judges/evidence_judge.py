"""The evidence judge on real runs: planted faults found, false alarms, what it leaves open.

`python -m bars.judges.evidence_judge [FAULTS]`, 200 faults an axis unless given, planted with seed
0 into the runs that passed: 73 retail and 84 airline ones. The traces declare no tools, so tools
(schemas from the arguments of all recorded calls) and effects (from the tools' names) are declared
here, as a user would; facts are fitted without the run's own task (five folds). Needs the real runs
beside the repository. Code 0: every bar holds; 3: one is missed; 4: the runs are absent.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from bars.planted.faults import AXES, EFFECTS, FAULT_KINDS, plant_faults
from stepscope import registry
from stepscope.formats.reading import read_files
from stepscope.measures.facts import DeclaredConduct, fit_facts, successful_calls
from stepscope.model import Facts, Figures, Json, Measure, ToolDef, Trajectory, Verdict
from stepscope.model.effects import infer_effect
from stepscope.stats.intervals import wilson

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
SETS = {"retail": "agentrx-retail", "airline": "taubench/airline/runs.json"}
FAULTS = 200
FOLDS = 5
RECALL = 0.8
REQUIRED = (
    "fabricated_identifier",
    "undeclared_tool",
    "misread_number",
    "error_then_success",
    "calls_after_closing",
)
ALARMS = 0.05
# Of the real runs, where the alarms are counted against the bar.
ALARMS_IN = "retail"


class Asked(NamedTuple):
    """What the axes say of one run: the whole answer's label by axis, and the steps it cites."""

    labels: dict[str, str]
    cites: dict[str, tuple[int, ...]]


class Judge(NamedTuple):
    """The installed axes, with the facts for each run: fitted without its own task."""

    axes: dict[str, Measure]
    folds: dict[str, list[Facts]]

    def ask(self, run: Trajectory) -> Asked:
        """Ask every axis about a run."""
        facts = self.folds[run.workflow][fold_of(run)]
        labels, cites = {}, {}
        for axis, measure in self.axes.items():
            whole = next(a for a in measure(run, run.case, facts) if a.step is None)
            if isinstance(whole, Verdict):
                labels[axis], cites[axis] = str(whole.label), whole.cites
            else:
                labels[axis], cites[axis] = whole.kind, ()
        return Asked(labels, cites)


def fold_of(run: Trajectory) -> int:
    """Return the fold of a run, by its task."""
    return int(run.task or 0) % FOLDS


def read(data: Path) -> dict[str, list[Trajectory]]:
    """Return the runs of both sets, their tools declared."""
    found = {}
    for name, path in SETS.items():
        runs = [
            run
            for reading in read_files([str(data / path)])
            for run in reading
            if isinstance(run, Trajectory) and run.workflow == name
        ]
        tools = declared_tools(runs)
        found[name] = [msgspec.structs.replace(run, tools=tools) for run in runs]
    return found


def declared_tools(runs: Iterable[Trajectory]) -> tuple[ToolDef, ...]:
    """Return every tool called in the runs, its schema as narrow as its calls allow."""
    calls: dict[str, list[dict[str, Json]]] = {}
    for run in runs:
        for exchange in run.exchanges:
            if isinstance(exchange.call.arguments, dict):
                calls.setdefault(exchange.call.name, []).append(exchange.call.arguments)
    return tuple(
        ToolDef(
            name,
            schema={
                "type": "object",
                "properties": {
                    key: {"type": sorted({_type(g[key]) for g in given if key in g})}
                    for key in sorted({key for g in given for key in g})
                },
                "required": sorted(set.intersection(*(set(g) for g in given))),
                "additionalProperties": False,
            },
        )
        for name, given in sorted(calls.items())
    )


def _type(value: Json) -> str:
    names = {bool: "boolean", int: "number", float: "number", str: "string", list: "array"}
    return names.get(type(value), "object")


def judge(sets: Mapping[str, Sequence[Trajectory]]) -> Judge:
    """Return the installed axes with facts fitted from the runs, five folds by task."""
    names = [name for name in registry.names("measures") if name.startswith("axes.")]
    tools = {x.call.name for runs in sets.values() for run in runs for x in run.exchanges}
    declared = DeclaredConduct(effects={**{t: infer_effect(t) for t in sorted(tools)}, **EFFECTS})
    folds = {
        name: [
            facts(name, [run for run in runs if fold_of(run) != fold], declared)
            for fold in range(FOLDS)
        ]
        for name, runs in sets.items()
    }
    return Judge({name.removeprefix("axes."): registry.measure(name) for name in names}, folds)


def facts(workflow: str, runs: Sequence[Trajectory], declared: DeclaredConduct) -> Facts:
    """Return what measures learn from these runs."""
    rows = [(run.outcome.status, Figures(len(run.steps), len(run.exchanges))) for run in runs]
    passing = [successful_calls(run) for run in runs if run.outcome.status == "pass"]
    return fit_facts(workflow, rows, declared=declared, passing_uses=passing)


def limits(hits: int, n: int) -> str:
    """Return a share with its Wilson interval, as text."""
    if not n:
        return "none"
    low, high = (float(x) for x in wilson(hits / n, n, 0.95))
    return f"{hits / n:.3f} [{low:.3f}, {high:.3f}]"


def recall(found: Sequence[tuple[Trajectory, Asked]]) -> bool:
    """Print what was found of each kind of fault; return whether the required recalls hold."""
    print(f"\n{'planted fault':<28}{'axis':<23}{'n':>4}  {'found, and cited':<22}{'left open':>10}")
    holds = True
    for kind, (axis, _) in FAULT_KINDS.items():
        mine = [(planted, asked) for planted, asked in found if planted.labels[0].category == kind]
        flagged = [asked.labels.get(axis) == "incorrect" for _, asked in mine]
        cited = [
            flag and planted.labels[0].step in asked.cites[axis]
            for (planted, asked), flag in zip(mine, flagged, strict=True)
        ]
        bar = ""
        if kind in REQUIRED:
            reached = bool(mine) and sum(cited) >= RECALL * len(mine)
            bar = f"  >= {RECALL}: {'holds' if reached else 'MISSED'}"
            holds &= reached
        doubted = sum(asked.labels.get(axis) == "uncertain" for _, asked in mine)
        share = doubted / len(mine) if mine else 0.0
        said = limits(sum(cited), len(mine))
        print(f"{kind:<28}{axis:<23}{len(mine):>4}  {said:<22}{share:>10.3f}{bar}")
    return holds


def alarms(name: str, asked: Sequence[tuple[Trajectory, Asked]]) -> bool:
    """Print how often each axis condemns a run that passed; return whether the bar holds."""
    passing = [(run, a) for run, a in asked if run.outcome.status == "pass"]
    print(f"\nfalse alarms in the {len(passing)} passing {name} runs")
    holds = True
    for axis in (*AXES, "any axis"):
        if not any(axis == "any axis" or axis in a.labels for _, a in passing):
            print(f"  {axis:<23} not installed")
            continue
        hit = [
            run.name
            for run, a in passing
            if "incorrect" in (a.labels.values() if axis == "any axis" else [a.labels.get(axis)])
        ]
        bar = ""
        if name == ALARMS_IN:
            kept = len(hit) <= ALARMS * len(passing)
            bar = f"  <= {ALARMS:.0%}: {'holds' if kept else 'MISSED'}"
            holds &= kept
        print(f"  {axis:<23}{len(hit):>4}  {limits(len(hit), len(passing)):<22}{bar}")
        if axis == "any axis" and hit:
            print(f"    {', '.join(hit)}")
    return holds


def shares(name: str, asked: Sequence[tuple[Trajectory, Asked]]) -> None:
    """Print how often each axis answers what."""
    print(f"\nanswers in all {len(asked)} {name} runs, passed / failed")
    columns = ("correct", "incorrect", "uncertain", "not_applicable")
    print("  " + " " * 23 + "".join(f"{column:>16}" for column in columns))
    for axis in AXES:
        counts = Counter((run.outcome.status, a.labels.get(axis)) for run, a in asked)
        cells = [f"{counts['pass', c]} / {counts['fail', c]}" for c in columns]
        print(f"  {axis:<23}" + "".join(f"{cell:>16}" for cell in cells))


def labelled(asked: Sequence[tuple[Trajectory, Asked]]) -> None:
    """Print how the verdicts on runs labelled by people agree with the labels; no target."""
    agents = {
        run.id: {
            label.step
            for label in run.labels
            if label.kind == "failure" and label.agent == "Assistant" and label.step is not None
        }
        for run, _ in asked
        if run.labels
    }
    failures = sum(map(len, agents.values()))
    print(f"\n{len(agents)} retail runs labelled by people, {failures} failures of the agent")
    verdicts = [
        (run, axis, a.cites[axis])
        for run, a in asked
        for axis in AXES
        if run.id in agents and a.labels.get(axis) == "incorrect"
    ]
    cited = {
        id_: [cite for run, _, cites in verdicts if run.id == id_ for cite in cites]
        for id_ in agents
    }
    print(f"  {'a cited step is a labelled one':<32}{'precision':<24}{'failures named':<24}")
    for said, within in (("exactly", 0), ("within 1", 1), ("within 3", 3)):
        right = sum(_near(cites, agents[run.id], within) for run, _, cites in verdicts)
        named = sum(_near(cited[i], [step], within) for i in agents for step in agents[i])
        print(f"  {said:<32}{limits(right, len(verdicts)):<24}{limits(named, failures):<24}")
    for run, axis, cites in verdicts:
        print(f"    {run.name} {axis} cites {cites}; labelled {sorted(agents[run.id])}")


def _near(cites: Iterable[int], steps: Iterable[int], within: int) -> bool:
    marks = list(steps)
    return any(abs(cite - step) <= within for cite in cites for step in marks)


def main(faults: int = FAULTS) -> int:
    """Run the bar; print its tables."""
    if not all((DATA / path).exists() for path in SETS.values()):
        print(f"the real runs are not at {DATA}; nothing measured")
        return 4
    sets = read(DATA)
    asker = judge(sets)
    missing = [axis for axis in AXES if axis not in asker.axes]
    print(f"axes: {', '.join(asker.axes)}" + (f"; NOT INSTALLED: {missing}" if missing else ""))
    rng = np.random.default_rng(0)
    passing = [run for runs in sets.values() for run in runs if run.outcome.status == "pass"]
    planted = [
        fault
        for axis in AXES
        for fault in plant_faults(
            passing, [k for k, (a, _) in FAULT_KINDS.items() if a == axis], faults, rng
        )
    ]
    print(f"{len(planted)} faults planted in {len(passing)} passing runs, seed 0")
    holds = recall([(fault, asker.ask(fault)) for fault in planted])
    for name, runs in sets.items():
        for run in runs:
            _ = run.exchanges
        start = time.process_time()
        asked = [(run, asker.ask(run)) for run in runs]
        cost = (time.process_time() - start) / len(runs)
        holds &= alarms(name, asked)
        shares(name, asked)
        print(f"  {cost * 1e6:.0f} microseconds of CPU a run, all axes")
        if name == ALARMS_IN:
            labelled(asked)
    return 0 if holds and not missing else 3


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
