"""What J4 asks: the five axes of the bundled runs, planned as for any judge, and again as repeats.

Ours takes the judgements; the peers take the same texts from a file, a JSON line each.
"""

from __future__ import annotations

import dataclasses
from itertools import islice, product
from pathlib import Path

import msgspec

import stepscope
from stepscope.judges.judgement import Judge, Judgement
from stepscope.judges.rubrics import load_rubric_set
from stepscope.judges.verdicts import SchemaReplyReader
from stepscope.model import Json
from stepscope.models.dialect import Ask, reply_key
from stepscope.score.judges import JudgePlan
from stepscope.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
RUNS = ROOT / "examples" / "airline"
MODEL = "gpt-4o"
JUDGE = Judge(name=f"openai/{MODEL}", family="openai", max_output_tokens=1_000)


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One question as the peers are given it."""

    system: str
    user: str
    schema: dict[str, Json]


def planned() -> list[Judgement]:
    """Return every axis of every bundled run, each asked alone."""
    with stepscope.open(":memory:", settings=Settings()) as notebook:
        notebook.add(RUNS)
        made = []
        for rubric in load_rubric_set("axes"):
            plan = JudgePlan(notebook.store, rubrics=(rubric,), judges=(JUDGE,))
            made += [judgement for judgement, _ in plan.planned]
        return made


def repeated(once: list[Judgement], count: int) -> list[Judgement]:
    """Return so many judgements, each with a key of its own: repeats, as `--repeat` asks them."""
    repeats = range(-(-count // len(once)))
    return [_again(one, repeat) for repeat, one in islice(product(repeats, once), count)]


def _again(one: Judgement, repeat: int) -> Judgement:
    request = one.asks[0].request
    asks = (Ask(key=reply_key(JUDGE.name, request, repeat), model=JUDGE.name, request=request),)
    assert isinstance(one.belief, SchemaReplyReader)
    belief = dataclasses.replace(one.belief, asks=asks, repeat=repeat)
    return dataclasses.replace(one, repeat=repeat, asks=asks, belief=belief)


def write(path: Path, once: list[Judgement]) -> None:
    """Write what is asked, a JSON line each."""
    with path.open("wb") as file:
        for judgement in once:
            request = judgement.asks[0].request
            user = f"{request.context}\n\n{request.question}"
            prompt = Prompt(system=request.system, user=user, schema=request.schema)
            file.write(msgspec.json.encode(prompt) + b"\n")
