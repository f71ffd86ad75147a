"""Runs as they may be shown: placeholders where secrets stand, everything else as it was.

The shape of a run stays, so steps that are cited are the steps that are shown. Reasons of records
quote the run, cut where it was long: the beginning of a secret before a cut is hidden, too. What is
exported is not touched: an export is a copy of one's own data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from stepscope.model import Json, Record, Trajectory
from stepscope.safety.redact import Redactor, redact_json

# What measures write where they cut a quotation.
_CUT = "…"
# Characters of a secret before a cut that are told from chance.
_TOLD = 5
# Characters of one line of a secret in several that are worth hiding.
_LINE = 16


def hidden(
    redactor: Redactor | None, run: Trajectory, records: list[Record]
) -> tuple[Trajectory, list[Record]]:
    """Return a run and its records without secrets: themselves where they hold none.

    Nothing is hidden where there is no `redactor`.
    """
    if redactor is None:
        return run, records
    plain = msgspec.to_builtins(run)
    clean = redact_json(redactor, plain)
    pieces: dict[str, str] = {}
    if clean is not plain:
        run = msgspec.convert(clean, Trajectory)
        for text in _texts(plain):
            for piece, placeholder in redactor.pieces(text):
                pieces[piece] = placeholder
                # Measures quote the first line of a text.
                lines = piece.splitlines() if "\n" in piece else ()
                pieces.update((line, placeholder) for line in lines if len(line) >= _LINE)
    return run, [_record(redactor, record, pieces) for record in records]


def _record(redactor: Redactor, record: Record, pieces: Mapping[str, str]) -> Record:
    reason = redactor.redact(record.answer.reason).text
    for piece in pieces:
        reason = reason.replace(piece, pieces[piece])
    if pieces and _CUT in reason:
        reason = _without_beginnings(reason, pieces)
    if reason == record.answer.reason:
        return record
    answer = msgspec.structs.replace(record.answer, reason=reason)
    return msgspec.structs.replace(record, answer=answer)


def _without_beginnings(reason: str, pieces: Mapping[str, str]) -> str:
    said, *others = reason.split(_CUT)
    out = [_without_beginning(part, pieces) for part in (said, *others[:-1])]
    return _CUT.join([*out, others[-1]])


def _without_beginning(said: str, pieces: Mapping[str, str]) -> str:
    """Return a text without the piece that it breaks off in.

    >>> _without_beginning("no key abcdef", {"abcdefgh": "[hidden]"})
    'no key [hidden]'
    """
    found = (_begun(said, piece) for piece in pieces)
    at, piece = min(((at, piece) for at, piece in found if at >= 0), default=(-1, ""))
    return said if at < 0 else said[:at] + pieces[piece]


def _begun(said: str, piece: str) -> tuple[int, str]:
    """Return where the end of a text begins to be the beginning of a piece; -1 where nowhere."""
    at = said.find(piece[:_TOLD], max(len(said) - len(piece), 0))
    while at >= 0 and not piece.startswith(said[at:]):
        at = said.find(piece[:_TOLD], at + 1)
    return at, piece


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
