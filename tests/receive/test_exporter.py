"""The real OpenTelemetry SDK and exporter, and a real instrumented SDK, send to a real receiver."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from stepscope.cli.main import main
from stepscope.model import Span, Trajectory
from stepscope.store import Store
from tests.docs.blocks import blocks
from tests.receive.sending import PATIENCE, Receiver, receiver

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    with receiver(tmp_path_factory.mktemp("exporter"), "--quiet", "0.2") as found:
        yield found


def run_of(target: Receiver, trace: str) -> Trajectory:
    closed = target.until("run")["closed"]
    assert closed["trace"] == trace
    with Store.open(target.store) as store:
        return store.trajectory(closed["run"])


def recorded(span: ReadableSpan) -> dict[str, Any]:
    """What the SDK itself says of a span."""
    assert span.context is not None
    return {
        "id": f"{span.context.span_id:016x}",
        "parent": None if span.parent is None else f"{span.parent.span_id:016x}",
        "name": span.name,
        "kind": span.kind.name.lower(),
        "times": (span.start_time, span.end_time),
        "status": {"UNSET": "unknown"}.get(span.status.status_code.name)
        or span.status.status_code.name.lower(),
        "attributes": {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in (span.attributes or {}).items()
        },
        "events": [(e.name, e.timestamp, dict(e.attributes or {})) for e in span.events],
        "links": [f"{link.context.span_id:016x}" for link in span.links],
    }


def received(span: Span) -> dict[str, Any]:
    return {
        "id": span.id,
        "parent": span.parent,
        "name": span.name,
        "kind": span.kind,
        "times": (span.start_ns, span.end_ns),
        "status": span.status,
        "attributes": span.attributes,
        "events": [(e["name"], e["time_ns"], e.get("attributes", {})) for e in span.events],
        "links": [link["spanId"] for link in span.links],
    }


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_every_span_of_the_sdk_arrives_as_the_sdk_has_it(
    target: Receiver, compression: Compression
) -> None:
    memory = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "shop", "n": 3}))
    exporter = OTLPSpanExporter(f"{target.url}/v1/traces", compression=compression)
    provider.add_span_processor(BatchSpanProcessor(exporter, max_export_batch_size=7))
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("lib", "1.2")
    about: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": 7,
        "text": "Grüße \N{GRINNING FACE}",
        "share": 0.25,
        "yes": True,
        "large": 2**62,
        "list": ("a", "b"),
        "numbers": (1, 2),
    }
    with tracer.start_as_current_span("chat", kind=SpanKind.CLIENT, attributes=about) as root:
        for number in range(20):
            links = [Link(root.get_span_context(), {"why": "because"})]
            with tracer.start_as_current_span(f"part {number}", links=links) as part:
                part.add_event("happened", {"at": number})
                if number == 5:
                    part.set_status(Status(StatusCode.ERROR, "gone"))
    provider.shutdown()
    run = run_of(target, f"{root.get_span_context().trace_id:032x}")
    expected = {one["id"]: one for one in map(recorded, memory.get_finished_spans())}
    assert len(expected) == 21
    assert {span.id: received(span) for span in run.spans} == expected
    assert run.extra is not None
    assert run.extra["resources"] == [{"service.name": "shop", "n": 3}]
    assert {facts["scope"] for facts in run.extra["span_facts"]} == {"lib@1.2"}
    assert run.usage is not None
    assert run.usage.input_total == 7


def test_the_exporter_hears_of_what_is_refused_for_good(
    target: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    provider.get_tracer("lib").start_span("one").end()
    spans = memory.get_finished_spans()
    wrong = OTLPSpanExporter(f"{target.url}/v1/logs", headers={"x": "y"})
    assert wrong.export(spans) is SpanExportResult.FAILURE
    assert "404" in caplog.text
    right = OTLPSpanExporter(f"{target.url}/v1/traces")
    assert right.export(spans) is SpanExportResult.SUCCESS


def test_an_instrumented_agent_is_a_run_of_calls_results_and_tokens(
    target: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    told = subprocess.run(
        [sys.executable, Path(__file__).with_name("instrumented.py")],
        env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": target.url},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    run = run_of(target, told.stdout)
    assert [(step.actor, step.kind) for step in run.steps] == [
        ("user", "message"),
        ("agent", "call"),
        ("environment", "result"),
        ("agent", "message"),
    ]
    (exchange,) = run.exchanges
    assert (exchange.call.name, exchange.call.arguments) == ("look", {"city": "Paris"})
    assert exchange.result is not None
    assert exchange.result.parts[0].text == "rain"
    assert run.usage is not None
    assert (run.usage.input_total, run.usage.output_total) == (21, 10)
    assert (run.agent, run.steps[3].parts[0].text) == ("weather", "It rains in Paris.")
    assert len(run.spans) == 4
    assert target.until("scored")["records"] > 0
    assert main(["report", "--store", str(target.store), "--where", f"name = '{told.stdout}'"]) == 0
    assert "1 run, 1 task, 4 steps, 1 call" in capsys.readouterr().out


def test_the_agent_of_the_how_to_is_the_run_that_it_says(target: Receiver, tmp_path: Path) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "howto" / "listen.md"
    (script,) = [b for b in blocks(page, "listen.md") if b.title == "agent.py"]
    (tmp_path / "agent.py").write_text(script.text, encoding="utf-8")
    subprocess.run(
        [sys.executable, "agent.py"],
        cwd=tmp_path,
        env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": target.url},
        timeout=PATIENCE,
        check=True,
    )
    told = target.until("run")["closed"]
    assert (told["agent"], told["spans"]) == ("weather", 3)
    assert (told["account"]["steps"], told["account"]["calls"]) == (4, 1)
