"""What is kept of gates between invocations: the baseline beside its policy, and the log of looks.

Nothing is decided here, and nothing is written. A baseline or a log that cannot be read, and runs
that make no baseline, are lines that say why: a page of gates still shows everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from stepscope.errors import StepscopeError
from stepscope.gates import baseline as baselines
from stepscope.gates import looks
from stepscope.gates.baseline import Baseline
from stepscope.gates.difference import diff
from stepscope.gates.policy import WorkflowPolicy
from stepscope.store.columns import Rows
from stepscope.store.where import Where


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """The looks at one commit under one policy.

    Attributes:
        commit: what was under test.
        looks: how many looks brought new runs.
        runs: runs of all looks, pooled.
        current: whether the policy is still the one that holds.
    """

    commit: str
    looks: int
    runs: int
    current: bool


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of one workflow.

    Attributes:
        workflow: its name.
        file: the name of the baseline's file, without its folder; "" where none is named.
        holds: what the baseline holds, in a line; "" where there is none to compare with.
        changes: old -> new: what the chosen runs would change in it, one line each.
        problems: what could not be read or compared, and what to do, one line each.
        looked: a row a commit, in the order of the log: the last look last.
    """

    workflow: str
    file: str = ""
    holds: str = ""
    changes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    looked: tuple[Looked, ...] = ()


def kept(
    rows: Rows, policies: Sequence[WorkflowPolicy], *, where: Where | None = None
) -> tuple[Kept, ...]:
    """Return what is kept of every workflow with gates, and how the chosen runs differ from it.

    Args:
        rows: a store, or anything else with its columns.
        policies: all of the settings; the log of looks lies beside the first baseline they name.
        where: which runs are compared with the baselines.
    """
    log, torn = _log(policies)
    return tuple([
        msgspec.structs.replace(
            _compared(rows, policy, where, torn), looked=_looked(log, policy)
        )
        for policy in policies
        if policy.gates
    ])  # fmt: skip


def _log(policies: Sequence[WorkflowPolicy]) -> tuple[looks.Log, tuple[str, ...]]:
    """Return the log of looks, empty where there is none or where it is torn, and why it is."""
    named = next((policy.baseline for policy in policies if policy.baseline is not None), None)
    if named is None:
        return looks.Log(), ()
    try:
        return looks.load(looks.beside(named)), ()
    except StepscopeError as e:
        return looks.Log(), (str(e),)


def _compared(
    rows: Rows, policy: WorkflowPolicy, where: Where | None, problems: tuple[str, ...]
) -> Kept:
    file = "" if policy.baseline is None else Path(policy.baseline).name
    made = Kept(workflow=policy.workflow, file=file, problems=problems)
    try:
        old = baselines.load(policy.baseline, policy.workflow)
        if not isinstance(old, Baseline):
            return msgspec.structs.replace(made, problems=(*problems, old.reason))
        made = msgspec.structs.replace(made, holds=_holds(old))
        new = baselines.make(rows, policy, where=where)
    except StepscopeError as e:
        return msgspec.structs.replace(made, problems=(*problems, str(e)))
    # Nobody said which commit the chosen runs are of.
    new = msgspec.structs.replace(new, commit=old.commit)
    return msgspec.structs.replace(made, changes=diff(old, new).lines[1:])


def _holds(held: Baseline) -> str:
    size = f"{len(held.sample.runs):,} runs of {len(held.sample.cases):,} cases"
    return f"{size}, commit {held.commit or 'none said'}, {', '.join(held.agents)}"


def _looked(log: looks.Log, policy: WorkflowPolicy) -> tuple[Looked, ...]:
    found = []
    for name, entry in log.entries.items():
        # Commit and workflow may hold spaces; between them stands the hash of a policy, 16 digits.
        head = name.removesuffix(f" {policy.workflow}")
        commit, _, said = head.rpartition(" ")
        if looks.key(commit, policy.workflow, said) == name and len(said) == len(policy.hash):
            current = said == policy.hash
            found.append(
                Looked(commit=commit, looks=entry.looks, runs=len(entry.runs), current=current)
            )
    return tuple(found)
