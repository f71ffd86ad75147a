"""Spans of any exporter, and the runs that they make."""

from __future__ import annotations

from stepscope.formats.spans.assemble import assemble
from stepscope.formats.spans.span import RawSpan, SpanEvent, SpanStatus

__all__ = ["RawSpan", "SpanEvent", "SpanStatus", "assemble"]
