"""What a span says, whichever dialects it speaks; several may speak of one span."""

from __future__ import annotations

from stepscope.formats.spans import gen_ai, valued, vercel
from stepscope.formats.spans.attributes import text
from stepscope.formats.spans.said import Said, joined
from stepscope.formats.spans.span import Span
from stepscope.formats.spans.valued import evaluation
from stepscope.model import Label
from stepscope.safety.limits import Limits

# The most telling first: what one leaves out, the next may say.
_DIALECTS = (vercel.said, valued.openinference, valued.langfuse, valued.mlflow, gen_ai.said)
_NOTHING = Said()
_EVALUATION = "gen_ai.evaluation.result"


def saying(span: Span, limits: Limits) -> Said:
    """Return what a span says; nothing at all where no dialect is spoken."""
    sayings = [said for dialect in _DIALECTS if (said := dialect(span, limits)) is not None]
    found = joined(sayings) if sayings else _NOTHING
    results = [event.attributes for event in span.events if event.name == _EVALUATION]
    if results or found.session is None or span.status == "error":
        labels = (*found.labels, *(_label(about) for about in results))
        session = found.session or text(span.attributes, "session.id")
        failed = found.failed
        if span.status == "error":
            failed = failed or span.status_message or _exception(span) or "the span's status"
        found = joined([Said(labels=labels, session=session, failed=failed), found])
    return found


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
