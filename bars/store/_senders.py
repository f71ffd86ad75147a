"""Senders of spans for the receiver's bar: what was acknowledged goes into a ledger, a line each.

`python -m bars.store._senders URL LEDGER SECONDS SPANS_A_SECOND SEED`. Batches that were not
acknowledged are sent again until they are, as exporters do; a trace is spread over two batches, its
root last. Odd seeds send protobuf with gzip, even ones JSON. At 0 spans a second it is a hostile
one, which sends the largest and densest bodies that it can and looks at no answer.
"""

from __future__ import annotations

import gzip
import http.client
import json
import random
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

# Spans of a batch and of a trace: a trace of an agent with a dozen calls, in two exports.
BATCH = 25
TRACE = 50
# Seconds for which one batch is tried.
PATIENCE = 60.0
_BEGIN = 1_700_000_000_000_000_000
_SECOND = 1_000_000_000


class Batch(NamedTuple):
    """What is sent at once: the body, its headers, and "TRACE SPAN" for each span in it."""

    body: bytes
    headers: dict[str, str]
    names: list[str]


def batches(seed: int) -> Iterator[Batch]:
    """Yield batches without end; the same seed gives the same."""
    rng = random.Random(seed)
    while True:
        trace = rng.randbytes(16).hex()
        ids = [rng.randbytes(8).hex() for _ in range(TRACE)]
        spans = [_span(rng, trace, one, "" if at == 0 else ids[0]) for at, one in enumerate(ids)]
        spans.append(spans.pop(0))
        for begin in range(0, TRACE, BATCH):
            part = spans[begin : begin + BATCH]
            names = [f"{trace} {one['spanId']}" for one in part]
            yield Batch(*(_protobuf if seed % 2 else _json)(part), names)


def _span(rng: random.Random, trace: str, one: str, parent: str) -> dict[str, Any]:
    said = [{"role": "user", "parts": [{"type": "text", "content": rng.randbytes(300).hex()}]}]
    about = {
        "gen_ai.operation.name": "chat" if parent else "invoke_agent",
        "gen_ai.agent.name": "planner",
        "gen_ai.request.model": "small-1",
        "gen_ai.input.messages": json.dumps(said),
        **{f"app.key.{at}": rng.randbytes(16).hex() for at in range(10)},
    }
    begin = _BEGIN + rng.randrange(3_600) * _SECOND
    return {
        "traceId": trace,
        "spanId": one,
        "parentSpanId": parent,
        "name": "chat small-1" if parent else "invoke_agent planner",
        "kind": 3,
        "startTimeUnixNano": str(begin),
        "endTimeUnixNano": str(begin + _SECOND),
        "attributes": [
            {"key": key, "value": {"stringValue": value}} for key, value in about.items()
        ],
    }


def _json(spans: list[dict[str, Any]]) -> tuple[bytes, dict[str, str]]:
    body = {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "bar"}, "spans": spans}]}]}
    return json.dumps(body).encode(), {"Content-Type": "application/json"}


def _protobuf(spans: list[dict[str, Any]]) -> tuple[bytes, dict[str, str]]:
    messages: Any = import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    request = messages.ExportTraceServiceRequest()
    scoped = request.resource_spans.add().scope_spans.add()
    scoped.scope.name = "bar"
    for one in spans:
        made = scoped.spans.add(
            trace_id=bytes.fromhex(one["traceId"]),
            span_id=bytes.fromhex(one["spanId"]),
            parent_span_id=bytes.fromhex(one["parentSpanId"]),
            name=one["name"],
            kind=one["kind"],
            start_time_unix_nano=int(one["startTimeUnixNano"]),
            end_time_unix_nano=int(one["endTimeUnixNano"]),
        )
        for pair in one["attributes"]:
            made.attributes.add(key=pair["key"]).value.string_value = pair["value"]["stringValue"]
    headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
    return gzip.compress(request.SerializeToString(), 1), headers


def send(url: str, ledger: Path, seconds: float, rate: float, seed: int) -> None:
    """Send for so long at so many spans a second; a batch that comes late is not left out."""
    place = urlsplit(url).netloc
    source = batches(seed)
    begin = time.monotonic()
    with ledger.open("a", encoding="ascii") as file:
        for number in range(int(seconds * rate / BATCH)):
            wait = begin + number * BATCH / rate - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            batch = next(source)
            _until_acknowledged(place, batch)
            file.writelines(f"{name}\n" for name in batch.names)
    took = time.monotonic() - begin
    ledger.with_suffix(ledger.suffix + ".seconds").write_text(str(took), encoding="ascii")


def attack(url: str, seconds: float, seed: int) -> None:
    """Send what takes most memory for its size, as fast as it goes."""
    begin, number = time.monotonic(), seed
    while time.monotonic() - begin < seconds:
        body = _dense(number)
        number += 1
        headers = {"Content-Type": "application/json"}
        if number % 2:
            body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        try:
            connection.request("POST", "/v1/traces", body, headers)
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            pass  # it was cut off, as it should be
        connection.close()


def _dense(number: int) -> bytes:
    """Return a body of one of four kinds: small spans, many keys, many values, one long text."""
    ids = f'"traceId": "{number:032x}", "spanId": "02", "parentSpanId": "01"'
    match number % 4:
        case 0:
            small = f'{{"traceId": "{number:032x}", "spanId": "%016x"}}'
            spans = ",".join([small % at for at in range(1, 20_000)])
        case 1:
            pairs = ",".join([f'{{"key": "{at}", "value": {{}}}}' for at in range(249_000)])
            spans = f'{{{ids}, "attributes": [{pairs}]}}'
        case 2:
            values = ",".join(["{}"] * 499_000)
            held = f'{{"arrayValue": {{"values": [{values}]}}}}'
            spans = f'{{{ids}, "attributes": [{{"key": "k", "value": {held}}}]}}'
        case _:
            text = "\\u0041" * (3 * 1024 * 1024)
            held = f'{{"stringValue": "{text}"}}'
            spans = f'{{{ids}, "attributes": [{{"key": "k", "value": {held}}}]}}'
    return f'{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{spans}]}}]}}]}}'.encode()


_held: dict[str, http.client.HTTPConnection] = {}


def _until_acknowledged(place: str, batch: Batch) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        connection = _held.setdefault(place, http.client.HTTPConnection(place, timeout=10))
        try:
            connection.request("POST", "/v1/traces", batch.body, batch.headers)
            answer = connection.getresponse()
            said = answer.read()
            if answer.status == 200:
                return
            if answer.status not in {429, 502, 503, 504}:
                raise SystemExit(f"refused for good: {answer.status} {said[:200]!r}")
        except (OSError, http.client.HTTPException):
            pass  # it was killed, or is not up yet
        connection.close()
        del _held[place]
        if time.monotonic() > end:
            raise SystemExit("no answer for a minute")
        time.sleep(0.05)


if __name__ == "__main__":
    _url, _ledger, _seconds, _rate, _seed = sys.argv[1:]
    if float(_rate):
        send(_url, Path(_ledger), float(_seconds), float(_rate), int(_seed))
    else:
        attack(_url, float(_seconds), int(_seed))
