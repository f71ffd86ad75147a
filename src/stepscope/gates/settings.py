"""Policies of workflows: `[workflow.NAME]` and its `gates` in TOML, read and checked.

`NAMES` are the gates that have a name of their own; beside them any measure or aspect can be
gated. A key, measure or word that nobody knows is an error that names the nearest one: a typing
error in a threshold would otherwise pass as a clean agent. The format is in
docs/explanation/gates.md.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from stepscope import registry
from stepscope.errors import ConfigError, suggest_name
from stepscope.gates.types import Rule, Severity
from stepscope.judges.rubrics import BUILT_IN_RUBRICS, RUBRIC_SETS
from stepscope.model import PolicyRule, ToolDef, digest, records

# What a selftest does where nobody says: the worsening that is put in, the invocations drawn.
DROP, REPLICATIONS = 0.10, 1_000

Kind = Literal[
    "share",  # a value in [0, 1]
    "count",  # events of one run: 0 or more, bad above a limit
    "figure",  # what a run took: steps, seconds
    "label",  # one word; bad or good by word
    "recovered",  # recovered errors of all errors
    "modes",  # signatures of what went wrong
]


class Quantity(msgspec.Struct, frozen=True, kw_only=True):
    """A measure as gates read it."""

    measure: str  # full name, with its aspect
    kind: Kind  # how its answers are read
    # the end of a share that is good; None where the threshold says it
    better: Literal["high", "low"] | None = None
    good: tuple[str, ...] = ()  # the labels that are good
    bad: tuple[str, ...] = ()  # the labels that are bad; any other label is no answer
    unit: str = "share"  # unit of the estimate
    quantile: float | None = None  # for figures of the vector: which quantile of the runs is meant


def _share(measure: str, better: Literal["high", "low"] = "high") -> Quantity:
    return Quantity(measure=measure, kind="share", better=better)


def _count(measure: str) -> Quantity:
    return Quantity(measure=measure, kind="count")


def _figure(measure: str, unit: str, quantile: float | None = None) -> Quantity:
    return Quantity(measure=measure, kind="figure", unit=unit, quantile=quantile)


def _label(measure: str, good: Iterable[str] = (), bad: Iterable[str] = ()) -> Quantity:
    return Quantity(measure=measure, kind="label", good=tuple(good), bad=tuple(bad))


AXES = ("tool_selection", "argument_validity", "sequencing", "result_interpretation", "termination")
_FIGURES = ("steps", "calls", "tokens", "cost_usd", "seconds")
_UNITS = {name: name.removeprefix("cost_") for name in _FIGURES}
_VECTOR = ("steps", "tokens", "cost_usd", "seconds")

# Measures and aspects as they are; a test holds the names against what measures answer.
_BY_NAME = (
    *map(_share, ("outcome", "subgoals", "subgoals.order", "subgoals.outputs")),
    _count("subgoals.other_writes"),
    _share("redundant_calls", "low"),
    *(_count(f"redundant_calls.{x}") for x in ("count", "identical", "back_to_back", "near")),
    _count("errors"),
    Quantity(measure="recovery.recovered", kind="recovered", better="high"),
    *map(_count, ("policy", "loops", "tool_schema")),
    _share("grounding"),
    _count("grounding.invented"),
    _label("termination", ["stopped_well"], ["too_early", "too_late", "limit"]),
    _label("match", ["match"], ["no_match"]),
    *(_share(f"match.{x}") for x in ("f1", "in_order", "lcs", "precision", "recall", "strict")),
    *(_share(f"match.{x}") for x in ("subset", "superset", "unordered")),
    *(_figure(f"efficiency.{name}", unit) for name, unit in _UNITS.items()),
    *(_figure(f"efficiency_ratio.{name}", "ratio") for name in _UNITS),
    *(_label(f"axes.{axis}", ["correct"], ["incorrect"]) for axis in AXES),
    *(_count(f"step_labels.{x}") for x in ("errors", "redundant", "steps")),
)
# Recovered errors are an aspect that is gated under the name of its measure.
MEASURES: Mapping[str, Quantity] = {x.measure.removesuffix(".recovered"): x for x in _BY_NAME}
# What `no_new_modes` reads: no measure, but the signatures that a run has.
MODES = "modes"
# The gates of the articles, and the figures of the report vector.
NAMES: Mapping[str, Quantity] = {
    "no_redundant_calls": MEASURES["redundant_calls.count"],
    "no_errors": MEASURES["errors"],
    "no_new_modes": Quantity(measure=MODES, kind="modes"),
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
# What judges answer, whoever they are: labels of steps as counts, axes and quality as labels.
JUDGED: Mapping[str, Quantity] = {
    **{name: one for name, one in MEASURES.items() if name.startswith("axes.")},
    **{name: _label(name, ["correct"], ["incorrect"]) for name in RUBRIC_SETS["quality"]},
    **{name: _count(name) for name in RUBRIC_SETS["behaviour"]},
    **{f"step_labels.{count}": _count(f"step_labels.{count}") for count in records.STEP_COUNTS},
}
# What a gate of the articles reads where its source is a judge that labels steps.
_JUDGED_NAMES = {
    "no_detours": "step_labels.detours",
    "no_redundant_calls": "step_labels.redundant",
    "no_errors": "step_labels.errors",
}
# Between a column of judges and the one judge that a gate names.
BY_JUDGE = " by "


def find_quantity(name: str, *, source: str, label: str | None, where: str) -> Quantity:
    """Return what a gate called `name` is about: a gate of its own, a figure, a measure, an aspect.

    `source` says whose records the gate reads, `label` which label it is about where it names one,
    and `where` the file and table, for messages.
    """
    judged = JUDGED.get(_JUDGED_NAMES.get(name, name))
    if source != records.RULES:
        judged = judged or (_label(name) if label is not None else None)
        if judged is None:
            raise ConfigError(
                f"{where}: no judge answers {name!r}; leave source out, or gate one of "
                f"{', '.join((*_JUDGED_NAMES, *JUDGED))}"
            )
        if is_rubric(source) and not f"{judged.measure}.".startswith(f"{source}."):
            raise ConfigError(
                f"{where}: {source!r} does not answer {name!r}; "
                f'source = "{judged.measure.partition(".")[0]}", or a judge: "provider/model"'
            )
        return judged
    found = NAMES.get(name) or MEASURES.get(name) or _installed(name, label)
    if found is None and judged is not None:
        raise ConfigError(
            f"{where}: {source!r} cannot decide {name!r}; name a source that can: "
            f'source = "{judged.measure.partition(".")[0]}", or a judge: "provider/model"'
        )
    if found is None:
        known = [*NAMES, *MEASURES, *JUDGED, *registry.names("measures")]
        why = f"{where}: nothing is called {name!r} to gate; {suggest_name(name, known)}"
        raise ConfigError(why)
    if found.measure.startswith("axes."):
        return _label(found.measure, [records.UNCERTAIN], found.bad)
    return found


def is_rubric(source: str) -> bool:
    """Whether a source is a rubric or a set of them, answered by whichever judge was asked."""
    return source in RUBRIC_SETS or source in BUILT_IN_RUBRICS


def find_installed_measure(name: str) -> str | None:
    """Return the installed measure that answers under a name: itself, or the one it is of."""
    known = registry.names("measures")
    words = name.split(".")
    wholes = [".".join(words[:length]) for length in range(len(words), 0, -1)]
    return next((whole for whole in wholes if whole in known), None)


def split_judged(name: str) -> tuple[str, str]:
    """Return the measure of a judge's column, and the judge, "" for whichever was asked."""
    measure, _, judge = name.removeprefix(records.JUDGE_PREFIX).partition(BY_JUDGE)
    return measure, judge


