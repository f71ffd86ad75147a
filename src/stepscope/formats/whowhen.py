"""Read Who&When: failed multi-agent runs, each with the decisive step that people named.

One file is one run. The two subsets differ: algorithm-generated runs name the agent in `name`,
hand-crafted ones in `role`, with what the agent does in brackets behind it. The step label is a
text of digits, counted from 0 over `history`. Runs have no tool calls, tokens or times; what the
code executor says is the environment speaking, and its exit code sets the step's error.
Format: ag2ai/Agents_Failure_Attribution, `Who&When/`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.chat.histories import history_step
from stepscope.formats.fields import expect_object, rest
from stepscope.formats.finish import Ordinals
from stepscope.formats.format import DecodedRecord, RecordFormat, convert_record, read_each
from stepscope.formats.opening import Opening
from stepscope.model import Case, Outcome, TraceLabel, Trajectory

NAME = "whowhen"
ANNOTATOR = "Who&When"


class _Run(msgspec.Struct, gc=False):
    history: list[Any]
    mistake_step: str | int
    mistake_agent: str
    mistake_reason: str = ""
    question: str | None = None
    question_ID: str | None = None
    ground_truth: str | int | float | None = None
    is_correct: bool | None = None
    is_corrected: bool | None = None
    level: str | int | None = None


_RECORD_KEYS = frozenset(_Run.__struct_fields__)


def _likeness(opening: Opening) -> float:
    record = opening.first("history")
    if record is None or not isinstance(record["history"], list):
        return 0.0
    labels = sum(key in record for key in ("mistake_step", "mistake_agent", "mistake_reason"))
    about = sum(key in record for key in ("question_ID", "question", "ground_truth"))
    flags = 0.1 if "is_correct" in record or "is_corrected" in record else 0.0
    return min(1.0, 0.25 * labels + 0.15 * about + flags)


def _runs(found: DecodedRecord, ordinals: Ordinals) -> tuple[Trajectory]:
    record = expect_object(found.value, "a Who&When run is an object")
    run, unexpected = convert_record(record, _Run)
    steps = tuple([history_step(one, at, found.limits) for at, one in enumerate(run.history)])
    text = str(run.mistake_step)
    if not text.isascii() or not text.isdigit():
        raise TraceError(f"`mistake_step` is {text!r}; expected digits, counted from 0")
    step = int(text)
    if step >= len(steps):
        raise TraceError(f"`mistake_step` is {step}; the history has {len(steps)} steps, from 0")
    agent, reason = run.mistake_agent, run.mistake_reason
    label = TraceLabel(
        kind="decisive_step", step=step, agent=agent, reason=reason, annotator=ANNOTATOR
    )
    generated = any(isinstance(m, dict) and "name" in m for m in run.history)
    workflow = "whowhen-algorithm" if generated else "whowhen-handcrafted"
    correct = run.is_correct if run.is_correct is not None else run.is_corrected
    judged = Outcome("pass" if correct else "fail", "label", None, f"labelled correct: {correct}")
    draft = Trajectory(
        id="",
        name="" if run.question_ID is None else f"{workflow}/{run.question_ID}",
        steps=steps,
        source=found.source(NAME, run.question_ID),
        workflow=workflow,
        task=run.question_ID,
        outcome=Outcome() if correct is None else judged,
        labels=(label,),
        case=_case(run, workflow),
        extra=rest(record, _RECORD_KEYS),
    )
    return (found.finish(draft, ordinals, unexpected),)


def _case(run: _Run, workflow: str) -> Case | None:
    if run.question_ID is None:
        return None
    return Case(
        workflow=workflow,
        task=run.question_ID,
        request=run.question,
        outputs=() if run.ground_truth is None else (str(run.ground_truth),),
        difficulty=None if run.level is None else str(run.level),
    )


FORMAT = RecordFormat(NAME, _likeness, read_each(_runs))
