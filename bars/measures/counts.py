"""The figures of the real runs, exactly: outcomes, tool errors, repeats, sub-goals, reactions.

`python -m bars.measures.counts [FOLDER]`; FOLDER defaults to the data kept beside the repository.
Prints every figure with what it must be. Code 0: all agree; 3: one does not; 4: the runs are
absent. Expected figures were counted from the raw files by hand-written loops, not by the measures.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from stepscope import registry
from stepscope.formats.tau_bench import FORMAT
from stepscope.model import Answer, Stream, Trajectory, Verdict

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
FILES = {"airline": "taubench/airline/runs.json", "retail": "agentrx-retail/runs.json"}

EXPECTED: dict[str, dict[str, int]] = {
    "airline": {
        "runs": 200,
        "pass": 84,
        "calls": 1164,
        "tool errors": 73,
        "runs with a tool error": 36,
        "identical calls": 32,
        "runs with identical calls": 16,
        "back to back": 5,
        "runs with back to back": 5,
        "redundant after the rules": 10,
        "runs with sub-goals": 120,
        "runs without sub-goals": 80,
        "sub-goals": 224,
        "sub-goals reached": 89,
        "pass, all sub-goals": 27,
        "pass, some missed": 0,
        "fail, all sub-goals": 11,
        "fail, some missed": 82,
        "fail, all sub-goals, wrote more": 9,
        "errors recovered": 27,
        "failing runs without evidence": 0,
    },
    "retail": {
        "runs": 100,
        "pass": 73,
        "calls": 793,
        "tool errors": 34,
        "runs with a tool error": 23,
        "passing runs with an error": 15,
        "failing runs without an error": 19,
        "identical calls": 9,
        "runs with identical calls": 8,
        "back to back": 0,
        "runs with back to back": 0,
    },
}
# Aspects that count something wrong: above 0 they are evidence.
COUNTS = ("errors", "subgoals.other_writes", "redundant_calls.count", "loops")
SHARES = ("subgoals", "subgoals.outputs")


def read(path: Path) -> list[Trajectory]:
    """Return every run of a tau-bench file."""
    with path.open("rb") as file:
        runs = list(FORMAT.read(Stream(file, str(path))))
    return [run for run in runs if isinstance(run, Trajectory)]


def tally(runs: Iterable[Trajectory]) -> Counter[str]:
    """Return every figure that the table knows, counted over `runs` from the measures' answers."""
    figures: Counter[str] = Counter()
    measures = registry.installed_measures()
    for run in runs:
        answers = [answer for m in measures for answer in m(run, run.case, None)]
        figures.update(_figures(answers))
    return figures


def _figures(answers: Sequence[Answer]) -> Counter[str]:
    """Return what one run adds to the figures."""
    verdicts = {a.measure: a for a in answers if isinstance(a, Verdict) and a.step is None}

    def value(aspect: str) -> int:
        verdict = verdicts.get(aspect)
        return 0 if verdict is None or verdict.value is None else round(verdict.value)

    passed = value("outcome") == 1
    outcome = "pass" if passed else "fail"
    errors, identical = value("errors"), value("redundant_calls.identical")
    adjacent = value("redundant_calls.back_to_back")
    figures = Counter(
        {
            "runs": 1,
            "pass": int(passed),
            "calls": value("efficiency.calls"),
            "tool errors": errors,
            "runs with a tool error": int(errors > 0),
            "passing runs with an error": int(passed and errors > 0),
            "failing runs without an error": int(not passed and not errors),
            "identical calls": identical,
            "runs with identical calls": int(identical > 0),
            "back to back": adjacent,
            "runs with back to back": int(adjacent > 0),
            "redundant after the rules": value("redundant_calls.count"),
            "near duplicates": value("redundant_calls.near"),
            "sub-goals": value("subgoals.total"),
            "sub-goals reached": value("subgoals.reached"),
            "failing runs without evidence": int(not passed and not _evidence(verdicts)),
        }
    )
    goals = verdicts.get("subgoals")
    figures["runs without sub-goals" if goals is None else "runs with sub-goals"] += 1
    if goals is not None:
        reached = "all sub-goals" if goals.label == "all" else "some missed"
        figures[f"{outcome}, {reached}"] += 1
        if goals.label == "all" and value("subgoals.other_writes"):
            figures[f"{outcome}, all sub-goals, wrote more"] += 1
    for answer in answers:
        if isinstance(answer, Verdict) and answer.step is not None and answer.measure == "recovery":
            figures[f"errors {answer.label}"] += 1
    ending = verdicts.get("termination")
    figures["end not known" if ending is None else f"end {ending.label}"] += 1
    return figures


def _evidence(verdicts: dict[str, Verdict]) -> bool:
    """Tell whether any measure names something that went wrong."""
    ending = verdicts.get("termination")
    return (
        any(verdicts[name].value for name in COUNTS if name in verdicts)
        or any(verdicts[name].value != 1 for name in SHARES if name in verdicts)
        or (ending is not None and ending.label != "stopped_well")
    )


def table(name: str, figures: Counter[str]) -> bool:
    """Print one set's figures; return whether all expected ones agree."""
    expected = EXPECTED[name]
    print(f"\n{name:<36}{'found':>8}{'must be':>10}")
    for figure, wanted in expected.items():
        found = figures[figure]
        print(f"  {figure:<34}{found:>8}{wanted:>10}{'' if found == wanted else '   DIFFERS'}")
    for figure in sorted(set(figures) - set(expected)):
        print(f"  {figure:<34}{figures[figure]:>8}{'-':>10}")
    return all(figures[figure] == wanted for figure, wanted in expected.items())


def main(folder: str | None = None) -> int:
    """Count both sets and compare with what they must be."""
    data = Path(folder) if folder else DATA
    absent = [file for file in FILES.values() if not (data / file).is_file()]
    if absent:
        print(f"not measured: no {absent[0]} under {data}; give the folder of the real runs")
        return 4
    held = [table(name, tally(read(data / file))) for name, file in FILES.items()]
    return 0 if all(held) else 3


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
