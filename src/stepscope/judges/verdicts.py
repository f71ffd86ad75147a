"""Reply validation: the only place where a judge's reply becomes a verdict.

The stop reason comes first, then strict JSON, types, menus and ranges, then citations, quotations
and whose words they are. What fails any of them is `Unmeasured` with a counted word, never a
score. A reply that does not fit its schema is asked for once more; a refusal, a cut answer and bad
evidence are not, because asking until something passes would choose the answer. The broken reply
is not shown to the judge again: it may be the trace's words. One bad step of an answer about every
step spoils no other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from stepscope.judges.citations import SHORTEST_QUOTE, CitationChecker, citation_error
from stepscope.judges.judgement import AskOutcome
from stepscope.judges.replies import (
    InvalidReply,
    ReplyFields,
    display_value,
    parse_object,
    unparsable_reply,
)
from stepscope.judges.rubrics import FAULT_OWNERS
from stepscope.judges.transcript import Window, describe_windows
from stepscope.model import Answer, Json, Outcome, Reply, Verdict
from stepscope.model.records import NEUTRAL, OUTRANKED
from stepscope.models.dialect import Ask, reply_key
from stepscope.values import Unmeasured

# Answers that neither speak for the agent nor against it.

_AXIS_FIELDS = ("evidence", "cited_step_indices", "rationale", "label", "confidence")
_PART_FIELDS = ("evidence", "rationale", "part", "step", "whose", "confidence")
_SCORE_FIELDS = ("rationale", "score")


def mark_outranked(answer: Answer, outcome: Outcome, failing: Collection[str]) -> Answer:
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
class AxisParser:
    """How an answer on one axis of a run is read."""

    measure: str  # the record's name
    witness: CitationChecker  # what the judge saw
    labels: tuple[str, ...]  # the menu
    failing: tuple[str, ...]  # labels that need a citation and a quotation
    outcome: Outcome  # what is known of the run
    left_out: int = 0  # characters of the run that the judge did not see

    def read(self, part: int, reply: Reply) -> tuple[Answer, ...]:
        """Return what a reply says. Raises InvalidReply."""
        fields = ReplyFields(parse_object(reply), _AXIS_FIELDS)
        label = fields.menu("label", self.labels)
        confidence = fields.share("confidence")
        rationale = fields.told("rationale")
        listed, evidence = fields.listed("cited_step_indices"), fields.listed("evidence")
        self.witness.refuse_copied(fields.value)
        cites = self.witness.cites(listed)
        if label in self.failing and not cites:
            raise citation_error(f"{label} without a step")
        counted = self.witness.evidence(evidence)
        if label in self.failing and not counted:
            raise _unproven(label)
        why = self.witness.own_words(rationale) + _unmeasured_part(self.left_out)
        verdict = Verdict(self.measure, label=label, cites=cites, reason=why, confidence=confidence)
        return (mark_outranked(verdict, self.outcome, self.failing),)

    def faulty(self, read: tuple[Answer, ...]) -> str:
        """Return "": what does not fit is not read at all."""
        return ""

    def answers(self, parts: Sequence[tuple[Answer, ...] | Unmeasured]) -> tuple[Answer, ...]:
        """Return the answer on the axis."""
        return _single_part(parts[0], self.measure)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionParser:
    """How it is read which part of a failed run failed, where, and whose failure it was."""

    measure: str  # the records' name; the second has `.whose` added
    witness: CitationChecker  # what the judge saw
    labels: tuple[str, ...]  # the parts
    left_out: int = 0  # characters of the run that the judge did not see

    def read(self, part: int, reply: Reply) -> tuple[Answer, ...]:
        """Return what a reply says. Raises InvalidReply."""
        fields = ReplyFields(parse_object(reply), _PART_FIELDS)
        label, whose = fields.menu("part", self.labels), fields.menu("whose", FAULT_OWNERS)
        confidence = fields.share("confidence")
        rationale, evidence = fields.told("rationale"), fields.listed("evidence")
        self.witness.refuse_copied(fields.value)
        cites = (self.witness.step(fields.value["step"]),)
        if not self.witness.evidence(evidence):
            raise _unproven(label)
        why = self.witness.own_words(rationale) + _unmeasured_part(self.left_out)
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
        return (*_single_part(part, self.measure), *_single_part(part, f"{self.measure}.whose"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreParser:
    """How the score of one step against one sub-goal is read."""

    measure: str  # the record's name
    witness: CitationChecker  # what the judge saw, and more; it is never asked about other steps
    step: int  # which was scored

    def read(self, part: int, reply: Reply) -> tuple[Answer, ...]:
        """Return what a reply says. Raises InvalidReply."""
        fields = ReplyFields(parse_object(reply), _SCORE_FIELDS)
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
        return _single_part(parts[0], self.measure, self.step)


def _single_part(
    part: tuple[Answer, ...] | Unmeasured, measure: str, step: int | None = None
) -> tuple[Answer, ...]:
    if isinstance(part, Unmeasured):
        return (Unmeasured(part.kind, part.reason, measure, step),)
    return part


def _unproven(label: str) -> InvalidReply:
    what = f"{label} without a quotation of {SHORTEST_QUOTE} signs or more"
    return InvalidReply("invalid_evidence", f"evidence_not_found: {what}")


def _unmeasured_part(characters: int) -> str:
    return f" ({characters} characters of the run were left out)" if characters else ""


Part = TypeVar("Part")

# What a judge is told of an answer that did not fit, by the first word of the reason.
REPAIRS = {
    "not_json": "it was not one JSON object and nothing else",
    "wrong_type": "a field had a value of another type than the schema says",
    "missing_field": "a field was missing",
    "extra_field": "it had a field that the schema does not have",
    "off_menu": "an answer was not one of those that may be given, to the letter",
    "out_of_range": "a number was outside of its range",
    "missing_step": "a step that was asked about had no answer",
    "duplicate_step": "a step was answered more than once",
    "extra_step": "it answered about a step that was not asked about",
}


class AnswerParser(Protocol[Part]):
    """How the replies of one kind of question are read."""

    def read(self, part: int, reply: Reply) -> Part:
        """Return what a reply to the ask `part` says. Raises InvalidReply."""

    def faulty(self, read: Part) -> str:
        """Return the first word of what in it does not fit the schema, "" where all does."""

    def answers(self, parts: Sequence[Part | Unmeasured]) -> tuple[Answer, ...]:
        """Return the answers, given what each ask came to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaReplyReader(Generic[Part]):
    """The `ReplyReader` of a judgement: which asks were planned, and how their replies are read."""

    asks: tuple[Ask, ...]  # as planned, in order
    repeat: int  # of the judgement: a repair is bought for each repeat
    form: AnswerParser[Part]  # reads one kind of reply

    def more(self, outcomes: Sequence[AskOutcome]) -> Ask | None:
        """Return the repair of the first reply that does not fit its schema, None where all do."""
        known = {outcome.ask.key: outcome for outcome in outcomes}
        for part, ask in enumerate(self.asks):
            outcome = known.get(ask.key)
            word = self._fault(outcome, self._read(part, outcome))
            if word:
                repair = self._repair(ask, word)
                if repair.key not in known:
                    return repair
        return None

    def answers(self, outcomes: Sequence[AskOutcome]) -> tuple[Answer, ...]:
        """Return the answers; a repaired reply stands in for the one that did not fit."""
        known = {outcome.ask.key: outcome for outcome in outcomes}
        parts: list[Part | Unmeasured] = []
        for part, ask in enumerate(self.asks):
            outcome = known.get(ask.key)
            read = self._read(part, outcome)
            word = self._fault(outcome, read)
            repaired = known.get(self._repair(ask, word).key) if word else None
            # No answer to the repair leaves what the first reply came to.
            if repaired is not None and isinstance(repaired.reply, Reply):
                read = self._read(part, repaired)
            parts.append(read)
        return self.form.answers(parts)

    def _fault(self, outcome: AskOutcome | None, read: Part | Unmeasured) -> str:
        """Return what a judge can mend in its reply, "" where there is nothing to ask for."""
        if outcome is None or isinstance(outcome.reply, Unmeasured) or outcome.reply.stop != "end":
            return ""
        if not isinstance(read, Unmeasured):
            return self.form.faulty(read)
        return read.reason.partition(":")[0] if read.kind == "unparsable" else ""

    def _read(self, part: int, outcome: AskOutcome | None) -> Part | Unmeasured:
        if outcome is None:
            return Unmeasured("error", "no_answer: it was not asked")
        if isinstance(outcome.reply, Unmeasured):
            return outcome.reply
        try:
            return self.form.read(part, outcome.reply)
        except InvalidReply as e:
            return e.about("")

    def _repair(self, ask: Ask, word: str) -> Ask:
        question = (
            f"{ask.request.question}\n\nAn earlier answer to this question could not be used: "
            f"{REPAIRS[word]}. Answer it anew, whole, in the form that the schema gives."
        )
        request = msgspec.structs.replace(ask.request, question=question)
        key = reply_key(ask.model, request, self.repeat)
        return Ask(key=key, model=ask.model, request=request)


