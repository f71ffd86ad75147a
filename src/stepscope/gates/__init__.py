"""Estimate + policy + baseline -> pass, fail, undecided or not run, each with its reason.

`policy` reads `[workflow.NAME]` tables, `baseline` the committed file that runs are compared with,
`decide` makes one `GateReport` (types in `types`) that every renderer and exit code comes from.
"""
