"""Spans with more attributes than a limit allows: the first are kept, and what is left out told."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from itertools import islice

import msgspec

from stepscope.errors import LimitError
from stepscope.formats.spans.span import Span
from stepscope.safety.forgiving import Repair, told
from stepscope.safety.limits import Limits

LEFT_OUT = "attributes_left_out"


def limited(span: Span, limits: Limits) -> Span:
    """Return the span with its first `limits.attributes` attributes.

    The same object where it has no more. How many were left out, and the hash of them all as JSON,
    stay in `extra`.
    """
    about = span.attributes
    if len(about) <= limits.attributes:
        return span
    kept = dict(islice(about.items(), limits.attributes))
    others = dict(islice(about.items(), limits.attributes, None))
    digest = sha256(msgspec.json.encode(others)).hexdigest()
    told = {"count": len(others), "sha256": digest}
    return msgspec.structs.replace(
        span, attributes=kept, extra={**(span.extra or {}), LEFT_OUT: told}
    )


def trace_within(spans: Sequence[Span], limits: Limits) -> tuple[list[Span], tuple[Repair, ...]]:
    """Return the spans of a trace, each with no more attributes than allowed, and the repairs.

    Raises:
        LimitError: there are more than `limits.spans`.
    """
    if len(spans) > limits.spans:
        raise LimitError(
            f"a trace of {len(spans):,} spans; the limit is {limits.spans:,} "
            "(`limits.spans` in stepscope.toml)"
        )
    kept = [limited(span, limits) for span in spans]
    cut = sum([ours is not theirs for ours, theirs in zip(kept, spans, strict=True)])
    return kept, told({"attributes_cut": cut})
