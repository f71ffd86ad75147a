"""An attack on the command line: what an outsider tried, and what is expected of it."""
