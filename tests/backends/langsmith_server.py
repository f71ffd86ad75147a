"""A server that speaks as much of LangSmith's API as is used, and keeps what it is sent.

Shapes as in langsmith 0.15.0: projects under `/sessions`, runs by `/runs/query` with cursors,
feedback by id, spans over OTLP.
"""

from __future__ import annotations

from typing import Any

from tests.backends.scripted import Answer, Asked

KEY = "lsv2_pt_very_secret"
PROJECT = "11111111-1111-4111-8111-111111111111"


def run_id(trace: int, place: int) -> str:
    """Return the id of a run: a trace is called after its root."""
    return f"{trace:08x}-0000-4000-8000-{place:012x}"


def run(trace: int, place: int, second: int, **more: object) -> dict[str, Any]:
    """Return a run with the fields that there always are."""
    own, root = run_id(trace, place), run_id(trace, 0)
    stamp = f"20260105T1000{second:02}000000Z"
    above = f"20260105T100000000000Z{root}."
    return {
        "id": own,
        "trace_id": root,
        "session_id": PROJECT,
        "name": "run",
        "run_type": "chain",
        "start_time": f"2026-01-05T10:00:{second:02}.000000",
        "end_time": f"2026-01-05T10:00:{second + 1:02}.000000",
        "status": "success",
        "error": None,
        "inputs": {},
        "outputs": {},
        "parent_run_id": root if place else None,
        "dotted_order": f"{above if place else ''}{stamp}{own}",
        "extra": {},
        "events": [],
        "tags": [],
        **more,
    }


class Langsmith:
    """One workspace with one project called `shop`; call it with a request."""

    def __init__(self, *runs: dict[str, Any], page: int = 100) -> None:
        self.runs = list(runs)
        self.feedback: dict[str, dict[str, Any]] = {}
        self.requests: list[bytes] = []
        self.page = page

    def __call__(self, asked: Asked) -> Answer:
        if asked.headers.get("x-api-key") != KEY:
            return Answer({"detail": "Invalid token"}, 401)
        match asked.method, asked.path.split("/")[1:]:
            case "GET", ["sessions"]:
                named = asked.query["name"] == ["shop"]
                return Answer([{"id": PROJECT, "name": "shop"}] if named else [])
            case "POST", ["runs", "query"]:
                return self._runs(asked)
            case "POST", ["otel", "v1", "traces"]:
                self.requests.append(asked.body)
                return Answer({})
            case "POST", ["feedback"]:
                if asked.json["id"] in self.feedback:
                    return Answer({"detail": "conflict"}, 409)
                self.feedback[asked.json["id"]] = asked.json
                return Answer(asked.json)
            case "PATCH", ["feedback", held]:
                self.feedback[held] |= asked.json
                return Answer(self.feedback[held])
        return Answer({"detail": "not found"}, 404)

    def _runs(self, asked: Asked) -> Answer:
        body = asked.json
        if body["session"] != [PROJECT] or body.get("limit", 100) > 100:
            return Answer({"detail": "bad query"}, 422)
        chosen = [
            run
            for run in sorted(self.runs, key=lambda run: str(run["start_time"]), reverse=True)
            if f"{run['start_time']}+00:00" >= body.get("start_time", "")
            and (not body.get("is_root") or run["parent_run_id"] is None)
            and run["trace_id"] == body.get("trace", run["trace_id"])
        ]
        first = int(body.get("cursor", 0))
        last = first + min(body.get("limit", 100), self.page)
        shown = [
            {key: run.get(key) for key in body["select"]} if "select" in body else run
            for run in chosen[first:last]
        ]
        following = str(last) if last < len(chosen) else None
        return Answer({"runs": shown, "cursors": {"next": following, "prev": None}})


def agent(trace: int) -> list[dict[str, Any]]:
    """Return a trace: an agent asks a model, calls a tool that fails, and answers."""
    asked = {"role": "user", "content": "Cancel order 17"}
    function = {"name": "find_order", "arguments": '{"id": 17}'}
    call = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
    }
    said = {"role": "assistant", "content": "There is no order 17."}
    back = {"role": "tool", "tool_call_id": "c1", "content": "no order 17"}
    return [
        run(trace, 0, 0, name="agent", inputs={"messages": [asked]}, outputs=said),
        run(
            trace,
            1,
            1,
            name="ChatOpenAI",
            run_type="llm",
            inputs={"messages": [asked]},
            outputs={"choices": [{"message": call}]},
        ),
        run(
            trace,
            2,
            2,
            name="find_order",
            run_type="tool",
            inputs={"id": 17},
            outputs=None,
            status="error",
            error="not found",
        ),
        run(
            trace,
            3,
            3,
            name="ChatOpenAI",
            run_type="llm",
            inputs={"messages": [asked, call, back]},
            outputs={"choices": [{"message": said}]},
        ),
    ]