_LABEL_FIELDS = ("step", "explanation", "label", "score", "addresses")
_PRESENCE_FIELDS = ("step", "quote", "present")


class WindowAnswers(NamedTuple):
    """What one reply says of the steps of its window."""

    answers: Mapping[int, Answer]  # by step, all steps of the window
    extra: str  # what it said of other steps, in words; "" where nothing
    rationale: str  # of the whole, where the kind has one


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsParser:
    """How replies about every step of a run are read."""

    measure: str  # the records' name
    witness: CitationChecker  # what the judge saw
    windows: tuple[Window, ...]  # of which each ask was about one, in order
    seams: bool  # whether windows overlap, so that agreement on their seams is an answer

    def entries(
        self, part: int, listed: Sequence[Json], one: Callable[[int, Json], Answer], rationale: str
    ) -> WindowAnswers:
        """Return the answers of a list, each step of the window answered or absent."""
        window = self.windows[part]
        found: dict[int, list[Json]] = {}
        others: list[str] = []
        for item in listed:
            step = item.get("step") if isinstance(item, dict) else None
            if type(step) is int and window.first <= step < window.end:
                found.setdefault(step, []).append(item)
            else:
                others.append(display_value(step if isinstance(item, dict) else item))
        answers: dict[int, Answer] = {}
        for step in range(window.first, window.end):
            items = found.get(step, [])
            try:
                if not items:
                    raise unparsable_reply("missing_step", f"no answer about step {step}")
                if len(items) > 1:
                    raise unparsable_reply(
                        "duplicate_step", f"step {step} answered {len(items)} times"
                    )
                answers[step] = one(step, items[0])
            except InvalidReply as e:
                answers[step] = e.about(self.measure, step)
        extra = ""
        if others:
            extra = f"extra_step: answers about {', '.join(others[:5])}, which were not asked for"
        return WindowAnswers(answers, extra, rationale)

    def faulty(self, read: WindowAnswers) -> str:
        """Return the first word of what does not fit the schema, "" where all does."""
        reasons = [
            answer.reason
            for answer in read.answers.values()
            if isinstance(answer, Unmeasured) and answer.kind == "unparsable"
        ]
        return [*reasons, read.extra][0].partition(":")[0]

    def joined(self, parts: Sequence[WindowAnswers | Unmeasured]) -> dict[int, Answer]:
        """Return the answer about each step that was asked about, by step."""
        best: dict[int, tuple[bool, int, Answer]] = {}
        for window, part in zip(self.windows, parts, strict=True):
            for step in range(window.first, window.end):
                answer = self._answer(part, step)
                rank = (isinstance(answer, Verdict), window.inside(step, self.witness.steps))
                if step not in best or rank > best[step][:2]:
                    best[step] = (*rank, answer)
        return {step: best[step][2] for step in sorted(best)}

    def seam(self, parts: Sequence[WindowAnswers | Unmeasured]) -> Answer:
        """Return the share of steps judged twice on which both windows agree."""
        measure = f"{self.measure}.seams"
        twice = alike = 0
        for at in range(1, len(parts)):
            before, after = self.windows[at - 1], self.windows[at]
            for step in range(after.first, before.end):
                pair = (self._answer(parts[at - 1], step), self._answer(parts[at], step))
                labels = [answer.label for answer in pair if isinstance(answer, Verdict)]
                if len(labels) == len(pair):
                    twice += 1
                    alike += labels[0] == labels[1]
        plan = describe_windows(self.windows)
        if not twice:
            return Unmeasured("undefined", f"no step was judged twice; {plan}", measure)
        reason = f"{alike} of {twice} steps judged twice have one label; {plan}"
        return Verdict(measure, value=alike / twice, reason=reason)

    def whole(self, parts: Sequence[WindowAnswers | Unmeasured]) -> Unmeasured | None:
        """Return why nothing can be said of the run as a whole, None where something can."""
        for part in parts:
            if isinstance(part, WindowAnswers) and part.extra:
                return Unmeasured("unparsable", part.extra, self.measure)
        if all(isinstance(answer, Unmeasured) for answer in self.joined(parts).values()):
            first = next(iter(self.joined(parts).values()))
            if isinstance(first, Unmeasured):
                return Unmeasured(first.kind, first.reason, self.measure)
        return None

    def _answer(self, part: WindowAnswers | Unmeasured, step: int) -> Answer:
        if isinstance(part, Unmeasured):
            return Unmeasured(part.kind, part.reason, self.measure, step)
        return part.answers[step]

    def left_out(self) -> str:
        """Return what was cut of the run before it was judged, in words."""
        lost = sum(window.context.left_out for window in self.windows)
        return f" ({lost} characters of the run were left out)" if lost else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsParser(StepsParser):
    """How labels of every step are read."""

    labels: tuple[str, ...]  # the menu
    # whether each step was judged without any other, so that none can be addressed
    alone: bool = False

    def read(self, part: int, reply: Reply) -> WindowAnswers:
        """Return what a reply says. Raises InvalidReply."""
        fields = ReplyFields(parse_object(reply), ("steps",))
        self.witness.refuse_copied(fields.value)
        return self.entries(part, fields.listed("steps"), self._one, "")

    def _one(self, step: int, item: Json) -> Verdict:
        fields = ReplyFields(item, _LABEL_FIELDS, f"the answer about step {step}")
        label = fields.menu("label", self.labels)
        score = fields.share("score")
        why = self.witness.own_words(fields.told("explanation"))
        cites: tuple[int, ...] = (step,)
        if fields.value["addresses"] is not None:
            addressed = fields.whole("addresses")
            if not 0 <= addressed < step:
                raise citation_error(f"step {step} addresses {addressed}, which is no earlier step")
            if self.alone:
                raise citation_error(f"step {step} addresses {addressed}, which was not shown")
            cites = (step, addressed)
            why = f"addresses {addressed}: {why}"
        return Verdict(self.measure, value=score, label=label, step=step, cites=cites, reason=why)

    def answers(self, parts: Sequence[WindowAnswers | Unmeasured]) -> tuple[Answer, ...]:
        """Return how many steps were labelled, each label, and how windows agree."""
        steps = self.joined(parts)
        labels = Counter(a.label for a in steps.values() if isinstance(a, Verdict))
        told = ", ".join(f"{labels[label]} {label}" for label in self.labels if labels[label])
        reason = f"{labels.total()} of {len(steps)} steps labelled: {told}{self.left_out()}"
        whole = self.whole(parts) or Verdict(
            self.measure, value=float(labels.total()), reason=reason
        )
        seams = (self.seam(parts),) if self.seams else ()
        return (whole, *steps.values(), *seams)


