"""The figures of the vector: which measure each reads, what it is called, why it may be absent."""

from __future__ import annotations

from stepscope.report.types import Figure
from stepscope.values import Unmeasured

# Figure -> the measure (and aspect) whose answers it is made of.
MEASURES: dict[str, str] = {
    "outcome.pass": "outcome",
    "subgoals.reached": "subgoals.reached",
    "redundant_calls.per_run": "redundant_calls.count",
    "errors.recovered": "recovery.recovered",
    "policy.violations": "policy",
    "steps": "efficiency.steps",
    "tokens": "efficiency.tokens",
    "cost_usd": "efficiency.cost_usd",
    "seconds": "efficiency.seconds",
}
# Read beside them: for joint tables, and to choose the runs to look at first.
ALSO_READ = ("errors", "recovery", "loops", "subgoals", "subgoals.total", "subgoals.other_writes")

# The evidence judge, one measure an axis: the figure is the share of judged runs that are
# incorrect, and the measure has the same name.
AXES: dict[str, str] = {
    "axes.tool_selection": "tool selection",
    "axes.argument_validity": "argument validity",
    "axes.sequencing": "sequencing",
    "axes.result_interpretation": "result interpretation",
    "axes.termination": "termination",
}
# Not a kind of Unmeasured: an axis looked, and could not tell.
UNCERTAIN = "uncertain"

LABELS: dict[str, str] = {
    "outcome.pass": "outcome: pass",
    "subgoals.reached": "sub-goals reached",
    "redundant_calls.per_run": "redundant calls a run",
    "errors.recovered": "errors recovered",
    "policy.violations": "policy: runs in breach",
    "steps.median": "steps, median",
    "steps.p95": "  p95",
    "tokens.median": "tokens, median",
    "cost_usd.median": "cost, median",
    "cost_usd.p95": "  p95",
    "seconds.median": "latency, median",
    "seconds.p95": "  p95",
    "errors.per_run": "errors a run",
    "steps.mean": "steps, mean",
    "tokens.mean": "tokens, mean",
    "cost_usd.mean": "cost, mean",
    "seconds.mean": "latency, mean",
    **{key: f"axis: {name}" for key, name in AXES.items()},
}
# What a figure is called where it shares a line with others that are absent for the same reason.
SHORT = {
    "steps.median": "steps",
    "tokens.median": "tokens",
    "cost_usd.median": "cost",
    "seconds.median": "latency",
}

# Not a kind of Unmeasured: the run has no record of the measure at all.
NOT_SCORED = "not_scored"
SCORE_FIRST = "run `stepscope score`"

REASONS: dict[tuple[str, str], str] = {
    ("outcome", "missing_input"): "no reward, check or label",
    ("subgoals", "not_applicable"): "no reference write",
    ("subgoals", "missing_input"): "no case to measure against",
    ("redundant_calls", "not_applicable"): "no calls",
    ("errors", "not_applicable"): "no tool error",
    ("errors", "missing_input"): "no result says ok or error",
    ("policy", "missing_input"): "no policy is declared",
    ("tokens", "missing_input"): "not in the trace",
    ("cost_usd", "missing_input"): "not in the trace",
    ("seconds", "missing_input"): "not in the trace",
    ("axes", "not_applicable"): "nothing to judge",
}


def reason(key: str, kind: str) -> str:
    """Return why a figure has no answer of this kind, in few words; "" when nothing is known.

    >>> reason("tokens.median", "missing_input")
    'not in the trace'
    """
    if kind == NOT_SCORED:
        return SCORE_FIRST
    return REASONS.get((key.split(".")[0], kind), "")


def explained(key: str, figure: Figure) -> Figure:
    """Give an absent figure the reason that a reader can act on, where one is known."""
    if not isinstance(figure, Unmeasured):
        return figure
    kind = NOT_SCORED if NOT_SCORED in figure.reason else figure.kind
    why = reason(key, kind)
    return Unmeasured(figure.kind, why) if why else figure
