"""Answers about a whole run, or one step alone: an axis, a failure's place and owner, a score."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from stepscope.judges.believing_evidence import SHORTEST_QUOTE, Witness, hallucinated
from stepscope.judges.believing_json import Disbelief, Fields, object_of
from stepscope.judges.schemas import WHOSE
from stepscope.model import Answer, Outcome, Reply, Verdict
from stepscope.values import Unmeasured

# How the reason of a verdict begins that a state check contradicts.
OUTRANKED = "outranked: "
# Answers that neither speak for the agent nor against it.
NEUTRAL = ("uncertain", "not_applicable")

_AXIS_FIELDS = ("evidence", "cited_step_indices", "rationale", "label", "confidence")
_PART_FIELDS = ("evidence", "rationale", "part", "step", "whose", "confidence")
_SCORE_FIELDS = ("rationale", "score")


def outranked(answer: Answer, outcome: Outcome, failing: Collection[str]) -> Answer:
    """Return a verdict marked where it praises a run that is known to have failed.

    A state check, a reward or a person's label outranks a judge: the verdict is kept, and its
    reason begins with `OUTRANKED`, so that no report counts it as a pass.

    Args:
        answer: what a judge said.
        outcome: whether the run worked, and who says so.
        failing: the labels that speak against the agent.
    """
    if not isinstance(answer, Verdict) or answer.step is not None or answer.label is None:
        return answer
    known = outcome.status == "fail" and outcome.source != "none"
    if not known or answer.label in failing or answer.label in NEUTRAL:
        return answer
    if answer.reason.startswith(OUTRANKED):
        return answer
    why = f"{OUTRANKED}the run failed by its {outcome.source}; {answer.reason}"
    return Verdict(
        answer.measure,
        value=answer.value,
        label=answer.label,
        cites=answer.cites,
        reason=why,
        confidence=answer.confidence,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisForm:
    """How an answer on one axis of a run is read.

    Attributes:
        measure: the record's name.
        witness: what the judge saw.
        labels: the menu.
        failing: labels that need a citation and a quotation.
        outcome: what is known of the run.
        left_out: characters of the run that the judge did not see.
    """

    measure: str
    witness: Witness
    labels: tuple[str, ...]
    failing: tuple[str, ...]
    outcome: Outcome
    left_out: int = 0

    def read(self, part: int, reply: Reply) -> tuple[Answer, ...]:
        """Return what a reply says. Raises Disbelief."""
        fields = Fields(object_of(reply), _AXIS_FIELDS)
        label = fields.menu("label", self.labels)
        confidence = fields.share("confidence")
        rationale = fields.told("rationale")
        listed, evidence = fields.listed("cited_step_indices"), fields.listed("evidence")
        self.witness.refuse_copied(fields.value)
        cites = self.witness.cites(listed)
        if label in self.failing and not cites:
            raise hallucinated(f"{label} without a step")
        counted = self.witness.evidence(evidence)
        if label in self.failing and not counted:
            raise _unproven(label)
        why = self.witness.own_words(rationale) + _lost(self.left_out)
        verdict = Verdict(self.measure, label=label, cites=cites, reason=why, confidence=confidence)
        return (outranked(verdict, self.outcome, self.failing),)

    def faulty(self, read: tuple[Answer, ...]) -> str:
        """Return "": what does not fit is not read at all."""
        return ""

    def answers(self, parts: Sequence[tuple[Answer, ...] | Unmeasured]) -> tuple[Answer, ...]:
        """Return the answer on the axis."""
        return _one(parts[0], self.measure)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionForm:
    """How it is read which part of a failed run failed, where, and whose failure it was.

    Attributes:
        measure: the records' name; the second has `.whose` added.
        witness: what the judge saw.
        labels: the parts.
        left_out: characters of the run that the judge did not see.
    """

    measure: str
    witness: Witness
    labels: tuple[str, ...]
    left_out: int = 0

    def read(self, part: int, reply: Reply) -> tuple[Answer, ...]:
        """Return what a reply says. Raises Disbelief."""
        fields = Fields(object_of(reply), _PART_FIELDS)
        label, whose = fields.menu("part", self.labels), fields.menu("whose", WHOSE)
        confidence = fields.share("confidence")
        rationale, evidence = fields.told("rationale"), fields.listed("evidence")
        self.witness.refuse_copied(fields.value)
        cites = (self.witness.step(fields.value["step"]),)
        if not self.witness.evidence(evidence):
            raise _unproven(label)
        why = self.witness.own_words(rationale) + _lost(self.left_out)
        return tuple(
            Verdict(measure, label=said, cites=cites, reason=why, confidence=confidence)
            for measure, said in ((self.measure, label), (f"{self.measure}.whose", whose))
        )

    def faulty(self, read: tuple[Answer, ...]) -> str:
        """Return "": what does not fit is not read at all."""
        return ""

    def answers(self, parts: Sequence[tuple[Answer, ...] | Unmeasured]) -> tuple[Answer, ...]:
        """Return which part failed, and whose failure it was."""
        part = parts[0]
        if isinstance(part, tuple):
            return part
        return (*_one(part, self.measure), *_one(part, f"{self.measure}.whose"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreForm:
    """How the score of one step against one sub-goal is read.

    Attributes:
        measure: the record's name.
        witness: what the judge saw, and more; it is never asked about other steps.
        step: which was scored.
    """

    measure: str
    witness: Witness
    step: int

    def read(self, part: int, reply: Reply) -> tuple[Answer, ...]:
        """Return what a reply says. Raises Disbelief."""
        fields = Fields(object_of(reply), _SCORE_FIELDS)
        score, rationale = fields.share("score"), fields.told("rationale")
        self.witness.refuse_copied(fields.value)
        why = self.witness.own_words(rationale)
        cites = (self.step,)
        return (Verdict(self.measure, value=score, step=self.step, cites=cites, reason=why),)

    def faulty(self, read: tuple[Answer, ...]) -> str:
        """Return "": what does not fit is not read at all."""
        return ""

    def answers(self, parts: Sequence[tuple[Answer, ...] | Unmeasured]) -> tuple[Answer, ...]:
        """Return the score."""
        return _one(parts[0], self.measure, self.step)


def _one(
    part: tuple[Answer, ...] | Unmeasured, measure: str, step: int | None = None
) -> tuple[Answer, ...]:
    if isinstance(part, Unmeasured):
        return (Unmeasured(part.kind, part.reason, measure, step),)
    return part


def _unproven(label: str) -> Disbelief:
    what = f"{label} without a quotation of {SHORTEST_QUOTE} signs or more"
    return Disbelief("invalid_evidence", f"evidence_not_found: {what}")


def _lost(characters: int) -> str:
    return f" ({characters} characters of the run were left out)" if characters else ""
