"""Judges: measures that ask a model, and believe only what it shows.

A rubric and a run become a `Judgement`: asks, and a reader that makes verdicts of the replies.
`run` pays for the replies through the ledger, once each; nothing here knows the store. A name is
loaded when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.lazy import lazy_names

if TYPE_CHECKING:
    from stepscope.judges.canaries import worked_run as worked_run
    from stepscope.judges.goals import goals_toml as goals_toml
    from stepscope.judges.goals import load_goals as load_goals
    from stepscope.judges.goals import propose_goals as propose_goals
    from stepscope.judges.judgement import Judge as Judge
    from stepscope.judges.judgement import configured_judge as configured_judge
    from stepscope.judges.patterns import PATTERN_ADVICE as PATTERN_ADVICE
    from stepscope.judges.patterns import compare_recoveries as compare_recoveries
    from stepscope.judges.patterns import find_label_patterns as find_label_patterns
    from stepscope.judges.rubrics import RUBRIC_SETS as RUBRIC_SETS
    from stepscope.judges.rubrics import FrontMatter as FrontMatter
    from stepscope.judges.rubrics import Rubric as Rubric
    from stepscope.judges.rubrics import load_rubric as load_rubric
    from stepscope.judges.rubrics import load_rubric_set as load_rubric_set
    from stepscope.judges.rubrics import system_prompt as system_prompt
    from stepscope.judges.transcript import Fence as Fence
    from stepscope.judges.transcript import fence_nonce as fence_nonce
    from stepscope.judges.verdicts import mark_outranked as mark_outranked

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".canaries": ("worked_run",),
        ".goals": ("goals_toml", "load_goals", "propose_goals"),
        ".judgement": ("Judge", "configured_judge"),
        ".patterns": ("PATTERN_ADVICE", "compare_recoveries", "find_label_patterns"),
        ".rubrics": (
            "FrontMatter",
            "RUBRIC_SETS",
            "Rubric",
            "load_rubric",
            "load_rubric_set",
            "system_prompt",
        ),
        ".transcript": ("Fence", "fence_nonce"),
        ".verdicts": ("mark_outranked",),
    },
)
