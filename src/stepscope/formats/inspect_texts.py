"""The long texts of an Inspect sample, which stand once and are pointed at by `attachment://`.

A text that is nothing but such a pointer (`tc://` in the oldest logs) stands for the attachment of
that name; one whose attachment is missing stays as it is, and is counted.
Format: UKGovernmentBEIS/inspect_ai 0.3.285, `log/_condense.py`.
"""

from __future__ import annotations

import re

from stepscope.model import Json
from stepscope.safety.limits import Limits

_PROTOCOLS = ("attachment://", "tc://")
_POINTER = re.compile(rb'"(?:attachment|tc)://([^"\\]*)"')


class Texts:
    """The attachments of one sample; `missing` counts the pointers that lead nowhere."""

    def __init__(self, attachments: dict[str, str], limits: Limits) -> None:
        self.limits = limits
        self.missing = 0
        self._attachments = attachments

    def of(self, text: str) -> str:
        """Return a text, or the attachment that it points at."""
        if not text.startswith(_PROTOCOLS):
            return text
        found = self._attachments.get(text.partition("://")[2])
        if found is None:
            self.missing += 1
            return text
        return found

    def copied(self, value: Json) -> Json:
        """Return a value with every pointer in it replaced; the value itself stays as it is."""
        if type(value) is str:
            return self.of(value)
        if type(value) is dict:
            return {key: self.copied(item) for key, item in value.items()}
        return [self.copied(item) for item in value] if type(value) is list else value

    def within(self, value: Json) -> Json:
        """Return a value with every pointer in it replaced, in place where it is no text itself."""
        if type(value) is str:
            return self.of(value)
        if type(value) is dict or type(value) is list:
            self._replace(value)
        return value

    def _replace(self, top: dict[str, Json] | list[Json]) -> None:
        if not self._attachments:
            return
        waiting: list[Json] = [top]  # `Json`: a holder is indexed by its own keys or places
        while waiting:
            holder = waiting.pop()
            for key, item in holder.items() if type(holder) is dict else enumerate(holder):
                kind = type(item)
                if kind is str:
                    if item.startswith(_PROTOCOLS):
                        holder[key] = self.of(item)  # no key comes or goes: the loop may go on
                elif kind is dict or kind is list:
                    waiting.append(item)

    def named(self, text: bytes) -> dict[str, str]:
        """Return the attachments that a JSON text, kept with its pointers, needs."""
        names = {found.decode() for found in _POINTER.findall(text)}
        return {name: self._attachments[name] for name in sorted(names & self._attachments.keys())}
