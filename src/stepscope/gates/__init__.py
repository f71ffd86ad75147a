"""Estimate + policy + baseline -> pass, fail, undecided or not run, each with its reason.

`settings` reads `[workflow.NAME]` tables, `baseline` the committed file of runs that later ones are
compared with, `judged` what judges answered; `decide` makes one `GateReport` (in `types`) that
renderers and exit codes come from, and `selftest` says how often such reports are wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.lazy import lazy_names

if TYPE_CHECKING:
    from stepscope.gates.baseline import load_baseline as load_baseline
    from stepscope.gates.selftest import GateErrors as GateErrors
    from stepscope.gates.selftest import GateSelftest as GateSelftest
    from stepscope.gates.selftest import selftest_gates as selftest_gates
    from stepscope.gates.settings import GateDefaults as GateDefaults

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".baseline": ("load_baseline",),
        ".selftest": ("GateErrors", "GateSelftest", "selftest_gates"),
        ".settings": ("GateDefaults",),
    },
)
