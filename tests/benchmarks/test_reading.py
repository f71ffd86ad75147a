"""J1's rules: what has a limit, that both read as many runs, how OTLP's ids reach the peers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from benchmarks.j1_reading import COMPETITORS, PAIRINGS, Answers, rows
from benchmarks.workers.span_files import read_export


def answers(*, theirs: int = 10) -> Answers:
    """Return a second of ours and of every peer's for each round, of ten runs and of `theirs`."""
    same: dict[str, Any] = {"cpu": 1.0, "seconds": 1.0, "peak_kib": 2048}
    ours = {f"ours {pairing.ours}": [{**same, "runs": 10}] for pairing in PAIRINGS}
    peers = {f"{p.peer} {p.theirs}": [{**same, "runs": theirs}] for p in PAIRINGS}
    return {**ours, **peers}


def test_readers_of_traces_have_a_limit_and_a_bare_decode_has_none() -> None:
    limits = {peer.name: {p.limit for p in PAIRINGS if p.peer == peer.name} for peer in COMPETITORS}
    assert limits == {"pydantic": {0.0}, "MLflow": {3.0}, "Phoenix": {3.0, 0.0}}


def test_as_fast_as_a_reader_of_traces_is_a_missed_limit() -> None:
    missed = {row.work for row in rows(answers()) if not row.met}
    assert missed == {"OTLP", "MLflow's traces", "Phoenix's spans"}


def test_a_peer_that_read_fewer_runs_is_not_compared() -> None:
    with pytest.raises(RuntimeError, match=r"ours read \[10\] runs, the peer \[9\]"):
        rows(answers(theirs=9))


def test_a_missing_peer_leaves_its_rows_out() -> None:
    found = {name: said for name, said in answers().items() if not name.startswith("MLflow")}
    assert not any("MLflow" in row.peer for row in rows(found))
    assert any("Phoenix" in row.peer for row in rows(found))


def test_ids_of_otlp_reach_the_peers_as_the_bytes_that_the_hex_says() -> None:
    span = {"traceId": "0a" * 16, "spanId": "0b" * 8, "parentSpanId": "0c" * 8, "name": "chat"}
    service = {"key": "service.name", "value": {"stringValue": "airline"}}
    group = {"resource": {"attributes": [service]}, "scopeSpans": [{"spans": [span]}]}
    (sent,) = read_export(msgspec.json.encode({"resourceSpans": [group]}))
    assert sent.span.trace_id == b"\x0a" * 16
    assert (sent.span.span_id, sent.span.parent_span_id) == (b"\x0b" * 8, b"\x0c" * 8)
    assert sent.resource.attributes[0].value.string_value == "airline"
