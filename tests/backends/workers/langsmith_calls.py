"""Ask a server with the real LangSmith SDK: BASE and key; print JSON."""

# The SDK is in an environment of its own, where no type checker looks.
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import json
import sys
import warnings

from langsmith import Client
from langsmith.integrations.otel import langsmith_run_id_from_otel_span_id


def main(base: str, key: str) -> None:
    warnings.simplefilter("ignore")
    client = Client(api_url=base, api_key=key, info={})
    runs = list(client.list_runs(project_id="11111111-1111-4111-8111-111111111111"))
    fed = client.create_feedback(run_id=runs[0].id, key="ok", score=0.5)
    found = {
        "runs": [str(run.id) for run in runs],
        "feedback": str(fed.id),
        "run_id": str(langsmith_run_id_from_otel_span_id(0x00F067AA0BA902B7)),
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
