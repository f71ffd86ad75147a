"""Judges: measures that ask a model, and believe only what it shows.

A rubric and a run become a `Judgement`: requests, and a function that makes records of the replies.
`running` buys the replies through the ledger, once each; nothing here knows the store.
"""
