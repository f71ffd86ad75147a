"""What a gate can be about: a measure, how its answers are read, and which end of them is bad.

`NAMES` are the gates of the articles and the figures of the report vector; beside them any measure
or aspect can be named. Whatever is gated becomes, for each run, how bad it was: 0 to 1 for shares,
labels and counts in breach of a limit, a plain number for figures such as steps.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from stepscope import registry
from stepscope.errors import ConfigError

Kind = Literal[
    "share",  # a value in [0, 1]
    "count",  # events of one run: 0 or more, bad above a limit
    "figure",  # what a run took: steps, seconds
    "label",  # one word; bad or good by word
    "recovered",  # recovered errors of all errors
]


class Quantity(msgspec.Struct, frozen=True, kw_only=True):
    """A measure as gates read it.

    Attributes:
        measure: full name, with its aspect.
        kind: how its answers are read.
        better: the end of a share that is good; None where the threshold says it.
        good: the labels that are good.
        bad: the labels that are bad; any other label is no answer.
        unit: unit of the estimate.
        quantile: for figures of the vector: which quantile of the runs is meant.
        sources: the sources that can answer; empty for any.
    """

    measure: str
    kind: Kind
    better: Literal["high", "low"] | None = None
    good: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()
    unit: str = "share"
    quantile: float | None = None
    sources: tuple[str, ...] = ()


def _share(measure: str, better: Literal["high", "low"] = "high") -> Quantity:
    return Quantity(measure=measure, kind="share", better=better)


def _count(measure: str, *sources: str) -> Quantity:
    return Quantity(measure=measure, kind="count", sources=sources)


def _figure(measure: str, unit: str, quantile: float | None = None) -> Quantity:
    return Quantity(measure=measure, kind="figure", unit=unit, quantile=quantile)


def _label(measure: str, good: Iterable[str] = (), bad: Iterable[str] = ()) -> Quantity:
    return Quantity(measure=measure, kind="label", good=tuple(good), bad=tuple(bad))


AXES = (
    "tool_selection",
    "argument_validity",
    "sequencing",
    "result_interpretation",
    "termination",
)
_UNITS = {
    "steps": "steps",
    "calls": "calls",
    "tokens": "tokens",
    "cost_usd": "usd",
    "seconds": "seconds",
}
_VECTOR = ("steps", "tokens", "cost_usd", "seconds")
JUDGED_STEPS = "step_labels"

# Measures and aspects as they are; a test holds the names against what measures answer.
MEASURES: Mapping[str, Quantity] = {
    "outcome": _share("outcome"),
    "subgoals": _share("subgoals"),
    "subgoals.order": _share("subgoals.order"),
    "subgoals.outputs": _share("subgoals.outputs"),
    "subgoals.other_writes": _count("subgoals.other_writes"),
    "redundant_calls": _share("redundant_calls", "low"),
    **{
        f"redundant_calls.{aspect}": _count(f"redundant_calls.{aspect}")
        for aspect in ("count", "identical", "back_to_back", "near")
    },
    "errors": _count("errors"),
    "recovery": Quantity(measure="recovery.recovered", kind="recovered", better="high"),
    "policy": _count("policy"),
    "loops": _count("loops"),
    "tool_schema": _count("tool_schema"),
    "grounding": _share("grounding"),
    "grounding.invented": _count("grounding.invented"),
    "termination": _label("termination", ["stopped_well"], ["too_early", "too_late", "limit"]),
    "match": _label("match", ["match"], ["no_match"]),
    **{
        f"match.{aspect}": _share(f"match.{aspect}")
        for aspect in (
            *("f1", "in_order", "lcs", "precision", "recall", "strict", "subset", "superset"),
            "unordered",
        )
    },
    **{f"efficiency.{name}": _figure(f"efficiency.{name}", unit) for name, unit in _UNITS.items()},
    **{f"efficiency_ratio.{name}": _figure(f"efficiency_ratio.{name}", "ratio") for name in _UNITS},
    **{f"axes.{axis}": _label(f"axes.{axis}", ["correct"], ["incorrect"]) for axis in AXES},
    **{
        f"step_labels.{aspect}": _count(f"step_labels.{aspect}")
        for aspect in ("errors", "redundant", "steps")
    },
}
# The gates of the articles, and the figures of the report vector.
NAMES: Mapping[str, Quantity] = {
    "no_redundant_calls": MEASURES["redundant_calls.count"],
    "no_detours": _count("step_labels.detours", JUDGED_STEPS),
    "no_errors": MEASURES["errors"],
    "step_efficiency": MEASURES["efficiency.steps"],
    "outcome.pass": MEASURES["outcome"],
    "subgoals.reached": MEASURES["subgoals"],
    "redundant_calls.per_run": MEASURES["redundant_calls.count"],
    "errors.recovered": MEASURES["recovery"],
    "policy.violations": MEASURES["policy"],
    **{name: MEASURES[f"efficiency.{name}"] for name in _VECTOR},
    **{
        f"{name}.{said}": _figure(f"efficiency.{name}", _UNITS[name], q)
        for name in _VECTOR
        for said, q in (("median", 0.5), ("p95", 0.95))
    },
}
# What a gate of the articles reads where its source is a judge that labels steps.
_JUDGED = {
    "no_redundant_calls": "step_labels.redundant",
    "no_errors": "step_labels.errors",
}


def quantity(name: str, *, source: str, label: str | None, where: str) -> Quantity:
    """Return what a gate called `name` is about.

    Args:
        name: a gate of the articles, a figure of the vector, a measure or an aspect.
        source: whose records the gate reads.
        label: the label that the gate is about, where it names one.
        where: file and table, for messages.

    Raises:
        ConfigError: nothing is called so, or its source cannot know it.
    """
    if source == JUDGED_STEPS and name in _JUDGED:
        return _count(_JUDGED[name])
    found = NAMES.get(name) or MEASURES.get(name) or _installed(name, label)
    if found is None:
        known = [*NAMES, *MEASURES, *registry.names("measures")]
        raise ConfigError(f"{where}: nothing is called {name!r} to gate; {hint(name, known)}")
    if found.sources and source not in found.sources:
        raise ConfigError(
            f"{where}: {source!r} cannot know {name!r}; source is one of {', '.join(found.sources)}"
        )
    return found


def measure_of(name: str) -> str | None:
    """Return the installed measure that answers under a name: itself, or the one it is of."""
    known = registry.names("measures")
    words = name.split(".")
    wholes = [".".join(words[:length]) for length in range(len(words), 0, -1)]
    return next((whole for whole in wholes if whole in known), None)


def rescore(name: str) -> str:
    """Return the command that makes the records of a column."""
    return f"stepscope score --measure {measure_of(name) or name.partition('.')[0]}"


def _installed(name: str, label: str | None) -> Quantity | None:
    """Return the quantity of an installed measure that the table does not know, by its scale."""
    whole = measure_of(name)
    if whole is None or whole in MEASURES:
        # A built-in's aspects are all in the table: this one is a typing error.
        return None
    scale = registry.measure(whole).scale
    if label is not None or (scale.labels and scale.low == scale.high):
        return _label(name)
    if scale.high <= 1:
        return Quantity(measure=name, kind="share")
    return _figure(name, "")


def hint(word: str, known: Iterable[str]) -> str:
    """Return the words that a message ends with: the nearest known name, or all of them.

    >>> hint("outcom", ["outcome", "errors"])
    "did you mean 'outcome'?"
    """
    names = sorted(set(known))
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
