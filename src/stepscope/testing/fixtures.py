"""What the fixtures of the pytest plugin give: recorded runs as tests, and gates as assertions.

A trial that was asked for and never recorded is a test that fails, and so is a record that could
not be read: what was not measured never looks like a pass. A gate passes on the interval, and
skips or fails where it is not decided; one that could not be measured fails in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Literal

import pytest

from stepscope.api import gating
from stepscope.api.memory import read_reference
from stepscope.api.notebook import open
from stepscope.errors import StepscopeError, UsageError
from stepscope.formats.reading import read_files
from stepscope.gates.baseline import case_order
from stepscope.gates.types import FAILED, PASSED, GateReport, Severity
from stepscope.measures.conduct import find_breaches
from stepscope.measures.facts import DeclaredConduct, fit_facts
from stepscope.measures.rule import Fault
from stepscope.measures.same_calls import ArgumentMode, CallComparison, MatchMode, compare_calls
from stepscope.model import Json, Quarantined, Trajectory
from stepscope.safety.limits import Limits
from stepscope.safety.text import visible_line
from stepscope.settings import Settings

__tracebackhide__ = True


class GateCheck:
    """The gates of one workflow, decided: the result of the fixture `stepscope_gate`."""

    def __init__(self, report: GateReport, remarks: Sequence[str] = ()) -> None:
        self.report = report
        self.remarks = tuple(remarks)

    def check(
        self, *, undecided: Literal["skip", "fail"] = "fail", fail_on: Severity = "hard"
    ) -> None:
        """Fail the test where a gate failed or was not measured; undecided ones fail or skip it."""
        __tracebackhide__ = True
        if undecided not in ("skip", "fail"):
            raise UsageError(f"undecided = {undecided!r}; expected 'skip' or 'fail'")
        view = partial(gating.GateView, self.report, remarks=self.remarks, fail_on=fail_on)
        strict = view(undecided=None)
        if strict.exit_code == PASSED:
            return
        lenient = view(undecided="pass")
        if strict.exit_code != FAILED and undecided == "skip" and lenient.exit_code == PASSED:
            pytest.skip(f"undecided: {strict.text()}")
        pytest.fail(strict.text(), pytrace=False)


def decide_workflow(
    settings: Settings,  # where the gates are declared
    workflow: str,  # whose gates
    *,
    # files or folders of traces; the store of the settings when left out
    runs: str | Path | Sequence[str | Path] | None = None,
    # a file to compare with instead of the one that the settings name
    baseline: str | Path | None = None,
    # the sources whose gates are run, instead of those of the settings: a list, or with commas
    tier: str | Sequence[str] | None = None,
    root: Path,  # what paths are relative to
) -> GateCheck:
    """Decide the gates of a workflow, on the runs of the store or on files."""
    __tracebackhide__ = True
    try:
        named = None if baseline is None else str(root / baseline)
        policies = gating.choose_policies(settings, [workflow], baseline=named, tier=tier)
        if runs is not None:
            several = [runs] if isinstance(runs, str | Path) else list(runs)
            paths = [str(root / path) for path in several]
            return GateCheck(*gating.gate_files(paths, settings, policies))
        if not Path(settings.store).exists():
            why = f"no store at {settings.store!r}; make one with stepscope import, or say runs=..."
            raise UsageError(why)
        with open(settings.store, settings=settings) as notebook:
            return GateCheck(gating.gate_store(notebook, policies))
    except StepscopeError as e:
        pytest.fail(visible_line(str(e)), pytrace=False)


RECORDED = "recorded"


@dataclass(frozen=True)
class MatchResult:
    """Whether calls match a reference: true or false, and both sides where a test shows it."""

    comparison: CallComparison
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
    """A run under test: the fixture `trajectory`."""

    run: Trajectory  # the trajectory as it was read
    declared: DeclaredConduct  # what the settings say of tools and conduct

    def __repr__(self) -> str:
        return f"<run {visible_line(self.run.name or self.run.id)}>"

    def match(
        self,
        reference: Sequence[str | tuple[str, dict[str, Json]]],
        *,
        mode: MatchMode = "in_order",
        arguments: ArgumentMode = "exact",
    ) -> MatchResult:
        """Tell whether the agent's calls match names of tools, or pairs of name and arguments.

        The senses of `mode` and `arguments` are those of the measure `match`. Raises UsageError
        where there is no reference, or no such mode.
        """
        if not reference:
            raise UsageError("match needs names of tools, or pairs of name and arguments")
        wanted = read_reference(reference)
        calls = [x.call for x in self.run.exchanges if x.call.requestor == "agent"]
        found = compare_calls(calls, wanted, mode=mode, arguments=arguments)
        called = tuple(visible_line(call.name) for call in calls)
        return MatchResult(found, called, wanted=tuple(call.name for call in wanted))

    def violations(self, rule: str | None = None) -> tuple[Fault, ...]:
        """Return where the run breaks a rule of conduct, or any; UsageError where none is there."""
        facts = fit_facts(self.run.workflow, (), declared=self.declared)
        case = self.run.case
        rules = facts.policy + (case.policy if case is not None else ())
        chosen = [one for one in rules if rule is None or one.name == rule]
        if not chosen:
            known = ", ".join(repr(one.name) for one in rules) or "none"
            raise UsageError(f"no rule of conduct {rule or 'at all'!r} is declared; known: {known}")
        return tuple(find_breaches(self.run, chosen, facts))


def read_recordings(paths: Iterable[str | Path], limits: Limits) -> list[Trajectory | Quarantined]:
    """Return the runs of paths and what could not be read; UsageError without a run."""
    named = [str(path) for path in paths]
    found = [item for reading in read_files(named, limits=limits) for item in reading]
    if not any(isinstance(item, Trajectory) for item in found):
        raise UsageError(f"no run in {', '.join(named)}: nothing would be tested")
    return found


def list_tests(
    recorded: Iterable[Trajectory | Quarantined], trials: int | None, declared: DeclaredConduct
) -> list[tuple[str, RecordedRun | str]]:
    """Return one test a case and trial with its id: the run, or why the test cannot be run."""
    items = list(recorded)
    runs = [item for item in items if isinstance(item, Trajectory)]
    lost = len(items) - len(runs)
    runs.sort(key=lambda x: (case_order(_case(x)), case_order(x.trial or ""), x.name, x.id))
    found: list[tuple[str, RecordedRun | str]] = []
    for case, group in groupby(runs, key=_case):
        name, of_case = visible_line(case), list(group)
        taken = of_case if trials is None else of_case[:trials]
        found += [(f"{name}-{at}", RecordedRun(run, declared)) for at, run in enumerate(taken)]
        said = f"case {name}: {len(of_case)} of {trials} trials were recorded; record more runs"
        found += [(f"{name}-{at}", said) for at in range(len(taken), trials or 0)]
    if lost:
        found.append(("unreadable", f"{lost} records could not be read"))
    return found


def _case(run: Trajectory) -> str:
    return run.task or run.name or run.id