def rescore_command(name: str) -> str:
    """Return the command that makes the records of a column."""
    if name.startswith(records.JUDGE_PREFIX):
        measure, _ = split_judged(name)
        whole = measure.partition(".")[0]
        rubric = whole if RUBRIC_SETS.get(whole) == (whole,) else measure
        return f"stepscope judge --rubric {rubric}"
    if name == MODES:
        return "stepscope score"
    return f"stepscope score --measure {find_installed_measure(name) or name.partition('.')[0]}"


def _installed(name: str, label: str | None) -> Quantity | None:
    """Return the quantity of an installed measure that the table does not know, by its scale."""
    whole = find_installed_measure(name)
    if whole is None or whole in MEASURES:
        # A built-in's aspects are all in the table: this one is a typing error.
        return None
    scale = registry.measure(whole).scale
    if label is not None or (scale.labels and scale.low == scale.high):
        return _label(name)
    if scale.high <= 1:
        return Quantity(measure=name, kind="share")
    return _figure(name, "")


RECORDED = "recorded"

About = Literal["rate", "drop", "ratio", "modes"]


class GatePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """One gate, checked."""

    name: str  # as the policy calls it
    quantity: Quantity  # what it is about
    # a rate of bad runs; a drop, a ratio or new modes against the baseline
    about: About = "rate"
    bound: float = 0.0  # the largest share of bad runs, drop or ratio that passes
    # a run whose value is above it is bad; None where the value itself says how bad
    limit: float | None = None
    rule: Rule = "count"  # how runs become a decision
    threshold: str  # as the policy writes it
    # the policy speaks of the share of good runs, and so does the estimate
    wants_good: bool = False
    severity: Severity = "hard"
    source: str = records.RULES
    recovered: Literal["allowed", "forbidden"] = "allowed"
    uncertain: Literal["worst", "ignored"] = "worst"
    file_on: Severity = "soft"

    @property
    def proves(self) -> bool:
        """It counts proved faults, a lower bound: what rules are uncertain of is no breach."""
        return records.UNCERTAIN in self.quantity.good

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that it needs."""
        own = self.quantity.measure
        if self.source != records.RULES:
            by = "" if is_rubric(self.source) else f"{BY_JUDGE}{self.source}"
            return (f"{records.JUDGE_PREFIX}{own}{by}",)
        if self.quantity.kind == "recovered":
            return (own, "errors")
        return (own, "recovery.recovered") if self.unrecovered else (own,)

    @property
    def unrecovered(self) -> bool:
        """It counts errors, and those that were recovered are the recovery gate's business."""
        return self.quantity.measure == "errors" and self.recovered == "allowed"

    @property
    def compares(self) -> bool:
        """It needs a baseline."""
        return self.about != "rate"


class WorkflowPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow with its gates; `baseline` is a path that can be opened as it is.

    `trials` and `cases` (of the command line) are the design where it is not the baseline's; see
    `gates.baseline`.
    """

    workflow: str
    agent: str = RECORDED
    baseline: str | None = None
    trials: int | None = None
    cases: tuple[str, ...] = ()
    tier: tuple[str, ...] = (records.RULES,)  # the sources whose gates are run
    gates: tuple[GatePolicy, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that its gates need, sorted."""
        return tuple(sorted({name for gate in self.gates for name in gate.reads}))

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources that a tier may name."""
        return tuple(dict.fromkeys([records.RULES, *(gate.source for gate in self.gates)]))

    @property
    def labelled(self) -> frozenset[str]:
        """The columns of which labels are read."""
        return frozenset(g.quantity.measure for g in self.gates if g.quantity.kind == "label")

    @property
    def hash(self) -> str:
        """Sixteen hex digits over all that decides; severities and paths do not."""
        asked = [
            (g.name, g.quantity, g.about, g.bound, g.limit, g.rule, g.source) for g in self.gates
        ]
        return digest((self.workflow, asked, [(g.recovered, g.uncertain) for g in self.gates]))


def policies_hash(policies: Sequence[WorkflowPolicy]) -> str:
    """Sixteen hex digits over the policies of one invocation."""
    return digest([policy.hash for policy in policies])


# What a policy may say besides a tool's name (see `stepscope.measures.conduct`).
_NO_TOOLS = ("write", "confirm")
RATIO = "max_ratio_to_baseline_median"
# The greatest value of each threshold; the least is 0.
THRESHOLDS = {"max_per_run": math.inf, "min_rate": 1, "max_rate": 1, "max_drop": 1, RATIO: math.inf}


class WorkflowTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[workflow.NAME]` as written; `WorkflowPolicy` is the same, checked."""

    # a file of cases, or a folder of them, relative to the settings
    cases: str | None = None
    agent: str = RECORDED  # what is under test: `recorded` for runs that were recorded elsewhere
    # the committed file that runs are compared with, relative to the settings
    baseline: str | None = None
    # how often each case must have been run; as often as in the baseline by default
    trials: Annotated[int, msgspec.Meta(ge=1, le=1000)] | None = None
    # the sources whose gates are run; those of [gate] when left out
    tier: tuple[str, ...] | None = None
    # gate -> its thresholds and settings
    gates: dict[str, Any] = msgspec.field(default_factory=dict)
    # tool list and policy of runs whose traces have none; files as written, contents once loaded
    tools: str | tuple[ToolDef, ...] = ()
    policy: str = ""


