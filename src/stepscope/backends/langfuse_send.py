"""Send spans and scores to Langfuse.

Spans go in as OTLP; a score with the id and the time of an earlier one takes its place.
Source: langfuse 5.0.4, `api/scores/types/create_score_request.py`, `api/opentelemetry`.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.backends.asking import batched
from stepscope.backends.client import Client
from stepscope.backends.evaluations import Evaluation
from stepscope.backends.phoenix import iso
from stepscope.errors import EnvironmentFault
from stepscope.formats.otlp_any import TRACE_DIGITS, id_of
from stepscope.model import Json

_BATCH = 100
# Characters of a score that is a text.
_LABEL_MOST = 500


class LangfuseSender:
    """The project that the keys open."""

    def __init__(self, client: Client) -> None:
        """Send to the project of the client's keys."""
        self._client = client

    def spans(self, body: bytes) -> None:
        """Send one request of OTLP."""
        self._client.send(
            "POST",
            "/api/public/otel/v1/traces",
            content=body,
            kind="application/json",
            headers={"x-langfuse-ingestion-version": "4"},
        )

    def verdicts(self, found: Sequence[Evaluation], *, fresh: bool) -> int:
        """Score the trace of a run and its observations; Langfuse takes scores of any id."""
        for batch in batched(found, _BATCH):
            told = self._client.post("/api/public/scores", [_score(each) for each in batch]).value
            rejected = told.get("rejected") if isinstance(told, dict) else None
            if rejected:
                errors = told.get("errors")
                raise EnvironmentFault(
                    f"{self._client.access.host} refused {rejected} of {len(batch)} scores: "
                    f"{self._client.access.scrubbed(str(errors))[:200]!r}"
                )
        return 0


def _score(each: Evaluation) -> dict[str, Json]:
    metadata = dict(each.about)
    if each.value is not None and each.label is not None:
        metadata["label"] = each.label
    text = (each.label or "")[:_LABEL_MOST]
    about: dict[str, Json] = {
        "id": f"stepscope-{id_of(f'{each.trace} {each.span} {each.key}', TRACE_DIGITS)}",
        "traceId": each.trace,
        "observationId": each.span,
        "name": each.name,
        "value": text if each.value is None else each.value,
        "dataType": "CATEGORICAL" if each.value is None else "NUMERIC",
        "comment": each.reason or None,
        "metadata": metadata,
        "timestamp": iso(each.at_ns or 0),
    }
    return {key: held for key, held in about.items() if held is not None}
