"""An agent as a user writes one: openai's SDK, OpenInference's instrumentation, the usual exporter.

The model is a server in this process that answers by a script: a tool call, then a sentence. Where
spans go is told by OTEL_EXPORTER_OTLP_ENDPOINT alone. Prints the id of the trace.
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from openai import OpenAI
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "look", "arguments": '{"city": "Paris"}'},
}
ANSWERS = [
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "assistant", "content": "It rains in Paris."},
]
TOOL = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {"city": {}}}},
}


class Scripted(BaseHTTPRequestHandler):
    """A chat completion server with two answers."""

    def do_POST(self) -> None:
        """Answer with the next line of the script."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        turn = sum(message["role"] == "tool" for message in asked["messages"])
        choice = {"index": 0, "message": ANSWERS[turn], "finish_reason": "stop"}
        usage = {"prompt_tokens": 10 + turn, "completion_tokens": 5, "total_tokens": 15 + turn}
        body = json.dumps(
            {
                "id": f"chatcmpl-{turn}",
                "object": "chat.completion",
                "created": 1,
                "model": "scripted-1",
                "choices": [choice],
                "usage": usage,
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def main() -> None:
    """Run the agent once."""
    server = HTTPServer(("127.0.0.1", 0), Scripted)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    OpenAIInstrumentor().instrument(tracer_provider=provider)
    tracer = provider.get_tracer("weather")
    client = OpenAI(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="none")
    messages: list[object] = [{"role": "user", "content": "Weather in Paris?"}]
    agent = {"openinference.span.kind": "AGENT", "agent.name": "weather"}
    with tracer.start_as_current_span("weather", attributes=agent) as root:
        for _ in range(2):
            said = (
                client.chat.completions.create(
                    model="scripted-1",
                    messages=messages,  # type: ignore[arg-type]
                    tools=[TOOL],  # type: ignore[list-item]
                )
                .choices[0]
                .message
            )
            messages.append(said.model_dump(exclude_none=True))
            for call in said.tool_calls or ():
                about = {
                    "openinference.span.kind": "TOOL",
                    "tool.name": "look",
                    "input.value": '{"city": "Paris"}',
                    "output.value": "rain",
                }
                with tracer.start_as_current_span("look", attributes=about):
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": "rain"})
        sys.stdout.write(f"{root.get_span_context().trace_id:032x}")
    provider.shutdown()


if __name__ == "__main__":
    main()
