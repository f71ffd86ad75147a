"""Replies in, answers out: the only place where what a judge wrote becomes a verdict.

The stop reason comes first, then strict JSON, types, menus and ranges, then citations, quotations
and whose words they are. What fails any of them is `Unmeasured` with a counted word, never a
score. A reply that does not fit its schema is asked for once more; a refusal, a cut answer and bad
evidence are not, because asking until something passes would choose the answer. The broken reply
is not shown to the judge again: it may be the trace's words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import msgspec

from stepscope.judges.believing_json import Disbelief
from stepscope.judges.believing_whole import OUTRANKED, outranked
from stepscope.judges.judgement import Ask, Outcome, key_of
from stepscope.model import Answer, Reply
from stepscope.values import Unmeasured

__all__ = ["OUTRANKED", "Believing", "Form", "outranked"]

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


class Form(Protocol[Part]):
    """How the replies of one kind of question are read."""

    def read(self, part: int, reply: Reply) -> Part:
        """Return what a reply to the ask `part` says. Raises Disbelief."""

    def faulty(self, read: Part) -> str:
        """Return the first word of what in it does not fit the schema, "" where all does."""

    def answers(self, parts: Sequence[Part | Unmeasured]) -> tuple[Answer, ...]:
        """Return the answers, given what each ask came to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Believing(Generic[Part]):
    """The `Belief` of a judgement: which asks were planned, and how their replies are read.

    Attributes:
        asks: as planned, in order.
        repeat: of the judgement: a repair is bought for each repeat.
        form: reads one kind of reply.
    """

    asks: tuple[Ask, ...]
    repeat: int
    form: Form[Part]

    def more(self, outcomes: Sequence[Outcome]) -> Ask | None:
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

    def answers(self, outcomes: Sequence[Outcome]) -> tuple[Answer, ...]:
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

    def _fault(self, outcome: Outcome | None, read: Part | Unmeasured) -> str:
        """Return what a judge can mend in its reply, "" where there is nothing to ask for."""
        if outcome is None or isinstance(outcome.reply, Unmeasured) or outcome.reply.stop != "end":
            return ""
        if not isinstance(read, Unmeasured):
            return self.form.faulty(read)
        return read.reason.partition(":")[0] if read.kind == "unparsable" else ""

    def _read(self, part: int, outcome: Outcome | None) -> Part | Unmeasured:
        if outcome is None:
            return Unmeasured("error", "no_answer: it was not asked")
        if isinstance(outcome.reply, Unmeasured):
            return outcome.reply
        try:
            return self.form.read(part, outcome.reply)
        except Disbelief as e:
            return e.about("")

    def _repair(self, ask: Ask, word: str) -> Ask:
        question = (
            f"{ask.request.question}\n\nAn earlier answer to this question could not be used: "
            f"{REPAIRS[word]}. Answer it anew, whole, in the form that the schema gives."
        )
        request = msgspec.structs.replace(ask.request, question=question)
        key = key_of(ask.judge, request, self.repeat)
        return Ask(key=key, judge=ask.judge, request=request)
