"""What a workflow promises: its gates, each with what it is about, its bound and its rule.

`gates.reading` makes these from `[workflow.NAME]` of the settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from stepscope.gates.quantities import Quantity
from stepscope.gates.types import Rule, Severity
from stepscope.model import digest

RECORDED = "recorded"
RULES = "rules"

About = Literal["rate", "drop", "ratio"]


class GatePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """One gate, checked.

    Attributes:
        name: as the policy calls it.
        quantity: what it is about.
        about: a rate of bad runs, a drop or a ratio against the baseline.
        bound: the largest share of bad runs, drop or ratio that passes.
        limit: a run whose value is above it is bad; None where the value itself says how bad.
        rule: how runs become a decision.
        threshold: as the policy writes it.
        wants_good: the policy speaks of the share of good runs, and so does the estimate.
    """

    name: str
    quantity: Quantity
    about: About
    bound: float
    limit: float | None
    rule: Rule
    threshold: str
    wants_good: bool = False
    severity: Severity = "hard"
    source: str = RULES
    recovered: Literal["allowed", "forbidden"] = "allowed"
    uncertain: Literal["worst", "ignored"] = "worst"
    file_on: Severity = "soft"

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that it needs."""
        own = self.quantity.measure
        if self.quantity.kind == "recovered":
            return (own, "errors")
        return (own, "recovery.recovered") if self.unrecovered else (own,)

    @property
    def unrecovered(self) -> bool:
        """It counts errors, and those that were recovered are the recovery gate's business."""
        return self.quantity.measure == "errors" and self.recovered == "allowed"

    @property
    def compares(self) -> bool:
        """It needs a baseline."""
        return self.about != "rate"


class WorkflowPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow with its gates; `baseline` is a path that can be opened as it is.

    `trials` and `cases` (of the command line) are the design where it is not the baseline's; see
    `gates.design`.
    """

    workflow: str
    corpus: str | None = None
    agent: str = RECORDED
    baseline: str | None = None
    trials: int | None = None
    cases: tuple[str, ...] = ()
    gates: tuple[GatePolicy, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that its gates need, sorted."""
        return tuple(sorted({name for gate in self.gates for name in gate.reads}))

    @property
    def labelled(self) -> frozenset[str]:
        """The columns of which labels are read."""
        return frozenset(g.quantity.measure for g in self.gates if g.quantity.kind == "label")

    @property
    def hash(self) -> str:
        """Sixteen hex digits over all that decides; severities and paths do not."""
        asked = [
            (g.name, g.quantity, g.about, g.bound, g.limit, g.rule, g.source) for g in self.gates
        ]
        allowed = [(g.recovered, g.uncertain) for g in self.gates]
        return digest((self.workflow, asked, allowed))


def policies_hash(policies: Sequence[WorkflowPolicy]) -> str:
    """Sixteen hex digits over the policies of one invocation."""
    return digest([policy.hash for policy in policies])
