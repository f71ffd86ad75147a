"""Rows in, one `Report` out, rendered many times: text, JSON, Markdown, JUnit.

`build` and `compare` are the only places that turn rows into numbers; no renderer computes.
"""
