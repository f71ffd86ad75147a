"""What measures learn from a fleet: median costs and preconditions; and costs against them.

Pure: nothing here reads a store. Medians come from *passing* runs only: the median of runs that
gave up early would make giving up early look efficient. A precondition is mined from passing runs:
tool B needs tool A when A had succeeded before B's successes in nearly all of them. Only tools that
write are looked at. A mined rule condemns a run only above stricter limits (`is_binding`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from math import inf
from statistics import median
from typing import NamedTuple

import msgspec

from stepscope.errors import ConfigError
from stepscope.measures.calls import agent_calls, has_succeeded, named_arguments
from stepscope.measures.rule import RuleMeasure, cached_on_run
from stepscope.model import (
    Answer,
    Case,
    Effect,
    Exchange,
    Facts,
    Figures,
    PolicyRule,
    Precondition,
    Scale,
    ToolDef,
    Trajectory,
    Verdict,
    figures,
)
from stepscope.model.effects import infer_effect
from stepscope.values import Unmeasured

# Shown from here on: fewer runs show no habit, a smaller share is none.
SHOWN_SUPPORT, SHOWN_KEPT = 5, 0.8
# Condemns from here on: 20 runs without one exception put the true share above .86 (95 %, one
# side: .05 ** (1 / 20)). A tool that looks up the very thing written to (`by`) has a reason to come
# first beside the habit, and 8 runs do: above .68.
BINDING_SUPPORT, BINDING_SUPPORT_BY, BINDING_KEPT = 20, 8, 0.98


class SuccessfulCall(NamedTuple):
    """A call that succeeded: tool, step of the call and of its answer, single arguments as text."""

    tool: str
    step: int
    answered: int
    told: frozenset[tuple[str, str]]


def successful_calls(trajectory: Trajectory) -> tuple[SuccessfulCall, ...]:
    """Return the agent's calls that succeeded, in order."""
    found = []
    for x in agent_calls(trajectory):
        if has_succeeded(x):
            given = x.call.arguments if isinstance(x.call.arguments, dict) else {}
            told = frozenset((k, v) for k, v in given.items() if isinstance(v, str) and v)
            found.append(SuccessfulCall(x.call.name, x.step, x.answer_step, told))
    return tuple(found)


def mine_preconditions(
    passing: Iterable[Sequence[SuccessfulCall]], effect: Callable[[str], Effect]
) -> tuple[Precondition, ...]:
    """Return what passing runs have in common, by tool.

    `passing` has the `successful_calls` of each passing run.
    """
    support: Counter[str] = Counter()
    kept: Counter[tuple[str, str, str | None]] = Counter()
    for run in passing:
        before: dict[str, set[tuple[str, str | None]]] = {}
        for at, use in enumerate(run):
            if effect(use.tool) != "write":
                continue
            earlier = _needs(run[:at], use)
            # Every call of the tool must keep what counts as kept.
            before[use.tool] = before[use.tool] & earlier if use.tool in before else earlier
        support.update(before.keys())
        kept.update((tool, *pair) for tool, pairs in before.items() for pair in pairs)
    shown = {
        (tool, after, by): n
        for (tool, after, by), n in kept.items()
        if support[tool] >= SHOWN_SUPPORT and n / support[tool] >= SHOWN_KEPT
    }
    exact = {(tool, after) for tool, after, by in shown if by is not None}
    return tuple(
        Precondition(tool=tool, after=after, by=by, support=support[tool], kept=n / support[tool])
        for (tool, after, by), n in sorted(shown.items(), key=lambda item: str(item[0]))
        if by is not None or (tool, after) not in exact
    )


def _needs(earlier: Sequence[SuccessfulCall], use: SuccessfulCall) -> set[tuple[str, str | None]]:
    found: set[tuple[str, str | None]] = set()
    for other in earlier:
        if other.answered < use.step and other.tool != use.tool:
            found.add((other.tool, None))
            found.update((other.tool, name) for name, _ in other.told & use.told)
    return found


def calls_too_early(made: Sequence[Exchange], rule: Precondition) -> Iterator[Exchange]:
    """Yield the calls of a tool that were made before what it needs had succeeded."""
    # A habit is no rule, and a trace may lack all results: what has none may have succeeded.
    lenient = rule.support is not None or all(x.result is None for x in made)
    for exchange in made:
        if exchange.call.name != rule.tool:
            continue
        value = _argument_text(exchange, rule.by)
        if rule.by is not None and value is None:
            continue
        if not any(
            x.call.name == rule.after
            and (has_succeeded(x) or (lenient and not x.failed))
            and x.answer_step < exchange.step
            and _argument_text(x, rule.by) == value
            for x in made
        ):
            yield exchange


def _argument_text(exchange: Exchange, name: str | None) -> str | None:
    """Return the text that a call gives under a name, None where it gives none."""
    given = named_arguments(exchange.call) if name is not None else None
    value = given.get(name) if name is not None and given is not None else None
    return value if isinstance(value, str) and value else None


def is_binding(rule: Precondition) -> bool:
    """True if breaking a rule is a fault: it was declared, or hardly ever broken."""
    if rule.support is None or rule.kept is None:
        return True
    enough = BINDING_SUPPORT if rule.by is None else BINDING_SUPPORT_BY
    return rule.support >= enough and rule.kept >= BINDING_KEPT


def describe_source(rule: Precondition) -> str:
    """Say where a rule comes from."""
    if rule.support is None or rule.kept is None:
        return "as declared"
    return f"in {round(rule.kept * rule.support)} of {rule.support} passing runs"


