"""Send spans and feedback to LangSmith.

Spans go in as OTLP; the server derives the id of a run from that of its span. Feedback has an id of
ours: sent again, it takes the place of the earlier one.
Source: langsmith 0.15.0, `client.py`, `create_feedback`, `update_feedback`; `integrations/otel`.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid5

from stepscope.backends.client import Client, Rejected
from stepscope.backends.evaluations import Evaluation
from stepscope.backends.langsmith import OURS
from stepscope.formats.otlp_protobuf import protobuf
from stepscope.model import Json

# The namespace of the ids that are made here; any fixed one will do.
_NAMESPACE = UUID("6f0d6a0e-9d0f-5b1e-8f52-0d2b3a7c5e11")


class LangsmithSender:
    """One project of one workspace."""

    def __init__(self, client: Client, place: str) -> None:
        """Send to the project called `place`, which LangSmith makes where there is none."""
        self._client = client
        self._place = place

    def spans(self, body: bytes) -> None:
        """Send one request of OTLP."""
        self._client.send(
            "POST",
            "/otel/v1/traces",
            content=protobuf(body),
            kind="application/x-protobuf",
            headers={"langsmith-project": self._place},
        )

    def verdicts(self, found: Sequence[Evaluation], *, fresh: bool) -> int:
        """Give feedback on the runs of a trace; return how many are about runs not there."""
        absent = 0
        for each in found:
            feedback = _feedback(each)
            try:
                self._client.post("/feedback", feedback)
            except Rejected as e:
                if e.status == 404:
                    absent += 1
                elif e.status == 409:  # it is there: what may have changed is changed
                    changed = {key: feedback.get(key) for key in ("score", "value", "comment")}
                    self._client.post(f"/feedback/{feedback['id']}", changed, method="PATCH")
                else:
                    raise
        return absent


def _feedback(each: Evaluation) -> dict[str, Json]:
    run_id = _run_id(each.span or each.root)
    about: dict[str, Json] = {
        "id": str(uuid5(_NAMESPACE, f"{run_id} {each.key}")),
        "run_id": run_id,
        "key": f"{OURS}{each.name}",
        "score": each.value,
        "value": each.label,
        "comment": each.reason or None,
        "feedback_source": {
            "type": "model" if each.annotator == "LLM" else "api",
            "metadata": each.about,
        },
    }
    return {key: held for key, held in about.items() if held is not None}


def _run_id(span: str) -> str:
    """Return the id of the run that a span is: its own, or what the server derives from it.

    >>> _run_id("00f067aa0ba902b7")
    '00000000-0000-0000-00f0-67aa0ba902b7'
    """
    try:
        return str(UUID(hex=span))
    except ValueError:
        return str(UUID(int=int(span, 16)))
