"""A gate inside a test: passes on the interval, skips or fails where it is not decided.

A gate that could not be measured fails the test, whatever is said about undecided ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest

from stepscope.api import gating
from stepscope.api.notebook import open
from stepscope.errors import StepscopeError, UsageError
from stepscope.gates.exit import FAILED, PASSED
from stepscope.gates.types import GateReport, Severity
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
        """Fail the test where a gate failed or could not be measured.

        Args:
            undecided: what becomes of the test where more runs would decide a gate.
            fail_on: the least severity that counts.
        """
        __tracebackhide__ = True
        if undecided not in ("skip", "fail"):
            raise UsageError(f"undecided = {undecided!r}; expected 'skip' or 'fail'")
        strict = self._view(fail_on, None)
        if strict.exit_code == PASSED:
            return
        lenient = self._view(fail_on, "pass")
        if strict.exit_code != FAILED and undecided == "skip" and lenient.exit_code == PASSED:
            pytest.skip(f"undecided: {strict.text()}")
        pytest.fail(strict.text(), pytrace=False)

    def _view(
        self, fail_on: Severity, undecided: Literal["pass", "fail"] | None
    ) -> gating.GateView:
        return gating.GateView(
            self.report, remarks=self.remarks, fail_on=fail_on, undecided=undecided
        )


def decided(
    settings: Settings,
    workflow: str,
    *,
    runs: str | Path | Sequence[str | Path] | None = None,
    baseline: str | Path | None = None,
    root: Path,
) -> GateCheck:
    """Decide the gates of a workflow, on the runs of the store or on files.

    Args:
        settings: where the gates are declared.
        workflow: whose gates.
        runs: files or folders of traces; the store of the settings when left out.
        baseline: a file to compare with instead of the one that the settings name.
        root: what paths are relative to.
    """
    __tracebackhide__ = True
    try:
        named = None if baseline is None else str(root / baseline)
        policies = gating.chosen(settings, [workflow], baseline=named)
        if runs is not None:
            several = [runs] if isinstance(runs, str | Path) else list(runs)
            paths = [str(root / path) for path in several]
            return GateCheck(*gating.gate_files(paths, settings, policies))
        if not Path(settings.store).exists():
            raise UsageError(
                f"no store at {settings.store!r}; make one with stepscope import, or say runs=..."
            )
        with open(settings.store, settings=settings) as notebook:
            return GateCheck(gating.gate(notebook, policies))
    except StepscopeError as e:
        from stepscope.safety.text import visible_line

        pytest.fail(visible_line(str(e)), pytrace=False)
