"""What a secret looks like: formats of providers, places where keys stand, and encodings of both.

`stepscope.safety.redact` is the door; nothing else needs to look in here.
"""
