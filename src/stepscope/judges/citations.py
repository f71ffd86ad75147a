"""Which parts of a reply hold: strict fields, cited steps that exist, quotations that stand there.

A reply is one JSON object with exactly the fields of its schema; one that ended early, is not JSON
to the letter, or holds another type than was asked for raises `InvalidReply`. Nothing is converted:
true is not 1, "0.9" is not 0.9, 1.0 is not the step 1. A citation is the index of a step that the
judge saw. A quotation must stand in the step that it is said to be of, blanks, JSON escapes, marks,
typographic signs and the notation of calls aside. An answer whose words stand in the run was not
given by the judge but copied from the run, and is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from stepscope.judges.transcript import Fence, Transcript, fold_call, fold_text
from stepscope.model import Json, Reply
from stepscope.safety.text import visible, visible_line
from stepscope.values import Unmeasured, UnmeasuredKind

T = TypeVar("T")

# Whole numbers longer than this are no step and no score.
_MOST_DIGITS = 15
# Of a value that is quoted in a reason.
_SHOWN_CHARACTERS = 80
# Of a rationale that is kept.
MOST_RATIONALE_CHARACTERS = 2_000
_CODE_FENCE = re.compile(r"\s*```(?:json)?[ \t]*\n(.*)\n```\s*", re.DOTALL)
# A quotation shorter than this is found in too many steps to be evidence of anything.
SHORTEST_QUOTE = 8
# A rationale of this length that stands in the run word for word was not thought of by chance.
COPIED_CHARACTERS = 32


class InvalidReply(Exception):
    """A reply, or a part of one, is invalid: which kind, and a counted word with a reason."""

    def __init__(self, kind: UnmeasuredKind, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason

    def about(self, measure: str, step: int | None = None) -> Unmeasured:
        """Return it as the absence of an answer."""
        return Unmeasured(self.kind, self.reason, measure, step)


def unparsable_reply(word: str, what: str) -> InvalidReply:
    """Return the error of an answer that does not fit its schema."""
    return InvalidReply("unparsable", f"{word}: {what}")


def display_value(value: Json) -> str:
    """Return a value of a reply, fit for one line of a reason."""
    return visible_line(repr(value)[:_SHOWN_CHARACTERS])


def parse_object(reply: Reply) -> dict[str, Json]:
    """Return the object that a reply is; `InvalidReply` where it was cut or is no object."""
    _refuse_stop(reply)
    text = reply.text
    if reply.structure == "prompt_only" and (wrapped := _CODE_FENCE.fullmatch(text)):
        # Models that are only told the schema wrap what they write.
        text = wrapped[1]
    try:
        held = json.loads(text, object_pairs_hook=_object, parse_constant=_constant, parse_int=_int)
    except json.JSONDecodeError as e:
        raise unparsable_reply("not_json", f"{e.msg} at character {e.pos} of {len(text)}") from e
    except RecursionError as e:
        raise unparsable_reply("not_json", "containers inside each other without end") from e
    if not isinstance(held, dict):
        raise unparsable_reply("wrong_type", f"{_type_words(held)}, not an object")
    return held


def _refuse_stop(reply: Reply) -> None:
    said = visible_line(reply.text[:_SHOWN_CHARACTERS])
    match reply.stop:
        case "end":
            return
        case "refusal":
            raise InvalidReply("refused", f"refused: {said or 'without a word'}")
        case "filter":
            raise InvalidReply("refused", f"filtered: {said or 'nothing was let through'}")
        case "length":
            raise unparsable_reply("truncated", f"cut off after {len(reply.text)} characters")
        case _:
            why = f"the model stopped for another reason ({reply.stop})"
            raise unparsable_reply("not_json", why)


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise unparsable_reply("not_json", "a key twice in one object")
    return value


def _constant(text: str) -> Json:
    raise unparsable_reply("not_json", f"{text} is no number of JSON")


def _int(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise unparsable_reply("out_of_range", f"a whole number of {len(text)} characters")
    return int(text)


class ReplyFields:
    """The fields of one object of an answer, taken out by type."""

    def __init__(self, value: Json, names: Collection[str], where: str = "the answer") -> None:
        """Take an object with exactly these names."""
        if not isinstance(value, dict):
            raise unparsable_reply("wrong_type", f"{where} is {_type_words(value)}, not an object")
        for name in names:
            if name not in value:
                raise unparsable_reply("missing_field", f"{where} has no {name}")
        for name in value:
            if name not in names:
                why = f"{where} has {display_value(name)}, which nobody asked for"
                raise unparsable_reply("extra_field", why)
        self.value: dict[str, Json] = value
        self.where = where

    def get(self, name: str, kind: type[T]) -> T:
        """Return a field of a type, to the letter. Raises InvalidReply."""
        found = self.value[name]
        if type(found) is not kind:
            raise self._wrong(name, _TYPE_WORDS[kind])
        return found

    def told(self, name: str) -> str:
        """Return a text that is kept: nothing in it hides, and it ends. Raises InvalidReply."""
        return visible(self.get(name, str)[:MOST_RATIONALE_CHARACTERS])

    def share(self, name: str) -> float:
        """Return a number from 0 to 1. Raises InvalidReply."""
        found = self.value[name]
        if type(found) not in {int, float}:
            raise self._wrong(name, "a number")
        if not 0 <= found <= 1:
            why = f"{name} is {display_value(found)}, not from 0 to 1"
            raise unparsable_reply("out_of_range", why)
        return float(found)

    def menu(self, name: str, answers: Sequence[str]) -> str:
        """Return one of the answers, to the letter. Raises InvalidReply."""
        found = self.get(name, str)
        if found not in answers:
            why = f"{name} is {display_value(found)}, not one of {', '.join(answers)}"
            raise unparsable_reply("off_menu", why)
        return found

    def _wrong(self, name: str, wanted: str) -> InvalidReply:
        told = self.value[name]
        why = f"{name} of {self.where} is {_type_words(told)} ({display_value(told)}), not {wanted}"
        return unparsable_reply("wrong_type", why)


# What is asked for; of what came instead, any number is one.
_TYPE_WORDS: dict[type, str] = {str: "a text", list: "a list", bool: "true or false"}
_TYPE_WORDS |= {int: "a whole number", dict: "an object", type(None): "null"}


def _type_words(value: Json) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return "a number" if number else _TYPE_WORDS[type(value)]


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
        """Return cited steps, sorted, each once; each must be a step of the run."""
        return tuple(sorted({self.step(one) for one in value}))

    def step(self, value: Json) -> int:
        """Return a cited step. Raises InvalidReply, as `cites` does."""
        if type(value) is not int:
            raise citation_error(f"{display_value(value)} is not the index of a step")
        if not 0 <= value < self.steps:
            raise citation_error(f"step {value} of a run of {self.steps} steps")
        return value

    def evidence(self, value: Sequence[Json]) -> dict[int, int]:
        """Return by step how many quotations are long enough to count; each stands in its step."""
        counted: dict[int, int] = {}
        for number, item in enumerate(value):
            fields = ReplyFields(item, ("step", "quote"), f"evidence {number}")
            quote, step = fields.get("quote", str), self.step(fields.value["step"])
            counted[step] = counted.get(step, 0) + self.quoted(step, quote)
        return counted

    def quoted(self, step: int, quote: str, *, results: bool = False) -> bool:
        """Tell whether a quotation, which must stand in its step, counts as evidence.

        With `results` it may be of what calls brought.
        """
        words = _strip_quotes(self.fence.cleared(quote))
        if words and not self._stands(words, step, results=results):
            shown = display_value(self.fence.cleared(quote))
            raise evidence_error(f"{shown} does not stand in step {step}")
        return len(words) >= SHORTEST_QUOTE

    def _stands(self, words: str, step: int, *, results: bool) -> bool:
        if words in self.copy.folded(step):
            return True
        call = fold_call(words)
        if len(call) >= SHORTEST_QUOTE and call in self.copy.folded_calls(step):
            return True
        brought = self.copy.exchange(step).pieces if results else ()
        return any(words in fold_text(piece.text) for piece in brought)

    def refuse_copied(self, said: dict[str, Json]) -> None:
        """Refuse an answer that stands in a step, its fields in whatever order."""
        fields = [
            fold_text(self.fence.cleared(json.dumps({name: value}, ensure_ascii=False)[1:-1]))
            for name, value in said.items()
        ]
        self._refuse(fields, "the answer")

    def own_words(self, rationale: str) -> str:
        """Return a judge's reason without fence and marks; refuse words that are the run's."""
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


def evidence_error(what: str) -> InvalidReply:
    """Return the error of a quotation that is none."""
    return InvalidReply("invalid_evidence", f"evidence_not_found: {what}")


def _strip_quotes(text: str) -> str:
    """Return a quotation without the signs that judges put around one."""
    words = fold_text(text)
    while True:
        bare = words.removeprefix("...").removesuffix("...")
        if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "\"'`":
            bare = bare[1:-1]
        if bare == words:
            return bare
        words = bare
