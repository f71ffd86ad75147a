"""Inspect's logs, as `.eval` archives and as JSON."""
