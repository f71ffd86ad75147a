"""Policies as they are written: `[workflow.NAME]` and its `gates` in TOML, read and checked.

A key, measure or word that nobody knows is an error that names the nearest one, never ignored: a
typing error in a threshold would otherwise pass as a clean agent. The format is
in docs/explanation/gates.md.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from stepscope.errors import ConfigError
from stepscope.gates.policy import RECORDED, RULES, About, GatePolicy, WorkflowPolicy
from stepscope.gates.quantities import Quantity, hint, quantity
from stepscope.gates.types import Rule, Severity
from stepscope.model import PolicyRule

# What a policy may say besides a tool's name (see `stepscope.measures.policy`).
_NO_TOOLS = ("write", "confirm")
RATIO = "max_ratio_to_baseline_median"


class WorkflowTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[workflow.NAME]` as written; `WorkflowPolicy` is the same, checked.

    Attributes:
        corpus: folder of cases, one file each.
        agent: what is under test: `recorded` for runs that were recorded elsewhere.
        baseline: the committed file that runs are compared with, relative to the settings.
        trials: how often each case must have been run; as often as in the baseline by default.
        gates: gate -> its thresholds and settings.
    """

    corpus: str | None = None
    agent: str = RECORDED
    baseline: str | None = None
    trials: Annotated[int, msgspec.Meta(ge=1)] | None = None
    gates: dict[str, Any] = msgspec.field(default_factory=dict)


class GateTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One gate as written: thresholds first, then how they are decided.

    Attributes:
        max_per_run: a run above it is in breach; alone: no run may be.
        min_rate: least share of runs that are good; 1 makes it a count gate.
        max_rate: largest share of runs that are bad; 0 makes it a count gate.
        max_drop: how much less than in the baseline the share of good runs may be.
        max_ratio_to_baseline_median: how many times the baseline's median the median may be.
        label: the label that a rate is about, where a measure answers in labels.
        rule: how runs become a decision; `regression` against a baseline, else `proof`.
        severity: a soft failure is shown and does not set the exit code.
        source: whose records it reads: `rules`, or a judge.
        recovered: `forbidden` counts an error that was recovered as well.
        uncertain: `ignored` leaves verdicts "uncertain" out; by default they count as bad.
        file_on: from which severity on the issue loop files it.
    """

    max_per_run: float | None = None
    min_rate: float | None = None
    max_rate: float | None = None
    max_drop: float | None = None
    max_ratio_to_baseline_median: float | None = None
    label: str | None = None
    rule: Literal["regression", "proof"] | None = None
    severity: Severity = "hard"
    source: str = RULES
    recovered: Literal["allowed", "forbidden"] = "allowed"
    uncertain: Literal["worst", "ignored"] = "worst"
    file_on: Severity = "soft"


def policy(name: str, table: WorkflowTable, *, where: str) -> WorkflowPolicy:
    """Return the policy of one workflow.

    Args:
        name: the workflow.
        table: as written.
        where: the file, for messages.

    Raises:
        ConfigError: a gate is about nothing known, has no threshold or two, or cannot be decided.
    """
    where = f"{where}, [workflow.{name}.gates]"
    gates = tuple(_gate(gate, one, where) for gate, one in _flat(table.gates, where))
    if any(gate.compares for gate in gates) and table.baseline is None:
        first = next(gate for gate in gates if gate.compares)
        raise ConfigError(
            f"{where}: {first.name} compares with a baseline; add "
            f'baseline = "baselines/{name}.json" to [workflow.{name}]'
        )
    return WorkflowPolicy(
        workflow=name,
        corpus=table.corpus,
        agent=table.agent,
        baseline=table.baseline,
        trials=table.trials,
        gates=gates,
    )


def check_tools(rules: Sequence[PolicyRule], known: Collection[str], *, where: str) -> None:
    """Refuse rules of conduct about tools that no run was offered or called.

    Args:
        rules: as declared (`[[policy]]`).
        known: every tool that was offered, called, or declared in `[tools]`.
        where: the file, for messages.

    Raises:
        ConfigError: a rule names another tool: it could never be broken.
    """
    for rule in rules:
        for tool in (rule.forbid, rule.before, rule.require):
            if tool is not None and tool not in known and tool not in _NO_TOOLS:
                raise ConfigError(
                    f"{where}: [[policy]] {rule.name!r} names the tool {tool!r}, which no run was "
                    f"offered or called; {hint(tool, known)} If it is right, add it to [tools]"
                )


def _flat(table: Mapping[str, Any], where: str, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each gate with its table: `axes.sequencing = {...}` is a table of a table in TOML."""
    for key, value in table.items():
        name = f"{path}{key}"
        if not isinstance(value, dict):
            raise ConfigError(
                f"{where}: {name} is {value!r}; expected a table, as {{ max_rate = 0.1 }}"
            )
        own = {k: v for k, v in value.items() if not isinstance(v, dict)}
        nested = {k: v for k, v in value.items() if isinstance(v, dict)}
        if own or not nested:
            yield name, own
        yield from _flat(nested, where, f"{name}.")


