"""What a span says, whichever dialects it speaks; several may speak of one span."""

from __future__ import annotations

from stepscope.formats.spans import (
    gen_ai,
    langfuse,
    langsmith,
    mlflow,
    openai_agents,
    pydantic_ai,
    valued,
    vercel,
)
from stepscope.formats.spans.attributes import text
from stepscope.formats.spans.said import Said, joined
from stepscope.formats.spans.span import Span
from stepscope.formats.spans.valued import evaluation
from stepscope.model import Label
from stepscope.safety.limits import Limits

# The most telling first: what one leaves out, the next may say.
_DIALECTS = (
    vercel.said,
    openai_agents.said,
    valued.openinference,
    langfuse.said,
    mlflow.said,
    langsmith.said,
    gen_ai.said,
    pydantic_ai.said,
)
_NOTHING = Said()
_EVALUATION = "gen_ai.evaluation.result"


def saying(span: Span, limits: Limits) -> Said:
    """Return what a span says; nothing at all where no dialect is spoken."""
    sayings = [said for dialect in _DIALECTS if (said := dialect(span, limits)) is not None]
    found = joined(sayings) if sayings else _NOTHING
    labels = [_label(event.attributes) for event in span.events if event.name == _EVALUATION]
    session = None if found.session is not None else text(span.attributes, "session.id")
    failed = found.failed
    if failed is None and span.status == "error":
        failed = span.status_message or _exception(span) or "the span's status is error"
    if not labels and session is None and failed == found.failed:
        return found
    return joined([Said(labels=(*found.labels, *labels), session=session, failed=failed), found])


def _label(about: dict[str, object]) -> Label:
    prefix = "gen_ai.evaluation."
    plain = {key.removeprefix(prefix): value for key, value in about.items()}
    return evaluation(plain, {})


def _exception(span: Span) -> str | None:
    for event in span.events:
        if event.name == "exception":
            said = text(event.attributes, "exception.message", "exception.type")
            if said is not None:
                return said
    return None
