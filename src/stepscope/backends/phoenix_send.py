"""Send spans and annotations to a Phoenix server.

Spans go in as OTLP in protobuf, the only form that it takes; a span that it knows stays as it is.
Verdicts are annotations of spans and traces, which one name and one identifier have once.
Source: arize-phoenix 20.26.1, `server/api/routers/v1/traces.py`, `spans.py`, `annotations.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stepscope.backends.asking import batched
from stepscope.backends.client import Client, Rejected
from stepscope.backends.evaluations import Evaluation
from stepscope.formats.otlp_protobuf import protobuf
from stepscope.model import Json

# Annotations of one request.
_BATCH = 200
# Spans are put into the database behind the answer: how often, and how many seconds apart, to ask
# for one that was sent just now.
_LOOKS, _PAUSE = 40, 0.5


class PhoenixSender:
    """One project of one server."""

    def __init__(self, client: Client, place: str, sleep: Callable[[float], None]) -> None:
        """Send to the project called `place`, which Phoenix makes where there is none."""
        self._client = client
        self._place = place
        self._sleep = sleep

    def spans(self, body: bytes) -> None:
        """Send one request of OTLP."""
        headers = {"x-project-name": self._place}
        kind = "application/x-protobuf"
        self._client.send("POST", "/v1/traces", content=protobuf(body), kind=kind, headers=headers)

    def verdicts(self, found: Sequence[Evaluation], *, fresh: bool) -> int:
        """Annotate spans, and the trace with what is about the whole run."""
        absent = 0
        for path, chosen in (
            ("/v1/span_annotations", [each for each in found if each.span is not None]),
            ("/v1/trace_annotations", [each for each in found if each.span is None]),
        ):
            for batch in batched(chosen, _BATCH):
                absent += self._annotate(path, batch, fresh=fresh)
        return absent

    def _annotate(self, path: str, batch: list[Evaluation], *, fresh: bool) -> int:
        """Send annotations of one kind; return how many are about spans not there."""
        body = {"data": [_annotation(each) for each in batch]}
        for _ in range(_LOOKS if fresh else 1):
            try:
                self._client.post(f"{path}?sync=true", body)
            except Rejected as e:
                if e.status != 404:
                    raise
                if fresh:
                    self._sleep(_PAUSE)
            else:
                return 0
        if len(batch) == 1:
            return 1
        # Some may be there: a batch is refused whole for one that is not.
        return sum(self._annotate(path, [each], fresh=False) for each in batch)


def _annotation(each: Evaluation) -> dict[str, Any]:
    told: dict[str, Json] = {
        "score": each.value,
        "label": each.label,
        "explanation": each.reason or None,
    }
    place = {"trace_id": each.trace} if each.span is None else {"span_id": each.span}
    return {
        **place,
        "name": each.name,
        "annotator_kind": each.annotator,
        "result": {key: value for key, value in told.items() if value is not None},
        "metadata": each.about,
        "identifier": f"stepscope:{each.key}",
    }
