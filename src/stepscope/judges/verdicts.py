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
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from stepscope.judges import citations
from stepscope.judges.citations import CitationChecker, InvalidReply, ReplyFields
from stepscope.judges.judgement import Replies
from stepscope.judges.rubrics import FAULT_OWNERS, Rubric
from stepscope.judges.transcript import Window, describe_windows
from stepscope.model import Answer, Json, Outcome, Reply, Verdict, records
from stepscope.models.dialect import Ask, reply_key
from stepscope.values import Unmeasured

_AXIS_FIELDS = ("evidence", "cited_step_indices", "rationale", "label", "confidence")
_PART_FIELDS = ("evidence", "rationale", "part", "step", "whose", "confidence")
_SCORE_FIELDS = ("rationale", "score")
_LABEL_FIELDS = ("step", "quote", "explanation", "label", "score", "addresses")
_PRESENCE_FIELDS = ("step", "quote", "present")

# What one reply comes to: its answers, in an answer about every step the one about all of them
# first; or why there are none.
Part = tuple[Answer, ...] | Unmeasured


def mark_outranked(answer: Answer, outcome: Outcome, failing: Collection[str]) -> Answer:
    """Return a verdict marked where it praises a run that is known to have failed.

    A state check, a reward or a person's label (one of `failing` speaks against the agent) outranks
    a judge: the verdict is kept, but its reason begins with `OUTRANKED`, and it counts as no pass.
    """
    if not isinstance(answer, Verdict) or answer.step is not None or answer.label is None:
        return answer
    known = outcome.status == "fail" and outcome.source != "none"
    marked = answer.reason.startswith(records.OUTRANKED)
    if not known or marked or answer.label in failing or answer.label in records.NEUTRAL:
        return answer
    reason = f"{records.OUTRANKED}the run failed by its {outcome.source}; {answer.reason}"
    return msgspec.structs.replace(answer, reason=reason)


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
    "disagreement": "its evidence quoted other steps than its cited_step_indices named",
}