def _gate(name: str, written: Mapping[str, Any], where: str) -> GatePolicy:
    fields = [field.name for field in msgspec.structs.fields(GateTable)]
    for key in written:
        if key not in fields:
            raise ConfigError(f"{where}: {name} has an unknown key {key!r}; {hint(key, fields)}")
    try:
        table = msgspec.convert(written, GateTable)
    except msgspec.ValidationError as e:
        raise ConfigError(f"{where}: {name}: {' '.join(str(e).split())}") from e
    about = quantity(name, source=table.source, label=table.label, where=where)
    at = f"{where}: {name}"
    decided = _decided(_thresholds(table, at), about, at)
    about, rule = _labelled(about, table, decided, at), _rule(decided, table, at)
    if table.recovered == "forbidden" and about.measure != "errors":
        raise ConfigError(f'{at}: recovered = "forbidden" is a setting of no_errors only')
    keys = ("max_per_run", "min_rate", "max_rate", "max_drop", RATIO)
    return GatePolicy(
        name=name,
        quantity=about,
        about=decided.about,
        bound=decided.bound,
        limit=decided.limit,
        rule=rule,
        threshold=", ".join(f"{key} = {written[key]:g}" for key in keys if key in written),
        wants_good=decided.wants_good,
        severity=table.severity,
        source=table.source,
        recovered=table.recovered,
        uncertain=table.uncertain,
        file_on=table.file_on,
    )


class Decided(NamedTuple):
    """What the thresholds of a gate come to."""

    about: About
    bound: float
    limit: float | None
    wants_good: bool


def _thresholds(table: GateTable, at: str) -> dict[str, float]:
    """Return the thresholds that are set, in range."""
    ranges: dict[str, tuple[float | None, float, float]] = {
        "max_per_run": (table.max_per_run, 0, math.inf),
        "min_rate": (table.min_rate, 0, 1),
        "max_rate": (table.max_rate, 0, 1),
        "max_drop": (table.max_drop, 0, 1),
        RATIO: (table.max_ratio_to_baseline_median, 0, math.inf),
    }
    found: dict[str, float] = {}
    for key, (value, low, high) in ranges.items():
        if value is None:
            continue
        if not (math.isfinite(value) and low <= value <= high):
            expected = f"{low:g} to {high:g}" if math.isfinite(high) else "0 or more"
            raise ConfigError(f"{at}: {key} is {value!r}; expected {expected}")
        if (key, value) in (("max_rate", 1), ("min_rate", 0), ("max_drop", 1)):
            raise ConfigError(f"{at}: {key} = {value:g} bounds nothing; leave the gate out")
        found[key] = value
    most = [key for key in found if key != "max_per_run"]
    if not found or len(most) > 1:
        said = " and ".join(most) if most else "no threshold"
        raise ConfigError(f"{at} has {said}; give one of {', '.join(ranges)}")
    return found


def _decided(found: Mapping[str, float], about: Quantity, at: str) -> Decided:
    """Return what is bounded, refusing thresholds that mean nothing for this quantity."""
    limit = found.get("max_per_run")
    key = next((k for k in found if k != "max_per_run"), None)
    wrong = _senseless(key, limit, about)
    if wrong is not None:
        raise ConfigError(f"{at}: {wrong}")
    if key == RATIO:
        return Decided("ratio", found[key], None, False)
    if about.kind == "count" and limit is None:
        limit = 0.0
    if key is None:
        bound = 0.0 if about.quantile is None else 1.0 - about.quantile
        return Decided("rate", bound, limit, False)
    if key == "max_drop":
        return Decided("drop", found[key], limit, False)
    good = key == "min_rate"
    return Decided("rate", 1.0 - found[key] if good else found[key], limit, good)


def _senseless(key: str | None, limit: float | None, about: Quantity) -> str | None:
    """Say why a threshold cannot be put to a quantity; None where it can."""
    counted = about.kind in ("count", "figure")
    if limit is not None and not counted:
        return f"max_per_run is for counts and figures; {about.measure} is a {about.kind}"
    if key == RATIO and (not counted or limit is not None or about.quantile not in (None, 0.5)):
        return f"{key} stands alone, and is for the median of counts and figures"
    if about.quantile is not None and key not in (None, RATIO):
        return f"{key} is for rates; a quantile of {about.measure} is gated by max_per_run"
    if about.kind == "figure" and limit is None and key != RATIO:
        return f"{key} of {about.measure} needs max_per_run as well: the run that is in breach"
    wrong_end = {"max_rate": "high", "min_rate": "low"}.get(key or "")
    if wrong_end is not None and about.better == wrong_end:
        other = "min_rate" if key == "max_rate" else "max_rate"
        return f"{key} would bound the good end of {about.measure}; use {other}"
    return None


def _labelled(about: Quantity, table: GateTable, decided: Decided, at: str) -> Quantity:
    """Return the quantity with the label that the policy names as its good or bad one."""
    if table.label is None:
        if about.kind == "label" and not about.bad:
            raise ConfigError(f'{at}: {about.measure} answers in labels; say which: label = "..."')
        return about
    if about.kind != "label":
        raise ConfigError(f"{at}: {about.measure} does not answer in labels; leave label out")
    known = (*about.good, *about.bad)
    if known and table.label not in known:
        raise ConfigError(
            f"{at}: {about.measure} has no label {table.label!r}; {hint(table.label, known)}"
        )
    if decided.wants_good or decided.about == "drop":
        return msgspec.structs.replace(about, good=(table.label,), bad=())
    return msgspec.structs.replace(about, good=(), bad=(table.label,))


def _rule(decided: Decided, table: GateTable, at: str) -> Rule:
    if decided.about != "rate":
        return table.rule or "regression"
    if table.rule == "regression":
        raise ConfigError(f"{at}: regression needs max_drop or max_ratio_to_baseline_median")
    return "count" if decided.bound <= 0 else "proof"
