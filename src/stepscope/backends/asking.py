"""What a backend is asked for, and what it tells beside the runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

import msgspec

from stepscope.backends.client import Client
from stepscope.errors import EnvironmentFault
from stepscope.formats.spans import Span
from stepscope.formats.spans.assembling import by_trace, runs_of_file
from stepscope.model import Json, Quarantined, Source, Trajectory
from stepscope.safety.door import Decoded, Repair
from stepscope.safety.limits import Limits

T = TypeVar("T")
Found = Trajectory | Quarantined
# Where a pull ended, in the words of its backend; kept between pulls.
Mark = dict[str, Json]


class Told:
    """What came beside the runs: what the backend kept back, and where this pull ends.

    `withheld` counts by what it is; `mark` is None until the pull is at its end.
    """

    def __init__(self) -> None:
        self.withheld: Counter[str] = Counter()
        self.mark: Mark | None = None


class Asked(NamedTuple):
    """One pull.

    Attributes:
        client: the host.
        place: the project or experiment.
        uri: what the runs say of where they are from.
        since_ns: only traces that began then or later, nanoseconds since 1970; None for all.
        mark: where the previous pull ended; None where there was none, or it does not matter.
        limits: of what is decoded.
        told: where to put what is told.
    """

    client: Client
    place: str
    uri: str
    since_ns: int | None
    mark: Mark | None
    limits: Limits
    told: Told


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of at most `size`."""
    left = iter(items)
    while batch := list(islice(left, size)):
        yield batch


def objects(reply: Decoded, key: str, asked: Asked) -> list[dict[str, Json]]:
    """Return the list of objects under a key of a reply.

    Raises:
        EnvironmentFault: there is none, so that the host is not what it is taken for.
    """
    value = reply.value
    listed = value.get(key, []) if isinstance(value, dict) else None
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise EnvironmentFault(
            f"{asked.client.access.host} answers without a list of objects under {key!r}; is "
            f"{asked.client.access.host_variable} its address?"
        )
    return listed


def cursor(reply: Decoded, key: str, seen: set[str], asked: Asked) -> str | None:
    """Return where the next page begins; None at the end.

    Raises:
        EnvironmentFault: the backend sends the same page again and again.
    """
    found = reply.value.get(key) if isinstance(reply.value, dict) else None
    if found is None or found == "":
        return None
    if str(found) in seen:
        raise EnvironmentFault(
            f"{asked.client.access.host} gives the same page twice; what came before it is kept"
        )
    seen.add(str(found))
    return str(found)


def runs(
    spans: Sequence[Span], asked: Asked, *, format: str, repairs: Sequence[Repair] = ()
) -> Iterator[Found]:
    """Yield the runs of whole traces; parents that did not come with them are counted."""
    ordered = sorted(spans, key=lambda span: (span.start_ns or 0, span.span_id))
    for members in by_trace(ordered).values():
        ids = {span.span_id for span in members}
        named = {span.parent_id for span in members if span.parent_id}
        if missing := len(named - ids):
            asked.told.withheld["spans referenced and not returned"] += missing
    source = Source(format=format, uri=asked.uri)
    yield from runs_of_file(
        ordered, source=source, limits=asked.limits, extra=None, repairs=repairs
    )


def aside(record: Json, reason: str, asked: Asked) -> Quarantined:
    """Return a record that could not be read, with its bytes."""
    return Quarantined(reason=reason, offset=0, raw=msgspec.json.encode(record), uri=asked.uri)
