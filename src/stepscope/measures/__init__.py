"""Deterministic measures: pure functions of a run, its case and fitted facts.

The measures themselves are named as entry points name them. Importing this loads none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.measures.match import CallComparison as CallComparison
    from stepscope.measures.match import compare_calls as compare_calls

# Where each name is at home; one that is called otherwise there says how.
_HOMES = {
    "AXIS_ARGUMENT_VALIDITY": "axes.arguments:ARGUMENT_VALIDITY",
    "AXIS_RESULT_INTERPRETATION": "axes.results:RESULT_INTERPRETATION",
    "AXIS_SEQUENCING": "axes.choice:SEQUENCING",
    "AXIS_TERMINATION": "axes.ending:TERMINATION",
    "AXIS_TOOL_SELECTION": "axes.choice:TOOL_SELECTION",
    "CallComparison": "match",
    "EFFICIENCY": "facts",
    "EFFICIENCY_RATIO": "facts",
    "ERRORS": "errors",
    "GROUNDING": "axes.arguments",
    "LOCALISE": "localise",
    "LOOPS": "calls",
    "MATCH": "match",
    "OUTCOME": "outcome",
    "POLICY": "conduct",
    "RECOVERY": "errors",
    "REDUNDANT_CALLS": "calls",
    "STEP_LABELS": "labels",
    "SUBGOALS": "outcome",
    "TERMINATION": "outcome",
    "TOOL_SCHEMA": "axes.arguments",
    "compare_calls": "match",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home, _, own = _HOMES[name].partition(":")
    return getattr(import_module(f"{__name__}.{home}"), own or name)
