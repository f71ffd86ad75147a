"""Experiments on recorded runs."""
