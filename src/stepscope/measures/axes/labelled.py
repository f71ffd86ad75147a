"""Labelled quantities: what is told under a field's name must be that field's value.

Two rules. A name of its own: where the latest results have quantities of this name and the message
leaves one of them out, an amount told under the name that is none of them is misread, even if it
was said elsewhere (a refund of 1,619.34 told as the price of one item). A record of its own: on a
line that names one thing by its identifier, the one amount must stand in that thing's record. Sums
and differences of the named values are theirs too. An amount that other results have under the same
name passes: which of them was meant cannot be known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from sys import maxsize

from stepscope.measures.axes.amounts import TOLERANCE, Said, derive
from stepscope.measures.axes.axis import Fault
from stepscope.measures.axes.fields import (
    AMOUNT_NAME,
    QUANTITIES,
    Field,
    fields,
    leaf_records,
    parsed,
    stem,
    values_of,
)
from stepscope.measures.axes.told import Amount, Message, identifiers, words_around
from stepscope.model import Json, ToolResult

# With more values of one name in a result, which one is meant cannot be told from its name.
MOST_VALUES = 4
# An object in JSON is rarely longer: around an identifier, its own quantities stand within this.
RECORD_CHARACTERS = 400
# So far before its value a name is the value's own: `"transaction_type": "refund", "amount": 5`.
NAME_CHARACTERS = 24
# Every word that names an amount, with its stem.
_NAMES = {
    word: name
    for name in (*QUANTITIES, AMOUNT_NAME)
    for word in (name, f"{name}s", f"{name}ed")
    if stem(word) == name
}


class Results:
    """Every result of a run, by step; each is decoded once, when it is first asked."""

    def __init__(self, answered: Sequence[tuple[int, ToolResult]]) -> None:
        """Keep the results; nothing is decoded yet."""
        self.all = answered
        self._decoded: dict[int, Json] = {}

    def value(self, result: ToolResult) -> Json:
        """Return what a result of this run says, None where it is no JSON."""
        key = id(result)
        if key not in self._decoded:
            self._decoded[key] = parsed(result)
        return self._decoded[key]

    def values(self, name: str, result: ToolResult, most: int = maxsize) -> list[float]:
        """Return the values of a name in a result, no more than one above `most`."""
        if result.status == "error" or name not in result.text:
            return []
        return values_of(name, self.value(result), most)


def misnamed(
    message: Message,
    told: Sequence[Amount],
    results: Results,
    elsewhere: Callable[[float], bool],
) -> Iterator[Fault]:
    """Yield the amounts that stand in place of the value that the latest result has for them.

    Args:
        message: what the user is told.
        told: its amounts.
        results: every result of the run.
        elsewhere: whether the user or the policy said an amount; then it may be theirs.
    """
    if not message.news:
        return
    said = {amount.value for amount in told}
    left_out: dict[str, list[tuple[int, float]]] = {}
    for amount in told:
        name = _name_of(amount)
        if not name or _said_so(name, amount.value, message.news):
            continue
        if name not in left_out:
            left_out[name] = _left_out(name, said, message.news, results)
        missing = left_out[name]
        if not missing:
            continue
        known = [
            Said(value, at)
            for at, result in results.all
            if at < message.step.index
            for value in results.values(name, result)
        ]
        if derive(amount.value, known) or any(
            abs(one.value - amount.value) < TOLERANCE for one in known
        ):
            continue
        if elsewhere(amount.value) or _computed(amount.value, message.step.index, results.all):
            continue
        true = " and ".join(f"{value:,.2f}" for _, value in missing)
        step = missing[-1][0]
        reason = f"tells {amount.value:,.2f} as {name}, the result at {step} says {true}"
        yield Fault(message.step.index, reason, tuple(sorted({at for at, _ in missing})))


def _left_out(
    name: str, said: set[float], news: Sequence[tuple[int, ToolResult]], results: Results
) -> list[tuple[int, float]]:
    """Return the latest values of a name that a message does not say; none where they are many."""
    latest: list[tuple[int, float]] = []
    for at, result in news:
        latest += [(at, value) for value in results.values(name, result, MOST_VALUES)]
        if len(latest) > MOST_VALUES:
            return []
    return [
        (at, value)
        for at, value in latest
        if value not in said and all(abs(value - x) > TOLERANCE for x in said)
    ]


def _said_so(name: str, value: float, news: Sequence[tuple[int, ToolResult]]) -> bool:
    """Tell whether a value stands close behind its name: then nothing need be decoded."""
    digits = f"{value:.2f}".rstrip("0").rstrip(".")
    for _, result in news:
        text = result.text
        at = text.find(digits)
        while at >= 0:
            named = text.rfind(name, max(0, at - NAME_CHARACTERS), at)
            # A number in between has the name for itself.
            if named >= 0 and not any(c.isdigit() for c in text[named:at]):
                return True
            at = text.find(digits, at + 1)
    return False


def _computed(value: float, before: int, results: Sequence[tuple[int, ToolResult]]) -> bool:
    """Tell whether a result is this amount and nothing else, as a calculator's is."""
    digits = f"{value:.2f}".rstrip("0").rstrip(".")
    return any(
        step < before and digits in result.text and result.text.strip("-$ \n").strip("0") == digits
        for step, result in results
    )