_UNQUOTED = f" without a quotation of {citations.SHORTEST_QUOTE} signs or more"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaReplyReader:
    """The `ReplyReader` of a judgement: what was asked, what the judge saw, what it may answer."""

    asks: tuple[Ask, ...]  # as planned, in order
    repeat: int  # of the judgement: a repair is bought for each repeat
    measure: str  # the records' name
    rubric: Rubric  # by which is asked: the kind of the reply and its menu
    witness: CitationChecker  # what the judge saw
    windows: tuple[Window, ...]  # the steps that each ask is about, in order
    outcome: Outcome  # what is known of the run
    alone: bool = False  # each step was judged without any other, so that none can be addressed

    def more(self, replies: Replies) -> Ask | None:
        """Return the repair of the first reply that does not fit its schema, None where all do."""
        for at, ask in enumerate(self.asks):
            reply = replies.get(ask.key)
            word = _fault(reply, self._read(at, reply))
            if word:
                repair = self._repair(ask, word)
                if repair.key not in replies:
                    return repair
        return None

    def answers(self, replies: Replies) -> tuple[Answer, ...]:
        """Return the answers; a repaired reply stands in for the one that did not fit."""
        parts: list[Part] = []
        for at, ask in enumerate(self.asks):
            reply = replies.get(ask.key)
            part = self._read(at, reply)
            word = _fault(reply, part)
            repaired = replies.get(self._repair(ask, word).key) if word else None
            # No answer to the repair leaves what the first reply came to.
            parts.append(self._read(at, repaired) if isinstance(repaired, Reply) else part)
        if self.rubric.kind in {"labels", "presence"}:
            return self._join_windows(parts)
        if isinstance(parts[0], tuple):
            return parts[0]
        names = [self.measure]
        if self.rubric.kind == "attribution":
            names.append(f"{self.measure}.whose")
        step = self.windows[0].first if self.rubric.kind == "score" else None
        return tuple(Unmeasured(parts[0].kind, parts[0].reason, name, step) for name in names)

    def _repair(self, ask: Ask, word: str) -> Ask:
        question = (
            f"{ask.request.question}\n\nAn earlier answer to this question could not be used: "
            f"{REPAIRS[word]}. Answer it anew, whole, in the form that the schema gives."
        )
        request = msgspec.structs.replace(ask.request, question=question)
        return Ask(key=reply_key(ask.model, request, self.repeat), model=ask.model, request=request)

    def _read(self, at: int, reply: Reply | Unmeasured | None) -> Part:
        """Return what the reply to the ask `at` comes to."""
        if reply is None:
            return Unmeasured("error", "no_answer: it was not asked")
        if isinstance(reply, Unmeasured):
            return reply
        try:
            match self.rubric.kind:
                case "axis":
                    return self._read_axis(reply)
                case "attribution":
                    return self._read_attribution(reply)
                case "score":
                    return self._read_score(reply)
                case "labels":
                    fields = ReplyFields(citations.parse_object(reply), ("steps",))
                    self.witness.refuse_copied(fields.value)
                    listed = fields.get("steps", list)
                    return self._read_steps(self.windows[at], listed, self._read_label, "")
                case "presence":
                    return self._read_presence(self.windows[at], reply)
        except InvalidReply as e:
            return e.about("")

    def _read_axis(self, reply: Reply) -> Part:
        fields = ReplyFields(citations.parse_object(reply), _AXIS_FIELDS)
        label = fields.menu("label", self.rubric.answers)
        confidence = fields.share("confidence")
        rationale = fields.told("rationale")
        listed, evidence = fields.get("cited_step_indices", list), fields.get("evidence", list)
        self.witness.refuse_copied(fields.value)
        cites = self.witness.cites(listed)
        failing = label in self.rubric.failing
        if failing and not cites:
            raise citations.citation_error(f"{label} without a step")
        quoted = self.witness.evidence(evidence)
        if not any(quoted.values()) and failing:
            raise citations.evidence_error(f"{label}{_UNQUOTED}")
        if set(quoted) != set(cites):
            what = f"quotes steps {_listed(quoted)} and cites {_listed(cites)}"
            raise citations.unparsable_reply("disagreement", what)
        why = self.witness.own_words(rationale) + self._left_out()
        verdict = Verdict(self.measure, label=label, cites=cites, reason=why, confidence=confidence)
        return (mark_outranked(verdict, self.outcome, self.rubric.failing),)

    def _read_attribution(self, reply: Reply) -> Part:
        fields = ReplyFields(citations.parse_object(reply), _PART_FIELDS)
        label, whose = fields.menu("part", self.rubric.answers), fields.menu("whose", FAULT_OWNERS)
        confidence = fields.share("confidence")
        rationale, evidence = fields.told("rationale"), fields.get("evidence", list)
        self.witness.refuse_copied(fields.value)
        cites = (self.witness.step(fields.value["step"]),)
        if not any(self.witness.evidence(evidence).values()):
            raise citations.evidence_error(f"{label}{_UNQUOTED}")
        why = self.witness.own_words(rationale) + self._left_out()
        return tuple(
            Verdict(measure, label=said, cites=cites, reason=why, confidence=confidence)
            for measure, said in ((self.measure, label), (f"{self.measure}.whose", whose))
        )

    def _read_score(self, reply: Reply) -> Part:
        fields = ReplyFields(citations.parse_object(reply), _SCORE_FIELDS)
        score, rationale = fields.share("score"), fields.told("rationale")
        self.witness.refuse_copied(fields.value)
        why, step = self.witness.own_words(rationale), self.windows[0].first
        return (Verdict(self.measure, value=score, step=step, cites=(step,), reason=why),)

    def _read_label(self, step: int, item: Json) -> Verdict:
        fields = ReplyFields(item, _LABEL_FIELDS, f"the answer about step {step}")
        label = fields.menu("label", self.rubric.answers)
        score, quote = fields.share("score"), fields.told("quote")
        why = self.witness.own_words(fields.told("explanation"))
        if not self.witness.quoted(step, quote, results=True) and label in self.rubric.failing:
            raise citations.evidence_error(f"{label} of step {step}{_UNQUOTED}")
        cites: tuple[int, ...] = (step,)
        if fields.value["addresses"] is not None:
            said = fields.get("addresses", int)
            if said >= step or said not in self.witness.copy.acted:
                raise citations.citation_error(
                    f"step {step} addresses {said}, which is no earlier step of the agent"
                )
            if self.alone:
                raise citations.citation_error(f"step {step} addresses {said}, which was not shown")
            cites = (step, said)
            why = f"addresses {said}: {why}"
        return Verdict(self.measure, value=score, label=label, step=step, cites=cites, reason=why)

    def _read_presence(self, window: Window, reply: Reply) -> Part:
        fields = ReplyFields(citations.parse_object(reply), ("steps", "rationale"))
        self.witness.refuse_copied(fields.value)
        rationale = self.witness.own_words(fields.told("rationale"))
        return self._read_steps(window, fields.get("steps", list), self._read_present, rationale)

    def _read_present(self, step: int, item: Json) -> Verdict:
        fields = ReplyFields(item, _PRESENCE_FIELDS, f"the answer about step {step}")
        present, quote = fields.get("present", bool), fields.told("quote")
        if not present:
            return Verdict(self.measure, label="absent", step=step, cites=(step,))
        if not self.witness.quoted(step, quote):
            raise citations.evidence_error(f"no quotation of step {step} that is long enough")
        said = self.witness.fence.cleared(quote)
        return Verdict(self.measure, label="present", step=step, cites=(step,), reason=said)

    def _read_steps(
        self,
        window: Window,
        listed: Sequence[Json],
        read: Callable[[int, Json], Answer],
        rationale: str,
    ) -> Part:
        """Return the rationale, or what was said of other steps, then each step of a window."""
        found: dict[int, list[Json]] = {}
        others: list[str] = []
        for item in listed:
            step = item.get("step") if isinstance(item, dict) else None
            if type(step) is int and step in window.asked:
                found.setdefault(step, []).append(item)
            else:
                others.append(citations.display_value(step if isinstance(item, dict) else item))
        answers: list[Answer] = [Verdict(self.measure, reason=rationale)]
        if others:
            extra = f"extra_step: answers about {', '.join(others[:5])}, which were not asked for"
            answers = [Unmeasured("unparsable", extra, self.measure)]
        for step in window.asked:
            items = found.get(step, [])
            try:
                if not items:
                    raise citations.unparsable_reply("missing_step", f"no answer about step {step}")
                if len(items) > 1:
                    what = f"step {step} answered {len(items)} times"
                    raise citations.unparsable_reply("duplicate_step", what)
                answers.append(read(step, items[0]))
            except InvalidReply as e:
                answers.append(e.about(self.measure, step))
        return tuple(answers)

    def _join_windows(self, parts: Sequence[Part]) -> tuple[Answer, ...]:
        """Return the answer about the whole run, each step's, and how windows agree."""
        best: dict[int, tuple[bool, int, Answer]] = {}
        for window, part in zip(self.windows, parts, strict=True):
            for step in window.asked:
                answer = self._answer(window, part, step)
                rank = (isinstance(answer, Verdict), window.inside(step, self.witness.steps))
                if step not in best or rank > best[step][:2]:
                    best[step] = (*rank, answer)
        steps = [best[step][2] for step in sorted(best)]
        judged = [answer for answer in steps if isinstance(answer, Verdict)]
        said = [part[0] for part in parts if isinstance(part, tuple)]
        extra = [one for one in said if isinstance(one, Unmeasured)]
        whole: Answer
        if extra:
            whole = extra[0]
        elif not judged and isinstance(steps[0], Unmeasured):
            whole = Unmeasured(steps[0].kind, steps[0].reason, self.measure)
        elif self.rubric.kind == "labels":
            labels = Counter(one.label for one in judged)
            told = ", ".join(f"{labels[one]} {one}" for one in self.rubric.answers if labels[one])
            reason = f"{len(judged)} of {len(steps)} steps labelled: {told}{self._left_out()}"
            whole = Verdict(self.measure, value=float(len(judged)), reason=reason)
        else:
            present = [one for one in judged if one.label == "present"]
            shows = tuple(one.step for one in present if one.step is not None)
            why = " ".join(one.reason for one in said if one.reason)
            counted = f"{len(shows)} of {len(judged)} steps judged, of {len(steps)}"
            reason = f"{counted}: {why}{self._left_out()}"
            share = len(shows) / len(judged)
            whole = Verdict(self.measure, value=share, cites=shows, reason=reason)
        # Windows overlap, so that agreement on their seams is an answer.
        pairs = pairwise(self.windows)
        shared = any(not set(one.asked).isdisjoint(other.asked) for one, other in pairs)
        seams = (self._seam(parts),) if shared else ()
        return (whole, *steps, *seams)

    def _seam(self, parts: Sequence[Part]) -> Answer:
        measure = f"{self.measure}{records.SEAMS_SUFFIX}"
        twice = alike = 0
        for (before, first), (after, second) in pairwise(zip(self.windows, parts, strict=True)):
            for step in sorted({*before.asked} & {*after.asked}):
                pair = self._answer(before, first, step), self._answer(after, second, step)
                labels = [answer.label for answer in pair if isinstance(answer, Verdict)]
                if len(labels) == len(pair):
                    twice += 1
                    alike += labels[0] == labels[1]
        plan = describe_windows(self.windows)
        if not twice:
            return Unmeasured("undefined", f"no step was judged twice; {plan}", measure)
        reason = f"{alike} of {twice} steps judged twice have one label; {plan}"
        return Verdict(measure, value=alike / twice, reason=reason)

    def _answer(self, window: Window, part: Part, step: int) -> Answer:
        if isinstance(part, Unmeasured):
            return Unmeasured(part.kind, part.reason, self.measure, step)
        return part[1 + window.asked.index(step)]

    def _left_out(self) -> str:
        lost = sum(window.left_out for window in self.windows)
        return f" ({lost} characters of the run were left out)" if lost else ""


def _listed(steps: Collection[int]) -> str:
    return ", ".join(map(str, sorted(steps))) or "none"


def _fault(reply: Reply | Unmeasured | None, part: Part) -> str:
    """Return the first word of what a judge can mend in its reply, "" where there is nothing."""
    if not isinstance(reply, Reply) or reply.stop != "end":
        return ""
    answers = [part] if isinstance(part, Unmeasured) else [*part[1:], part[0]]
    absent = (one for one in answers if isinstance(one, Unmeasured) and one.kind == "unparsable")
    return next((one.reason.partition(":")[0] for one in absent), "")
