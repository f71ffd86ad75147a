"""Timings side by side with named peers, printed by `make bench`."""
