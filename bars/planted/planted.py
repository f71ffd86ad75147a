"""Faults planted in recorded runs: how many are proved, at which step, and what is proved wrongly.

`python -m bars.run planted [--template 0|1|2|3] [--kinds KIND ...] [--each N | --full] [FOLDER]`;
FOLDER defaults to the data kept beside the repository. Every measure answers about each changed
run, as `stepscope score` would, with facts learned from the unchanged runs; the list of suspects is
the one that is printed, of a run whose outcome is unknown and of one that failed. Answers that the
unchanged run has as well count nowhere. `--show KIND` prints changed runs and what is said of
them. Who writes checks works with templates 0 to 3. Template 4, the default, is held out and the
one that the bars are judged on: its figures are printed as totals, by kind only with `--by-kind` or
`--write`, and its runs only with `--reveal`; who has seen them writes no checks.
`--full --write` puts recall by kind and false faults by axis into `proofs.json` of the package and
the tables of docs/explanation/planted.md.

Code 0: the bars hold; 3: one does not (judged of template 4 only); 4: no runs.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import structs

from bars.planted._plant_places import HELD_OUT, count_cases, good_part
from bars.planted._planted_kinds import KINDS, TEMPLATES, PlantedRun, near_miss, plant
from bars.planted._planted_page import PAGE, refreshed_page
from stepscope import measures, registry
from stepscope.cli.setup import find_bundled
from stepscope.formats.reading import read_files
from stepscope.measures.facts import fit_facts, successful_calls
from stepscope.model import Facts, Outcome, Record, Step, Trajectory, Verdict, figures
from stepscope.report.suspects import list_suspects

DEFAULT = Path(__file__).resolve().parents[3] / "shared" / "data"
PROOFS: Final = Path(measures.__file__).with_name("proofs.json")
SOURCES: Final = {
    "airline": "taubench/airline/runs.json",
    "retail": "agentrx-retail/runs.json",
    "atif": "formats/atif",
    "claude_code": "formats/claude_code",
    "whowhen": "whowhen",
}
# Of these only runs that a state check calls good are planted in, and looked at for false faults.
CHECKED: Final = ("airline", "retail")
AXES: Final = "axes."
INCORRECT: Final = "incorrect"
# Runs planted of each kind by default: 27 kinds with their near misses take two minutes.
EACH = 12
TOLERANCE = 1
MEAN_RECALL, LEAST_RECALL, FIRST, FALSE_FAULTS = 0.65, 0.5, 0.75, 4
# Item 8 of the specification is kept as it was; the others are new and have a bound of their own.
BOUND_ITEMS: Final = frozenset({1, 2, 3, 4, 5, 6, 7, 9})


class Base(NamedTuple):
    """An unchanged run, and what its workflow has taught."""

    source: str
    run: Trajectory
    facts: Facts


class Proof(NamedTuple):
    """An axis that is at fault at a step, and why."""

    axis: str
    step: int
    reason: str


class Result(NamedTuple):
    """What was said of one changed run."""

    planted: PlantedRun
    proved: bool  # its axis, or one that a fair reader may name, is at fault at the step
    elsewhere: bool  # another axis is at fault at the step
    first: int | None  # first suspect of the printed list, outcome unknown
    failed_first: int | None  # and where the run is known to have failed

    def is_at(self, step: int | None, tolerance: int = 0) -> bool:
        """Tell whether a step is the planted one, or near it."""
        return step is not None and abs(step - self.planted.step) <= tolerance


# --- What is planted in ---------------------------------------------------------------------------


def read_bases(folder: Path) -> list[Base]:
    """Return the runs to plant in: those that passed, and what is good of the others."""
    bases = []
    for source, path in SOURCES.items():
        found = [one for reading in read_files([str(folder / path)]) for one in reading]
        runs = [one for one in found if isinstance(one, Trajectory)]
        facts = learn_facts(runs)
        for run in runs:
            if (source not in CHECKED or run.outcome.status == "pass") and len(
                good_part(run).steps
            ) > 1:
                bases.append(Base(source, run, facts[run.workflow]))
    return bases


def learn_facts(runs: Sequence[Trajectory]) -> dict[str, Facts]:
    """Return what a store that holds these runs knows of each workflow."""
    return {
        name: fit_facts(
            name,
            [(run.outcome.status, figures(run)) for run in runs if run.workflow == name],
            passing_uses=[
                successful_calls(run)
                for run in runs
                if run.workflow == name and run.outcome.status == "pass"
            ],
        )
        for name in sorted({run.workflow for run in runs})
    }


def spread_bases(bases: Sequence[Base], kind: str, seed: int) -> Iterator[Base]:
    """Yield the runs in an order drawn for the kind, sources in turn."""
    rng = np.random.default_rng([seed, *kind.encode()])
    by_source: dict[str, list[Base]] = {}
    for at in rng.permutation(len(bases)):
        by_source.setdefault(bases[at].source, []).append(bases[at])
    for turn in zip_longest(*by_source.values()):
        yield from (base for base in turn if base is not None)


def plant_kind(
    bases: Sequence[Base], kind: str, template: int, *, fault: bool, seeds: int, each: int | None
) -> Iterator[tuple[Base, PlantedRun]]:
    """Yield at most `each` changed runs of a kind, with the runs that they come from.

    Where the template lists cases of the kind, each of them is planted once a seed, whatever the
    number of runs that offer a place.
    """
    count = 0
    make = plant if fault else near_miss
    cases = count_cases(kind if fault else f"not_{kind}", template)
    most = seeds * cases if cases and each is None else each
    for seed in range(seeds * max(cases, 1)):
        for base in spread_bases(bases, kind, seed):
            if most is not None and count >= most:
                return
            planted = make(base.run, kind, template, count if cases else seed)
            if planted is not None:
                count += 1
                yield base, planted


# --- What is said of it ---------------------------------------------------------------------------


def score_by_rules(run: Trajectory, facts: Facts | None) -> list[Record]:
    """Return what a store holds of a run that was scored."""
    return [
        Record(trajectory=run.id, answer=answer, version=measure.version)
        for measure in registry.installed_measures()
        for answer in measure(run, run.case, facts)
    ]


def find_proofs(records: Sequence[Record]) -> list[Proof]:
    """Return the faults of axes, by step."""
    return [
        Proof(answer.measure.removeprefix(AXES), answer.step, answer.reason)
        for record in records
        if isinstance(answer := record.answer, Verdict)
        and answer.measure.startswith(AXES)
        and answer.label == INCORRECT
        and answer.step is not None
    ]


class Scores:
    """What is said of unchanged runs, kept: many kinds are planted in each."""

    def __init__(self) -> None:
        self._said: dict[str, Counter[tuple[str, str]]] = {}

    def said_before(self, base: Base) -> Counter[tuple[str, str]]:
        """Return axis and reason of the faults of the run that something is planted in."""
        key = base.run.id
        if key not in self._said:
            run = structs.replace(good_part(base.run), outcome=Outcome(), termination=None)
            proofs = find_proofs(score_by_rules(run, base.facts))
            self._said[key] = Counter((proof.axis, proof.reason) for proof in proofs)
        return self._said[key]

    def ask(self, base: Base, planted: PlantedRun) -> tuple[Result, list[Proof], list[str]]:
        """Return what is said of a changed run: the result, new faults, the printed list."""
        run = planted.trajectory
        records = score_by_rules(run, base.facts)
        known = self.said_before(base)
        new = [one for one in find_proofs(records) if not known[one.axis, one.reason]]
        here = {one.axis for one in new if abs(one.step - planted.step) <= TOLERANCE}
        shown = list_suspects(run, run.case, records).suspects
        failed = structs.replace(run, outcome=Outcome(status="fail"))
        again = list_suspects(failed, run.case, score_by_rules(failed, base.facts)).suspects
        result = Result(
            planted,
            bool(here & {planted.axis, *planted.also}),
            bool(here - {planted.axis, *planted.also}),
            shown[0].first if shown else None,
            again[0].first if again else None,
        )
        return result, new, [f"{one.first} {one.kind}: {one.evidence}" for one in shown[:3]]


# --- Figures --------------------------------------------------------------------------------------


class KindFigures(NamedTuple):
    """What was found of one kind."""

    kind: str
    axis: str
    faults: list[Result]
    near: list[Result]

    def share(self, results: Sequence[bool]) -> float:
        """Return the share that holds."""
        return sum(results) / len(results) if results else float("nan")

    @property
    def recall(self) -> float:
        """The share of plants that are proved."""
        return self.share([one.proved for one in self.faults])


def print_kinds(found: Sequence[KindFigures]) -> None:
    """Print a line a kind."""
    heads = (
        *("kind", "item", "axis", "n", "proved", "another axis", "first suspect", "+-1"),
        *("first, run failed", "near misses", "with a fault"),
    )
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for one in sorted(found, key=lambda one: (KINDS[one.kind].item, one.kind)):
        at = [r.is_at(r.first) for r in one.faults]
        close = [r.is_at(r.first, TOLERANCE) for r in one.faults]
        failed = [r.is_at(r.failed_first) for r in one.faults]
        cells = [
            *(one.kind, str(KINDS[one.kind].item), one.axis, str(len(one.faults))),
            f"{one.recall:.2f}",
            f"{one.share([r.elsewhere for r in one.faults]):.2f}",
            *(f"{one.share(hits):.2f}" for hits in (at, close, failed)),
            str(len(one.near)),
            str(sum(r.proved or r.elsewhere for r in one.near)),
        ]
        print("| " + " | ".join(cells) + " |")


def print_means(found: Sequence[KindFigures]) -> tuple[float, float]:
    """Print figures of all kinds, none by name; return mean recall and share of first suspects."""
    kinds = [one for one in found if one.faults]
    recall = float(np.mean([one.recall for one in kinds]))
    first = float(np.mean([one.share([r.is_at(r.first) for r in one.faults]) for one in kinds]))
    proved = [r for one in kinds for r in one.faults if r.proved]
    of_proved = float(np.mean([r.is_at(r.first) for r in proved])) if proved else 0.0
    near = [r for one in found for r in one.near]
    wrong = sum(r.proved or r.elsewhere for r in near)
    print(
        f"\nmean over {len(kinds)} kinds: proved {recall:.3f}, first suspect {first:.3f}"
        f"\nkind that is proved least: {min(one.recall for one in kinds):.2f}"
        f"\nfirst suspect where the fault is proved: {of_proved:.3f} of {len(proved)}"
        f"\nnear misses with a fault: {wrong} of {len(near)}"
    )
    return recall, first


class FalseFault(NamedTuple):
    """A fault of a run that a state check calls good, and what a reader of the run says of it."""

    run: str
    step: int
    axis: str
    reason: str
    reader: str


def find_false_faults(bases: Sequence[Base]) -> tuple[list[FalseFault], dict[str, int]]:
    """Return the faults of runs that a check calls good, and how many were judged, by axis."""
    readers = tomllib.loads(Path(__file__).with_name("read_faults.toml").read_text("utf-8"))
    judged: Counter[str] = Counter()
    found = []
    for base in bases:
        if base.source not in CHECKED:
            continue
        records = score_by_rules(base.run, base.facts)
        judged.update(
            {
                answer.measure
                for record in records
                if isinstance(answer := record.answer, Verdict) and answer.measure.startswith(AXES)
            }
        )
        for axis, step, reason in find_proofs(records):
            reader = readers.get(base.run.name, {}).get(f"{step} {axis}", "not read yet")
            found.append(FalseFault(base.run.name, step, axis, reason, reader))
    print(f"\nfaults of the passing airline and retail runs: {len(found)}")
    for one in found:
        print(f"  {one.run} step {one.step}, {one.axis}: {one.reason} ({one.reader})")
    return found, dict(sorted(judged.items()))


def print_bundled() -> None:
    """Print the faults of the runs in the package."""
    print("\nfaults of the bundled runs (a reader says which are false):")
    for folder in ("airline", "atif", "claude_code"):
        found = [one for reading in read_files([str(find_bundled(folder))]) for one in reading]
        runs = [one for one in found if isinstance(one, Trajectory)]
        facts = learn_facts(runs)
        for run in runs:
            for axis, step, reason in find_proofs(score_by_rules(run, facts[run.workflow])):
                print(f"  {run.name} ({run.outcome.status}) step {step}, {axis}: {reason}")


def write_proofs(
    found: Sequence[KindFigures],
    false: Sequence[FalseFault],
    judged: dict[str, int],
    template: int,
    seen: tuple[float, float],
) -> None:
    """Write what the report prints beside the rules' profile, and the page."""
    content = {
        "template": template,
        "seen_template": {"proved": round(seen[0], 3), "first": round(seen[1], 3)},
        "kinds": {
            one.kind: {
                "axis": one.axis,
                "item": KINDS[one.kind].item,
                "planted": len(one.faults),
                "proved": sum(r.proved for r in one.faults),
                "first": sum(r.is_at(r.first) for r in one.faults),
                "first_proved": sum(r.proved and r.is_at(r.first) for r in one.faults),
                "near": len(one.near),
                "near_faults": sum(r.proved or r.elsewhere for r in one.near),
            }
            for one in found
            if one.faults
        },
        "axes": {
            name: {
                "version": registry.measure(name).version,
                "passing": runs,
                "false": sum(f"{AXES}{one.axis}" == name for one in false),
            }
            for name, runs in judged.items()
        },
        "false": [one._asdict() for one in false],
    }
    PROOFS.write_text(format_proofs(content), encoding="utf-8")
    PAGE.write_text(refreshed_page(content), encoding="utf-8")
    print(f"wrote {PROOFS.name} and {PAGE.name}")


