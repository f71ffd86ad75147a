"""Stores and records as literals, for the tests of this room."""

from __future__ import annotations

from stepscope.model import Record, Verdict


def verdict(value: float | None = 1.0, **fields: object) -> Verdict:
    return Verdict("outcome", value, **fields)  # type: ignore[arg-type]


def record(
    trajectory: str = "r1",
    *,
    measure: str = "outcome",
    value: float | None = 1.0,
    label: str | None = None,
    step: int | None = None,
    version: str = "1",
    **fields: object,
) -> Record:
    answer = Verdict(measure, value, label, step)
    return Record(trajectory=trajectory, answer=answer, version=version, **fields)  # type: ignore[arg-type]
