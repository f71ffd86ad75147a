"""The generated runs in the shapes that J1 reads: JSON array, JSON lines, chat messages, OTLP.

All hold the same runs. The OTLP file has one export a line, one trace a run: a span for the agent,
one for every answer of the model with all messages before it (`gen_ai.input.messages`, as the
instrumentations write them), one for every tool call. Chat histories are sent again with every
answer, so the file is long: it holds fewer runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import generate

RUNS = 4_000
OTLP_RUNS = 400
_BEGIN_NS = 1_760_000_000_000_000_000
_SECOND_NS = 1_000_000_000

Run = dict[str, Any]
Message = dict[str, Any]


def files(
    runs: int = RUNS, otlp_runs: int = OTLP_RUNS, *, data: Path = generate.DATA
) -> list[Path]:
    """Return the array's parts and, behind them, the three files made of the same runs."""
    parts = generate.files(runs, data=data)
    folder = parts[0].parent
    made = [folder / f"{name}.jsonl" for name in ("tau", "messages", f"otlp-{otlp_runs}")]
    if not all(path.is_file() for path in made):
        records = [run for part in parts for run in json.loads(part.read_bytes())]
        _write(made[0], records)
        _write(made[1], map(_conversation, records))
        _write(made[2], map(_export, range(otlp_runs), records))
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


def _export(number: int, run: Run) -> Any:
    trace = f"{number + 1:032x}"
    spans = [
        {
            "traceId": trace,
            "spanId": f"{number:08x}{at + 1:08x}",
            **({"parentSpanId": f"{number:08x}{1:08x}"} if at else {}),
            "name": name,
            "kind": 1,
            "startTimeUnixNano": str(_BEGIN_NS + at * _SECOND_NS),
            "endTimeUnixNano": str(_BEGIN_NS + (at * 1 if at else 9_999) * _SECOND_NS),
            "attributes": _attributes(said),
            "status": {},
        }
        for at, (name, said) in enumerate(_spans(run["traj"]))
    ]
    scope = {"scope": {"name": "benchmark"}, "spans": spans}
    resource = {"attributes": _attributes({"service.name": "airline"})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}


def _attributes(said: dict[str, str | int]) -> Any:
    return [
        {"key": key, "value": {"stringValue": v} if isinstance(v, str) else {"intValue": str(v)}}
        for key, v in said.items()
    ]


def _spans(traj: list[Message]) -> Iterator[tuple[str, dict[str, str | int]]]:
    """Yield the name and the attributes of every span of a run."""
    operation = "gen_ai.operation.name"
    yield "invoke_agent", {operation: "invoke_agent", "gen_ai.agent.name": "airline"}
    results = {m["tool_call_id"]: m["content"] for m in traj if m["role"] == "tool"}
    told = [_parts(message) for message in traj]
    for at, message in enumerate(traj):
        if message["role"] != "assistant":
            continue
        yield (
            "chat model",
            {
                operation: "chat",
                "gen_ai.request.model": "model",
                "gen_ai.usage.input_tokens": 100 * at,
                "gen_ai.usage.output_tokens": 100,
                "gen_ai.input.messages": json.dumps(told[:at]),
                "gen_ai.output.messages": json.dumps([told[at]]),
            },
        )
        for call in message.get("tool_calls") or ():
            name = call["function"]["name"]
            yield (
                f"execute_tool {name}",
                {
                    operation: "execute_tool",
                    "gen_ai.tool.name": name,
                    "gen_ai.tool.call.id": call["id"],
                    "gen_ai.tool.call.arguments": call["function"]["arguments"],
                    "gen_ai.tool.call.result": results.get(call["id"], ""),
                },
            )


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
