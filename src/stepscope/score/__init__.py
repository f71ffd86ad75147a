"""Fill the store: every measure asked about every run, once."""

from stepscope.score.measures import ScoringResult, score_runs

__all__ = ["ScoringResult", "score_runs"]
