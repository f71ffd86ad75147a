"""What was said before a step, and whether a value can come from there: the judge's memory.

"Said" is what the agent did not make up itself: the policy (system), the user, tool results; where
several agents talk, what they told each other as well. The agent's own words are no source, so a
value that it invents and then repeats stays invented.

A value is traced by its own text (case and outer punctuation aside), by an agreed other format
(`trace`), or by simple arithmetic over numbers said (`derive`, see `amounts`).

The index is lazy: texts are searched where it is asked, as they were written and only then without
regard to case, and numbers are read out only for arithmetic.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from itertools import accumulate, chain
from typing import NamedTuple

from stepscope.measures.axes.quantities import (
    Derivation,
    StatedNumbers,
    date_cores,
    number_forms,
    quantities,
)
from stepscope.measures.completeness import gaps_of, hiding_gap
from stepscope.measures.rule import cached_by_text, cached_on_run
from stepscope.model import Step, Trajectory

# Shorter texts of letters and digits are found by chance once spaces and dashes are ignored.
SQUEEZED_CHARACTERS = 6

# Characters that one run's evidence may look through, about a tenth of a second: a session of
# megabytes with thousands of calls ends there, and what was not found then is open.
SEARCHED = 100_000_000
# A false hit and a term of arithmetic cost about as much as so many characters of plain search.
HIT_CHARACTERS = 200

_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_SURROGATES = range(0xD800, 0xE000)
# A short prefix of letters before a number long enough to name one thing: W9502127.
_PREFIXED = re.compile(r"[A-Za-z]{1,3}-?(\d{5,})")
_DIGIT = re.compile(r"\d")
_YEAR = re.compile(r"(\d{4})-\d\d-\d\d")
_NOT_ALNUM = re.compile(r"[\W_]+")
_alnum_of = cached_by_text(partial(_NOT_ALNUM.sub, ""))
# An e-mail address as people spell it.
_SIGNS = {"at": "@", "dot": ".", "underscore": "_", "dash": "-", "hyphen": "-"}
_SIGN = re.compile(rf"\W+({'|'.join(_SIGNS)})\W+")
_NOT_EMAIL = re.compile(r"\.?[^\w.@+-]+|\.$")
NUMBERS = "one two three four five six seven eight nine ten eleven twelve".split()
_PARTS = (
    "half third quarter fourth fifth sixth seventh eighth ninth tenth twelfth twentieth".split()
)
_COUNTS = {word: float(n) for n, word in enumerate(NUMBERS, 1)}
_COUNTS |= dict(zip(_PARTS, (2, 3, 4, 4, 5, 6, 7, 8, 9, 10, 12, 20), strict=True)) | {"halve": 2}
_N = rf"{'|'.join(NUMBERS)}|\d\d?"
_SHARE_SIGNS = (
    "% cent hal third quarter ourth fth xth venth inth tenth ghth ieth / split divid shar spread "
    "tween mong cross over into"
).split()
# A part of something: "10 %", "a tenth off", "two thirds", "3/4 of it", "split between three".
_SHARE = re.compile(
    rf"(?=\d|\b[abdefhinoqst])(?:(?P<hundredths>\d{{1,3}}(?:\.\d+)?) ?(?:%|per ?cent\b)|"
    rf"(?:\b(?P<some>{_N})[ -])?\b(?P<part>{'|'.join(_PARTS)}|halve)s?\b|"
    r"(?<![\d/])(?P<above>[1-9])/(?P<below>[2-9]|1\d)(?![\d/])|\b(?:split|divid\w+|"
    rf"shar(?:e[ds]?|ing)|spread|between|among|across|over|into) (?:\w+ ){{0,3}}?(?P<ways>{_N})\b)",
    re.IGNORECASE,
)
# Characters that bound every word, and go on no number.
_BOUNDS = frozenset(" \n\t\"'()[]{}<>:;!?#*$=\0")


@cached_by_text
def shares_in(text: str) -> set[float]:
    """Return the shares that a text speaks of, with their rest and their excess.

    >>> sorted(shares_in("a tenth off, split between three"))
    [0.1, 0.333333, 0.666667, 0.9, 1.1, 1.333333]
    """
    found, lower = set[float](), text.lower()
    signs = [sign for sign in _SHARE_SIGNS if sign in lower]
    # None goes on over a line or a quotation mark: of a result only few values are read.
    values = text.replace("\n", '"').split('"') if signs else ()
    values = [x for x in values if any([sign in x.lower() for sign in signs])]
    for match in chain.from_iterable(map(_SHARE.finditer, values)):
        above, below = match["above"] or match["some"] or "1", match["below"] or match["ways"]
        if match["hundredths"]:
            above, below = match["hundredths"], "100"
        said = above.lower(), (below or match["part"]).lower()
        parts, n = (float(_COUNTS.get(word, word)) for word in said)
        part = parts / n if n else 0.0
        found.update(round(share, 6) for share in (part, 1 + part, 1 - part))
    return found


class _Words(NamedTuple):
    """The texts said, joined so that a search is one, and where each begins."""

    text: str
    starts: Sequence[int]  # one more than there are texts: the last is the end


class Evidence:
    """Everything said in one run, asked by value and by step; see the module docstring."""

    def __init__(self, trajectory: Trajectory) -> None:
        steps = trajectory.steps
        several = len({step.agent for step in steps if step.actor == "agent"}) > 1
        self._gaps = gaps_of(trajectory)
        self._texts: list[str] = []
        self._steps: list[int] = []
        self.heard: list[tuple[int, str]] = []  # of users, in lower case
        self.requested = False
        if trajectory.instructions:
            self._texts.append(trajectory.instructions)
            self._steps.append(steps[0].index if steps else 0)
        for step in steps:
            actor = step.actor
            if actor == "agent" and not (several and step.text):
                continue
            if actor == "user" or actor == "system":
                self.requested = True
            text = _words(step)
            # One character is found some ten times faster than two.
            if "\\" in text and "\\u" in text:
                text = _ESCAPE.sub(_unescape, text)
            if text:
                if actor == "user":
                    self.heard.append((step.index, text.casefold()))
                self._steps.append(step.index)
                self._texts.append(text)
        self._opens = bool(self._steps) and (
            trajectory.instructions is not None or steps[self._steps[0]].actor == "system"
        )
        self._joins: dict[tuple[bool, bool], _Words] = {}
        self._said: dict[str, int] = {}
        self._parts: set[str] = set()  # what stands within longer words
        self._cores: dict[str, int] = {}
        self._stated: dict[float, int] = {}
        self._unsaid: dict[tuple[float, int], int] = {}  # with what it cost to look
        self._numbers: dict[int, Sequence[float]] = {}
        self._terms: dict[tuple[int, int], StatedNumbers] = {}
        self._matched: dict[re.Pattern[str], int | None] = {}
        self._left = SEARCHED
        self._forms: dict[str, int] | None = None

    def why_unknown(self, before: int) -> str:
        """Say why what was not found before a step may have been said; "" where it was not."""
        if self.exhausted:
            return "the run is too long to search"
        return hiding_gap(self._gaps, before)

    @property
    def exhausted(self) -> bool:
        """The run was too long to search for every value: None means "not found yet"."""
        return self._left <= 0

    @cached_property
    def latest_year(self) -> str:
        """The latest year of which a day is said (YYYY-MM-DD), "" without one."""
        return max(_YEAR.findall(self._joined("0").text), default="")

    def first(self, value: str) -> int | None:
        """Return the first step that says `value` as a whole word, whatever its case.

        Numbers are words too: "34" is not said by "1619.34".
        """
        words = self._joined(value, folded=_has_case(value))
        return self._find(words, value.casefold(), 0, words.starts[-1])

    def said(self, value: str, before: int) -> int | None:
        """Return a step before step `before` that says `value`; None where none does."""
        step = self._said.get(value)
        if step is not None and step < before:
            return step
        step = self._search(value, before)
        if step is None and _has_case(value):
            step = self._search(value.casefold(), before, folded=True)
        if step is None and "@" in value:
            step = self._spoken(value.casefold(), before)
        if step is not None:
            self._said[value] = step
        return step

    def trace(self, value: str, before: int) -> int | None:
        """Return the step before `before` where an identifier or e-mail comes from.

        Formats agreed to be the same: other case; without outer punctuation (#W12 for W12); spoken
        with spaces or dashes (12 34-56 for 123456); by its number alone (9502127 for #W9502127);
        joined from words that were all said (mia_li_3668 from "Mia Li, 3668"): then the step of
        the last of them.
        """
        if (found := self.said(value, before)) is not None:
            return found
        bare = value.strip("#@*'\"()[]{}<>.,:; \u00a0")
        if bare and bare != value and (found := self.said(bare, before)) is not None:
            return found
        number = _PREFIXED.fullmatch(bare)
        if number is not None:
            found = self.said(number[1], before)
        if found is None:
            found = self._said_by(bare, before)
        return self._in_words(bare, before) if found is None else found

    def number(self, value: float, before: int) -> int | None:
        """Return a step before step `before` that says a number, in any usual format."""
        known = self._stated.get(value)
        if known is not None and known < before:
            return known
        left = self._left
        if (spent := self._unsaid.get((value, before))) is not None:
            self._left -= spent  # as if it were looked for again
            return None
        # As results mostly write it; only then in every other way.
        first, *others = number_forms(value)
        step = self._search(first, before)
        for form in others if step is None else ():
            if step is None and (first in self._parts or first not in form):
                step = self._search(form, before)
        if step is not None:
            self._stated[value] = step
        elif not self.exhausted:
            self._unsaid[value, before] = left - self._left
        return step

    def date(self, iso: str, before: int) -> int | None:
        """Return a step before step `before` that says a date (YYYY-MM-DD), in any format.

        Day and month are enough: people leave the year out.
        """
        if (step := self.said(iso, before)) is not None:
            return step
        # The day of a moment: 2024-05-14T16:03:16 is one word.
        if iso in self._parts and (step := self.holds(f"{iso}T", before)) is not None:
            return step
        words = self._joined(iso, folded=True)
        end = words.starts[bisect_left(self._steps, before)]
        for month, core, forms in date_cores(iso):
            # The days around a date share a month: one look for it spares many.
            if self._has_core(words, month, end) and self._has_core(words, core, end):
                for form in forms:
                    if (step := self._search(form, before, folded=True)) is not None:
                        return step
        return None

    def _has_core(self, words: _Words, core: str, end: int) -> bool:
        if core not in self._cores:
            self._left -= HIT_CHARACTERS + len(words.text)
            self._cores[core] = words.text.find(core) if self._left > 0 else -1
        return 0 <= self._cores[core] < end

    def names(self, stem: str, before: int) -> bool:
        """True if anything said before a step has a text (of lower case) within any word."""
        words = self._joined(stem, folded=True)
        end = words.starts[bisect_left(self._steps, before)]
        self._left -= HIT_CHARACTERS + end
        return self._left <= 0 or words.text.find(stem, 0, end) >= 0

    def holds(self, text: str, before: int) -> int | None:
        """Return the first step before step `before` that has a text anywhere, as it is written."""
        words = self._joined(text)
        end = words.starts[bisect_left(self._steps, before)]
        self._left -= HIT_CHARACTERS + end
        at = words.text.find(text, 0, end) if self._left > 0 else -1
        return None if at < 0 else self._steps[bisect_right(words.starts, at) - 1]

    def numbers(self, before: int, after: int = -1) -> list[tuple[int, Sequence[float]]]:
        """Return the quantities said at each step between `after` and `before`, in order."""
        low, high = bisect_right(self._steps, after), bisect_left(self._steps, before)
        return [(self._steps[at], self._quantities(at)) for at in range(low, high)]

    def texts(self, before: int) -> Sequence[str]:
        """Return what was said before a step, text by text."""
        return self._texts[: bisect_left(self._steps, before)]

    @cached_property
    def _shares(self) -> dict[float, int]:
        found: dict[float, int] = {}
        for step, text in zip(self._steps, self._texts, strict=True):
            for share in shares_in(text):
                found.setdefault(share, step)
        return found

    @cached_property
    def _amounts(self) -> list[tuple[float, int]]:
        found: dict[float, int] = {}
        for at, step in enumerate(self._steps):
            for value in self._quantities(at):
                found.setdefault(value, step)
        return sorted(found.items())

    def says_share(self, share: float, before: int) -> bool:
        """True if a share, its rest or its excess was said before a step: .1, .9, 1.1 by 10 %."""
        return self._shares.get(share, before) < before

    def has_near(self, value: float, before: int, distance: float) -> bool:
        """True if a number nearer to a value than a distance was said before a step."""
        low = bisect_left(self._amounts, (value - distance, before))
        high = bisect_left(self._amounts, (value + distance, -1))
        return any(said < before for _, said in self._amounts[low:high])

    def has_share(self, value: float, before: int, within: float, by: Iterable[float] = ()) -> bool:
        """True if a value is a number said before a step, times a share said there or of `by`."""
        said = [share for share, step in self._shares.items() if step < before]
        return any(
            self.has_near(value / share, before, within / share)
            for share in (*said, *by)
            if share > 0
        )

    def says_form(self, form: str, before: int, forms: Callable[[str], Iterable[str]]) -> bool:
        """True if a text before a step has a form; `forms` finds those of a text, asked once."""
        if self._forms is None:
            self._forms = {}
            for step, text in zip(self._steps, self._texts, strict=True):
                for found in forms(text):
                    self._forms.setdefault(found, step)
        return self._forms.get(form, before) < before

    def derive(self, value: float, before: int, after: int = -1) -> Derivation | None:
        """Return how `value` follows by arithmetic from numbers between two steps."""
        if self.exhausted:
            return None
        terms = self._terms.get((after, before))
        if terms is None:
            terms = self._terms[after, before] = StatedNumbers(self.numbers(before, after))
        self._left -= HIT_CHARACTERS * terms.count
        return terms.derive(value)

    def matched(self, pattern: re.Pattern[str]) -> int | None:
        """Return the first step where a user's words hold a pattern (of lower case)."""
        if pattern not in self._matched:
            hits = (step for step, words in self.heard if pattern.search(words))
            self._matched[pattern] = next(hits, None)
        return self._matched[pattern]

    def _joined(self, value: str, *, folded: bool = False) -> _Words:
        """Return what may say a value, in lower case if asked: of the policy lines with digits."""
        numbered = self._opens and _DIGIT.search(value) is not None and "\n" not in value
        words = self._joins.get((numbered, folded))
        if words is None:
            texts = [_numbered_lines(self._texts[0]), *self._texts[1:]] if numbered else self._texts
            words = _join([text.casefold() for text in texts] if folded else texts)
            self._joins[numbered, folded] = words
        return words

    def _search(self, value: str, before: int, *, folded: bool = False) -> int | None:
        """Look behind the policy first: what is asked about mostly comes from there."""
        words = self._joined(value, folded=folded)
        end = words.starts[bisect_left(self._steps, before)]
        opening = words.starts[1] if self._opens else 0
        step = self._find(words, value, opening, end)
        if step is None and opening:
            step = self._find(words, value, 0, min(opening, end))
        return step

    def _find(self, words: _Words, value: str, start: int, end: int) -> int | None:
        text = words.text
        while value and self._left > 0:
            at = text.find(value, start, end)
            if at < 0:
                self._left -= HIT_CHARACTERS + end - start
                return None
            self._left -= HIT_CHARACTERS + at - start
            behind = at + len(value)
            # Bounds that need no second look: most hits have them.
            if (text[at - 1] in _BOUNDS and text[behind] in _BOUNDS) or _is_whole_word(
                text, at, behind
            ):
                return self._steps[bisect_right(words.starts, at) - 1]
            self._parts.add(value)
            start = at + 1
        return None

    def _spoken(self, email: str, before: int) -> int | None:
        """Return the step before `before` where a user spells an address: "mia at mail dot com"."""
        for step, words in self.heard:
            if step < before and "at" in words:
                if email in _NOT_EMAIL.split(_SIGN.sub(lambda match: _SIGNS[match[1]], words)):
                    return step
        return None

    def _said_by(self, value: str, before: int) -> int | None:
        squeezed = _alnum_of(value).casefold()
        if len(squeezed) < SQUEEZED_CHARACTERS:
            return None
        for step, said in self.heard:
            if step >= before or self.exhausted:
                break
            words = _alnum_of(said)
            self._left -= HIT_CHARACTERS + len(words)
            if squeezed in words:
                return step
        return None

    def _in_words(self, value: str, before: int) -> int | None:
        words = [word for word in _NOT_ALNUM.split(value) if word]
        if len(words) < 2:
            return None
        steps = [self.said(word, before) for word in words]
        known = [step for step in steps if step is not None]
        return max(known) if len(known) == len(steps) else None

    def _quantities(self, at: int) -> Sequence[float]:
        if at not in self._numbers:
            self._numbers[at] = quantities(self._texts[at])
        return self._numbers[at]


@cached_by_text
def _numbered_lines(text: str) -> str:
    """Return the lines of a text that have digits: who looks for digits need not read more."""
    return "\n".join([line for line in text.split("\n") if _DIGIT.search(line)])


@cached_on_run
def evidence_of(trajectory: Trajectory) -> Evidence:
    """Return the evidence of a run, built once for all measures that ask."""
    return Evidence(trajectory)


def _join(texts: Sequence[str]) -> _Words:
    # The last one bounds the last word, and the first: indexes go round.
    text = "\0".join([*texts, "\0"])
    return _Words(text, list(accumulate([len(text) + 1 for text in texts], initial=0)))


def _has_case(text: str) -> bool:
    """True if a text has letters of which there are great and small ones."""
    return text.lower() != text.upper()


def _is_whole_word(text: str, start: int, end: int) -> bool:
    """True if a match is a word of its own: no letter, digit or decimals go on around it."""
    before, after = text[start - 1], text[end]
    if text[start].isalnum():
        if before.isalnum() or before == "_":
            return False
        if before in ".," and text[start].isdigit() and text[start - 2].isdigit():
            return False
    if text[end - 1].isalnum():
        if after.isalnum() or after == "_":
            return False
        if after in ".," and text[end - 1].isdigit() and text[end + 1].isdigit():
            return False
    return True


def _words(step: Step) -> str:
    parts, results = step.parts, step.results
    if len(results) == 1 and not parts and results[0].error is None:
        parts, results = results[0].parts, ()
    if len(parts) == 1 and not results:
        return parts[0].text or ""
    found = [part.text for part in parts if part.text is not None]
    for result in results:
        found += [part.text for part in result.parts if part.text is not None]
        if result.error is not None:
            found.append(result.error)
    return "\n".join(found)


def _unescape(match: re.Match[str]) -> str:
    code = int(match[1], 16)
    return match[0] if code in _SURROGATES else chr(code)
