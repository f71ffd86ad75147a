"""Send spans and assessments to an MLflow tracking server.

Spans go in as OTLP, from MLflow 3 on with a database behind the server. Verdicts are assessments;
the server gives them ids, so those that are there are looked at first, and changed where they
differ.
Source: mlflow 3.17.2, `server/otel_api.py`, `server/handlers.py`, `entities/assessment.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from stepscope.backends.client import Client
from stepscope.backends.evaluations import Annotator, Evaluation
from stepscope.backends.mlflow import KEY, experiment_id, key_of, trace_info
from stepscope.model import Json

_SOURCES: dict[Annotator, str] = {"CODE": "CODE", "HUMAN": "HUMAN", "LLM": "LLM_JUDGE"}


class MlflowSender:
    """One experiment of one server."""

    def __init__(self, client: Client, place: str) -> None:
        """Find the experiment called `place`, or make it.

        Raises:
            Rejected: the server refuses to make it.
        """
        self._client = client
        self._experiment = experiment_id(client, place)
        if self._experiment is None:
            made = client.post("/api/2.0/mlflow/experiments/create", {"name": place}).value
            self._experiment = str(made["experiment_id"])

    def spans(self, body: bytes) -> None:
        """Send one request of OTLP."""
        headers = {"x-mlflow-experiment-id": self._experiment or ""}
        self._client.send(
            "POST", "/v1/traces", content=body, kind="application/json", headers=headers
        )

    def verdicts(self, found: Sequence[Evaluation], *, fresh: bool) -> int:
        """Assess the trace of a run and its spans."""
        trace_id = found[0].trace
        if not trace_id.startswith("tr-"):
            trace_id = f"tr-{trace_id}"
        info = trace_info(self._client, trace_id)
        if info is None:
            return len(found)
        there = {key_of(held): held for held in info.get("assessments") or () if key_of(held)}
        path = f"/api/3.0/mlflow/traces/{quote(trace_id, safe='')}/assessments"
        for each in found:
            wanted = _assessment(each, trace_id)
            held = there.get(each.key)
            if held is None:
                self._client.post(path, {"assessment": wanted})
            elif any(held.get(key) != wanted.get(key) for key in ("feedback", "rationale")):
                self._change(path, held, wanted)
        return 0

    def _change(self, path: str, held: dict[str, Json], wanted: dict[str, Json]) -> None:
        named = str(held.get("assessment_id"))
        fields = [key for key in ("feedback", "rationale", "metadata") if key in wanted]
        body = {
            "assessment": {**wanted, "assessment_id": named},
            "update_mask": ",".join(fields),
        }
        self._client.post(f"{path}/{quote(named, safe='')}", body, method="PATCH")


def _assessment(each: Evaluation, trace_id: str) -> dict[str, Json]:
    """Return a verdict as an assessment; every value of its metadata is text."""
    metadata = {KEY: each.key, **{key: str(value) for key, value in each.about.items()}}
    if each.value is not None and each.label is not None:
        metadata["label"] = each.label
    value: Json = each.label if each.value is None else each.value
    about: dict[str, Json] = {
        "assessment_name": each.name,
        "trace_id": trace_id,
        "span_id": each.span,
        "source": {"source_type": _SOURCES[each.annotator], "source_id": "stepscope"},
        "feedback": {"value": value},
        "rationale": each.reason or None,
        "metadata": metadata,
    }
    return {key: held for key, held in about.items() if held is not None}
