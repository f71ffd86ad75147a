"""A report by the agents within runs: one row for each run and each agent that its steps name.

The traces are opened: which step is whose is in no column. Every column is asked of the agent alone
(`stepscope.measures.per_agent`); what belongs to a run as a whole (its sub-goals, its shape) has no
share of it. An outcome stays that of the run, and is said to be.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np

from stepscope.errors import UsageError
from stepscope.measures.per_agent import AgentAnswers, per_agent
from stepscope.model import Answer
from stepscope.report.rows import Table
from stepscope.report.types import Profile
from stepscope.store import Store
from stepscope.store.columns import ANSWERED, NO_RECORD, Column, Rows, state_of
from stepscope.store.reading import texts
from stepscope.values import Unmeasured

# What `--by` takes for it.
BY = "step_agent"

_OF_RUNS = ("outcome.pass^", "subgoals.", "axes.")
NO_RIVALS = Unmeasured("not_applicable", "agents of one run share its outcome")
_OUTCOME = "of the runs that it took part in"


def by_step_agent(rows: Rows, table: Table) -> Table:
    """Return the table with a row for each run and each of its agents, which `BY` names.

    Raises:
        UsageError: the traces cannot be opened here, or no run names agents at its steps.
    """
    if not isinstance(rows, Store):
        raise UsageError(f"--by {BY} opens runs, and there are none here: name a store")
    facts = {workflow: rows.facts(workflow) for workflow in set(table.runs.workflow.tolist())}
    places: list[int] = []
    found: list[AgentAnswers] = []
    at_key = {key: at for at, key in enumerate(table.runs.key.tolist())}
    for stored in rows.stored(table.runs.key.tolist()):
        run = stored.trajectory
        answers = per_agent(run, run.case, facts[run.workflow])
        if not isinstance(answers, Unmeasured):
            places += [at_key[stored.key]] * len(answers)
            found += answers
    if not found:
        raise UsageError(f"--by {BY}: no step of these runs names its agent")
    taken = table.take(np.array(places, np.int64))
    steps, calls = (_column(name, found).value for name in ("efficiency.steps", "efficiency.calls"))
    return replace(
        taken,
        runs=replace(taken.runs, steps=steps.astype(np.int64), calls=calls.astype(np.int64)),
        columns={
            name: column if name == "outcome" else _column(name, found, column.versions)
            for name, column in taken.columns.items()
        },
        tags={BY: texts([one.agent for one in found])},
        shapes=None,
    )


def of_one(profile: Profile) -> Profile:
    """Return the vector of one agent without the figures that only a whole run has."""
    return msgspec.structs.replace(
        profile,
        figures={k: v for k, v in profile.figures.items() if not k.startswith(_OF_RUNS)},
        notes={**profile.notes, "outcome.pass": _OUTCOME},
        trials=None,
    )


def _column(measure: str, found: list[AgentAnswers], versions: tuple[str, ...] = ()) -> Column:
    given = [_answer(one, measure) for one in found]
    value = [
        np.nan if answer is None or isinstance(answer, Unmeasured) else answer.value
        for answer in given
    ]
    return Column(
        measure=measure,
        value=np.array(value, np.float64),
        label=texts([None] * len(found)),
        state=np.array([_state(answer) for answer in given], np.int8),
        versions=versions,
    )


def _answer(one: AgentAnswers, measure: str) -> Answer | None:
    return next((answer for answer in one.answers if answer.measure == measure), None)


def _state(answer: Answer | None) -> int:
    if answer is None:
        return NO_RECORD
    return state_of(answer.kind) if isinstance(answer, Unmeasured) else ANSWERED
