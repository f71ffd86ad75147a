"""Drafts of sub-goals for people to confirm: one sentence a sub-goal, and the step that met it."""

from __future__ import annotations

import msgspec

from stepscope.judges import goals
from stepscope.store import Store
from stepscope.store.where import Where
from stepscope.values import Unmeasured


class GoalDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A draft of a goals file.

    Attributes:
        text: the file, TOML; nothing in it is confirmed.
        runs: runs that it has goals for.
        goals: their goals.
        without_step: goals that no call met: a person says which steps are theirs.
        without_subgoals: runs whose cases have no sub-goals to draft from.
    """

    text: str
    runs: int
    goals: int
    without_step: int
    without_subgoals: int

    def __str__(self) -> str:
        """Say what is in it, in a line."""
        return (
            f"{self.runs:,} runs with {self.goals:,} goals, {self.without_step:,} of them without "
            f"a step; {self.without_subgoals:,} runs have no sub-goals to draft from"
        )


def drafted(store: Store, where: Where | None) -> GoalDraft:
    """Return a draft of the sub-goals of the chosen runs."""
    drafts: list[tuple[str, tuple[goals.Goal, ...]]] = []
    without = 0
    for run in store.trajectories(where):
        found = (
            Unmeasured("missing_input", "no case")
            if run.case is None
            else goals.propose(run, run.case)
        )
        if isinstance(found, Unmeasured):
            without += 1
        else:
            drafts.append((run.name, found))
    all_goals = [goal for _, of_run in drafts for goal in of_run]
    return GoalDraft(
        text=goals.written(drafts),
        runs=len(drafts),
        goals=len(all_goals),
        without_step=sum(not goal.steps for goal in all_goals),
        without_subgoals=without,
    )
