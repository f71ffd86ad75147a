"""Judgements as literals, a model that answers in this process, and prices of round numbers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import msgspec

from stepscope.errors import ModelError
from stepscope.judges.judgement import Judge, Judgement, Replies
from stepscope.model import Answer, Reply, Request, Usage, Verdict
from stepscope.models.dialect import Ask, reply_key
from stepscope.models.retry import RetryLimits, RetryPolicy
from stepscope.values import Unmeasured

JUDGE = Judge(name="local/tiny", family="qwen")
SCHEMA = {
    "type": "object",
    "properties": {"label": {"type": "string", "enum": ["correct", "incorrect"]}},
    "required": ["label"],
    "additionalProperties": False,
}


class Said(msgspec.Struct):
    label: str


@dataclass(frozen=True)
class Believing:
    """Takes the label of the last reply; asks again as often as `more_asks` says."""

    run: str
    axis: str
    more_asks: int = 0

    def more(self, replies: Replies) -> Ask | None:
        if len(replies) > self.more_asks:
            return None
        return ask(self.run, f"{self.axis} again {len(replies)}")

    def answers(self, replies: Replies) -> tuple[Answer, ...]:
        reply = list(replies.values())[-1]
        assert isinstance(reply, Reply)
        measure = f"judge.axes.{self.axis}"
        if reply.stop == "refusal":
            return (Unmeasured("refused", "refused: the judge declined", measure),)
        return (Verdict(measure, label=msgspec.json.decode(reply.text, type=Said).label),)


def request(run: str, axis: str, *, context: str = "") -> Request:
    return Request(
        system="Judge.",
        context=context or f"run {run}",
        question=axis,
        schema_name="axis",
        schema=SCHEMA,
    )


def ask(run: str, axis: str, *, repeat: int = 0, context: str = "") -> Ask:
    made = request(run, axis, context=context)
    return Ask(key=reply_key(JUDGE.name, made, repeat), model=JUDGE.name, request=made)


def judgement(
    run: str = "r1",
    axis: str = "termination",
    *,
    repeat: int = 0,
    more_asks: int = 0,
    context: str = "",
    judge: Judge = JUDGE,
) -> Judgement:
    return Judgement(
        trajectory=run,
        judge=judge,
        measure=f"judge.axes.{axis}",
        rubric=f"axes.{axis}",
        version="1",
        prompt="0123456789abcdef",
        repeat=repeat,
        asks=(ask(run, axis, repeat=repeat, context=context),),
        belief=Believing(run, axis, more_asks),
    )


def judgements(runs: int, axes: int = 2) -> Iterator[Judgement]:
    for run in range(runs):
        for axis in range(axes):
            yield judgement(f"r{run}", f"axis{axis}")


def reply(label: str = "correct", **fields: object) -> Reply:
    made = Reply(
        text=f'{{"label": "{label}"}}',
        stop="end",
        structure="json_schema",
        usage=Usage(input_total=100, cache_read=40, output_total=10),
        model="tiny",
        seconds=0.5,
    )
    return msgspec.structs.replace(made, **fields)


@dataclass
class Answering:
    """A model in this process: `answer` is given the number of the call and the request.

    Where there is a `meeting`, calls wait until as many as it takes are in flight.
    """

    answer: Callable[[int, Request], Reply | ModelError] = lambda number, request: reply()
    name: str = "local/tiny"
    meeting: asyncio.Barrier | None = None
    asked: list[Request] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0

    async def complete(self, request: Request) -> Reply:
        self.asked.append(request)
        number = len(self.asked) - 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await (asyncio.sleep(0) if self.meeting is None else self.meeting.wait())
        finally:
            self.in_flight -= 1
        given = self.answer(number, request)
        if isinstance(given, ModelError):
            raise given
        return given


class Silent(Answering):
    """A model that never answers; `reached` is set when so many calls wait for it."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.reached = asyncio.Event()
        self._calls = calls

    async def complete(self, request: Request) -> Reply:
        self.asked.append(request)
        if len(self.asked) == self._calls:
            self.reached.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody sets the event")


@dataclass(frozen=True)
class Prices:
    """Every call costs at worst `most` and in fact `paid`, in USD."""

    most: float | None = 0.25
    paid: float | None = 0.125

    def worst(self, judge: str, request: Request, *, batch: bool = False) -> float | None:
        return self.most

    def cost(
        self, judge: str, usage: Usage | None, *, model: str = "", batch: bool = False
    ) -> float | None:
        return self.paid

    def saved(
        self, judge: str, usage: Usage | None, *, model: str = "", batch: bool = False
    ) -> float | None:
        return None if self.paid is None else 0.0625

    def advice(self, judge: str) -> str:
        return f"write the price of {judge}"


def patience(*, tries: int = 3, most: int = 32) -> RetryPolicy:
    """Return the retry loop, without its pauses."""
    limits = RetryLimits(tries=tries, base_seconds=0.0, cap_seconds=0.0)
    return RetryPolicy(random.Random(0), most=most, limits=limits)
