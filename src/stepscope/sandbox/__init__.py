"""Untrusted commands on a copy of a folder, in a sandbox that can only read it."""
