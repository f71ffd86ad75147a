"""What one judge is asked about one run: judge, options, judgement, and its stored names.

A judgement is planned from the run, the rubric and the judge alone, so that the same plan is made
again after a crash: its keys are looked up in the ledger, and what was received is not paid again.
Rubrics that one judge is asked of the same runs share their beginning, so that a provider reads the
run from its cache. Whatever changes an answer and is not the run is in `record_prompt`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple, Protocol

import msgspec

from stepscope.errors import ConfigError
from stepscope.judges.goals import Goals
from stepscope.judges.rubrics import Rubric, answer_schema, load_prompt, prompt_hash, system_prompt
from stepscope.judges.transcript import Narration, bound_tokens
from stepscope.model import Answer, Json, Reply
from stepscope.model.records import ISOLATED_SUFFIX, JUDGE_PREFIX, STEP_SCORES
from stepscope.models import opening
from stepscope.models.configured import JudgesTable
from stepscope.models.dialect import Ask
from stepscope.models.opening import OWN_MODEL_MARK, load_own_model, model_family
from stepscope.values import Unmeasured


class Judge(msgspec.Struct, frozen=True, kw_only=True):
    """A judge as it was chosen: a model, its family, and how it is asked."""

    name: str  # provider, slash, model, as given to `--judge`
    family: str  # who trained it; judges of one family are wrong together
    context_tokens: int = 128_000  # what it can read at once, its answer included
    max_output_tokens: int = 4_096  # where an answer is cut off
    temperature: float | None = None  # of sampling; None leaves the provider's
    seed: int | None = None  # where the provider takes one
    # further parameters of the provider
    extra: dict[str, Json] = msgspec.field(default_factory=dict)
    tools: bool = False  # whether it may look things up with read-only tools before it answers


class AskOutcome(NamedTuple):
    """What became of an ask: a reply, or why there is none."""

    ask: Ask
    reply: Reply | Unmeasured


class ReplyReader(Protocol):
    """Makes answers of replies; pure, so that stored replies can be read again without a key."""

    def more(self, outcomes: Sequence[AskOutcome]) -> Ask | None:
        """Return one further ask that these outcomes call for, None when there is none.

        Called when every ask so far has its outcome; what it returns is asked and appended. A
        repair of an answer that does not fit the schema, or a judge's next look with its tools.
        """

    def answers(self, outcomes: Sequence[AskOutcome]) -> tuple[Answer, ...]:
        """Return the answers: the first is about the whole run where the rubric asks of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One judge, one run, one rubric, one repeat."""

    trajectory: str  # id of the run
    case: str = ""  # hash of what the run is measured against; "" where the judge does not see it
    judge: Judge  # who is asked
    measure: str  # the name that the records carry
    rubric: str  # name of the rubric
    version: str  # of the rubric
    prompt: str  # hash of everything that is not the run: template, rubric file, schema, mode
    repeat: int = 0  # from 0
    asks: tuple[Ask, ...]  # what can be asked at once
    belief: ReplyReader  # what makes answers of the replies


def configured_judge(name: str, table: JudgesTable) -> Judge:
    """Return the judge called `name`, with its family and parameters; `name` is that of its model.

    Raises:
        ConfigError: the name is no judge's, or its family is unknown.
    """
    if OWN_MODEL_MARK in name:
        name = load_own_model(name).name
    judge = opening.judge_table(name, table)
    return Judge(
        name=name,
        family=judge.family or model_family(name, table.families),
        context_tokens=judge.context_tokens,
        max_output_tokens=judge.max_output_tokens,
        temperature=judge.temperature,
        seed=judge.seed,
        extra=judge.extra,
    )


JudgeMode = Literal["contextual", "isolated"]

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(tuple[Rubric, ...]).decode

# Raised when what is sent around the run changes: the fence, the blocks, the questions.
REQUEST_VERSION = "1"
# Of what a judge reads at once, what rubrics that stand together may take.
BEGINNING_SHARE = 0.25
_SHARED = (
    "sets of instructions follow. Each question names the rubric that it is asked by: go by the "
    "instructions of that rubric, and leave the others aside."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """How runs are judged."""

    repeat: int = 0  # which asking of the same question, from 0: repeats show the judge's own noise
    # "off" leaves out what the agent says and thinks; calls and results stay
    narration: Narration = "on"
    goals: Goals | None = None  # sub-goals that people confirmed, for rubrics that score
    send_media: bool = False  # images of the run are sent, as far as `judges.images` can
    # "isolated" labels each step without any other, to compare with the whole view
    mode: JudgeMode = "contextual"
    # rubrics that the same judge is asked of the same runs: they share one beginning
    beside: tuple[Rubric, ...] = ()


def record_measure(rubric: Rubric, mode: JudgeMode = "contextual") -> str:
    """Return the name that the records of a rubric carry; each mode has its own."""
    name = STEP_SCORES if rubric.name == "no_look" else JUDGE_PREFIX + rubric.name
    return name + (ISOLATED_SUFFIX if mode == "isolated" else "")


def record_prompt(rubric: Rubric, options: RequestOptions) -> str:
    """Return 16 hex digits over all that is not the run: part of every record's key."""
    beside = [one.hash for one in rubrics_together(rubric, options) if one.hash != rubric.hash]
    schema = _encode(answer_schema(rubric)).decode()
    media = ("media",) if options.send_media else ()
    modes = (REQUEST_VERSION, schema, options.narration, options.mode, *media, *beside)
    return prompt_hash(rubric, load_prompt(rubric.kind), *modes)


def rubrics_together(rubric: Rubric, options: RequestOptions) -> tuple[Rubric, ...]:
    """Return the rubrics of one beginning, by name, so that each of them has the same."""
    alike = {one.name: one for one in (*options.beside, rubric) if one.kind == rubric.kind}
    return tuple(alike[name] for name in sorted(alike))


def system_text(rubric: Rubric, options: RequestOptions) -> str:
    """Return the first text of a request: one rubric, or all that share the beginning."""
    return _joined_system(_encode(rubrics_together(rubric, options)))


@lru_cache(maxsize=64)
def _joined_system(rubrics: bytes) -> str:
    together = _decode(rubrics)
    if len(together) == 1:
        return system_prompt(together[0])
    parts = (f"# Instructions of {one.name}\n\n{system_prompt(one)}" for one in together)
    return f"{len(together)} {_SHARED}\n\n" + "\n\n".join(parts)


def fit_options(rubric: Rubric, judge: Judge, options: RequestOptions) -> RequestOptions:
    """Return the options that a judge has room for: rubrics stand together where they are small.

    Five rubrics before a run save most of its price where a judge reads much; where it reads
    little they would leave no room for the run.
    """
    together = bound_tokens(system_text(rubric, options))
    if together <= judge.context_tokens * BEGINNING_SHARE:
        return options
    return replace(options, beside=())


def check_options(rubric: Rubric, options: RequestOptions) -> None:
    """Refuse options that the rubric cannot honour.

    Raises:
        ConfigError: they are such.
    """
    if options.mode == "isolated" and rubric.kind != "labels":
        raise ConfigError(
            f"rubric {rubric.name} cannot be asked of steps in isolation; step_labels can"
        )
