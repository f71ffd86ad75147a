"""Ask a server with the real Langfuse SDK: BASE, public key, secret key; print JSON."""

# The SDK is in an environment of its own, where no type checker looks.
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import json
import sys

from langfuse.api import LangfuseAPI
from langfuse.api.scores.types.create_score_request import CreateScoreRequest


def main(base: str, public: str, secret: str) -> None:
    api = LangfuseAPI(base_url=base, username=public, password=secret)
    page = api.observations.get_many(limit=3, fields="core,basic,io,metadata")
    rest = api.observations.get_many(limit=3, fields="core,basic,io", cursor=page.meta.cursor)
    api.scores.create(request=[CreateScoreRequest(id="s1", name="ok", value=0.5, trace_id="t1")])
    scores = api.scores.get_many(trace_id="t1", fields="details,subject")
    found = {
        "observations": [each.id for each in [*page.data, *rest.data]],
        "end": rest.meta.cursor,
        "scores": [(each.id, each.name, each.value, each.subject.kind) for each in scores.data],
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