class GateDefaults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds for the gates of every workflow, table `[gate]`."""

    # the sources whose gates are run: `rules`, `step_labels`, a judge
    tier: tuple[str, ...] = (records.RULES,)


class GateTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One gate as written: thresholds first, then how they are decided."""

    max_per_run: float | None = None  # a run above it is in breach; alone: no run may be
    min_rate: float | None = None  # least share of runs that are good; 1 makes it a count gate
    max_rate: float | None = None  # largest share of runs that are bad; 0 makes it a count gate
    # how much less than in the baseline the share of good runs may be
    max_drop: float | None = None
    # how many times the baseline's median the median may be
    max_ratio_to_baseline_median: float | None = None
    label: str | None = None  # the label that a rate is about, where a measure answers in labels
    # how runs become a decision; `regression` against a baseline, else `proof`
    rule: Literal["regression", "proof"] | None = None
    severity: Severity = "hard"  # a soft failure is shown and does not set the exit code
    source: str = records.RULES  # whose records it reads: `rules`, or a judge
    # `forbidden` counts an error that was recovered as well
    recovered: Literal["allowed", "forbidden"] = "allowed"
    # of judges only: `ignored` leaves verdicts "uncertain" out; by default they count as bad
    uncertain: Literal["worst", "ignored"] | None = None
    file_on: Severity = "soft"  # from which severity on the issue loop files it


def read_policies(
    tables: Mapping[str, WorkflowTable], defaults: GateDefaults, *, where: str
) -> tuple[WorkflowPolicy, ...]:
    """Return the policy of each workflow, with the tier that holds in it."""
    found = tuple(read_policy(name, one, where=where) for name, one in tables.items())
    if defaults.tier != (records.RULES,):
        refuse_tier(defaults.tier, found, f"{where}, [gate]: tier")
    own = {name for name, table in tables.items() if table.tier is not None}
    for policy in found:
        if policy.workflow in own:
            refuse_tier(policy.tier, [policy], f"{where}, [workflow.{policy.workflow}]: tier")
    change = msgspec.structs.replace
    return tuple(one if one.workflow in own else change(one, tier=defaults.tier) for one in found)


def refuse_tier(tier: Sequence[str], policies: Iterable[WorkflowPolicy], where: str) -> None:
    """Refuse a tier that names nobody, or whom no gate reads: its gates would never be run."""
    known = {records.RULES, *(source for policy in policies for source in policy.sources)}
    unknown = [source for source in tier if source not in known]
    if unknown or not tier:
        said = f"no gate has the source {unknown[0]!r}" if unknown else "it names no source"
        hint = suggest_name(unknown[0] if unknown else "", known)
        raise ConfigError(f"{where}: {said}; {hint}")


