"""Canaries: short runs with known answers, judged among the others, that watch the judge.

They are asked like any run, by the same rubric, prompt and judge, under ids that begin with
`canary:`, and are left out of everything that is estimated. A judge that gets one wrong has all its
answers to that rubric in the same batch set aside: they become Unmeasured and are counted. A
canary that was declined or not answered says nothing, neither for the judge nor against it.
Rubrics of users' own have no canaries: nobody but they know the answers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

import msgspec

from stepscope.judges.judgement import Judge, Judgement
from stepscope.judges.known import Known, differences, known
from stepscope.judges.planning import Options, plan
from stepscope.judges.rubric import Rubric
from stepscope.model import Record, Verdict
from stepscope.safety.redact import Redactor
from stepscope.values import Unmeasured

FILE = "canary"
MISSED = "canary_missed"


class Watched(NamedTuple):
    """How one judge did on one canary by one rubric.

    Attributes:
        judge: as its records name it, without the snapshot.
        rubric: name of the rubric.
        canary: id of the run.
        repeat: which asking, from 0.
        said: whether it was right, wrong, or gave no answer.
        what: what was wrong, in words.
    """

    judge: str
    rubric: str
    canary: str
    repeat: int
    said: Literal["held", "missed", "unanswered"]
    what: str = ""


def canaries(rubric: Rubric) -> tuple[Known, ...]:
    """Return the canaries that a rubric is asked of: two or more of ours, none of a user's own."""
    return tuple(one for one in known(FILE) if rubric.name in one.expected)


def planned(
    rubric: Rubric, *, judge: Judge, options: Options, key: bytes, redactor: Redactor
) -> Iterator[Judgement]:
    """Yield what a judge is asked about the canaries of a rubric, under the options of its batch.

    Asked before the batch, so that what the judge then says is kept or set aside as it comes:
    `missed` over the records of these, `quarantined` over those of the others.
    """
    for one in canaries(rubric):
        asked = plan(
            one.trajectory,
            None,
            rubric=rubric,
            judge=judge,
            options=dataclasses.replace(options, goals=one.goals),
            key=key,
            redactor=redactor,
        )
        yield from (item for item in asked if isinstance(item, Judgement))


def is_canary(trajectory: str) -> bool:
    """Tell whether the id of a run is a canary's."""
    return trajectory.startswith(f"{FILE}:")


def without_canaries(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records of real runs: what may enter a store."""
    return (record for record in records if not is_canary(record.trajectory))


def watched(records: Iterable[Record]) -> tuple[Watched, ...]:
    """Return how judges did on the canaries among the runs of these records, sorted."""
    runs = {one.trajectory.id: one for one in known(FILE)}
    answers: dict[tuple[str, str, str, int], list[Record]] = {}
    for record in records:
        if record.trajectory in runs and record.rubric in runs[record.trajectory].expected:
            key = (_judge(record), record.rubric, record.trajectory, record.repeat)
            answers.setdefault(key, []).append(record)
    return tuple(_watched(key, answers[key], runs[key[2]]) for key in sorted(answers))


def missed(records: Iterable[Record]) -> tuple[Watched, ...]:
    """Return the canaries that were answered wrongly."""
    return tuple(one for one in watched(records) if one.said == "missed")


def quarantined(records: Iterable[Record], misses: Iterable[Watched]) -> Iterator[Record]:
    """Yield records with the verdicts of judges that missed a canary of their rubric set aside.

    The records keep their provenance, usage and cost; only their answers become Unmeasured.
    """
    reasons: dict[tuple[str, str], str] = {}
    for miss in misses:
        reasons.setdefault((miss.judge, miss.rubric), f"{MISSED}: {miss.canary}: {miss.what}")
    for record in records:
        reason = reasons.get((_judge(record), record.rubric))
        answer = record.answer
        if reason is None or not isinstance(answer, Verdict):
            yield record
            continue
        absent = Unmeasured("invalid_evidence", reason, answer.measure, answer.step)
        yield msgspec.structs.replace(record, answer=absent)


def _watched(key: tuple[str, str, str, int], records: Iterable[Record], run: Known) -> Watched:
    answers = [record.answer for record in records]
    wrong = differences(run.expected[key[1]], answers)
    if wrong:
        return Watched(*key, "missed", "; ".join(wrong))
    answered = any(isinstance(answer, Verdict) for answer in answers)
    return Watched(*key, "held" if answered else "unanswered")


def _judge(record: Record) -> str:
    return record.judge.partition("@")[0]
