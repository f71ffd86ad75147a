"""Deterministic measures: pure functions of a run, its case and fitted facts."""

from __future__ import annotations

from stepscope.measures.match import CallComparison, compare_calls

__all__ = ["CallComparison", "compare_calls"]
