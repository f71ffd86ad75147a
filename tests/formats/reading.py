"""Read a value as a file of one format, in memory."""

from __future__ import annotations

import io
import json

from stepscope.model import Format, Json, Quarantined, Stream, Trajectory
from stepscope.safety.limits import Limits


def written(value: Json) -> bytes:
    """JSON as a recorder writes it; bytes are taken as they are."""
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def lines(*records: Json) -> bytes:
    """JSON lines."""
    return b"\n".join(written(record) for record in records) + b"\n"


def read(
    form: Format, value: Json, *, uri: str = "file.json", limits: Limits | None = None
) -> list[Trajectory | Quarantined]:
    return list(form.read(Stream(io.BytesIO(written(value)), uri, limits or Limits())))


def run_of(form: Format, value: Json, *, uri: str = "file.json") -> Trajectory:
    """The one run of a file."""
    (only,) = read(form, value, uri=uri)
    assert isinstance(only, Trajectory), only
    return only


def refused(form: Format, value: Json) -> Quarantined:
    """The one quarantined record of a file."""
    (only,) = read(form, value)
    assert isinstance(only, Quarantined), only
    return only


def codes(run: Trajectory) -> list[tuple[str, int | None]]:
    return [(warning.code, warning.step) for warning in run.warnings]
