"""Planted faults: the generator, and the bar that scores runs with one."""
