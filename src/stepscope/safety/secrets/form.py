"""One way to tell a secret: a literal mark, looked for first, and a pattern that is tried there.

Patterns are written so that the time is linear in the text: every unbounded repeat is possessive,
and a match that is refused is not looked into again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

# Characters before a pattern that are looked at.
_BEFORE = 24


class Hit(NamedTuple):
    """A secret: where it stands in a text, of which kind it is, and the secret itself, decoded."""

    start: int
    end: int
    kind: str
    secret: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A format of secrets.

    Attributes:
        kind: the word in the placeholder.
        marks: literals, one of which is in every secret of this format.
        pattern: the secret, or its group `secret`, where other text must stand around it.
        back: characters before a mark at which the pattern may begin.
        before: what the text before the pattern must end with; None for anything.
        accepts: a further condition on the secret; None for every one.
    """

    kind: str
    marks: tuple[str, ...]
    pattern: re.Pattern[str]
    back: int = 0
    before: re.Pattern[str] | None = None
    accepts: Callable[[str], bool] | None = None

    def hits(self, text: str, mark: str) -> Iterator[Hit]:
        """Yield the secrets of a text that have this mark, in order."""
        group = "secret" if "secret" in self.pattern.groupindex else 0
        past = 0
        at = text.find(mark)
        while at >= 0:
            found = self._at(text, max(at - self.back, past), at)
            if found is not None:
                secret = found[group]
                if self._taken(text, found.start(), secret):
                    yield Hit(found.start(group), found.end(group), self.kind, secret)
                past = found.end()
            at = text.find(mark, max(past, at + 1))

    def _taken(self, text: str, start: int, secret: str) -> bool:
        if self.before is not None and not self.before.search(
            text[max(start - _BEFORE, 0) : start]
        ):
            return False
        return self.accepts is None or self.accepts(secret)

    def _at(self, text: str, first: int, mark: int) -> re.Match[str] | None:
        for start in range(first, mark + 1):
            found = self.pattern.match(text, start)
            if found is not None:
                return found
        return None


def form(
    kind: str,
    marks: str,
    pattern: str,
    *,
    back: int = 0,
    before: str | None = None,
    accepts: Callable[[str], bool] | None = None,
) -> Form:
    """Return a form; `marks` are separated by spaces."""
    return Form(
        kind=kind,
        marks=tuple(marks.split()),
        pattern=re.compile(pattern, re.ASCII),
        back=back,
        before=None if before is None else re.compile(before, re.ASCII),
        accepts=accepts,
    )


def by_mark(forms: Iterable[Form]) -> tuple[tuple[str, tuple[Form, ...]], ...]:
    """Return every mark once, with the forms that have it."""
    found: dict[str, tuple[Form, ...]] = {}
    for one in forms:
        for mark in one.marks:
            found[mark] = (*found.get(mark, ()), one)
    return tuple(found.items())
