"""Judges as functions: what would be sent, answered by rule, read as the real thing is."""

from __future__ import annotations

import json
from collections.abc import Callable

from stepscope.judges.goals import Goal, Goals
from stepscope.judges.judgement import DEFAULT_OPTIONS, Judge, Judgement, JudgingOptions
from stepscope.judges.plan import plan_judgements
from stepscope.judges.rubrics import load_rubric
from stepscope.model import Answer, Json, Reply, Request, Stop, Structure, Trajectory
from stepscope.models.dialect import Ask
from stepscope.safety.redact import Redactor
from stepscope.values import Unmeasured

JUDGE = Judge(name="openai/gpt-5", family="openai")
KEY = b"of this store"
REDACTOR = Redactor(KEY)

Answering = Callable[[Request], Reply | str]


def reply(said: Json, *, stop: Stop = "end", structure: Structure = "json_schema") -> Reply:
    text = said if isinstance(said, str) else json.dumps(said)
    return Reply(text=text, stop=stop, structure=structure)


def planned(
    run: Trajectory,
    name: str,
    *,
    judge: Judge = JUDGE,
    options: JudgingOptions = DEFAULT_OPTIONS,
    repeat: int = 0,
) -> list[Judgement | Unmeasured]:
    return list(
        plan_judgements(
            run,
            rubric=load_rubric(name),
            judge=judge,
            options=options,
            key=KEY,
            redactor=REDACTOR,
            repeat=repeat,
        )
    )


def judgement(
    run: Trajectory,
    name: str,
    *,
    judge: Judge = JUDGE,
    options: JudgingOptions = DEFAULT_OPTIONS,
    repeat: int = 0,
) -> Judgement:
    (only,) = planned(run, name, judge=judge, options=options, repeat=repeat)
    assert isinstance(only, Judgement), only
    return only


def answered(made: Judgement, answer: Answering) -> tuple[tuple[Answer, ...], list[Ask]]:
    """Return the answers of a judge that is a function, and all that it was asked."""
    replies: dict[str, Reply | Unmeasured] = {}
    asked: list[Ask] = []
    asks = list(made.asks)
    while asks:
        for ask in asks:
            said = answer(ask.request)
            replies[ask.key] = reply(said) if isinstance(said, str) else said
            asked.append(ask)
        more = made.belief.more(replies)
        asks = [] if more is None else [more]
    return made.belief.answers(replies), asked


def said(made: Judgement, *answers: Json) -> tuple[Answer, ...]:
    """Return what is believed of these answers, given in turn; the last one is repeated."""
    waiting = list(answers)

    def next_one(_: Request) -> Reply | str:
        one = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        return one if isinstance(one, Reply) else reply(one)

    return answered(made, next_one)[0]


def goals(name: str, *covered: tuple[str, tuple[int, ...]]) -> Goals:
    made = tuple(Goal(goal=goal, steps=steps, confirmed=True) for goal, steps in covered)
    return Goals("goals.toml", {name: made}, {})
