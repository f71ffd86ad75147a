"""The worked run: what each axis should answer about it, and what the evidence judge answers.

`python -m bars.judges.worked_run`. 26 steps, two faults: a whole order cancelled where one item was
meant (15), its refund of 1,619.34 (19) told as 95.08 (22), a price that was said before. The bar is
the rules': result_interpretation incorrect citing 19 and 22, nothing else incorrect, tool_selection
incorrect or uncertain. Canaries are printed likewise, where rules can know. A live judge is held
against the same answers (`stepscope.judges.canaries`); none is asked here. Code 0: the bar holds;
3: it is missed.
"""

from __future__ import annotations

import sys

from stepscope import registry
from stepscope.judges.canaries import CanaryRun, load_canaries, worked_run
from stepscope.judges.rubrics import RUBRIC_SETS
from stepscope.model import Answer, Verdict

READING = "axes.result_interpretation"
CHOICE = "axes.tool_selection"
CITED = (19, 22)


def asked(run: CanaryRun, axis: str) -> Answer:
    """Return what the rules say of a run as a whole."""
    answers = registry.measure(axis)(run.trajectory, run.trajectory.case, None)
    return next(answer for answer in answers if answer.step is None)


def line(run: CanaryRun, axis: str) -> str:
    """Print one axis of one run; return the label that the rules give."""
    expected, found = run.expected[axis], asked(run, axis)
    label = found.label or "" if isinstance(found, Verdict) else found.kind
    cites = ", ".join(map(str, found.cites)) if isinstance(found, Verdict) else ""
    wanted = " or ".join(expected.label)
    at = ", ".join(map(str, expected.cites))
    print(f"  {axis:<28}{wanted:<14}{at:<10}{label:<16}{cites:<10}{found.reason[:60]}")
    return label


def main() -> int:
    """Run the bar; print its tables."""
    run = worked_run()
    print(f"{run.trajectory.id}, {len(run.trajectory.steps)} steps")
    print(f"  {'':<28}{'known':<14}{'at':<10}{'rules say':<16}{'at':<10}why")
    labels = {axis: line(run, axis) for axis in RUBRIC_SETS["axes"]}
    found = asked(run, READING)
    wrong = [axis for axis, label in labels.items() if label == "incorrect"]
    holds = (
        isinstance(found, Verdict)
        and set(CITED) <= set(found.cites)  # where the price was said before may stand beside them
        and wrong in ([READING], [CHOICE, READING])
        and labels[CHOICE] in ("incorrect", "uncertain")
    )
    others = [name for name in run.expected if name not in RUBRIC_SETS["axes"]]
    print(f"  known for live judges besides: {', '.join(others)}")
    contradicted = 0
    print("\ncanaries, the axes alone")
    for canary in load_canaries():
        axes = [axis for axis in RUBRIC_SETS["axes"] if axis in canary.expected]
        print(f"{canary.trajectory.id}: {', '.join(sorted(canary.expected))}")
        for axis in axes:
            label = line(canary, axis)
            contradicted += label not in (
                *canary.expected[axis].label, "uncertain", "not_applicable"
            )  # fmt: skip
    print(f"\nworked run: {'holds' if holds else 'MISSED'}; canaries contradicted: {contradicted}")
    return 0 if holds and not contradicted else 3


if __name__ == "__main__":
    sys.exit(main())
