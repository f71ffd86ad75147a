"""Shapes: classifier, breaks, fleets."""
