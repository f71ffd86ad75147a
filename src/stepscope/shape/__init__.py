"""Score curves in, shape posteriors and break points out; numpy and scipy only, knows no agent.

Import from the modules: `classify` and `batch` for decisions, `bank` for what they compare,
`names` for the vocabulary. Nothing is loaded here, so that a report can name shapes without numpy.
"""
