"""The generated runs in the shapes that J1 reads: JSON array, JSON lines, chat messages, spans.

All hold the same runs. Spans are one for the agent, one for every answer of the model with all
messages before it, one for every tool call, in the words and the form of their sender: OTLP with
`gen_ai.input.messages` (one export a line, one trace a run), traces as `mlflow.entities.Trace`
writes them (one a line), and Phoenix's spans with OpenInference's indexed keys (one span a line).
Chat histories are sent again with every answer, so these files are long: they hold fewer runs.
"""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import generate

RUNS = 4_000
SPAN_RUNS = 400
_BEGIN_NS = 1_760_000_000_000_000_000
_SECOND_NS = 1_000_000_000

Run = dict[str, Any]
Message = dict[str, Any]


def files(
    runs: int = RUNS, span_runs: int = SPAN_RUNS, *, data: Path = generate.DATA
) -> list[Path]:
    """Return the array's parts and, behind them, the five files made of the same runs."""
    parts = generate.files(runs, data=data)
    folder = parts[0].parent
    spans = [f"{name}-{span_runs}" for name in ("otlp", "mlflow", "phoenix")]
    made = [folder / f"{name}.jsonl" for name in ("tau", "messages", *spans)]
    if not all(path.is_file() for path in made):
        records = [run for part in parts for run in json.loads(part.read_bytes())]
        few = list(enumerate(records[:span_runs]))
        _write(made[0], records)
        _write(made[1], map(_conversation, records))
        _write(made[2], (_export(number, run) for number, run in few))
        _write(made[3], (_mlflow_trace(number, run) for number, run in few))
        _write(made[4], (span for number, run in few for span in _phoenix_spans(number, run)))
    return [*parts, *made]


def _write(path: Path, records: Iterable[Any]) -> None:
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8") as out:
        for record in records:
            out.write(json.dumps(record, separators=(",", ":")) + "\n")
    part.rename(path)


def _conversation(run: Run) -> Any:
    return {
        "id": f"{run['task_id']}-{run['trial']}",
        "task": str(run["task_id"]),
        "trial": str(run["trial"]),
        "reward": run["reward"],
        "messages": run["traj"],
    }


class _Moment(NamedTuple):
    """A span without its sender's words: the agent, an answer at `answer`, or one of its calls."""

    answer: int | None = None
    call: Message | None = None

    @property
    def name(self) -> str:
        if self.call is not None:
            return f"execute_tool {self.call['function']['name']}"
        return "invoke_agent" if self.answer is None else "chat model"


def _moments(traj: list[Message]) -> Iterator[_Moment]:
    yield _Moment()
    for at, message in enumerate(traj):
        if message["role"] == "assistant":
            yield _Moment(at)
            for call in message.get("tool_calls") or ():
                yield _Moment(at, call)


class _Ids(NamedTuple):
    """The ids and the times of a span, counted from the number of its run and its own."""

    trace: str
    span: str
    parent: str | None
    start_ns: int
    end_ns: int


def _ids(number: int, at: int) -> _Ids:
    return _Ids(
        trace=f"{number + 1:032x}",
        span=f"{number:08x}{at + 1:08x}",
        parent=f"{number:08x}{1:08x}" if at else None,
        start_ns=_BEGIN_NS + at * _SECOND_NS,
        end_ns=_BEGIN_NS + (at or 9_999) * _SECOND_NS,
    )


def _results(traj: list[Message]) -> dict[str, str]:
    return {m["tool_call_id"]: m["content"] for m in traj if m["role"] == "tool"}