def _name_of(amount: Amount) -> str:
    """Return what an amount is told as: the nearest word for a quantity, "" without one.

    A "refund amount" and the "amount of the refund" are refunds; "the amount" alone is one.
    """
    amounted = ""
    for word in words_around(amount):
        name = _NAMES.get(word, "")
        if name == AMOUNT_NAME:
            amounted = name
        elif name:
            return name
    return amounted


def misplaced(message: Message, told: Sequence[Amount], results: Results) -> Iterator[Fault]:
    """Yield the amounts beside an identifier whose record holds other quantities only."""
    lines: dict[str, list[Amount]] = {}
    for amount in told:
        lines.setdefault(amount.line, []).append(amount)
    for line, found in lines.items():
        things = set(identifiers(line)) if len(found) == 1 else set()
        if len(things) != 1:
            continue
        thing, amount = things.pop(), found[0]
        if _beside(thing, amount.value, message.step.index, results.all):
            continue
        name = _name_of(amount)
        held = [
            (step, field.value)
            for step, field in _held(thing, message.step.index, results)
            if not name or name in field.names
        ]
        if held and all(abs(value - amount.value) > TOLERANCE for _, value in held):
            step = held[-1][0]
            said = " or ".join(sorted({f"{value:,.2f}" for _, value in held}))
            reason = f"tells {amount.value:,.2f} for {thing}, the result at {step} says {said}"
            yield Fault(message.step.index, reason, (step,))


def _beside(
    thing: str, value: float, before: int, results: Sequence[tuple[int, ToolResult]]
) -> bool:
    """Tell whether an amount stands behind an identifier: then nothing need be decoded."""
    digits = f" {value:.2f}".rstrip("0").rstrip(".")
    for step, result in results:
        text = result.text if step < before else ""
        at = text.find(thing)
        while at >= 0:
            if 0 <= text.find(digits, at, at + RECORD_CHARACTERS) < _end(text, at):
                return True
            at = text.find(thing, at + 1)
    return False


def _end(text: str, at: int) -> int:
    """Return where the next record begins, as far as its first key tells."""
    found = text.find("_id", at)
    return len(text) if found < 0 else found


def _held(thing: str, before: int, results: Results) -> Iterator[tuple[int, Field]]:
    """Yield the quantities of the smallest records that hold an identifier."""
    for step, result in results.all:
        if step < before and thing in result.text:
            for record in leaf_records(results.value(result)):
                if thing in record.values():
                    yield from ((step, field) for field in fields(record))
