"""Bars of the room calibrate."""
