"""Answers about every step: labels, and a behaviour's presence; one bad step spoils no other.

Of a run in several windows the answers are joined: a step that was judged twice keeps the answer
that was given farther from a window's edge, and how often both agreed is an answer of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stepscope.judges.believing_evidence import Witness, hallucinated
from stepscope.judges.believing_json import Disbelief, Fields, object_of, shown, unparsable
from stepscope.judges.windows import Window, plan_of
from stepscope.model import Answer, Json, Reply, Verdict
from stepscope.values import Unmeasured

_LABEL_FIELDS = ("step", "explanation", "label", "score", "addresses")
_PRESENCE_FIELDS = ("step", "quote", "present")


class Entries(NamedTuple):
    """What one reply says of the steps of its window.

    Attributes:
        answers: by step, all steps of the window.
        extra: what it said of other steps, in words; "" where nothing.
        rationale: of the whole, where the kind has one.
    """

    answers: Mapping[int, Answer]
    extra: str
    rationale: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsForm:
    """How replies about every step of a run are read.

    Attributes:
        measure: the records' name.
        witness: what the judge saw.
        windows: of which each ask was about one, in order.
        seams: whether windows overlap, so that agreement on their seams is an answer.
    """

    measure: str
    witness: Witness
    windows: tuple[Window, ...]
    seams: bool

    def entries(
        self, part: int, listed: Sequence[Json], one: Callable[[int, Json], Answer], rationale: str
    ) -> Entries:
        """Return the answers of a list, each step of the window answered or absent."""
        window = self.windows[part]
        found: dict[int, list[Json]] = {}
        others: list[str] = []
        for item in listed:
            step = item.get("step") if isinstance(item, dict) else None
            if type(step) is int and window.first <= step < window.end:
                found.setdefault(step, []).append(item)
            else:
                others.append(shown(step if isinstance(item, dict) else item))
        answers: dict[int, Answer] = {}
        for step in range(window.first, window.end):
            items = found.get(step, [])
            try:
                if not items:
                    raise unparsable("missing_step", f"no answer about step {step}")
                if len(items) > 1:
                    raise unparsable("duplicate_step", f"step {step} answered {len(items)} times")
                answers[step] = one(step, items[0])
            except Disbelief as e:
                answers[step] = e.about(self.measure, step)
        extra = ""
        if others:
            extra = f"extra_step: answers about {', '.join(others[:5])}, which were not asked for"
        return Entries(answers, extra, rationale)

    def faulty(self, read: Entries) -> str:
        """Return the first word of what does not fit the schema, "" where all does."""
        reasons = [
            answer.reason
            for answer in read.answers.values()
            if isinstance(answer, Unmeasured) and answer.kind == "unparsable"
        ]
        return [*reasons, read.extra][0].partition(":")[0]

    def joined(self, parts: Sequence[Entries | Unmeasured]) -> dict[int, Answer]:
        """Return the answer about each step that was asked about, by step."""
        best: dict[int, tuple[bool, int, Answer]] = {}
        for window, part in zip(self.windows, parts, strict=True):
            for step in range(window.first, window.end):
                answer = self._answer(part, step)
                rank = (isinstance(answer, Verdict), window.inside(step, self.witness.steps))
                if step not in best or rank > best[step][:2]:
                    best[step] = (*rank, answer)
        return {step: best[step][2] for step in sorted(best)}

    def seam(self, parts: Sequence[Entries | Unmeasured]) -> Answer:
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
        plan = plan_of(self.windows)
        if not twice:
            return Unmeasured("undefined", f"no step was judged twice; {plan}", measure)
        reason = f"{alike} of {twice} steps judged twice have one label; {plan}"
        return Verdict(measure, value=alike / twice, reason=reason)

    def whole(self, parts: Sequence[Entries | Unmeasured]) -> Unmeasured | None:
        """Return why nothing can be said of the run as a whole, None where something can."""
        for part in parts:
            if isinstance(part, Entries) and part.extra:
                return Unmeasured("unparsable", part.extra, self.measure)
        if all(isinstance(answer, Unmeasured) for answer in self.joined(parts).values()):
            first = next(iter(self.joined(parts).values()))
            if isinstance(first, Unmeasured):
                return Unmeasured(first.kind, first.reason, self.measure)
        return None

    def _answer(self, part: Entries | Unmeasured, step: int) -> Answer:
        if isinstance(part, Unmeasured):
            return Unmeasured(part.kind, part.reason, self.measure, step)
        return part.answers[step]

    def left_out(self) -> str:
        """Return what was cut of the run before it was judged, in words."""
        lost = sum(window.context.left_out for window in self.windows)
        return f" ({lost} characters of the run were left out)" if lost else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsForm(StepsForm):
    """How labels of every step are read.

    Attributes:
        labels: the menu.
        alone: whether each step was judged without any other, so that none can be addressed.
    """

    labels: tuple[str, ...]
    alone: bool = False

    def read(self, part: int, reply: Reply) -> Entries:
        """Return what a reply says. Raises Disbelief."""
        fields = Fields(object_of(reply), ("steps",))
        self.witness.refuse_copied(fields.value)
        return self.entries(part, fields.listed("steps"), self._one, "")

    def _one(self, step: int, item: Json) -> Verdict:
        fields = Fields(item, _LABEL_FIELDS, f"the answer about step {step}")
        label = fields.menu("label", self.labels)
        score = fields.share("score")
        why = self.witness.own_words(fields.told("explanation"))
        cites: tuple[int, ...] = (step,)
        if fields.value["addresses"] is not None:
            addressed = fields.whole("addresses")
            if not 0 <= addressed < step:
                raise hallucinated(f"step {step} addresses {addressed}, which is no earlier step")
            if self.alone:
                raise hallucinated(f"step {step} addresses {addressed}, which was not shown")
            cites = (step, addressed)
            why = f"addresses {addressed}: {why}"
        return Verdict(self.measure, value=score, label=label, step=step, cites=cites, reason=why)

    def answers(self, parts: Sequence[Entries | Unmeasured]) -> tuple[Answer, ...]:
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
class PresenceForm(StepsForm):
    """How the presence of a behaviour in every step is read."""

    def read(self, part: int, reply: Reply) -> Entries:
        """Return what a reply says. Raises Disbelief."""
        fields = Fields(object_of(reply), ("steps", "rationale"))
        self.witness.refuse_copied(fields.value)
        rationale = self.witness.own_words(fields.told("rationale"))
        return self.entries(part, fields.listed("steps"), self._one, rationale)

    def _one(self, step: int, item: Json) -> Verdict:
        fields = Fields(item, _PRESENCE_FIELDS, f"the answer about step {step}")
        present, quote = fields.truth("present"), fields.told("quote")
        if not present:
            return Verdict(self.measure, label="absent", step=step, cites=(step,))
        if not self.witness.quoted(step, quote):
            what = f"no quotation of step {step} that is long enough"
            raise Disbelief("invalid_evidence", f"evidence_not_found: {what}")
        said = self.witness.fence.cleared(quote)
        return Verdict(self.measure, label="present", step=step, cites=(step,), reason=said)

    def answers(self, parts: Sequence[Entries | Unmeasured]) -> tuple[Answer, ...]:
        """Return the share of steps that show it, each step, and how windows agree."""
        steps = self.joined(parts)
        judged = [answer for answer in steps.values() if isinstance(answer, Verdict)]
        shows = [a.step for a in judged if a.label == "present" and a.step is not None]
        why = " ".join(p.rationale for p in parts if isinstance(p, Entries) and p.rationale)
        counted = f"{len(shows)} of {len(judged)} steps judged, of {len(steps)}"
        whole = self.whole(parts) or Verdict(
            self.measure,
            value=len(shows) / len(judged),
            cites=tuple(shows),
            reason=f"{counted}: {why}{self.left_out()}",
        )
        seams = (self.seam(parts),) if self.seams else ()
        return (whole, *steps.values(), *seams)
