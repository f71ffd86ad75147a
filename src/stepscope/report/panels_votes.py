"""What each judge says of each run, as a yes, a no, or why neither: the votes of a panel.

A vote is about one aspect: of an axis whether it is incorrect, of step labels whether any step has
a label that speaks against the agent, of a behaviour whether it shows at any step. Uncertain is no
vote. A state check outranks a judge: praise of a run that failed is no vote either, but where the
question is about a part of the run, which can be right in a run that fails as a whole. Rules vote
on axes alone: of step labels they can say yes and never no, which is no vote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.measures.step_labels import NAME as STEP_LABELS
from stepscope.model import Record, Verdict
from stepscope.report.axes import INCORRECT
from stepscope.report.keys import AXES, UNCERTAIN
from stepscope.report.panels_types import Member
from stepscope.report.rows import Table
from stepscope.store.columns import ANSWERED, NO_RECORD, Texts, kind_of
from stepscope.store.judged import Judged, OfRun

RULES = "rules"
NOT_APPLICABLE = "not_applicable"
OUTRANKED = "outranked"
PRESENT = "present"
# The answers of an axis; a rubric with other answers is counted, not put before a panel.
AXIS_ANSWERS = frozenset({INCORRECT, "correct", UNCERTAIN, NOT_APPLICABLE})
# The step labels that speak against the agent.
AGAINST = ("ERROR", "REDUNDANT", "DETOUR")
# What a reason may begin with that is counted by that word, not by the kind of the absence.
WORDS = frozenset({
    "hallucinated_citation", "evidence_not_found", "refused", "filtered", "truncated", "off_menu",
    "out_of_range", "not_json", "missing_step", "duplicate_step", "extra_step", "wrong_type",
    "missing_field", "extra_field", "copied_from_trace", "too_long", "budget", "no_answer",
    "canary_missed", OUTRANKED,
})  # fmt: skip

# Rubrics that ask about a part of the run, and the one among them that asks about its end.
PARTS, THE_END = ("axes.", "quality."), "quality.final_answer"
# The agent's steps of each run, None where they are not known.
Acted = Sequence[frozenset[int] | None]

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Votes:
    """One judge on one aspect of the runs, aligned with them.

    Attributes:
        member: who.
        failing: the fault was found.
        answered: there is a yes or a no.
        why: why there is neither, None where there is, or where the judge was not asked.
        asked: the judge was asked about the run.
    """

    member: Member
    failing: Flags
    answered: Flags
    why: Texts
    asked: Flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Aspect:
    """One question of a rubric with all votes on it, models by name, then the rules."""

    rubric: str
    failing: str
    votes: tuple[Votes, ...]


def word(reason: str, kind: str) -> str:
    """Return what an absence is counted by: the word that its reason begins with, or its kind.

    >>> word("hallucinated_citation: step 99 of 26", "invalid_evidence"), word("why", "error")
    ('hallucinated_citation', 'error')
    """
    first = reason.partition(":")[0]
    return first if first in WORDS else kind


def aspects(table: Table, judged: Sequence[Judged], acted: Acted) -> Iterator[Aspect]:
    """Yield every aspect that a judge was asked about, by rubric, with the rules' votes beside.

    Labels of steps that are not the agent's, as `acted` knows them, speak against nobody.
    """
    by_rubric: dict[str, list[Judged]] = {}
    for one in judged:
        if one.main:
            by_rubric.setdefault(one.asked.measure, []).append(one)
    for rubric, judges in sorted(by_rubric.items()):
        labels = {label for one in judges for label in _labels(one)}
        if rubric == STEP_LABELS:
            for label in AGAINST:
                votes = [_votes(table, one, _labelled(label, acted)) for one in judges]
                yield Aspect(rubric=rubric, failing=label, votes=tuple(votes))
        elif rubric.partition(".")[0] == "behaviour":
            votes = [_votes(table, one, _present) for one in judges]
            yield Aspect(rubric=rubric, failing=PRESENT, votes=tuple(votes))
        elif labels <= AXIS_ANSWERS and (labels or rubric.startswith(PARTS)):
            of = _of_a_part if _about_a_part(rubric) else _of_the_whole
            votes = [_votes(table, one, of) for one in judges]
            yield Aspect(
                rubric=rubric, failing=INCORRECT, votes=(*votes, *_rules_axis(table, rubric))
            )


def _labels(one: Judged) -> Iterator[str]:
    for of_run in one.runs.values():
        record = of_run.verdict
        if record is not None and isinstance(record.answer, Verdict) and record.answer.label:
            yield record.answer.label


def _about_a_part(rubric: str) -> bool:
    return rubric.startswith(PARTS) and rubric != THE_END


# What a judge's answers about a run, at its place, come to: a yes, a no, or why neither.
Reading = Callable[[int, OfRun], bool | str]


def _votes(table: Table, one: Judged, read: Reading) -> Votes:
    n = len(table)
    failing, answered, asked = (np.zeros(n, np.bool_) for _ in range(3))
    why = np.full(n, None, np.object_)
    for at, of_run in one.runs.items():
        if not of_run.whole and not of_run.steps:
            continue
        asked[at] = True
        found = read(at, of_run)
        if isinstance(found, str):
            why[at] = found
        else:
            answered[at], failing[at] = True, found
    return Votes(member=member(one), failing=failing, answered=answered, why=why, asked=asked)


def member(one: Judged) -> Member:
    """Return who judged, and which answers are current."""
    return Member(
        judge=one.asked.judge,
        family=one.asked.family,
        mode=one.asked.mode,
        version=one.version,
        n_prompts=len(one.prompts),
        snapshots=dict(one.snapshots),
        older=dict(one.older),
    )


def _no_answer(record: Record | None) -> str | None:
    if record is None:
        return "missing_step"
    answer = record.answer
    return None if isinstance(answer, Verdict) else word(answer.reason, answer.kind)


def _of_a_part(at: int, of_run: OfRun) -> bool | str:
    record = of_run.verdict
    lost = _no_answer(record)
    if record is None or lost is not None or not isinstance(record.answer, Verdict):
        return lost or "error"
    label = record.answer.label or UNCERTAIN
    return label if label in (UNCERTAIN, NOT_APPLICABLE) else label == INCORRECT


def _of_the_whole(at: int, of_run: OfRun) -> bool | str:
    found = _of_a_part(at, of_run)
    return OUTRANKED if found is False and outranked(of_run.verdict) else found


def outranked(record: Record | None) -> bool:
    """Tell whether a verdict praises a run that is known to have failed."""
    return record is not None and record.answer.reason.startswith(f"{OUTRANKED}:")


def _labelled(wanted: str, acted: Acted) -> Reading:
    """Return what reads whether any of the agent's steps has a label."""
    return lambda at, of_run: _over_steps(of_run, wanted, acted[at])


