"""Fill the store: every measure asked about every run, once."""

from stepscope.score.loop import Scored, score

__all__ = ["Scored", "score"]
