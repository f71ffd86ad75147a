"""The trials that a workflow must show, and those that it does not: they count at their worst.

The design is declared in the settings or on the command line, else it is that of the baseline; no
trace can narrow it. A record that could not be read takes the place of a missing trial; where there
are more such records than missing trials, each of the others is one bad run of an unknown case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from stepscope.gates.baseline import Baseline, BaselineProblem
from stepscope.gates.policy import WorkflowPolicy
from stepscope.gates.sample import Run

MISSING = "missing trial"
UNREAD = "unread record"
UNKNOWN = "unknown case"


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """How many trials each case must show.

    Attributes:
        trials: by case.
        cases: where runs of unknown case are put: those of the design, else those that were seen.
        numbered: cases in which two runs of one name are one trial: in the baseline they never are.
        narrower: what was declared, in words, where it asks for less than the baseline; else "".
    """

    trials: Mapping[str, int]
    cases: tuple[str, ...]
    numbered: frozenset[str] = frozenset()
    narrower: str = ""

    def missing(self, runs: Iterable[Run]) -> tuple[Run, ...]:
        """Return a run for each trial that is not among `runs`."""
        seen = {(run.case, run.name if run.case in self.numbered else run.id) for run in runs}
        found = Counter(case for case, _ in seen)
        lacks = {case: n - found[case] for case, n in self.trials.items()}
        return tuple(Run("", MISSING, case) for case, n in lacks.items() for _ in range(n))

    def unread(self, n: int) -> tuple[Run, ...]:
        """Return `n` runs of unknown case, one to each case in turn: trials of one weigh less."""
        return tuple(Run("", UNREAD, case) for case in islice(cycle(self.cases), n))


def design_of(
    policy: WorkflowPolicy, baseline: Baseline | BaselineProblem, runs: Sequence[Run]
) -> Design:
    """Return the design of a workflow: as declared, else as the baseline was run.

    Args:
        policy: what was declared.
        baseline: whose trials must be shown where nothing was declared.
        runs: those under test; their cases are the design where only a number was declared.
    """
    held = baseline.sample.runs if isinstance(baseline, Baseline) else ()
    before = Counter(run.case for run in held)
    names = Counter((run.case, run.name) for run in held)
    # The names of sessions without a task are no cases: they do not come back.
    sessions = {run.case for run in held if run.name == run.case and before[run.case] == 1}
    if sessions.isdisjoint(run.case for run in runs):
        before = Counter({case: n for case, n in before.items() if case not in sessions})
    most = max(before.values(), default=1)
    seen = tuple(dict.fromkeys(run.case for run in runs))
    declared = policy.cases or tuple(before) or (seen if policy.trials else ())
    trials = {case: policy.trials or before.get(case, most) for case in declared}
    asked = {case: min(n, trials.get(case, 0)) for case, n in before.items()}
    narrower = ""
    if (total := sum(asked.values())) < before.total():
        shown = sum(n > 0 for n in asked.values())
        narrower = (
            f"declared: {shown:,} of the baseline's {len(before):,} cases, "
            f"{total:,} of its {before.total():,} trials"
        )
    twice = {case for (case, _), n in names.items() if n > 1}
    numbered = frozenset(case for case, n in before.items() if n > 1 and case not in twice)
    return Design(
        trials=trials,
        cases=declared or seen or (UNKNOWN,),
        numbered=numbered,
        narrower=narrower,
    )


def absences(
    designs: Sequence[Design], missing: Sequence[tuple[Run, ...]], set_aside: int
) -> list[tuple[Run, ...]]:
    """Return what is absent of each workflow of one invocation.

    Args:
        designs: one a workflow.
        missing: its missing trials.
        set_aside: records that could not be read, of whichever workflow.
    """
    more = max(0, set_aside - sum(map(len, missing)))
    return [
        (*runs, *design.unread(more if design.trials else set_aside))
        for design, runs in zip(designs, missing, strict=True)
    ]


def said(absent: Sequence[Run]) -> str:
    """Return what is absent, in words; "" where nothing is.

    >>> said([Run("", MISSING, "a"), Run("", MISSING, "b"), Run("", UNREAD, "a")])
    'at their worst: 2 missing trials, 1 unread record'
    """
    counts = Counter(run.name for run in absent)
    words = [f"{n:,} {name}{'s' * (n > 1)}" for name, n in sorted(counts.items())]
    return f"at their worst: {', '.join(words)}" if words else ""
