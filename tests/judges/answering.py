"""Judges of known mind: what one would reply who knows the answers, or who says one thing only."""

from __future__ import annotations

import msgspec

from stepscope.judges.canaries import CanaryRun, ExpectedAnswer
from stepscope.judges.judgement import Judge, Judgement, JudgingOptions
from stepscope.judges.plan import plan_judgements
from stepscope.judges.rubrics import Rubric
from stepscope.model import Answer, Json, Record, Reply, Step, Trajectory
from stepscope.safety.redact import Redactor

JUDGE = Judge(name="openai/gpt-5", family="openai")


def planned(run: CanaryRun, rubric: Rubric) -> list[Judgement]:
    """Return what is asked of a run; everything of it can be."""
    found = list(
        plan_judgements(
            run.trajectory,
            rubric=rubric,
            judge=JUDGE,
            options=JudgingOptions(goals=run.goals),
            key=b"k",
            redactor=Redactor(b"k"),
        )
    )
    return [one for one in found if isinstance(one, Judgement)]


def answers(judgement: Judgement, said: dict[str, Json]) -> tuple[Answer, ...]:
    """Return what is believed of one reply to everything that is asked."""
    reply = Reply(text=msgspec.json.encode(said).decode(), stop="end", structure="json_schema")
    return judgement.belief.answers({ask.key: reply for ask in judgement.asks})


def records(run: CanaryRun, rubric: Rubric, said: dict[str, Json]) -> list[Record]:
    """Return the records of one reply about a run."""
    return [
        Record(
            trajectory=one.trajectory,
            answer=answer,
            version=one.version,
            family="openai",
            judge="openai/gpt-5",
            rubric=one.rubric,
        )
        for one in planned(run, rubric)
        for answer in answers(one, said)
    ]


def right(run: CanaryRun, rubric: Rubric) -> dict[str, Json]:
    """Return the reply of a judge that knows the answers."""
    expected = run.expected[rubric.name]
    match rubric.kind:
        case "labels" | "presence":
            return _steps(run.trajectory, expected, rubric)
        case "score":
            return {"rationale": "As known.", "score": (expected.low + expected.high) / 2}
    found: dict[str, Json] = {
        "evidence": _evidence(run.trajectory, expected),
        "rationale": "As known.",
        "confidence": 0.9,
    }
    if rubric.kind == "attribution":
        part = {"part": expected.label[0], "step": expected.cites[0], "whose": expected.whose}
        return {**found, **part}
    return {**found, "label": expected.label[0], "cited_step_indices": list(expected.cites)}


def _steps(trajectory: Trajectory, expected: ExpectedAnswer, rubric: Rubric) -> dict[str, Json]:
    labels = rubric.kind == "labels"
    usual = "PROGRESS" if labels else "absent"
    made: list[dict[str, Json]] = []
    for step in trajectory.steps:
        if step.actor != "agent":
            continue
        label = expected.steps.get(step.index, (usual,))[0]
        if labels:
            made.append(
                {
                    "step": step.index,
                    "quote": _words(step) if label in rubric.failing else "",
                    "explanation": "As known.",
                    "label": label,
                    "score": 0.5,
                    "addresses": None,
                }
            )
        else:
            there = label == "present"
            quote = _words(step) if there else ""
            made.append({"step": step.index, "quote": quote, "present": there})
    return {"steps": made} if labels else {"steps": made, "rationale": "As known."}


def _evidence(trajectory: Trajectory, expected: ExpectedAnswer) -> list[dict[str, Json]]:
    return [{"step": at, "quote": _words(trajectory.steps[at])} for at in expected.cites]


def _words(step: Step) -> str:
    """Return the beginning of what a step says, calls or brings."""
    if step.results:
        return step.results[0].text[:60]
    if step.text:
        return step.text[:60]
    given = msgspec.json.encode(step.calls[0].arguments).decode()
    return f"{step.calls[0].name} {given}"[:60]