def format_proofs(content: dict[str, Any]) -> str:
    r"""Return the file as text: a line an entry.

    >>> format_proofs({"template": 1, "axes": {"a": {"n": 1}}})
    '{\n "template": 1,\n "axes": {\n  "a": {"n": 1}\n }\n}\n'
    """
    parts = []
    for key, value in content.items():
        if isinstance(value, dict):
            inner = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            parts.append(f" {json.dumps(key)}: {{\n{inner}\n }}")
        elif isinstance(value, list):
            inner = ",\n".join(f"  {json.dumps(one)}" for one in value)
            parts.append(f" {json.dumps(key)}: [\n{inner}\n ]")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


# --- Examples -------------------------------------------------------------------------------------


def lines_of(steps: Sequence[Step], width: int) -> list[str]:
    """Return a run as lines to compare, without indexes."""
    lines: list[str] = []
    for step in steps:
        lines += [f"{step.actor}: {line[:width]}" for line in step.text.splitlines() if line]
        lines += [f"  CALL {call.name} {str(call.arguments)[:width]}" for call in step.calls]
        lines += [f"  [{result.status}] {result.text[:width]}" for result in step.results]
    return lines


def show_planted(scores: Scores, base: Base, planted: PlantedRun, width: int = 300) -> None:
    """Print what was planted in a run, as a difference, and what is said of it."""
    result, new, suspects = scores.ask(base, planted)
    axes = "/".join((planted.axis, *planted.also))
    what = "fault" if planted.fault else "NEAR MISS"
    print(f"\n=== {what}: {base.run.name} step {planted.step}, {axes}: {planted.about}")
    before = lines_of(good_part(base.run).steps, width)
    after = lines_of(planted.trajectory.steps, width)
    changed = list(difflib.unified_diff(before, after, lineterm="", n=3))[2:]
    gone = 0
    for line in changed[:80]:
        gone = gone + 1 if line.startswith("-") else 0
        if gone < 5:
            print(f"  {line}")
    step = planted.trajectory.steps[planted.step]
    print(f"  STEP {planted.step} of {len(planted.trajectory.steps)}: "
          + " / ".join(lines_of([step], 90)[:2]))  # fmt: skip
    print(f"  {'proved' if result.proved else 'not proved'}; new faults:")
    print("\n".join(f"    {one.step} {one.axis}: {one.reason}" for one in new) or "    none")
    print("  printed list:\n" + ("\n".join(f"    {one}" for one in suspects) or "    empty"))


