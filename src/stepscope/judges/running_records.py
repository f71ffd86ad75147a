"""From replies to records: what a judge said, with who said it, how it was asked, and its price."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from stepscope.judges.budget import usd
from stepscope.judges.judgement import Judgement
from stepscope.judges.running_buying import Bought
from stepscope.model import Answer, Record, Usage

# A provider's name for a snapshot is a few words; what is longer is none.
_SNAPSHOT_CHARACTERS = 100


def records(
    judgement: Judgement, answers: Iterable[Answer], bought: Sequence[Bought]
) -> list[Record]:
    """Return the records of a judgement; the first carries tokens, price and seconds of all."""
    judge = judge_name(judgement.judge.name, bought)
    made: list[Record] = []
    for answer in answers:
        named = answer
        if not answer.measure:
            named = msgspec.structs.replace(answer, measure=judgement.measure)
        first = not made and bought
        made.append(
            Record(
                trajectory=judgement.trajectory,
                answer=named,
                version=judgement.version,
                family=judgement.judge.family,
                case=judgement.case,
                judge=judge,
                rubric=judgement.rubric,
                prompt=judgement.prompt,
                repeat=judgement.repeat,
                usage=total(one.reply.usage for one in bought) if first else None,
                cost_usd=_cost(bought) if first else None,
                seconds=sum(one.reply.seconds for one in bought) if first else None,
            )
        )
    return made


def judge_name(name: str, bought: Sequence[Bought]) -> str:
    """Return the judge's name, with the snapshot behind it where the replies name another model.

    The provider's name for it is somebody else's text: kept to what names are made of.
    """
    asked = name.partition("/")[2]
    for one in bought:
        said = "".join(c for c in one.reply.model if c.isascii() and c.isprintable() and c != " ")
        if said and said != asked:
            return f"{name}@{said[:_SNAPSHOT_CHARACTERS]}"
    return name


def total(usages: Iterable[Usage | None]) -> Usage | None:
    """Return the tokens of several calls together; None where one of them does not say.

    >>> total([Usage(input_total=5, output_total=1), Usage(input_total=7)]).input_total
    12
    """
    every = list(usages)
    known = [one for one in every if one is not None]
    if not known or len(known) < len(every):
        return None
    return Usage(
        input_total=_sum(one.input_total for one in known),
        cache_read=_sum(one.cache_read for one in known),
        cache_write=_sum(one.cache_write for one in known),
        output_total=_sum(one.output_total for one in known),
        reasoning=_sum(one.reasoning for one in known),
        source="estimated" if any(one.source == "estimated" for one in known) else "reported",
    )


def _sum(numbers: Iterable[int | None]) -> int | None:
    every = list(numbers)
    known = [number for number in every if number is not None]
    return sum(known) if len(known) == len(every) else None


def _cost(bought: Sequence[Bought]) -> float | None:
    costs = [one.cost for one in bought if one.cost is not None]
    return usd(sum(costs)) if len(costs) == len(bought) else None
