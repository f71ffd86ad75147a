"""An attack on the command line: what an outsider tried, and what the documentation promises of it."""