def _export(number: int, run: Run) -> Any:
    spans: list[Any] = []
    for at, (name, said) in enumerate(_gen_ai(run["traj"])):
        ids = _ids(number, at)
        spans.append(
            {
                "traceId": ids.trace,
                "spanId": ids.span,
                **({"parentSpanId": ids.parent} if ids.parent else {}),
                "name": name,
                "kind": 1,
                "startTimeUnixNano": str(ids.start_ns),
                "endTimeUnixNano": str(ids.end_ns),
                "attributes": _attributes(said),
                "status": {},
            }
        )
    scope = {"scope": {"name": "benchmark"}, "spans": spans}
    resource = {"attributes": _attributes({"service.name": "airline"})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}


def _attributes(said: dict[str, str | int]) -> Any:
    return [
        {"key": key, "value": {"stringValue": v} if isinstance(v, str) else {"intValue": str(v)}}
        for key, v in said.items()
    ]


def _gen_ai(traj: list[Message]) -> Iterator[tuple[str, dict[str, str | int]]]:
    """Yield the name and the attributes of every span of a run."""
    operation = "gen_ai.operation.name"
    results = _results(traj)
    told = [_parts(message) for message in traj]
    for moment in _moments(traj):
        at, call = moment.answer, moment.call
        if call is not None:
            yield (
                moment.name,
                {
                    operation: "execute_tool",
                    "gen_ai.tool.name": call["function"]["name"],
                    "gen_ai.tool.call.id": call["id"],
                    "gen_ai.tool.call.arguments": call["function"]["arguments"],
                    "gen_ai.tool.call.result": results.get(call["id"], ""),
                },
            )
        elif at is not None:
            yield (
                moment.name,
                {
                    operation: "chat",
                    "gen_ai.request.model": "model",
                    "gen_ai.usage.input_tokens": 100 * at,
                    "gen_ai.usage.output_tokens": 100,
                    "gen_ai.input.messages": json.dumps(told[:at]),
                    "gen_ai.output.messages": json.dumps([told[at]]),
                },
            )
        else:
            yield moment.name, {operation: "invoke_agent", "gen_ai.agent.name": "airline"}


def _parts(message: Message) -> Any:
    if message["role"] == "tool":
        answer = {"type": "tool_call_response", "id": message["tool_call_id"]}
        return {"role": "tool", "parts": [{**answer, "result": message["content"]}]}
    parts: list[Any] = []
    if message.get("content"):
        parts.append({"type": "text", "content": message["content"]})
    for call in message.get("tool_calls") or ():
        about = call["function"]
        arguments = json.loads(about["arguments"])
        made = {"id": call["id"], "name": about["name"], "arguments": arguments}
        parts.append({"type": "tool_call", **made})
    return {"role": message["role"], "parts": parts}


def _mlflow_trace(number: int, run: Run) -> Any:
    trace = f"tr-{_ids(number, 0).trace}"
    info = {
        "trace_id": trace,
        "trace_location": {
            "type": "MLFLOW_EXPERIMENT",
            "mlflow_experiment": {"experiment_id": "1"},
        },
        "request_time": _iso(_BEGIN_NS).replace("+00:00", "Z"),
        "state": "OK",
        "trace_metadata": {"mlflow.trace_schema.version": "3"},
        "tags": {"mlflow.traceName": "airline"},
        "execution_duration_ms": 9_999_000,
    }
    spans: list[Any] = []
    for at, (name, said) in enumerate(_mlflow(run["traj"])):
        ids = _ids(number, at)
        spans.append(
            {
                "trace_id": _base64(ids.trace),
                "span_id": _base64(ids.span),
                "parent_span_id": _base64(ids.parent) if ids.parent else None,
                "name": name,
                "start_time_unix_nano": ids.start_ns,
                "end_time_unix_nano": ids.end_ns,
                "events": [],
                "status": {"code": "STATUS_CODE_OK", "message": ""},
                "attributes": {
                    key: json.dumps(value)
                    for key, value in {"mlflow.traceRequestId": trace, **said}.items()
                },
                "links": [],
            }
        )
    return {"info": info, "data": {"spans": spans}}


