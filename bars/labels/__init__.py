"""Bars of the labelling page and its queues."""
