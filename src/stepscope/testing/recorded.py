"""Recorded runs as tests: one a case and trial, and one for whatever could not be read.

A trial that was asked for and never recorded is a test that fails, and so is a record that could
not be read: what was not measured never looks like a pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from stepscope.errors import UsageError
from stepscope.formats.importing import readings
from stepscope.gates.baseline import natural
from stepscope.measures.facts import Declared, fit
from stepscope.measures.match import ArgumentMode, Comparison, Mode, compare
from stepscope.measures.policy import Breach, breaches
from stepscope.model import Json, Quarantined, ReferenceCall, Trajectory
from stepscope.safety.limits import Limits
from stepscope.safety.text import visible_line

RECORDED = "recorded"


@dataclass(frozen=True)
class Matched:
    """Whether calls match a reference: true or false, and both sides where a test shows it."""

    comparison: Comparison
    called: tuple[str, ...]
    wanted: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.comparison.matched

    def __repr__(self) -> str:
        missed = [self.wanted[at] for at in self.comparison.missed]
        word = "match" if self else "no match"
        return (
            f"<{word} {self.comparison.mode}: called {' '.join(self.called) or 'nothing'}; "
            f"wanted {' '.join(self.wanted)}; missed {' '.join(missed) or 'none'}>"
        )


@dataclass(frozen=True)
class RecordedRun:
    """A run under test: the fixture `trajectory`.

    Attributes:
        run: the trajectory as it was read.
        declared: what the settings say of tools and conduct.
    """

    run: Trajectory
    declared: Declared

    def __repr__(self) -> str:
        return f"<run {visible_line(self.run.name or self.run.id)}>"

    def match(
        self,
        reference: Sequence[str] | Sequence[tuple[str, dict[str, Json]]],
        *,
        mode: Mode = "in_order",
        arguments: ArgumentMode = "exact",
    ) -> Matched:
        """Tell whether the agent's calls match.

        Args:
            reference: names of tools, or pairs of name and arguments.
            mode: the sense; see the measure `match`.
            arguments: how arguments are compared; names alone compare none.

        Raises:
            UsageError: no reference, names and pairs mixed, or no such mode.
        """
        names = [item for item in reference if isinstance(item, str)]
        pairs = [item for item in reference if not isinstance(item, str)]
        if bool(names) == bool(pairs):
            raise UsageError("match needs names of tools, or pairs of name and arguments")
        wanted = [ReferenceCall(name=name) for name in names]
        wanted += [ReferenceCall(name=name, arguments=given) for name, given in pairs]
        calls = [x.call for x in self.run.exchanges if x.call.requestor == "agent"]
        found = compare(calls, wanted, mode=mode, arguments="ignore" if names else arguments)
        return Matched(
            comparison=found,
            called=tuple(visible_line(call.name) for call in calls),
            wanted=tuple(call.name for call in wanted),
        )

    def violations(self, rule: str | None = None) -> tuple[Breach, ...]:
        """Return where the run breaks a declared rule of conduct; all rules when left out.

        Raises:
            UsageError: no such rule is declared: nothing could ever break it.
        """
        facts = fit(self.run.workflow, (), declared=self.declared)
        case = self.run.case
        rules = facts.policy + (case.policy if case is not None else ())
        chosen = [one for one in rules if rule is None or one.name == rule]
        if not chosen:
            known = ", ".join(repr(one.name) for one in rules) or "none"
            raise UsageError(f"no rule of conduct {rule or 'at all'!r} is declared; known: {known}")
        return tuple(sorted({b for one in chosen for b in breaches(self.run, one, facts)}))


@dataclass(frozen=True)
class Lost:
    """A test that cannot be run: why."""

    reason: str


@dataclass(frozen=True)
class Corpus:
    """What was read of some paths: the runs by case and trial, and how many records were lost."""

    cases: tuple[tuple[str, tuple[Trajectory, ...]], ...]
    lost: int


def read(paths: Iterable[str | Path], limits: Limits) -> Corpus:
    """Read recorded runs.

    Raises:
        TraceError: a path named is no trace.
        UsageError: no such path, or no run at all.
    """
    runs: list[Trajectory] = []
    lost = 0
    named = [str(path) for path in paths]
    for reading in readings(named, limits=limits):
        for item in reading:
            if isinstance(item, Quarantined):
                lost += 1
            else:
                runs.append(item)
    if not runs:
        raise UsageError(f"no run in {', '.join(named)}: nothing would be tested")
    runs.sort(key=lambda run: (natural(_case(run)), natural(run.trial or ""), run.name, run.id))
    cases = tuple((case, tuple(group)) for case, group in groupby(runs, key=_case))
    return Corpus(cases, lost)


def tests(
    corpus: Corpus, trials: int | None, declared: Declared
) -> list[tuple[str, RecordedRun | Lost]]:
    """Return one test a case and trial, each with its id.

    Args:
        corpus: the runs.
        trials: how many of each case; all that were recorded when left out.
        declared: what the settings say of tools and conduct.
    """
    found: list[tuple[str, RecordedRun | Lost]] = []
    for case, runs in corpus.cases:
        taken = runs if trials is None else runs[:trials]
        name = visible_line(case)
        found += [(f"{name}-{at}", RecordedRun(run, declared)) for at, run in enumerate(taken)]
        for at in range(len(taken), trials or 0):
            said = f"case {name}: {len(runs)} of {trials} trials were recorded; record more runs"
            found.append((f"{name}-{at}", Lost(said)))
    if corpus.lost:
        found.append(("unreadable", Lost(f"{corpus.lost} records could not be read")))
    return found


def _case(run: Trajectory) -> str:
    return run.task or run.name or run.id
