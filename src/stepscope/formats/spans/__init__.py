"""Spans of any exporter, and the runs that they make."""
