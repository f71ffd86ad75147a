"""Secrets of the user's own: described, not written as patterns, so that none can take for ever."""

from __future__ import annotations

import re

import msgspec

from stepscope.errors import ConfigError
from stepscope.safety.secrets.form import Form

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

    def form(self, where: str) -> Form:
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
        return Form(kind=self.kind, marks=(self.begins,), pattern=re.compile(pattern, re.ASCII))
