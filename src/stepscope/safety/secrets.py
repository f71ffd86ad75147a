"""Patterns of secrets: a literal mark, looked for first, and a pattern that is tried there.

Users describe secrets of their own by prefix, characters and length, not as regular expressions, so
that none can take for ever.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from stepscope.errors import ConfigError

# Characters before a pattern that are looked at.
_BEFORE = 24


class SecretMatch(NamedTuple):
    """A secret: where it stands in a text, of which kind it is, and the secret itself, decoded."""

    start: int
    end: int
    kind: str
    secret: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretPattern:
    """A format of secrets."""

    kind: str  # the word in the placeholder
    marks: tuple[str, ...]  # literals, one of which is in every secret of this format
    # the secret, or its group `secret`, where other text must stand around it
    pattern: re.Pattern[str]
    back: int = 0  # characters before a mark at which the pattern may begin
    # what the text before the pattern must end with; None for anything
    before: re.Pattern[str] | None = None
    # a further condition on the secret; None for every one
    accepts: Callable[[str], bool] | None = None

    def hits(self, text: str, mark: str) -> Iterator[SecretMatch]:
        """Yield the secrets of a text that have this mark, in order."""
        group = "secret" if "secret" in self.pattern.groupindex else 0
        past = 0
        at = text.find(mark)
        while at >= 0:
            found = self._at(text, max(at - self.back, past), at)
            if found is not None:
                secret = found[group]
                if self._taken(text, found.start(), secret):
                    yield SecretMatch(found.start(group), found.end(group), self.kind, secret)
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


def make_pattern(
    kind: str,
    marks: str,
    pattern: str,
    *,
    back: int = 0,
    before: str | None = None,
    accepts: Callable[[str], bool] | None = None,
) -> SecretPattern:
    """Return a form; `marks` are separated by spaces."""
    return SecretPattern(
        kind=kind,
        marks=tuple(marks.split()),
        pattern=re.compile(pattern, re.ASCII),
        back=back,
        before=None if before is None else re.compile(before, re.ASCII),
        accepts=accepts,
    )


def patterns_by_mark(
    forms: Iterable[SecretPattern],
) -> tuple[tuple[str, tuple[SecretPattern, ...]], ...]:
    """Return every mark once, with the forms that have it."""
    found: dict[str, tuple[SecretPattern, ...]] = {}
    for one in forms:
        for mark in one.marks:
            found[mark] = (*found.get(mark, ()), one)
    return tuple(found.items())


_KIND = re.compile("[a-z][a-z0-9_]{0,30}")
_CHARACTERS = re.compile("(?:A-Z|a-z|a-f|A-F|0-9|[_.+/=~-])+")
# Letters that a description fixes at least: less would hide half of every text.
_LEAST = 8
_BEGINS = 3


class OwnSecret(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A form of secrets, as written in TOML (`[[redaction.secret]]`).

    Attributes:
        kind: the word in the placeholder: small letters, digits, underscores.
        begins: what every such secret begins with, 3 characters or more.
        characters: what follows it: any of `A-Z`, `a-z`, `0-9` and the signs `_ . + / = ~ -`.
        least: how many of them at least.
    """

    kind: str
    begins: str
    characters: str = "A-Za-z0-9_-"
    least: int = 16

    def form(self, where: str) -> SecretPattern:
        """Return what finds it.

        Raises:
            ConfigError: it is no kind, or describes too little.
        """
        if not _KIND.fullmatch(self.kind):
            raise ConfigError(f"{where}: kind is {self.kind!r}; expected small letters and digits")
        if not _CHARACTERS.fullmatch(self.characters):
            raise ConfigError(
                f"{where}: characters is {self.characters!r}; expected A-Z, a-z, 0-9 and any of "
                "_ . + / = ~ -"
            )
        fixed = len(self.begins)
        if fixed < _BEGINS or self.least < 1 or fixed + self.least < _LEAST:
            raise ConfigError(
                f"{where}: begins {self.begins!r} and least {self.least}; expected {_BEGINS} or "
                f"more characters, and {_LEAST} or more in all"
            )
        inside = self.characters.replace("-", r"\-")
        for span in ("A-Z", "a-z", "a-f", "A-F", "0-9"):
            inside = inside.replace(span.replace("-", r"\-"), span)
        pattern = rf"(?<![A-Za-z0-9]){re.escape(self.begins)}[{inside}]{{{self.least},}}+"
        return SecretPattern(
            kind=self.kind, marks=(self.begins,), pattern=re.compile(pattern, re.ASCII)
        )
