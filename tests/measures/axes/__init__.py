"""The evidence judge, axis by axis."""
