"""Secrets and the sandbox."""
