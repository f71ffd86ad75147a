"""OpenHands: trajectories, outputs of evaluations, events of its SDK."""
