"""Put placeholders where secrets stand, in any text that leaves: sent, logged, shown or filed.

`[secret:KIND:xxxx]` says of which provider the secret was, and four hexadecimal digits of a keyed
hash: the same secret has the same placeholder under one key, in whatever encoding it stands, and
nobody without the key can try values. Secrets are also found through JSON escapes, percent escapes
and base64, up to three of them around each other. Ids are left alone. Time is linear in the text.

Not found: secrets without a form of their own in places that do not name them, secrets cut or put
together from pieces, other encodings (hexadecimal, compression, UTF-16), images.
"""

from __future__ import annotations

import hmac
import re
import secrets as randomness
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any

from stepscope.safety.secrets.contexts import CONTEXTS, aws_pairs
from stepscope.safety.secrets.decoded import View, base64_runs, json_view, percent_view
from stepscope.safety.secrets.form import Form, Hit, by_mark
from stepscope.safety.secrets.providers import PROVIDERS

# Anything that JSON can say. `Any` is the trace's own freedom, not ours.
Json = Any

# Encodings around each other that are looked through.
DEPTH = 3
# A provider's secret stands in a run of such characters, of at least so many.
_LONG = re.compile(r"[A-Za-z0-9+/_=%.:-]{18,}+", re.ASCII)
# One of them is in every secret that its place gives away.
_GATES = ("=", ":", "earer", "EARER", "asic", "-----")
# What a JSON value has to be called, to be looked at with its name, and its shortest text.
_NAME = re.compile("key|secret|token|passw|passphrase|pwd|authorization", re.IGNORECASE)
_SHORTEST = 8
_BY_PROVIDER = by_mark(PROVIDERS)


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without secrets, and how many were taken out, by kind."""

    text: str
    found: Mapping[str, int]


class Redactor:
    """Finds secrets, and names them under one key."""

    def __init__(self, key: bytes, forms: Iterable[Form] = ()) -> None:
        """Look for the known forms and for `forms`, which are the user's own."""
        self._key = key
        own = tuple(forms)
        self._own = by_mark(own)
        self._elsewhere = by_mark((*own, *CONTEXTS))

    def redact(self, text: str) -> Redacted:
        """Return a text with a placeholder for every secret in it."""
        hits = _merged(self.hits(text))
        if not hits:
            return Redacted(text, {})
        pieces: list[str] = []
        at = 0
        for hit in hits:
            pieces += (text[at : hit.start], self.placeholder(hit.kind, hit.secret))
            at = hit.end
        pieces.append(text[at:])
        found = Counter(hit.kind for hit in hits)
        return Redacted("".join(pieces), dict(sorted(found.items())))

    def pieces(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield what `redact` takes out, as it stands in the text, with what it puts there."""
        for hit in _merged(self.hits(text)):
            yield text[hit.start : hit.end], self.placeholder(hit.kind, hit.secret)

    def placeholder(self, kind: str, secret: str) -> str:
        """Return what stands for a secret."""
        return f"[secret:{kind}:{hmac.new(self._key, secret.encode(), sha256).hexdigest()[:4]}]"

    def hits(self, text: str, depth: int = DEPTH) -> list[Hit]:
        """Return the secrets of a text, those of a provider's own form first; they may overlap."""
        found = list(self._plain(text))
        if depth:
            for view in (json_view(text), percent_view(text)):
                if view is not None:
                    found += _placed(self.hits(view.text, depth - 1), view)
            for run in base64_runs(text):
                inside = self._inside(run.texts, depth - 1)
                if inside is not None:
                    found.append(Hit(run.start, run.end, inside.kind, inside.secret))
        return found

    def _plain(self, text: str) -> Iterator[Hit]:
        runs = _LONG.findall(text)
        if runs:
            joined = "\n".join(runs)
            found = [
                hit
                for mark, forms in _BY_PROVIDER
                if mark in joined
                for one in forms
                for hit in one.hits(text, mark)
            ]
            yield from found
            yield from aws_pairs(text, found)
        marked = self._own if not any(gate in text for gate in _GATES) else self._elsewhere
        for mark, forms in marked:
            if mark in text:
                for one in forms:
                    yield from one.hits(text, mark)

    def _inside(self, texts: Iterable[str], depth: int) -> Hit | None:
        for text in texts:
            found = self.hits(text, depth)
            if found:
                return found[0]
        return None


def _placed(hits: Iterable[Hit], view: View) -> Iterator[Hit]:
    for hit in hits:
        yield Hit(view.starts[hit.start], view.starts[hit.end], hit.kind, hit.secret)


def _merged(hits: list[Hit]) -> list[Hit]:
    """Return hits that do not overlap: of those that do, the whole, named by the one found first.

    >>> _merged([Hit(4, 8, "openai", "b"), Hit(2, 6, "key", "a")])
    [Hit(start=2, end=8, kind='openai', secret='b')]
    """
    kept: list[tuple[int, Hit]] = []
    for order, hit in sorted(enumerate(hits), key=lambda item: (item[1].start, -item[1].end)):
        if kept and hit.start < kept[-1][1].end:
            first, before = kept[-1]
            named = hit if order < first else before
            whole = Hit(before.start, max(before.end, hit.end), named.kind, named.secret)
            kept[-1] = (min(first, order), whole)
        else:
            kept.append((order, hit))
    return [hit for _, hit in kept]


def redact_json(redactor: Redactor, value: Json) -> Json:
    """Return a JSON value in which no text holds a secret; what holds none comes back as it is.

    Keys are texts too, and what a key names is looked at with its name: `{"password": "..."}`. The
    shape stays, so that what cites places in it goes on to do so.

    >>> redact_json(Redactor(b"k"), {"n": [1, None, "ids stay"]})
    {'n': [1, None, 'ids stay']}
    """
    return _walk(redactor, value, "")


def _walk(redactor: Redactor, value: Json, name: str) -> Json:
    if isinstance(value, str):
        if _NAME.search(name):
            return _named(redactor, name, value)
        return redactor.redact(value).text if len(value) >= _SHORTEST else value
    if isinstance(value, list | tuple):
        made = [_walk(redactor, item, name) for item in value]
        return value if all(a is b for a, b in zip(made, value, strict=True)) else made
    if isinstance(value, dict):
        pairs: dict[str, Json] = {}
        for key, item in value.items():
            pairs[_fresh(redactor.redact(key).text, pairs)] = _walk(redactor, item, key)
        same = all(pairs.get(key) is item for key, item in value.items())
        return value if same else pairs
    return value


def _fresh(key: str, taken: Mapping[str, Json]) -> str:
    """Return a key that is not taken: two secrets can have one placeholder."""
    while key in taken:
        key += "'"
    return key


def _named(redactor: Redactor, name: str, value: str) -> str:
    """Return a text without secrets, also those that only its name gives away."""
    lead = f"{name}="
    found = redactor.redact(lead + value)
    if not found.found:
        return value
    # What was found reaches into the name: look at the value alone.
    return found.text[len(lead) :] if found.text.startswith(lead) else redactor.redact(value).text


class _Messages:
    """What the words of this process are redacted with: a key that lives as long as it."""

    def __init__(self) -> None:
        self._key = randomness.token_bytes(32)
        self.redactor = Redactor(self._key)

    def look_also_for(self, forms: Iterable[Form]) -> None:
        self.redactor = Redactor(self._key, forms)


@cache
def _messages() -> _Messages:
    return _Messages()


def look_also_for(forms: Iterable[Form]) -> None:
    """Hide these forms, too, in what `scrubbed` returns from here on: those of the settings."""
    _messages().look_also_for(forms)


def scrubbed(text: str) -> str:
    """Return a message, a log line or an error of this process without secrets.

    >>> scrubbed("no such run 'airline/11/2' (#W2575533)")
    "no such run 'airline/11/2' (#W2575533)"
    """
    return _messages().redactor.redact(text).text
