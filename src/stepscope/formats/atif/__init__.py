"""ATIF, in and out: runs as its trajectories, and its trajectories as runs."""
