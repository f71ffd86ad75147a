"""What was said before a step, and whether a value can come from there: the judge's memory.

"Said" is what the agent did not make up itself: the policy (system), the user, tool results; where
several agents talk, what they told each other as well. The agent's own words are no source, so a
value that it invents and then repeats stays invented.

A value is traced by its own text (case and outer punctuation aside), by an agreed other format
(`trace`), or by simple arithmetic over numbers said (`derive`, see `amounts`).

The index is lazy: it finds texts where it is asked, and reads numbers out only for arithmetic.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

from stepscope.measures.axes.amounts import (
    Derivation,
    Said,
    date_cores,
    derive,
    number_forms,
    quantities,
)
from stepscope.model import Step, Trajectory

# Shorter texts of letters and digits are found by chance once spaces and dashes are ignored.
SQUEEZED_CHARACTERS = 6

# Characters that one run's evidence may look through, about a tenth of a second: a session of
# megabytes with thousands of calls ends there, and what was not found then is open.
SEARCHED = 100_000_000
# A false hit and a term of arithmetic cost about as much as so many characters of plain search.
HIT_CHARACTERS = 200

T = TypeVar("T")

_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_SURROGATES = range(0xD800, 0xE000)
# A short prefix of letters before a number long enough to name one thing: W9502127.
_PREFIXED = re.compile(r"[A-Za-z]{1,3}-?(\d{5,})")
_WORD = re.compile(r"\w+")
_NOT_ALNUM = re.compile(r"[\W_]+")


class Evidence:
    """Everything said in one run, asked by value and by step; see the module docstring."""

    def __init__(self, trajectory: Trajectory) -> None:
        """Gather what was said; nothing is looked for yet."""
        several = _several_agents(trajectory.steps)
        self._steps: list[int] = []
        self._starts: list[int] = []
        self._texts: list[str] = []
        users: set[int] = set()
        self.requested = False
        at = 0
        for step in trajectory.steps:
            actor = step.actor
            if actor == "agent" and not (several and step.text):
                continue
            if actor == "user":
                users.add(step.index)
            self.requested = self.requested or actor in ("user", "system")
            text = _words(step)
            if text:
                self._steps.append(step.index)
                self._starts.append(at)
                self._texts.append(text)
                at += len(text) + 1
        self.text = "\0".join(self._texts)
        self._users = frozenset(users)
        self._first: dict[str, int | None] = {}
        self._opens = bool(self._steps) and trajectory.steps[self._steps[0]].actor == "system"
        self._opening: tuple[frozenset[str], int] | None = None
        self._held: dict[str, bool] = {}
        self._numbers: dict[int, list[Said]] = {}
        self._matched: dict[re.Pattern[str], int | None] = {}
        self._squeezed: list[tuple[int, str]] | None = None
        self._left = SEARCHED
        self._end = len(trajectory.steps)

    @property
    def exhausted(self) -> bool:
        """The run was too long to search for every value: None means "not found yet"."""
        return self._left <= 0

    def first(self, value: str) -> int | None:
        """Return the first step that says `value` as a whole word, whatever its case.

        Numbers are words too: "34" is not said by "1619.34".
        """
        value = value.casefold()
        if value not in self._first:
            self._first[value] = self._find(value)
        return self._first[value]

    def said(self, value: str, before: int) -> int | None:
        """Return the first step before step `before` that says `value`; None where none does."""
        step = self.first(value)
        return step if step is not None and step < before else None

    def trace(self, value: str, before: int) -> int | None:
        """Return the step before `before` where an identifier or e-mail comes from.

        Formats agreed to be the same: other case; without outer punctuation (#W12 for W12); spoken
        with spaces or dashes (12 34-56 for 123456); by its number alone (9502127 for #W9502127);
        joined from words that were all said (mia_li_3668 from "Mia Li, 3668"): then the step of
        the last of them.
        """
        found = self.said(value, before)
        if found is not None:
            return found
        bare = value.strip("#@*'\"()[]{}<>.,:; \u00a0")
        if bare and bare != value:
            found = self.said(bare, before)
            if found is not None:
                return found
        number = _PREFIXED.fullmatch(bare)
        if number is not None:
            found = self.said(number[1], before)
        if found is None:
            found = self._spoken(bare, before)
        return self._joined(bare, before) if found is None else found

    def number(self, value: float, before: int) -> int | None:
        """Return a step before step `before` that says a number, in any usual format."""
        return self._any(number_forms(value), before)

    def date(self, iso: str, before: int) -> int | None:
        """Return a step before step `before` that says a date (YYYY-MM-DD), in any format.

        Day and month are enough: people leave the year out.
        """
        step = self.said(iso, before)
        if step is not None:
            return step
        for form, core in date_cores(iso):
            if self._holds(core):
                step = self.said(form, before)
                if step is not None:
                    return step
        return None

    def numbers(self, before: int, after: int = -1) -> Sequence[Said]:
        """Return the quantities said between the steps `after` and `before`, in order."""
        low, high = bisect_right(self._steps, after), bisect_left(self._steps, before)
        return [said for at in range(low, high) for said in self._quantities(at)]

    def derive(self, value: float, before: int) -> Derivation | None:
        """Return how `value` follows from what was said before step `before`, by arithmetic."""
        if self.exhausted:
            return None
        said = self.numbers(before)
        self._left -= HIT_CHARACTERS * len(said)
        return derive(value, said)

    def matched(self, pattern: re.Pattern[str]) -> int | None:
        """Return the first step where a user's words hold a pattern (of lower case)."""
        if pattern not in self._matched:
            said = self.user_words(self._end)
            hits = (step for step, words in said if pattern.search(words))
            self._matched[pattern] = next(hits, None)
        return self._matched[pattern]

    def user_words(self, before: int) -> Iterator[tuple[int, str]]:
        """Yield what users said before step `before`, in lower case, with the step."""
        for at, step in enumerate(self._steps):
            if step >= before:
                return
            if step in self._users:
                yield step, self._texts[at]

    def step_at(self, offset: int) -> int:
        """Return the step that holds an offset of `text`."""
        return self._steps[bisect_right(self._starts, offset) - 1]

    def _any(self, forms: Sequence[str], before: int) -> int | None:
        for form in forms:
            step = self.said(form, before)
            if step is not None:
                return step
        return None

    def _holds(self, core: str) -> bool:
        """Tell whether a text stands anywhere, be it inside a word."""
        found = self._held.get(core)
        if found is None:
            self._left -= HIT_CHARACTERS + len(self.text)
            found = self._held[core] = self._left > 0 and core in self.text
        return found

    def _find(self, value: str) -> int | None:
        text, length = self.text, len(value)
        start = self._after_opening(value)
        while value and self._left > 0:
            at = text.find(value, start)
            self._left -= HIT_CHARACTERS + (at if at >= 0 else len(text)) - start
            if at < 0 or _whole(text, at, at + length):
                return self.step_at(at) if at >= 0 else None
            start = at + 1
        return None

    def _after_opening(self, value: str) -> int:
        """Return where the search for a whole word may start: behind a policy that lacks it."""
        if self._opening is None:
            opening = self._texts[0] if self._opens else ""
            self._opening = _words_of_opening(opening), len(opening)
        words, end = self._opening
        word = _WORD.search(value)
        # A word that begins or ends with "_" counts as whole inside a longer one.
        if word is None or word[0] in words or word[0].strip("_") != word[0]:
            return 0
        return end

    def _spoken(self, value: str, before: int) -> int | None:
        squeezed = _NOT_ALNUM.sub("", value).casefold()
        if len(squeezed) < SQUEEZED_CHARACTERS:
            return None
        if self._squeezed is None:
            said = self.user_words(self._end)
            self._squeezed = [(step, _NOT_ALNUM.sub("", words)) for step, words in said]
        for step, words in self._squeezed:
            if step >= before or self.exhausted:
                break
            self._left -= HIT_CHARACTERS + len(words)
            if squeezed in words:
                return step
        return None

    def _joined(self, value: str, before: int) -> int | None:
        words = [word for word in _NOT_ALNUM.split(value) if word]
        if len(words) < 2:
            return None
        steps = [self.said(word, before) for word in words]
        known = [step for step in steps if step is not None]
        return max(known) if len(known) == len(steps) else None

    def _quantities(self, at: int) -> list[Said]:
        kept = self._numbers.get(at)
        if kept is None:
            step = self._steps[at]
            text = self._texts[at]
            found = _opening_quantities(text) if self._opens and not at else quantities(text)
            kept = self._numbers[at] = [Said(value, step) for value in found]
        return kept


# The policy is mostly the same in all runs of an agent, and half of what is said.
_opening_quantities = lru_cache(maxsize=8)(quantities)


@lru_cache(maxsize=8)
def _words_of_opening(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text))


def evidence_of(trajectory: Trajectory) -> Evidence:
    """Return the evidence of a run, built once for all measures that ask."""
    return once(trajectory, "_evidence", Evidence)


def once(trajectory: Trajectory, name: str, make: Callable[[Trajectory], T]) -> T:
    """Return what `make` says of a run, kept on the run, as `Trajectory.exchanges` is."""
    kept: T | None = trajectory.__dict__.get(name)
    if kept is None:
        kept = trajectory.__dict__[name] = make(trajectory)
    return kept


def _whole(text: str, start: int, end: int) -> bool:
    """Tell whether a match is a word of its own: no letter, digit or decimals go on around it."""
    if start and text[start].isalnum():
        before = text[start - 1]
        if before.isalnum() or before == "_":
            return False
        if before in ".," and start > 1 and text[start].isdigit() and text[start - 2].isdigit():
            return False
    if end < len(text) and text[end - 1].isalnum():
        after = text[end]
        if after.isalnum() or after == "_":
            return False
        if after in ".," and text[end - 1].isdigit() and text[end + 1 : end + 2].isdigit():
            return False
    return True


def _words(step: Step) -> str:
    parts = [part.text for part in step.parts if part.text is not None]
    for result in step.results:
        parts += [part.text for part in result.parts if part.text is not None]
        if result.error is not None:
            parts.append(result.error)
    text = parts[0] if len(parts) == 1 else "\n".join(parts)
    # One character is found some ten times faster than two.
    if "\\" in text and "\\u" in text:
        text = _ESCAPE.sub(_unescape, text)
    return text.casefold()


def _unescape(match: re.Match[str]) -> str:
    code = int(match[1], 16)
    return match[0] if code in _SURROGATES else chr(code)


def _several_agents(steps: Sequence[Step]) -> bool:
    names = {step.agent for step in steps if step.actor == "agent"}
    return len(names) > 1
