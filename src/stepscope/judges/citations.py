"""Citations are checked: the cited step exists, and the quotation stands in that step.

A citation is the index of a step that the judge saw. A quotation must stand in the step that it is
said to be of, blanks, JSON escapes, marks and typographic signs aside. An answer whose words stand
in the run was not given by the judge but copied from the run, and is refused.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from stepscope.judges.replies import InvalidReply, ReplyFields, display_value
from stepscope.judges.transcript import Fence, Transcript, fold_text
from stepscope.model import Json

# A quotation shorter than this is found in too many steps to be evidence of anything.
SHORTEST_QUOTE = 8
# A rationale of this length that stands in the run word for word was not thought of by chance.
COPIED_CHARACTERS = 32


@dataclass(frozen=True, slots=True)
class CitationChecker:
    """What a judge saw: the copy of the run, and the fence around it."""

    copy: Transcript
    fence: Fence

    @property
    def steps(self) -> int:
        """How many steps the run has."""
        return len(self.copy.steps)

    def cites(self, value: Sequence[Json]) -> tuple[int, ...]:
        """Return cited steps, sorted, each once.

        Raises:
            InvalidReply: one is no whole number, or no step of the run.
        """
        return tuple(sorted({self.step(one) for one in value}))

    def step(self, value: Json) -> int:
        """Return a cited step. Raises InvalidReply, as `cites` does."""
        if type(value) is not int:
            raise citation_error(f"{display_value(value)} is not the index of a step")
        if not 0 <= value < self.steps:
            raise citation_error(f"step {value} of a run of {self.steps} steps")
        return value

    def evidence(self, value: Sequence[Json]) -> int:
        """Return how many quotations are long enough to count; all of them stand where they should.

        Raises:
            InvalidReply: one is of no step, or does not stand in its step.
        """
        counted = 0
        for number, item in enumerate(value):
            fields = ReplyFields(item, ("step", "quote"), f"evidence {number}")
            quote = fields.text("quote")
            step = self.step(fields.value["step"])
            counted += self.quoted(step, quote)
        return counted

    def quoted(self, step: int, quote: str) -> bool:
        """Tell whether a quotation counts as evidence.

        Raises:
            InvalidReply: it does not stand in the step.
        """
        words = _strip_quotes(self.fence.cleared(quote))
        if words and words not in self.copy.folded(step):
            what = f"{display_value(self.fence.cleared(quote))} does not stand in step {step}"
            raise InvalidReply("invalid_evidence", f"evidence_not_found: {what}")
        return len(words) >= SHORTEST_QUOTE

    def refuse_copied(self, said: dict[str, Json]) -> None:
        """Refuse an answer that stands in a step, its fields in whatever order.

        Raises:
            InvalidReply: it does.
        """
        fields = [
            fold_text(self.fence.cleared(json.dumps({name: value}, ensure_ascii=False)[1:-1]))
            for name, value in said.items()
        ]
        self._refuse(fields, "the answer")

    def own_words(self, rationale: str) -> str:
        """Return what a judge gives as its reason, without fence and marks.

        Raises:
            InvalidReply: the words are the run's.
        """
        cleared = self.fence.cleared(rationale)
        words = _strip_quotes(cleared).rstrip(".!?")
        if len(words) >= COPIED_CHARACTERS:
            self._refuse([words], "the rationale")
        return cleared

    def _refuse(self, words: Sequence[str], what: str) -> None:
        for step in range(self.steps):
            text = self.copy.folded(step)
            if all(word in text for word in words):
                reason = f"copied_from_trace: {what} stands word for word in step {step}"
                raise InvalidReply("invalid_evidence", reason)


def citation_error(what: str) -> InvalidReply:
    """Return the error of a citation that points nowhere."""
    return InvalidReply("invalid_evidence", f"hallucinated_citation: {what}")


def _strip_quotes(text: str) -> str:
    """Return a quotation without the signs that judges put around one.

    >>> _strip_quotes('"... refund of $5 ..."')
    'refundof$5'
    """
    words = fold_text(text)
    while True:
        bare = words.removeprefix("...").removesuffix("...")
        if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "\"'`":
            bare = bare[1:-1]
        if bare == words:
            return bare
        words = bare
