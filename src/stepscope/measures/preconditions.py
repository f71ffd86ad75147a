"""Which tool needs which other before it: mined from passing runs, checked where declared.

Mined: tool B is said to need tool A when A had succeeded before B's successes in nearly all passing
runs that B succeeded in; `by` an argument, where A had been told the same value of it. Only tools
that write are asked about, because looking things up in another order breaks nothing. A habit is no
law: what is kept here is shown with its support and its share, and condemns a run only above
stricter limits (`binding`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from stepscope.errors import ConfigError
from stepscope.measures.calls import agent_calls, succeeded
from stepscope.model import Effect, Exchange, Precondition, Trajectory

# Shown from here on: fewer runs show no habit, a smaller share is none.
SHOWN_SUPPORT, SHOWN_KEPT = 5, 0.8
# Condemns from here on: 20 runs without one exception put the true share above .86 (95 %, one
# side: .05 ** (1 / 20)). A tool that looks up the very thing written to (`by`) has a reason to come
# first beside the habit, and 8 runs do: above .68.
BINDING_SUPPORT, BINDING_SUPPORT_BY, BINDING_KEPT = 20, 8, 0.98


class Use(NamedTuple):
    """A call that succeeded: tool, step of the call and of its answer, single arguments as text."""

    tool: str
    step: int
    answered: int
    told: frozenset[tuple[str, str]]


def uses(trajectory: Trajectory) -> tuple[Use, ...]:
    """Return the agent's calls that succeeded, in order."""
    return tuple(_use(x) for x in agent_calls(trajectory) if succeeded(x))


def _use(exchange: Exchange) -> Use:
    given = exchange.call.arguments
    told = (
        frozenset((k, v) for k, v in given.items() if isinstance(v, str) and v)
        if isinstance(given, dict)
        else frozenset()
    )
    return Use(exchange.call.name, exchange.step, _answered(exchange), told)


def mine(
    passing: Iterable[Sequence[Use]], effect: Callable[[str], Effect]
) -> tuple[Precondition, ...]:
    """Return what passing runs have in common, by tool.

    Args:
        passing: the `uses` of each passing run.
        effect: what a tool does to the world.
    """
    support: Counter[str] = Counter()
    kept: Counter[tuple[str, str, str | None]] = Counter()
    for run in passing:
        before: dict[str, set[tuple[str, str | None]]] = {}
        for at, use in enumerate(run):
            if effect(use.tool) != "write":
                continue
            earlier = _before(run[:at], use)
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


def _before(earlier: Sequence[Use], use: Use) -> set[tuple[str, str | None]]:
    found: set[tuple[str, str | None]] = set()
    for other in earlier:
        if other.answered < use.step and other.tool != use.tool:
            found.add((other.tool, None))
            found.update((other.tool, name) for name, _ in other.told & use.told)
    return found


def too_early(made: Sequence[Exchange], rule: Precondition) -> Iterator[Exchange]:
    """Yield the calls of a tool that were made before what it needs had succeeded."""
    for exchange in made:
        if exchange.call.name != rule.tool:
            continue
        value = _told(exchange, rule.by)
        if rule.by is not None and value is None:
            continue
        if not any(
            x.call.name == rule.after
            and succeeded(x)
            and _answered(x) < exchange.step
            and _told(x, rule.by) == value
            for x in made
        ):
            yield exchange


def _told(exchange: Exchange, name: str | None) -> str | None:
    """Return the text that a call gives under a name, None where it gives none."""
    given = exchange.call.arguments
    value = given.get(name) if name is not None and isinstance(given, dict) else None
    return value if isinstance(value, str) and value else None


def _answered(exchange: Exchange) -> int:
    return exchange.step if exchange.result_step is None else exchange.result_step


def binding(rule: Precondition) -> bool:
    """Tell whether breaking a rule is a fault: it was declared, or hardly ever broken."""
    if rule.support is None or rule.kept is None:
        return True
    enough = BINDING_SUPPORT if rule.by is None else BINDING_SUPPORT_BY
    return rule.support >= enough and rule.kept >= BINDING_KEPT


def said_by(rule: Precondition) -> str:
    """Say where a rule comes from.

    >>> said_by(Precondition(tool="pay", after="get", support=20, kept=0.95))
    'in 19 of 20 passing runs'
    """
    if rule.support is None or rule.kept is None:
        return "as declared"
    return f"in {round(rule.kept * rule.support)} of {rule.support} passing runs"


def refuse_contradictions(rules: Iterable[Precondition], where: str) -> None:
    """Check that some order of calls keeps all the rules.

    Raises:
        ConfigError: a tool needs itself first, or two need each other.
    """
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