def _mlflow(traj: list[Message]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the attributes of every span, as MLflow records OpenAI's client."""
    results = _results(traj)
    for moment in _moments(traj):
        at, call = moment.answer, moment.call
        if call is not None:
            name = call["function"]["name"]
            yield (
                name,
                {
                    "mlflow.spanType": "TOOL",
                    "mlflow.spanFunctionName": name,
                    "mlflow.spanInputs": json.loads(call["function"]["arguments"]),
                    "mlflow.spanOutputs": results.get(call["id"], ""),
                },
            )
        elif at is not None:
            choice = {"index": 0, "finish_reason": "stop", "message": traj[at]}
            tokens = {"input_tokens": 100 * at, "output_tokens": 100}
            yield (
                "Completions",
                {
                    "mlflow.spanType": "CHAT_MODEL",
                    "mlflow.spanInputs": {"model": "model", "messages": traj[:at]},
                    "mlflow.spanOutputs": {"object": "chat.completion", "choices": [choice]},
                    "mlflow.llm.model": "model",
                    "mlflow.chat.tokenUsage": {**tokens, "total_tokens": 100 * at + 100},
                },
            )
        else:
            yield "airline", {"mlflow.spanType": "AGENT", "mlflow.spanFunctionName": "airline"}


def _base64(id_: str) -> str:
    return base64.b64encode(bytes.fromhex(id_)).decode("ascii")


def _phoenix_spans(number: int, run: Run) -> Iterator[Any]:
    for at, (name, said) in enumerate(_openinference(run["traj"])):
        ids = _ids(number, at)
        yield {
            "name": name,
            "context": {"trace_id": ids.trace, "span_id": ids.span},
            "span_kind": said["openinference.span.kind"],
            "parent_id": ids.parent,
            "start_time": _iso(ids.start_ns),
            "end_time": _iso(ids.end_ns),
            "status_code": "OK",
            "status_message": "",
            "attributes": said,
            "events": [],
            "conversation": None,
        }


def _openinference(traj: list[Message]) -> Iterator[tuple[str, dict[str, str | int]]]:
    """Yield the name and the attributes of every span, messages under indexed keys."""
    kind, results = "openinference.span.kind", _results(traj)
    for moment in _moments(traj):
        at, call = moment.answer, moment.call
        if call is not None:
            yield (
                moment.name,
                {
                    kind: "TOOL",
                    "tool.name": call["function"]["name"],
                    "tool.id": call["id"],
                    "input.value": call["function"]["arguments"],
                    "input.mime_type": "application/json",
                    "output.value": results.get(call["id"], ""),
                },
            )
        elif at is not None:
            yield (
                moment.name,
                {
                    kind: "LLM",
                    "llm.model_name": "model",
                    "llm.token_count.prompt": 100 * at,
                    "llm.token_count.completion": 100,
                    **_indexed("llm.input_messages", traj[:at]),
                    **_indexed("llm.output_messages", [traj[at]]),
                },
            )
        else:
            yield moment.name, {kind: "AGENT", "agent.name": "airline"}


def _indexed(key: str, messages: list[Message]) -> dict[str, str]:
    told: dict[str, str] = {}
    for at, message in enumerate(messages):
        base = f"{key}.{at}.message"
        told[f"{base}.role"] = message["role"]
        if message.get("content"):
            told[f"{base}.content"] = message["content"]
        if message["role"] == "tool":
            told[f"{base}.tool_call_id"] = message["tool_call_id"]
        for index, call in enumerate(message.get("tool_calls") or ()):
            made = f"{base}.tool_calls.{index}.tool_call"
            told[f"{made}.id"] = call["id"]
            told[f"{made}.function.name"] = call["function"]["name"]
            told[f"{made}.function.arguments"] = call["function"]["arguments"]
    return told


def _iso(time_ns: int) -> str:
    return datetime.datetime.fromtimestamp(time_ns // _SECOND_NS, datetime.UTC).isoformat()