def _present(at: int, of_run: OfRun) -> bool | str:
    return _over_steps(of_run, PRESENT, None)


def _over_steps(of_run: OfRun, wanted: str, within: frozenset[int] | None) -> bool | str:
    """Tell whether a step has a label; a step that could not be read leaves a no open."""
    steps = {
        at: record
        for at, record in of_run.steps.get(0, {}).items()
        if within is None or at in within
    }
    if any(isinstance(r.answer, Verdict) and r.answer.label == wanted for r in steps.values()):
        return True
    lost = _no_answer(of_run.verdict) if of_run.verdict is not None or not steps else None
    if lost is not None:
        return lost
    missing = (_no_answer(record) for record in steps.values())
    return next((why for why in missing if why is not None), False)


def _rules_axis(table: Table, rubric: str) -> Iterator[Votes]:
    """Yield what the rules say of an axis: where they are uncertain, they have no vote."""
    if rubric not in AXES or not table.scored(rubric):
        return
    column = table.columns[rubric]
    decided = np.isin(column.label.astype(str), (INCORRECT, "correct")) & column.answered
    why = np.full(len(table), None, np.object_)
    for at in np.flatnonzero(~decided & (column.state != NO_RECORD)).tolist():
        state = int(column.state[at])
        why[at] = str(column.label[at]) if state == ANSWERED else kind_of(state)
    yield Votes(
        member=_rules(column.versions),
        failing=decided & (column.label == INCORRECT),
        answered=decided,
        why=why,
        asked=column.state != NO_RECORD,
    )


def _rules(versions: Iterable[str]) -> Member:
    return Member(judge=RULES, family=RULES, version=", ".join(versions))