def read_policy(name: str, table: WorkflowTable, *, where: str) -> WorkflowPolicy:
    """Return the policy of one workflow."""
    where = f"{where}, [workflow.{name}.gates]"
    gates = tuple(_gate(gate, one, where) for gate, one in _each_gate(table.gates, where))
    if any(gate.compares for gate in gates) and table.baseline is None:
        first = next(gate for gate in gates if gate.compares)
        raise ConfigError(
            f"{where}: {first.name} compares with a baseline; add "
            f'baseline = "baselines/{name}.json" to [workflow.{name}]'
        )
    return WorkflowPolicy(
        workflow=name,
        agent=table.agent,
        baseline=table.baseline,
        trials=table.trials,
        tier=(records.RULES,) if table.tier is None else table.tier,
        gates=gates,
    )


def check_tools(rules: Sequence[PolicyRule], known: Collection[str], *, where: str) -> None:
    """Refuse rules of conduct about tools that no run was offered or called."""
    for rule in rules:
        for tool in (rule.forbid, rule.before, rule.require):
            if tool is not None and tool not in known and tool not in _NO_TOOLS:
                raise ConfigError(
                    f"{where}: [[policy]] {rule.name!r} names the tool {tool!r}, which no run was "
                    f"offered or called ({suggest_name(tool, known)}); if it is right, add it to "
                    "[tools]"
                )


