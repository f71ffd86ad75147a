"""What people are asked: the questions of rubrics, and questions that only people answer.

A question names its unit: the whole run, a step of the agent, or the decisive step, which is found
by halving. Its policy is the text that annotators read; the hash of it goes into every label, so
that answers under another text are told apart. Source of halving: the first wrong step is the
boundary of a monotone predicate, found in ceil(log2(n)) questions.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from stepscope.errors import ConfigError, UsageError
from stepscope.judges.rubrics import BUILT_IN_RUBRICS, Rubric, RubricKind, load_rubric
from stepscope.model import Label, records
from stepscope.model.records import JUDGE_PREFIX
from stepscope.safety.limits import read_file

Unit = Literal["run", "step", "decisive"]
# The measures of a decisive step: the one that traces with such labels have, and of its halving.
DECISIVE, ALREADY_WRONG = "human.decisive_step", "human.already_wrong"
NO_STEP = "none"
# Bytes of a text beside a rubric that annotators read.
_MOST_POLICY = 64 * 1024
# Where the scores of the four bands lie that people choose from.
_BAND_SCORES = (0.1, 0.4, 0.7, 0.95)


class LabelAnswer(NamedTuple):
    """One answer that may be given: its key on the page, and what it is stored as."""

    key: str
    said: str
    label: str | None
    value: float | None = None
    failing: bool = False  # speaks against the agent


class LabelQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """One question, with the policy for answering it."""

    name: str  # of the rubric, as a person writes it
    measure: str  # of the labels
    unit: Unit = "run"
    text: str
    answers: tuple[LabelAnswer, ...]
    counts: tuple[str, ...] = ()  # what counts, a sentence each
    excluded: tuple[str, ...] = ()  # what does not
    guide: str = ""  # what else the annotators are told

    @property
    def policy(self) -> str:
        """The hash of everything that an annotator reads, sixteen hex digits."""
        return sha256(msgspec.json.encode(self)).hexdigest()[:16]

    def answer(self, key: str) -> LabelAnswer:
        """Return the answer of a key; "?" is that it cannot be decided."""
        found = {one.key: one for one in self.answers}
        if key in found:
            return found[key]
        if key != "?":
            raise UsageError(f"answer {key!r}; expected one of {', '.join(found)} or ?")
        score = self.measure == records.STEP_SCORES
        return LabelAnswer("?", "Cannot be decided", None if score else records.UNCERTAIN)

    def speaks_against(self, label: Label) -> bool | None:
        """Tell whether a label speaks against the agent; None where it does neither."""
        if not label.decided or label.label == records.NOT_APPLICABLE:
            return None
        for one in self.answers:
            if one.label == label.label and (one.label is not None or one.value == label.value):
                return one.failing
        return None


_YES_NO = (
    LabelAnswer("1", "Yes, already wrong", "wrong", failing=True),
    LabelAnswer("2", "No, still right", "right"),
)
_SHAPES = {
    "healthy": "Good to the end",
    "early_collapse": "Broke early and stayed bad",
    "late_drift": "Good, then worse near the end",
    "steady_degradation": "Worse step by step",
    "recovery": "Broke, and came back",
}
# How a question about all steps is put about one, the tinted one.
_STEP_TEXTS: dict[RubricKind, str] = {
    "axis": "At this step: {}",
    "labels": "What was this step, seen with everything that had been done before it?",
    "presence": "Here, at this step? {}",
    "score": "{}",
}
# What only people are asked, or what they are asked otherwise than judges.
PEOPLES: dict[str, LabelQuestion] = {
    records.OUTCOME_NAME: LabelQuestion(
        name=records.OUTCOME_NAME,
        measure=JUDGE_PREFIX + records.OUTCOME_NAME,
        text="Did the agent do what it was asked to do?",
        answers=(
            LabelAnswer("1", "Yes: all of it is done", "pass"),
            LabelAnswer("2", "No: something is missing or wrong", "fail", failing=True),
        ),
        counts=("The state at the end, and what the user was told about it.",),
        excluded=("How it got there, how fast, and how politely.",),
    ),
    "quality.overall": LabelQuestion(
        name="quality.overall",
        measure=JUDGE_PREFIX + "quality.overall",
        text="How good is the whole run, the way as well as the result?",
        answers=(
            LabelAnswer("1", "Bad: I would not let it near a user", "bad", 0.0, failing=True),
            LabelAnswer("2", "Weak: more wrong than right", "weak", 0.33, failing=True),
            LabelAnswer("3", "Good: small faults only", "good", 0.67),
            LabelAnswer("4", "Excellent: nothing to improve", "excellent", 1.0),
        ),
        counts=("The result first; then detours, risks and the words to the user.",),
    ),
    "shape": LabelQuestion(
        name="shape",
        measure=JUDGE_PREFIX + "shape",
        text="How did the quality of the steps go over the run?",
        answers=tuple(
            LabelAnswer(str(at), said, name, failing=name not in ("healthy", "recovery"))
            for at, (name, said) in enumerate(_SHAPES.items(), 1)
        ),
        counts=("The quality of each step for its own sub-goal, from first to last.",),
        excluded=("Whether the run reached its goal.",),
    ),
    "decisive_step": LabelQuestion(
        name="decisive_step",
        measure=DECISIVE,
        unit="decisive",
        text="Is it already wrong here: can this run, going on as it does, no longer succeed?",
        answers=_YES_NO,
        counts=("A mistake that the rest of the run does not put right.",),
        excluded=("A mistake that the agent notices and repairs.",),
    ),
}


def load_question(name: str, *, steps: bool = False) -> LabelQuestion:
    """Return what people are asked under a rubric: a name, or the path of your own.

    With `steps` an axis is asked of single steps. `ConfigError` where there is no such rubric, as
    of `load_rubric`; `UsageError` where its question is none for people, or none about steps.
    """
    if name in PEOPLES:
        if steps:
            raise UsageError(f"{name!r} is a question about whole runs; leave out --steps")
        return PEOPLES[name]
    if name == "attribution":
        return PEOPLES["decisive_step"]
    try:
        rubric = load_rubric(name)
    except ConfigError as e:
        if name.endswith(".md") or "/" in name:
            raise
        known = ", ".join((*PEOPLES, *(one for one in BUILT_IN_RUBRICS if one != "attribution")))
        raise ConfigError(f"no rubric called {name!r} for people; expected one of {known}") from e
    return _question_of(rubric, steps, _read_guide(name))


def _question_of(rubric: Rubric, steps: bool, guide: str) -> LabelQuestion:
    if rubric.kind == "attribution":
        why = f"{rubric.name!r} asks where a run went wrong; label decisive_step instead"
        raise UsageError(why)
    about_run, scored = rubric.kind == "axis" and not steps, rubric.kind == "score"
    labels = [label for label in rubric.answers if label != records.UNCERTAIN]
    answers = []
    for at, label in enumerate(labels, 1):
        stored, value = (None, _BAND_SCORES[min(at, 4) - 1]) if scored else (label, None)
        said, failing = label.replace("_", " ").capitalize(), label in rubric.failing
        answers.append(LabelAnswer(str(at), said, stored, value, failing))
    return LabelQuestion(
        name=rubric.name,
        measure=records.STEP_SCORES if scored else JUDGE_PREFIX + rubric.name,
        unit="run" if about_run else "step",
        text=rubric.question if about_run else _STEP_TEXTS[rubric.kind].format(rubric.question),
        answers=tuple(answers),
        counts=rubric.in_scope,
        excluded=tuple(rubric.out_of_scope),
        guide="\n\n".join(filter(None, (rubric.body.strip(), guide))),
    )


def _read_guide(name: str) -> str:
    """Return the text for annotators beside one's own rubric: `tone.policy.md` of `tone.md`."""
    path = Path(name)
    beside = path.with_name(f"{path.stem}.policy.md")
    if not name.endswith(".md") or not beside.exists():
        return ""
    try:
        return read_file(beside, _MOST_POLICY).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"{beside}: cannot be read as text ({e})") from e