@dataclass(frozen=True, slots=True, kw_only=True)
class PresenceParser(StepsParser):
    """How the presence of a behaviour in every step is read."""

    def read(self, part: int, reply: Reply) -> WindowAnswers:
        """Return what a reply says. Raises InvalidReply."""
        fields = ReplyFields(parse_object(reply), ("steps", "rationale"))
        self.witness.refuse_copied(fields.value)
        rationale = self.witness.own_words(fields.told("rationale"))
        return self.entries(part, fields.listed("steps"), self._one, rationale)

    def _one(self, step: int, item: Json) -> Verdict:
        fields = ReplyFields(item, _PRESENCE_FIELDS, f"the answer about step {step}")
        present, quote = fields.truth("present"), fields.told("quote")
        if not present:
            return Verdict(self.measure, label="absent", step=step, cites=(step,))
        if not self.witness.quoted(step, quote):
            what = f"no quotation of step {step} that is long enough"
            raise InvalidReply("invalid_evidence", f"evidence_not_found: {what}")
        said = self.witness.fence.cleared(quote)
        return Verdict(self.measure, label="present", step=step, cites=(step,), reason=said)

    def answers(self, parts: Sequence[WindowAnswers | Unmeasured]) -> tuple[Answer, ...]:
        """Return the share of steps that show it, each step, and how windows agree."""
        steps = self.joined(parts)
        judged = [answer for answer in steps.values() if isinstance(answer, Verdict)]
        shows = [a.step for a in judged if a.label == "present" and a.step is not None]
        why = " ".join(p.rationale for p in parts if isinstance(p, WindowAnswers) and p.rationale)
        counted = f"{len(shows)} of {len(judged)} steps judged, of {len(steps)}"
        whole = self.whole(parts) or Verdict(
            self.measure,
            value=len(shows) / len(judged),
            cites=tuple(shows),
            reason=f"{counted}: {why}{self.left_out()}",
        )
        seams = (self.seam(parts),) if self.seams else ()
        return (whole, *steps.values(), *seams)
