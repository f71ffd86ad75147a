"""Runs as they happen: an OTLP/HTTP receiver that closes, stores and scores them.

request --intake--> journal (on disk before the answer) --closing--> store --score--> verdicts

Nothing that was acknowledged is lost, whatever dies; nothing is stored twice. Refuses what a web
page could send, and every interface but loopback without a token.
Source: OTLP specification 1.9, "OTLP/HTTP".
"""
