"""What runs say together: the ranking of a failed run's steps. Importing this loads nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.lazy import lazy_names

if TYPE_CHECKING:
    from stepscope.findings.ranking import RankedStep as RankedStep
    from stepscope.findings.ranking import StepRanking as StepRanking
    from stepscope.findings.ranking import rank_steps as rank_steps

__all__, __getattr__, __dir__ = lazy_names(
    __name__, {".ranking": ("RankedStep", "StepRanking", "rank_steps")}
)
