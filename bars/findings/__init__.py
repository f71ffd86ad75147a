"""Failure modes: what is planted is found, what is chance is not."""
