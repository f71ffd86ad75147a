"""Trace formats: files in, runs out; one module a format, nothing read is dropped."""