def refuse_contradictions(rules: Iterable[Precondition], where: str) -> None:
    """Check that some order of calls keeps all the rules; `ConfigError` where none does."""
    needs: dict[str, set[str]] = {}
    for rule in rules:
        needs.setdefault(rule.tool, set()).add(rule.after)
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as e:
        chain = " after ".join(repr(tool) for tool in reversed(e.args[1]))
        raise ConfigError(
            f"{where}: no order of calls keeps these [[precondition]] rules: {chain}; remove one"
        ) from e


FIGURES = ("steps", "calls", "tokens", "cost_usd", "seconds")


class DeclaredConduct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the user declares in `stepscope.toml` about tools and conduct."""

    # tool -> what it does to the world; wins over what its name suggests
    effects: dict[str, Effect] = msgspec.field(default_factory=dict)
    # tool -> tools that serve the same purpose
    alternatives: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    # words that tell of an act that is done -> tools that make them true
    claims: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    policy: tuple[PolicyRule, ...] = ()  # rules that hold in every workflow
    # workflow -> rules that hold there besides `policy`
    workflows: dict[str, tuple[PolicyRule, ...]] = msgspec.field(default_factory=dict)
    # workflow -> which tool needs which other first; "" for every workflow
    preconditions: dict[str, tuple[Precondition, ...]] = msgspec.field(default_factory=dict)
    # workflow -> tool list and policy for runs whose traces have none
    tools: dict[str, tuple[ToolDef, ...]] = msgspec.field(default_factory=dict)
    instructions: dict[str, str] = msgspec.field(default_factory=dict)


def supply_context(trajectory: Trajectory, facts: Facts | None) -> Trajectory:
    """Return a run with the tool list of its case, else of the settings, and their policy.

    What its trace has is not replaced.
    """
    own = () if trajectory.case is None else trajectory.case.tools
    if own and not trajectory.tools:
        trajectory = msgspec.structs.replace(trajectory, tools=own)
    if facts is None or not (facts.tools or facts.instructions):
        return trajectory
    told = any(step.actor == "system" and step.text for step in trajectory.steps)
    return msgspec.structs.replace(
        trajectory,
        tools=trajectory.tools or facts.tools or None,
        instructions=None if told else facts.instructions or None,
    )


def fit_facts(
    workflow: str,
    rows: Iterable[tuple[str, Figures]],
    *,
    declared: DeclaredConduct | None = None,
    passing_uses: Iterable[Sequence[SuccessfulCall]] = (),
) -> Facts:
    """Return the facts of one workflow: medians of its passing runs, and what was declared.

    A figure that no passing run has is absent from `medians`. `passing_uses` are the successful
    calls of passing runs (`successful_calls`); a rule mined from them yields to a declared one.
    """
    declared = declared or DeclaredConduct()
    runs = list(rows)
    passing = [run for outcome, run in runs if outcome == "pass"]
    medians: dict[str, float] = {}
    for figure in FIGURES:
        values = [n for run in passing if (n := getattr(run, figure)) is not None]
        if values:
            medians[figure] = float(median(values))
    said = (*declared.preconditions.get("", ()), *declared.preconditions.get(workflow, ()))
    known = {(rule.tool, rule.after) for rule in said}
    effects = declared.effects
    mined = mine_preconditions(passing_uses, lambda tool: effects.get(tool) or infer_effect(tool))
    return Facts(
        workflow=workflow,
        n_runs=len(runs),
        medians=medians,
        n_passing=len(passing),
        effects=declared.effects,
        alternatives=declared.alternatives,
        claims=declared.claims,
        policy=declared.policy + declared.workflows.get(workflow, ()),
        preconditions=said + tuple(r for r in mined if (r.tool, r.after) not in known),
        tools=declared.tools.get(workflow, ()),
        instructions=declared.instructions.get(workflow, ""),
    )


MISSING = {
    "steps": "",
    "calls": "",
    "tokens": "usage: the trace reports no tokens",
    "cost_usd": "cost_usd: the trace reports no cost, and none was computed",
    "seconds": "start and end: the trace has no times",
}


_figures = cached_on_run(figures)
_ASPECTS = tuple(
    (f"efficiency.{figure}", Unmeasured("missing_input", MISSING[figure], f"efficiency.{figure}"))
    for figure in FIGURES
)


def _efficiency(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    """What a run cost: steps, calls, tokens, USD, seconds; a field that the trace lacks is named.

    What counts as each figure: `stepscope.model.trajectory.figures`.
    """
    return [
        absent if value is None else Verdict(name, float(value))
        for (name, absent), value in zip(_ASPECTS, _figures(trajectory), strict=True)
    ]


EFFICIENCY = RuleMeasure("efficiency", "1", Scale(0.0, inf), (), _efficiency)


_RATIO = "efficiency_ratio"
_NO_PASS = "no passing run of this workflow has the figure"
_NO_COST = "the median of the passing runs is 0"
_NO_VALUE = [Unmeasured("missing_input", MISSING[x], f"{_RATIO}.{x}") for x in FIGURES]
_NO_MEDIAN = [Unmeasured("insufficient_data", _NO_PASS, f"{_RATIO}.{x}") for x in FIGURES]
_ZERO = [Unmeasured("undefined", _NO_COST, f"{_RATIO}.{x}") for x in FIGURES]


def _ratios(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    """What a run cost against the median of its workflow's passing runs: 1 is the usual price."""
    medians = facts.medians if facts is not None else {}
    answers: list[Answer] = []
    for at, (figure, value) in enumerate(zip(FIGURES, _figures(trajectory), strict=True)):
        median = medians.get(figure)
        if value is None or median is None:
            answers.append((_NO_VALUE if value is None else _NO_MEDIAN)[at])
        else:
            answers.append(Verdict(f"{_RATIO}.{figure}", value / median) if median else _ZERO[at])
    return answers


EFFICIENCY_RATIO = RuleMeasure(_RATIO, "1", Scale(0.0, inf), ("medians",), _ratios)
