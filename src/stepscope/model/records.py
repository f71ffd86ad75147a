"""What is said about a run: a verdict or its typed absence, its record, and the words of records.

Families, prefixes, modes and labels that stand in stored data are defined here and nowhere else.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from stepscope.model.trajectory import Usage
from stepscope.values import Estimate, Unmeasured


class Verdict(msgspec.Struct, frozen=True, gc=False, tag="verdict", omit_defaults=True):
    """One answer of one measure about one step, or (step None) about the whole run.

    `measure` is the measure's name, or that name, a dot and an aspect ("efficiency.steps").
    """

    measure: str
    value: float | None = None
    label: str | None = None
    step: int | None = None
    cites: tuple[int, ...] = ()
    reason: str = ""
    confidence: float | None = None


Answer = Verdict | Unmeasured
# A number with its interval, or why there is none.
Figure = Estimate | Unmeasured


class Record(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """An answer with its provenance, as the store keeps it.

    Unique over trajectory, measure, version, case, facts, judge, prompt, repeat and step.
    """

    trajectory: str
    answer: Answer
    version: str
    family: str = "rules"
    case: str = ""
    facts: str = ""
    judge: str = ""
    rubric: str = ""
    prompt: str = ""
    repeat: int = 0
    usage: Usage | None = None
    cost_usd: float | None = None
    seconds: float | None = None


class Scale(msgspec.Struct, frozen=True):
    """The values that a measure may give: a closed range, or labels."""

    low: float = 0.0
    high: float = 1.0
    labels: tuple[str, ...] = ()


# Families of records that are no model's: deterministic measures, people, files from elsewhere.
RULES, HUMAN, IMPORTED = "rules", "human", "imported"
# The version of records that labels, in traces too, and the verdicts of files become.
GIVEN_VERSION = "1"
# Their names are nobody's snapshot: an e-mail address keeps its sign.
NOT_MODELS = frozenset({RULES, HUMAN, IMPORTED})
# Who annotates, as OpenInference and the backends name it; a family that is not here is a model's.
Annotator = Literal["CODE", "HUMAN", "LLM"]
ANNOTATORS: dict[str, Annotator] = {RULES: "CODE", HUMAN: "HUMAN"}
# Labels that commit to nothing.
UNCERTAIN, NOT_APPLICABLE = NEUTRAL = ("uncertain", "not_applicable")
# The label of a count that is of what is proved: there may be more.
AT_LEAST = "at_least"
# The measure of labels of steps.
STEP_LABELS_NAME = "step_labels"
# The labels of its steps that gates count, by the aspect that the count is called.
STEP_COUNTS = {"errors": "ERROR", "redundant": "REDUNDANT", "detours": "DETOUR"}
# Records of judges have measure names of their own, beside the rules' of the same rubric.
JUDGE_PREFIX = "judge."
# But scores of single steps are what curves are made of, whoever gives them.
STEP_SCORES = "scores"
# Behind the name where each step was judged without its run: both modes stand side by side.
ISOLATED_SUFFIX = ".isolated"
# Behind the name where each step was judged with all before its end and nothing after it.
PREFIX_SUFFIX = ".prefix"
# Behind the name of the record that says what a judge looked at.
LOOKS_SUFFIX = ".looks"
# Behind the name of the record that says how the windows of a long run fit together.
SEAMS_SUFFIX = ".seams"
# The measure, and the rubric of verdicts, that says whether a run worked.
OUTCOME_NAME = "outcome"
# How the reason of a verdict begins that a state check contradicts.
OUTRANKED = "outranked: "
# Behind the version of a rubric that was asked without the agent's words.
NARRATION_OFF = "+narration-off"
# Repeats from this one on ask about fixed runs again, to see whether a judge has shifted.
DRIFT_REPEAT = 1_000
# And from this one on with one thing changed that should change no answer, in this order.
BIAS_REPEAT = 1_000_000
Change = Literal["", "longer", "answers reversed", "examples reversed"]
CHANGES: tuple[Change, ...] = ("longer", "answers reversed", "examples reversed")
# Behind the version of a rubric that judged an evaluation set without being locked.
UNLOCKED = "+unlocked"
# What verdicts need of a trace: how it is called, and what is not checked without it.
Input = Literal["task", "policy", "tools", "arguments", "results"]
COMPLETENESS_NAME, RECORDED = "completeness", "recorded"
INPUTS: dict[Input, tuple[str, str]] = {
    "task": ("task", "without it, writes that nobody asked for (tool selection) are not detected"),
    "policy": ("policy text", "without it, which writes need consent (sequencing) is unknown"),
    "tools": ("tool list", "without it, unknown tools and wrong argument schemas are not detected"),
    "arguments": ("arguments", "without them, argument validity is not checked"),
    "results": (
        "results",
        "without them, result interpretation and origins of arguments are not checked",
    ),
}
# Those that only a run with calls has.
OF_CALLS: tuple[Input, ...] = ("tools", "arguments", "results")
