r"""Parse JSON that is not quite JSON, slowly and exactly; every kind of repair is counted.

The standard library's parser takes NaN, infinities, lone surrogates and whole numbers of any size;
here each of them becomes text, so that nothing downstream meets a value it cannot store or print.
Refuses everything else that RFC 8259 refuses, nesting beyond the limit, and bytes that are not
UTF-8. `stepscope.safety.door` calls this only where the fast way found something odd.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from stepscope.errors import LimitError, TraceError
from stepscope.safety.limits import Limits
from stepscope.safety.structure import deepest

# Anything that JSON can say. `Any` is the trace's own freedom, not ours.
Json = Any

INT_LOW, INT_HIGH = -(2**63), 2**64 - 1
BOM = b"\xef\xbb\xbf"

_REASONS = {
    "attributes_cut": "{n} span(s) over limits.attributes: the first kept, with a mark and a hash",
    "bom": "{n} byte order mark removed",
    "duplicate_key": "{n} key(s) of an object came twice; the last one is kept",
    "huge_number": "{n} number(s) beyond 64 bits kept as text",
    "lone_surrogate": "{n} text(s) with half a character kept with the half escaped",
    "non_finite": "{n} NaN or infinite number(s) kept as text",
    "nul": "{n} text(s) with a NUL character kept with it escaped",
    "truncated": "{n} text(s) over limits.text_bytes cut, with a mark and a hash",
}
REPAIR_CODES = frozenset(_REASONS)

_SURROGATE = re.compile("[\ud800-\udfff]")
# 19 digits hold every number below 2**63; shorter ones need no second look.
_SAFE_DIGITS = 18


class Repair(NamedTuple):
    """Something that was not JSON, or not storable, and was kept in another form."""

    code: str
    reason: str


def told(counted: Mapping[str, int]) -> tuple[Repair, ...]:
    """Return one repair for each code that was counted, by code.

    >>> told({"nul": 2, "bom": 0})
    (Repair(code='nul', reason='2 text(s) with a NUL character kept with it escaped'),)
    """
    return tuple(
        Repair(code, _REASONS[code].format(n=n)) for code, n in sorted(counted.items()) if n
    )


def parse(raw: bytes, limits: Limits) -> tuple[Json, tuple[Repair, ...]]:
    """Return the value and the repairs it took, one for each kind.

    Raises:
        TraceError: it is no JSON even so; `offset` says where in `raw`.
        LimitError: it nests deeper than `limits.depth`.
    """
    return _Parsing(limits).parse(raw)


def refuse_depth(raw: bytes, limits: Limits) -> None:
    """Raise if a JSON text nests deeper than `limits.depth`.

    Raises:
        LimitError: it does.
    """
    depth = deepest(raw)
    if depth > limits.depth:
        raise LimitError(
            f"{depth} containers inside each other; limits.depth is {limits.depth}", offset=0
        )


class _Parsing:
    """One text being parsed: its limits, and the repairs so far by code."""

    def __init__(self, limits: Limits) -> None:
        self.text_bytes = limits.text_bytes
        self.limits = limits
        self.repairs: Counter[str] = Counter()

    def parse(self, raw: bytes) -> tuple[Json, tuple[Repair, ...]]:
        body = raw.removeprefix(BOM)
        skipped = len(raw) - len(body)
        self.repairs["bom"] += skipped > 0
        refuse_depth(body, self.limits)
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError as e:
            raise TraceError(f"not UTF-8: {e.reason}", offset=e.start + skipped) from e
        try:
            loose = json.loads(
                text,
                object_pairs_hook=self._object,
                parse_constant=self._constant,
                parse_int=self._int,
                parse_float=self._float,
            )
            value = self._kept(loose)
        except json.JSONDecodeError as e:
            at = len(text[: e.pos].encode("utf-8", "surrogatepass")) + skipped
            raise TraceError(f"not JSON: {e.msg} (byte {at})", offset=at) from e
        except RecursionError as e:
            raise LimitError(
                f"nested too deep for this machine; lower limits.depth, now {self.limits.depth}",
                offset=0,
            ) from e
        return value, told(self.repairs)

    def _object(self, pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        value = dict(pairs)
        self.repairs["duplicate_key"] += len(pairs) - len(value)
        return value

    def _constant(self, text: str) -> str:
        self.repairs["non_finite"] += 1
        return text

    def _int(self, text: str) -> int | str:
        if len(text) <= _SAFE_DIGITS or (
            len(text) <= _SAFE_DIGITS + 3 and INT_LOW <= int(text) <= INT_HIGH
        ):
            return int(text)
        self.repairs["huge_number"] += 1
        return text

    def _float(self, text: str) -> float | str:
        value = float(text)
        if math.isinf(value):
            self.repairs["huge_number"] += 1
            return text
        return value

    def _kept(self, value: Json) -> Json:
        """Return the value with every text, keys included, fit to be stored and printed."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self._kept(item) for item in value]
        if isinstance(value, dict):
            kept = {self._text(key): self._kept(item) for key, item in value.items()}
            self.repairs["duplicate_key"] += len(value) - len(kept)
            return kept
        return value

    def _text(self, text: str) -> str:
        if _SURROGATE.search(text):
            self.repairs["lone_surrogate"] += 1
            text = _SURROGATE.sub(lambda half: f"\\u{ord(half.group()):04x}", text)
        if "\0" in text:
            self.repairs["nul"] += 1
            text = text.replace("\0", "\\u0000")
        if len(text) * 4 > self.text_bytes and len(text.encode()) > self.text_bytes:
            self.repairs["truncated"] += 1
            return cut(text, self.text_bytes)
        return text


def cut(text: str, text_bytes: int) -> str:
    """Return the beginning of a text with a mark and the hash of the whole, `text_bytes` at most.

    >>> cut("a" * 200, 100)[:61]
    'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa[truncated: 200 bytes in all, s'
    >>> len(cut("a" * 200, 100))
    100
    """
    raw = text.encode()
    mark = f"[truncated: {len(raw)} bytes in all, sha256 {hashlib.sha256(raw).hexdigest()[:32]}]"
    return raw[: max(0, text_bytes - len(mark))].decode("utf-8", "ignore") + mark
