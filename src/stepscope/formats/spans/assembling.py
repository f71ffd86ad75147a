"""Spans into runs: one run a trace, whatever order its spans came in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from stepscope.formats.building import Ordinals
from stepscope.formats.spans.span import Span
from stepscope.model import Json, Source, Trajectory
from stepscope.safety.door import Repair
from stepscope.safety.limits import Limits

_LIMITS = Limits()


def assemble(
    spans: Sequence[Span],
    *,
    source: Source,
    ordinals: Ordinals | None = None,
    limits: Limits = _LIMITS,
    extra: Mapping[str, Json] | None = None,
    repairs: Iterable[Repair] = (),
) -> Iterator[Trajectory]:
    """Yield one run for each trace, in the order of their first spans.

    Args:
        spans: of any number of traces, in any order.
        source: where they were read; `run_id` becomes the trace's id.
        ordinals: the file's, for spans that name no trace.
        limits: of what is decoded within attributes.
        extra: what the source says of the trace beyond its spans.
        repairs: what the door repaired while decoding.

    Raises:
        TraceError: a run cannot be written as JSON, or has more steps than `limits` allows.
    """
    raise NotImplementedError
