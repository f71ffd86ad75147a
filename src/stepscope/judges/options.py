"""How runs are judged, and what stands before the run in every request.

Rubrics that one judge is asked of the same runs share their beginning (`beside`): then a provider
reads the run from its cache for all but the first. Whatever changes an answer and is not the run is
in `prompt_of`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import msgspec

from stepscope.errors import ConfigError
from stepscope.judges.goals import Goals
from stepscope.judges.judgement import ISOLATED, PREFIX, SCORES, Judge
from stepscope.judges.prompts import prompt, prompt_hash, system
from stepscope.judges.rendering import Narration, tokens_of
from stepscope.judges.rubric import Rubric
from stepscope.judges.schemas import schema_of

Mode = Literal["contextual", "isolated"]

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(tuple[Rubric, ...]).decode

# Raised when what is sent around the run changes: the fence, the blocks, the questions.
FORM = "1"
# Of what a judge reads at once, what rubrics that stand together may take.
BEGINNING_SHARE = 0.25
_SHARED = (
    "sets of instructions follow. Each question names the rubric that it is asked by: go by the "
    "instructions of that rubric, and leave the others aside."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How runs are judged.

    Attributes:
        repeat: which asking of the same question, from 0: repeats show the judge's own noise.
        narration: "off" leaves out what the agent says and thinks; calls and results stay.
        goals: sub-goals that people confirmed, for rubrics that score.
        send_media: images of the run are sent, as far as `judges.images` can.
        mode: "isolated" labels each step without any other, to compare with the whole view.
        beside: rubrics that the same judge is asked of the same runs: they share one beginning.
    """

    repeat: int = 0
    narration: Narration = "on"
    goals: Goals | None = None
    send_media: bool = False
    mode: Mode = "contextual"
    beside: tuple[Rubric, ...] = ()


def measure_of(rubric: Rubric, mode: Mode = "contextual") -> str:
    """Return the name that the records of a rubric carry; each mode has its own."""
    name = SCORES if rubric.name == "no_look" else PREFIX + rubric.name
    return name + (ISOLATED if mode == "isolated" else "")


def prompt_of(rubric: Rubric, options: Options) -> str:
    """Return 16 hex digits over all that is not the run: part of every record's key."""
    beside = [one.hash for one in sharing(rubric, options) if one.hash != rubric.hash]
    schema = _encode(schema_of(rubric)).decode()
    media = ("media",) if options.send_media else ()
    modes = (FORM, schema, options.narration, options.mode, *media, *beside)
    return prompt_hash(rubric, prompt(rubric.kind), *modes)


def sharing(rubric: Rubric, options: Options) -> tuple[Rubric, ...]:
    """Return the rubrics of one beginning, by name, so that each of them has the same."""
    alike = {one.name: one for one in (*options.beside, rubric) if one.kind == rubric.kind}
    return tuple(alike[name] for name in sorted(alike))


def system_of(rubric: Rubric, options: Options) -> str:
    """Return the first text of a request: one rubric, or all that share the beginning."""
    return _told(_encode(sharing(rubric, options)))


@lru_cache(maxsize=64)
def _told(rubrics: bytes) -> str:
    together = _decode(rubrics)
    if len(together) == 1:
        return system(together[0])
    parts = (f"# Instructions of {one.name}\n\n{system(one)}" for one in together)
    return f"{len(together)} {_SHARED}\n\n" + "\n\n".join(parts)


def settled(rubric: Rubric, judge: Judge, options: Options) -> Options:
    """Return the options that a judge has room for: rubrics stand together where they are small.

    Five rubrics before a run save most of its price where a judge reads much; where it reads
    little they would leave no room for the run.
    """
    together = tokens_of(system_of(rubric, options))
    if together <= judge.context_tokens * BEGINNING_SHARE:
        return options
    return replace(options, beside=())


def refuse_senseless(rubric: Rubric, options: Options) -> None:
    """Refuse options that the rubric cannot honour.

    Raises:
        ConfigError: they are such.
    """
    if options.mode == "isolated" and rubric.kind != "labels":
        raise ConfigError(
            f"rubric {rubric.name} cannot be asked of steps in isolation; step_labels can"
        )