def _each_gate(table: Mapping[str, Any], where: str, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each gate with its table: `axes.sequencing = {...}` is a table of a table in TOML."""
    for key, value in table.items():
        name = f"{path}{key}"
        if not isinstance(value, dict):
            why = f"{where}: {name} is {value!r}; expected a table, as {{ max_rate = 0.1 }}"
            raise ConfigError(why)
        own = {k: v for k, v in value.items() if not isinstance(v, dict)}
        nested = {k: v for k, v in value.items() if isinstance(v, dict)}
        if own or not nested:
            yield name, own
        yield from _each_gate(nested, where, f"{name}.")


def _gate(name: str, written: Mapping[str, Any], where: str) -> GatePolicy:
    fields = [field.name for field in msgspec.structs.fields(GateTable)]
    for key in written:
        if key not in fields:
            why = f"{where}: {name} has an unknown key {key!r}; {suggest_name(key, fields)}"
            raise ConfigError(why)
    try:
        table = msgspec.convert(written, GateTable)
    except msgspec.ValidationError as e:
        raise ConfigError(f"{where}: {name}: {' '.join(str(e).split())}") from e
    about = find_quantity(name, source=table.source, label=table.label, where=where)
    at = f"{where}: {name}"
    gate = GatePolicy(
        name=name,
        quantity=about,
        threshold=", ".join(f"{key} = {written[key]:g}" for key in THRESHOLDS if key in written),
        severity=table.severity,
        source=table.source,
        recovered=table.recovered,
        uncertain=table.uncertain or "worst",
        file_on=table.file_on,
    )
    if gate.proves and table.uncertain is not None:
        raise ConfigError(
            f"{at}: uncertain = {table.uncertain!r} is for judges; rules prove faults, and this "
            'gate counts them: leave uncertain out, or name a judge: source = "provider/model"'
        )
    if about.kind == "modes":
        if gate.threshold or table.rule == "proof":
            raise ConfigError(f"{at} takes no threshold: leave {gate.threshold or 'rule'} out")
        said = "none that the baseline lacks"
        return msgspec.structs.replace(gate, about="modes", rule="regression", threshold=said)
    gate = _bounded(gate, _thresholds(table, at), at)
    about, rule = _with_label(gate, table, at), _rule(gate, table, at)
    if table.recovered == "forbidden" and about.measure != "errors":
        raise ConfigError(f'{at}: recovered = "forbidden" is a setting of no_errors only')
    return msgspec.structs.replace(gate, quantity=about, rule=rule)


def _thresholds(table: GateTable, at: str) -> dict[str, float]:
    """Return the thresholds that are set, in range."""
    found: dict[str, float] = {}
    for key, most in THRESHOLDS.items():
        value: float | None = getattr(table, key)
        if value is None:
            continue
        if not (math.isfinite(value) and 0 <= value <= most):
            expected = f"0 to {most:g}" if math.isfinite(most) else "0 or more"
            raise ConfigError(f"{at}: {key} is {value!r}; expected {expected}")
        if (key, value) in (("max_rate", 1), ("min_rate", 0), ("max_drop", 1)):
            raise ConfigError(f"{at}: {key} = {value:g} bounds nothing; leave the gate out")
        found[key] = value
    bounds = [key for key in found if key != "max_per_run"]
    if not found or len(bounds) > 1:
        said = " and ".join(bounds) if bounds else "no threshold"
        raise ConfigError(f"{at} has {said}; give one of {', '.join(THRESHOLDS)}")
    return found


def _bounded(gate: GatePolicy, found: Mapping[str, float], at: str) -> GatePolicy:
    """Return the gate with what is bounded, refusing thresholds that mean nothing for it."""
    about, limit = gate.quantity, found.get("max_per_run")
    key = next((k for k in found if k != "max_per_run"), None)
    wrong = _why_senseless(key, limit, about)
    if wrong is not None:
        raise ConfigError(f"{at}: {wrong}")
    change = msgspec.structs.replace
    if key == RATIO:
        return change(gate, about="ratio", bound=found[key])
    if about.kind == "count" and limit is None:
        limit = 0.0
    if key is None:
        return change(
            gate, bound=0.0 if about.quantile is None else 1.0 - about.quantile, limit=limit
        )
    if key == "max_drop":
        return change(gate, about="drop", bound=found[key], limit=limit)
    good = key == "min_rate"
    bound = 1.0 - found[key] if good else found[key]
    return change(gate, bound=bound, limit=limit, wants_good=good)


def _why_senseless(key: str | None, limit: float | None, about: Quantity) -> str | None:
    """Say why a threshold cannot be put to a quantity; None where it can."""
    counted = about.kind in ("count", "figure")
    if limit is not None and not counted:
        return f"max_per_run is for counts and figures; {about.measure} is a {about.kind}"
    if key == RATIO and (not counted or limit is not None or about.quantile not in (None, 0.5)):
        return f"{key} must be the only threshold, for the median of counts and figures"
    if about.quantile is not None and key not in (None, RATIO):
        return f"{key} is for rates; a quantile of {about.measure} is gated by max_per_run"
    if about.kind == "figure" and limit is None and key != RATIO:
        return f"{key} of {about.measure} needs max_per_run as well: the run that is in breach"
    wrong_end = {"max_rate": "high", "min_rate": "low"}.get(key or "")
    if wrong_end is not None and about.better == wrong_end:
        other = "min_rate" if key == "max_rate" else "max_rate"
        return f"{key} would bound the good end of {about.measure}; use {other}"
    return None


def _with_label(gate: GatePolicy, table: GateTable, at: str) -> Quantity:
    """Return the quantity with the label that the policy names as its good or bad one."""
    about = gate.quantity
    if table.label is None:
        if about.kind == "label" and not about.bad:
            raise ConfigError(f'{at}: {about.measure} answers in labels; say which: label = "..."')
        return about
    if about.kind != "label":
        raise ConfigError(f"{at}: {about.measure} does not answer in labels; leave label out")
    known = (*about.good, *about.bad)
    if known and table.label not in known:
        raise ConfigError(
            f"{at}: {about.measure} has no label {table.label!r}; "
            f"{suggest_name(table.label, known)}"
        )
    if about.bad == (table.label,) and not gate.wants_good and gate.about == "rate":
        return about
    if gate.wants_good or gate.about == "drop":
        return msgspec.structs.replace(about, good=(table.label,), bad=())
    return msgspec.structs.replace(about, good=(), bad=(table.label,))


def _rule(gate: GatePolicy, table: GateTable, at: str) -> Rule:
    if gate.about != "rate":
        return table.rule or "regression"
    if table.rule == "regression":
        raise ConfigError(f"{at}: regression needs max_drop or max_ratio_to_baseline_median")
    return "count" if gate.bound <= 0 else "proof"
