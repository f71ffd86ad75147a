"""A server that speaks as much of Langfuse's public API as is used, and keeps what it is sent.

Shapes as in langfuse 5.0.4: pages of observations and scores with cursors, spans over OTLP, scores
in lists; a score of a known id takes the place of the earlier one.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.backends.scripted import Answer, Asked

PUBLIC, SECRET = "pk-lf-public", "sk-lf-very-secret"
# Values of metadata that are not asked for by key are cut to this.
CUT = 200


def observation(id: str, trace: str, second: int, **more: object) -> dict[str, Any]:
    """Return a record with every field that there always is."""
    return {
        "id": id,
        "traceId": trace,
        "startTime": f"2026-01-05T10:00:{second:02}.000Z",
        "endTime": f"2026-01-05T10:00:{second + 1:02}.000Z",
        "projectId": "p1",
        "parentObservationId": None,
        "type": "SPAN",
        **more,
    }


class Langfuse:
    """One project; call it with a request."""

    def __init__(self, *observations: dict[str, Any], page: int = 1000) -> None:
        self.observations = list(observations)
        self.scores: dict[str, dict[str, Any]] = {}
        self.requests: list[bytes] = []
        self.page = page

    def __call__(self, asked: Asked) -> Answer:
        opened = base64.b64encode(f"{PUBLIC}:{SECRET}".encode()).decode()
        if asked.headers.get("authorization") != f"Basic {opened}":
            return Answer({"message": "Invalid credentials"}, 401)
        match asked.method, asked.path:
            case "GET", "/api/public/v2/observations":
                return self._observations(asked)
            case "GET", "/api/public/v3/scores":
                traces = asked.query["traceId"][0].split(",")
                chosen = [s for s in self.scores.values() if s["subject"]["traceId"] in traces]
                return self._page(chosen, asked, 100)
            case "POST", "/api/public/otel/v1/traces":
                self.requests.append(asked.body)
                return Answer({})
            case "POST", "/api/public/scores":
                listed = asked.json if isinstance(asked.json, list) else [asked.json]
                for score in listed:
                    self.scores[score["id"]] = self._kept(score)
                return Answer({"message": "Accepted"}, 202)
        return Answer({"message": "not found"}, 404)

    def _observations(self, asked: Asked) -> Answer:
        query = asked.query
        chosen = sorted(self.observations, key=lambda one: str(one["startTime"]), reverse=True)
        if "traceId" in query:
            chosen = [one for one in chosen if one["traceId"] == query["traceId"][0]]
        if "fromStartTime" in query:
            first = query["fromStartTime"][0].replace("+00:00", "")
            chosen = [one for one in chosen if str(one["startTime"]).rstrip("Z") >= first]
        wanted = query.get("expandMetadata", [""])[0].split(",")
        return self._page([self._shown(one, wanted) for one in chosen], asked, 1000)

    def _shown(self, one: dict[str, Any], wanted: list[str]) -> dict[str, Any]:
        metadata = {
            key: value if key in wanted else value[:CUT]
            for key, value in one.get("metadata", {}).items()
        }
        return {**one, "metadata": metadata}

    def _page(self, chosen: list[dict[str, Any]], asked: Asked, most: int) -> Answer:
        limit = int(asked.query.get("limit", ["50"])[0])
        if limit > most:
            return Answer({"message": f"limit is at most {most}"}, 400)
        first = int(asked.query.get("cursor", ["0"])[0])
        last = first + min(limit, self.page)
        meta = {"limit": limit, **({"cursor": str(last)} if last < len(chosen) else {})}
        return Answer({"data": chosen[first:last], "meta": meta})

    def _kept(self, score: dict[str, Any]) -> dict[str, Any]:
        own = score.get("observationId")
        subject = {"kind": "observation" if own else "trace", "id": own or score["traceId"]}
        kept = {key: value for key, value in score.items() if not key.endswith("Id")}
        return {
            "projectId": "p1",
            "source": "API",
            "dataType": "NUMERIC",
            "timestamp": "2026-01-05T11:00:00Z",
            "environment": "default",
            "createdAt": "2026-01-05T11:00:00Z",
            "updatedAt": "2026-01-05T11:00:00Z",
            **kept,
            "subject": {**subject, "traceId": score["traceId"]},
        }


def agent(trace: str) -> list[dict[str, Any]]:
    """Return a trace: an agent asks a model, calls a tool that fails, and answers."""
    call = {
        "role": "assistant",
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "find_order", "arguments": '{"id": 17}'},
            }
        ],
    }
    root, asked = f"{trace}-root", {"role": "user", "content": "Cancel order 17"}
    below = {"parentObservationId": root}
    return [
        observation(root, trace, 0, type="AGENT", name="agent", input="Cancel order 17"),
        observation(
            f"{trace}-1",
            trace,
            1,
            type="GENERATION",
            name="chat",
            input=json.dumps([asked]),
            output=json.dumps(call),
            model="m-1",
            usageDetails={"input": 12, "output": 5, "total": 17},
            **below,
        ),
        observation(
            f"{trace}-2",
            trace,
            2,
            type="TOOL",
            name="find_order",
            input='{"id": 17}',
            output="no order 17",
            level="ERROR",
            statusMessage="not found",
            metadata={"note": "x" * 300},
            **below,
        ),
        observation(
            f"{trace}-3",
            trace,
            3,
            type="GENERATION",
            name="chat",
            input=json.dumps([asked, call]),
            output=json.dumps({"role": "assistant", "content": "There is no order 17."}),
            model="m-1",
            **below,
        ),
    ]
