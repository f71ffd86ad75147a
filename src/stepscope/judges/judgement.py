"""What one judge is asked about one run: judge, options, judgement, and its stored names.

A judgement is planned from the run, the rubric and the judge alone, so that the same plan is made
again after a crash: its keys are looked up in the ledger, and what was received is not paid again.
The prompt of a rubric is the same for every judge, whatever it can read at once, and whatever other
rubrics are asked. Whatever changes an answer and is not the run is in `record_prompt`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from stepscope.errors import UsageError
from stepscope.judges.goals import Goals
from stepscope.judges.rubrics import Rubric, answer_schema, load_prompt, prompt_hash
from stepscope.judges.transcript import Narration
from stepscope.model import Answer, Json, Reply, records
from stepscope.models.configured import JudgesTable
from stepscope.models.dialect import Ask
from stepscope.models.opening import OWN_MODEL_MARK, judge_table, load_own_model, model_family
from stepscope.values import Unmeasured


class Judge(msgspec.Struct, frozen=True, kw_only=True):
    """A judge as it was chosen: a model, its family, and how it is asked."""

    name: str  # provider, slash, model, as given to `--judge`
    family: str  # who trained it; judges of one family are wrong together
    context_tokens: int = 128_000  # what it can read at once, its answer included
    # where an answer is cut off; None: at 4,096, and later where many steps are asked about
    max_output_tokens: int | None = None
    temperature: float | None = None  # of sampling; None leaves the provider's
    seed: int | None = None  # where the provider takes one
    # further parameters of the provider
    extra: dict[str, Json] = msgspec.field(default_factory=dict)
    tools: bool = False  # whether it may look things up with read-only tools before it answers


# What was received, or why there is nothing: by the keys of the asks, in the order of asking.
Replies = Mapping[str, Reply | Unmeasured]


class ReplyReader(Protocol):
    """Makes answers of replies; pure, so that stored replies can be read again without a key."""

    def more(self, replies: Replies) -> Ask | None:
        """Return one further ask that these replies call for, None when there is none.

        Called when every ask so far is in them; what it returns is asked and appended. A
        repair of an answer that does not fit the schema, or a judge's next look with its tools.
        """

    def answers(self, replies: Replies) -> tuple[Answer, ...]:
        """Return the answers: the first is about the whole run where the rubric asks of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One judge, one run, one rubric, one repeat."""

    trajectory: str  # id of the run
    judge: Judge  # who is asked
    measure: str  # the name that the records carry
    rubric: str  # name of the rubric
    version: str  # of the rubric
    prompt: str  # hash of everything that is not the run: template, rubric file, schema, mode
    repeat: int = 0  # from 0
    asks: tuple[Ask, ...]  # what can be asked at once
    belief: ReplyReader  # what makes answers of the replies


def configured_judge(name: str, table: JudgesTable) -> Judge:
    """Return the judge of a model's name, with its family; `ConfigError` for no judge's name."""
    if OWN_MODEL_MARK in name:
        name = load_own_model(name).name
    judge = judge_table(name, table)
    family = judge.family or model_family(name, table.families)
    asked = ("context_tokens", "max_output_tokens", "temperature", "seed", "extra")
    return Judge(name=name, family=family, **{one: getattr(judge, one) for one in asked})


JudgeMode = Literal["contextual", "isolated", "prefix"]

# Behind the names of records.
MODE_SUFFIXES: dict[JudgeMode, str] = {
    "contextual": "",
    "isolated": records.ISOLATED_SUFFIX,
    "prefix": records.PREFIX_SUFFIX,
}

_encode = msgspec.json.Encoder(order="deterministic").encode

# Raised when what is sent around the run changes: the fence, the blocks, the questions.
REQUEST_VERSION = "2"


class JudgingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How runs are judged; every field has a default."""

    repeats: int = 1  # how often each question is asked, to see the judge's own noise.
    # "off" leaves out what the agent says and thinks; calls and results stay.
    narration: Narration = "on"
    # "isolated" labels each exchange without any other, "prefix" with all before its end.
    mode: JudgeMode = "contextual"
    # sub-goals that people confirmed, or the file of them, for `no_look`.
    goals: Goals | str | Path | None = None
    # how many of the chosen runs are drawn for each rubric; None asks about all.
    sample: int | None = None
    # rubric -> ids of the runs that it is asked of; a rubric without an entry, of all.
    only: dict[str, frozenset[str]] = msgspec.field(default_factory=dict)
    # whether runs with known answers are asked about first; a judge that gets one wrong has its
    # answers to that rubric set aside.
    canaries: bool = False
    # whether images of the runs are sent, too; nothing is taken out of a picture.
    send_media: bool = False
    tools: bool = False  # whether judges may look things up before they answer.
    workspace: str | Path | None = None  # folder whose files they may look at, too.
    # whether questions are sent in batches, at half the price, answered within a day.
    batch: bool = False
    again: bool = False  # whether what was answered under another version of a rubric is asked
    strict_families: bool = False  # refuse a judge of the family of an agent that it would judge.
    # whether evaluation sets are judged by rubrics that are not locked
    allow_unlocked: bool = False
    # which occasion of asking about fixed runs again, from 1; 0: not for that
    occasion: int = 0
    change: records.Change = ""  # what is changed that should change no answer, to see bias
    # the rubrics that are not: the version of their records says so; found when judging is planned
    unlocked: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Raise `UsageError` where repeats or sample are less than 1."""
        for name, number in (("repeats", self.repeats), ("sample", self.sample)):
            if number is not None and number < 1:
                raise UsageError(f"{name} is {number}; expected 1 or more")
        if self.occasion and self.repeats > 1:
            raise UsageError("fixed runs are asked about once an occasion; leave repeats out")
        if self.workspace is not None and not self.tools:
            raise UsageError("a workspace is looked at with tools; ask for both")
        if self.sample is not None and self.only:
            raise UsageError("a sample is drawn of all runs, not of those of `only`")


DEFAULT_OPTIONS = JudgingOptions()


def record_measure(rubric: Rubric, mode: JudgeMode = "contextual") -> str:
    """Return the name that the records of a rubric carry; each mode has its own."""
    name = records.STEP_SCORES if rubric.name == "no_look" else records.JUDGE_PREFIX + rubric.name
    return name + MODE_SUFFIXES[mode]


def record_version(rubric: Rubric, options: JudgingOptions) -> str:
    """Return the version that records carry: without narration it is another question.

    So it is by a rubric that judged an evaluation set without being locked.
    """
    mode = records.NARRATION_OFF if options.narration == "off" else ""
    return rubric.version + mode + (records.UNLOCKED if rubric.name in options.unlocked else "")


def record_prompt(rubric: Rubric, options: JudgingOptions) -> str:
    """Return 16 hex digits over all that is not the run: part of every record's key."""
    schema = _encode(answer_schema(rubric)).decode()
    media = ("media",) if options.send_media else ()
    change = (options.change,) if options.change else ()
    modes = (REQUEST_VERSION, schema, options.narration, options.mode, *media, *change)
    return prompt_hash(rubric, load_prompt(rubric.kind), *modes)
