"""Judging: the fence, replies, money through kills and stops, attacks."""
