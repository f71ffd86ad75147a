"""Deterministic measures: pure functions of a run, its case and fitted facts; one a file."""
