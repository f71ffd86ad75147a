"""Spans of any exporter, and the runs that they make."""

from __future__ import annotations

from stepscope.formats.spans.assembling import assemble
from stepscope.formats.spans.span import Span, SpanEvent, SpanStatus

__all__ = ["Span", "SpanEvent", "SpanStatus", "assemble"]
