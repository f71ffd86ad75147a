"""What measures learn from a fleet, fitted from rows and passed in as one value.

Measures stay pure: nothing here reads a store. Medians come from *passing* runs only: the median of
runs that gave up early would make giving up early look efficient.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Literal, NamedTuple

import msgspec

from stepscope.effects import infer_effect
from stepscope.measures import preconditions
from stepscope.model import Effect, Facts, PolicyRule, Precondition

FIGURES = ("steps", "calls", "tokens", "cost_usd", "seconds")


class RunFigures(NamedTuple):
    """One run as a row: its outcome and its cost in steps, calls, tokens, USD and seconds."""

    outcome: Literal["pass", "fail", "unknown"]
    steps: int
    calls: int
    tokens: float | None = None
    cost_usd: float | None = None
    seconds: float | None = None


class Declared(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the user declares in `stepscope.toml` about tools and conduct.

    Attributes:
        effects: tool -> what it does to the world; wins over what its name suggests.
        alternatives: tool -> tools that serve the same purpose.
        policy: rules that hold in every workflow.
        workflows: workflow -> rules that hold there besides `policy`.
        preconditions: workflow -> which tool needs which other first; "" for every workflow.
    """

    effects: dict[str, Effect] = msgspec.field(default_factory=dict)
    alternatives: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    policy: tuple[PolicyRule, ...] = ()
    workflows: dict[str, tuple[PolicyRule, ...]] = msgspec.field(default_factory=dict)
    preconditions: dict[str, tuple[Precondition, ...]] = msgspec.field(default_factory=dict)


def fit(
    workflow: str,
    rows: Iterable[RunFigures],
    *,
    declared: Declared | None = None,
    positions: Mapping[str, int] | None = None,
    passing_uses: Iterable[Sequence[preconditions.Use]] = (),
) -> Facts:
    """Return the facts of one workflow: medians of its passing runs, and what was declared.

    A figure that no passing run has is absent from `medians`. `positions` are counted from labels
    by `suspicion_prior.count_positions`; `passing_uses` are the successful calls of passing runs
    (`preconditions.uses`), and a rule mined from them yields to a declared one.

    >>> fit("shop", [RunFigures("pass", 10, 2), RunFigures("fail", 99, 9)]).medians
    {'steps': 10.0, 'calls': 2.0}
    """
    declared = declared or Declared()
    runs = list(rows)
    passing = [run for run in runs if run.outcome == "pass"]
    medians: dict[str, float] = {}
    for figure in FIGURES:
        known = [n for run in passing if (n := getattr(run, figure)) is not None]
        if known:
            medians[figure] = float(median(known))
    return Facts(
        workflow=workflow,
        n_runs=len(runs),
        medians=medians,
        n_passing=len(passing),
        effects=declared.effects,
        alternatives=declared.alternatives,
        policy=declared.policy + declared.workflows.get(workflow, ()),
        positions=dict(positions or {}),
        preconditions=_preconditions(workflow, declared, passing_uses),
    )


def _preconditions(
    workflow: str, declared: Declared, passing_uses: Iterable[Sequence[preconditions.Use]]
) -> tuple[Precondition, ...]:
    said = (*declared.preconditions.get("", ()), *declared.preconditions.get(workflow, ()))
    known = {(rule.tool, rule.after) for rule in said}
    mined = preconditions.mine(
        passing_uses, lambda tool: declared.effects.get(tool) or infer_effect(tool)
    )
    return said + tuple(rule for rule in mined if (rule.tool, rule.after) not in known)
