"""Measures: real figures, planted agents, localisation."""
