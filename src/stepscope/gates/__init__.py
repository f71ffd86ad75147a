"""Estimate + policy + baseline -> pass, fail, undecided or not run, each with its reason.

`settings` reads `[workflow.NAME]` tables, `baseline` the committed file of runs that later ones are
compared with, `decide` makes one `GateReport` (in `types`) that renderers and exit codes come from.
"""
