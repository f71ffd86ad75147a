"""What a run is measured against (`Case`), and what measures learn from a fleet (`Facts`)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from hashlib import sha256
from typing import Literal

import msgspec

from stepscope.model.step import Effect, Json


class SubGoal(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A predicate on calls: this tool, with at least these arguments, answered without error.

    `after` names the sub-goals that must be reached first.
    """

    name: str
    tool: str
    arguments: dict[str, Json] = msgspec.field(default_factory=dict)
    after: tuple[str, ...] = ()


class ReferenceCall(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One call of a reference trajectory."""

    name: str
    arguments: dict[str, Json] = msgspec.field(default_factory=dict)


class PolicyRule(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One rule of conduct, declared in TOML (`[[policy]]`).

    Attributes:
        name: what reports call it.
        forbid: a tool (or `write` for every mutating tool) that may not be called ...
        where: ... or not with these arguments: name -> regular expression over its text.
        before: for order rules: the `require` must have happened before a call of this tool.
        require: a tool that must have succeeded, or `confirm` for the user's consent.
        max_calls: for rate rules: at most this many calls of `forbid` in one run.
    """

    name: str
    forbid: str | None = None
    where: dict[str, str] = msgspec.field(default_factory=dict)
    before: str | None = None
    require: str | None = None
    max_calls: int | None = None


class Precondition(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A call of `tool` needs a success of `after` before it.

    Attributes:
        tool: what may not come first.
        after: what must have succeeded before.
        by: the argument that both must have in common (`order_id`); None: any call of `after` does.
        support: passing runs that `tool` succeeded in; None where the user declared the rule.
        kept: share of those in which `after` had succeeded before; None where declared.
    """

    tool: str
    after: str
    by: str | None = None
    support: int | None = None
    kept: float | None = None


class Case(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """What a run is measured against, written before the run.

    `outputs` are the named post-conditions: texts that the agent must tell the user.
    """

    workflow: str
    task: str
    request: str | None = None
    setup: dict[str, Json] | None = None
    subgoals: tuple[SubGoal, ...] = ()
    order: Literal["ordered", "unordered", "dag"] = "unordered"
    outputs: tuple[str, ...] = ()
    reference: tuple[ReferenceCall, ...] | None = None
    policy: tuple[PolicyRule, ...] = ()
    weights: tuple[float, ...] | None = None
    tags: dict[str, str] = msgspec.field(default_factory=dict)
    difficulty: str | None = None
    extra: dict[str, Json] | None = None

    @cached_property
    def hash(self) -> str:
        """Sixteen hex digits over the whole case: part of every record's key."""
        return digest(self)


class Facts(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What measures learn from a fleet, as a value; one hash a table.

    Attributes:
        workflow: the runs that the tables were fitted from belong to it.
        n_runs: how many runs were looked at.
        medians: figure ("steps", "calls", "tokens", "cost_usd", "seconds") -> median of passing
            runs, in the figure's unit.
        n_passing: passing runs behind `medians`.
        effects: tool -> effect, as *declared* by the user; `effect()` infers the others from names.
        alternatives: tool -> tools that serve the same purpose, as declared.
        positions: place in a run -> how many of people's labels name a step there
            (`stepscope.measures.suspicion_prior`); empty without labels.
        policy: rules of conduct, as declared.
        preconditions: which tool needs which other before it: declared, or mined from passing runs.
    """

    workflow: str = ""
    n_runs: int = 0
    medians: dict[str, float] = msgspec.field(default_factory=dict)
    n_passing: int = 0
    effects: dict[str, Effect] = msgspec.field(default_factory=dict)
    alternatives: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    policy: tuple[PolicyRule, ...] = ()
    preconditions: tuple[Precondition, ...] = ()
    positions: dict[str, int] = msgspec.field(default_factory=dict)

    def hash_of(self, tables: Iterable[str]) -> str:
        """Sixteen hex digits over the named tables, "" for none: part of a record's key."""
        chosen = {name: getattr(self, name) for name in sorted(tables)}
        return digest(chosen) if chosen else ""


def digest(value: object) -> str:
    """Sixteen hex digits of sha256 over the canonical JSON of any model value.

    >>> digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1})
    True
    """
    return sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()[:16]