# --- The command ----------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> int:
    """Plant, ask, print; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=DEFAULT)
    parser.add_argument("--template", type=int, choices=TEMPLATES, default=HELD_OUT)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--each", type=int, default=EACH, help="runs planted of a kind")
    parser.add_argument("--full", action="store_true", help="every run that offers a place")
    parser.add_argument("--no-passing", action="store_true", help="leave out the false faults")
    parser.add_argument("--show", choices=list(KINDS), help="print changed runs of one kind")
    parser.add_argument("--reveal", action="store_true", help="show runs that are held out")
    parser.add_argument("--by-kind", action="store_true", help="name kinds that are held out")
    parser.add_argument("--write", action="store_true", help="write proofs.json")
    options = parser.parse_args(arguments)
    template = options.template
    is_hidden = template == HELD_OUT and not (options.by_kind or options.write)
    if options.show and template == HELD_OUT and not options.reveal:
        parser.error(f"template {HELD_OUT} is held out; say --template 0, 1, 2 or 3, or --reveal")
    if is_hidden and not options.show and options.kinds != list(KINDS):
        parser.error(f"figures by kind of template {HELD_OUT} are held out; say --by-kind")
    if not (options.folder / "whowhen").is_dir():
        print(f"planted: the runs are absent: no {options.folder / 'whowhen'}")
        return 4
    bases = read_bases(options.folder)
    print({name: sum(base.source == name for base in bases) for name in SOURCES})
    scores = Scores()
    each = None if options.full else options.each

    def plants(kind: str, *, fault: bool) -> Iterator[tuple[Base, PlantedRun]]:
        return plant_kind(bases, kind, template, fault=fault, seeds=options.seeds, each=each)

    if options.show:
        for base, planted in chain(plants(options.show, fault=True),
                                   plants(options.show, fault=False)):  # fmt: skip
            show_planted(scores, base, planted)
        return 0
    found = ask_kinds(options.kinds, scores, plants)
    if not is_hidden:
        print_kinds(found)
    recall, first = print_means(found)
    if options.no_passing:
        return 0
    false, judged = find_false_faults(bases)
    print_bundled()
    if options.write:
        means = []
        for template in (one for one in TEMPLATES if one != HELD_OUT):
            print(f"\ntemplate {template}, which the checks were written with:")
            means.append(print_means(ask_kinds(options.kinds, scores, plants)))
        proved, firsts = (float(np.mean(column)) for column in zip(*means, strict=True))
        write_proofs(found, false, judged, options.template, (proved, firsts))
    if options.template != HELD_OUT:
        return 0
    return judge_bars(found, recall, first, len(false), is_named=not is_hidden)


def ask_kinds(
    kinds: Sequence[str],
    scores: Scores,
    plants: Callable[..., Iterator[tuple[Base, PlantedRun]]],
) -> list[KindFigures]:
    """Return what is said of every changed run, by kind."""
    found = []
    for kind in kinds:
        results = [
            [scores.ask(base, planted)[0] for base, planted in plants(kind, fault=fault)]
            for fault in (True, False)
        ]
        axes = Counter(result.planted.axis for result in results[0])
        found.append(KindFigures(kind, max(axes, default="", key=lambda a: axes[a]), *results))
    return found


def judge_bars(
    found: Sequence[KindFigures], recall: float, first: float, faults: int, *, is_named: bool
) -> int:
    """Print each bar and whether it holds; return the exit code."""
    least = min(
        (one for one in found if one.faults and KINDS[one.kind].item in BOUND_ITEMS),
        key=lambda one: one.recall,
    )
    name = least.kind if is_named else "kind that is proved least"
    bars = [
        (f"proved, mean over kinds: {recall:.3f} >= {MEAN_RECALL}", recall >= MEAN_RECALL),
        (f"{name}: {least.recall:.2f} >= {LEAST_RECALL}", least.recall >= LEAST_RECALL),
        (f"first suspect: {first:.3f} >= {FIRST}", first >= FIRST),
        (f"false faults: {faults} <= {FALSE_FAULTS}", faults <= FALSE_FAULTS),
    ]
    print()
    for line, holds in bars:
        print(f"{'holds ' if holds else 'MISSED'} {line}")
    return 0 if all(holds for _, holds in bars) else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
