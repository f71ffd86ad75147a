"""Deterministic measures: pure functions of a run, its case and fitted facts.

The measures themselves are named as entry points name them. Importing this loads none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.lazy import lazy_names

if TYPE_CHECKING:
    from stepscope.measures.same_calls import CallComparison as CallComparison
    from stepscope.measures.same_calls import compare_calls as compare_calls

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".axes.arguments": ("AXIS_ARGUMENT_VALIDITY:ARGUMENT_VALIDITY", "GROUNDING", "TOOL_SCHEMA"),
        ".axes.choice": ("AXIS_SEQUENCING:SEQUENCING", "AXIS_TOOL_SELECTION:TOOL_SELECTION"),
        ".axes.ending": ("AXIS_TERMINATION:TERMINATION",),
        ".axes.results": ("AXIS_RESULT_INTERPRETATION:RESULT_INTERPRETATION",),
        ".completeness": ("COMPLETENESS",),
        ".conduct": ("POLICY",),
        ".errors": ("ERRORS", "RECOVERY", "STEP_LABELS"),
        ".facts": ("EFFICIENCY", "EFFICIENCY_RATIO"),
        ".localise": ("LOCALISE",),
        ".outcome": ("OUTCOME", "SUBGOALS", "TERMINATION"),
        ".same_calls": ("CallComparison", "LOOPS", "MATCH", "REDUNDANT_CALLS", "compare_calls"),
    },
)
