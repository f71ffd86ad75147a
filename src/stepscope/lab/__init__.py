"""Experiments on recorded runs: faults planted where none was, so that judges can be measured."""
